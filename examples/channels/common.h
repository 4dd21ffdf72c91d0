/* What the programs share: the start on a device, and the verdict. */
#ifndef EXAMPLES_CHANNELS_COMMON_H
#define EXAMPLES_CHANNELS_COMMON_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpix_mscclpp_channels.h"
#include "stage.h"

static int rank, ranks;

/* Starts MPI, and chooses the GPU by the rank on this machine. */
static void begin(int *argc, char ***argv)
{
    MPI_Comm machine;
    int local;

    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks < 2) {
        printf("skipped: channels need at least two ranks\n");
        MPI_Finalize();
        exit(77);
    }
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine);
    MPI_Comm_rank(machine, &local);
    MPI_Comm_free(&machine);
    (void)stage_open(local);
}

/* Prints what kernels have reported, and whether all ranks are right. Returns the exit status. */
static int finish(const char *name, int wrong)
{
    int code, all;
    char text[300];

    MPIX_Mscclpp_get_async_error(MPI_COMM_WORLD, &code, text, sizeof(text));
    if (code != MPI_SUCCESS) {
        printf("rank %d: %s\n", rank, text);
        wrong = 1;
    }
    wrong = wrong != 0;
    MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("%s on %d ranks: %s\n", name, ranks, all == 0 ? "right" : "WRONG");
    }
    stage_close();
    MPI_Finalize();
    return all != 0;
}

/* Returns the memory, or ends the program if it is NULL. */
static inline void *must(void *memory)
{
    if (memory == NULL) {
        fprintf(stderr, "no memory\n");
        exit(1);
    }
    return memory;
}

/*
 * Memory channels to all other ranks, `per_peer` to each, in device memory in the order of ranks; room is left for the
 * rank itself.
 */
static inline mpix_memory_channel_t *all_channels(MPIX_Mscclpp_memory memory, int per_peer,
                                                  MPIX_Mscclpp_channels *channels)
{
    const size_t one = sizeof(mpix_memory_channel_t) * (size_t)per_peer;
    char *handles = must(calloc((size_t)ranks, one)), *by_rank = must(calloc((size_t)ranks, one));
    int *peers = must(malloc((size_t)ranks * sizeof(*peers))), n = 0;
    mpix_memory_channel_t *device = stage_alloc((size_t)ranks * one);

    for (int peer = 0; peer < ranks; ++peer) {
        if (peer != rank) {
            peers[n++] = peer;
        }
    }
    MPIX_Mscclpp_channels_create(memory, MPIX_MSCCLPP_CHANNEL_MEMORY, n, peers, per_peer, channels);
    MPIX_Mscclpp_channels_get_device(*channels, MPIX_MSCCLPP_DEVICE_ABI, handles, sizeof(mpix_memory_channel_t));
    for (int p = 0; p < n; ++p) {
        memcpy(by_rank + (size_t)peers[p] * one, handles + (size_t)p * one, one);
    }
    stage_to_device(device, by_rank, (size_t)ranks * one);
    free(handles);
    free(by_rank);
    free(peers);
    return device;
}

#endif
