/*
 * Handles of memory, channels and rooms, which the host gets from MPIX_Mscclpp_*_get_device and passes to kernels, by
 * value or in device memory. Their layout belongs to MPIX_MSCCLPP_DEVICE_ABI and never changes: a later library can
 * still write this layout. Programs must not use the fields.
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

/* The head with which all handles begin. */
typedef struct {
    mpix_u32 abi;          /* MPIX_MSCCLPP_DEVICE_ABI of the handle's layout */
    mpix_u32 size;         /* bytes of the handle */
    mpix_u32 rank;         /* rank of this process in the communicator */
    mpix_u32 ranks;        /* number of ranks of the communicator */
    const mpix_u64 *abort; /* host memory: a value other than 0 ends all waits */
    mpix_u64 *report;      /* host memory, MPIX_MSCCLPP_REPORT_WORDS words: why a kernel has failed */
    mpix_u64 timeout_ns;   /* a wait fails after this time; 0: never */
} mpix_head_t;

/* The words of a report. The first misuse of a kernel fills in all words but the first. */
enum {
    MPIX_MSCCLPP_REPORT_LATE,   /* 1 more than the rank for which a wait failed */
    MPIX_MSCCLPP_REPORT_MISUSE, /* MPIX_MSCCLPP_MISUSE_... */
    MPIX_MSCCLPP_REPORT_RANK,   /* rank whose memory or room is too small for the access */
    MPIX_MSCCLPP_REPORT_OFFSET, /* where the access begins, bytes; or the number of the block or of the partition */
    MPIX_MSCCLPP_REPORT_BYTES,  /* number of bytes of the access */
    MPIX_MSCCLPP_REPORT_LIMIT,  /* number of bytes of the memory, of blocks of the room, or of partitions */
    MPIX_MSCCLPP_REPORT_WORDS = 8
};
/* The kinds of misuse by a kernel. */
enum {
    MPIX_MSCCLPP_MISUSE_MEMORY = 1, /* an access beyond the end of a rank's memory, or of a request's partitions */
    MPIX_MSCCLPP_MISUSE_BLOCK,      /* a block whose number a room does not have */
    MPIX_MSCCLPP_MISUSE_SIZE,       /* an all-reduce of a size, type or operation that a room does not serve */
    MPIX_MSCCLPP_MISUSE_ALIGNMENT   /* an addition at an offset that is not a multiple of 8 */
};

/* Registered memory of all ranks. */
typedef struct {
    mpix_head_t head;
    char *own;             /* address of own memory */
    mpix_u64 bytes;        /* size of own memory */
    char *const *peers;    /* device memory: address of each rank's memory */
    const mpix_u64 *sizes; /* device memory: bytes of each rank's memory */
    mpix_u64 reserved[4];
} mpix_memory_t;

/*
 * A memory channel: loads and stores in a peer's memory, and a semaphore for each direction. All counts begin at 0 and
 * only grow.
 */
typedef struct {
    mpix_head_t head;
    mpix_u32 peer;
    mpix_u32 number; /* index in the array of channels */
    char *local;     /* own memory */
    char *remote;    /* the peer's memory */
    mpix_u64 local_bytes;
    mpix_u64 remote_bytes;
    const mpix_u64 *inbound;  /* own memory: signals of the peer */
    mpix_u64 *remote_inbound; /* the peer's word of the same kind */
    mpix_u64 *expected;       /* own memory: signals received so far; kept between kernels */
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
    mpix_u32 number;         /* number in the proxy */
    mpix_trigger_t *ring;    /* the triggers; all channels of a proxy share the ring */
    mpix_u64 ring_size;      /* slots, a power of two */
    mpix_u64 *ring_head;     /* the position of the next push */
    mpix_u64 *tail_seen;     /* the value of `tail` that was last read */
    const mpix_u64 *tail;    /* host memory: the next position that the CPU takes */
    const mpix_u64 *flushed; /* host memory: triggers of this channel below this position are flushed */
    const mpix_u64 *inbound; /* signals of the peer */
    mpix_u64 *expected;      /* signals received so far; kept between kernels */
    mpix_u64 local_bytes;
    mpix_u64 remote_bytes;
    mpix_u64 reserved[4];
} mpix_port_channel_t;

/* A block's part of a room's state, in own device memory. */
typedef struct {
    mpix_u64 barriers; /* number of barriers so far */
    mpix_u64 epoch;    /* number of the last all-reduce, which is the flag of its packets */
    mpix_u64 failed;   /* not 0: a call has failed, and all further calls fail */
    mpix_u64 reserved[5];
} mpix_room_state_t;

/*
 * Memory for barriers and small all-reduces of blocks with the same number on all ranks. A rank's area has `stride`
 * bytes for each block. There is a word for each rank, and then, from `packets` on, two halves of a row of packets for
 * each rank.
 */
typedef struct {
    mpix_head_t head;
    mpix_u32 blocks;          /* how many blocks have a part in the room */
    mpix_u32 epoch_limit;     /* the flag after which packets are cleared and flags begin at 1 again */
    char *const *areas;       /* device memory: address of each rank's area */
    mpix_room_state_t *state; /* [block] */
    mpix_u64 stride;          /* bytes of a block's part of an area */
    mpix_u64 packets;         /* bytes before the packets in such a part */
    mpix_u64 capacity;        /* number of packets in a row */
    mpix_u64 reserved[4];
} mpix_room_t;

/* Marks of a request's partitions, in memory of the host. All counts begin at 0 and only grow. */
typedef struct {
    mpix_head_t head;
    mpix_u64 *marks;      /* [partition]: how often the partition was marked ready */
    const mpix_u64 *done; /* [partition]: how many of these executions have ended */
    mpix_u32 partitions;
    mpix_u32 reserved_word;
    mpix_u64 reserved[4];
} mpix_partitions_t;

#endif
