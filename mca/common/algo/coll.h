/*
 * The collectives: their names, the blocks of data that each has (device/types/coll.h), and the algorithm that serves a
 * call. Everything here is a pure function of values that are equal on all ranks. All-reduce has its own algorithms
 * (mca/common/algo.h, mca/common/select.h); the others share those below.
 */
#ifndef MCA_COMMON_ALGO_COLL_H
#define MCA_COMMON_ALGO_COLL_H

#include "device/types/coll.h"
#include "mca/common/algo/algo.h"
#include "mca/common/base/colls.h"
#include "mca/common/base/status.h"

mscclpp_dev_pattern_t mscclpp_coll_pattern(mscclpp_coll_t coll);

/*
 * `count` runs of `length` bytes. The first is `offset` bytes from an element, each other `stride` bytes after the one
 * before.
 */
typedef struct {
    int64_t offset;
    uint64_t length;
    uint64_t count;
    int64_t stride;
} mscclpp_coll_piece_t;

/* Elements with holes. They are packed in the order of their pieces, starting `offset` bytes into the packed buffer. */
typedef struct {
    char *spread; /* the first element, in the user's buffer */
    uint64_t elements;
    int64_t extent; /* bytes from one element to the next */
    uint64_t size;  /* bytes of data in one element */
    const mscclpp_coll_piece_t *piece;
    size_t pieces;
    uint64_t offset;
} mscclpp_coll_pack_t;

/*
 * One call as its rank sees it. Pointers that a rank does not use, such as the output of a rank that is not the root,
 * are NULL.
 */
typedef struct {
    mscclpp_coll_t coll;
    const void *in; /* start of the blocks that this rank has for others */
    void *out;      /* start of the blocks that this rank receives, or of the result that they combine to */
    /*
     * MPI_IN_PLACE. For a scatter `out` is NULL, as the root's own block stays where it is. For all others `in` is NULL
     * and the input lies in `out`; blocks of one size that go to all or to the root follow those of lower ranks.
     * Varying sizes are given as usual, with places in `out`.
     */
    bool in_place;
    /*
     * Data with holes. If there are any packs, the buffer stands for that many bytes of packed data, and all places are
     * places in the packed data. `in` and `out` are then any address in the user's buffer, which tells the kind of
     * memory.
     */
    const mscclpp_coll_pack_t *in_packs;
    size_t in_pack_count;
    bool in_scattered; /* the data lies in several allocations, of any kind of memory */
    const mscclpp_coll_pack_t *out_packs;
    size_t out_pack_count;
    bool out_scattered;
    /*
     * For an exchange of blocks with holes, if each block consists of runs of one length and distance: the places of
     * the runs in the user's buffers. With them the blocks can be moved without packing. NULL otherwise.
     */
    const mscclpp_dev_runs_t *send_runs;
    const mscclpp_dev_runs_t *recv_runs;
    uint64_t count; /* elements of one block, where all blocks are of one size */
    /*
     * For collectives with varying sizes: bytes of `in` for each rank, and of `out` from each rank; NULL if not used.
     */
    const mscclpp_dev_block_t *send;
    const mscclpp_dev_block_t *recv;
    bool said_in_place; /* the caller said that the input is where the output belongs; equal on all ranks, but for
                           collectives with a root */
    bool varied;        /* `send` and `recv` give the sizes, not `count` */
    bool known; /* `most` is the size of the largest block of all ranks, which all ranks know; else that of this rank's
                   blocks only */
    uint64_t most;
    mscclpp_dtype_t dtype; /* MSCCLPP_DTYPE_UINT8 for collectives that only move data, as they move bytes */
    mscclpp_op_t op;
    int root;      /* as the communicator numbers it */
    bool early;    /* as in mscclpp_allreduce_args_t */
    uint64_t call; /* number of this call on the communicator, from 1 */
} mscclpp_coll_args_t;

typedef enum {
    MSCCLPP_COLL_BY_PACKETS,  /* packets through the scratch */
    MSCCLPP_COLL_BY_ZEROCOPY, /* kernels on mapped user buffers */
    MSCCLPP_COLL_BY_ENGINES,  /* copy engines on mapped user buffers, and no kernel */
    MSCCLPP_COLL_BY_SCRATCH,  /* tiles through the scratch, for buffers that cannot be mapped */
    MSCCLPP_COLL_BY_LAST,
    /* Used for ranks on several nodes, and only for those, whatever a parameter says: */
    MSCCLPP_COLL_BY_NODES = MSCCLPP_COLL_BY_LAST, /* tiles */
    MSCCLPP_COLL_BY_NODES_PACKETS
} mscclpp_coll_algo_t;

/* The values of the parameters <name>_algorithm, and "nodes" and "nodes_packets". */
const char *mscclpp_coll_algo_name(mscclpp_coll_algo_t algo);

/*
 * Maps a parameter's value, which must be one of the choices, to an algorithm, MSCCLPP_COLL_AUTO or MSCCLPP_COLL_STAGE.
 */
#define MSCCLPP_COLL_AUTO (-1)
#define MSCCLPP_COLL_STAGE (-2)
int mscclpp_coll_algo_find(const char *name);

typedef struct {
    mscclpp_coll_algo_t algo;
    mscclpp_dev_kernel_t kernel; /* not set for engines */
    uint32_t nblocks;
    uint32_t nthreads;
    uint64_t epochs;
    uint64_t tile; /* between nodes, without packets: mscclpp_dev_coll_nodes_args_t */
} mscclpp_coll_choice_t;

/*
 * Chooses how to serve blocks of at most `most` bytes. Ignores the fields bytes and queued of `input`. `mapped` is
 * false if buffers cannot be mapped. MSCCLPP_ERR_NOT_SUPPORTED if the call has to be staged.
 */
mscclpp_status_t mscclpp_coll_select(const mscclpp_select_input_t *input, mscclpp_coll_t coll, uint64_t most,
                                     bool varied, bool mapped, mscclpp_coll_choice_t *choice_p);

#endif
