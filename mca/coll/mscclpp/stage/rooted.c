/*
 * Collectives with a root, and the local reduction. Each function describe_<name> (define.h) sets send.read to what the
 * call reads of the send buffer on this rank, and recv.read and recv.write to what the call reads and writes of the
 * receive buffer. Parts that are not set are not copied.
 */
#include "mca/coll/mscclpp/stage/define.h"

typedef mca_coll_mscclpp_stage_call_t call_t;

/* The role of a rank in a collective with a root. */
typedef enum {
    ROOT,   /* the rank that all data come from or go to */
    PEER,   /* a rank that exchanges data with the root; on an inter-communicator, a rank of the other group */
    OUTSIDE /* on an inter-communicator, a rank of the root's group that is not the root */
} role_t;

/* Returns the role of this rank. MPI_ROOT and MPI_PROC_NULL are roots on inter-communicators only. */
static role_t find_role(int root, struct ompi_communicator_t *comm)
{
    if (OMPI_COMM_IS_INTER(comm)) {
        if (MPI_ROOT == root) {
            return ROOT;
        }
        return MPI_PROC_NULL == root ? OUTSIDE : PEER;
    }
    return ompi_comm_rank(comm) == root ? ROOT : PEER;
}

/*
 * What a rank does in a collective whose data go to the root. On an inter-communicator, the root itself contributes
 * nothing. On an intra-communicator, the root may work in place, with its contribution in the receive buffer.
 */
typedef struct {
    bool sends;
    bool receives;
    bool in_place;
} to_root_duties_t;

/* Sets the addresses of the buffers of a call whose data go to the root, and returns which of them this rank uses. */
static to_root_duties_t set_buffers_to_root(call_t *call, const void *sbuf, void *rbuf, int root,
                                            struct ompi_communicator_t *comm)
{
    role_t role = find_role(root, comm);
    bool contributes = ROOT == role && !OMPI_COMM_IS_INTER(comm);

    call->send.address = sbuf;
    call->recv.address = rbuf;
    return (to_root_duties_t){.sends = PEER == role || (contributes && MPI_IN_PLACE != sbuf),
                              .receives = ROOT == role,
                              .in_place = contributes && MPI_IN_PLACE == sbuf};
}

/*
 * What a rank does in a collective whose data come from the root. A root that works in place sends, but does not
 * receive its own block.
 */
typedef struct {
    bool sends;
    bool receives;
} from_root_duties_t;

/*
 * Sets the addresses of the buffers of a call whose data come from the root, and returns which of them this rank uses.
 */
static from_root_duties_t set_buffers_from_root(call_t *call, const void *sbuf, void *rbuf, int root,
                                                struct ompi_communicator_t *comm)
{
    role_t role = find_role(root, comm);
    bool root_receives = !OMPI_COMM_IS_INTER(comm) && MPI_IN_PLACE != rbuf;

    call->send.address = sbuf;
    call->recv.address = rbuf;
    return (from_root_duties_t){.sends = ROOT == role, .receives = PEER == role || (ROOT == role && root_receives)};
}

/* Describes MPI_Bcast: the root reads the buffer, and its peers write the buffer. */
static void describe_bcast(call_t *call, void *rbuf, mca_coll_mscclpp_count_t count, struct ompi_datatype_t *dtype,
                           int root, struct ompi_communicator_t *comm)
{
    role_t role = find_role(root, comm);

    call->recv.address = rbuf;
    if (OUTSIDE != role) {
        mca_coll_mscclpp_stage_elements(ROOT == role ? &call->recv.read : &call->recv.write, (size_t)count, dtype);
    }
}

/* Describes MPI_Reduce. In place, the root's operand is read in the receive buffer. */
static void describe_reduce(call_t *call, const void *sbuf, void *rbuf, mca_coll_mscclpp_count_t count,
                            struct ompi_datatype_t *dtype, struct ompi_op_t *op, int root,
                            struct ompi_communicator_t *comm)
{
    to_root_duties_t duties = set_buffers_to_root(call, sbuf, rbuf, root, comm);

    call->op = op;
    if (duties.sends) {
        mca_coll_mscclpp_stage_elements(&call->send.read, (size_t)count, dtype);
    }
    if (duties.in_place) {
        mca_coll_mscclpp_stage_elements(&call->recv.read, (size_t)count, dtype);
    }
    if (duties.receives) {
        mca_coll_mscclpp_stage_elements(&call->recv.write, (size_t)count, dtype);
    }
}

/*
 * Describes MPI_Gather. In place, the root's own block is read in the receive buffer, which is copied back as a whole.
 */
static void describe_gather(call_t *call, const void *sbuf, mca_coll_mscclpp_count_t scount,
                            struct ompi_datatype_t *sdtype, void *rbuf, mca_coll_mscclpp_count_t rcount,
                            struct ompi_datatype_t *rdtype, int root, struct ompi_communicator_t *comm)
{
    to_root_duties_t duties = set_buffers_to_root(call, sbuf, rbuf, root, comm);

    if (duties.sends) {
        mca_coll_mscclpp_stage_elements(&call->send.read, (size_t)scount, sdtype);
    }
    if (duties.in_place) {
        mca_coll_mscclpp_stage_elements(&call->recv.read, (size_t)rcount, rdtype);
        mca_coll_mscclpp_stage_select_block(&call->recv.read, ompi_comm_rank(comm));
    }
    if (duties.receives) {
        mca_coll_mscclpp_stage_elements(&call->recv.write, (size_t)rcount * (size_t)mca_coll_mscclpp_peer_count(comm),
                                        rdtype);
    }
}

/* Describes MPI_Gatherv, in the same way as describe_gather. */
static void describe_gatherv(call_t *call, const void *sbuf, mca_coll_mscclpp_count_t scount,
                             struct ompi_datatype_t *sdtype, void *rbuf, mca_coll_mscclpp_counts_t rcounts,
                             mca_coll_mscclpp_displs_t displs, struct ompi_datatype_t *rdtype, int root,
                             struct ompi_communicator_t *comm)
{
    to_root_duties_t duties = set_buffers_to_root(call, sbuf, rbuf, root, comm);

    if (duties.sends) {
        mca_coll_mscclpp_stage_elements(&call->send.read, (size_t)scount, sdtype);
    }
    if (duties.in_place) {
        mca_coll_mscclpp_stage_counted_blocks(&call->recv.read, mca_coll_mscclpp_peer_count(comm), rcounts, displs,
                                              rdtype);
        mca_coll_mscclpp_stage_select_block(&call->recv.read, ompi_comm_rank(comm));
    }
    if (duties.receives) {
        mca_coll_mscclpp_stage_counted_blocks(&call->recv.write, mca_coll_mscclpp_peer_count(comm), rcounts, displs,
                                              rdtype);
    }
}

/* Describes MPI_Scatter. In place, the root does not receive its own block. */
static void describe_scatter(call_t *call, const void *sbuf, mca_coll_mscclpp_count_t scount,
                             struct ompi_datatype_t *sdtype, void *rbuf, mca_coll_mscclpp_count_t rcount,
                             struct ompi_datatype_t *rdtype, int root, struct ompi_communicator_t *comm)
{
    from_root_duties_t duties = set_buffers_from_root(call, sbuf, rbuf, root, comm);

    if (duties.sends) {
        mca_coll_mscclpp_stage_elements(&call->send.read, (size_t)scount * (size_t)mca_coll_mscclpp_peer_count(comm),
                                        sdtype);
    }
    if (duties.receives) {
        mca_coll_mscclpp_stage_elements(&call->recv.write, (size_t)rcount, rdtype);
    }
}

/* Describes MPI_Scatterv, in the same way as describe_scatter. */
static void describe_scatterv(call_t *call, const void *sbuf, mca_coll_mscclpp_counts_t scounts,
                              mca_coll_mscclpp_displs_t displs, struct ompi_datatype_t *sdtype, void *rbuf,
                              mca_coll_mscclpp_count_t rcount, struct ompi_datatype_t *rdtype, int root,
                              struct ompi_communicator_t *comm)
{
    from_root_duties_t duties = set_buffers_from_root(call, sbuf, rbuf, root, comm);

    if (duties.sends) {
        mca_coll_mscclpp_stage_counted_blocks(&call->send.read, mca_coll_mscclpp_peer_count(comm), scounts, displs,
                                              sdtype);
    }
    if (duties.receives) {
        mca_coll_mscclpp_stage_elements(&call->recv.write, (size_t)rcount, rdtype);
    }
}

STAGE_COLLECTIVE(bcast, (void *rbuf, mca_coll_mscclpp_count_t count, struct ompi_datatype_t *dtype, int root),
                 (rbuf, count, dtype, root), STAGE_USE_RECV, STAGE_VIEW_BCAST);

STAGE_COLLECTIVE(reduce,
                 (const void *sbuf, void *rbuf, mca_coll_mscclpp_count_t count, struct ompi_datatype_t *dtype,
                  struct ompi_op_t *op, int root),
                 (sbuf, rbuf, count, dtype, op, root), STAGE_USE_REDUCE, STAGE_VIEW_REDUCE);

STAGE_COLLECTIVE(gather,
                 (const void *sbuf, mca_coll_mscclpp_count_t scount, struct ompi_datatype_t *sdtype, void *rbuf,
                  mca_coll_mscclpp_count_t rcount, struct ompi_datatype_t *rdtype, int root),
                 (sbuf, scount, sdtype, rbuf, rcount, rdtype, root), STAGE_USE_BOTH, STAGE_VIEW_GATHER);

STAGE_COLLECTIVE(gatherv,
                 (const void *sbuf, mca_coll_mscclpp_count_t scount, struct ompi_datatype_t *sdtype, void *rbuf,
                  mca_coll_mscclpp_counts_t rcounts, mca_coll_mscclpp_displs_t displs, struct ompi_datatype_t *rdtype,
                  int root),
                 (sbuf, scount, sdtype, rbuf, rcounts, displs, rdtype, root), STAGE_USE_BOTH, STAGE_VIEW_GATHER);

STAGE_COLLECTIVE(scatter,
                 (const void *sbuf, mca_coll_mscclpp_count_t scount, struct ompi_datatype_t *sdtype, void *rbuf,
                  mca_coll_mscclpp_count_t rcount, struct ompi_datatype_t *rdtype, int root),
                 (sbuf, scount, sdtype, rbuf, rcount, rdtype, root), STAGE_USE_BOTH, STAGE_VIEW_SCATTER);

STAGE_COLLECTIVE(scatterv,
                 (const void *sbuf, mca_coll_mscclpp_counts_t scounts, mca_coll_mscclpp_displs_t displs,
                  struct ompi_datatype_t *sdtype, void *rbuf, mca_coll_mscclpp_count_t rcount,
                  struct ompi_datatype_t *rdtype, int root),
                 (sbuf, scounts, displs, sdtype, rbuf, rcount, rdtype, root), STAGE_USE_BOTH, STAGE_VIEW_SCATTER);

/*
 * Serves MPI_Reduce_local, which involves no other rank. The call reads and writes the receive buffer, which is an
 * operand, too. Returns an MPI error code.
 */
static int reduce_local(const void *sbuf, void *rbuf, mca_coll_mscclpp_count_t count, struct ompi_datatype_t *dtype,
                        struct ompi_op_t *op, mca_coll_base_module_t *base)
{
    mca_coll_mscclpp_module_t *module = (mca_coll_mscclpp_module_t *)base;
    call_t call = {.send = {.address = sbuf},
                   .recv = {.address = rbuf},
                   .counted = MCA_COLL_MSCCLPP_COUNTED_LAST,
                   .reason = MCA_COLL_MSCCLPP_REASON_LOCAL};
    mca_coll_mscclpp_stage_t stage;
    int rc;

    mca_coll_mscclpp_stage_elements(&call.send.read, (size_t)count, dtype);
    mca_coll_mscclpp_stage_elements(&call.recv.read, (size_t)count, dtype);
    mca_coll_mscclpp_stage_elements(&call.recv.write, (size_t)count, dtype);
    if (!mca_coll_mscclpp_stage_needed(&call)) {
        return STAGE_PREVIOUS(reduce_local, sbuf, rbuf, count, dtype, op);
    }
    rc = mca_coll_mscclpp_stage_begin(&stage, &call, module);
    if (OMPI_SUCCESS != rc) {
        return rc;
    }
    STAGE_USE_REDUCE(stage);
    return mca_coll_mscclpp_stage_end(&stage, STAGE_PREVIOUS(reduce_local, sbuf, rbuf, count, dtype, op));
}

const mca_coll_mscclpp_fn_t(reduce_local) mca_coll_mscclpp_stage_reduce_local = reduce_local;
