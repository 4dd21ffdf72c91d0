/* The queued collectives. What the component does not queue waits for the stream and then calls MPI. */
#include "mpix/internal.h"

#include <limits.h>
#include <stddef.h>

#include "mpix/include/mpix_mscclpp.h"

typedef mca_coll_mscclpp_queue_call_t call_t;

#define MAKE_PLAIN_CALL (-1)

/* Of these, what the collective has no use for is left at a value that is right. */
static call_t call_of(MPI_Comm comm, void *stream)
{
    return (call_t){.size = sizeof(call_t), .comm = comm, .stream = stream};
}

/* Waits for the stream. MAKE_PLAIN_CALL, or an MPI error code. */
static int wait_instead(MPI_Comm comm, void *stream)
{
    int code;

    if (mpix_stream_is_capturing(stream)) {
        return mpix_report(comm, mpix_error_code(MPIX_MSCCLPP_ERR_CAPTURE));
    }
    code = mpix_stream_wait(stream);
    if (code != MPI_SUCCESS) {
        return mpix_report(comm, code);
    }
    mpix_count_waited(comm);
    return MAKE_PLAIN_CALL;
}

mca_coll_mscclpp_queue_end_t mpix_queue(const call_t *call, int *code_p)
{
    const mca_coll_mscclpp_api_t *component = mpix_component(code_p);

    return component == NULL ? MCA_COLL_MSCCLPP_NOT_QUEUED : component->enqueue(call, code_p);
}

/* Queues the call. MPI_SUCCESS or an MPI error code if it is over; else MAKE_PLAIN_CALL, and the stream is empty. */
static int queue(const call_t *call)
{
    mca_coll_mscclpp_queue_end_t end = MCA_COLL_MSCCLPP_NOT_QUEUED;
    const mca_coll_mscclpp_api_t *component;
    int code, inter;

    component = mpix_component(&code);
    if (code != MPI_SUCCESS) {
        return mpix_report(call->comm, code);
    }
    if (call->comm == MPI_COMM_NULL) {
        return mpix_report(call->comm, MPI_ERR_COMM);
    }
    if (component != NULL && MPI_Comm_test_inter(call->comm, &inter) == MPI_SUCCESS && !inter) {
        end = component->enqueue(call, &code);
    }
    return end == MCA_COLL_MSCCLPP_NOT_QUEUED ? wait_instead(call->comm, call->stream)
                                              : mpix_report(call->comm, mpix_code_of(end, code));
}

/* MPI_SUCCESS, or the class of the first argument that is not allowed, which has been reported. */
static int check(MPI_Comm comm, MPI_Count count, MPI_Datatype type, MPI_Op op)
{
    return mpix_report(comm, comm == MPI_COMM_NULL       ? MPI_ERR_COMM
                             : count < 0                 ? MPI_ERR_COUNT
                             : type == MPI_DATATYPE_NULL ? MPI_ERR_TYPE
                             : op == MPI_OP_NULL         ? MPI_ERR_OP
                                                         : MPI_SUCCESS);
}

static int check_root(MPI_Comm comm, int root)
{
    int size, inter;

    if (MPI_Comm_test_inter(comm, &inter) != MPI_SUCCESS || inter || MPI_Comm_size(comm, &size) != MPI_SUCCESS) {
        return MPI_SUCCESS; /* MPI checks it */
    }
    return root < 0 || root >= size ? mpix_report(comm, MPI_ERR_ROOT) : MPI_SUCCESS;
}

/* Stands for an operation or a type where there is none to check. */
#define NO_OP MPI_SUM
#define NO_TYPE MPI_BYTE

/* Makes the plain call after queue() has asked for it. `count_` is the largest count among its arguments. */
#define PLAIN(code_, comm_, count_, call_)                                                                             \
    ((code_) != MAKE_PLAIN_CALL ? (code_) : (count_) > INT_MAX ? mpix_report((comm_), MPI_ERR_COUNT) : (call_))

static int is_root(MPI_Comm comm, int root)
{
    int rank = MPI_PROC_NULL;

    (void)MPI_Comm_rank(comm, &rank);
    return rank == root;
}

int MPIX_Mscclpp_allreduce_enqueue(const void *sendbuf, void *recvbuf, MPI_Count count, MPI_Datatype datatype,
                                   MPI_Op op, MPI_Comm comm, void *stream)
{
    call_t call = call_of(comm, stream);
    int code = check(comm, count, datatype, op);

    if (code != MPI_SUCCESS) {
        return code;
    }
    call.coll = MCA_COLL_MSCCLPP_QUEUE_ALLREDUCE;
    call.sendbuf = sendbuf;
    call.recvbuf = recvbuf;
    call.recvcount = (size_t)count;
    call.recvtype = datatype;
    call.op = op;
    code = queue(&call);
    return PLAIN(code, comm, count, MPI_Allreduce(sendbuf, recvbuf, (int)count, datatype, op, comm));
}

int MPIX_Mscclpp_barrier_enqueue(MPI_Comm comm, void *stream)
{
    call_t call = call_of(comm, stream);
    int code;

    call.coll = MCA_COLL_MSCCLPP_QUEUE_BARRIER;
    code = queue(&call);
    return PLAIN(code, comm, 0, MPI_Barrier(comm));
}

int MPIX_Mscclpp_bcast_enqueue(void *buffer, MPI_Count count, MPI_Datatype datatype, int root, MPI_Comm comm,
                               void *stream)
{
    call_t call = call_of(comm, stream);
    int code = check(comm, count, datatype, NO_OP);

    if (code != MPI_SUCCESS || (code = check_root(comm, root)) != MPI_SUCCESS) {
        return code;
    }
    call.coll = MCA_COLL_MSCCLPP_QUEUE_BCAST;
    call.recvbuf = buffer;
    call.recvcount = (size_t)count;
    call.recvtype = datatype;
    call.root = root;
    code = queue(&call);
    return PLAIN(code, comm, count, MPI_Bcast(buffer, (int)count, datatype, root, comm));
}

int MPIX_Mscclpp_reduce_enqueue(const void *sendbuf, void *recvbuf, MPI_Count count, MPI_Datatype datatype, MPI_Op op,
                                int root, MPI_Comm comm, void *stream)
{
    call_t call = call_of(comm, stream);
    int code = check(comm, count, datatype, op);

    if (code != MPI_SUCCESS || (code = check_root(comm, root)) != MPI_SUCCESS) {
        return code;
    }
    call.coll = MCA_COLL_MSCCLPP_QUEUE_REDUCE;
    call.sendbuf = sendbuf;
    call.recvbuf = recvbuf;
    call.recvcount = (size_t)count;
    call.recvtype = datatype;
    call.op = op;
    call.root = root;
    code = queue(&call);
    return PLAIN(code, comm, count, MPI_Reduce(sendbuf, recvbuf, (int)count, datatype, op, root, comm));
}

/* What collectives that move blocks of one size have in common. `sends`, `receives`: the side's arguments count. */
static int queue_blocks(call_t *call, const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, int sends,
                        void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int receives)
{
    int code;

    sends = sends && sendbuf != MPI_IN_PLACE;
    receives = receives && recvbuf != MPI_IN_PLACE;
    code = check(call->comm, sends ? sendcount : 0, sends ? sendtype : NO_TYPE, NO_OP);
    if (code == MPI_SUCCESS) {
        code = check(call->comm, receives ? recvcount : 0, receives ? recvtype : NO_TYPE, NO_OP);
    }
    if (code != MPI_SUCCESS) {
        return code;
    }
    call->sendbuf = sendbuf;
    call->sendcount = sends ? (size_t)sendcount : 0;
    call->sendtype = sends ? sendtype : NO_TYPE;
    call->recvbuf = recvbuf;
    call->recvcount = receives ? (size_t)recvcount : 0;
    call->recvtype = receives ? recvtype : NO_TYPE;
    return queue(call);
}

static MPI_Count larger(const call_t *call)
{
    const size_t count = call->sendcount > call->recvcount ? call->sendcount : call->recvcount;

    return (MPI_Count)count;
}

int MPIX_Mscclpp_allgather_enqueue(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
                                   MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm, void *stream)
{
    call_t call = call_of(comm, stream);
    int code;

    call.coll = MCA_COLL_MSCCLPP_QUEUE_ALLGATHER;
    code = queue_blocks(&call, sendbuf, sendcount, sendtype, 1, recvbuf, recvcount, recvtype, 1);
    return PLAIN(code, comm, larger(&call),
                 MPI_Allgather(sendbuf, (int)sendcount, sendtype, recvbuf, (int)recvcount, recvtype, comm));
}

int MPIX_Mscclpp_allgatherv_enqueue(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
                                    const int recvcounts[], const int displs[], MPI_Datatype recvtype, MPI_Comm comm,
                                    void *stream)
{
    call_t call = call_of(comm, stream);
    int code;

    if (recvcounts == NULL || displs == NULL) {
        return mpix_report(comm, MPI_ERR_ARG);
    }
    call.coll = MCA_COLL_MSCCLPP_QUEUE_ALLGATHERV;
    call.recvcounts = recvcounts;
    call.displs = displs;
    code = queue_blocks(&call, sendbuf, sendcount, sendtype, 1, recvbuf, 0, recvtype, 1);
    return PLAIN(code, comm, larger(&call),
                 MPI_Allgatherv(sendbuf, (int)sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, comm));
}

int MPIX_Mscclpp_gather_enqueue(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
                                MPI_Count recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm, void *stream)
{
    call_t call = call_of(comm, stream);
    int code = check(comm, 0, NO_TYPE, NO_OP);

    if (code != MPI_SUCCESS || (code = check_root(comm, root)) != MPI_SUCCESS) {
        return code;
    }
    call.coll = MCA_COLL_MSCCLPP_QUEUE_GATHER;
    call.root = root;
    code = queue_blocks(&call, sendbuf, sendcount, sendtype, 1, recvbuf, recvcount, recvtype, is_root(comm, root));
    return PLAIN(code, comm, larger(&call),
                 MPI_Gather(sendbuf, (int)sendcount, sendtype, recvbuf, (int)recvcount, recvtype, root, comm));
}

int MPIX_Mscclpp_scatter_enqueue(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
                                 MPI_Count recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm, void *stream)
{
    call_t call = call_of(comm, stream);
    int code = check(comm, 0, NO_TYPE, NO_OP);

    if (code != MPI_SUCCESS || (code = check_root(comm, root)) != MPI_SUCCESS) {
        return code;
    }
    call.coll = MCA_COLL_MSCCLPP_QUEUE_SCATTER;
    call.root = root;
    code = queue_blocks(&call, sendbuf, sendcount, sendtype, is_root(comm, root), recvbuf, recvcount, recvtype, 1);
    return PLAIN(code, comm, larger(&call),
                 MPI_Scatter(sendbuf, (int)sendcount, sendtype, recvbuf, (int)recvcount, recvtype, root, comm));
}

int MPIX_Mscclpp_alltoall_enqueue(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
                                  MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm, void *stream)
{
    call_t call = call_of(comm, stream);
    int code;

    call.coll = MCA_COLL_MSCCLPP_QUEUE_ALLTOALL;
    code = queue_blocks(&call, sendbuf, sendcount, sendtype, 1, recvbuf, recvcount, recvtype, 1);
    return PLAIN(code, comm, larger(&call),
                 MPI_Alltoall(sendbuf, (int)sendcount, sendtype, recvbuf, (int)recvcount, recvtype, comm));
}

/* Only the two ends of a pair know the size of its block, so these wait. MAKE_PLAIN_CALL, or an MPI error code. */
static int wait_for_sizes(MPI_Comm comm, void *stream)
{
    const int code = check(comm, 0, NO_TYPE, NO_OP);

    return code == MPI_SUCCESS ? wait_instead(comm, stream) : code;
}

int MPIX_Mscclpp_gatherv_enqueue(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
                                 const int recvcounts[], const int displs[], MPI_Datatype recvtype, int root,
                                 MPI_Comm comm, void *stream)
{
    const int code = wait_for_sizes(comm, stream);

    return PLAIN(code, comm, sendbuf != MPI_IN_PLACE ? sendcount : 0,
                 MPI_Gatherv(sendbuf, (int)sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, root, comm));
}

int MPIX_Mscclpp_scatterv_enqueue(const void *sendbuf, const int sendcounts[], const int displs[],
                                  MPI_Datatype sendtype, void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype,
                                  int root, MPI_Comm comm, void *stream)
{
    const int code = wait_for_sizes(comm, stream);

    return PLAIN(code, comm, recvbuf != MPI_IN_PLACE ? recvcount : 0,
                 MPI_Scatterv(sendbuf, sendcounts, displs, sendtype, recvbuf, (int)recvcount, recvtype, root, comm));
}

int MPIX_Mscclpp_alltoallv_enqueue(const void *sendbuf, const int sendcounts[], const int sdispls[],
                                   MPI_Datatype sendtype, void *recvbuf, const int recvcounts[], const int rdispls[],
                                   MPI_Datatype recvtype, MPI_Comm comm, void *stream)
{
    const int code = wait_for_sizes(comm, stream);

    return PLAIN(code, comm, 0,
                 MPI_Alltoallv(sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype, comm));
}

int MPIX_Mscclpp_alltoallw_enqueue(const void *sendbuf, const int sendcounts[], const int sdispls[],
                                   const MPI_Datatype sendtypes[], void *recvbuf, const int recvcounts[],
                                   const int rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm, void *stream)
{
    const int code = wait_for_sizes(comm, stream);

    return PLAIN(code, comm, 0,
                 MPI_Alltoallw(sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes, comm));
}

/* What reductions without a root have in common. */
static int queue_reduction(call_t *call, const void *sendbuf, void *recvbuf, MPI_Count count, MPI_Datatype datatype,
                           MPI_Op op)
{
    const int code = check(call->comm, count, datatype, op);

    if (code != MPI_SUCCESS) {
        return code;
    }
    call->sendbuf = sendbuf;
    call->recvbuf = recvbuf;
    call->recvcount = (size_t)count;
    call->recvtype = datatype;
    call->op = op;
    return queue(call);
}

int MPIX_Mscclpp_reduce_scatter_enqueue(const void *sendbuf, void *recvbuf, const int recvcounts[],
                                        MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, void *stream)
{
    call_t call = call_of(comm, stream);
    int code;

    if (recvcounts == NULL) {
        return mpix_report(comm, MPI_ERR_ARG);
    }
    call.coll = MCA_COLL_MSCCLPP_QUEUE_REDUCE_SCATTER;
    call.recvcounts = recvcounts;
    code = queue_reduction(&call, sendbuf, recvbuf, 0, datatype, op);
    return PLAIN(code, comm, 0, MPI_Reduce_scatter(sendbuf, recvbuf, recvcounts, datatype, op, comm));
}

int MPIX_Mscclpp_reduce_scatter_block_enqueue(const void *sendbuf, void *recvbuf, MPI_Count recvcount,
                                              MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, void *stream)
{
    call_t call = call_of(comm, stream);
    int code;

    call.coll = MCA_COLL_MSCCLPP_QUEUE_REDUCE_SCATTER_BLOCK;
    code = queue_reduction(&call, sendbuf, recvbuf, recvcount, datatype, op);
    return PLAIN(code, comm, recvcount, MPI_Reduce_scatter_block(sendbuf, recvbuf, (int)recvcount, datatype, op, comm));
}

int MPIX_Mscclpp_scan_enqueue(const void *sendbuf, void *recvbuf, MPI_Count count, MPI_Datatype datatype, MPI_Op op,
                              MPI_Comm comm, void *stream)
{
    call_t call = call_of(comm, stream);
    int code;

    call.coll = MCA_COLL_MSCCLPP_QUEUE_SCAN;
    code = queue_reduction(&call, sendbuf, recvbuf, count, datatype, op);
    return PLAIN(code, comm, count, MPI_Scan(sendbuf, recvbuf, (int)count, datatype, op, comm));
}

int MPIX_Mscclpp_exscan_enqueue(const void *sendbuf, void *recvbuf, MPI_Count count, MPI_Datatype datatype, MPI_Op op,
                                MPI_Comm comm, void *stream)
{
    call_t call = call_of(comm, stream);
    int code;

    call.coll = MCA_COLL_MSCCLPP_QUEUE_EXSCAN;
    code = queue_reduction(&call, sendbuf, recvbuf, count, datatype, op);
    return PLAIN(code, comm, count, MPI_Exscan(sendbuf, recvbuf, (int)count, datatype, op, comm));
}
