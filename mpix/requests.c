/* Attaches, starts, waits for and abandons persistent requests. requests.h explains marks and end words. */
#include "mpix/requests.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "mpix/handles.h"
#include "mpix/include/mpix_mscclpp/types.h"
#include "mpix/plain.h"

typedef mca_coll_mscclpp_queue_call_t call_t;
typedef struct mpix_mscclpp_request request_t;

/*
 * A mark that is larger than any number of starts, and so releases everything that waits for the mark. It is far below
 * the largest number, because kernels add to marks.
 */
#define RELEASED (UINT64_MAX / 2)

/*
 * Attaches a request to a stream or graph, after checking the arguments. A prepared request can only get another stream
 * or graph of the same kind, because the preparation depends on the kind. A NULL stream is CUDA's default stream, which
 * the host twin does not have. `function` is the name of the calling function without its prefix, for messages. Returns
 * MPI_ERR_REQUEST or MPI_ERR_ARG, which has been reported, without changing the request.
 */
static int attach(request_t *request, mpix_condition_t condition, void *stream, void *graph, const char *function)
{
    if (request == NULL) {
        return mpix_request_refuse(MPI_COMM_NULL, MPI_ERR_REQUEST, function, "the request is NULL");
    }
    if (request->is_partitioned && condition != MPIX_BY_KERNELS) {
        return mpix_request_refuse(request->app_comm, MPI_ERR_ARG, function,
                                   "partitions are marked by kernels; use MPIX_Mscclpp_attach_kernels");
    }
    if (request->is_prepared && condition != request->condition) {
        return mpix_request_refuse(
            request->app_comm, MPI_ERR_ARG, function,
            "the request has been prepared for the other kind; attach it before MPIX_Mscclpp_prepare");
    }
    if (condition == MPIX_BY_GRAPH ? graph == NULL : stream == NULL && mpix_backend() == &mpix_backend_twin) {
        return mpix_request_refuse(request->app_comm, MPI_ERR_ARG, function,
                                   condition == MPIX_BY_GRAPH
                                       ? "the graph is NULL"
                                       : "the stream is NULL; on the host twin use MPIX_Mscclpp_host_stream_create");
    }
    request->condition = condition;
    request->stream = stream;
    request->graph = graph;
    return MPI_SUCCESS;
}

int MPIX_Mscclpp_attach_stream(MPIX_Mscclpp_request request, void *stream)
{
    return attach(request, MPIX_BY_STREAM, stream, NULL, "attach_stream");
}

int MPIX_Mscclpp_attach_kernels(MPIX_Mscclpp_request request, void *stream)
{
    return attach(request, MPIX_BY_KERNELS, stream, NULL, "attach_kernels");
}

int MPIX_Mscclpp_attach_graph(MPIX_Mscclpp_request request, void *graph)
{
    return attach(request, MPIX_BY_GRAPH, NULL, graph, "attach_graph");
}

/* Checks that a request is prepared. Returns an MPI error code; an error has been reported. */
static int check_prepared(MPIX_Mscclpp_request request, const char *function)
{
    if (request == NULL || !request->is_prepared) {
        return mpix_request_refuse(request == NULL ? MPI_COMM_NULL : request->app_comm, MPI_ERR_REQUEST, function,
                                   "a request is NULL, or not prepared");
    }
    return MPI_SUCCESS;
}

/*
 * Writes a handle without a deadline: kernels that wait for the request stop waiting only if the request is abandoned.
 */
int MPIX_Mscclpp_request_get_device(MPIX_Mscclpp_request request, unsigned abi, void *handle, size_t size)
{
    mscclpp_dev_user_watch_t watch;
    int code = check_prepared(request, "request_get_device"), rank, ranks;

    if (code != MPI_SUCCESS) {
        return code;
    }
    code = mpix_check_handle("request_get_device", abi, handle, size, mpix_partitions_handle_size(abi));
    if (code != MPI_SUCCESS) {
        return mpix_report(request->app_comm, code);
    }
    (void)MPI_Comm_rank(request->app_comm, &rank);
    (void)MPI_Comm_size(request->app_comm, &ranks);
    memset(&watch, 0, sizeof(watch));
    watch.rank = (uint32_t)rank;
    watch.ranks = (uint32_t)ranks;
    watch.abort = &request->words[MPIX_ABORT_WORD];
    watch.report = &request->words[MPIX_REPORT_WORDS];
    mpix_write_partitions(abi, &watch, mpix_request_mark_word(request, 0), mpix_request_end_word(request, 0),
                          (uint32_t)request->partitions, handle);
    return MPI_SUCCESS;
}

/* Sets *node to the node that the last start made. Before the first start, and on the host twin, it is NULL. */
int MPIX_Mscclpp_request_get_node(MPIX_Mscclpp_request request, void **node)
{
    int code = check_prepared(request, "request_get_node");

    if (code != MPI_SUCCESS) {
        return code;
    }
    if (request->condition != MPIX_BY_GRAPH || node == NULL) {
        return mpix_request_refuse(request->app_comm, MPI_ERR_ARG, "request_get_node",
                                   "the request is not attached to a graph, or there is no place for the node");
    }
    *node = request->node;
    return MPI_SUCCESS;
}

/*
 * Returns the call of one partition: the offset of the partition is added to both buffers, but MPI_IN_PLACE is not
 * changed. A broadcast has no send buffer. Requests that are not partitioned only have partition 0, whose offset is 0,
 * whatever part_bytes is.
 */
call_t mpix_request_part(const request_t *request, int partition)
{
    const size_t offset = (size_t)partition * request->part_bytes;
    call_t call = request->call;

    if (offset > 0) {
        call.recvbuf = (char *)call.recvbuf + offset;
        if (call.sendbuf != MPI_IN_PLACE && call.sendbuf != NULL) {
            call.sendbuf = (const char *)call.sendbuf + offset;
        }
    }
    return call;
}

/*
 * Queues the call of one partition in a stream. Returns an MPI error code, which is not reported. If the component does
 * not queue the call, the code is MPIX_MSCCLPP_ERR_CAPTURE in a captured stream, and otherwise
 * MPI_ERR_UNSUPPORTED_OPERATION.
 */
static int enqueue_partition(request_t *request, int partition, void *stream)
{
    call_t call = mpix_request_part(request, partition);
    mca_coll_mscclpp_queue_end_t end;
    int code;

    call.stream = stream;
    end = mpix_queue(&call, &code);
    if (end == MCA_COLL_MSCCLPP_NOT_QUEUED) {
        return mpix_stream_is_capturing(stream) ? mpix_error_code(MPIX_MSCCLPP_ERR_CAPTURE)
                                                : MPI_ERR_UNSUPPORTED_OPERATION;
    }
    return mpix_code_of(end, code);
}

/*
 * Starts a request in the order of the application's stream: queues the call, and then a store to its end word. In a
 * captured stream there is no store and the start is not counted, so MPIX_Mscclpp_wait does not wait for it. Returns an
 * MPI error code, which is not reported; the following functions do the same.
 */
static int start_in_stream(request_t *request)
{
    const int is_captured = mpix_stream_is_capturing(request->stream);
    int code = enqueue_partition(request, 0, request->stream);

    /* A graph repeats the recorded operations unchanged, so it cannot count starts. */
    if (code == MPI_SUCCESS && !is_captured) {
        code = request->backend->stream_store(request->stream, mpix_request_end_word(request, 0),
                                              request->start_count + 1);
        request->start_count += code == MPI_SUCCESS; /* without the store nothing would tell that the start has ended */
    }
    return code;
}

/*
 * Captures the call in the request's own stream, and adds a copy of the captured graph to the application's graph. The
 * capture is ended even after an error, so that the stream can be used again. The captured graph is always freed,
 * because the application's graph contains a copy. After an error the application's graph is unchanged.
 */
static int start_in_graph(request_t *request)
{
    const mpix_backend_t *backend = request->backend;
    void *captured_graph = NULL;
    int code = backend->capture_begin(request->own_stream), end_code;

    if (code != MPI_SUCCESS) {
        return code;
    }
    code = enqueue_partition(request, 0, request->own_stream);
    end_code = backend->capture_end(request->own_stream, &captured_graph);
    if (code == MPI_SUCCESS && end_code == MPI_SUCCESS) {
        code = backend->graph_add(request->graph, captured_graph, &request->node);
    }
    if (captured_graph != NULL) {
        backend->graph_free(captured_graph);
    }
    return code != MPI_SUCCESS ? code : end_code;
}

void mpix_request_abandon(request_t *request, int code)
{
    request->failure_code = code;
    mpix_word_set(&request->words[MPIX_ABORT_WORD], 1);
    for (int i = 0; i < request->partitions; ++i) {
        mpix_word_set(mpix_request_mark_word(request, i), RELEASED);
    }
}

/*
 * Ends a failed request that kernels release, and lets the other ranks know. Its calls must fail before its marks are
 * released: otherwise they would send data that are not ready. Returns `code`.
 */
static int fail_for_kernels(request_t *request, int code)
{
    int component_code;
    const mca_coll_mscclpp_api_t *component = mpix_component(&component_code);

    if (!request->is_plain) {
        component->fail(request->call.comm);
    }
    mpix_request_abandon(request, code);
    return code;
}

/*
 * Starts a request that kernels release. Queues three operations for each partition: a wait for its mark, the call, and
 * a store to its end word. Because of the stream's order, partitions end in the order of their numbers. Without the
 * component nothing is queued, because mpix_plain_progress reads the marks. After an error the request is abandoned, so
 * that the waits that are already queued end.
 */
static int start_for_kernels(request_t *request)
{
    const mpix_backend_t *backend = request->backend;
    const uint64_t start = ++request->start_count;
    int code = MPI_SUCCESS;

    /* No kernel marks the partitions of a receiver: they are ready as soon as the request is started. */
    for (int i = 0; request->side == MPIX_RECEIVER && i < request->partitions; ++i) {
        mpix_word_set(mpix_request_mark_word(request, i), start);
    }
    for (int i = 0; !request->is_plain && code == MPI_SUCCESS && i < request->partitions; ++i) {
        code = backend->stream_await(request->own_stream, mpix_request_mark_word(request, i), start);
        if (code == MPI_SUCCESS) {
            code = enqueue_partition(request, i, request->own_stream);
        }
        if (code == MPI_SUCCESS) {
            code = backend->stream_store(request->own_stream, mpix_request_end_word(request, i), start);
        }
    }
    return code == MPI_SUCCESS ? code : fail_for_kernels(request, code);
}

/*
 * Checks the marks of the request's kernels. Returns MPI_ERR_ARG, after a message, if a kernel has marked a partition
 * that the request does not have: the partition that was meant may never be marked. Otherwise returns MPI_SUCCESS.
 */
static int check_marks(const request_t *request)
{
    const uint64_t *report = &request->words[MPIX_REPORT_WORDS];

    if (mpix_word_get(&report[MPIX_MSCCLPP_REPORT_MISUSE]) == 0) {
        return MPI_SUCCESS;
    }
    (void)fprintf(
        stderr, "libmpix_mscclpp: mpix_pready: a kernel of rank %llu marked partition %llu; from 0 to %d are allowed\n",
        (unsigned long long)mpix_word_get(&report[MPIX_MSCCLPP_REPORT_RANK]),
        (unsigned long long)mpix_word_get(&report[MPIX_MSCCLPP_REPORT_OFFSET]), request->partitions - 1);
    return MPI_ERR_ARG;
}

/*
 * Returns the error of the request's work so far, or MPI_SUCCESS, without waiting. The first error abandons the
 * request. An error of any queued call of the request's communicator counts as an error of the request. Without the
 * component, this function also makes the executions progress.
 */
static int check_failure(request_t *request)
{
    char text[320];
    int code = MPI_SUCCESS;

    if (request->failure_code == MPI_SUCCESS) {
        code = check_marks(request);
    }
    if (code != MPI_SUCCESS) {
        return fail_for_kernels(request, code);
    }
    if (request->is_plain) {
        mpix_plain_progress();
    } else if (request->failure_code == MPI_SUCCESS) {
        (void)MPIX_Mscclpp_get_async_error(request->call.comm, &code, text, (int)sizeof(text));
        if (code != MPI_SUCCESS) {
            mpix_request_abandon(request, code);
        }
    }
    return request->failure_code;
}

/*
 * Waits on the host until all starts of a request have ended, or one of them fails. Meanwhile the function checks for
 * errors, since the stream may wait for marks that are never stored.
 */
static int wait_on_host(request_t *request)
{
    int code = check_failure(request), has_message;

    while (code == MPI_SUCCESS && !mpix_request_has_ended(request)) {
        /* The probe lets MPI make progress, on which other ranks may depend. Its result is not needed. */
        (void)MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, request->call.comm, &has_message, MPI_STATUS_IGNORE);
        (void)sched_yield();
        code = check_failure(request);
    }
    return code;
}

/*
 * Starts a request in the order of a stream, without the component: waits for the stream, and then for MPI's own call.
 * So the execution has ended when this function returns.
 */
static int start_plain(request_t *request)
{
    int code;

    if (mpix_stream_is_capturing(request->stream)) {
        return mpix_error_code(MPIX_MSCCLPP_ERR_CAPTURE);
    }
    code = mpix_stream_wait(request->stream);
    if (code != MPI_SUCCESS) {
        return code;
    }
    mpix_word_set(mpix_request_mark_word(request, 0), ++request->start_count);
    return wait_on_host(request);
}

/*
 * Starts a request in the way that it is attached. The error is stored in the request, so that further starts return
 * it, too; start_for_kernels stores its own error. check_prepared has checked that the request is prepared, and so
 * attached.
 */
static int start_request(request_t *request)
{
    int code;

    switch (request->condition) {
    case MPIX_BY_STREAM:
        code = request->is_plain ? start_plain(request) : start_in_stream(request);
        break;
    case MPIX_BY_GRAPH:
        code = start_in_graph(request);
        break;
    default:
        return start_for_kernels(request);
    }
    /* A call that cannot be captured is no failure of the request, which can still be started outside of a capture. */
    if (code != mpix_error_code(MPIX_MSCCLPP_ERR_CAPTURE)) {
        request->failure_code = code;
    }
    return code;
}

/*
 * Stops at the first request that fails; the requests before it have been started. A request that failed earlier
 * returns its error again, and is not started.
 */
int MPIX_Mscclpp_start(int n, MPIX_Mscclpp_request requests[])
{
    for (int i = 0; i < n; ++i) {
        int code = check_prepared(requests[i], "start");

        if (code != MPI_SUCCESS) {
            return code;
        }
        code = requests[i]->failure_code != MPI_SUCCESS ? requests[i]->failure_code : start_request(requests[i]);
        if (code != MPI_SUCCESS) {
            return mpix_report(requests[i]->app_comm, code);
        }
    }
    return MPI_SUCCESS;
}

/*
 * Makes the application's stream wait for the end of a request that kernels release. Without the component the host
 * waits. In a captured stream returns MPIX_MSCCLPP_ERR_CAPTURE, which does not make the request fail. Errors are not
 * reported.
 */
static int complete_request(request_t *request)
{
    int code;

    if (request->failure_code != MPI_SUCCESS) {
        return request->failure_code;
    }
    if (mpix_stream_is_capturing(request->stream)) {
        return mpix_error_code(MPIX_MSCCLPP_ERR_CAPTURE);
    }
    if (request->is_plain) {
        return wait_on_host(request);
    }
    code = request->backend->stream_await(request->stream, mpix_request_end_word(request, request->partitions - 1),
                                          request->start_count);
    if (code == MPI_SUCCESS) {
        /* The wait reads a word of the request, which may be freed as soon as this store is seen. */
        code = request->backend->stream_store(request->stream, &request->words[MPIX_PASSED_WORD],
                                              request->complete_count + 1);
        request->complete_count += code == MPI_SUCCESS;
    }
    return code;
}

/* Skips requests of a stream or a graph, because their executions are part of the stream or the graph. */
int MPIX_Mscclpp_complete(int n, MPIX_Mscclpp_request requests[])
{
    for (int i = 0; i < n; ++i) {
        int code = check_prepared(requests[i], "complete");

        if (code != MPI_SUCCESS) {
            return code;
        }
        code = requests[i]->condition == MPIX_BY_KERNELS ? complete_request(requests[i]) : MPI_SUCCESS;
        if (code != MPI_SUCCESS) {
            return mpix_report(requests[i]->app_comm, code);
        }
    }
    return MPI_SUCCESS;
}

/*
 * Adds 1 to each mark by a load and a store. In each start, a partition is marked once, either by the host or by a
 * kernel, so nothing else changes the word at the same time.
 */
int MPIX_Mscclpp_pready(int low, int high, MPIX_Mscclpp_request request)
{
    int code = check_prepared(request, "pready");

    if (code != MPI_SUCCESS) {
        return code;
    }
    if (request->condition != MPIX_BY_KERNELS || request->side == MPIX_RECEIVER) {
        return mpix_request_refuse(request->app_comm, MPI_ERR_REQUEST, "pready",
                                   "only requests that kernels release, and not the receiving side, are marked ready");
    }
    if (low < 0 || high >= request->partitions || low > high) {
        char text[96];

        (void)snprintf(text, sizeof(text), "partitions %d to %d; from 0 to %d are allowed", low, high,
                       request->partitions - 1);
        return mpix_request_refuse(request->app_comm, MPI_ERR_ARG, "pready", text);
    }
    for (int i = low; i <= high; ++i) {
        mpix_word_set(mpix_request_mark_word(request, i), mpix_word_get(mpix_request_mark_word(request, i)) + 1);
    }
    return MPI_SUCCESS;
}

/* Sets *flag even after an error of the request's work. If the request was never started, *flag becomes 1. */
int MPIX_Mscclpp_parrived(MPIX_Mscclpp_request request, int partition, int *flag)
{
    int code = check_prepared(request, "parrived");

    if (code != MPI_SUCCESS) {
        return code;
    }
    if (partition < 0 || partition >= request->partitions || flag == NULL) {
        return mpix_request_refuse(request->app_comm, MPI_ERR_ARG, "parrived",
                                   "there is no such partition, or no flag");
    }
    code = check_failure(request);
    *flag = mpix_word_get(mpix_request_end_word(request, partition)) >= request->start_count;
    return mpix_report(request->app_comm, code);
}

int MPIX_Mscclpp_test(MPIX_Mscclpp_request request, int *flag)
{
    return MPIX_Mscclpp_parrived(request, request == NULL ? 0 : request->partitions - 1, flag);
}

/*
 * Waits on the host for all starts of a request: for its end words if kernels release it, or for the stream to which it
 * is attached. Does not wait for a graph. Returns the error of the request's work, which is not reported.
 */
static int wait_for_request(request_t *request)
{
    int code;

    if (request->condition == MPIX_BY_KERNELS) {
        return wait_on_host(request);
    }
    /* The application itself has to wait for the graph after it launches it. */
    code = request->condition == MPIX_BY_STREAM ? mpix_stream_wait(request->stream) : MPI_SUCCESS;
    return code != MPI_SUCCESS ? code : wait_on_host(request); /* earlier starts may be in another stream */
}

/* Stops at the first request that fails, without waiting for the requests after it. */
int MPIX_Mscclpp_wait(int n, MPIX_Mscclpp_request requests[])
{
    for (int i = 0; i < n; ++i) {
        int code = check_prepared(requests[i], "wait");

        if (code != MPI_SUCCESS) {
            return code;
        }
        code = wait_for_request(requests[i]);
        if (code != MPI_SUCCESS) {
            return mpix_report(requests[i]->app_comm, code);
        }
    }
    return MPI_SUCCESS;
}

/*
 * A request that has failed can be freed at any time: what was queued before the failure ends, and is waited for. The
 * waits in the stream of a request that kernels release were ended when the request was abandoned. Starts of a graph
 * are not counted, so the application has to make sure that its graphs have ended.
 */
int MPIX_Mscclpp_request_free(MPIX_Mscclpp_request *request)
{
    request_t *freed;

    if (request == NULL || *request == NULL) {
        return mpix_request_refuse(MPI_COMM_NULL, MPI_ERR_REQUEST, "request_free", "the request is NULL");
    }
    freed = *request;
    if (freed->is_prepared && freed->failure_code == MPI_SUCCESS && !mpix_request_has_ended(freed)) {
        return mpix_request_refuse(freed->app_comm, MPI_ERR_REQUEST, "request_free",
                                   "an execution is under way; wait for it with MPIX_Mscclpp_wait");
    }
    mpix_request_unprepare(freed);
    mpix_request_discard(request);
    return MPI_SUCCESS;
}
