/*
 * The queued collectives, except for the neighbourhood collectives. If the component does not queue a call, this
 * library waits for the stream and then calls MPI.
 */
#include "mpix/enqueue.h"

#include <stddef.h>

#include "mpix/describe.h"
#include "mpix/include/mpix_mscclpp.h"

typedef mca_coll_mscclpp_queue_call_t call_t;

/*
 * Waits for the stream for a call that is not queued, and counts the call. Returns MPIX_MAKE_PLAIN_CALL, or an MPI
 * error code, which has been reported. In a captured stream the error is MPIX_MSCCLPP_ERR_CAPTURE, because the host
 * cannot wait for such a stream, and a graph would not repeat MPI's call.
 */
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
    return MPIX_MAKE_PLAIN_CALL;
}

mca_coll_mscclpp_queue_end_t mpix_queue(const call_t *call, int *code_p)
{
    const mca_coll_mscclpp_api_t *component = mpix_component(code_p);

    return component == NULL ? MCA_COLL_MSCCLPP_NOT_QUEUED : component->enqueue(call, code_p);
}

/*
 * Calls on inter-communicators are never passed to the component; MPI serves them. A component of another version is an
 * error, unlike a missing component.
 */
int mpix_queue_or_wait(int describe_code, call_t *call, void *stream)
{
    mca_coll_mscclpp_queue_end_t end = MCA_COLL_MSCCLPP_NOT_QUEUED;
    int code = describe_code, inter;

    if (describe_code != MPI_SUCCESS) {
        return describe_code;
    }
    call->stream = stream;
    (void)mpix_component(&code);
    if (code != MPI_SUCCESS) {
        return mpix_report(call->comm, code);
    }
    if (MPI_Comm_test_inter(call->comm, &inter) == MPI_SUCCESS && !inter) {
        end = mpix_queue(call, &code);
    }
    return end == MCA_COLL_MSCCLPP_NOT_QUEUED ? wait_instead(call->comm, stream)
                                              : mpix_report(call->comm, mpix_code_of(end, code));
}

MPI_Count mpix_largest_count(const call_t *call)
{
    const size_t count = call->sendcount > call->recvcount ? call->sendcount : call->recvcount;

    return (MPI_Count)count;
}

int MPIX_Mscclpp_barrier_enqueue(MPI_Comm comm, void *stream)
{
    call_t call;
    const int code = mpix_queue_or_wait(mpix_describe_barrier(&call, comm), &call, stream);

    return MPIX_FINISH_OR_CALL_MPI(code, comm, 0, MPI_Barrier(comm));
}

int MPIX_Mscclpp_bcast_enqueue(void *buffer, MPI_Count count, MPI_Datatype datatype, int root, MPI_Comm comm,
                               void *stream)
{
    call_t call;
    const int code = mpix_queue_or_wait(mpix_describe_bcast(&call, buffer, count, datatype, root, comm), &call, stream);

    return MPIX_FINISH_OR_CALL_MPI(code, comm, count, MPI_Bcast(buffer, (int)count, datatype, root, comm));
}

int MPIX_Mscclpp_allreduce_enqueue(const void *sendbuf, void *recvbuf, MPI_Count count, MPI_Datatype datatype,
                                   MPI_Op op, MPI_Comm comm, void *stream)
{
    call_t call;
    const int code = mpix_queue_or_wait(mpix_describe_reduction(&call, MCA_COLL_MSCCLPP_QUEUE_ALLREDUCE, sendbuf,
                                                                recvbuf, count, NULL, datatype, op, MPIX_NO_ROOT, comm),
                                        &call, stream);

    return MPIX_FINISH_OR_CALL_MPI(code, comm, count, MPI_Allreduce(sendbuf, recvbuf, (int)count, datatype, op, comm));
}

int MPIX_Mscclpp_reduce_enqueue(const void *sendbuf, void *recvbuf, MPI_Count count, MPI_Datatype datatype, MPI_Op op,
                                int root, MPI_Comm comm, void *stream)
{
    call_t call;
    const int code = mpix_queue_or_wait(mpix_describe_reduction(&call, MCA_COLL_MSCCLPP_QUEUE_REDUCE, sendbuf, recvbuf,
                                                                count, NULL, datatype, op, root, comm),
                                        &call, stream);

    return MPIX_FINISH_OR_CALL_MPI(code, comm, count,
                                   MPI_Reduce(sendbuf, recvbuf, (int)count, datatype, op, root, comm));
}

/* The cast is safe: MPIX_FINISH_OR_CALL_MPI makes the call only if the count fits into an int. */
int MPIX_Mscclpp_reduce_scatter_block_enqueue(const void *sendbuf, void *recvbuf, MPI_Count recvcount,
                                              MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, void *stream)
{
    call_t call;
    const int code =
        mpix_queue_or_wait(mpix_describe_reduction(&call, MCA_COLL_MSCCLPP_QUEUE_REDUCE_SCATTER_BLOCK, sendbuf, recvbuf,
                                                   recvcount, NULL, datatype, op, MPIX_NO_ROOT, comm),
                           &call, stream);

    return MPIX_FINISH_OR_CALL_MPI(code, comm, recvcount,
                                   MPI_Reduce_scatter_block(sendbuf, recvbuf, (int)recvcount, datatype, op, comm));
}

int MPIX_Mscclpp_reduce_scatter_enqueue(const void *sendbuf, void *recvbuf, const int recvcounts[],
                                        MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, void *stream)
{
    call_t call;
    const int code =
        mpix_queue_or_wait(mpix_describe_reduction(&call, MCA_COLL_MSCCLPP_QUEUE_REDUCE_SCATTER, sendbuf, recvbuf, 0,
                                                   recvcounts, datatype, op, MPIX_NO_ROOT, comm),
                           &call, stream);

    return MPIX_FINISH_OR_CALL_MPI(code, comm, 0, MPI_Reduce_scatter(sendbuf, recvbuf, recvcounts, datatype, op, comm));
}

int MPIX_Mscclpp_scan_enqueue(const void *sendbuf, void *recvbuf, MPI_Count count, MPI_Datatype datatype, MPI_Op op,
                              MPI_Comm comm, void *stream)
{
    call_t call;
    const int code = mpix_queue_or_wait(mpix_describe_reduction(&call, MCA_COLL_MSCCLPP_QUEUE_SCAN, sendbuf, recvbuf,
                                                                count, NULL, datatype, op, MPIX_NO_ROOT, comm),
                                        &call, stream);

    return MPIX_FINISH_OR_CALL_MPI(code, comm, count, MPI_Scan(sendbuf, recvbuf, (int)count, datatype, op, comm));
}

int MPIX_Mscclpp_exscan_enqueue(const void *sendbuf, void *recvbuf, MPI_Count count, MPI_Datatype datatype, MPI_Op op,
                                MPI_Comm comm, void *stream)
{
    call_t call;
    const int code = mpix_queue_or_wait(mpix_describe_reduction(&call, MCA_COLL_MSCCLPP_QUEUE_EXSCAN, sendbuf, recvbuf,
                                                                count, NULL, datatype, op, MPIX_NO_ROOT, comm),
                                        &call, stream);

    return MPIX_FINISH_OR_CALL_MPI(code, comm, count, MPI_Exscan(sendbuf, recvbuf, (int)count, datatype, op, comm));
}

/*
 * Casts the count of the send side, even with MPI_IN_PLACE. MPI then does not read that side: its count is not in the
 * call and not checked, so a changed value does no harm. The same holds for arguments that only the root reads in the
 * calls below.
 */
int MPIX_Mscclpp_allgather_enqueue(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
                                   MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm, void *stream)
{
    const mpix_side_t send = {.buffer = sendbuf, .count = sendcount, .type = sendtype};
    const mpix_side_t recv = {.buffer = recvbuf, .count = recvcount, .type = recvtype};
    call_t call;
    const int code = mpix_queue_or_wait(
        mpix_describe_blocks(&call, MCA_COLL_MSCCLPP_QUEUE_ALLGATHER, &send, &recv, MPIX_NO_ROOT, comm), &call, stream);

    return MPIX_FINISH_OR_CALL_MPI(
        code, comm, mpix_largest_count(&call),
        MPI_Allgather(sendbuf, (int)sendcount, sendtype, recvbuf, (int)recvcount, recvtype, comm));
}

/* Checks the count of the send side only, because the receive counts already are ints. */
int MPIX_Mscclpp_allgatherv_enqueue(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
                                    const int recvcounts[], const int displs[], MPI_Datatype recvtype, MPI_Comm comm,
                                    void *stream)
{
    const mpix_side_t send = {.buffer = sendbuf, .count = sendcount, .type = sendtype};
    const mpix_side_t recv = {.buffer = recvbuf, .counts = recvcounts, .displs = displs, .type = recvtype};
    call_t call;
    const int code = mpix_queue_or_wait(
        mpix_describe_blocks(&call, MCA_COLL_MSCCLPP_QUEUE_ALLGATHERV, &send, &recv, MPIX_NO_ROOT, comm), &call,
        stream);

    return MPIX_FINISH_OR_CALL_MPI(
        code, comm, mpix_largest_count(&call),
        MPI_Allgatherv(sendbuf, (int)sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, comm));
}

/*
 * Reads the receive side on the root only. Other ranks may pass any value there, even a count that does not fit into an
 * int.
 */
int MPIX_Mscclpp_gather_enqueue(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
                                MPI_Count recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm, void *stream)
{
    const mpix_side_t send = {.buffer = sendbuf, .count = sendcount, .type = sendtype};
    const mpix_side_t recv = {.buffer = recvbuf, .count = recvcount, .type = recvtype};
    call_t call;
    const int code = mpix_queue_or_wait(
        mpix_describe_blocks(&call, MCA_COLL_MSCCLPP_QUEUE_GATHER, &send, &recv, root, comm), &call, stream);

    return MPIX_FINISH_OR_CALL_MPI(
        code, comm, mpix_largest_count(&call),
        MPI_Gather(sendbuf, (int)sendcount, sendtype, recvbuf, (int)recvcount, recvtype, root, comm));
}

/* Only the send count can be too large for MPI's call: the receive counts already are ints. */
int MPIX_Mscclpp_gatherv_enqueue(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
                                 const int recvcounts[], const int displs[], MPI_Datatype recvtype, int root,
                                 MPI_Comm comm, void *stream)
{
    const mpix_side_t send = {.buffer = sendbuf, .count = sendcount, .type = sendtype};
    const mpix_side_t recv = {.buffer = recvbuf, .counts = recvcounts, .displs = displs, .type = recvtype};
    call_t call;
    const int code = mpix_queue_or_wait(
        mpix_describe_blocks(&call, MCA_COLL_MSCCLPP_QUEUE_GATHERV, &send, &recv, root, comm), &call, stream);

    return MPIX_FINISH_OR_CALL_MPI(
        code, comm, mpix_largest_count(&call),
        MPI_Gatherv(sendbuf, (int)sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, root, comm));
}

/*
 * Reads the send side on the root only. Other ranks may pass any value there, even a count that does not fit into an
 * int.
 */
int MPIX_Mscclpp_scatter_enqueue(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
                                 MPI_Count recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm, void *stream)
{
    const mpix_side_t send = {.buffer = sendbuf, .count = sendcount, .type = sendtype};
    const mpix_side_t recv = {.buffer = recvbuf, .count = recvcount, .type = recvtype};
    call_t call;
    const int code = mpix_queue_or_wait(
        mpix_describe_blocks(&call, MCA_COLL_MSCCLPP_QUEUE_SCATTER, &send, &recv, root, comm), &call, stream);

    return MPIX_FINISH_OR_CALL_MPI(
        code, comm, mpix_largest_count(&call),
        MPI_Scatter(sendbuf, (int)sendcount, sendtype, recvbuf, (int)recvcount, recvtype, root, comm));
}

/* Does not check the send counts: they already are ints, and only the root reads them. */
int MPIX_Mscclpp_scatterv_enqueue(const void *sendbuf, const int sendcounts[], const int displs[],
                                  MPI_Datatype sendtype, void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype,
                                  int root, MPI_Comm comm, void *stream)
{
    const mpix_side_t send = {.buffer = sendbuf, .counts = sendcounts, .displs = displs, .type = sendtype};
    const mpix_side_t recv = {.buffer = recvbuf, .count = recvcount, .type = recvtype};
    call_t call;
    const int code = mpix_queue_or_wait(
        mpix_describe_blocks(&call, MCA_COLL_MSCCLPP_QUEUE_SCATTERV, &send, &recv, root, comm), &call, stream);

    return MPIX_FINISH_OR_CALL_MPI(
        code, comm, mpix_largest_count(&call),
        MPI_Scatterv(sendbuf, sendcounts, displs, sendtype, recvbuf, (int)recvcount, recvtype, root, comm));
}

/* Does not read the send side with MPI_IN_PLACE, as in MPIX_Mscclpp_allgather_enqueue. */
int MPIX_Mscclpp_alltoall_enqueue(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
                                  MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm, void *stream)
{
    const mpix_side_t send = {.buffer = sendbuf, .count = sendcount, .type = sendtype};
    const mpix_side_t recv = {.buffer = recvbuf, .count = recvcount, .type = recvtype};
    call_t call;
    const int code = mpix_queue_or_wait(
        mpix_describe_blocks(&call, MCA_COLL_MSCCLPP_QUEUE_ALLTOALL, &send, &recv, MPIX_NO_ROOT, comm), &call, stream);

    return MPIX_FINISH_OR_CALL_MPI(
        code, comm, mpix_largest_count(&call),
        MPI_Alltoall(sendbuf, (int)sendcount, sendtype, recvbuf, (int)recvcount, recvtype, comm));
}

/* Passes 0 as the largest count, because all counts already are ints and need no check. */
int MPIX_Mscclpp_alltoallv_enqueue(const void *sendbuf, const int sendcounts[], const int sdispls[],
                                   MPI_Datatype sendtype, void *recvbuf, const int recvcounts[], const int rdispls[],
                                   MPI_Datatype recvtype, MPI_Comm comm, void *stream)
{
    const mpix_side_t send = {.buffer = sendbuf, .counts = sendcounts, .displs = sdispls, .type = sendtype};
    const mpix_side_t recv = {.buffer = recvbuf, .counts = recvcounts, .displs = rdispls, .type = recvtype};
    call_t call;
    const int code = mpix_queue_or_wait(
        mpix_describe_blocks(&call, MCA_COLL_MSCCLPP_QUEUE_ALLTOALLV, &send, &recv, MPIX_NO_ROOT, comm), &call, stream);

    return MPIX_FINISH_OR_CALL_MPI(
        code, comm, 0,
        MPI_Alltoallv(sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype, comm));
}

/* `type` is a placeholder: each block has its own in `types`. All counts already are ints, hence 0. */
int MPIX_Mscclpp_alltoallw_enqueue(const void *sendbuf, const int sendcounts[], const int sdispls[],
                                   const MPI_Datatype sendtypes[], void *recvbuf, const int recvcounts[],
                                   const int rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm, void *stream)
{
    const mpix_side_t send = {
        .buffer = sendbuf, .counts = sendcounts, .displs = sdispls, .type = MPI_BYTE, .types = sendtypes};
    const mpix_side_t recv = {
        .buffer = recvbuf, .counts = recvcounts, .displs = rdispls, .type = MPI_BYTE, .types = recvtypes};
    call_t call;
    const int code = mpix_queue_or_wait(
        mpix_describe_blocks(&call, MCA_COLL_MSCCLPP_QUEUE_ALLTOALLW, &send, &recv, MPIX_NO_ROOT, comm), &call, stream);

    return MPIX_FINISH_OR_CALL_MPI(
        code, comm, 0,
        MPI_Alltoallw(sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes, comm));
}
