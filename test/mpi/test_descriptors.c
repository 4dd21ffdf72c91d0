/*
 * All-reduces of a process that may open few files or none; run.sh limits it before MPI_Init, this program after it.
 * Nothing is lost by that: what cannot be had is done without.
 * Usage: test_descriptors count: prints how many MPI_Init has opened.
 *        test_descriptors calls [RANK|all FREE]: calls, before which this rank or all may open FREE more files.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "test/mpi/mpi_test.h"

#define COUNT_MAX 20000
#define NUMBERS 1024

static bool is_open(int number)
{
    return fcntl(number, F_GETFD) >= 0 || EBADF != errno;
}

static void limit_to(int unused)
{
    struct rlimit limit;
    int number = 0;

    while (number < NUMBERS && (unused > 0 || is_open(number))) {
        unused -= !is_open(number++);
    }
    MT_CHECK(0 == getrlimit(RLIMIT_NOFILE, &limit), "getrlimit: %s", strerror(errno));
    limit.rlim_cur = (rlim_t)number;
    MT_CHECK(0 == setrlimit(RLIMIT_NOFILE, &limit), "setrlimit: %s", strerror(errno));
}

static void call(MPI_Comm comm, mt_buffer_t *send, mt_buffer_t *recv, int count)
{
    int *values = mt_host_alloc(sizeof(int) * COUNT_MAX), wrong = 0;

    for (int i = 0; i < count; ++i) {
        values[i] = mt_rank + i;
    }
    mt_buffer_put(send, values, sizeof(int) * (size_t)count);
    MT_MPI(MPI_Allreduce(send->data, recv->data, count, MPI_INT, MPI_SUM, comm));
    mt_buffer_get(recv, values, sizeof(int) * (size_t)count);
    for (int i = 0; i < count; ++i) {
        wrong += values[i] != mt_size * (mt_size - 1) / 2 + mt_size * i;
    }
    MT_CHECK(0 == wrong, "%d of %d elements are wrong", wrong, count);
    free(values);
}

int main(int argc, char **argv)
{
    static const int counts[] = {1, 1000, COUNT_MAX};
    MPI_Comm comms[2] = {MPI_COMM_WORLD, MPI_COMM_NULL};
    mt_buffer_t send, recv;

    if (argc == 2 && 0 == strcmp(argv[1], "count")) {
        int opened = 0;

        MPI_Init(&argc, &argv);
        for (int number = 0; number < NUMBERS; ++number) {
            opened += is_open(number);
        }
        printf("%d descriptors\n", opened);
        MPI_Finalize();
        return 0;
    }
    mt_init(&argc, &argv, MPI_THREAD_SINGLE);
    send = mt_buffer_alloc(MT_DEVICE, sizeof(int) * COUNT_MAX, 0);
    recv = mt_buffer_alloc(MT_DEVICE, sizeof(int) * COUNT_MAX, 0);
    if (argc == 4 && (0 == strcmp(argv[2], "all") || mt_rank == atoi(argv[2]))) {
        limit_to(atoi(argv[3]));
    }
    MT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]));
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); ++i) {
        for (int comm = 0; comm < 2; ++comm) {
            call(comms[comm], &send, &recv, counts[i]);
        }
    }
    MT_MPI(MPI_Comm_free(&comms[1]));
    mt_buffer_free(&send, "send buffer");
    mt_buffer_free(&recv, "receive buffer");
    return mt_finish();
}
