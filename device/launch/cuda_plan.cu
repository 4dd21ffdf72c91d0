/* The CUDA kernel that runs execution plans: a wrapper around the body in device/kern/plan. */
#include "device/launch/cuda_plan.h"

#include "device/kern/plan/run.h"

#include <cuda_runtime.h>

/* The kernel looks up type and operation at run time, because a plan's steps are not known before. */
static __global__ void __launch_bounds__(MSCCLPP_DEV_MAX_THREADS, 1)
    plan_kernel(const __grid_constant__ mscclpp_dev_plan_args_t args)
{
    __shared__ mscclpp_dev_plan_copy_t code_copy;
    mscclpp_dev_ctx_t ctx;

    mscclpp_dev_ctx_init(&ctx);
    mscclpp_dev_plan_load_program(&ctx, &args, &code_copy);
    mscclpp_dev_plan_run(&ctx, &args, &code_copy, true, (int)args.common.dtype, (int)args.common.op);
}

const void *mscclpp_dev_cuda_plan_kernel(void)
{
    return (const void *)plan_kernel;
}
