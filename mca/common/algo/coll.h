/*
 * The collectives: what each is called, which blocks of data it has (device/types/coll.h), and by which algorithm a
 * call is served. Everything here is a pure function of values that are equal on all ranks. All-reduce has algorithms
 * of its own (mca/common/algo.h, mca/common/select.h); the others share those below.
 */
#ifndef MCA_COMMON_ALGO_COLL_H
#define MCA_COMMON_ALGO_COLL_H

#include "device/types/coll.h"
#include "mca/common/algo/algo.h"
#include "mca/common/base/colls.h"
#include "mca/common/base/status.h"

mscclpp_dev_pattern_t mscclpp_coll_pattern(mscclpp_coll_t coll);

/* `count` runs of `length` bytes, the first `offset` bytes from an element, each `stride` behind the one before. */
typedef struct {
    int64_t offset;
    uint64_t length;
    uint64_t count;
    int64_t stride;
} mscclpp_coll_piece_t;

/* Elements with holes, which are packed in the order of their pieces, `offset` bytes behind a buffer's beginning. */
typedef struct {
    char *spread; /* the first element, in the user's buffer */
    uint64_t elements;
    int64_t extent; /* bytes from one to the next */
    uint64_t size;  /* bytes of data of one */
    const mscclpp_coll_piece_t *piece;
    size_t pieces;
    uint64_t offset;
} mscclpp_coll_pack_t;

/* One call, as its rank sees it. What a rank does not use (the output of a rank that is not the root) is NULL. */
typedef struct {
    mscclpp_coll_t coll;
    const void *in; /* where the blocks begin that this rank has for others */
    void *out;      /* where those begin that it gets, or what they combine to */
    /*
     * MPI_IN_PLACE: of a scatter `out` is NULL, as the root's own block stays where it is; of all others `in` is NULL,
     * and what would lie there lies in `out`, where blocks of one size that go to all or to the root are behind those
     * of lower ranks. Sizes that differ are then given as they are, with places in `out`.
     */
    bool in_place;
    /*
     * Data with holes. Where there are any, the buffer stands for as many bytes of packed data: `in` and `out` are then
     * some address in the user's buffer, which says what memory it is, and all places are those in the packed data.
     */
    const mscclpp_coll_pack_t *in_packs;
    size_t in_pack_count;
    bool in_scattered; /* it lies in several allocations, of whatever kind of memory */
    const mscclpp_coll_pack_t *out_packs;
    size_t out_pack_count;
    bool out_scattered;
    /*
     * Of an exchange of blocks with holes, where each of them is runs of one length and distance: their places in the
     * user's buffers, by which they can be moved without packing. NULL otherwise.
     */
    const mscclpp_dev_runs_t *send_runs;
    const mscclpp_dev_runs_t *recv_runs;
    uint64_t count; /* elements of one block, where all blocks are of one size */
    /* Of collectives with sizes that differ: bytes of `in` for, and of `out` from, each rank; NULL where not used. */
    const mscclpp_dev_block_t *send;
    const mscclpp_dev_block_t *recv;
    bool varied; /* the lists count, not `count` */
    bool known;  /* all ranks know the size of the largest block, which is `most`; else it is that of this rank's */
    uint64_t most;
    mscclpp_dtype_t dtype; /* of collectives that only move data: MSCCLPP_DTYPE_UINT8, as they move bytes */
    mscclpp_op_t op;
    int root;      /* as the communicator numbers it */
    bool early;    /* as mscclpp_allreduce_args_t has it */
    uint64_t call; /* number of this call on the communicator, from 1 */
} mscclpp_coll_args_t;

typedef enum {
    MSCCLPP_COLL_BY_PACKETS,  /* packets through the scratch */
    MSCCLPP_COLL_BY_ZEROCOPY, /* kernels on mapped user buffers */
    MSCCLPP_COLL_BY_ENGINES,  /* copy engines on mapped user buffers, and no kernel */
    MSCCLPP_COLL_BY_SCRATCH,  /* tiles through the scratch, for buffers that cannot be mapped */
    MSCCLPP_COLL_BY_LAST,
    /* Whatever a parameter says, of ranks on several nodes, and of no others: */
    MSCCLPP_COLL_BY_NODES = MSCCLPP_COLL_BY_LAST, /* tiles */
    MSCCLPP_COLL_BY_NODES_PACKETS
} mscclpp_coll_algo_t;

/* The values of the parameters <name>_algorithm, and "nodes" and "nodes_packets". */
const char *mscclpp_coll_algo_name(mscclpp_coll_algo_t algo);

/* Of a parameter's value: an algorithm, MSCCLPP_COLL_AUTO or MSCCLPP_COLL_STAGE. The value is one of the choices. */
#define MSCCLPP_COLL_AUTO (-1)
#define MSCCLPP_COLL_STAGE (-2)
int mscclpp_coll_algo_find(const char *name);

typedef struct {
    mscclpp_coll_algo_t algo;
    mscclpp_dev_kernel_t kernel; /* none of engines */
    uint32_t nblocks;
    uint32_t nthreads;
    uint64_t epochs;
    uint64_t tile; /* between nodes, without packets: mscclpp_dev_coll_nodes_args_t */
} mscclpp_coll_choice_t;

/*
 * Chooses how to serve blocks of at most `most` bytes. Of `input` the fields bytes and queued are not used. `mapped`
 * false: buffers cannot be mapped. MSCCLPP_ERR_NOT_SUPPORTED where the call has to be staged.
 */
mscclpp_status_t mscclpp_coll_select(const mscclpp_select_input_t *input, mscclpp_coll_t coll, uint64_t most,
                                     bool varied, bool mapped, mscclpp_coll_choice_t *choice_p);

#endif
