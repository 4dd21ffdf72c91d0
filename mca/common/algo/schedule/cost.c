#include "mca/common/algo/schedule/cost.h"

#include <string.h>

#include "mca/common/algo/schedule/kinds.h"

#define US 1e-6 /* seconds */
#define GB 1e9  /* bytes */

/* From this many nodes on, more than two nodes may send to one at a time. */
#define CROSSING_NODES 4u

/* For how many rounds of their tiles lanes are in step with one another. */
#define STEP_ROUNDS 2.0

/* Bytes of a tile, for all transports. */
#define TILE (4.0 * 1024 * 1024)

/*
 * Figures of transports: networks of 400 Gbit/s for verbs and of 200 Gbit/s for ucx, and the memory of one host for
 * shm. They were not measured here. A rank's processor spends on a message one trigger of the FIFO, read over PCIe, and
 * one post.
 */
static const struct {
    const char *transport;
    mscclpp_cost_figures_t figures;
} builtin[MSCCLPP_COST_TRANSPORTS] = {
    /* latency, overhead, gap, bandwidth, node_latency, node_bandwidth, combining, tile, lanes, crossing, rails */
    {"verbs", {2 * US, 0.2 * US, 0.05 * US, 50 * GB, 1 * US, 400 * GB, 1000 * GB, TILE, 4, 0.02, 0}},
    {"ucx", {3 * US, 0.5 * US, 0.1 * US, 25 * GB, 1 * US, 400 * GB, 1000 * GB, TILE, 4, 0.02, 0}},
    {"shm", {6 * US, 2 * US, 0.5 * US, 16 * GB, 1 * US, 400 * GB, 1000 * GB, TILE, 4, 0, 0}},
    {"cuda_ipc", {3 * US, 0.5 * US, 0.1 * US, 400 * GB, 1 * US, 400 * GB, 1000 * GB, TILE, 4, 0.02, 0}},
};

int mscclpp_cost_transport(const char *name)
{
    int i;

    for (i = 0; i < MSCCLPP_COST_TRANSPORTS; ++i) {
        if (strcmp(name, builtin[i].transport) == 0) {
            return i;
        }
    }
    return -1;
}

const char *mscclpp_cost_transport_name(int transport)
{
    return builtin[transport].transport;
}

const mscclpp_cost_figures_t *mscclpp_cost_builtin(const char *transport)
{
    const int i = mscclpp_cost_transport(transport);

    return i >= 0 ? &builtin[i].figures : NULL;
}

double mscclpp_cost_rate(const mscclpp_cost_figures_t *figures, uint32_t ranks)
{
    const uint32_t rails = figures->rails == 0 || figures->rails > ranks ? ranks : figures->rails;
    const uint32_t ranks_per_rail = (ranks + rails - 1) / rails;

    return figures->bandwidth / ranks_per_rail;
}

/*
 * An all-reduce, a reduce and a broadcast cut the message into shards, one for each rank of a node, so their `block` is
 * one shard. The other patterns start from the block of one rank. Fields that a pattern does not set are 0.
 */
mscclpp_cost_load_t mscclpp_cost_load(int pattern, uint32_t nodes, uint32_t ranks, uint64_t bytes, bool at_root)
{
    const double size = (double)bytes, other_ranks = ranks - 1, other_nodes = nodes - 1;
    mscclpp_cost_load_t load = {.block = size};

    switch (pattern) {
    case MSCCLPP_SCHEDULE_ALLREDUCE:
        load.block = (double)(mscclpp_schedule_part(bytes, ranks, 0, 1));
        load.sent_before = load.sent_after = other_ranks * load.block;
        return load;
    case MSCCLPP_DEV_REDUCE:
        load.block = (double)(mscclpp_schedule_part(bytes, ranks, 0, 1));
        load.sent_before = other_ranks * load.block;
        load.sent_after = at_root ? other_ranks / ranks * load.block : 0; /* each owner sends the root its shard */
        return load;
    case MSCCLPP_DEV_BCAST:
        load.block = (double)(mscclpp_schedule_part(bytes, ranks, 0, 1));
        load.sent_before = at_root ? other_ranks * load.block : 0;
        load.sent_per_byte = other_ranks;
        return load;
    case MSCCLPP_DEV_SCATTER: /* the owners of the root's node share the blocks for each other node */
        load.sent_before = at_root ? other_ranks * other_nodes * size : 0;
        load.sent_after = other_ranks / ranks * size;
        return load;
    case MSCCLPP_DEV_GATHER:
        load.sent_after = at_root ? other_ranks * other_nodes * size : 0;
        return load;
    case MSCCLPP_DEV_ALLTOALL:
        load.block = ranks * size;
        load.sent_per_byte = other_ranks / ranks;
        return load;
    case MSCCLPP_DEV_REDUCE_SCATTER:
        load.sent_before = other_ranks * nodes * size;
        return load;
    default: /* all-gather, and scans, in which each rank combines operands itself */
        load.sent_per_byte = other_ranks;
        return load;
    }
}

/* The critical path of a schedule, from the start of the exchange to the end of the last node. */
typedef struct {
    double hops;     /* latencies that follow one another */
    double messages; /* messages that one node sends or receives */
    double serial;   /* bytes that follow one another */
    double carried;  /* bytes that one link carries */
} critical_path_t;

/*
 * Returns the critical path of a schedule, for mscclpp_cost_estimate. `block` is the size of the load's block in bytes.
 * An all-reduce divides it into the schedule's blocks; all other patterns exchange whole blocks.
 */
static critical_path_t find_critical_path(const mscclpp_schedule_t *schedule, double block)
{
    const uint32_t power = mscclpp_power_of_two(schedule->nodes);
    const double nodes = schedule->nodes, log2 = mscclpp_log2(power),
                 digits = mscclpp_digits(schedule->nodes, schedule->radix);
    const double pair_steps = power < schedule->nodes ? 2 : 0, part_bytes = block / schedule->blocks,
                 children = digits * (schedule->radix - 1);
    const bool reduces = schedule->pattern == MSCCLPP_SCHEDULE_ALLREDUCE;
    double bytes, depth;

    switch (schedule->kind) {
    case MSCCLPP_SCHEDULE_SPLIT: /* two exchanges with all other nodes, of one part each */
        bytes = 2 * (nodes - 1) * part_bytes;
        return (critical_path_t){.hops = 2, .messages = 2 * (nodes - 1), .serial = bytes, .carried = bytes};
    case MSCCLPP_SCHEDULE_RING: /* one message in each round */
        bytes = schedule->rounds * (reduces ? part_bytes : block);
        return (critical_path_t){
            .hops = schedule->rounds, .messages = schedule->rounds, .serial = bytes, .carried = bytes};
    case MSCCLPP_SCHEDULE_DOUBLING: /* the whole block in each round */
        bytes = (log2 + pair_steps) * block;
        return (critical_path_t){
            .hops = log2 + pair_steps, .messages = log2 + pair_steps, .serial = bytes, .carried = bytes};
    case MSCCLPP_SCHEDULE_HALVING: /* halves of what is not combined yet, and back; pairs send whole blocks */
        if (!reduces) {
            return (critical_path_t){
                .hops = digits, .messages = digits, .serial = (nodes - 1) * block, .carried = (nodes - 1) * block};
        }
        bytes = 2 * (power - 1) * part_bytes + pair_steps * block;
        return (critical_path_t){
            .hops = 2 * log2 + pair_steps, .messages = 2 * log2 + pair_steps, .serial = bytes, .carried = bytes};
    case MSCCLPP_SCHEDULE_BRUCK:
        /* A block of an all-to-all goes as often as its distance has digits that are not 0. */
        bytes = schedule->pattern == MSCCLPP_DEV_ALLTOALL
                    ? digits * (schedule->radix - 1) / schedule->radix * nodes * block
                : MSCCLPP_DEV_COLL_SCANS(schedule->pattern) ? children * block
                                                            : (nodes - 1) * block;
        return (critical_path_t){.hops = digits, .messages = children, .serial = bytes, .carried = bytes};
    case MSCCLPP_SCHEDULE_TREES:
        /* A node passes on every other tile to two others, of which the second one waits for the first. */
        depth = log2 + (schedule->nodes > 2 ? 1 : 0);
        if (reduces) { /* up and down at the same time; each way takes a link in one direction, and half of it back */
            return (critical_path_t){.hops = 2 * depth,
                                     .messages = 2 * depth + 2,
                                     .serial = 2 * (2 * depth - 1) * block,
                                     .carried = schedule->nodes > 2 ? 2 * block : block};
        }
        return (critical_path_t){
            .hops = depth, .messages = depth + 1, .serial = (2 * depth - 1) * block, .carried = block};
    case MSCCLPP_SCHEDULE_TREE:
        if (schedule->blocks > 1) {
            return (critical_path_t){
                .hops = digits, .messages = children, .serial = (nodes - 1) * block, .carried = (nodes - 1) * block};
        }
        /* In an all-reduce, the root receives in one direction and sends in the other. */
        bytes = children * block;
        return (critical_path_t){.hops = (reduces ? 2 : 1) * digits,
                                 .messages = (reduces ? 2 : 1) * children,
                                 .serial = (reduces ? 2 : 1) * bytes,
                                 .carried = bytes};
    case MSCCLPP_SCHEDULE_DIRECT:
    case MSCCLPP_SCHEDULE_LAST:
        break;
    }
    /* One exchange with all other nodes. */
    return (critical_path_t){
        .hops = 1, .messages = nodes - 1, .serial = (nodes - 1) * block, .carried = (nodes - 1) * block};
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* Returns the time of two stages that share what they wait for: more than the longer one, and less than both. */
static double together(double a, double b)
{
    const double longer = larger(a, b), shorter = a + b - longer;

    return longer > 0 ? longer + shorter * shorter / (2 * longer) : 0;
}

/*
 * Adds up the latencies of the critical path (`hops`), the transfer as a pipeline of tiles, and two latencies within
 * the node. Transfers and the posting of messages overlap, so the longer of the two counts. With one node, there is no
 * exchange between nodes.
 */
double mscclpp_cost_estimate(const mscclpp_cost_figures_t *figures, const mscclpp_schedule_t *schedule, uint32_t ranks,
                             uint64_t bytes)
{
    const int pattern = schedule->pattern;
    const mscclpp_cost_load_t load = mscclpp_cost_load(pattern, schedule->nodes, ranks, bytes, true);
    const critical_path_t path = find_critical_path(schedule, load.block);
    const bool receives = pattern == MSCCLPP_DEV_GATHER || pattern == MSCCLPP_DEV_REDUCE;
    const double post_time = receives ? figures->gap : larger(figures->overhead, figures->gap);
    const bool over_trees = schedule->kind == MSCCLPP_SCHEDULE_TREES;
    const double tiles = load.block > figures->tile ? load.block / figures->tile : 1;
    const double rate = mscclpp_cost_rate(figures, ranks), node_rate = figures->node_bandwidth;
    const double hops = path.hops * (figures->latency + figures->overhead);
    /*
     * The time that a processor needs to post the messages, less that of the first tile's messages that wait for one
     * another, which is part of `hops`. A transfer that takes longer hides it. Over trees, most of the messages that
     * wait for one another are other nodes'.
     */
    const double posting =
        (over_trees ? (path.messages - path.hops) * tiles : path.messages * tiles - path.hops) * post_time;
    /* Halving counts as well: its tiles are in different rounds at the same time, so they come from different nodes. */
    const bool crosses = schedule->nodes >= CROSSING_NODES &&
                         (schedule->kind == MSCCLPP_SCHEDULE_DIRECT || schedule->kind == MSCCLPP_SCHEDULE_SPLIT ||
                          (schedule->kind == MSCCLPP_SCHEDULE_HALVING && pattern != MSCCLPP_SCHEDULE_ALLREDUCE));
    const double sending = path.carried / rate * (crosses ? 1 + figures->crossing : 1);
    /*
     * All lanes begin together, so their messages are posted together, too. That delays the transfer in the first
     * rounds of the lanes, until the lanes are in different stages.
     */
    const double rounds = larger(tiles / figures->lanes, 1);
    const double in_step = over_trees ? 0 : rounds > STEP_ROUNDS ? STEP_ROUNDS / rounds : 1;
    const double carried = larger(sending, posting) + in_step * (together(sending, posting) - larger(sending, posting));
    const double serial = larger(larger(path.serial / rate, posting) - carried, 0);
    /* A scan in rounds hands one combined block to each rank. */
    const bool combines_ahead = schedule->kind == MSCCLPP_SCHEDULE_BRUCK && MSCCLPP_DEV_COLL_SCANS(pattern);
    const double handed_on = load.sent_per_byte * (combines_ahead ? load.block : path.carried);
    const double handing_on = ranks > 1 ? handed_on / node_rate : 0;
    const double within = ranks > 1 ? (load.sent_before + load.sent_after) / node_rate : 0;
    /*
     * A tile goes through its stages one after another. Several tiles are in different stages at the same time, so each
     * further one takes only as long as the longest stage.
     */
    const double longest_stage = larger(larger(carried, handing_on), within);
    const double other_stages = serial + larger(carried, handing_on) + within - longest_stage;
    /*
     * A lane starts its next tile when the previous tile has reached its destination. Over trees, a lane can start when
     * the previous tile has been passed on, except in an all-reduce, whose tiles come back.
     */
    const bool returns = over_trees && pattern == MSCCLPP_SCHEDULE_ALLREDUCE;
    const double lane_time =
        over_trees && !returns ? 0 : larger((hops + path.serial / rate / tiles) * (tiles / figures->lanes - 1), 0);

    if (schedule->nodes < 2) {
        return ranks > 1 ? 2 * figures->node_latency + within : 0;
    }
    /* Over trees and back, tiles of all lanes that are on their way delay one another. */
    return hops +
           (returns ? together(longest_stage, lane_time) + other_stages / tiles
                    : larger(longest_stage + other_stages / tiles, lane_time)) +
           (ranks > 1 ? 2 * figures->node_latency : 0);
}

/*
 * An all-reduce has to move n - 1 of n parts of the data twice: once to combine them, and once to gather the results.
 * For a single node both bounds are 0, because they are about traffic between nodes.
 */
mscclpp_cost_bound_t mscclpp_cost_bound(const mscclpp_cost_figures_t *figures, int pattern, uint32_t nodes,
                                        uint32_t ranks, uint64_t bytes)
{
    const double block = mscclpp_cost_load(pattern, nodes, ranks, bytes, true).block, other_nodes = nodes - 1;
    const double rate = mscclpp_cost_rate(figures, ranks);
    const bool passes_nothing_on = pattern == MSCCLPP_DEV_SCATTER || pattern == MSCCLPP_DEV_ALLTOALL;
    mscclpp_cost_bound_t bound = {0, 0};

    if (nodes < 2) {
        return bound;
    }
    bound.steps = figures->latency * (passes_nothing_on ? 1 : mscclpp_digits(nodes, 2));
    switch (pattern) {
    case MSCCLPP_SCHEDULE_ALLREDUCE:
        bound.rails = 2 * other_nodes / nodes * block / rate;
        break;
    case MSCCLPP_DEV_BCAST:
    case MSCCLPP_DEV_REDUCE:
    case MSCCLPP_DEV_SCAN:
    case MSCCLPP_DEV_EXSCAN:
        bound.rails = block / rate;
        break;
    default:
        bound.rails = other_nodes * block / rate;
    }
    return bound;
}
