/* The kernel that runs execution plans, for cuda.cu. It is compiled separately. */
#ifndef MSCCLPP_DEVICE_LAUNCH_CUDA_PLAN_H
#define MSCCLPP_DEVICE_LAUNCH_CUDA_PLAN_H

/*
 * Returns the kernel for a hot combination of type and operation (types/hot.h), or for all others if it is not hot. It
 * has the form that the CUDA runtime's functions take.
 */
const void *mscclpp_dev_cuda_plan_kernel(int dtype, int op);

#endif
