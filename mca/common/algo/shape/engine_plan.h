/* How the all-reduce by copy engines (mca/common/engine/engine.h) cuts a message. */
#ifndef MCA_COMMON_ALGO_SHAPE_ENGINE_PLAN_H
#define MCA_COMMON_ALGO_SHAPE_ENGINE_PLAN_H

#include "mca/common/algo/algo.h"

/*
 * The message is cut into shards, one for each rank, which owns it. Each shard is cut into chunks; the last ones may be
 * shorter or empty. Both sizes are multiples of MSCCLPP_DEV_ENGINE_GRAIN, and equal on all ranks.
 */
typedef struct {
    uint64_t shard;  /* bytes of a shard */
    uint64_t chunk;  /* bytes of a chunk */
    uint64_t chunks; /* chunks of a shard, at least 1 */
} mscclpp_engine_plan_t;

/*
 * Fills in the plan for at least two ranks. False if the message is empty, or if the slots are too small for any chunk.
 * Pure.
 */
bool mscclpp_engine_plan(uint64_t bytes, uint32_t nranks, const mscclpp_protocol_t *protocol,
                         mscclpp_engine_plan_t *plan_p);

/*
 * Returns the largest chunk, in bytes, that a team's slots can hold and the parameter engine_chunk allows; 0 if not
 * even one grain fits. Pure.
 */
uint64_t mscclpp_engine_chunk_max(uint32_t nranks, const mscclpp_protocol_t *protocol);

#endif
