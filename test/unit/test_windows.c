/*
 * The exchange of nodes in windows (device/lib/nodes_windows.h): the nodes' steps in an order that is left to chance,
 * with messages that are late by chance. No slot may be overwritten too early, every signal must have the number that
 * its receiver expects, and all nodes must come to their ends.
 */
#include <string.h>

#include "device/lib/nodes_windows.h"
#include "test/host/elements.h"
#include "test/unit/unit.h"

#define NODES_MAX 34
#define SETS MSCCLPP_DEV_COLL_NODES_WINDOW_SETS
#define WINDOW MSCCLPP_DEV_COLL_NODES_WINDOW
#define OPS_MAX 8192
#define SENT_MAX 64 /* messages from one node to another */
#define FREE UINT64_MAX

typedef enum {
    SIGNAL, /* to `node` */
    STORE,  /* the data of a turn for a place */
    PUT,    /* those data to `node`, with a signal */
    LEFT,   /* waits until the put of turn - SETS to `node` has left its place */
    AWAIT,  /* waits for signal `number` of `node` */
    READ    /* the data of a turn from a place, to which `node` has sent them */
} kind_t;

typedef struct {
    kind_t kind;
    uint32_t node, place;
    uint64_t turn, number;
} op_t;

typedef struct {
    bool is_put;
    uint32_t place;
    uint64_t turn;
} message_t;

/* One direction between two nodes: the messages arrive in order. */
typedef struct {
    message_t message[SENT_MAX];
    uint64_t sent, arrived;
} link_t;

typedef struct {
    op_t op[OPS_MAX];
    uint32_t count, next;
    uint64_t source[SETS][WINDOW]; /* the turn whose data are there */
    uint64_t taken[SETS][WINDOW];  /* the turn whose data have arrived there and are not read yet, or FREE */
    uint32_t from[SETS][WINDOW];   /* and who has sent them */
} node_t;

static node_t node[NODES_MAX];
static link_t links[NODES_MAX][NODES_MAX];
static uint64_t faults; /* slots that were overwritten too early, or read while something else was in them */

static void add(node_t *me, kind_t kind, uint32_t other, uint32_t place, uint64_t turn, uint64_t number)
{
    REQUIRE(me->count < OPS_MAX);
    me->op[me->count++] = (op_t){.kind = kind, .node = other, .place = place, .turn = turn, .number = number};
}

static void add_meeting(node_t *me, const mscclpp_dev_windows_t *windows, bool is_end)
{
    uint32_t distance;

    for (distance = 1; distance < windows->nnodes; distance *= 2) {
        const uint32_t from = MSCCLPP_DEV_NODES_BEHIND(windows->nnodes, windows->node, distance);

        add(me, SIGNAL, MSCCLPP_DEV_NODES_AHEAD(windows->nnodes, windows->node, distance), 0, 0, 0);
        add(me, AWAIT, from, 0, 0, is_end ? mscclpp_dev_windows_count_signals(windows, from) : 1);
    }
}

/* Returns the distance of the node at a place in a turn, or 0 if there is no other node. */
static uint32_t distance_at(const mscclpp_dev_windows_t *windows, uint64_t turn, uint32_t place)
{
    const uint32_t distance = (uint32_t)(turn % MSCCLPP_DEV_COLL_NODES_WINDOWS(windows->nnodes)) * WINDOW + place;

    return distance < windows->nnodes ? distance : 0;
}

static void add_give(node_t *me, const mscclpp_dev_windows_t *windows, uint64_t turn)
{
    uint32_t place;

    for (place = 0; place < WINDOW && mscclpp_dev_windows_sends(windows, windows->node); ++place) {
        const uint32_t distance = distance_at(windows, turn, place);
        const uint32_t to = MSCCLPP_DEV_NODES_AHEAD(windows->nnodes, windows->node, distance);

        if (turn >= SETS && distance_at(windows, turn - SETS, place) > 0) {
            add(me, LEFT,
                MSCCLPP_DEV_NODES_AHEAD(windows->nnodes, windows->node, distance_at(windows, turn - SETS, place)),
                place, turn, 0);
        }
        if (turn >= SETS && distance > 0) {
            add(me, AWAIT, to, place, turn, mscclpp_dev_windows_credit_number(windows, to, turn));
        }
        if (distance > 0) {
            add(me, STORE, to, place, turn, 0);
            add(me, PUT, to, place, turn, 0);
        }
    }
}

static void add_take(node_t *me, const mscclpp_dev_windows_t *windows, uint64_t turn, uint64_t turns)
{
    uint32_t place;

    for (place = 0; place < WINDOW; ++place) {
        const uint32_t distance = distance_at(windows, turn, place);
        const uint32_t from = MSCCLPP_DEV_NODES_BEHIND(windows->nnodes, windows->node, distance);

        if (distance > 0 && mscclpp_dev_windows_sends(windows, from)) {
            add(me, AWAIT, from, place, turn, mscclpp_dev_windows_data_number(windows, from, turn));
            add(me, READ, from, place, turn, 0);
        }
    }
    for (place = 0; place < WINDOW && turn + SETS < turns; ++place) {
        const uint32_t distance = distance_at(windows, turn + SETS, place);
        const uint32_t from = MSCCLPP_DEV_NODES_BEHIND(windows->nnodes, windows->node, distance);

        if (distance > 0 && mscclpp_dev_windows_sends(windows, from)) {
            add(me, SIGNAL, from, 0, 0, 0);
        }
    }
}

/* Lists what a node does, in the order of the kernel (kern/coll/nodes.h). */
static void list(node_t *me, const mscclpp_dev_windows_t *windows)
{
    const uint64_t turns = windows->passes * MSCCLPP_DEV_COLL_NODES_WINDOWS(windows->nnodes);
    uint64_t index;

    me->count = me->next = 0;
    memset(me->source, 0xff, sizeof(me->source));
    memset(me->taken, 0xff, sizeof(me->taken));
    add_meeting(me, windows, false);
    for (index = 0; index <= turns; ++index) {
        if (index < turns) {
            add_give(me, windows, index);
        }
        if (index > 0) {
            add_take(me, windows, index - 1, turns);
        }
    }
    add_meeting(me, windows, true);
}

static void send(uint32_t from, uint32_t to, bool is_put, const op_t *op)
{
    link_t *link = &links[from][to];

    REQUIRE(link->sent < SENT_MAX);
    link->message[link->sent++] = (message_t){.is_put = is_put, .place = op->place, .turn = op->turn};
}

/* Returns true if the put of an earlier turn to a node has arrived. */
static bool has_left(const link_t *link, uint64_t turn, uint32_t place)
{
    uint64_t i;

    for (i = 0; i < link->arrived; ++i) {
        if (link->message[i].is_put && link->message[i].turn == turn && link->message[i].place == place) {
            return true;
        }
    }
    return false;
}

/* Carries out a node's next step. Returns false if it has to wait, or if the node has come to its end. */
static bool step(uint32_t number)
{
    node_t *me = &node[number];
    const op_t *op = &me->op[me->next];
    const uint64_t set = op->turn % SETS;

    if (me->next == me->count) {
        return false;
    }
    switch (op->kind) {
    case SIGNAL:
        send(number, op->node, false, op);
        break;
    case STORE:
        me->source[set][op->place] = op->turn;
        break;
    case PUT:
        send(number, op->node, true, op);
        break;
    case LEFT:
        if (!has_left(&links[number][op->node], op->turn - SETS, op->place)) {
            return false;
        }
        break;
    case AWAIT:
        if (links[op->node][number].arrived < op->number) {
            return false;
        }
        break;
    case READ:
        faults += me->taken[set][op->place] != op->turn || me->from[set][op->place] != op->node;
        me->taken[set][op->place] = FREE;
        break;
    }
    ++me->next;
    return true;
}

/* Lets the next message between two nodes arrive. Returns false if there is none. */
static bool arrive(uint32_t from, uint32_t to)
{
    link_t *link = &links[from][to];
    const message_t *message = &link->message[link->arrived];
    uint64_t set;

    if (link->arrived == link->sent) {
        return false;
    }
    set = message->turn % SETS;
    if (message->is_put) {
        faults += node[from].source[set][message->place] != message->turn;
        faults += node[to].taken[set][message->place] != FREE;
        node[to].taken[set][message->place] = message->turn;
        node[to].from[set][message->place] = from;
    }
    ++link->arrived;
    return true;
}

/* Lets one node do several steps, or messages from it arrive. Returns false if it can do nothing. */
static bool advance(uint64_t *state, uint32_t nnodes)
{
    const uint32_t number = (uint32_t)random_below(state, nnodes);
    uint64_t turns = 1 + random_below(state, 30);
    bool any = false;

    if (random_below(state, 2) == 0) {
        while (turns-- > 0 && step(number)) {
            any = true;
        }
        return any;
    }
    return arrive(number, (uint32_t)random_below(state, nnodes));
}

/* Does all that is possible, each node and link once. Returns false if nothing is. */
static bool advance_all(uint32_t nnodes)
{
    bool any = false;
    uint32_t i, j;

    for (i = 0; i < nnodes; ++i) {
        any = step(i) || any;
        for (j = 0; j < nnodes; ++j) {
            any = arrive(i, j) || any;
        }
    }
    return any;
}

static void run(uint32_t nnodes, uint64_t passes, uint32_t sender, uint64_t seed)
{
    uint64_t state = seed, idle = 0;
    uint32_t i, j;
    bool goes_on = true;

    memset(links, 0, sizeof(links));
    faults = 0;
    for (i = 0; i < nnodes; ++i) {
        list(&node[i], &(mscclpp_dev_windows_t){.nnodes = nnodes, .node = i, .sender = sender, .passes = passes});
    }
    while (goes_on) {
        idle = advance(&state, nnodes) ? 0 : idle + 1;
        if (idle > 20) {
            idle = 0;
            goes_on = advance_all(nnodes);
        }
    }
    CHECK_EQ(faults, 0);
    for (i = 0; i < nnodes; ++i) {
        const mscclpp_dev_windows_t windows = {.nnodes = nnodes, .node = i, .sender = sender, .passes = passes};

        CHECK_EQ(node[i].next, node[i].count); /* else it waits for ever */
        for (j = 0; j < nnodes; ++j) {
            CHECK_EQ(links[j][i].arrived, mscclpp_dev_windows_count_signals(&windows, j));
        }
    }
}

int main(void)
{
    static const uint32_t nodes[] = {9, 10, 15, 16, 17, 24, 25, 33, 34};
    uint64_t passes, seed;
    size_t i;

    unit_begin();
    for (i = 0; i < sizeof(nodes) / sizeof(nodes[0]); ++i) {
        for (passes = 1; passes <= 5; ++passes) {
            for (seed = 1; seed <= 3; ++seed) {
                run(nodes[i], passes, MSCCLPP_DEV_TREES_NONE, seed);
                run(nodes[i], passes, (uint32_t)(seed * 7 + passes) % nodes[i], seed);
            }
        }
    }
    return unit_end();
}
