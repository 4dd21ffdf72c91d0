/* What the tests of channels in kernels of the application share: kernels of the twin, on one stream. */
#ifndef TEST_MPI_MPI_CHANNELS_H
#define TEST_MPI_MPI_CHANNELS_H

#include "mpix/include/mpix_mscclpp/host_kernel.h"
#include "mpix/include/mpix_mscclpp_channels.h"
#include "mpix/include/mpix_mscclpp_device.h"
#include "test/mpi/mpi_queued.h"

/* Puts a kernel into the stream. `kernel` stays as it is until it has ended. */
void mc_launch(void *stream, mpix_host_kernel_t *kernel);

/* Launches a kernel and waits for its end. */
void mc_run(void *stream, void (*function)(mpix_group_t *block, void *argument), void *argument, unsigned blocks,
            unsigned threads);

/* Memory of `bytes` bytes on each rank of MPI_COMM_WORLD. */
char *mc_memory(MPI_Aint bytes, MPIX_Mscclpp_memory *memory);

/* `per_peer` channels to each other rank: peer p is rank p, or p + 1 from this rank on. */
void mc_all_channels(MPIX_Mscclpp_memory memory, int kind, int per_peer, MPIX_Mscclpp_channels *channels, void *handles,
                     size_t element);
int mc_peer_number(int rank);

int mc_class_of(int code);
int mc_own_class(int which);

#endif
