/*
 * What host and lingering kernel say to one another. After an operation such a kernel stays for a while and polls a
 * bell in host memory, so that the next call costs a write of the host instead of a launch.
 */
#ifndef MSCCLPP_DEVICE_TYPES_LINGER_H
#define MSCCLPP_DEVICE_TYPES_LINGER_H

#include "device/types/coll.h"
#include "device/types/launch.h"
#include "device/types/nodes.h"

/*
 * The words of the bell (mscclpp_dev_mailbox_t) and of the relay (mscclpp_dev_state_t, or each block's own memory in a
 * cluster), through which the first block hands it on. Each is 8 bytes, written at once: the low half is the payload,
 * the high half of the bell's is the low half of the operation's number, and of the relay's the operation's place in
 * the kernel, whose first one has place 0. An operation is there once all words carry its number or place, in whatever
 * order they arrive. Up to BYTES they are the beginning of mscclpp_dev_args_t, the higher half of whose `bytes` is 0.
 */
enum {
    MSCCLPP_DEV_BELL_IN_LOW,
    MSCCLPP_DEV_BELL_IN_HIGH,
    MSCCLPP_DEV_BELL_OUT_LOW,
    MSCCLPP_DEV_BELL_OUT_HIGH,
    MSCCLPP_DEV_BELL_BYTES,
    MSCCLPP_DEV_BELL_CODE,
    MSCCLPP_DEV_BELL_COLL, /* of a collective other than all-reduce: its pattern and root */
    MSCCLPP_DEV_BELL_WORDS,
    MSCCLPP_DEV_BELL_LEAVE = MSCCLPP_DEV_BELL_WORDS,  /* of the bell alone: the number of the kernel that shall leave */
    MSCCLPP_DEV_RELAY_EPOCH = MSCCLPP_DEV_BELL_WORDS, /* of the relay alone: the flag of the last packets */
    MSCCLPP_DEV_RELAY_WORDS
};

/*
 * Payload of the word CODE. The operation's blocks are the first `blocks_` of the kernel. What `variant_` means depends
 * on the operation: for zero-copy the set of peers' buffers, over several nodes the pattern.
 */
#define MSCCLPP_DEV_BELL_ENCODE(kernel_, dtype_, op_, blocks_, release_, variant_)                                     \
    ((uint32_t)(kernel_) | (uint32_t)(dtype_) << 5 | (uint32_t)(op_) << 11 | ((uint32_t)(blocks_)-1) << 15 |           \
     (uint32_t)(release_) << 21 | (uint32_t)(variant_) << 23)
#define MSCCLPP_DEV_BELL_KERNEL(code_) ((code_)&31u)
#define MSCCLPP_DEV_BELL_DTYPE(code_) ((code_) >> 5 & 63u)
#define MSCCLPP_DEV_BELL_OP(code_) ((code_) >> 11 & 15u)
#define MSCCLPP_DEV_BELL_BLOCKS(code_) (((code_) >> 15 & 63u) + 1)
#define MSCCLPP_DEV_BELL_RELEASE(code_) ((code_) >> 21 & 3u)
#define MSCCLPP_DEV_BELL_VARIANT(code_) ((code_) >> 23 & 3u)
#define MSCCLPP_DEV_BELL_QUIT 0xffffffffu /* in the relay: the kernel leaves */

/* Payload of the word COLL. Padding is what a block's stride is longer than the block. */
#define MSCCLPP_DEV_BELL_ENCODE_COLL(pattern_, root_, in_place_, padding_)                                             \
    ((uint32_t)(pattern_) | (uint32_t)((in_place_) != 0) << 7 | (uint32_t)(root_) << 8 | (uint32_t)(padding_) << 16)
#define MSCCLPP_DEV_BELL_PATTERN(word_) ((word_)&127u)
#define MSCCLPP_DEV_BELL_IN_PLACE(word_) ((word_) >> 7 & 1u)
#define MSCCLPP_DEV_BELL_ROOT(word_) ((word_) >> 8 & 255u)
#define MSCCLPP_DEV_BELL_PADDING(word_) ((word_) >> 16)

#define MSCCLPP_DEV_LINGER_BLOCKS 64 /* at most */

/*
 * Kernels do not stay beyond a number that this divides. So all ranks launch anew for the same call, and not each for
 * another one that it makes all others wait in.
 */
#define MSCCLPP_DEV_LINGER_PERIOD 128

/* Peers' user buffers that zero-copy operations can be rung for: so many sets, of so many ranks at most. */
#define MSCCLPP_DEV_LINGER_SETS 4
#define MSCCLPP_DEV_LINGER_PEERS 8

typedef struct {
    const char *in[MSCCLPP_DEV_LINGER_PEERS];
    char *out[MSCCLPP_DEV_LINGER_PEERS];
} mscclpp_dev_linger_set_t;

typedef struct {
    union {
        mscclpp_dev_args_t common;      /* of the first operation */
        mscclpp_dev_nodes_args_t nodes; /* where the team spans nodes */
    };
    mscclpp_dev_linger_set_t sets[MSCCLPP_DEV_LINGER_SETS];
    uint64_t number;    /* of the first operation: the team's kernels up to it, itself included; names this kernel */
    uint64_t window_ns; /* the kernel takes up no operation later than so long after its start */
    uint64_t idle_ns;   /* it leaves when so long nothing came */
    uint32_t code;      /* of the first operation */
    uint32_t coll;      /* likewise */
    uint32_t spans;     /* not 0: the team spans nodes */
    uint32_t cluster;   /* not 0: the blocks form a cluster, where the device can have one of so many */
} mscclpp_dev_linger_args_t;

/*
 * What a block knows: arguments, which each operation changes, and where it stands. Written by thread 0 or by those
 * that listen, and read by all after the next barrier of the block.
 */
typedef struct {
    union {
        mscclpp_dev_args_t args; /* `launches` are 1 less than the number of the operation in hand, or the last one */
        mscclpp_dev_zerocopy_args_t zerocopy;
        mscclpp_dev_nodes_args_t nodes;
        mscclpp_dev_coll_args_t coll;
    };
    uint64_t started_ns;
    uint64_t wide;  /* of the first block: number of the last operation for more than one; 0: none */
    uint32_t place; /* of the other blocks: that of the last operation that they took from the relay */
    uint64_t relay[MSCCLPP_DEV_RELAY_WORDS]; /* of the other blocks of a cluster: the first one writes it */
    uint32_t words[MSCCLPP_DEV_BELL_WORDS];
    uint32_t heard;  /* of the first block: the bell has rung, or it is time to leave */
    uint32_t failed; /* not 0: a thread gave up waiting; written by any */
} mscclpp_dev_linger_block_t;

#endif
