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
#include "device/types/hot.h"
#include "device/types/reduce.h"
#include "device/lib/reduce.h"

/* The most units of each rank that a thread loads at once. */
#define MSCCLPP_DEV_CHUNK_BATCH 4

/* Returns the operand of a rank. Slots are in rank order, without one for this rank. */
MSCCLPP_DEV const char *mscclpp_dev_chunk_operand(const mscclpp_dev_reduce_args_t *args, uint32_t rank)
{
    if (rank == args->common.rank) {
        return (const char *)args->common.in;
    }
    return args->slots + (rank - (rank > args->common.rank)) * args->stride;
}

/*
 * Combines whole, aligned units, `batch` at a time and `stride` units apart, as long as whole batches remain. The
 * number of ranks `const_ranks` and `batch` are constants, so that all loads are in progress before the first operand
 * is used. Returns the thread's first unit that is left.
 */
MSCCLPP_DEV uint64_t mscclpp_dev_chunk_batches(const mscclpp_dev_reduce_args_t *args, int const_ranks, int batch,
                                               bool hot, int dtype, int op, uint64_t unit, uint64_t stride)
{
    const uint64_t whole_units = args->common.bytes / MSCCLPP_DEV_UNIT;
    char *out = (char *)args->common.out;
    const char *operands[MSCCLPP_DEV_CONST_RANKS_MAX];
    int i, j;

    MSCCLPP_DEV_UNROLL
    for (i = 0; i < const_ranks; ++i) {
        operands[i] = mscclpp_dev_chunk_operand(args, (uint32_t)i);
    }
    for (; unit + (uint64_t)(batch - 1) * stride < whole_units; unit += (uint64_t)batch * stride) {
        mscclpp_dev_vec_t values[MSCCLPP_DEV_CONST_RANKS_MAX][MSCCLPP_DEV_CHUNK_BATCH];

        MSCCLPP_DEV_UNROLL
        for (i = 0; i < const_ranks; ++i) {
            MSCCLPP_DEV_UNROLL
            for (j = 0; j < batch; ++j) {
                values[i][j] = mscclpp_dev_ld_vec(operands[i] + (unit + (uint64_t)j * stride) * MSCCLPP_DEV_UNIT);
            }
        }
        MSCCLPP_DEV_UNROLL
        for (j = 0; j < batch; ++j) {
            mscclpp_dev_acc_t acc;

            mscclpp_dev_acc_set(&acc, dtype, values[0][j]);
            MSCCLPP_DEV_UNROLL
            for (i = 1; i < const_ranks; ++i) {
                mscclpp_dev_acc_add(&acc, hot, dtype, op, values[i][j]);
            }
            mscclpp_dev_st_vec(out + (unit + (uint64_t)j * stride) * MSCCLPP_DEV_UNIT,
                               mscclpp_dev_acc_get(&acc, dtype));
        }
    }
    return unit;
}

/*
 * Combines units one by one, `stride` units apart, from unit `unit` to the message's end. Works for any number of ranks
 * and any alignment. Whole units are stored, because copy engines are not used for types with padding.
 */
MSCCLPP_DEV void mscclpp_dev_chunk_units(const mscclpp_dev_reduce_args_t *args, bool hot, int dtype, int op,
                                         uint64_t unit, uint64_t stride)
{
    const uint64_t units = mscclpp_dev_units(args->common.bytes);
    uint32_t rank;

    for (; unit < units; unit += stride) {
        mscclpp_dev_acc_t acc;

        mscclpp_dev_acc_set(&acc, dtype,
                            mscclpp_dev_ld_unit(mscclpp_dev_chunk_operand(args, 0), unit, args->common.bytes));
        for (rank = 1; rank < args->common.nranks; ++rank) {
            mscclpp_dev_acc_add(&acc, hot, dtype, op,
                                mscclpp_dev_ld_unit(mscclpp_dev_chunk_operand(args, rank), unit, args->common.bytes));
        }
        mscclpp_dev_st_unit(args->common.out, unit, args->common.bytes, mscclpp_dev_acc_get(&acc, dtype),
                            MSCCLPP_DEV_WHOLE_UNIT);
    }
}

/*
 * Runs the kernel. `hot`: `dtype` and `op` are constants. The more ranks there are, the smaller a batch is, because a
 * thread's registers hold the operands of all ranks for one batch. For other numbers of ranks than those below, and for
 * buffers that are not aligned, units are combined one by one.
 */
MSCCLPP_DEV void mscclpp_dev_reduce_chunk(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_reduce_args_t *args, bool hot,
                                          int dtype, int op)
{
    const mscclpp_dev_args_t *common = &args->common;
    const uint64_t threads = (uint64_t)ctx->nblocks * ctx->nthreads;
    const bool is_aligned = ((uintptr_t)common->in | (uintptr_t)common->out) % MSCCLPP_DEV_UNIT == 0;
    uint64_t unit = (uint64_t)ctx->block * ctx->nthreads + ctx->tid;

    if (is_aligned && common->nranks == 2) {
        unit = mscclpp_dev_chunk_batches(args, 2, 4, hot, dtype, op, unit, threads);
    } else if (is_aligned && common->nranks == 3) {
        unit = mscclpp_dev_chunk_batches(args, 3, 2, hot, dtype, op, unit, threads);
    } else if (is_aligned && common->nranks == 4) {
        unit = mscclpp_dev_chunk_batches(args, 4, 2, hot, dtype, op, unit, threads);
    } else if (is_aligned && common->nranks == 8) {
        unit = mscclpp_dev_chunk_batches(args, 8, 1, hot, dtype, op, unit, threads);
    }
    mscclpp_dev_chunk_units(args, hot, dtype, op, unit, threads);
    mscclpp_dev_finish_packets(ctx, common, mscclpp_dev_last_launch(ctx, common), mscclpp_dev_last_epoch(ctx, common));
}

#endif
