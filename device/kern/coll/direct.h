/*
 * Collectives in mapped buffers of all ranks. Each rank reads and writes its peers' buffers directly, in one pass. The
 * host has computed the addresses (device/types/coll.h).
 *
 * Ranks meet at the beginning, because a rank must not touch a peer's buffer before the peer has entered the call. They
 * meet at the end, because a call must not end while peers use its buffers.
 *
 * In a barrier, block i meets only block i of each peer. This is enough: a rank's call ends after all of its blocks
 * have passed their last barrier, and every block of every peer has entered that barrier before.
 */
#ifndef MSCCLPP_DEVICE_KERN_COLL_DIRECT_H
#define MSCCLPP_DEVICE_KERN_COLL_DIRECT_H

#include "device/lib/barrier.h"
#include "device/types/hot.h"
#include "device/kern/coll/blocks.h"
#include "device/kern/coll/direct_rows.h"
#include "device/lib/reduce.h"

/*
 * Returns true if the kernel's first `sources` sources and all its targets are at multiples of MSCCLPP_DEV_UNIT. A
 * target of NULL (a rank without a result) counts as aligned. Ignores args->home.
 */
MSCCLPP_DEV bool mscclpp_dev_direct_is_aligned(const mscclpp_dev_direct_args_t *args, uint32_t sources)
{
    uintptr_t address_bits = 0; /* combined by OR */
    uint32_t i;

    for (i = 0; i < sources; ++i) {
        address_bits |= (uintptr_t)args->from[i];
    }
    for (i = 0; i < args->count; ++i) {
        address_bits |= (uintptr_t)args->to[i];
    }
    return address_bits % MSCCLPP_DEV_UNIT == 0;
}

/*
 * Copies this thread's part of a block of `bytes` bytes to each of `count` places, beginning with place `first_target`.
 * Copies aligned blocks as mscclpp_dev_coll_copy_units does, other blocks as mscclpp_dev_coll_copy_shifted does or, on
 * the twin, a long block by rows. `thread` is the thread's number among the `threads` threads of the grid. `is_aligned`
 * is true only if all addresses are multiples of MSCCLPP_DEV_UNIT.
 */
MSCCLPP_DEV void mscclpp_dev_direct_copy(char *const *to, uint32_t count, uint32_t first_target, const char *from,
                                         uint64_t bytes, bool is_aligned, uint64_t thread, uint64_t threads)
{
    uint32_t i;

#if MSCCLPP_DEV_ROWS
    if (bytes >= MSCCLPP_DEV_DIRECT_ROWS_MIN) {
        mscclpp_dev_rows_copy(to, count, first_target, from, bytes, thread, threads);
        return;
    }
#endif
    if (is_aligned) {
        mscclpp_dev_coll_copy_units(to, count, first_target, from, bytes, true, thread, threads);
        return;
    }
    for (i = 0; i < count; ++i) {
        mscclpp_dev_coll_copy_shifted(to[mscclpp_dev_coll_target(count, first_target, i)], from, bytes, thread,
                                      threads);
    }
}

/*
 * Copies each source in the list to its target. The host has ordered the list so that each rank begins with a different
 * peer. So the ranks do not all store to one rank at the same time.
 */
MSCCLPP_DEV void mscclpp_dev_direct_copy_pairs(const mscclpp_dev_direct_args_t *args, uint64_t thread, uint64_t threads)
{
    uint32_t i;

    for (i = 0; i < args->count; ++i) {
        const bool is_aligned = (((uintptr_t)args->from[i] | (uintptr_t)args->to[i]) % MSCCLPP_DEV_UNIT) == 0;

        mscclpp_dev_direct_copy(&args->to[i], 1, 0, args->from[i], args->bytes[i], is_aligned, thread, threads);
    }
}

/*
 * Swaps the contents of the pairs of places in the list. A thread loads a unit of both places before it stores either,
 * and no other thread of any rank accesses the unit. A batch is half as long as in a copy, because a thread holds units
 * of both places.
 */
MSCCLPP_DEV void mscclpp_dev_direct_swap(const mscclpp_dev_direct_args_t *args, uint64_t thread, uint64_t threads)
{
    mscclpp_dev_vec_t own_values[MSCCLPP_DEV_COLL_BATCH / 2], peer_values[MSCCLPP_DEV_COLL_BATCH / 2];
    uint32_t i;
    int j;

    for (i = 0; i < args->count; ++i) {
        char *own_place = (char *)(uintptr_t)args->from[i], *peer_place = args->to[i];
        const bool is_aligned = (((uintptr_t)own_place | (uintptr_t)peer_place) % MSCCLPP_DEV_UNIT) == 0;
        const uint64_t whole_units = is_aligned ? args->bytes[i] / MSCCLPP_DEV_UNIT : 0;
        uint64_t unit = thread;

#if MSCCLPP_DEV_ROWS
        if (args->bytes[i] >= MSCCLPP_DEV_DIRECT_ROWS_MIN) {
            mscclpp_dev_rows_swap(own_place, peer_place, args->bytes[i], thread, threads);
            continue;
        }
#endif
        for (; unit + (MSCCLPP_DEV_COLL_BATCH / 2 - 1) * threads < whole_units;
             unit += MSCCLPP_DEV_COLL_BATCH / 2 * threads) {
            MSCCLPP_DEV_UNROLL
            for (j = 0; j < MSCCLPP_DEV_COLL_BATCH / 2; ++j) {
                peer_values[j] = mscclpp_dev_ld_vec(peer_place + (unit + (uint64_t)j * threads) * MSCCLPP_DEV_UNIT);
                own_values[j] = mscclpp_dev_ld_vec(own_place + (unit + (uint64_t)j * threads) * MSCCLPP_DEV_UNIT);
            }
            MSCCLPP_DEV_UNROLL
            for (j = 0; j < MSCCLPP_DEV_COLL_BATCH / 2; ++j) {
                mscclpp_dev_st_vec(peer_place + (unit + (uint64_t)j * threads) * MSCCLPP_DEV_UNIT, own_values[j]);
                mscclpp_dev_st_vec(own_place + (unit + (uint64_t)j * threads) * MSCCLPP_DEV_UNIT, peer_values[j]);
            }
        }
        for (; unit < mscclpp_dev_units(args->bytes[i]); unit += threads) {
            peer_values[0] = mscclpp_dev_ld_unit(peer_place, unit, args->bytes[i]);
            own_values[0] = mscclpp_dev_ld_unit(own_place, unit, args->bytes[i]);
            mscclpp_dev_st_unit(peer_place, unit, args->bytes[i], own_values[0], MSCCLPP_DEV_WHOLE_UNIT);
            mscclpp_dev_st_unit(own_place, unit, args->bytes[i], peer_values[0], MSCCLPP_DEV_WHOLE_UNIT);
        }
    }
}

/*
 * Load and store a whole unit of a buffer of `bytes` bytes. Callers pass a constant for `is_aligned`. It is true only
 * if the buffer begins at a multiple of MSCCLPP_DEV_UNIT and the type has no padding. False is always allowed; `mask`
 * is then as in mscclpp_dev_st_unit.
 */
MSCCLPP_DEV mscclpp_dev_vec_t mscclpp_dev_direct_load(const char *from, uint64_t unit, uint64_t bytes, bool is_aligned)
{
    return is_aligned ? mscclpp_dev_ld_vec(from + unit * MSCCLPP_DEV_UNIT) : mscclpp_dev_ld_unit(from, unit, bytes);
}

MSCCLPP_DEV void mscclpp_dev_direct_store(char *to, uint64_t unit, uint64_t bytes, mscclpp_dev_vec_t value,
                                          uint32_t mask, bool is_aligned)
{
    if (is_aligned) {
        mscclpp_dev_st_vec(to + unit * MSCCLPP_DEV_UNIT, value);
    } else {
        mscclpp_dev_st_unit(to, unit, bytes, value, mask);
    }
}

/*
 * Combines `batch` whole units: `unit`, `unit + step`, and so on. A reduction stores the combination of the operands of
 * all ranks. A scan stores a result for each rank: the combination of the operands up to and including that rank's
 * operand or, if exclusive, of the operands before it. In an exclusive scan rank 0 has no result, and args->to[0] is
 * NULL.
 *
 * Callers pass constants for `batch`, `is_aligned` (as in mscclpp_dev_direct_load) and `hot`, so that the loops are
 * unrolled. If `hot` is true, they pass constants for `dtype` and `op`, too (device/types/hot.h).
 *
 * Works in place: only this thread accesses these units, and it loads a rank's operand before it stores that rank's
 * result.
 */
MSCCLPP_DEV void mscclpp_dev_direct_combine(const mscclpp_dev_direct_args_t *args, int batch, bool is_aligned, bool hot,
                                            int dtype, int op, uint64_t unit, uint64_t step)
{
    const uint32_t nranks = args->common.nranks, mask = mscclpp_dev_unit_mask(dtype);
    const uint64_t bytes = args->common.bytes;
    mscclpp_dev_acc_t acc[MSCCLPP_DEV_COLL_BATCH];
    mscclpp_dev_vec_t values[MSCCLPP_DEV_COLL_BATCH], next_values[MSCCLPP_DEV_COLL_BATCH];
    uint32_t rank;
    int j;

    MSCCLPP_DEV_UNROLL
    for (j = 0; j < batch; ++j) {
        next_values[j] = mscclpp_dev_direct_load(args->from[0], unit + (uint64_t)j * step, bytes, is_aligned);
    }
    for (rank = 0; rank < nranks; ++rank) {
        char *to = args->mode == MSCCLPP_DEV_DIRECT_REDUCE ? (rank + 1 == nranks ? args->to[0] : NULL) : args->to[rank];
        const bool is_exclusive = args->mode == MSCCLPP_DEV_DIRECT_EXSCAN;

        MSCCLPP_DEV_UNROLL
        for (j = 0; j < batch; ++j) {
            values[j] = next_values[j];
        }
        /* The next rank's units are loaded while this rank's are combined. */
        if (rank + 1 < nranks) {
            MSCCLPP_DEV_UNROLL
            for (j = 0; j < batch; ++j) {
                next_values[j] =
                    mscclpp_dev_direct_load(args->from[rank + 1], unit + (uint64_t)j * step, bytes, is_aligned);
            }
        }
        if (is_exclusive && rank > 0 && to != NULL) {
            MSCCLPP_DEV_UNROLL
            for (j = 0; j < batch; ++j) {
                mscclpp_dev_direct_store(to, unit + (uint64_t)j * step, bytes, mscclpp_dev_acc_get(&acc[j], dtype),
                                         mask, is_aligned);
            }
        }
        MSCCLPP_DEV_UNROLL
        for (j = 0; j < batch; ++j) {
            if (rank == 0) {
                mscclpp_dev_acc_set(&acc[j], dtype, values[j]);
            } else {
                mscclpp_dev_acc_add(&acc[j], hot, dtype, op, values[j]);
            }
        }
        if (!is_exclusive && to != NULL) {
            MSCCLPP_DEV_UNROLL
            for (j = 0; j < batch; ++j) {
                mscclpp_dev_direct_store(to, unit + (uint64_t)j * step, bytes, mscclpp_dev_acc_get(&acc[j], dtype),
                                         mask, is_aligned);
            }
        }
    }
}

/*
 * Combines one unit of any alignment, with the same results as mscclpp_dev_direct_combine, and works in place for the
 * same reason.
 */
MSCCLPP_DEV void mscclpp_dev_direct_combine_unit(const mscclpp_dev_direct_args_t *args, bool hot, int dtype, int op,
                                                 uint64_t unit)
{
    const uint32_t nranks = args->common.nranks, mask = mscclpp_dev_unit_mask(dtype);
    const uint64_t bytes = args->common.bytes;
    mscclpp_dev_acc_t acc;
    mscclpp_dev_vec_t value;
    uint32_t rank;

    for (rank = 0; rank < nranks; ++rank) {
        char *to = args->mode == MSCCLPP_DEV_DIRECT_REDUCE ? (rank + 1 == nranks ? args->to[0] : NULL) : args->to[rank];
        const bool is_exclusive = args->mode == MSCCLPP_DEV_DIRECT_EXSCAN;

        value = mscclpp_dev_ld_unit(args->from[rank], unit, bytes);
        if (is_exclusive && rank > 0 && to != NULL) {
            mscclpp_dev_st_unit(to, unit, bytes, mscclpp_dev_acc_get(&acc, dtype), mask);
        }
        if (rank == 0) {
            mscclpp_dev_acc_set(&acc, dtype, value);
        } else {
            mscclpp_dev_acc_add(&acc, hot, dtype, op, value);
        }
        if (!is_exclusive && to != NULL) {
            mscclpp_dev_st_unit(to, unit, bytes, mscclpp_dev_acc_get(&acc, dtype), mask);
        }
    }
}

/*
 * Combines this thread's part of the blocks: units `thread`, `thread + threads`, and so on, or, on the twin, rows.
 * Callers pass a constant for `hot`. If `hot` is true, they pass constants for `dtype` and `op`, too.
 */
MSCCLPP_DEV void mscclpp_dev_direct_combine_part(const mscclpp_dev_direct_args_t *args, bool hot, int dtype, int op,
                                                 uint64_t thread, uint64_t threads)
{
    const int batch = hot ? MSCCLPP_DEV_COLL_BATCH / 2 : MSCCLPP_DEV_COLL_BATCH_ANY;
    const uint64_t bytes = args->common.bytes, units = mscclpp_dev_units(bytes);
    const uint64_t whole_units = bytes / MSCCLPP_DEV_UNIT;
    uint64_t unit = thread;

#if MSCCLPP_DEV_ROWS
    if (mscclpp_dev_rows_serve(dtype, op, bytes)) {
        mscclpp_dev_rows_combine(args, dtype, op, thread, threads);
        return;
    }
#endif
    if (mscclpp_dev_unit_mask(dtype) == MSCCLPP_DEV_WHOLE_UNIT &&
        mscclpp_dev_direct_is_aligned(args, args->common.nranks)) {
        for (; unit + (uint64_t)(batch - 1) * threads < whole_units; unit += (uint64_t)batch * threads) {
            mscclpp_dev_direct_combine(args, batch, true, hot, dtype, op, unit, threads);
        }
    }
    for (; unit + (uint64_t)(batch - 1) * threads < whole_units; unit += (uint64_t)batch * threads) {
        mscclpp_dev_direct_combine(args, batch, false, hot, dtype, op, unit, threads);
    }
    for (; unit < units; unit += threads) {
        mscclpp_dev_direct_combine_unit(args, hot, dtype, op, unit);
    }
}

/*
 * Ends a kernel with two barriers: passes the second barrier, and reports the end. `launches`, `epoch` and
 * `barriers_before` are the block's counts from before the kernel. Called by all threads of the block.
 */
MSCCLPP_DEV void mscclpp_dev_direct_end(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args, uint64_t launches,
                                        uint32_t epoch, uint64_t barriers_before)
{
    mscclpp_dev_barrier(ctx, args, barriers_before + 2);
    mscclpp_dev_finish(ctx, args, launches, epoch, barriers_before, barriers_before + 2);
}

/*
 * Copies this thread's part of the result to args->home, which is where the user wants the result. Called after the
 * second barrier, because peers read the memory there until then.
 */
MSCCLPP_DEV void mscclpp_dev_direct_copy_home(const mscclpp_dev_direct_args_t *args, int dtype, int op, uint64_t thread,
                                              uint64_t threads)
{
    const uint32_t mask = mscclpp_dev_unit_mask(dtype);
    const uint64_t bytes = args->common.bytes, units = mscclpp_dev_units(bytes);
    uint64_t unit;

#if MSCCLPP_DEV_ROWS
    if (mscclpp_dev_rows_serve(dtype, op, bytes)) {
        mscclpp_dev_rows_copy(&args->home, 1, 0, args->to[0], bytes, thread, threads);
        return;
    }
#else
    (void)op;
#endif
    if (mask == MSCCLPP_DEV_WHOLE_UNIT) {
        const bool is_aligned = (((uintptr_t)args->home | (uintptr_t)args->to[0]) % MSCCLPP_DEV_UNIT) == 0;

        mscclpp_dev_coll_copy_units(&args->home, 1, 0, args->to[0], bytes, is_aligned, thread, threads);
        return;
    }
    for (unit = thread; unit < units; unit += threads) {
        mscclpp_dev_st_unit(args->home, unit, bytes, mscclpp_dev_ld_unit(args->to[0], unit, bytes), mask);
    }
}

/*
 * Runs the kernel for the modes that move blocks. If the first barrier fails, nothing is copied. If the second barrier
 * fails, the output may be incomplete.
 */
MSCCLPP_DEV void mscclpp_dev_coll_move_direct(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_direct_args_t *args)
{
    const mscclpp_dev_args_t *common = &args->common;
    const uint64_t threads = (uint64_t)ctx->nblocks * ctx->nthreads;
    const uint64_t thread = (uint64_t)ctx->block * ctx->nthreads + ctx->tid;
    const uint64_t launches = mscclpp_dev_last_launch(ctx, common);
    const uint32_t epoch = mscclpp_dev_last_epoch(ctx, common);
    const uint64_t barriers_before = mscclpp_dev_last_barrier(ctx, common);

    mscclpp_dev_enter(ctx, common);
    mscclpp_dev_barrier(ctx, common, barriers_before + 1);
    if (!ctx->failed && args->mode == MSCCLPP_DEV_DIRECT_FAN) {
        /* Ranks begin with different targets, so that not all store to one rank at the same time. */
        mscclpp_dev_direct_copy(args->to, args->count, args->count != 0 ? common->rank % args->count : 0, args->from[0],
                                common->bytes, mscclpp_dev_direct_is_aligned(args, 1), thread, threads);
    } else if (!ctx->failed && args->mode == MSCCLPP_DEV_DIRECT_SWAP) {
        mscclpp_dev_direct_swap(args, thread, threads);
    } else if (!ctx->failed) {
        mscclpp_dev_direct_copy_pairs(args, thread, threads);
    }
    mscclpp_dev_direct_end(ctx, common, launches, epoch, barriers_before);
}

/*
 * Runs the kernel for the modes that combine blocks. Callers pass a constant for `hot`. If `hot` is true, they pass
 * constants for `dtype` and `op`, too. If the first barrier fails, nothing is written. If the second barrier fails, the
 * result may be incomplete, and is not copied to args->home.
 */
MSCCLPP_DEV void mscclpp_dev_coll_combine_direct(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_direct_args_t *args,
                                                 bool hot, int dtype, int op)
{
    const mscclpp_dev_args_t *common = &args->common;
    const uint64_t threads = (uint64_t)ctx->nblocks * ctx->nthreads;
    const uint64_t thread = (uint64_t)ctx->block * ctx->nthreads + ctx->tid;
    const uint64_t launches = mscclpp_dev_last_launch(ctx, common);
    const uint32_t epoch = mscclpp_dev_last_epoch(ctx, common);
    const uint64_t barriers_before = mscclpp_dev_last_barrier(ctx, common);

    mscclpp_dev_enter(ctx, common);
    mscclpp_dev_barrier(ctx, common, barriers_before + 1);
    if (!ctx->failed) {
        mscclpp_dev_direct_combine_part(args, hot, dtype, op, thread, threads);
    }
    mscclpp_dev_barrier(ctx, common, barriers_before + 2);
    if (args->home != NULL && !ctx->failed) {
        mscclpp_dev_direct_copy_home(args, dtype, op, thread, threads);
    }
    mscclpp_dev_finish(ctx, common, launches, epoch, barriers_before, barriers_before + 2);
}

#endif
