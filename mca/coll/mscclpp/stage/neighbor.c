/*
 * Collectives along the edges of a communicator's topology. Each function describe_<name> says which parts of its
 * buffers a call reads and writes (define.h). MPI_IN_PLACE does not exist here.
 */
#include "mca/coll/mscclpp/stage/define.h"

#include "ompi/mca/topo/topo.h"

typedef mca_coll_mscclpp_stage_call_t call_t;

/* The edges of this rank. */
typedef struct {
    int in;        /* number of edges into this rank */
    int out;       /* number of edges out of it */
    bool may_lack; /* some neighbours may not exist, at the edge of a grid; what would come from them stays as it is */
} degrees_t;

/* Returns the degrees in a grid. Absent neighbours count, too: their edges lead to MPI_PROC_NULL. */
static degrees_t cart_degrees(const mca_topo_base_comm_cart_t *cart)
{
    degrees_t degrees = {.in = 2 * cart->ndims, .out = 2 * cart->ndims};

    for (int dim = 0; dim < cart->ndims; ++dim) {
        degrees.may_lack = degrees.may_lack || !cart->periods[dim];
    }
    return degrees;
}

/* Returns the degrees in a graph, whose index holds running sums of its nodes' degrees. */
static degrees_t graph_degrees(const mca_topo_base_comm_graph_t *graph, int rank)
{
    int degree = graph->index[rank] - (rank > 0 ? graph->index[rank - 1] : 0);

    return (degrees_t){.in = degree, .out = degree};
}

/* Returns this rank's edges. Without a topology there are none. */
static degrees_t degrees_of(struct ompi_communicator_t *comm)
{
    degrees_t degrees = {0};

    if (OMPI_COMM_IS_CART(comm)) {
        degrees = cart_degrees(comm->c_topo->mtc.cart);
    } else if (OMPI_COMM_IS_GRAPH(comm)) {
        degrees = graph_degrees(comm->c_topo->mtc.graph, ompi_comm_rank(comm));
    } else if (OMPI_COMM_IS_DIST_GRAPH(comm)) {
        degrees.in = comm->c_topo->mtc.dist_graph->indegree;
        degrees.out = comm->c_topo->mtc.dist_graph->outdegree;
    }
    return degrees;
}

void mca_coll_mscclpp_stage_degrees(struct ompi_communicator_t *comm, int *in_p, int *out_p)
{
    const degrees_t degrees = degrees_of(comm);

    *in_p = degrees.in;
    *out_p = degrees.out;
}

/* Sets the addresses of the call's buffers, and returns the degrees of this rank. */
static degrees_t set_buffers(call_t *call, const void *sbuf, void *rbuf, struct ompi_communicator_t *comm)
{
    call->send.address = sbuf;
    call->recv.address = rbuf;
    return degrees_of(comm);
}

/*
 * Makes the call read the bytes that it writes, if some neighbours do not exist. All blocks are copied back to the
 * device, so the copy must hold the old data of the blocks that no neighbour sends.
 */
static void keep_absent_blocks(call_t *call, degrees_t degrees)
{
    if (degrees.may_lack) {
        call->recv.read = call->recv.write;
    }
}

/* Describes one block for all neighbours. Reads no block if there is no edge out, because nothing is sent then. */
static void describe_neighbor_allgather(call_t *call, const void *sbuf, mca_coll_mscclpp_count_t scount,
                                        struct ompi_datatype_t *sdtype, void *rbuf, mca_coll_mscclpp_count_t rcount,
                                        struct ompi_datatype_t *rdtype, struct ompi_communicator_t *comm)
{
    degrees_t degrees = set_buffers(call, sbuf, rbuf, comm);

    mca_coll_mscclpp_stage_elements(&call->send.read, degrees.out > 0 ? (size_t)scount : 0, sdtype);
    mca_coll_mscclpp_stage_elements(&call->recv.write, (size_t)rcount * (size_t)degrees.in, rdtype);
    keep_absent_blocks(call, degrees);
}

/* Describes one block for all neighbours, as above. The blocks that come from them differ in size. */
static void describe_neighbor_allgatherv(call_t *call, const void *sbuf, mca_coll_mscclpp_count_t scount,
                                         struct ompi_datatype_t *sdtype, void *rbuf, mca_coll_mscclpp_counts_t rcounts,
                                         mca_coll_mscclpp_displs_t displs, struct ompi_datatype_t *rdtype,
                                         struct ompi_communicator_t *comm)
{
    degrees_t degrees = set_buffers(call, sbuf, rbuf, comm);

    mca_coll_mscclpp_stage_elements(&call->send.read, degrees.out > 0 ? (size_t)scount : 0, sdtype);
    mca_coll_mscclpp_stage_vector(&call->recv.write, degrees.in, rcounts, displs, rdtype);
    keep_absent_blocks(call, degrees);
}

/* Describes a block of one size for each edge out, and from each edge in. */
static void describe_neighbor_alltoall(call_t *call, const void *sbuf, mca_coll_mscclpp_count_t scount,
                                       struct ompi_datatype_t *sdtype, void *rbuf, mca_coll_mscclpp_count_t rcount,
                                       struct ompi_datatype_t *rdtype, struct ompi_communicator_t *comm)
{
    degrees_t degrees = set_buffers(call, sbuf, rbuf, comm);

    mca_coll_mscclpp_stage_elements(&call->send.read, (size_t)scount * (size_t)degrees.out, sdtype);
    mca_coll_mscclpp_stage_elements(&call->recv.write, (size_t)rcount * (size_t)degrees.in, rdtype);
    keep_absent_blocks(call, degrees);
}

/* Describes a block for each edge, whose displacement is in extents of its buffer's type. */
static void describe_neighbor_alltoallv(call_t *call, const void *sbuf, mca_coll_mscclpp_counts_t scounts,
                                        mca_coll_mscclpp_displs_t sdispls, struct ompi_datatype_t *sdtype, void *rbuf,
                                        mca_coll_mscclpp_counts_t rcounts, mca_coll_mscclpp_displs_t rdispls,
                                        struct ompi_datatype_t *rdtype, struct ompi_communicator_t *comm)
{
    degrees_t degrees = set_buffers(call, sbuf, rbuf, comm);

    mca_coll_mscclpp_stage_vector(&call->send.read, degrees.out, scounts, sdispls, sdtype);
    mca_coll_mscclpp_stage_vector(&call->recv.write, degrees.in, rcounts, rdispls, rdtype);
    keep_absent_blocks(call, degrees);
}

/*
 * Describes a block for each edge, with a type of its own. Displacements are in bytes here, and of the type MPI_Aint.
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
                 (sbuf, scount, sdtype, rbuf, rcount, rdtype), STAGE_USE_BOTH, STAGE_IS_NEIGHBOR_ALLGATHER);

STAGE_COLLECTIVE(neighbor_allgatherv,
                 (const void *sbuf, mca_coll_mscclpp_count_t scount, struct ompi_datatype_t *sdtype, void *rbuf,
                  mca_coll_mscclpp_counts_t rcounts, mca_coll_mscclpp_displs_t displs, struct ompi_datatype_t *rdtype),
                 (sbuf, scount, sdtype, rbuf, rcounts, displs, rdtype), STAGE_USE_BOTH, STAGE_IS_NEIGHBOR_ALLGATHER);

STAGE_COLLECTIVE(neighbor_alltoall,
                 (const void *sbuf, mca_coll_mscclpp_count_t scount, struct ompi_datatype_t *sdtype, void *rbuf,
                  mca_coll_mscclpp_count_t rcount, struct ompi_datatype_t *rdtype),
                 (sbuf, scount, sdtype, rbuf, rcount, rdtype), STAGE_USE_BOTH, STAGE_IS_NEIGHBOR_ALLTOALL);

STAGE_COLLECTIVE(neighbor_alltoallv,
                 (const void *sbuf, mca_coll_mscclpp_counts_t scounts, mca_coll_mscclpp_displs_t sdispls,
                  struct ompi_datatype_t *sdtype, void *rbuf, mca_coll_mscclpp_counts_t rcounts,
                  mca_coll_mscclpp_displs_t rdispls, struct ompi_datatype_t *rdtype),
                 (sbuf, scounts, sdispls, sdtype, rbuf, rcounts, rdispls, rdtype), STAGE_USE_BOTH,
                 STAGE_IS_NEIGHBOR_ALLTOALL);

STAGE_COLLECTIVE(neighbor_alltoallw,
                 (const void *sbuf, mca_coll_mscclpp_counts_t scounts, const MPI_Aint *sdispls,
                  struct ompi_datatype_t *const *sdtypes, void *rbuf, mca_coll_mscclpp_counts_t rcounts,
                  const MPI_Aint *rdispls, struct ompi_datatype_t *const *rdtypes),
                 (sbuf, scounts, sdispls, sdtypes, rbuf, rcounts, rdispls, rdtypes), STAGE_USE_BOTH,
                 STAGE_IS_NEIGHBOR_ALLTOALL);
