/* MPI's function of each collective, on the buffers and blocks of a call. */
#include "tools/bench/bench.h"

bool bench_call_mpi(const bench_operation_t *operation, MPI_Comm comm)
{
    const bench_layout_t *layout = operation->layout;
    const MPI_Datatype type = bench_type_mpi(operation->type);
    const MPI_Op op = bench_op_mpi(operation->op);
    const bool is_root = layout->rank == layout->root, in_place = operation->in_place;
    const int root = layout->root, whole = (int)layout->count, block = (int)(layout->count / (size_t)layout->size);
    const int *counts = layout->counts, *firsts = layout->firsts;
    const void *send = in_place ? MPI_IN_PLACE : operation->send;
    /* In place, only the root passes MPI_IN_PLACE: its own part lies in the result. */
    const void *to_root = in_place && is_root ? MPI_IN_PLACE : operation->send;
    void *recv = operation->recv, *from_root = in_place && is_root ? MPI_IN_PLACE : operation->recv;
    int own, result = MPI_ERR_OTHER;

    own = counts != NULL ? counts[layout->rank] : block;
    switch (layout->coll->coll) {
    case MSCCLPP_COLL_ALLGATHER:
        result = MPI_Allgather(send, block, type, recv, block, type, comm);
        break;
    case MSCCLPP_COLL_ALLGATHERV:
        result = MPI_Allgatherv(send, own, type, recv, counts, firsts, type, comm);
        break;
    case MSCCLPP_COLL_REDUCE_SCATTER_BLOCK:
        result = MPI_Reduce_scatter_block(send, recv, block, type, op, comm);
        break;
    case MSCCLPP_COLL_REDUCE_SCATTER:
        result = MPI_Reduce_scatter(send, recv, counts, type, op, comm);
        break;
    case MSCCLPP_COLL_BCAST:
        result = MPI_Bcast(recv, whole, type, root, comm);
        break;
    case MSCCLPP_COLL_REDUCE:
        result = MPI_Reduce(to_root, recv, whole, type, op, root, comm);
        break;
    case MSCCLPP_COLL_ALLTOALL:
        result = MPI_Alltoall(send, block, type, recv, block, type, comm);
        break;
    case MSCCLPP_COLL_ALLTOALLV:
        result = MPI_Alltoallv(send, counts, firsts, type, recv, counts, firsts, type, comm);
        break;
    case MSCCLPP_COLL_ALLTOALLW:
        result =
            MPI_Alltoallw(send, counts, layout->bytes, layout->types, recv, counts, layout->bytes, layout->types, comm);
        break;
    case MSCCLPP_COLL_GATHER:
        result = MPI_Gather(to_root, block, type, recv, block, type, root, comm);
        break;
    case MSCCLPP_COLL_GATHERV:
        result = MPI_Gatherv(to_root, own, type, recv, counts, firsts, type, root, comm);
        break;
    case MSCCLPP_COLL_SCATTER:
        result = MPI_Scatter(operation->send, block, type, from_root, block, type, root, comm);
        break;
    case MSCCLPP_COLL_SCATTERV:
        result = MPI_Scatterv(operation->send, counts, firsts, type, from_root, own, type, root, comm);
        break;
    case MSCCLPP_COLL_SCAN:
        result = MPI_Scan(send, recv, whole, type, op, comm);
        break;
    case MSCCLPP_COLL_EXSCAN:
        result = MPI_Exscan(send, recv, whole, type, op, comm);
        break;
    case MSCCLPP_COLL_LAST:
        result = MPI_Allreduce(send, recv, whole, type, op, comm);
        break;
    default: /* no others are in the list */
        break;
    }
    return MPI_SUCCESS == result;
}
