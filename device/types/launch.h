/* Plain structures shared by the host library and the kernels: arguments, state, mailbox, scratch layout. */
#ifndef MSCCLPP_DEVICE_TYPES_LAUNCH_H
#define MSCCLPP_DEVICE_TYPES_LAUNCH_H

#include <stddef.h>
#include <stdint.h>

#include "device/types/dtype.h"
#include "device/types/port_channel.h"

#define MSCCLPP_DEV_MAX_RANKS 64
#define MSCCLPP_DEV_MAX_BLOCKS 128
#define MSCCLPP_DEV_MAX_THREADS 512

/* Blocks that have memory channels. */
#define MSCCLPP_DEV_CHANNEL_BLOCKS 32

/* Messages are handled in units of 16 bytes; as packets each unit takes 32. */
#define MSCCLPP_DEV_UNIT 16
#define MSCCLPP_DEV_PACKET_UNIT 32

/* What an operation goes on from. */
typedef struct {
    uint64_t launches; /* operations that have ended */
    uint32_t epoch;    /* flag of the last packets sent; never 0 once used */
    uint32_t reserved; /* 0 */
} mscclpp_dev_progress_t;

/*
 * A rank's own counters, in its device memory. Kernels advance them; the host writes them only where it clears the
 * packet area. Kernels of one team run one after another; between two of them all fields but `failed`, `expected` and
 * `relay` are equal on all ranks.
 *
 * Of `progress` each block has a copy. It reads and writes no other one but those of blocks that have no part in the
 * operation, and so read none; so no block has to wait until others have read what it changes. After operations that a
 * lingering kernel was rung for, whose blocks read none, the first one writes all.
 */
typedef struct {
    mscclpp_dev_progress_t progress[MSCCLPP_DEV_MAX_BLOCKS]; /* all alike between two kernels */
    uint64_t barrier[MSCCLPP_DEV_MAX_BLOCKS];                /* barriers that each block has passed */
    uint64_t failed; /* not 0: an operation has given up, and so do all that follow it */
    uint64_t expected[MSCCLPP_DEV_CHANNEL_BLOCKS][MSCCLPP_DEV_MAX_RANKS]; /* of the semaphores of memory channels */
    uint64_t relay[8]; /* between blocks, 0 without a lingering kernel: types/linger.h */
    uint32_t leavers;  /* blocks of a lingering kernel that have left */
} mscclpp_dev_state_t;

/* Mapped host memory through which a team's kernels and its host speak. Cache lines of its own for each use. */
typedef struct {
    uint64_t abort; /* written by the host: not 0 makes every wait of a kernel end */
    uint64_t pad0[7];
    /*
     * Written by each block at the end of an operation: how many have ended with this one. In as few lines as they fit
     * in, since the host reads them all. Of operations for one block the others of a lingering kernel say nothing.
     */
    uint64_t ended[MSCCLPP_DEV_MAX_BLOCKS];
    uint64_t left; /* written by a lingering kernel that leaves: its number */
    uint64_t pad1[7];
    uint64_t failed; /* written by a kernel whose wait ended early: 1 + the rank that it waited for */
    uint64_t torn;   /* written by the probe of LL128: 1 if a line had its flag and was not whole */
    uint64_t pad2[6];
    uint64_t bell[8]; /* written by the host: types/linger.h */
} mscclpp_dev_mailbox_t;

/*
 * Head of a team's scratch, the memory that peers write. `arrived[b][r]` counts the barriers which block b of rank r
 * has entered, `signalled[b][r]` the signals of its memory channel. The packet area follows at
 * MSCCLPP_DEV_PACKET_OFFSET: two halves of `packet_half` bytes, in which nothing but packets of 8 and 16 bytes is ever
 * written. Behind it lie as many bytes as in one of them, in which nothing but LL128 is ever written. The bulk area
 * follows at `bulk_offset`, and at `put_offset` what nothing but pieces of one-shot puts are ever written to.
 */
typedef struct {
    uint64_t arrived[MSCCLPP_DEV_MAX_BLOCKS][MSCCLPP_DEV_MAX_RANKS];
    uint64_t signalled[MSCCLPP_DEV_CHANNEL_BLOCKS][MSCCLPP_DEV_MAX_RANKS];
} mscclpp_dev_sync_t;

#define MSCCLPP_DEV_PACKET_OFFSET ((uint64_t)sizeof(mscclpp_dev_sync_t))

/* Units that one slot of the packet area holds, by algorithm; equal on host and device since kernels divide alike. */
#define MSCCLPP_DEV_ONESHOT_CAPACITY(packet_half_, nranks_)                                                            \
    ((packet_half_) / ((uint64_t)(nranks_)*MSCCLPP_DEV_PACKET_UNIT))
#define MSCCLPP_DEV_TWOPHASE_CAPACITY(packet_half_, nranks_)                                                           \
    ((packet_half_) / (2 * (uint64_t)(nranks_)*MSCCLPP_DEV_PACKET_UNIT))

/*
 * LL128 goes in bundles: four lines of 128 bytes, which carry 30 units. A slot is for one sender and one phase, and a
 * receiver has none for itself; so many bundles go into one epoch at most.
 */
#define MSCCLPP_DEV_BUNDLE_UNITS 30u
#define MSCCLPP_DEV_BUNDLE_BYTES 512u
#define MSCCLPP_DEV_LL128_OFFSET(packet_half_) (MSCCLPP_DEV_PACKET_OFFSET + 2 * (uint64_t)(packet_half_))
#define MSCCLPP_DEV_LL128_CAPACITY(packet_half_, nranks_)                                                              \
    ((packet_half_) / (2 * ((uint64_t)(nranks_) < 2 ? 1 : (uint64_t)(nranks_)-1) * MSCCLPP_DEV_BUNDLE_BYTES))

/*
 * The put area: of each peer so many slots for each of so many blocks, kern/allreduce_oneshot_put.h says why. A slot
 * holds a piece of a message, and not more than what a block's threads have in their hands.
 */
#define MSCCLPP_DEV_PUT_BLOCKS 64u
#define MSCCLPP_DEV_PUT_SLOTS 4u
#define MSCCLPP_DEV_PUT_PIECE 4096u
#define MSCCLPP_DEV_PUT_ROOM(put_size_, nranks_)                                                                       \
    ((put_size_) / (((uint64_t)(nranks_) < 2 ? 1 : (uint64_t)(nranks_)-1) * MSCCLPP_DEV_PUT_BLOCKS *                   \
                    MSCCLPP_DEV_PUT_SLOTS * MSCCLPP_DEV_UNIT))
#define MSCCLPP_DEV_PUT_CAPACITY(put_size_, nranks_)                                                                   \
    (MSCCLPP_DEV_PUT_ROOM(put_size_, nranks_) < MSCCLPP_DEV_PUT_PIECE ? MSCCLPP_DEV_PUT_ROOM(put_size_, nranks_)       \
                                                                      : MSCCLPP_DEV_PUT_PIECE)

/*
 * How many units of a slot's message go into one epoch: all if they fit, else a multiple of the grid's threads, each
 * epoch then padded to full size. A grid never has more threads than a slot has units.
 */
#define MSCCLPP_DEV_PACKET_CHUNK(units_, capacity_, threads_)                                                          \
    ((units_) <= (capacity_) ? (units_) : (capacity_) / (threads_) * (threads_))

/* For whom a packet kernel's results are released when the host is told of its end. */
typedef enum {
    MSCCLPP_DEV_RELEASE_SYSTEM,
    MSCCLPP_DEV_RELEASE_DEVICE, /* they lie in the memory of the device that runs the kernel */
    MSCCLPP_DEV_RELEASE_STREAM /* nobody: who waits for them waits for the kernel's end in its stream. Such a kernel may
                                  become resident while the one before it in the stream still runs */
} mscclpp_dev_release_t;

/* What every kernel needs. Pointers are valid on the device that runs it. */
typedef struct {
    const void *in;
    void *out;      /* may equal `in`; no other overlap */
    uint64_t bytes; /* from the first byte of the first element to the last byte of the last one */
    uint32_t dtype; /* mscclpp_dtype_t */
    uint32_t op;    /* mscclpp_op_t */
    uint32_t rank;
    uint32_t nranks;
    uint64_t timeout_ns;        /* after so long a wait ends by itself; 0 for never */
    uint64_t packet_half;       /* bytes */
    uint32_t oneshot_capacity;  /* MSCCLPP_DEV_ONESHOT_CAPACITY of the two; a division less for each kernel */
    uint32_t twophase_capacity; /* MSCCLPP_DEV_TWOPHASE_CAPACITY, likewise */
    uint32_t ll128_capacity;    /* MSCCLPP_DEV_LL128_CAPACITY, likewise */
    uint32_t put_capacity;      /* MSCCLPP_DEV_PUT_CAPACITY, likewise */
    uint32_t release;           /* mscclpp_dev_release_t */
    uint64_t bulk_offset;       /* bytes from the scratch's start */
    uint64_t bulk_size;         /* bytes */
    uint64_t put_offset;        /* bytes from the scratch's start */
    mscclpp_dev_state_t *state;
    mscclpp_dev_mailbox_t *mailbox;
    uint64_t launches;                    /* this and the next two of a lingering kernel alone: its progress */
    uint32_t epoch;                       /* before the operation, and */
    uint32_t rung;                        /* not 0: the operation was rung for */
    char *scratch[MSCCLPP_DEV_MAX_RANKS]; /* every rank's, the own one included */
} mscclpp_dev_args_t;

/* What the zero-copy kernel needs besides: the peers' user buffers, mapped. */
typedef struct {
    mscclpp_dev_args_t common;
    const char *peer_in[MSCCLPP_DEV_MAX_RANKS];
    char *peer_out[MSCCLPP_DEV_MAX_RANKS];
} mscclpp_dev_zerocopy_args_t;

/* What the probe of LL128 needs besides: one block, of at most `ll128_capacity` warps. */
typedef struct {
    mscclpp_dev_args_t common;
    uint32_t rounds; /* as many epochs */
} mscclpp_dev_ll128_probe_args_t;

/* What the ring of memory channels needs besides. `bytes` is at most half of the bulk area. */
typedef struct {
    mscclpp_dev_args_t common;
    uint32_t rounds;
    uint32_t get; /* 0: put to the next rank, 1: get from it */
} mscclpp_dev_ring_args_t;

/*
 * What the ring of port channels needs besides. A region holds two slots of `slot_size` bytes and then one 64-bit word
 * a block; `bytes` is at most `slot_size`. The channels of block b are next[b] and previous[b].
 */
typedef struct {
    mscclpp_dev_args_t common;
    const mscclpp_dev_port_channel_t *next;     /* device memory */
    const mscclpp_dev_port_channel_t *previous; /* device memory */
    char *region;                               /* own: puts are made from it, and the previous rank puts into it */
    uint64_t slot_size;                         /* bytes, a multiple of MSCCLPP_DEV_UNIT */
    uint64_t add;   /* added to the next rank's word in each round, equal on all ranks; 0: none */
    uint64_t *late; /* own, one a block: rounds whose addition came after their signal */
    uint32_t rounds;
    uint32_t combined;  /* put, signal and flush as one trigger, or as three */
    uint32_t overwrite; /* after each flush the ends of what was put are overwritten */
} mscclpp_dev_port_ring_args_t;

/* What one rank of a pair does: kern/port_pair.h. */
enum {
    MSCCLPP_DEV_PAIR_FIRST,
    MSCCLPP_DEV_PAIR_SECOND,
    MSCCLPP_DEV_PAIR_SENDER,
    MSCCLPP_DEV_PAIR_RECEIVER,
    MSCCLPP_DEV_PAIR_BOTH
};

/* What a pair over a port channel needs besides; of the common arguments it reads `bytes`, those of one message. */
typedef struct {
    mscclpp_dev_args_t common;
    mscclpp_dev_port_channel_t channel;
    uint64_t from;        /* offset in the own region, bytes */
    uint64_t to;          /* offset in the peer's region, bytes */
    uint64_t *elapsed_ns; /* pinned host memory: what the rounds took, never 0 */
    uint32_t rounds;
    uint32_t puts; /* of a sender in each round, at least 1 */
    uint32_t role;
} mscclpp_dev_port_pair_args_t;

typedef enum {
    MSCCLPP_KERNEL_BARRIER,                  /* args: mscclpp_dev_args_t; every block meets its namesakes once */
    MSCCLPP_KERNEL_ALLREDUCE_ONESHOT,        /* args: mscclpp_dev_args_t; 16-byte packets */
    MSCCLPP_KERNEL_ALLREDUCE_ONESHOT_LL8,    /* args: mscclpp_dev_args_t; 8-byte packets */
    MSCCLPP_KERNEL_ALLREDUCE_TWOPHASE,       /* args: mscclpp_dev_args_t */
    MSCCLPP_KERNEL_ALLREDUCE_ZEROCOPY,       /* args: mscclpp_dev_zerocopy_args_t */
    MSCCLPP_KERNEL_ALLREDUCE_ZEROCOPY_SPLIT, /* args: mscclpp_dev_zerocopy_args_t */
    MSCCLPP_KERNEL_ALLREDUCE_SCRATCH,        /* args: mscclpp_dev_args_t */
    MSCCLPP_KERNEL_CHANNEL_RING,    /* args: mscclpp_dev_ring_args_t; at most MSCCLPP_DEV_CHANNEL_BLOCKS blocks */
    MSCCLPP_KERNEL_LINGER,          /* args: mscclpp_dev_linger_args_t (types/linger.h) */
    MSCCLPP_KERNEL_REDUCE_CHUNK,    /* args: mscclpp_dev_reduce_args_t of device/types/reduce.h */
    MSCCLPP_KERNEL_PORT_RING,       /* args: mscclpp_dev_port_ring_args_t */
    MSCCLPP_KERNEL_PORT_PAIR,       /* args: mscclpp_dev_port_pair_args_t; one block */
    MSCCLPP_KERNEL_ALLREDUCE_NODES, /* args: mscclpp_dev_nodes_args_t of device/types/nodes.h */
    MSCCLPP_KERNEL_ALLREDUCE_NODES_PACKETS,  /* args: likewise */
    MSCCLPP_KERNEL_ALLREDUCE_TWOPHASE_LL128, /* args: mscclpp_dev_args_t; 128-byte packets */
    MSCCLPP_KERNEL_LL128_PROBE,              /* args: mscclpp_dev_ll128_probe_args_t */
    MSCCLPP_KERNEL_ALLREDUCE_ONESHOT_PUT,    /* args: mscclpp_dev_args_t; MSCCLPP_DEV_PUT_BLOCKS blocks at most */
    MSCCLPP_KERNEL_COLL_MOVE_PACKETS,        /* args: mscclpp_dev_coll_args_t (device/types/coll.h) */
    MSCCLPP_KERNEL_COLL_COMBINE_PACKETS,     /* args: mscclpp_dev_coll_args_t */
    MSCCLPP_KERNEL_COLL_MOVE_BLOCKS,         /* args: mscclpp_dev_blocks_args_t; packets */
    MSCCLPP_KERNEL_COLL_COMBINE_BLOCKS,      /* args: mscclpp_dev_blocks_args_t; packets */
    MSCCLPP_KERNEL_COLL_TILES,               /* args: mscclpp_dev_blocks_args_t */
    MSCCLPP_KERNEL_COLL_MOVE_DIRECT,         /* args: mscclpp_dev_direct_args_t */
    MSCCLPP_KERNEL_COLL_COMBINE_DIRECT,      /* args: mscclpp_dev_direct_args_t */
    MSCCLPP_KERNEL_COLL_MOVE_STRIDED,        /* args: mscclpp_dev_strided_args_t */
    MSCCLPP_KERNEL_COLL_PACK,                /* args: mscclpp_dev_pack_args_t; waits for nobody, and is not counted */
    MSCCLPP_KERNEL_COLL_NODES,               /* args: mscclpp_dev_coll_nodes_args_t of device/types/coll_nodes.h */
    MSCCLPP_KERNEL_COLL_NODES_PACKETS,       /* args: likewise; one block */
    MSCCLPP_KERNEL_PLAN,                     /* args: mscclpp_dev_plan_args_t of device/types/plan.h */
    MSCCLPP_KERNEL_LAST
} mscclpp_dev_kernel_t;

#endif
