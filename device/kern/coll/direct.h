/*
 * Collectives in mapped buffers of all ranks: each rank reads and writes its peers' memory in place, in one pass. The
 * host has computed the addresses (device/types/coll.h).
 *
 * Ranks meet at the beginning, because a rank must not touch a peer's buffer before the peer has entered the call. They
 * meet at the end, because a call must not end while peers use its buffers.
 *
 * A barrier joins only blocks of the same number. This is enough: a rank's call ends once all of its blocks have passed
 * their last barrier, and by then each block of each peer has entered the same barrier.
 */
#ifndef MSCCLPP_DEVICE_KERN_COLL_DIRECT_H
#define MSCCLPP_DEVICE_KERN_COLL_DIRECT_H

#include "device/lib/barrier.h"
#include "device/types/hot.h"
#include "device/kern/coll/blocks.h"
#include "device/lib/reduce.h"

/* Whole units that a thread loads before it stores the first one. */
#define MSCCLPP_DEV_DIRECT_BATCH 8

/* The same number for kernels that look up types at run time, which takes registers. */
#define MSCCLPP_DEV_DIRECT_FEW 2

/* True if all addresses of the kernel are multiples of 16. */
MSCCLPP_DEV bool mscclpp_dev_direct_aligned(const mscclpp_dev_direct_args_t *args, uint32_t sources)
{
    uintptr_t bits = 0;
    uint32_t i;

    for (i = 0; i < sources; ++i) {
        bits |= (uintptr_t)args->from[i];
    }
    for (i = 0; i < args->count; ++i) {
        bits |= (uintptr_t)args->to[i];
    }
    return bits % MSCCLPP_DEV_UNIT == 0;
}

/*
 * Copies units `u`, `u` + `step` and so on of a block to `count` places. `fast`: both sides are aligned, so that whole
 * units move in batches.
 */
MSCCLPP_DEV void mscclpp_dev_direct_spread(char *const *to, uint32_t count, uint32_t start, const char *from,
                                           uint64_t bytes, bool fast, uint64_t u, uint64_t step)
{
    const uint64_t whole = fast ? bytes / MSCCLPP_DEV_UNIT : 0, units = mscclpp_dev_units(bytes);
    mscclpp_dev_vec_t v[MSCCLPP_DEV_DIRECT_BATCH];
    uint32_t i, d;
    int k;

    for (; u + (MSCCLPP_DEV_DIRECT_BATCH - 1) * step < whole; u += MSCCLPP_DEV_DIRECT_BATCH * step) {
        MSCCLPP_DEV_UNROLL
        for (k = 0; k < MSCCLPP_DEV_DIRECT_BATCH; ++k) {
            v[k] = mscclpp_dev_ld_vec(from + (u + (uint64_t)k * step) * MSCCLPP_DEV_UNIT);
        }
        for (i = 0; i < count; ++i) {
            d = start + i < count ? start + i : start + i - count;
            MSCCLPP_DEV_UNROLL
            for (k = 0; k < MSCCLPP_DEV_DIRECT_BATCH; ++k) {
                mscclpp_dev_st_vec(to[d] + (u + (uint64_t)k * step) * MSCCLPP_DEV_UNIT, v[k]);
            }
        }
    }
    for (; u < units; u += step) {
        v[0] = mscclpp_dev_ld_unit(from, u, bytes);
        for (i = 0; i < count; ++i) {
            d = start + i < count ? start + i : start + i - count;
            mscclpp_dev_st_unit(to[d], u, bytes, v[0], 0xffffu);
        }
    }
}

/*
 * Copies the pairs of the list. The host orders the list so that each rank begins with a different pair; then the ranks
 * do not all store to one rank at the same time.
 */
MSCCLPP_DEV void mscclpp_dev_direct_pairs(const mscclpp_dev_direct_args_t *args, uint64_t thread, uint64_t threads)
{
    uint32_t i;

    for (i = 0; i < args->count; ++i) {
        const bool fast = (((uintptr_t)args->from[i] | (uintptr_t)args->to[i]) % MSCCLPP_DEV_UNIT) == 0;

        mscclpp_dev_direct_spread(&args->to[i], 1, 0, args->from[i], args->bytes[i], fast, thread, threads);
    }
}

/*
 * Combines `batch` whole, aligned units, `step` apart, beginning with unit `u`. With `scan`, each rank gets the
 * combined operands of the ranks below it.
 */
MSCCLPP_DEV void mscclpp_dev_direct_combine(const mscclpp_dev_direct_args_t *args, int batch, bool hot, int dtype,
                                            int op, uint64_t u, uint64_t step)
{
    const uint32_t n = args->common.nranks;
    mscclpp_dev_acc_t acc[MSCCLPP_DEV_DIRECT_BATCH];
    mscclpp_dev_vec_t v[MSCCLPP_DEV_DIRECT_BATCH], next[MSCCLPP_DEV_DIRECT_BATCH];
    uint32_t r;
    int k;

    MSCCLPP_DEV_UNROLL
    for (k = 0; k < batch; ++k) {
        next[k] = mscclpp_dev_ld_vec(args->from[0] + (u + (uint64_t)k * step) * MSCCLPP_DEV_UNIT);
    }
    for (r = 0; r < n; ++r) {
        char *to = args->mode == MSCCLPP_DEV_DIRECT_REDUCE ? (r + 1 == n ? args->to[0] : NULL) : args->to[r];
        const bool before = args->mode == MSCCLPP_DEV_DIRECT_EXSCAN;

        MSCCLPP_DEV_UNROLL
        for (k = 0; k < batch; ++k) {
            v[k] = next[k];
        }
        if (r + 1 < n) {
            MSCCLPP_DEV_UNROLL
            for (k = 0; k < batch; ++k) {
                next[k] = mscclpp_dev_ld_vec(args->from[r + 1] + (u + (uint64_t)k * step) * MSCCLPP_DEV_UNIT);
            }
        }
        if (before && r > 0 && to != NULL) {
            MSCCLPP_DEV_UNROLL
            for (k = 0; k < batch; ++k) {
                mscclpp_dev_st_vec(to + (u + (uint64_t)k * step) * MSCCLPP_DEV_UNIT,
                                   mscclpp_dev_acc_get(&acc[k], dtype));
            }
        }
        MSCCLPP_DEV_UNROLL
        for (k = 0; k < batch; ++k) {
            if (r == 0) {
                mscclpp_dev_acc_set(&acc[k], dtype, v[k]);
            } else {
                mscclpp_dev_acc_add(&acc[k], hot, dtype, op, v[k]);
            }
        }
        if (!before && to != NULL) {
            MSCCLPP_DEV_UNROLL
            for (k = 0; k < batch; ++k) {
                mscclpp_dev_st_vec(to + (u + (uint64_t)k * step) * MSCCLPP_DEV_UNIT,
                                   mscclpp_dev_acc_get(&acc[k], dtype));
            }
        }
    }
}

/*
 * Combines one unit of any alignment. If the operation is in place, only this thread uses the unit, and it reads before
 * it writes.
 */
MSCCLPP_DEV void mscclpp_dev_direct_combine_unit(const mscclpp_dev_direct_args_t *args, bool hot, int dtype, int op,
                                                 uint64_t u)
{
    const uint32_t n = args->common.nranks, mask = mscclpp_dev_unit_mask(dtype);
    const uint64_t bytes = args->common.bytes;
    mscclpp_dev_acc_t acc;
    mscclpp_dev_vec_t v;
    uint32_t r;

    for (r = 0; r < n; ++r) {
        char *to = args->mode == MSCCLPP_DEV_DIRECT_REDUCE ? (r + 1 == n ? args->to[0] : NULL) : args->to[r];
        const bool before = args->mode == MSCCLPP_DEV_DIRECT_EXSCAN;

        v = mscclpp_dev_ld_unit(args->from[r], u, bytes);
        if (before && r > 0 && to != NULL) {
            mscclpp_dev_st_unit(to, u, bytes, mscclpp_dev_acc_get(&acc, dtype), mask);
        }
        if (r == 0) {
            mscclpp_dev_acc_set(&acc, dtype, v);
        } else {
            mscclpp_dev_acc_add(&acc, hot, dtype, op, v);
        }
        if (!before && to != NULL) {
            mscclpp_dev_st_unit(to, u, bytes, mscclpp_dev_acc_get(&acc, dtype), mask);
        }
    }
}

/* Ends the kernel by the barrier after the work. Called by all threads. */
MSCCLPP_DEV void mscclpp_dev_direct_end(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args, uint64_t launches,
                                        uint32_t epoch, uint64_t before)
{
    mscclpp_dev_barrier(ctx, args, before + 2);
    mscclpp_dev_finish(ctx, args, launches, epoch, before, before + 2);
}

/* The kernel body for the modes that move blocks. */
MSCCLPP_DEV void mscclpp_dev_coll_move_direct(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_direct_args_t *args)
{
    const mscclpp_dev_args_t *common = &args->common;
    const uint64_t threads = (uint64_t)ctx->nblocks * ctx->nthreads;
    const uint64_t thread = (uint64_t)ctx->block * ctx->nthreads + ctx->tid;
    const uint64_t launches = mscclpp_dev_last_launch(ctx, common);
    const uint32_t epoch = mscclpp_dev_last_epoch(ctx, common);
    const uint64_t before = mscclpp_dev_last_barrier(ctx, common);

    mscclpp_dev_barrier(ctx, common, before + 1);
    if (!ctx->failed && args->mode == MSCCLPP_DEV_DIRECT_FAN) {
        mscclpp_dev_direct_spread(args->to, args->count, args->count != 0 ? common->rank % args->count : 0,
                                  args->from[0], common->bytes, mscclpp_dev_direct_aligned(args, 1), thread, threads);
    } else if (!ctx->failed) {
        mscclpp_dev_direct_pairs(args, thread, threads);
    }
    mscclpp_dev_direct_end(ctx, common, launches, epoch, before);
}

/* The kernel body for the modes that combine blocks. */
MSCCLPP_DEV void mscclpp_dev_coll_combine_direct(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_direct_args_t *args,
                                                 bool hot, int dtype, int op)
{
    const mscclpp_dev_args_t *common = &args->common;
    const int batch = hot ? MSCCLPP_DEV_DIRECT_BATCH / 2 : MSCCLPP_DEV_DIRECT_FEW;
    const uint64_t threads = (uint64_t)ctx->nblocks * ctx->nthreads;
    const uint64_t thread = (uint64_t)ctx->block * ctx->nthreads + ctx->tid;
    const uint64_t units = mscclpp_dev_units(common->bytes);
    const uint64_t launches = mscclpp_dev_last_launch(ctx, common);
    const uint32_t epoch = mscclpp_dev_last_epoch(ctx, common);
    const uint64_t before = mscclpp_dev_last_barrier(ctx, common);
    uint64_t u = thread;

    mscclpp_dev_barrier(ctx, common, before + 1);
    if (!ctx->failed) {
        if (mscclpp_dev_unit_mask(dtype) == 0xffffu && mscclpp_dev_direct_aligned(args, common->nranks)) {
            const uint64_t whole = common->bytes / MSCCLPP_DEV_UNIT;

            for (; u + (uint64_t)(batch - 1) * threads < whole; u += (uint64_t)batch * threads) {
                mscclpp_dev_direct_combine(args, batch, hot, dtype, op, u, threads);
            }
        }
        for (; u < units; u += threads) {
            mscclpp_dev_direct_combine_unit(args, hot, dtype, op, u);
        }
    }
    mscclpp_dev_direct_end(ctx, common, launches, epoch, before);
}

#endif
