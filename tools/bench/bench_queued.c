/* The extension library's calls: queued back to back in a stream, or captured in a graph, which is launched. */
#include "tools/bench/bench_mpi_calls.h"

#include <stdlib.h>

#include "mpix/include/mpix_mscclpp.h"

/* As in cuda.h: CUstreamCaptureMode, and the functions for graphs. */
#define CAPTURE_MODE_RELAXED 2
typedef int (*cu_begin_fn_t)(void *stream, int mode);
typedef int (*cu_end_fn_t)(void *stream, void **graph);
typedef int (*cu_instantiate_fn_t)(void **instance, void *graph, unsigned long long flags);
typedef int (*cu_graph_launch_fn_t)(void *instance, void *stream);
typedef int (*cu_destroy_fn_t)(void *graph);

static void *stream; /* of the calls: the environment's on CUDA, one of its own on the twin; NULL: each call waits */

/* Returns true if the call has succeeded. Otherwise prints a line. */
static bool succeeded(const char *function, int result)
{
    if (0 != result) {
        fprintf(stderr, "mscclpp_bench: %s failed with error %d\n", function, result);
    }
    return 0 == result;
}

/* Finds a function of the driver and calls it. If there is none, or it fails, prints a line and yields false. */
#define CUDA(type_, name_, ...)                                                                                        \
    (bench_cuda_find(name_) != NULL && succeeded(name_, ((type_)bench_cuda_find(name_))(__VA_ARGS__)))

#define QUEUED(Name_, name_) MPIX_Mscclpp_##name_##_enqueue

/*
 * Enqueues a call in the stream. If it cannot be queued, the library makes it at once and waits for its end; in a
 * capture it refuses it instead. Neighbours are not served: the options do not allow them here.
 */
static bool call_queued(bench_contender_t *contender, const bench_operation_t *operation)
{
    const bench_mpi_args_t args = bench_mpi_args(operation);
    int result = MPI_ERR_OTHER;

    BENCH_MPI_CALL(result, args, QUEUED, contender->env->comm, stream);
    return MPI_SUCCESS == result;
}

/*
 * Waits for the end of the queued calls. If a call has failed, prints a line and returns false. The errors of calls are
 * queried separately, because a stream may end without an error although a call has failed.
 */
static bool finish(bench_contender_t *contender)
{
    char text[320] = "";
    int code = MPI_SUCCESS;

    if (contender->env->on_twin) {
        code = stream == NULL ? MPI_SUCCESS : MPIX_Mscclpp_host_stream_sync(stream);
    } else if (!bench_cuda_stream_wait(stream)) {
        return false;
    }
    if (MPI_SUCCESS == code) {
        MPIX_Mscclpp_get_async_error(contender->env->comm, &code, text, (int)sizeof(text));
    }
    if (MPI_SUCCESS != code) {
        fprintf(stderr, "mscclpp_bench: rank %d: a queued call failed: %s\n", contender->env->rank, text);
    }
    return MPI_SUCCESS == code;
}

/*
 * Makes a contender of queued calls. Its name is in static memory: all contenders of this kind have that of the
 * collective which was asked for last.
 */
bench_contender_t bench_contender_queued(bench_env_t *env, const bench_coll_t *coll)
{
    static char name[64];
    bench_contender_t contender = {.name = name, .env = env, .call = call_queued, .finish = finish};

    snprintf(name, sizeof(name), "MPIX_Mscclpp_%s_enqueue", coll->name);
    return contender;
}

/*
 * Captures a batch of calls in contender->graph, which reset() destroys. On CUDA this is the executable graph; the
 * captured graph is destroyed here. After a failure returns false and leaves the stream as it is, because the program
 * ends.
 */
static bool capture(bench_contender_t *contender, const bench_operation_t *operation)
{
    const bool on_twin = contender->env->on_twin;
    void *graph = NULL;
    bool ok;

    ok = on_twin ? succeeded("MPIX_Mscclpp_host_capture_begin", MPIX_Mscclpp_host_capture_begin(stream))
                 : CUDA(cu_begin_fn_t, "cuStreamBeginCapture_v2", stream, CAPTURE_MODE_RELAXED);
    for (int i = 0; ok && i < contender->batch; ++i) {
        ok = contender->inner->call(contender->inner, operation);
    }
    if (on_twin) {
        return ok &&
               succeeded("MPIX_Mscclpp_host_capture_end", MPIX_Mscclpp_host_capture_end(stream, &contender->graph));
    }
    ok = ok && CUDA(cu_end_fn_t, "cuStreamEndCapture", stream, &graph) &&
         CUDA(cu_instantiate_fn_t, "cuGraphInstantiateWithFlags", &contender->graph, graph, 0);
    return ok && CUDA(cu_destroy_fn_t, "cuGraphDestroy", graph);
}

/*
 * Launches the graph in the stream. If there is none, first captures one of this operation. An existing graph belongs
 * to the same operation, because bench_measure calls reset() before another operation.
 */
static bool call_graph(bench_contender_t *contender, const bench_operation_t *operation)
{
    if (contender->graph == NULL && !capture(contender, operation)) {
        return false;
    }
    return contender->env->on_twin
               ? succeeded("MPIX_Mscclpp_host_graph_launch", MPIX_Mscclpp_host_graph_launch(contender->graph, stream))
               : CUDA(cu_graph_launch_fn_t, "cuGraphLaunch", contender->graph, stream);
}

/* Destroys the graph, if there is one, so that the next call captures another one. Its launches have ended. */
static bool free_graph(bench_contender_t *contender)
{
    void *graph = contender->graph;

    contender->graph = NULL;
    if (graph == NULL) {
        return true;
    }
    return contender->env->on_twin
               ? succeeded("MPIX_Mscclpp_host_graph_destroy", MPIX_Mscclpp_host_graph_destroy(graph))
               : CUDA(cu_destroy_fn_t, "cuGraphExecDestroy", graph);
}

/* Makes a contender that captures calls of `inner`, one or while it is timed `batch`, and launches the graph. */
bench_contender_t bench_contender_graph(bench_env_t *env, bench_contender_t *inner, int batch)
{
    bench_contender_t contender = {.name = inner->name,
                                   .env = env,
                                   .call = call_graph,
                                   .finish = finish,
                                   .reset = free_graph,
                                   .serves = inner->serves,
                                   .inner = inner,
                                   .batch = 1,
                                   .timed_batch = batch};

    return contender;
}

/* Returns true if the component sees several nodes, real ones or imitated ones. */
static bool is_over_nodes(const bench_env_t *env)
{
    const int imitated = abs(env->config.ranks_per_node);

    return env->nodes > 1 || (0 != imitated && imitated < env->size);
}

/* Returns true if the collective can be captured. Unequal blocks and those of neighbours cannot over nodes. */
bool bench_queued_captures(const bench_env_t *env, const bench_coll_t *coll)
{
    switch (coll->coll) {
    case MSCCLPP_COLL_ALLGATHERV:
    case MSCCLPP_COLL_GATHERV:
    case MSCCLPP_COLL_SCATTERV:
    case MSCCLPP_COLL_ALLTOALLV:
    case MSCCLPP_COLL_ALLTOALLW:
    case MSCCLPP_COLL_REDUCE_SCATTER:
        return !is_over_nodes(env);
    default:
        return !coll->is_of_neighbors || !is_over_nodes(env);
    }
}

bench_calls_t bench_queued_calls(const bench_env_t *env)
{
    MPI_Count queued = 0, waited = 0;

    MPIX_Mscclpp_query(env->comm, MPIX_MSCCLPP_QUERY_QUEUED, &queued);
    MPIX_Mscclpp_query(env->comm, MPIX_MSCCLPP_QUERY_WAITED, &waited);
    return (bench_calls_t){(uint64_t)queued, (uint64_t)waited};
}

/*
 * Takes the environment's stream, or creates a stream of the twin, and makes the first queued call, which waits for all
 * ranks. With `captures`, this call shows whether calls of these ranks can be queued. If they cannot, each call would
 * wait and none could be captured, so this function fails with a line. Of other failures, only that of waiting for a
 * stream of CUDA prints a line.
 */
bool bench_queued_open(bench_env_t *env, const bench_buffers_t *buffers, bool captures)
{
    bool ok = true;

    stream = env->native_stream;
    if (env->on_twin) {
        ok = MPI_SUCCESS == MPIX_Mscclpp_host_stream_create(&stream);
        if (!ok) {
            stream = NULL; /* no failure: the component is not there, so each call waits */
        }
    }
    /* The first call waits for all ranks, and must not be captured. */
    ok = MPI_SUCCESS ==
             MPIX_Mscclpp_allreduce_enqueue(MPI_IN_PLACE, buffers->recv, 1, MPI_UINT8_T, MPI_MAX, env->comm, stream) &&
         (stream == NULL ||
          (env->on_twin ? MPI_SUCCESS == MPIX_Mscclpp_host_stream_sync(stream) : bench_cuda_stream_wait(stream)));
    if (ok && captures && 0 == bench_queued_calls(env).queued) {
        if (0 == env->rank) {
            fprintf(stderr, "mscclpp_bench: --mode graph: no call of these ranks can be queued (staged calls, more "
                            "than 64 ranks, ranks that take turns on a GPU, or coll/mscclpp is not loaded)\n");
        }
        ok = false;
    }
    return bench_all(env->control, ok);
}

void bench_queued_close(const bench_env_t *env)
{
    if (env->on_twin && stream != NULL) {
        MPIX_Mscclpp_host_stream_destroy(stream);
    }
    stream = NULL;
}
