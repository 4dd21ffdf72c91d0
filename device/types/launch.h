/*
 * What the host library and the kernels share: a team's state, its mailbox, the layout of its scratch, and the
 * arguments of kernels.
 */
#ifndef MSCCLPP_DEVICE_TYPES_LAUNCH_H
#define MSCCLPP_DEVICE_TYPES_LAUNCH_H

#include <stddef.h>
#include <stdint.h>

#include "device/types/dtype.h"
#include "device/types/port_channel.h"

/* The most ranks in a kernel's arguments, blocks of a grid, and threads of a block. */
#define MSCCLPP_DEV_MAX_RANKS 64
#define MSCCLPP_DEV_MAX_BLOCKS 128
#define MSCCLPP_DEV_MAX_THREADS 512

/* The most ranks for which a lingering kernel (types/linger.h) keeps peers' buffers or receives lists of blocks. */
#define MSCCLPP_DEV_LINGER_PEERS 8

/* Words of the bell of a lingering kernel: those of every operation, and at most four for each rank's two blocks. */
#define MSCCLPP_DEV_BELL_SIZE (8 + 4 * MSCCLPP_DEV_LINGER_PEERS)

/* The number of blocks that have memory channels. */
#define MSCCLPP_DEV_CHANNEL_BLOCKS 32

/* Messages are handled in units of 16 bytes; as packets each unit takes 32. */
#define MSCCLPP_DEV_UNIT 16
#define MSCCLPP_DEV_PACKET_UNIT 32

/* Bytes of a unit's first packet, and from one unit of a row of first or second packets to the next one. */
#define MSCCLPP_DEV_PACKET_STEP 16

/* Formats of packets (device/lib/packet.h), by their size. */
#define MSCCLPP_DEV_LL16 16
#define MSCCLPP_DEV_LL8 8

/* The counters from which the next operation continues. */
typedef struct {
    uint64_t launches; /* operations that have ended */
    uint32_t epoch;    /* flag of the last packets sent; 0 before the first packets */
    uint32_t reserved; /* always 0 */
} mscclpp_dev_progress_t;

/*
 * A rank's counters, in its device memory. Kernels advance them; kernels of one team run one after another. The host
 * writes them only when it clears the packet area; queued operations clear that area themselves. Between two kernels,
 * all fields except `failed`, `expected` and `relay` are equal on all ranks.
 *
 * Each block has its own copy of `progress`, so that no block waits until others have read what it is about to change.
 * A block that takes part in an operation reads only its own copy. It writes its own copy and those of blocks that take
 * no part, which read nothing. An operation that a lingering kernel was rung for is different: its blocks read no copy,
 * and the first block writes all copies.
 */
typedef struct {
    mscclpp_dev_progress_t progress[MSCCLPP_DEV_MAX_BLOCKS]; /* equal in all blocks between two kernels */
    uint64_t barrier[MSCCLPP_DEV_MAX_BLOCKS];                /* barriers that each block has passed */
    uint64_t failed; /* not 0: an operation has given up or overlapped another one; all later ones give up at once */
    uint64_t expected[MSCCLPP_DEV_CHANNEL_BLOCKS]
                     [MSCCLPP_DEV_MAX_RANKS]; /* signals that each block's memory channel to each rank expects */
    uint64_t relay[MSCCLPP_DEV_BELL_SIZE];    /* from the first block of a lingering kernel to the others
                                                 (types/linger.h); else 0 */
    uint32_t leavers;                         /* blocks of a lingering kernel that have left */
    /* All of the following fields except `gate_turns` are 0 between two operations. */
    uint32_t gate_count;                      /* blocks that have reached the gate in this turn */
    uint64_t gate_turns;                      /* how often all blocks have met at the gate */
    uint64_t running[MSCCLPP_DEV_MAX_BLOCKS]; /* queued operations that now run in each block, whatever their scratch:
                                                 those of the team's first scratch count; at most 1 is allowed */
} mscclpp_dev_state_t;

/*
 * Mapped host memory through which a team's kernels and its host communicate. Words of different uses are in different
 * cache lines.
 */
typedef struct {
    uint64_t abort; /* written by the host: not 0 makes every wait of a kernel end */
    uint64_t pad0[7];
    /*
     * Written by each block when an operation ends: the number of operations that have ended, including this one. The
     * words are packed into as few cache lines as possible because the host reads them all. If an operation is for one
     * block only, the other blocks of a lingering kernel write nothing.
     */
    uint64_t ended[MSCCLPP_DEV_MAX_BLOCKS];
    uint64_t left; /* written by a lingering kernel when it leaves: its number */
    uint64_t pad1[7];
    uint64_t failed;     /* written by a kernel whose wait ended early: 1 + the rank that it waited for */
    uint64_t torn;       /* written by the LL128 probe: 1 if a line had its flag but was not whole */
    uint64_t overlapped; /* written by a queued operation: 1 if another one ran at the same time */
    uint64_t pad2[13];
    uint64_t bell[MSCCLPP_DEV_BELL_SIZE]; /* written by the host: types/linger.h. Begins a line of 128 bytes. */
    /*
     * Written by the host before it launches a lingering kernel whose first operation is on blocks of different sizes.
     * Two words, offset and bytes, describe this rank's block for each rank; then two describe the place of each rank's
     * block.
     */
    uint64_t lists[4 * MSCCLPP_DEV_LINGER_PEERS];
} mscclpp_dev_mailbox_t;

/*
 * The head of a team's scratch, the memory that peers write to. `arrived[b][r]` counts the barriers that block b of
 * rank r has entered. `signalled[b][r]` counts the signals of its memory channel.
 *
 * Four areas follow:
 * - the packet area, at MSCCLPP_DEV_PACKET_OFFSET: two halves of `packet_half` bytes, which only ever hold packets of
 *   8 and 16 bytes;
 * - the LL128 area, right behind it: `packet_half` bytes, which only ever hold LL128 lines; over several nodes, none;
 * - the bulk area, at `bulk_offset`, right behind these;
 * - the put area, at `put_offset`, which only ever holds pieces of puts.
 */
typedef struct {
    uint64_t arrived[MSCCLPP_DEV_MAX_BLOCKS][MSCCLPP_DEV_MAX_RANKS];
    uint64_t signalled[MSCCLPP_DEV_CHANNEL_BLOCKS][MSCCLPP_DEV_MAX_RANKS];
} mscclpp_dev_sync_t;

#define MSCCLPP_DEV_PACKET_OFFSET ((uint64_t)sizeof(mscclpp_dev_sync_t))

/*
 * Units that one slot of the packet area holds, for each algorithm. Host and device use the same macros, because all
 * kernels must divide a message in the same way.
 */
#define MSCCLPP_DEV_ONESHOT_CAPACITY(packet_half_, nranks_)                                                            \
    ((packet_half_) / ((uint64_t)(nranks_)*MSCCLPP_DEV_PACKET_UNIT))
#define MSCCLPP_DEV_TWOPHASE_CAPACITY(packet_half_, nranks_)                                                           \
    ((packet_half_) / (2 * (uint64_t)(nranks_)*MSCCLPP_DEV_PACKET_UNIT))

/*
 * LL128 moves data in bundles: four lines of 128 bytes, which carry 30 units. Each of the two phases has a slot for
 * each peer, but none for the rank itself, which sends itself nothing. The capacity is the bundles of a slot.
 */
#define MSCCLPP_DEV_BUNDLE_UNITS 30u
#define MSCCLPP_DEV_BUNDLE_BYTES 512u
#define MSCCLPP_DEV_LL128_OFFSET(packet_half_) (MSCCLPP_DEV_PACKET_OFFSET + 2 * (uint64_t)(packet_half_))
#define MSCCLPP_DEV_LL128_CAPACITY(packet_half_, nranks_)                                                              \
    ((packet_half_) / (2 * ((uint64_t)(nranks_) < 2 ? 1 : (uint64_t)(nranks_)-1) * MSCCLPP_DEV_BUNDLE_BYTES))

/*
 * The put area. Each peer has MSCCLPP_DEV_PUT_SLOTS slots for each of MSCCLPP_DEV_PUT_BLOCKS blocks;
 * lib/put.h explains why. A slot holds one piece of a message. A piece has at most
 * MSCCLPP_DEV_PUT_PIECE units, which the threads of a block can hold in registers. ROOM is how many units fit a slot;
 * CAPACITY is how many a piece may have.
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
 * Units of a message that go into one epoch: all if they fit, else a multiple of the grid's threads. The multiple is
 * not 0, because a grid never has more threads than a slot has units. The last epoch is padded with zeros to the size
 * of the others: every thread must exchange packets in every epoch, or their memory is reused too early (lib/packet.h).
 */
#define MSCCLPP_DEV_PACKET_CHUNK(units_, capacity_, threads_)                                                          \
    ((units_) <= (capacity_) ? (units_) : (capacity_) / (threads_) * (threads_))

/* Who can see a kernel's results once the host learns that the kernel has ended. */
typedef enum {
    MSCCLPP_DEV_RELEASE_SYSTEM, /* all readers, on any device or host */
    MSCCLPP_DEV_RELEASE_DEVICE, /* all readers of results in the memory of the device that runs the kernel */
    MSCCLPP_DEV_RELEASE_STREAM  /* nobody: results become visible at the kernel's end in its stream. The kernel may
                                   become resident while the kernel before it in the stream or graph still runs */
} mscclpp_dev_release_t;

/* Arguments that every kernel has. Pointers are valid on the device that runs the kernel. */
typedef struct {
    const void *in;
    void *out;      /* may equal `in`; must not overlap it otherwise */
    uint64_t bytes; /* from the first element's first byte to the last element's last byte */
    uint32_t dtype; /* mscclpp_dtype_t */
    uint32_t op;    /* mscclpp_op_t */
    uint32_t rank;
    uint32_t nranks;
    uint64_t timeout_ns;        /* a wait gives up after this time; 0: it never does */
    uint64_t packet_half;       /* bytes of one half of the packet area */
    uint32_t oneshot_capacity;  /* MSCCLPP_DEV_ONESHOT_CAPACITY, computed by the host to save kernels a division */
    uint32_t twophase_capacity; /* MSCCLPP_DEV_TWOPHASE_CAPACITY, computed by the host */
    uint32_t ll128_capacity;    /* MSCCLPP_DEV_LL128_CAPACITY, computed by the host */
    uint32_t put_capacity;      /* MSCCLPP_DEV_PUT_CAPACITY, computed by the host */
    uint32_t release;           /* mscclpp_dev_release_t */
    uint64_t bulk_offset;       /* bytes from the scratch's start */
    uint64_t bulk_size;         /* bytes */
    uint64_t put_offset;        /* bytes from the scratch's start */
    mscclpp_dev_state_t *state;
    mscclpp_dev_mailbox_t *mailbox;
    uint64_t launches; /* lingering kernels only: operations that have ended */
    uint32_t epoch;    /* lingering kernels only: flag of the last packets before the operation */
    uint32_t rung;     /* lingering kernels only: not 0 if the operation came by the bell */
    /*
     * Queued operations only. `epochs` is the number of packet flags that the operation uses. An operation that would
     * pass `epoch_limit` renews the flags on the device. No argument depends on how many operations came before, so a
     * graph may repeat the operation. If epoch_limit is 0, the host counts flags and operations. `running` is that of
     * the state in the team's first scratch: operations with different scratches must not run at the same time either.
     */
    uint32_t epochs;
    uint32_t epoch_limit;
    uint64_t *running;
    char *scratch[MSCCLPP_DEV_MAX_RANKS]; /* scratch of every rank, including this one */
} mscclpp_dev_args_t;

/* Arguments of the zero-copy kernel: the common ones, and the user buffers of all ranks, mapped. */
typedef struct {
    mscclpp_dev_args_t common;
    const char *peer_in[MSCCLPP_DEV_MAX_RANKS];
    char *peer_out[MSCCLPP_DEV_MAX_RANKS];
} mscclpp_dev_zerocopy_args_t;

/* Arguments of the LL128 probe, which runs as one block of at most `ll128_capacity` warps. */
typedef struct {
    mscclpp_dev_args_t common;
    uint32_t rounds; /* number of epochs */
} mscclpp_dev_ll128_probe_args_t;

/* Arguments of the ring of memory channels. `bytes` is at most half of the bulk area. */
typedef struct {
    mscclpp_dev_args_t common;
    uint32_t rounds;
    uint32_t get; /* 0: put to the next rank, 1: get from it */
} mscclpp_dev_ring_args_t;

/*
 * Arguments of the ring of port channels. A region holds two slots of `slot_size` bytes, followed by one 64-bit word
 * for each block. `bytes` is at most `slot_size`. Block b uses the channels next[b] and previous[b].
 */
typedef struct {
    mscclpp_dev_args_t common;
    const mscclpp_dev_port_channel_t *next;     /* device memory */
    const mscclpp_dev_port_channel_t *previous; /* device memory */
    char *region;                               /* this rank's: source of its puts, and target of the previous rank's */
    uint64_t slot_size;                         /* bytes, a multiple of MSCCLPP_DEV_UNIT */
    uint64_t add;   /* added to the next rank's word in each round; equal on all ranks; 0: nothing is added */
    uint64_t *late; /* this rank's counters, one per block: rounds in which the addition arrived after its signal */
    uint32_t rounds;
    uint32_t combined;  /* not 0: put, signal and flush form one trigger; 0: three triggers */
    uint32_t overwrite; /* not 0: after each flush, the rank overwrites the ends of the data it has put */
} mscclpp_dev_port_ring_args_t;

/* Roles of a rank in a pair; kern/probe/port_pair.h explains them. */
enum {
    MSCCLPP_DEV_PAIR_FIRST,
    MSCCLPP_DEV_PAIR_SECOND,
    MSCCLPP_DEV_PAIR_SENDER,
    MSCCLPP_DEV_PAIR_RECEIVER,
    MSCCLPP_DEV_PAIR_BOTH
};

/* Arguments of a pair over a port channel. Of `common`, kernels read only `bytes`, the size of one message. */
typedef struct {
    mscclpp_dev_args_t common;
    mscclpp_dev_port_channel_t channel;
    uint64_t from;        /* offset in this rank's region, bytes */
    uint64_t to;          /* offset in the peer's region, bytes */
    uint64_t *elapsed_ns; /* pinned host memory: duration of all rounds, never 0 */
    uint32_t rounds;
    uint32_t puts; /* puts of a sender in each round, at least 1 */
    uint32_t role;
} mscclpp_dev_port_pair_args_t;

typedef enum {
    MSCCLPP_KERNEL_BARRIER,                  /* args: mscclpp_dev_args_t; every block meets its peers once */
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
    MSCCLPP_KERNEL_ALLREDUCE_NODES_PACKETS,  /* args: mscclpp_dev_nodes_args_t */
    MSCCLPP_KERNEL_ALLREDUCE_TWOPHASE_LL128, /* args: mscclpp_dev_args_t; 128-byte packets */
    MSCCLPP_KERNEL_LL128_PROBE,              /* args: mscclpp_dev_ll128_probe_args_t */
    MSCCLPP_KERNEL_ALLREDUCE_ONESHOT_PUT,    /* args: mscclpp_dev_args_t; MSCCLPP_DEV_PUT_BLOCKS blocks at most */
    MSCCLPP_KERNEL_COLL_MOVE_PACKETS,        /* args: mscclpp_dev_coll_args_t (device/types/coll.h) */
    MSCCLPP_KERNEL_COLL_COMBINE_PACKETS,     /* args: mscclpp_dev_coll_args_t */
    MSCCLPP_KERNEL_COLL_MOVE_BLOCKS,         /* args: mscclpp_dev_blocks_args_t; packets */
    MSCCLPP_KERNEL_COLL_COMBINE_BLOCKS,      /* args: mscclpp_dev_blocks_args_t; packets */
    MSCCLPP_KERNEL_COLL_MOVE_UNSIZED,        /* args: mscclpp_dev_blocks_args_t; packets, then tiles */
    MSCCLPP_KERNEL_COLL_TILES,               /* args: mscclpp_dev_blocks_args_t */
    MSCCLPP_KERNEL_COLL_PUTS,           /* args: mscclpp_dev_blocks_args_t; MSCCLPP_DEV_PUT_BLOCKS blocks at most */
    MSCCLPP_KERNEL_COLL_MOVE_DIRECT,    /* args: mscclpp_dev_direct_args_t */
    MSCCLPP_KERNEL_COLL_COMBINE_DIRECT, /* args: mscclpp_dev_direct_args_t */
    MSCCLPP_KERNEL_COLL_MOVE_STRIDED,   /* args: mscclpp_dev_strided_args_t */
    MSCCLPP_KERNEL_COLL_PACK,           /* args: mscclpp_dev_pack_args_t; waits for nobody, and is not counted */
    MSCCLPP_KERNEL_COLL_NODES,          /* args: mscclpp_dev_coll_nodes_args_t of device/types/coll_nodes.h */
    MSCCLPP_KERNEL_COLL_NODES_PACKETS,  /* args: mscclpp_dev_coll_nodes_args_t; one block */
    MSCCLPP_KERNEL_PLAN,                /* args: mscclpp_dev_plan_args_t of device/types/plan.h */
    MSCCLPP_KERNEL_PLAN_WIDE,           /* the same, for steps that move much */
    MSCCLPP_KERNEL_LAST
} mscclpp_dev_kernel_t;

#endif
