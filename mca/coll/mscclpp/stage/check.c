/* Finds in a collective's description how many bytes each pair of ranks exchanges, for the comparison of calls. */
#include "mca/coll/mscclpp/stage/define.h"

#include <stdlib.h>

#include "mca/common/base/log.h"
#include "ompi/mca/topo/topo.h"

typedef mca_coll_mscclpp_stage_layout_t layout_t;
typedef mca_coll_mscclpp_check_pair_t pair_t;

/* Returns the bytes of data in one element of a type. */
static uint64_t type_bytes(const struct ompi_datatype_t *type)
{
    size_t size = 0;

    (void)ompi_datatype_type_size(type, &size);
    return size;
}

/*
 * Returns the bytes of block `index`. A layout that does not describe its blocks one by one has `blocks` blocks of
 * equal size.
 */
static uint64_t block_bytes(const layout_t *layout, int blocks, int index)
{
    switch (layout->kind) {
    case MCA_COLL_MSCCLPP_STAGE_NOTHING:
        return 0;
    case MCA_COLL_MSCCLPP_STAGE_REGULAR:
        return layout->count / (size_t)blocks * type_bytes(layout->type);
    case MCA_COLL_MSCCLPP_STAGE_VECTOR:
        return (uint64_t)mca_coll_mscclpp_count_at(layout->counts, index) * type_bytes(layout->type);
    case MCA_COLL_MSCCLPP_STAGE_TYPES:
    case MCA_COLL_MSCCLPP_STAGE_OFFSETS:
        return (uint64_t)mca_coll_mscclpp_count_at(layout->counts, index) * type_bytes(layout->types[index]);
    }
    return 0;
}

/* Returns the bytes of data in all blocks of a layout. */
static uint64_t all_bytes(const layout_t *layout)
{
    uint64_t bytes = 0;

    if (MCA_COLL_MSCCLPP_STAGE_REGULAR == layout->kind) {
        return block_bytes(layout, 1, 0);
    }
    for (int index = layout->first; index < layout->first + layout->blocks; ++index) {
        bytes += block_bytes(layout, 1, index);
    }
    return bytes;
}

/* Returns true if this rank is the root. On an inter-communicator, MPI marks the root by MPI_ROOT on that rank. */
static bool has_root_role(const mca_coll_mscclpp_stage_view_t *view, struct ompi_communicator_t *comm)
{
    return OMPI_COMM_IS_INTER(comm) ? MPI_ROOT == view->root : ompi_comm_rank(comm) == view->root;
}

/*
 * Returns the layout of this rank's contribution. A rank that works in place has its contribution in the receive
 * buffer.
 */
static const layout_t *find_contribution(const mca_coll_mscclpp_stage_call_t *call)
{
    return MCA_COLL_MSCCLPP_STAGE_NOTHING != call->send.read.kind ? &call->send.read : &call->recv.read;
}

/*
 * Fills in the bytes that this rank sends to each peer and expects from that peer, for a call whose data go to the
 * root. `self` is this rank; -1 on an inter-communicator, where the root exchanges data only with the other group. A
 * root that works in place counts as sending to itself the bytes that it expects of itself. A rank whose root is
 * MPI_PROC_NULL takes no part, and sends and expects nothing.
 */
static void fill_to_root(const mca_coll_mscclpp_stage_call_t *call, const mca_coll_mscclpp_stage_view_t *view,
                         bool is_root, int self, int peers, pair_t *pairs)
{
    if (!is_root) {
        if (view->root >= 0 && view->root < peers) {
            pairs[view->root].to = all_bytes(&call->send.read);
        }
        return;
    }
    for (int peer = 0; peer < peers; ++peer) {
        pairs[peer].from = block_bytes(&call->recv.write, peers, peer);
    }
    if (self >= 0) {
        pairs[self].to =
            MCA_COLL_MSCCLPP_STAGE_NOTHING == call->send.read.kind ? pairs[self].from : all_bytes(&call->send.read);
    }
}

/*
 * Fills in the bytes that this rank sends to each peer and expects from that peer, for a call whose data come from the
 * root. `self` as for fill_to_root. A root that works in place, and the root of a broadcast, count as receiving the
 * bytes that they send to themselves.
 */
static void fill_from_root(const mca_coll_mscclpp_stage_call_t *call, const mca_coll_mscclpp_stage_view_t *view,
                           bool is_root, int self, int peers, pair_t *pairs)
{
    const bool to_all = MCA_COLL_MSCCLPP_STAGE_FROM_ROOT_TO_ALL == view->pattern;

    if (!is_root) {
        if (view->root >= 0 && view->root < peers) {
            pairs[view->root].from = all_bytes(&call->recv.write);
        }
        return;
    }
    for (int peer = 0; peer < peers; ++peer) {
        pairs[peer].to = to_all ? all_bytes(&call->recv.read) : block_bytes(&call->send.read, peers, peer);
    }
    if (self >= 0) {
        pairs[self].from =
            MCA_COLL_MSCCLPP_STAGE_NOTHING == call->recv.write.kind ? pairs[self].to : all_bytes(&call->recv.write);
    }
}

/*
 * Returns the rank at the other end of an edge into this rank (if `is_incoming` is true) or out of it; negative if
 * there is none. Edges are numbered like the blocks.
 */
static int find_neighbour(struct ompi_communicator_t *comm, int index, bool is_incoming)
{
    if (OMPI_COMM_IS_CART(comm)) {
        int lower = MPI_PROC_NULL, upper = MPI_PROC_NULL;

        (void)comm->c_topo->topo.cart.cart_shift(comm, index / 2, 1, &lower, &upper);
        return 0 == index % 2 ? lower : upper;
    }
    if (OMPI_COMM_IS_GRAPH(comm)) {
        const mca_topo_base_comm_graph_t *graph = comm->c_topo->mtc.graph;
        const int rank = ompi_comm_rank(comm);
        const int first = rank > 0 ? graph->index[rank - 1] : 0; /* graph->index[n] is the end of the edges of rank n */

        return graph->edges[first + index];
    }
    return is_incoming ? comm->c_topo->mtc.dist_graph->in[index] : comm->c_topo->mtc.dist_graph->out[index];
}

/*
 * Fills in the bytes that this rank sends to each peer and expects from that peer, for a call in which each rank
 * exchanges data with each other.
 */
static void fill_all_peers(const mca_coll_mscclpp_stage_call_t *call, const mca_coll_mscclpp_stage_view_t *view,
                           int peers, pair_t *pairs)
{
    const bool to_all = MCA_COLL_MSCCLPP_STAGE_TO_ALL == view->pattern;
    const layout_t *mine = find_contribution(call);

    for (int peer = 0; peer < peers; ++peer) {
        pairs[peer].to = to_all ? all_bytes(mine) : block_bytes(mine, peers, peer);
        pairs[peer].from = block_bytes(&call->recv.write, peers, peer);
    }
}

/*
 * Fills in the bytes that this rank sends to each neighbour and expects from that neighbour, for a call on a topology.
 * The bytes of several edges to one neighbour are added up. Edges that lead nowhere have a negative peer, and exchange
 * nothing.
 */
static void fill_neighbours(const mca_coll_mscclpp_stage_call_t *call, const mca_coll_mscclpp_stage_view_t *view,
                            struct ompi_communicator_t *comm, int peers, pair_t *pairs)
{
    const bool to_all = MCA_COLL_MSCCLPP_STAGE_NEIGHBOR_TO_ALL == view->pattern;
    int in, out;

    mca_coll_mscclpp_stage_count_edges(comm, &in, &out);
    for (int edge = 0; edge < out; ++edge) {
        const int peer = find_neighbour(comm, edge, false);

        if (peer >= 0 && peer < peers) {
            pairs[peer].to += to_all ? all_bytes(&call->send.read) : block_bytes(&call->send.read, out, edge);
        }
    }
    for (int edge = 0; edge < in; ++edge) {
        const int peer = find_neighbour(comm, edge, true);

        if (peer >= 0 && peer < peers) {
            pairs[peer].from += block_bytes(&call->recv.write, in, edge);
        }
    }
}

/* Sets the count of a reduction's elements and the bytes of one element. */
static void describe_elements(const layout_t *mine, mca_coll_mscclpp_check_call_t *check)
{
    check->count = mine->count;
    check->size = type_bytes(mine->type);
}

/*
 * Describes a reduction of which each rank gets a part. All ranks must pass the same counts, so all ranks compare the
 * sizes of all parts (same_to).
 */
static void describe_parts(const layout_t *mine, const mca_coll_mscclpp_stage_view_t *view, int parts,
                           mca_coll_mscclpp_check_call_t *check)
{
    describe_elements(mine, check);
    check->same_to = true;
    for (int rank = 0; rank < parts; ++rank) {
        check->pairs[rank].to = (uint64_t)mca_coll_mscclpp_count_at(view->counts, rank) * check->size;
    }
}

/*
 * Describes a call in the form in which ranks compare calls. A REDUCTION is described by check->count and check->size.
 * All other calls are described by check->pairs, whose elements must be 0 before. A REDUCTION_OF_PARTS is described by
 * both.
 */
static void describe_call(const mca_coll_mscclpp_stage_call_t *call, const mca_coll_mscclpp_stage_view_t *view,
                          struct ompi_communicator_t *comm, mca_coll_mscclpp_check_call_t *check)
{
    const int peers = mca_coll_mscclpp_peer_count(comm);
    const int own_ranks = ompi_comm_size(comm);
    const int self = OMPI_COMM_IS_INTER(comm) ? -1 : ompi_comm_rank(comm);
    const layout_t *mine = find_contribution(call);

    switch (view->pattern) {
    case MCA_COLL_MSCCLPP_STAGE_REDUCTION:
        /* A rank of the root's group of an inter-communicator contributes nothing. */
        if (MCA_COLL_MSCCLPP_STAGE_REGULAR == mine->kind) {
            describe_elements(mine, check);
        }
        break;
    case MCA_COLL_MSCCLPP_STAGE_REDUCTION_OF_PARTS:
        describe_parts(mine, view, own_ranks < peers ? own_ranks : peers, check);
        break;
    case MCA_COLL_MSCCLPP_STAGE_TO_ALL:
    case MCA_COLL_MSCCLPP_STAGE_TO_EACH:
        fill_all_peers(call, view, peers, check->pairs);
        break;
    case MCA_COLL_MSCCLPP_STAGE_TO_ROOT:
        fill_to_root(call, view, has_root_role(view, comm), self, peers, check->pairs);
        break;
    case MCA_COLL_MSCCLPP_STAGE_FROM_ROOT:
    case MCA_COLL_MSCCLPP_STAGE_FROM_ROOT_TO_ALL:
        fill_from_root(call, view, has_root_role(view, comm), self, peers, check->pairs);
        break;
    case MCA_COLL_MSCCLPP_STAGE_NEIGHBOR_TO_ALL:
    case MCA_COLL_MSCCLPP_STAGE_NEIGHBOR_TO_EACH:
        fill_neighbours(call, view, comm, peers, check->pairs);
        break;
    }
}

int mca_coll_mscclpp_stage_check(mca_coll_mscclpp_module_t *module, mca_coll_mscclpp_check_function_t function,
                                 const mca_coll_mscclpp_stage_call_t *call, const mca_coll_mscclpp_stage_view_t *view)
{
    mca_coll_mscclpp_check_call_t check = {.function = function, .op = view->op};
    int rc;

    /* A REDUCTION needs no pairs: all ranks must have the same count, and any two ranks exchange that many elements. */
    if (MCA_COLL_MSCCLPP_STAGE_REDUCTION != view->pattern) {
        check.pairs = calloc((size_t)mca_coll_mscclpp_peer_count(module->comm), sizeof(*check.pairs));
        if (check.pairs == NULL) {
            return mca_coll_mscclpp_check_without_memory(module, function);
        }
    }
    check.has_root = view->has_root;
    check.root = view->root;
    describe_call(call, view, module->comm, &check);
    check.is_hopeless = MCA_COLL_MSCCLPP_TEAM_BROKEN == module->team_state && mca_coll_mscclpp_stage_needed(call);
    rc = mca_coll_mscclpp_check_call(module, &check);
    free(check.pairs);
    return rc;
}
