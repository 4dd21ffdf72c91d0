/*
 * Execution plans in the form that kernels run: flat programs, made once from a plan's file (mca/common/plan/lower.h).
 * Everything that differs from call to call is in the arguments, so one program serves every size, type and operation.
 */
#ifndef MSCCLPP_DEVICE_TYPES_PLAN_H
#define MSCCLPP_DEVICE_TYPES_PLAN_H

#include "device/types/launch.h"
#include "device/types/port_channel.h"

/*
 * The most units of a step that a thread of MSCCLPP_KERNEL_PLAN handles. MSCCLPP_KERNEL_PLAN_WIDE serves plans with
 * larger steps.
 */
#define MSCCLPP_DEV_PLAN_NARROW_UNITS 4u

/* The kinds of steps, and the fields that each kind uses. */
typedef enum {
    MSCCLPP_DEV_PLAN_NOP,         /* the block's threads meet */
    MSCCLPP_DEV_PLAN_BARRIER,     /* `links`: its number; `count`: blocks */
    MSCCLPP_DEV_PLAN_SIGNAL,      /* `links`, `count`: channels */
    MSCCLPP_DEV_PLAN_WAIT,        /* likewise */
    MSCCLPP_DEV_PLAN_ACQUIRE,     /* `links`, `count`: semaphores */
    MSCCLPP_DEV_PLAN_RELEASE,     /* likewise */
    MSCCLPP_DEV_PLAN_PORT_PUT,    /* `links`, `count`: ports; `items`: source and target of each, one after the other */
    MSCCLPP_DEV_PLAN_PORT_SIGNAL, /* `links`, `count`: ports */
    MSCCLPP_DEV_PLAN_PORT_FLUSH,  /* likewise */
    MSCCLPP_DEV_PLAN_DATA,        /* combines all sources and writes the result to all targets */
    MSCCLPP_DEV_PLAN_LOOP,        /* each turn handles `unit` bytes of `size` chunks */
    MSCCLPP_DEV_PLAN_AGAIN,       /* the end of a loop; `items`: position of its LOOP in the block's program */
    MSCCLPP_DEV_PLAN_END
} mscclpp_dev_plan_code_t;

/*
 * A step of a program. Which fields it uses depends on its code, as listed above. Positions count from the block's
 * first step, item or link.
 */
typedef struct {
    uint32_t code;             /* mscclpp_dev_plan_code_t */
    uint32_t items;            /* position of the first source; the targets follow the sources */
    uint32_t sources, targets; /* how many */
    uint32_t size;             /* chunks */
    uint32_t part, parts;      /* this block's part in a group of blocks; parts 0: no group */
    uint32_t links, count;     /* position of the first link; number of links */
    uint64_t unit;             /* bytes that a turn of a loop handles */
} mscclpp_dev_plan_step_t;

/* Where a block's program begins: its first step, and the first item and link that its steps use. */
typedef struct {
    uint32_t step, item, link;
} mscclpp_dev_plan_start_t;

/* A rank's buffers in the table of buffers, one after the other. */
enum {
    MSCCLPP_DEV_PLAN_INPUT,
    MSCCLPP_DEV_PLAN_OUTPUT,
    MSCCLPP_DEV_PLAN_SCRATCH,
    MSCCLPP_DEV_PLAN_BUFFERS /* their number */
};

/* Where chunks are. */
typedef struct {
    uint32_t base;    /* in the table of buffers: MSCCLPP_DEV_PLAN_BUFFERS * rank + MSCCLPP_DEV_PLAN_INPUT and so on */
    uint32_t block;   /* number of a rank's block, in a buffer with one block per rank; 0 in scratch */
    uint32_t chunk;   /* in that block */
    uint32_t packets; /* not 0: the data are packets: twice the bytes, with flags */
} mscclpp_dev_plan_item_t;

/*
 * One end of a channel. To signal: the peer, and which of the peer's counters to raise. To wait: this rank's own
 * counter. Of a port: the peer, on another node, and the port's number. Of a semaphore: its number as `slot`.
 */
typedef struct {
    uint64_t *counter; /* of signals received, in the memory of the rank that waits; NULL for ports and semaphores */
    uint32_t peer, slot;
} mscclpp_dev_plan_link_t;

/* The bytes of a step's chunks that its block handles: `bytes` bytes from `first_byte` on. */
typedef struct {
    uint64_t first_byte, bytes;
} mscclpp_dev_plan_slice_t;

/* The addresses of an item's data in one launch. */
typedef struct {
    char *address;
    uint64_t bytes;   /* bytes from `address` to the end of the accessible memory */
    uint32_t rank;    /* whose memory it is, by its number in the plan */
    uint32_t packets; /* as in mscclpp_dev_plan_item_t */
} mscclpp_dev_plan_span_t;

/*
 * A counter of tickets, for a semaphore or a barrier. To acquire or to arrive, a block draws a ticket (`drawn` counts
 * these) and waits until `given` has reached its number. A release, or an arrival, raises `given`. Both counts continue
 * from launch to launch.
 */
typedef struct {
    uint64_t drawn, given;
} mscclpp_dev_plan_counter_t;

/*
 * Where the two packets of a unit are: side by side (the gap between them is MSCCLPP_DEV_PACKET_STEP), or in planes
 * (the gap is MSCCLPP_DEV_PLAN_PLANE bytes, with packets of format LL16). In planes, the first packets of so many units
 * lie in a row, and then their second ones, so that each store of a warp fills whole sectors. Each pair of planes
 * begins at a multiple of its size. So planes need scratch that begins at such a multiple, and chunks that are
 * multiples of a plane.
 */
#define MSCCLPP_DEV_PLAN_PLANE 512u

/* What to set as `packet_gap`. `planes` and `chunk` must be set before. */
#define MSCCLPP_DEV_PLAN_PACKET_GAP(args_)                                                                             \
    ((args_)->planes != 0 && (args_)->chunk % MSCCLPP_DEV_PLAN_PLANE == 0 ? MSCCLPP_DEV_PLAN_PLANE                     \
                                                                          : (uint32_t)MSCCLPP_DEV_PACKET_STEP)

/* Bytes of a block whose end is not looked at. */
#define MSCCLPP_DEV_PLAN_NO_END (UINT64_MAX / 2)

/*
 * A block's own state, in this rank's device memory. It is zeroed once, before the first launch. All blocks have the
 * same contents between launches. Each has a copy, so that none needs to know when the others have read theirs.
 */
typedef struct {
    uint32_t epoch; /* flag of the packets of the last launch */
    uint32_t reserved;
    uint64_t chunk; /* of the last launch, bytes */
} mscclpp_dev_plan_state_t;

/*
 * Which launch prepares the scratch of a queued launch if chunks have another size than before, or the flags are used
 * up. READIES_ITSELF: the launch itself, after its ranks have met. If ranks cannot meet, because they are on several
 * nodes, an earlier launch prepares it: ONLY_CLEARS clears the scratch, and IS_READY finds it prepared.
 */
enum { MSCCLPP_DEV_PLAN_READIES_ITSELF, MSCCLPP_DEV_PLAN_IS_READY, MSCCLPP_DEV_PLAN_ONLY_CLEARS };

typedef struct mscclpp_dev_plan_args mscclpp_dev_plan_args_t;

/* The arguments of the plan's kernel. */
struct mscclpp_dev_plan_args {
    mscclpp_dev_args_t common; /* `in`, `out` and the team's scratch are not used: `bases` has their places */
    const void *programs;      /* as mscclpp_dev_plan_copy_t says; NULL: some block's program is too long for that */
    uint64_t program_bytes;    /* from the beginning of one block's program there to the next one's */
    const mscclpp_dev_plan_step_t *steps; /* these four are used without `programs`: of all blocks */
    const mscclpp_dev_plan_item_t *items;
    const mscclpp_dev_plan_link_t *links;
    const mscclpp_dev_plan_start_t *starts; /* of each block */
    char *bases[MSCCLPP_DEV_PLAN_BUFFERS *
                MSCCLPP_DEV_MAX_RANKS];      /* of ranks on other nodes the offsets from the start of their memory */
    uint64_t *expected;                      /* this rank's: signals waited for */
    mscclpp_dev_plan_counter_t *semaphores;  /* this rank's; `given` begins with the initial value */
    mscclpp_dev_plan_counter_t *barriers;    /* this rank's */
    mscclpp_dev_plan_state_t *plan_state;    /* of each block */
    const mscclpp_dev_port_channel_t *ports; /* to ranks of other nodes, which only a proxy reaches */
    char *room;                              /* start of this rank's memory, which ports put from */
    uint64_t chunk;                          /* bytes, a multiple of MSCCLPP_DEV_UNIT */
    uint64_t block_bytes; /* data of a rank's block of input and output; MSCCLPP_DEV_PLAN_NO_END: chunks divide it */
    uint64_t stride;      /* bytes from one such block to the next */
    uint64_t half;        /* bytes from one half of the scratch to the other; 0: it has none */
    uint64_t scratch_bytes;
    uint32_t max_steps, max_items; /* of any block, with `programs` */
    uint32_t brief_chunks;         /* chunks of the longest step; 0: kern/plan/brief.h cannot run the program */
    uint32_t ready;                /* MSCCLPP_DEV_PLAN_READIES_ITSELF and so on; for queued launches */
    uint32_t mixes;                /* not 0: the scratch holds packets and other data */
    uint32_t orders;               /* not 0: packets have to order what their senders did before them */
    uint32_t chunks;               /* in a rank's block of input and output */
    uint32_t alignment;            /* of chunks, and of the parts of a group, bytes */
    uint32_t width;                /* MSCCLPP_DEV_LL16 or _LL8 */
    uint32_t packet_gap;           /* MSCCLPP_DEV_PLAN_PACKET_GAP, a power of 2, equal on all ranks */
    uint32_t planes;               /* not 0: the scratch allows planes */
    uint32_t rank;                 /* this rank's number in the plan */
    uint8_t
        late_ranks[MSCCLPP_DEV_MAX_RANKS]; /* by the plan's rank: the rank that a failed wait for it reports as late */
    /*
     * A copy in device memory of the arguments that do not depend on the call, for a lingering kernel. NULL: no such
     * kernel can serve the call, because the plan uses buffers of other ranks.
     */
    const mscclpp_dev_plan_args_t *lasting;
};

/* The most steps, items and links of a program that fits a block's own memory. */
enum { MSCCLPP_DEV_PLAN_STEPS = 64, MSCCLPP_DEV_PLAN_ITEMS = 192, MSCCLPP_DEV_PLAN_LINKS = 128 };

/* Returns the number of words of a program with this many steps, items and links. */
#define MSCCLPP_DEV_PLAN_WORDS(steps_, items_, links_)                                                                 \
    (((steps_) * sizeof(mscclpp_dev_plan_step_t) + (items_) * sizeof(mscclpp_dev_plan_item_t) +                        \
      (links_) * sizeof(mscclpp_dev_plan_link_t)) /                                                                    \
     sizeof(uint32_t))

/*
 * A copy of a block's program in the block's own memory, and what follows from it for one launch. The program is one
 * piece of memory: args->max_steps steps, args->max_items items, and the links.
 */
typedef struct {
    union {
        uint32_t words[MSCCLPP_DEV_PLAN_WORDS(MSCCLPP_DEV_PLAN_STEPS, MSCCLPP_DEV_PLAN_ITEMS, MSCCLPP_DEV_PLAN_LINKS)];
        mscclpp_dev_plan_step_t steps[MSCCLPP_DEV_PLAN_STEPS]; /* the beginning */
    };
    mscclpp_dev_plan_slice_t slices[MSCCLPP_DEV_PLAN_STEPS]; /* of each step, where it is in no loop */
    mscclpp_dev_plan_span_t spans[MSCCLPP_DEV_PLAN_ITEMS];   /* of each item, from the first byte of its chunks on */
} mscclpp_dev_plan_copy_t;

/* Bytes of a chunk, for blocks that are `stride_` bytes apart. */
#define MSCCLPP_DEV_PLAN_CHUNK(args_, stride_)                                                                         \
    (((stride_) + (uint64_t)(args_)->chunks * (args_)->alignment - 1) /                                                \
     ((uint64_t)(args_)->chunks * (args_)->alignment) * (args_)->alignment)

/* What to set as `block_bytes`. Operations may go over the end of blocks that consist of whole chunks. */
#define MSCCLPP_DEV_PLAN_BLOCK_BYTES(args_, stride_, bytes_)                                                           \
    ((args_)->chunk * (args_)->chunks == (stride_) && (bytes_) == (stride_) ? MSCCLPP_DEV_PLAN_NO_END : (bytes_))

#endif
