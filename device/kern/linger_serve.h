/*
 * The operations that a lingering kernel (kern/linger.h) executes. They use the kernel bodies of kern/allreduce,
 * kern/coll and kern/plan.
 */
#ifndef MSCCLPP_DEVICE_KERN_LINGER_SERVE_H
#define MSCCLPP_DEVICE_KERN_LINGER_SERVE_H

#include "device/kern/allreduce/allreduce_nodes.h"
#include "device/kern/allreduce/allreduce_nodes_packets.h"
#include "device/kern/allreduce/allreduce_oneshot.h"
#include "device/kern/allreduce/allreduce_oneshot_put.h"
#include "device/kern/allreduce/allreduce_twophase.h"
#include "device/kern/allreduce/allreduce_zerocopy.h"
#include "device/kern/coll/packets.h"
#include "device/kern/plan/run.h"
#include "device/types/hot.h"
#include "device/types/linger.h"

/*
 * Defines mscclpp_dev_linger_<name_>, which executes one kind of operation with its own copy of the context. Returns
 * true if the thread has failed. The functions are not inlined: together they would need more registers than there are,
 * and values that do not fit into registers leave the cache at each look at the bell.
 */
#define MSCCLPP_DEV_LINGER_OPERATION(name_, args_, call_)                                                              \
    MSCCLPP_DEV_OUTLINE bool mscclpp_dev_linger_##name_(mscclpp_dev_ctx_t ctx, const args_ *args)                      \
    {                                                                                                                  \
        ctx.lingers = true;                                                                                            \
        call_;                                                                                                         \
        return ctx.failed;                                                                                             \
    }

/*
 * Operations for which a hot type and operation (types/hot.h) and the number of ranks `n_` are constants. The
 * operations without such constants follow below. `name_` is <dtype><op>, pasted from the names of the constants. So
 * there is a function mscclpp_dev_linger_twophase2MSCCLPP_DTYPE_FLOAT32MSCCLPP_OP_SUM.
 */
#define MSCCLPP_DEV_LINGER_LONG(n_, name_, hot_, dtype_, op_)                                                          \
    MSCCLPP_DEV_LINGER_OPERATION(                                                                                      \
        oneshot##n_##name_, mscclpp_dev_args_t,                                                                        \
        mscclpp_dev_oneshot_long(&ctx, args, n_, hot_, (int)(dtype_), (int)(op_), MSCCLPP_DEV_LL16))                   \
    MSCCLPP_DEV_LINGER_OPERATION(twophase##n_##name_, mscclpp_dev_args_t,                                              \
                                 mscclpp_dev_twophase_ranks(&ctx, args, n_, hot_, (int)(dtype_), (int)(op_)))          \
    MSCCLPP_DEV_LINGER_OPERATION(zerocopy##n_##name_, mscclpp_dev_zerocopy_args_t,                                     \
                                 mscclpp_dev_zerocopy_ranks(&ctx, args, n_, false, hot_, (int)(dtype_), (int)(op_)))

/* Puts have such a function only for 2 ranks, where they pay off most: mscclpp_dev_linger_put2<dtype><op>. */
#define MSCCLPP_DEV_LINGER_HOT2(dtype_, op_)                                                                           \
    MSCCLPP_DEV_LINGER_LONG(2, dtype_##op_, true, dtype_, op_)                                                         \
    MSCCLPP_DEV_LINGER_OPERATION(put2##dtype_##op_, mscclpp_dev_args_t,                                                \
                                 mscclpp_dev_put_ranks(&ctx, args, 2, true, true, (int)(dtype_), (int)(op_)))
#define MSCCLPP_DEV_LINGER_HOT4(dtype_, op_) MSCCLPP_DEV_LINGER_LONG(4, dtype_##op_, true, dtype_, op_)
#define MSCCLPP_DEV_LINGER_HOT8(dtype_, op_) MSCCLPP_DEV_LINGER_LONG(8, dtype_##op_, true, dtype_, op_)
MSCCLPP_DEV_HOT(MSCCLPP_DEV_LINGER_HOT2)
MSCCLPP_DEV_HOT(MSCCLPP_DEV_LINGER_HOT4)
MSCCLPP_DEV_HOT(MSCCLPP_DEV_LINGER_HOT8)
/* Operations for any number of ranks, type and operation. They look these up at run time. */
MSCCLPP_DEV_LINGER_OPERATION(oneshot, mscclpp_dev_args_t,
                             mscclpp_dev_oneshot_long(&ctx, args, 0, false, (int)args->dtype, (int)args->op,
                                                      MSCCLPP_DEV_LL16))
MSCCLPP_DEV_LINGER_OPERATION(twophase, mscclpp_dev_args_t,
                             mscclpp_dev_twophase_ranks(&ctx, args, 0, false, (int)args->dtype, (int)args->op))
MSCCLPP_DEV_LINGER_OPERATION(put, mscclpp_dev_args_t,
                             mscclpp_dev_put_ranks(&ctx, args, 0, false, false, (int)args->dtype, (int)args->op))
MSCCLPP_DEV_LINGER_OPERATION(zerocopy, mscclpp_dev_zerocopy_args_t,
                             mscclpp_dev_zerocopy_ranks(&ctx, args, 0, false, false, (int)args->common.dtype,
                                                        (int)args->common.op))
MSCCLPP_DEV_LINGER_OPERATION(nodes, mscclpp_dev_nodes_args_t,
                             mscclpp_dev_allreduce_nodes(&ctx, args, false, (int)args->common.dtype,
                                                         (int)args->common.op))
MSCCLPP_DEV_LINGER_OPERATION(nodes_packets, mscclpp_dev_nodes_args_t,
                             mscclpp_dev_allreduce_nodes_packets(&ctx, args, false, (int)args->common.dtype,
                                                                 (int)args->common.op))
MSCCLPP_DEV_LINGER_OPERATION(move, mscclpp_dev_coll_args_t, mscclpp_dev_coll_move_packets(&ctx, args, NULL))
/*
 * Operations that combine blocks of data. If `blocks_` is NULL, all blocks have the same size. `hot_` true: `dtype_`
 * and `op_` are constants.
 */
#define MSCCLPP_DEV_LINGER_COMBINE(name_, args_, coll_, blocks_, hot_, dtype_, op_)                                    \
    MSCCLPP_DEV_LINGER_OPERATION(name_, args_,                                                                         \
                                 mscclpp_dev_coll_combine_packets(&ctx, coll_, blocks_, hot_, (int)(dtype_),           \
                                                                  (int)(op_), MSCCLPP_DEV_COLL_LINGER_BATCH))
MSCCLPP_DEV_LINGER_COMBINE(combine, mscclpp_dev_coll_args_t, args, NULL, false, args->common.dtype, args->common.op)
MSCCLPP_DEV_LINGER_COMBINE(combine_float, mscclpp_dev_coll_args_t, args, NULL, true, MSCCLPP_DTYPE_FLOAT32,
                           MSCCLPP_OP_SUM)
MSCCLPP_DEV_LINGER_COMBINE(combine_blocks, mscclpp_dev_blocks_args_t, &args->coll, args, false, args->coll.common.dtype,
                           args->coll.common.op)
MSCCLPP_DEV_LINGER_COMBINE(combine_blocks_float, mscclpp_dev_blocks_args_t, &args->coll, args, true,
                           MSCCLPP_DTYPE_FLOAT32, MSCCLPP_OP_SUM)
MSCCLPP_DEV_LINGER_OPERATION(move_blocks, mscclpp_dev_blocks_args_t,
                             mscclpp_dev_coll_move_packets(&ctx, &args->coll, args))
#undef MSCCLPP_DEV_LINGER_COMBINE
#undef MSCCLPP_DEV_LINGER_HOT2
#undef MSCCLPP_DEV_LINGER_HOT4
#undef MSCCLPP_DEV_LINGER_HOT8
#undef MSCCLPP_DEV_LINGER_LONG
#undef MSCCLPP_DEV_LINGER_OPERATION

/*
 * Executes one all-reduce within a node by packets that is too long to be brief (linger_brief.h). Here and below,
 * `code` is the bell's word CODE, and the functions return true if the thread has failed. On a GPU, type, operation and
 * number of ranks are constants in the code that runs if type and operation are hot (types/hot.h) and there are 2, 4 or
 * 8 ranks.
 */
MSCCLPP_DEV bool mscclpp_dev_linger_serve_packets(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args,
                                                  uint32_t code)
{
    const uint32_t kernel = MSCCLPP_DEV_BELL_KERNEL(code), op = MSCCLPP_DEV_BELL_OP(code);
    const int hot_dtype = MSCCLPP_DEV_HOT_DTYPE(MSCCLPP_DEV_BELL_DTYPE(code));

#define MSCCLPP_DEV_LINGER_MATCH_RANKS(n_, dtype_, op_)                                                                \
    case n_:                                                                                                           \
        return kernel == MSCCLPP_KERNEL_ALLREDUCE_TWOPHASE ? mscclpp_dev_linger_twophase##n_##dtype_##op_(*ctx, args)  \
                                                           : mscclpp_dev_linger_oneshot##n_##dtype_##op_(*ctx, args);
#define MSCCLPP_DEV_LINGER_MATCH(dtype_, op_)                                                                          \
    if (MSCCLPP_DEV_FOLDS && hot_dtype == (int)(dtype_) && op == (uint32_t)(op_)) {                                    \
        switch (args->nranks) {                                                                                        \
            MSCCLPP_DEV_LINGER_MATCH_RANKS(2, dtype_, op_)                                                             \
            MSCCLPP_DEV_LINGER_MATCH_RANKS(4, dtype_, op_)                                                             \
            MSCCLPP_DEV_LINGER_MATCH_RANKS(8, dtype_, op_)                                                             \
        default:                                                                                                       \
            break;                                                                                                     \
        }                                                                                                              \
    }
    MSCCLPP_DEV_HOT(MSCCLPP_DEV_LINGER_MATCH)
#undef MSCCLPP_DEV_LINGER_MATCH
#undef MSCCLPP_DEV_LINGER_MATCH_RANKS
    return kernel == MSCCLPP_KERNEL_ALLREDUCE_TWOPHASE ? mscclpp_dev_linger_twophase(*ctx, args)
                                                       : mscclpp_dev_linger_oneshot(*ctx, args);
}

/*
 * Executes one all-reduce by puts (allreduce_oneshot_put.h). On a GPU, type, operation and number of ranks are
 * constants in the code that runs if type and operation are hot (types/hot.h), there are 2 ranks, and both buffers
 * begin at multiples of MSCCLPP_DEV_UNIT.
 */
MSCCLPP_DEV bool mscclpp_dev_linger_serve_put(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args,
                                              uint32_t code)
{
    const uint32_t op = MSCCLPP_DEV_BELL_OP(code);
    const int hot_dtype = MSCCLPP_DEV_HOT_DTYPE(MSCCLPP_DEV_BELL_DTYPE(code));

#define MSCCLPP_DEV_LINGER_MATCH(dtype_, op_)                                                                          \
    if (MSCCLPP_DEV_FOLDS && args->nranks == 2 && mscclpp_dev_put_is_aligned(args) && hot_dtype == (int)(dtype_) &&    \
        op == (uint32_t)(op_)) {                                                                                       \
        return mscclpp_dev_linger_put2##dtype_##op_(*ctx, args);                                                       \
    }
    MSCCLPP_DEV_HOT(MSCCLPP_DEV_LINGER_MATCH)
#undef MSCCLPP_DEV_LINGER_MATCH
    return mscclpp_dev_linger_put(*ctx, args);
}

/*
 * Executes one zero-copy all-reduce on `set`, one of the kernel's sets of buffers. Called by all threads of the block.
 * First copies the set into `args`, the block's arguments; no thread uses the arguments before the whole set is copied.
 * The same values are constants as in mscclpp_dev_linger_serve_packets.
 */
MSCCLPP_DEV bool mscclpp_dev_linger_serve_zerocopy(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_linger_set_t *set,
                                                   mscclpp_dev_zerocopy_args_t *args, uint32_t code)
{
    const uint32_t op = MSCCLPP_DEV_BELL_OP(code);
    const int hot_dtype = MSCCLPP_DEV_HOT_DTYPE(MSCCLPP_DEV_BELL_DTYPE(code));
    uint32_t rank;

    for (rank = ctx->tid; rank < args->common.nranks; rank += ctx->nthreads) {
        args->peer_in[rank] = set->in[rank];
        args->peer_out[rank] = set->out[rank];
    }
    mscclpp_dev_block_sync(ctx);
#define MSCCLPP_DEV_LINGER_MATCH(dtype_, op_)                                                                          \
    if (MSCCLPP_DEV_FOLDS && hot_dtype == (int)(dtype_) && op == (uint32_t)(op_)) {                                    \
        switch (args->common.nranks) {                                                                                 \
        case 2:                                                                                                        \
            return mscclpp_dev_linger_zerocopy2##dtype_##op_(*ctx, args);                                              \
        case 4:                                                                                                        \
            return mscclpp_dev_linger_zerocopy4##dtype_##op_(*ctx, args);                                              \
        case 8:                                                                                                        \
            return mscclpp_dev_linger_zerocopy8##dtype_##op_(*ctx, args);                                              \
        default:                                                                                                       \
            break;                                                                                                     \
        }                                                                                                              \
    }
    MSCCLPP_DEV_HOT(MSCCLPP_DEV_LINGER_MATCH)
#undef MSCCLPP_DEV_LINGER_MATCH
    return mscclpp_dev_linger_zerocopy(*ctx, args);
}

/* Returns true for the packet kernels of collectives other than all-reduce whose blocks have different sizes. */
MSCCLPP_DEV bool mscclpp_dev_linger_is_varied(uint32_t kernel)
{
    return kernel == MSCCLPP_KERNEL_COLL_MOVE_BLOCKS || kernel == MSCCLPP_KERNEL_COLL_COMBINE_BLOCKS;
}

/*
 * Returns the upper half of the relay's words for the lists of operation `number`. It is never 0, as in a cleared
 * relay, and it differs between all operations of one kernel (MSCCLPP_DEV_LINGER_PERIOD).
 */
MSCCLPP_DEV uint32_t mscclpp_dev_linger_list_flag(uint64_t number)
{
    return (uint32_t)number | 1u << 31;
}

/*
 * Passes the words of long lists that came with the bell on to the other blocks of the kernel. Called by all threads of
 * the first block. In a cluster, each word for each block has a thread of its own, if there are enough threads.
 */
MSCCLPP_DEV void mscclpp_dev_linger_relay_lists(const mscclpp_dev_ctx_t *ctx, mscclpp_dev_linger_block_t *block_state)
{
    const uint64_t flag = (uint64_t)mscclpp_dev_linger_list_flag(block_state->args.launches + 1) << 32;
    const uint32_t end = MSCCLPP_DEV_BELL_LONG_END(block_state->args.nranks);
    const uint32_t stride = MSCCLPP_DEV_BELL_SIZE - MSCCLPP_DEV_BELL_LIST; /* a constant, for fast divisions */
    const bool is_cluster = mscclpp_dev_cluster_size(ctx) > 1;
    const uint32_t stores = stride * (is_cluster ? ctx->nblocks - 1 : 1);
    uint32_t i;

    MSCCLPP_DEV_ROLLED
    for (i = ctx->tid; i < stores; i += ctx->nthreads) {
        const uint32_t index = MSCCLPP_DEV_BELL_LIST + i % stride, block = 1 + i / stride;

        if (index < end && is_cluster) {
            mscclpp_dev_st_relay_cluster_u64(ctx, &block_state->relay[index], block, flag | block_state->words[index]);
        } else if (index < end) {
            mscclpp_dev_st_relay_gpu_u64(&block_state->args.state->relay[index], flag | block_state->words[index]);
        }
    }
}

/*
 * Waits until word `index` of long lists has come through the relay, and returns its payload. Called in the other
 * blocks, which wait without a deadline, as in mscclpp_dev_linger_await_relay.
 */
MSCCLPP_DEV uint32_t mscclpp_dev_linger_await_list_word(mscclpp_dev_ctx_t *ctx,
                                                        const mscclpp_dev_linger_block_t *block_state, uint32_t index)
{
    const uint32_t flag = mscclpp_dev_linger_list_flag(block_state->args.launches + 1);
    const bool is_cluster = mscclpp_dev_cluster_size(ctx) > 1;
    uint64_t word;

    /* The word may still be that of an older operation. */
    while (word = is_cluster ? mscclpp_dev_ld_acquire_cluster_u64(&block_state->relay[index])
                             : mscclpp_dev_ld_acquire_gpu_u64(&block_state->args.state->relay[index]),
           (uint32_t)(word >> 32) != flag) {
        mscclpp_dev_pause(ctx);
    }
    return (uint32_t)word;
}

/* Stores word `i` of lists of `nranks` ranks with two words for each block of data: first its offset, then its size. */
MSCCLPP_DEV void mscclpp_dev_linger_store_list_word(mscclpp_dev_blocks_args_t *args, uint32_t nranks, uint32_t i,
                                                    uint64_t word)
{
    mscclpp_dev_block_t *block = i < 2 * nranks ? &args->send[i / 2] : &args->recv[i / 2 - nranks];

    if (i % 2 == 0) {
        block->offset = word;
    } else {
        block->bytes = word;
    }
}

/*
 * Takes the lists of the operation's blocks of data into block_state->blocks: short or long lists that came with the
 * bell, or, for the kernel's first operation, the lists in the mailbox. Called by all threads of each block that takes
 * part; the block must then synchronise. One warp reads neighbouring words of the mailbox, because reads of the host's
 * memory wait for one another unless they are one access. Not inlined, because operations without lists do not need
 * this code.
 */
MSCCLPP_DEV_OUTLINE void mscclpp_dev_linger_take_lists(mscclpp_dev_ctx_t ctx, mscclpp_dev_linger_block_t *block_state)
{
    mscclpp_dev_blocks_args_t *args = &block_state->blocks;
    const uint32_t *words = block_state->words;
    const uint32_t code = words[MSCCLPP_DEV_BELL_CODE], nranks = args->coll.common.nranks;
    uint32_t i;

    if ((code & MSCCLPP_DEV_BELL_LISTS) != 0) {
        for (i = ctx.tid; i < 2 * nranks; i += ctx.nthreads) {
            mscclpp_dev_block_t *block = i < nranks ? &args->send[i] : &args->recv[i - nranks];
            const uint32_t word = words[MSCCLPP_DEV_BELL_LIST + i];

            block->offset = MSCCLPP_DEV_BELL_BLOCK_OFFSET(word);
            block->bytes = MSCCLPP_DEV_BELL_BLOCK_BYTES(word);
        }
    } else if ((code & MSCCLPP_DEV_BELL_LONG_LISTS) != 0) {
        if (ctx.block == 0 && ctx.nblocks > 1) {
            mscclpp_dev_linger_relay_lists(&ctx, block_state);
        }
        MSCCLPP_DEV_ROLLED
        for (i = ctx.tid; i < 4 * nranks; i += ctx.nthreads) {
            const uint32_t index = MSCCLPP_DEV_BELL_LIST + i;

            mscclpp_dev_linger_store_list_word(
                args, nranks, i,
                ctx.block == 0 ? words[index] : mscclpp_dev_linger_await_list_word(&ctx, block_state, index));
        }
    } else {
        for (i = ctx.tid; i < 4 * nranks && ctx.tid < MSCCLPP_DEV_WARP; i += MSCCLPP_DEV_WARP) {
            mscclpp_dev_linger_store_list_word(args, nranks, i,
                                               mscclpp_dev_ld_relaxed_sys_u64(&args->coll.common.mailbox->lists[i]));
        }
    }
    if (ctx.tid == 0) {
        args->largest_block = args->coll.common.bytes;
        args->varied = MSCCLPP_DEV_VARIED;
    }
}

/*
 * Executes one operation of a collective other than all-reduce. The collective's arguments share memory with the
 * arguments of other kinds of operations. No kind relies on old contents of this memory: it writes its arguments before
 * each use, or never runs in the same kernel as a collective. Not inlined, so that the kernel's loop is little code for
 * the other operations.
 */
MSCCLPP_DEV_OUTLINE bool mscclpp_dev_linger_serve_coll(mscclpp_dev_ctx_t ctx, mscclpp_dev_linger_block_t *block_state)
{
    mscclpp_dev_blocks_args_t *args = &block_state->blocks;
    const uint32_t code = block_state->words[MSCCLPP_DEV_BELL_CODE],
                   coll_word = block_state->words[MSCCLPP_DEV_BELL_COLL];
    const uint32_t kernel = MSCCLPP_DEV_BELL_KERNEL(code);
    const bool is_varied = mscclpp_dev_linger_is_varied(kernel);
    const bool is_hot = MSCCLPP_DEV_FOLDS && MSCCLPP_DEV_BELL_DTYPE(code) == MSCCLPP_DTYPE_FLOAT32 &&
                        MSCCLPP_DEV_BELL_OP(code) == MSCCLPP_OP_SUM;
    mscclpp_dev_coll_args_t *coll = &args->coll;

    if (is_varied) {
        mscclpp_dev_linger_take_lists(ctx, block_state);
    }
    if (ctx.tid == 0) {
        coll->pattern = MSCCLPP_DEV_BELL_PATTERN(coll_word);
        coll->in_place = MSCCLPP_DEV_BELL_IN_PLACE(coll_word);
        coll->root = MSCCLPP_DEV_BELL_ROOT(coll_word);
        coll->stride = coll->common.bytes + MSCCLPP_DEV_BELL_PADDING(coll_word);
    }
    mscclpp_dev_block_sync(&ctx);
    switch (kernel) {
    case MSCCLPP_KERNEL_COLL_MOVE_PACKETS:
        return mscclpp_dev_linger_move(ctx, coll);
    case MSCCLPP_KERNEL_COLL_MOVE_BLOCKS:
        return mscclpp_dev_linger_move_blocks(ctx, args);
    case MSCCLPP_KERNEL_COLL_COMBINE_BLOCKS:
        return is_hot ? mscclpp_dev_linger_combine_blocks_float(ctx, args)
                      : mscclpp_dev_linger_combine_blocks(ctx, args);
    default:
        return is_hot ? mscclpp_dev_linger_combine_float(ctx, coll) : mscclpp_dev_linger_combine(ctx, coll);
    }
}

/* Runs the plan's program, which the kernel copied when it began. Not inlined, like the operations above. */
MSCCLPP_DEV_OUTLINE bool mscclpp_dev_linger_plan(mscclpp_dev_ctx_t ctx, mscclpp_dev_linger_block_t *block_state)
{
    const mscclpp_dev_plan_args_t *args = &block_state->plan;

    ctx.lingers = true;
    mscclpp_dev_plan_run(&ctx, args, &block_state->plan_copy, false, false, (int)args->common.dtype,
                         (int)args->common.op);
    return ctx.failed;
}

/* Runs the plan's program for sums of floats, with type and operation as constants. */
MSCCLPP_DEV_OUTLINE bool mscclpp_dev_linger_plan_float(mscclpp_dev_ctx_t ctx, mscclpp_dev_linger_block_t *block_state)
{
    ctx.lingers = true;
    mscclpp_dev_plan_run(&ctx, &block_state->plan, &block_state->plan_copy, false, true, (int)MSCCLPP_DTYPE_FLOAT32,
                         (int)MSCCLPP_OP_SUM);
    return ctx.failed;
}

/*
 * Executes one operation by the kernel's plan: fills in the arguments that depend on the call, and runs the program.
 * The kernel must have a plan, and the block must be one of the plan's blocks, because only these have copied their
 * program. The plan may use the input and output of this rank, which are filled in here, but not those of other ranks.
 * Not inlined, for the same reason as mscclpp_dev_linger_serve_coll.
 */
MSCCLPP_DEV_OUTLINE bool mscclpp_dev_linger_serve_plan(mscclpp_dev_ctx_t ctx, mscclpp_dev_linger_block_t *block_state)
{
    mscclpp_dev_plan_args_t *plan = &block_state->plan;

    if (ctx.tid == 0) {
        const uint64_t stride =
            block_state->args.bytes + MSCCLPP_DEV_BELL_PADDING(block_state->words[MSCCLPP_DEV_BELL_COLL]);

        plan->common.bytes = block_state->args.bytes;
        plan->common.dtype = block_state->args.dtype;
        plan->common.op = block_state->args.op;
        plan->common.release = block_state->args.release;
        plan->common.launches = block_state->args.launches;
        plan->common.epoch = block_state->args.epoch;
        plan->common.rung = block_state->args.rung;
        plan->bases[MSCCLPP_DEV_PLAN_BUFFERS * plan->rank + MSCCLPP_DEV_PLAN_INPUT] =
            (char *)(uintptr_t)block_state->args.in;
        plan->bases[MSCCLPP_DEV_PLAN_BUFFERS * plan->rank + MSCCLPP_DEV_PLAN_OUTPUT] = (char *)block_state->args.out;
        plan->chunk = MSCCLPP_DEV_PLAN_CHUNK(plan, stride);
        plan->packet_gap = MSCCLPP_DEV_PLAN_PACKET_GAP(plan);
        plan->stride = stride;
        plan->block_bytes = MSCCLPP_DEV_PLAN_BLOCK_BYTES(plan, stride, block_state->args.bytes);
    }
    mscclpp_dev_block_sync(&ctx);
    return MSCCLPP_DEV_FOLDS && plan->common.dtype == MSCCLPP_DTYPE_FLOAT32 && plan->common.op == MSCCLPP_OP_SUM
               ? mscclpp_dev_linger_plan_float(ctx, block_state)
               : mscclpp_dev_linger_plan(ctx, block_state);
}

/* Returns true for kernels whose packets take one epoch, which a lingering kernel has to count. */
MSCCLPP_DEV bool mscclpp_dev_linger_takes_epoch(uint32_t kernel)
{
    return kernel != MSCCLPP_KERNEL_PLAN && kernel != MSCCLPP_KERNEL_ALLREDUCE_ZEROCOPY &&
           kernel != MSCCLPP_KERNEL_ALLREDUCE_NODES && kernel != MSCCLPP_KERNEL_ALLREDUCE_ONESHOT_PUT;
}

#endif
