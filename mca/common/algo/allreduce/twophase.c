/* Host side of the two-phase packet all-reduce (device/kern/allreduce/allreduce_twophase.h). */
#include "mca/common/algo/algo.h"
#include "mca/common/algo/allreduce/thresholds.h"

/* Enough to fill the links, and few enough that kernels of several communicators fit on a GPU at once. */
#define MAX_BLOCKS 64u

/* Lanes of a warp that handle a bundle of LL128 together. */
#define WARP 32u

/*
 * Chooses the grid for LL128 packets. In this format, a whole warp handles a bundle of units, so the grid is computed
 * with `lanes` threads for each bundle. Returns false, with *choice unchanged, if the packet area is too small.
 */
static bool shape_ll128(const mscclpp_select_input_t *input, uint64_t shard_units, mscclpp_choice_t *choice)
{
    const uint64_t lanes = input->on_twin ? 1 : WARP;
    const uint64_t bundles = (shard_units + MSCCLPP_DEV_BUNDLE_UNITS - 1) / MSCCLPP_DEV_BUNDLE_UNITS;
    const uint64_t capacity = MSCCLPP_DEV_LL128_CAPACITY(input->layout->packet_half, input->nranks);

    if (capacity == 0 || !mscclpp_algo_grid(input, bundles * lanes, MAX_BLOCKS, capacity * lanes, true, choice)) {
        return false;
    }
    choice->epochs = (bundles + capacity - 1) / capacity;
    choice->kernel = MSCCLPP_KERNEL_ALLREDUCE_TWOPHASE_LL128;
    return true;
}

/*
 * Chooses the kernel and its grid: for LL128 if this call uses it and it fits, else for LL16. Returns false if the
 * packet area is too small for either.
 */
static bool shape(const mscclpp_select_input_t *input, mscclpp_choice_t *choice)
{
    uint64_t units = (input->bytes + MSCCLPP_DEV_UNIT - 1) / MSCCLPP_DEV_UNIT;
    uint64_t shard_units = (units + input->nranks - 1) / input->nranks;
    uint64_t capacity = MSCCLPP_DEV_TWOPHASE_CAPACITY(input->layout->packet_half, input->nranks);
    uint64_t epoch_units;

    if (mscclpp_select_ll128(input) && shape_ll128(input, shard_units, choice)) {
        return true;
    }
    if (capacity == 0 || !mscclpp_algo_grid(input, shard_units, MAX_BLOCKS, capacity, true, choice)) {
        return false;
    }
    epoch_units = MSCCLPP_DEV_PACKET_CHUNK(shard_units, capacity, (uint64_t)choice->nblocks * choice->nthreads);
    choice->epochs = (shard_units + epoch_units - 1) / epoch_units;
    choice->kernel = MSCCLPP_KERNEL_ALLREDUCE_TWOPHASE;
    return true;
}

const mscclpp_algo_t mscclpp_algo_allreduce_twophase = {
    .name = "twophase",
    .description = "reduce-scatter and all-gather with packets",
    .shape = shape,
};
