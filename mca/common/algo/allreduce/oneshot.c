/* Host side of the one-shot packet all-reduce (device/kern/allreduce/allreduce_oneshot.h). */
#include "mca/common/algo/algo.h"
#include "mca/common/base/numbers.h"

/* Enough to fill the links, and few enough that kernels of several communicators fit on a GPU at once. */
#define MAX_BLOCKS 64u

/*
 * Chooses the kernel and its grid. A message that is larger than a rank's share of the packet area takes several
 * epochs. Returns false if that share has fewer units than the smallest block has threads: a warp on the GPU, one
 * thread on the twin.
 */
static bool shape(const mscclpp_select_input_t *input, mscclpp_choice_t *choice)
{
    uint64_t units = mscclpp_divide_up(input->bytes, MSCCLPP_DEV_UNIT);
    uint64_t capacity = MSCCLPP_DEV_ONESHOT_CAPACITY(input->layout->packet_half, input->nranks);
    uint64_t epoch_units;

    if (!mscclpp_algo_choose_grid(input, units, MAX_BLOCKS, capacity, MSCCLPP_SMALL_BLOCKS, choice)) {
        return false;
    }
    epoch_units = MSCCLPP_DEV_PACKET_CHUNK(units, capacity, (uint64_t)choice->nblocks * choice->nthreads);
    choice->epochs = mscclpp_divide_up(units, epoch_units);
    choice->kernel =
        input->protocol->packet_width == 8 ? MSCCLPP_KERNEL_ALLREDUCE_ONESHOT_LL8 : MSCCLPP_KERNEL_ALLREDUCE_ONESHOT;
    return true;
}

const mscclpp_algo_t mscclpp_algo_allreduce_oneshot = {
    .name = "oneshot",
    .description = "every rank sends its message to all as packets and combines them itself",
    .shape = shape,
};
