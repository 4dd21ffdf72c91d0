/* The program's own exchanges, over point-to-point messages, and the host library's exchange made of them. */
#include "tools/bench/bench.h"

#include <stdlib.h>
#include <string.h>

enum { TAG_GATHER = 1, TAG_RESULT = 2, TAG_BROADCAST = 3 };

/*
 * Gathers the blocks of all ranks at rank 0, which then sends all of them to each rank. This is fast enough for a few
 * dozen ranks, because it is never timed. The callers ensure that the length times the number of ranks fits into an
 * int. Results of MPI's functions are ignored, because MPI ends the program if a message fails. `send` may be this
 * rank's block of `recv`.
 */
void bench_allgather(MPI_Comm comm, const void *send, void *recv, size_t length)
{
    int rank, size;
    char *blocks = recv;

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    memmove(blocks + (size_t)rank * length, send, length);
    if (0 != rank) {
        MPI_Send(blocks + (size_t)rank * length, (int)length, MPI_BYTE, 0, TAG_GATHER, comm);
        MPI_Recv(blocks, (int)(length * (size_t)size), MPI_BYTE, 0, TAG_RESULT, comm, MPI_STATUS_IGNORE);
        return;
    }
    for (int peer = 1; peer < size; ++peer) {
        MPI_Recv(blocks + (size_t)peer * length, (int)length, MPI_BYTE, peer, TAG_GATHER, comm, MPI_STATUS_IGNORE);
    }
    for (int peer = 1; peer < size; ++peer) {
        MPI_Send(blocks, (int)(length * (size_t)size), MPI_BYTE, peer, TAG_RESULT, comm);
    }
}

/* Sends the data of rank 0 to one rank after the other. */
void bench_broadcast(MPI_Comm comm, void *data, size_t length)
{
    int rank, size;

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    if (0 != rank) {
        MPI_Recv(data, (int)length, MPI_BYTE, 0, TAG_BROADCAST, comm, MPI_STATUS_IGNORE);
        return;
    }
    for (int peer = 1; peer < size; ++peer) {
        MPI_Send(data, (int)length, MPI_BYTE, peer, TAG_BROADCAST, comm);
    }
}

/*
 * Gathers one value of 8 bytes from each rank, in an array that the caller frees. Returns the number of ranks. If
 * memory runs out, the program ends.
 */
static int gather_values(MPI_Comm comm, const void *value, void **values_p)
{
    int size;

    MPI_Comm_size(comm, &size);
    *values_p = calloc((size_t)size, sizeof(uint64_t));
    if (*values_p == NULL) {
        fprintf(stderr, "%s: out of memory\n", bench_program);
        MPI_Abort(MPI_COMM_WORLD, BENCH_EXIT_WRONG);
    }
    bench_allgather(comm, value, *values_p, sizeof(uint64_t));
    return size;
}

double bench_max(MPI_Comm comm, double value)
{
    void *values;
    int size = gather_values(comm, &value, &values);
    double result = value;

    for (int i = 0; i < size; ++i) {
        double other = ((double *)values)[i];
        result = other > result ? other : result;
    }
    free(values);
    return result;
}

uint64_t bench_sum(MPI_Comm comm, uint64_t value)
{
    void *values;
    int size = gather_values(comm, &value, &values);
    uint64_t result = 0;

    for (int i = 0; i < size; ++i) {
        result += ((uint64_t *)values)[i];
    }
    free(values);
    return result;
}

bool bench_all(MPI_Comm comm, bool value)
{
    return 0 == bench_sum(comm, value ? 0 : 1);
}

/* Returns true if any rank passes true. Rank 0 prints that the first of them has no memory. */
static bool any_rank_lacks_memory(MPI_Comm comm, bool lacks)
{
    const uint64_t own = lacks;
    void *values;
    const int size = gather_values(comm, &own, &values);
    int first = 0, rank;

    while (first < size && ((uint64_t *)values)[first] == 0) {
        ++first;
    }
    free(values);
    MPI_Comm_rank(comm, &rank);
    if (first < size && rank == 0) {
        fprintf(stderr, "%s: rank %d has no memory for a set-up\n", bench_program, first);
    }
    return first < size;
}

/* Gathers the data of all ranks, for mscclpp_oob_t. A rank without memory for them passes NULL, and all ranks fail. */
static mscclpp_status_t oob_allgather(void *context, const void *sendbuf, void *recvbuf, size_t length)
{
    const MPI_Comm comm = *(MPI_Comm *)context;

    if (any_rank_lacks_memory(comm, recvbuf == NULL)) {
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    bench_allgather(comm, sendbuf, recvbuf, length);
    return MSCCLPP_OK;
}

/* Lets MPI make progress, for mscclpp_oob_t. The portable way is to probe for a message that never comes. */
static void oob_progress(void *context)
{
    int flag;

    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, *(MPI_Comm *)context, &flag, MPI_STATUS_IGNORE);
}

/* Looks for revoked communicators, for mscclpp_oob_t. This program has none. */
static mscclpp_status_t oob_check(void *context)
{
    (void)context;
    return MSCCLPP_OK;
}

mscclpp_oob_t bench_oob(MPI_Comm *comm)
{
    mscclpp_oob_t oob = {.context = comm,
                         .label = bench_program,
                         .allgather = oob_allgather,
                         .progress = oob_progress,
                         .check = oob_check};

    MPI_Comm_rank(*comm, &oob.rank);
    MPI_Comm_size(*comm, &oob.size);
    return oob;
}
