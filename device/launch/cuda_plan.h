/* The kernel that runs execution plans, for cuda.cu. It is compiled separately. */
#ifndef MSCCLPP_DEVICE_LAUNCH_CUDA_PLAN_H
#define MSCCLPP_DEVICE_LAUNCH_CUDA_PLAN_H

/* The kernel, in the form that the CUDA runtime's functions take. */
const void *mscclpp_dev_cuda_plan_kernel(void);

#endif
