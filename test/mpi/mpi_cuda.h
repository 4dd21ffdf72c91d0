/*
 * CUDA calls that an application makes between its MPI calls, and that may wait for running kernels. If the driver
 * refuses one, the program ends. Only with MSCCLPP_TEST_DEVICE=cuda, after mt_init.
 */
#ifndef TEST_MPI_MPI_CUDA_H
#define TEST_MPI_MPI_CUDA_H

#include <stdbool.h>

int mt_cuda_devices(void);
bool mt_cuda_mps(void); /* processes run side by side on the current device; false if the driver cannot tell */

void mt_cuda_synchronize(void); /* the whole device, as cudaDeviceSynchronize */
void mt_cuda_allocate(void);    /* allocates device memory and frees it, which waits for the device */
void mt_cuda_load(void);        /* loads a module, launches its kernel for the first time, and waits for the kernel */
void mt_cuda_capture(void);     /* captures a graph in the mode that forbids calls that could disturb it, and runs it */

#endif
