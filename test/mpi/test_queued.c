/*
 * Queued calls (mpix/include/mpix_mscclpp.h): in the order of streams, many under way, on several communicators, in
 * graphs. --pauses: what launches of a graph cost after pauses.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/mpi/mpi_queued.h"

static const int counts[] = {1, 30, 40, 5000, 300, 40000, 7};
enum { SUMS = sizeof(counts) / sizeof(counts[0]) };

/* Many in one stream, in its order, among blocking and nonblocking calls. */
static void order(void)
{
    void *stream = mq_stream_make();
    const MPI_Count before = mq_asked(MPI_COMM_WORLD, MPIX_MSCCLPP_QUERY_QUEUED);
    mq_sum_t sums[SUMS], between;

    for (int i = 0; i < SUMS; ++i) {
        mq_sum_make(&sums[i], counts[i]);
    }
    mq_sum_make(&between, 100);
    for (int round = 0; round < 4; ++round) {
        for (int i = 0; i < SUMS; ++i) {
            mq_sum_fill(&sums[i], 100 * round + i);
        }
        mq_sum_fill(&between, 100 * round + 50);
        for (int i = 0; i < SUMS; ++i) {
            mq_sum_queue(&sums[i], MPI_COMM_WORLD, stream);
            if (i == 3) {
                MT_MPI(MPI_Allreduce(between.source.data, between.result.data, between.count, MPI_INT, MPI_SUM,
                                     MPI_COMM_WORLD));
            }
        }
        mq_stream_wait(stream);
        for (int i = 0; i < SUMS; ++i) {
            mq_sum_check(&sums[i], 100 * round + i, "in order");
        }
        mq_sum_check(&between, 100 * round + 50, "a blocking call among queued ones");
    }
    MT_CHECK(mq_asked(MPI_COMM_WORLD, MPIX_MSCCLPP_QUERY_QUEUED) - before == 4 * SUMS, "%lld of %d calls were queued",
             (long long)(mq_asked(MPI_COMM_WORLD, MPIX_MSCCLPP_QUERY_QUEUED) - before), 4 * SUMS);
    for (int i = 0; i < SUMS; ++i) {
        mq_sum_free(&sums[i]);
    }
    mq_sum_free(&between);
    mq_stream_free(stream);
}

/* A call waits for no rank: the others make theirs only when they hear that rank 0's has returned. */
static void local(void)
{
    void *stream = mq_stream_make();
    mq_sum_t sums[SUMS];

    for (int i = 0; i < SUMS; ++i) {
        mq_sum_make(&sums[i], counts[i]);
        mq_sum_fill(&sums[i], 1000 + i);
    }
    if (0 != mt_rank) {
        MT_MPI(MPI_Recv(NULL, 0, MPI_INT, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
    for (int i = 0; i < SUMS; ++i) {
        mq_sum_queue(&sums[i], MPI_COMM_WORLD, stream);
    }
    for (int rank = 1; 0 == mt_rank && rank < mt_size; ++rank) {
        MT_MPI(MPI_Send(NULL, 0, MPI_INT, rank, 7, MPI_COMM_WORLD));
    }
    mq_stream_wait(stream);
    for (int i = 0; i < SUMS; ++i) {
        mq_sum_check(&sums[i], 1000 + i, "queued before the others came");
        mq_sum_free(&sums[i]);
    }
    mq_stream_free(stream);
}

/* Each rank queues on two communicators in an order of its own. */
static void crossed(void)
{
    enum { ROUNDS = 12 };
    void *streams[2] = {mq_stream_make(), mq_stream_make()};
    mq_sum_t sums[2][ROUNDS];
    MPI_Comm comms[2];

    MT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comms[0]));
    MT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]));
    for (int k = 0; k < 2; ++k) {
        for (int i = 0; i < ROUNDS; ++i) {
            mq_sum_make(&sums[k][i], i % 3 == 0 ? 20000 : 100 + i);
            mq_sum_fill(&sums[k][i], 2000 + 100 * k + i);
        }
        mq_sum_queue(&sums[k][0], comms[k], streams[k]); /* the first call waits, so not in any order */
    }
    for (int i = 1; i < ROUNDS; ++i) {
        mq_sum_queue(&sums[mt_rank % 2][i], comms[mt_rank % 2], streams[mt_rank % 2]);
    }
    for (int i = 1; i < ROUNDS; ++i) {
        mq_sum_queue(&sums[1 - mt_rank % 2][i], comms[1 - mt_rank % 2], streams[1 - mt_rank % 2]);
    }
    for (int k = 0; k < 2; ++k) {
        mq_stream_wait(streams[k]);
        for (int i = 0; i < ROUNDS; ++i) {
            mq_sum_check(&sums[k][i], 2000 + 100 * k + i, "crossed");
            mq_sum_free(&sums[k][i]);
        }
        MT_CHECK(mq_asked(comms[k], MPIX_MSCCLPP_QUERY_QUEUED) == ROUNDS,
                 "not all calls of communicator %d were queued", k);
        MT_MPI(MPI_Comm_free(&comms[k]));
        mq_stream_free(streams[k]);
    }
}

/* Graphs and other calls in turns. */
static void graphs(void)
{
    enum { REPLAYS = 30 };
    void *stream = mq_stream_make(), *graph;
    mq_sum_t sums[SUMS], between;
    mt_buffer_t shared;
    int got = 0;

    for (int i = 0; i < SUMS; ++i) {
        mq_sum_make(&sums[i], counts[i]);
    }
    mq_sum_make(&between, 200);
    shared = mt_buffer_alloc(MT_DEVICE, sizeof(int), 0);
    mq_capture_begin(stream);
    for (int i = 0; i < SUMS; ++i) {
        mq_sum_queue(&sums[i], MPI_COMM_WORLD, stream);
    }
    MT_MPI(MPIX_Mscclpp_bcast_enqueue(shared.data, 1, MPI_INT, mt_size - 1, MPI_COMM_WORLD, stream));
    MT_MPI(MPIX_Mscclpp_barrier_enqueue(MPI_COMM_WORLD, stream));
    graph = mq_capture_end(stream);
    for (int turn = 0; turn < REPLAYS; ++turn) {
        const int salt = 3000 + 20 * turn;
        int own = mt_rank == mt_size - 1 ? salt : -1;

        for (int i = 0; i < SUMS; ++i) {
            mq_sum_fill(&sums[i], salt + i);
        }
        mq_sum_fill(&between, salt + SUMS);
        mt_buffer_put(&shared, &own, sizeof(own));
        if (turn % 3 == 1) {
            mq_sum_queue(&between, MPI_COMM_WORLD, stream);
        }
        mq_graph_launch(graph, stream);
        if (turn % 3 == 2) {
            mq_graph_launch(graph, stream);
            mq_sum_queue(&between, MPI_COMM_WORLD, stream);
        }
        mq_stream_wait(stream);
        for (int i = 0; i < SUMS; ++i) {
            mq_sum_check(&sums[i], salt + i, "in a graph");
        }
        if (turn % 3 != 0) {
            mq_sum_check(&between, salt + SUMS, "between graphs");
        }
        mt_buffer_get(&shared, &got, sizeof(got));
        MT_CHECK(got == salt, "a broadcast in a graph brought %d, not %d", got, salt);
    }
    for (int i = 0; i < SUMS; ++i) {
        mq_sum_free(&sums[i]);
    }
    mq_sum_free(&between);
    mt_buffer_free(&shared, "broadcast");
    if (mt_twin) {
        MT_MPI(MPIX_Mscclpp_host_graph_destroy(graph));
    }
    mq_stream_free(stream);
}

/* A graph that is never launched: nobody waits for it when its communicator is freed. */
static void unlaunched(void)
{
    void *stream = mq_stream_make(), *graph;
    MPI_Comm comm;
    mq_sum_t sum;
    double began;

    MT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    mq_sum_make(&sum, 100);
    mq_sum_fill(&sum, 4000);
    mq_sum_queue(&sum, comm, stream);
    mq_stream_wait(stream);
    mq_sum_check(&sum, 4000, "before a graph that is not launched");
    mq_capture_begin(stream);
    mq_sum_queue(&sum, comm, stream);
    graph = mq_capture_end(stream);
    if (mt_twin) {
        MT_MPI(MPIX_Mscclpp_host_graph_destroy(graph));
    }
    began = mt_now();
    MT_MPI(MPI_Comm_free(&comm));
    MT_CHECK(mt_now() - began < 5, "freeing a communicator took %g s", mt_now() - began);
    mq_sum_free(&sum);
    mq_stream_free(stream);
}

/* A type with holes on some of the ranks only: those alone pack and unpack. */
static void holes(void)
{
    enum { COUNT = 500, TURNS = 6, GAP = 0x33333333 };
    mt_buffer_t buffer = mt_buffer_alloc(MT_DEVICE, sizeof(int) * 2 * COUNT, 0);
    int *host = mt_host_alloc(sizeof(int) * 2 * COUNT);
    void *stream = mq_stream_make();
    MPI_Datatype spread;
    MPI_Comm comm;

    MT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    MT_MPI(MPI_Type_vector(COUNT, 1, 2, MPI_INT, &spread));
    MT_MPI(MPI_Type_commit(&spread));
    for (int turn = 0; turn < TURNS; ++turn) {
        const int root = turn % mt_size, step = 1 + (mt_rank + turn) % 2;
        int wrong = 0;

        for (int i = 0; i < 2 * COUNT; ++i) {
            host[i] = mt_rank == root && i % step == 0 ? mq_value_of(root, i / step, turn) : GAP;
        }
        mt_buffer_put(&buffer, host, sizeof(int) * 2 * COUNT);
        MT_MPI(MPIX_Mscclpp_bcast_enqueue(buffer.data, 2 == step ? 1 : COUNT, 2 == step ? spread : MPI_INT, root, comm,
                                          stream));
        mq_stream_wait(stream);
        mt_buffer_get(&buffer, host, sizeof(int) * 2 * COUNT);
        for (int i = 0; i < COUNT; ++i) {
            wrong += host[i * step] != mq_value_of(root, i, turn) || (2 == step && host[2 * i + 1] != GAP);
        }
        MT_CHECK(0 == wrong, "turn %d: %d of %d integers are wrong, %d apart", turn, wrong, COUNT, step);
    }
    MT_CHECK(TURNS == mq_asked(comm, MPIX_MSCCLPP_QUERY_QUEUED), "of %d calls with holes %lld were queued", TURNS,
             (long long)mq_asked(comm, MPIX_MSCCLPP_QUERY_QUEUED));
    MT_MPI(MPI_Type_free(&spread));
    MT_MPI(MPI_Comm_free(&comm));
    mt_buffer_free(&buffer, "buffer");
    free(host);
    mq_stream_free(stream);
}

static int compare_times(const void *a, const void *b)
{
    const double first = *(const double *)a, second = *(const double *)b;

    return (first > second) - (first < second);
}

/* Microseconds from the launch of a graph to its end, each time after a pause of the host: the median of this rank. */
static double time_launches(void *graph, void *stream, useconds_t pause, int times)
{
    double taken[64];

    for (int i = 0; i < times; ++i) {
        usleep(pause);
        MT_MPI(MPI_Barrier(MPI_COMM_WORLD));
        taken[i] = MPI_Wtime();
        mq_graph_launch(graph, stream);
        mq_stream_wait(stream);
        taken[i] = (MPI_Wtime() - taken[i]) * 1e6;
    }
    qsort(taken, (size_t)times, sizeof(taken[0]), compare_times);
    return taken[times / 2];
}

/* What a launch costs when the proxy has slept: graphs wake nobody. Prints times, and judges results alone. */
static void after_pauses(void)
{
    static const useconds_t pauses[] = {0, 300, 1000, 4000, 20000, 200000};
    mt_buffer_t buffer = mt_buffer_alloc(MT_DEVICE, sizeof(int), 0);
    void *stream = mq_stream_make(), *graph;
    long long launches = 1;
    MPI_Comm comm;
    int value = mt_rank + 1;

    MT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    mt_buffer_put(&buffer, &value, sizeof(value));
    MT_MPI(MPIX_Mscclpp_allreduce_enqueue(MPI_IN_PLACE, buffer.data, 1, MPI_INT, MPI_MAX, comm, stream));
    mq_capture_begin(stream);
    MT_MPI(MPIX_Mscclpp_allreduce_enqueue(MPI_IN_PLACE, buffer.data, 1, MPI_INT, MPI_MAX, comm, stream));
    graph = mq_capture_end(stream);
    for (size_t i = 0; i < sizeof(pauses) / sizeof(pauses[0]); ++i) {
        const int times = pauses[i] > 10000 ? 9 : 63;
        const double mine = time_launches(graph, stream, pauses[i], times);
        double most = 0;

        launches += times;
        MT_MPI(MPI_Reduce(&mine, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD));
        if (0 == mt_rank) {
            printf("after %u us: %.1f us\n", pauses[i], most);
        }
    }
    mt_buffer_get(&buffer, &value, sizeof(value));
    MT_CHECK(mt_size == value, "after %lld launches the maximum of 1 to %d is %d", launches, mt_size, value);
    MT_CHECK(2 == mq_asked(comm, MPIX_MSCCLPP_QUERY_QUEUED), "of 2 calls %lld were queued",
             (long long)mq_asked(comm, MPIX_MSCCLPP_QUERY_QUEUED));
    mt_buffer_free(&buffer, "buffer");
    MT_MPI(MPI_Comm_free(&comm));
    mq_stream_free(stream);
}

int main(int argc, char **argv)
{
    mt_init(&argc, &argv, MPI_THREAD_SINGLE);
    if (mt_too_small(2)) {
        return MT_SKIPPED;
    }
    if (argc > 1 && 0 == strcmp(argv[1], "--pauses")) {
        after_pauses();
        return mt_finish();
    }
    order();
    local();
    crossed();
    holes();
    graphs();
    unlaunched();
    return mt_finish();
}
