/*
 * Handles of memory, channels and rooms, which the host gets from MPIX_Mscclpp_*_get_device and passes to kernels, by
 * value or in device memory. Their layout belongs to MPIX_MSCCLPP_DEVICE_ABI and never changes: a later library still
 * fills in this one. Programs do not touch the fields.
 */
#ifndef MPIX_INCLUDE_MPIX_MSCCLPP_TYPES_H
#define MPIX_INCLUDE_MPIX_MSCCLPP_TYPES_H

#if defined(__CUDACC_RTC__)
typedef unsigned int mpix_u32;
typedef unsigned long long mpix_u64;
typedef unsigned long long mpix_address_t;
#else
#include <stdint.h>
typedef uint32_t mpix_u32;
typedef uint64_t mpix_u64;
typedef uintptr_t mpix_address_t;
#endif

#define MPIX_MSCCLPP_DEVICE_ABI 1u

/* What all handles begin with. */
typedef struct {
    mpix_u32 abi;          /* MPIX_MSCCLPP_DEVICE_ABI that the handle is laid out for */
    mpix_u32 size;         /* of the handle, bytes */
    mpix_u32 rank;         /* of this process in the communicator */
    mpix_u32 ranks;        /* of the communicator */
    const mpix_u64 *abort; /* host memory: not 0 makes all waits end */
    mpix_u64 *report;      /* host memory, MPIX_MSCCLPP_REPORT_WORDS words: why a kernel gave up */
    mpix_u64 timeout_ns;   /* a wait gives up after this time; 0: never */
} mpix_head_t;

/* The words of a report. The first misuse of a kernel fills in all but the first. */
enum {
    MPIX_MSCCLPP_REPORT_LATE,   /* 1 more than the rank that a wait gave up on */
    MPIX_MSCCLPP_REPORT_MISUSE, /* one of those below */
    MPIX_MSCCLPP_REPORT_RANK,   /* whose memory, or room, an access does not fit into */
    MPIX_MSCCLPP_REPORT_OFFSET, /* where the access begins, bytes; or the block's number */
    MPIX_MSCCLPP_REPORT_BYTES,  /* how many bytes it has */
    MPIX_MSCCLPP_REPORT_LIMIT,  /* how many bytes, or blocks, there are */
    MPIX_MSCCLPP_REPORT_WORDS = 8
};
/* What a kernel has done wrong. */
enum {
    MPIX_MSCCLPP_MISUSE_MEMORY = 1, /* an access beyond the end of a rank's memory */
    MPIX_MSCCLPP_MISUSE_BLOCK,      /* a block whose number a room does not have */
    MPIX_MSCCLPP_MISUSE_SIZE        /* an all-reduce of a size, type or operation that a room does not serve */
};

/* Registered memory of all ranks. */
typedef struct {
    mpix_head_t head;
    char *own;             /* where own memory begins */
    mpix_u64 bytes;        /* of own memory */
    char *const *peers;    /* device memory: where each rank's memory begins */
    const mpix_u64 *sizes; /* device memory: of each rank's memory, bytes */
    mpix_u64 reserved[4];
} mpix_memory_t;

/*
 * A memory channel: loads and stores in a peer's memory, and a semaphore for each direction. All counts begin at 0 and
 * only grow.
 */
typedef struct {
    mpix_head_t head;
    mpix_u32 peer;
    mpix_u32 number; /* in the array of channels */
    char *local;     /* own memory */
    char *remote;    /* the peer's memory */
    mpix_u64 local_bytes;
    mpix_u64 remote_bytes;
    const mpix_u64 *inbound;  /* own memory: signals of the peer */
    mpix_u64 *remote_inbound; /* the peer's counterpart */
    mpix_u64 *expected;       /* own memory: signals taken; kept between kernels */
    mpix_u64 reserved[4];
} mpix_memory_channel_t;

/* A request to the CPU (mpix_mscclpp/port.h). */
typedef struct {
    mpix_u64 word[2];
} mpix_trigger_t;

/* A port channel: requests to the CPU, which moves the bytes. All counts begin at 0 and only grow. */
typedef struct {
    mpix_head_t head;
    mpix_u32 peer;
    mpix_u32 number;         /* in the proxy */
    mpix_trigger_t *ring;    /* of triggers; all channels of a proxy share it */
    mpix_u64 ring_size;      /* slots, a power of two */
    mpix_u64 *ring_head;     /* the next position to push at */
    mpix_u64 *tail_seen;     /* `tail` as it was last read */
    const mpix_u64 *tail;    /* host memory: the next position that the CPU takes */
    const mpix_u64 *flushed; /* host memory: triggers of this channel below this position are flushed */
    const mpix_u64 *inbound; /* signals of the peer */
    mpix_u64 *expected;      /* signals taken; kept between kernels */
    mpix_u64 local_bytes;
    mpix_u64 remote_bytes;
    mpix_u64 reserved[4];
} mpix_port_channel_t;

/* A block's part of a room's state, in own device memory. */
typedef struct {
    mpix_u64 barriers; /* passed so far */
    mpix_u64 epoch;    /* of the last all-reduce: the flag of its packets */
    mpix_u64 failed;   /* not 0: a call has failed, and all further ones fail */
    mpix_u64 reserved[5];
} mpix_room_state_t;

/*
 * Memory for barriers and small all-reduces of blocks with the same number on all ranks. A rank's area has `stride`
 * bytes for each block: a word for each rank, then, from `packets` on, two halves of a row of packets for each rank.
 */
typedef struct {
    mpix_head_t head;
    mpix_u32 blocks;          /* how many blocks have a part in the room */
    mpix_u32 epoch_limit;     /* the flag after which packets are cleared and flags begin anew */
    char *const *areas;       /* device memory: where each rank's area begins */
    mpix_room_state_t *state; /* of each block */
    mpix_u64 stride;          /* bytes of a block's part of an area */
    mpix_u64 packets;         /* bytes before the packets in such a part */
    mpix_u64 capacity;        /* packets in a row */
    mpix_u64 reserved[4];
} mpix_room_t;

/* Marks of a request's partitions, in memory of the host. All counts begin at 0 and only grow. */
typedef struct {
    mpix_head_t head;
    mpix_u64 *marks;      /* of each partition: how often it was marked ready */
    const mpix_u64 *done; /* of each partition: how many of these executions have ended */
    mpix_u32 partitions;
    mpix_u32 reserved_word;
    mpix_u64 reserved[4];
} mpix_partitions_t;

#endif
