/* Collectives with a root, and the local reduction. */
#include "mca/coll/mscclpp/stage_define.h"

typedef mca_coll_mscclpp_stage_call_t call_t;
typedef mca_coll_mscclpp_stage_layout_t layout_t;

/* What a rank is to a collective with a root. */
typedef enum {
    ROOT,   /* the one that all data comes from or goes to */
    PEER,   /* one that the root exchanges data with; on an intercommunicator, a rank of the other group */
    OUTSIDE /* a rank of the root's group that is not the root, on an intercommunicator */
} role_t;

static role_t role_of(int root, struct ompi_communicator_t *comm)
{
    if (OMPI_COMM_IS_INTER(comm)) {
        return MPI_ROOT == root ? ROOT : MPI_PROC_NULL == root ? OUTSIDE : PEER;
    }
    return ompi_comm_rank(comm) == root ? ROOT : PEER;
}

/* The ranks that the root exchanges blocks with; itself among them where both are in one group. */
static int peers(struct ompi_communicator_t *comm)
{
    return OMPI_COMM_IS_INTER(comm) ? ompi_comm_remote_size(comm) : ompi_comm_size(comm);
}

/* On an intercommunicator the root contributes nothing. */
static bool root_is_peer(struct ompi_communicator_t *comm)
{
    return !OMPI_COMM_IS_INTER(comm);
}

/* To the root, whose contribution is `own` in its receive buffer if it works in place. */
static void describe_to_root(call_t *call, const void *sbuf, layout_t send, void *rbuf, layout_t own, layout_t recv,
                             role_t role, struct ompi_communicator_t *comm)
{
    call->send.address = sbuf;
    call->recv.address = rbuf;
    if (PEER == role || (ROOT == role && root_is_peer(comm) && MPI_IN_PLACE != sbuf)) {
        call->send.read = send;
    }
    if (ROOT == role) {
        if (root_is_peer(comm) && MPI_IN_PLACE == sbuf) {
            call->recv.read = own;
        }
        call->recv.write = recv;
    }
}

/* From the root, whose own share stays where it is if it works in place. */
static void describe_from_root(call_t *call, const void *sbuf, layout_t send, void *rbuf, layout_t recv, role_t role,
                               struct ompi_communicator_t *comm)
{
    call->send.address = sbuf;
    call->recv.address = rbuf;
    if (ROOT == role) {
        call->send.read = send;
    }
    if (PEER == role || (ROOT == role && root_is_peer(comm) && MPI_IN_PLACE != rbuf)) {
        call->recv.write = recv;
    }
}

static void describe_bcast(call_t *call, void *rbuf, mca_coll_mscclpp_count_t count, struct ompi_datatype_t *dtype,
                           int root, struct ompi_communicator_t *comm)
{
    layout_t all = mca_coll_mscclpp_stage_elements((size_t)count, dtype);
    role_t role = role_of(root, comm);

    call->recv.address = rbuf;
    if (ROOT == role) {
        call->recv.read = all;
    } else if (PEER == role) {
        call->recv.write = all;
    }
}

static void describe_reduce(call_t *call, const void *sbuf, void *rbuf, mca_coll_mscclpp_count_t count,
                            struct ompi_datatype_t *dtype, struct ompi_op_t *op, int root,
                            struct ompi_communicator_t *comm)
{
    layout_t all = mca_coll_mscclpp_stage_elements((size_t)count, dtype);

    (void)op;
    describe_to_root(call, sbuf, all, rbuf, all, all, role_of(root, comm), comm);
}

static void describe_gather(call_t *call, const void *sbuf, mca_coll_mscclpp_count_t scount,
                            struct ompi_datatype_t *sdtype, void *rbuf, mca_coll_mscclpp_count_t rcount,
                            struct ompi_datatype_t *rdtype, int root, struct ompi_communicator_t *comm)
{
    layout_t own = mca_coll_mscclpp_stage_elements((size_t)rcount, rdtype);

    describe_to_root(call, sbuf, mca_coll_mscclpp_stage_elements((size_t)scount, sdtype), rbuf,
                     mca_coll_mscclpp_stage_block(own, ompi_comm_rank(comm)),
                     mca_coll_mscclpp_stage_elements((size_t)rcount * (size_t)peers(comm), rdtype), role_of(root, comm),
                     comm);
}

static void describe_gatherv(call_t *call, const void *sbuf, mca_coll_mscclpp_count_t scount,
                             struct ompi_datatype_t *sdtype, void *rbuf, mca_coll_mscclpp_counts_t rcounts,
                             mca_coll_mscclpp_displs_t displs, struct ompi_datatype_t *rdtype, int root,
                             struct ompi_communicator_t *comm)
{
    layout_t recv = mca_coll_mscclpp_stage_vector(peers(comm), rcounts, displs, rdtype);

    describe_to_root(call, sbuf, mca_coll_mscclpp_stage_elements((size_t)scount, sdtype), rbuf,
                     mca_coll_mscclpp_stage_block(recv, ompi_comm_rank(comm)), recv, role_of(root, comm), comm);
}

static void describe_scatter(call_t *call, const void *sbuf, mca_coll_mscclpp_count_t scount,
                             struct ompi_datatype_t *sdtype, void *rbuf, mca_coll_mscclpp_count_t rcount,
                             struct ompi_datatype_t *rdtype, int root, struct ompi_communicator_t *comm)
{
    describe_from_root(call, sbuf, mca_coll_mscclpp_stage_elements((size_t)scount * (size_t)peers(comm), sdtype), rbuf,
                       mca_coll_mscclpp_stage_elements((size_t)rcount, rdtype), role_of(root, comm), comm);
}

static void describe_scatterv(call_t *call, const void *sbuf, mca_coll_mscclpp_counts_t scounts,
                              mca_coll_mscclpp_displs_t displs, struct ompi_datatype_t *sdtype, void *rbuf,
                              mca_coll_mscclpp_count_t rcount, struct ompi_datatype_t *rdtype, int root,
                              struct ompi_communicator_t *comm)
{
    describe_from_root(call, sbuf, mca_coll_mscclpp_stage_vector(peers(comm), scounts, displs, sdtype), rbuf,
                       mca_coll_mscclpp_stage_elements((size_t)rcount, rdtype), role_of(root, comm), comm);
}

STAGE_COLLECTIVE(bcast, (void *rbuf, mca_coll_mscclpp_count_t count, struct ompi_datatype_t *dtype, int root),
                 (rbuf, count, dtype, root), STAGE_USE_RECV);

STAGE_COLLECTIVE(reduce,
                 (const void *sbuf, void *rbuf, mca_coll_mscclpp_count_t count, struct ompi_datatype_t *dtype,
                  struct ompi_op_t *op, int root),
                 (sbuf, rbuf, count, dtype, op, root), STAGE_USE_BOTH);

STAGE_COLLECTIVE(gather,
                 (const void *sbuf, mca_coll_mscclpp_count_t scount, struct ompi_datatype_t *sdtype, void *rbuf,
                  mca_coll_mscclpp_count_t rcount, struct ompi_datatype_t *rdtype, int root),
                 (sbuf, scount, sdtype, rbuf, rcount, rdtype, root), STAGE_USE_BOTH);

STAGE_COLLECTIVE(gatherv,
                 (const void *sbuf, mca_coll_mscclpp_count_t scount, struct ompi_datatype_t *sdtype, void *rbuf,
                  mca_coll_mscclpp_counts_t rcounts, mca_coll_mscclpp_displs_t displs, struct ompi_datatype_t *rdtype,
                  int root),
                 (sbuf, scount, sdtype, rbuf, rcounts, displs, rdtype, root), STAGE_USE_BOTH);

STAGE_COLLECTIVE(scatter,
                 (const void *sbuf, mca_coll_mscclpp_count_t scount, struct ompi_datatype_t *sdtype, void *rbuf,
                  mca_coll_mscclpp_count_t rcount, struct ompi_datatype_t *rdtype, int root),
                 (sbuf, scount, sdtype, rbuf, rcount, rdtype, root), STAGE_USE_BOTH);

STAGE_COLLECTIVE(scatterv,
                 (const void *sbuf, mca_coll_mscclpp_counts_t scounts, mca_coll_mscclpp_displs_t displs,
                  struct ompi_datatype_t *sdtype, void *rbuf, mca_coll_mscclpp_count_t rcount,
                  struct ompi_datatype_t *rdtype, int root),
                 (sbuf, scounts, displs, sdtype, rbuf, rcount, rdtype, root), STAGE_USE_BOTH);

static int reduce_local(const void *sbuf, void *rbuf, mca_coll_mscclpp_count_t count, struct ompi_datatype_t *dtype,
                        struct ompi_op_t *op, mca_coll_base_module_t *base)
{
    mca_coll_mscclpp_module_t *module = (mca_coll_mscclpp_module_t *)base;
    layout_t all = mca_coll_mscclpp_stage_elements((size_t)count, dtype);
    call_t call = {.send = {.address = sbuf, .read = all}, .recv = {.address = rbuf, .read = all, .write = all}};
    mca_coll_mscclpp_stage_t stage;
    int rc;

    if (!mca_coll_mscclpp_stage_needed(&call)) {
        return STAGE_PREVIOUS(reduce_local, sbuf, rbuf, count, dtype, op);
    }
    rc = mca_coll_mscclpp_stage_begin(&stage, &call, module);
    if (OMPI_SUCCESS != rc) {
        return rc;
    }
    STAGE_USE_BOTH(stage);
    return mca_coll_mscclpp_stage_end(&stage, STAGE_PREVIOUS(reduce_local, sbuf, rbuf, count, dtype, op));
}

const mca_coll_mscclpp_fn_t(reduce_local) mca_coll_mscclpp_stage_reduce_local = reduce_local;
