/* Fills in the descriptions of calls, and reports wrong arguments before anything is queued. */
#include "mpix/describe.h"

#include <stddef.h>

typedef mca_coll_mscclpp_queue_call_t call_t;

/* Placeholders for arguments that the collective does not have. */
#define ANY_TYPE MPI_BYTE
#define ANY_OP MPI_SUM

/*
 * Fills in the fields that all calls have, and placeholders for the others, so that the types of any call may be passed
 * to MPI. Checks the communicator and the root. Returns MPI_ERR_COMM or MPI_ERR_ROOT, which has been reported, if they
 * are wrong.
 */
static int begin_call(call_t *call, int coll, int root, MPI_Comm comm)
{
    int inter, ranks;

    *call = (call_t){.size = sizeof(*call),
                     .coll = (mca_coll_mscclpp_queue_coll_t)coll,
                     .sendtype = ANY_TYPE,
                     .recvtype = ANY_TYPE,
                     .op = ANY_OP,
                     .root = root,
                     .comm = comm};
    if (comm == MPI_COMM_NULL) {
        return mpix_report(comm, MPI_ERR_COMM);
    }
    /* MPI checks the roots of inter-communicators, because such calls are never queued. */
    if (MPI_Comm_test_inter(comm, &inter) == MPI_SUCCESS && !inter && MPI_Comm_size(comm, &ranks) == MPI_SUCCESS &&
        (root < 0 || root >= ranks)) {
        return mpix_report(comm, MPI_ERR_ROOT);
    }
    return MPI_SUCCESS;
}

/* Checks a count and a datatype. Returns an MPI error code, which has been reported. */
static int check_elements(MPI_Comm comm, MPI_Count count, MPI_Datatype type)
{
    if (count < 0) {
        return mpix_report(comm, MPI_ERR_COUNT);
    }
    return mpix_report(comm, type == MPI_DATATYPE_NULL ? MPI_ERR_TYPE : MPI_SUCCESS);
}

int mpix_describe_barrier(call_t *call, MPI_Comm comm)
{
    return begin_call(call, MCA_COLL_MSCCLPP_QUEUE_BARRIER, MPIX_NO_ROOT, comm);
}

/* Fills in a broadcast. The call must not be used after an error, although its fields are set. */
int mpix_describe_bcast(call_t *call, void *buffer, MPI_Count count, MPI_Datatype datatype, int root, MPI_Comm comm)
{
    int code = begin_call(call, MCA_COLL_MSCCLPP_QUEUE_BCAST, root, comm);

    if (code == MPI_SUCCESS) {
        code = check_elements(comm, count, datatype);
    }
    call->recvbuf = buffer;
    call->recvcount = (size_t)count;
    call->recvtype = datatype;
    return code;
}

/*
 * Fills in a reduction. Its count and type are stored in the fields of the receive side. Returns the error code of the
 * first wrong argument, which has been reported. The call must not be used after an error, although its fields are set.
 */
int mpix_describe_reduction(call_t *call, int coll, const void *sendbuf, void *recvbuf, MPI_Count count,
                            const int recvcounts[], MPI_Datatype datatype, MPI_Op op, int root, MPI_Comm comm)
{
    int code = begin_call(call, coll, root, comm);

    if (code == MPI_SUCCESS) {
        code = check_elements(comm, count, datatype);
    }
    if (code == MPI_SUCCESS && op == MPI_OP_NULL) {
        code = mpix_report(comm, MPI_ERR_OP);
    }
    if (code == MPI_SUCCESS && coll == MCA_COLL_MSCCLPP_QUEUE_REDUCE_SCATTER && recvcounts == NULL) {
        code = mpix_report(comm, MPI_ERR_ARG);
    }
    call->sendbuf = sendbuf;
    call->recvbuf = recvbuf;
    call->recvcount = (size_t)count;
    call->recvcounts = recvcounts;
    call->recvtype = datatype;
    call->op = op;
    return code;
}

/*
 * Determines which arguments MPI reads on this rank. Sets *sends_p to 1 if MPI reads the send side, and *receives_p to
 * 1 if it reads the receive side. MPI does not read a side whose buffer is MPI_IN_PLACE. In a scatter only the root has
 * a send side, and in a gather only the root has a receive side. In an inter-communicator the root has no other side,
 * and the other ranks of its group have none at all: the blocks are those of the other group.
 */
static void find_sides(const call_t *call, const mpix_side_t *send, const mpix_side_t *recv, int *sends_p,
                       int *receives_p)
{
    const int coll = (int)call->coll;
    const int is_scatter = coll == MCA_COLL_MSCCLPP_QUEUE_SCATTER || coll == MCA_COLL_MSCCLPP_QUEUE_SCATTERV;
    const int is_gather = coll == MCA_COLL_MSCCLPP_QUEUE_GATHER || coll == MCA_COLL_MSCCLPP_QUEUE_GATHERV;
    int rank = MPI_PROC_NULL, inter = 0, is_root, has_block;

    (void)MPI_Comm_rank(call->comm, &rank);
    (void)MPI_Comm_test_inter(call->comm, &inter);
    is_root = inter ? call->root == MPI_ROOT : call->root == rank;
    has_block = !inter || (!is_root && call->root != MPI_PROC_NULL);
    *sends_p = send->buffer != MPI_IN_PLACE && (!is_scatter || is_root) && (!is_gather || has_block);
    *receives_p = recv->buffer != MPI_IN_PLACE && (!is_gather || is_root) && (!is_scatter || has_block);
}

/*
 * Returns 1 if one side of a collective has a list of blocks whose sizes differ. `sends` is 1 for the send side and 0
 * for the receive side.
 */
static int has_block_list(int coll, int sends)
{
    switch (coll) {
    case MCA_COLL_MSCCLPP_QUEUE_ALLTOALLV:
    case MCA_COLL_MSCCLPP_QUEUE_ALLTOALLW:
    case MCA_COLL_MSCCLPP_QUEUE_NEIGHBOR_ALLTOALLV:
        return 1;
    case MCA_COLL_MSCCLPP_QUEUE_SCATTERV:
        return sends;
    case MCA_COLL_MSCCLPP_QUEUE_GATHERV:
    case MCA_COLL_MSCCLPP_QUEUE_ALLGATHERV:
    case MCA_COLL_MSCCLPP_QUEUE_NEIGHBOR_ALLGATHERV:
        return !sends;
    default:
        return 0;
    }
}

/*
 * Checks the arguments of a side that MPI reads on this rank. `sends` is 1 for the send side and 0 for the receive
 * side. Only the addresses of arrays are checked, not their contents. A side with lists has the count 0. alltoallw has
 * a type for each block instead of one type. Returns an MPI error code, which has been reported.
 */
static int check_side(const call_t *call, const mpix_side_t *side, int sends)
{
    if (has_block_list((int)call->coll, sends) && (side->counts == NULL || side->displs == NULL)) {
        return mpix_report(call->comm, MPI_ERR_ARG);
    }
    if (call->coll == MCA_COLL_MSCCLPP_QUEUE_ALLTOALLW) {
        return side->types == NULL ? mpix_report(call->comm, MPI_ERR_TYPE) : MPI_SUCCESS;
    }
    return check_elements(call->comm, side->count, side->type);
}

/* Puts the arguments of the send side into a call, except its buffer. */
static void set_send(call_t *call, const mpix_side_t *send)
{
    call->sendcount = (size_t)send->count;
    call->sendcounts = send->counts;
    call->sdispls = send->displs;
    call->sendtype = send->type;
    call->sendtypes = send->types;
}

/* Puts the arguments of the receive side into a call, except its buffer. */
static void set_recv(call_t *call, const mpix_side_t *recv)
{
    call->recvcount = (size_t)recv->count;
    call->recvcounts = recv->counts;
    call->rdispls = recv->displs;
    call->recvtype = recv->type;
    call->recvtypes = recv->types;
}

/*
 * Fills in a call that moves blocks. Arguments that MPI does not read on this rank may have any value, and are not
 * stored in the call. The call must not be used after an error.
 */
int mpix_describe_blocks(call_t *call, int coll, const mpix_side_t *send, const mpix_side_t *recv, int root,
                         MPI_Comm comm)
{
    int code = begin_call(call, coll, root, comm), sends, receives;

    if (code != MPI_SUCCESS) {
        return code;
    }
    find_sides(call, send, recv, &sends, &receives);
    call->sendbuf = send->buffer;
    call->recvbuf = (void *)(uintptr_t)recv->buffer;
    if (sends) {
        code = check_side(call, send, 1);
        set_send(call, send);
    }
    if (receives && code == MPI_SUCCESS) {
        code = check_side(call, recv, 0);
        set_recv(call, recv);
    }
    return code;
}

/*
 * Counts the edges. A Cartesian topology has two edges in each dimension, and the edges of a graph lead in both
 * directions. So in these two topologies, as many edges lead in as out.
 */
int mpix_count_edges(MPI_Comm comm, int *outs_p, int *ins_p)
{
    int topology = MPI_UNDEFINED, rank = 0, weighted, code = MPI_Topo_test(comm, &topology);

    *outs_p = *ins_p = 0;
    if (code == MPI_SUCCESS && topology == MPI_CART) {
        code = MPI_Cartdim_get(comm, ins_p);
        *ins_p *= 2;
        *outs_p = *ins_p;
    } else if (code == MPI_SUCCESS && topology == MPI_GRAPH) {
        (void)MPI_Comm_rank(comm, &rank);
        code = MPI_Graph_neighbors_count(comm, rank, ins_p);
        *outs_p = *ins_p;
    } else if (code == MPI_SUCCESS && topology == MPI_DIST_GRAPH) {
        code = MPI_Dist_graph_neighbors_count(comm, ins_p, outs_p, &weighted);
    } else if (code == MPI_SUCCESS) {
        code = MPI_ERR_TOPOLOGY;
    }
    return code;
}

/*
 * Checks one side of a neighbourhood collective, which MPI does not allow in place. `has_lists` tells whether it has
 * the arrays that its collective needs. A rank without edges on this side may pass any. Returns an MPI error code,
 * which has been reported.
 */
static int check_edges(const call_t *call, const mpix_side_t *side, int edges, int has_lists)
{
    if (side->buffer == MPI_IN_PLACE || (edges > 0 && !has_lists)) {
        return mpix_report(call->comm, MPI_ERR_ARG);
    }
    return check_elements(call->comm, side->count, side->type);
}

/*
 * Fills in a neighbourhood collective without checking the two sides, and counts the edges. Returns an MPI error code,
 * which has been reported; *outs_p and *ins_p may then not be set.
 */
static int begin_neighbors(call_t *call, int coll, const mpix_side_t *send, const mpix_side_t *recv, MPI_Comm comm,
                           int *outs_p, int *ins_p)
{
    int code = begin_call(call, coll, MPIX_NO_ROOT, comm);

    if (code == MPI_SUCCESS) {
        code = mpix_report(comm, mpix_count_edges(comm, outs_p, ins_p));
    }
    call->sendbuf = send->buffer;
    call->recvbuf = (void *)(uintptr_t)recv->buffer;
    set_send(call, send);
    set_recv(call, recv);
    return code;
}

/*
 * Reads the numbers of edges only if begin_neighbors has succeeded. A side whose blocks all have one size needs no
 * lists.
 */
int mpix_describe_neighbors(call_t *call, int coll, const mpix_side_t *send, const mpix_side_t *recv, MPI_Comm comm)
{
    int outs, ins, code = begin_neighbors(call, coll, send, recv, comm, &outs, &ins);

    if (code == MPI_SUCCESS) {
        code =
            check_edges(call, send, outs, !has_block_list(coll, 1) || (send->counts != NULL && send->displs != NULL));
    }
    if (code == MPI_SUCCESS) {
        code = check_edges(call, recv, ins, !has_block_list(coll, 0) || (recv->counts != NULL && recv->displs != NULL));
    }
    return code;
}

/*
 * Stores the displacements in fields of their own, because they are in bytes and have the type MPI_Aint. The
 * displacements of the sides are NULL.
 */
int mpix_describe_neighbors_w(call_t *call, const mpix_side_t *send, const MPI_Aint sdispls[], const mpix_side_t *recv,
                              const MPI_Aint rdispls[], MPI_Comm comm)
{
    int outs, ins;
    int code = begin_neighbors(call, MCA_COLL_MSCCLPP_QUEUE_NEIGHBOR_ALLTOALLW, send, recv, comm, &outs, &ins);

    if (code == MPI_SUCCESS) {
        code = check_edges(call, send, outs, send->counts != NULL && sdispls != NULL && send->types != NULL);
    }
    if (code == MPI_SUCCESS) {
        code = check_edges(call, recv, ins, recv->counts != NULL && rdispls != NULL && recv->types != NULL);
    }
    call->soffsets = sdispls;
    call->roffsets = rdispls;
    return code;
}
