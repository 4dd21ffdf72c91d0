/* Collectives in which every rank sends and every rank receives. */
#include "mca/coll/mscclpp/stage_define.h"

typedef mca_coll_mscclpp_stage_call_t call_t;
typedef mca_coll_mscclpp_stage_layout_t layout_t;

/* The ranks whose blocks a rank sends or receives. */
static int peers(struct ompi_communicator_t *comm)
{
    return OMPI_COMM_IS_INTER(comm) ? ompi_comm_remote_size(comm) : ompi_comm_size(comm);
}

/* A rank that works in place takes its contribution, `own`, from the receive buffer. */
static void describe(call_t *call, const void *sbuf, layout_t send, void *rbuf, layout_t own, layout_t recv)
{
    call->send.address = sbuf;
    call->recv.address = rbuf;
    if (MPI_IN_PLACE == sbuf) {
        call->recv.read = own;
    } else {
        call->send.read = send;
    }
    call->recv.write = recv;
}

static void describe_allgather(call_t *call, const void *sbuf, mca_coll_mscclpp_count_t scount,
                               struct ompi_datatype_t *sdtype, void *rbuf, mca_coll_mscclpp_count_t rcount,
                               struct ompi_datatype_t *rdtype, struct ompi_communicator_t *comm)
{
    layout_t own = mca_coll_mscclpp_stage_elements((size_t)rcount, rdtype);

    describe(call, sbuf, mca_coll_mscclpp_stage_elements((size_t)scount, sdtype), rbuf,
             mca_coll_mscclpp_stage_block(own, ompi_comm_rank(comm)),
             mca_coll_mscclpp_stage_elements((size_t)rcount * (size_t)peers(comm), rdtype));
}

static void describe_allgatherv(call_t *call, const void *sbuf, mca_coll_mscclpp_count_t scount,
                                struct ompi_datatype_t *sdtype, void *rbuf, mca_coll_mscclpp_counts_t rcounts,
                                mca_coll_mscclpp_displs_t displs, struct ompi_datatype_t *rdtype,
                                struct ompi_communicator_t *comm)
{
    layout_t recv = mca_coll_mscclpp_stage_vector(peers(comm), rcounts, displs, rdtype);

    describe(call, sbuf, mca_coll_mscclpp_stage_elements((size_t)scount, sdtype), rbuf,
             mca_coll_mscclpp_stage_block(recv, ompi_comm_rank(comm)), recv);
}

static void describe_alltoall(call_t *call, const void *sbuf, mca_coll_mscclpp_count_t scount,
                              struct ompi_datatype_t *sdtype, void *rbuf, mca_coll_mscclpp_count_t rcount,
                              struct ompi_datatype_t *rdtype, struct ompi_communicator_t *comm)
{
    layout_t recv = mca_coll_mscclpp_stage_elements((size_t)rcount * (size_t)peers(comm), rdtype);

    describe(call, sbuf, mca_coll_mscclpp_stage_elements((size_t)scount * (size_t)peers(comm), sdtype), rbuf, recv,
             recv);
}

static void describe_alltoallv(call_t *call, const void *sbuf, mca_coll_mscclpp_counts_t scounts,
                               mca_coll_mscclpp_displs_t sdispls, struct ompi_datatype_t *sdtype, void *rbuf,
                               mca_coll_mscclpp_counts_t rcounts, mca_coll_mscclpp_displs_t rdispls,
                               struct ompi_datatype_t *rdtype, struct ompi_communicator_t *comm)
{
    layout_t recv = mca_coll_mscclpp_stage_vector(peers(comm), rcounts, rdispls, rdtype);

    describe(call, sbuf, mca_coll_mscclpp_stage_vector(peers(comm), scounts, sdispls, sdtype), rbuf, recv, recv);
}

static void describe_alltoallw(call_t *call, const void *sbuf, mca_coll_mscclpp_counts_t scounts,
                               mca_coll_mscclpp_displs_t sdispls, struct ompi_datatype_t *const *sdtypes, void *rbuf,
                               mca_coll_mscclpp_counts_t rcounts, mca_coll_mscclpp_displs_t rdispls,
                               struct ompi_datatype_t *const *rdtypes, struct ompi_communicator_t *comm)
{
    layout_t recv = mca_coll_mscclpp_stage_types(peers(comm), rcounts, rdispls, rdtypes);

    describe(call, sbuf, mca_coll_mscclpp_stage_types(peers(comm), scounts, sdispls, sdtypes), rbuf, recv, recv);
}

static void describe_allreduce(call_t *call, const void *sbuf, void *rbuf, mca_coll_mscclpp_count_t count,
                               struct ompi_datatype_t *dtype, struct ompi_op_t *op, struct ompi_communicator_t *comm)
{
    layout_t all = mca_coll_mscclpp_stage_elements((size_t)count, dtype);

    (void)op;
    (void)comm;
    describe(call, sbuf, all, rbuf, all, all);
}

/* In both groups of an intercommunicator, a contribution has one block for each rank of the own group. */
static void describe_reduce_scatter_block(call_t *call, const void *sbuf, void *rbuf, mca_coll_mscclpp_count_t rcount,
                                          struct ompi_datatype_t *dtype, struct ompi_op_t *op,
                                          struct ompi_communicator_t *comm)
{
    layout_t all = mca_coll_mscclpp_stage_elements((size_t)rcount * (size_t)ompi_comm_size(comm), dtype);

    (void)op;
    describe(call, sbuf, all, rbuf, all, mca_coll_mscclpp_stage_elements((size_t)rcount, dtype));
}

static void describe_reduce_scatter(call_t *call, const void *sbuf, void *rbuf, mca_coll_mscclpp_counts_t rcounts,
                                    struct ompi_datatype_t *dtype, struct ompi_op_t *op,
                                    struct ompi_communicator_t *comm)
{
    size_t own = (size_t)mca_coll_mscclpp_count_at(rcounts, ompi_comm_rank(comm));
    size_t count = 0;
    layout_t all;

    (void)op;
    for (int rank = 0; rank < ompi_comm_size(comm); ++rank) {
        count += (size_t)mca_coll_mscclpp_count_at(rcounts, rank);
    }
    all = mca_coll_mscclpp_stage_elements(count, dtype);
    describe(call, sbuf, all, rbuf, all, mca_coll_mscclpp_stage_elements(own, dtype));
}

static void describe_scan(call_t *call, const void *sbuf, void *rbuf, mca_coll_mscclpp_count_t count,
                          struct ompi_datatype_t *dtype, struct ompi_op_t *op, struct ompi_communicator_t *comm)
{
    describe_allreduce(call, sbuf, rbuf, count, dtype, op, comm);
}

/* Nothing reaches the first rank: its receive buffer, if it is one, is not significant and may be of any size. */
static void describe_exscan(call_t *call, const void *sbuf, void *rbuf, mca_coll_mscclpp_count_t count,
                            struct ompi_datatype_t *dtype, struct ompi_op_t *op, struct ompi_communicator_t *comm)
{
    describe_allreduce(call, sbuf, rbuf, count, dtype, op, comm);
    if (0 == ompi_comm_rank(comm)) {
        call->recv.write = (layout_t){0};
    }
}

STAGE_COLLECTIVE(allgather,
                 (const void *sbuf, mca_coll_mscclpp_count_t scount, struct ompi_datatype_t *sdtype, void *rbuf,
                  mca_coll_mscclpp_count_t rcount, struct ompi_datatype_t *rdtype),
                 (sbuf, scount, sdtype, rbuf, rcount, rdtype), STAGE_USE_BOTH);

STAGE_COLLECTIVE(allgatherv,
                 (const void *sbuf, mca_coll_mscclpp_count_t scount, struct ompi_datatype_t *sdtype, void *rbuf,
                  mca_coll_mscclpp_counts_t rcounts, mca_coll_mscclpp_displs_t displs, struct ompi_datatype_t *rdtype),
                 (sbuf, scount, sdtype, rbuf, rcounts, displs, rdtype), STAGE_USE_BOTH);

STAGE_COLLECTIVE(alltoall,
                 (const void *sbuf, mca_coll_mscclpp_count_t scount, struct ompi_datatype_t *sdtype, void *rbuf,
                  mca_coll_mscclpp_count_t rcount, struct ompi_datatype_t *rdtype),
                 (sbuf, scount, sdtype, rbuf, rcount, rdtype), STAGE_USE_BOTH);

STAGE_COLLECTIVE(alltoallv,
                 (const void *sbuf, mca_coll_mscclpp_counts_t scounts, mca_coll_mscclpp_displs_t sdispls,
                  struct ompi_datatype_t *sdtype, void *rbuf, mca_coll_mscclpp_counts_t rcounts,
                  mca_coll_mscclpp_displs_t rdispls, struct ompi_datatype_t *rdtype),
                 (sbuf, scounts, sdispls, sdtype, rbuf, rcounts, rdispls, rdtype), STAGE_USE_BOTH);

STAGE_COLLECTIVE(alltoallw,
                 (const void *sbuf, mca_coll_mscclpp_counts_t scounts, mca_coll_mscclpp_displs_t sdispls,
                  struct ompi_datatype_t *const *sdtypes, void *rbuf, mca_coll_mscclpp_counts_t rcounts,
                  mca_coll_mscclpp_displs_t rdispls, struct ompi_datatype_t *const *rdtypes),
                 (sbuf, scounts, sdispls, sdtypes, rbuf, rcounts, rdispls, rdtypes), STAGE_USE_BOTH);

STAGE_COLLECTIVE(allreduce,
                 (const void *sbuf, void *rbuf, mca_coll_mscclpp_count_t count, struct ompi_datatype_t *dtype,
                  struct ompi_op_t *op),
                 (sbuf, rbuf, count, dtype, op), STAGE_USE_BOTH);

STAGE_COLLECTIVE(reduce_scatter_block,
                 (const void *sbuf, void *rbuf, mca_coll_mscclpp_count_t rcount, struct ompi_datatype_t *dtype,
                  struct ompi_op_t *op),
                 (sbuf, rbuf, rcount, dtype, op), STAGE_USE_BOTH);

STAGE_COLLECTIVE(reduce_scatter,
                 (const void *sbuf, void *rbuf, mca_coll_mscclpp_counts_t rcounts, struct ompi_datatype_t *dtype,
                  struct ompi_op_t *op),
                 (sbuf, rbuf, rcounts, dtype, op), STAGE_USE_BOTH);

STAGE_COLLECTIVE(scan,
                 (const void *sbuf, void *rbuf, mca_coll_mscclpp_count_t count, struct ompi_datatype_t *dtype,
                  struct ompi_op_t *op),
                 (sbuf, rbuf, count, dtype, op), STAGE_USE_BOTH);

STAGE_COLLECTIVE(exscan,
                 (const void *sbuf, void *rbuf, mca_coll_mscclpp_count_t count, struct ompi_datatype_t *dtype,
                  struct ompi_op_t *op),
                 (sbuf, rbuf, count, dtype, op), STAGE_USE_BOTH);
