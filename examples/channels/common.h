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

/* Starts MPI, and chooses the GPU by the rank on this machine. If there is one rank only, ends the program. */
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
        exit(77); /* which `check` takes for "skipped" */
    }
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine);
    MPI_Comm_rank(machine, &local);
    MPI_Comm_free(&machine);
    (void)stage_open(local);
}

/*
 * Prints what kernels have reported, and whether the results of all ranks are right; `wrong`: those of this rank are
 * not. Ends MPI. Returns the program's exit status.
 */
static int finish(const char *name, int wrong)
{
    int code, wrong_ranks;
    char text[300];

    MPIX_Mscclpp_get_async_error(MPI_COMM_WORLD, &code, text, sizeof(text));
    if (code != MPI_SUCCESS) {
        printf("rank %d: %s\n", rank, text);
        wrong = 1;
    }
    wrong = wrong != 0;
    MPI_Allreduce(&wrong, &wrong_ranks, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("%s on %d ranks: %s\n", name, ranks, wrong_ranks == 0 ? "right" : "WRONG");
    }
    stage_close();
    MPI_Finalize();
    return wrong_ranks != 0;
}

/* Returns the memory, or ends the program if it is NULL. */
static inline void *not_null(void *memory)
{
    if (memory == NULL) {
        fprintf(stderr, "no memory\n");
        exit(1);
    }
    return memory;
}

/*
 * Makes memory channels to all other ranks, `per_peer` to each. Returns their handles in device memory, in the order of
 * ranks, with unused places for this rank: channel k to a rank is at index rank * per_peer + k. The library's own order
 * has no such places, hence the copy. The caller frees the handles by stage_free. If MPI fails, the program ends.
 */
static inline mpix_memory_channel_t *all_channels(MPIX_Mscclpp_memory memory, int per_peer,
                                                  MPIX_Mscclpp_channels *channels)
{
    const size_t peer_bytes = sizeof(mpix_memory_channel_t) * (size_t)per_peer; /* of the handles for one rank */
    char *handles = not_null(calloc((size_t)ranks, peer_bytes)), *by_rank = not_null(calloc((size_t)ranks, peer_bytes));
    int *peers = not_null(malloc((size_t)ranks * sizeof(*peers))), peer_count = 0;
    mpix_memory_channel_t *device = stage_alloc((size_t)ranks * peer_bytes);

    for (int peer = 0; peer < ranks; ++peer) {
        if (peer != rank) {
            peers[peer_count++] = peer;
        }
    }
    MPIX_Mscclpp_channels_create(memory, MPIX_MSCCLPP_CHANNEL_MEMORY, peer_count, peers, per_peer, channels);
    MPIX_Mscclpp_channels_get_device(*channels, MPIX_MSCCLPP_DEVICE_ABI, handles, sizeof(mpix_memory_channel_t));
    for (int i = 0; i < peer_count; ++i) {
        memcpy(by_rank + (size_t)peers[i] * peer_bytes, handles + (size_t)i * peer_bytes, peer_bytes);
    }
    stage_to_device(device, by_rank, (size_t)ranks * peer_bytes);
    free(handles);
    free(by_rank);
    free(peers);
    return device;
}

#endif
