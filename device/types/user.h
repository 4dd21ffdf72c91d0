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

/* A report's words: 1 + the rank that a wait gave up on; then a misuse, its rank, offset, bytes and limit. */
#define MSCCLPP_DEV_USER_REPORT_WORDS 8
enum { MSCCLPP_DEV_USER_MEMORY = 1, MSCCLPP_DEV_USER_BLOCK, MSCCLPP_DEV_USER_SIZE };

/* What waits in kernels check, and where they report. Addresses are valid on the device. */
typedef struct {
    uint32_t rank;
    uint32_t ranks;
    const uint64_t *abort; /* not 0: every wait ends */
    uint64_t *report;      /* MSCCLPP_DEV_USER_REPORT_WORDS words */
    uint64_t timeout_ns;   /* a wait gives up after this time; 0: it never does */
} mscclpp_dev_user_watch_t;

/* Memory of all ranks. */
typedef struct {
    mscclpp_dev_user_watch_t watch;
    char *own;
    uint64_t bytes;
    char *const *peers;    /* device memory: start of each rank's memory, by rank */
    const uint64_t *sizes; /* device memory: bytes of each rank's memory, by rank */
} mscclpp_dev_user_memory_t;

/* A channel of either kind, and the bytes that it reaches at either end. */
typedef struct {
    mscclpp_dev_user_watch_t watch;
    uint32_t peer;
    uint32_t number;
    bool is_port;
    uint64_t local_bytes;
    uint64_t remote_bytes;
    mscclpp_dev_memory_channel_t memory;
    mscclpp_dev_port_channel_t port;
} mscclpp_dev_user_channel_t;

/* A block's part of a room's state. */
typedef struct {
    uint64_t barriers; /* that the block has passed */
    uint64_t epoch;    /* flag of its last packets */
    uint64_t failed;   /* not 0: a wait of the block gave up */
    uint64_t reserved[5];
} mscclpp_dev_user_room_state_t;

/* Memory for barriers and small all-reduces of blocks. Each rank's area has `stride` bytes for each block. */
typedef struct {
    mscclpp_dev_user_watch_t watch;
    uint32_t blocks;
    uint32_t epoch_limit;
    char *const *areas; /* device memory: start of each rank's area, by rank */
    mscclpp_dev_user_room_state_t *state;
    uint64_t stride;
    uint64_t packets;  /* offset of the rows of packets in a block's part of an area, bytes */
    uint64_t capacity; /* packets of 16 bytes in one row */
} mscclpp_dev_user_room_t;

#endif
