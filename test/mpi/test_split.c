/*
 * Communicators that MPI_Comm_split makes of a large one, each of them used once and freed: the results are right, and
 * descriptors and memory of the process return. Usage: test_split COUNT.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/mpi/mpi_test.h"

/* Rounds that fill what the process keeps for good: caches of mappings, ended communicators' parts, Open MPI's pools.
 */
#define FIRST_ROUNDS 10

/* KiB by which a process may have grown after all other rounds together. */
#define KIB_MAX 4096

static long resident(void)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    long value = 0;

    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, "VmRSS:", 6) == 0) {
            value = strtol(line + 6, NULL, 10);
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return value;
}

static int descriptors(void)
{
    DIR *directory = opendir("/proc/self/fd");
    int count = 0;

    while (directory != NULL && readdir(directory) != NULL) {
        ++count;
    }
    if (directory != NULL) {
        closedir(directory);
    }
    return count;
}

/* Parts of different numbers and orders of ranks; each third one has all ranks. */
static void split_and_call(long round, mt_buffer_t *buffer)
{
    const int parts = 1 + (int)(round % 3), color = mt_rank % parts;
    const int key = round % 2 == 0 ? mt_rank : mt_size - mt_rank;
    int32_t value = mt_rank + 1, expected = 0;
    uint64_t served;
    MPI_Comm part;

    MT_MPI(MPI_Comm_split(MPI_COMM_WORLD, color, key, &part));
    served = mt_served(part);
    mt_buffer_put(buffer, &value, sizeof(value));
    MT_MPI(MPI_Allreduce(MPI_IN_PLACE, buffer->data, 1, MPI_INT32_T, MPI_SUM, part));
    mt_buffer_get(buffer, &value, sizeof(value));
    for (int r = color; r < mt_size; r += parts) {
        expected += r + 1;
    }
    MT_CHECK(value == expected, "round %ld: the sum is %d in place of %d", round, (int)value, (int)expected);
    MT_CHECK(mt_served(part) > served, "round %ld: kernels did not serve the call", round);
    MT_MPI(MPI_Comm_free(&part));
}

int main(int argc, char **argv)
{
    long count = 0, before = 0, grown;
    int held = 0;
    mt_buffer_t buffer;
    char *end = argv[0];

    if (argc == 2) {
        errno = 0;
        count = strtol(argv[1], &end, 10);
    }
    if (argc != 2 || *end != '\0' || errno != 0 || count <= FIRST_ROUNDS) {
        fprintf(stderr, "usage: test_split COUNT, which is above %d\n", FIRST_ROUNDS);
        return 2;
    }
    mt_init(&argc, &argv, MPI_THREAD_SINGLE);
    buffer = mt_buffer_alloc(MT_DEVICE, sizeof(int32_t), 4);
    for (long round = 0; round < count; ++round) {
        if (round == FIRST_ROUNDS) {
            before = resident();
            held = descriptors();
        }
        split_and_call(round, &buffer);
    }
    mt_barrier(MPI_COMM_WORLD);
    grown = resident() - before;
    MT_CHECK(descriptors() <= held + 4, "%d descriptors in place of %d", descriptors(), held);
    MT_CHECK(grown <= KIB_MAX, "the process has grown by %ld KiB", grown);
    if (mt_rank == 0) {
        printf("%ld communicators: %ld KiB more\n", count, grown);
    }
    mt_buffer_free(&buffer, "buffer");
    return mt_finish();
}
