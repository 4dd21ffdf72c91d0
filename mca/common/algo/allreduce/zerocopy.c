/* Host side of the zero-copy all-reduce (device/kern/allreduce/allreduce_zerocopy.h). */
#include "mca/common/algo/algo.h"

/* Enough to fill the links, and few enough that kernels of several communicators fit on a GPU at once. */
#define MAX_BLOCKS 64u

/* Up to this many bytes, a kernel with only as many blocks as a lingering one loses less time than a launch costs. */
#define LINGER_MAX (16u << 20)

/*
 * From this many bytes on, the split variant is faster. On the twin the size is small, so that tests reach both
 * variants.
 */
#define SPLIT_MIN (64u << 20)
#define TWIN_SPLIT_MIN (256u << 10)

/* Within one GPU, above this many bytes, more blocks gain more time than their barrier costs. */
#define ONE_GPU_FEW_MAX (2u << 20)

/* Returns true if a lingering kernel may serve the call, so that it should get no more blocks than that kernel has. */
static bool may_linger(const mscclpp_select_input_t *input)
{
    return input->bytes <= LINGER_MAX && input->bytes <= input->protocol->linger_max && !input->queued;
}

/*
 * Returns the most blocks that the grid of this call may have. A call that a lingering kernel may serve gets no more
 * blocks than that kernel has.
 */
static uint32_t max_blocks(const mscclpp_select_input_t *input)
{
    return may_linger(input) && (!input->one_gpu || input->bytes <= ONE_GPU_FEW_MAX) ? input->protocol->linger_blocks
                                                                                     : MAX_BLOCKS;
}

/* Chooses the grid. The algorithm needs no scratch, so it serves any message size and number of ranks. */
static bool shape(const mscclpp_select_input_t *input, mscclpp_choice_t *choice)
{
    uint64_t units = (input->bytes + MSCCLPP_DEV_UNIT - 1) / MSCCLPP_DEV_UNIT;

    choice->epochs = 0;
    choice->kernel = input->bytes >= (input->on_twin ? TWIN_SPLIT_MIN : SPLIT_MIN)
                         ? MSCCLPP_KERNEL_ALLREDUCE_ZEROCOPY_SPLIT
                         : MSCCLPP_KERNEL_ALLREDUCE_ZEROCOPY;
    return mscclpp_algo_grid(input, (units + input->nranks - 1) / input->nranks, max_blocks(input), 0, false, choice);
}

const mscclpp_algo_t mscclpp_algo_allreduce_zerocopy = {
    .name = "zerocopy",
    .description = "reduce-scatter by loads and all-gather by stores of mapped user buffers",
    .maps_buffers = true,
    .fallback = &mscclpp_algo_allreduce_scratch,
    .shape = shape,
};
