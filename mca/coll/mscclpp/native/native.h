/*
 * Collectives other than all-reduce that kernels serve. Each collective describes its call, and passes the description
 * to the gate (serve.c), which all collectives share and which decides who serves the call. If the gate does not serve
 * a call on device buffers, the call is staged (mca/coll/mscclpp/stage/stage.h). Calls on host buffers are passed to
 * the previous component.
 */
#ifndef MCA_COLL_MSCCLPP_NATIVE_NATIVE_H
#define MCA_COLL_MSCCLPP_NATIVE_NATIVE_H

#include "mca/coll/mscclpp/native/request.h"
#include "mca/coll/mscclpp/ompi/module.h"

#include "mca/common/task/collective.h"

/* Lists with an entry for each rank, for communicators with no more ranks than a node may have. */
typedef struct {
    mscclpp_dev_block_t send[MSCCLPP_DEV_MAX_RANKS];
    mscclpp_dev_block_t recv[MSCCLPP_DEV_MAX_RANKS];
    mscclpp_dev_runs_t send_runs[MSCCLPP_DEV_MAX_RANKS];
    mscclpp_dev_runs_t recv_runs[MSCCLPP_DEV_MAX_RANKS];
} mca_coll_mscclpp_lists_t;

/* The addresses low .. high - 1, which contain all data of a buffer. */
typedef struct {
    uintptr_t low;
    uintptr_t high;
} mca_coll_mscclpp_bounds_t;

/*
 * The description of one call. It is a variable on the caller's stack, or belongs to a persistent request (kept.h), and
 * must not be moved, because it points into itself. mca_coll_mscclpp_native_begin does not set all of it to 0, because
 * the lists are long. Each description that was begun successfully has to be ended.
 */
typedef struct {
    mscclpp_coll_args_t args;
    mca_coll_mscclpp_module_t *module;
    const void *buffers[2];             /* the send and the receive buffer of this rank; NULL: none, or MPI_IN_PLACE */
    int ranks;                          /* number of ranks in the communicator */
    bool passes_data;                   /* this rank sends or receives data */
    mca_coll_mscclpp_reason_t unserved; /* why no kernel serves the call; equal on all ranks. NONE: not known */
    int rc;                             /* OMPI_SUCCESS, or the error for a call that cannot be described */
    /* [buffer]: where the data are, if they may lie in several allocations; both 0: they are in one allocation. */
    mca_coll_mscclpp_bounds_t bounds[2];
    mscclpp_dev_block_t *send; /* this list and the next three lists are in `built_in` or in `allocated` */
    mscclpp_dev_block_t *recv;
    mscclpp_dev_runs_t *send_runs;
    mscclpp_dev_runs_t *recv_runs;
    mca_coll_mscclpp_lists_t built_in;                   /* lists for small communicators */
    void *allocated;                                     /* memory for longer lists; NULL: `built_in` is large enough */
    mscclpp_coll_pack_t in_packs[MSCCLPP_DEV_MAX_RANKS]; /* data with holes in the send buffer */
    mscclpp_coll_pack_t out_packs[MSCCLPP_DEV_MAX_RANKS]; /* data with holes in the receive buffer */
    mscclpp_coll_pack_t *more_packs[2]; /* replace in_packs and out_packs if these are too short; otherwise NULL */
} mca_coll_mscclpp_native_t;

/*
 * Describes a call for kernels from its kept arguments, as the blocking function does (define.h). Returns false if
 * there is nothing to do. The caller ends the description in either case.
 */
typedef bool (*mca_coll_mscclpp_describe_fn_t)(mca_coll_mscclpp_native_t *call, mca_coll_mscclpp_module_t *module,
                                               const mca_coll_mscclpp_passed_t *passed);

enum { MCA_COLL_MSCCLPP_NO_BLOCK = -1 };

/*
 * The blocks of one buffer: one for each rank, or one for each edge of a topology. Either all blocks have the same
 * type, or each block has its own.
 */
typedef struct {
    const void *address; /* address of the buffer; the places of blocks are relative to it */
    bool is_regular;     /* all blocks have `count` elements and are `distance` extents of `type` apart */
    size_t count;
    ptrdiff_t distance;
    mca_coll_mscclpp_counts_t counts; /* [block]: elements, if not `is_regular` */
    mca_coll_mscclpp_displs_t displs; /* [block]: in extents of `type`, or bytes with `types`; not with `offsets` */
    const MPI_Aint *offsets;          /* [block]: in bytes; NULL: not used */
    const mca_coll_mscclpp_edges_t *edges; /* NULL: block n is sent to rank n, or received from rank n */
    struct ompi_datatype_t *type;
    struct ompi_datatype_t *const *types; /* NULL: all blocks have `type` */
    int unmoved_block; /* index of this rank's block that stays in place, or MCA_COLL_MSCCLPP_NO_BLOCK */
} mca_coll_mscclpp_blocks_t;

/*
 * Begins the description of a call of `coll`. Allocates memory only if the communicator has more ranks than a node may
 * have. If memory runs out, returns MPI_ERR_NO_MEM, and there is nothing to end. Otherwise returns OMPI_SUCCESS.
 */
int mca_coll_mscclpp_native_begin(mca_coll_mscclpp_native_t *call, mca_coll_mscclpp_module_t *module,
                                  mscclpp_coll_t coll);
void mca_coll_mscclpp_native_end(mca_coll_mscclpp_native_t *call);

/*
 * layout.c: the functions below describe the data that this rank sends or receives, before the call is served. Data
 * with holes are listed for packing. A failure, such as a lack of memory, is logged and becomes the call's `rc`.
 */

/* Describes `count` adjacent elements of one type that this rank sends or receives. */
void mca_coll_mscclpp_native_send(mca_coll_mscclpp_native_t *call, const void *buffer, size_t count,
                                  struct ompi_datatype_t *type);
void mca_coll_mscclpp_native_recv(mca_coll_mscclpp_native_t *call, void *buffer, size_t count,
                                  struct ompi_datatype_t *type);

/*
 * Describe the blocks that this rank sends or receives: one for each rank, or one for each edge of a topology. Without
 * memory for that, call->rc is the error.
 */
void mca_coll_mscclpp_native_send_blocks(mca_coll_mscclpp_native_t *call, const mca_coll_mscclpp_blocks_t *blocks);
void mca_coll_mscclpp_native_recv_blocks(mca_coll_mscclpp_native_t *call, const mca_coll_mscclpp_blocks_t *blocks);

/*
 * Describe `count` elements that this rank sends to `peer`, which may be MCA_COLL_MSCCLPP_ALL_PEERS, or that it
 * receives from `peer`.
 */
enum { MCA_COLL_MSCCLPP_ALL_PEERS = -1 };
void mca_coll_mscclpp_native_send_one(mca_coll_mscclpp_native_t *call, const void *buffer, size_t count,
                                      struct ompi_datatype_t *type, int peer);
void mca_coll_mscclpp_native_recv_one(mca_coll_mscclpp_native_t *call, void *buffer, size_t count,
                                      struct ompi_datatype_t *type, int peer);

/*
 * Removes each buffer whose blocks are all empty from the description of a call whose blocks differ in size. The
 * application may pass any pointer for such a buffer. The output of a call in place is not removed.
 */
void mca_coll_mscclpp_native_drop_empty(mca_coll_mscclpp_native_t *call);

/*
 * Returns true if the description is incomplete or no longer correct: a buffer that was in one allocation may now be in
 * several, or the other way around. Everything else in a description depends only on the call's arguments.
 */
bool mca_coll_mscclpp_native_is_outdated(const mca_coll_mscclpp_native_t *call);

/* Returns the bytes of data in `count` elements of `type`, without holes. */
size_t mca_coll_mscclpp_packed_bytes(size_t count, const struct ompi_datatype_t *type);

/*
 * Serves a blocking call, unless its buffers are host memory or it has to be staged (serve.c). Returns true if the call
 * is over, with its result, an MPI error code, in *rc_p. Otherwise the caller stages the call or passes it to the
 * previous component, and then calls mca_coll_mscclpp_native_leave.
 */
bool mca_coll_mscclpp_native_serve(mca_coll_mscclpp_module_t *module, mca_coll_mscclpp_native_t *call, int *rc_p);
void mca_coll_mscclpp_native_leave(mca_coll_mscclpp_module_t *module);

/*
 * Serves a nonblocking call in the same way, except that the call already has its number, and that the caller does not
 * call mca_coll_mscclpp_native_leave. Called in a fiber.
 */
bool mca_coll_mscclpp_native_serve_later(mca_coll_mscclpp_module_t *module, mca_coll_mscclpp_native_t *call, int *rc_p);

/* Returns true if the communicator's nonblocking calls never pass the gate. Equal on all ranks. */
bool mca_coll_mscclpp_native_excludes_nonblocking(const mca_coll_mscclpp_module_t *module);

/* Returns true if the communicator has a team, whose ranks decide on nonblocking calls only in their turn. */
static inline bool mca_coll_mscclpp_native_has_team(const mca_coll_mscclpp_module_t *module)
{
    return __atomic_load_n(&module->team, __ATOMIC_ACQUIRE) != NULL;
}

/*
 * Returns true if a nonblocking call can be passed to another component at once; the call then gets its number. This is
 * so if this rank passes host memory and no peer can ask this rank to agree on the kind of memory. The caller has
 * checked that no other call of the communicator is in progress and that there is no team.
 */
bool mca_coll_mscclpp_native_pass_at_once(mca_coll_mscclpp_module_t *module, const mca_coll_mscclpp_native_t *call);

/*
 * Makes the lane of a persistent request. Sets *lane_p to NULL on all ranks if kernels do not serve the request.
 * Returns an MPI error code; with an error, *lane_p is NULL.
 */
int mca_coll_mscclpp_native_make_lane(mca_coll_mscclpp_module_t *module, mca_coll_mscclpp_native_t *call,
                                      mca_coll_mscclpp_lane_t **lane_p);

/*
 * Makes the request of a persistent call from its lane, which the request then owns. For `passed`, `describe` and
 * `largest_block` see mca_coll_mscclpp_kept_make. Local. Returns an MPI error code; after an error the lane is freed.
 */
int mca_coll_mscclpp_native_make_request(mca_coll_mscclpp_lane_t *lane, mscclpp_coll_t coll,
                                         const mca_coll_mscclpp_passed_t *passed,
                                         mca_coll_mscclpp_describe_fn_t describe, uint64_t largest_block,
                                         ompi_request_t **request_p);

/* The collectives that kernels serve. Staging has a function for each of them, too. */
#define MCA_COLL_MSCCLPP_NATIVE(X)                                                                                     \
    X(allgather)                                                                                                       \
    X(allgatherv)                                                                                                      \
    X(alltoall)                                                                                                        \
    X(alltoallv)                                                                                                       \
    X(alltoallw)                                                                                                       \
    X(bcast)                                                                                                           \
    X(gather)                                                                                                          \
    X(gatherv)                                                                                                         \
    X(scatter)                                                                                                         \
    X(scatterv)                                                                                                        \
    X(reduce)                                                                                                          \
    X(reduce_scatter)                                                                                                  \
    X(reduce_scatter_block)                                                                                            \
    X(scan)                                                                                                            \
    X(exscan)                                                                                                          \
    X(neighbor_allgather)                                                                                              \
    X(neighbor_allgatherv)                                                                                             \
    X(neighbor_alltoall)                                                                                               \
    X(neighbor_alltoallv)                                                                                              \
    X(neighbor_alltoallw)

#define MCA_COLL_MSCCLPP_NATIVE_DECLARE(name_)                                                                         \
    extern const mca_coll_mscclpp_fn_t(name_) mca_coll_mscclpp_native_##name_;
#define MCA_COLL_MSCCLPP_LATER_DECLARE(name_)                                                                          \
    extern const mca_coll_mscclpp_fn_t(i##name_) mca_coll_mscclpp_native_i##name_;                                     \
    extern const mca_coll_mscclpp_fn_t(name_##_init) mca_coll_mscclpp_native_##name_##_init;
MCA_COLL_MSCCLPP_NATIVE(MCA_COLL_MSCCLPP_NATIVE_DECLARE)
MCA_COLL_MSCCLPP_NATIVE(MCA_COLL_MSCCLPP_LATER_DECLARE)
MCA_COLL_MSCCLPP_LATER_DECLARE(barrier) /* defined in pass.c */
MCA_COLL_MSCCLPP_LATER_DECLARE(allreduce)
#undef MCA_COLL_MSCCLPP_NATIVE_DECLARE
#undef MCA_COLL_MSCCLPP_LATER_DECLARE

/*
 * Serves MPI_Allreduce (allreduce.c). Calls on device memory are served by kernels or staged; calls on host memory are
 * passed to the previous component. Returns an MPI error code.
 */
int mca_coll_mscclpp_allreduce(const void *sendbuf, void *recvbuf, mca_coll_mscclpp_count_t count,
                               struct ompi_datatype_t *datatype, struct ompi_op_t *op, struct ompi_communicator_t *comm,
                               mca_coll_base_module_t *module);

/*
 * Begins and ends the search for calls in which this rank passed host memory and waits for peers that passed device
 * memory (mixture.c). `init` returns an Open MPI error code.
 */
int mca_coll_mscclpp_mixture_init(void);
void mca_coll_mscclpp_mixture_fini(void);

#endif
