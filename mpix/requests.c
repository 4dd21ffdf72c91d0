/*
 * Persistent requests. One that kernels release has a communicator and a stream of its own, in which each part waits
 * for its mark, is combined, and tells that it is done.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpix/handles.h"
#include "mpix/include/mpix_mscclpp_requests.h"
#include "mpix/internal.h"
#include "mpix/words.h"

typedef mca_coll_mscclpp_queue_call_t call_t;

enum { NOT_ATTACHED, BY_STREAM, BY_KERNELS };

/* Words for a request: abort, what handles want for reports, then a mark and an end for each partition. */
enum { ABORT_WORD, REPORT_WORDS, FIRST_MARK = REPORT_WORDS + MSCCLPP_DEV_USER_REPORT_WORDS };

struct mpix_mscclpp_request {
    call_t call; /* of one partition; the first one's buffers */
    MPI_Comm users;
    int partitioned;
    int partitions;
    size_t part_bytes;
    int attached;
    int prepared;
    void *stream; /* of the application */
    void *own;    /* stream; NULL if the application's stream releases it */
    uint64_t *words;
    uint64_t starts; /* that are not in a graph */
    int failed;      /* the error code of a start */
};

static uint64_t *mark_of(const struct mpix_mscclpp_request *request, int partition)
{
    return &request->words[FIRST_MARK + partition];
}

static uint64_t *end_of(const struct mpix_mscclpp_request *request, int partition)
{
    return &request->words[FIRST_MARK + request->partitions + partition];
}

static int refuse(MPI_Comm comm, int code, const char *function, const char *what)
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
        return refuse(comm, MPI_ERR_ARG, "pallreduce_init", "a request has at least 1 partition");
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

static int attach(MPIX_Mscclpp_request request, int how, void *stream, const char *function)
{
    if (request == NULL) {
        return refuse(MPI_COMM_NULL, MPI_ERR_REQUEST, function, "the request is NULL");
    }
    if (request->partitioned && how == BY_STREAM) {
        return refuse(request->users, MPI_ERR_ARG, function,
                      "partitions are marked by kernels; use MPIX_Mscclpp_attach_kernels");
    }
    if (request->prepared && how != request->attached) {
        return refuse(request->users, MPI_ERR_ARG, function,
                      "the request has been prepared for the other kind; attach it before MPIX_Mscclpp_prepare");
    }
    request->attached = how;
    request->stream = stream;
    return MPI_SUCCESS;
}

int MPIX_Mscclpp_attach_stream(MPIX_Mscclpp_request request, void *stream)
{
    return attach(request, BY_STREAM, stream, "attach_stream");
}

int MPIX_Mscclpp_attach_kernels(MPIX_Mscclpp_request request, void *stream)
{
    return attach(request, BY_KERNELS, stream, "attach_kernels");
}

/* Gives back what prepare has made. */
static void unprepare(struct mpix_mscclpp_request *request)
{
    if (request->own != NULL) {
        (void)mpix_own_stream_free(request->own);
        request->own = NULL;
    }
    if (request->call.comm != request->users) {
        (void)MPI_Comm_free(&request->call.comm);
    }
    request->call.comm = request->users;
    mpix_words_free(request->words);
    request->words = NULL;
    request->prepared = 0;
}

static int prepare(struct mpix_mscclpp_request *request)
{
    const mca_coll_mscclpp_api_t *component;
    int code = MPI_SUCCESS, queues = 0, all = 0;

    component = mpix_component(&code);
    if (request->attached == BY_KERNELS && code == MPI_SUCCESS) {
        code = MPI_Comm_dup(request->users, &request->call.comm);
        if (code != MPI_SUCCESS) {
            request->call.comm = request->users;
            return code;
        }
    }
    if (component != NULL && code == MPI_SUCCESS) {
        code = component->prepare(request->call.comm, request->call.sendbuf, request->call.recvbuf, &queues);
        request->words = mpix_words_make(FIRST_MARK + 2 * (size_t)request->partitions);
        queues = code == MPI_SUCCESS && queues && request->words != NULL;
        queues = queues && (request->attached != BY_KERNELS || mpix_own_stream_make(&request->own) == MPI_SUCCESS);
    }
    if (MPI_Allreduce(&queues, &all, 1, MPI_INT, MPI_MIN, request->users) != MPI_SUCCESS || !all) {
        unprepare(request);
        return code != MPI_SUCCESS ? code : MPI_ERR_UNSUPPORTED_OPERATION;
    }
    request->prepared = 1;
    return MPI_SUCCESS;
}

int MPIX_Mscclpp_prepare(int n, MPIX_Mscclpp_request requests[])
{
    for (int i = 0; i < n; ++i) {
        int code;

        if (requests[i] == NULL || requests[i]->attached == NOT_ATTACHED) {
            return refuse(requests[i] == NULL ? MPI_COMM_NULL : requests[i]->users, MPI_ERR_REQUEST, "prepare",
                          "a request is NULL, or attached to nothing");
        }
        code = requests[i]->prepared ? MPI_SUCCESS : prepare(requests[i]);
        if (code == MPI_ERR_UNSUPPORTED_OPERATION) {
            return refuse(requests[i]->users, code, "prepare",
                          "calls with these buffers cannot be queued: see mpix_mscclpp.h");
        }
        if (code != MPI_SUCCESS) {
            return mpix_report(requests[i]->users, code);
        }
    }
    return MPI_SUCCESS;
}

/* The request, which is to be prepared; else NULL, after an error. */
static struct mpix_mscclpp_request *prepared(MPIX_Mscclpp_request request, const char *function, int *code_p)
{
    if (request == NULL || !request->prepared) {
        *code_p = refuse(request == NULL ? MPI_COMM_NULL : request->users, MPI_ERR_REQUEST, function,
                         "a request is NULL, or not prepared");
        return NULL;
    }
    return request;
}

int MPIX_Mscclpp_request_get_device(MPIX_Mscclpp_request request, unsigned abi, void *handle, size_t size)
{
    mscclpp_dev_user_watch_t watch;
    int code, rank, ranks;

    if (prepared(request, "request_get_device", &code) == NULL) {
        return code;
    }
    if (mpix_partitions_handle_size(abi) == 0 || size < mpix_partitions_handle_size(abi) || handle == NULL) {
        return refuse(request->users, MPI_ERR_ARG, "request_get_device",
                      mpix_partitions_handle_size(abi) == 0 ? "this library does not know that abi"
                                                            : "the handle is NULL or too small");
    }
    (void)MPI_Comm_rank(request->users, &rank);
    (void)MPI_Comm_size(request->users, &ranks);
    memset(&watch, 0, sizeof(watch));
    watch.rank = (uint32_t)rank;
    watch.ranks = (uint32_t)ranks;
    watch.abort = &request->words[ABORT_WORD];
    watch.report = &request->words[REPORT_WORDS];
    mpix_write_partitions(abi, &watch, mark_of(request, 0), end_of(request, 0), (uint32_t)request->partitions, handle);
    return MPI_SUCCESS;
}

/* Queues one partition. */
static int enqueue(struct mpix_mscclpp_request *request, int partition, void *stream)
{
    const size_t offset = (size_t)partition * request->part_bytes;
    mca_coll_mscclpp_queue_end_t end;
    call_t call = request->call;
    int code;

    call.stream = stream;
    call.recvbuf = (char *)call.recvbuf + offset;
    if (call.sendbuf != MPI_IN_PLACE && call.sendbuf != NULL) {
        call.sendbuf = (const char *)call.sendbuf + offset;
    }
    end = mpix_queue(&call, &code);
    if (end == MCA_COLL_MSCCLPP_NOT_QUEUED) {
        return mpix_stream_is_capturing(stream) ? mpix_error_code(MPIX_MSCCLPP_ERR_CAPTURE)
                                                : MPI_ERR_UNSUPPORTED_OPERATION;
    }
    return mpix_code_of(end, code);
}

static int start_in_stream(struct mpix_mscclpp_request *request)
{
    const int captured = mpix_stream_is_capturing(request->stream);
    int code = enqueue(request, 0, request->stream);

    if (code == MPI_SUCCESS && !captured) {
        code = mpix_stream_store(request->stream, end_of(request, 0), ++request->starts);
    }
    return code;
}

static int start_for_kernels(struct mpix_mscclpp_request *request)
{
    const uint64_t start = ++request->starts;
    int code = MPI_SUCCESS;

    for (int i = 0; code == MPI_SUCCESS && i < request->partitions; ++i) {
        code = mpix_stream_await(request->own, mark_of(request, i), start, &request->words[ABORT_WORD]);
        if (code == MPI_SUCCESS) {
            code = enqueue(request, i, request->own);
        }
        if (code == MPI_SUCCESS) {
            code = mpix_stream_store(request->own, end_of(request, i), start);
        }
    }
    if (code != MPI_SUCCESS) {
        mpix_word_set(&request->words[ABORT_WORD], 1);
    }
    return code;
}

int MPIX_Mscclpp_start(int n, MPIX_Mscclpp_request requests[])
{
    for (int i = 0; i < n; ++i) {
        int code;

        if (prepared(requests[i], "start", &code) == NULL) {
            return code;
        }
        code = requests[i]->failed != MPI_SUCCESS   ? requests[i]->failed
               : requests[i]->attached == BY_STREAM ? start_in_stream(requests[i])
                                                    : start_for_kernels(requests[i]);
        if (code != MPI_SUCCESS) {
            /* What cannot be captured can be started otherwise. */
            requests[i]->failed =
                requests[i]->attached == BY_STREAM && code == mpix_error_code(MPIX_MSCCLPP_ERR_CAPTURE) ? MPI_SUCCESS
                                                                                                        : code;
            return mpix_report(requests[i]->users, code);
        }
    }
    return MPI_SUCCESS;
}

int MPIX_Mscclpp_complete(int n, MPIX_Mscclpp_request requests[])
{
    for (int i = 0; i < n; ++i) {
        struct mpix_mscclpp_request *request;
        int code = MPI_SUCCESS;

        request = prepared(requests[i], "complete", &code);
        if (request == NULL) {
            return code;
        }
        if (request->attached == BY_STREAM) {
            continue;
        }
        code = request->failed != MPI_SUCCESS ? request->failed
               : mpix_stream_is_capturing(request->stream)
                   ? mpix_error_code(MPIX_MSCCLPP_ERR_CAPTURE)
                   : mpix_stream_await(request->stream, end_of(request, request->partitions - 1), request->starts,
                                       &request->words[ABORT_WORD]);
        if (code != MPI_SUCCESS) {
            return mpix_report(request->users, code);
        }
    }
    return MPI_SUCCESS;
}

int MPIX_Mscclpp_pready(int low, int high, MPIX_Mscclpp_request request)
{
    int code;

    if (prepared(request, "pready", &code) == NULL) {
        return code;
    }
    if (low < 0 || high >= request->partitions || low > high || request->attached != BY_KERNELS) {
        char text[128];

        (void)snprintf(text, sizeof(text),
                       "partitions %d to %d are not allowed; use 0 to %d of a request that kernels "
                       "release",
                       low, high, request->partitions - 1);
        return refuse(request->users, MPI_ERR_ARG, "pready", text);
    }
    for (int i = low; i <= high; ++i) {
        mpix_word_set(mark_of(request, i), mpix_word(mark_of(request, i)) + 1);
    }
    return MPI_SUCCESS;
}

/* The error of the request's work so far. */
static int look(const struct mpix_mscclpp_request *request)
{
    char text[320];
    int code = MPI_SUCCESS;

    if (request->failed == MPI_SUCCESS) {
        (void)MPIX_Mscclpp_get_async_error(request->call.comm, &code, text, (int)sizeof(text));
    }
    return request->failed != MPI_SUCCESS ? request->failed : code;
}

int MPIX_Mscclpp_parrived(MPIX_Mscclpp_request request, int partition, int *flag)
{
    int code;

    if (prepared(request, "parrived", &code) == NULL) {
        return code;
    }
    if (partition < 0 || partition >= request->partitions || flag == NULL) {
        return refuse(request->users, MPI_ERR_ARG, "parrived", "there is no such partition, or no flag");
    }
    *flag = mpix_word(end_of(request, partition)) >= request->starts;
    return mpix_report(request->users, look(request));
}

int MPIX_Mscclpp_test(MPIX_Mscclpp_request request, int *flag)
{
    return MPIX_Mscclpp_parrived(request, request == NULL ? 0 : request->partitions - 1, flag);
}

int MPIX_Mscclpp_wait(int n, MPIX_Mscclpp_request requests[])
{
    for (int i = 0; i < n; ++i) {
        int code;

        if (prepared(requests[i], "wait", &code) == NULL) {
            return code;
        }
        code = mpix_stream_wait(requests[i]->attached == BY_STREAM ? requests[i]->stream : requests[i]->own);
        if (code == MPI_SUCCESS) {
            code = look(requests[i]);
        }
        if (code != MPI_SUCCESS) {
            return mpix_report(requests[i]->users, code);
        }
    }
    return MPI_SUCCESS;
}

int MPIX_Mscclpp_request_free(MPIX_Mscclpp_request *request)
{
    struct mpix_mscclpp_request *freed;

    if (request == NULL || *request == NULL) {
        return refuse(MPI_COMM_NULL, MPI_ERR_REQUEST, "request_free", "the request is NULL");
    }
    freed = *request;
    if (freed->prepared && freed->failed == MPI_SUCCESS &&
        mpix_word(end_of(freed, freed->partitions - 1)) < freed->starts) {
        return refuse(freed->users, MPI_ERR_REQUEST, "request_free",
                      "an execution is under way; wait for it with MPIX_Mscclpp_wait");
    }
    *request = NULL;
    unprepare(freed);
    free(freed);
    return MPI_SUCCESS;
}
