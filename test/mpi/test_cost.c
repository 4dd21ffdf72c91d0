/*
 * What communicators cost. Usage:
 *   test_cost space KIB    so many KiB of address space at most for each of 20 live duplicates that all-reduce 1 KiB
 *   test_cost memory N     at most 200 MiB of device memory a thousand for N live duplicates that all-reduce 1 KiB, and
 * as much as one communicator takes besides once one of them sends large messages; the twin test_cost dup US       so
 * many microseconds at most for MPI_Comm_dup, an all-reduce of 1 KiB and MPI_Comm_free test_cost threads MS   so many
 * milliseconds at most for the calls of four threads on four communicators Each prints what it has measured; a limit of
 * 0 asks for no more than that.
 */
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test/mpi/mpi_test.h"

#define INTS 256
#define LARGE_INTS (1 << 20)
#define MIB 1048576
#define LIVE 20
#define ROUNDS 400
#define BATCH 20 /* of which the quickest counts, since others use the machine, too */
#define THREADS 4
#define CALLS 1000

static void reduce(MPI_Comm comm, mt_buffer_t *in, mt_buffer_t *out)
{
    MT_MPI(MPI_Allreduce(in->data, out->data, INTS, MPI_INT, MPI_SUM, comm));
}

static size_t address_space(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    long pages = 0;

    MT_CHECK(file != NULL && 1 == fscanf(file, "%ld", &pages), "cannot read /proc/self/statm");
    if (file != NULL) {
        fclose(file);
    }
    return (size_t)pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void space(double limit, mt_buffer_t *in, mt_buffer_t *out)
{
    MPI_Comm comms[LIVE];
    size_t before;
    double each;

    reduce(MPI_COMM_WORLD, in, out);
    before = address_space();
    for (int i = 0; i < LIVE; ++i) {
        MT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]));
        reduce(comms[i], in, out);
    }
    each = (double)(address_space() - before) / LIVE / 1024;
    if (0 == mt_rank) {
        printf("%d ranks: %.0f KiB of address space a communicator\n", mt_size, each);
    }
    MT_CHECK(limit <= 0 || each <= limit, "%.0f KiB a communicator are more than %.0f", each, limit);
    for (int i = 0; i < LIVE; ++i) {
        MT_MPI(MPI_Comm_free(&comms[i]));
    }
}

/* Bytes of memory without a name that this process has open: the twin's device memory, and little else. */
static double device_memory(void)
{
    DIR *directory = opendir("/proc/self/fd");
    const struct dirent *entry;
    double sum = 0;

    MT_CHECK(directory != NULL, "cannot read /proc/self/fd");
    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        struct stat file;

        if (0 == fstatat(dirfd(directory), entry->d_name, &file, 0) && S_ISREG(file.st_mode) && 0 == file.st_nlink) {
            sum += (double)file.st_size;
        }
    }
    if (directory != NULL) {
        closedir(directory);
    }
    return sum / MIB;
}

/* All are given back in the end, so that `before` counts the buffers of this program. */
static void memory(int count, mt_buffer_t *in, mt_buffer_t *out)
{
    const double allowed = 0.2 * count + 1, before = device_memory();
    MPI_Comm *comms = calloc((size_t)count, sizeof(*comms));
    double small, all;

    for (int i = 0; i < count; ++i) {
        MT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]));
        reduce(comms[i], in, out);
    }
    small = device_memory() - before;
    MT_MPI(MPI_Allreduce(in->data, out->data, LARGE_INTS, MPI_INT, MPI_SUM, comms[count / 2]));
    reduce(comms[0], in, out);
    all = device_memory() - before;
    if (0 == mt_rank) {
        printf("%d ranks: %.1f MiB of device memory for %d communicators, %.1f with large messages on one\n", mt_size,
               small, count, all);
    }
    MT_CHECK(small <= allowed, "%.1f MiB for %d communicators are more than %.1f", small, count, allowed);
    MT_CHECK(all > small + 1, "large messages took no larger scratch");
    MT_CHECK(count < 1000 || all < 200, "%.1f MiB in all", all);
    for (int i = 0; i < count; ++i) {
        MT_MPI(MPI_Comm_free(&comms[(i * 7 + 3) % count]));
    }
    mt_barrier(MPI_COMM_WORLD);
    /* Peers close their mappings when they come to it, and a few ended communicators are kept. */
    reduce(MPI_COMM_WORLD, in, out);
    all = device_memory() - before;
    MT_CHECK(all <= 33, "%.1f MiB are left after the end of all of them", all);
    free(comms);
}

static void duplicate(double limit, mt_buffer_t *in, mt_buffer_t *out)
{
    double started = mt_now(), each = 1e9;

    reduce(MPI_COMM_WORLD, in, out);
    for (int i = 1; i <= ROUNDS; ++i) {
        MPI_Comm comm;

        MT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
        reduce(comm, in, out);
        MT_MPI(MPI_Comm_free(&comm));
        if (0 == i % BATCH) {
            const double took = (mt_now() - started) / BATCH * 1e6;

            each = took < each ? took : each;
            started = mt_now();
        }
    }
    if (0 == mt_rank) {
        printf("%d ranks: %.1f us to duplicate, all-reduce and free\n", mt_size, each);
    }
    MT_CHECK(limit <= 0 || each <= limit, "%.1f us are more than %.1f", each, limit);
}

static void *work(void *argument)
{
    mt_buffer_t in = mt_buffer_alloc(MT_DEVICE, INTS * sizeof(int), 0);
    mt_buffer_t out = mt_buffer_alloc(MT_DEVICE, INTS * sizeof(int), 0);

    mt_buffer_set(&in, 0);
    for (int i = 0; i < CALLS; ++i) {
        reduce(*(MPI_Comm *)argument, &in, &out);
    }
    mt_buffer_free(&in, "input");
    mt_buffer_free(&out, "output");
    return NULL;
}

static void threads(double limit)
{
    pthread_t ids[THREADS];
    MPI_Comm comms[THREADS];
    double started, took;

    for (int i = 0; i < THREADS; ++i) {
        MT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]));
    }
    mt_barrier(MPI_COMM_WORLD);
    started = mt_now();
    for (int i = 0; i < THREADS; ++i) {
        if (0 != pthread_create(&ids[i], NULL, work, &comms[i])) {
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
    for (int i = 0; i < THREADS; ++i) {
        pthread_join(ids[i], NULL);
    }
    took = (mt_now() - started) * 1e3;
    if (0 == mt_rank) {
        printf("%d ranks: %.0f ms for %d calls of %d threads each\n", mt_size, took, CALLS, THREADS);
    }
    MT_CHECK(limit <= 0 || took <= limit, "%.0f ms are more than %.0f", took, limit);
    for (int i = 0; i < THREADS; ++i) {
        MT_MPI(MPI_Comm_free(&comms[i]));
    }
}

int main(int argc, char **argv)
{
    const char *what = argc > 2 ? argv[1] : "";
    const double limit = argc > 2 ? strtod(argv[2], NULL) : 0;
    mt_buffer_t in, out;

    mt_init(&argc, &argv, 0 == strcmp(what, "threads") ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
    in = mt_buffer_alloc(MT_DEVICE, LARGE_INTS * sizeof(int), 0);
    out = mt_buffer_alloc(MT_DEVICE, LARGE_INTS * sizeof(int), 0);
    mt_buffer_set(&in, 0);
    if (0 == strcmp(what, "space")) {
        space(limit, &in, &out);
    } else if (0 == strcmp(what, "memory")) {
        memory((int)limit, &in, &out);
    } else if (0 == strcmp(what, "dup")) {
        duplicate(limit, &in, &out);
    } else if (0 == strcmp(what, "threads")) {
        threads(limit);
    } else {
        fprintf(stderr, "test_cost: '%s' is not allowed; use space, memory, dup or threads, and a limit\n", what);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    mt_buffer_free(&in, "input");
    mt_buffer_free(&out, "output");
    return mt_finish();
}
