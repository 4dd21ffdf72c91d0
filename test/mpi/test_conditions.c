/*
 * Persistent requests of every collective under every condition: in the order of a stream, in a captured stream, as
 * nodes of a graph, and released by the host or by a kernel. Results are compared with those of MPI's own calls on host
 * memory.
 */
#include <stdlib.h>
#include <string.h>

#include "mpix/include/mpix_mscclpp/host_kernel.h"
#include "mpix/include/mpix_mscclpp_device.h"
#include "mpix/include/mpix_mscclpp_requests.h"
#include "test/mpi/mpi_queued.h"

enum { TURNS = 3, BLOCK_MAX = 700, RANKS_MAX = 8 };

/* The collectives. */
enum {
    ALLREDUCE,
    REDUCE,
    REDUCE_SCATTER,
    REDUCE_SCATTER_BLOCK,
    SCAN,
    EXSCAN,
    BCAST,
    ALLGATHER,
    ALLGATHERV,
    GATHER,
    GATHERV,
    SCATTER,
    SCATTERV,
    ALLTOALL,
    ALLTOALLV,
    ALLTOALLW,
    BARRIER,
    LAST
};

static const char *const names[LAST] = {"allreduce",  "reduce",   "reduce_scatter", "reduce_scatter_block",
                                        "scan",       "exscan",   "bcast",          "allgather",
                                        "allgatherv", "gather",   "gatherv",        "scatter",
                                        "scatterv",   "alltoall", "alltoallv",      "alltoallw",
                                        "barrier"};

enum { IN_STREAM, IN_CAPTURE, IN_GRAPH, BY_HOST, BY_KERNEL, LAST_WAY };
static const char *const ways[LAST_WAY] = {"in a stream", "captured", "in a graph", "released by the host",
                                           "released by a kernel"};

/* The arguments that all calls of one size share. */
typedef struct {
    int block;
    int root;
    int counts[RANKS_MAX], displs[RANKS_MAX];                    /* by rank, equal on all ranks */
    int sends[RANKS_MAX], sdispls[RANKS_MAX], sbytes[RANKS_MAX]; /* to each rank */
    int takes[RANKS_MAX], rdispls[RANKS_MAX], rbytes[RANKS_MAX]; /* from each rank */
    MPI_Datatype stypes[RANKS_MAX], rtypes[RANKS_MAX];
} shape_t;

static int pair_count(int block, int from, int to)
{
    return from == to && block == 1 ? 0 : block + (from + 2 * to) % 3;
}

/* Chooses counts and places of all ranks for one size of block. */
static void shape_make(shape_t *shape, int block)
{
    shape->block = block;
    shape->root = block % mt_size;
    for (int rank = 0, total = 0, sent = 0, taken = 0; rank < mt_size; ++rank) {
        shape->counts[rank] = block + rank % 2;
        shape->displs[rank] = total;
        shape->sends[rank] = pair_count(block, mt_rank, rank);
        shape->sdispls[rank] = sent;
        shape->sbytes[rank] = sent * (int)sizeof(int);
        shape->takes[rank] = pair_count(block, rank, mt_rank);
        shape->rdispls[rank] = taken;
        shape->rbytes[rank] = taken * (int)sizeof(int);
        shape->stypes[rank] = shape->rtypes[rank] = (mt_rank + rank) % 2 == 0 ? MPI_INT : MPI_FLOAT;
        total += shape->counts[rank];
        sent += shape->sends[rank] + 1;
        taken += shape->takes[rank] + 1;
    }
}

/* Makes a request of collective number `coll`. */
static void request_make(int coll, const shape_t *s, void *in, void *out, MPIX_Mscclpp_request *request)
{
    const MPI_Comm comm = MPI_COMM_WORLD;
    const int n = s->block;

    switch (coll) {
    case ALLREDUCE:
        MT_MPI(MPIX_Mscclpp_allreduce_init(in, out, n, MPI_INT, MPI_SUM, comm, request));
        break;
    case REDUCE:
        MT_MPI(MPIX_Mscclpp_reduce_init(in, out, n, MPI_INT, MPI_MAX, s->root, comm, request));
        break;
    case REDUCE_SCATTER:
        MT_MPI(MPIX_Mscclpp_reduce_scatter_init(in, out, s->counts, MPI_INT, MPI_SUM, comm, request));
        break;
    case REDUCE_SCATTER_BLOCK:
        MT_MPI(MPIX_Mscclpp_reduce_scatter_block_init(in, out, n, MPI_INT, MPI_MIN, comm, request));
        break;
    case SCAN:
        MT_MPI(MPIX_Mscclpp_scan_init(in, out, n, MPI_INT, MPI_SUM, comm, request));
        break;
    case EXSCAN:
        MT_MPI(MPIX_Mscclpp_exscan_init(in, out, n, MPI_INT, MPI_SUM, comm, request));
        break;
    case BCAST:
        MT_MPI(MPIX_Mscclpp_bcast_init(mt_rank == s->root ? in : out, n, MPI_INT, s->root, comm, request));
        break;
    case ALLGATHER:
        MT_MPI(MPIX_Mscclpp_allgather_init(in, n, MPI_INT, out, n, MPI_INT, comm, request));
        break;
    case ALLGATHERV:
        MT_MPI(MPIX_Mscclpp_allgatherv_init(in, s->counts[mt_rank], MPI_INT, out, s->counts, s->displs, MPI_INT, comm,
                                            request));
        break;
    case GATHER:
        MT_MPI(MPIX_Mscclpp_gather_init(in, n, MPI_INT, out, n, MPI_INT, s->root, comm, request));
        break;
    case GATHERV:
        MT_MPI(MPIX_Mscclpp_gatherv_init(in, s->counts[mt_rank], MPI_INT, out, s->counts, s->displs, MPI_INT, s->root,
                                         comm, request));
        break;
    case SCATTER:
        MT_MPI(MPIX_Mscclpp_scatter_init(in, n, MPI_INT, out, n, MPI_INT, s->root, comm, request));
        break;
    case SCATTERV:
        MT_MPI(MPIX_Mscclpp_scatterv_init(in, s->counts, s->displs, MPI_INT, out, s->counts[mt_rank], MPI_INT, s->root,
                                          comm, request));
        break;
    case ALLTOALL:
        MT_MPI(MPIX_Mscclpp_alltoall_init(in, n, MPI_INT, out, n, MPI_INT, comm, request));
        break;
    case ALLTOALLV:
        MT_MPI(MPIX_Mscclpp_alltoallv_init(in, s->sends, s->sdispls, MPI_INT, out, s->takes, s->rdispls, MPI_INT, comm,
                                           request));
        break;
    case ALLTOALLW:
        MT_MPI(MPIX_Mscclpp_alltoallw_init(in, s->sends, s->sbytes, s->stypes, out, s->takes, s->rbytes, s->rtypes,
                                           comm, request));
        break;
    default:
        MT_MPI(MPIX_Mscclpp_barrier_init(comm, request));
        break;
    }
}

/* The same by MPI. */
static void refer(int coll, const shape_t *s, void *in, void *out)
{
    const MPI_Comm comm = MPI_COMM_WORLD;
    const int n = s->block;

    switch (coll) {
    case ALLREDUCE:
        MT_MPI(MPI_Allreduce(in, out, n, MPI_INT, MPI_SUM, comm));
        break;
    case REDUCE:
        MT_MPI(MPI_Reduce(in, out, n, MPI_INT, MPI_MAX, s->root, comm));
        break;
    case REDUCE_SCATTER:
        MT_MPI(MPI_Reduce_scatter(in, out, s->counts, MPI_INT, MPI_SUM, comm));
        break;
    case REDUCE_SCATTER_BLOCK:
        MT_MPI(MPI_Reduce_scatter_block(in, out, n, MPI_INT, MPI_MIN, comm));
        break;
    case SCAN:
        MT_MPI(MPI_Scan(in, out, n, MPI_INT, MPI_SUM, comm));
        break;
    case EXSCAN:
        MT_MPI(MPI_Exscan(in, out, n, MPI_INT, MPI_SUM, comm));
        break;
    case BCAST:
        MT_MPI(MPI_Bcast(mt_rank == s->root ? in : out, n, MPI_INT, s->root, comm));
        break;
    case ALLGATHER:
        MT_MPI(MPI_Allgather(in, n, MPI_INT, out, n, MPI_INT, comm));
        break;
    case ALLGATHERV:
        MT_MPI(MPI_Allgatherv(in, s->counts[mt_rank], MPI_INT, out, s->counts, s->displs, MPI_INT, comm));
        break;
    case GATHER:
        MT_MPI(MPI_Gather(in, n, MPI_INT, out, n, MPI_INT, s->root, comm));
        break;
    case GATHERV:
        MT_MPI(MPI_Gatherv(in, s->counts[mt_rank], MPI_INT, out, s->counts, s->displs, MPI_INT, s->root, comm));
        break;
    case SCATTER:
        MT_MPI(MPI_Scatter(in, n, MPI_INT, out, n, MPI_INT, s->root, comm));
        break;
    case SCATTERV:
        MT_MPI(MPI_Scatterv(in, s->counts, s->displs, MPI_INT, out, s->counts[mt_rank], MPI_INT, s->root, comm));
        break;
    case ALLTOALL:
        MT_MPI(MPI_Alltoall(in, n, MPI_INT, out, n, MPI_INT, comm));
        break;
    case ALLTOALLV:
        MT_MPI(MPI_Alltoallv(in, s->sends, s->sdispls, MPI_INT, out, s->takes, s->rdispls, MPI_INT, comm));
        break;
    case ALLTOALLW:
        MT_MPI(MPI_Alltoallw(in, s->sends, s->sbytes, s->stypes, out, s->takes, s->rbytes, s->rtypes, comm));
        break;
    default:
        MT_MPI(MPI_Barrier(comm));
        break;
    }
}

/* Buffers of a call, and of its copy before and behind it in the stream. */
typedef struct {
    mt_buffer_t source, in, out, result;
    int *host, *wanted;
    size_t size;
} data_t;

/* Allocates the buffers. */
static void data_make(data_t *data)
{
    data->size = sizeof(int) * (BLOCK_MAX + 4) * (size_t)mt_size;
    data->source = mt_buffer_alloc(MT_DEVICE, data->size, 0);
    data->in = mt_buffer_alloc(MT_DEVICE, data->size, 4);
    data->out = mt_buffer_alloc(MT_DEVICE, data->size, 0);
    data->result = mt_buffer_alloc(MT_DEVICE, data->size, 0);
    data->host = mt_host_alloc(data->size);
    data->wanted = mt_host_alloc(data->size);
}

/* Frees the buffers. */
static void data_free(data_t *data)
{
    mt_buffer_free(&data->source, "source");
    mt_buffer_free(&data->in, "in");
    mt_buffer_free(&data->out, "out");
    mt_buffer_free(&data->result, "result");
    free(data->host);
    free(data->wanted);
}

/* New operands, and what MPI makes of them. What no rank may touch has the same bytes everywhere. */
static void data_fill(data_t *data, int coll, const shape_t *shape, int salt)
{
    const size_t count = data->size / sizeof(int);

    for (size_t i = 0; i < count; ++i) {
        data->host[i] = mq_value_of(mt_rank, (int)i, salt);
    }
    memset(data->wanted, 0x33, data->size);
    refer(coll, shape, data->host, data->wanted);
    mt_buffer_put(&data->source, data->host, data->size);
    mt_buffer_set(&data->in, 0x55);
    mt_buffer_set(&data->out, 0x33);
    mt_buffer_set(&data->result, 0x77);
}

/* Compares the result with the expected one. */
static void data_check(data_t *data, int coll, int block, int way, int turn)
{
    mt_buffer_get(&data->result, data->host, data->size);
    for (size_t i = 0; i < data->size / sizeof(int); ++i) {
        if (data->host[i] != data->wanted[i]) {
            MT_CHECK(0, "%s of %d, %s, turn %d: integer %zu is %d, not %d", names[coll], block, ways[way], turn, i,
                     data->host[i], data->wanted[i]);
            return;
        }
    }
}

static void trigger(mpix_group_t *block, void *argument)
{
    mpix_trigger(block, argument);
}

/* Puts one execution into the stream, between two copies. */
static void execute(MPIX_Mscclpp_request *request, int way, data_t *data, void *stream)
{
    static mpix_partitions_t handle;
    static mpix_host_kernel_t kernel;

    mq_stream_copy(stream, data->in.data, data->source.data, data->size);
    if (way == BY_HOST) {
        mq_stream_wait(stream); /* the host releases the request */
    }
    MT_MPI(MPIX_Mscclpp_start(1, request));
    if (way == BY_HOST) {
        MT_MPI(MPIX_Mscclpp_pready(0, 0, *request));
    } else if (way == BY_KERNEL) {
        MT_MPI(MPIX_Mscclpp_request_get_device(*request, MPIX_MSCCLPP_DEVICE_ABI, &handle, sizeof(handle)));
        kernel = (mpix_host_kernel_t){trigger, &handle, 1, 2, 0};
        MT_MPI(MPIX_Mscclpp_host_launch(stream, mpix_host_run, &kernel));
    }
    MT_MPI(MPIX_Mscclpp_complete(1, request));
    mq_stream_copy(stream, data->result.data, data->out.data, data->size);
}

/* The request as a node between two graphs of copies. */
static void *graph_of(MPIX_Mscclpp_request *request, data_t *data, void *stream)
{
    mq_graph_t graph = mq_graph_make();
    void *node = NULL;

    mq_graph_add_copy(&graph, stream, data->in.data, data->source.data, data->size);
    MT_MPI(MPIX_Mscclpp_attach_graph(*request, graph.graph));
    MT_MPI(MPIX_Mscclpp_start(1, request));
    MT_MPI(MPIX_Mscclpp_request_get_node(*request, &node));
    mq_graph_follow(&graph, node);
    mq_graph_add_copy(&graph, stream, data->result.data, data->out.data, data->size);
    return mq_graph_ready(&graph);
}

static void turns_of(int coll, const shape_t *shape, int way, data_t *data, void *stream)
{
    MPIX_Mscclpp_request request = NULL;
    void *graph = NULL;
    int flag = 0;

    request_make(coll, shape, data->in.data, data->out.data, &request);
    if (way == IN_GRAPH) {
        mq_graph_t none = mq_graph_make();

        MT_MPI(MPIX_Mscclpp_attach_graph(request, none.graph)); /* any one, before prepare */
        MT_MPI(MPIX_Mscclpp_prepare(1, &request));
        graph = graph_of(&request, data, stream);
    } else {
        MT_MPI(way >= BY_HOST ? MPIX_Mscclpp_attach_kernels(request, stream)
                              : MPIX_Mscclpp_attach_stream(request, stream));
        MT_MPI(MPIX_Mscclpp_prepare(1, &request));
    }
    if (way == IN_CAPTURE) {
        mq_capture_begin(stream);
        execute(&request, way, data, stream);
        graph = mq_capture_end(stream);
    }
    for (int turn = 0; turn < TURNS; ++turn) {
        data_fill(data, coll, shape, 100 * coll + turn);
        if (graph != NULL) {
            mq_graph_launch(graph, stream);
        } else {
            execute(&request, way, data, stream);
        }
        mq_stream_wait(stream);
        if (graph == NULL) {
            MT_MPI(MPIX_Mscclpp_wait(1, &request));
            MT_MPI(MPIX_Mscclpp_test(request, &flag));
            MT_CHECK(flag, "%s, %s: not complete", names[coll], ways[way]);
        }
        data_check(data, coll, shape->block, way, turn);
    }
    if (graph != NULL && mt_twin) {
        MT_MPI(MPIX_Mscclpp_host_graph_destroy(graph));
    }
    MT_MPI(MPIX_Mscclpp_request_free(&request));
}

int main(int argc, char **argv)
{
    static const int blocks[] = {1, BLOCK_MAX};
    void *stream;
    shape_t shape;
    data_t data;

    mt_init(&argc, &argv, MPI_THREAD_SINGLE);
    if (mt_too_small(2)) {
        return MT_SKIPPED;
    }
    stream = mq_stream_make();
    data_make(&data);
    for (int k = 0; k < 2; ++k) {
        shape_make(&shape, blocks[k]);
        for (int coll = 0; coll < LAST; ++coll) {
            for (int way = 0; way < (mt_twin ? LAST_WAY : BY_KERNEL); ++way) {
                turns_of(coll, &shape, way, &data, stream);
            }
        }
    }
    data_free(&data);
    mq_stream_free(stream);
    return mt_finish();
}
