/* What cuda.cu needs of the kernel that runs execution plans, which is compiled beside it. */
#ifndef MSCCLPP_DEVICE_LAUNCH_CUDA_PLAN_H
#define MSCCLPP_DEVICE_LAUNCH_CUDA_PLAN_H

/* As the runtime's functions want it. */
const void *mscclpp_dev_cuda_plan_kernel(void);

#endif
