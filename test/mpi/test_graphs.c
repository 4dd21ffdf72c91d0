/*
 * Graphs with queued calls: cloned, updated, captured anew, launched in other streams, destroyed while they run.
 *
 * --freed: launched when their communicator has been freed. --modes: captured in each mode of CUDA while another thread
 * makes MPI calls on device buffers.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "test/mpi/mpi_queued.h"
#include "tools/bench/bench_cuda.h"

/* As in cuda.h. */
typedef int (*cu_begin_fn_t)(void *stream, int mode);
typedef int (*cu_end_fn_t)(void *stream, void **graph);
typedef int (*cu_instantiate_fn_t)(void **instance, void *graph, unsigned long long flags);
typedef int (*cu_clone_fn_t)(void **clone, void *graph);
typedef int (*cu_update_fn_t)(void *instance, void *graph, void *info);
typedef int (*cu_destroy_fn_t)(void *graph);
enum { GLOBAL, THREAD_LOCAL, RELAXED, MODES };

#define CUDA(type_, name_, ...)                                                                                        \
    do {                                                                                                               \
        type_ function_ = (type_)bench_cuda_find(name_);                                                               \
        MT_CHECK(function_ != NULL && 0 == function_(__VA_ARGS__), "%s failed", name_);                                \
    } while (0)

/* On the twin the instance is the graph. */
typedef struct {
    void *graph;
    void *instance;
} graph_t;

static void instantiate(graph_t *graph)
{
    graph->instance = graph->graph;
    if (!mt_twin) {
        CUDA(cu_instantiate_fn_t, "cuGraphInstantiateWithFlags", &graph->instance, graph->graph, 0);
    }
}

/* Captures `times` all-reduces. */
static graph_t capture(mq_sum_t *sum, int times, MPI_Comm comm, void *stream, int mode)
{
    graph_t graph = {NULL, NULL};

    if (mt_twin) {
        mq_capture_begin(stream);
    } else {
        CUDA(cu_begin_fn_t, "cuStreamBeginCapture_v2", stream, mode);
    }
    for (int i = 0; i < times; ++i) {
        mq_sum_queue(sum, comm, stream);
    }
    if (mt_twin) {
        graph.graph = mq_capture_end(stream);
    } else {
        CUDA(cu_end_fn_t, "cuStreamEndCapture", stream, &graph.graph);
    }
    instantiate(&graph);
    return graph;
}

static graph_t clone_of(const graph_t *graph)
{
    graph_t copy = {NULL, NULL};

    if (mt_twin) {
        copy.graph = mq_graph_make().graph;
        MT_MPI(MPIX_Mscclpp_host_graph_append(copy.graph, graph->graph));
    } else {
        CUDA(cu_clone_fn_t, "cuGraphClone", &copy.graph, graph->graph);
    }
    instantiate(&copy);
    return copy;
}

static void destroy(graph_t *graph)
{
    if (mt_twin) {
        MT_MPI(MPIX_Mscclpp_host_graph_destroy(graph->graph));
    } else {
        CUDA(cu_destroy_fn_t, "cuGraphExecDestroy", graph->instance);
        CUDA(cu_destroy_fn_t, "cuGraphDestroy", graph->graph);
    }
}

/* Puts what was captured in `fresh` in the place of what `graph` carries out. Frees `fresh`. */
static void update(graph_t *graph, graph_t *fresh)
{
    char info[128];

    if (mt_twin) {
        destroy(graph);
        *graph = *fresh;
        return;
    }
    CUDA(cu_update_fn_t, "cuGraphExecUpdate_v2", graph->instance, fresh->graph, info);
    destroy(fresh);
}

static void run(const graph_t *graph, mq_sum_t *sum, int salt, void *stream, const char *what)
{
    mq_sum_fill(sum, salt);
    mt_barrier(MPI_COMM_WORLD);
    mq_graph_launch(graph->instance, stream);
    mq_stream_wait(stream);
    mq_sum_check(sum, salt, what);
}

static void lives(void)
{
    void *stream = mq_stream_make(), *other = mq_stream_make();
    graph_t graph, copy, fresh;
    mq_sum_t sums[2];

    mq_sum_make(&sums[0], 3000);
    mq_sum_make(&sums[1], 50000);
    mq_sum_fill(&sums[0], 0);
    mq_sum_queue(&sums[0], MPI_COMM_WORLD, stream);
    mq_stream_wait(stream);
    graph = capture(&sums[0], 2, MPI_COMM_WORLD, stream, RELAXED);
    run(&graph, &sums[0], 1, stream, "a graph");
    run(&graph, &sums[0], 2, other, "a graph in another stream");
    copy = clone_of(&graph);
    run(&copy, &sums[0], 3, stream, "a clone");
    fresh = capture(&sums[1], 2, MPI_COMM_WORLD, stream, RELAXED);
    update(&graph, &fresh);
    run(&graph, &sums[1], 4, other, "an updated graph");
    run(&copy, &sums[0], 5, stream, "a clone of a graph that was updated");
    for (int round = 0; round < 5; ++round) {
        mq_sum_fill(&sums[0], 10 + round);
        mt_barrier(MPI_COMM_WORLD);
        fresh = capture(&sums[0], 3, MPI_COMM_WORLD, stream, RELAXED);
        mq_graph_launch(fresh.instance, stream);
        destroy(&fresh); /* while it runs */
        mq_stream_wait(stream);
        mq_sum_check(&sums[0], 10 + round, "a graph that is destroyed while it runs");
    }
    destroy(&graph);
    destroy(&copy);
    mq_sum_free(&sums[0]);
    mq_sum_free(&sums[1]);
    mq_stream_free(other);
    mq_stream_free(stream);
}

/* Graphs whose communicator is gone: launches end at once, and other communicators do not notice. */
static void freed(void)
{
    void *stream = mq_stream_make();
    MPI_Comm comm;
    graph_t graph, copy;
    mq_sum_t sum, kept;

    mq_sum_make(&sum, 20000);
    mq_sum_make(&kept, 20000);
    MT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    MT_MPI(MPI_Comm_set_name(comm, "short-lived"));
    mq_sum_fill(&sum, 1);
    mq_sum_queue(&sum, comm, stream);
    mq_sum_queue(&sum, MPI_COMM_WORLD, stream);
    mq_stream_wait(stream);
    graph = capture(&sum, 2, comm, stream, RELAXED);
    copy = clone_of(&graph);
    run(&graph, &sum, 2, stream, "a graph before its communicator is freed");
    MT_MPI(MPI_Comm_free(&comm));
    mt_barrier(MPI_COMM_WORLD);
    if (mt_rank != 0) { /* nobody waits for rank 0 */
        mq_graph_launch(graph.instance, stream);
        mq_graph_launch(copy.instance, stream);
        destroy(&graph);
        mq_stream_wait(stream);
    } else {
        destroy(&graph);
    }
    mt_barrier(MPI_COMM_WORLD);
    /* Communicators that are made now may get the memory that has become free. */
    MT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    for (int round = 0; round < 3; ++round) {
        mq_sum_fill(&kept, 5 + round);
        mt_barrier(MPI_COMM_WORLD);
        mq_sum_queue(&kept, round == 0 ? MPI_COMM_WORLD : comm, stream);
        if (mt_rank != 0) {
            mq_graph_launch(copy.instance, stream);
        }
        mq_stream_wait(stream);
        mq_sum_check(&kept, 5 + round, "another communicator beside a graph of a freed one");
    }
    destroy(&copy);
    MT_MPI(MPI_Comm_free(&comm));
    mq_sum_free(&sum);
    mq_sum_free(&kept);
    mq_stream_free(stream);
}

enum { CALLS = 150, COUNT = 5000, CAPTURES = 10 };

typedef struct {
    MPI_Comm comm;
    mt_buffer_t buffer;
} caller_t;

/* Another thread's calls. */
static void *call_on(void *argument)
{
    const caller_t *caller = argument;

    for (int call = 0; call < CALLS; ++call) {
        MT_MPI(MPI_Allreduce(MPI_IN_PLACE, caller->buffer.data, COUNT, MPI_INT, MPI_MAX, caller->comm));
    }
    return NULL;
}

/* Captures while another thread's calls are under way, which make calls of CUDA of their own. */
static void modes(void)
{
    void *stream = mq_stream_make();
    int *values = mt_host_alloc(sizeof(int) * COUNT);
    pthread_t thread;
    caller_t caller;
    mq_sum_t sum;

    mq_sum_make(&sum, 3000);
    mq_sum_fill(&sum, 0);
    mq_sum_queue(&sum, MPI_COMM_WORLD, stream);
    mq_stream_wait(stream);
    MT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &caller.comm));
    caller.buffer = mt_buffer_alloc(MT_DEVICE, sizeof(int) * COUNT, 0);
    for (int mode = GLOBAL; mode < MODES; ++mode) {
        for (int i = 0; i < COUNT; ++i) {
            values[i] = i + mode + mt_rank;
        }
        mt_buffer_put(&caller.buffer, values, sizeof(int) * COUNT);
        MT_CHECK(0 == pthread_create(&thread, NULL, call_on, &caller), "no thread");
        for (int k = 0; k < CAPTURES; ++k) {
            graph_t graph = capture(&sum, 2, MPI_COMM_WORLD, stream, mode);

            if (k < CAPTURES - 1) {
                destroy(&graph);
                continue;
            }
            (void)pthread_join(thread, NULL);
            run(&graph, &sum, 10 + mode, stream, "a graph that was captured beside other calls");
            destroy(&graph);
        }
        mt_buffer_get(&caller.buffer, values, sizeof(int) * COUNT);
        for (int i = 0; i < COUNT; ++i) {
            MT_CHECK(values[i] == i + mode + mt_size - 1, "integer %d of the other thread's calls is %d", i, values[i]);
        }
    }
    mt_buffer_free(&caller.buffer, "of another thread's calls");
    MT_MPI(MPI_Comm_free(&caller.comm));
    mq_sum_free(&sum);
    mq_stream_free(stream);
    free(values);
}

int main(int argc, char **argv)
{
    const char *part = argc > 1 ? argv[1] : "";

    mt_init(&argc, &argv, 0 == strcmp(part, "--modes") ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
    if (mt_too_small(2) || mt_too_crowded(1)) { /* ranks that take turns on a GPU cannot queue */
        return MT_SKIPPED;
    }
    if (0 == strcmp(part, "--freed")) {
        freed();
    } else if (0 == strcmp(part, "--modes")) {
        modes();
    } else {
        lives();
    }
    return mt_finish();
}
