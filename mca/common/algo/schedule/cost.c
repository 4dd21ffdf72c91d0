#include "mca/common/algo/schedule/cost.h"

#include <string.h>

#include "mca/common/algo/schedule/kinds.h"

#define US 1e-6 /* seconds */
#define GB 1e9  /* bytes */

/* The minimum number of nodes of which more than two may send to one at a time. */
#define CROSSING_NODES_MIN 4u

/* The number of tiles of each lane during which the lanes are in step with one another. */
#define STEP_ROUNDS 2.0

/* The size of a tile in bytes, for all transports. */
#define TILE (4.0 * 1024 * 1024)

/*
 * Figures of transports: networks of 400 Gbit/s for verbs and of 200 Gbit/s for ucx, and the memory of one host for
 * shm. They are assumed, not measured. For each message, a rank's processor reads one trigger of the FIFO over PCIe,
 * and posts one work request.
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

int mscclpp_cost_find_transport(const char *name)
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

const mscclpp_cost_figures_t *mscclpp_cost_find_builtin(const char *transport)
{
    const int i = mscclpp_cost_find_transport(transport);

    return i >= 0 ? &builtin[i].figures : NULL;
}

double mscclpp_cost_find_rate(const mscclpp_cost_figures_t *figures, uint32_t ranks)
{
    const uint32_t rails = figures->rails == 0 || figures->rails > ranks ? ranks : figures->rails;
    const uint32_t ranks_per_rail = (ranks + rails - 1) / rails;

    return figures->bandwidth / ranks_per_rail;
}

/*
 * An all-reduce, a reduce and a broadcast divide the message into shards, one for each rank of a node, so their `block`
 * is one shard. The other patterns start from the block of one rank. Fields that a pattern does not set are 0.
 */
mscclpp_cost_load_t mscclpp_cost_find_load(int pattern, uint32_t nodes, uint32_t ranks, uint64_t bytes, bool at_root)
{
    const double size = (double)bytes, other_ranks = ranks - 1, other_nodes = nodes - 1;
    mscclpp_cost_load_t load = {.block = size};

    switch (pattern) {
    case MSCCLPP_SCHEDULE_ALLREDUCE:
        load.block = (double)(mscclpp_schedule_part_bytes(bytes, ranks, 0, 1));
        load.sent_before = load.sent_after = other_ranks * load.block;
        return load;
    case MSCCLPP_DEV_REDUCE:
        load.block = (double)(mscclpp_schedule_part_bytes(bytes, ranks, 0, 1));
        load.sent_before = other_ranks * load.block;
        load.sent_after = at_root ? other_ranks / ranks * load.block : 0; /* each owner sends the root its shard */
        return load;
    case MSCCLPP_DEV_BCAST:
        load.block = (double)(mscclpp_schedule_part_bytes(bytes, ranks, 0, 1));
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
    double hops;     /* number of latencies that follow one another */
    double messages; /* number of messages that one node sends or receives */
    double serial;   /* number of bytes that follow one another */
    double carried;  /* number of bytes that one link carries */
} critical_path_t;

/* The path of an all-reduce by halving: halves of the parts that are left, and back. Pairs exchange whole blocks. */
static critical_path_t find_halving_path(const mscclpp_schedule_t *schedule, double block)
{
    const uint32_t power = mscclpp_round_down_to_power_of_two(schedule->nodes);
    const double pair_steps = power < schedule->nodes ? 2 : 0;
    const double steps = 2 * mscclpp_log2(power) + pair_steps;
    const double bytes = 2 * (power - 1) * (block / schedule->blocks) + pair_steps * block;

    return (critical_path_t){.hops = steps, .messages = steps, .serial = bytes, .carried = bytes};
}

/* The path of an all-reduce by doubling: the whole block in each round. */
static critical_path_t find_doubling_path(const mscclpp_schedule_t *schedule, double block)
{
    const uint32_t power = mscclpp_round_down_to_power_of_two(schedule->nodes);
    const double steps = mscclpp_log2(power) + (power < schedule->nodes ? 2 : 0);

    return (critical_path_t){.hops = steps, .messages = steps, .serial = steps * block, .carried = steps * block};
}

/*
 * The path in rounds. Scans send whole blocks. A block of an all-to-all is sent once for each digit of its distance
 * that is not 0. All other patterns send each block once.
 */
static critical_path_t find_rounds_path(const mscclpp_schedule_t *schedule, double block)
{
    const double nodes = schedule->nodes, digits = mscclpp_count_digits(schedule->nodes, schedule->radix);
    const double messages = digits * (schedule->radix - 1);
    double bytes = (nodes - 1) * block;

    if (MSCCLPP_DEV_COLL_SCANS(schedule->pattern)) {
        bytes = messages * block;
    } else if (schedule->pattern == MSCCLPP_DEV_ALLTOALL) {
        bytes = messages / schedule->radix * nodes * block;
    }
    return (critical_path_t){.hops = digits, .messages = messages, .serial = bytes, .carried = bytes};
}

/*
 * The path over two trees. A node passes every other tile on to two other nodes, of which the second one waits for the
 * first. An all-reduce goes up and down at the same time. Each way fills a link in one direction and half of it in the
 * other.
 */
static critical_path_t find_two_trees_path(const mscclpp_schedule_t *schedule, double block)
{
    const double depth = mscclpp_log2(schedule->nodes) + (schedule->nodes > 2 ? 1 : 0);

    if (schedule->pattern == MSCCLPP_SCHEDULE_ALLREDUCE) {
        return (critical_path_t){.hops = 2 * depth,
                                 .messages = 2 * depth + 2,
                                 .serial = 2 * (2 * depth - 1) * block,
                                 .carried = schedule->nodes > 2 ? 2 * block : block};
    }
    return (critical_path_t){.hops = depth, .messages = depth + 1, .serial = (2 * depth - 1) * block, .carried = block};
}

/*
 * The path over a k-nomial tree. With several blocks, the root's link carries the blocks of all other nodes. An
 * all-reduce goes up and down: the root receives in one direction of its link and sends in the other.
 */
static critical_path_t find_tree_path(const mscclpp_schedule_t *schedule, double block)
{
    const double ways = schedule->pattern == MSCCLPP_SCHEDULE_ALLREDUCE ? 2 : 1;
    const double digits = mscclpp_count_digits(schedule->nodes, schedule->radix);
    const double children = digits * (schedule->radix - 1);
    const double all_bytes = (schedule->nodes - 1) * block, child_bytes = children * block;

    if (schedule->blocks > 1) {
        return (critical_path_t){.hops = digits, .messages = children, .serial = all_bytes, .carried = all_bytes};
    }
    return (critical_path_t){
        .hops = ways * digits, .messages = ways * children, .serial = ways * child_bytes, .carried = child_bytes};
}

/*
 * Returns the critical path of a schedule. `block` is the size of the load's block in bytes. An all-reduce divides it
 * into the schedule's blocks; all other patterns exchange whole blocks.
 */
static critical_path_t find_critical_path(const mscclpp_schedule_t *schedule, double block)
{
    const bool is_allreduce = schedule->pattern == MSCCLPP_SCHEDULE_ALLREDUCE;
    const double rounds = schedule->rounds, peers = schedule->nodes - 1;
    double bytes;

    switch (schedule->kind) {
    case MSCCLPP_SCHEDULE_SPLIT: /* two exchanges with all other nodes, of one part each */
        bytes = 2 * peers * (block / schedule->blocks);
        return (critical_path_t){.hops = 2, .messages = 2 * peers, .serial = bytes, .carried = bytes};
    case MSCCLPP_SCHEDULE_RING: /* one message in each round */
        bytes = rounds * (is_allreduce ? block / schedule->blocks : block);
        return (critical_path_t){.hops = rounds, .messages = rounds, .serial = bytes, .carried = bytes};
    case MSCCLPP_SCHEDULE_DOUBLING:
        return find_doubling_path(schedule, block);
    case MSCCLPP_SCHEDULE_HALVING: /* apart from all-reduces, rounds with radix 2 */
        return is_allreduce ? find_halving_path(schedule, block) : find_rounds_path(schedule, block);
    case MSCCLPP_SCHEDULE_BRUCK:
        return find_rounds_path(schedule, block);
    case MSCCLPP_SCHEDULE_TREES:
        return find_two_trees_path(schedule, block);
    case MSCCLPP_SCHEDULE_TREE:
        return find_tree_path(schedule, block);
    case MSCCLPP_SCHEDULE_DIRECT:
    case MSCCLPP_SCHEDULE_LAST:
        break;
    }
    /* One exchange with all other nodes. */
    return (critical_path_t){.hops = 1, .messages = peers, .serial = peers * block, .carried = peers * block};
}

/* Returns the larger of the two numbers. */
static double max_of(double a, double b)
{
    return a > b ? a : b;
}

/* Returns the time of two stages that share a resource: more than that of the longer one, and less than the sum. */
static double overlap(double a, double b)
{
    const double longer = max_of(a, b), shorter = a + b - longer;

    return longer > 0 ? longer + shorter * shorter / (2 * longer) : 0;
}

/* The figures and the path of one estimate, and the times that its parts have in common. Times are in seconds. */
typedef struct {
    const mscclpp_cost_figures_t *figures;
    const mscclpp_schedule_t *schedule;
    critical_path_t path;
    double rate;        /* a rank's share of the rate of the rails, in bytes per second */
    double tiles;       /* number of tiles of a block */
    double lane_tiles;  /* number of tiles of each lane */
    double hops_time;   /* time of the latencies that follow one another */
    double serial_time; /* time of the bytes that follow one another */
    bool over_trees;    /* the schedule goes over two trees */
    bool returns;       /* over two trees, and back */
} estimate_t;

/* Returns true if several nodes send to one at a time. Halving does, because its tiles are in different rounds. */
static bool crosses(const mscclpp_schedule_t *schedule)
{
    return schedule->nodes >= CROSSING_NODES_MIN &&
           (schedule->kind == MSCCLPP_SCHEDULE_DIRECT || schedule->kind == MSCCLPP_SCHEDULE_SPLIT ||
            (schedule->kind == MSCCLPP_SCHEDULE_HALVING && schedule->pattern != MSCCLPP_SCHEDULE_ALLREDUCE));
}

/*
 * Returns the time in which a processor posts its messages, without those of the first tile that wait for one another:
 * the latencies hide these. Over trees, other nodes send most of the messages that wait for one another.
 */
static double estimate_posting(const estimate_t *estimate)
{
    const mscclpp_cost_figures_t *figures = estimate->figures;
    const critical_path_t *path = &estimate->path;
    const int pattern = estimate->schedule->pattern;
    const bool receives = pattern == MSCCLPP_DEV_GATHER || pattern == MSCCLPP_DEV_REDUCE;
    const double post_time = receives ? figures->gap : max_of(figures->overhead, figures->gap);
    const double posts = estimate->over_trees ? (path->messages - path->hops) * estimate->tiles
                                              : path->messages * estimate->tiles - path->hops;

    return posts * post_time;
}

/*
 * Returns the time in which a link carries its bytes, while the processor posts messages. The longer of the two hides
 * the other. But all lanes begin together, and so they post their first messages together. That delays the transfer,
 * until the lanes are in different stages.
 */
static double estimate_transfer(const estimate_t *estimate, double posting_time)
{
    const double crossing = crosses(estimate->schedule) ? estimate->figures->crossing : 0;
    const double sending_time = estimate->path.carried / estimate->rate * (1 + crossing);
    const double longer = max_of(sending_time, posting_time);
    const double rounds = max_of(estimate->lane_tiles, 1);
    const double share_in_step = rounds > STEP_ROUNDS ? STEP_ROUNDS / rounds : 1; /* of all rounds */

    if (estimate->over_trees) {
        return longer;
    }
    return longer + share_in_step * (overlap(sending_time, posting_time) - longer);
}

/*
 * Returns the time that the number of lanes sets as a minimum, besides that of the first tile. A lane starts its next
 * tile when the previous one has reached its destination. Over trees, it starts when the previous one has been passed
 * on, except in an all-reduce, whose tiles come back.
 */
static double estimate_lanes(const estimate_t *estimate)
{
    const double tile_time = estimate->hops_time + estimate->serial_time / estimate->tiles;

    return estimate->over_trees && !estimate->returns ? 0 : max_of(tile_time * (estimate->lane_tiles - 1), 0);
}

/* Returns the time in which a rank sends received bytes to the other ranks of its node, during the exchange. */
static double estimate_handing_on(const estimate_t *estimate, const mscclpp_cost_load_t *load)
{
    /* A scan in rounds sends one combined block to each rank. */
    const bool combines_first =
        estimate->schedule->kind == MSCCLPP_SCHEDULE_BRUCK && MSCCLPP_DEV_COLL_SCANS(estimate->schedule->pattern);
    const double bytes = combines_first ? load->block : estimate->path.carried;

    return load->sent_per_byte * bytes / estimate->figures->node_bandwidth;
}

/*
 * Adds up the latencies of the critical path, the transfer as a pipeline of tiles, and two latencies within the node.
 * Several tiles are in different stages of the pipeline at the same time. So each further tile takes only as long as
 * the longest stage.
 */
double mscclpp_cost_estimate(const mscclpp_cost_figures_t *figures, const mscclpp_schedule_t *schedule, uint32_t ranks,
                             uint64_t bytes)
{
    const mscclpp_cost_load_t load = mscclpp_cost_find_load(schedule->pattern, schedule->nodes, ranks, bytes, true);
    const bool over_trees = schedule->kind == MSCCLPP_SCHEDULE_TREES;
    estimate_t estimate = {.figures = figures,
                           .schedule = schedule,
                           .path = find_critical_path(schedule, load.block),
                           .rate = mscclpp_cost_find_rate(figures, ranks),
                           .tiles = max_of(load.block / figures->tile, 1),
                           .over_trees = over_trees,
                           .returns = over_trees && schedule->pattern == MSCCLPP_SCHEDULE_ALLREDUCE};
    const double node_time = ranks > 1 ? (load.sent_before + load.sent_after) / figures->node_bandwidth : 0;
    const double node_latency = ranks > 1 ? 2 * figures->node_latency : 0;
    const double handing_on_time = ranks > 1 ? estimate_handing_on(&estimate, &load) : 0;
    double posting_time, transfer_time, exchange_time, serial_rest, longest_stage, other_stages, pipeline_time;

    if (schedule->nodes < 2) { /* there is no exchange between nodes */
        return node_latency + node_time;
    }
    estimate.lane_tiles = estimate.tiles / figures->lanes;
    estimate.hops_time = estimate.path.hops * (figures->latency + figures->overhead);
    estimate.serial_time = estimate.path.serial / estimate.rate;
    posting_time = estimate_posting(&estimate);
    transfer_time = estimate_transfer(&estimate, posting_time);
    exchange_time = max_of(transfer_time, handing_on_time);
    serial_rest = max_of(max_of(estimate.serial_time, posting_time) - transfer_time, 0);
    longest_stage = max_of(exchange_time, node_time);
    other_stages = serial_rest + exchange_time + node_time - longest_stage;
    if (estimate.returns) { /* the tiles of all lanes that are on their way delay one another */
        pipeline_time = overlap(longest_stage, estimate_lanes(&estimate)) + other_stages / estimate.tiles;
    } else {
        pipeline_time = max_of(longest_stage + other_stages / estimate.tiles, estimate_lanes(&estimate));
    }
    return estimate.hops_time + pipeline_time + node_latency;
}

/*
 * An all-reduce has to move n - 1 of n parts of the data twice: once to combine them, and once to gather the results.
 * For a single node both bounds are 0, because they are about traffic between nodes.
 */
mscclpp_cost_bound_t mscclpp_cost_find_bound(const mscclpp_cost_figures_t *figures, int pattern, uint32_t nodes,
                                             uint32_t ranks, uint64_t bytes)
{
    const double block = mscclpp_cost_find_load(pattern, nodes, ranks, bytes, true).block;
    const double other_nodes = nodes - 1;
    const double rate = mscclpp_cost_find_rate(figures, ranks);
    const bool passes_nothing_on = pattern == MSCCLPP_DEV_SCATTER || pattern == MSCCLPP_DEV_ALLTOALL;
    mscclpp_cost_bound_t bound = {0, 0};

    if (nodes < 2) {
        return bound;
    }
    bound.steps = figures->latency * (passes_nothing_on ? 1 : mscclpp_count_digits(nodes, 2));
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
