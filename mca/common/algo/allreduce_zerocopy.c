/* Host side of the zero-copy all-reduce (device/kern/allreduce_zerocopy.h). */
#include "mca/common/algo.h"

/* Enough to fill the links, and few enough that kernels of several communicators fit on a GPU at once. */
#define MAX_BLOCKS 64u

static bool shape(const mscclpp_select_input_t *input, mscclpp_choice_t *choice)
{
    uint64_t units = (input->bytes + MSCCLPP_DEV_UNIT - 1) / MSCCLPP_DEV_UNIT;

    choice->epochs = 0;
    choice->kernel = MSCCLPP_KERNEL_ALLREDUCE_ZEROCOPY;
    return mscclpp_algo_grid(input, (units + input->nranks - 1) / input->nranks, MAX_BLOCKS, 0, false, choice);
}

const mscclpp_algo_t mscclpp_algo_allreduce_zerocopy = {
    .name = "zerocopy",
    .description = "reduce-scatter by loads and all-gather by stores of mapped user buffers",
    .maps_buffers = true,
    .instead = &mscclpp_algo_allreduce_scratch,
    .shape = shape,
};
