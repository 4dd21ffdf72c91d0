#include "mca/common/algo/coll.h"

#include "mca/common/algo/coll_between.h"
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

/* The smallest slot of the put area, in units, for which thresholds choose puts. Smaller pieces are not worth the
 * signals. */
#define SLOT_UNITS_MIN 8u

/* The assumed size of a rank's block of data, in bytes, for grids of calls whose sizes not all ranks know. */
#define UNSIZED_BLOCK_BYTES (1 * MIB)

/* On the twin, one thread block takes all tiles, as smaller tiles are not worth their barriers. */
#define TWIN_TILE_BLOCKS 1u

/*
 * Thresholds on the bytes that a rank sends to all its peers together (or receives from them): the most for packets,
 * of blocks that are moved or combined, and the least for copy engines. Packets double the bytes but need no barrier.
 * Engines leave all multiprocessors to the application, but take some 10 us to begin and end. `puts` says that puts
 * serve what is combined beyond packets, and all that would go in tiles; they have been measured with 2 GPUs alone. The
 * first row whose `ranks` is not smaller than the number of ranks applies.
 */
typedef struct {
    uint32_t ranks;
    uint64_t packets_max;
    uint64_t combined_packets_max;
    uint64_t engine_min;
    bool puts;
} thresholds_t;

static const thresholds_t cuda_thresholds[] = {
    {2, 1 * MIB, 384 * KIB, 8 * MIB, true},
    {8, 1 * MIB, 1 * MIB, 16 * MIB, false},
    {MSCCLPP_DEV_MAX_RANKS, 256 * KIB, 256 * KIB, 32 * MIB, false},
};

static const thresholds_t one_gpu_thresholds[] = {
    {2, 512 * KIB, 512 * KIB, 8 * MIB, false},
    {8, 512 * KIB, 512 * KIB, 8 * MIB, false},
    {MSCCLPP_DEV_MAX_RANKS, 64 * KIB, 64 * KIB, 16 * MIB, false},
};

static const thresholds_t twin_thresholds[] = {
    {2, 256, 256, NEVER, false},
    {MSCCLPP_DEV_MAX_RANKS, 512, 512, NEVER, false},
};

/*
 * The most bytes that puts combine of a queued call whose buffers are mapped. Such a call has few blocks, which reach
 * the links' rate sooner without a copy through the scratch.
 */
#define QUEUED_PUTS_MAX (8 * MIB)

/*
 * Returns the row of thresholds for the ranks of the node. Each table ends with a row for MSCCLPP_DEV_MAX_RANKS, and a
 * node has no more ranks, so there is always a row.
 */
static const thresholds_t *find_thresholds(const mscclpp_select_input_t *input)
{
    const thresholds_t *row = input->on_twin ? twin_thresholds : input->one_gpu ? one_gpu_thresholds : cuda_thresholds;

    while (row->ranks < input->nranks) {
        ++row;
    }
    return row;
}

/* Returns the number of units that hold so many bytes; the last unit may be partly used. */
static uint64_t units_of(uint64_t bytes)
{
    return (bytes + MSCCLPP_DEV_UNIT - 1) / MSCCLPP_DEV_UNIT;
}

/*
 * Chooses the kernel and its grid for packets, which go through the scratch in a single epoch. `combines` says that the
 * kernel combines the blocks that it receives. Returns false if a block is larger than a slot of the packet area.
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

/* mscclpp_algo_grid fails only with a capacity other than 0. */
void mscclpp_coll_widen_packets(const mscclpp_select_input_t *input, uint64_t own_bytes, mscclpp_coll_choice_t *choice)
{
    mscclpp_choice_t grid;

    if (mscclpp_algo_grid(input, units_of(own_bytes), PACKET_BLOCKS, 0, true, &grid)) {
        choice->nblocks = grid.nblocks;
        choice->nthreads = grid.nthreads;
    }
}

/*
 * Chooses the grid of a kernel that reads and writes the peers' buffers. Such kernels need neither slots nor epochs.
 * `combines` says that the kernel combines the blocks that it receives. Never fails, because mscclpp_algo_grid fails
 * only with a capacity other than 0.
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

/*
 * Chooses the grid of the kernel with tiles, which serves blocks of any size. Returns false if the bulk area has no
 * room for even the smallest tile; *choice is changed even then.
 */
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
 * Chooses the grid of the kernel by puts, which serves blocks of any size. Each block of the grid has its own slots in
 * the put area. Returns false if the put area has no room for a unit in each slot.
 */
static bool shape_puts(const mscclpp_select_input_t *input, uint64_t block_bytes, mscclpp_coll_choice_t *choice)
{
    mscclpp_choice_t grid;

    if (MSCCLPP_DEV_PUT_CAPACITY(input->layout->put_size, input->nranks) == 0 ||
        !mscclpp_algo_grid(input, units_of(block_bytes), input->on_twin ? TWIN_TILE_BLOCKS : MSCCLPP_DEV_PUT_BLOCKS, 0,
                           false, &grid)) {
        return false;
    }
    choice->nblocks = grid.nblocks > MSCCLPP_DEV_PUT_BLOCKS ? MSCCLPP_DEV_PUT_BLOCKS : grid.nblocks;
    choice->nthreads = grid.nthreads;
    choice->epochs = 0;
    choice->kernel = MSCCLPP_KERNEL_COLL_PUTS;
    return true;
}

/*
 * Shapes a call on one node for the algorithm `algo`; the default is MSCCLPP_COLL_BY_SCRATCH. Returns false if the
 * algorithm cannot serve the call; *choice may be changed even then. Copy engines cannot combine blocks, so they serve
 * only collectives that move data.
 */
static bool shape(const mscclpp_select_input_t *input, mscclpp_coll_t coll, uint64_t block_bytes, bool varied,
                  mscclpp_coll_algo_t algo, mscclpp_coll_choice_t *choice)
{
    const bool combines = MSCCLPP_DEV_COMBINES(mscclpp_coll_pattern(coll));

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
        return !combines && input->may_use_engines;
    case MSCCLPP_COLL_BY_PUTS:
        return shape_puts(input, block_bytes, choice);
    default:
        return shape_scratch(input, block_bytes, choice);
    }
}

/*
 * Chooses the grid of the kernel that finds out the sizes of blocks on the device, and the largest block that it moves
 * as packets: none if `by_tiles` is set. Returns false if the scratch has no room for tiles, or for a slot's head;
 * *choice is changed even then.
 */
static bool shape_unsized(const mscclpp_select_input_t *input, bool by_tiles, mscclpp_coll_choice_t *choice)
{
    const uint64_t capacity = MSCCLPP_DEV_ONESHOT_CAPACITY(input->layout->packet_half, input->nranks);
    const uint64_t peers = input->nranks > 1 ? input->nranks - 1 : 1;
    const uint64_t max_per_peer = find_thresholds(input)->packets_max / peers;

    choice->algo = MSCCLPP_COLL_BY_SCRATCH;
    if (capacity == 0 || !shape_scratch(input, UNSIZED_BLOCK_BYTES, choice)) {
        return false;
    }
    choice->kernel = MSCCLPP_KERNEL_COLL_MOVE_UNSIZED;
    choice->epochs = 1;
    choice->packets_max = (capacity - 1) * MSCCLPP_DEV_UNIT; /* a slot begins with the head, of one unit */
    if (max_per_peer < choice->packets_max) {
        choice->packets_max = max_per_peer;
    }
    if (by_tiles) {
        choice->packets_max = 0;
    }
    return true;
}

/*
 * Returns the algorithm that the rules name for the call; MSCCLPP_COLL_AUTO: they name none. A rule that names a plan
 * counts as none, because the call gets here only if that plan does not serve it.
 */
static int find_by_rules(const mscclpp_select_input_t *input, mscclpp_coll_t coll, uint64_t block_bytes)
{
    int64_t algorithm;

    return mscclpp_rule_match(input->protocol, coll, block_bytes, input->in_place, input->nodes, &algorithm) &&
                   algorithm < MSCCLPP_COLL_BY_END
               ? (int)algorithm
               : MSCCLPP_COLL_AUTO;
}

/* Returns true if the thresholds choose puts for some sizes, and the scratch has room for good pieces. */
static bool suits_puts(const mscclpp_select_input_t *input)
{
    return find_thresholds(input)->puts &&
           MSCCLPP_DEV_PUT_CAPACITY(input->layout->put_size, input->nranks) >= SLOT_UNITS_MIN;
}

/*
 * Returns the algorithm of the thresholds for a call on one node in which a rank sends `sent_bytes` bytes, or receives
 * them. `may_map` says that kernels may use the peers' buffers, and `swaps` that they exchange blocks in place.
 */
static mscclpp_coll_algo_t find_by_thresholds(const mscclpp_select_input_t *input, bool combines, uint64_t sent_bytes,
                                              bool may_map, bool swaps)
{
    const thresholds_t *thresholds = find_thresholds(input);

    if (sent_bytes <= (combines ? thresholds->combined_packets_max : thresholds->packets_max)) {
        return MSCCLPP_COLL_BY_PACKETS;
    }
    if (combines && suits_puts(input) && !(input->queued && may_map && sent_bytes > QUEUED_PUTS_MAX)) {
        return MSCCLPP_COLL_BY_PUTS;
    }
    return sent_bytes >= thresholds->engine_min && !swaps ? MSCCLPP_COLL_BY_ENGINES : MSCCLPP_COLL_BY_ZEROCOPY;
}

/*
 * Chooses the algorithm of a call on one node: `algo`, or that of the thresholds if it is MSCCLPP_COLL_AUTO. If
 * packets, puts or engines cannot serve the call, zero-copy does. Where buffers cannot be mapped, puts do between 2
 * GPUs, and tiles otherwise. Returns MSCCLPP_ERR_NOT_SUPPORTED, with *choice_p unchanged, if the scratch is too small
 * for tiles.
 */
static mscclpp_status_t select_within(const mscclpp_select_input_t *input, mscclpp_coll_t coll, uint64_t block_bytes,
                                      bool varied, bool mapped, int algo, mscclpp_coll_choice_t *choice_p)
{
    const uint64_t peers = input->nranks > 1 ? input->nranks - 1 : 1;
    const uint64_t sent_bytes = block_bytes > NEVER / peers ? NEVER : block_bytes * peers;
    /* In place, kernels swap blocks directly. Copy engines cannot swap, and would need a copy of the input. */
    const bool swaps = input->in_place && mscclpp_coll_pattern(coll) == MSCCLPP_DEV_ALLTOALL;
    const bool may_map = mapped && input->protocol->zerocopy != 0;
    mscclpp_coll_choice_t choice;

    if (algo < 0) {
        algo = (int)find_by_thresholds(input, MSCCLPP_DEV_COMBINES(mscclpp_coll_pattern(coll)), sent_bytes, may_map,
                                       swaps);
    }
    if (algo == MSCCLPP_COLL_BY_PACKETS) {
        if (shape(input, coll, block_bytes, varied, MSCCLPP_COLL_BY_PACKETS, &choice)) {
            *choice_p = choice;
            return MSCCLPP_OK;
        }
        algo = MSCCLPP_COLL_BY_ZEROCOPY;
    }
    /* Without mapped buffers the data go through the scratch. */
    if (algo != MSCCLPP_COLL_BY_SCRATCH && !may_map && suits_puts(input)) {
        algo = MSCCLPP_COLL_BY_PUTS;
    }
    if (algo == MSCCLPP_COLL_BY_PUTS) {
        if (shape(input, coll, block_bytes, varied, MSCCLPP_COLL_BY_PUTS, &choice)) {
            *choice_p = choice;
            return MSCCLPP_OK;
        }
        algo = MSCCLPP_COLL_BY_ZEROCOPY;
    }
    if (algo == MSCCLPP_COLL_BY_ENGINES && may_map &&
        shape(input, coll, block_bytes, varied, MSCCLPP_COLL_BY_ENGINES, &choice)) {
        *choice_p = choice;
        return MSCCLPP_OK;
    }
    algo = algo == MSCCLPP_COLL_BY_SCRATCH || !may_map ? MSCCLPP_COLL_BY_SCRATCH : MSCCLPP_COLL_BY_ZEROCOPY;
    if (!shape(input, coll, block_bytes, varied, (mscclpp_coll_algo_t)algo, &choice)) {
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    *choice_p = choice;
    return MSCCLPP_OK;
}

mscclpp_status_t mscclpp_coll_select(const mscclpp_select_input_t *input, mscclpp_coll_t coll, uint64_t block_bytes,
                                     bool varied, bool mapped, mscclpp_coll_choice_t *choice_p)
{
    const mscclpp_protocol_t *protocol = input->protocol;
    /* A user who stages every all-reduce wants no kernels for any collective that has no parameter of its own. */
    const int forced = protocol->coll_algorithm[coll] == MSCCLPP_COLL_AUTO && protocol->algorithm == MSCCLPP_COLL_STAGE
                           ? MSCCLPP_COLL_STAGE
                           : protocol->coll_algorithm[coll];
    int algo = forced;

    if (forced == MSCCLPP_COLL_STAGE || (input->early && input->nodes > 1 && !input->hosts_can_meet)) {
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    if (input->nodes > 1) {
        /* A threshold that the user sets by a parameter overrides the rules. */
        algo = forced == MSCCLPP_COLL_AUTO && protocol->nodes_packets_max == 0 ? find_by_rules(input, coll, block_bytes)
                                                                               : forced;
        return mscclpp_coll_select_between(input, coll, block_bytes, varied, algo, choice_p);
    }
    if (input->is_size_unknown) {
        return shape_unsized(input, forced == MSCCLPP_COLL_BY_SCRATCH, choice_p) ? MSCCLPP_OK
                                                                                 : MSCCLPP_ERR_NOT_SUPPORTED;
    }
    /* A parameter that names an algorithm between nodes does not affect calls within one node. */
    if (forced == MSCCLPP_COLL_AUTO || forced >= MSCCLPP_COLL_BY_LAST) {
        algo = find_by_rules(input, coll, block_bytes);
    }
    return select_within(input, coll, block_bytes, varied, mapped, algo, choice_p);
}
