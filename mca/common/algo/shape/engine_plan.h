/* How the all-reduce by copy engines (mca/common/engine/engine.h) cuts a message. */
#ifndef MCA_COMMON_ALGO_SHAPE_ENGINE_PLAN_H
#define MCA_COMMON_ALGO_SHAPE_ENGINE_PLAN_H

#include "mca/common/algo/algo.h"

/*
 * The message is cut into a shard for each rank, its owner, and each shard into chunks; the last ones may be shorter or
 * empty. Both are multiples of MSCCLPP_DEV_ENGINE_GRAIN, and equal on all ranks.
 */
typedef struct {
    uint64_t shard;  /* bytes */
    uint64_t chunk;  /* bytes */
    uint64_t chunks; /* of a shard, 1 at least */
} mscclpp_engine_plan_t;

/* Pure. False if engines cannot carry such a message. Two ranks at least. */
bool mscclpp_engine_plan(uint64_t bytes, uint32_t nranks, const mscclpp_protocol_t *protocol,
                         mscclpp_engine_plan_t *plan_p);

/* Bytes of the largest chunk that a team's slots hold; 0: there is no room for any. Pure. */
uint64_t mscclpp_engine_chunk_max(uint32_t nranks, const mscclpp_protocol_t *protocol);

#endif
