/* CUDA kernels of all collectives except all-reduce: wrappers around the bodies in device/kern/coll. */
#include "device/launch/cuda_coll.h"

#include "device/kern/coll/direct.h"
#include "device/kern/coll/nodes.h"
#include "device/kern/coll/nodes_packets.h"
#include "device/kern/coll/pack.h"
#include "device/kern/coll/packets.h"
#include "device/kern/coll/puts.h"
#include "device/kern/coll/strided.h"
#include "device/kern/coll/tiles.h"
#include "device/kern/coll/unsized.h"

#include <cuda_runtime.h>

/* In place of a type or operation: the kernel looks them up in its arguments. */
#define ANY (-1)

/* The launch bounds of kernels, as in cuda.cu. */
#define THREADS MSCCLPP_DEV_MAX_THREADS, 1

static __global__ void __launch_bounds__(THREADS)
    move_packets_kernel(const __grid_constant__ mscclpp_dev_coll_args_t args)
{
    mscclpp_dev_ctx_t ctx;

    mscclpp_dev_ctx_init(&ctx);
    mscclpp_dev_coll_move_packets(&ctx, &args, NULL);
}

static __global__ void __launch_bounds__(THREADS)
    move_blocks_kernel(const __grid_constant__ mscclpp_dev_blocks_args_t args)
{
    mscclpp_dev_ctx_t ctx;

    mscclpp_dev_ctx_init(&ctx);
    mscclpp_dev_coll_move_packets(&ctx, &args.coll, &args);
}

template <int DTYPE, int OP>
static __global__ void __launch_bounds__(THREADS)
    combine_packets_kernel(const __grid_constant__ mscclpp_dev_coll_args_t args)
{
    mscclpp_dev_ctx_t ctx;

    mscclpp_dev_ctx_init(&ctx);
    /* Few ranks have code of their own: code for operands that are not there would be fetched, too. */
    if (DTYPE != ANY && args.common.nranks <= 2) {
        mscclpp_dev_coll_combine_packets(&ctx, &args, NULL, true, DTYPE, OP, 2);
    } else if (DTYPE != ANY && args.common.nranks <= 4) {
        mscclpp_dev_coll_combine_packets(&ctx, &args, NULL, true, DTYPE, OP, 4);
    } else {
        mscclpp_dev_coll_combine_packets(&ctx, &args, NULL, DTYPE != ANY, DTYPE != ANY ? DTYPE : (int)args.common.dtype,
                                         OP != ANY ? OP : (int)args.common.op, MSCCLPP_DEV_COLL_PACKET_BATCH);
    }
}

/*
 * Combines blocks that differ in size. One kernel serves all types, because such blocks are rarely small on all ranks.
 * Sums of floats have code of their own in it, for few ranks as above.
 */
static __global__ void __launch_bounds__(THREADS)
    combine_blocks_kernel(const __grid_constant__ mscclpp_dev_blocks_args_t args)
{
    const bool is_float_sum = args.coll.common.dtype == MSCCLPP_DTYPE_FLOAT32 && args.coll.common.op == MSCCLPP_OP_SUM;
    mscclpp_dev_ctx_t ctx;

    mscclpp_dev_ctx_init(&ctx);
    if (is_float_sum && args.coll.common.nranks <= 2) {
        mscclpp_dev_coll_combine_packets(&ctx, &args.coll, &args, true, (int)MSCCLPP_DTYPE_FLOAT32, (int)MSCCLPP_OP_SUM,
                                         2);
    } else if (is_float_sum && args.coll.common.nranks <= 4) {
        mscclpp_dev_coll_combine_packets(&ctx, &args.coll, &args, true, (int)MSCCLPP_DTYPE_FLOAT32, (int)MSCCLPP_OP_SUM,
                                         4);
    } else {
        mscclpp_dev_coll_combine_packets(&ctx, &args.coll, &args, false, (int)args.coll.common.dtype,
                                         (int)args.coll.common.op, MSCCLPP_DEV_COLL_PACKET_BATCH);
    }
}

static __global__ void __launch_bounds__(THREADS)
    move_unsized_kernel(const __grid_constant__ mscclpp_dev_blocks_args_t args)
{
    mscclpp_dev_ctx_t ctx;

    mscclpp_dev_ctx_init(&ctx);
    mscclpp_dev_coll_move_unsized(&ctx, &args);
}

static __global__ void __launch_bounds__(THREADS) tiles_kernel(const __grid_constant__ mscclpp_dev_blocks_args_t args)
{
    mscclpp_dev_ctx_t ctx;

    mscclpp_dev_ctx_init(&ctx);
    mscclpp_dev_await_stream(&ctx);
    mscclpp_dev_coll_tiles(&ctx, &args, (int)args.coll.common.dtype, (int)args.coll.common.op);
}

template <int DTYPE, int OP>
static __global__ void __launch_bounds__(THREADS) puts_kernel(const __grid_constant__ mscclpp_dev_blocks_args_t args)
{
    mscclpp_dev_ctx_t ctx;

    mscclpp_dev_ctx_init(&ctx);
    mscclpp_dev_await_stream(&ctx);
    mscclpp_dev_coll_puts(&ctx, &args, DTYPE != ANY, DTYPE != ANY ? DTYPE : (int)args.coll.common.dtype,
                          OP != ANY ? OP : (int)args.coll.common.op);
}

static __global__ void __launch_bounds__(THREADS)
    move_direct_kernel(const __grid_constant__ mscclpp_dev_direct_args_t args)
{
    mscclpp_dev_ctx_t ctx;

    mscclpp_dev_ctx_init(&ctx);
    mscclpp_dev_coll_move_direct(&ctx, &args);
}

template <int DTYPE, int OP>
static __global__ void __launch_bounds__(THREADS)
    combine_direct_kernel(const __grid_constant__ mscclpp_dev_direct_args_t args)
{
    mscclpp_dev_ctx_t ctx;

    mscclpp_dev_ctx_init(&ctx);
    mscclpp_dev_coll_combine_direct(&ctx, &args, DTYPE != ANY, DTYPE != ANY ? DTYPE : (int)args.common.dtype,
                                    OP != ANY ? OP : (int)args.common.op);
}

static __global__ void __launch_bounds__(THREADS)
    move_strided_kernel(const __grid_constant__ mscclpp_dev_strided_args_t args)
{
    mscclpp_dev_ctx_t ctx;

    mscclpp_dev_ctx_init(&ctx);
    mscclpp_dev_coll_move_strided(&ctx, &args);
}

static __global__ void __launch_bounds__(THREADS) pack_kernel(const __grid_constant__ mscclpp_dev_pack_args_t args)
{
    mscclpp_dev_ctx_t ctx;

    mscclpp_dev_ctx_init(&ctx);
    mscclpp_dev_coll_pack(&ctx, &args);
}

/* Serves all types between nodes: the network takes longer than a kernel for each type would save. */
static __global__ void __launch_bounds__(THREADS)
    nodes_kernel(const __grid_constant__ mscclpp_dev_coll_nodes_args_t args)
{
    mscclpp_dev_ctx_t ctx;

    mscclpp_dev_ctx_init(&ctx);
    mscclpp_dev_coll_nodes(&ctx, &args, (int)args.nodes.common.dtype, (int)args.nodes.common.op);
}

static __global__ void __launch_bounds__(THREADS)
    nodes_packets_kernel(const __grid_constant__ mscclpp_dev_coll_nodes_args_t args)
{
    mscclpp_dev_ctx_t ctx;

    mscclpp_dev_ctx_init(&ctx);
    mscclpp_dev_coll_nodes_packets(&ctx, &args, (int)args.nodes.common.dtype, (int)args.nodes.common.op);
}

/*
 * Returns the compiled kernel for a type and operation, or for all combinations if both are ANY. Most kernels have only
 * one for all of them. The default is the kernel of MSCCLPP_KERNEL_COLL_TILES.
 */
template <int DTYPE, int OP> static const void *function_of(mscclpp_dev_kernel_t kernel)
{
    switch (kernel) {
    case MSCCLPP_KERNEL_COLL_MOVE_PACKETS:
        return (const void *)move_packets_kernel;
    case MSCCLPP_KERNEL_COLL_MOVE_BLOCKS:
        return (const void *)move_blocks_kernel;
    case MSCCLPP_KERNEL_COLL_COMBINE_PACKETS:
        return (const void *)combine_packets_kernel<DTYPE, OP>;
    case MSCCLPP_KERNEL_COLL_COMBINE_BLOCKS:
        return (const void *)combine_blocks_kernel;
    case MSCCLPP_KERNEL_COLL_MOVE_UNSIZED:
        return (const void *)move_unsized_kernel;
    case MSCCLPP_KERNEL_COLL_PUTS:
        return (const void *)puts_kernel<DTYPE, OP>;
    case MSCCLPP_KERNEL_COLL_MOVE_DIRECT:
        return (const void *)move_direct_kernel;
    case MSCCLPP_KERNEL_COLL_MOVE_STRIDED:
        return (const void *)move_strided_kernel;
    case MSCCLPP_KERNEL_COLL_PACK:
        return (const void *)pack_kernel;
    case MSCCLPP_KERNEL_COLL_NODES:
        return (const void *)nodes_kernel;
    case MSCCLPP_KERNEL_COLL_NODES_PACKETS:
        return (const void *)nodes_packets_kernel;
    case MSCCLPP_KERNEL_COLL_COMBINE_DIRECT:
        return (const void *)combine_direct_kernel<DTYPE, OP>;
    default:
        return (const void *)tiles_kernel;
    }
}

const void *mscclpp_dev_cuda_coll_kernel(mscclpp_dev_kernel_t kernel, int dtype, int op)
{
#define MATCH(dtype_, op_)                                                                                             \
    if (dtype == (int)dtype_ && op == (int)op_) {                                                                      \
        return function_of<(int)dtype_, (int)op_>(kernel);                                                             \
    }
    MSCCLPP_DEV_HOT(MATCH)
#undef MATCH
    return function_of<ANY, ANY>(kernel);
}
