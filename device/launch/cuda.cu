/* CUDA kernels: wrappers around the bodies in device/kern, and the C functions that load and launch them. */
#include "device/kern/allreduce/allreduce_nodes.h"
#include "device/kern/allreduce/allreduce_nodes_packets.h"
#include "device/kern/allreduce/allreduce_oneshot.h"
#include "device/kern/allreduce/allreduce_oneshot_put.h"
#include "device/kern/allreduce/allreduce_scratch.h"
#include "device/kern/allreduce/allreduce_twophase.h"
#include "device/kern/allreduce/allreduce_twophase_ll128.h"
#include "device/kern/allreduce/allreduce_zerocopy.h"
#include "device/kern/allreduce/reduce_chunk.h"
#include "device/kern/probe/channel_ring.h"
#include "device/kern/probe/ll128.h"
#include "device/kern/probe/meet.h"
#include "device/kern/probe/port_pair.h"
#include "device/kern/probe/port_ring.h"
#include "device/launch/cuda_coll.h"
#include "device/launch/cuda_plan.h"
#include "device/launch/cuda_linger.h"
#include "device/launch/launch.h"
#include "device/types/hot.h"

#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda_runtime.h>

/*
 * The most devices for which the functions of kernels are stored. For further devices, the runtime looks up the
 * functions at each launch.
 */
#define DEVICES 64

/* In place of a type or operation: the kernel looks them up in its arguments. */
#define ANY (-1)

/* The launch bounds of kernels. Only one block runs on each multiprocessor, so a block may use all registers. */
#define THREADS MSCCLPP_DEV_MAX_THREADS, 1

typedef mscclpp_dev_zerocopy_args_t zerocopy_args_t;
typedef mscclpp_dev_args_t args_t;

/*
 * The kernels. Each makes the thread's context and runs a body. Kernels that may become resident before the one in
 * front of them has ended (awaits_stream) wait for that end before they access memory that other kernels write.
 */
static __global__ void barrier_kernel(const __grid_constant__ args_t args)
{
    mscclpp_dev_ctx_t ctx;

    mscclpp_dev_ctx_init(&ctx);
    mscclpp_dev_barrier_only(&ctx, &args);
}

static __global__ void __launch_bounds__(THREADS) ring_kernel(const __grid_constant__ mscclpp_dev_ring_args_t args)
{
    mscclpp_dev_ctx_t ctx;

    mscclpp_dev_ctx_init(&ctx);
    mscclpp_dev_channel_ring(&ctx, &args);
}

static __global__ void __launch_bounds__(THREADS)
    ll128_probe_kernel(const __grid_constant__ mscclpp_dev_ll128_probe_args_t args)
{
    mscclpp_dev_ctx_t ctx;

    mscclpp_dev_ctx_init(&ctx);
    mscclpp_dev_ll128_probe(&ctx, &args);
}

static __global__ void __launch_bounds__(THREADS)
    port_ring_kernel(const __grid_constant__ mscclpp_dev_port_ring_args_t args)
{
    mscclpp_dev_ctx_t ctx;

    mscclpp_dev_ctx_init(&ctx);
    mscclpp_dev_port_ring(&ctx, &args);
}

static __global__ void __launch_bounds__(THREADS)
    port_pair_kernel(const __grid_constant__ mscclpp_dev_port_pair_args_t args)
{
    mscclpp_dev_ctx_t ctx;

    mscclpp_dev_ctx_init(&ctx);
    mscclpp_dev_port_pair(&ctx, &args);
}

template <int DTYPE, int OP, int WIDTH>
static __global__ void __launch_bounds__(THREADS) oneshot_kernel(const __grid_constant__ args_t args)
{
    mscclpp_dev_ctx_t ctx;

    mscclpp_dev_ctx_init(&ctx);
    mscclpp_dev_allreduce_oneshot(&ctx, &args, DTYPE != ANY, DTYPE != ANY ? DTYPE : (int)args.dtype,
                                  OP != ANY ? OP : (int)args.op, WIDTH);
}

template <int DTYPE, int OP>
static __global__ void __launch_bounds__(THREADS) oneshot_put_kernel(const __grid_constant__ args_t args)
{
    mscclpp_dev_ctx_t ctx;

    mscclpp_dev_ctx_init(&ctx);
    mscclpp_dev_await_stream(&ctx);
    mscclpp_dev_allreduce_oneshot_put(&ctx, &args, DTYPE != ANY, DTYPE != ANY ? DTYPE : (int)args.dtype,
                                      OP != ANY ? OP : (int)args.op);
}

template <int DTYPE, int OP>
static __global__ void __launch_bounds__(THREADS) twophase_kernel(const __grid_constant__ args_t args)
{
    mscclpp_dev_ctx_t ctx;

    mscclpp_dev_ctx_init(&ctx);
    mscclpp_dev_await_stream(&ctx);
    mscclpp_dev_allreduce_twophase(&ctx, &args, DTYPE != ANY, DTYPE != ANY ? DTYPE : (int)args.dtype,
                                   OP != ANY ? OP : (int)args.op);
}

template <int DTYPE, int OP>
static __global__ void __launch_bounds__(THREADS) twophase_ll128_kernel(const __grid_constant__ args_t args)
{
    mscclpp_dev_ctx_t ctx;

    mscclpp_dev_ctx_init(&ctx);
    mscclpp_dev_await_stream(&ctx);
    mscclpp_dev_allreduce_twophase_ll128(&ctx, &args, DTYPE != ANY, DTYPE != ANY ? DTYPE : (int)args.dtype,
                                         OP != ANY ? OP : (int)args.op);
}

template <int DTYPE, int OP, bool SPLIT>
static __global__ void __launch_bounds__(THREADS) zerocopy_kernel(const __grid_constant__ zerocopy_args_t args)
{
    mscclpp_dev_ctx_t ctx;

    mscclpp_dev_ctx_init(&ctx);
    mscclpp_dev_allreduce_zerocopy(&ctx, &args, SPLIT, DTYPE != ANY, DTYPE != ANY ? DTYPE : (int)args.common.dtype,
                                   OP != ANY ? OP : (int)args.common.op);
}

template <int DTYPE, int OP>
static __global__ void __launch_bounds__(THREADS) scratch_kernel(const __grid_constant__ args_t args)
{
    mscclpp_dev_ctx_t ctx;

    mscclpp_dev_ctx_init(&ctx);
    mscclpp_dev_allreduce_scratch(&ctx, &args, DTYPE != ANY, DTYPE != ANY ? DTYPE : (int)args.dtype,
                                  OP != ANY ? OP : (int)args.op);
}

template <int DTYPE, int OP>
static __global__ void __launch_bounds__(THREADS) nodes_kernel(const __grid_constant__ mscclpp_dev_nodes_args_t args)
{
    mscclpp_dev_ctx_t ctx;

    mscclpp_dev_ctx_init(&ctx);
    mscclpp_dev_allreduce_nodes(&ctx, &args, DTYPE != ANY, DTYPE != ANY ? DTYPE : (int)args.common.dtype,
                                OP != ANY ? OP : (int)args.common.op);
}

template <int DTYPE, int OP>
static __global__ void __launch_bounds__(THREADS)
    nodes_packets_kernel(const __grid_constant__ mscclpp_dev_nodes_args_t args)
{
    mscclpp_dev_ctx_t ctx;

    mscclpp_dev_ctx_init(&ctx);
    mscclpp_dev_allreduce_nodes_packets(&ctx, &args, DTYPE != ANY, DTYPE != ANY ? DTYPE : (int)args.common.dtype,
                                        OP != ANY ? OP : (int)args.common.op);
}

template <int DTYPE, int OP>
static __global__ void __launch_bounds__(THREADS) reduce_kernel(const __grid_constant__ mscclpp_dev_reduce_args_t args)
{
    mscclpp_dev_ctx_t ctx;

    mscclpp_dev_ctx_init(&ctx);
    mscclpp_dev_reduce_chunk(&ctx, &args, DTYPE != ANY, DTYPE != ANY ? DTYPE : (int)args.common.dtype,
                             OP != ANY ? OP : (int)args.common.op);
}

/*
 * Returns the compiled kernel for a type and operation, or the one for all combinations if both are ANY, in the form
 * that the CUDA runtime's functions take. The default is the kernel of MSCCLPP_KERNEL_BARRIER.
 */
template <int DTYPE, int OP> static const void *function_of(mscclpp_dev_kernel_t kernel)
{
    switch (kernel) {
    case MSCCLPP_KERNEL_ALLREDUCE_ONESHOT:
        return (const void *)oneshot_kernel<DTYPE, OP, MSCCLPP_DEV_LL16>;
    case MSCCLPP_KERNEL_ALLREDUCE_ONESHOT_LL8:
        return (const void *)oneshot_kernel<ANY, ANY, MSCCLPP_DEV_LL8>; /* only on demand */
    case MSCCLPP_KERNEL_ALLREDUCE_ONESHOT_PUT:
        return (const void *)oneshot_put_kernel<DTYPE, OP>;
    case MSCCLPP_KERNEL_ALLREDUCE_TWOPHASE:
        return (const void *)twophase_kernel<DTYPE, OP>;
    case MSCCLPP_KERNEL_ALLREDUCE_ZEROCOPY:
        return (const void *)zerocopy_kernel<DTYPE, OP, false>;
    case MSCCLPP_KERNEL_ALLREDUCE_ZEROCOPY_SPLIT:
        return (const void *)zerocopy_kernel<DTYPE, OP, true>;
    case MSCCLPP_KERNEL_ALLREDUCE_SCRATCH:
        return (const void *)scratch_kernel<DTYPE, OP>;
    case MSCCLPP_KERNEL_CHANNEL_RING:
        return (const void *)ring_kernel;
    case MSCCLPP_KERNEL_LINGER:
        return mscclpp_dev_cuda_linger_kernel();
    case MSCCLPP_KERNEL_REDUCE_CHUNK:
        return (const void *)reduce_kernel<DTYPE, OP>;
    case MSCCLPP_KERNEL_PORT_RING:
        return (const void *)port_ring_kernel;
    case MSCCLPP_KERNEL_PORT_PAIR:
        return (const void *)port_pair_kernel;
    case MSCCLPP_KERNEL_ALLREDUCE_NODES:
        return (const void *)nodes_kernel<DTYPE, OP>;
    case MSCCLPP_KERNEL_ALLREDUCE_NODES_PACKETS:
        return (const void *)nodes_packets_kernel<DTYPE, OP>;
    case MSCCLPP_KERNEL_ALLREDUCE_TWOPHASE_LL128:
        return (const void *)twophase_ll128_kernel<DTYPE, OP>;
    case MSCCLPP_KERNEL_LL128_PROBE:
        return (const void *)ll128_probe_kernel;
    case MSCCLPP_KERNEL_COLL_MOVE_PACKETS:
    case MSCCLPP_KERNEL_COLL_COMBINE_PACKETS:
    case MSCCLPP_KERNEL_COLL_MOVE_BLOCKS:
    case MSCCLPP_KERNEL_COLL_COMBINE_BLOCKS:
    case MSCCLPP_KERNEL_COLL_MOVE_UNSIZED:
    case MSCCLPP_KERNEL_COLL_TILES:
    case MSCCLPP_KERNEL_COLL_PUTS:
    case MSCCLPP_KERNEL_COLL_MOVE_DIRECT:
    case MSCCLPP_KERNEL_COLL_COMBINE_DIRECT:
    case MSCCLPP_KERNEL_COLL_MOVE_STRIDED:
    case MSCCLPP_KERNEL_COLL_PACK:
    case MSCCLPP_KERNEL_COLL_NODES:
    case MSCCLPP_KERNEL_COLL_NODES_PACKETS:
        return mscclpp_dev_cuda_coll_kernel(kernel, DTYPE, OP);
    case MSCCLPP_KERNEL_PLAN:
    case MSCCLPP_KERNEL_PLAN_WIDE:
        return mscclpp_dev_cuda_plan_kernel(kernel, DTYPE, OP);
    default:
        return (const void *)barrier_kernel;
    }
}

/* Kernels of one algorithm: one for each hot combination, then the kernel for all others. */
#define ONE_MORE(dtype_, op_) +1
enum { VARIANTS = 1 MSCCLPP_DEV_HOT(ONE_MORE) };
#undef ONE_MORE

/*
 * Returns the index of the kernel for a hot combination of type and operation. Returns the last index, of the kernel
 * for all other combinations, if it is not hot.
 */
static int find_variant(uint32_t dtype, uint32_t op)
{
    const int hot_dtype = MSCCLPP_DEV_HOT_DTYPE(dtype);
    int variant = 0;

#define MATCH(dtype_, op_)                                                                                             \
    if (hot_dtype == (int)dtype_ && op == (uint32_t)op_) {                                                             \
        return variant;                                                                                                \
    }                                                                                                                  \
    ++variant;
    MSCCLPP_DEV_HOT(MATCH)
#undef MATCH
    return variant;
}

/* Returns the compiled kernel of a variant, as find_variant numbers them. */
static const void *function_of_variant(mscclpp_dev_kernel_t kernel, int variant)
{
#define MATCH(dtype_, op_)                                                                                             \
    if (variant-- == 0) {                                                                                              \
        return function_of<(int)dtype_, (int)op_>(kernel);                                                             \
    }
    MSCCLPP_DEV_HOT(MATCH)
#undef MATCH
    return function_of<ANY, ANY>(kernel);
}

/* What is known of each device. Written by preload before the first launch there. */
static struct {
    bool overlaps; /* each kernel that has to wait for earlier kernels in the stream contains this wait */
    /*
     * The driver's launch function, or NULL. It takes less host time than the runtime's, because it looks nothing up.
     */
    PFN_cuLaunchKernelEx_v11060 driver_launch;
    cudaFunction_t functions[MSCCLPP_KERNEL_LAST][VARIANTS];
} devices[DEVICES];

/*
 * Returns true for kernels that call mscclpp_dev_await_stream, and so may become resident before the kernel in front
 * has ended.
 */
static bool awaits_stream(mscclpp_dev_kernel_t kernel)
{
    return kernel == MSCCLPP_KERNEL_ALLREDUCE_ONESHOT || kernel == MSCCLPP_KERNEL_ALLREDUCE_ONESHOT_LL8 ||
           kernel == MSCCLPP_KERNEL_ALLREDUCE_ONESHOT_PUT || kernel == MSCCLPP_KERNEL_ALLREDUCE_TWOPHASE ||
           kernel == MSCCLPP_KERNEL_ALLREDUCE_TWOPHASE_LL128 || kernel == MSCCLPP_KERNEL_PLAN ||
           kernel == MSCCLPP_KERNEL_PLAN_WIDE ||
           (kernel >= MSCCLPP_KERNEL_COLL_MOVE_PACKETS && kernel <= MSCCLPP_KERNEL_COLL_PUTS);
}

/*
 * Launches a kernel by the driver's function, and returns its error, whose numbers are the same as the runtime's.
 * preload must have stored the function for this device. `overlaps`: the kernel may become resident before the previous
 * kernel in the stream has ended.
 */
static int launch_by_driver(int device, void *stream, const mscclpp_dev_launch_t *launch, int variant, bool overlaps)
{
    void *parameters[] = {(void *)launch->args};
    CUlaunchAttribute attribute;
    CUlaunchConfig config = {};

    config.gridDimX = launch->nblocks;
    config.blockDimX = launch->nthreads;
    config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
    config.hStream = (CUstream)stream;
    attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attribute.value.programmaticStreamSerializationAllowed = 1;
    config.attrs = &attribute;
    config.numAttrs = overlaps ? 1 : 0;
    return (int)devices[device].driver_launch(&config, devices[device].functions[launch->kernel][variant], parameters,
                                              NULL);
}

/*
 * Launches lingering kernels by their own function, because they may form a cluster. Launches all others by the
 * driver's function if preload has stored it, else by the runtime. A kernel may become resident early only if its
 * results become visible at its end in the stream, and if it waits for the previous kernel itself.
 */
extern "C" int mscclpp_dev_cuda_launch(int device, void *stream, const mscclpp_dev_launch_t *launch)
{
    const args_t *args = (const args_t *)launch->args; /* all arguments begin with the common ones */
    void *parameters[] = {(void *)launch->args};
    int variant;

    if (launch->kernel == MSCCLPP_KERNEL_LINGER) {
        cudaLaunchConfig_t config = {};

        config.gridDim = dim3(launch->nblocks);
        config.blockDim = dim3(launch->nthreads);
        config.stream = (cudaStream_t)stream;
        return (int)mscclpp_dev_cuda_launch_lingering(&config, (const mscclpp_dev_linger_args_t *)launch->args);
    }
    variant = find_variant(args->dtype, args->op);
    if (device < DEVICES && devices[device].driver_launch != NULL) {
        return launch_by_driver(device, stream, launch, variant,
                                args->release == MSCCLPP_DEV_RELEASE_STREAM && devices[device].overlaps &&
                                    awaits_stream(launch->kernel));
    }
    return (int)cudaLaunchKernel(function_of_variant(launch->kernel, variant), dim3(launch->nblocks),
                                 dim3(launch->nthreads), parameters, 0, (cudaStream_t)stream);
}

/*
 * Raises the limit of a thread's stack, if it is lower than `bytes`. Up to this limit the driver reserves memory for
 * stacks in advance. For a larger stack it would do so at the kernel's launch, and would give the memory back at a
 * later call. Such calls wait until no kernel runs, but a kernel that waits for a peer may need what comes after the
 * call. Kernels can run without this, so errors are ignored.
 */
static void reserve_stacks(size_t bytes)
{
    size_t limit = 0;

    if (cudaDeviceGetLimit(&limit, cudaLimitStackSize) == cudaSuccess && limit < bytes) {
        (void)cudaDeviceSetLimit(cudaLimitStackSize, bytes);
    }
    (void)cudaGetLastError(); /* otherwise the application would see this one */
}

extern "C" int mscclpp_dev_cuda_preload(int device, void *driver_launch)
{
    cudaFuncAttributes attributes;
    cudaError_t error = cudaSuccess;
    size_t largest_stack = 0;
    bool overlaps;
    int kernel, variant, driver = 0;

    /* Since this version, the wait also works in a graph, where the capture makes a programmatic edge of it. */
    overlaps = cudaDriverGetVersion(&driver) == cudaSuccess && driver >= 12030;
    for (kernel = 0; kernel < MSCCLPP_KERNEL_LAST; ++kernel) {
        for (variant = 0; variant < VARIANTS; ++variant) {
            const void *function = function_of_variant((mscclpp_dev_kernel_t)kernel, variant);

            /* The runtime loads a kernel when its attributes are read. */
            error = cudaFuncGetAttributes(&attributes, function);
            if (error == cudaSuccess && device < DEVICES && driver_launch != NULL) {
                error = cudaGetFuncBySymbol(&devices[device].functions[kernel][variant], function);
            }
            if (error != cudaSuccess) {
                return (int)error;
            }
            largest_stack = attributes.localSizeBytes > largest_stack ? attributes.localSizeBytes : largest_stack;
            /*
             * A kernel that was compiled for an older architecture does not contain the wait, whatever device it runs
             * on.
             */
            overlaps = overlaps && (attributes.ptxVersion >= 90 || !awaits_stream((mscclpp_dev_kernel_t)kernel));
        }
    }
    if (device < DEVICES) {
        devices[device].overlaps = overlaps;
        devices[device].driver_launch = (PFN_cuLaunchKernelEx_v11060)driver_launch;
    }
    mscclpp_dev_cuda_find_clusters(device);
    reserve_stacks(largest_stack);
    return (int)cudaSuccess;
}
