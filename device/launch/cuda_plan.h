/* The kernels that run execution plans, for cuda.cu. They are compiled separately. */
#ifndef MSCCLPP_DEVICE_LAUNCH_CUDA_PLAN_H
#define MSCCLPP_DEVICE_LAUNCH_CUDA_PLAN_H

#include "device/types/launch.h"

/*
 * Returns MSCCLPP_KERNEL_PLAN or MSCCLPP_KERNEL_PLAN_WIDE for a hot combination of type and operation (types/hot.h), or
 * for all others if it is not hot. It has the form that the CUDA runtime's functions take.
 */
const void *mscclpp_dev_cuda_plan_kernel(mscclpp_dev_kernel_t kernel, int dtype, int op);

#endif
