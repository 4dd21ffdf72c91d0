#include "test/mpi/mpi_queued.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/bench/bench_cuda.h"

/* A stream of either kind, a copy in its order, and a graph of it. */
typedef int (*cu_copy_fn_t)(uintptr_t to, uintptr_t from, size_t size, void *stream);
typedef int (*cu_begin_fn_t)(void *stream, int mode);
typedef int (*cu_end_fn_t)(void *stream, void **graph);
typedef int (*cu_instantiate_fn_t)(void **instance, void *graph, unsigned long long flags);
typedef int (*cu_graph_launch_fn_t)(void *instance, void *stream);
typedef int (*cu_graph_create_fn_t)(void **graph, unsigned flags);
typedef int (*cu_add_child_fn_t)(void **node, void *graph, void *const *before, size_t count, void *child);
typedef int (*cu_add_edge_fn_t)(void *graph, void *const *from, void *const *to, size_t count);
#define CAPTURE_MODE_RELAXED 2

#define CUDA(type_, name_, ...)                                                                                        \
    do {                                                                                                               \
        type_ function_ = (type_)bench_cuda_find(name_);                                                               \
        MT_CHECK(function_ != NULL && 0 == function_(__VA_ARGS__), "%s failed", name_);                                \
    } while (0)

const mca_coll_mscclpp_api_t *mq_component_table(void)
{
    const char *folders = getenv("OMPI_MCA_mca_base_component_path");
    char path[4096];
    void *file;

    snprintf(path, sizeof(path), "%.*s/mca_coll_mscclpp.so", folders != NULL ? (int)strcspn(folders, ":") : 0, folders);
    file = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    return file != NULL ? dlsym(file, MCA_COLL_MSCCLPP_API_NAME) : NULL;
}

void *mq_stream_make(void)
{
    void *stream = NULL;

    if (mt_twin) {
        MT_MPI(MPIX_Mscclpp_host_stream_create(&stream));
    } else {
        MT_CHECK(bench_cuda_stream_create(&stream), "no stream");
    }
    return stream;
}

void mq_stream_wait(void *stream)
{
    if (mt_twin) {
        MT_MPI(MPIX_Mscclpp_host_stream_sync(stream));
    } else {
        MT_CHECK(bench_cuda_stream_wait(stream), "a stream failed");
    }
}

void mq_stream_free(void *stream)
{
    if (mt_twin) {
        MT_MPI(MPIX_Mscclpp_host_stream_destroy(stream));
    } else {
        bench_cuda_stream_destroy(stream);
    }
}

/* Never freed: a graph may repeat it. */
typedef struct {
    void *to;
    const void *from;
    size_t size;
    useconds_t delay;
} copy_t;

static void copy_now(void *argument)
{
    const copy_t *copy = argument;

    if (0 != copy->delay) {
        usleep(copy->delay);
    }
    memcpy(copy->to, copy->from, copy->size);
}

void mq_stream_copy(void *stream, void *to, const void *from, size_t size)
{
    if (mt_twin) {
        copy_t *copy = malloc(sizeof(*copy));

        *copy = (copy_t){to, from, size, (useconds_t)(mt_mix((uintptr_t)to, size, (uint64_t)mt_rank) % 1000)};
        MT_MPI(MPIX_Mscclpp_host_launch(stream, copy_now, copy));
    } else {
        CUDA(cu_copy_fn_t, "cuMemcpyAsync", (uintptr_t)to, (uintptr_t)from, size, stream);
    }
}

void mq_capture_begin(void *stream)
{
    if (mt_twin) {
        MT_MPI(MPIX_Mscclpp_host_capture_begin(stream));
    } else {
        CUDA(cu_begin_fn_t, "cuStreamBeginCapture_v2", stream, CAPTURE_MODE_RELAXED);
    }
}

void *mq_capture_end(void *stream)
{
    void *graph = NULL, *instance = NULL;

    if (mt_twin) {
        MT_MPI(MPIX_Mscclpp_host_capture_end(stream, &graph));
        return graph;
    }
    CUDA(cu_end_fn_t, "cuStreamEndCapture", stream, &graph);
    CUDA(cu_instantiate_fn_t, "cuGraphInstantiateWithFlags", &instance, graph, 0);
    return instance;
}

void mq_graph_launch(void *graph, void *stream)
{
    if (mt_twin) {
        MT_MPI(MPIX_Mscclpp_host_graph_launch(graph, stream));
    } else {
        CUDA(cu_graph_launch_fn_t, "cuGraphLaunch", graph, stream);
    }
}

/* A graph of one copy. */
static void *graph_of_copy(void *stream, void *to, const void *from, size_t size)
{
    void *graph = NULL;

    mq_capture_begin(stream);
    mq_stream_copy(stream, to, from, size);
    if (mt_twin) {
        return mq_capture_end(stream);
    }
    CUDA(cu_end_fn_t, "cuStreamEndCapture", stream, &graph);
    return graph;
}

mq_graph_t mq_graph_make(void)
{
    mq_graph_t graph = {NULL, NULL};

    if (mt_twin) {
        void *stream = mq_stream_make();

        mq_capture_begin(stream);
        graph.graph = mq_capture_end(stream);
        mq_stream_free(stream);
    } else {
        CUDA(cu_graph_create_fn_t, "cuGraphCreate", &graph.graph, 0);
    }
    return graph;
}

void mq_graph_follow(mq_graph_t *graph, void *node)
{
    if (!mt_twin && graph->last != NULL) {
        CUDA(cu_add_edge_fn_t, "cuGraphAddDependencies", graph->graph, &graph->last, &node, 1);
    }
    graph->last = node;
}

void mq_graph_add_copy(mq_graph_t *graph, void *stream, void *to, const void *from, size_t size)
{
    void *part = graph_of_copy(stream, to, from, size), *node = NULL;

    if (mt_twin) {
        MT_MPI(MPIX_Mscclpp_host_graph_append(graph->graph, part));
        MT_MPI(MPIX_Mscclpp_host_graph_destroy(part));
    } else {
        CUDA(cu_add_child_fn_t, "cuGraphAddChildGraphNode", &node, graph->graph, NULL, 0, part);
        mq_graph_follow(graph, node);
    }
}

void *mq_graph_ready(mq_graph_t *graph)
{
    void *instance = graph->graph;

    if (!mt_twin) {
        CUDA(cu_instantiate_fn_t, "cuGraphInstantiateWithFlags", &instance, graph->graph, 0);
    }
    return instance;
}

MPI_Count mq_asked(MPI_Comm comm, int what)
{
    MPI_Count value = -1;

    MT_MPI(MPIX_Mscclpp_query(comm, what, &value));
    return value;
}

int mq_value_of(int rank, int index, int salt)
{
    return (int)(mt_mix((uint64_t)rank, (uint64_t)index, (uint64_t)salt) % 100000);
}

int mq_sum_of(int ranks, int index, int salt)
{
    int sum = 0;

    for (int rank = 0; rank < ranks; ++rank) {
        sum += mq_value_of(rank, index, salt);
    }
    return sum;
}

void mq_sum_make(mq_sum_t *sum, int count)
{
    const size_t size = sizeof(int) * (size_t)count;

    sum->count = count;
    sum->source = mt_buffer_alloc(MT_DEVICE, size, 0);
    sum->send = mt_buffer_alloc(MT_DEVICE, size, 0);
    sum->recv = mt_buffer_alloc(MT_DEVICE, size, 4);
    sum->result = mt_buffer_alloc(MT_DEVICE, size, 0);
    sum->host = mt_host_alloc(size);
}

void mq_sum_fill(mq_sum_t *sum, int salt)
{
    for (int i = 0; i < sum->count; ++i) {
        sum->host[i] = mq_value_of(mt_rank, i, salt);
    }
    mt_buffer_put(&sum->source, sum->host, sizeof(int) * (size_t)sum->count);
    mt_buffer_set(&sum->send, 0x55);
    mt_buffer_set(&sum->recv, 0x66);
    mt_buffer_set(&sum->result, 0x77);
}

void mq_sum_queue(mq_sum_t *sum, MPI_Comm comm, void *stream)
{
    const size_t size = sizeof(int) * (size_t)sum->count;

    mq_stream_copy(stream, sum->send.data, sum->source.data, size);
    MT_MPI(MPIX_Mscclpp_allreduce_enqueue(sum->send.data, sum->recv.data, sum->count, MPI_INT, MPI_SUM, comm, stream));
    mq_stream_copy(stream, sum->result.data, sum->recv.data, size);
    mq_stream_copy(stream, sum->send.data, sum->result.data, size);
}

void mq_sum_check(mq_sum_t *sum, int salt, const char *what)
{
    mt_buffer_get(&sum->result, sum->host, sizeof(int) * (size_t)sum->count);
    for (int i = 0; i < sum->count; ++i) {
        const int expected = mq_sum_of(mt_size, i, salt);

        MT_CHECK(sum->host[i] == expected, "%s: integer %d of %d is %d, not %d", what, i, sum->count, sum->host[i],
                 expected);
        if (sum->host[i] != expected) {
            break;
        }
    }
}

void mq_sum_free(mq_sum_t *sum)
{
    mt_buffer_free(&sum->source, "source");
    mt_buffer_free(&sum->send, "send");
    mt_buffer_free(&sum->recv, "recv");
    mt_buffer_free(&sum->result, "result");
    free(sum->host);
}
