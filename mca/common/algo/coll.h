/*
 * The collectives other than all-reduce: what a call of one is, and which algorithm serves it. All of them share the
 * algorithms below; all-reduce has its own (mca/common/algo/algo.h, mca/common/algo/select.h). Everything here is a
 * pure function of values that are equal on all ranks.
 */
#ifndef MCA_COMMON_ALGO_COLL_H
#define MCA_COMMON_ALGO_COLL_H

#include "device/types/coll.h"
#include "device/types/nodes.h"
#include "mca/common/algo/algo.h"
#include "mca/common/base/colls.h"
#include "mca/common/base/status.h"

/* Returns the pattern in which a collective's blocks go from rank to rank. */
mscclpp_dev_pattern_t mscclpp_coll_pattern(mscclpp_coll_t coll);

/*
 * A strided part of an element: `count` runs of `length` bytes. The first run begins `offset` bytes after the element's
 * start, and each next run `stride` bytes after the one before.
 */
typedef struct {
    int64_t offset;
    uint64_t length;
    uint64_t count;
    int64_t stride;
} mscclpp_coll_piece_t;

/*
 * Elements with holes (an MPI derived type) that are to be packed. The packed data has the elements' pieces in order,
 * and begins `offset` bytes into the packed buffer.
 */
typedef struct {
    char *with_holes;                   /* the first element, in the user's buffer */
    uint64_t elements;                  /* number of elements */
    int64_t extent;                     /* bytes from one element to the next */
    uint64_t size;                      /* bytes of data in one element */
    const mscclpp_coll_piece_t *pieces; /* of one element, in the order of its type map */
    size_t piece_count;
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
     * The caller passed MPI_IN_PLACE. For a scatter, `out` is NULL, as the root's own block stays where it is. For all
     * other collectives `in` is NULL and the input lies in `out`. Blocks of one size that go to all ranks or to the
     * root then lie in the order of the ranks; blocks of varying sizes lie at the places in `out` that `send` and
     * `recv` give.
     */
    bool in_place;
    /*
     * Data with holes. If there are packs, `in` (or `out`) stands for that many bytes of packed data, and all places
     * are places in the packed data. The pointer itself is then any address of the user's buffer, from which the kind
     * of memory is found.
     */
    const mscclpp_coll_pack_t *in_packs;
    size_t in_pack_count;
    bool in_scattered; /* the data lies in several allocations, of any kind of memory */
    const mscclpp_coll_pack_t *out_packs;
    size_t out_pack_count;
    bool out_scattered;
    /*
     * Only for all-to-alls whose blocks have holes but consist of runs of one length and distance: where the runs lie
     * in the user's buffers. With them, kernels move the blocks without packing. NULL otherwise.
     */
    const mscclpp_dev_runs_t *send_runs;
    const mscclpp_dev_runs_t *recv_runs;
    uint64_t count; /* elements of one block, where all blocks are of one size */
    /*
     * For collectives with varying sizes: for each rank, the bytes of `in` that go to it, and the bytes of `out` that
     * come from it. NULL if not used.
     */
    const mscclpp_dev_block_t *send;
    const mscclpp_dev_block_t *recv;
    bool said_in_place;     /* the caller passed MPI_IN_PLACE; equal on all ranks, except for collectives with a root */
    bool varied;            /* `send` and `recv` give the sizes, not `count` */
    uint64_t largest_block; /* bytes of the largest block: of all ranks if `is_size_known`, else of this rank */
    bool is_size_known;     /* all ranks know `largest_block`, and it is equal on all of them */
    mscclpp_dtype_t dtype;  /* MSCCLPP_DTYPE_UINT8 for collectives that only move data, as they move bytes */
    mscclpp_op_t op;
    int root;   /* rank in the communicator */
    bool early; /* nobody waits for the call yet, as in mscclpp_allreduce_args_t */
    /*
     * For queued calls: buffers of all ranks that mscclpp_collective_map has mapped, or NULL; and, if all ranks may
     * wait for one another for that, that a captured call may map them. Both as in mscclpp_allreduce_args_t.
     */
    void *mapped;
    bool may_map;
    uint64_t call;           /* number of this call on the communicator, from 1 */
    uint64_t out_allocation; /* of `out`, as `reach` in mca/common/gpu/gpu.h takes it; 0: not known */
} mscclpp_coll_args_t;

/* The algorithms of these collectives. */
typedef enum {
    MSCCLPP_COLL_BY_PACKETS,  /* packets through the scratch */
    MSCCLPP_COLL_BY_ZEROCOPY, /* kernels on mapped user buffers */
    MSCCLPP_COLL_BY_ENGINES,  /* copy engines on mapped user buffers, and no kernel */
    MSCCLPP_COLL_BY_SCRATCH,  /* tiles through the scratch, for buffers that cannot be mapped */
    MSCCLPP_COLL_BY_LAST,
    /* Algorithms between nodes, which rules for several nodes name. */
    MSCCLPP_COLL_BY_NODES = MSCCLPP_COLL_BY_LAST, /* tiles */
    MSCCLPP_COLL_BY_NODES_PACKETS,                /* packets, from each node to all others at once */
    MSCCLPP_COLL_BY_NODES_ROUNDS,                 /* packets, in rounds (device/lib/nodes_rounds.h) */
    MSCCLPP_COLL_BY_NODES_RING,                   /* tiles, each node passing on what it has received */
    MSCCLPP_COLL_BY_NODES_TREES,                  /* tiles, over two trees (device/lib/nodes_trees.h) */
    MSCCLPP_COLL_BY_NODES_HALVING,                /* tiles, in rounds (device/kern/coll/nodes_halving.h) */
    MSCCLPP_COLL_BY_END
} mscclpp_coll_algo_t;

/* Returns the algorithm's name, as parameters (<name>_algorithm) and rules have it. */
const char *mscclpp_coll_algo_name(mscclpp_coll_algo_t algo);

/*
 * Returns the algorithm within a node that has this name. For "stage", returns MSCCLPP_COLL_STAGE; for any other text,
 * MSCCLPP_COLL_AUTO.
 */
#define MSCCLPP_COLL_AUTO (-1)
#define MSCCLPP_COLL_STAGE (-2)
int mscclpp_coll_algo_find(const char *name);

/* Like mscclpp_coll_algo_find, and also finds algorithms between nodes. */
int mscclpp_coll_algo_find_any(const char *name);

/* The largest radix of rounds between nodes that is tried. Larger ones save few rounds, and send many messages. */
#define MSCCLPP_COLL_RADIX_MAX 8u

/* How kernels, or copy engines, serve one call. */
typedef struct {
    mscclpp_coll_algo_t algo;
    mscclpp_dev_kernel_t kernel; /* not set for copy engines */
    uint32_t nblocks;
    uint32_t nthreads;
    uint64_t epochs; /* epochs (packet flags) that the kernel uses */
    uint64_t tile;   /* between nodes, without packets: bytes of a tile (mscclpp_dev_coll_nodes_args_t) */
    uint32_t radix;  /* of rounds between nodes; 0: the call does not go in rounds */
    mscclpp_dev_nodes_pattern_t exchange; /* how tiles go between nodes: DIRECT, RING, HALVING, TREES */
} mscclpp_coll_choice_t;

/*
 * Chooses the algorithm and its grid for a call whose largest block has `block_bytes` bytes. `varied` tells that blocks
 * differ in size. `mapped` is false if peers cannot map the users' buffers. Does not read the fields bytes and queued
 * of `input`. Returns MSCCLPP_ERR_NOT_SUPPORTED if the call has to be staged.
 */
mscclpp_status_t mscclpp_coll_select(const mscclpp_select_input_t *input, mscclpp_coll_t coll, uint64_t block_bytes,
                                     bool varied, bool mapped, mscclpp_coll_choice_t *choice_p);

/*
 * Writes the times that the cost model expects between nodes, as one line without a newline: of packets if `choice` is
 * nodes_packets or nodes_rounds, else of tiles. Truncates the line to `size` bytes. Returns false, and leaves the
 * line incomplete, if nodes exchange such tiles in one way only.
 */
bool mscclpp_coll_explain(const mscclpp_select_input_t *input, mscclpp_coll_t coll, uint64_t block_bytes,
                          const mscclpp_coll_choice_t *choice, char *text, size_t size);

#endif
