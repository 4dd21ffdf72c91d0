/* The kernels of all collectives but all-reduce for cuda.cu. They are compiled separately. */
#ifndef MSCCLPP_DEVICE_LAUNCH_CUDA_COLL_H
#define MSCCLPP_DEVICE_LAUNCH_CUDA_COLL_H

#include "device/types/launch.h"

/*
 * Returns one of MSCCLPP_KERNEL_COLL_*, in the form that the CUDA runtime's functions take. `dtype` and `op` are a hot
 * combination (types/hot.h), or both -1.
 */
const void *mscclpp_dev_cuda_coll_kernel(mscclpp_dev_kernel_t kernel, int dtype, int op);

#endif
