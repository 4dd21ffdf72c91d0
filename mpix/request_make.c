/* Makes persistent requests from the arguments of their functions. */
#include "mpix/requests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpix/describe.h"

typedef mca_coll_mscclpp_queue_call_t call_t;

int mpix_request_refuse(MPI_Comm comm, int code, const char *function, const char *reason)
{
    (void)fprintf(stderr, "libmpix_mscclpp: MPIX_Mscclpp_%s: %s\n", function, reason);
    return mpix_report(comm, code);
}

/*
 * Copies an array of `count` elements of `size` bytes to *end_p, lets *array_p point to the copy, and moves *end_p
 * behind it. NULL stays NULL.
 */
static void copy_array(const void **array_p, size_t count, size_t size, char **end_p)
{
    if (*array_p != NULL) {
        memcpy(*end_p, *array_p, count * size);
        *array_p = *end_p;
        *end_p += count * size;
    }
}

/*
 * Sets *sends_p and *receives_p to the number of blocks of each side: one for each rank or, in a neighbourhood
 * collective, one for each edge. Returns an MPI error code, which has not been reported.
 */
static int count_blocks(const call_t *call, int *sends_p, int *receives_p)
{
    int code;

    switch (call->coll) {
    case MCA_COLL_MSCCLPP_QUEUE_NEIGHBOR_ALLGATHER:
    case MCA_COLL_MSCCLPP_QUEUE_NEIGHBOR_ALLGATHERV:
    case MCA_COLL_MSCCLPP_QUEUE_NEIGHBOR_ALLTOALL:
    case MCA_COLL_MSCCLPP_QUEUE_NEIGHBOR_ALLTOALLV:
    case MCA_COLL_MSCCLPP_QUEUE_NEIGHBOR_ALLTOALLW:
        return mpix_count_edges(call->comm, sends_p, receives_p);
    default:
        code = MPI_Comm_size(call->comm, sends_p);
        *receives_p = *sends_p;
        return code;
    }
}

/*
 * Copies the arrays to which the call points, since the application may free them when the request has been made. Each
 * array has an entry for each block. Arrays that MPI does not read on this rank are not in the call. All copies are
 * stored in request->arrays, which the caller frees. Returns an MPI error code, which has not been reported; after an
 * error there is nothing to free.
 */
static int copy_arrays(struct mpix_mscclpp_request *request)
{
    /* The arrays of one block: a type, a displacement in bytes, and a count and a displacement. */
    const size_t block_bytes = sizeof(MPI_Datatype) + sizeof(MPI_Aint) + 2 * sizeof(int);
    call_t *call = &request->call;
    int sends = 0, receives = 0;
    const int code = count_blocks(call, &sends, &receives);
    char *end;

    if (code != MPI_SUCCESS) {
        return code;
    }
    /* Room for one block more, because malloc may return NULL for a size of 0. */
    request->arrays = malloc(((size_t)sends + (size_t)receives + 1) * block_bytes);
    if (request->arrays == NULL) {
        return MPI_ERR_NO_MEM;
    }
    end = request->arrays;
    /* Larger elements come first, so that all arrays are aligned. */
    copy_array((const void **)&call->sendtypes, (size_t)sends, sizeof(MPI_Datatype), &end);
    copy_array((const void **)&call->recvtypes, (size_t)receives, sizeof(MPI_Datatype), &end);
    copy_array((const void **)&call->soffsets, (size_t)sends, sizeof(MPI_Aint), &end);
    copy_array((const void **)&call->roffsets, (size_t)receives, sizeof(MPI_Aint), &end);
    copy_array((const void **)&call->sendcounts, (size_t)sends, sizeof(int), &end);
    copy_array((const void **)&call->sdispls, (size_t)sends, sizeof(int), &end);
    copy_array((const void **)&call->recvcounts, (size_t)receives, sizeof(int), &end);
    copy_array((const void **)&call->rdispls, (size_t)receives, sizeof(int), &end);
    return MPI_SUCCESS;
}

/*
 * Makes a request from a call. `describe_code` is the return value of the function that filled in the call; if it is an
 * error, the function only returns it. Intercommunicators are refused. Errors have been reported, and *request_p is not
 * set after an error. The function is local: other ranks do not know of a request before MPIX_Mscclpp_prepare. The
 * caller checks `partitions`. part_bytes is meaningful only for calls with one count and one type; all partitioned
 * calls are of this kind.
 */
static int make_request(int describe_code, const call_t *call, int partitions, MPIX_Mscclpp_request *request_p)
{
    struct mpix_mscclpp_request *request;
    MPI_Aint low, extent = 0;
    int inter = 0, code;

    if (describe_code != MPI_SUCCESS) {
        return describe_code;
    }
    if (request_p == NULL) {
        return mpix_report(call->comm, MPI_ERR_ARG);
    }
    if (MPI_Comm_test_inter(call->comm, &inter) != MPI_SUCCESS || inter) {
        return mpix_report(call->comm, MPI_ERR_COMM);
    }
    request = calloc(1, sizeof(*request));
    if (request == NULL) {
        return mpix_report(call->comm, MPI_ERR_NO_MEM);
    }
    request->call = *call;
    request->app_comm = call->comm;
    request->partitions = partitions;
    code = MPI_Type_get_extent(call->recvtype, &low, &extent);
    request->part_bytes = call->recvcount * (size_t)extent;
    if (code == MPI_SUCCESS) {
        code = copy_arrays(request);
    }
    if (code != MPI_SUCCESS) {
        free(request);
        return mpix_report(call->comm, code);
    }
    *request_p = request;
    return MPI_SUCCESS;
}

void mpix_request_discard(MPIX_Mscclpp_request *request)
{
    free((*request)->arrays);
    free(*request);
    *request = NULL;
}

/*
 * Refuses and frees a request with fewer than 1 partition. `function` is the name of the function that the application
 * has called. The error, MPI_ERR_ARG, has been reported, and the handle is then NULL.
 */
static int require_partitions(const char *function, MPIX_Mscclpp_request *request)
{
    MPI_Comm comm = (*request)->app_comm;
    char text[64];

    if ((*request)->partitions >= 1) {
        return MPI_SUCCESS;
    }
    (void)snprintf(text, sizeof(text), "%d partitions; a request has at least 1", (*request)->partitions);
    mpix_request_discard(request);
    return mpix_request_refuse(comm, MPI_ERR_ARG, function, text);
}

int MPIX_Mscclpp_barrier_init(MPI_Comm comm, MPIX_Mscclpp_request *request)
{
    call_t call;

    return make_request(mpix_describe_barrier(&call, comm), &call, 1, request);
}

int MPIX_Mscclpp_bcast_init(void *buffer, MPI_Count count, MPI_Datatype datatype, int root, MPI_Comm comm,
                            MPIX_Mscclpp_request *request)
{
    call_t call;

    return make_request(mpix_describe_bcast(&call, buffer, count, datatype, root, comm), &call, 1, request);
}

int MPIX_Mscclpp_allreduce_init(const void *sendbuf, void *recvbuf, MPI_Count count, MPI_Datatype datatype, MPI_Op op,
                                MPI_Comm comm, MPIX_Mscclpp_request *request)
{
    call_t call;

    return make_request(mpix_describe_reduction(&call, MCA_COLL_MSCCLPP_QUEUE_ALLREDUCE, sendbuf, recvbuf, count, NULL,
                                                datatype, op, MPIX_NO_ROOT, comm),
                        &call, 1, request);
}

int MPIX_Mscclpp_reduce_init(const void *sendbuf, void *recvbuf, MPI_Count count, MPI_Datatype datatype, MPI_Op op,
                             int root, MPI_Comm comm, MPIX_Mscclpp_request *request)
{
    call_t call;

    return make_request(mpix_describe_reduction(&call, MCA_COLL_MSCCLPP_QUEUE_REDUCE, sendbuf, recvbuf, count, NULL,
                                                datatype, op, root, comm),
                        &call, 1, request);
}

int MPIX_Mscclpp_reduce_scatter_block_init(const void *sendbuf, void *recvbuf, MPI_Count recvcount,
                                           MPI_Datatype datatype, MPI_Op op, MPI_Comm comm,
                                           MPIX_Mscclpp_request *request)
{
    call_t call;

    return make_request(mpix_describe_reduction(&call, MCA_COLL_MSCCLPP_QUEUE_REDUCE_SCATTER_BLOCK, sendbuf, recvbuf,
                                                recvcount, NULL, datatype, op, MPIX_NO_ROOT, comm),
                        &call, 1, request);
}

int MPIX_Mscclpp_reduce_scatter_init(const void *sendbuf, void *recvbuf, const int recvcounts[], MPI_Datatype datatype,
                                     MPI_Op op, MPI_Comm comm, MPIX_Mscclpp_request *request)
{
    call_t call;

    return make_request(mpix_describe_reduction(&call, MCA_COLL_MSCCLPP_QUEUE_REDUCE_SCATTER, sendbuf, recvbuf, 0,
                                                recvcounts, datatype, op, MPIX_NO_ROOT, comm),
                        &call, 1, request);
}

int MPIX_Mscclpp_scan_init(const void *sendbuf, void *recvbuf, MPI_Count count, MPI_Datatype datatype, MPI_Op op,
                           MPI_Comm comm, MPIX_Mscclpp_request *request)
{
    call_t call;

    return make_request(mpix_describe_reduction(&call, MCA_COLL_MSCCLPP_QUEUE_SCAN, sendbuf, recvbuf, count, NULL,
                                                datatype, op, MPIX_NO_ROOT, comm),
                        &call, 1, request);
}

int MPIX_Mscclpp_exscan_init(const void *sendbuf, void *recvbuf, MPI_Count count, MPI_Datatype datatype, MPI_Op op,
                             MPI_Comm comm, MPIX_Mscclpp_request *request)
{
    call_t call;

    return make_request(mpix_describe_reduction(&call, MCA_COLL_MSCCLPP_QUEUE_EXSCAN, sendbuf, recvbuf, count, NULL,
                                                datatype, op, MPIX_NO_ROOT, comm),
                        &call, 1, request);
}

int MPIX_Mscclpp_allgather_init(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
                                MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm,
                                MPIX_Mscclpp_request *request)
{
    const mpix_side_t send = {.buffer = sendbuf, .count = sendcount, .type = sendtype};
    const mpix_side_t recv = {.buffer = recvbuf, .count = recvcount, .type = recvtype};
    call_t call;

    return make_request(mpix_describe_blocks(&call, MCA_COLL_MSCCLPP_QUEUE_ALLGATHER, &send, &recv, MPIX_NO_ROOT, comm),
                        &call, 1, request);
}

/* Leaves the lists to the caller, who may free them: make_request copies them. */
int MPIX_Mscclpp_allgatherv_init(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
                                 const int recvcounts[], const int displs[], MPI_Datatype recvtype, MPI_Comm comm,
                                 MPIX_Mscclpp_request *request)
{
    const mpix_side_t send = {.buffer = sendbuf, .count = sendcount, .type = sendtype};
    const mpix_side_t recv = {.buffer = recvbuf, .counts = recvcounts, .displs = displs, .type = recvtype};
    call_t call;

    return make_request(
        mpix_describe_blocks(&call, MCA_COLL_MSCCLPP_QUEUE_ALLGATHERV, &send, &recv, MPIX_NO_ROOT, comm), &call, 1,
        request);
}

int MPIX_Mscclpp_gather_init(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
                             MPI_Count recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm,
                             MPIX_Mscclpp_request *request)
{
    const mpix_side_t send = {.buffer = sendbuf, .count = sendcount, .type = sendtype};
    const mpix_side_t recv = {.buffer = recvbuf, .count = recvcount, .type = recvtype};
    call_t call;

    return make_request(mpix_describe_blocks(&call, MCA_COLL_MSCCLPP_QUEUE_GATHER, &send, &recv, root, comm), &call, 1,
                        request);
}

int MPIX_Mscclpp_gatherv_init(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
                              const int recvcounts[], const int displs[], MPI_Datatype recvtype, int root,
                              MPI_Comm comm, MPIX_Mscclpp_request *request)
{
    const mpix_side_t send = {.buffer = sendbuf, .count = sendcount, .type = sendtype};
    const mpix_side_t recv = {.buffer = recvbuf, .counts = recvcounts, .displs = displs, .type = recvtype};
    call_t call;

    return make_request(mpix_describe_blocks(&call, MCA_COLL_MSCCLPP_QUEUE_GATHERV, &send, &recv, root, comm), &call, 1,
                        request);
}

int MPIX_Mscclpp_scatter_init(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
                              MPI_Count recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm,
                              MPIX_Mscclpp_request *request)
{
    const mpix_side_t send = {.buffer = sendbuf, .count = sendcount, .type = sendtype};
    const mpix_side_t recv = {.buffer = recvbuf, .count = recvcount, .type = recvtype};
    call_t call;

    return make_request(mpix_describe_blocks(&call, MCA_COLL_MSCCLPP_QUEUE_SCATTER, &send, &recv, root, comm), &call, 1,
                        request);
}

int MPIX_Mscclpp_scatterv_init(const void *sendbuf, const int sendcounts[], const int displs[], MPI_Datatype sendtype,
                               void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm,
                               MPIX_Mscclpp_request *request)
{
    const mpix_side_t send = {.buffer = sendbuf, .counts = sendcounts, .displs = displs, .type = sendtype};
    const mpix_side_t recv = {.buffer = recvbuf, .count = recvcount, .type = recvtype};
    call_t call;

    return make_request(mpix_describe_blocks(&call, MCA_COLL_MSCCLPP_QUEUE_SCATTERV, &send, &recv, root, comm), &call,
                        1, request);
}

int MPIX_Mscclpp_alltoall_init(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
                               MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm, MPIX_Mscclpp_request *request)
{
    const mpix_side_t send = {.buffer = sendbuf, .count = sendcount, .type = sendtype};
    const mpix_side_t recv = {.buffer = recvbuf, .count = recvcount, .type = recvtype};
    call_t call;

    return make_request(mpix_describe_blocks(&call, MCA_COLL_MSCCLPP_QUEUE_ALLTOALL, &send, &recv, MPIX_NO_ROOT, comm),
                        &call, 1, request);
}

int MPIX_Mscclpp_alltoallv_init(const void *sendbuf, const int sendcounts[], const int sdispls[], MPI_Datatype sendtype,
                                void *recvbuf, const int recvcounts[], const int rdispls[], MPI_Datatype recvtype,
                                MPI_Comm comm, MPIX_Mscclpp_request *request)
{
    const mpix_side_t send = {.buffer = sendbuf, .counts = sendcounts, .displs = sdispls, .type = sendtype};
    const mpix_side_t recv = {.buffer = recvbuf, .counts = recvcounts, .displs = rdispls, .type = recvtype};
    call_t call;

    return make_request(mpix_describe_blocks(&call, MCA_COLL_MSCCLPP_QUEUE_ALLTOALLV, &send, &recv, MPIX_NO_ROOT, comm),
                        &call, 1, request);
}

/* Uses the type of each block, not a common type of a side. make_request copies the lists. */
int MPIX_Mscclpp_alltoallw_init(const void *sendbuf, const int sendcounts[], const int sdispls[],
                                const MPI_Datatype sendtypes[], void *recvbuf, const int recvcounts[],
                                const int rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm,
                                MPIX_Mscclpp_request *request)
{
    const mpix_side_t send = {
        .buffer = sendbuf, .counts = sendcounts, .displs = sdispls, .type = MPI_BYTE, .types = sendtypes};
    const mpix_side_t recv = {
        .buffer = recvbuf, .counts = recvcounts, .displs = rdispls, .type = MPI_BYTE, .types = recvtypes};
    call_t call;

    return make_request(mpix_describe_blocks(&call, MCA_COLL_MSCCLPP_QUEUE_ALLTOALLW, &send, &recv, MPIX_NO_ROOT, comm),
                        &call, 1, request);
}

int MPIX_Mscclpp_neighbor_allgather_init(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
                                         MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm,
                                         MPIX_Mscclpp_request *request)
{
    const mpix_side_t send = {.buffer = sendbuf, .count = sendcount, .type = sendtype};
    const mpix_side_t recv = {.buffer = recvbuf, .count = recvcount, .type = recvtype};
    call_t call;

    return make_request(mpix_describe_neighbors(&call, MCA_COLL_MSCCLPP_QUEUE_NEIGHBOR_ALLGATHER, &send, &recv, comm),
                        &call, 1, request);
}

int MPIX_Mscclpp_neighbor_allgatherv_init(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                                          void *recvbuf, const int recvcounts[], const int displs[],
                                          MPI_Datatype recvtype, MPI_Comm comm, MPIX_Mscclpp_request *request)
{
    const mpix_side_t send = {.buffer = sendbuf, .count = sendcount, .type = sendtype};
    const mpix_side_t recv = {.buffer = recvbuf, .counts = recvcounts, .displs = displs, .type = recvtype};
    call_t call;

    return make_request(mpix_describe_neighbors(&call, MCA_COLL_MSCCLPP_QUEUE_NEIGHBOR_ALLGATHERV, &send, &recv, comm),
                        &call, 1, request);
}

int MPIX_Mscclpp_neighbor_alltoall_init(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
                                        MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm,
                                        MPIX_Mscclpp_request *request)
{
    const mpix_side_t send = {.buffer = sendbuf, .count = sendcount, .type = sendtype};
    const mpix_side_t recv = {.buffer = recvbuf, .count = recvcount, .type = recvtype};
    call_t call;

    return make_request(mpix_describe_neighbors(&call, MCA_COLL_MSCCLPP_QUEUE_NEIGHBOR_ALLTOALL, &send, &recv, comm),
                        &call, 1, request);
}

int MPIX_Mscclpp_neighbor_alltoallv_init(const void *sendbuf, const int sendcounts[], const int sdispls[],
                                         MPI_Datatype sendtype, void *recvbuf, const int recvcounts[],
                                         const int rdispls[], MPI_Datatype recvtype, MPI_Comm comm,
                                         MPIX_Mscclpp_request *request)
{
    const mpix_side_t send = {.buffer = sendbuf, .counts = sendcounts, .displs = sdispls, .type = sendtype};
    const mpix_side_t recv = {.buffer = recvbuf, .counts = recvcounts, .displs = rdispls, .type = recvtype};
    call_t call;

    return make_request(mpix_describe_neighbors(&call, MCA_COLL_MSCCLPP_QUEUE_NEIGHBOR_ALLTOALLV, &send, &recv, comm),
                        &call, 1, request);
}

/* Passes the displacements separately, as MPIX_Mscclpp_neighbor_alltoallw_enqueue does. */
int MPIX_Mscclpp_neighbor_alltoallw_init(const void *sendbuf, const int sendcounts[], const MPI_Aint sdispls[],
                                         const MPI_Datatype sendtypes[], void *recvbuf, const int recvcounts[],
                                         const MPI_Aint rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm,
                                         MPIX_Mscclpp_request *request)
{
    const mpix_side_t send = {.buffer = sendbuf, .counts = sendcounts, .type = MPI_BYTE, .types = sendtypes};
    const mpix_side_t recv = {.buffer = recvbuf, .counts = recvcounts, .type = MPI_BYTE, .types = recvtypes};
    call_t call;

    return make_request(mpix_describe_neighbors_w(&call, &send, sdispls, &recv, rdispls, comm), &call, 1, request);
}

/* Describes one partition. If there are fewer than 1, require_partitions frees the request again. */
int MPIX_Mscclpp_pallreduce_init(const void *sendbuf, void *recvbuf, int partitions, MPI_Count count,
                                 MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, MPIX_Mscclpp_request *request)
{
    call_t call;
    int code = make_request(mpix_describe_reduction(&call, MCA_COLL_MSCCLPP_QUEUE_ALLREDUCE, sendbuf, recvbuf, count,
                                                    NULL, datatype, op, MPIX_NO_ROOT, comm),
                            &call, partitions, request);

    if (code == MPI_SUCCESS) {
        code = require_partitions("pallreduce_init", request);
    }
    if (code == MPI_SUCCESS) {
        (*request)->is_partitioned = 1;
    }
    return code;
}

/*
 * Makes the sending or receiving side of a partitioned request between two ranks. The request becomes a broadcast in a
 * communicator of these two ranks. MPIX_Mscclpp_prepare makes this communicator and then sets the root, so the root is
 * 0 until then. A rank cannot send to itself. Errors have been reported, and there is nothing to free after an error.
 */
static int make_side(mpix_side_of_pair_t side, void *buf, int partitions, MPI_Count count, MPI_Datatype datatype,
                     int peer, int tag, MPI_Comm comm, MPIX_Mscclpp_request *request)
{
    const char *function = side == MPIX_SENDER ? "psend_init" : "precv_init";
    call_t call;
    int code = make_request(mpix_describe_bcast(&call, buf, count, datatype, 0, comm), &call, partitions, request);
    int rank, size;

    if (code == MPI_SUCCESS) {
        code = require_partitions(function, request);
    }
    if (code != MPI_SUCCESS) {
        return code;
    }
    (void)MPI_Comm_rank(comm, &rank);
    (void)MPI_Comm_size(comm, &size);
    if (peer < 0 || peer >= size || peer == rank || tag < 0) {
        mpix_request_discard(request);
        return mpix_request_refuse(comm, tag < 0 ? MPI_ERR_TAG : MPI_ERR_RANK, function,
                                   tag < 0 ? "the tag is negative" : "the other side is no rank, or this one");
    }
    (*request)->is_partitioned = 1;
    (*request)->side = side;
    (*request)->peer = peer;
    (*request)->tag = tag;
    return MPI_SUCCESS;
}

int MPIX_Mscclpp_psend_init(const void *buf, int partitions, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
                            MPI_Comm comm, MPIX_Mscclpp_request *request)
{
    return make_side(MPIX_SENDER, (void *)(uintptr_t)buf, partitions, count, datatype, dest, tag, comm, request);
}

int MPIX_Mscclpp_precv_init(void *buf, int partitions, MPI_Count count, MPI_Datatype datatype, int source, int tag,
                            MPI_Comm comm, MPIX_Mscclpp_request *request)
{
    return make_side(MPIX_RECEIVER, buf, partitions, count, datatype, source, tag, comm, request);
}
