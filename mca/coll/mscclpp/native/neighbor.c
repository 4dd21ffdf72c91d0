/*
 * The edges of a communicator's topology. A neighbourhood collective is an exchange of blocks like MPI_Alltoallv, with
 * one block for each edge in place of one for each rank. Two ranks may share several edges, for example in a periodic
 * grid of two processes. The blocks of such edges are sent as one block, in an order that both ranks know. In a grid, a
 * block that is sent in the negative direction is received from the positive direction. In a graph, the n-th edge from
 * rank a to rank b corresponds to the n-th edge from a that enters b.
 */
#include "mca/coll/mscclpp/native/define.h"

#include <stdlib.h>

#include "mca/common/base/log.h"

#include "ompi/mca/topo/topo.h"

/*
 * Returns the rank at the other end of an edge of a grid, or MPI_PROC_NULL if there is none. A rank has two edges in
 * each dimension: first the edge to the lower neighbour and then the edge to the upper one.
 */
static int cart_neighbor(const mca_topo_base_comm_cart_t *cart, int rank, int edge)
{
    const int dim = edge / 2, size = cart->dims[dim];
    int coordinate = cart->coords[dim] + (0 == edge % 2 ? -1 : 1);
    int step = 1; /* the difference between a rank and the next one in the dimension */

    if (0 == cart->periods[dim] && (coordinate < 0 || coordinate >= size)) {
        return MPI_PROC_NULL;
    }
    for (int lower = dim + 1; lower < cart->ndims; ++lower) {
        step *= cart->dims[lower];
    }
    coordinate = (coordinate + size) % size;
    return rank + (coordinate - cart->coords[dim]) * step;
}

/*
 * Returns the number of edges out of a rank (if `is_outgoing` is true) or into it. In a distributed graph, `rank` must
 * be this rank, because only its own edges are known. The same holds for neighbor_of.
 */
static int degree_of(struct ompi_communicator_t *comm, int rank, bool is_outgoing)
{
    if (OMPI_COMM_IS_CART(comm)) {
        return 2 * comm->c_topo->mtc.cart->ndims;
    }
    if (OMPI_COMM_IS_GRAPH(comm)) {
        const int *index = comm->c_topo->mtc.graph->index;

        return index[rank] - (rank > 0 ? index[rank - 1] : 0);
    }
    if (OMPI_COMM_IS_DIST_GRAPH(comm)) {
        return is_outgoing ? comm->c_topo->mtc.dist_graph->outdegree : comm->c_topo->mtc.dist_graph->indegree;
    }
    return 0;
}

/*
 * Returns the rank at the other end of an edge out of a rank (if `is_outgoing` is true) or into it. `edge` is less than
 * the result of degree_of. Returns MPI_PROC_NULL if the edge leads nowhere.
 */
static int neighbor_of(struct ompi_communicator_t *comm, int rank, bool is_outgoing, int edge)
{
    if (OMPI_COMM_IS_CART(comm)) {
        return cart_neighbor(comm->c_topo->mtc.cart, rank, edge);
    }
    if (OMPI_COMM_IS_GRAPH(comm)) {
        const mca_topo_base_comm_graph_t *graph = comm->c_topo->mtc.graph;

        return graph->edges[(rank > 0 ? graph->index[rank - 1] : 0) + edge];
    }
    return is_outgoing ? comm->c_topo->mtc.dist_graph->out[edge] : comm->c_topo->mtc.dist_graph->in[edge];
}

/* Orders edges by peer, and edges of one peer by turn, for qsort. */
static int compare_edges(const void *left, const void *right)
{
    const mca_coll_mscclpp_edge_t *first = left, *second = right;

    return first->peer != second->peer ? (first->peer > second->peer) - (first->peer < second->peer)
                                       : (first->turn > second->turn) - (first->turn < second->turn);
}

/*
 * Returns a new list of the edges out of this rank (if `is_outgoing` is true) or into it, without edges that lead
 * nowhere. If memory runs out, returns NULL.
 */
static mca_coll_mscclpp_edges_t *find_edges(struct ompi_communicator_t *comm, bool is_outgoing)
{
    const int rank = ompi_comm_rank(comm), degree = degree_of(comm, rank, is_outgoing);
    mca_coll_mscclpp_edges_t *edges = malloc(sizeof(*edges) + (size_t)degree * sizeof(edges->edge[0]));

    if (edges == NULL) {
        mscclpp_error("%s: out of memory for the %d edges of a topology", mca_coll_mscclpp_comm_name(comm), degree);
        return NULL;
    }
    edges->count = 0;
    edges->has_parallel = false;
    for (int i = 0; i < degree; ++i) {
        const int peer = neighbor_of(comm, rank, is_outgoing, i);

        /*
         * In a grid, the peer numbers its edges in the same way, but sees the opposite direction: edge i is the peer's
         * edge i ^ 1.
         */
        if (MPI_PROC_NULL != peer) {
            edges->edge[edges->count++] = (mca_coll_mscclpp_edge_t){
                .peer = peer, .block = i, .turn = is_outgoing && OMPI_COMM_IS_CART(comm) ? i ^ 1 : i};
        }
    }
    qsort(edges->edge, (size_t)edges->count, sizeof(edges->edge[0]), compare_edges);
    for (int i = 1; i < edges->count; ++i) {
        edges->has_parallel = edges->has_parallel || edges->edge[i].peer == edges->edge[i - 1].peer;
    }
    return edges;
}

/*
 * Returns the edges out of this rank (if `is_outgoing` is true) or into it. They are determined only once, since a
 * topology never changes. If memory runs out, which find_edges logs, sets the call's `rc` and returns an empty list.
 */
static const mca_coll_mscclpp_edges_t *ensure_edges(call_t *call, bool is_outgoing)
{
    static const mca_coll_mscclpp_edges_t none = {.count = 0};
    mca_coll_mscclpp_edges_t **kept = is_outgoing ? &call->module->edges_out : &call->module->edges_in;

    if (*kept == NULL) {
        *kept = find_edges(call->module->comm, is_outgoing);
    }
    if (*kept == NULL) {
        call->rc = MPI_ERR_NO_MEM;
        return &none;
    }
    return *kept;
}

/*
 * Describes one block that is sent to all destinations: once or, if a destination gets it several times, once for each
 * edge.
 */
static void send_same(call_t *call, const mca_coll_mscclpp_blocks_t *blocks)
{
    const uint64_t bytes = mca_coll_mscclpp_packed_bytes(blocks->count, blocks->type);

    if (blocks->edges->has_parallel) {
        mca_coll_mscclpp_native_send_blocks(call, blocks);
        return;
    }
    mca_coll_mscclpp_native_send(call, blocks->address, blocks->edges->count > 0 ? blocks->count : 0, blocks->type);
    memset(call->send, 0, (size_t)call->ranks * sizeof(call->send[0]));
    for (int i = 0; i < blocks->edges->count; ++i) {
        call->send[blocks->edges->edge[i].peer].bytes = bytes;
    }
    call->args.send = call->send;
    if (blocks->edges->count > 0 && bytes > call->args.largest_block) {
        call->args.largest_block = bytes;
    }
}

/*
 * Describes a call by the blocks of its two buffers, after setting their edges. Always returns true, because even a
 * rank without edges takes part.
 */
static bool fill_edges(call_t *call, mca_coll_mscclpp_blocks_t *send, mca_coll_mscclpp_blocks_t *recv)
{
    const bool is_one_block = send->is_regular && 0 == send->distance;

    send->edges = ensure_edges(call, true);
    recv->edges = ensure_edges(call, false);
    call->args.varied = true;
    call->args.is_size_known = false;
    mca_coll_mscclpp_native_recv_blocks(call, recv);
    if (is_one_block) {
        send_same(call, send);
    } else {
        mca_coll_mscclpp_native_send_blocks(call, send);
    }
    return true;
}

/*
 * Describes blocks of one size at equal distances, for the neighbours and from them. `sdistance` is in extents of
 * `stype`; with 0, all neighbours get the same block. Always returns true (fill_edges).
 */
static bool fill_regular(call_t *call, const void *sbuf, count_t scount, type_t *stype, ptrdiff_t sdistance, void *rbuf,
                         count_t rcount, type_t *rtype)
{
    mca_coll_mscclpp_blocks_t send = {.address = sbuf,
                                      .is_regular = true,
                                      .count = (size_t)scount,
                                      .distance = sdistance,
                                      .type = stype,
                                      .unmoved_block = MCA_COLL_MSCCLPP_NO_BLOCK};
    mca_coll_mscclpp_blocks_t recv = {.address = rbuf,
                                      .is_regular = true,
                                      .count = (size_t)rcount,
                                      .distance = (ptrdiff_t)rcount,
                                      .type = rtype,
                                      .unmoved_block = MCA_COLL_MSCCLPP_NO_BLOCK};

    return fill_edges(call, &send, &recv);
}

/*
 * Describes MPI_Neighbor_allgather. The distance 0 means that all neighbours get the same block (fill_edges).
 */
static bool fill_neighbor_allgather(call_t *call, int rank, const void *sbuf, count_t scount, type_t *stype, void *rbuf,
                                    count_t rcount, type_t *rtype)
{
    (void)rank;
    return fill_regular(call, sbuf, scount, stype, 0, rbuf, rcount, rtype);
}

static bool fill_neighbor_alltoall(call_t *call, int rank, const void *sbuf, count_t scount, type_t *stype, void *rbuf,
                                   count_t rcount, type_t *rtype)
{
    (void)rank;
    return fill_regular(call, sbuf, scount, stype, (ptrdiff_t)scount, rbuf, rcount, rtype);
}

/*
 * Describes MPI_Neighbor_allgatherv. One block goes to all neighbours, so `send` is regular, with the distance 0. The
 * blocks that come from them differ in size.
 */
static bool fill_neighbor_allgatherv(call_t *call, int rank, const void *sbuf, count_t scount, type_t *stype,
                                     void *rbuf, counts_t rcounts, displs_t displs, type_t *rtype)
{
    mca_coll_mscclpp_blocks_t send = {.address = sbuf,
                                      .is_regular = true,
                                      .count = (size_t)scount,
                                      .type = stype,
                                      .unmoved_block = MCA_COLL_MSCCLPP_NO_BLOCK};
    mca_coll_mscclpp_blocks_t recv = {.address = rbuf,
                                      .counts = rcounts,
                                      .displs = displs,
                                      .type = rtype,
                                      .unmoved_block = MCA_COLL_MSCCLPP_NO_BLOCK};

    (void)rank;
    return fill_edges(call, &send, &recv);
}

/* Describes MPI_Neighbor_alltoallv. The counts and displacements have an entry for each edge. */
static bool fill_neighbor_alltoallv(call_t *call, int rank, const void *sbuf, counts_t scounts, displs_t sdispls,
                                    type_t *stype, void *rbuf, counts_t rcounts, displs_t rdispls, type_t *rtype)
{
    mca_coll_mscclpp_blocks_t send = {.address = sbuf,
                                      .counts = scounts,
                                      .displs = sdispls,
                                      .type = stype,
                                      .unmoved_block = MCA_COLL_MSCCLPP_NO_BLOCK};
    mca_coll_mscclpp_blocks_t recv = {.address = rbuf,
                                      .counts = rcounts,
                                      .displs = rdispls,
                                      .type = rtype,
                                      .unmoved_block = MCA_COLL_MSCCLPP_NO_BLOCK};

    (void)rank;
    return fill_edges(call, &send, &recv);
}

/* Describes MPI_Neighbor_alltoallw, whose displacements are in bytes, of type MPI_Aint: hence `offsets`. */
static bool fill_neighbor_alltoallw(call_t *call, int rank, const void *sbuf, counts_t scounts,
                                    const MPI_Aint *soffsets, type_t *const *stypes, void *rbuf, counts_t rcounts,
                                    const MPI_Aint *roffsets, type_t *const *rtypes)
{
    mca_coll_mscclpp_blocks_t send = {.address = sbuf,
                                      .counts = scounts,
                                      .offsets = soffsets,
                                      .types = stypes,
                                      .unmoved_block = MCA_COLL_MSCCLPP_NO_BLOCK};
    mca_coll_mscclpp_blocks_t recv = {.address = rbuf,
                                      .counts = rcounts,
                                      .offsets = roffsets,
                                      .types = rtypes,
                                      .unmoved_block = MCA_COLL_MSCCLPP_NO_BLOCK};

    (void)rank;
    return fill_edges(call, &send, &recv);
}

NATIVE(neighbor_allgather, NEIGHBOR_ALLGATHER,
       (const void *sbuf, count_t scount, type_t *stype, void *rbuf, count_t rcount, type_t *rtype),
       (sbuf, scount, stype, rbuf, rcount, rtype));
NATIVE(neighbor_allgatherv, NEIGHBOR_ALLGATHERV,
       (const void *sbuf, count_t scount, type_t *stype, void *rbuf, counts_t rcounts, displs_t displs, type_t *rtype),
       (sbuf, scount, stype, rbuf, rcounts, displs, rtype));
NATIVE(neighbor_alltoall, NEIGHBOR_ALLTOALL,
       (const void *sbuf, count_t scount, type_t *stype, void *rbuf, count_t rcount, type_t *rtype),
       (sbuf, scount, stype, rbuf, rcount, rtype));
NATIVE(neighbor_alltoallv, NEIGHBOR_ALLTOALLV,
       (const void *sbuf, counts_t scounts, displs_t sdispls, type_t *stype, void *rbuf, counts_t rcounts,
        displs_t rdispls, type_t *rtype),
       (sbuf, scounts, sdispls, stype, rbuf, rcounts, rdispls, rtype));
NATIVE(neighbor_alltoallw, NEIGHBOR_ALLTOALLW,
       (const void *sbuf, counts_t scounts, const MPI_Aint *soffsets, type_t *const *stypes, void *rbuf,
        counts_t rcounts, const MPI_Aint *roffsets, type_t *const *rtypes),
       (sbuf, scounts, soffsets, stypes, rbuf, rcounts, roffsets, rtypes));
