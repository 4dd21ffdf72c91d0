/*
 * Large nonblocking and persistent calls go on while no rank calls MPI: each rank starts a call, or several of one or
 * two communicators, then only looks at their outputs, and finds the results there. In some rounds rank 0 starts before
 * the others, in some after them. --threads: with MPI_THREAD_MULTIPLE.
 * --mapped: buffers can be mapped, so that even the first start of a persistent request goes on so.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "test/mpi/mpi_sums.h"

/* Elements of a block: large enough that a call does not depend on MPI's progress. */
#define BLOCK 300000

#define ROUNDS 3
#define LATE_NS 50000000 /* how much later some ranks start */
#define DEADLINE 30.0    /* seconds, for busy machines; a call takes some milliseconds */

typedef enum { ALLREDUCE, ALLGATHER, ALLTOALL, BCAST, SUMS_OF_BLOCKS, PERSISTENT, PERSISTENT_BLOCKS, KINDS } kind_t;

static const char *const names[KINDS] = {
    "Iallreduce",          "Iallgather",         "Ialltoall", "Ibcast", "Ireduce_scatter_block",
    "a started Allreduce", "a started Alltoallv"};

/* A call, with its buffers. */
typedef struct {
    kind_t kind;
    MPI_Comm comm;
    mt_buffer_t in, out;
    unsigned *expected;   /* the output */
    int *counts, *displs; /* of a call with blocks */
    MPI_Request request;
} call_t;

static unsigned *seen;
static bool mapped;

static unsigned value(kind_t kind, int round, int rank, int index)
{
    return sum_value(rank, index, 10 * round + (int)kind + 100);
}

static size_t out_elements(kind_t kind)
{
    return (ALLGATHER == kind || ALLTOALL == kind || PERSISTENT_BLOCKS == kind ? (size_t)mt_size : 1) * BLOCK;
}

static void make(call_t *call, kind_t kind, MPI_Comm comm)
{
    const size_t bytes = (size_t)mt_size * BLOCK * sizeof(unsigned);

    *call = (call_t){.kind = kind, .comm = comm, .request = MPI_REQUEST_NULL};
    call->in = mt_buffer_alloc(MT_DEVICE, bytes, 0);
    call->out = mt_buffer_alloc(MT_DEVICE, bytes, 0);
    call->expected = mt_host_alloc(bytes);
    call->counts = mt_host_alloc(sizeof(int) * (size_t)mt_size);
    call->displs = mt_host_alloc(sizeof(int) * (size_t)mt_size);
    for (int rank = 0; rank < mt_size; ++rank) {
        call->counts[rank] = BLOCK;
        call->displs[rank] = rank * BLOCK;
    }
}

static void unmake(call_t *call)
{
    if (PERSISTENT <= call->kind) {
        MT_MPI(MPI_Request_free(&call->request));
    }
    free(call->expected);
    free(call->counts);
    free(call->displs);
    mt_buffer_free(&call->in, "in");
    mt_buffer_free(&call->out, "out");
}

/* Fills the input, and works out the result. */
static void prepare(call_t *call, int round)
{
    const kind_t kind = call->kind;
    const bool sums = ALLREDUCE == kind || PERSISTENT == kind || SUMS_OF_BLOCKS == kind;
    const size_t elements = (size_t)mt_size * BLOCK;
    const int first = SUMS_OF_BLOCKS == kind ? mt_rank * BLOCK : 0;

    for (size_t i = 0; i < elements; ++i) {
        seen[i] = value(kind, round, mt_rank, (int)i);
    }
    mt_buffer_put(&call->in, seen, elements * sizeof(*seen));
    mt_buffer_set(&call->out, 0x5a);
    for (int i = 0; i < (int)out_elements(kind); ++i) {
        call->expected[i] = BCAST == kind       ? value(kind, round, 0, i)
                            : ALLGATHER == kind ? value(kind, round, i / BLOCK, i % BLOCK)
                            : ALLTOALL == kind || PERSISTENT_BLOCKS == kind
                                ? value(kind, round, i / BLOCK, mt_rank * BLOCK + i % BLOCK)
                                : 0;
        for (int rank = 0; rank < mt_size && sums; ++rank) {
            call->expected[i] += value(kind, round, rank, first + i);
        }
    }
    if (BCAST == kind && mt_rank == 0) {
        mt_buffer_put(&call->out, call->expected, BLOCK * sizeof(*seen));
    }
}

/* Makes the request of a persistent call. */
static void make_request(call_t *call)
{
    if (PERSISTENT_BLOCKS == call->kind) {
        MT_MPI(PERSISTENT_INIT(Alltoallv)(call->in.data, call->counts, call->displs, MPI_UNSIGNED, call->out.data,
                                          call->counts, call->displs, MPI_UNSIGNED, call->comm, MPI_INFO_NULL,
                                          &call->request));
    }
    if (PERSISTENT == call->kind) {
        MT_MPI(PERSISTENT_INIT(Allreduce)(call->in.data, call->out.data, BLOCK, MPI_UNSIGNED, MPI_SUM, call->comm,
                                          MPI_INFO_NULL, &call->request));
    }
}

static void start(call_t *call)
{
    const void *in = call->in.data;
    void *out = call->out.data;
    MPI_Comm comm = call->comm;
    MPI_Request *request = &call->request;

    switch (call->kind) {
    case ALLREDUCE:
        MT_MPI(MPI_Iallreduce(in, out, BLOCK, MPI_UNSIGNED, MPI_SUM, comm, request));
        break;
    case ALLGATHER:
        MT_MPI(MPI_Iallgather(in, BLOCK, MPI_UNSIGNED, out, BLOCK, MPI_UNSIGNED, comm, request));
        break;
    case ALLTOALL:
        MT_MPI(MPI_Ialltoall(in, BLOCK, MPI_UNSIGNED, out, BLOCK, MPI_UNSIGNED, comm, request));
        break;
    case BCAST:
        MT_MPI(MPI_Ibcast(out, BLOCK, MPI_UNSIGNED, 0, comm, request));
        break;
    case SUMS_OF_BLOCKS:
        MT_MPI(MPI_Ireduce_scatter_block(in, out, BLOCK, MPI_UNSIGNED, MPI_SUM, comm, request));
        break;
    default:
        MT_MPI(MPI_Start(request));
    }
}

/* True if the output is complete. */
static bool is_right(const call_t *call)
{
    const size_t bytes = out_elements(call->kind) * sizeof(*seen);

    mt_buffer_get(&call->out, seen, bytes);
    return 0 == memcmp(seen, call->expected, bytes);
}

/* Looks at the output until it is complete. Calls nothing of MPI. */
static bool see_result(const call_t *call)
{
    const double deadline = mt_now() + (0 == mt_failures() ? DEADLINE : 0.1);
    bool complete;

    do {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        complete = is_right(call);
    } while (!complete && mt_now() < deadline);
    return complete;
}

/* The first round makes memory or maps buffers, for which ranks wait for one another in MPI. */
static bool is_hidden(const call_t *call, int round)
{
    return round > 0 || (mapped && PERSISTENT <= call->kind);
}

/* Starts calls, and sees their results without calling MPI. */
static void run(call_t *calls, int count)
{
    for (int i = 0; i < count; ++i) {
        make_request(&calls[i]);
    }
    for (int round = 0; round <= ROUNDS; ++round) {
        for (int i = 0; i < count; ++i) {
            prepare(&calls[i], round);
        }
        mt_barrier(MPI_COMM_WORLD);
        if (round == (mt_rank == 0 ? 2 : 1)) {
            nanosleep(&(struct timespec){.tv_nsec = LATE_NS}, NULL);
        }
        for (int i = 0; i < count; ++i) {
            start(&calls[i]);
            if (!is_hidden(&calls[i], round)) {
                MT_MPI(MPI_Wait(&calls[i].request, MPI_STATUS_IGNORE));
            }
        }
        for (int i = 0; i < count; ++i) {
            MT_CHECK(!is_hidden(&calls[i], round) || see_result(&calls[i]),
                     "%s, call %d of %d, round %d: no result without an MPI call", names[calls[i].kind], i + 1, count,
                     round);
        }
        for (int i = count - 1; i >= 0; --i) {
            MT_MPI(MPI_Wait(&calls[i].request, MPI_STATUS_IGNORE));
            MT_CHECK(is_right(&calls[i]), "%s, call %d of %d, round %d: wrong", names[calls[i].kind], i + 1, count,
                     round);
        }
    }
}

/* Calls of every kind at once, by turns on two communicators if `second` is one. */
static void run_several(MPI_Comm second)
{
    call_t calls[KINDS];

    for (int kind = 0; kind < KINDS; ++kind) {
        make(&calls[kind], (kind_t)kind, kind % 2 == 1 ? second : MPI_COMM_WORLD);
    }
    run(calls, KINDS);
    for (int kind = 0; kind < KINDS; ++kind) {
        unmake(&calls[kind]);
    }
}

int main(int argc, char **argv)
{
    counts_t before;
    MPI_Comm second;

    mt_init(&argc, &argv, argc > 1 && 0 == strcmp(argv[1], "--threads") ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
    if (mt_too_small(2) || mt_too_crowded(1)) {
        return MT_SKIPPED;
    }
    mapped = argc > 1 && 0 == strcmp(argv[1], "--mapped");
    MT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &second));
    before = counts_now();
    seen = mt_host_alloc((size_t)mt_size * BLOCK * sizeof(unsigned));
    for (int kind = 0; kind < KINDS; ++kind) {
        call_t call;

        make(&call, (kind_t)kind, MPI_COMM_WORLD);
        run(&call, 1);
        unmake(&call);
    }
    run_several(MPI_COMM_WORLD);
    run_several(second);
    MT_MPI(MPI_Comm_free(&second));
    MT_CHECK(mt_staged(MPI_COMM_WORLD) == before.staged, "calls were staged");
    free(seen);
    return mt_finish();
}
