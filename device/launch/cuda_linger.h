/* The lingering kernel for cuda.cu. It is compiled separately. */
#ifndef MSCCLPP_DEVICE_LAUNCH_CUDA_LINGER_H
#define MSCCLPP_DEVICE_LAUNCH_CUDA_LINGER_H

#include "device/types/linger.h"

#include <cuda_runtime.h>

/* Returns the kernel, in the form that the CUDA runtime's functions take. */
const void *mscclpp_dev_cuda_linger_kernel(void);

/*
 * Finds the cluster sizes that `device` supports, for mscclpp_dev_cuda_launch_lingering. The device is current. Called
 * before the first launch there. Fails silently: the device then has no clusters.
 */
void mscclpp_dev_cuda_find_clusters(int device);

/*
 * Launches the lingering kernel on the calling thread's device. The blocks form a cluster if `args` ask for one and the
 * device supports one of that size. `config` holds grid, block and stream, and no attributes. If the launch as a
 * cluster fails, the kernel is launched without; the error returned is that of the last try.
 */
cudaError_t mscclpp_dev_cuda_launch_lingering(cudaLaunchConfig_t *config, const mscclpp_dev_linger_args_t *args);

#endif
