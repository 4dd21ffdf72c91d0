/* Host side of the one-shot all-reduce by puts (device/kern/allreduce/allreduce_oneshot_put.h). */
#include "mca/common/algo/algo.h"

/*
 * Up to FEW_MAX bytes, a lingering kernel uses few blocks. It loses no more than a few microseconds, and the
 * application keeps the other multiprocessors. Larger calls, and calls that need a launch anyway, run as many blocks as
 * fill the links.
 */
#define FEW_MAX (4u << 20)
#define FEW_BLOCKS 32u

/* Returns the most blocks that the grid of this call may have: few if a lingering kernel may serve the call. */
static uint32_t max_blocks(const mscclpp_select_input_t *input)
{
    const uint32_t linger_blocks = 2 * input->protocol->linger_blocks;

    if (input->bytes > FEW_MAX || input->bytes > input->protocol->linger_max || input->queued) {
        return MSCCLPP_DEV_PUT_BLOCKS;
    }
    return linger_blocks < FEW_BLOCKS ? linger_blocks : FEW_BLOCKS;
}

/*
 * Chooses the grid. Each block has its own slots in the put area, which is divided for MSCCLPP_DEV_PUT_BLOCKS blocks,
 * so the grid has at most that many. Returns false if the put area is too small for one unit per slot.
 */
static bool shape(const mscclpp_select_input_t *input, mscclpp_choice_t *choice)
{
    const uint64_t units = (input->bytes + MSCCLPP_DEV_UNIT - 1) / MSCCLPP_DEV_UNIT;

    choice->epochs = 0;
    choice->kernel = MSCCLPP_KERNEL_ALLREDUCE_ONESHOT_PUT;
    if (MSCCLPP_DEV_PUT_CAPACITY(input->layout->put_size, input->nranks) == 0 ||
        !mscclpp_algo_grid(input, units, max_blocks(input), 0, false, choice)) {
        return false;
    }
    choice->nblocks = choice->nblocks > MSCCLPP_DEV_PUT_BLOCKS ? MSCCLPP_DEV_PUT_BLOCKS : choice->nblocks;
    return true;
}

const mscclpp_algo_t mscclpp_algo_allreduce_oneshot_put = {
    .name = "oneshot_put",
    .description = "every rank puts its message into memory of all, piece by piece, and combines them itself",
    .fallback = &mscclpp_algo_allreduce_scratch,
    .shape = shape,
};
