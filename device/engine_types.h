/*
 * What the all-reduce by copy engines keeps in device memory, and the arguments of the kernel that reduces for it
 * (device/kern/reduce_chunks.h).
 */
#ifndef MSCCLPP_DEVICE_ENGINE_TYPES_H
#define MSCCLPP_DEVICE_ENGINE_TYPES_H

#include "device/launch_types.h"

/*
 * Slots for each sender. While one is being filled a second one waits in the sender's stream, a third is being reduced,
 * and the news that a fourth is free is under way.
 */
#define MSCCLPP_DEV_ENGINE_DEPTH 4

/* Chunks of one call at most. */
#define MSCCLPP_DEV_ENGINE_VALUES 4096

/*
 * Head of a rank's engine memory, which its peers map. Flags count chunks from 1 over the whole life of the team and
 * never go back; a rank's copy engines raise those of the peers, and `left`, by copies from the own `values`.
 */
typedef struct {
    uint64_t arrived[MSCCLPP_DEV_MAX_RANKS];   /* by rank: chunks of its operand in its slots here */
    uint64_t gathered[MSCCLPP_DEV_MAX_RANKS];  /* by rank: chunks of its result in the own output */
    uint64_t left[MSCCLPP_DEV_MAX_RANKS];      /* by rank: chunks of the own result that were read here for it */
    uint64_t tested[MSCCLPP_DEV_MAX_RANKS];    /* by rank: what it wrote while the memory was set up */
    uint32_t ticket[MSCCLPP_DEV_ENGINE_DEPTH]; /* by slot: blocks of the running kernel that have reduced it */
    uint32_t pad[16 - MSCCLPP_DEV_ENGINE_DEPTH];
    uint64_t values[MSCCLPP_DEV_ENGINE_VALUES]; /* consecutive numbers; rewritten by the host when used up */
} mscclpp_dev_engine_t;

/* Where the slots begin, in bytes. */
#define MSCCLPP_DEV_ENGINE_SLOTS (((uint64_t)sizeof(mscclpp_dev_engine_t) + 4095) / 4096 * 4096)

/* Where chunk `k` of `sender` lies in the memory of `owner`, in bytes; chunks of a call have `chunk_` bytes at most. */
#define MSCCLPP_DEV_ENGINE_SLOT(sender_, owner_, k_, chunk_)                                                           \
    (MSCCLPP_DEV_ENGINE_SLOTS +                                                                                        \
     (((uint64_t)(sender_) - ((sender_) > (owner_))) * MSCCLPP_DEV_ENGINE_DEPTH + (k_) % MSCCLPP_DEV_ENGINE_DEPTH) *   \
         (chunk_))

/*
 * The message is cut into a shard for each rank, its owner, and each shard into chunks; the last ones may be shorter or
 * empty. Both are multiples of MSCCLPP_DEV_ENGINE_GRAIN, and equal on all ranks.
 */
typedef struct {
    mscclpp_dev_args_t common;
    mscclpp_dev_engine_t *engine; /* the own one */
    uint64_t *reduced;            /* mapped host memory: chunks of the own shard that are in the own output */
    uint64_t shard;               /* bytes */
    uint64_t chunk;               /* bytes */
    uint64_t chunks;              /* of a shard */
    uint64_t base;                /* chunks of all earlier calls */
} mscclpp_dev_reduce_args_t;

/* Bytes; what copy engines move without splitting lines. */
#define MSCCLPP_DEV_ENGINE_GRAIN 128

#endif
