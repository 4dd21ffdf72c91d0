/* The CUDA kernels that run execution plans: wrappers around the body in device/kern/plan. */
#include "device/launch/cuda_plan.h"

#include "device/kern/plan/run.h"

#include <cuda_runtime.h>

#define ANY (-1)

/*
 * Runs a plan. DTYPE and OP are the type and the operation of its reductions, or ANY: then both are looked up at run
 * time. WIDE is as in mscclpp_dev_plan_run. The block's threads load the program together, and meet in
 * mscclpp_dev_plan_run before they use it. Programs never change, so a kernel that becomes resident before the kernel
 * in front has ended loads its program meanwhile.
 */
template <int DTYPE, int OP, bool WIDE>
static __global__ void __launch_bounds__(MSCCLPP_DEV_MAX_THREADS, 1)
    plan_kernel(const __grid_constant__ mscclpp_dev_plan_args_t args)
{
    __shared__ mscclpp_dev_plan_copy_t copy;
    mscclpp_dev_ctx_t ctx;

    mscclpp_dev_ctx_init(&ctx);
    mscclpp_dev_plan_load_program(&ctx, &args, &copy);
    mscclpp_dev_await_stream(&ctx);
    mscclpp_dev_plan_run(&ctx, &args, &copy, WIDE, DTYPE != ANY, DTYPE != ANY ? DTYPE : (int)args.common.dtype,
                         DTYPE != ANY ? OP : (int)args.common.op);
}

typedef void plan_kernel_t(mscclpp_dev_plan_args_t args);

static const void *choose(mscclpp_dev_kernel_t kernel, plan_kernel_t *narrow, plan_kernel_t *wide)
{
    return (const void *)(kernel == MSCCLPP_KERNEL_PLAN_WIDE ? wide : narrow);
}

const void *mscclpp_dev_cuda_plan_kernel(mscclpp_dev_kernel_t kernel, int dtype, int op)
{
#define MATCH(dtype_, op_)                                                                                             \
    if (dtype == (int)dtype_ && op == (int)op_) {                                                                      \
        return choose(kernel, plan_kernel<(int)dtype_, (int)op_, false>, plan_kernel<(int)dtype_, (int)op_, true>);    \
    }
    MSCCLPP_DEV_HOT(MATCH)
#undef MATCH
    return choose(kernel, plan_kernel<ANY, ANY, false>, plan_kernel<ANY, ANY, true>);
}
