/* Host side of the all-reduce through the team's scratch (device/kern/allreduce/allreduce_scratch.h). */
#include "mca/common/algo/algo.h"

/* Enough to fill the links, and few enough that kernels of several communicators fit on a GPU at once. */
#define MAX_BLOCKS 32u

/* Chooses the grid. Returns false if the bulk area has no room for a tile. */
static bool shape(const mscclpp_select_input_t *input, mscclpp_choice_t *choice)
{
    uint64_t units = (input->bytes + MSCCLPP_DEV_UNIT - 1) / MSCCLPP_DEV_UNIT;
    uint64_t tile_units = input->layout->bulk_size / (2 * (uint64_t)MSCCLPP_DEV_UNIT * input->nranks);

    choice->epochs = 0;
    choice->kernel = MSCCLPP_KERNEL_ALLREDUCE_SCRATCH;
    /* A block's tile should hold at least one unit for each of its threads. */
    return tile_units != 0 &&
           mscclpp_algo_grid(input, (units + input->nranks - 1) / input->nranks, MAX_BLOCKS, tile_units, false, choice);
}

const mscclpp_algo_t mscclpp_algo_allreduce_scratch = {
    .name = "scratch",
    .description = "the zero-copy algorithm on copies in the team's scratch, tile by tile",
    .shape = shape,
};
