/* How the all-reduce by copy engines (mca/common/engine/engine.h) divides a message. */
#ifndef MCA_COMMON_ALGO_SHAPE_ENGINE_PLAN_H
#define MCA_COMMON_ALGO_SHAPE_ENGINE_PLAN_H

#include "mca/common/algo/algo.h"

/*
 * The message is divided into shards, one for each rank, which owns it. Each shard is divided into chunks; the last
 * chunks may be shorter or empty. Both sizes are multiples of MSCCLPP_DEV_ENGINE_GRAIN, and equal on all ranks.
 */
typedef struct {
    uint64_t shard;  /* size of a shard in bytes */
    uint64_t chunk;  /* size of a chunk in bytes */
    uint64_t chunks; /* number of chunks of a shard, at least 1 */
} mscclpp_engine_plan_t;

/*
 * Fills in the plan for at least two ranks. Returns false if the message is empty, or if the slots are too small for
 * any chunk. No side effects.
 */
bool mscclpp_engine_plan(uint64_t bytes, uint32_t nranks, const mscclpp_protocol_t *protocol,
                         mscclpp_engine_plan_t *plan_p);

/*
 * Returns the size in bytes of the largest chunk that the slots of a team can contain and the parameter engine_chunk
 * allows; 0 if not even one grain fits. No side effects.
 */
uint64_t mscclpp_engine_chunk_max(uint32_t nranks, const mscclpp_protocol_t *protocol);

#endif
