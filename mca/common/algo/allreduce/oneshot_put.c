/* Host side of the one-shot all-reduce by puts (device/kern/allreduce/allreduce_oneshot_put.h). */
#include "mca/common/algo/algo.h"
#include "mca/common/base/numbers.h"

/*
 * A lingering kernel serves messages of up to FEW_MAX bytes with at most FEW_BLOCKS blocks. It loses no more than a few
 * microseconds, and the application keeps the other multiprocessors. Larger calls, and calls that need a launch anyway,
 * run as many blocks as fill the links.
 */
#define FEW_MAX (4u << 20)
#define FEW_BLOCKS 32u

/* Returns the maximum number of blocks of the call's grid: few if a lingering kernel may serve the call. */
static uint32_t find_max_blocks(const mscclpp_select_input_t *input)
{
    if (input->bytes > FEW_MAX || input->bytes > input->protocol->linger_max || input->is_queued) {
        return MSCCLPP_DEV_PUT_BLOCKS;
    }
    /* As the parameter promises, puts take twice linger_blocks blocks (mca/common/base/config.c). */
    return (uint32_t)mscclpp_min(2 * input->protocol->linger_blocks, FEW_BLOCKS);
}

/*
 * Chooses the kernel and its grid. The grid has at most MSCCLPP_DEV_PUT_BLOCKS blocks, because the put area has slots
 * for this number of blocks. Returns false if a slot has no room for a unit.
 */
static bool shape(const mscclpp_select_input_t *input, mscclpp_choice_t *choice)
{
    const uint64_t units = mscclpp_divide_up(input->bytes, MSCCLPP_DEV_UNIT);

    choice->epochs = 0;
    choice->kernel = MSCCLPP_KERNEL_ALLREDUCE_ONESHOT_PUT;
    if (MSCCLPP_DEV_PUT_CAPACITY(input->layout->put_size, input->nranks) == 0 ||
        !mscclpp_algo_choose_grid(input, units, find_max_blocks(input), MSCCLPP_ANY_CAPACITY, MSCCLPP_LARGE_BLOCKS,
                                  choice)) {
        return false;
    }
    choice->nblocks = (uint32_t)mscclpp_min(choice->nblocks, MSCCLPP_DEV_PUT_BLOCKS);
    return true;
}

const mscclpp_algo_t mscclpp_algo_allreduce_oneshot_put = {
    .name = "oneshot_put",
    .description = "every rank puts its message into memory of all, piece by piece, and combines them itself",
    .fallback = &mscclpp_algo_allreduce_scratch,
    .shape = shape,
};
