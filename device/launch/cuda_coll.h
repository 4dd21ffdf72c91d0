/* What cuda.cu needs of the kernels of all collectives but all-reduce, which are compiled beside it. */
#ifndef MSCCLPP_DEVICE_LAUNCH_CUDA_COLL_H
#define MSCCLPP_DEVICE_LAUNCH_CUDA_COLL_H

#include "device/types/launch.h"

/* One of MSCCLPP_KERNEL_COLL_*, as the runtime's functions want it, for a hot combination (types/hot.h) or -1, -1. */
const void *mscclpp_dev_cuda_coll_kernel(mscclpp_dev_kernel_t kernel, int dtype, int op);

#endif
