/*
 * Collectives other than all-reduce that kernels serve: what each says of its call, and the gate that all of
 * them go through. Device buffers that the gate does not serve go to staging (mca/coll/mscclpp/stage/stage.h), and host
 * buffers to the component that was there before.
 */
#ifndef MCA_COLL_MSCCLPP_NATIVE_NATIVE_H
#define MCA_COLL_MSCCLPP_NATIVE_NATIVE_H

#include "mca/coll/mscclpp/native/request.h"
#include "mca/coll/mscclpp/ompi/module.h"

#include "mca/common/task/collective.h"

/* One call, made on the caller's stack and not cleared as a whole: the lists are long. */
typedef struct {
    mscclpp_coll_args_t args;
    const void *buffers[2]; /* that this rank passes; NULL: none, or MPI_IN_PLACE */
    int ranks;              /* of the communicator */
    bool touches;           /* this rank sends or receives something */
    bool staged;            /* equal on all ranks: no kernel knows the type or operation */
    int rc;                 /* OMPI_SUCCESS, or why the call cannot be described */
    mscclpp_dev_block_t send[MSCCLPP_DEV_MAX_RANKS];
    mscclpp_dev_block_t recv[MSCCLPP_DEV_MAX_RANKS];
    mscclpp_dev_runs_t send_runs[MSCCLPP_DEV_MAX_RANKS];
    mscclpp_dev_runs_t recv_runs[MSCCLPP_DEV_MAX_RANKS];
    mscclpp_coll_pack_t in_packs[MSCCLPP_DEV_MAX_RANKS];
    mscclpp_coll_pack_t out_packs[MSCCLPP_DEV_MAX_RANKS];
} mca_coll_mscclpp_native_t;

/* The blocks of one buffer, one for each rank: all of one type, or each of its own. */
typedef struct {
    const void *address;
    mca_coll_mscclpp_counts_t counts;
    mca_coll_mscclpp_displs_t displs; /* in extents of `type`, or in bytes with `types` */
    struct ompi_datatype_t *type;
    struct ompi_datatype_t *const *types; /* NULL: `type` counts */
    int stays;                            /* the block of this rank stays where it is; -1: none does */
} mca_coll_mscclpp_blocks_t;

/* Begins the description of a call of `coll` on the module's communicator. False if it has too many ranks for kernels.
 */
bool mca_coll_mscclpp_native_begin(mca_coll_mscclpp_native_t *call, mca_coll_mscclpp_module_t *module,
                                   mscclpp_coll_t coll);

/*
 * layout.c: describes `count` elements of one type as what this rank sends or receives, one behind the other. Elements
 * with holes are packed.
 */
void mca_coll_mscclpp_native_send(mca_coll_mscclpp_native_t *call, const void *buffer, size_t count,
                                  struct ompi_datatype_t *type);
void mca_coll_mscclpp_native_recv(mca_coll_mscclpp_native_t *call, void *buffer, size_t count,
                                  struct ompi_datatype_t *type);

/* The same for a block for each rank, or of each rank. */
void mca_coll_mscclpp_native_send_blocks(mca_coll_mscclpp_native_t *call, const mca_coll_mscclpp_blocks_t *blocks);
void mca_coll_mscclpp_native_recv_blocks(mca_coll_mscclpp_native_t *call, const mca_coll_mscclpp_blocks_t *blocks);

/* `count` elements that go to every rank, or to `peer` if that is not negative; or that come from `peer`. */
void mca_coll_mscclpp_native_send_one(mca_coll_mscclpp_native_t *call, const void *buffer, size_t count,
                                      struct ompi_datatype_t *type, int peer);
void mca_coll_mscclpp_native_recv_one(mca_coll_mscclpp_native_t *call, void *buffer, size_t count,
                                      struct ompi_datatype_t *type, int peer);

/* Bytes of data in so many elements. */
size_t mca_coll_mscclpp_native_bytes(size_t count, const struct ompi_datatype_t *type);

/*
 * serve.c: serves the call, unless its buffers are host memory or it has to be staged. True if it is over, with
 * *rc_p as its result; else the caller has it staged or left to the component before, and calls `leave` after it.
 */
bool mca_coll_mscclpp_native_serve(mca_coll_mscclpp_module_t *module, mca_coll_mscclpp_native_t *call, int *rc_p);
void mca_coll_mscclpp_native_leave(mca_coll_mscclpp_module_t *module);

/* The same in a fiber, of a call that has its number. */
bool mca_coll_mscclpp_native_serve_later(mca_coll_mscclpp_module_t *module, mca_coll_mscclpp_native_t *call, int *rc_p);

/* True if no nonblocking call of the communicator ever comes to the gate. Equal on all ranks. */
bool mca_coll_mscclpp_native_never(const mca_coll_mscclpp_module_t *module);

/*
 * Of one that does, while nothing of the communicator is under way: true if this rank passes host memory and there is
 * no team whose ranks could tell it otherwise. The call has been counted then.
 */
bool mca_coll_mscclpp_native_goes_at_once(mca_coll_mscclpp_module_t *module, const mca_coll_mscclpp_native_t *call);

/*
 * The same of a persistent request: makes its lane, NULL on all ranks alike if kernels are not to serve it; and serves
 * a start of it, in a fiber. MPI error codes.
 */
int mca_coll_mscclpp_native_make_lane(mca_coll_mscclpp_module_t *module, mca_coll_mscclpp_native_t *call,
                                      mca_coll_mscclpp_lane_t **lane_p);
int mca_coll_mscclpp_native_serve_again(mca_coll_mscclpp_request_t *request, mca_coll_mscclpp_native_t *call);

/* Declares the function of each collective, which staging has one of as well. */
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
    X(exscan)

/* pass.c: those that wait for nobody of the rest, which kernels do not serve. */
#define MCA_COLL_MSCCLPP_PASSED_ON(X)                                                                                  \
    X(neighbor_allgather)                                                                                              \
    X(neighbor_allgatherv)                                                                                             \
    X(neighbor_alltoall)                                                                                               \
    X(neighbor_alltoallv)                                                                                              \
    X(neighbor_alltoallw)                                                                                              \
    X(barrier)

#define MCA_COLL_MSCCLPP_NATIVE_DECLARE(name_)                                                                         \
    extern const mca_coll_mscclpp_fn_t(name_) mca_coll_mscclpp_native_##name_;
#define MCA_COLL_MSCCLPP_LATER_DECLARE(name_)                                                                          \
    extern const mca_coll_mscclpp_fn_t(i##name_) mca_coll_mscclpp_native_i##name_;                                     \
    extern const mca_coll_mscclpp_fn_t(name_##_init) mca_coll_mscclpp_native_##name_##_init;
MCA_COLL_MSCCLPP_NATIVE(MCA_COLL_MSCCLPP_NATIVE_DECLARE)
MCA_COLL_MSCCLPP_NATIVE(MCA_COLL_MSCCLPP_LATER_DECLARE)
MCA_COLL_MSCCLPP_PASSED_ON(MCA_COLL_MSCCLPP_LATER_DECLARE)
MCA_COLL_MSCCLPP_LATER_DECLARE(allreduce)
#undef MCA_COLL_MSCCLPP_NATIVE_DECLARE
#undef MCA_COLL_MSCCLPP_LATER_DECLARE

/* allreduce.c */
int mca_coll_mscclpp_allreduce(const void *sendbuf, void *recvbuf, mca_coll_mscclpp_count_t count,
                               struct ompi_datatype_t *datatype, struct ompi_op_t *op, struct ompi_communicator_t *comm,
                               mca_coll_base_module_t *module);

/* native/mixture.c: finds the ranks that wait in a host all-reduce for peers which passed device memory. */
int mca_coll_mscclpp_mixture_init(void);
void mca_coll_mscclpp_mixture_fini(void);

#endif
