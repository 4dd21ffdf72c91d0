/*
 * Data that the host and the kernels share, for all collectives except all-reduce.
 *
 * Each of these collectives is described by blocks of data: rank r has one input block for rank p, or none. Either the
 * collective moves the blocks to their places in p's output, or p combines the blocks that it receives, in rank order,
 * into one result. The collective's pattern says which rank has a block for which.
 */
#ifndef MSCCLPP_DEVICE_TYPES_COLL_H
#define MSCCLPP_DEVICE_TYPES_COLL_H

#include <stdbool.h>

#include "device/types/launch.h"

/* The patterns: what the input ("in") and the output ("out") of a rank consist of. `n` is the number of ranks. */
typedef enum {
    MSCCLPP_DEV_ALLGATHER,      /* in: one block, sent to all ranks; out: n blocks */
    MSCCLPP_DEV_ALLTOALL,       /* in: n blocks; out: n blocks */
    MSCCLPP_DEV_BCAST,          /* in: on the root, one block for all others; out: on the others, one block */
    MSCCLPP_DEV_GATHER,         /* in: one block for the root; out: on the root, n blocks */
    MSCCLPP_DEV_SCATTER,        /* in: on the root, n blocks; out: one block */
    MSCCLPP_DEV_REDUCE,         /* in: one block for the root; out: on the root, the result */
    MSCCLPP_DEV_REDUCE_SCATTER, /* in: n blocks; out: the result for this rank */
    MSCCLPP_DEV_SCAN,           /* in: one block for this rank and all higher ones; out: the result */
    MSCCLPP_DEV_EXSCAN          /* in: one block for all higher ranks; out: the result, except on rank 0 */
} mscclpp_dev_pattern_t;

/* True for patterns whose blocks are combined. */
#define MSCCLPP_DEV_COMBINES(pattern_) ((pattern_) >= MSCCLPP_DEV_REDUCE)

/* True for patterns in which the result of a rank combines the blocks of lower ranks. */
#define MSCCLPP_DEV_COLL_SCANS(pattern_) ((pattern_) == MSCCLPP_DEV_SCAN || (pattern_) == MSCCLPP_DEV_EXSCAN)

/* True if `sender_` has a block for `receiver_`. All ranks get the same answer, even if the block has 0 bytes. */
#define MSCCLPP_DEV_COLL_SENDS(pattern_, root_, sender_, receiver_)                                                    \
    ((pattern_) == MSCCLPP_DEV_BCAST     ? (sender_) == (root_) && (receiver_) != (root_)                              \
     : (pattern_) == MSCCLPP_DEV_SCATTER ? (sender_) == (root_)                                                        \
     : (pattern_) == MSCCLPP_DEV_GATHER || (pattern_) == MSCCLPP_DEV_REDUCE ? (receiver_) == (root_)                   \
     : (pattern_) == MSCCLPP_DEV_SCAN                                       ? (sender_) <= (receiver_)                 \
     : (pattern_) == MSCCLPP_DEV_EXSCAN                                     ? (sender_) < (receiver_)                  \
                                                                            : true)

/* True for patterns that have a root. */
#define MSCCLPP_DEV_COLL_ROOTED(pattern_)                                                                              \
    ((pattern_) == MSCCLPP_DEV_BCAST || (pattern_) == MSCCLPP_DEV_GATHER || (pattern_) == MSCCLPP_DEV_SCATTER ||       \
     (pattern_) == MSCCLPP_DEV_REDUCE)

/* True for patterns whose input has one block per rank. In other patterns, the input is one block for all receivers. */
#define MSCCLPP_DEV_COLL_SENDS_MANY(pattern_)                                                                          \
    ((pattern_) == MSCCLPP_DEV_ALLTOALL || (pattern_) == MSCCLPP_DEV_SCATTER ||                                        \
     (pattern_) == MSCCLPP_DEV_REDUCE_SCATTER)

/* True for patterns whose output has one block per rank. */
#define MSCCLPP_DEV_COLL_RECVS_MANY(pattern_)                                                                          \
    ((pattern_) == MSCCLPP_DEV_ALLGATHER || (pattern_) == MSCCLPP_DEV_ALLTOALL || (pattern_) == MSCCLPP_DEV_GATHER)

/*
 * Arguments of kernels that derive the blocks from the pattern. `common.bytes` is the size of one block if all blocks
 * have the same size. Input and output are the same memory only if `in_place` says so.
 */
typedef struct {
    mscclpp_dev_args_t common;
    uint64_t stride;   /* bytes from one block's start to the next one's, including the padding of the last element */
    uint32_t pattern;  /* mscclpp_dev_pattern_t */
    uint32_t root;     /* rank; used by BCAST, GATHER, SCATTER and REDUCE */
    uint32_t in_place; /* not 0: this rank's own block is already in the output */
} mscclpp_dev_coll_args_t;

typedef struct {
    uint64_t offset; /* from the start of the user's buffer, bytes */
    uint64_t bytes;
} mscclpp_dev_block_t;

/* The ways in which the sizes of blocks differ, and which ranks know them. */
typedef enum {
    MSCCLPP_DEV_SAME,   /* all blocks have the same size, and the lists are not used */
    MSCCLPP_DEV_VARIED, /* all ranks know the size of the largest block, or two ranks that of those they exchange */
    MSCCLPP_DEV_UNSIZED /* only the two ends of a pair know its block; the kernel finds the largest
                           (kern/coll/unsized.h) */
} mscclpp_dev_varied_t;

/*
 * Arguments of kernels for blocks whose sizes and places differ. If a rank has no block for another rank, both list one
 * of 0 bytes.
 */
typedef struct {
    mscclpp_dev_coll_args_t coll;
    uint64_t largest_block;                          /* size of the largest block on any rank, bytes; equal on all
                                               ranks. With MSCCLPP_DEV_UNSIZED, of those that this
                                               rank exchanges with others. Kernels by packets need no
                                               more than the largest one on this rank. */
    uint64_t packets_max;                            /* UNSIZED: larger blocks go through tiles, bytes; equal on all
                                                        ranks, and less than a slot of the packet area */
    uint32_t varied;                                 /* mscclpp_dev_varied_t */
    mscclpp_dev_block_t send[MSCCLPP_DEV_MAX_RANKS]; /* the block for each rank, in `in` */
    mscclpp_dev_block_t recv[MSCCLPP_DEV_MAX_RANKS]; /* the block from each rank, in `out`; this rank's entry is the
                                                        place of a combined result */
} mscclpp_dev_blocks_args_t;

/* A block with regular holes: `count` runs of `length` bytes, `stride` bytes apart, the first one at `offset`. */
typedef struct {
    int64_t offset;
    uint64_t length;
    uint64_t count;
    int64_t stride;
} mscclpp_dev_runs_t;

/*
 * Bytes of a tile in the bulk area; 0: the area is too small. Each block of the grid has two tiles for each sender, so
 * that one barrier a turn is enough (kern/coll/tiles.h).
 */
#define MSCCLPP_DEV_COLL_TILE(bulk_size_, nblocks_, nranks_)                                                           \
    ((bulk_size_) / (2 * (uint64_t)(nblocks_) * (nranks_)) / MSCCLPP_DEV_UNIT * MSCCLPP_DEV_UNIT)

/* How a kernel on mapped buffers uses its two lists of addresses, from[] and to[]. */
typedef enum {
    MSCCLPP_DEV_DIRECT_PAIRS,  /* copy bytes[i] bytes from from[i] to to[i], for each i below `count` */
    MSCCLPP_DEV_DIRECT_SWAP,   /* swap bytes[i] bytes at from[i] with those at to[i], for each i below `count` */
    MSCCLPP_DEV_DIRECT_FAN,    /* copy common.bytes bytes from from[0] to each of to[0] ... to[count - 1] */
    MSCCLPP_DEV_DIRECT_REDUCE, /* combine common.bytes bytes of from[0] ... from[nranks - 1] into to[0] */
    MSCCLPP_DEV_DIRECT_SCAN,   /* combine from[0] ... from[r] into to[r], for each r where to[r] is not NULL */
    MSCCLPP_DEV_DIRECT_EXSCAN  /* combine from[0] ... from[r - 1] into to[r], for each r above 0 where to[r] is not
                                  NULL */
} mscclpp_dev_direct_t;

/*
 * Arguments of kernels that work on mapped buffers of all ranks. The addresses in `common` are not used. No two ranks
 * write the same bytes. No rank reads what another rank writes. The exceptions are DIRECT_SCAN, DIRECT_REDUCE and
 * DIRECT_SWAP, which may read and write one place of one buffer; the same thread then does both.
 *
 * `home` is for a result of DIRECT_REDUCE whose place other ranks read: it is written to to[0], and copied home when
 * they have done so. A peer's thread reads at `home` the units that the thread of the same number writes there.
 */
typedef struct {
    mscclpp_dev_args_t common;
    uint32_t mode;  /* mscclpp_dev_direct_t */
    uint32_t count; /* of entries in to[], and for pairs and swaps in from[] and bytes[] */
    char *home;     /* NULL: the result stays in to[0] */
    const char *from[MSCCLPP_DEV_MAX_RANKS];
    char *to[MSCCLPP_DEV_MAX_RANKS];
    uint64_t bytes[MSCCLPP_DEV_MAX_RANKS];
} mscclpp_dev_direct_args_t;

/*
 * Copies one block between two layouts of runs in mapped memory, in memory order on both sides. The block consists of
 * `segments` pieces of `size` bytes. Each side's run holds a fixed number of segments. All sizes, strides and addresses
 * are multiples of `width`.
 */
typedef struct {
    const char *from;
    char *to;
    uint64_t segments;
    uint64_t size;     /* of a segment, bytes */
    uint64_t from_run; /* segments in one run */
    uint64_t to_run;
    int64_t from_stride; /* from the start of one run to the next, bytes */
    int64_t to_stride;
    uint32_t width; /* bytes that are moved at once: 1, 2, 4, 8 or 16 */
} mscclpp_dev_strided_t;

/* The most blocks whose descriptions fit into a kernel's arguments. */
#define MSCCLPP_DEV_STRIDED_BLOCKS 40

/* Arguments of the kernel that copies such blocks. */
typedef struct {
    mscclpp_dev_args_t common; /* the addresses in it are not used */
    uint32_t count;            /* of blocks */
    mscclpp_dev_strided_t blocks[MSCCLPP_DEV_STRIDED_BLOCKS];
} mscclpp_dev_strided_args_t;

/*
 * A strided part of an element: `count` runs of `length` bytes. The first run starts `offset` bytes after the start of
 * the element, each further one `stride` bytes after the run before it. In packed form, the runs follow one another
 * without holes, starting at `packed`. All these distances, and all addresses of runs, are multiples of `width`: 1, 2,
 * 4, 8 or 16.
 */
typedef struct {
    int64_t offset;
    uint64_t length;
    uint64_t count;
    int64_t stride;
    uint64_t packed;
    uint32_t width;
} mscclpp_dev_piece_t;

/* The most pieces of a type that one launch packs. A type with more pieces takes several launches. */
#define MSCCLPP_DEV_PACK_PIECES 16

/* Arguments of the kernel that packs data with holes, or unpacks it. The kernel does not use `common`. */
typedef struct {
    mscclpp_dev_args_t common;
    char *spread; /* the first element, with holes */
    char *packed; /* the data without the holes */
    uint64_t elements;
    int64_t extent;  /* from the start of one element to the next, bytes */
    uint64_t size;   /* packed bytes of one element, which several launches may share */
    uint32_t unpack; /* not 0: from `packed` to `spread`; 0: the other way */
    uint32_t pieces; /* how many */
    mscclpp_dev_piece_t piece[MSCCLPP_DEV_PACK_PIECES];
} mscclpp_dev_pack_args_t;

#endif
