/*
 * What communicators cost. Each kind of run prints what it has measured; a limit of 0 asks for no more than that.
 * Usage:
 *
 * - test_cost space KIB: so many KiB of address space at most for each of 20 live duplicates that all-reduce 1 KiB.
 * - test_cost memory N: at most 200 MiB of device memory a thousand for N live duplicates that all-reduce 1 KiB; large
 *   messages in mapped buffers take none besides, and others on one communicator as much as one communicator takes; the
 *   twin.
 * - test_cost large N [BETWEEN]: N live duplicates that all send large messages through the scratch take as much as
 *   five that do, and their small scratch; the twin. Over several nodes, also BETWEEN MiB at most for each of them.
 * - test_cost queued N: N live duplicates whose queued all-reduces have 1 KiB take as little as with `memory`, and one
 *   with a large message as much besides as one communicator takes; the twin.
 * - test_cost dup US: so many microseconds at most for MPI_Comm_dup, an all-reduce of 1 KiB and MPI_Comm_free.
 * - test_cost first US: so many microseconds at most for MPI_Comm_dup and an all-reduce of 1 KiB, with 20 live.
 * - test_cost threads MS: so many milliseconds at most for the calls of four threads on four communicators.
 */
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test/mpi/mpi_queued.h"
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

/* Nonblocking calls go through the scratch, as the buffers of late ranks are not known yet. */
static void send_large(MPI_Comm comm, mt_buffer_t *in, mt_buffer_t *out)
{
    MPI_Request request;

    MT_MPI(MPI_Iallreduce(in->data, out->data, LARGE_INTS, MPI_INT, MPI_SUM, comm, &request));
    MT_MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
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
    send_large(comms[count / 2], in, out);
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

/* Each call has another sum, of which only the ends are looked at. */
static void send_and_verify(MPI_Comm comm, int number, mt_buffer_t *in, mt_buffer_t *out)
{
    const int sum = mt_size * number + mt_size * (mt_size - 1) / 2;
    int *operands = (int *)(void *)in->data, *results = (int *)(void *)out->data;

    operands[0] = operands[LARGE_INTS - 1] = number + mt_rank;
    results[0] = results[LARGE_INTS - 1] = -1;
    if (number % 4 != 3) {
        send_large(comm, in, out);
        MT_CHECK(sum == results[LARGE_INTS - 1], "call %d: %d, not %d", number, results[LARGE_INTS - 1], sum);
    } else {
        reduce(comm, in, out);
    }
    MT_CHECK(sum == results[0], "call %d: %d, not %d", number, results[0], sum);
}

/* Each call may take over the scratch of another communicator. Then all call at once. */
static void large(int count, double between, mt_buffer_t *in, mt_buffer_t *out)
{
    const double before = device_memory(), allowed = 5 * 36.3 + (2 * 0.2 + between) * count + 1;
    MPI_Comm *comms = calloc((size_t)count, sizeof(*comms));
    MPI_Request requests[2];
    uint64_t staged;
    double all;

    for (int i = 0; i < count; ++i) {
        MT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]));
        send_and_verify(comms[i], 4 * i, in, out);
    }
    staged = mt_staged(MPI_COMM_WORLD); /* of MPI_Comm_dup's own calls */
    for (int i = 0; i < 3 * count; ++i) {
        send_and_verify(comms[i * 5 % count], i, in, out);
    }
    all = device_memory() - before;
    if (0 == mt_rank) {
        printf("%d ranks: %.1f MiB of device memory for %d communicators that send large messages\n", mt_size, all,
               count);
    }
    MT_CHECK(all <= allowed, "%.1f MiB for %d communicators are more than %.1f", all, count, allowed);
    MT_CHECK(all > 36, "large messages took no larger scratch");
    for (int i = 0; i + 1 < count; i += 2) {
        for (int k = 0; k < 2; ++k) {
            MT_MPI(MPI_Iallreduce(in->data, out->data + (size_t)k * LARGE_INTS * sizeof(int) / 2, LARGE_INTS / 2,
                                  MPI_INT, MPI_SUM, comms[i + k], &requests[k]));
        }
        MT_MPI(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    }
    MT_CHECK(staged == mt_staged(MPI_COMM_WORLD), "calls were staged");
    for (int i = 0; i < count; ++i) {
        MT_MPI(MPI_Comm_free(&comms[(i * 7 + 3) % count]));
    }
    mt_barrier(MPI_COMM_WORLD);
    reduce(MPI_COMM_WORLD, in, out);
    all = device_memory() - before;
    MT_CHECK(all <= 5 + between, "%.1f MiB are left after the end of all of them", all);
    free(comms);
}

/* Queues a sum, and verifies it. */
static void queue_and_verify(MPI_Comm comm, int ints, int number, void *stream, mt_buffer_t *in, mt_buffer_t *out)
{
    const int sum = mt_size * number + mt_size * (mt_size - 1) / 2;
    int *operands = (int *)(void *)in->data, *results = (int *)(void *)out->data;

    operands[0] = operands[ints - 1] = number + mt_rank;
    results[0] = results[ints - 1] = -1;
    MT_MPI(MPIX_Mscclpp_allreduce_enqueue(in->data, out->data, ints, MPI_INT, MPI_SUM, comm, stream));
    mq_stream_wait(stream);
    MT_CHECK(sum == results[0] && sum == results[ints - 1], "queued sum %d: %d and %d, not %d", number, results[0],
             results[ints - 1], sum);
}

/* The small scratch stays beside the large one, as graphs may use it. */
static void queued(int count, mt_buffer_t *in, mt_buffer_t *out)
{
    const double allowed = 0.2 * count + 1, before = device_memory();
    MPI_Comm *comms = calloc((size_t)count, sizeof(*comms));
    void *stream = mq_stream_make();
    double small, all;

    for (int i = 0; i < count; ++i) {
        MT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]));
        queue_and_verify(comms[i], INTS, i, stream, in, out);
    }
    small = device_memory() - before;
    for (int i = 0; i < 3; ++i) {
        queue_and_verify(comms[count / 2], i == 1 ? INTS : LARGE_INTS, i, stream, in, out);
    }
    all = device_memory() - before;
    if (0 == mt_rank) {
        printf(
            "%d ranks: %.1f MiB of device memory for queued calls of %d communicators, %.1f with large ones on one\n",
            mt_size, small, count, all);
    }
    MT_CHECK(small <= allowed, "%.1f MiB for %d communicators are more than %.1f", small, count, allowed);
    MT_CHECK(all > small + 1, "large messages took no larger scratch");
    MT_CHECK(all <= small + 37, "large messages on one communicator took %.1f MiB", all - small);
    for (int i = 0; i < count; ++i) {
        MT_CHECK(mq_asked(comms[i], MPIX_MSCCLPP_QUERY_QUEUED) == (i == count / 2 ? 4 : 1),
                 "not all calls were queued");
        MT_MPI(MPI_Comm_free(&comms[i]));
    }
    mq_stream_free(stream);
    mt_barrier(MPI_COMM_WORLD);
    reduce(MPI_COMM_WORLD, in, out);
    all = device_memory() - before;
    MT_CHECK(all <= 5, "%.1f MiB are left after the end of all of them", all);
    free(comms);
}

/* The first calls of duplicates, of which no ended one has left anything. */
static void first(double limit, mt_buffer_t *in, mt_buffer_t *out)
{
    double best = 1e9;
    MPI_Comm comms[LIVE];

    reduce(MPI_COMM_WORLD, in, out);
    for (int i = 0; i < LIVE; ++i) {
        const double started = mt_now();
        double took;

        MT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]));
        reduce(comms[i], in, out);
        took = (mt_now() - started) * 1e6;
        best = took < best ? took : best;
    }
    if (0 == mt_rank) {
        printf("%d ranks: %.1f us at best to duplicate and all-reduce for the first time\n", mt_size, best);
    }
    MT_CHECK(limit <= 0 || best <= limit, "%.1f us are more than %.1f", best, limit);
    for (int i = 0; i < LIVE; ++i) {
        MT_MPI(MPI_Comm_free(&comms[i]));
    }
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
    } else if (0 == strcmp(what, "large")) {
        large((int)limit, argc > 3 ? strtod(argv[3], NULL) : 0, &in, &out);
    } else if (0 == strcmp(what, "queued")) {
        queued((int)limit, &in, &out);
    } else if (0 == strcmp(what, "first")) {
        first(limit, &in, &out);
    } else if (0 == strcmp(what, "dup")) {
        duplicate(limit, &in, &out);
    } else if (0 == strcmp(what, "threads")) {
        threads(limit);
    } else {
        fprintf(
            stderr,
            "test_cost: '%s' is not allowed; use space, memory, large, queued, dup, first or threads, and a limit\n",
            what);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    mt_buffer_free(&in, "input");
    mt_buffer_free(&out, "output");
    return mt_finish();
}
