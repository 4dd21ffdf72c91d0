/* The arguments of requests. */
#include "mpix/requests.h"

#include <stdio.h>
#include <stdlib.h>

typedef mca_coll_mscclpp_queue_call_t call_t;

int mpix_request_refuse(MPI_Comm comm, int code, const char *function, const char *what)
{
    (void)fprintf(stderr, "libmpix_mscclpp: MPIX_Mscclpp_%s: %s\n", function, what);
    return mpix_report(comm, code);
}

/* MPI_SUCCESS, or an error that has been reported. */
static int make(MPI_Comm comm, const call_t *call, MPI_Count count, MPI_Datatype type, int partitions,
                MPIX_Mscclpp_request *request_p)
{
    struct mpix_mscclpp_request *request;
    MPI_Aint low, extent = 0;
    int inter = 0;

    if (comm == MPI_COMM_NULL || MPI_Comm_test_inter(comm, &inter) != MPI_SUCCESS || inter) {
        return mpix_report(comm, MPI_ERR_COMM);
    }
    if (count < 0 || type == MPI_DATATYPE_NULL || request_p == NULL) {
        return mpix_report(comm, count < 0 ? MPI_ERR_COUNT : request_p == NULL ? MPI_ERR_ARG : MPI_ERR_TYPE);
    }
    if (partitions < 1) {
        return mpix_request_refuse(comm, MPI_ERR_ARG, "pallreduce_init", "a request has at least 1 partition");
    }
    request = calloc(1, sizeof(*request));
    if (request == NULL || MPI_Type_get_extent(type, &low, &extent) != MPI_SUCCESS) {
        free(request);
        return mpix_report(comm, MPI_ERR_NO_MEM);
    }
    request->call = *call;
    request->call.size = sizeof(call_t);
    request->call.comm = request->users = comm;
    request->partitions = partitions;
    request->part_bytes = (size_t)count * (size_t)extent;
    *request_p = request;
    return MPI_SUCCESS;
}

int MPIX_Mscclpp_allreduce_init(const void *sendbuf, void *recvbuf, MPI_Count count, MPI_Datatype datatype, MPI_Op op,
                                MPI_Comm comm, MPIX_Mscclpp_request *request)
{
    const call_t call = {.coll = MCA_COLL_MSCCLPP_QUEUE_ALLREDUCE,
                         .sendbuf = sendbuf,
                         .recvbuf = recvbuf,
                         .recvcount = (size_t)count,
                         .recvtype = datatype,
                         .op = op};

    return make(comm, &call, count, datatype, 1, request);
}

int MPIX_Mscclpp_bcast_init(void *buffer, MPI_Count count, MPI_Datatype datatype, int root, MPI_Comm comm,
                            MPIX_Mscclpp_request *request)
{
    const call_t call = {.coll = MCA_COLL_MSCCLPP_QUEUE_BCAST,
                         .recvbuf = buffer,
                         .recvcount = (size_t)count,
                         .recvtype = datatype,
                         .root = root};
    int size = 0, code = make(comm, &call, count, datatype, 1, request);

    if (code == MPI_SUCCESS && (MPI_Comm_size(comm, &size) != MPI_SUCCESS || root < 0 || root >= size)) {
        free(*request);
        *request = NULL;
        code = mpix_report(comm, MPI_ERR_ROOT);
    }
    return code;
}

static int make_blocks(int coll, const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
                       MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm, MPIX_Mscclpp_request *request)
{
    const int in_place = sendbuf == MPI_IN_PLACE;
    const call_t call = {.coll = (mca_coll_mscclpp_queue_coll_t)coll,
                         .sendbuf = sendbuf,
                         .sendcount = in_place ? 0 : (size_t)sendcount,
                         .sendtype = in_place ? MPI_BYTE : sendtype,
                         .recvbuf = recvbuf,
                         .recvcount = (size_t)recvcount,
                         .recvtype = recvtype};

    if (!in_place && (sendcount < 0 || sendtype == MPI_DATATYPE_NULL)) {
        return mpix_report(comm, sendcount < 0 ? MPI_ERR_COUNT : MPI_ERR_TYPE);
    }
    return make(comm, &call, recvcount, recvtype, 1, request);
}

int MPIX_Mscclpp_allgather_init(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
                                MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm,
                                MPIX_Mscclpp_request *request)
{
    return make_blocks(MCA_COLL_MSCCLPP_QUEUE_ALLGATHER, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype,
                       comm, request);
}

int MPIX_Mscclpp_alltoall_init(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
                               MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm, MPIX_Mscclpp_request *request)
{
    return make_blocks(MCA_COLL_MSCCLPP_QUEUE_ALLTOALL, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype,
                       comm, request);
}

int MPIX_Mscclpp_reduce_scatter_block_init(const void *sendbuf, void *recvbuf, MPI_Count recvcount,
                                           MPI_Datatype datatype, MPI_Op op, MPI_Comm comm,
                                           MPIX_Mscclpp_request *request)
{
    const call_t call = {.coll = MCA_COLL_MSCCLPP_QUEUE_REDUCE_SCATTER_BLOCK,
                         .sendbuf = sendbuf,
                         .recvbuf = recvbuf,
                         .recvcount = (size_t)recvcount,
                         .recvtype = datatype,
                         .op = op};

    return make(comm, &call, recvcount, datatype, 1, request);
}

int MPIX_Mscclpp_pallreduce_init(const void *sendbuf, void *recvbuf, int partitions, MPI_Count count,
                                 MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, MPIX_Mscclpp_request *request)
{
    const call_t call = {.coll = MCA_COLL_MSCCLPP_QUEUE_ALLREDUCE,
                         .sendbuf = sendbuf,
                         .recvbuf = recvbuf,
                         .recvcount = (size_t)count,
                         .recvtype = datatype,
                         .op = op};
    const int code = make(comm, &call, count, datatype, partitions, request);

    if (code == MPI_SUCCESS) {
        (*request)->partitioned = 1;
    }
    return code;
}

/* What travels between two ranks is a broadcast in a communicator of the two. */
static int make_side(int side, void *buf, int partitions, MPI_Count count, MPI_Datatype datatype, int peer, int tag,
                     MPI_Comm comm, MPIX_Mscclpp_request *request)
{
    const call_t call = {
        .coll = MCA_COLL_MSCCLPP_QUEUE_BCAST, .recvbuf = buf, .recvcount = (size_t)count, .recvtype = datatype};
    const int code = make(comm, &call, count, datatype, partitions, request);
    int rank, size;

    if (code != MPI_SUCCESS) {
        return code;
    }
    (void)MPI_Comm_rank(comm, &rank);
    (void)MPI_Comm_size(comm, &size);
    if (peer < 0 || peer >= size || peer == rank || tag < 0) {
        free(*request);
        *request = NULL;
        return mpix_request_refuse(comm, tag < 0 ? MPI_ERR_TAG : MPI_ERR_RANK,
                                   side == SENDER ? "psend_init" : "precv_init",
                                   tag < 0 ? "the tag is negative" : "the other side is no rank, or this one");
    }
    (*request)->partitioned = 1;
    (*request)->side = side;
    (*request)->peer = peer;
    (*request)->tag = tag;
    return MPI_SUCCESS;
}

int MPIX_Mscclpp_psend_init(const void *buf, int partitions, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
                            MPI_Comm comm, MPIX_Mscclpp_request *request)
{
    return make_side(SENDER, (void *)(uintptr_t)buf, partitions, count, datatype, dest, tag, comm, request);
}

int MPIX_Mscclpp_precv_init(void *buf, int partitions, MPI_Count count, MPI_Datatype datatype, int source, int tag,
                            MPI_Comm comm, MPIX_Mscclpp_request *request)
{
    return make_side(RECEIVER, buf, partitions, count, datatype, source, tag, comm, request);
}
