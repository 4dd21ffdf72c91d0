/* Host side of the all-reduce through the team's scratch (device/kern/allreduce/allreduce_scratch.h). */
#include "mca/common/algo/algo.h"
#include "mca/common/base/numbers.h"

/* Enough to fill the links, and few enough that kernels of several communicators fit on a GPU at once. */
#define MAX_BLOCKS 32u

/*
 * Chooses the kernel and its grid, in which each thread has at least one unit of a tile. Returns false if the tile of a
 * single block has fewer units than the smallest block has threads: a warp on the GPU, one thread on the twin.
 */
static bool shape(const mscclpp_select_input_t *input, mscclpp_choice_t *choice)
{
    uint64_t units = mscclpp_divide_up(input->bytes, MSCCLPP_DEV_UNIT);
    /* The bulk area holds a tile of operands and a tile of results for the shard of each rank. */
    uint64_t tile_units = input->layout->bulk_size / (2 * (uint64_t)MSCCLPP_DEV_UNIT * input->nranks);

    choice->epochs = 0;
    choice->kernel = MSCCLPP_KERNEL_ALLREDUCE_SCRATCH;
    return mscclpp_algo_choose_grid(input, mscclpp_divide_up(units, input->nranks), MAX_BLOCKS, tile_units,
                                    MSCCLPP_LARGE_BLOCKS, choice);
}

const mscclpp_algo_t mscclpp_algo_allreduce_scratch = {
    .name = "scratch",
    .description = "the zero-copy algorithm on copies in the team's scratch, tile by tile",
    .shape = shape,
};
