#include "mpix/requests.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "mpix/handles.h"
#include "mpix/plain.h"

typedef mca_coll_mscclpp_queue_call_t call_t;
typedef struct mpix_mscclpp_request request_t;

/*
 * A mark beyond any count of starts, which releases whoever waits for one. It is far below the largest number, since
 * kernels add to marks.
 */
#define RELEASED (UINT64_MAX / 2)

/*
 * Attaches a request to a stream or graph, after checking the arguments. A prepared request can only get another stream
 * or graph of the same kind, because what was prepared depends on the kind. A NULL stream is CUDA's default stream,
 * which the host twin does not have. `function`: the name in messages, without its prefix. Errors have been reported,
 * and change nothing.
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

/* Returns the request if it is prepared; else NULL, with the code of an error that has been reported. */
static request_t *find_prepared(MPIX_Mscclpp_request request, const char *function, int *code_p)
{
    if (request == NULL || !request->is_prepared) {
        *code_p = mpix_request_refuse(request == NULL ? MPI_COMM_NULL : request->app_comm, MPI_ERR_REQUEST, function,
                                      "a request is NULL, or not prepared");
        return NULL;
    }
    return request;
}

/* The handle has no deadline: kernels that wait for the request give up only if it is abandoned. */
int MPIX_Mscclpp_request_get_device(MPIX_Mscclpp_request request, unsigned abi, void *handle, size_t size)
{
    mscclpp_dev_user_watch_t watch;
    int code, rank, ranks;

    if (find_prepared(request, "request_get_device", &code) == NULL) {
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

/* *node is the node that the last start made. Before the first start, and on the host twin, it is NULL. */
int MPIX_Mscclpp_request_get_node(MPIX_Mscclpp_request request, void **node)
{
    int code;

    if (find_prepared(request, "request_get_node", &code) == NULL) {
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
 * Returns the call of one partition: both buffers begin further on, but MPI_IN_PLACE stays. A broadcast has no send
 * buffer. The offset is 0 for requests that are not partitioned, whatever part_bytes is.
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
 * Queues the call of one partition in a stream. Returns an MPI error code, which is not reported; if the component does
 * not queue the call, that is MPIX_MSCCLPP_ERR_CAPTURE in a capture, else MPI_ERR_UNSUPPORTED_OPERATION.
 */
static int enqueue(request_t *request, int partition, void *stream)
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
 * Starts a request in the order of the application's stream: queues the call, and a store to its end word. In a capture
 * there is no store and no count, so that such starts are not waited for here. Returns an MPI error code, which is not
 * reported, as do the functions that follow.
 */
static int start_in_stream(request_t *request)
{
    const int is_captured = mpix_stream_is_capturing(request->stream);
    int code = enqueue(request, 0, request->stream);

    /* A graph repeats what it has recorded, so it cannot count starts. */
    if (code == MPI_SUCCESS && !is_captured) {
        code =
            request->backend->stream_store(request->stream, mpix_request_end_word(request, 0), ++request->start_count);
    }
    return code;
}

/*
 * Captures the call in the request's own stream, and adds a copy of the captured graph to the application's graph. The
 * capture is ended after an error, too, so that the stream can be used again. The captured graph is freed in any case,
 * because the application's has a copy. After an error the application's graph is as it was.
 */
static int start_in_graph(request_t *request)
{
    const mpix_backend_t *backend = request->backend;
    void *captured_graph = NULL;
    int code = backend->capture_begin(request->own_stream), end_code;

    if (code != MPI_SUCCESS) {
        return code;
    }
    code = enqueue(request, 0, request->own_stream);
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
 * Starts a request that kernels release: queues for each partition a wait for its mark, the call, and a store to its
 * end word. The stream's order lets partitions end in the order of their numbers. Without the component nothing is
 * queued: mpix_plain_progress sees the marks. After an error the request is abandoned, so that the waits that are
 * queued already end.
 */
static int start_for_kernels(request_t *request)
{
    const mpix_backend_t *backend = request->backend;
    const uint64_t start = ++request->start_count;
    int code = MPI_SUCCESS;

    /* Nobody marks a receiver's partitions: they are ready once it has been started. */
    for (int i = 0; request->side == MPIX_RECEIVER && i < request->partitions; ++i) {
        mpix_word_set(mpix_request_mark_word(request, i), start);
    }
    for (int i = 0; !request->is_plain && code == MPI_SUCCESS && i < request->partitions; ++i) {
        code = backend->stream_await(request->own_stream, mpix_request_mark_word(request, i), start);
        if (code == MPI_SUCCESS) {
            code = enqueue(request, i, request->own_stream);
        }
        if (code == MPI_SUCCESS) {
            code = backend->stream_store(request->own_stream, mpix_request_end_word(request, i), start);
        }
    }
    if (code != MPI_SUCCESS) {
        mpix_request_abandon(request, code);
    }
    return code;
}

/*
 * Returns the error of the request's work so far, or MPI_SUCCESS, without waiting. The first error abandons the
 * request. An error of any queued call of the request's communicator counts as its own. Without the component, this is
 * also what carries executions on.
 */
static int check_failure(request_t *request)
{
    char text[320];
    int code = MPI_SUCCESS;

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
 * Waits on the host until all starts of a request have ended, or one of them fails. The errors are looked for
 * meanwhile, since the stream may wait for marks that never come.
 */
static int wait_on_host(request_t *request)
{
    int code = check_failure(request), flag;

    while (code == MPI_SUCCESS && !mpix_request_has_ended(request)) {
        /* The probe is for MPI's progress, which other ranks may depend on; its result is of no interest. */
        (void)MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, request->call.comm, &flag, MPI_STATUS_IGNORE);
        (void)sched_yield();
        code = check_failure(request);
    }
    return code;
}

/*
 * Starts a request in the order of a stream, without the component: waits for the stream, and for MPI's own call. So
 * the execution has ended when this returns.
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
 * Starts a request in the way that it is attached. An error is kept, so that further starts return it, too;
 * start_for_kernels keeps its own. find_prepared has checked that the request is prepared, and so attached.
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
    /* A call that cannot be captured is no failure of the request, which can still be started without a capture. */
    if (code != mpix_error_code(MPIX_MSCCLPP_ERR_CAPTURE)) {
        request->failure_code = code;
    }
    return code;
}

/*
 * Requests before the one that fails have been started. One that has failed earlier returns its error again, and is not
 * started.
 */
int MPIX_Mscclpp_start(int n, MPIX_Mscclpp_request requests[])
{
    for (int i = 0; i < n; ++i) {
        int code;

        if (find_prepared(requests[i], "start", &code) == NULL) {
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
 * Lets the application's stream wait for the end of a request that kernels release. Without the component the host
 * waits. In a captured stream returns MPIX_MSCCLPP_ERR_CAPTURE, which does not fail the request.
 */
static int complete_request(request_t *request)
{
    if (request->failure_code != MPI_SUCCESS) {
        return request->failure_code;
    }
    if (mpix_stream_is_capturing(request->stream)) {
        return mpix_error_code(MPIX_MSCCLPP_ERR_CAPTURE);
    }
    if (request->is_plain) {
        return wait_on_host(request);
    }
    return request->backend->stream_await(request->stream, mpix_request_end_word(request, request->partitions - 1),
                                          request->start_count);
}

/* Requests of a stream or a graph need nothing here, because their executions lie in the stream or the graph itself. */
int MPIX_Mscclpp_complete(int n, MPIX_Mscclpp_request requests[])
{
    for (int i = 0; i < n; ++i) {
        int code;

        if (find_prepared(requests[i], "complete", &code) == NULL) {
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
 * Adds 1 to each mark, by a load and a store: in a start a partition is marked once, by the host or by a kernel, so
 * that nobody else changes the word meanwhile.
 */
int MPIX_Mscclpp_pready(int low, int high, MPIX_Mscclpp_request request)
{
    int code;

    if (find_prepared(request, "pready", &code) == NULL) {
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

/* *flag is set after an error of the request's work, too. A request that was never started has arrived. */
int MPIX_Mscclpp_parrived(MPIX_Mscclpp_request request, int partition, int *flag)
{
    int code;

    if (find_prepared(request, "parrived", &code) == NULL) {
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
 * Waits on the host for all starts of a request: for its end words if kernels release it, or for the stream that it is
 * attached to. For a graph it does not wait. Returns the error of the request's work.
 */
static int wait_for_request(request_t *request)
{
    int code;

    if (request->condition == MPIX_BY_KERNELS) {
        return wait_on_host(request);
    }
    /* The application waits for a graph where it launches it. */
    code = request->condition == MPIX_BY_STREAM ? mpix_stream_wait(request->stream) : MPI_SUCCESS;
    return code != MPI_SUCCESS ? code : check_failure(request);
}

/* Requests behind the one that fails have not been waited for. */
int MPIX_Mscclpp_wait(int n, MPIX_Mscclpp_request requests[])
{
    for (int i = 0; i < n; ++i) {
        int code;

        if (find_prepared(requests[i], "wait", &code) == NULL) {
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
 * A request that has failed can be freed at any time: abandoning it has ended the waits in its stream. Starts of a
 * graph are not counted, so the application sees to it that its graphs have ended.
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
