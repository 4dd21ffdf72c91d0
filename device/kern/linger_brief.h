/*
 * Brief all-reduces of a lingering kernel: one-shot all-reduces by packets in which each thread has at most one unit.
 * linger_brief_coll.h has the other collectives.
 *
 * These are the shortest calls, and fetching instructions takes a large part of their time. Code that has left the
 * multiprocessor's instruction cache costs some 200 cycles a jump, and 500 while seven other processes use the GPU
 * (contrib/perf/LOG.md). So this path is short: it depends on the type only where it combines, one loop waits for all
 * peers, and rare cases are not inlined. If the first warp has all units, it serves the operation alone, while the
 * block's other warps stay in the barrier where they wait for the bell.
 */
#ifndef MSCCLPP_DEVICE_KERN_LINGER_BRIEF_H
#define MSCCLPP_DEVICE_KERN_LINGER_BRIEF_H

#include "device/lib/barrier.h"
#include "device/lib/packet.h"
#include "device/lib/reduce.h"
#include "device/types/hot.h"
#include "device/types/linger.h"

/*
 * Returns the maximum size of an operation, in bytes, that `threads` threads serve with one unit each and that fits
 * into the packet area. 0: there is no code for this number of ranks.
 */
MSCCLPP_DEV uint32_t mscclpp_dev_brief_max_bytes(const mscclpp_dev_args_t *args, uint32_t threads)
{
    const uint32_t units = threads < args->oneshot_capacity ? threads : args->oneshot_capacity;

    return args->nranks == 2 || args->nranks == 4 || args->nranks == 8 ? units * MSCCLPP_DEV_UNIT : 0;
}

/*
 * Combines the units of all ranks into *value, and returns true. Returns false, with nothing done, if type and
 * operation are not hot. `units` has one unit for each rank, in rank order. Their number `const_ranks` is a constant.
 */
MSCCLPP_DEV bool mscclpp_dev_brief_combine_hot(const mscclpp_dev_args_t *args, int const_ranks,
                                               const mscclpp_dev_vec_t *units, mscclpp_dev_vec_t *value)
{
    const uint32_t op = args->op;
    const int hot_dtype = MSCCLPP_DEV_HOT_DTYPE(args->dtype);
    mscclpp_dev_acc_t acc;
    int i;

#define MSCCLPP_DEV_BRIEF_MATCH(dtype_, op_)                                                                           \
    if (MSCCLPP_DEV_FOLDS && hot_dtype == (int)(dtype_) && op == (uint32_t)(op_)) {                                    \
        mscclpp_dev_acc_set(&acc, (int)(dtype_), units[0]);                                                            \
        MSCCLPP_DEV_UNROLL                                                                                             \
        for (i = 1; i < const_ranks; ++i) {                                                                            \
            mscclpp_dev_acc_add(&acc, true, (int)(dtype_), (int)(op_), units[i]);                                      \
        }                                                                                                              \
        *value = mscclpp_dev_acc_get(&acc, (int)(dtype_));                                                             \
        return true;                                                                                                   \
    }
    MSCCLPP_DEV_HOT(MSCCLPP_DEV_BRIEF_MATCH)
#undef MSCCLPP_DEV_BRIEF_MATCH
    return false;
}

/* Where a thread's packets lie. */
typedef struct {
    uint64_t half_gap; /* bytes from the first half of a unit's packets to the second half */
    uint64_t offset;   /* of a unit from rank 0, bytes from a scratch's start */
    uint32_t flag;     /* the flag in the packets */
} mscclpp_dev_brief_packets_t;

/* Returns the address at which `sender` puts its unit in the scratch of `receiver`. */
MSCCLPP_DEV char *mscclpp_dev_brief_slot(const mscclpp_dev_args_t *args, const mscclpp_dev_brief_packets_t *packets,
                                         uint32_t receiver, uint32_t sender)
{
    return args->scratch[receiver] + packets->offset + sender * 2 * packets->half_gap;
}

/* The number of units that mscclpp_dev_brief_store_any loads before it combines the first unit. */
#define MSCCLPP_DEV_BRIEF_BATCH 4

/*
 * Combines the units number `unit` of ranks 0 to `ranks_end` - 1, for any type and operation, and stores the result.
 * All of these units have arrived. Reads their packets once more, because passing the units would force them out of
 * registers for the hot types, too. `ranks_end` is at least 1. `bytes` is the size of the whole result.
 */
MSCCLPP_DEV_OUTLINE void mscclpp_dev_brief_store_any(const mscclpp_dev_args_t *args,
                                                     mscclpp_dev_brief_packets_t packets, uint32_t unit,
                                                     uint32_t ranks_end, uint32_t bytes)
{
    const int dtype = (int)args->dtype, op = (int)args->op;
    const char *slots = mscclpp_dev_brief_slot(args, &packets, args->rank, 0);
    mscclpp_dev_acc_t acc;
    uint32_t first, i;

    for (first = 0; first < ranks_end; first += MSCCLPP_DEV_BRIEF_BATCH) {
        mscclpp_dev_vec_t units[MSCCLPP_DEV_BRIEF_BATCH];

        MSCCLPP_DEV_UNROLL
        for (i = 0; i < MSCCLPP_DEV_BRIEF_BATCH; ++i) {
            units[i] = mscclpp_dev_vec_zero();
            if (first + i < ranks_end) {
                (void)mscclpp_dev_poll_unit(slots + (first + i) * 2 * packets.half_gap, packets.half_gap, &units[i],
                                            packets.flag, MSCCLPP_DEV_LL16);
            }
        }
        MSCCLPP_DEV_UNROLL
        for (i = 0; i < MSCCLPP_DEV_BRIEF_BATCH && first + i < ranks_end; ++i) {
            if (first + i == 0) {
                mscclpp_dev_acc_set(&acc, dtype, units[i]);
            } else {
                mscclpp_dev_acc_add(&acc, false, dtype, op, units[i]);
            }
        }
    }
    mscclpp_dev_st_unit(args->out, unit, bytes, mscclpp_dev_acc_get(&acc, dtype), mscclpp_dev_unit_mask(dtype));
}

/* An operation, as all threads of a block see it. */
typedef struct {
    uint64_t launches; /* operations that have ended before it */
    uint32_t flag;     /* the epoch, which its packets carry as their flag */
    uint32_t writers;  /* number of blocks that share the writing of `progress`; 1: the first block writes all of it */
    uint32_t threads;  /* number of threads that execute it in each block */
} mscclpp_dev_brief_t;

/*
 * Writes the counters after the operation into the `progress` of all blocks. Called by all threads of the operation,
 * while its packets are on their way. No block reads its counters before the operation has ended.
 */
MSCCLPP_DEV void mscclpp_dev_brief_advance(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args,
                                           const mscclpp_dev_brief_t *brief)
{
    mscclpp_dev_progress_t *progress = args->state->progress;
    mscclpp_dev_progress_t after;
    uint32_t block;

    if (brief->writers == 1 && ctx->block != 0) {
        return;
    }
    after.launches = brief->launches + 1;
    after.epoch = brief->flag;
    after.reserved = 0;
    MSCCLPP_DEV_ROLLED
    for (block = ctx->block + ctx->tid * brief->writers; block < MSCCLPP_DEV_MAX_BLOCKS;
         block += brief->threads * brief->writers) {
        progress[block] = after;
    }
}

/*
 * Waits for this thread's unit from each rank, and stores the units in `units`, by rank. Returns false, with
 * ctx->failed set, if the thread gives up. The number of ranks `const_ranks` is a constant. This rank has sent a unit
 * to itself, too: reading it back takes no longer than the peers' packets take, and needs no code of its own.
 */
MSCCLPP_DEV bool mscclpp_dev_brief_gather(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args, int const_ranks,
                                          const mscclpp_dev_brief_packets_t *packets, mscclpp_dev_vec_t *units)
{
    const char *slots = mscclpp_dev_brief_slot(args, packets, args->rank, 0);
    mscclpp_dev_wait_t wait = {0, 0};
    uint32_t late_rank, i;

    do {
        late_rank = MSCCLPP_DEV_NOT_LATE;
        MSCCLPP_DEV_UNROLL
        for (i = 0; i < (uint32_t)const_ranks; ++i) {
            if (!mscclpp_dev_poll_unit(slots + i * 2 * packets->half_gap, packets->half_gap, &units[i], packets->flag,
                                       MSCCLPP_DEV_LL16)) {
                late_rank = i;
            }
        }
    } while (late_rank != MSCCLPP_DEV_NOT_LATE && mscclpp_dev_wait_turn(ctx, args, &wait, late_rank));
    return !ctx->failed;
}

/*
 * Ends a brief operation: reports the end as mscclpp_dev_finish does. Called by all threads of the operation, whether
 * they have failed or not; these are all threads of its blocks (`whole_blocks`) or the first warp alone. If a thread
 * has failed, sets ctx->failed in all of them, and all later operations of the team give up.
 */
MSCCLPP_DEV void mscclpp_dev_brief_end(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args, uint64_t launches,
                                       bool whole_blocks)
{
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
    mscclpp_dev_report_end(args, ctx->block, launches + 1);
}

/*
 * Executes a brief operation, and reports its end as mscclpp_dev_finish does. Called by all threads of the operation's
 * blocks (`whole_blocks`), or by the first warp of the first block alone. The number of ranks `const_ranks` is a
 * constant. `launches` is the number of operations that have ended. `is_rung` says that this operation came by the
 * bell. A thread that has failed before sends nothing, and a thread that gives up stores nothing.
 *
 * In the warp that has the last units, lanes without a unit of their own repeat the last unit: they send the same
 * packets to the same places. So the warp never diverges, and executes its code without jumps, each of which would have
 * to fetch code.
 */
MSCCLPP_DEV void mscclpp_dev_brief_run(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args, int const_ranks,
                                       uint64_t launches, bool is_rung, bool whole_blocks)
{
    const uint32_t own_unit = ctx->block * ctx->nthreads + ctx->tid, flag = args->epoch + 1;
    const uint32_t last_unit = ((uint32_t)args->bytes - 1) / MSCCLPP_DEV_UNIT;
    const uint32_t unit = own_unit < last_unit ? own_unit : last_unit;
    const mscclpp_dev_brief_t brief = {launches, flag, is_rung ? 1 : ctx->nblocks,
                                       whole_blocks ? ctx->nthreads : MSCCLPP_DEV_WARP};
    const mscclpp_dev_brief_packets_t packets = {
        (uint64_t)args->oneshot_capacity * MSCCLPP_DEV_PACKET_STEP,
        MSCCLPP_DEV_PACKET_OFFSET + (flag & 1) * args->packet_half + (uint64_t)unit * MSCCLPP_DEV_PACKET_STEP, flag};
    const bool sends = own_unit / MSCCLPP_DEV_WARP <= last_unit / MSCCLPP_DEV_WARP && !ctx->failed;
    mscclpp_dev_vec_t units[MSCCLPP_DEV_CONST_RANKS_MAX];
    mscclpp_dev_vec_t value = mscclpp_dev_vec_zero();
    uint32_t i;

    if (sends) {
        value = mscclpp_dev_ld_unit(args->in, unit, args->bytes);
        MSCCLPP_DEV_UNROLL
        for (i = 1; i <= (uint32_t)const_ranks; ++i) { /* sends to this rank last */
            mscclpp_dev_put_unit(mscclpp_dev_brief_slot(args, &packets, mscclpp_dev_peer(args, i), args->rank),
                                 packets.half_gap, value, flag, MSCCLPP_DEV_LL16);
        }
    }
    mscclpp_dev_warp_meet(); /* in place: no lane stores before all lanes have read the operand */
    mscclpp_dev_brief_advance(ctx, args, &brief);
    if (sends && mscclpp_dev_brief_gather(ctx, args, const_ranks, &packets, units)) {
        if (mscclpp_dev_brief_combine_hot(args, const_ranks, units, &value)) {
            mscclpp_dev_st_unit(args->out, unit, args->bytes, value, MSCCLPP_DEV_WHOLE_UNIT);
        } else {
            mscclpp_dev_brief_store_any(args, packets, unit, (uint32_t)const_ranks, (uint32_t)args->bytes);
        }
    }
    mscclpp_dev_brief_end(ctx, args, launches, whole_blocks);
}

/* mscclpp_dev_brief_run for each number of ranks, not inlined. Each function returns true if the thread has failed. */
#define MSCCLPP_DEV_LINGER_BRIEF(n_)                                                                                   \
    MSCCLPP_DEV_OUTLINE bool mscclpp_dev_linger_brief##n_(mscclpp_dev_ctx_t ctx, const mscclpp_dev_args_t *args,       \
                                                          uint64_t launches, bool is_rung, bool whole_blocks)          \
    {                                                                                                                  \
        mscclpp_dev_brief_run(&ctx, args, n_, launches, is_rung, whole_blocks);                                        \
        return ctx.failed;                                                                                             \
    }
MSCCLPP_DEV_RANKS(MSCCLPP_DEV_LINGER_BRIEF)
#undef MSCCLPP_DEV_LINGER_BRIEF

/*
 * Executes a brief operation as mscclpp_dev_brief_run does, for 2, 4 or 8 ranks. Returns true if the thread has failed.
 */
MSCCLPP_DEV bool mscclpp_dev_linger_serve_brief(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args,
                                                uint64_t launches, bool is_rung, bool whole_blocks)
{
    return args->nranks == 2   ? mscclpp_dev_linger_brief2(*ctx, args, launches, is_rung, whole_blocks)
           : args->nranks == 4 ? mscclpp_dev_linger_brief4(*ctx, args, launches, is_rung, whole_blocks)
                               : mscclpp_dev_linger_brief8(*ctx, args, launches, is_rung, whole_blocks);
}

#endif
