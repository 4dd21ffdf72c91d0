/*
 * What the host library hands out for kernels of applications: memory and channels of a communicator. libmpix_mscclpp
 * copies these into the handles of its installed headers, whose layouts do not change.
 */
#ifndef MSCCLPP_DEVICE_TYPES_USER_H
#define MSCCLPP_DEVICE_TYPES_USER_H

#include <stdbool.h>
#include <stdint.h>

#include "device/types/memory_channel.h"
#include "device/types/port_channel.h"

/*
 * Words of a report: 1 + the rank that a wait gave up on; then the kind of a misuse, its rank, offset, bytes and limit.
 * The rest is unused. A word is 0 as long as there is nothing to report.
 */
#define MSCCLPP_DEV_USER_REPORT_WORDS 8

/*
 * Kinds of misuse. MEMORY: bytes beyond a rank's memory or a request's partitions. BLOCK: a block beyond those of a
 * room. SIZE: an all-reduce too large for a room, or of an unknown type or operation. ALIGNMENT: an addition at an
 * offset that is not a multiple of 8.
 */
enum { MSCCLPP_DEV_USER_MEMORY = 1, MSCCLPP_DEV_USER_BLOCK, MSCCLPP_DEV_USER_SIZE, MSCCLPP_DEV_USER_ALIGNMENT };

/* What waits in kernels check, and where they report. Addresses are valid on the device. */
typedef struct {
    uint32_t rank;         /* this rank */
    uint32_t ranks;        /* number of ranks */
    const uint64_t *abort; /* not 0: every wait ends */
    uint64_t *report;      /* MSCCLPP_DEV_USER_REPORT_WORDS words */
    uint64_t timeout_ns;   /* a wait gives up after this time; 0: it never does */
} mscclpp_dev_user_watch_t;

/* Memory of all ranks. */
typedef struct {
    mscclpp_dev_user_watch_t watch;
    char *own;             /* this rank's memory */
    uint64_t bytes;        /* its size */
    char *const *peers;    /* device memory: start of each rank's memory, by rank; NULL for ranks of other nodes */
    const uint64_t *sizes; /* device memory: bytes of each rank's memory, by rank */
} mscclpp_dev_user_memory_t;

/* A channel of either kind. Only one of `memory` and `port` is used, as `is_port` says; the other one is zeroed. */
typedef struct {
    mscclpp_dev_user_watch_t watch;
    uint32_t peer;         /* rank */
    uint32_t number;       /* of a port channel: its number in the proxy; else its index in its set of channels */
    bool is_port;          /* it is a port channel */
    uint64_t local_bytes;  /* of this rank's memory that it reaches */
    uint64_t remote_bytes; /* of the peer's memory that it reaches */
    mscclpp_dev_memory_channel_t memory;
    mscclpp_dev_port_channel_t port;
} mscclpp_dev_user_channel_t;

/* A block's part of a room's state. */
typedef struct {
    uint64_t barriers; /* that the block has passed */
    uint64_t epoch;    /* flag of its last packets */
    uint64_t failed;   /* not 0: a call of the block has failed */
    uint64_t reserved[5];
} mscclpp_dev_user_room_state_t;

/* Memory for barriers and small all-reduces of blocks. Each rank's area has `stride` bytes for each block. */
typedef struct {
    mscclpp_dev_user_watch_t watch;
    uint32_t blocks;                      /* the most blocks of a kernel that uses the room */
    uint32_t epoch_limit;                 /* all-reduces after which packets are cleared and flags begin again */
    char *const *areas;                   /* device memory: start of each rank's area, by rank */
    mscclpp_dev_user_room_state_t *state; /* device memory: one for each block */
    uint64_t stride;                      /* bytes of an area that belong to one block */
    uint64_t packets;                     /* offset of the rows of packets in a block's part of an area, bytes */
    uint64_t capacity;                    /* packets of 16 bytes in one row */
} mscclpp_dev_user_room_t;

#endif
