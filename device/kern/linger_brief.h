/*
 * Brief all-reduces of a lingering kernel: one-shot all-reduces by packets in which each thread has at most one unit.
 *
 * These are the calls that take the least time, so fetching instructions takes a large part of it. Code that has left
 * the multiprocessor's instruction cache costs some 200 cycles a jump, and several times as much while other processes
 * use the GPU. So this path is short: it depends on the type only where it combines, one loop waits for all peers, and
 * rare cases are out of line. If the first warp has all units, it serves the operation alone, while the block's other
 * warps stay in the barrier where they wait for the bell.
 */
#ifndef MSCCLPP_DEVICE_KERN_LINGER_BRIEF_H
#define MSCCLPP_DEVICE_KERN_LINGER_BRIEF_H

#include "device/lib/barrier.h"
#include "device/lib/packet.h"
#include "device/lib/reduce.h"
#include "device/types/hot.h"
#include "device/types/linger.h"

/*
 * True if `threads` threads can serve the operation of a bell's word CODE, with at most one unit each. All ranks' units
 * fit into the packet area then.
 */
MSCCLPP_DEV bool mscclpp_dev_linger_is_brief(const mscclpp_dev_args_t *args, uint32_t code, uint32_t threads)
{
    const uint32_t most = threads < args->oneshot_capacity ? threads : args->oneshot_capacity;

    return MSCCLPP_DEV_BELL_KERNEL(code) == MSCCLPP_KERNEL_ALLREDUCE_ONESHOT &&
           args->bytes <= (uint64_t)most * MSCCLPP_DEV_UNIT &&
           (args->nranks == 2 || args->nranks == 4 || args->nranks == 8);
}

/* The peer of number `i`, from 0 on, in rank order. */
MSCCLPP_DEV uint32_t mscclpp_dev_brief_peer(const mscclpp_dev_args_t *args, uint32_t i)
{
    return i < args->rank ? i : i + 1;
}

/*
 * Combines this rank's unit with those of its peers, in rank order: values[i] is from mscclpp_dev_brief_peer(args, i).
 * `const_ranks` is the number of ranks; it, `hot`, and for hot types `dtype` and `op`, are constants.
 */
MSCCLPP_DEV mscclpp_dev_vec_t mscclpp_dev_brief_combine(const mscclpp_dev_args_t *args, int const_ranks, bool hot,
                                                        int dtype, int op, mscclpp_dev_vec_t own_value,
                                                        const mscclpp_dev_vec_t *values)
{
    mscclpp_dev_acc_t acc;
    int i;

    MSCCLPP_DEV_UNROLL
    for (i = 0; i < const_ranks; ++i) {
        const mscclpp_dev_vec_t value = (uint32_t)i == args->rank                         ? own_value
                                        : i < const_ranks - 1 && (uint32_t)i < args->rank ? values[i]
                                                                                          : values[i > 0 ? i - 1 : 0];

        if (i == 0) {
            mscclpp_dev_acc_set(&acc, dtype, value);
        } else {
            mscclpp_dev_acc_add(&acc, hot, dtype, op, value);
        }
    }
    return mscclpp_dev_acc_get(&acc, dtype);
}

/* mscclpp_dev_brief_combine for the type and operation of the arguments. */
MSCCLPP_DEV mscclpp_dev_vec_t mscclpp_dev_brief_combine_by_type(const mscclpp_dev_args_t *args, int const_ranks,
                                                                mscclpp_dev_vec_t own_value,
                                                                const mscclpp_dev_vec_t *values)
{
    const int hot_dtype = MSCCLPP_DEV_HOT_DTYPE(args->dtype);

#define MSCCLPP_DEV_BRIEF_MATCH(dtype_, op_)                                                                           \
    if (MSCCLPP_DEV_FOLDS && hot_dtype == (int)(dtype_) && args->op == (uint32_t)(op_)) {                              \
        return mscclpp_dev_brief_combine(args, const_ranks, true, (int)(dtype_), (int)(op_), own_value, values);       \
    }
    MSCCLPP_DEV_HOT(MSCCLPP_DEV_BRIEF_MATCH)
#undef MSCCLPP_DEV_BRIEF_MATCH
    return mscclpp_dev_brief_combine(args, const_ranks, false, (int)args->dtype, (int)args->op, own_value, values);
}

/*
 * Exchanges a thread's unit, combines it and stores the result. `own_value` is this rank's unit, `flag` the operation's
 * epoch. A thread that has failed, or gives up, stores nothing.
 */
MSCCLPP_DEV void mscclpp_dev_brief_exchange(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args, int const_ranks,
                                            uint32_t unit, uint32_t flag, mscclpp_dev_vec_t own_value)
{
    const uint64_t pair = (uint64_t)args->oneshot_capacity * MSCCLPP_DEV_PACKET_STEP;
    const uint64_t place =
        MSCCLPP_DEV_PACKET_OFFSET + (flag & 1) * args->packet_half + (uint64_t)unit * MSCCLPP_DEV_PACKET_STEP;
    const char *own_slots = args->scratch[args->rank] + place;
    mscclpp_dev_vec_t values[MSCCLPP_DEV_CONST_RANKS_MAX];
    mscclpp_dev_wait_t wait = {0, 0};
    uint32_t late, i;

    if (ctx->failed) {
        return;
    }
    MSCCLPP_DEV_UNROLL
    for (i = 1; i < (uint32_t)const_ranks; ++i) {
        mscclpp_dev_put_unit(args->scratch[mscclpp_dev_peer(args, i)] + place + args->rank * 2 * pair, pair, own_value,
                             flag, MSCCLPP_DEV_LL16);
    }
    do {
        late = MSCCLPP_DEV_NOT_LATE;
        MSCCLPP_DEV_UNROLL
        for (i = 0; i + 1 < (uint32_t)const_ranks; ++i) {
            const uint32_t peer = mscclpp_dev_brief_peer(args, i);

            if (!mscclpp_dev_poll_unit(own_slots + peer * 2 * pair, pair, &values[i], flag, MSCCLPP_DEV_LL16)) {
                late = peer;
            }
        }
    } while (late != MSCCLPP_DEV_NOT_LATE && mscclpp_dev_wait_turn(ctx, args, &wait, late));
    if (!ctx->failed) {
        mscclpp_dev_st_unit(args->out, unit, args->bytes,
                            mscclpp_dev_brief_combine_by_type(args, const_ranks, own_value, values),
                            mscclpp_dev_unit_mask((int)args->dtype));
    }
}

/*
 * Executes a brief operation, for which mscclpp_dev_linger_is_brief is true. Called by all threads of the operation's
 * blocks, or by the first warp of the first block alone: `whole_blocks` tells which. The other arguments are as in
 * mscclpp_dev_brief_exchange. Counts the operation and reports its end, as mscclpp_dev_finish does.
 */
MSCCLPP_DEV void mscclpp_dev_brief_run(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args, int const_ranks,
                                       bool whole_blocks)
{
    const uint32_t unit = ctx->block * ctx->nthreads + ctx->tid, flag = args->epoch + 1;
    const uint32_t threads = whole_blocks ? ctx->nthreads : MSCCLPP_DEV_WARP;
    const uint32_t step = args->rung != 0 ? 1 : ctx->nblocks; /* as in mscclpp_dev_advance_others */
    const bool has_unit = unit < mscclpp_dev_units(args->bytes);
    mscclpp_dev_vec_t value = mscclpp_dev_vec_zero();
    mscclpp_dev_progress_t after;
    uint32_t block;

    if (has_unit) {
        value = mscclpp_dev_ld_unit(args->in, unit, args->bytes);
    }
    /* While the operand is on its way. No block reads these before the operation has ended. */
    after.launches = args->launches + 1;
    after.epoch = flag;
    after.reserved = 0;
    for (block = ctx->block + ctx->tid * step; block < MSCCLPP_DEV_MAX_BLOCKS && (step > 1 || ctx->block == 0);
         block += threads * step) {
        args->state->progress[block] = after;
    }
    if (has_unit) {
        mscclpp_dev_brief_exchange(ctx, args, const_ranks, unit, flag, value);
    }
    if (whole_blocks) {
        ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
    } else {
        ctx->failed = mscclpp_dev_warp_or(ctx->failed);
        mscclpp_dev_warp_meet(); /* the report covers the results of the whole warp */
    }
    if (ctx->tid != 0) {
        return;
    }
    if (ctx->failed) {
        mscclpp_dev_st_relaxed_sys_u64(&args->state->failed, 1);
    }
    mscclpp_dev_report_end(args, ctx->block, after.launches);
}

/* mscclpp_dev_brief_run by number of ranks, out of line. Each returns true if the thread has failed. */
#define MSCCLPP_DEV_LINGER_BRIEF(n_)                                                                                   \
    MSCCLPP_DEV_OUTLINE bool mscclpp_dev_linger_brief##n_(mscclpp_dev_ctx_t ctx, const mscclpp_dev_args_t *args,       \
                                                          bool whole_blocks)                                           \
    {                                                                                                                  \
        mscclpp_dev_brief_run(&ctx, args, n_, whole_blocks);                                                           \
        return ctx.failed;                                                                                             \
    }
MSCCLPP_DEV_RANKS(MSCCLPP_DEV_LINGER_BRIEF)
#undef MSCCLPP_DEV_LINGER_BRIEF

/* Executes a brief operation; see mscclpp_dev_brief_run. Returns true if the thread has failed. */
MSCCLPP_DEV bool mscclpp_dev_linger_serve_brief(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args,
                                                bool whole_blocks)
{
    return args->nranks == 2   ? mscclpp_dev_linger_brief2(*ctx, args, whole_blocks)
           : args->nranks == 4 ? mscclpp_dev_linger_brief4(*ctx, args, whole_blocks)
                               : mscclpp_dev_linger_brief8(*ctx, args, whole_blocks);
}

#endif
