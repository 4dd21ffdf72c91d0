/* What cuda.cu needs of the lingering kernel, which is compiled beside it. */
#ifndef MSCCLPP_DEVICE_LAUNCH_CUDA_LINGER_H
#define MSCCLPP_DEVICE_LAUNCH_CUDA_LINGER_H

#include "device/types/linger.h"

#include <cuda_runtime.h>

/* The kernel, as the runtime's functions want it. */
const void *mscclpp_dev_cuda_linger_kernel(void);

/* Finds out, for the calling thread's device, of how many blocks there can be clusters; before the first launch there.
 */
void mscclpp_dev_cuda_find_clusters(int device);

/*
 * Launches it on the calling thread's device, as a cluster if `args` ask for one and the device can have one of so many
 * blocks. `config` holds grid, block and stream, and no attributes. The error of the launch without a cluster, if that
 * failed, too.
 */
cudaError_t mscclpp_dev_cuda_launch_lingering(cudaLaunchConfig_t *config, const mscclpp_dev_linger_args_t *args);

#endif
