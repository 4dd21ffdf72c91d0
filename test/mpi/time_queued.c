/*
 * What a queued all-reduce costs the host: processor time of the calling thread, the least of some rounds. It leaves
 * out what the kernel takes. Usage: time_queued [COUNT], floats, 64 by default. The line also tells how many of the
 * calls a plan served, so that plans can be compared with our own algorithms (parameter coll_mscclpp_plans).
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "test/mpi/mpi_queued.h"

enum { ROUNDS = 200, CALLS = 20, COUNT_MAX = 1 << 18 };

static double thread_seconds(void)
{
    struct timespec time;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Returns the seconds of the host for each of some calls, whose kernels may run meanwhile. */
static double time_calls(const mt_buffer_t *in, const mt_buffer_t *out, int count, void *stream)
{
    double spent = 0;

    mt_barrier(MPI_COMM_WORLD);
    for (int call = 0; call < CALLS; ++call) {
        const double start = thread_seconds();

        MT_MPI(MPIX_Mscclpp_allreduce_enqueue(in->data, out->data, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, stream));
        spent += thread_seconds() - start;
    }
    mq_stream_wait(stream);
    return spent / CALLS;
}

int main(int argc, char **argv)
{
    int count = 64;
    double least = 1;
    mt_buffer_t in, out;
    uint64_t planned;
    void *stream;

    if (argc > 1) {
        char *end;

        count = (int)strtol(argv[1], &end, 10);
        if (*end != '\0' || count < 1 || count > COUNT_MAX) {
            fprintf(stderr, "time_queued: COUNT '%s' is not allowed; use 1 to %d\n", argv[1], COUNT_MAX);
            return 2;
        }
    }
    mt_init(&argc, &argv, MPI_THREAD_SINGLE);
    stream = mq_stream_make();
    in = mt_buffer_alloc(MT_DEVICE, sizeof(float) * (size_t)count, 0);
    out = mt_buffer_alloc(MT_DEVICE, sizeof(float) * (size_t)count, 0);
    mt_buffer_set(&in, 0);
    planned = mt_planned(MPI_COMM_WORLD);
    for (int round = 0; round < ROUNDS; ++round) {
        const double seconds = time_calls(&in, &out, count, stream);

        least = seconds < least ? seconds : least;
    }
    planned = mt_planned(MPI_COMM_WORLD) - planned;
    if (mt_rank == 0) {
        printf("%d floats: %.2f us of the host a call; a plan served %llu of %d calls\n", count, least * 1e6,
               (unsigned long long)planned, ROUNDS * CALLS);
    }
    mt_buffer_free(&in, "in");
    mt_buffer_free(&out, "out");
    mq_stream_free(stream);
    return mt_finish();
}
