/*
 * What communicators cost: the time of MPI_Comm_dup, of the first two all-reduces of a device buffer and of
 * MPI_Comm_free, and what the process holds besides while they are there. Usage: time_comms [COUNT], 8 by default.
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bench/bench_cuda.h"
#include "test/mpi/mpi_test.h"

#define COUNT_MAX 1024

typedef enum { DUP, FIRST, SECOND, FREE, PHASES } phase_t;

typedef struct {
    long descriptors;
    long kib;        /* resident, that of other processes included where it is shared */
    long device_kib; /* of the device, used by whomever */
} usage_t;

static long status_line(const char *key)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    long value = 0;

    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, key, strlen(key)) == 0) {
            value = strtol(line + strlen(key), NULL, 10);
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return value;
}

static usage_t measure(void)
{
    typedef int (*memory_fn_t)(size_t * free_p, size_t * total_p);
    usage_t usage = {0, status_line("VmRSS:"), 0};
    DIR *directory = opendir("/proc/self/fd");
    size_t free_bytes = 0, total = 0;

    while (directory != NULL && readdir(directory) != NULL) {
        ++usage.descriptors;
    }
    if (directory != NULL) {
        closedir(directory);
    }
    if (!mt_twin) {
        memory_fn_t memory = (memory_fn_t)bench_cuda_find("cuMemGetInfo_v2");
        MT_CHECK(memory != NULL && memory(&free_bytes, &total) == 0,
                 "the driver does not tell how much memory is free");
        usage.device_kib = (long)((total - free_bytes) / 1024);
    }
    return usage;
}

/* Milliseconds of the slowest rank. */
static double slowest(double seconds)
{
    double worst;

    MT_MPI(MPI_Reduce(&seconds, &worst, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD));
    return 1e3 * worst;
}

static void sum(MPI_Comm comm, mt_buffer_t *buffer)
{
    double value = 1.0;

    mt_buffer_put(buffer, &value, sizeof(value));
    MT_MPI(MPI_Allreduce(MPI_IN_PLACE, buffer->data, 1, MPI_DOUBLE, MPI_SUM, comm));
    mt_buffer_get(buffer, &value, sizeof(value));
    MT_CHECK(value == mt_size, "the sum of %d ones is %g", mt_size, value);
}

int main(int argc, char **argv)
{
    static MPI_Comm comms[COUNT_MAX];
    double took[PHASES], first[PHASES], rest[PHASES] = {0}, start;
    mt_buffer_t buffer;
    usage_t before, after;
    long count = 8;

    if (argc > 1) {
        char *end;
        errno = 0;
        count = strtol(argv[1], &end, 10);
        if (*end != '\0' || errno != 0 || count < 2 || count > COUNT_MAX) {
            fprintf(stderr, "time_comms: \"%s\" is not allowed; use 2 to %d\n", argv[1], COUNT_MAX);
            return 2;
        }
    }
    mt_init(&argc, &argv, MPI_THREAD_SINGLE);
    buffer = mt_buffer_alloc(MT_DEVICE, sizeof(double), 0);
    before = measure();
    for (long i = 0; i < count; ++i) {
        mt_barrier(MPI_COMM_WORLD);
        start = mt_now();
        MT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]));
        took[DUP] = slowest(mt_now() - start);
        for (int phase = FIRST; phase <= SECOND; ++phase) {
            mt_barrier(MPI_COMM_WORLD);
            start = mt_now();
            sum(comms[i], &buffer);
            took[phase] = slowest(mt_now() - start);
        }
        for (int phase = DUP; phase <= SECOND; ++phase) {
            first[phase] = i == 0 ? took[phase] : first[phase];
            rest[phase] += i == 0 ? 0 : took[phase] / (double)(count - 1);
        }
        if (i == 0) {
            after = measure();
            if (mt_rank == 0) {
                printf("the first communicator: %ld descriptors, %ld KiB resident, %ld KiB of the device\n",
                       after.descriptors - before.descriptors, after.kib - before.kib,
                       after.device_kib - before.device_kib);
            }
            before = after;
        }
    }
    after = measure();
    for (long i = 0; i < count; ++i) {
        mt_barrier(MPI_COMM_WORLD);
        start = mt_now();
        MT_MPI(MPI_Comm_free(&comms[i]));
        took[FREE] = slowest(mt_now() - start);
        first[FREE] = i == 0 ? took[FREE] : first[FREE];
        rest[FREE] += i == 0 ? 0 : took[FREE] / (double)(count - 1);
    }
    if (mt_rank == 0) {
        printf("each further one: %.1f descriptors, %.0f KiB resident, %.0f KiB of the device\n",
               (double)(after.descriptors - before.descriptors) / (double)(count - 1),
               (double)(after.kib - before.kib) / (double)(count - 1),
               (double)(after.device_kib - before.device_kib) / (double)(count - 1));
        printf("ms of the slowest rank    dup   first call   second call   free\n");
        printf("first communicator   %8.2f   %10.2f   %11.3f   %6.2f\n", first[DUP], first[FIRST], first[SECOND],
               first[FREE]);
        printf("the others           %8.2f   %10.2f   %11.3f   %6.2f\n", rest[DUP], rest[FIRST], rest[SECOND],
               rest[FREE]);
    }
    MT_CHECK(mt_served(MPI_COMM_WORLD) > 0, "kernels served no call");
    mt_buffer_free(&buffer, "time_comms");
    return mt_finish();
}
