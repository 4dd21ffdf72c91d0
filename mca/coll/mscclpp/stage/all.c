/*
 * Collectives in which every rank sends and every rank receives. Each function describe_<name> says which parts of its
 * buffers a call reads and writes (define.h). Only those are copied.
 */
#include "mca/coll/mscclpp/stage/define.h"

typedef mca_coll_mscclpp_stage_call_t call_t;

/*
 * Sets the addresses of the call's buffers. Returns true if this rank works in place, with its data in the receive
 * buffer.
 */
static bool set_buffers(call_t *call, const void *sbuf, void *rbuf)
{
    call->send.address = sbuf;
    call->recv.address = rbuf;
    return MPI_IN_PLACE == sbuf;
}

/*
 * Sets which parts of its buffers the call reads and writes, as all describe_<name> do. In place, this rank's block is
 * read from the receive buffer.
 */
static void describe_allgather(call_t *call, const void *sbuf, mca_coll_mscclpp_count_t scount,
                               struct ompi_datatype_t *sdtype, void *rbuf, mca_coll_mscclpp_count_t rcount,
                               struct ompi_datatype_t *rdtype, struct ompi_communicator_t *comm)
{
    if (set_buffers(call, sbuf, rbuf)) {
        mca_coll_mscclpp_stage_elements(&call->recv.read, (size_t)rcount, rdtype);
        mca_coll_mscclpp_stage_select_block(&call->recv.read, ompi_comm_rank(comm));
    } else {
        mca_coll_mscclpp_stage_elements(&call->send.read, (size_t)scount, sdtype);
    }
    mca_coll_mscclpp_stage_elements(&call->recv.write, (size_t)rcount * (size_t)mca_coll_mscclpp_peer_count(comm),
                                    rdtype);
}

/* Describes MPI_Allgatherv. In place, this rank's block is read from the receive buffer, with rcounts and displs. */
static void describe_allgatherv(call_t *call, const void *sbuf, mca_coll_mscclpp_count_t scount,
                                struct ompi_datatype_t *sdtype, void *rbuf, mca_coll_mscclpp_counts_t rcounts,
                                mca_coll_mscclpp_displs_t displs, struct ompi_datatype_t *rdtype,
                                struct ompi_communicator_t *comm)
{
    const int ranks = mca_coll_mscclpp_peer_count(comm);

    if (set_buffers(call, sbuf, rbuf)) {
        mca_coll_mscclpp_stage_counted_blocks(&call->recv.read, ranks, rcounts, displs, rdtype);
        mca_coll_mscclpp_stage_select_block(&call->recv.read, ompi_comm_rank(comm));
    } else {
        mca_coll_mscclpp_stage_elements(&call->send.read, (size_t)scount, sdtype);
    }
    mca_coll_mscclpp_stage_counted_blocks(&call->recv.write, ranks, rcounts, displs, rdtype);
}

/* Describes MPI_Alltoall. In place, the blocks for all ranks are read from the receive buffer. */
static void describe_alltoall(call_t *call, const void *sbuf, mca_coll_mscclpp_count_t scount,
                              struct ompi_datatype_t *sdtype, void *rbuf, mca_coll_mscclpp_count_t rcount,
                              struct ompi_datatype_t *rdtype, struct ompi_communicator_t *comm)
{
    size_t ranks = (size_t)mca_coll_mscclpp_peer_count(comm);

    if (set_buffers(call, sbuf, rbuf)) {
        mca_coll_mscclpp_stage_elements(&call->recv.read, (size_t)rcount * ranks, rdtype);
    } else {
        mca_coll_mscclpp_stage_elements(&call->send.read, (size_t)scount * ranks, sdtype);
    }
    mca_coll_mscclpp_stage_elements(&call->recv.write, (size_t)rcount * ranks, rdtype);
}

/*
 * Describes MPI_Alltoallv. In place, this rank's blocks are read from the receive buffer, with rcounts and rdispls.
 */
static void describe_alltoallv(call_t *call, const void *sbuf, mca_coll_mscclpp_counts_t scounts,
                               mca_coll_mscclpp_displs_t sdispls, struct ompi_datatype_t *sdtype, void *rbuf,
                               mca_coll_mscclpp_counts_t rcounts, mca_coll_mscclpp_displs_t rdispls,
                               struct ompi_datatype_t *rdtype, struct ompi_communicator_t *comm)
{
    const int ranks = mca_coll_mscclpp_peer_count(comm);

    if (set_buffers(call, sbuf, rbuf)) {
        mca_coll_mscclpp_stage_counted_blocks(&call->recv.read, ranks, rcounts, rdispls, rdtype);
    } else {
        mca_coll_mscclpp_stage_counted_blocks(&call->send.read, ranks, scounts, sdispls, sdtype);
    }
    mca_coll_mscclpp_stage_counted_blocks(&call->recv.write, ranks, rcounts, rdispls, rdtype);
}

/*
 * Describes MPI_Alltoallw. Each block has its own type. In place, this rank's blocks are read from the receive buffer,
 * with rcounts, rdispls and rdtypes.
 */
static void describe_alltoallw(call_t *call, const void *sbuf, mca_coll_mscclpp_counts_t scounts,
                               mca_coll_mscclpp_displs_t sdispls, struct ompi_datatype_t *const *sdtypes, void *rbuf,
                               mca_coll_mscclpp_counts_t rcounts, mca_coll_mscclpp_displs_t rdispls,
                               struct ompi_datatype_t *const *rdtypes, struct ompi_communicator_t *comm)
{
    const int ranks = mca_coll_mscclpp_peer_count(comm);

    if (set_buffers(call, sbuf, rbuf)) {
        mca_coll_mscclpp_stage_types(&call->recv.read, ranks, rcounts, rdispls, rdtypes);
    } else {
        mca_coll_mscclpp_stage_types(&call->send.read, ranks, scounts, sdispls, sdtypes);
    }
    mca_coll_mscclpp_stage_types(&call->recv.write, ranks, rcounts, rdispls, rdtypes);
}

/* Describes a reduction to which this rank contributes `in_count` elements, and receives `out_count` elements. */
static void describe_reduction(call_t *call, const void *sbuf, void *rbuf, size_t in_count, size_t out_count,
                               struct ompi_datatype_t *dtype)
{
    mca_coll_mscclpp_stage_elements(set_buffers(call, sbuf, rbuf) ? &call->recv.read : &call->send.read, in_count,
                                    dtype);
    mca_coll_mscclpp_stage_elements(&call->recv.write, out_count, dtype);
}

/* Describes MPI_Allreduce. As in the next functions, what is copied does not depend on the operation. */
static void describe_allreduce(call_t *call, const void *sbuf, void *rbuf, mca_coll_mscclpp_count_t count,
                               struct ompi_datatype_t *dtype, struct ompi_op_t *op, struct ompi_communicator_t *comm)
{
    call->op = op;
    (void)comm;
    describe_reduction(call, sbuf, rbuf, (size_t)count, (size_t)count, dtype);
}

/*
 * Describes MPI_Reduce_scatter_block. On an inter-communicator, a contribution has a block for each rank of its own
 * group: hence ompi_comm_size, and not mca_coll_mscclpp_peer_count.
 */
static void describe_reduce_scatter_block(call_t *call, const void *sbuf, void *rbuf, mca_coll_mscclpp_count_t rcount,
                                          struct ompi_datatype_t *dtype, struct ompi_op_t *op,
                                          struct ompi_communicator_t *comm)
{
    call->op = op;
    describe_reduction(call, sbuf, rbuf, (size_t)rcount * (size_t)ompi_comm_size(comm), (size_t)rcount, dtype);
}

/* Describes MPI_Reduce_scatter: reads the blocks of all ranks of this rank's group, and writes this rank's block. */
static void describe_reduce_scatter(call_t *call, const void *sbuf, void *rbuf, mca_coll_mscclpp_counts_t rcounts,
                                    struct ompi_datatype_t *dtype, struct ompi_op_t *op,
                                    struct ompi_communicator_t *comm)
{
    size_t own_count = (size_t)mca_coll_mscclpp_count_at(rcounts, ompi_comm_rank(comm));
    size_t total_count = 0;

    call->op = op;
    for (int rank = 0; rank < ompi_comm_size(comm); ++rank) {
        total_count += (size_t)mca_coll_mscclpp_count_at(rcounts, rank);
    }
    describe_reduction(call, sbuf, rbuf, total_count, own_count, dtype);
}

/* Describes MPI_Scan, whose buffers are those of MPI_Allreduce. */
static void describe_scan(call_t *call, const void *sbuf, void *rbuf, mca_coll_mscclpp_count_t count,
                          struct ompi_datatype_t *dtype, struct ompi_op_t *op, struct ompi_communicator_t *comm)
{
    call->op = op;
    (void)comm;
    describe_reduction(call, sbuf, rbuf, (size_t)count, (size_t)count, dtype);
}

/*
 * Describes MPI_Exscan: reads `count` elements, and writes as many, except on rank 0. That rank receives nothing, and
 * unless it works in place, its receive buffer is not significant and of any size.
 */
static void describe_exscan(call_t *call, const void *sbuf, void *rbuf, mca_coll_mscclpp_count_t count,
                            struct ompi_datatype_t *dtype, struct ompi_op_t *op, struct ompi_communicator_t *comm)
{
    call->op = op;
    describe_reduction(call, sbuf, rbuf, (size_t)count, 0 == ompi_comm_rank(comm) ? 0 : (size_t)count, dtype);
}

STAGE_COLLECTIVE(allgather,
                 (const void *sbuf, mca_coll_mscclpp_count_t scount, struct ompi_datatype_t *sdtype, void *rbuf,
                  mca_coll_mscclpp_count_t rcount, struct ompi_datatype_t *rdtype),
                 (sbuf, scount, sdtype, rbuf, rcount, rdtype), STAGE_USE_BOTH, STAGE_VIEW_ALLGATHER);

STAGE_COLLECTIVE(allgatherv,
                 (const void *sbuf, mca_coll_mscclpp_count_t scount, struct ompi_datatype_t *sdtype, void *rbuf,
                  mca_coll_mscclpp_counts_t rcounts, mca_coll_mscclpp_displs_t displs, struct ompi_datatype_t *rdtype),
                 (sbuf, scount, sdtype, rbuf, rcounts, displs, rdtype), STAGE_USE_BOTH, STAGE_VIEW_ALLGATHER);

STAGE_COLLECTIVE(alltoall,
                 (const void *sbuf, mca_coll_mscclpp_count_t scount, struct ompi_datatype_t *sdtype, void *rbuf,
                  mca_coll_mscclpp_count_t rcount, struct ompi_datatype_t *rdtype),
                 (sbuf, scount, sdtype, rbuf, rcount, rdtype), STAGE_USE_BOTH, STAGE_VIEW_ALLTOALL);

STAGE_COLLECTIVE(alltoallv,
                 (const void *sbuf, mca_coll_mscclpp_counts_t scounts, mca_coll_mscclpp_displs_t sdispls,
                  struct ompi_datatype_t *sdtype, void *rbuf, mca_coll_mscclpp_counts_t rcounts,
                  mca_coll_mscclpp_displs_t rdispls, struct ompi_datatype_t *rdtype),
                 (sbuf, scounts, sdispls, sdtype, rbuf, rcounts, rdispls, rdtype), STAGE_USE_BOTH, STAGE_VIEW_ALLTOALL);

STAGE_COLLECTIVE(alltoallw,
                 (const void *sbuf, mca_coll_mscclpp_counts_t scounts, mca_coll_mscclpp_displs_t sdispls,
                  struct ompi_datatype_t *const *sdtypes, void *rbuf, mca_coll_mscclpp_counts_t rcounts,
                  mca_coll_mscclpp_displs_t rdispls, struct ompi_datatype_t *const *rdtypes),
                 (sbuf, scounts, sdispls, sdtypes, rbuf, rcounts, rdispls, rdtypes), STAGE_USE_BOTH,
                 STAGE_VIEW_ALLTOALL);

STAGE_COLLECTIVE(allreduce,
                 (const void *sbuf, void *rbuf, mca_coll_mscclpp_count_t count, struct ompi_datatype_t *dtype,
                  struct ompi_op_t *op),
                 (sbuf, rbuf, count, dtype, op), STAGE_USE_REDUCE, STAGE_VIEW_REDUCTION);

STAGE_COLLECTIVE(reduce_scatter_block,
                 (const void *sbuf, void *rbuf, mca_coll_mscclpp_count_t rcount, struct ompi_datatype_t *dtype,
                  struct ompi_op_t *op),
                 (sbuf, rbuf, rcount, dtype, op), STAGE_USE_REDUCE, STAGE_VIEW_REDUCTION);

STAGE_COLLECTIVE(reduce_scatter,
                 (const void *sbuf, void *rbuf, mca_coll_mscclpp_counts_t rcounts, struct ompi_datatype_t *dtype,
                  struct ompi_op_t *op),
                 (sbuf, rbuf, rcounts, dtype, op), STAGE_USE_REDUCE, STAGE_VIEW_REDUCTION_OF_PARTS);

STAGE_COLLECTIVE(scan,
                 (const void *sbuf, void *rbuf, mca_coll_mscclpp_count_t count, struct ompi_datatype_t *dtype,
                  struct ompi_op_t *op),
                 (sbuf, rbuf, count, dtype, op), STAGE_USE_REDUCE, STAGE_VIEW_REDUCTION);

STAGE_COLLECTIVE(exscan,
                 (const void *sbuf, void *rbuf, mca_coll_mscclpp_count_t count, struct ompi_datatype_t *dtype,
                  struct ompi_op_t *op),
                 (sbuf, rbuf, count, dtype, op), STAGE_USE_REDUCE, STAGE_VIEW_REDUCTION);
