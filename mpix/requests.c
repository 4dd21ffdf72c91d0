/*
 * Persistent requests. One that kernels release has a communicator and a stream of its own, in which each part waits
 * for its mark, is combined, and tells that it is done.
 */
#include "mpix/requests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpix/handles.h"
#include "mpix/words.h"

typedef mca_coll_mscclpp_queue_call_t call_t;

static int attach(MPIX_Mscclpp_request request, int how, void *stream, const char *function)
{
    if (request == NULL) {
        return mpix_request_refuse(MPI_COMM_NULL, MPI_ERR_REQUEST, function, "the request is NULL");
    }
    if (request->partitioned && how == BY_STREAM) {
        return mpix_request_refuse(request->users, MPI_ERR_ARG, function,
                                   "partitions are marked by kernels; use MPIX_Mscclpp_attach_kernels");
    }
    if (request->prepared && how != request->attached) {
        return mpix_request_refuse(
            request->users, MPI_ERR_ARG, function,
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

/* The request, which is to be prepared; else NULL, after an error. */
static struct mpix_mscclpp_request *prepared(MPIX_Mscclpp_request request, const char *function, int *code_p)
{
    if (request == NULL || !request->prepared) {
        *code_p = mpix_request_refuse(request == NULL ? MPI_COMM_NULL : request->users, MPI_ERR_REQUEST, function,
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
        return mpix_request_refuse(request->users, MPI_ERR_ARG, "request_get_device",
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
    mpix_write_partitions(abi, &watch, mpix_request_mark(request, 0), mpix_request_end(request, 0),
                          (uint32_t)request->partitions, handle);
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
        code = mpix_stream_store(request->stream, mpix_request_end(request, 0), ++request->starts);
    }
    return code;
}

static int start_for_kernels(struct mpix_mscclpp_request *request)
{
    const uint64_t start = ++request->starts;
    int code = MPI_SUCCESS;

    /* A receiver is ready once it has been started. */
    for (int i = 0; request->side == RECEIVER && i < request->partitions; ++i) {
        mpix_word_set(mpix_request_mark(request, i), start);
    }
    for (int i = 0; code == MPI_SUCCESS && i < request->partitions; ++i) {
        code = mpix_stream_await(request->own, mpix_request_mark(request, i), start, &request->words[ABORT_WORD]);
        if (code == MPI_SUCCESS) {
            code = enqueue(request, i, request->own);
        }
        if (code == MPI_SUCCESS) {
            code = mpix_stream_store(request->own, mpix_request_end(request, i), start);
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
                   : mpix_stream_await(request->stream, mpix_request_end(request, request->partitions - 1),
                                       request->starts, &request->words[ABORT_WORD]);
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
    if (low < 0 || high >= request->partitions || low > high || request->attached != BY_KERNELS ||
        request->side == RECEIVER) {
        char text[128];

        (void)snprintf(text, sizeof(text),
                       "partitions %d to %d are not allowed; use 0 to %d of a request that kernels "
                       "release",
                       low, high, request->partitions - 1);
        return mpix_request_refuse(request->users, MPI_ERR_ARG, "pready", text);
    }
    for (int i = low; i <= high; ++i) {
        mpix_word_set(mpix_request_mark(request, i), mpix_word_get(mpix_request_mark(request, i)) + 1);
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
        return mpix_request_refuse(request->users, MPI_ERR_ARG, "parrived", "there is no such partition, or no flag");
    }
    *flag = mpix_word_get(mpix_request_end(request, partition)) >= request->starts;
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
        return mpix_request_refuse(MPI_COMM_NULL, MPI_ERR_REQUEST, "request_free", "the request is NULL");
    }
    freed = *request;
    if (freed->prepared && freed->failed == MPI_SUCCESS &&
        mpix_word_get(mpix_request_end(freed, freed->partitions - 1)) < freed->starts) {
        return mpix_request_refuse(freed->users, MPI_ERR_REQUEST, "request_free",
                                   "an execution is under way; wait for it with MPIX_Mscclpp_wait");
    }
    *request = NULL;
    mpix_request_unprepare(freed);
    free(freed);
    return MPI_SUCCESS;
}
