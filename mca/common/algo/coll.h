/*
 * The collectives other than all-reduce: the arguments of a call, and the choice of the algorithm that serves it. All
 * of these collectives share the algorithms below; all-reduce has separate ones (mca/common/algo/algo.h,
 * mca/common/algo/select.h). No function here has side effects. Every function but mscclpp_coll_widen_packets depends
 * only on values that are equal on all ranks.
 */
#ifndef MCA_COMMON_ALGO_COLL_H
#define MCA_COMMON_ALGO_COLL_H

#include "device/types/coll.h"
#include "device/types/nodes.h"
#include "mca/common/algo/algo.h"
#include "mca/common/base/colls.h"
#include "mca/common/base/status.h"

/* Returns the pattern in which the blocks of a collective are sent between ranks. */
mscclpp_dev_pattern_t mscclpp_coll_pattern(mscclpp_coll_t coll);

/*
 * A strided part of an element: `count` runs of `length` bytes. The first run begins `offset` bytes after the start of
 * the element, and each further run `stride` bytes after the previous one.
 */
typedef struct {
    int64_t offset;
    uint64_t length;
    uint64_t count;
    int64_t stride;
} mscclpp_coll_piece_t;

/* Elements with holes (an MPI derived type) that must be packed. Packed data has the pieces of the elements in order.
 */
typedef struct {
    char *with_holes;                   /* the first element, in the user's buffer */
    uint64_t elements;                  /* number of elements */
    int64_t extent;                     /* distance in bytes from one element to the next */
    uint64_t size;                      /* number of bytes of data in one element */
    const mscclpp_coll_piece_t *pieces; /* pieces of one element, in the order of its type map */
    size_t piece_count;
    uint64_t offset; /* place of the packed elements in the packed buffer, in bytes */
} mscclpp_coll_pack_t;

/*
 * The arguments of one call on this rank. Pointers that a rank does not use, such as the output of a rank that is not
 * the root, are NULL.
 */
typedef struct {
    mscclpp_coll_t coll;
    const void *in; /* start of the blocks that this rank sends */
    void *out;      /* start of the blocks that this rank receives, or of their combined result */
    /*
     * The caller passed MPI_IN_PLACE. For a scatter, `out` is NULL, because the root's own block is not moved. For all
     * other collectives, `in` is NULL, and the input is in `out`: blocks of one size that are sent to all ranks or to
     * the root are in the order of the ranks; `send` and `recv` give the places of blocks of varying sizes.
     */
    bool in_place;
    /*
     * Data with holes. If there are packs, all places in `in` (or `out`) are places in the packed data. The pointer
     * itself is then any address in the user's buffer; it only shows the kind of memory.
     */
    const mscclpp_coll_pack_t *in_packs;
    size_t in_pack_count;
    bool in_scattered; /* the data is in several allocations, of any kind of memory */
    const mscclpp_coll_pack_t *out_packs;
    size_t out_pack_count;
    bool out_scattered;
    /*
     * By rank: the places of the runs of a block in the user's buffers. With them, kernels move blocks with holes
     * without packing. Only for all-to-alls whose blocks consist of runs of one length and distance; NULL otherwise.
     */
    const mscclpp_dev_runs_t *send_runs;
    const mscclpp_dev_runs_t *recv_runs;
    uint64_t count; /* number of elements of one block, if all blocks have one size */
    /*
     * For collectives with varying sizes, by rank: the bytes of `in` that are sent to that rank, and the bytes of `out`
     * that are received from that rank. NULL if not used.
     */
    const mscclpp_dev_block_t *send;
    const mscclpp_dev_block_t *recv;
    bool passed_in_place;   /* the caller passed MPI_IN_PLACE; equal on all ranks, except for collectives with a root */
    bool varied;            /* `send` and `recv` give the sizes, not `count` */
    uint64_t largest_block; /* bytes of the largest block: of all ranks if `is_size_known`, otherwise of this rank */
    bool is_size_known;     /* all ranks know `largest_block`, and it is equal on all of them */
    mscclpp_dtype_t dtype;  /* MSCCLPP_DTYPE_UINT8 for collectives that only move data, because they move bytes */
    mscclpp_op_t op;
    int root;                /* rank in the communicator */
    bool early;              /* the host does not wait for the call yet, as in mscclpp_allreduce_args_t */
    bool repeated;           /* all calls of the team have equal arguments, as starts of a persistent request have */
    void *mapped;            /* for queued calls: what mscclpp_collective_map_buffers has mapped, or NULL */
    bool may_wait;           /* for queued calls: the ranks may wait for one another (mscclpp_allreduce_args_t) */
    uint64_t call;           /* number of this call on the communicator, from 1 */
    uint64_t out_allocation; /* allocation of `out`, as `reach` in mca/common/gpu/gpu.h takes it; 0: not known */
    uint64_t in_allocation;  /* allocation of `in` */
} mscclpp_coll_args_t;

/* The algorithms of these collectives. */
typedef enum {
    MSCCLPP_COLL_BY_PACKETS,  /* packets through the scratch */
    MSCCLPP_COLL_BY_ZEROCOPY, /* kernels on mapped user buffers */
    MSCCLPP_COLL_BY_ENGINES,  /* copy engines on mapped user buffers, and no kernel */
    MSCCLPP_COLL_BY_SCRATCH,  /* tiles through the scratch, for buffers that cannot be mapped */
    MSCCLPP_COLL_BY_PUTS,     /* puts into the scratch, piece by piece */
    MSCCLPP_COLL_BY_LAST,
    /*
     * Algorithms between nodes. Parameters, and rules for several nodes, can name them. On one node, a parameter that
     * names one has no effect.
     */
    MSCCLPP_COLL_BY_NODES = MSCCLPP_COLL_BY_LAST, /* tiles */
    MSCCLPP_COLL_BY_NODES_PACKETS,                /* packets, from each node to all others at once */
    MSCCLPP_COLL_BY_NODES_ROUNDS,                 /* packets, in rounds (device/lib/nodes_rounds.h) */
    MSCCLPP_COLL_BY_NODES_RING,                   /* tiles; each node passes on the tiles that it has received */
    MSCCLPP_COLL_BY_NODES_TREES,                  /* tiles, over two trees (device/lib/nodes_trees.h) */
    MSCCLPP_COLL_BY_NODES_HALVING,                /* tiles, in rounds (device/kern/coll/nodes_halving.h) */
    MSCCLPP_COLL_BY_END
} mscclpp_coll_algo_t;

/* Returns the name of the algorithm in parameters (<name>_algorithm) and rules. */
const char *mscclpp_coll_algo_name(mscclpp_coll_algo_t algo);

/*
 * Returns the algorithm within a node that has this name, MSCCLPP_ALGO_STAGE for "stage", or MSCCLPP_ALGO_AUTO for any
 * other text.
 */
int mscclpp_coll_algo_find(const char *name);

/*
 * Returns the algorithm within a node or between nodes that has this name, MSCCLPP_ALGO_STAGE for "stage", or
 * MSCCLPP_ALGO_AUTO for any other text.
 */
int mscclpp_coll_algo_find_any(const char *name);

/* The largest radix of rounds between nodes that is tried. Larger radices save few rounds, and send many messages. */
#define MSCCLPP_COLL_RADIX_MAX 8u

/* The algorithm and grid that serve one call. */
typedef struct {
    mscclpp_coll_algo_t algo;
    mscclpp_dev_kernel_t kernel; /* not set for copy engines */
    uint32_t nblocks;
    uint32_t nthreads;
    uint64_t epochs;      /* number of epochs (packet flags) that the kernel uses */
    uint64_t packets_max; /* MSCCLPP_KERNEL_COLL_MOVE_UNSIZED: the largest block that goes as packets, bytes */
    uint64_t tile;        /* between nodes, without packets: size in bytes of a tile (mscclpp_dev_coll_nodes_args_t) */
    uint32_t radix;       /* radix of rounds between nodes; 0: the call has no rounds */
    bool prefixes;        /* a scan in rounds, whose nodes send combined operands (device/types/coll_nodes.h) */
    mscclpp_dev_nodes_pattern_t exchange; /* pattern of tiles between nodes: DIRECT, WINDOWS, RING, HALVING, TREES */
} mscclpp_coll_choice_t;

/*
 * Chooses the algorithm and its grid for a call whose largest block has `block_bytes` bytes. `varied` says that blocks
 * differ in size. `mapped` is false if peers cannot map the users' buffers. The field `bytes` of `input` is not used.
 *
 * An algorithm that the user forces comes first, then that of a matching rule, then that of the thresholds. Returns
 * MSCCLPP_ERR_NOT_SUPPORTED if the call has to be staged, for one of these reasons:
 * - The user wants all calls of the collective staged.
 * - An early call would need a meeting that the hosts of several nodes cannot hold.
 * - The scratch is too small for tiles, and no other algorithm can serve the call.
 */
mscclpp_status_t mscclpp_coll_select(const mscclpp_select_input_t *input, mscclpp_coll_t coll, uint64_t block_bytes,
                                     bool varied, bool mapped, mscclpp_coll_choice_t *choice_p);

/*
 * Replaces the grid of a choice for packets on one node by the grid for a block of `own_bytes` bytes, which this rank
 * has for itself. This block, and so the grid, may differ between ranks.
 */
void mscclpp_coll_widen_packets(const mscclpp_select_input_t *input, uint64_t own_bytes, mscclpp_coll_choice_t *choice);

/*
 * Writes the choice between nodes, and the times that the cost model predicts, as one line without a newline. These are
 * the times of packets if `choice` is nodes_packets or nodes_rounds, and of tiles otherwise. An exchange in windows has
 * no times. Truncates the line to `size` bytes. Returns false, with the line incomplete, if there is nothing to
 * compare, because only the chosen algorithm with tiles can serve the call.
 */
bool mscclpp_coll_explain(const mscclpp_select_input_t *input, mscclpp_coll_t coll, uint64_t block_bytes,
                          const mscclpp_coll_choice_t *choice, char *text, size_t size);

#endif
