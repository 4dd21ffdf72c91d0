#include "mca/common/algo/coll.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "device/lib/nodes_rounds.h"
#include "device/lib/nodes_trees.h"
#include "device/types/coll_nodes.h"
#include "mca/common/algo/allreduce/between.h"
#include "mca/common/algo/rule_match.h"

#define KIB ((uint64_t)1024)
#define MIB (1024 * KIB)
#define NEVER UINT64_MAX

_Static_assert(MSCCLPP_COLL_LAST <= MSCCLPP_PROTOCOL_COLLS, "rank 0's settings have room for every collective");

/*
 * The most blocks of a grid: with packets, on mapped buffers, and with tiles. They are enough to fill the links, and
 * few enough that kernels of several communicators fit on one GPU at the same time.
 */
#define PACKET_BLOCKS 32u
#define DIRECT_BLOCKS 64u
#define TILE_BLOCKS 32u

/* The assumed size of a rank's block of data, in bytes, for grids of calls whose sizes not all ranks know. */
#define UNSIZED_BLOCK (1 * MIB)

/*
 * Between nodes, a grid has one block for this many bytes of a rank's block of data. With smaller parts, the proxies'
 * work in each turn, some microseconds, would dominate.
 */
#define NODES_BLOCK_MIN (64 * KIB)

/*
 * Between nodes, the most bytes of data that a rank sends to another node as packets. Packets are twice as long as
 * their data, so larger messages go without them.
 */
#define NODES_PACKETS_MAX (8 * KIB)

/* On the twin, one thread block takes all tiles, as smaller tiles are not worth their barriers. */
#define TWIN_TILE_BLOCKS 1u

/* The pattern of each collective. */
static const mscclpp_dev_pattern_t patterns[MSCCLPP_COLL_LAST] = {
#define PATTERN(id_, name_, pattern_) [MSCCLPP_COLL_##id_] = pattern_,
    MSCCLPP_COLLS(PATTERN)
#undef PATTERN
};

/* The names of the algorithms within a node. */
static const char *const algo_names[MSCCLPP_COLL_BY_LAST] = {
    [MSCCLPP_COLL_BY_PACKETS] = "packets",
    [MSCCLPP_COLL_BY_ZEROCOPY] = "zerocopy",
    [MSCCLPP_COLL_BY_ENGINES] = "engines",
    [MSCCLPP_COLL_BY_SCRATCH] = "scratch",
};

/*
 * Thresholds on the bytes that a rank sends to all its peers together (or receives from them): the most for packets,
 * and the least for copy engines. Packets double the bytes but need no barrier. Engines leave all multiprocessors to
 * the application, but take some 10 us to begin and end. The first row whose `ranks` is not smaller than the number of
 * ranks applies.
 */
typedef struct {
    uint32_t ranks;
    uint64_t packets_max;
    uint64_t engine_min;
} thresholds_t;

static const thresholds_t cuda_thresholds[] = {
    {2, 1 * MIB, 8 * MIB},
    {8, 1 * MIB, 16 * MIB},
    {MSCCLPP_DEV_MAX_RANKS, 256 * KIB, 32 * MIB},
};

static const thresholds_t one_gpu_thresholds[] = {
    {2, 512 * KIB, 8 * MIB},
    {8, 512 * KIB, 8 * MIB},
    {MSCCLPP_DEV_MAX_RANKS, 64 * KIB, 16 * MIB},
};

static const thresholds_t twin_thresholds[] = {
    {2, 256, NEVER},
    {MSCCLPP_DEV_MAX_RANKS, 512, NEVER},
};

/*
 * Returns the row of thresholds for the call's number of ranks and kind of links. There is one, as each table ends with
 * a row for MSCCLPP_DEV_MAX_RANKS, and a node has no more ranks.
 */
static const thresholds_t *find_thresholds(const mscclpp_select_input_t *input)
{
    const thresholds_t *row = input->on_twin ? twin_thresholds : input->one_gpu ? one_gpu_thresholds : cuda_thresholds;

    while (row->ranks < input->nranks) {
        ++row;
    }
    return row;
}

mscclpp_dev_pattern_t mscclpp_coll_pattern(mscclpp_coll_t coll)
{
    return patterns[coll];
}

const char *mscclpp_coll_algo_name(mscclpp_coll_algo_t algo)
{
    return algo == MSCCLPP_COLL_BY_NODES           ? "nodes"
           : algo == MSCCLPP_COLL_BY_NODES_PACKETS ? "nodes_packets"
           : algo == MSCCLPP_COLL_BY_NODES_ROUNDS  ? "nodes_rounds"
           : algo == MSCCLPP_COLL_BY_NODES_RING    ? "nodes_ring"
           : algo == MSCCLPP_COLL_BY_NODES_TREES   ? "nodes_trees"
           : algo == MSCCLPP_COLL_BY_NODES_HALVING ? "nodes_halving"
                                                   : algo_names[algo];
}

int mscclpp_coll_algo_find(const char *name)
{
    int i;

    for (i = 0; i < MSCCLPP_COLL_BY_LAST; ++i) {
        if (strcmp(name, algo_names[i]) == 0) {
            return i;
        }
    }
    return strcmp(name, "stage") == 0 ? MSCCLPP_COLL_STAGE : MSCCLPP_COLL_AUTO;
}

int mscclpp_coll_algo_find_any(const char *name)
{
    int i;

    for (i = MSCCLPP_COLL_BY_NODES; i < MSCCLPP_COLL_BY_END; ++i) {
        if (strcmp(name, mscclpp_coll_algo_name((mscclpp_coll_algo_t)i)) == 0) {
            return i;
        }
    }
    return mscclpp_coll_algo_find(name);
}

/* Returns the number of units that hold `bytes` bytes. */
static uint64_t units_of(uint64_t bytes)
{
    return (bytes + MSCCLPP_DEV_UNIT - 1) / MSCCLPP_DEV_UNIT;
}

/*
 * Fills in the choice for packets through the scratch, in one epoch. `combines`: received blocks are combined. False if
 * a block does not fit a slot of the packet area.
 */
static bool shape_packets(const mscclpp_select_input_t *input, bool combines, uint64_t block_bytes, bool varied,
                          mscclpp_coll_choice_t *choice)
{
    const uint64_t capacity = MSCCLPP_DEV_ONESHOT_CAPACITY(input->layout->packet_half, input->nranks);
    const uint64_t units = units_of(block_bytes);
    mscclpp_choice_t grid;

    if (units > capacity ||
        !mscclpp_algo_grid(input, units * (input->nranks > 1 ? input->nranks - 1 : 1), PACKET_BLOCKS, 0, true, &grid)) {
        return false;
    }
    choice->nblocks = grid.nblocks;
    choice->nthreads = grid.nthreads;
    choice->epochs = 1;
    choice->kernel = combines ? (varied ? MSCCLPP_KERNEL_COLL_COMBINE_BLOCKS : MSCCLPP_KERNEL_COLL_COMBINE_PACKETS)
                              : (varied ? MSCCLPP_KERNEL_COLL_MOVE_BLOCKS : MSCCLPP_KERNEL_COLL_MOVE_PACKETS);
    return true;
}

/*
 * Fills in the choice for kernels on mapped buffers, which need neither slots nor epochs. `combines`: received blocks
 * are combined. False only if the limits leave no thread.
 */
static bool shape_zerocopy(const mscclpp_select_input_t *input, bool combines, uint64_t block_bytes,
                           mscclpp_coll_choice_t *choice)
{
    mscclpp_choice_t grid;

    if (!mscclpp_algo_grid(input, units_of(block_bytes), DIRECT_BLOCKS, 0, false, &grid)) {
        return false;
    }
    choice->nblocks = grid.nblocks;
    choice->nthreads = grid.nthreads;
    choice->epochs = 0;
    choice->kernel = combines ? MSCCLPP_KERNEL_COLL_COMBINE_DIRECT : MSCCLPP_KERNEL_COLL_MOVE_DIRECT;
    return true;
}

/* Fills in the choice for tiles through the scratch, for blocks of any size. False if no tile fits the bulk area. */
static bool shape_scratch(const mscclpp_select_input_t *input, uint64_t block_bytes, mscclpp_coll_choice_t *choice)
{
    mscclpp_choice_t grid;

    if (!mscclpp_algo_grid(input, units_of(block_bytes), input->on_twin ? TWIN_TILE_BLOCKS : TILE_BLOCKS, 0, false,
                           &grid)) {
        return false;
    }
    choice->nblocks = grid.nblocks;
    choice->nthreads = grid.nthreads;
    choice->epochs = 0;
    choice->kernel = MSCCLPP_KERNEL_COLL_TILES;
    return MSCCLPP_DEV_COLL_TILE(input->layout->bulk_size, choice->nblocks, input->nranks) != 0;
}

/*
 * Fills in the choice for tiles between nodes. False if even one thread block has no room for a tile, so whether tiles
 * fit does not depend on the message size.
 *
 * Two things limit a tile: what an owner can put to another node at once (`put_tile`), and a row of the scratch
 * (`row_pitch`, whose first unit is not for data). The number of thread blocks is halved until a row has room.
 */
static bool shape_nodes_tiles(const mscclpp_select_input_t *input, mscclpp_coll_t coll, uint64_t block_bytes,
                              mscclpp_coll_choice_t *choice)
{
    const mscclpp_dev_pattern_t pattern = patterns[coll];
    const uint64_t data_blocks = MSCCLPP_DEV_COLL_NODES_BLOCKS(pattern, input->max_node_ranks, input->shards);
    const uint64_t rows =
        MSCCLPP_DEV_COLL_NODES_ROWS(pattern, input->all_ranks, input->nodes, input->max_node_ranks, input->shards);
    const uint64_t put_bytes = MSCCLPP_DEV_COLL_NODES_ROOM(pattern, input->nodes, input->slot_size);
    const uint64_t header_bytes = MSCCLPP_DEV_COLL_NODES_HEAD(data_blocks);
    const uint64_t put_tile =
        put_bytes > header_bytes ? (put_bytes - header_bytes) / data_blocks / MSCCLPP_DEV_UNIT * MSCCLPP_DEV_UNIT : 0;
    const uint32_t max_blocks = MSCCLPP_DEV_NODES_BLOCKS_OF(input->nodes);
    uint64_t wanted_blocks = input->on_twin ? max_blocks : block_bytes / NODES_BLOCK_MIN;
    uint64_t row_pitch;
    mscclpp_choice_t grid;

    wanted_blocks = wanted_blocks == 0 ? 1 : wanted_blocks > max_blocks ? max_blocks : wanted_blocks;
    if (!mscclpp_algo_grid(input, units_of(block_bytes), (uint32_t)wanted_blocks, 0, false, &grid)) {
        return false;
    }
    grid.nblocks = grid.nblocks > wanted_blocks ? (uint32_t)wanted_blocks : grid.nblocks;
    while ((row_pitch = MSCCLPP_DEV_COLL_NODES_PITCH(input->layout->bulk_size, grid.nblocks, rows)) <=
               MSCCLPP_DEV_UNIT &&
           grid.nblocks > 1) {
        grid.nblocks /= 2;
    }
    choice->algo = MSCCLPP_COLL_BY_NODES;
    choice->exchange = MSCCLPP_DEV_NODES_DIRECT;
    choice->kernel = MSCCLPP_KERNEL_COLL_NODES;
    choice->nblocks = grid.nblocks;
    choice->nthreads = grid.nthreads;
    choice->epochs = 0;
    choice->radix = 0;
    choice->tile = row_pitch <= MSCCLPP_DEV_UNIT             ? 0
                   : row_pitch - MSCCLPP_DEV_UNIT < put_tile ? row_pitch - MSCCLPP_DEV_UNIT
                                                             : put_tile;
    return choice->tile != 0;
}

/* Returns the seconds that a schedule takes by the cost model, or HUGE_VAL if there is no such schedule. */
static double estimate_cost(const mscclpp_select_input_t *input, mscclpp_schedule_kind_t kind, int pattern,
                            uint64_t block_bytes, uint32_t radix)
{
    const mscclpp_cost_figures_t figures = mscclpp_between_figures(input);
    mscclpp_schedule_t schedule;

    if (!mscclpp_schedule_init(&schedule, kind, pattern, input->nodes, 0, 0, radix)) {
        return HUGE_VAL;
    }
    return mscclpp_cost_estimate(&figures, &schedule, input->shards, block_bytes);
}

/* An algorithm with tiles: how these go between nodes, and the schedule that the cost model takes for it. */
typedef struct {
    mscclpp_coll_algo_t algo;
    mscclpp_dev_nodes_pattern_t exchange;
    mscclpp_schedule_kind_t kind;
} tiles_t;

/* The first one serves every call. The others are preferred in this order where the cost model gives them equal times.
 */
static const tiles_t tile_algos[] = {
    {MSCCLPP_COLL_BY_NODES, MSCCLPP_DEV_NODES_DIRECT, MSCCLPP_SCHEDULE_DIRECT},
    {MSCCLPP_COLL_BY_NODES_RING, MSCCLPP_DEV_NODES_RING, MSCCLPP_SCHEDULE_RING},
    {MSCCLPP_COLL_BY_NODES_HALVING, MSCCLPP_DEV_NODES_HALVING, MSCCLPP_SCHEDULE_HALVING},
    {MSCCLPP_COLL_BY_NODES_TREES, MSCCLPP_DEV_NODES_TREES, MSCCLPP_SCHEDULE_TREES},
};
#define TILE_ALGOS (sizeof(tile_algos) / sizeof(tile_algos[0]))

/* Returns the seconds that tiles take by the cost model. */
static double estimate_tiles(const mscclpp_select_input_t *input, mscclpp_coll_t coll, uint64_t block_bytes,
                             const tiles_t *tiles)
{
    return estimate_cost(input, tiles->kind, patterns[coll], block_bytes, 0);
}

/* True for 16-bit floats that nodes combine: they would be rounded at each node on the way of a partial result. */
static bool would_round(const mscclpp_select_input_t *input, mscclpp_coll_t coll)
{
    return (input->dtype == MSCCLPP_DTYPE_FLOAT16 || input->dtype == MSCCLPP_DTYPE_BFLOAT16) &&
           MSCCLPP_DEV_COLL_MERGES(patterns[coll]);
}

/* True if tiles of this call can go between nodes in this way. */
static bool can_go(const mscclpp_select_input_t *input, mscclpp_coll_t coll, const tiles_t *tiles)
{
    switch (tiles->algo) {
    case MSCCLPP_COLL_BY_NODES_RING:
    case MSCCLPP_COLL_BY_NODES_HALVING:
        return MSCCLPP_DEV_COLL_RINGS(patterns[coll]) && !would_round(input, coll);
    case MSCCLPP_COLL_BY_NODES_TREES:
        return MSCCLPP_DEV_COLL_TREES(patterns[coll]) && !would_round(input, coll);
    default:
        return true;
    }
}

/*
 * True if the cost model may choose this way by itself. On one host, where nodes share no links, it has no reason to
 * ask for a ring. Trees, in which a node sends to its children at once, are not chosen if that is more than
 * nodes_fanout.
 */
static bool may_choose(const mscclpp_select_input_t *input, const tiles_t *tiles)
{
    return !(tiles->algo == MSCCLPP_COLL_BY_NODES_RING && input->is_one_host) &&
           (tiles->algo != MSCCLPP_COLL_BY_NODES_TREES ||
            mscclpp_between_keeps_fanout(input, MSCCLPP_DEV_TREES_CHILDREN));
}

/*
 * Chooses how tiles go between nodes: as `forced` asks, an algorithm that a parameter names, or else as the cost model
 * does. The choice must be that for tiles to all other nodes.
 */
static void choose_exchange(const mscclpp_select_input_t *input, mscclpp_coll_t coll, uint64_t block_bytes, int forced,
                            mscclpp_coll_choice_t *choice)
{
    const tiles_t *best = &tile_algos[0];
    double least = estimate_tiles(input, coll, block_bytes, best);
    size_t i;

    for (i = 0; i < TILE_ALGOS; ++i) {
        const tiles_t *tiles = &tile_algos[i];

        if (forced == (int)tiles->algo && can_go(input, coll, tiles)) {
            best = tiles;
            break;
        }
        if (can_go(input, coll, tiles) && may_choose(input, tiles) &&
            estimate_tiles(input, coll, block_bytes, tiles) < least) {
            best = tiles;
            least = estimate_tiles(input, coll, block_bytes, tiles);
        }
    }
    choice->algo = best->algo;
    choice->exchange = best->exchange;
}

/*
 * Returns the seconds that packets take by the cost model: in rounds with this radix, or, for radix 0, from each node
 * to all others at once. What an owner has for a node counts as the block of one rank. Returns HUGE_VAL if there is no
 * such schedule.
 */
static double estimate_packets(const mscclpp_select_input_t *input, mscclpp_coll_t coll, uint64_t block_bytes,
                               uint32_t radix)
{
    const bool scans = patterns[coll] == MSCCLPP_DEV_SCAN || patterns[coll] == MSCCLPP_DEV_EXSCAN;
    /* In rounds the operands of a scan go everywhere, as an all-gather's blocks do. */
    const mscclpp_dev_pattern_t pattern = scans && radix != 0 ? MSCCLPP_DEV_ALLGATHER : patterns[coll];
    const mscclpp_schedule_kind_t kind = radix == 0                         ? MSCCLPP_SCHEDULE_DIRECT
                                         : MSCCLPP_DEV_COLL_ROOTED(pattern) ? MSCCLPP_SCHEDULE_TREE
                                                                            : MSCCLPP_SCHEDULE_BRUCK;

    return estimate_cost(input, kind, (int)pattern, block_bytes, radix);
}

/* True if an owner's data, of `units` units for each block, fit in a set of packet slots, in rounds with this radix. */
static bool rounds_fit(const mscclpp_select_input_t *input, mscclpp_dev_pattern_t pattern, uint64_t units,
                       uint32_t radix)
{
    const mscclpp_dev_rounds_t rounds = {.nnodes = input->nodes,
                                         .radix = radix,
                                         .pattern = (uint32_t)pattern,
                                         .rounds = mscclpp_dev_rounds_count(input->nodes, radix)};
    const uint64_t place_units = units * MSCCLPP_DEV_COLL_NODES_BLOCKS(pattern, input->max_node_ranks, input->shards);

    return mscclpp_dev_rounds_places(&rounds) * place_units + mscclpp_dev_rounds_messages(&rounds) + 1 <=
           ((uint64_t)input->nodes + 1) * input->packet_units;
}

/*
 * Returns the radix of rounds that the cost model prefers. Returns 0 if none fits or keeps to the bound on how many
 * nodes a rank sends to at a time. Also returns 0 for 16-bit floats that are combined between nodes, because rounds
 * would round partial results on the way.
 */
static uint32_t best_radix(const mscclpp_select_input_t *input, mscclpp_coll_t coll, uint64_t block_bytes)
{
    uint32_t best_so_far = 0, radix;

    /* Radices above the number of nodes all lead to the same rounds: one of them is tried if no smaller one serves. */
    for (radix = 2; radix <= MSCCLPP_COLL_RADIX_MAX && !would_round(input, coll); radix *= 2) {
        if (mscclpp_between_keeps_fanout(input, radix - 1) && (best_so_far == 0 || radix <= input->nodes) &&
            rounds_fit(input, patterns[coll], units_of(block_bytes), radix) &&
            (best_so_far == 0 || estimate_packets(input, coll, block_bytes, radix) <
                                     estimate_packets(input, coll, block_bytes, best_so_far))) {
            best_so_far = radix;
        }
    }
    return best_so_far;
}

/*
 * Fills in the choice for packets between nodes. They serve only blocks of one size, and only if each owner sends
 * little to another node. Returns false, and leaves *choice unchanged, for other calls or if the packet area is too
 * small. `forced` is the algorithm that a parameter asks for; where it is not possible, another one with packets
 * serves.
 */
static bool shape_nodes_packets(const mscclpp_select_input_t *input, mscclpp_coll_t coll, uint64_t block_bytes,
                                bool varied, int forced, mscclpp_coll_choice_t *choice)
{
    const mscclpp_dev_pattern_t pattern = patterns[coll];
    const uint64_t data_blocks = MSCCLPP_DEV_COLL_NODES_BLOCKS(pattern, input->max_node_ranks, input->shards);
    const uint64_t rows =
        MSCCLPP_DEV_COLL_NODES_ROWS(pattern, input->all_ranks, input->nodes, input->max_node_ranks, input->shards);
    const uint64_t slot_units = MSCCLPP_DEV_COLL_NODES_PACKET_ROOM(pattern, input->nodes, input->packet_units);
    const uint64_t user_limit = input->protocol->nodes_packets_max,
                   max_bytes = user_limit != 0 ? user_limit : NODES_PACKETS_MAX;
    const uint64_t units = units_of(block_bytes);
    /* A slot needs one unit more than the data, because a packet without data takes one, too. */
    const bool fits_directly =
        data_blocks * units + 1 <= slot_units && mscclpp_between_keeps_fanout(input, input->nodes - 1);
    mscclpp_choice_t grid;
    uint32_t radix;

    if (varied || input->packet_units == 0 || block_bytes > max_bytes / data_blocks ||
        units > MSCCLPP_DEV_COLL_NODES_CAPACITY(input->layout->packet_half, rows) ||
        !mscclpp_algo_grid(input, units, 1, 0, true, &grid)) {
        return false;
    }
    radix = fits_directly && forced == MSCCLPP_COLL_BY_NODES_PACKETS ? 0 : best_radix(input, coll, block_bytes);
    if (!fits_directly && radix == 0) {
        return false;
    }
    if (fits_directly && radix != 0 && forced != MSCCLPP_COLL_BY_NODES_ROUNDS &&
        estimate_packets(input, coll, block_bytes, 0) <= estimate_packets(input, coll, block_bytes, radix)) {
        radix = 0;
    }
    choice->algo = radix != 0 ? MSCCLPP_COLL_BY_NODES_ROUNDS : MSCCLPP_COLL_BY_NODES_PACKETS;
    choice->exchange = MSCCLPP_DEV_NODES_DIRECT;
    choice->kernel = MSCCLPP_KERNEL_COLL_NODES_PACKETS;
    choice->nblocks = 1;
    choice->nthreads = grid.nthreads;
    choice->epochs = 1;
    choice->tile = 0;
    choice->radix = radix;
    return true;
}

bool mscclpp_coll_explain(const mscclpp_select_input_t *input, mscclpp_coll_t coll, uint64_t block_bytes,
                          const mscclpp_coll_choice_t *choice, char *text, size_t size)
{
    const mscclpp_cost_figures_t figures = mscclpp_between_figures(input);
    int used = snprintf(text, size, "%s of blocks of %llu bytes over %u nodes: %s; by the cost model ",
                        mscclpp_coll_name(coll), (unsigned long long)block_bytes, input->nodes,
                        mscclpp_coll_algo_name(choice->algo));
    uint32_t radix, ways = 0;
    size_t i;

    for (i = 0; i < TILE_ALGOS && choice->kernel == MSCCLPP_KERNEL_COLL_NODES && used >= 0 && (size_t)used < size;
         ++i) {
        if (can_go(input, coll, &tile_algos[i])) {
            used += snprintf(text + used, size - (size_t)used, "%s%s %.1f us", ways++ == 0 ? "" : ", ",
                             mscclpp_coll_algo_name(tile_algos[i].algo),
                             estimate_tiles(input, coll, block_bytes, &tile_algos[i]) * 1e6);
        }
    }
    if (choice->kernel == MSCCLPP_KERNEL_COLL_NODES && ways == 1) {
        return false; /* there is nothing to compare */
    }
    for (radix = 0; radix <= MSCCLPP_COLL_RADIX_MAX && choice->kernel != MSCCLPP_KERNEL_COLL_NODES && used >= 0 &&
                    (size_t)used < size;
         radix = radix == 0 ? 2 : 2 * radix) {
        used += snprintf(text + used, size - (size_t)used,
                         radix == 0 ? "nodes_packets %.1f us" : ", nodes_rounds %.1f us by %u",
                         estimate_packets(input, coll, block_bytes, radix) * 1e6, radix);
    }
    if (used >= 0 && (size_t)used < size) {
        mscclpp_between_print_figures(input, &figures, text + used, size - (size_t)used);
    }
    return true;
}

/* Fills in the choice for one of the algorithms within a node. False if it cannot serve the call. */
static bool shape(const mscclpp_select_input_t *input, mscclpp_coll_t coll, uint64_t block_bytes, bool varied,
                  mscclpp_coll_algo_t algo, mscclpp_coll_choice_t *choice)
{
    const bool combines = MSCCLPP_DEV_COMBINES(patterns[coll]);

    choice->algo = algo;
    switch (algo) {
    case MSCCLPP_COLL_BY_PACKETS:
        return shape_packets(input, combines, block_bytes, varied, choice);
    case MSCCLPP_COLL_BY_ZEROCOPY:
        return shape_zerocopy(input, combines, block_bytes, choice);
    case MSCCLPP_COLL_BY_ENGINES:
        choice->nblocks = choice->nthreads = 0; /* no kernel runs */
        choice->epochs = 0;
        choice->kernel = MSCCLPP_KERNEL_LAST;
        return !combines && input->engines;
    default:
        return shape_scratch(input, block_bytes, choice);
    }
}

/*
 * Returns the algorithm that the rules file names for this call. Returns -1 if no rule matches, or if the rule names a
 * plan: the call gets here only if that plan does not serve it.
 */
static int find_by_rules(const mscclpp_select_input_t *input, mscclpp_coll_t coll, uint64_t block_bytes)
{
    int64_t algorithm;

    return mscclpp_rule_match(input->protocol, coll, block_bytes, input->in_place, input->nodes, &algorithm) &&
                   algorithm < MSCCLPP_COLL_BY_LAST
               ? (int)algorithm
               : -1;
}

mscclpp_status_t mscclpp_coll_select(const mscclpp_select_input_t *input, mscclpp_coll_t coll, uint64_t block_bytes,
                                     bool varied, bool mapped, mscclpp_coll_choice_t *choice_p)
{
    const mscclpp_protocol_t *protocol = input->protocol;
    const thresholds_t *thresholds = find_thresholds(input);
    /* A user who stages every all-reduce wants no kernels for any collective that has no parameter of its own. */
    const int forced = protocol->coll_algorithm[coll] == MSCCLPP_COLL_AUTO && protocol->algorithm == MSCCLPP_COLL_STAGE
                           ? MSCCLPP_COLL_STAGE
                           : protocol->coll_algorithm[coll];
    const uint64_t peers = input->nranks > 1 ? input->nranks - 1 : 1;
    const uint64_t sent_bytes = block_bytes > NEVER / peers ? NEVER : block_bytes * peers;
    mscclpp_coll_choice_t choice;
    int algo = forced;

    if (forced == MSCCLPP_COLL_STAGE || (input->early && input->nodes > 1 && !input->hosts_can_meet)) {
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    if (input->nodes > 1) {
        /*
         * Tiles serve if packets cannot. They fit for every message size or for none, so that comes first. Queued
         * kernels that a graph may repeat cannot renew the flags of packets from other nodes, so they use tiles. So do
         * calls for which a parameter asks for tiles.
         */
        if (!shape_nodes_tiles(input, coll, block_bytes, &choice)) {
            return MSCCLPP_ERR_NOT_SUPPORTED;
        }
        choose_exchange(input, coll, block_bytes, forced, &choice);
        if (!input->replayed && forced != MSCCLPP_COLL_BY_NODES &&
            !(choice.algo != MSCCLPP_COLL_BY_NODES && forced == (int)choice.algo)) {
            (void)shape_nodes_packets(input, coll, block_bytes, varied, forced, &choice);
        }
        *choice_p = choice;
        return MSCCLPP_OK;
    }
    if (input->unsized) {
        /* Only tiles find out how much there is to do. */
        return shape(input, coll, UNSIZED_BLOCK, varied, MSCCLPP_COLL_BY_SCRATCH, choice_p) ? MSCCLPP_OK
                                                                                            : MSCCLPP_ERR_NOT_SUPPORTED;
    }
    /* A parameter that names an algorithm between nodes says nothing of calls within one node. */
    if (forced == MSCCLPP_COLL_AUTO || forced >= MSCCLPP_COLL_BY_LAST) {
        algo = find_by_rules(input, coll, block_bytes);
    }
    if (algo < 0) {
        algo = sent_bytes <= thresholds->packets_max  ? MSCCLPP_COLL_BY_PACKETS
               : sent_bytes >= thresholds->engine_min ? MSCCLPP_COLL_BY_ENGINES
                                                      : MSCCLPP_COLL_BY_ZEROCOPY;
    }
    /* If packets or engines cannot serve the call, zero-copy does, or tiles where buffers cannot be mapped. */
    if (algo == MSCCLPP_COLL_BY_PACKETS) {
        if (shape(input, coll, block_bytes, varied, MSCCLPP_COLL_BY_PACKETS, &choice)) {
            *choice_p = choice;
            return MSCCLPP_OK;
        }
        algo = MSCCLPP_COLL_BY_ZEROCOPY;
    }
    mapped = mapped && protocol->zerocopy != 0;
    if (algo == MSCCLPP_COLL_BY_ENGINES && mapped &&
        shape(input, coll, block_bytes, varied, MSCCLPP_COLL_BY_ENGINES, &choice)) {
        *choice_p = choice;
        return MSCCLPP_OK;
    }
    algo = algo == MSCCLPP_COLL_BY_SCRATCH || !mapped ? MSCCLPP_COLL_BY_SCRATCH : MSCCLPP_COLL_BY_ZEROCOPY;
    if (!shape(input, coll, block_bytes, varied, (mscclpp_coll_algo_t)algo, &choice)) {
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    *choice_p = choice;
    return MSCCLPP_OK;
}
