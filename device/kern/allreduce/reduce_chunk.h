/*
 * The reduction in the all-reduce by copy engines (mca/common/engine/engine.h), the only part of it that needs
 * multiprocessors. It combines one chunk of this rank's shard: the operands that the peers' copy engines have put into
 * slots here, and this rank's own operand, in rank order. It writes the result to this rank's output. The kernel waits
 * for nobody, as it is launched when all operands have arrived. Once the host learns that the kernel has ended, it lets
 * this rank's copy engines carry the result to the peers.
 *
 * This rank's operand and the output may be the same memory: one thread reads and writes each unit, and it reads first.
 */
#ifndef MSCCLPP_DEVICE_KERN_ALLREDUCE_REDUCE_CHUNK_H
#define MSCCLPP_DEVICE_KERN_ALLREDUCE_REDUCE_CHUNK_H

#include "device/lib/barrier.h"
#include "device/types/reduce.h"
#include "device/lib/reduce.h"

/* The operand of rank `r`. Slots are in rank order, without one for this rank. */
MSCCLPP_DEV const char *mscclpp_dev_chunk_operand(const mscclpp_dev_reduce_args_t *args, uint32_t r)
{
    if (r == args->common.rank) {
        return (const char *)args->common.in;
    }
    return args->slots + (r - (r > args->common.rank)) * args->stride;
}

/*
 * Combines whole, aligned units, `batch` at a time and `stride` units apart, as long as whole batches remain. The
 * number of ranks `n` and `batch` are constants, so that all loads are under way before the first operand is used.
 * Returns the unit to continue with.
 */
MSCCLPP_DEV uint64_t mscclpp_dev_chunk_batches(const mscclpp_dev_reduce_args_t *args, int n, int batch, bool hot,
                                               int dtype, int op, uint64_t u, uint64_t stride)
{
    const uint64_t whole = args->common.bytes / MSCCLPP_DEV_UNIT;
    char *out = (char *)args->common.out;
    const char *operand[8];
    int i, k;

    MSCCLPP_DEV_UNROLL
    for (i = 0; i < n; ++i) {
        operand[i] = mscclpp_dev_chunk_operand(args, (uint32_t)i);
    }
    for (; u + (uint64_t)(batch - 1) * stride < whole; u += (uint64_t)batch * stride) {
        mscclpp_dev_vec_t v[8][4];

        MSCCLPP_DEV_UNROLL
        for (i = 0; i < n; ++i) {
            MSCCLPP_DEV_UNROLL
            for (k = 0; k < batch; ++k) {
                v[i][k] = mscclpp_dev_ld_vec(operand[i] + (u + (uint64_t)k * stride) * MSCCLPP_DEV_UNIT);
            }
        }
        MSCCLPP_DEV_UNROLL
        for (k = 0; k < batch; ++k) {
            mscclpp_dev_acc_t acc;

            mscclpp_dev_acc_set(&acc, dtype, v[0][k]);
            MSCCLPP_DEV_UNROLL
            for (i = 1; i < n; ++i) {
                mscclpp_dev_acc_add(&acc, hot, dtype, op, v[i][k]);
            }
            mscclpp_dev_st_vec(out + (u + (uint64_t)k * stride) * MSCCLPP_DEV_UNIT, mscclpp_dev_acc_get(&acc, dtype));
        }
    }
    return u;
}

/* Combines units one by one: for any number of ranks, any alignment, and the message's end. */
MSCCLPP_DEV void mscclpp_dev_chunk_units(const mscclpp_dev_reduce_args_t *args, bool hot, int dtype, int op, uint64_t u,
                                         uint64_t stride)
{
    const uint64_t units = mscclpp_dev_units(args->common.bytes);
    uint32_t r;

    for (; u < units; u += stride) {
        mscclpp_dev_acc_t acc;

        mscclpp_dev_acc_set(&acc, dtype,
                            mscclpp_dev_ld_unit(mscclpp_dev_chunk_operand(args, 0), u, args->common.bytes));
        for (r = 1; r < args->common.nranks; ++r) {
            mscclpp_dev_acc_add(&acc, hot, dtype, op,
                                mscclpp_dev_ld_unit(mscclpp_dev_chunk_operand(args, r), u, args->common.bytes));
        }
        mscclpp_dev_st_unit(args->common.out, u, args->common.bytes, mscclpp_dev_acc_get(&acc, dtype), 0xffffu);
    }
}

/* The kernel body. `hot` says that dtype and op are constants. */
MSCCLPP_DEV void mscclpp_dev_reduce_chunk(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_reduce_args_t *args, bool hot,
                                          int dtype, int op)
{
    const mscclpp_dev_args_t *common = &args->common;
    const uint64_t threads = (uint64_t)ctx->nblocks * ctx->nthreads;
    const bool fast = ((uintptr_t)common->in | (uintptr_t)common->out) % MSCCLPP_DEV_UNIT == 0;
    uint64_t u = (uint64_t)ctx->block * ctx->nthreads + ctx->tid;

    if (fast && common->nranks == 2) {
        u = mscclpp_dev_chunk_batches(args, 2, 4, hot, dtype, op, u, threads);
    } else if (fast && common->nranks == 3) {
        u = mscclpp_dev_chunk_batches(args, 3, 2, hot, dtype, op, u, threads);
    } else if (fast && common->nranks == 4) {
        u = mscclpp_dev_chunk_batches(args, 4, 2, hot, dtype, op, u, threads);
    } else if (fast && common->nranks == 8) {
        u = mscclpp_dev_chunk_batches(args, 8, 1, hot, dtype, op, u, threads);
    }
    mscclpp_dev_chunk_units(args, hot, dtype, op, u, threads);
    mscclpp_dev_finish_packets(ctx, common, mscclpp_dev_last_launch(ctx, common), mscclpp_dev_last_epoch(ctx, common));
}

#endif
