/* Host side of the zero-copy all-reduce (device/kern/allreduce/allreduce_zerocopy.h). */
#include "mca/common/algo/algo.h"
#include "mca/common/base/numbers.h"

/* Enough to fill the links, and few enough that kernels of several communicators fit on a GPU at once. */
#define MAX_BLOCKS 64u

/*
 * The largest message, in bytes, that a lingering kernel serves. Its few blocks lose more time with a larger message
 * than a launch costs or, between ranks on one GPU, than the barrier of more blocks costs.
 */
#define LINGER_MAX (16u << 20)
#define ONE_GPU_LINGER_MAX (2u << 20)

/*
 * The smallest message, in bytes, for which the split variant is faster. On the twin the size is small, so that tests
 * reach both variants.
 */
#define SPLIT_MIN (64u << 20)
#define TWIN_SPLIT_MIN (256u << 10)

/* Returns true if a lingering kernel may serve the call. Its grid then has no more blocks than such a kernel. */
static bool may_linger(const mscclpp_select_input_t *input)
{
    const uint64_t max_bytes = input->is_one_gpu ? ONE_GPU_LINGER_MAX : LINGER_MAX;

    return input->bytes <= max_bytes && input->bytes <= input->protocol->linger_max && !input->is_queued;
}

/* Chooses the kernel and its grid. Never fails: the algorithm needs no scratch, so any message is served. */
static bool shape(const mscclpp_select_input_t *input, mscclpp_choice_t *choice)
{
    const uint64_t shard_units = mscclpp_divide_up(mscclpp_divide_up(input->bytes, MSCCLPP_DEV_UNIT), input->nranks);
    const uint64_t split_min = input->on_twin ? TWIN_SPLIT_MIN : SPLIT_MIN;
    const uint32_t max_blocks = may_linger(input) ? input->protocol->linger_blocks : MAX_BLOCKS;

    choice->epochs = 0;
    choice->kernel =
        input->bytes >= split_min ? MSCCLPP_KERNEL_ALLREDUCE_ZEROCOPY_SPLIT : MSCCLPP_KERNEL_ALLREDUCE_ZEROCOPY;
    return mscclpp_algo_choose_grid(input, shard_units, max_blocks, MSCCLPP_ANY_CAPACITY, MSCCLPP_LARGE_BLOCKS, choice);
}

const mscclpp_algo_t mscclpp_algo_allreduce_zerocopy = {
    .name = "zerocopy",
    .description = "reduce-scatter by loads and all-gather by stores of mapped user buffers",
    .maps_buffers = true,
    .fallback = &mscclpp_algo_allreduce_scratch,
    .shape = shape,
};
