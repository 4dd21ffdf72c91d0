/*
 * Queued calls by the buffers of all ranks: of persistent requests, started in a stream, in graphs, and all-reduces in
 * parts, and captured without a request. Buffers are freed, and new ones lie where they lay. --each: collectives other
 * than all-reduce. --unequal: those whose blocks differ in size; --small: with blocks that are small; --late: a rank
 * captures the last of them after the others have given up waiting.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mpix/include/mpix_mscclpp_requests.h"
#include "test/mpi/mpi_queued.h"

enum { COUNT = 300000, PARTS = 4, TURNS = 5 };

static MPIX_Mscclpp_request request_of(mq_sum_t *sum, void *stream)
{
    MPIX_Mscclpp_request request;

    MT_MPI(MPIX_Mscclpp_allreduce_init(sum->send.data, sum->recv.data, sum->count, MPI_INT, MPI_SUM, MPI_COMM_WORLD,
                                       &request));
    MT_MPI(MPIX_Mscclpp_attach_stream(request, stream));
    MT_MPI(MPIX_Mscclpp_prepare(1, &request));
    return request;
}

/* A start of the request between copies; for no request a call of its own. */
static void queue(mq_sum_t *sum, MPIX_Mscclpp_request request, void *stream)
{
    const size_t size = sizeof(int) * (size_t)sum->count;

    mq_stream_copy(stream, sum->send.data, sum->source.data, size);
    if (request != NULL) {
        MT_MPI(MPIX_Mscclpp_start(1, &request));
    } else {
        MT_MPI(MPIX_Mscclpp_allreduce_enqueue(sum->send.data, sum->recv.data, sum->count, MPI_INT, MPI_SUM,
                                              MPI_COMM_WORLD, stream));
    }
    mq_stream_copy(stream, sum->result.data, sum->recv.data, size);
}

static void *capture(mq_sum_t *sum, MPIX_Mscclpp_request request, void *stream)
{
    mq_capture_begin(stream);
    queue(sum, request, stream);
    return mq_capture_end(stream);
}

/* Starts in a stream and launches of two graphs by turns. */
static void by_turns(int salt)
{
    void *stream = mq_stream_make(), *graphs[2];
    MPIX_Mscclpp_request request;
    mq_sum_t sum;

    mq_sum_make(&sum, COUNT);
    request = request_of(&sum, stream);
    graphs[0] = capture(&sum, request, stream);
    graphs[1] = capture(&sum, NULL, stream);
    for (int turn = 0; turn < TURNS; ++turn) {
        mq_sum_fill(&sum, salt + turn);
        mt_barrier(MPI_COMM_WORLD);
        if (turn % 3 == 0) {
            queue(&sum, request, stream);
        } else {
            mq_graph_launch(graphs[turn % 3 - 1], stream);
        }
        mq_stream_wait(stream);
        mq_sum_check(&sum, salt + turn, turn % 3 == 0 ? "a start" : turn % 3 == 1 ? "a graph of starts" : "a graph");
    }
    MT_MPI(MPIX_Mscclpp_wait(1, &request));
    MT_MPI(MPIX_Mscclpp_request_free(&request));
    mq_graph_launch(graphs[0], stream); /* the graph outlives the request */
    mq_stream_wait(stream);
    mq_sum_check(&sum, salt + TURNS - 1, "a graph of a freed request");
    if (mt_twin) {
        MT_MPI(MPIX_Mscclpp_host_graph_destroy(graphs[0]));
        MT_MPI(MPIX_Mscclpp_host_graph_destroy(graphs[1]));
    }
    mt_barrier(MPI_COMM_WORLD);
    mq_sum_free(&sum);
    mq_stream_free(stream);
}

/* Parts that the host marks ready, the last one first. */
static void in_parts(void)
{
    void *stream = mq_stream_make();
    MPIX_Mscclpp_request request;
    mq_sum_t sum;

    mq_sum_make(&sum, COUNT);
    MT_MPI(MPIX_Mscclpp_pallreduce_init(sum.source.data, sum.result.data, PARTS, COUNT / PARTS, MPI_INT, MPI_SUM,
                                        MPI_COMM_WORLD, &request));
    MT_MPI(MPIX_Mscclpp_attach_kernels(request, stream));
    MT_MPI(MPIX_Mscclpp_prepare(1, &request));
    for (int turn = 0; turn < TURNS; ++turn) {
        mq_sum_fill(&sum, turn);
        MT_MPI(MPIX_Mscclpp_start(1, &request));
        for (int part = PARTS - 1; part >= 0; --part) {
            MT_MPI(MPIX_Mscclpp_pready(part, part, request));
        }
        MT_MPI(MPIX_Mscclpp_wait(1, &request));
        mq_sum_check(&sum, turn, "in parts");
        mt_barrier(MPI_COMM_WORLD);
    }
    MT_MPI(MPIX_Mscclpp_request_free(&request));
    mt_barrier(MPI_COMM_WORLD);
    mq_sum_free(&sum);
    mq_stream_free(stream);
}

enum { ROOT = 1, BLOCK_ON_GPU = 400000, SMALL_BLOCK = 40, RANKS_MAX = 64 };

/* Seconds by which a rank is late to capture a call; 0: none is. */
static unsigned late_by;

/* Elements of a block: too many for packets. */
static int block = 70000;

typedef enum {
    ALLGATHER,
    ALLGATHER_IN_PLACE,
    BCAST,
    GATHER,
    SCATTER,
    REDUCE,
    REDUCE_IN_PLACE,
    SUMS_OF_BLOCKS,
    SUMS_IN_PLACE,
    ALLTOALL,
    ALLTOALL_IN_PLACE,
    SCAN,
    EXSCAN,
    ALLGATHERV, /* the first whose blocks differ in size */
    SUMS_OF_UNEQUAL,
    GATHERV,
    SCATTERV,
    ALLTOALLV_IN_PLACE,
    ALLTOALLV,
    KINDS
} kind_t;

static const char *const names[KINDS] = {"allgather",
                                         "allgather in place",
                                         "bcast",
                                         "gather",
                                         "scatter",
                                         "reduce",
                                         "reduce in place",
                                         "reduce_scatter_block",
                                         "reduce_scatter_block in place",
                                         "alltoall",
                                         "alltoall in place",
                                         "scan",
                                         "exscan",
                                         "allgatherv",
                                         "reduce_scatter",
                                         "gatherv",
                                         "scatterv",
                                         "alltoallv in place",
                                         "alltoallv"};

typedef enum { ON_HOST, QUEUED, REQUEST } way_t;

/* The lists of blocks that differ in size. */
typedef struct {
    int counts[RANKS_MAX], displs[RANKS_MAX];
} lists_t;

/*
 * The blocks of the ranks or, of an all-to-all, those of this rank and each peer. Each rank has them in another order,
 * with gaps between them.
 */
static void list_blocks(kind_t kind, lists_t *lists)
{
    const bool of_pairs = ALLTOALLV == kind || ALLTOALLV_IN_PLACE == kind;

    for (int peer = 0; peer < mt_size; ++peer) {
        lists->counts[peer] = block - block / 8 * ((of_pairs ? mt_rank + peer : peer) % 3);
        lists->displs[peer] = (peer + mt_rank) % mt_size * block;
    }
}

/* Makes a call of MPI on host memory, queues it, or makes its request. */
static void serve(kind_t kind, way_t way, void *in, void *out, void *stream, MPIX_Mscclpp_request *request)
{
    const bool swaps = ALLGATHER_IN_PLACE == kind || SUMS_IN_PLACE == kind || ALLTOALL_IN_PLACE == kind ||
                       ALLTOALLV_IN_PLACE == kind || (REDUCE_IN_PLACE == kind && mt_rank == ROOT);
    const void *from = swaps ? MPI_IN_PLACE : in;
    lists_t lists;
    const int *const counts = lists.counts, *const displs = lists.displs;

    list_blocks(kind, &lists);

#define SERVE(host_, mpix_, ...)                                                                                       \
    MT_MPI(ON_HOST == way  ? host_(__VA_ARGS__, MPI_COMM_WORLD)                                                        \
           : QUEUED == way ? MPIX_Mscclpp_##mpix_##_enqueue(__VA_ARGS__, MPI_COMM_WORLD, stream)                       \
                           : MPIX_Mscclpp_##mpix_##_init(__VA_ARGS__, MPI_COMM_WORLD, request))
    switch (kind) {
    case ALLGATHER:
    case ALLGATHER_IN_PLACE:
        SERVE(MPI_Allgather, allgather, from, block, MPI_INT, out, block, MPI_INT);
        break;
    case BCAST:
        SERVE(MPI_Bcast, bcast, out, block, MPI_INT, ROOT);
        break;
    case GATHER:
        SERVE(MPI_Gather, gather, from, block, MPI_INT, out, block, MPI_INT, ROOT);
        break;
    case SCATTER:
        SERVE(MPI_Scatter, scatter, from, block, MPI_INT, out, block, MPI_INT, ROOT);
        break;
    case REDUCE:
    case REDUCE_IN_PLACE:
        SERVE(MPI_Reduce, reduce, from, out, block, MPI_INT, MPI_SUM, ROOT);
        break;
    case SUMS_OF_BLOCKS:
    case SUMS_IN_PLACE:
        SERVE(MPI_Reduce_scatter_block, reduce_scatter_block, from, out, block, MPI_INT, MPI_SUM);
        break;
    case ALLTOALL:
    case ALLTOALL_IN_PLACE:
        SERVE(MPI_Alltoall, alltoall, from, block, MPI_INT, out, block, MPI_INT);
        break;
    case SCAN:
        SERVE(MPI_Scan, scan, from, out, block, MPI_INT, MPI_SUM);
        break;
    case EXSCAN:
        SERVE(MPI_Exscan, exscan, from, out, block, MPI_INT, MPI_SUM);
        break;
    case ALLGATHERV:
        SERVE(MPI_Allgatherv, allgatherv, from, counts[mt_rank], MPI_INT, out, counts, displs, MPI_INT);
        break;
    case SUMS_OF_UNEQUAL:
        SERVE(MPI_Reduce_scatter, reduce_scatter, from, out, counts, MPI_INT, MPI_SUM);
        break;
    case GATHERV:
        SERVE(MPI_Gatherv, gatherv, from, counts[mt_rank], MPI_INT, out, counts, displs, MPI_INT, ROOT);
        break;
    case SCATTERV:
        SERVE(MPI_Scatterv, scatterv, from, counts, displs, MPI_INT, out, counts[mt_rank], MPI_INT, ROOT);
        break;
    default:
        SERVE(MPI_Alltoallv, alltoallv, from, counts, displs, MPI_INT, out, counts, displs, MPI_INT);
    }
#undef SERVE
}

/* What a rank's part of the output of SUMS_IN_PLACE is; the rest of such a buffer is undefined. */
static size_t defined_elements(kind_t kind)
{
    return (size_t)block * (SUMS_IN_PLACE == kind ? 1 : (size_t)mt_size);
}

/* Starts of a request, launches of a graph of such a start, and of a graph of a call by turns. */
static void each_by_turns(kind_t kind)
{
    const size_t count = (size_t)mt_size * (size_t)block, bytes = count * sizeof(int);
    mt_buffer_t in = mt_buffer_alloc(MT_DEVICE, bytes, 0), out = mt_buffer_alloc(MT_DEVICE, bytes, 0);
    int *const given = mt_host_alloc(bytes), *const wanted = mt_host_alloc(bytes), *const got = mt_host_alloc(bytes);
    void *stream = mq_stream_make(), *graphs[2];
    MPIX_Mscclpp_request request;

    serve(kind, REQUEST, in.data, out.data, stream, &request);
    MT_MPI(MPIX_Mscclpp_attach_stream(request, stream));
    MT_MPI(MPIX_Mscclpp_prepare(1, &request));
    mq_capture_begin(stream);
    MT_MPI(MPIX_Mscclpp_start(1, &request));
    graphs[0] = mq_capture_end(stream);
    if (ALLTOALLV == kind && 0 == mt_rank) {
        sleep(late_by);
    }
    mq_capture_begin(stream);
    serve(kind, QUEUED, in.data, out.data, stream, NULL);
    graphs[1] = mq_capture_end(stream);
    for (int turn = 0; turn < TURNS; ++turn) {
        for (size_t i = 0; i < count; ++i) {
            given[i] = mq_value_of(mt_rank, (int)i, 50 * (int)kind + turn);
            wanted[i] = mq_value_of(mt_rank, (int)i, 50 * (int)kind + turn + 7);
        }
        mt_buffer_put(&in, given, bytes);
        mt_buffer_put(&out, wanted, bytes);
        serve(kind, ON_HOST, given, wanted, NULL, NULL);
        mt_barrier(MPI_COMM_WORLD);
        if (turn % 3 == 0) {
            MT_MPI(MPIX_Mscclpp_start(1, &request));
        } else {
            mq_graph_launch(graphs[turn % 3 - 1], stream);
        }
        mq_stream_wait(stream);
        mt_buffer_get(&out, got, bytes);
        MT_CHECK(0 == memcmp(got, wanted, defined_elements(kind) * sizeof(int)), "%s, turn %d: wrong", names[kind],
                 turn);
        mt_barrier(MPI_COMM_WORLD);
    }
    MT_MPI(MPIX_Mscclpp_wait(1, &request));
    MT_MPI(MPIX_Mscclpp_request_free(&request));
    if (mt_twin) {
        MT_MPI(MPIX_Mscclpp_host_graph_destroy(graphs[0]));
        MT_MPI(MPIX_Mscclpp_host_graph_destroy(graphs[1]));
    }
    mt_barrier(MPI_COMM_WORLD);
    free(given);
    free(wanted);
    free(got);
    mt_buffer_free(&in, "in");
    mt_buffer_free(&out, "out");
    mq_stream_free(stream);
}

int main(int argc, char **argv)
{
    const bool is_unequal = argc > 1 && 0 == strcmp(argv[1], "--unequal");
    const bool is_each = is_unequal || (argc > 1 && 0 == strcmp(argv[1], "--each"));
    const bool is_small = argc > 2 && 0 == strcmp(argv[2], "--small");

    mt_init(&argc, &argv, MPI_THREAD_SINGLE);
    MT_CHECK(mt_size <= RANKS_MAX, "%d ranks are too many", mt_size);
    if (mt_too_small(2) || mt_too_crowded(1)) { /* ranks that take turns on a GPU cannot queue */
        return MT_SKIPPED;
    }
    late_by = argc > 3 && 0 == strcmp(argv[3], "--late") ? 5 : 0;
    block = is_small ? SMALL_BLOCK : mt_twin ? block : BLOCK_ON_GPU;
    for (int life = 0; life < 3 && !is_each; ++life) {
        by_turns(100 * life);
    }
    if (!is_each) {
        in_parts();
    }
    for (int kind = is_unequal ? ALLGATHERV : 0; kind < (is_unequal ? KINDS : ALLGATHERV) && is_each; ++kind) {
        each_by_turns((kind_t)kind);
    }
    return mt_finish();
}
