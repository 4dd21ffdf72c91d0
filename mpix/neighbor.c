/* The queued neighbourhood collectives, on communicators with a topology. */
#include "mpix/describe.h"
#include "mpix/enqueue.h"
#include "mpix/include/mpix_mscclpp.h"

typedef mca_coll_mscclpp_queue_call_t call_t;

/*
 * The casts are safe: MPIX_FINISH_OR_CALL_MPI makes the call only if the larger of the two counts fits into an int.
 * Both counts are in the described call, because a neighbourhood collective is never in place.
 */
int MPIX_Mscclpp_neighbor_allgather_enqueue(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                                            void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm,
                                            void *stream)
{
    const mpix_side_t send = {.buffer = sendbuf, .count = sendcount, .type = sendtype};
    const mpix_side_t recv = {.buffer = recvbuf, .count = recvcount, .type = recvtype};
    call_t call;
    const int code = mpix_queue_or_wait(
        mpix_describe_neighbors(&call, MCA_COLL_MSCCLPP_QUEUE_NEIGHBOR_ALLGATHER, &send, &recv, comm), &call, stream);

    return MPIX_FINISH_OR_CALL_MPI(
        code, comm, mpix_largest_count(&call),
        MPI_Neighbor_allgather(sendbuf, (int)sendcount, sendtype, recvbuf, (int)recvcount, recvtype, comm));
}

/* Only the count of the send side needs a check, because the receive counts already are ints. */
int MPIX_Mscclpp_neighbor_allgatherv_enqueue(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                                             void *recvbuf, const int recvcounts[], const int displs[],
                                             MPI_Datatype recvtype, MPI_Comm comm, void *stream)
{
    const mpix_side_t send = {.buffer = sendbuf, .count = sendcount, .type = sendtype};
    const mpix_side_t recv = {.buffer = recvbuf, .counts = recvcounts, .displs = displs, .type = recvtype};
    call_t call;
    const int code = mpix_queue_or_wait(
        mpix_describe_neighbors(&call, MCA_COLL_MSCCLPP_QUEUE_NEIGHBOR_ALLGATHERV, &send, &recv, comm), &call, stream);

    return MPIX_FINISH_OR_CALL_MPI(
        code, comm, mpix_largest_count(&call),
        MPI_Neighbor_allgatherv(sendbuf, (int)sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, comm));
}

/* The casts are safe: MPIX_FINISH_OR_CALL_MPI makes the call only if the larger of the two counts fits into an int. */
int MPIX_Mscclpp_neighbor_alltoall_enqueue(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                                           void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm,
                                           void *stream)
{
    const mpix_side_t send = {.buffer = sendbuf, .count = sendcount, .type = sendtype};
    const mpix_side_t recv = {.buffer = recvbuf, .count = recvcount, .type = recvtype};
    call_t call;
    const int code = mpix_queue_or_wait(
        mpix_describe_neighbors(&call, MCA_COLL_MSCCLPP_QUEUE_NEIGHBOR_ALLTOALL, &send, &recv, comm), &call, stream);

    return MPIX_FINISH_OR_CALL_MPI(
        code, comm, mpix_largest_count(&call),
        MPI_Neighbor_alltoall(sendbuf, (int)sendcount, sendtype, recvbuf, (int)recvcount, recvtype, comm));
}

/* Passes 0 as the largest count, because all counts already are ints and need no check. */
int MPIX_Mscclpp_neighbor_alltoallv_enqueue(const void *sendbuf, const int sendcounts[], const int sdispls[],
                                            MPI_Datatype sendtype, void *recvbuf, const int recvcounts[],
                                            const int rdispls[], MPI_Datatype recvtype, MPI_Comm comm, void *stream)
{
    const mpix_side_t send = {.buffer = sendbuf, .counts = sendcounts, .displs = sdispls, .type = sendtype};
    const mpix_side_t recv = {.buffer = recvbuf, .counts = recvcounts, .displs = rdispls, .type = recvtype};
    call_t call;
    const int code = mpix_queue_or_wait(
        mpix_describe_neighbors(&call, MCA_COLL_MSCCLPP_QUEUE_NEIGHBOR_ALLTOALLV, &send, &recv, comm), &call, stream);

    return MPIX_FINISH_OR_CALL_MPI(
        code, comm, 0,
        MPI_Neighbor_alltoallv(sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype, comm));
}

/*
 * Displacements have the type MPI_Aint here, and mpix_side_t has room for ints only, so they are passed apart. `type`
 * is a placeholder: each block has its own in `types`. All counts already are ints, hence 0.
 */
int MPIX_Mscclpp_neighbor_alltoallw_enqueue(const void *sendbuf, const int sendcounts[], const MPI_Aint sdispls[],
                                            const MPI_Datatype sendtypes[], void *recvbuf, const int recvcounts[],
                                            const MPI_Aint rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm,
                                            void *stream)
{
    const mpix_side_t send = {.buffer = sendbuf, .counts = sendcounts, .type = MPI_BYTE, .types = sendtypes};
    const mpix_side_t recv = {.buffer = recvbuf, .counts = recvcounts, .type = MPI_BYTE, .types = recvtypes};
    call_t call;
    const int code =
        mpix_queue_or_wait(mpix_describe_neighbors_w(&call, &send, sdispls, &recv, rdispls, comm), &call, stream);

    return MPIX_FINISH_OR_CALL_MPI(
        code, comm, 0,
        MPI_Neighbor_alltoallw(sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes, comm));
}
