#include "mca/common/algo/shape/engine_plan.h"

#include "device/types/reduce.h"
#include "mca/common/base/numbers.h"

#define MIB ((uint64_t)1024 * 1024)

/*
 * The preferred number of chunks of a shard, and the minimum size of a chunk in bytes. Each copy costs the engine a
 * pause, so there are only two chunks: the result of the first returns while the second is reduced. A shard has more
 * chunks if two do not fit into the slots, and fewer if they would be too small.
 */
#define CHUNKS_WANTED 2u
#define CHUNK_MIN MIB

uint64_t mscclpp_engine_max_chunk(uint32_t nranks, const mscclpp_protocol_t *protocol)
{
    const uint64_t user_chunk = mscclpp_round_up(protocol->engine_chunk, MSCCLPP_DEV_ENGINE_GRAIN);
    const uint64_t slots = (uint64_t)(nranks - 1) * MSCCLPP_DEV_ENGINE_DEPTH;
    const uint64_t slots_bytes =
        protocol->engine_scratch - mscclpp_min(protocol->engine_scratch, MSCCLPP_DEV_ENGINE_SLOTS);
    const uint64_t slot_bytes = mscclpp_round_down(slots_bytes / slots, MSCCLPP_DEV_ENGINE_GRAIN);

    return user_chunk != 0 ? mscclpp_min(user_chunk, slot_bytes) : slot_bytes;
}

/*
 * A chunk size that the user has set is used as it is, up to the size of a slot. Otherwise the shard is divided into
 * about CHUNKS_WANTED equal chunks of at least CHUNK_MIN bytes each, if a slot has room for so many.
 */
bool mscclpp_engine_make_plan(uint64_t bytes, uint32_t nranks, const mscclpp_protocol_t *protocol,
                              mscclpp_engine_plan_t *plan_p)
{
    const uint64_t largest_chunk = mscclpp_engine_max_chunk(nranks, protocol);
    mscclpp_engine_plan_t plan;

    if (largest_chunk == 0 || bytes == 0) {
        return false;
    }
    plan.shard = mscclpp_round_up(mscclpp_divide_up(bytes, nranks), MSCCLPP_DEV_ENGINE_GRAIN);
    plan.chunk = largest_chunk;
    if (protocol->engine_chunk == 0) {
        const uint64_t chunks = mscclpp_max(mscclpp_divide_up(plan.shard, largest_chunk), CHUNKS_WANTED);

        plan.chunk = mscclpp_round_up(mscclpp_divide_up(plan.shard, chunks), MSCCLPP_DEV_ENGINE_GRAIN);
        if (plan.chunk < CHUNK_MIN && CHUNK_MIN < largest_chunk) {
            plan.chunk = CHUNK_MIN;
        }
    }
    plan.chunks = mscclpp_divide_up(plan.shard, plan.chunk);
    *plan_p = plan;
    return true;
}
