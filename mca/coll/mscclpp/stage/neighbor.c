/*
 * Collectives along the edges of a communicator's topology. Each function describe_<name> says which parts of its
 * buffers a call reads and writes (define.h). MPI_IN_PLACE does not exist here.
 */
#include "mca/coll/mscclpp/stage/define.h"

#include "ompi/mca/topo/topo.h"

typedef mca_coll_mscclpp_stage_call_t call_t;

/* The numbers of edges of this rank. */
typedef struct {
    int in;          /* edges into this rank */
    int out;         /* edges out of this rank */
    bool has_border; /* neighbours may be absent, at the border of a grid; no data come from them */
} degrees_t;

/* Returns the degrees in a grid. Absent neighbours count, too: their edges lead to MPI_PROC_NULL. */
static degrees_t count_cart_edges(const mca_topo_base_comm_cart_t *cart)
{
    degrees_t degrees = {.in = 2 * cart->ndims, .out = 2 * cart->ndims};

    for (int dim = 0; dim < cart->ndims; ++dim) {
        degrees.has_border = degrees.has_border || !cart->periods[dim];
    }
    return degrees;
}

/* Returns the degrees in a graph. graph->index[n] is the sum of the degrees of ranks 0 .. n. */
static degrees_t count_graph_edges(const mca_topo_base_comm_graph_t *graph, int rank)
{
    const int degree = graph->index[rank] - (rank > 0 ? graph->index[rank - 1] : 0);

    return (degrees_t){.in = degree, .out = degree};
}

/* Returns the degrees of this rank, which are 0 without a topology. */
static degrees_t count_edges(struct ompi_communicator_t *comm)
{
    degrees_t degrees = {0};

    if (OMPI_COMM_IS_CART(comm)) {
        degrees = count_cart_edges(comm->c_topo->mtc.cart);
    } else if (OMPI_COMM_IS_GRAPH(comm)) {
        degrees = count_graph_edges(comm->c_topo->mtc.graph, ompi_comm_rank(comm));
    } else if (OMPI_COMM_IS_DIST_GRAPH(comm)) {
        degrees.in = comm->c_topo->mtc.dist_graph->indegree;
        degrees.out = comm->c_topo->mtc.dist_graph->outdegree;
    }
    return degrees;
}

void mca_coll_mscclpp_stage_count_edges(struct ompi_communicator_t *comm, int *in_p, int *out_p)
{
    const degrees_t degrees = count_edges(comm);

    *in_p = degrees.in;
    *out_p = degrees.out;
}

/* Sets the addresses of the call's buffers, and returns the degrees of this rank. */
static degrees_t set_buffers(call_t *call, const void *sbuf, void *rbuf, struct ompi_communicator_t *comm)
{
    call->send.address = sbuf;
    call->recv.address = rbuf;
    return count_edges(comm);
}

/*
 * If neighbours may be absent, makes the call read all bytes that it writes. All blocks are copied back to the device,
 * so the copy must hold the old data of the blocks that no neighbour sends.
 */
static void keep_absent_blocks(call_t *call, degrees_t degrees)
{
    if (degrees.has_border) {
        call->recv.read = call->recv.write;
    }
}

/*
 * Describes MPI_Neighbor_allgather: one block for all neighbours, and a block of one size from each. The send buffer is
 * not read if there is no edge out of this rank.
 */
static void describe_neighbor_allgather(call_t *call, const void *sbuf, mca_coll_mscclpp_count_t scount,
                                        struct ompi_datatype_t *sdtype, void *rbuf, mca_coll_mscclpp_count_t rcount,
                                        struct ompi_datatype_t *rdtype, struct ompi_communicator_t *comm)
{
    degrees_t degrees = set_buffers(call, sbuf, rbuf, comm);

    mca_coll_mscclpp_stage_elements(&call->send.read, degrees.out > 0 ? (size_t)scount : 0, sdtype);
    mca_coll_mscclpp_stage_elements(&call->recv.write, (size_t)rcount * (size_t)degrees.in, rdtype);
    keep_absent_blocks(call, degrees);
}

/* Describes MPI_Neighbor_allgatherv, as describe_neighbor_allgather does. The received blocks differ in size. */
static void describe_neighbor_allgatherv(call_t *call, const void *sbuf, mca_coll_mscclpp_count_t scount,
                                         struct ompi_datatype_t *sdtype, void *rbuf, mca_coll_mscclpp_counts_t rcounts,
                                         mca_coll_mscclpp_displs_t displs, struct ompi_datatype_t *rdtype,
                                         struct ompi_communicator_t *comm)
{
    degrees_t degrees = set_buffers(call, sbuf, rbuf, comm);

    mca_coll_mscclpp_stage_elements(&call->send.read, degrees.out > 0 ? (size_t)scount : 0, sdtype);
    mca_coll_mscclpp_stage_counted_blocks(&call->recv.write, degrees.in, rcounts, displs, rdtype);
    keep_absent_blocks(call, degrees);
}

/* Describes MPI_Neighbor_alltoall: a block of one size for each edge out, and from each edge in. */
static void describe_neighbor_alltoall(call_t *call, const void *sbuf, mca_coll_mscclpp_count_t scount,
                                       struct ompi_datatype_t *sdtype, void *rbuf, mca_coll_mscclpp_count_t rcount,
                                       struct ompi_datatype_t *rdtype, struct ompi_communicator_t *comm)
{
    degrees_t degrees = set_buffers(call, sbuf, rbuf, comm);

    mca_coll_mscclpp_stage_elements(&call->send.read, (size_t)scount * (size_t)degrees.out, sdtype);
    mca_coll_mscclpp_stage_elements(&call->recv.write, (size_t)rcount * (size_t)degrees.in, rdtype);
    keep_absent_blocks(call, degrees);
}

/* Describes MPI_Neighbor_alltoallv: a block for each edge. Displacements are in extents of the buffer's type. */
static void describe_neighbor_alltoallv(call_t *call, const void *sbuf, mca_coll_mscclpp_counts_t scounts,
                                        mca_coll_mscclpp_displs_t sdispls, struct ompi_datatype_t *sdtype, void *rbuf,
                                        mca_coll_mscclpp_counts_t rcounts, mca_coll_mscclpp_displs_t rdispls,
                                        struct ompi_datatype_t *rdtype, struct ompi_communicator_t *comm)
{
    degrees_t degrees = set_buffers(call, sbuf, rbuf, comm);

    mca_coll_mscclpp_stage_counted_blocks(&call->send.read, degrees.out, scounts, sdispls, sdtype);
    mca_coll_mscclpp_stage_counted_blocks(&call->recv.write, degrees.in, rcounts, rdispls, rdtype);
    keep_absent_blocks(call, degrees);
}

/*
 * Describes MPI_Neighbor_alltoallw: a block for each edge, with a type of its own. Displacements are in bytes, and have
 * the type MPI_Aint.
 */
static void describe_neighbor_alltoallw(call_t *call, const void *sbuf, mca_coll_mscclpp_counts_t scounts,
                                        const MPI_Aint *sdispls, struct ompi_datatype_t *const *sdtypes, void *rbuf,
                                        mca_coll_mscclpp_counts_t rcounts, const MPI_Aint *rdispls,
                                        struct ompi_datatype_t *const *rdtypes, struct ompi_communicator_t *comm)
{
    degrees_t degrees = set_buffers(call, sbuf, rbuf, comm);

    mca_coll_mscclpp_stage_offsets(&call->send.read, degrees.out, scounts, sdispls, sdtypes);
    mca_coll_mscclpp_stage_offsets(&call->recv.write, degrees.in, rcounts, rdispls, rdtypes);
    keep_absent_blocks(call, degrees);
}

STAGE_COLLECTIVE(neighbor_allgather,
                 (const void *sbuf, mca_coll_mscclpp_count_t scount, struct ompi_datatype_t *sdtype, void *rbuf,
                  mca_coll_mscclpp_count_t rcount, struct ompi_datatype_t *rdtype),
                 (sbuf, scount, sdtype, rbuf, rcount, rdtype), STAGE_USE_BOTH, STAGE_VIEW_NEIGHBOR_ALLGATHER);

STAGE_COLLECTIVE(neighbor_allgatherv,
                 (const void *sbuf, mca_coll_mscclpp_count_t scount, struct ompi_datatype_t *sdtype, void *rbuf,
                  mca_coll_mscclpp_counts_t rcounts, mca_coll_mscclpp_displs_t displs, struct ompi_datatype_t *rdtype),
                 (sbuf, scount, sdtype, rbuf, rcounts, displs, rdtype), STAGE_USE_BOTH, STAGE_VIEW_NEIGHBOR_ALLGATHER);

STAGE_COLLECTIVE(neighbor_alltoall,
                 (const void *sbuf, mca_coll_mscclpp_count_t scount, struct ompi_datatype_t *sdtype, void *rbuf,
                  mca_coll_mscclpp_count_t rcount, struct ompi_datatype_t *rdtype),
                 (sbuf, scount, sdtype, rbuf, rcount, rdtype), STAGE_USE_BOTH, STAGE_VIEW_NEIGHBOR_ALLTOALL);

STAGE_COLLECTIVE(neighbor_alltoallv,
                 (const void *sbuf, mca_coll_mscclpp_counts_t scounts, mca_coll_mscclpp_displs_t sdispls,
                  struct ompi_datatype_t *sdtype, void *rbuf, mca_coll_mscclpp_counts_t rcounts,
                  mca_coll_mscclpp_displs_t rdispls, struct ompi_datatype_t *rdtype),
                 (sbuf, scounts, sdispls, sdtype, rbuf, rcounts, rdispls, rdtype), STAGE_USE_BOTH,
                 STAGE_VIEW_NEIGHBOR_ALLTOALL);

STAGE_COLLECTIVE(neighbor_alltoallw,
                 (const void *sbuf, mca_coll_mscclpp_counts_t scounts, const MPI_Aint *sdispls,
                  struct ompi_datatype_t *const *sdtypes, void *rbuf, mca_coll_mscclpp_counts_t rcounts,
                  const MPI_Aint *rdispls, struct ompi_datatype_t *const *rdtypes),
                 (sbuf, scounts, sdispls, sdtypes, rbuf, rcounts, rdispls, rdtypes), STAGE_USE_BOTH,
                 STAGE_VIEW_NEIGHBOR_ALLTOALL);
