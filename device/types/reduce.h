/*
 * What the all-reduce by copy engines keeps in device memory, and the arguments of the kernel that reduces for it
 * (device/kern/allreduce/reduce_chunk.h).
 */
#ifndef MSCCLPP_DEVICE_TYPES_REDUCE_H
#define MSCCLPP_DEVICE_TYPES_REDUCE_H

#include "device/types/launch.h"

/* Slots for each sender: one is filled while the other is reduced. */
#define MSCCLPP_DEV_ENGINE_DEPTH 2

/* Bytes. Copy engines move multiples of this without splitting cache lines. */
#define MSCCLPP_DEV_ENGINE_GRAIN 128

/* Head of a rank's engine memory, which its peers map. */
typedef struct {
    uint64_t tested[MSCCLPP_DEV_MAX_RANKS]; /* by rank: the word that that rank wrote at set-up, to test its mapping */
    uint64_t words[MSCCLPP_DEV_MAX_RANKS];  /* by rank: the word that this rank writes to that rank's `tested` */
} mscclpp_dev_engine_t;

/* Where the slots begin, in bytes. */
#define MSCCLPP_DEV_ENGINE_SLOTS (((uint64_t)sizeof(mscclpp_dev_engine_t) + 4095) / 4096 * 4096)

/* Arguments for one chunk: `in`, `out` and `bytes` of `common` are those of the chunk. */
typedef struct {
    mscclpp_dev_args_t common;
    const char *slots; /* the first peer's operand */
    uint64_t stride;   /* bytes from one peer's operand to the next one's */
} mscclpp_dev_reduce_args_t;

#endif
