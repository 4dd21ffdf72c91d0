/*
 * Large nonblocking and persistent calls go on while no rank calls MPI: each rank starts a call, then only looks at its
 * output, and finds the result there. In some rounds rank 0 starts before the others, in some after them. --threads:
 * with MPI_THREAD_MULTIPLE.
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

static mt_buffer_t in, out;
static unsigned *expected, *seen;

static unsigned value(kind_t kind, int round, int rank, int index)
{
    return sum_value(rank, index, 10 * round + (int)kind + 100);
}

static size_t out_elements(kind_t kind)
{
    return (ALLGATHER == kind || ALLTOALL == kind || PERSISTENT_BLOCKS == kind ? (size_t)mt_size : 1) * BLOCK;
}

/* Fills the input, and works out the result. */
static void prepare(kind_t kind, int round)
{
    const bool sums = ALLREDUCE == kind || PERSISTENT == kind || SUMS_OF_BLOCKS == kind;
    const size_t elements = (size_t)mt_size * BLOCK;
    const int first = SUMS_OF_BLOCKS == kind ? mt_rank * BLOCK : 0;

    for (size_t i = 0; i < elements; ++i) {
        seen[i] = value(kind, round, mt_rank, (int)i);
    }
    mt_buffer_put(&in, seen, elements * sizeof(*seen));
    mt_buffer_set(&out, 0x5a);
    for (int i = 0; i < (int)out_elements(kind); ++i) {
        expected[i] = BCAST == kind       ? value(kind, round, 0, i)
                      : ALLGATHER == kind ? value(kind, round, i / BLOCK, i % BLOCK)
                      : ALLTOALL == kind || PERSISTENT_BLOCKS == kind
                          ? value(kind, round, i / BLOCK, mt_rank * BLOCK + i % BLOCK)
                          : 0;
        for (int rank = 0; rank < mt_size && sums; ++rank) {
            expected[i] += value(kind, round, rank, first + i);
        }
    }
    if (BCAST == kind && mt_rank == 0) {
        mt_buffer_put(&out, expected, BLOCK * sizeof(*expected));
    }
}

static void start(kind_t kind, MPI_Request *request)
{
    MPI_Comm comm = MPI_COMM_WORLD;

    switch (kind) {
    case ALLREDUCE:
        MT_MPI(MPI_Iallreduce(in.data, out.data, BLOCK, MPI_UNSIGNED, MPI_SUM, comm, request));
        break;
    case ALLGATHER:
        MT_MPI(MPI_Iallgather(in.data, BLOCK, MPI_UNSIGNED, out.data, BLOCK, MPI_UNSIGNED, comm, request));
        break;
    case ALLTOALL:
        MT_MPI(MPI_Ialltoall(in.data, BLOCK, MPI_UNSIGNED, out.data, BLOCK, MPI_UNSIGNED, comm, request));
        break;
    case BCAST:
        MT_MPI(MPI_Ibcast(out.data, BLOCK, MPI_UNSIGNED, 0, comm, request));
        break;
    case SUMS_OF_BLOCKS:
        MT_MPI(MPI_Ireduce_scatter_block(in.data, out.data, BLOCK, MPI_UNSIGNED, MPI_SUM, comm, request));
        break;
    default:
        MT_MPI(MPI_Start(request));
    }
}

/* Looks at the output until it is complete. Calls nothing of MPI. */
static bool see_result(kind_t kind)
{
    const size_t bytes = out_elements(kind) * sizeof(*seen);
    const double deadline = mt_now() + (0 == mt_failures() ? DEADLINE : 0.1);
    bool complete;

    do {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        mt_buffer_get(&out, seen, bytes);
        complete = 0 == memcmp(seen, expected, bytes);
    } while (!complete && mt_now() < deadline);
    return complete;
}

static void run(kind_t kind)
{
    int *const counts = mt_host_alloc(sizeof(int) * (size_t)mt_size);
    int *const displs = mt_host_alloc(sizeof(int) * (size_t)mt_size);
    MPI_Request request = MPI_REQUEST_NULL;

    for (int rank = 0; rank < mt_size; ++rank) {
        counts[rank] = BLOCK;
        displs[rank] = rank * BLOCK;
    }
    if (PERSISTENT_BLOCKS == kind) {
        MT_MPI(PERSISTENT_INIT(Alltoallv)(in.data, counts, displs, MPI_UNSIGNED, out.data, counts, displs, MPI_UNSIGNED,
                                          MPI_COMM_WORLD, MPI_INFO_NULL, &request));
    }
    if (PERSISTENT == kind) {
        MT_MPI(PERSISTENT_INIT(Allreduce)(in.data, out.data, BLOCK, MPI_UNSIGNED, MPI_SUM, MPI_COMM_WORLD,
                                          MPI_INFO_NULL, &request));
    }
    /* The first call makes memory, for which ranks wait for one another in MPI. */
    prepare(kind, 0);
    start(kind, &request);
    MT_MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
    for (int round = 1; round <= ROUNDS; ++round) {
        prepare(kind, round);
        mt_barrier(MPI_COMM_WORLD);
        if (round == (mt_rank == 0 ? 2 : 1)) {
            nanosleep(&(struct timespec){.tv_nsec = LATE_NS}, NULL);
        }
        start(kind, &request);
        MT_CHECK(see_result(kind), "%s, round %d: no result without an MPI call", names[kind], round);
        MT_MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
        mt_buffer_get(&out, seen, out_elements(kind) * sizeof(*seen));
        MT_CHECK(0 == memcmp(seen, expected, out_elements(kind) * sizeof(*seen)), "%s, round %d: wrong", names[kind],
                 round);
    }
    if (PERSISTENT <= kind) {
        MT_MPI(MPI_Request_free(&request));
    }
    free(counts);
    free(displs);
}

int main(int argc, char **argv)
{
    counts_t before;

    mt_init(&argc, &argv, argc > 1 && 0 == strcmp(argv[1], "--threads") ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
    if (mt_too_small(2) || mt_too_crowded(1)) {
        return MT_SKIPPED;
    }
    before = counts_now();
    in = mt_buffer_alloc(MT_DEVICE, (size_t)mt_size * BLOCK * sizeof(unsigned), 0);
    out = mt_buffer_alloc(MT_DEVICE, (size_t)mt_size * BLOCK * sizeof(unsigned), 0);
    expected = mt_host_alloc((size_t)mt_size * BLOCK * sizeof(unsigned));
    seen = mt_host_alloc((size_t)mt_size * BLOCK * sizeof(unsigned));
    for (int kind = 0; kind < KINDS; ++kind) {
        run((kind_t)kind);
    }
    MT_CHECK(mt_staged(MPI_COMM_WORLD) == before.staged, "calls were staged");
    free(expected);
    free(seen);
    mt_buffer_free(&in, "in");
    mt_buffer_free(&out, "out");
    return mt_finish();
}
