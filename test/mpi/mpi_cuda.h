/*
 * CUDA calls that an application makes between its MPI calls, and that may wait for running kernels. Each ends the
 * program if the driver refuses it. Only with MSCCLPP_TEST_DEVICE=cuda, after mt_init.
 */
#ifndef TEST_MPI_MPI_CUDA_H
#define TEST_MPI_MPI_CUDA_H

#include <stdbool.h>

int mt_cuda_devices(void);
bool mt_cuda_mps(void); /* processes run side by side on the current device; false where the driver cannot tell */

void mt_cuda_synchronize(void); /* the whole device, as cudaDeviceSynchronize */
void mt_cuda_allocate(void);    /* device memory, and frees it, which waits for the device */
void mt_cuda_load(void);        /* a module, whose kernel is loaded, launched and waited for, for the first time */
void mt_cuda_capture(void);     /* a graph of a stream that forbids what could disturb it, then runs it */

#endif
