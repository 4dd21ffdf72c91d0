/*
 * Requests without the component, which MPI's own calls carry out. The program has CUDA's driver, as far as the library
 * asks for it: a stream is a list of copies, which nobody makes until somebody waits for the stream.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mpix/include/mpix_mscclpp/host_kernel.h"
#include "mpix/include/mpix_mscclpp_device.h"
#include "mpix/include/mpix_mscclpp_requests.h"

enum { COUNT = 600, PARTS = 4, TURNS = 6, COPIES = 8 };

static int rank, size, failed;

#define CHECK(condition_, ...)                                                                                         \
    do {                                                                                                               \
        if (!(condition_)) {                                                                                           \
            ++failed;                                                                                                  \
            fprintf(stderr, "rank %d: line %d: ", rank, __LINE__);                                                     \
            fprintf(stderr, __VA_ARGS__);                                                                              \
            fprintf(stderr, "\n");                                                                                     \
        }                                                                                                              \
    } while (0)
#define OK(call_) CHECK((call_) == MPI_SUCCESS, "%s failed", #call_)

/* A stream of the driver below. */
typedef struct {
    struct {
        void *to;
        const void *from;
        size_t size;
    } copies[COPIES];
    int count;
    int captured;
} stream_t;

/* The library looks for the functions below. */
#define DRIVER __attribute__((visibility("default")))

static int words_alive;

DRIVER int cuStreamSynchronize(void *stream);
int cuStreamSynchronize(void *stream)
{
    stream_t *list = stream;

    for (int i = 0; i < list->count; ++i) {
        memcpy(list->copies[i].to, list->copies[i].from, list->copies[i].size);
    }
    list->count = 0;
    return 0;
}

DRIVER int cuStreamIsCapturing(void *stream, int *status);
int cuStreamIsCapturing(void *stream, int *status)
{
    *status = ((stream_t *)stream)->captured;
    return 0;
}

DRIVER int cuMemHostAlloc(void **address, size_t bytes, unsigned flags);
int cuMemHostAlloc(void **address, size_t bytes, unsigned flags)
{
    (void)flags;
    *address = malloc(bytes);
    ++words_alive;
    return *address == NULL;
}

DRIVER int cuMemFreeHost(void *address);
int cuMemFreeHost(void *address)
{
    free(address);
    --words_alive;
    return 0;
}

/* MPI's functions, with which the library makes and tries the communicator of a pair. */
static int comms_alive, exchange_fails;

DRIVER int MPI_Comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *newcomm)
{
    ++comms_alive;
    return PMPI_Comm_create_group(comm, group, tag, newcomm);
}

DRIVER int MPI_Comm_free(MPI_Comm *comm)
{
    --comms_alive;
    return PMPI_Comm_free(comm);
}

DRIVER int MPI_Sendrecv(const void *out, int out_count, MPI_Datatype out_type, int to, int out_tag, void *in,
                        int in_count, MPI_Datatype in_type, int from, int in_tag, MPI_Comm comm, MPI_Status *status)
{
    return exchange_fails ? MPI_ERR_OTHER
                          : PMPI_Sendrecv(out, out_count, out_type, to, out_tag, in, in_count, in_type, from, in_tag,
                                          comm, status);
}

static void copy_later(stream_t *stream, void *to, const void *from, size_t bytes)
{
    stream->copies[stream->count].to = to;
    stream->copies[stream->count].from = from;
    stream->copies[stream->count++].size = bytes;
}

static void fill(int *values, int count, int salt)
{
    for (int i = 0; i < count; ++i) {
        values[i] = rank + i + 31 * salt;
    }
}

static void check_sum(const int *values, int first, int count, int salt, const char *what)
{
    for (int i = first; i < first + count; ++i) {
        const int right = size * (i + 31 * salt) + size * (size - 1) / 2;

        if (values[i] != right) {
            CHECK(0, "%s: integer %d is %d, not %d", what, i, values[i], right);
            return;
        }
    }
}

static int class_of(int code)
{
    int class = -1;

    MPI_Error_class(code, &class);
    return class;
}

/* A start waits for what is in the stream, and its result is there afterwards. */
static void in_stream(void)
{
    static int source[COUNT], operand[COUNT], sum[COUNT];
    MPIX_Mscclpp_request request;
    stream_t stream = {.count = 0};
    MPI_Count waited = -1;
    int flag = 0, capture = -1;

    OK(MPIX_Mscclpp_allreduce_init(operand, sum, COUNT, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request));
    OK(MPIX_Mscclpp_attach_stream(request, &stream));
    OK(MPIX_Mscclpp_prepare(1, &request));
    OK(MPIX_Mscclpp_test(request, &flag));
    CHECK(flag, "a request that was never started is not complete");
    for (int turn = 0; turn < TURNS; ++turn) {
        fill(source, COUNT, turn);
        memset(operand, 0, sizeof(operand));
        copy_later(&stream, operand, source, sizeof(operand));
        OK(MPIX_Mscclpp_start(1, &request));
        check_sum(sum, 0, COUNT, turn, "behind a copy in the stream");
        OK(MPIX_Mscclpp_complete(1, &request));
        OK(MPIX_Mscclpp_wait(1, &request));
    }
    OK(MPIX_Mscclpp_query(MPI_COMM_WORLD, MPIX_MSCCLPP_QUERY_WAITED, &waited));
    CHECK(waited == TURNS, "%lld calls waited", (long long)waited);
    stream.captured = 1;
    OK(MPIX_Mscclpp_error_class(MPIX_MSCCLPP_ERR_CAPTURE, &capture));
    CHECK(class_of(MPIX_Mscclpp_start(1, &request)) == capture, "a captured start");
    CHECK(class_of(MPIX_Mscclpp_barrier_enqueue(MPI_COMM_WORLD, &stream)) == capture, "a captured call");
    stream.captured = 0;
    fill(source, COUNT, 77);
    copy_later(&stream, operand, source, sizeof(operand));
    OK(MPIX_Mscclpp_start(1, &request));
    check_sum(sum, 0, COUNT, 77, "after a capture");
    OK(MPIX_Mscclpp_request_free(&request));
    /* The same by a queued call. */
    fill(source, COUNT, 78);
    copy_later(&stream, operand, source, sizeof(operand));
    OK(MPIX_Mscclpp_allreduce_enqueue(operand, sum, COUNT, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &stream));
    check_sum(sum, 0, COUNT, 78, "a queued call");
    /* Nothing can be a node of a graph. */
    OK(MPIX_Mscclpp_allreduce_init(operand, sum, COUNT, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request));
    OK(MPIX_Mscclpp_attach_graph(request, &stream));
    CHECK(class_of(MPIX_Mscclpp_prepare(1, &request)) == MPI_ERR_UNSUPPORTED_OPERATION, "a graph without a component");
    OK(MPIX_Mscclpp_request_free(&request));
}

/* Kernels of the application, in a thread as on a GPU. */
typedef struct {
    mpix_partitions_t request;
    int *values;
    int salt;
    int seen; /* partitions that the kernel has awaited */
    mpix_host_kernel_t launch;
} work_t;

static void mark_and_await(mpix_group_t *block, void *argument)
{
    work_t *work = argument;

    for (int k = 0; k < PARTS; ++k) {
        const int part = (k + rank + work->salt) % PARTS;

        for (int i = part * COUNT + (int)block->index; i < (part + 1) * COUNT; i += (int)block->size) {
            work->values[i] = rank + i + 31 * work->salt;
        }
        mpix_pready(block, &work->request, (mpix_u32)part);
    }
    for (int part = 0; part < PARTS; ++part) {
        if (mpix_await(block, &work->request, (mpix_u32)part) == 0 && block->index == 0) {
            check_sum(work->values, part * COUNT, COUNT, work->salt, "what the kernel sees");
            ++work->seen;
        }
    }
}

static void *run_kernel(void *argument)
{
    mpix_host_run(argument);
    return NULL;
}

/* A kernel marks the parts in any order, and waits for the sums while the host completes the start. */
static void in_parts(void)
{
    static int values[PARTS * COUNT];
    MPIX_Mscclpp_request request;
    stream_t stream = {.count = 0};
    work_t work = {.values = values};
    pthread_t thread;
    int flag;

    OK(MPIX_Mscclpp_pallreduce_init(MPI_IN_PLACE, values, PARTS, COUNT, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request));
    OK(MPIX_Mscclpp_attach_kernels(request, &stream));
    OK(MPIX_Mscclpp_prepare(1, &request));
    CHECK(words_alive > 0, "kernels could not reach the marks");
    OK(MPIX_Mscclpp_request_get_device(request, MPIX_MSCCLPP_DEVICE_ABI, &work.request, sizeof(work.request)));
    work.launch = (mpix_host_kernel_t){mark_and_await, &work, 1, 2, 0};
    for (work.salt = 0; work.salt < TURNS; ++work.salt) {
        work.seen = 0;
        OK(MPIX_Mscclpp_start(1, &request));
        OK(MPIX_Mscclpp_test(request, &flag));
        CHECK(!flag, "a request that nobody has released is complete");
        CHECK(MPIX_Mscclpp_request_free(&request) != MPI_SUCCESS, "a request is freed while it is under way");
        CHECK(pthread_create(&thread, NULL, run_kernel, &work.launch) == 0, "no thread");
        OK(MPIX_Mscclpp_complete(1, &request));
        check_sum(values, 0, PARTS * COUNT, work.salt, "after complete");
        (void)pthread_join(thread, NULL);
        CHECK(work.seen == PARTS, "the kernel has seen %d parts", work.seen);
    }
    OK(MPIX_Mscclpp_request_free(&request));
}

static void mark_wrong(mpix_group_t *block, void *argument)
{
    const mpix_partitions_t *marks = argument;

    mpix_pready(block, marks, 1);
}

/*
 * A request of rank 0 fails while MPI's call is under way, which waits for the other ranks. The request is only freed
 * when MPI has left its buffer.
 */
static void freed_under_way(void)
{
    static int values[COUNT];
    MPIX_Mscclpp_request request;
    stream_t stream = {.count = 0};
    mpix_partitions_t marks;
    mpix_host_kernel_t launch = {mark_wrong, &marks, 1, 1, 0};
    int flag = 1;

    OK(MPIX_Mscclpp_allreduce_init(MPI_IN_PLACE, values, COUNT, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request));
    OK(MPIX_Mscclpp_attach_kernels(request, &stream));
    OK(MPIX_Mscclpp_prepare(1, &request));
    OK(MPIX_Mscclpp_request_get_device(request, MPIX_MSCCLPP_DEVICE_ABI, &marks, sizeof(marks)));
    fill(values, COUNT, 5);
    OK(MPIX_Mscclpp_start(1, &request));
    if (rank == 0) {
        OK(MPIX_Mscclpp_pready(0, 0, request));
        OK(MPIX_Mscclpp_test(request, &flag));
        CHECK(!flag, "a request has ended without the other ranks");
        mpix_host_run(&launch);
        CHECK(class_of(MPIX_Mscclpp_wait(1, &request)) == MPI_ERR_ARG, "a wrong partition is not told");
    } else {
        (void)usleep(300000);
        OK(MPIX_Mscclpp_pready(0, 0, request));
        OK(MPIX_Mscclpp_wait(1, &request));
    }
    OK(MPIX_Mscclpp_request_free(&request));
    check_sum(values, 0, COUNT, 5, "a request that failed while MPI's call was under way");
}

/* Two requests that each rank starts, releases and waits for in an order of its own. */
static void crosswise(void)
{
    static int values[2][COUNT];
    MPIX_Mscclpp_request requests[2];
    stream_t stream = {.count = 0};

    for (int k = 0; k < 2; ++k) {
        OK(MPIX_Mscclpp_allreduce_init(MPI_IN_PLACE, values[k], COUNT, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[k]));
        OK(MPIX_Mscclpp_attach_kernels(requests[k], &stream));
    }
    OK(MPIX_Mscclpp_prepare(2, requests));
    for (int turn = 0; turn < TURNS; ++turn) {
        const int first = (rank + turn) % 2;

        for (int k = 0; k < 2; ++k) {
            const int now = k == 0 ? first : 1 - first;

            fill(values[now], COUNT, 2 * turn + now);
            OK(MPIX_Mscclpp_start(1, &requests[now]));
            OK(MPIX_Mscclpp_pready(0, 0, requests[now]));
        }
        OK(MPIX_Mscclpp_wait(1, &requests[first]));
        check_sum(values[first], 0, COUNT, 2 * turn + first, "the first of two");
        OK(MPIX_Mscclpp_wait(1, &requests[1 - first]));
        check_sum(values[1 - first], 0, COUNT, 2 * turn + 1 - first, "the second of two");
    }
    for (int k = 0; k < 2; ++k) {
        OK(MPIX_Mscclpp_request_free(&requests[k]));
    }
}

/* Messages around a ring, part by part. */
static void around(void)
{
    static int out[PARTS * COUNT], in[PARTS * COUNT];
    const int next = (rank + 1) % size, last = (rank + size - 1) % size;
    MPIX_Mscclpp_request requests[2];
    stream_t stream = {.count = 0};
    int first;

    OK(MPIX_Mscclpp_psend_init(out, PARTS, COUNT, MPI_INT, next, 5, MPI_COMM_WORLD, &requests[0]));
    OK(MPIX_Mscclpp_precv_init(in, PARTS, COUNT, MPI_INT, last, 5, MPI_COMM_WORLD, &requests[1]));
    OK(MPIX_Mscclpp_attach_kernels(requests[0], &stream));
    OK(MPIX_Mscclpp_attach_kernels(requests[1], &stream));
    OK(MPIX_Mscclpp_prepare(2, requests));
    for (int turn = 0; turn < TURNS; ++turn) {
        memset(in, 0, sizeof(in));
        OK(MPIX_Mscclpp_start(2, requests));
        fill(out, PARTS * COUNT, turn);
        OK(MPIX_Mscclpp_pready(1, PARTS - 1, requests[0]));
        OK(MPIX_Mscclpp_pready(0, 0, requests[0]));
        OK(MPIX_Mscclpp_complete(2, requests));
        for (int i = 0; i < PARTS * COUNT; ++i) {
            if (in[i] != last + i + 31 * turn) {
                CHECK(0, "integer %d from rank %d is %d", i, last, in[i]);
                break;
            }
        }
    }
    first = rank == 0 || (size > 2 && rank == size - 1) ? 0 : 1;
    OK(MPIX_Mscclpp_request_free(&requests[first]));
    OK(MPIX_Mscclpp_request_free(&requests[1 - first]));
}

/* A request between two ranks whose first exchange fails can be prepared again, and no communicator is lost. */
static void prepared_again(void)
{
    static int value;
    MPIX_Mscclpp_request request;
    stream_t stream = {.count = 0};
    const int before = comms_alive;

    if (rank > 1) {
        return;
    }
    OK(rank == 0 ? MPIX_Mscclpp_psend_init(&value, 1, 1, MPI_INT, 1, 9, MPI_COMM_WORLD, &request)
                 : MPIX_Mscclpp_precv_init(&value, 1, 1, MPI_INT, 0, 9, MPI_COMM_WORLD, &request));
    OK(MPIX_Mscclpp_attach_kernels(request, &stream));
    exchange_fails = 1;
    CHECK(MPIX_Mscclpp_prepare(1, &request) != MPI_SUCCESS, "a failed exchange is not told");
    exchange_fails = 0;
    CHECK(comms_alive == before, "%d communicators are left of a failed exchange", comms_alive - before);
    OK(MPIX_Mscclpp_prepare(1, &request));
    OK(MPIX_Mscclpp_request_free(&request));
    CHECK(comms_alive == before, "%d communicators are left of a pair", comms_alive - before);
}

/* Blocks of rank + 1 + peer integers, for collectives whose blocks differ. */
static int to_send[4096], received[4096], expected[4096];
static int counts[64], displs[64], bytes_displs[64];
static MPI_Aint offsets[2];
static MPI_Datatype types[64];
static MPI_Comm each_comm; /* of EACH */

static void start_once(int made, MPIX_Mscclpp_request request, stream_t *stream, const char *what)
{
    CHECK(made == MPI_SUCCESS, "%s cannot be made", what);
    memset(received, 0xff, sizeof(received));
    OK(MPIX_Mscclpp_attach_stream(request, stream));
    OK(MPIX_Mscclpp_prepare(1, &request));
    OK(MPIX_Mscclpp_start(1, &request));
    OK(MPIX_Mscclpp_request_free(&request));
    CHECK(memcmp(received, expected, sizeof(received)) == 0, "%s differs from MPI's", what);
}

/* Makes the plain call and an execution of a request of the same arguments, which follow the buffers. */
#define EACH(Name_, name_, send_, ...)                                                                                 \
    do {                                                                                                               \
        MPIX_Mscclpp_request request_ = NULL;                                                                          \
        int made_, plain_;                                                                                             \
        memset(expected, 0xff, sizeof(expected));                                                                      \
        plain_ = MPI_##Name_ send_(expected) __VA_ARGS__ each_comm);                                                   \
        CHECK(plain_ == MPI_SUCCESS, "MPI_" #Name_ " failed");                                                         \
        made_ = MPIX_Mscclpp_##name_##_init send_(received) __VA_ARGS__ each_comm, &request_);                         \
        start_once(made_, request_, &stream, #name_);                                                                  \
    } while (0)

#define REDUCED(to_) (to_send, to_,
#define BLOCKS(to_) (to_send, 5, MPI_INT, to_,
#define VARIED(to_) (to_send, counts[rank], MPI_INT, to_,
#define LISTED(to_) (to_send, counts, displs, MPI_INT, to_,
#define TYPED(to_) (to_send, counts, bytes_displs, types, to_,
#define PLACED(to_) (to_send, counts, offsets, types, to_,

/* Every collective. */
static void each(void)
{
    stream_t stream = {.count = 0};
    const int root = size - 1;

    each_comm = MPI_COMM_WORLD;
    fill(to_send, 4096, 3);
    for (int peer = 0; peer < size; ++peer) {
        counts[peer] = 7; /* equal on all pairs, so that both sides agree */
        displs[peer] = 11 * (size - 1 - peer);
        bytes_displs[peer] = displs[peer] * (int)sizeof(int);
        types[peer] = MPI_INT;
    }
    EACH(Allreduce, allreduce, REDUCED, 9, MPI_INT, MPI_SUM, );
    EACH(Reduce, reduce, REDUCED, 9, MPI_INT, MPI_SUM, root, );
    EACH(Reduce_scatter_block, reduce_scatter_block, REDUCED, 9, MPI_INT, MPI_SUM, );
    EACH(Reduce_scatter, reduce_scatter, REDUCED, counts, MPI_INT, MPI_SUM, );
    EACH(Scan, scan, REDUCED, 9, MPI_INT, MPI_SUM, );
    EACH(Exscan, exscan, REDUCED, 9, MPI_INT, MPI_SUM, );
    EACH(Allgather, allgather, BLOCKS, 5, MPI_INT, );
    EACH(Gather, gather, BLOCKS, 5, MPI_INT, root, );
    EACH(Scatter, scatter, BLOCKS, 5, MPI_INT, root, );
    EACH(Alltoall, alltoall, BLOCKS, 5, MPI_INT, );
    EACH(Allgatherv, allgatherv, VARIED, counts, displs, MPI_INT, );
    EACH(Gatherv, gatherv, VARIED, counts, displs, MPI_INT, root, );
    EACH(Scatterv, scatterv, LISTED, 7, MPI_INT, root, );
    EACH(Alltoallv, alltoallv, LISTED, counts, displs, MPI_INT, );
    EACH(Alltoallw, alltoallw, TYPED, counts, bytes_displs, types, );
}

/* Every collective of neighbours, where each rank sends two blocks to the next one. */
static void neighbors(void)
{
    const int next = (rank + 1) % size, last = (rank + size - 1) % size, from[2] = {last, last}, to[2] = {next, next};
    stream_t stream = {.count = 0};

    OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 2, from, MPI_UNWEIGHTED, 2, to, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                                      &each_comm));
    fill(to_send, 4096, 4);
    for (int edge = 0; edge < 2; ++edge) {
        counts[edge] = 3 + edge;
        displs[edge] = 7 * (1 - edge);
        offsets[edge] = displs[edge] * (MPI_Aint)sizeof(int);
        types[edge] = MPI_INT;
    }
    EACH(Neighbor_allgather, neighbor_allgather, BLOCKS, 5, MPI_INT, );
    EACH(Neighbor_alltoall, neighbor_alltoall, BLOCKS, 5, MPI_INT, );
    EACH(Neighbor_alltoallv, neighbor_alltoallv, LISTED, counts, displs, MPI_INT, );
    EACH(Neighbor_alltoallw, neighbor_alltoallw, PLACED, counts, offsets, types, );
    counts[0] = counts[1] = counts[rank] = 4;
    EACH(Neighbor_allgatherv, neighbor_allgatherv, VARIED, counts, displs, MPI_INT, );
    OK(MPI_Comm_free(&each_comm));
}

static void without_buffers(void)
{
    MPIX_Mscclpp_request request = NULL;
    stream_t stream = {.count = 0};
    int value = rank == 1 ? 42 : 0;

    OK(MPIX_Mscclpp_barrier_init(MPI_COMM_WORLD, &request));
    OK(MPIX_Mscclpp_attach_stream(request, &stream));
    OK(MPIX_Mscclpp_prepare(1, &request));
    OK(MPIX_Mscclpp_start(1, &request));
    OK(MPIX_Mscclpp_request_free(&request));
    OK(MPIX_Mscclpp_bcast_init(&value, 1, MPI_INT, 1, MPI_COMM_WORLD, &request));
    OK(MPIX_Mscclpp_attach_stream(request, &stream));
    OK(MPIX_Mscclpp_prepare(1, &request));
    OK(MPIX_Mscclpp_start(1, &request));
    CHECK(value == 42, "the broadcast brought %d", value);
    OK(MPIX_Mscclpp_request_free(&request));
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    in_stream();
    in_parts();
    freed_under_way();
    crosswise();
    around();
    prepared_again();
    each();
    neighbors();
    without_buffers();
    CHECK(words_alive == 0, "%d lists of words were not freed", words_alive);
    MPI_Finalize();
    return failed > 0;
}
