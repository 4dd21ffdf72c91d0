/*
 * Communicators made, used once with device buffers and freed, over and over: memory, file descriptors and mappings of
 * the process stay as they were. Usage: test_many_comms [CYCLES], 300 by default; or test_many_comms alive COUNT:
 * so many at a time, of which those that the process has no descriptors for are to be right all the same.
 */
#include <dirent.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/mpi/mpi_test.h"

/* Open MPI's own pools and the cache of peers' mappings reach their size in these cycles. */
#define WARMUP 100

/* What may come and go: a few descriptors and mappings of scratch that waits for its peers to let it go. */
#define MORE_DESCRIPTORS 8
#define MORE_MAPPINGS 24
#define MORE_KIB 16384

/* Open MPI itself keeps some tens of bytes of a communicator. */
#define MORE_HEAP_KIB(cycles_) (256 + (cycles_) / 5)

typedef struct {
    long descriptors;
    long mappings;
    long kib;  /* resident */
    long heap; /* KiB that malloc has given and not got back; 0 where the library does not tell */
} usage_t;

static long lines(const char *path, const char *key)
{
    FILE *file = fopen(path, "r");
    char line[1024];
    long result = 0;

    if (file == NULL) {
        MT_CHECK(false, "cannot read %s", path);
        return 0;
    }
    while (fgets(line, sizeof(line), file) != NULL) {
        if (key == NULL) {
            ++result;
        } else if (0 == strncmp(line, key, strlen(key))) {
            result = atol(line + strlen(key));
        }
    }
    fclose(file);
    return result;
}

static usage_t measure(void)
{
    usage_t usage = {0, lines("/proc/self/maps", NULL), lines("/proc/self/status", "VmRSS:"), 0};
    DIR *directory = opendir("/proc/self/fd");

    while (directory != NULL && readdir(directory) != NULL) {
        ++usage.descriptors;
    }
    if (directory != NULL) {
        closedir(directory);
    }
#if defined(__GLIBC_PREREQ) && __GLIBC_PREREQ(2, 33)
    struct mallinfo2 heap = mallinfo2();
    usage.heap = (long)((heap.uordblks + heap.hblkhd) / 1024);
#endif
    return usage;
}

static void cycle(mt_buffer_t *send, mt_buffer_t *recv, int i, int count)
{
    MPI_Comm comm;
    int value = mt_rank + i, result = 0, size = mt_size;
    uint64_t served;

    if (i % 3) {
        MT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    } else {
        MT_MPI(MPI_Comm_split(MPI_COMM_WORLD, 0, -mt_rank, &comm));
    }
    mt_buffer_put(send, &value, sizeof(value));
    served = mt_served(MPI_COMM_WORLD);
    MT_MPI(MPI_Allreduce(send->data, recv->data, count, MPI_INT, MPI_SUM, comm));
    MT_CHECK(mt_served(MPI_COMM_WORLD) == served + 1, "cycle %d was not served by a kernel", i);
    mt_buffer_get(recv, &result, sizeof(result));
    MT_CHECK(result == size * i + size * (size - 1) / 2, "cycle %d: wrong result %d", i, result);
    MT_MPI(MPI_Comm_free(&comm));
}

static void use(MPI_Comm comm, mt_buffer_t *send, mt_buffer_t *recv, int i)
{
    int value = mt_rank + i, result = 0;

    mt_buffer_put(send, &value, sizeof(value));
    MT_MPI(MPI_Allreduce(send->data, recv->data, 1, MPI_INT, MPI_SUM, comm));
    mt_buffer_get(recv, &result, sizeof(result));
    MT_CHECK(result == mt_size * i + mt_size * (mt_size - 1) / 2, "communicator %d: wrong result %d", i, result);
}

/* All are used when they are made and once all are there, and freed in another order. */
static void keep_alive(int count)
{
    MPI_Comm *comms = malloc((size_t)count * sizeof(*comms));
    mt_buffer_t send = mt_buffer_alloc(MT_DEVICE, sizeof(int), 0), recv = mt_buffer_alloc(MT_DEVICE, sizeof(int), 0);
    uint64_t served = mt_served(MPI_COMM_WORLD);
    int i;

    for (i = 0; i < count; ++i) {
        MT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]));
        use(comms[i], &send, &recv, i);
    }
    for (i = count - 1; i >= 0; --i) {
        use(comms[i], &send, &recv, i);
    }
    served = mt_served(MPI_COMM_WORLD) - served;
    if (0 == mt_rank) {
        printf("%d communicators: %d calls, %lu served by kernels\n", count, 2 * count, (unsigned long)served);
    }
    for (i = 0; i < count; ++i) {
        MT_MPI(MPI_Comm_free(&comms[(i * 7 + 3) % count]));
    }
    free(comms);
    mt_buffer_free(&send, "send buffer");
    mt_buffer_free(&recv, "receive buffer");
}

int main(int argc, char **argv)
{
    int cycles = argc > 1 ? atoi(argv[1]) : 300;
    mt_buffer_t send, recv;
    usage_t before, after;

    mt_init(&argc, &argv, MPI_THREAD_SINGLE);
    if (argc > 2 && 0 == strcmp(argv[1], "alive")) {
        keep_alive(atoi(argv[2]));
        return mt_finish();
    }
    send = mt_buffer_alloc(MT_DEVICE, 4 << 20, 0);
    recv = mt_buffer_alloc(MT_DEVICE, 4 << 20, 0);
    mt_buffer_set(&send, 0);
    for (int i = 0; i < WARMUP; ++i) {
        cycle(&send, &recv, i, 0 == i % 10 ? 1 << 20 : 1);
    }
    mt_barrier(MPI_COMM_WORLD);
    before = measure();
    for (int i = 0; i < cycles && 0 == mt_failures(); ++i) {
        cycle(&send, &recv, i, 0 == i % 50 ? 1 << 20 : 1);
    }
    mt_barrier(MPI_COMM_WORLD);
    after = measure();
    MT_CHECK(after.descriptors <= before.descriptors + MORE_DESCRIPTORS,
             "%ld descriptors before and %ld after %d cycles", before.descriptors, after.descriptors, cycles);
    MT_CHECK(after.mappings <= before.mappings + MORE_MAPPINGS, "%ld mappings before and %ld after %d cycles",
             before.mappings, after.mappings, cycles);
    MT_CHECK(after.kib <= before.kib + MORE_KIB, "%ld KiB resident before and %ld after %d cycles", before.kib,
             after.kib, cycles);
    MT_CHECK(after.heap <= before.heap + MORE_HEAP_KIB(cycles), "%ld KiB allocated before and %ld after %d cycles",
             before.heap, after.heap, cycles);
    if (0 == mt_rank) {
        printf("%d cycles: descriptors %ld -> %ld, mappings %ld -> %ld, resident %ld -> %ld KiB, allocated %ld -> %ld "
               "KiB\n",
               cycles, before.descriptors, after.descriptors, before.mappings, after.mappings, before.kib, after.kib,
               before.heap, after.heap);
    }
    mt_buffer_free(&send, "send buffer");
    mt_buffer_free(&recv, "receive buffer");
    return mt_finish();
}
