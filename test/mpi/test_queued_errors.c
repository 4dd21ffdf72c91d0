/*
 * Queued calls that cannot be queued, and those that fail.
 *
 * --late: a rank that does not come. --busy: two calls of one communicator at once. --without: there is no component,
 * so every call waits. --many: more communicators than there is room for. --threads: several threads queue.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/mpi/mpi_queued.h"

static int class_of(int code)
{
    int class = MPI_ERR_UNKNOWN;

    MT_MPI(MPI_Error_class(code, &class));
    return class;
}

static int own_class(int which)
{
    int class = MPI_ERR_UNKNOWN;

    MT_MPI(MPIX_Mscclpp_error_class(which, &class));
    return class;
}

static void add_integers(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *count; ++i) {
        ((int *)inout)[i] += ((const int *)in)[i];
    }
}

/* A collective that the component does not know, as a newer library would ask for it, is not queued. */
static void unknown(void *stream)
{
    const mca_coll_mscclpp_api_t *table = mq_component_table();
    const mca_coll_mscclpp_queue_call_t call = {
        .size = sizeof(call), .coll = 1000000, .comm = MPI_COMM_WORLD, .stream = stream};
    int code = MPI_ERR_OTHER, can_queue = 1;
    uint64_t largest = 1;

    MT_CHECK(table != NULL, "the component's table is not found");
    if (table != NULL) {
        MT_CHECK(MCA_COLL_MSCCLPP_NOT_QUEUED == table->enqueue(&call, &code) && MPI_SUCCESS == code,
                 "an unknown collective is queued: error %d", code);
        MT_CHECK(MPI_SUCCESS == table->prepare(&call, &can_queue, &largest) && 0 == can_queue,
                 "an unknown collective is prepared");
    }
}

/* What cannot be queued waits, or is refused in a captured stream, and bad arguments are errors. */
static void refused(void)
{
    void *stream = mq_stream_make(), *graph;
    mt_buffer_t in = mt_buffer_alloc(MT_DEVICE, 4096, 0), out = mt_buffer_alloc(MT_DEVICE, 4096, 0);
    int got = -1, own = mt_rank + 1, sum = 0;
    MPI_Comm comm;
    MPI_Op add;
    const struct {
        const char *what;
        int expected, got;
    } cases[] = {
        {"a negative count", MPI_ERR_COUNT,
         MPIX_Mscclpp_allreduce_enqueue(in.data, out.data, -1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, stream)},
        {"no type", MPI_ERR_TYPE,
         MPIX_Mscclpp_allreduce_enqueue(in.data, out.data, 1, MPI_DATATYPE_NULL, MPI_SUM, MPI_COMM_WORLD, stream)},
        {"no operation", MPI_ERR_OP,
         MPIX_Mscclpp_allreduce_enqueue(in.data, out.data, 1, MPI_INT, MPI_OP_NULL, MPI_COMM_WORLD, stream)},
        {"no communicator", MPI_ERR_COMM,
         MPIX_Mscclpp_allreduce_enqueue(in.data, out.data, 1, MPI_INT, MPI_SUM, MPI_COMM_NULL, stream)},
        {"a negative root", MPI_ERR_ROOT, MPIX_Mscclpp_bcast_enqueue(in.data, 1, MPI_INT, -1, MPI_COMM_WORLD, stream)},
        {"a root beyond the last rank", MPI_ERR_ROOT,
         MPIX_Mscclpp_bcast_enqueue(in.data, 1, MPI_INT, mt_size, MPI_COMM_WORLD, stream)},
    };
    MPI_Count waited = mq_asked(MPI_COMM_WORLD, MPIX_MSCCLPP_QUERY_WAITED);

    MT_MPI(MPIX_Mscclpp_allreduce_enqueue(in.data, out.data, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, stream));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
        MT_CHECK(class_of(cases[i].got) == cases[i].expected, "%s: error class %d, not %d", cases[i].what,
                 class_of(cases[i].got), cases[i].expected);
    }
    MT_MPI(MPI_Op_create(add_integers, 1, &add));
    mt_buffer_put(&in, &own, sizeof(own));
    mq_stream_copy(stream, in.data + 64, in.data, sizeof(int));
    MT_MPI(MPIX_Mscclpp_allreduce_enqueue(in.data + 64, out.data, 1, MPI_INT, add, MPI_COMM_WORLD, stream));
    mt_buffer_get(&out, &sum, sizeof(sum));
    MT_CHECK(sum == mt_size * (mt_size + 1) / 2, "an all-reduce that waited brought %d", sum);
    MT_CHECK(mq_asked(MPI_COMM_WORLD, MPIX_MSCCLPP_QUERY_WAITED) == waited + 1, "an operation of our own was queued");
    MT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    mq_capture_begin(stream);
    got = MPIX_Mscclpp_allreduce_enqueue(in.data, out.data, 1, MPI_INT, add, MPI_COMM_WORLD, stream);
    MT_CHECK(class_of(got) == own_class(MPIX_MSCCLPP_ERR_CAPTURE), "an operation of our own in a graph: error %d", got);
    got = MPIX_Mscclpp_allreduce_enqueue(in.data, out.data, 1, MPI_INT, MPI_SUM, comm, stream);
    MT_CHECK(class_of(got) == own_class(MPIX_MSCCLPP_ERR_CAPTURE), "a first call in a graph: error %d", got);
    got = MPIX_Mscclpp_bcast_enqueue(in.data, 1, MPI_INT, 0, comm, stream);
    MT_CHECK(class_of(got) == own_class(MPIX_MSCCLPP_ERR_CAPTURE), "a first bcast in a graph: error %d", got);
    graph = mq_capture_end(stream);
    MT_MPI(MPIX_Mscclpp_allreduce_enqueue(in.data, out.data, 1, MPI_INT, MPI_SUM, comm, stream));
    mq_stream_wait(stream);
    MT_CHECK(mq_asked(comm, MPIX_MSCCLPP_QUERY_QUEUED) == 1, "the call after a refused one was not queued");
    MT_MPI(MPI_Comm_free(&comm));
    mq_graph_launch(graph, stream);
    mq_stream_wait(stream);
    if (mt_twin) {
        MT_MPI(MPIX_Mscclpp_host_graph_destroy(graph));
    }
    mt_buffer_free(&in, "in");
    mt_buffer_free(&out, "out");
    MT_MPI(MPI_Op_free(&add));
    unknown(stream);
    mq_stream_free(stream);
}

/*
 * Between two groups, one of which has one rank, the root. Arguments that MPI does not read on a rank may be wrong
 * there.
 */
static void between_groups(void)
{
    const bool in_first = mt_rank == 0;
    const int others = mt_size - 1, root = in_first ? MPI_ROOT : 0;
    void *stream = mq_stream_make();
    int *all = mt_host_alloc(sizeof(int) * (size_t)mt_size), own = 100 + mt_rank, code;
    MPI_Comm group, inter;

    MT_MPI(MPI_Comm_split(MPI_COMM_WORLD, !in_first, mt_rank, &group));
    MT_MPI(MPI_Intercomm_create(group, 0, MPI_COMM_WORLD, in_first ? 1 : 0, 0, &inter));
    MT_MPI(MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN));
    code = in_first ? MPIX_Mscclpp_gather_enqueue(NULL, -1, MPI_DATATYPE_NULL, all, 1, MPI_INT, root, inter, stream)
                    : MPIX_Mscclpp_gather_enqueue(&own, 1, MPI_INT, NULL, -1, MPI_DATATYPE_NULL, root, inter, stream);
    MT_CHECK(MPI_SUCCESS == code, "a gather between two groups: error class %d", class_of(code));
    for (int i = 0; in_first && i < others; ++i) {
        MT_CHECK(all[i] == 101 + i, "a gather between two groups: rank %d sent %d", i, all[i]);
        all[i] += 50;
    }
    code = in_first ? MPIX_Mscclpp_scatter_enqueue(all, 1, MPI_INT, NULL, -1, MPI_DATATYPE_NULL, root, inter, stream)
                    : MPIX_Mscclpp_scatter_enqueue(NULL, -1, MPI_DATATYPE_NULL, &own, 1, MPI_INT, root, inter, stream);
    MT_CHECK(MPI_SUCCESS == code, "a scatter between two groups: error class %d", class_of(code));
    MT_CHECK(in_first || own == 150 + mt_rank, "a scatter between two groups: %d", own);
    if (in_first) {
        code = MPIX_Mscclpp_scatter_enqueue(all, (MPI_Count)1 << 33, MPI_INT, NULL, 0, MPI_INT, root, inter, stream);
        MT_CHECK(MPI_ERR_COUNT == class_of(code), "a count beyond an int: error class %d", class_of(code));
    }
    MT_MPI(MPI_Comm_free(&inter));
    MT_MPI(MPI_Comm_free(&group));
    free(all);
    mq_stream_free(stream);
}

/* Looks until the communicator has failed, and returns the error. */
static int await_error(MPI_Comm comm, char *text, int size)
{
    const double until = mt_now() + 30;
    int code = MPI_SUCCESS;

    while (MPI_SUCCESS == code && mt_now() < until) {
        MT_MPI(MPIX_Mscclpp_get_async_error(comm, &code, text, size));
        usleep(1000);
    }
    return code;
}

/* The last rank does not come. The others hear of it, and it hears of them. */
static void late(void)
{
    void *stream = mq_stream_make();
    char text[300] = "";
    MPI_Comm comm;
    mq_sum_t sum;
    int code;

    MT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    MT_MPI(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    mq_sum_make(&sum, 100);
    mq_sum_fill(&sum, 1);
    mq_sum_queue(&sum, comm, stream);
    mq_stream_wait(stream);
    mq_sum_check(&sum, 1, "before a rank is late");
    MT_MPI(MPIX_Mscclpp_get_async_error(comm, &code, text, sizeof(text)));
    MT_CHECK(MPI_SUCCESS == code && '\0' == text[0], "an error where there is none: %d, %s", code, text);
    mt_barrier(MPI_COMM_WORLD);
    if (mt_rank != mt_size - 1) {
        mq_sum_queue(&sum, comm, stream);
    }
    code = class_of(await_error(comm, text, sizeof(text)));
    if (mt_rank != mt_size - 1) {
        MT_CHECK(code == own_class(MPIX_MSCCLPP_ERR_TIMEOUT) || code == own_class(MPIX_MSCCLPP_ERR_PEER),
                 "a late rank: error class %d, %s", code, text);
    } else {
        MT_CHECK(code == own_class(MPIX_MSCCLPP_ERR_PEER), "others gave up: error class %d, %s", code, text);
    }
    MT_CHECK('\0' != text[0], "an error without a text");
    mq_stream_wait(stream);
    code = MPIX_Mscclpp_allreduce_enqueue(sum.send.data, sum.recv.data, 1, MPI_INT, MPI_SUM, comm, stream);
    MT_CHECK(MPI_SUCCESS != code, "a call on a failed communicator succeeded");
    /* Others go on. */
    mq_sum_fill(&sum, 2);
    mq_sum_queue(&sum, MPI_COMM_WORLD, stream);
    mq_stream_wait(stream);
    mq_sum_check(&sum, 2, "another communicator after one has failed");
    MT_MPI(MPI_Comm_free(&comm));
    mq_sum_free(&sum);
    mq_stream_free(stream);
}

/* On rank 0 two calls of one communicator run at once, as the others come to them later only. */
static void busy(void)
{
    void *streams[2] = {mq_stream_make(), mq_stream_make()};
    char text[300] = "";
    MPI_Comm comm;
    mq_sum_t sums[2];
    int class;

    MT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    MT_MPI(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    mq_sum_make(&sums[0], 100);
    mq_sum_make(&sums[1], 100);
    mq_sum_fill(&sums[0], 1);
    mq_sum_fill(&sums[1], 2);
    mq_sum_queue(&sums[0], comm, streams[0]);
    mq_stream_wait(streams[0]);
    mt_barrier(MPI_COMM_WORLD);
    if (0 == mt_rank) {
        mq_sum_queue(&sums[0], comm, streams[0]);
        mq_sum_queue(&sums[1], comm, streams[1]);
        usleep(200000); /* both have begun */
        mt_barrier(MPI_COMM_WORLD);
    } else {
        mt_barrier(MPI_COMM_WORLD);
        mq_sum_queue(&sums[0], comm, streams[0]);
        mq_sum_queue(&sums[1], comm, streams[0]);
    }
    class = class_of(await_error(comm, text, sizeof(text)));
    if (0 == mt_rank) {
        MT_CHECK(class == own_class(MPIX_MSCCLPP_ERR_BUSY), "two at once: error class %d, %s", class, text);
        MT_CHECK(strstr(text, "at once") != NULL, "two at once: the text is %s", text);
    } else {
        MT_CHECK(class == own_class(MPIX_MSCCLPP_ERR_PEER) || class == own_class(MPIX_MSCCLPP_ERR_TIMEOUT),
                 "two at once on rank 0: error class %d, %s", class, text);
    }
    mq_stream_wait(streams[0]);
    mq_stream_wait(streams[1]);
    MT_MPI(MPI_Comm_free(&comm));
    mq_sum_free(&sums[0]);
    mq_sum_free(&sums[1]);
    mq_stream_free(streams[0]);
    mq_stream_free(streams[1]);
}

/* More communicators than there is room for: all calls are served, of some communicators after a wait. */
static void many(void)
{
    enum { COMMS = 7 };
    void *stream = mq_stream_make();
    MPI_Comm comms[COMMS];
    mq_sum_t sum;

    mq_sum_make(&sum, 1000);
    for (int i = 0; i < COMMS; ++i) {
        MT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]));
    }
    for (int i = 0; i < 2 * COMMS; ++i) {
        mq_sum_fill(&sum, i);
        mq_sum_queue(&sum, comms[i % COMMS], stream);
        mq_stream_wait(stream);
        mq_sum_check(&sum, i, "of many communicators");
    }
    for (int i = 0; i < COMMS; ++i) {
        MT_CHECK(mq_asked(comms[i], MPIX_MSCCLPP_QUERY_QUEUED) + mq_asked(comms[i], MPIX_MSCCLPP_QUERY_WAITED) == 2,
                 "communicator %d: %lld queued, %lld waited", i,
                 (long long)mq_asked(comms[i], MPIX_MSCCLPP_QUERY_QUEUED),
                 (long long)mq_asked(comms[i], MPIX_MSCCLPP_QUERY_WAITED));
        MT_MPI(MPI_Comm_free(&comms[i]));
    }
    mq_sum_free(&sum);
    mq_stream_free(stream);
}

enum { THREADS = 3, THREAD_SUMS = 3, THREAD_ROUNDS = 20 };

/* Of one thread: a communicator, a stream and buffers of its own. */
typedef struct {
    MPI_Comm comm;
    int number;
    void *stream;
    mq_sum_t sums[THREAD_SUMS];
} thread_t;

static void *run_thread(void *argument)
{
    thread_t *thread = argument;

    for (int round = 0; round < THREAD_ROUNDS; ++round) {
        const int salt = 10000 * thread->number + 10 * round;

        for (int i = 0; i < THREAD_SUMS; ++i) {
            mq_sum_fill(&thread->sums[i], salt + i);
        }
        for (int i = 0; i < THREAD_SUMS; ++i) {
            mq_sum_queue(&thread->sums[i], thread->comm, thread->stream);
        }
        mq_stream_wait(thread->stream);
        for (int i = 0; i < THREAD_SUMS; ++i) {
            mq_sum_check(&thread->sums[i], salt + i, "of a thread");
        }
    }
    return NULL;
}

/*
 * Several threads queue, each on its own communicator, as fast as they can. What waits for all kernels of a device is
 * done before and after.
 */
static void threads(void)
{
    enum { CALLS = THREAD_SUMS * THREAD_ROUNDS + 1 };
    pthread_t threads_of[THREADS];
    thread_t each[THREADS];

    for (int i = 0; i < THREADS; ++i) {
        each[i].number = i;
        each[i].stream = mq_stream_make();
        MT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &each[i].comm));
        for (int k = 0; k < THREAD_SUMS; ++k) {
            mq_sum_make(&each[i].sums[k], 50 + 4000 * k);
            mq_sum_fill(&each[i].sums[k], k);
        }
        mq_sum_queue(&each[i].sums[0], each[i].comm, each[i].stream);
        mq_stream_wait(each[i].stream);
    }
    for (int i = 0; i < THREADS; ++i) {
        MT_CHECK(0 == pthread_create(&threads_of[i], NULL, run_thread, &each[i]), "no thread");
    }
    for (int i = 0; i < THREADS; ++i) {
        (void)pthread_join(threads_of[i], NULL);
    }
    for (int i = 0; i < THREADS; ++i) {
        const long long queued = (long long)mq_asked(each[i].comm, MPIX_MSCCLPP_QUERY_QUEUED);
        const long long waited = (long long)mq_asked(each[i].comm, MPIX_MSCCLPP_QUERY_WAITED);

        /* A GPU that many processes share has too few blocks for the queues of three communicators of each. */
        MT_CHECK(queued == CALLS || (!mt_twin && i > 0 && queued == 0 && waited == CALLS),
                 "thread %d: %lld calls were queued and %lld waited, of %d", i, queued, waited, (int)CALLS);
        for (int k = 0; k < THREAD_SUMS; ++k) {
            mq_sum_free(&each[i].sums[k]);
        }
        mq_stream_free(each[i].stream);
        MT_MPI(MPI_Comm_free(&each[i].comm));
    }
}

/* Without the component: the library waits for the stream and calls MPI, which knows host memory alone. */
static int without(int argc, char **argv)
{
    int rank, size, own, sum = -1, failed = 0, code = -1;
    int periodic = 1, beside[2] = {-1, -1};
    MPI_Count waited = -1, queued = -1;
    MPI_Comm ring;
    void *stream = NULL;
    char text[8] = "before";

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    own = rank + 1;
    failed += MPI_SUCCESS != MPIX_Mscclpp_allreduce_enqueue(&own, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, NULL);
    failed += sum != size * (size + 1) / 2;
    failed += MPI_SUCCESS != MPIX_Mscclpp_barrier_enqueue(MPI_COMM_WORLD, NULL);
    MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &periodic, 0, &ring);
    failed += MPI_SUCCESS != MPIX_Mscclpp_neighbor_allgather_enqueue(&rank, 1, MPI_INT, beside, 1, MPI_INT, ring, NULL);
    failed += beside[0] != (rank + size - 1) % size || beside[1] != (rank + 1) % size;
    MPI_Comm_free(&ring);
    failed += MPI_SUCCESS != MPIX_Mscclpp_query(MPI_COMM_WORLD, MPIX_MSCCLPP_QUERY_WAITED, &waited) || waited != 2;
    failed += MPI_SUCCESS != MPIX_Mscclpp_query(MPI_COMM_WORLD, MPIX_MSCCLPP_QUERY_QUEUED, &queued) || queued != 0;
    failed += MPI_SUCCESS != MPIX_Mscclpp_get_async_error(MPI_COMM_WORLD, &code, text, sizeof(text));
    failed += code != MPI_SUCCESS || text[0] != '\0';
    failed += MPI_ERR_UNSUPPORTED_OPERATION != MPIX_Mscclpp_host_stream_create(&stream);
    if (failed > 0) {
        fprintf(stderr, "rank %d: %d of 10 checks failed without the component\n", rank, failed);
    }
    MPI_Finalize();
    return failed > 0;
}

int main(int argc, char **argv)
{
    const char *part = argc > 1 ? argv[1] : "";

    if (0 == strcmp(part, "--without")) {
        return without(argc, argv);
    }
    mt_init(&argc, &argv, 0 == strcmp(part, "--threads") ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
    MT_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    if (mt_too_small(2)) {
        return MT_SKIPPED;
    }
    if (0 == strcmp(part, "--late")) {
        late();
    } else if (0 == strcmp(part, "--busy")) {
        busy();
    } else if (0 == strcmp(part, "--many")) {
        many();
    } else if (0 == strcmp(part, "--threads")) {
        threads();
    } else {
        refused();
        between_groups();
    }
    return mt_finish();
}
