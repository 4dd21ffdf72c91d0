/*
 * What the kernels of the collectives other than all-reduce share with the host. Each of these collectives is a set of
 * blocks: rank r has a block of its input for rank p, or none. A collective either moves the blocks to their places in
 * p's output, or p combines the blocks that it gets, in the order of the ranks, into one result.
 */
#ifndef MSCCLPP_DEVICE_TYPES_COLL_H
#define MSCCLPP_DEVICE_TYPES_COLL_H

#include <stdbool.h>

#include "device/types/launch.h"

/* Which ranks have a block for which. `n` is the number of ranks. */
typedef enum {
    MSCCLPP_DEV_ALLGATHER,      /* in: one block, for all; out: n blocks */
    MSCCLPP_DEV_ALLTOALL,       /* in: n blocks; out: n blocks */
    MSCCLPP_DEV_BCAST,          /* the root's in: one block, for all others; their out: one block */
    MSCCLPP_DEV_GATHER,         /* in: one block, for the root; the root's out: n blocks */
    MSCCLPP_DEV_SCATTER,        /* the root's in: n blocks; out: one block */
    MSCCLPP_DEV_REDUCE,         /* in: one block, for the root; the root's out: the result */
    MSCCLPP_DEV_REDUCE_SCATTER, /* in: n blocks; out: the result of the own ones */
    MSCCLPP_DEV_SCAN,           /* in: one block, for this rank and the higher ones; out: the result */
    MSCCLPP_DEV_EXSCAN          /* in: one block, for the higher ranks; out: the result, of all but rank 0 */
} mscclpp_dev_pattern_t;

/* True for patterns whose blocks are combined. */
#define MSCCLPP_DEV_COMBINES(pattern_) ((pattern_) >= MSCCLPP_DEV_REDUCE)

/* True if `sender_` has a block for `receiver_`. What all ranks know of it: the block may still be of 0 bytes. */
#define MSCCLPP_DEV_COLL_SENDS(pattern_, root_, sender_, receiver_)                                                    \
    ((pattern_) == MSCCLPP_DEV_BCAST     ? (sender_) == (root_) && (receiver_) != (root_)                              \
     : (pattern_) == MSCCLPP_DEV_SCATTER ? (sender_) == (root_)                                                        \
     : (pattern_) == MSCCLPP_DEV_GATHER || (pattern_) == MSCCLPP_DEV_REDUCE ? (receiver_) == (root_)                   \
     : (pattern_) == MSCCLPP_DEV_SCAN                                       ? (sender_) <= (receiver_)                 \
     : (pattern_) == MSCCLPP_DEV_EXSCAN                                     ? (sender_) < (receiver_)                  \
                                                                            : true)

/* True for patterns whose input is a block for each rank; false: one block for all that it is sent to. */
#define MSCCLPP_DEV_COLL_SENDS_MANY(pattern_)                                                                          \
    ((pattern_) == MSCCLPP_DEV_ALLTOALL || (pattern_) == MSCCLPP_DEV_SCATTER ||                                        \
     (pattern_) == MSCCLPP_DEV_REDUCE_SCATTER)

/* True for patterns whose output is a block of each rank. */
#define MSCCLPP_DEV_COLL_RECVS_MANY(pattern_)                                                                          \
    ((pattern_) == MSCCLPP_DEV_ALLGATHER || (pattern_) == MSCCLPP_DEV_ALLTOALL || (pattern_) == MSCCLPP_DEV_GATHER)

/*
 * Arguments of kernels that find the blocks by the pattern. `common.bytes` is the size of one block where all blocks
 * are of one size. An input and an output are the same memory only where `in_place` says so.
 */
typedef struct {
    mscclpp_dev_args_t common;
    uint64_t stride;   /* bytes from one block's beginning to the next one's: padding of its last element included */
    uint32_t pattern;  /* mscclpp_dev_pattern_t */
    uint32_t root;     /* of BCAST, GATHER, SCATTER and REDUCE */
    uint32_t in_place; /* not 0: this rank's own block lies in the output already */
} mscclpp_dev_coll_args_t;

typedef struct {
    uint64_t offset; /* bytes from the buffer's beginning */
    uint64_t bytes;
} mscclpp_dev_block_t;

/*
 * The same for blocks whose sizes and places differ. Who has no block for a rank says so with a size of 0, which the
 * rank says of its own side, too.
 */
typedef struct {
    mscclpp_dev_coll_args_t coll;
    uint64_t most;                                   /* bytes of the largest block of all ranks */
    uint32_t varied;                                 /* 0: all blocks are of one size, and the lists are not used */
    mscclpp_dev_block_t send[MSCCLPP_DEV_MAX_RANKS]; /* of `in`, for each rank */
    mscclpp_dev_block_t recv[MSCCLPP_DEV_MAX_RANKS]; /* of `out`, from each rank; of a result the own one counts */
} mscclpp_dev_blocks_args_t;

/* A block with holes that repeat: `count` runs of `length` bytes, `stride` apart, the first one at `offset`. */
typedef struct {
    int64_t offset;
    uint64_t length;
    uint64_t count;
    int64_t stride;
} mscclpp_dev_runs_t;

/* Bytes of a tile of the bulk area: two for each sender and each block of the grid. 0: the area is too small. */
#define MSCCLPP_DEV_COLL_TILE(bulk_size_, nblocks_, nranks_)                                                           \
    ((bulk_size_) / (2 * (uint64_t)(nblocks_) * (nranks_)) / MSCCLPP_DEV_UNIT * MSCCLPP_DEV_UNIT)

/* How a kernel of mapped buffers uses its two lists of addresses. */
typedef enum {
    MSCCLPP_DEV_DIRECT_PAIRS,  /* bytes[i] from from[i] to to[i], for each i below `count` */
    MSCCLPP_DEV_DIRECT_FAN,    /* common.bytes from from[0] to each of to[0] to to[count - 1] */
    MSCCLPP_DEV_DIRECT_REDUCE, /* common.bytes of from[0] to from[nranks - 1], combined, to to[0] */
    MSCCLPP_DEV_DIRECT_SCAN,   /* the same, where to[r] gets what from[0] to from[r] combine to; NULL: nobody */
    MSCCLPP_DEV_DIRECT_EXSCAN  /* the same, with from[0] to from[r - 1]; to[0] is not used */
} mscclpp_dev_direct_t;

/*
 * Arguments of kernels that work on mapped buffers of all ranks. Of `common` the addresses are not used. No two ranks
 * write the same bytes, and what one rank writes another one reads only where DIRECT_SCAN and DIRECT_REDUCE read and
 * write the same place of the same buffer, by one thread.
 */
typedef struct {
    mscclpp_dev_args_t common;
    uint32_t mode; /* mscclpp_dev_direct_t */
    uint32_t count;
    const char *from[MSCCLPP_DEV_MAX_RANKS];
    char *to[MSCCLPP_DEV_MAX_RANKS];
    uint64_t bytes[MSCCLPP_DEV_MAX_RANKS];
} mscclpp_dev_direct_args_t;

/*
 * One block from runs to runs of mapped memory, in the order in which both lie: `segments` of `size` bytes, of which so
 * many follow one another on each side before the next run begins. Everything is a multiple of `width`.
 */
typedef struct {
    const char *from;
    char *to;
    uint64_t segments;
    uint64_t size;
    uint64_t from_run; /* segments of a run */
    uint64_t to_run;
    int64_t from_stride; /* bytes from a run to the next */
    int64_t to_stride;
    uint32_t width;
} mscclpp_dev_strided_t;

/* So many fit in what a kernel takes as arguments. */
#define MSCCLPP_DEV_STRIDED_BLOCKS 40

typedef struct {
    mscclpp_dev_args_t common; /* of the addresses nothing is used */
    uint32_t count;
    mscclpp_dev_strided_t block[MSCCLPP_DEV_STRIDED_BLOCKS];
} mscclpp_dev_strided_args_t;

/*
 * `count` runs of `length` bytes, the first one `offset` bytes from an element's beginning and each `stride` bytes
 * behind the one before. Packed, they lie one behind the other from `packed` on. All of these distances, and all
 * addresses of the runs, are multiples of `width`: 1, 2, 4, 8 or 16.
 */
typedef struct {
    int64_t offset;
    uint64_t length;
    uint64_t count;
    int64_t stride;
    uint64_t packed;
    uint32_t width;
} mscclpp_dev_piece_t;

#define MSCCLPP_DEV_PACK_PIECES 16

/* Arguments of the kernel that packs data with holes, or puts it back. Of `common` nothing is used. */
typedef struct {
    mscclpp_dev_args_t common;
    char *spread; /* the first element */
    char *packed; /* its data without the holes */
    uint64_t elements;
    int64_t extent; /* bytes from one element to the next */
    uint64_t size;  /* bytes of the data of one, which the pieces of several launches may share */
    uint32_t unpack;
    uint32_t pieces;
    mscclpp_dev_piece_t piece[MSCCLPP_DEV_PACK_PIECES];
} mscclpp_dev_pack_args_t;

#endif
