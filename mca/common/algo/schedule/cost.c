#include "mca/common/algo/schedule/cost.h"

#include <string.h>

#include "mca/common/algo/schedule/kinds.h"

#define US 1e-6
#define GB 1e9
/* From this many nodes on, more than two nodes may send to one at a time. */
#define CROSSING_NODES 4u

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

const char *mscclpp_cost_transport_name(int number)
{
    return builtin[number].transport;
}

const mscclpp_cost_figures_t *mscclpp_cost_builtin(const char *transport)
{
    const int i = mscclpp_cost_transport(transport);

    return i >= 0 ? &builtin[i].figures : NULL;
}

double mscclpp_cost_rate(const mscclpp_cost_figures_t *figures, uint32_t ranks)
{
    const uint32_t rails = figures->rails == 0 || figures->rails > ranks ? ranks : figures->rails;
    const uint32_t sharing = (ranks + rails - 1) / rails;

    return figures->bandwidth / sharing;
}

mscclpp_cost_load_t mscclpp_cost_load(int pattern, uint32_t nodes, uint32_t ranks, uint64_t bytes, bool at_root)
{
    const double size = (double)bytes, others = ranks - 1, far = nodes - 1;
    mscclpp_cost_load_t load = {.block = size};

    switch (pattern) {
    case MSCCLPP_SCHEDULE_ALLREDUCE:
        load.block = (double)(mscclpp_schedule_part(bytes, ranks, 0, 1));
        load.give = load.take = others * load.block;
        return load;
    case MSCCLPP_DEV_REDUCE:
        load.block = (double)(mscclpp_schedule_part(bytes, ranks, 0, 1));
        load.give = others * load.block;
        load.take = at_root ? others * load.block : 0;
        return load;
    case MSCCLPP_DEV_BCAST:
        load.block = (double)(mscclpp_schedule_part(bytes, ranks, 0, 1));
        load.give = at_root ? others * load.block : 0;
        load.hand = others;
        return load;
    case MSCCLPP_DEV_SCATTER: /* the owners of the root's node share the blocks for each other node */
        load.give = at_root ? others * far * size : 0;
        load.take = others / ranks * size;
        return load;
    case MSCCLPP_DEV_GATHER:
        load.take = at_root ? others * far * size : 0;
        return load;
    case MSCCLPP_DEV_ALLTOALL:
        load.block = ranks * size;
        load.hand = others / ranks;
        return load;
    case MSCCLPP_DEV_REDUCE_SCATTER:
        load.give = others * nodes * size;
        return load;
    default: /* all-gather, and scans, in which each rank combines all operands itself */
        load.hand = others;
        return load;
    }
}

/*
 * The critical path of a schedule: how many latencies follow one another, how many messages one node sends or receives,
 * how many bytes follow one another on the way to the last node's end, and how many of these one link carries.
 */
typedef struct {
    double hops;
    double messages;
    double serial;
    double carried;
} chain_t;

/* The critical path of a schedule with blocks of `block` bytes. */
static chain_t chain_of(const mscclpp_schedule_t *s, double block)
{
    const uint32_t power = mscclpp_power_of_two(s->nodes);
    const double n = s->nodes, log2 = mscclpp_log2(power), digits = mscclpp_digits(s->nodes, s->radix);
    const double pairs = power < s->nodes ? 2 : 0, part = block / s->blocks, children = digits * (s->radix - 1);
    const bool reduces = s->pattern == MSCCLPP_SCHEDULE_ALLREDUCE;
    double bytes;

    switch (s->kind) {
    case MSCCLPP_SCHEDULE_SPLIT:
        bytes = 2 * (n - 1) * part;
        return (chain_t){2, 2 * (n - 1), bytes, bytes};
    case MSCCLPP_SCHEDULE_RING:
        bytes = s->rounds * (reduces ? part : block);
        return (chain_t){s->rounds, s->rounds, bytes, bytes};
    case MSCCLPP_SCHEDULE_DOUBLING:
        bytes = (log2 + pairs) * block;
        return (chain_t){log2 + pairs, log2 + pairs, bytes, bytes};
    case MSCCLPP_SCHEDULE_HALVING:
        bytes = 2 * (power - 1) * part + pairs * block;
        return (chain_t){2 * log2 + pairs, 2 * log2 + pairs, bytes, bytes};
    case MSCCLPP_SCHEDULE_BRUCK:
        /* A block of an all-to-all goes as often as its distance has digits that are not 0. */
        bytes = s->pattern == MSCCLPP_DEV_ALLTOALL ? digits * (s->radix - 1) / s->radix * n * block : (n - 1) * block;
        return (chain_t){digits, children, bytes, bytes};
    case MSCCLPP_SCHEDULE_TREE:
        if (s->blocks > 1) {
            return (chain_t){digits, children, (n - 1) * block, (n - 1) * block};
        }
        /* In an all-reduce, the root receives in one direction and sends in the other. */
        bytes = children * block;
        return (chain_t){(reduces ? 2 : 1) * digits, (reduces ? 2 : 1) * children, (reduces ? 2 : 1) * bytes, bytes};
    default:
        return (chain_t){1, n - 1, (n - 1) * block, (n - 1) * block};
    }
}

/* The larger of two times. */
static double larger(double a, double b)
{
    return a > b ? a : b;
}

double mscclpp_cost_estimate(const mscclpp_cost_figures_t *figures, const mscclpp_schedule_t *schedule, uint32_t ranks,
                             uint64_t bytes)
{
    const int pattern = schedule->pattern;
    const mscclpp_cost_load_t load = mscclpp_cost_load(pattern, schedule->nodes, ranks, bytes, true);
    const chain_t chain = chain_of(schedule, load.block);
    const bool receives = pattern == MSCCLPP_DEV_GATHER || pattern == MSCCLPP_DEV_REDUCE;
    const double posts = receives ? figures->gap : larger(figures->overhead, figures->gap);
    const double tiles = load.block > figures->tile ? load.block / figures->tile : 1;
    const double rate = mscclpp_cost_rate(figures, ranks), within_rate = figures->node_bandwidth;
    const double hops = chain.hops * (figures->latency + figures->overhead);
    /* The overheads of messages that do not wait for one another are hidden by the transfers. */
    const double ahead = (chain.messages - chain.hops) * posts * tiles;
    const bool crosses = schedule->nodes >= CROSSING_NODES &&
                         (schedule->kind == MSCCLPP_SCHEDULE_DIRECT || schedule->kind == MSCCLPP_SCHEDULE_SPLIT);
    const double carried = larger(chain.carried / rate * (crosses ? 1 + figures->crossing : 1), ahead);
    const double serial = larger(chain.serial / rate, ahead) - carried;
    const double handed = ranks > 1 ? load.hand * chain.carried / within_rate : 0;
    const double within = ranks > 1 ? (load.give + load.take) / within_rate : 0;
    /* One tile goes through these stages one after another. Several tiles are in different stages at the same time. */
    const double longest = larger(larger(carried, handed), within);
    const double rest = serial + larger(carried, handed) + within - longest;

    if (schedule->nodes < 2) {
        return ranks > 1 ? 2 * figures->node_latency + within : 0;
    }
    return hops + larger(longest + rest / tiles, hops * (tiles / figures->lanes - 1)) +
           (ranks > 1 ? 2 * figures->node_latency : 0);
}

mscclpp_cost_bound_t mscclpp_cost_bound(const mscclpp_cost_figures_t *figures, int pattern, uint32_t nodes,
                                        uint32_t ranks, uint64_t bytes)
{
    const double block = mscclpp_cost_load(pattern, nodes, ranks, bytes, true).block, far = nodes - 1;
    const double rate = mscclpp_cost_rate(figures, ranks);
    const bool one = pattern == MSCCLPP_DEV_SCATTER || pattern == MSCCLPP_DEV_ALLTOALL;
    mscclpp_cost_bound_t bound = {0, 0};

    if (nodes < 2) {
        return bound;
    }
    bound.steps = figures->latency * (one ? 1 : mscclpp_digits(nodes, 2));
    switch (pattern) {
    case MSCCLPP_SCHEDULE_ALLREDUCE:
        bound.rails = 2 * far / nodes * block / rate;
        break;
    case MSCCLPP_DEV_BCAST:
    case MSCCLPP_DEV_REDUCE:
    case MSCCLPP_DEV_SCAN:
    case MSCCLPP_DEV_EXSCAN:
        bound.rails = block / rate;
        break;
    default:
        bound.rails = far * block / rate;
    }
    return bound;
}
