/* Host side of the one-shot all-reduce by puts (device/kern/allreduce_oneshot_put.h). */
#include "mca/common/algo.h"

/*
 * Up to so many bytes as many blocks as lingering kernels have lose no more than a launch costs. Beyond, and where
 * there is a launch in any case, what fills the links.
 */
#define LINGER_MAX (2u << 20)
#define LINGER_BLOCKS 16u

static bool shape(const mscclpp_select_input_t *input, mscclpp_choice_t *choice)
{
    const uint64_t units = (input->bytes + MSCCLPP_DEV_UNIT - 1) / MSCCLPP_DEV_UNIT;

    choice->epochs = 0;
    choice->kernel = MSCCLPP_KERNEL_ALLREDUCE_ONESHOT_PUT;
    if (MSCCLPP_DEV_PUT_CAPACITY(input->layout->put_size, input->nranks) == 0 ||
        !mscclpp_algo_grid(input, units,
                           input->bytes > LINGER_MAX || input->queued ? MSCCLPP_DEV_PUT_BLOCKS : LINGER_BLOCKS, 0,
                           false, choice)) {
        return false;
    }
    choice->nblocks = choice->nblocks > MSCCLPP_DEV_PUT_BLOCKS ? MSCCLPP_DEV_PUT_BLOCKS : choice->nblocks;
    return true;
}

const mscclpp_algo_t mscclpp_algo_allreduce_oneshot_put = {
    .name = "oneshot_put",
    .description = "every rank puts its message into memory of all, piece by piece, and combines them itself",
    .instead = &mscclpp_algo_allreduce_scratch,
    .shape = shape,
};
