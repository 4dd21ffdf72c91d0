/* Host side of the all-reduce by copy engines: when it can serve. */
#include "device/types/reduce.h"
#include "mca/common/algo/shape/engine_plan.h"

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
    uint64_t chunk_bytes;

    if (!input->may_use_engines || input->nranks < 2 ||
        !mscclpp_engine_plan(input->bytes, input->nranks, input->protocol, &plan)) {
        return false;
    }
    chunk_bytes = plan.chunk < plan.shard ? plan.chunk : plan.shard;
    choice->epochs = 0;
    choice->kernel = MSCCLPP_KERNEL_REDUCE_CHUNK;
    return mscclpp_algo_grid(input, chunk_bytes / MSCCLPP_DEV_UNIT, MAX_BLOCKS, 0, false, choice);
}

const mscclpp_algo_t mscclpp_algo_allreduce_engines = {
    .name = "engines",
    .description = "reduce-scatter and all-gather by copy engines, with a kernel that only reduces",
    .maps_buffers = true,
    .uses_engines = true,
    .fallback = &mscclpp_algo_allreduce_zerocopy,
    .shape = shape,
};
