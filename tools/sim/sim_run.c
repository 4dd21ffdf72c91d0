/*
 * The simulation of one run: lanes that carry out a schedule, and the events that drive the lanes.
 *
 * A lane represents a block of a kernel. Every rank has the same number of lanes, which share the rank's processor, its
 * rail, and its links to the other ranks of the node. A lane works on one tile after another. With each tile, the lane
 * gives its operands to the ranks of its node, carries out the steps of the schedule, and takes the results.
 *
 * A plane consists of one rail of every node and the ranks that use these rails. A message never moves from one plane
 * to another. All planes do the same, so one plane is simulated for all. Only if delays or routes are random is each
 * plane simulated.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/sim/sim.h"

/* How many posted messages may wait at a rank's rail. */
enum { QUEUE_SIZE = 64 };

/* Kinds of events. */
enum {
    LANE_CONTINUES,
    MESSAGE_LEAVES,  /* its first byte has passed the sender's rail, and the latency is over */
    MESSAGE_ARRIVES, /* its first byte has passed the links between the groups of nodes */
    MESSAGE_ENDS     /* its last byte has passed the receiver's rail */
};

/* What a lane does next. */
typedef enum {
    LANE_GIVES_OPERANDS, /* gives operands to the ranks of its node */
    LANE_RUNS_STEPS,     /* carries out the steps of the schedule, between the nodes */
    LANE_TAKES_RESULTS,  /* takes results from the ranks of its node */
    LANE_ENDED
} phase_t;

/* A lane and its progress. */
typedef struct {
    phase_t phase;
    uint64_t tile;       /* number of the tile within its block */
    uint64_t step;       /* index of its next step in the node's schedule */
    uint64_t steps_done; /* in all tiles */
    uint32_t kept;       /* how many messages it keeps until a later step merges them */

    bool waits;        /* the lane waits for a message, which the next three fields describe */
    uint32_t slot;     /* the slot in which the message arrives */
    uint32_t peer;     /* the node that sends it */
    double wait_begin; /* since when the lane waits */
} lane_t;

/* The resources that the lanes of a rank share. */
typedef struct {
    double processor_free;       /* when its processor is free again */
    double node_free;            /* when its links to the other ranks of its node are free again */
    uint64_t posted;             /* messages posted to the rail so far */
    double begun_at[QUEUE_SIZE]; /* [message modulo QUEUE_SIZE]: when the rail began to send the message */
} rank_t;

/* The simulation of one plane. */
typedef struct {
    const sim_run_t *run;
    uint32_t nodes;      /* how many nodes are simulated: 1 or all */
    uint32_t node_ranks; /* how many ranks of a node are on this plane: they share its rail */
    uint64_t tiles;      /* number of tiles of a block */
    uint32_t *slots;     /* from sim_is_symmetric: node 0 is simulated for all nodes; NULL: all nodes are simulated */
    lane_t *lanes;       /* all lanes of the first rank of node 0, then those of its next rank, and so on */
    rank_t *ranks;       /* in the same order */
    uint16_t *arrived;   /* [lane][slot]: messages that have arrived; 16 bits are enough, as add_row has checked */
    double *ended_at;    /* [node]: when its last lane ended, seconds; 0: it has not ended */
    uint32_t *running;   /* [node]: how many of its lanes have not ended */
    sim_links_t *links;
    sim_heap_t heap;
    sim_result_t *result;
    double now; /* the time up to which the plane is simulated, seconds */
    bool is_out_of_memory;
} plane_t;

/*
 * Returns the schedule of a lane's tiles. Over trees, every other lane takes the second tree, as blocks of a kernel do.
 */
static mscclpp_schedule_t schedule_of(const plane_t *plane, uint32_t lane_number)
{
    mscclpp_schedule_t schedule = plane->run->schedule;

    schedule.tree = lane_number % plane->run->lanes % 2;
    return schedule;
}

/* Returns the later one of two times. */
static double later(double a, double b)
{
    return a > b ? a : b;
}

/* Returns the node of a lane. Lanes are numbered node by node. */
static uint32_t node_of(const plane_t *plane, uint32_t lane_number)
{
    return lane_number / (plane->node_ranks * plane->run->lanes);
}

/* Adds an event. If memory runs out, notes that, and the simulation ends. */
static void add_event(plane_t *plane, const sim_event_t *event)
{
    plane->is_out_of_memory = !sim_heap_push(&plane->heap, event) || plane->is_out_of_memory;
}

static void schedule_lane(plane_t *plane, uint32_t lane_number, double time)
{
    const sim_event_t event = {.time = time, .kind = LANE_CONTINUES, .lane = lane_number};

    add_event(plane, &event);
}

/*
 * Returns the bytes of the lane's tile of a block of `block` bytes, whose last tile may be shorter. The lane must have
 * a tile, which begins within the block; lanes without one have ended.
 */
static uint64_t bytes_of_tile(const plane_t *plane, const lane_t *lane, double block)
{
    const uint64_t block_bytes = (uint64_t)block, begin = lane->tile * plane->run->tile_bytes;

    return block_bytes - begin < plane->run->tile_bytes ? block_bytes - begin : plane->run->tile_bytes;
}

/*
 * Returns what the call demands of a rank of the lane's node: how many bytes it sends within the node and between
 * nodes. Only what it sends within the node differs at the root.
 */
static mscclpp_cost_load_t load_of(const plane_t *plane, uint32_t lane_number)
{
    const sim_run_t *run = plane->run;

    return mscclpp_cost_find_load(run->schedule.pattern, run->schedule.nodes, run->ranks, run->bytes,
                                  node_of(plane, lane_number) == run->schedule.root);
}

/*
 * Sends `bytes` bytes from the rank of lane `lane_number` to the other ranks of its node, from `now` on. Returns the
 * time at which they have arrived.
 */
static double send_within_node(plane_t *plane, uint32_t lane_number, double bytes, double now)
{
    rank_t *rank = &plane->ranks[lane_number / plane->run->lanes];

    if (plane->run->ranks == 1) {
        return now;
    }
    rank->node_free = later(rank->node_free, now) + bytes / plane->run->figures.node_bandwidth;
    return rank->node_free + plane->run->figures.node_latency;
}

/* Returns the tile's share of `bytes`, which are sent within the node for the whole block. */
static double tile_share(const plane_t *plane, const lane_t *lane, const mscclpp_cost_load_t *load, double bytes)
{
    return load->block > 0 ? bytes * (double)bytes_of_tile(plane, lane, load->block) / load->block : 0;
}

/*
 * Sends the message of a step of lane `lane_number`. The receiver is the lane with the same rank and number on the
 * step's node. Adds the event of the message's departure. Returns the time at which the rank's processor is free again:
 * it is busy for the overhead of the message, and then waits while the queue of the rail is full. If memory runs out,
 * add_event sets plane->is_out_of_memory.
 */
static double send_message(plane_t *plane, uint32_t lane_number, const mscclpp_step_t *step, double now)
{
    lane_t *lane = &plane->lanes[lane_number];
    rank_t *rank = &plane->ranks[lane_number / plane->run->lanes];
    const uint32_t node = node_of(plane, lane_number),
                   lane_of_node = lane_number % (plane->node_ranks * plane->run->lanes);
    const uint32_t to = plane->slots != NULL ? 0 : step->peer;
    const mscclpp_cost_load_t load = load_of(plane, lane_number);
    sim_event_t event = {.kind = MESSAGE_LEAVES,
                         .lane = to * plane->node_ranks * plane->run->lanes + lane_of_node,
                         .slot = plane->slots != NULL ? plane->slots[lane->step] : step->slot};
    const uint64_t bytes =
        mscclpp_schedule_message_bytes(&plane->run->schedule, step, bytes_of_tile(plane, lane, load.block));
    const double delay = plane->run->figures.latency + sim_links_draw_delay(plane->links);
    double *begun_at_p;

    rank->processor_free = later(rank->processor_free, now) + plane->run->figures.overhead;
    event.message = (sim_message_t){.from = node, .to = to, .bytes = (double)bytes};
    /*
     * The queue has room as soon as the rail has begun to send the message that was posted QUEUE_SIZE messages before
     * this one.
     */
    begun_at_p = &rank->begun_at[rank->posted++ % QUEUE_SIZE];
    rank->processor_free = later(rank->processor_free, *begun_at_p);
    *begun_at_p = sim_links_send(plane->links, &event.message, rank->processor_free);
    event.message.end += delay;
    event.time = *begun_at_p + delay;
    ++plane->result->messages;
    add_event(plane, &event);
    return rank->processor_free;
}

/*
 * Carries out a merge, or a reception whose message has arrived. The lane stores the message, combines it, or keeps it.
 * A merge combines all that the lane has kept. If the collective requires it, the lane also sends a message that it has
 * received to the other ranks of its node, which does not delay the lane itself. Returns the time at which the lane
 * continues.
 */
static double receive_message(plane_t *plane, uint32_t lane_number, const mscclpp_step_t *step, double now)
{
    lane_t *lane = &plane->lanes[lane_number];
    const mscclpp_cost_load_t load = load_of(plane, lane_number);
    const double bytes =
        (double)mscclpp_schedule_message_bytes(&plane->run->schedule, step, bytes_of_tile(plane, lane, load.block));

    if (load.sent_per_byte > 0 && step->kind != MSCCLPP_STEP_MERGE) {
        (void)send_within_node(plane, lane_number, load.sent_per_byte * bytes, now);
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

/*
 * Begins the lane's next tile. Tiles are distributed over the lanes of a rank in turn. If no tile is left, ends the
 * lane and returns false. When the last lane of a node ends, stores `now` as the end of the node.
 */
static bool begin_next_tile(plane_t *plane, uint32_t lane_number, double now)
{
    lane_t *lane = &plane->lanes[lane_number];
    const uint32_t node = node_of(plane, lane_number);

    lane->tile += plane->run->lanes;
    lane->step = 0;
    lane->phase = lane->tile < plane->tiles ? LANE_GIVES_OPERANDS : LANE_ENDED;
    if (lane->phase == LANE_ENDED && --plane->running[node] == 0) {
        plane->ended_at[node] = now;
    }
    return lane->phase != LANE_ENDED;
}

/*
 * Returns true if there is no event until `time`, so that a lane can continue at once, without its own event. An event
 * at that very time was added earlier, and comes first.
 */
static bool has_no_event_until(const plane_t *plane, double time)
{
    return plane->heap.count == 0 || plane->heap.events[0].time > time;
}

/*
 * Carries out a step. A merge needs no message. Returns the time at which the lane continues, or -1 if it does not
 * continue now, for one of two reasons:
 * - The message of the step has not arrived. Its arrival will resume the lane at this step.
 * - The node is dead, and nothing resumes the lane.
 */
static double run_step(plane_t *plane, uint32_t lane_number, const mscclpp_step_t *step, double now)
{
    lane_t *lane = &plane->lanes[lane_number];
    const uint64_t tiles_done = lane->tile / plane->run->lanes; /* each of these tiles took one message from the slot */

    if (node_of(plane, lane_number) == plane->run->dead_node && lane->steps_done >= plane->run->dead_step) {
        return -1;
    }
    if (step->kind == MSCCLPP_STEP_SEND) {
        now = send_message(plane, lane_number, step, now);
    } else if (step->kind == MSCCLPP_STEP_MERGE ||
               plane->arrived[(size_t)lane_number * plane->run->schedule.slots + step->slot] > tiles_done) {
        now = receive_message(plane, lane_number, step, now);
    } else {
        lane->waits = true;
        lane->slot = step->slot;
        lane->peer = step->peer;
        lane->wait_begin = now;
        return -1;
    }
    ++lane->step;
    ++lane->steps_done;
    return now;
}

/*
 * Runs a lane from `now` on, until the lane waits for a message or has ended. If other events come before the time at
 * which the lane continues, the function adds an event that resumes the lane at this time, and returns.
 */
static void run_lane(plane_t *plane, uint32_t lane_number, double now)
{
    lane_t *lane = &plane->lanes[lane_number];
    mscclpp_cost_load_t load;
    mscclpp_schedule_t schedule;
    mscclpp_step_t step;

    for (;;) {
        double next = now;

        switch (lane->phase) {
        case LANE_GIVES_OPERANDS:
            load = load_of(plane, lane_number);
            lane->phase = LANE_RUNS_STEPS;
            next = send_within_node(plane, lane_number, tile_share(plane, lane, &load, load.sent_before), now);
            break;
        case LANE_RUNS_STEPS:
            schedule = schedule_of(plane, lane_number);
            if (mscclpp_schedule_find_step(&schedule, node_of(plane, lane_number), lane->step, &step)) {
                next = run_step(plane, lane_number, &step, now);
            } else {
                load = load_of(plane, lane_number);
                lane->phase = LANE_TAKES_RESULTS;
                next = send_within_node(plane, lane_number, tile_share(plane, lane, &load, load.sent_after), now);
            }
            break;
        case LANE_TAKES_RESULTS:
            if (!begin_next_tile(plane, lane_number, now)) {
                return;
            }
            break;
        default:
            return;
        }
        if (next < 0) {
            return;
        }
        if (next > now && !has_no_event_until(plane, next)) {
            schedule_lane(plane, lane_number, next);
            return;
        }
        now = plane->now = next;
    }
}

/*
 * Handles an event: moves a message over one link, or resumes a lane. A message that no link between groups delays is
 * received in the same event. A message that has arrived completely resumes its lane only if the lane waits for this
 * slot. Otherwise the message is only counted in `arrived`, where a later step of the lane finds it.
 */
static void handle_event(plane_t *plane, sim_event_t *event)
{
    lane_t *lane = &plane->lanes[event->lane];

    plane->now = event->time;
    switch (event->kind) {
    case MESSAGE_LEAVES:
        event->kind = MESSAGE_ARRIVES;
        event->time = sim_links_cross_groups(plane->links, &event->message, event->time);
        if (event->time > plane->now) {
            add_event(plane, event);
            return;
        }
        /* fall through */
    case MESSAGE_ARRIVES:
        event->kind = MESSAGE_ENDS;
        event->time = sim_links_receive(plane->links, &event->message, event->time);
        add_event(plane, event);
        return;
    case MESSAGE_ENDS:
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

/*
 * Chooses the nodes that begin late at random, each at most once, and sets their entries of `is_late`. The random
 * numbers come from the linear congruential generator of Knuth's MMIX. Its initial state differs from that of the
 * network's generator for the same seed.
 */
static void draw_stragglers(const sim_run_t *run, bool *is_late)
{
    uint64_t random = run->seed ^ 0x5851f42d4c957f2du;
    uint32_t left = run->stragglers < run->schedule.nodes ? run->stragglers : run->schedule.nodes, node;

    while (left > 0) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        node = (uint32_t)((random >> 33) % run->schedule.nodes);
        left -= is_late[node] ? 0 : 1;
        is_late[node] = true;
    }
}

/*
 * Adds the first event of each lane. The lanes of stragglers begin late. If a rank has more lanes than there are tiles,
 * the lanes without a tile end at once. If memory runs out, sets plane->is_out_of_memory.
 */
static void start_lanes(plane_t *plane)
{
    const uint32_t lane_count = plane->nodes * plane->node_ranks * plane->run->lanes;
    bool *is_late = calloc(plane->run->schedule.nodes, sizeof(bool));
    uint32_t lane_number;

    plane->is_out_of_memory = is_late == NULL;
    if (is_late != NULL) {
        draw_stragglers(plane->run, is_late);
    }
    for (lane_number = 0; lane_number < lane_count && is_late != NULL; ++lane_number) {
        lane_t *lane = &plane->lanes[lane_number];
        const uint32_t node = node_of(plane, lane_number);

        lane->tile = lane_number % plane->run->lanes;
        if (lane->tile < plane->tiles) {
            ++plane->running[node];
            schedule_lane(plane, lane_number, is_late[node] ? plane->run->late_by : 0);
        } else {
            lane->phase = LANE_ENDED;
        }
    }
    free(is_late);
}

/*
 * Adds the outcome of a plane to the result. Of all planes, the result keeps the latest end, the earliest first end,
 * the latest start of a wait for the dead node, the largest number of nodes that are stuck, and the largest number that
 * wait for the dead node. It adds up the traffic of all planes. If a node does not end, the time of the last event
 * counts as its end.
 */
static void add_result(plane_t *plane)
{
    const uint32_t node_lanes = plane->node_ranks * plane->run->lanes;
    sim_result_t *result = plane->result;
    double first_end = 0, last_end = 0;
    uint32_t node, i, stuck_nodes = 0, nodes_waiting_for_dead = 0;

    for (node = 0; node < plane->nodes; ++node) {
        bool node_waits = false;

        for (i = 0; i < node_lanes; ++i) {
            const lane_t *lane = &plane->lanes[node * node_lanes + i];

            if (lane->waits && lane->peer == plane->run->dead_node) {
                node_waits = true;
                result->last_wait_begin = later(result->last_wait_begin, lane->wait_begin);
            }
        }
        last_end = later(last_end, plane->running[node] == 0 ? plane->ended_at[node] : plane->now);
        first_end = plane->running[node] == 0 && (first_end <= 0 || plane->ended_at[node] < first_end)
                        ? plane->ended_at[node]
                        : first_end;
        stuck_nodes += plane->running[node] > 0 && node != plane->run->dead_node;
        nodes_waiting_for_dead += node_waits;
    }
    if (first_end > 0 && (result->first_end <= 0 || first_end < result->first_end)) {
        result->first_end = first_end;
    }
    result->time = later(result->time, last_end);
    if (stuck_nodes > result->stuck_nodes) {
        result->stuck_nodes = stuck_nodes;
    }
    if (nodes_waiting_for_dead > result->waits_for_dead) {
        result->waits_for_dead = nodes_waiting_for_dead;
    }
    result->is_one_for_all = plane->slots != NULL;
    ++result->planes;
    sim_links_add_traffic(plane->links, last_end, result);
}

/*
 * Simulates plane `plane_number`, with `node_ranks` ranks of each node, and adds its outcome to the result. `slots` is
 * the array from sim_is_symmetric, or NULL. Returns false if memory runs out.
 */
static bool simulate_plane(const sim_run_t *run, uint32_t node_ranks, uint32_t plane_number, uint32_t *slots,
                           sim_result_t *result)
{
    const double block =
        mscclpp_cost_find_load(run->schedule.pattern, run->schedule.nodes, run->ranks, run->bytes, true).block;
    plane_t plane = {.run = run,
                     .nodes = slots != NULL ? 1 : run->schedule.nodes,
                     .node_ranks = node_ranks,
                     .tiles = ((uint64_t)block + run->tile_bytes - 1) / run->tile_bytes,
                     .slots = slots,
                     .result = result};
    const size_t lane_count = (size_t)plane.nodes * node_ranks * run->lanes;
    sim_event_t event;

    plane.lanes = calloc(lane_count, sizeof(lane_t));
    plane.ranks = calloc((size_t)plane.nodes * node_ranks, sizeof(rank_t));
    plane.arrived = calloc(lane_count * run->schedule.slots, sizeof(uint16_t));
    plane.ended_at = calloc(plane.nodes, sizeof(double));
    plane.running = calloc(plane.nodes, sizeof(uint32_t));
    plane.links = sim_links_create(run, plane.nodes, run->seed * 1000003u + plane_number);
    plane.is_out_of_memory = plane.lanes == NULL || plane.ranks == NULL || plane.arrived == NULL ||
                             plane.ended_at == NULL || plane.running == NULL || plane.links == NULL;
    if (!plane.is_out_of_memory) {
        start_lanes(&plane);
        while (!plane.is_out_of_memory && sim_heap_pop(&plane.heap, &event)) {
            ++result->events;
            handle_event(&plane, &event);
        }
        add_result(&plane);
    }
    free(plane.lanes);
    free(plane.ranks);
    free(plane.arrived);
    free(plane.ended_at);
    free(plane.running);
    free(plane.heap.events);
    sim_links_destroy(plane.links);
    return !plane.is_out_of_memory;
}

/* Simulates one plane for all, or each plane if something is random, and one node for all if the run is symmetric. */
bool sim_simulate(const sim_run_t *run, sim_result_t *result)
{
    const uint32_t rails = run->figures.rails == 0 || run->figures.rails > run->ranks ? run->ranks : run->figures.rails;
    const uint32_t node_ranks = (run->ranks + rails - 1) / rails;
    const bool is_random = run->jitter > 0 || run->network == SIM_DRAGONFLY;
    uint32_t *slots = NULL;
    bool ok = true;
    uint32_t plane_number;

    memset(result, 0, sizeof(*result));
    if (!run->simulates_all_nodes && sim_is_symmetric(run, &slots) && slots == NULL) { /* out of memory */
        return false;
    }
    /*
     * If nothing is random, all planes do the same, and one plane is simulated for all. Only the number of messages in
     * the result is then multiplied: the events and the traffic remain those of the one plane.
     */
    for (plane_number = 0; plane_number < (is_random ? rails : 1) && ok; ++plane_number) {
        ok = simulate_plane(run, node_ranks, plane_number, slots, result);
    }
    if (!is_random) {
        result->messages *= rails;
    }
    if (slots != NULL) {
        result->messages *= run->schedule.nodes;
    }
    free(slots);
    return ok;
}
