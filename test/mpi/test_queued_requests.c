/*
 * Persistent requests of queued calls on the host twin: in the order of a stream and captured, released by kernels,
 * part by part in an order of each rank's own, completed in streams and waited for by kernels and by the host.
 *
 * --late: a rank never marks its partition. --many: six requests. --none: the same where there is no room.
 * --refused: what must not be done. --without: there is no component. --freed: requests are freed while streams have
 * not passed them. --wrong: a kernel marks a partition that there is not.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mpix/include/mpix_mscclpp_requests.h"
#include "mpix/include/mpix_mscclpp/host_kernel.h"
#include "mpix/include/mpix_mscclpp_device.h"
#include "test/mpi/mpi_queued.h"

enum { PARTS = 4, PART = 700, TURNS = 6 };

static void fill(int *values, int count, int salt)
{
    for (int i = 0; i < count; ++i) {
        values[i] = mq_value_of(mt_rank, i, salt);
    }
}

static void check(const int *values, int first, int count, int salt, const char *what)
{
    for (int i = first; i < first + count; ++i) {
        if (values[i] != mq_sum_of(mt_size, i, salt)) {
            MT_CHECK(0, "%s: integer %d is %d, not %d", what, i, values[i], mq_sum_of(mt_size, i, salt));
            return;
        }
    }
}

/* The same request again and again behind copies, eager and in a graph. */
static void in_stream(void)
{
    MPIX_Mscclpp_request requests[2] = {NULL, NULL};
    int *source = malloc(sizeof(int) * PART), *sum = malloc(sizeof(int) * PART), *result = malloc(sizeof(int) * PART);
    int *all = malloc(sizeof(int) * (size_t)mt_size), mine = 0, flag = 0;
    void *stream = mq_stream_make(), *graph;

    MT_MPI(MPIX_Mscclpp_allreduce_init(source, sum, PART, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[0]));
    MT_MPI(MPIX_Mscclpp_allgather_init(&mine, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD, &requests[1]));
    MT_MPI(MPIX_Mscclpp_attach_stream(requests[0], stream));
    MT_MPI(MPIX_Mscclpp_attach_stream(requests[1], stream));
    MT_MPI(MPIX_Mscclpp_prepare(2, requests));
    MT_MPI(MPIX_Mscclpp_test(requests[0], &flag));
    MT_CHECK(flag, "a request that was never started is not complete");
    for (int turn = 0; turn < TURNS; ++turn) {
        mine = 10 * turn + mt_rank;
        fill(source, PART, turn);
        MT_MPI(MPIX_Mscclpp_start(2, requests));
        mq_stream_copy(stream, result, sum, sizeof(int) * PART);
        MT_MPI(MPIX_Mscclpp_complete(2, requests));
        MT_MPI(MPIX_Mscclpp_wait(2, requests));
        MT_MPI(MPIX_Mscclpp_test(requests[1], &flag));
        MT_CHECK(flag, "a request that was waited for is not complete");
        check(result, 0, PART, turn, "in a stream");
        for (int i = 0; i < mt_size; ++i) {
            MT_CHECK(all[i] == 10 * turn + i, "all-gather, turn %d: %d of rank %d", turn, all[i], i);
        }
    }
    mq_capture_begin(stream);
    MT_MPI(MPIX_Mscclpp_start(2, requests));
    mq_stream_copy(stream, result, sum, sizeof(int) * PART);
    graph = mq_capture_end(stream);
    for (int turn = 0; turn < TURNS; ++turn) {
        fill(source, PART, 100 + turn);
        mq_graph_launch(graph, stream);
        mq_stream_wait(stream);
        check(result, 0, PART, 100 + turn, "in a graph");
        if (turn % 2 == 1) {
            MT_MPI(MPIX_Mscclpp_start(1, requests));
            MT_MPI(MPIX_Mscclpp_wait(1, requests));
        }
    }
    MT_MPI(MPIX_Mscclpp_host_graph_destroy(graph));
    MT_MPI(MPIX_Mscclpp_request_free(&requests[0]));
    MT_MPI(MPIX_Mscclpp_request_free(&requests[1]));
    MT_CHECK(requests[0] == NULL, "the handle of a freed request is not NULL");
    mq_stream_free(stream);
    free(source);
    free(sum);
    free(result);
    free(all);
}

/* A kernel of the application: each block fills parts in an order of its own, and marks them; then it takes the sums.
 */
typedef struct {
    mpix_partitions_t request;
    int *values;
    int *seen;
    int salt;
    int awaits;
    uint32_t ended; /* blocks */
} work_t;

static void kernel(mpix_group_t *block, void *argument)
{
    work_t *work = argument;

    for (int k = 0; k < PARTS; ++k) {
        const int part = (k + mt_rank + work->salt) % PARTS;

        if ((mpix_u32)part % block->blocks != block->block) {
            continue;
        }
        for (int i = part * PART + (int)block->index; i < (part + 1) * PART; i += (int)block->size) {
            work->values[i] = mq_value_of(mt_rank, i, work->salt);
        }
        mpix_pready(block, &work->request, (mpix_u32)part);
    }
    for (int part = 0; work->awaits && part < PARTS; ++part) {
        if ((mpix_u32)part % block->blocks != block->block) {
            continue;
        }
        if (mpix_await(block, &work->request, (mpix_u32)part) == 0) {
            for (int i = part * PART + (int)block->index; i < (part + 1) * PART; i += (int)block->size) {
                work->seen[i] = work->values[i];
            }
        }
    }
}

static void in_parts(void)
{
    MPIX_Mscclpp_request request = NULL;
    int *values = malloc(sizeof(int) * PARTS * PART), *result = malloc(sizeof(int) * PARTS * PART);
    int *seen = malloc(sizeof(int) * PARTS * PART), flag;
    work_t works[TURNS];
    mpix_host_kernel_t kernels[TURNS];
    void *stream = mq_stream_make();

    MT_MPI(MPIX_Mscclpp_pallreduce_init(MPI_IN_PLACE, values, PARTS, PART, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request));
    MT_MPI(MPIX_Mscclpp_attach_kernels(request, stream));
    MT_MPI(MPIX_Mscclpp_prepare(1, &request));
    for (int turn = 0; turn < TURNS; ++turn) {
        works[turn] = (work_t){.values = values, .seen = seen, .salt = turn, .awaits = turn % 2};
        MT_MPI(MPIX_Mscclpp_request_get_device(request, MPIX_MSCCLPP_DEVICE_ABI, &works[turn].request,
                                               sizeof(works[turn].request)));
        kernels[turn] = (mpix_host_kernel_t){kernel, &works[turn], 2, 3, 0};
        memset(seen, 0, sizeof(int) * PARTS * PART);
        if (turn == 2) {
            /* Marks that come before the start. */
            MT_MPI(MPIX_Mscclpp_host_launch(stream, mpix_host_run, &kernels[turn]));
            MT_MPI(MPIX_Mscclpp_start(1, &request));
        } else {
            MT_MPI(MPIX_Mscclpp_start(1, &request));
            MT_MPI(MPIX_Mscclpp_test(request, &flag));
            MT_CHECK(!flag, "a request that nobody has released is complete");
            MT_MPI(MPIX_Mscclpp_host_launch(stream, mpix_host_run, &kernels[turn]));
        }
        MT_MPI(MPIX_Mscclpp_complete(1, &request));
        mq_stream_copy(stream, result, values, sizeof(int) * PARTS * PART);
        mq_stream_wait(stream);
        check(result, 0, PARTS * PART, turn, "what follows in the stream");
        if (works[turn].awaits) {
            check(seen, 0, PARTS * PART, turn, "what the kernel has seen");
        }
        MT_CHECK(kernels[turn].error == 0, "the kernel did not run");
    }
    /* From the host, part by part. */
    fill(values, PARTS * PART, 50);
    MT_MPI(MPIX_Mscclpp_start(1, &request));
    for (int part = 0; part < PARTS; ++part) {
        MT_MPI(MPIX_Mscclpp_pready(part, part, request));
        for (flag = 0; !flag;) {
            MT_MPI(MPIX_Mscclpp_parrived(request, part, &flag));
        }
        check(values, part * PART, PART, 50, "a part by itself");
    }
    MT_MPI(MPIX_Mscclpp_wait(1, &request));
    MT_MPI(MPIX_Mscclpp_request_free(&request));
    mq_stream_free(stream);
    free(values);
    free(result);
    free(seen);
}

/* Two requests that each rank starts and releases in an order of its own. */
static void crosswise(void)
{
    MPIX_Mscclpp_request requests[2];
    int values[2][64];
    void *stream = mq_stream_make();

    for (int k = 0; k < 2; ++k) {
        MT_MPI(
            MPIX_Mscclpp_allreduce_init(MPI_IN_PLACE, values[k], 64, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[k]));
        MT_MPI(MPIX_Mscclpp_attach_kernels(requests[k], stream));
    }
    MT_MPI(MPIX_Mscclpp_prepare(2, requests));
    for (int turn = 0; turn < TURNS; ++turn) {
        const int first = (mt_rank + turn) % 2;

        fill(values[0], 64, 2 * turn);
        fill(values[1], 64, 2 * turn + 1);
        MT_MPI(MPIX_Mscclpp_start(1, &requests[first]));
        MT_MPI(MPIX_Mscclpp_start(1, &requests[1 - first]));
        MT_MPI(MPIX_Mscclpp_pready(0, 0, requests[1 - first]));
        MT_MPI(MPIX_Mscclpp_pready(0, 0, requests[first]));
        MT_MPI(MPIX_Mscclpp_wait(2, requests));
        check(values[0], 0, 64, 2 * turn, "the first of two");
        check(values[1], 0, 64, 2 * turn + 1, "the second of two");
    }
    for (int k = 0; k < 2; ++k) {
        MT_MPI(MPIX_Mscclpp_request_free(&requests[k]));
    }
    mq_stream_free(stream);
}

/* Around a ring of ranks: kernels mark what the neighbour's kernel waits for, part by part. */
typedef struct {
    mpix_partitions_t from, to;
    int *out, *in;
    int salt, source;
    unsigned wrong;
} ring_t;

static void pass_on(mpix_group_t *block, void *argument)
{
    ring_t *ring = argument;

    for (int k = 0; k < PARTS; ++k) {
        const int part = (k + ring->salt) % PARTS;

        for (int i = part * PART + (int)block->index; i < (part + 1) * PART; i += (int)block->size) {
            ring->out[i] = mq_value_of(mt_rank, i, ring->salt);
        }
        mpix_pready(block, &ring->to, (mpix_u32)part);
    }
    for (int part = 0; part < PARTS; ++part) {
        if (mpix_await(block, &ring->from, (mpix_u32)part) != 0) {
            return;
        }
        for (int i = part * PART + (int)block->index; i < (part + 1) * PART; i += (int)block->size) {
            if (ring->in[i] != mq_value_of(ring->source, i, ring->salt)) {
                __atomic_fetch_add(&ring->wrong, 1, __ATOMIC_RELAXED);
            }
        }
    }
}

static void around(void)
{
    const int dest = (mt_rank + 1) % mt_size, source = (mt_rank + mt_size - 1) % mt_size;
    int *out = malloc(sizeof(int) * PARTS * PART), *in = malloc(sizeof(int) * PARTS * PART);
    int *kept = malloc(sizeof(int) * PARTS * PART);
    void *stream = mq_stream_make();
    MPIX_Mscclpp_request requests[2];
    mpix_host_kernel_t kernels[TURNS];
    ring_t rings[TURNS];
    int first;

    MT_MPI(MPIX_Mscclpp_psend_init(out, PARTS, PART, MPI_INT, dest, 5, MPI_COMM_WORLD, &requests[0]));
    MT_MPI(MPIX_Mscclpp_precv_init(in, PARTS, PART, MPI_INT, source, 5, MPI_COMM_WORLD, &requests[1]));
    MT_MPI(MPIX_Mscclpp_attach_kernels(requests[0], stream));
    MT_MPI(MPIX_Mscclpp_attach_kernels(requests[1], stream));
    MT_MPI(MPIX_Mscclpp_prepare(2, requests));
    for (int turn = 0; turn < TURNS; ++turn) {
        rings[turn] = (ring_t){.out = out, .in = in, .salt = turn, .source = source};
        MT_MPI(MPIX_Mscclpp_request_get_device(requests[0], MPIX_MSCCLPP_DEVICE_ABI, &rings[turn].to,
                                               sizeof(rings[turn].to)));
        MT_MPI(MPIX_Mscclpp_request_get_device(requests[1], MPIX_MSCCLPP_DEVICE_ABI, &rings[turn].from,
                                               sizeof(rings[turn].from)));
        kernels[turn] = (mpix_host_kernel_t){pass_on, &rings[turn], 1, 3, 0};
        memset(in, 0, sizeof(int) * PARTS * PART);
        MT_MPI(MPIX_Mscclpp_start(2, requests));
        MT_MPI(MPIX_Mscclpp_host_launch(stream, mpix_host_run, &kernels[turn]));
        MT_MPI(MPIX_Mscclpp_complete(2, requests));
        mq_stream_copy(stream, kept, in, sizeof(int) * PARTS * PART);
        mq_stream_wait(stream);
        MT_CHECK(rings[turn].wrong == 0 && kernels[turn].error == 0, "turn %d: %u integers are wrong in the kernel",
                 turn, rings[turn].wrong);
        for (int i = 0; i < PARTS * PART; ++i) {
            MT_CHECK(kept[i] == mq_value_of(source, i, turn), "turn %d: integer %d is %d", turn, i, kept[i]);
        }
    }
    /* Each frees in the order of the pairs, as it waits for the other side. */
    first = mt_rank == 0 || (mt_size > 2 && mt_rank == mt_size - 1) ? 0 : 1;
    MT_MPI(MPIX_Mscclpp_request_free(&requests[first]));
    MT_MPI(MPIX_Mscclpp_request_free(&requests[1 - first]));
    mq_stream_free(stream);
    free(out);
    free(in);
    free(kept);
}

#define REFUSED(call_) MT_CHECK((call_) != MPI_SUCCESS, "%s is not refused", #call_)

static void refused(void)
{
    MPIX_Mscclpp_request request = NULL;
    mpix_partitions_t handle;
    int value = 1, flag;
    void *stream = mq_stream_make(), *graph;

    MT_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    REFUSED(MPIX_Mscclpp_pallreduce_init(MPI_IN_PLACE, &value, 0, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request));
    REFUSED(MPIX_Mscclpp_bcast_init(&value, 1, MPI_INT, mt_size, MPI_COMM_WORLD, &request));
    MT_MPI(MPIX_Mscclpp_pallreduce_init(MPI_IN_PLACE, &value, 1, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request));
    REFUSED(MPIX_Mscclpp_start(1, &request));
    REFUSED(MPIX_Mscclpp_prepare(1, &request));
    REFUSED(MPIX_Mscclpp_attach_stream(request, stream));
    REFUSED(MPIX_Mscclpp_attach_kernels(request, NULL));
    REFUSED(MPIX_Mscclpp_attach_graph(request, NULL));
    MT_MPI(MPIX_Mscclpp_attach_kernels(request, stream));
    MT_MPI(MPIX_Mscclpp_prepare(1, &request));
    REFUSED(MPIX_Mscclpp_request_get_node(request, &graph));
    REFUSED(MPIX_Mscclpp_pready(0, 1, request));
    REFUSED(MPIX_Mscclpp_pready(-1, 0, request));
    REFUSED(MPIX_Mscclpp_parrived(request, 1, &flag));
    REFUSED(MPIX_Mscclpp_request_get_device(request, MPIX_MSCCLPP_DEVICE_ABI + 1, &handle, sizeof(handle)));
    REFUSED(MPIX_Mscclpp_request_get_device(request, MPIX_MSCCLPP_DEVICE_ABI, &handle, sizeof(handle) - 1));
    MT_MPI(MPIX_Mscclpp_start(1, &request));
    REFUSED(MPIX_Mscclpp_request_free(&request));
    if (mt_rank < 2) {
        MPIX_Mscclpp_request pair = NULL;

        REFUSED(MPIX_Mscclpp_psend_init(&value, 1, 1, MPI_INT, mt_rank, 0, MPI_COMM_WORLD, &pair));
        REFUSED(MPIX_Mscclpp_psend_init(&value, 0, 1, MPI_INT, 1 - mt_rank, 0, MPI_COMM_WORLD, &pair));
        REFUSED(MPIX_Mscclpp_precv_init(&value, -1, 1, MPI_INT, 1 - mt_rank, 0, MPI_COMM_WORLD, &pair));
        REFUSED(MPIX_Mscclpp_psend_init(&value, 1, 1, MPI_INT, mt_size, 0, MPI_COMM_WORLD, &pair));
        MT_MPI(mt_rank == 0 ? MPIX_Mscclpp_psend_init(&value, 1, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, &pair)
                            : MPIX_Mscclpp_precv_init(&value, 2, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &pair));
        MT_MPI(MPIX_Mscclpp_attach_kernels(pair, stream));
        REFUSED(MPIX_Mscclpp_prepare(1, &pair));
        MT_MPI(MPIX_Mscclpp_request_free(&pair));
    }
    mq_capture_begin(stream);
    REFUSED(MPIX_Mscclpp_complete(1, &request));
    graph = mq_capture_end(stream);
    MT_MPI(MPIX_Mscclpp_host_graph_destroy(graph));
    MT_MPI(MPIX_Mscclpp_pready(0, 0, request));
    MT_MPI(MPIX_Mscclpp_wait(1, &request));
    MT_CHECK(value == mt_size, "after what was refused: %d", value);
    MT_MPI(MPIX_Mscclpp_request_free(&request));
    REFUSED(MPIX_Mscclpp_request_free(&request));
    mq_stream_free(stream);
}

/* Rank 0 never marks its partition: all learn of it, and nobody waits for ever, not even streams. */
static void late(void)
{
    MPIX_Mscclpp_request request;
    int value = 1, code, class, timeout, peer;
    void *stream = mq_stream_make();

    MT_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    MT_MPI(MPIX_Mscclpp_allreduce_init(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request));
    MT_MPI(MPIX_Mscclpp_attach_kernels(request, stream));
    MT_MPI(MPIX_Mscclpp_prepare(1, &request));
    MT_MPI(MPIX_Mscclpp_start(1, &request));
    MT_MPI(MPIX_Mscclpp_complete(1, &request));
    if (mt_rank != 0) {
        MT_MPI(MPIX_Mscclpp_pready(0, 0, request));
    }
    code = MPIX_Mscclpp_wait(1, &request);
    mq_stream_wait(stream); /* what follows the request is let go, too */
    MT_MPI(MPIX_Mscclpp_error_class(MPIX_MSCCLPP_ERR_TIMEOUT, &timeout));
    MT_MPI(MPIX_Mscclpp_error_class(MPIX_MSCCLPP_ERR_PEER, &peer));
    MT_MPI(MPI_Error_class(code, &class));
    MT_CHECK(class == timeout || class == peer, "the class of the error is %d", class);
    MT_CHECK(MPIX_Mscclpp_start(1, &request) != MPI_SUCCESS, "a failed request can be started");
    MT_MPI(MPIX_Mscclpp_request_free(&request));
    mq_stream_free(stream);
}

/* A gate that holds a stream up until it opens. */
typedef struct {
    void *stream;
    int open;
    pthread_t opener;
} gate_t;

static int is_open(const gate_t *gate)
{
    return __atomic_load_n(&gate->open, __ATOMIC_ACQUIRE);
}

static void pass_gate(void *argument)
{
    while (!is_open(argument)) {
        usleep(100);
    }
}

static void gate_close(gate_t *gate, void *stream)
{
    *gate = (gate_t){.stream = stream};
    MT_MPI(MPIX_Mscclpp_host_launch(stream, pass_gate, gate));
}

static void *open_later(void *argument)
{
    gate_t *gate = argument;

    usleep(300000);
    __atomic_store_n(&gate->open, 1, __ATOMIC_RELEASE);
    return NULL;
}

/* Frees the request, which must not end before the gate opens, some time later. */
static void free_at_gate(gate_t *gate, MPIX_Mscclpp_request *request, const char *what)
{
    MT_CHECK(0 == pthread_create(&gate->opener, NULL, open_later, gate), "no thread");
    MT_MPI(MPIX_Mscclpp_request_free(request));
    MT_CHECK(is_open(gate), "%s: freed while its stream still used it", what);
    (void)pthread_join(gate->opener, NULL);
    mq_stream_wait(gate->stream);
}

/* Requests are freed while operations on their words are in streams: after a failure, and behind other work. */
static void freed(void)
{
    const mca_coll_mscclpp_api_t *table = mq_component_table();
    MPIX_Mscclpp_request request;
    int value = 1;
    void *stream = mq_stream_make();
    MPI_Comm comm;
    gate_t gate;

    MT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    MT_MPI(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    MT_MPI(MPIX_Mscclpp_allreduce_init(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_SUM, comm, &request));
    MT_MPI(MPIX_Mscclpp_attach_stream(request, stream));
    MT_MPI(MPIX_Mscclpp_prepare(1, &request));
    gate_close(&gate, stream);
    MT_MPI(MPIX_Mscclpp_start(1, &request));
    MT_CHECK(table != NULL, "the component's table is not found");
    table->fail(comm);
    MT_CHECK(MPIX_Mscclpp_start(1, &request) != MPI_SUCCESS, "a start after the failure succeeded");
    free_at_gate(&gate, &request, "a failed request, with a start in the stream");
    MT_MPI(MPI_Comm_free(&comm));

    MT_MPI(MPIX_Mscclpp_allreduce_init(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request));
    MT_MPI(MPIX_Mscclpp_attach_kernels(request, stream));
    MT_MPI(MPIX_Mscclpp_prepare(1, &request));
    gate_close(&gate, stream);
    MT_MPI(MPIX_Mscclpp_start(1, &request));
    MT_MPI(MPIX_Mscclpp_complete(1, &request));
    MT_MPI(MPIX_Mscclpp_pready(0, 0, request));
    MT_MPI(MPIX_Mscclpp_wait(1, &request));
    free_at_gate(&gate, &request, "a request whose wait is in the stream");
    mq_stream_free(stream);
}

/* Marks a partition after the last one. */
static void mark_wrong(mpix_group_t *block, void *argument)
{
    work_t *work = argument;

    mpix_pready(block, &work->request, PARTS);
    if (mpix_failed(block)) {
        __atomic_fetch_add(&work->ended, 1, __ATOMIC_RELAXED);
    }
}

/* A kernel of rank 1 marks a partition that the request does not have. All ranks get an error, and nobody waits. */
static void wrong(void)
{
    MPIX_Mscclpp_request request;
    int values[PARTS], code, class, peer;
    void *stream = mq_stream_make();
    work_t work = {0};
    mpix_host_kernel_t launch = {mark_wrong, &work, 1, 1, 0};

    MT_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    fill(values, PARTS, 0);
    MT_MPI(MPIX_Mscclpp_pallreduce_init(MPI_IN_PLACE, values, PARTS, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request));
    MT_MPI(MPIX_Mscclpp_attach_kernels(request, stream));
    MT_MPI(MPIX_Mscclpp_prepare(1, &request));
    MT_MPI(MPIX_Mscclpp_request_get_device(request, MPIX_MSCCLPP_DEVICE_ABI, &work.request, sizeof(work.request)));
    MT_MPI(MPIX_Mscclpp_start(1, &request));
    if (mt_rank == 1) {
        MT_MPI(MPIX_Mscclpp_pready(0, PARTS - 2, request));
        MT_MPI(MPIX_Mscclpp_host_launch(stream, mpix_host_run, &launch));
    } else {
        MT_MPI(MPIX_Mscclpp_pready(0, PARTS - 1, request));
    }
    MT_MPI(MPIX_Mscclpp_complete(1, &request));
    code = MPIX_Mscclpp_wait(1, &request);
    mq_stream_wait(stream);
    MT_MPI(MPIX_Mscclpp_error_class(MPIX_MSCCLPP_ERR_PEER, &peer));
    MT_MPI(MPI_Error_class(code, &class));
    MT_CHECK(class == (mt_rank == 1 ? MPI_ERR_ARG : peer), "the class of the error is %d", class);
    MT_CHECK(work.ended == (mt_rank == 1), "%u blocks found the partition wrong", work.ended);
    MT_MPI(MPIX_Mscclpp_request_free(&request));
    mq_stream_free(stream);
}

/* Six requests that kernels release: those that find room, if there is any, work. All ranks learn which. */
static void many(bool room)
{
    MPIX_Mscclpp_request requests[6];
    int values[6], good = 0;
    void *stream = mq_stream_make();

    MT_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    for (int k = 0; k < 6; ++k) {
        values[k] = k;
        MT_MPI(
            MPIX_Mscclpp_allreduce_init(MPI_IN_PLACE, &values[k], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[k]));
        MT_MPI(MPIX_Mscclpp_attach_kernels(requests[k], stream));
        if (MPIX_Mscclpp_prepare(1, &requests[k]) == MPI_SUCCESS) {
            MT_CHECK(good == k, "request %d finds room after one that found none", k);
            ++good;
            MT_MPI(MPIX_Mscclpp_start(1, &requests[k]));
            MT_MPI(MPIX_Mscclpp_pready(0, 0, requests[k]));
        }
    }
    MT_CHECK(room ? good > 0 : good == 0, "%d requests found room", good);
    MT_MPI(MPIX_Mscclpp_wait(good, requests));
    for (int k = 0; k < 6; ++k) {
        MT_CHECK(values[k] == (k < good ? k * mt_size : k), "request %d: %d", k, values[k]);
        MT_MPI(MPIX_Mscclpp_request_free(&requests[k]));
    }
    mq_stream_free(stream);
}

/* Without the component and without CUDA. */
static int without(int argc, char **argv)
{
    MPIX_Mscclpp_request request = NULL;
    int value = 1, class = MPI_SUCCESS, wrong = 0, size = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    wrong +=
        MPIX_Mscclpp_allreduce_init(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request) != MPI_SUCCESS;
    wrong += MPIX_Mscclpp_start(1, &request) == MPI_SUCCESS;
    wrong += MPIX_Mscclpp_attach_graph(request, &value) != MPI_SUCCESS;
    MPI_Error_class(MPIX_Mscclpp_prepare(1, &request), &class);
    wrong += class != MPI_ERR_UNSUPPORTED_OPERATION;
    wrong += MPIX_Mscclpp_attach_stream(request, NULL) != MPI_SUCCESS;
    wrong += MPIX_Mscclpp_prepare(1, &request) != MPI_SUCCESS || MPIX_Mscclpp_start(1, &request) != MPI_SUCCESS;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    wrong += value != size;
    wrong += MPIX_Mscclpp_request_free(&request) != MPI_SUCCESS || request != NULL;
    MPI_Finalize();
    return wrong;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--without") == 0) {
        return without(argc, argv);
    }
    mt_init(&argc, &argv, MPI_THREAD_SINGLE);
    if (mt_too_small(2)) {
        return MT_SKIPPED;
    }
    if (argc > 1 && strcmp(argv[1], "--late") == 0) {
        late();
    } else if (argc > 1 && strcmp(argv[1], "--many") == 0) {
        many(true);
    } else if (argc > 1 && strcmp(argv[1], "--freed") == 0) {
        freed();
    } else if (argc > 1 && strcmp(argv[1], "--wrong") == 0) {
        wrong();
    } else if (argc > 1 && strcmp(argv[1], "--none") == 0) {
        many(false);
    } else if (argc > 1 && strcmp(argv[1], "--refused") == 0) {
        refused();
    } else {
        in_stream();
        in_parts();
        crosswise();
        around();
    }
    return mt_finish();
}
