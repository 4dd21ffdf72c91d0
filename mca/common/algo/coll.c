#include "mca/common/algo/coll.h"

#include <string.h>

#include "device/types/coll_nodes.h"
#include "mca/common/algo/ruled.h"

#define KIB ((uint64_t)1024)
#define MIB (1024 * KIB)
#define NEVER UINT64_MAX

_Static_assert(MSCCLPP_COLL_LAST <= MSCCLPP_PROTOCOL_COLLS, "rank 0's settings have room for every collective");

/* Blocks of a grid: enough to fill the links, and few enough that kernels of several communicators fit on a GPU. */
#define PACKET_BLOCKS 32u
#define DIRECT_BLOCKS 64u
#define TILE_BLOCKS 32u

/*
 * Between nodes, the least part of a block of data for one block of the grid, as a turn costs proxies some
 * microseconds.
 */
#define NODES_BLOCK_MIN (64 * KIB)

/*
 * Between nodes, the most bytes that an owner sends to another one as packets, which are twice as long as their data.
 */
#define NODES_PACKETS_MAX (8 * KIB)

/* On the twin a tile has to be worth its barrier. */
#define TWIN_TILE_BLOCKS 1u

static const mscclpp_dev_pattern_t patterns[MSCCLPP_COLL_LAST] = {
#define PATTERN(id_, name_, pattern_) [MSCCLPP_COLL_##id_] = pattern_,
    MSCCLPP_COLLS(PATTERN)
#undef PATTERN
};

static const char *const algo_names[MSCCLPP_COLL_BY_LAST] = {
    [MSCCLPP_COLL_BY_PACKETS] = "packets",
    [MSCCLPP_COLL_BY_ZEROCOPY] = "zerocopy",
    [MSCCLPP_COLL_BY_ENGINES] = "engines",
    [MSCCLPP_COLL_BY_SCRATCH] = "scratch",
};

/*
 * Thresholds on the most bytes that a rank sends to or receives from its peers: the largest for packets, and the
 * smallest for copy engines. Packets take twice the bytes but no barrier. Engines need no multiprocessor, but some 10
 * us to begin and end. The first row whose `ranks` is not smaller than the number of ranks applies.
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

static const thresholds_t host_thresholds[] = {
    {2, 256, NEVER},
    {MSCCLPP_DEV_MAX_RANKS, 512, NEVER},
};

static const thresholds_t *find_thresholds(const mscclpp_select_input_t *input)
{
    const thresholds_t *row = input->on_twin ? host_thresholds : input->one_gpu ? one_gpu_thresholds : cuda_thresholds;

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

static uint64_t units_of(uint64_t bytes)
{
    return (bytes + MSCCLPP_DEV_UNIT - 1) / MSCCLPP_DEV_UNIT;
}

/* A slot of the packet area holds any block, so one epoch is enough. */
static bool shape_packets(const mscclpp_select_input_t *input, bool combines, uint64_t most, bool varied,
                          mscclpp_coll_choice_t *choice)
{
    const uint64_t capacity = MSCCLPP_DEV_ONESHOT_CAPACITY(input->layout->packet_half, input->nranks);
    const uint64_t units = units_of(most);
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

static bool shape_zerocopy(const mscclpp_select_input_t *input, bool combines, uint64_t most,
                           mscclpp_coll_choice_t *choice)
{
    mscclpp_choice_t grid;

    if (!mscclpp_algo_grid(input, units_of(most), DIRECT_BLOCKS, 0, false, &grid)) {
        return false;
    }
    choice->nblocks = grid.nblocks;
    choice->nthreads = grid.nthreads;
    choice->epochs = 0;
    choice->kernel = combines ? MSCCLPP_KERNEL_COLL_COMBINE_DIRECT : MSCCLPP_KERNEL_COLL_MOVE_DIRECT;
    return true;
}

static bool shape_scratch(const mscclpp_select_input_t *input, uint64_t most, mscclpp_coll_choice_t *choice)
{
    mscclpp_choice_t grid;

    if (!mscclpp_algo_grid(input, units_of(most), input->on_twin ? TWIN_TILE_BLOCKS : TILE_BLOCKS, 0, false, &grid)) {
        return false;
    }
    choice->nblocks = grid.nblocks;
    choice->nthreads = grid.nthreads;
    choice->epochs = 0;
    choice->kernel = MSCCLPP_KERNEL_COLL_TILES;
    return MSCCLPP_DEV_COLL_TILE(input->layout->bulk_size, choice->nblocks, input->nranks) != 0;
}

/*
 * The size of a tile is limited by what an owner can put to another node at once, and by the rows of the scratch.
 * Whether there is room at all does not depend on the message size, as one block has more room than several.
 */
static bool shape_nodes(const mscclpp_select_input_t *input, mscclpp_coll_t coll, uint64_t most,
                        mscclpp_coll_choice_t *choice)
{
    const mscclpp_dev_pattern_t pattern = patterns[coll];
    const uint64_t blocks = MSCCLPP_DEV_COLL_NODES_BLOCKS(pattern, input->most, input->shards);
    const uint64_t rows = MSCCLPP_DEV_COLL_NODES_ROWS(pattern, input->all, input->nodes, input->most, input->shards);
    const uint64_t room = MSCCLPP_DEV_COLL_NODES_ROOM(pattern, input->nodes, input->slot_size);
    const uint64_t head = MSCCLPP_DEV_COLL_NODES_HEAD(blocks);
    const uint64_t sent = room > head ? (room - head) / blocks / MSCCLPP_DEV_UNIT * MSCCLPP_DEV_UNIT : 0;
    uint64_t wanted = input->on_twin ? MSCCLPP_DEV_NODES_BLOCKS : most / NODES_BLOCK_MIN;
    uint64_t pitch;
    mscclpp_choice_t grid;

    wanted = wanted == 0 ? 1 : wanted > MSCCLPP_DEV_NODES_BLOCKS ? MSCCLPP_DEV_NODES_BLOCKS : wanted;
    if (!mscclpp_algo_grid(input, units_of(most), (uint32_t)wanted, 0, false, &grid)) {
        return false;
    }
    grid.nblocks = grid.nblocks > wanted ? (uint32_t)wanted : grid.nblocks;
    while ((pitch = MSCCLPP_DEV_COLL_NODES_PITCH(input->layout->bulk_size, grid.nblocks, rows)) <= MSCCLPP_DEV_UNIT &&
           grid.nblocks > 1) {
        grid.nblocks /= 2;
    }
    choice->algo = MSCCLPP_COLL_BY_NODES;
    choice->kernel = MSCCLPP_KERNEL_COLL_NODES;
    choice->nblocks = grid.nblocks;
    choice->nthreads = grid.nthreads;
    choice->epochs = 0;
    choice->tile = pitch <= MSCCLPP_DEV_UNIT ? 0 : pitch - MSCCLPP_DEV_UNIT < sent ? pitch - MSCCLPP_DEV_UNIT : sent;
    return choice->tile != 0;
}

/* For blocks of one size, if an owner sends little to another node. False otherwise, or if there is no room. */
static bool shape_nodes_packets(const mscclpp_select_input_t *input, mscclpp_coll_t coll, uint64_t most, bool varied,
                                mscclpp_coll_choice_t *choice)
{
    const mscclpp_dev_pattern_t pattern = patterns[coll];
    const uint64_t blocks = MSCCLPP_DEV_COLL_NODES_BLOCKS(pattern, input->most, input->shards);
    const uint64_t rows = MSCCLPP_DEV_COLL_NODES_ROWS(pattern, input->all, input->nodes, input->most, input->shards);
    const uint64_t room = MSCCLPP_DEV_COLL_NODES_PACKET_ROOM(pattern, input->nodes, input->packet_units);
    const uint64_t given = input->protocol->nodes_packets_max, limit = given != 0 ? given : NODES_PACKETS_MAX;
    const uint64_t units = units_of(most);
    mscclpp_choice_t grid;

    /* An empty packet has a unit of its own. */
    if (varied || most > limit / blocks || blocks * units + 1 > room ||
        units > MSCCLPP_DEV_COLL_NODES_CAPACITY(input->layout->packet_half, rows) ||
        !mscclpp_algo_grid(input, units, 1, 0, true, &grid)) {
        return false;
    }
    choice->algo = MSCCLPP_COLL_BY_NODES_PACKETS;
    choice->kernel = MSCCLPP_KERNEL_COLL_NODES_PACKETS;
    choice->nblocks = 1;
    choice->nthreads = grid.nthreads;
    choice->epochs = 1;
    choice->tile = 0;
    return true;
}

static bool shape(const mscclpp_select_input_t *input, mscclpp_coll_t coll, uint64_t most, bool varied,
                  mscclpp_coll_algo_t algo, mscclpp_coll_choice_t *choice)
{
    const bool combines = MSCCLPP_DEV_COMBINES(patterns[coll]);

    choice->algo = algo;
    switch (algo) {
    case MSCCLPP_COLL_BY_PACKETS:
        return shape_packets(input, combines, most, varied, choice);
    case MSCCLPP_COLL_BY_ZEROCOPY:
        return shape_zerocopy(input, combines, most, choice);
    case MSCCLPP_COLL_BY_ENGINES:
        choice->nblocks = choice->nthreads = 0;
        choice->epochs = 0;
        choice->kernel = MSCCLPP_KERNEL_LAST;
        return !combines && input->engines;
    default:
        return shape_scratch(input, most, choice);
    }
}

/* The rules' choice for blocks of this size, or -1: there is none, or it is a plan, which does not serve the call. */
static int find_by_rules(const mscclpp_select_input_t *input, mscclpp_coll_t coll, uint64_t most)
{
    int64_t algorithm;

    return mscclpp_ruled(input->protocol, coll, most, input->in_place, &algorithm) && algorithm < MSCCLPP_COLL_BY_LAST
               ? (int)algorithm
               : -1;
}

mscclpp_status_t mscclpp_coll_select(const mscclpp_select_input_t *input, mscclpp_coll_t coll, uint64_t most,
                                     bool varied, bool mapped, mscclpp_coll_choice_t *choice_p)
{
    const mscclpp_protocol_t *protocol = input->protocol;
    const thresholds_t *builtin = find_thresholds(input);
    /* A user who stages every all-reduce wants no kernels at all. */
    const int forced = protocol->coll_algorithm[coll] == MSCCLPP_COLL_AUTO && protocol->algorithm == MSCCLPP_COLL_STAGE
                           ? MSCCLPP_COLL_STAGE
                           : protocol->coll_algorithm[coll];
    const uint64_t peers = input->nranks > 1 ? input->nranks - 1 : 1;
    const uint64_t load = most > NEVER / peers ? NEVER : most * peers;
    mscclpp_coll_choice_t choice;
    int algo = forced;

    if (forced == MSCCLPP_COLL_STAGE || (input->early && input->nodes > 1)) {
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    if (input->nodes > 1) {
        /* Tiles either fit for every size or for none. */
        if (!shape_nodes(input, coll, most, &choice)) {
            return MSCCLPP_ERR_NOT_SUPPORTED;
        }
        (void)shape_nodes_packets(input, coll, most, varied, &choice);
        *choice_p = choice;
        return MSCCLPP_OK;
    }
    if (forced == MSCCLPP_COLL_AUTO) {
        algo = find_by_rules(input, coll, most);
    }
    if (algo < 0) {
        algo = load <= builtin->packets_max  ? MSCCLPP_COLL_BY_PACKETS
               : load >= builtin->engine_min ? MSCCLPP_COLL_BY_ENGINES
                                             : MSCCLPP_COLL_BY_ZEROCOPY;
    }
    /* From each algorithm to one that serves more. */
    if (algo == MSCCLPP_COLL_BY_PACKETS) {
        if (shape(input, coll, most, varied, MSCCLPP_COLL_BY_PACKETS, &choice)) {
            *choice_p = choice;
            return MSCCLPP_OK;
        }
        algo = MSCCLPP_COLL_BY_ZEROCOPY;
    }
    mapped = mapped && protocol->zerocopy != 0;
    if (algo == MSCCLPP_COLL_BY_ENGINES && mapped &&
        shape(input, coll, most, varied, MSCCLPP_COLL_BY_ENGINES, &choice)) {
        *choice_p = choice;
        return MSCCLPP_OK;
    }
    algo = algo == MSCCLPP_COLL_BY_SCRATCH || !mapped ? MSCCLPP_COLL_BY_SCRATCH : MSCCLPP_COLL_BY_ZEROCOPY;
    if (!shape(input, coll, most, varied, (mscclpp_coll_algo_t)algo, &choice)) {
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    *choice_p = choice;
    return MSCCLPP_OK;
}
