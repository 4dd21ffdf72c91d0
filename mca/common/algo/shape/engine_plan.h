/* How the all-reduce by copy engines (mca/common/engine/engine.h) divides a message. */
#ifndef MCA_COMMON_ALGO_SHAPE_ENGINE_PLAN_H
#define MCA_COMMON_ALGO_SHAPE_ENGINE_PLAN_H

#include "mca/common/algo/algo.h"

/*
 * The message is divided into shards. Each rank owns one of them. A shard is divided into chunks; the last chunks may
 * be shorter or empty. Both sizes are multiples of MSCCLPP_DEV_ENGINE_GRAIN, and equal on all ranks.
 */
typedef struct {
    uint64_t shard;  /* size of a shard in bytes */
    uint64_t chunk;  /* size of a chunk in bytes */
    uint64_t chunks; /* number of chunks of a shard, at least 1 */
} mscclpp_engine_plan_t;

/*
 * Fills in the plan for a message of `bytes` bytes and at least two ranks. Returns false, with *plan_p unchanged, if
 * the message is empty, or if the slots are too small for any chunk. No other side effects.
 */
bool mscclpp_engine_make_plan(uint64_t bytes, uint32_t nranks, const mscclpp_protocol_t *protocol,
                              mscclpp_engine_plan_t *plan_p);

/*
 * Returns the size in bytes of the largest chunk that has room in a slot and that the parameter engine_chunk allows.
 * Returns 0 if a slot has no room for one grain. `nranks` is at least 2. No side effects.
 */
uint64_t mscclpp_engine_max_chunk(uint32_t nranks, const mscclpp_protocol_t *protocol);

#endif
