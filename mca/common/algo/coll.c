#include "mca/common/algo/coll.h"

#include "mca/common/algo/coll_between.h"
#include "mca/common/algo/rule_match.h"
#include "mca/common/base/numbers.h"

#define KIB ((uint64_t)1024)
#define MIB (1024 * KIB)
#define NEVER UINT64_MAX

_Static_assert(MSCCLPP_COLL_LAST <= MSCCLPP_PROTOCOL_COLLS, "rank 0's settings have room for every collective");

/*
 * The maximum numbers of blocks of grids: with packets, on mapped buffers, and with tiles. They are enough to fill the
 * links, and few enough that kernels of several communicators fit on one GPU at the same time.
 */
#define PACKET_BLOCKS 32u
#define DIRECT_BLOCKS 64u
#define TILE_BLOCKS 32u

/* On the twin, one thread block takes all tiles, because smaller tiles would not be worth their barriers. */
#define TWIN_TILE_BLOCKS 1u

/* The smallest slot of the put area, in units, for which thresholds choose puts. Smaller pieces need many signals. */
#define SLOT_UNITS_MIN 8u

/* The assumed size in bytes of a rank's block, for the grids of calls of which not all ranks know the sizes. */
#define UNSIZED_BLOCK_BYTES (1 * MIB)

/*
 * The sizes at which the algorithm of a call on one node changes. They are compared with the bytes that a rank sends to
 * all its peers together, or receives from them. Packets double the bytes but need no barrier. Copy engines leave all
 * multiprocessors to the application, but take some 10 us to begin and end. Puts were measured with 2 GPUs only.
 */
typedef struct {
    uint32_t ranks;                /* the row is for at most this number of ranks */
    uint64_t packets_max;          /* the most bytes that packets move */
    uint64_t combined_packets_max; /* the most bytes that packets move and combine */
    uint64_t engine_min;           /* the fewest bytes that copy engines move */
    bool may_put; /* puts combine what is too large for packets, and replace tiles where buffers are not mapped */
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
 * The most bytes that puts combine in a queued call whose buffers are mapped. Such a call has few blocks, which reach
 * the links' rate sooner without a copy through the scratch.
 */
#define QUEUED_PUTS_MAX (8 * MIB)

/* What the choice on one node needs to know of a call. */
typedef struct {
    const mscclpp_select_input_t *input;
    uint64_t block_bytes; /* size in bytes of the largest block */
    bool combines;        /* ranks combine the blocks that they receive */
    bool is_varied;       /* blocks differ in size */
    bool may_map;         /* kernels and copy engines may use the peers' buffers */
    bool swaps;           /* ranks swap blocks in place, which copy engines cannot do */
} call_t;

/* Returns the first row of the table for the kind of links between the ranks of a node. */
static const thresholds_t *find_table(const mscclpp_select_input_t *input)
{
    if (input->on_twin) {
        return twin_thresholds;
    }
    return input->is_one_gpu ? one_gpu_thresholds : cuda_thresholds;
}

/*
 * Returns the row of thresholds for the ranks of the node. Each table ends with a row for MSCCLPP_DEV_MAX_RANKS, and a
 * node has no more ranks, so there is always a row.
 */
static const thresholds_t *find_thresholds(const mscclpp_select_input_t *input)
{
    const thresholds_t *row = find_table(input);

    while (row->ranks < input->nranks) {
        ++row;
    }
    return row;
}

/* Returns the number of other ranks on the node, or 1 if there are none. */
static uint32_t count_peers(const mscclpp_select_input_t *input)
{
    return input->nranks > 1 ? input->nranks - 1 : 1;
}

/*
 * Chooses a grid for `bytes` bytes, with at most `max_blocks` blocks and any number of threads, and stores it in the
 * choice. Never fails, because mscclpp_algo_choose_grid does not fail with MSCCLPP_ANY_CAPACITY.
 */
static void choose_grid(const mscclpp_select_input_t *input, uint64_t bytes, uint32_t max_blocks,
                        mscclpp_block_size_t block_size, mscclpp_coll_choice_t *choice)
{
    mscclpp_choice_t grid = {.nblocks = 1, .nthreads = 1};

    (void)mscclpp_algo_choose_grid(input, mscclpp_divide_up(bytes, MSCCLPP_DEV_UNIT), max_blocks, MSCCLPP_ANY_CAPACITY,
                                   block_size, &grid);
    choice->nblocks = grid.nblocks;
    choice->nthreads = grid.nthreads;
}

/* Returns the kernel for packets. */
static mscclpp_dev_kernel_t find_packet_kernel(const call_t *call)
{
    if (call->combines) {
        return call->is_varied ? MSCCLPP_KERNEL_COLL_COMBINE_BLOCKS : MSCCLPP_KERNEL_COLL_COMBINE_PACKETS;
    }
    return call->is_varied ? MSCCLPP_KERNEL_COLL_MOVE_BLOCKS : MSCCLPP_KERNEL_COLL_MOVE_PACKETS;
}

/*
 * Chooses the kernel and its grid for packets, which go through the scratch in a single epoch. Returns false if a block
 * is larger than a slot of the packet area.
 */
static bool shape_packets(const call_t *call, mscclpp_coll_choice_t *choice)
{
    const mscclpp_select_input_t *input = call->input;
    const uint64_t units = mscclpp_divide_up(call->block_bytes, MSCCLPP_DEV_UNIT);

    if (units > MSCCLPP_DEV_ONESHOT_CAPACITY(input->layout->packet_half, input->nranks)) {
        return false;
    }
    choose_grid(input, units * count_peers(input) * MSCCLPP_DEV_UNIT, PACKET_BLOCKS, MSCCLPP_SMALL_BLOCKS, choice);
    choice->epochs = 1;
    choice->kernel = find_packet_kernel(call);
    return true;
}

void mscclpp_coll_widen_packets(const mscclpp_select_input_t *input, uint64_t own_bytes, mscclpp_coll_choice_t *choice)
{
    choose_grid(input, own_bytes, PACKET_BLOCKS, MSCCLPP_SMALL_BLOCKS, choice);
}

/* Chooses the kernel that accesses the peers' buffers, and its grid. The kernel needs neither slots nor epochs. */
static void shape_zerocopy(const call_t *call, mscclpp_coll_choice_t *choice)
{
    choose_grid(call->input, call->block_bytes, DIRECT_BLOCKS, MSCCLPP_LARGE_BLOCKS, choice);
    choice->kernel = call->combines ? MSCCLPP_KERNEL_COLL_COMBINE_DIRECT : MSCCLPP_KERNEL_COLL_MOVE_DIRECT;
}

/*
 * Chooses the kernel with tiles, which serves blocks of any size, and its grid. Returns false if the bulk area has no
 * room for even the smallest tile; *choice is changed even then.
 */
static bool shape_scratch(const mscclpp_select_input_t *input, uint64_t block_bytes, mscclpp_coll_choice_t *choice)
{
    choose_grid(input, block_bytes, input->on_twin ? TWIN_TILE_BLOCKS : TILE_BLOCKS, MSCCLPP_LARGE_BLOCKS, choice);
    choice->kernel = MSCCLPP_KERNEL_COLL_TILES;
    return MSCCLPP_DEV_COLL_TILE(input->layout->bulk_size, choice->nblocks, input->nranks) != 0;
}

/*
 * Chooses the kernel by puts, which serves blocks of any size, and its grid. Each block of the grid has its own slots
 * in the put area. Returns false if a slot has no room for a unit.
 */
static bool shape_puts(const call_t *call, mscclpp_coll_choice_t *choice)
{
    const mscclpp_select_input_t *input = call->input;

    if (MSCCLPP_DEV_PUT_CAPACITY(input->layout->put_size, input->nranks) == 0) {
        return false;
    }
    choose_grid(input, call->block_bytes, input->on_twin ? TWIN_TILE_BLOCKS : MSCCLPP_DEV_PUT_BLOCKS,
                MSCCLPP_LARGE_BLOCKS, choice);
    choice->nblocks = (uint32_t)mscclpp_min(choice->nblocks, MSCCLPP_DEV_PUT_BLOCKS);
    choice->kernel = MSCCLPP_KERNEL_COLL_PUTS;
    return true;
}

/*
 * Shapes a call for the algorithm `algo`; tiles serve if `algo` is no other algorithm on one node. Returns false, with
 * *choice_p unchanged, if the algorithm cannot serve the call.
 */
static bool shape(const call_t *call, mscclpp_coll_algo_t algo, mscclpp_coll_choice_t *choice_p)
{
    mscclpp_coll_choice_t choice = {.algo = algo, .kernel = MSCCLPP_KERNEL_LAST};
    bool can_serve = true;

    switch (algo) {
    case MSCCLPP_COLL_BY_PACKETS:
        can_serve = shape_packets(call, &choice);
        break;
    case MSCCLPP_COLL_BY_ZEROCOPY:
        shape_zerocopy(call, &choice);
        break;
    case MSCCLPP_COLL_BY_ENGINES:
        /* No kernel runs. Copy engines cannot combine blocks. */
        can_serve = !call->combines && call->input->may_use_engines;
        break;
    case MSCCLPP_COLL_BY_PUTS:
        can_serve = shape_puts(call, &choice);
        break;
    default:
        can_serve = shape_scratch(call->input, call->block_bytes, &choice);
        break;
    }
    if (can_serve) {
        *choice_p = choice;
    }
    return can_serve;
}

/*
 * Chooses the kernel that finds out the sizes of blocks on the device, its grid, and the largest block that it moves as
 * packets. If the user forces tiles, it moves no block as packets. Returns false if the scratch has no room for tiles,
 * or for a slot's head; *choice is changed even then.
 */
static bool shape_unsized(const mscclpp_select_input_t *input, int forced, mscclpp_coll_choice_t *choice)
{
    const uint64_t capacity = MSCCLPP_DEV_ONESHOT_CAPACITY(input->layout->packet_half, input->nranks);
    const uint64_t max_per_peer = find_thresholds(input)->packets_max / count_peers(input);

    *choice = (mscclpp_coll_choice_t){.algo = MSCCLPP_COLL_BY_SCRATCH};
    if (capacity == 0 || !shape_scratch(input, UNSIZED_BLOCK_BYTES, choice)) {
        return false;
    }
    choice->kernel = MSCCLPP_KERNEL_COLL_MOVE_UNSIZED;
    choice->epochs = 1;
    if (forced != MSCCLPP_COLL_BY_SCRATCH) {
        /* A slot begins with the head, which takes one unit. */
        choice->packets_max = mscclpp_min((capacity - 1) * MSCCLPP_DEV_UNIT, max_per_peer);
    }
    return true;
}

/*
 * Returns the algorithm that the rules name for the call; MSCCLPP_ALGO_AUTO: they name none. A rule that names a plan
 * counts as none, because the call gets here only if that plan does not serve it.
 */
static int find_by_rules(const mscclpp_select_input_t *input, mscclpp_coll_t coll, uint64_t block_bytes)
{
    int64_t algorithm;

    if (!mscclpp_rule_match(input->protocol, coll, block_bytes, input->in_place, input->nodes, &algorithm) ||
        algorithm >= MSCCLPP_COLL_BY_END) {
        return MSCCLPP_ALGO_AUTO;
    }
    return (int)algorithm;
}

/* Returns true if the thresholds may choose puts, and the scratch has room for pieces of a good size. */
static bool may_put(const mscclpp_select_input_t *input)
{
    return find_thresholds(input)->may_put &&
           MSCCLPP_DEV_PUT_CAPACITY(input->layout->put_size, input->nranks) >= SLOT_UNITS_MIN;
}

/* Returns true if mapped buffers are faster than puts for a call in which a rank sends `sent_bytes` bytes. */
static bool prefers_mapped_to_puts(const call_t *call, uint64_t sent_bytes)
{
    return call->input->is_queued && call->may_map && sent_bytes > QUEUED_PUTS_MAX;
}

/* Returns the algorithm of the thresholds. It may be unable to serve the call. */
static mscclpp_coll_algo_t find_by_thresholds(const call_t *call)
{
    const thresholds_t *thresholds = find_thresholds(call->input);
    const uint64_t peers = count_peers(call->input);
    const uint64_t packets_max = call->combines ? thresholds->combined_packets_max : thresholds->packets_max;
    /* A block that is too large for the product counts as a size that no threshold reaches. */
    const uint64_t sent_bytes = call->block_bytes > UINT64_MAX / peers ? UINT64_MAX : call->block_bytes * peers;

    if (sent_bytes <= packets_max) {
        return MSCCLPP_COLL_BY_PACKETS;
    }
    if (call->combines && may_put(call->input) && !prefers_mapped_to_puts(call, sent_bytes)) {
        return MSCCLPP_COLL_BY_PUTS;
    }
    return sent_bytes >= thresholds->engine_min && !call->swaps ? MSCCLPP_COLL_BY_ENGINES : MSCCLPP_COLL_BY_ZEROCOPY;
}

/*
 * Shapes a call on one node for `algo` or, if that algorithm cannot serve the call, for another one: zero-copy if the
 * call may map buffers, otherwise puts if the thresholds allow them, and tiles in all other cases. Returns
 * MSCCLPP_ERR_NOT_SUPPORTED, with *choice_p unchanged, if the scratch is too small for tiles.
 */
static mscclpp_status_t select_within(const call_t *call, mscclpp_coll_algo_t algo, mscclpp_coll_choice_t *choice_p)
{
    const bool by_scratch = algo == MSCCLPP_COLL_BY_SCRATCH || !call->may_map;
    const bool by_puts =
        algo == MSCCLPP_COLL_BY_PUTS || (algo != MSCCLPP_COLL_BY_SCRATCH && !call->may_map && may_put(call->input));

    if (algo == MSCCLPP_COLL_BY_PACKETS && shape(call, MSCCLPP_COLL_BY_PACKETS, choice_p)) {
        return MSCCLPP_OK;
    }
    if (by_puts && shape(call, MSCCLPP_COLL_BY_PUTS, choice_p)) {
        return MSCCLPP_OK;
    }
    if (algo == MSCCLPP_COLL_BY_ENGINES && call->may_map && shape(call, MSCCLPP_COLL_BY_ENGINES, choice_p)) {
        return MSCCLPP_OK;
    }
    return shape(call, by_scratch ? MSCCLPP_COLL_BY_SCRATCH : MSCCLPP_COLL_BY_ZEROCOPY, choice_p)
               ? MSCCLPP_OK
               : MSCCLPP_ERR_NOT_SUPPORTED;
}

/*
 * Returns the value of the collective's parameter. A user who stages every all-reduce wants no kernels for collectives
 * that have no value of their own either.
 */
static int find_forced(const mscclpp_protocol_t *protocol, mscclpp_coll_t coll)
{
    const int forced = protocol->coll_algorithm[coll];

    if (forced == MSCCLPP_ALGO_AUTO && protocol->algorithm == MSCCLPP_ALGO_STAGE) {
        return MSCCLPP_ALGO_STAGE;
    }
    return forced;
}

mscclpp_status_t mscclpp_coll_select(const mscclpp_select_input_t *input, mscclpp_coll_t coll, uint64_t block_bytes,
                                     bool varied, bool mapped, mscclpp_coll_choice_t *choice_p)
{
    const mscclpp_protocol_t *protocol = input->protocol;
    const mscclpp_dev_pattern_t pattern = mscclpp_coll_pattern(coll);
    const int forced = find_forced(protocol, coll);
    const call_t call = {.input = input,
                         .block_bytes = block_bytes,
                         .combines = MSCCLPP_DEV_COMBINES(pattern),
                         .is_varied = varied,
                         .may_map = mapped && protocol->zerocopy != 0,
                         .swaps = input->in_place && pattern == MSCCLPP_DEV_ALLTOALL};
    int algo = forced;

    if (forced == MSCCLPP_ALGO_STAGE || (input->is_early && input->nodes > 1 && !input->hosts_can_meet)) {
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    if (input->nodes > 1) {
        /* The parameter nodes_packets_max is meant for the built-in choice, so it disables the rules. */
        if (forced == MSCCLPP_ALGO_AUTO && protocol->nodes_packets_max == 0) {
            algo = find_by_rules(input, coll, block_bytes);
        }
        return mscclpp_coll_select_between(input, coll, block_bytes, varied, algo, choice_p);
    }
    if (input->is_size_unknown) {
        return shape_unsized(input, forced, choice_p) ? MSCCLPP_OK : MSCCLPP_ERR_NOT_SUPPORTED;
    }
    /* A parameter that names an algorithm between nodes does not affect calls within one node. */
    if (forced == MSCCLPP_ALGO_AUTO || forced >= MSCCLPP_COLL_BY_LAST) {
        algo = find_by_rules(input, coll, block_bytes);
    }
    return select_within(&call, algo < 0 ? find_by_thresholds(&call) : (mscclpp_coll_algo_t)algo, choice_p);
}
