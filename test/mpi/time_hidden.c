/*
 * How much of an MPI_Iallreduce, or an MPI_Iallgather, is hidden behind a kernel of the application that takes as long
 * and leaves half of the multiprocessors free: start, launch the kernel, wait for it, and only then call MPI again.
 * Medians over the rounds of the slowest rank. Usage: time_hidden [MIB [allgather]]: so large is the result, 64 by
 * default. On the twin the kernel is a pause of the CPU.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "test/mpi/mpi_test.h"
#include "tools/bench/bench_cuda.h"
#include "tools/bench/bench_kernel.h"

enum { ROUNDS = 21, MIB_MAX = 1024 };

static mt_buffer_t in, out;
static int count; /* of elements: of the message, or of a block of the all-gather */
static bool gathers;
static void *stream;       /* of the kernel; NULL on the twin */
static double work_length; /* seconds */

/* On a GPU, loads a kernel that takes as long as the call. */
static void make_work(double seconds)
{
    int (*get_device)(int *device) = NULL;
    int device;

    work_length = seconds;
    if (mt_twin) {
        return;
    }
    get_device = (int (*)(int *))bench_cuda_find("cuCtxGetDevice");
    MT_CHECK(get_device != NULL && 0 == get_device(&device) && bench_cuda_stream_create(&stream) &&
                 bench_kernel_open(BENCH_KERNEL_HALF, device, 1e6 * work_length, stream),
             "no kernel");
}

static void run_work(void)
{
    if (mt_twin) {
        nanosleep(&(struct timespec){.tv_sec = (time_t)work_length,
                                     .tv_nsec = (long)(1e9 * (work_length - (double)(time_t)work_length))},
                  NULL);
    } else {
        MT_CHECK(bench_kernel_launch() && bench_cuda_stream_wait(stream), "the kernel failed");
    }
}

/* One round: the call, the work, or both. Returns the seconds of the slowest rank. */
static double time_round(bool calls, bool works)
{
    MPI_Request request = MPI_REQUEST_NULL;
    double *all = mt_host_alloc(sizeof(double) * (size_t)mt_size), seconds;

    mt_barrier(MPI_COMM_WORLD);
    seconds = -mt_now();
    if (calls && gathers) {
        MT_MPI(MPI_Iallgather(in.data, count, MPI_FLOAT, out.data, count, MPI_FLOAT, MPI_COMM_WORLD, &request));
    } else if (calls) {
        MT_MPI(MPI_Iallreduce(in.data, out.data, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request));
    }
    if (works) {
        run_work();
    }
    MT_MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
    seconds += mt_now();
    mt_allgather(MPI_COMM_WORLD, &seconds, all, sizeof(seconds));
    for (int rank = 0; rank < mt_size; ++rank) {
        seconds = all[rank] > seconds ? all[rank] : seconds;
    }
    free(all);
    return seconds;
}

static int compare(const void *a, const void *b)
{
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

static double median(bool calls, bool works)
{
    double times[ROUNDS];

    (void)time_round(calls, works);
    for (int round = 0; round < ROUNDS; ++round) {
        times[round] = time_round(calls, works);
    }
    qsort(times, ROUNDS, sizeof(times[0]), compare);
    return times[ROUNDS / 2];
}

int main(int argc, char **argv)
{
    double call, work, both;
    int mib = 64;

    if (argc > 1) {
        char *end;

        mib = (int)strtol(argv[1], &end, 10);
        if (*end != '\0' || mib < 1 || mib > MIB_MAX) {
            fprintf(stderr, "time_hidden: MIB '%s' is not allowed; use 1 to %d\n", argv[1], MIB_MAX);
            return 2;
        }
    }
    if (argc > 2) {
        gathers = 0 == strcmp(argv[2], "allgather");
        if (!gathers) {
            fprintf(stderr, "time_hidden: '%s' is not allowed; use allgather, or nothing for an all-reduce\n", argv[2]);
            return 2;
        }
    }
    mt_init(&argc, &argv, MPI_THREAD_SINGLE);
    count = (mib << 18) / (gathers ? mt_size : 1);
    in = mt_buffer_alloc(MT_DEVICE, sizeof(float) * (size_t)count, 0);
    out = mt_buffer_alloc(MT_DEVICE, sizeof(float) * ((size_t)mib << 18), 0);
    mt_buffer_set(&in, 0);
    call = median(true, false);
    make_work(call);
    work = median(false, true);
    both = median(true, true);
    if (mt_rank == 0) {
        printf("%d MiB: the call takes %.0f us, the kernel %.0f us, both %.0f us: %.1f %% of the call are hidden\n",
               mib, 1e6 * call, 1e6 * work, 1e6 * both, 100 * (1 - (both - work) / call));
    }
    bench_kernel_close();
    if (stream != NULL) {
        bench_cuda_stream_destroy(stream);
    }
    mt_buffer_free(&in, "in");
    mt_buffer_free(&out, "out");
    return mt_finish();
}
