#include "mca/common/algo/shape/engine_plan.h"

#include "device/types/reduce.h"

#define MIB ((uint64_t)1024 * 1024)

/*
 * The number of chunks into which a shard is divided, and the minimum size of a chunk in bytes. Each copy costs the
 * engine a pause, so there are only two chunks: the result of the first returns while the second is reduced. There are
 * more if two do not fit into the slots, and fewer if they would be too small.
 */
#define CHUNKS_WANTED 2u
#define CHUNK_MIN MIB

static uint64_t round_up(uint64_t value, uint64_t grain)
{
    return (value + grain - 1) / grain * grain;
}

uint64_t mscclpp_engine_chunk_max(uint32_t nranks, const mscclpp_protocol_t *protocol)
{
    const uint64_t wanted = round_up(protocol->engine_chunk, MSCCLPP_DEV_ENGINE_GRAIN);
    uint64_t slot_bytes = protocol->engine_scratch;

    slot_bytes = slot_bytes > MSCCLPP_DEV_ENGINE_SLOTS ? slot_bytes - MSCCLPP_DEV_ENGINE_SLOTS : 0;
    slot_bytes /= (uint64_t)(nranks - 1) * MSCCLPP_DEV_ENGINE_DEPTH;
    slot_bytes = slot_bytes / MSCCLPP_DEV_ENGINE_GRAIN * MSCCLPP_DEV_ENGINE_GRAIN;
    return wanted != 0 && wanted < slot_bytes ? wanted : slot_bytes;
}

/*
 * Fills in the sizes of shards and chunks. A chunk size that the user has set is used as it is, up to the size of a
 * slot. Otherwise the shard is cut into about CHUNKS_WANTED equal chunks, which are not smaller than CHUNK_MIN if a
 * slot can hold that many bytes. Returns false if the message is empty or a slot cannot hold any chunk.
 */
bool mscclpp_engine_plan(uint64_t bytes, uint32_t nranks, const mscclpp_protocol_t *protocol,
                         mscclpp_engine_plan_t *plan_p)
{
    const uint64_t largest_chunk = mscclpp_engine_chunk_max(nranks, protocol);
    mscclpp_engine_plan_t plan;

    if (largest_chunk == 0 || bytes == 0) {
        return false;
    }
    plan.shard = round_up((bytes + nranks - 1) / nranks, MSCCLPP_DEV_ENGINE_GRAIN);
    plan.chunk = largest_chunk;
    if (protocol->engine_chunk == 0) {
        const uint64_t fewest_chunks = (plan.shard + largest_chunk - 1) / largest_chunk;
        const uint64_t chunks = fewest_chunks < CHUNKS_WANTED ? CHUNKS_WANTED : fewest_chunks;
        const uint64_t chunk = round_up((plan.shard + chunks - 1) / chunks, MSCCLPP_DEV_ENGINE_GRAIN);

        plan.chunk = chunk < CHUNK_MIN && CHUNK_MIN < largest_chunk ? CHUNK_MIN : chunk;
    }
    plan.chunks = (plan.shard + plan.chunk - 1) / plan.chunk;
    *plan_p = plan;
    return true;
}
