/*
 * Each queued collective (mpix/include/mpix_mscclpp.h), checked by what it is to do: blocks of one size and blocks that
 * differ, out of place and in place, and in graphs.
 */
#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/mpi/mpi_queued.h"

/* Each collective, in one stream, checked by what it is to do. */
#define BLOCK_MAX 3000

typedef struct {
    void *stream;
    mt_buffer_t in, out;
    int *host;
    int salt;
} each_t;

static void each_fill(each_t *each, int blocks, int block)
{
    for (int i = 0; i < blocks * block; ++i) {
        each->host[i] = mq_value_of(mt_rank, i, each->salt);
    }
    mt_buffer_put(&each->in, each->host, sizeof(int) * (size_t)(blocks * block));
    mt_buffer_set(&each->out, 0x33);
}

/* Waits, and compares integer `from` + i of the output with `sender`'s integer `index` + i. */
static void each_compare(each_t *each, int from, int count, int sender, int index, const char *what)
{
    for (int i = 0; i < count; ++i) {
        const int expected = mq_value_of(sender, index + i, each->salt);

        MT_CHECK(each->host[from + i] == expected, "%s, blocks of %d: integer %d is %d, not %d", what, count, from + i,
                 each->host[from + i], expected);
        if (each->host[from + i] != expected) {
            return;
        }
    }
}

static void each_get(each_t *each, int count)
{
    mq_stream_wait(each->stream);
    mt_buffer_get(&each->out, each->host, sizeof(int) * (size_t)count);
    ++each->salt;
}

/* Of a reduction over the ranks from `first` to before `end`. */
static void each_sums(each_t *each, int count, int first, int end, int index, const char *what)
{
    --each->salt;
    for (int i = 0; i < count; ++i) {
        int sum = 0;

        for (int rank = first; rank < end; ++rank) {
            sum += mq_value_of(rank, index + i, each->salt);
        }
        MT_CHECK(each->host[i] == sum, "%s of %d: integer %d is %d, not %d", what, count, i, each->host[i], sum);
        if (each->host[i] != sum) {
            break;
        }
    }
    ++each->salt;
}

static void collectives_of(each_t *each, int block, MPI_Comm comm)
{
    const int n = mt_size, root = block % mt_size;
    int *const blocks = mt_host_alloc(sizeof(int) * (size_t)n), *const displs = mt_host_alloc(sizeof(int) * (size_t)n);
    void *in = each->in.data, *out = each->out.data, *stream = each->stream;
    int first = 0, total = 0;

    for (int rank = 0; rank < n; ++rank) {
        blocks[rank] = block + rank % 2;
        displs[rank] = total;
        first += rank < mt_rank ? blocks[rank] : 0;
        total += blocks[rank];
    }
    each_fill(each, 1, block);
    MT_MPI(MPIX_Mscclpp_allgather_enqueue(in, block, MPI_INT, out, block, MPI_INT, comm, stream));
    each_get(each, n * block);
    --each->salt;
    for (int rank = 0; rank < n; ++rank) {
        each_compare(each, rank * block, block, rank, 0, "allgather");
    }
    ++each->salt;
    each_fill(each, 1, block + 1);
    MT_MPI(MPIX_Mscclpp_allgatherv_enqueue(in, blocks[mt_rank], MPI_INT, out, blocks, displs, MPI_INT, comm, stream));
    each_get(each, total);
    --each->salt;
    for (int rank = 0; rank < n; ++rank) {
        each_compare(each, displs[rank], blocks[rank], rank, 0, "allgatherv");
    }
    ++each->salt;
    each_fill(each, n, block);
    MT_MPI(MPIX_Mscclpp_alltoall_enqueue(in, block, MPI_INT, out, block, MPI_INT, comm, stream));
    each_get(each, n * block);
    --each->salt;
    for (int rank = 0; rank < n; ++rank) {
        each_compare(each, rank * block, block, rank, mt_rank * block, "alltoall");
    }
    ++each->salt;
    /* In place: what is sent lies in `in`, and is copied aside by the call. */
    each_fill(each, n, block);
    MT_MPI(MPIX_Mscclpp_alltoall_enqueue(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, block, MPI_INT, comm, stream));
    mq_stream_copy(stream, out, in, sizeof(int) * (size_t)(n * block));
    each_get(each, n * block);
    --each->salt;
    for (int rank = 0; rank < n; ++rank) {
        each_compare(each, rank * block, block, rank, mt_rank * block, "alltoall in place");
    }
    ++each->salt;
    each_fill(each, 1, block);
    MT_MPI(MPIX_Mscclpp_bcast_enqueue(mt_rank == root ? in : out, block, MPI_INT, root, comm, stream));
    each_get(each, block);
    if (mt_rank != root) {
        --each->salt;
        each_compare(each, 0, block, root, 0, "bcast");
        ++each->salt;
    }
    each_fill(each, 1, block);
    MT_MPI(MPIX_Mscclpp_gather_enqueue(in, block, MPI_INT, out, block, MPI_INT, root, comm, stream));
    each_get(each, n * block);
    --each->salt;
    for (int rank = 0; rank < n && mt_rank == root; ++rank) {
        each_compare(each, rank * block, block, rank, 0, "gather");
    }
    ++each->salt;
    each_fill(each, n, block);
    MT_MPI(MPIX_Mscclpp_scatter_enqueue(in, block, MPI_INT, out, block, MPI_INT, root, comm, stream));
    each_get(each, block);
    --each->salt;
    each_compare(each, 0, block, root, mt_rank * block, "scatter");
    ++each->salt;
    each_fill(each, 1, block);
    MT_MPI(MPIX_Mscclpp_reduce_enqueue(in, out, block, MPI_INT, MPI_SUM, root, comm, stream));
    each_get(each, block);
    if (mt_rank == root) {
        each_sums(each, block, 0, n, 0, "reduce");
    }
    each_fill(each, n, block);
    MT_MPI(MPIX_Mscclpp_reduce_scatter_block_enqueue(in, out, block, MPI_INT, MPI_SUM, comm, stream));
    each_get(each, block);
    each_sums(each, block, 0, n, mt_rank * block, "reduce_scatter_block");
    each_fill(each, n, block);
    MT_MPI(MPIX_Mscclpp_reduce_scatter_block_enqueue(MPI_IN_PLACE, in, block, MPI_INT, MPI_SUM, comm, stream));
    mq_stream_copy(stream, out, in, sizeof(int) * (size_t)block);
    each_get(each, block);
    each_sums(each, block, 0, n, mt_rank * block, "reduce_scatter_block in place");
    each_fill(each, n, block + 1);
    MT_MPI(MPIX_Mscclpp_reduce_scatter_enqueue(in, out, blocks, MPI_INT, MPI_SUM, comm, stream));
    each_get(each, blocks[mt_rank]);
    each_sums(each, blocks[mt_rank], 0, n, first, "reduce_scatter");
    each_fill(each, 1, block);
    MT_MPI(MPIX_Mscclpp_scan_enqueue(in, out, block, MPI_INT, MPI_SUM, comm, stream));
    each_get(each, block);
    each_sums(each, block, 0, mt_rank + 1, 0, "scan");
    each_fill(each, 1, block);
    MT_MPI(MPIX_Mscclpp_exscan_enqueue(in, out, block, MPI_INT, MPI_SUM, comm, stream));
    each_get(each, block);
    if (mt_rank > 0) {
        each_sums(each, block, 0, mt_rank, 0, "exscan");
    }
    MT_MPI(MPIX_Mscclpp_barrier_enqueue(comm, stream));
    free(blocks);
    free(displs);
}

/* Integers that a rank sends to another where sizes differ: at most `block`, and none to some. */
static int pair_count(int block, int from, int to)
{
    return block * ((from + 2 * to) % 3) / 2;
}

/* The lists of this rank in such an all-to-all: of what it sends, or of what it receives. */
static void list_pairs(int block, bool sends, int *sizes, int *displs)
{
    int total = 0;

    for (int peer = 0; peer < mt_size; ++peer) {
        sizes[peer] = sends ? pair_count(block, mt_rank, peer) : pair_count(block, peer, mt_rank);
        displs[peer] = total;
        total += sizes[peer];
    }
}

/* Where in a sender's buffer the block for this rank begins. */
static int begin_at(int block, int sender)
{
    int begin = 0;

    for (int peer = 0; peer < mt_rank; ++peer) {
        begin += pair_count(block, sender, peer);
    }
    return begin;
}

/* Only the two ends of a pair know how much one sends to the other. */
static void unsized_of(each_t *each, int block, MPI_Comm comm)
{
    const int n = mt_size, root = block % mt_size;
    const size_t size = sizeof(int) * (size_t)n;
    int *const sizes = mt_host_alloc(size), *const displs = mt_host_alloc(size);
    int *const rsizes = mt_host_alloc(size), *const rdispls = mt_host_alloc(size);
    MPI_Datatype *const types = mt_host_alloc(sizeof(*types) * (size_t)n);
    void *in = each->in.data, *out = each->out.data, *stream = each->stream;
    int total = 0;

    for (int rank = 0; rank < n; ++rank) {
        types[rank] = MPI_INT;
        sizes[rank] = pair_count(block, rank, root);
        displs[rank] = total;
        total += sizes[rank];
    }
    each_fill(each, n, block);
    MT_MPI(MPIX_Mscclpp_gatherv_enqueue(in, sizes[mt_rank], MPI_INT, out, mt_rank == root ? sizes : NULL,
                                        mt_rank == root ? displs : NULL, MPI_INT, root, comm, stream));
    each_get(each, n * block);
    --each->salt;
    for (int rank = 0; rank < n && mt_rank == root; ++rank) {
        each_compare(each, displs[rank], sizes[rank], rank, 0, "gatherv");
    }
    ++each->salt;
    each_fill(each, n, block);
    MT_MPI(MPIX_Mscclpp_scatterv_enqueue(in, mt_rank == root ? sizes : NULL, mt_rank == root ? displs : NULL, MPI_INT,
                                         out, sizes[mt_rank], MPI_INT, root, comm, stream));
    each_get(each, n * block);
    --each->salt;
    each_compare(each, 0, sizes[mt_rank], root, displs[mt_rank], "scatterv");
    ++each->salt;
    list_pairs(block, true, sizes, displs);
    list_pairs(block, false, rsizes, rdispls);
    for (int typed = 0; typed < 2; ++typed) {
        each_fill(each, n, block);
        for (int rank = 0; rank < n && typed; ++rank) {
            displs[rank] *= (int)sizeof(int);
            rdispls[rank] *= (int)sizeof(int);
        }
        MT_MPI(typed
                   ? MPIX_Mscclpp_alltoallw_enqueue(in, sizes, displs, types, out, rsizes, rdispls, types, comm, stream)
                   : MPIX_Mscclpp_alltoallv_enqueue(in, sizes, displs, MPI_INT, out, rsizes, rdispls, MPI_INT, comm,
                                                    stream));
        each_get(each, n * block);
        --each->salt;
        for (int rank = 0; rank < n; ++rank) {
            each_compare(each, rdispls[rank] / (typed ? (int)sizeof(int) : 1), rsizes[rank], rank,
                         begin_at(block, rank), typed ? "alltoallw" : "alltoallv");
        }
        ++each->salt;
    }
    free(sizes);
    free(displs);
    free(rsizes);
    free(rdispls);
    free(types);
}

/* The calls of in_place_graph: without memory of their own, and with it. */
enum { ALLTOALL, SUMS, UNEQUAL_SUMS, IN_PLACE };

static void queue_in_place(int kind, void *work, int block, const int *blocks, MPI_Comm comm, void *stream)
{
    if (ALLTOALL == kind) {
        MT_MPI(MPIX_Mscclpp_alltoall_enqueue(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, work, block, MPI_INT, comm, stream));
    } else if (SUMS == kind) {
        MT_MPI(MPIX_Mscclpp_reduce_scatter_block_enqueue(MPI_IN_PLACE, work, block, MPI_INT, MPI_SUM, comm, stream));
    } else {
        MT_MPI(MPIX_Mscclpp_reduce_scatter_enqueue(MPI_IN_PLACE, work, blocks, MPI_INT, MPI_SUM, comm, stream));
    }
}

/* Graphs of calls that work in place. */
static void in_place_graph(void)
{
    enum { TURNS = 4 };
    static const int sizes[] = {5, 3000};
    const bool captures_unequal = mt_parameter_is("ranks_per_node", "0"); /* not between nodes */
    const size_t size = sizeof(int) * BLOCK_MAX * (size_t)mt_size;
    int *const blocks = mt_host_alloc(sizeof(int) * (size_t)mt_size);
    mt_buffer_t work = mt_buffer_alloc(MT_DEVICE, size, 0);
    each_t each = {.stream = mq_stream_make(), .salt = 9000};
    MPI_Comm comm;

    MT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    each.in = mt_buffer_alloc(MT_DEVICE, size, 0);
    each.out = mt_buffer_alloc(MT_DEVICE, size, 0);
    each.host = mt_host_alloc(size);
    for (size_t i = 0; i < IN_PLACE * sizeof(sizes) / sizeof(sizes[0]); ++i) {
        const int block = sizes[i / IN_PLACE], kind = (int)(i % IN_PLACE);
        int first = mt_rank * block, own = block;
        void *graph;

        if (UNEQUAL_SUMS == kind) { /* even ranks have one element less */
            if (!captures_unequal) {
                continue;
            }
            first = 0;
            for (int rank = 0; rank < mt_size; ++rank) {
                blocks[rank] = block - 1 + rank % 2;
                first += rank < mt_rank ? blocks[rank] : 0;
            }
            own = blocks[mt_rank];
        }
        MT_MPI(MPIX_Mscclpp_allreduce_enqueue(MPI_IN_PLACE, work.data, 1, MPI_INT, MPI_MAX, comm, each.stream));
        mq_capture_begin(each.stream);
        mq_stream_copy(each.stream, work.data, each.in.data, sizeof(int) * (size_t)(mt_size * block));
        queue_in_place(kind, work.data, block, blocks, comm, each.stream);
        mq_stream_copy(each.stream, each.out.data, work.data, sizeof(int) * (size_t)(mt_size * block));
        graph = mq_capture_end(each.stream);
        for (int turn = 0; turn < TURNS; ++turn) {
            each_fill(&each, mt_size, block);
            mq_graph_launch(graph, each.stream);
            each_get(&each, mt_size * block);
            if (ALLTOALL != kind) {
                each_sums(&each, own, 0, mt_size, first,
                          SUMS == kind ? "reduce_scatter_block in place, in a graph"
                                       : "reduce_scatter in place, in a graph");
                continue;
            }
            --each.salt;
            for (int rank = 0; rank < mt_size; ++rank) {
                each_compare(&each, rank * block, block, rank, mt_rank * block, "alltoall in place, in a graph");
            }
            ++each.salt;
        }
    }
    free(blocks);
    mt_buffer_free(&work, "work");
    mt_buffer_free(&each.in, "in");
    mt_buffer_free(&each.out, "out");
    free(each.host);
    MT_MPI(MPI_Comm_free(&comm));
    mq_stream_free(each.stream);
}

/* Makes Linux run the threads of this process's proxies only where a processor has nothing else to do. */
static void delay_proxies(void)
{
    const struct sched_param parameters = {0};
    DIR *tasks = opendir("/proc/self/task");
    const struct dirent *task;

    while (tasks != NULL && (task = readdir(tasks)) != NULL) {
        char path[300], name[32] = "";
        FILE *file;

        snprintf(path, sizeof(path), "/proc/self/task/%s/comm", task->d_name);
        file = fopen(path, "r");
        if (file != NULL && fgets(name, sizeof(name), file) != NULL && 0 == strncmp(name, "mscclpp-proxy", 13)) {
            MT_CHECK(0 == sched_setscheduler(atoi(task->d_name), SCHED_IDLE, &parameters), "cannot delay a thread");
        }
        if (file != NULL) {
            fclose(file);
        }
    }
    if (tasks != NULL) {
        closedir(tasks);
    }
}

/*
 * Frees a communicator as soon as this rank has the result of a replay, although other nodes may still wait for what
 * its proxy is to send. The first rank's proxies are late.
 */
static void freed_at_once(void)
{
    enum { ROUNDS = 4 };
    const size_t size = sizeof(int) * BLOCK_MAX * (size_t)mt_size;
    each_t each = {.stream = mq_stream_make(), .salt = 9900};
    MPI_Comm comm;

    each.in = mt_buffer_alloc(MT_DEVICE, size, 0);
    each.out = mt_buffer_alloc(MT_DEVICE, size, 0);
    each.host = mt_host_alloc(size);
    for (int round = 0; round < ROUNDS; ++round) {
        void *graph;

        MT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
        MT_MPI(MPIX_Mscclpp_alltoall_enqueue(each.in.data, BLOCK_MAX, MPI_INT, each.out.data, BLOCK_MAX, MPI_INT, comm,
                                             each.stream));
        mq_capture_begin(each.stream);
        MT_MPI(MPIX_Mscclpp_alltoall_enqueue(each.in.data, BLOCK_MAX, MPI_INT, each.out.data, BLOCK_MAX, MPI_INT, comm,
                                             each.stream));
        graph = mq_capture_end(each.stream);
        mq_stream_wait(each.stream);
        if (mt_rank == 0) {
            delay_proxies();
        }
        each_fill(&each, mt_size, BLOCK_MAX);
        mt_barrier(MPI_COMM_WORLD);
        mq_graph_launch(graph, each.stream);
        mq_stream_wait(each.stream);
        MT_MPI(MPI_Comm_free(&comm));
        each_get(&each, mt_size * BLOCK_MAX);
        --each.salt;
        for (int rank = 0; rank < mt_size; ++rank) {
            each_compare(&each, rank * BLOCK_MAX, BLOCK_MAX, rank, mt_rank * BLOCK_MAX, "alltoall, the last replay");
        }
        ++each.salt;
        mt_barrier(MPI_COMM_WORLD);
    }
    mt_buffer_free(&each.in, "in");
    mt_buffer_free(&each.out, "out");
    free(each.host);
    mq_stream_free(each.stream);
}

/* Between nodes those whose blocks differ wait: their lists of blocks would have to be kept. */
enum { COLLECTIVES = 18, VARIED = 6 };

static void collectives(void)
{
    static const int blocks[] = {1, 17, 700, BLOCK_MAX - 1};
    const size_t size = sizeof(int) * BLOCK_MAX * (size_t)mt_size;
    const int waiting = mt_parameter_is("ranks_per_node", "0") ? 0 : VARIED;
    each_t each = {.stream = mq_stream_make(), .salt = 5000};
    MPI_Comm comm;

    MT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    each.in = mt_buffer_alloc(MT_DEVICE, size, 0);
    each.out = mt_buffer_alloc(MT_DEVICE, size, 0);
    each.host = mt_host_alloc(size);
    for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); ++i) {
        collectives_of(&each, blocks[i], comm);
        unsized_of(&each, blocks[i], comm);
    }
    mq_stream_wait(each.stream);
    MT_CHECK(mq_asked(comm, MPIX_MSCCLPP_QUERY_QUEUED) == (COLLECTIVES - waiting) * 4 &&
                 mq_asked(comm, MPIX_MSCCLPP_QUERY_WAITED) == waiting * 4,
             "of %d calls %lld were queued and %lld waited", COLLECTIVES * 4,
             (long long)mq_asked(comm, MPIX_MSCCLPP_QUERY_QUEUED),
             (long long)mq_asked(comm, MPIX_MSCCLPP_QUERY_WAITED));
    mt_buffer_free(&each.in, "in");
    mt_buffer_free(&each.out, "out");
    free(each.host);
    MT_MPI(MPI_Comm_free(&comm));
    mq_stream_free(each.stream);
}

int main(int argc, char **argv)
{
    mt_init(&argc, &argv, MPI_THREAD_SINGLE);
    if (mt_too_small(2)) {
        return MT_SKIPPED;
    }
    collectives();
    in_place_graph();
    freed_at_once();
    return mt_finish();
}
