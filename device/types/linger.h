/*
 * The protocol between the host and a lingering kernel. After an operation, a lingering kernel stays for a while and
 * polls a doorbell in host memory, the bell. The next call then costs a write of the host instead of a launch.
 */
#ifndef MSCCLPP_DEVICE_TYPES_LINGER_H
#define MSCCLPP_DEVICE_TYPES_LINGER_H

#include "device/types/coll.h"
#include "device/types/launch.h"
#include "device/types/nodes.h"
#include "device/types/plan.h"

/*
 * Words of the bell (mscclpp_dev_mailbox_t) and of the relay. The first block hands on the bell's words to the other
 * blocks through the relay, which lies in mscclpp_dev_state_t or, in a cluster, in each block's own memory.
 *
 * Each word has 8 bytes and is written at once. The low half is the payload. The high half of a bell word is the low
 * half of the operation's number. The high half of a relay word is the operation's place in the kernel, whose first
 * operation has place 0. An operation has arrived once all words carry its number or place; the words may arrive in any
 * order.
 *
 * The words up to BYTES form the beginning of mscclpp_dev_args_t. The higher half of `bytes` there is 0. For blocks of
 * different sizes, `bytes` is the size of the largest block, at least of those on this rank, and there are two lists of
 * the blocks: this rank's block in its input for each rank, then the place of each rank's block in its output.
 *
 * The lists are words of the bell, from LIST on. If the operation is for the first block alone and each block of data
 * fits into one word (MSCCLPP_DEV_BELL_ENCODE_BLOCK), the lists are short: they have one word for each block of data.
 * Otherwise they are long: they have two words, the offset and the size. The word CODE tells which. Such an operation
 * has arrived once the words of the lists carry its number, too. The other operations do not write these words. The
 * kernel looks at them together with the other words, so lists cost no further read of the host's memory. All words lie
 * in one line of 128 bytes, which one read yields, if the lists are long and there are 2 ranks, or short and there are
 * up to 4. Otherwise there are further lines. The kernel looks at them only if the last operation that it has heard of
 * had such lists. So other calls do not pay for them, and a call with such lists after another one takes a second look.
 *
 * Only long lists are relayed. The relay has their words at the same index as the bell. Their high half is the low half
 * of the operation's number with its highest bit set, so that it is never that of a cleared word. The first block
 * writes them after the other words, and only for such operations. So a word of an older operation may still be there,
 * and the other blocks wait until each word has the operation's high half.
 *
 * The lists of the kernel's first operation are in the mailbox. The host writes them before the launch, and each block
 * reads them there.
 */
enum {
    MSCCLPP_DEV_BELL_IN_LOW,
    MSCCLPP_DEV_BELL_IN_HIGH,
    MSCCLPP_DEV_BELL_OUT_LOW,
    MSCCLPP_DEV_BELL_OUT_HIGH,
    MSCCLPP_DEV_BELL_BYTES,
    MSCCLPP_DEV_BELL_CODE,
    MSCCLPP_DEV_BELL_COLL, /* for collectives other than all-reduce: pattern and root; for plans: the padding alone */
    MSCCLPP_DEV_BELL_WORDS,
    MSCCLPP_DEV_BELL_LEAVE = MSCCLPP_DEV_BELL_WORDS,  /* bell only: number of the kernel that has to leave */
    MSCCLPP_DEV_RELAY_EPOCH = MSCCLPP_DEV_BELL_WORDS, /* relay only: flag of the last packets */
    MSCCLPP_DEV_RELAY_WORDS,
    MSCCLPP_DEV_BELL_LIST = 8, /* the first of the lists' words */
    MSCCLPP_DEV_BELL_LINE = 16 /* words in the bell's first line */
};

/*
 * Payload of the word CODE. The first `blocks_` blocks of the kernel execute the operation. The meaning of `variant_`
 * depends on the operation: the set of peers' buffers for zero-copy, the pattern over several nodes.
 */
#define MSCCLPP_DEV_BELL_ENCODE(kernel_, dtype_, op_, blocks_, release_, variant_)                                     \
    ((uint32_t)(kernel_) | (uint32_t)(dtype_) << 5 | (uint32_t)(op_) << 11 | ((uint32_t)(blocks_)-1) << 15 |           \
     (uint32_t)(release_) << 21 | (uint32_t)(variant_) << 23)
#define MSCCLPP_DEV_BELL_KERNEL(code_) ((code_)&31u)
#define MSCCLPP_DEV_BELL_DTYPE(code_) ((code_) >> 5 & 63u)
#define MSCCLPP_DEV_BELL_OP(code_) ((code_) >> 11 & 15u)
#define MSCCLPP_DEV_BELL_BLOCKS(code_) (((code_) >> 15 & 63u) + 1)
#define MSCCLPP_DEV_BELL_RELEASE(code_) ((code_) >> 21 & 3u)
#define MSCCLPP_DEV_BELL_VARIANT(code_) ((code_) >> 23 & 7u)
#define MSCCLPP_DEV_BELL_LISTS (1u << 26)      /* set: the bell has short lists of the operation's blocks */
#define MSCCLPP_DEV_BELL_LONG_LISTS (1u << 27) /* set: the bell has long lists */
#define MSCCLPP_DEV_BELL_QUIT 0xffffffffu      /* in the relay: the kernel leaves */

/* Payload of the word COLL. The padding is a block's stride minus its size. */
#define MSCCLPP_DEV_BELL_ENCODE_COLL(pattern_, root_, in_place_, padding_)                                             \
    ((uint32_t)(pattern_) | (uint32_t)((in_place_) != 0) << 7 | (uint32_t)(root_) << 8 | (uint32_t)(padding_) << 16)
#define MSCCLPP_DEV_BELL_PATTERN(word_) ((word_)&127u)
#define MSCCLPP_DEV_BELL_IN_PLACE(word_) ((word_) >> 7 & 1u)
#define MSCCLPP_DEV_BELL_ROOT(word_) ((word_) >> 8 & 255u)
#define MSCCLPP_DEV_BELL_PADDING(word_) ((word_) >> 16)

/* Words of the bell up to the end of the lists. */
#define MSCCLPP_DEV_BELL_SHORT_END(nranks_) (MSCCLPP_DEV_BELL_LIST + 2 * (uint32_t)(nranks_))
#define MSCCLPP_DEV_BELL_LONG_END(nranks_) (MSCCLPP_DEV_BELL_LIST + 4 * (uint32_t)(nranks_))

/*
 * Payload of a word of short lists: a block's offset and size, up to these limits. 0: the block is empty. In long
 * lists, either can be any number of 32 bits.
 */
#define MSCCLPP_DEV_BELL_MAX_OFFSET 0x3ffffu
#define MSCCLPP_DEV_BELL_MAX_BYTES 0x3fffu
#define MSCCLPP_DEV_BELL_ENCODE_BLOCK(offset_, bytes_) ((uint32_t)(offset_) << 14 | (uint32_t)(bytes_))
#define MSCCLPP_DEV_BELL_BLOCK_OFFSET(word_) ((word_) >> 14)
#define MSCCLPP_DEV_BELL_BLOCK_BYTES(word_) ((word_)&MSCCLPP_DEV_BELL_MAX_BYTES)

#define MSCCLPP_DEV_LINGER_BLOCKS 64 /* the most blocks of a lingering kernel */

/*
 * A lingering kernel leaves before each operation whose number is a multiple of this, so that all ranks launch anew for
 * the same call. Otherwise each rank could launch anew for a different call, and make all others wait each time.
 */
#define MSCCLPP_DEV_LINGER_PERIOD 128

/* Sets of peers' user buffers that a kernel can be rung for. */
#define MSCCLPP_DEV_LINGER_SETS 4

/* The buffers of all ranks, by rank, as this rank's kernels see them. */
typedef struct {
    const char *in[MSCCLPP_DEV_LINGER_PEERS];
    char *out[MSCCLPP_DEV_LINGER_PEERS];
} mscclpp_dev_linger_set_t;

/* Arguments of the lingering kernel. */
typedef struct {
    union {
        mscclpp_dev_args_t common;      /* arguments of the first operation */
        mscclpp_dev_nodes_args_t nodes; /* used instead of `common` if the team spans nodes */
    };
    mscclpp_dev_linger_set_t sets[MSCCLPP_DEV_LINGER_SETS];
    const mscclpp_dev_plan_args_t *plan; /* device memory: the plan that the kernel can be rung for; NULL: none */
    uint32_t plan_blocks;                /* blocks that run the plan; 0 without one */
    uint64_t number;    /* number of the first operation among those of the team; identifies this kernel */
    uint64_t window_ns; /* time since its start after which the kernel accepts no more operations */
    uint64_t idle_ns;   /* time without an operation after which the kernel leaves */
    uint32_t code;      /* the bell's word CODE for the first operation */
    uint32_t coll;      /* the bell's word COLL for the first operation */
    uint32_t spans;     /* not 0: the team spans nodes */
    uint32_t cluster;   /* not 0: the blocks form a cluster, if the device can have one of this size */
} mscclpp_dev_linger_args_t;

/*
 * State of a block: its progress, and the arguments of the current operation. Thread 0 or the listening threads write
 * it. All threads read it after the block's next barrier.
 */
typedef struct {
    union {
        mscclpp_dev_args_t args; /* `launches` is the number of the current operation, or else of the last one, minus
                                    1 */
        mscclpp_dev_zerocopy_args_t zerocopy;
        mscclpp_dev_nodes_args_t nodes;
        mscclpp_dev_coll_args_t coll;
        mscclpp_dev_blocks_args_t blocks; /* begins with `coll` */
    };
    mscclpp_dev_plan_args_t plan; /* if the kernel has one: the arguments of operations by it */
    mscclpp_dev_plan_copy_t plan_copy;
    uint64_t started_ns; /* when the kernel began, by mscclpp_dev_now_ns */
    uint64_t last_wide;  /* in the first block: number of the last operation for several blocks; 0: none */
    uint32_t place;      /* in the other blocks: place of the last operation that came through the relay */
    uint64_t relay[MSCCLPP_DEV_BELL_SIZE]; /* in the other blocks of a cluster: words written by the first block */
    uint32_t words[MSCCLPP_DEV_BELL_SIZE]; /* payloads of the last words that were taken */
    uint32_t heard;                        /* in the first block: the bell has rung; 0: it is time to leave */
    uint32_t failed;                       /* not 0: a thread gave up waiting; any thread may set it */
} mscclpp_dev_linger_block_t;

#endif
