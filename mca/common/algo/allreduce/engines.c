/* Host side of the all-reduce by copy engines: which calls they can serve, and the grid of the kernel that reduces. */
#include "device/types/reduce.h"
#include "mca/common/algo/shape/engine_plan.h"
#include "mca/common/base/numbers.h"

/*
 * The most blocks of the kernel that reduces. Reducing a chunk takes a fraction of the time of its transfers, so few
 * blocks are enough, and most multiprocessors stay free for the application.
 */
#define MAX_BLOCKS 24u

/*
 * Chooses the kernel that reduces one chunk, and its grid. Returns false if copy engines cannot serve the call, if
 * there is only one rank, if the message is empty, or if the slots are too small for any chunk.
 */
static bool shape(const mscclpp_select_input_t *input, mscclpp_choice_t *choice)
{
    mscclpp_engine_plan_t plan;

    if (!input->may_use_engines || input->nranks < 2 ||
        !mscclpp_engine_make_plan(input->bytes, input->nranks, input->protocol, &plan)) {
        return false;
    }
    choice->epochs = 0;
    choice->kernel = MSCCLPP_KERNEL_REDUCE_CHUNK;
    return mscclpp_algo_choose_grid(input, mscclpp_min(plan.chunk, plan.shard) / MSCCLPP_DEV_UNIT, MAX_BLOCKS,
                                    MSCCLPP_ANY_CAPACITY, MSCCLPP_LARGE_BLOCKS, choice);
}

const mscclpp_algo_t mscclpp_algo_allreduce_engines = {
    .name = "engines",
    .description = "reduce-scatter and all-gather by copy engines, with a kernel that only reduces",
    .maps_buffers = true,
    .uses_engines = true,
    .fallback = &mscclpp_algo_allreduce_zerocopy,
    .shape = shape,
};
