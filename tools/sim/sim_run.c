/*
 * Discrete events. Each rank has some lanes, each of which carries out the schedule for one tile after another, a step
 * at a time, as a block of a kernel does: it gives the operands to the owners on its node, goes through its list, and
 * takes the results. A rank's lanes share its processor, its node's links and its rail.
 *
 * Planes do not meet between nodes, and the ranks of a node do the same, so that one plane stands for all unless chance
 * plays a part.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/sim/sim.h"

enum { QUEUE = 64 }; /* messages that a rail takes before it has begun to send them */

enum { GO_ON, LEAVES, ARRIVES, IS_THERE }; /* kinds of events */

typedef enum { GIVES, STEPS, TAKES, ENDED } phase_t;

typedef struct {
    uint64_t index; /* of the next step */
    uint64_t steps; /* carried out, of all tiles */
    uint64_t tile;
    phase_t phase;
    uint32_t kept; /* messages that wait to be merged */
    bool waits;
    uint32_t slot; /* that it waits for, */
    uint32_t peer;
    double since; /* and since when */
} program_t;

typedef struct {
    double processor; /* from when on it is free */
    double within;    /* the same of its links to its node */
    uint64_t posted;
    double left[QUEUE]; /* when the last messages were begun */
} rank_t;

typedef struct {
    const sim_run_t *run;
    uint32_t nodes, sharing; /* simulated nodes, and their ranks on this plane */
    uint64_t tiles;
    uint32_t *receives; /* sim_is_symmetric; NULL: all nodes are simulated */
    program_t *program;
    rank_t *rank;
    uint16_t *arrived; /* messages in each slot of each program */
    double *ended;     /* by node; 0: not yet */
    uint32_t *open;    /* programs of a node that have not ended */
    sim_links_t *links;
    sim_heap_t heap;
    sim_result_t *result;
    double now;
    bool no_memory;
} plane_t;

static double later(double a, double b)
{
    return a > b ? a : b;
}

static uint32_t node_of(const plane_t *plane, uint32_t program)
{
    return program / (plane->sharing * plane->run->lanes);
}

static void push(plane_t *plane, const sim_event_t *event)
{
    plane->no_memory = !sim_heap_add(&plane->heap, event) || plane->no_memory;
}

static void go_on_at(plane_t *plane, uint32_t program, double time)
{
    const sim_event_t event = {.time = time, .kind = GO_ON, .program = program};

    push(plane, &event);
}

/* Bytes of a block in the tile that a program is at. */
static uint64_t tile_bytes(const plane_t *plane, const program_t *program, double block)
{
    const uint64_t all = (uint64_t)block, begin = program->tile * plane->run->tile;

    return all - begin < plane->run->tile ? all - begin : plane->run->tile;
}

static mscclpp_cost_load_t load_of(const plane_t *plane, uint32_t program)
{
    const sim_run_t *run = plane->run;

    return mscclpp_cost_load(run->schedule.pattern, run->schedule.nodes, run->ranks, run->bytes,
                             node_of(plane, program) == run->schedule.root);
}

/* An exchange within the node of `bytes` that this rank sends. Returns when it is over. */
static double within_node(plane_t *plane, uint32_t number, double bytes, double now)
{
    rank_t *rank = &plane->rank[number / plane->run->lanes];

    if (plane->run->ranks == 1) {
        return now;
    }
    rank->within = later(rank->within, now) + bytes / plane->run->figures.node_bandwidth;
    return rank->within + plane->run->figures.node_latency;
}

/* The part of what a call gives and takes within a node that falls to a tile. */
static double part_of(const plane_t *plane, const program_t *program, const mscclpp_cost_load_t *load, double bytes)
{
    return load->block > 0 ? bytes * (double)tile_bytes(plane, program, load->block) / load->block : 0;
}

static double send(plane_t *plane, uint32_t number, const mscclpp_step_t *step, double now)
{
    program_t *program = &plane->program[number];
    rank_t *rank = &plane->rank[number / plane->run->lanes];
    const uint32_t node = node_of(plane, number), inner = number % (plane->sharing * plane->run->lanes);
    const uint32_t to = plane->receives != NULL ? 0 : step->peer;
    const mscclpp_cost_load_t load = load_of(plane, number);
    sim_event_t event = {.kind = LEAVES,
                         .program = to * plane->sharing * plane->run->lanes + inner,
                         .slot = plane->receives != NULL ? plane->receives[program->index] : step->slot};
    const uint64_t bytes = mscclpp_schedule_bytes(&plane->run->schedule, step, tile_bytes(plane, program, load.block));
    const double shift = plane->run->figures.latency + sim_links_jitter(plane->links);
    double *begun;

    rank->processor = later(rank->processor, now) + plane->run->figures.overhead;
    event.message = (sim_message_t){.from = node, .to = to, .bytes = (double)bytes};
    begun = &rank->left[rank->posted++ % QUEUE];
    rank->processor = later(rank->processor, *begun);
    *begun = sim_links_send(plane->links, &event.message, rank->processor);
    event.message.end += shift;
    event.time = *begun + shift;
    ++plane->result->sent;
    push(plane, &event);
    return rank->processor;
}

/* How long combining takes, and what it hands to its node meanwhile. Returns when the program goes on. */
static double receive(plane_t *plane, uint32_t number, const mscclpp_step_t *step, double now)
{
    program_t *program = &plane->program[number];
    const mscclpp_cost_load_t load = load_of(plane, number);
    const double bytes =
        (double)mscclpp_schedule_bytes(&plane->run->schedule, step, tile_bytes(plane, program, load.block));

    if (load.hand > 0) {
        (void)within_node(plane, number, load.hand * bytes, now);
    }
    if (step->kind == MSCCLPP_STEP_STORE || step->kind == MSCCLPP_STEP_KEEP) {
        program->kept += step->kind == MSCCLPP_STEP_KEEP;
        return now;
    }
    if (step->kind == MSCCLPP_STEP_MERGE) {
        now += bytes * program->kept / plane->run->figures.combining;
        program->kept = 0;
        return now;
    }
    return now + bytes / plane->run->figures.combining;
}

/* The next tile, or the end. True if there is a next one. */
static bool next_tile(plane_t *plane, uint32_t number, double now)
{
    program_t *program = &plane->program[number];
    const uint32_t node = node_of(plane, number);

    program->tile += plane->run->lanes;
    program->index = 0;
    program->phase = program->tile < plane->tiles ? GIVES : ENDED;
    if (program->phase == ENDED && --plane->open[node] == 0) {
        plane->ended[node] = now;
    }
    return program->phase != ENDED;
}

/* True if nothing happens before `time`, so that the program may go on at once. */
static bool is_next(const plane_t *plane, double time)
{
    return plane->heap.count == 0 || plane->heap.event[0].time > time;
}

/* One step of a list. Returns when the program goes on; below 0: it waits, or does not exist any more. */
static double step_on(plane_t *plane, uint32_t number, const mscclpp_step_t *step, double now)
{
    program_t *program = &plane->program[number];
    const uint64_t round = program->tile / plane->run->lanes;

    if (node_of(plane, number) == plane->run->dead && program->steps >= plane->run->dead_step) {
        return -1;
    }
    if (step->kind == MSCCLPP_STEP_SEND) {
        now = send(plane, number, step, now);
    } else if (step->kind == MSCCLPP_STEP_MERGE ||
               plane->arrived[(size_t)number * plane->run->schedule.slots + step->slot] > round) {
        now = receive(plane, number, step, now);
    } else {
        program->waits = true;
        program->slot = step->slot;
        program->peer = step->peer;
        program->since = now;
        return -1;
    }
    ++program->index;
    ++program->steps;
    return now;
}

static void carry_out(plane_t *plane, uint32_t number, double now)
{
    program_t *program = &plane->program[number];
    mscclpp_cost_load_t load;
    mscclpp_step_t step;

    for (;;) {
        double next = now;

        switch (program->phase) {
        case GIVES:
            load = load_of(plane, number);
            program->phase = STEPS;
            next = within_node(plane, number, part_of(plane, program, &load, load.give), now);
            break;
        case STEPS:
            if (mscclpp_schedule_step(&plane->run->schedule, node_of(plane, number), program->index, &step)) {
                next = step_on(plane, number, &step, now);
            } else {
                load = load_of(plane, number);
                program->phase = TAKES;
                next = within_node(plane, number, part_of(plane, program, &load, load.take), now);
            }
            break;
        case TAKES:
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
            go_on_at(plane, number, next);
            return;
        }
        now = plane->now = next;
    }
}

static void handle(plane_t *plane, sim_event_t *event)
{
    program_t *program = &plane->program[event->program];

    plane->now = event->time;
    switch (event->kind) {
    case LEAVES:
        event->kind = ARRIVES;
        event->time = sim_links_pass(plane->links, &event->message, event->time);
        if (event->time > plane->now) {
            push(plane, event);
            return;
        } /* fall through */
    case ARRIVES:
        event->kind = IS_THERE;
        event->time = sim_links_receive(plane->links, &event->message, event->time);
        push(plane, event);
        return;
    case IS_THERE:
        ++plane->arrived[(size_t)event->program * plane->run->schedule.slots + event->slot];
        if (program->waits && program->slot == event->slot) {
            program->waits = false;
            carry_out(plane, event->program, event->time);
        }
        return;
    default:
        carry_out(plane, event->program, event->time);
    }
}

/* The nodes that begin late: others of those drawn before are passed over. */
static void draw_stragglers(const sim_run_t *run, bool *late)
{
    uint64_t random = run->seed ^ 0x5851f42d4c957f2du;
    uint32_t left = run->stragglers < run->schedule.nodes ? run->stragglers : run->schedule.nodes, node;

    while (left > 0) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        node = (uint32_t)((random >> 33) % run->schedule.nodes);
        left -= late[node] ? 0 : 1;
        late[node] = true;
    }
}

static void begin(plane_t *plane)
{
    const uint32_t all = plane->nodes * plane->sharing * plane->run->lanes;
    bool *late = calloc(plane->run->schedule.nodes, sizeof(bool));
    uint32_t number;

    plane->no_memory = late == NULL;
    if (late != NULL) {
        draw_stragglers(plane->run, late);
    }
    for (number = 0; number < all && late != NULL; ++number) {
        program_t *program = &plane->program[number];
        const uint32_t node = node_of(plane, number);

        program->tile = number % plane->run->lanes;
        if (program->tile < plane->tiles) {
            ++plane->open[node];
            go_on_at(plane, number, late[node] ? plane->run->late : 0);
        } else {
            program->phase = ENDED;
        }
    }
    free(late);
}

static void conclude(plane_t *plane)
{
    const uint32_t each = plane->sharing * plane->run->lanes;
    sim_result_t *result = plane->result;
    double first = 0, last = 0;
    uint32_t node, i, stuck = 0, direct = 0;

    for (node = 0; node < plane->nodes; ++node) {
        bool waits = false;

        for (i = 0; i < each; ++i) {
            const program_t *program = &plane->program[node * each + i];

            if (program->waits && program->peer == plane->run->dead) {
                waits = true;
                result->begun = later(result->begun, program->since);
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

    plane.program = calloc(all, sizeof(program_t));
    plane.rank = calloc((size_t)plane.nodes * sharing, sizeof(rank_t));
    plane.arrived = calloc(all * run->schedule.slots, sizeof(uint16_t));
    plane.ended = calloc(plane.nodes, sizeof(double));
    plane.open = calloc(plane.nodes, sizeof(uint32_t));
    plane.links = sim_links_create(run, plane.nodes, run->seed * 1000003u + number);
    plane.no_memory = plane.program == NULL || plane.rank == NULL || plane.arrived == NULL || plane.ended == NULL ||
                      plane.open == NULL || plane.links == NULL;
    if (!plane.no_memory) {
        begin(&plane);
        while (!plane.no_memory && sim_heap_take(&plane.heap, &event)) {
            ++result->events;
            handle(&plane, &event);
        }
        conclude(&plane);
    }
    free(plane.program);
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
