#include "test/mpi/mpi_channels.h"

#include <stdio.h>
#include <stdlib.h>

void mc_launch(void *stream, mpix_host_kernel_t *kernel)
{
    MT_MPI(MPIX_Mscclpp_host_launch(stream, mpix_host_run, kernel));
}

void mc_run(void *stream, void (*function)(mpix_group_t *block, void *argument), void *argument, unsigned blocks,
            unsigned threads)
{
    mpix_host_kernel_t kernel = {function, argument, blocks, threads, 0};

    mc_launch(stream, &kernel);
    MT_MPI(MPIX_Mscclpp_host_stream_sync(stream));
    MT_CHECK(0 == kernel.error, "a kernel did not run: errno %d", kernel.error);
}

char *mc_memory(MPI_Aint bytes, MPIX_Mscclpp_memory *memory)
{
    void *base = NULL;

    MT_MPI(MPIX_Mscclpp_memory_alloc(MPI_COMM_WORLD, bytes, &base, memory));
    if (base == NULL) {
        fprintf(stderr, "no memory for channels\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return base;
}

int mc_peer_number(int rank)
{
    return rank < mt_rank ? rank : rank - 1;
}

void mc_all_channels(MPIX_Mscclpp_memory memory, int kind, int per_peer, MPIX_Mscclpp_channels *channels, void *handles,
                     size_t element)
{
    int *peers = mt_host_alloc(sizeof(int) * (size_t)mt_size);

    for (int rank = 0; rank < mt_size; ++rank) {
        if (rank != mt_rank) {
            peers[mc_peer_number(rank)] = rank;
        }
    }
    MT_MPI(MPIX_Mscclpp_channels_create(memory, kind, mt_size - 1, peers, per_peer, channels));
    MT_MPI(MPIX_Mscclpp_channels_get_device(*channels, MPIX_MSCCLPP_DEVICE_ABI, handles, element));
    free(peers);
}

int mc_class_of(int code)
{
    int class = MPI_ERR_UNKNOWN;

    MT_MPI(MPI_Error_class(code, &class));
    return class;
}

int mc_own_class(int which)
{
    int class = MPI_ERR_UNKNOWN;

    MT_MPI(MPIX_Mscclpp_error_class(which, &class));
    return class;
}
