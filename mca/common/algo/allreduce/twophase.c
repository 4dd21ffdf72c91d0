/* Host side of the two-phase packet all-reduce (device/kern/allreduce/allreduce_twophase.h). */
#include "mca/common/algo/algo.h"
#include "mca/common/algo/allreduce/thresholds.h"
#include "mca/common/base/numbers.h"

/* Enough to fill the links, and few enough that kernels of several communicators fit on a GPU at once. */
#define MAX_BLOCKS 64u

/* Lanes of a warp that handle a bundle of LL128 together. */
#define WARP 32u

/*
 * Chooses the kernel for LL128 packets and its grid. A whole warp handles each bundle of units, so the grid has `lanes`
 * threads for each bundle. Returns false, with *choice unchanged, if the LL128 area has no room for a bundle.
 */
static bool shape_ll128(const mscclpp_select_input_t *input, uint64_t shard_units, mscclpp_choice_t *choice)
{
    const uint64_t lanes = input->on_twin ? 1 : WARP;
    const uint64_t bundles = mscclpp_divide_up(shard_units, MSCCLPP_DEV_BUNDLE_UNITS);
    const uint64_t capacity = MSCCLPP_DEV_LL128_CAPACITY(input->layout->packet_half, input->nranks);

    if (!mscclpp_algo_choose_grid(input, bundles * lanes, MAX_BLOCKS, capacity * lanes, MSCCLPP_SMALL_BLOCKS, choice)) {
        return false;
    }
    choice->epochs = mscclpp_divide_up(bundles, capacity);
    choice->kernel = MSCCLPP_KERNEL_ALLREDUCE_TWOPHASE_LL128;
    return true;
}

/*
 * Chooses the kernel and its grid: for LL128 if the call uses this format and it has room, otherwise for LL16. Returns
 * false if the packet area is too small for LL16, too.
 */
static bool shape(const mscclpp_select_input_t *input, mscclpp_choice_t *choice)
{
    uint64_t units = mscclpp_divide_up(input->bytes, MSCCLPP_DEV_UNIT);
    uint64_t shard_units = mscclpp_divide_up(units, input->nranks);
    uint64_t capacity = MSCCLPP_DEV_TWOPHASE_CAPACITY(input->layout->packet_half, input->nranks);
    uint64_t epoch_units;

    if (mscclpp_uses_ll128(input) && shape_ll128(input, shard_units, choice)) {
        return true;
    }
    if (!mscclpp_algo_choose_grid(input, shard_units, MAX_BLOCKS, capacity, MSCCLPP_SMALL_BLOCKS, choice)) {
        return false;
    }
    epoch_units = MSCCLPP_DEV_PACKET_CHUNK(shard_units, capacity, (uint64_t)choice->nblocks * choice->nthreads);
    choice->epochs = mscclpp_divide_up(shard_units, epoch_units);
    choice->kernel = MSCCLPP_KERNEL_ALLREDUCE_TWOPHASE;
    return true;
}

const mscclpp_algo_t mscclpp_algo_allreduce_twophase = {
    .name = "twophase",
    .description = "reduce-scatter and all-gather with packets",
    .shape = shape,
};
