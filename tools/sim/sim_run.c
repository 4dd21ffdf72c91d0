/*
 * The simulation of one run: lanes that carry out a schedule, and the events that drive them.
 *
 * A lane stands for a block of a kernel. Every rank has the same number of lanes, which share the rank's processor, its
 * rail, and its links to the other ranks of the node. A lane works on one tile after another. For each tile it gives
 * its operands to the ranks of its node, carries out the steps of the schedule, and takes the results.
 *
 * A plane is one rail of every node, and the ranks that use it. Messages never change the plane. All planes do the
 * same, so one of them is simulated for all. Where delays or routes are random, each one is simulated.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/sim/sim.h"

/* The most messages that a rank has posted to its rail and whose sending has not begun. */
enum { QUEUE = 64 };

/* Kinds of events. */
enum {
    LANE_GOES_ON,
    MESSAGE_LEAVES,  /* its first byte is past the sender's rail and the latency */
    MESSAGE_ARRIVES, /* its first byte is past the links between the nodes */
    MESSAGE_IS_THERE /* its last byte is past the receiver's rail */
};

/* What a lane does next. */
typedef enum {
    LANE_GIVES, /* operands to the ranks of its node */
    LANE_STEPS, /* of the schedule, between the nodes */
    LANE_TAKES, /* results from the ranks of its node */
    LANE_ENDED
} phase_t;

typedef struct {
    phase_t phase;
    uint64_t tile;  /* its number */
    uint64_t index; /* of its next step in the node's schedule */
    uint64_t steps; /* carried out so far, in all tiles */
    uint32_t kept;  /* messages that a later step will merge */

    bool waits;    /* for a message: */
    uint32_t slot; /* where it arrives, */
    uint32_t peer; /* which node sends it, */
    double since;  /* and since when the lane waits */
} lane_t;

typedef struct {
    double processor;    /* when it is free again */
    double within;       /* when its links to the other ranks of its node are free again */
    uint64_t posted;     /* messages posted to the rail so far */
    double begun[QUEUE]; /* of the last QUEUE messages: when the rail began to send each */
} rank_t;

typedef struct {
    const sim_run_t *run;
    uint32_t nodes;     /* that are simulated */
    uint32_t sharing;   /* ranks of a node that share its rail */
    uint64_t tiles;     /* of a block */
    uint32_t *receives; /* of sim_is_symmetric: node 0 stands for all nodes; NULL: all nodes are simulated */
    lane_t *lane;       /* all lanes of the first rank of node 0, then those of its next rank, and so on */
    rank_t *rank;
    uint16_t *arrived; /* [lane][slot]: messages that have arrived */
    double *ended;     /* [node]: when its last lane ended; 0: not yet */
    uint32_t *open;    /* [node]: lanes that have not ended */
    sim_links_t *links;
    sim_heap_t heap;
    sim_result_t *result;
    double now;
    bool no_memory;
} plane_t;

/* The later of two times. */
static double later(double a, double b)
{
    return a > b ? a : b;
}

/* The node of a lane. */
static uint32_t node_of(const plane_t *plane, uint32_t lane)
{
    return lane / (plane->sharing * plane->run->lanes);
}

/* Adds an event. */
static void push(plane_t *plane, const sim_event_t *event)
{
    plane->no_memory = !sim_heap_add(&plane->heap, event) || plane->no_memory;
}

/* Adds an event that lets a lane go on at a time. */
static void schedule_lane(plane_t *plane, uint32_t lane, double time)
{
    const sim_event_t event = {.time = time, .kind = LANE_GOES_ON, .lane = lane};

    push(plane, &event);
}

/* Bytes of the lane's tile: the last tile of a block may be shorter. */
static uint64_t tile_bytes(const plane_t *plane, const lane_t *lane, double block)
{
    const uint64_t all = (uint64_t)block, begin = lane->tile * plane->run->tile;

    return all - begin < plane->run->tile ? all - begin : plane->run->tile;
}

/* The bytes that a rank of the lane's node sends, receives and combines in the call. */
static mscclpp_cost_load_t load_of(const plane_t *plane, uint32_t lane)
{
    const sim_run_t *run = plane->run;

    return mscclpp_cost_load(run->schedule.pattern, run->schedule.nodes, run->ranks, run->bytes,
                             node_of(plane, lane) == run->schedule.root);
}

/* Sends `bytes` from the lane's rank to others of its node. Returns when they have arrived. */
static double send_within_node(plane_t *plane, uint32_t number, double bytes, double now)
{
    rank_t *rank = &plane->rank[number / plane->run->lanes];

    if (plane->run->ranks == 1) {
        return now;
    }
    rank->within = later(rank->within, now) + bytes / plane->run->figures.node_bandwidth;
    return rank->within + plane->run->figures.node_latency;
}

/* The tile's share of `bytes` that the whole block gives or takes within the node. */
static double tile_share(const plane_t *plane, const lane_t *lane, const mscclpp_cost_load_t *load, double bytes)
{
    return load->block > 0 ? bytes * (double)tile_bytes(plane, lane, load->block) / load->block : 0;
}

/* Sends a step's message. Returns when the rank's processor is free again: it waits while the rail's queue is full. */
static double send_message(plane_t *plane, uint32_t number, const mscclpp_step_t *step, double now)
{
    lane_t *lane = &plane->lane[number];
    rank_t *rank = &plane->rank[number / plane->run->lanes];
    const uint32_t node = node_of(plane, number), inner = number % (plane->sharing * plane->run->lanes);
    const uint32_t to = plane->receives != NULL ? 0 : step->peer;
    const mscclpp_cost_load_t load = load_of(plane, number);
    sim_event_t event = {.kind = MESSAGE_LEAVES,
                         .lane = to * plane->sharing * plane->run->lanes + inner,
                         .slot = plane->receives != NULL ? plane->receives[lane->index] : step->slot};
    const uint64_t bytes = mscclpp_schedule_bytes(&plane->run->schedule, step, tile_bytes(plane, lane, load.block));
    const double shift = plane->run->figures.latency + sim_links_jitter(plane->links);
    double *begun;

    rank->processor = later(rank->processor, now) + plane->run->figures.overhead;
    event.message = (sim_message_t){.from = node, .to = to, .bytes = (double)bytes};
    begun = &rank->begun[rank->posted++ % QUEUE];
    rank->processor = later(rank->processor, *begun);
    *begun = sim_links_send(plane->links, &event.message, rank->processor);
    event.message.end += shift;
    event.time = *begun + shift;
    ++plane->result->sent;
    push(plane, &event);
    return rank->processor;
}

/* Takes the message of a step that has arrived: the lane stores it, combines it, or keeps it for a merge, and sends
 * it on within its node where the collective needs that. Returns when the lane goes on. */
static double receive_message(plane_t *plane, uint32_t number, const mscclpp_step_t *step, double now)
{
    lane_t *lane = &plane->lane[number];
    const mscclpp_cost_load_t load = load_of(plane, number);
    const double bytes =
        (double)mscclpp_schedule_bytes(&plane->run->schedule, step, tile_bytes(plane, lane, load.block));

    if (load.hand > 0) {
        (void)send_within_node(plane, number, load.hand * bytes, now);
    }
    if (step->kind == MSCCLPP_STEP_STORE || step->kind == MSCCLPP_STEP_KEEP) {
        lane->kept += step->kind == MSCCLPP_STEP_KEEP;
        return now;
    }
    if (step->kind == MSCCLPP_STEP_MERGE) {
        now += bytes * lane->kept / plane->run->figures.combining;
        lane->kept = 0;
        return now;
    }
    return now + bytes / plane->run->figures.combining;
}

/* Begins the lane's next tile. False if there is none, and the lane has ended. */
static bool next_tile(plane_t *plane, uint32_t number, double now)
{
    lane_t *lane = &plane->lane[number];
    const uint32_t node = node_of(plane, number);

    lane->tile += plane->run->lanes;
    lane->index = 0;
    lane->phase = lane->tile < plane->tiles ? LANE_GIVES : LANE_ENDED;
    if (lane->phase == LANE_ENDED && --plane->open[node] == 0) {
        plane->ended[node] = now;
    }
    return lane->phase != LANE_ENDED;
}

/* Whether no other event comes before `time`, so that the lane can go on at once, without an event of its own. */
static bool is_next(const plane_t *plane, double time)
{
    return plane->heap.count == 0 || plane->heap.event[0].time > time;
}

/* Carries out a step. Returns when the lane goes on; below 0: it waits for a message, or its node is dead. */
static double run_step(plane_t *plane, uint32_t number, const mscclpp_step_t *step, double now)
{
    lane_t *lane = &plane->lane[number];
    const uint64_t round = lane->tile / plane->run->lanes;

    if (node_of(plane, number) == plane->run->dead && lane->steps >= plane->run->dead_step) {
        return -1;
    }
    if (step->kind == MSCCLPP_STEP_SEND) {
        now = send_message(plane, number, step, now);
    } else if (step->kind == MSCCLPP_STEP_MERGE ||
               plane->arrived[(size_t)number * plane->run->schedule.slots + step->slot] > round) {
        now = receive_message(plane, number, step, now);
    } else {
        lane->waits = true;
        lane->slot = step->slot;
        lane->peer = step->peer;
        lane->since = now;
        return -1;
    }
    ++lane->index;
    ++lane->steps;
    return now;
}

/* Runs a lane from `now` on, until it waits, has ended, or other events come first. */
static void run_lane(plane_t *plane, uint32_t number, double now)
{
    lane_t *lane = &plane->lane[number];
    mscclpp_cost_load_t load;
    mscclpp_step_t step;

    for (;;) {
        double next = now;

        switch (lane->phase) {
        case LANE_GIVES:
            load = load_of(plane, number);
            lane->phase = LANE_STEPS;
            next = send_within_node(plane, number, tile_share(plane, lane, &load, load.give), now);
            break;
        case LANE_STEPS:
            if (mscclpp_schedule_step(&plane->run->schedule, node_of(plane, number), lane->index, &step)) {
                next = run_step(plane, number, &step, now);
            } else {
                load = load_of(plane, number);
                lane->phase = LANE_TAKES;
                next = send_within_node(plane, number, tile_share(plane, lane, &load, load.take), now);
            }
            break;
        case LANE_TAKES:
            if (!next_tile(plane, number, now)) {
                return;
            }
            break;
        default:
            return;
        }
        if (next < 0) {
            return;
        }
        if (next > now && !is_next(plane, next)) {
            schedule_lane(plane, number, next);
            return;
        }
        now = plane->now = next;
    }
}

/* Handles an event. A message that no other one delays passes several stations at once. */
static void handle(plane_t *plane, sim_event_t *event)
{
    lane_t *lane = &plane->lane[event->lane];

    plane->now = event->time;
    switch (event->kind) {
    case MESSAGE_LEAVES:
        event->kind = MESSAGE_ARRIVES;
        event->time = sim_links_pass(plane->links, &event->message, event->time);
        if (event->time > plane->now) {
            push(plane, event);
            return;
        }
        /* fall through */
    case MESSAGE_ARRIVES:
        event->kind = MESSAGE_IS_THERE;
        event->time = sim_links_receive(plane->links, &event->message, event->time);
        push(plane, event);
        return;
    case MESSAGE_IS_THERE:
        ++plane->arrived[(size_t)event->lane * plane->run->schedule.slots + event->slot];
        if (lane->waits && lane->slot == event->slot) {
            lane->waits = false;
            run_lane(plane, event->lane, event->time);
        }
        return;
    default:
        run_lane(plane, event->lane, event->time);
    }
}

/* Draws the nodes that begin late, each at most once. */
static void draw_stragglers(const sim_run_t *run, bool *late)
{
    uint64_t random = run->seed ^ 0x5851f42d4c957f2du;
    uint32_t missing = run->stragglers < run->schedule.nodes ? run->stragglers : run->schedule.nodes, node;

    while (missing > 0) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        node = (uint32_t)((random >> 33) % run->schedule.nodes);
        missing -= late[node] ? 0 : 1;
        late[node] = true;
    }
}

/* Adds the first event of each lane. */
static void start_lanes(plane_t *plane)
{
    const uint32_t all = plane->nodes * plane->sharing * plane->run->lanes;
    bool *late = calloc(plane->run->schedule.nodes, sizeof(bool));
    uint32_t number;

    plane->no_memory = late == NULL;
    if (late != NULL) {
        draw_stragglers(plane->run, late);
    }
    for (number = 0; number < all && late != NULL; ++number) {
        lane_t *lane = &plane->lane[number];
        const uint32_t node = node_of(plane, number);

        lane->tile = number % plane->run->lanes;
        if (lane->tile < plane->tiles) {
            ++plane->open[node];
            schedule_lane(plane, number, late[node] ? plane->run->late : 0);
        } else {
            lane->phase = LANE_ENDED;
        }
    }
    free(late);
}

/* Adds what happened on this plane to the result. */
static void add_result(plane_t *plane)
{
    const uint32_t each = plane->sharing * plane->run->lanes;
    sim_result_t *result = plane->result;
    double first = 0, last = 0;
    uint32_t node, i, stuck = 0, direct = 0;

    for (node = 0; node < plane->nodes; ++node) {
        bool waits = false;

        for (i = 0; i < each; ++i) {
            const lane_t *lane = &plane->lane[node * each + i];

            if (lane->waits && lane->peer == plane->run->dead) {
                waits = true;
                result->begun = later(result->begun, lane->since);
            }
        }
        last = later(last, plane->open[node] == 0 ? plane->ended[node] : plane->now);
        first = plane->open[node] == 0 && (first <= 0 || plane->ended[node] < first) ? plane->ended[node] : first;
        stuck += plane->open[node] > 0 && node != plane->run->dead;
        direct += waits;
    }
    result->first = result->planes == 0 || (first > 0 && first < result->first) ? first : result->first;
    result->time = later(result->time, last);
    result->stuck = stuck > result->stuck ? stuck : result->stuck;
    result->direct = direct > result->direct ? direct : result->direct;
    result->one = plane->receives != NULL;
    ++result->planes;
    sim_links_count(plane->links, last, result);
}

/* Simulates plane `number`. False without memory. */
static bool simulate_plane(const sim_run_t *run, uint32_t sharing, uint32_t number, uint32_t *receives,
                           sim_result_t *result)
{
    const double block =
        mscclpp_cost_load(run->schedule.pattern, run->schedule.nodes, run->ranks, run->bytes, true).block;
    plane_t plane = {.run = run,
                     .nodes = receives != NULL ? 1 : run->schedule.nodes,
                     .sharing = sharing,
                     .tiles = ((uint64_t)block + run->tile - 1) / run->tile,
                     .receives = receives,
                     .result = result};
    const size_t all = (size_t)plane.nodes * sharing * run->lanes;
    sim_event_t event;

    plane.lane = calloc(all, sizeof(lane_t));
    plane.rank = calloc((size_t)plane.nodes * sharing, sizeof(rank_t));
    plane.arrived = calloc(all * run->schedule.slots, sizeof(uint16_t));
    plane.ended = calloc(plane.nodes, sizeof(double));
    plane.open = calloc(plane.nodes, sizeof(uint32_t));
    plane.links = sim_links_create(run, plane.nodes, run->seed * 1000003u + number);
    plane.no_memory = plane.lane == NULL || plane.rank == NULL || plane.arrived == NULL || plane.ended == NULL ||
                      plane.open == NULL || plane.links == NULL;
    if (!plane.no_memory) {
        start_lanes(&plane);
        while (!plane.no_memory && sim_heap_take(&plane.heap, &event)) {
            ++result->events;
            handle(&plane, &event);
        }
        add_result(&plane);
    }
    free(plane.lane);
    free(plane.rank);
    free(plane.arrived);
    free(plane.ended);
    free(plane.open);
    free(plane.heap.event);
    sim_links_destroy(plane.links);
    return !plane.no_memory;
}

bool sim_simulate(const sim_run_t *run, sim_result_t *result)
{
    const uint32_t rails = run->figures.rails == 0 || run->figures.rails > run->ranks ? run->ranks : run->figures.rails;
    const uint32_t sharing = (run->ranks + rails - 1) / rails;
    const bool chance = run->jitter > 0 || run->network == SIM_DRAGONFLY;
    uint32_t *receives = NULL;
    bool fine = true;
    uint32_t plane;

    memset(result, 0, sizeof(*result));
    if (!run->whole && sim_is_symmetric(run, &receives) && receives == NULL) {
        return false;
    }
    for (plane = 0; plane < (chance ? rails : 1) && fine; ++plane) {
        fine = simulate_plane(run, sharing, plane, receives, result);
    }
    if (!chance) {
        result->sent *= rails;
    }
    if (receives != NULL) {
        result->sent *= run->schedule.nodes;
    }
    free(receives);
    return fine;
}
