/*
 * The lingering kernel. It stays on the device after its operation, and serves further operations for which the host
 * rings.
 *
 * The first block polls the bell. An operation may need one block or several. The first block executes operations for
 * one block alone. It passes operations for several blocks on to all other blocks through the relay.
 *
 * Only the first block decides to leave. It decides after its last poll of the bell, and the kernel then writes `left`
 * to the mailbox. If the host sees `left`, but not the end of the operation for which it rang, the kernel will not
 * serve that operation, and the host launches a new kernel. No further agreement is needed. contrib/models/linger.pml
 * is a model of this protocol.
 *
 * All blocks report the end of an operation for several blocks. A block that takes no part reports the end at once. The
 * host waits for the reports of all blocks, because a report also says that the block has read the relay, which the
 * next operation overwrites.
 *
 * Each block counts the operations itself. It reads the counters in mscclpp_dev_state_t only for the operation that
 * came with the launch. The first block advances these counters for later kernels.
 *
 * The arguments of the launch hold several sets of the peers' buffers, for zero-copy operations, and the execution plan
 * that the kernel can run. The host cannot ring for an operation with other buffers or with another plan.
 *
 * Between two operations, the kernel waits for no other rank and stays no longer than its window. So it delays other
 * work on the device by at most the window.
 */
#ifndef MSCCLPP_DEVICE_KERN_LINGER_H
#define MSCCLPP_DEVICE_KERN_LINGER_H

#include "device/kern/linger_brief.h"
#include "device/kern/linger_brief_coll.h"
#include "device/kern/linger_serve.h"
#include "device/kern/plan/run.h"
#include "device/types/linger.h"

/*
 * Stores the payload of one word of the bell in the block's own memory. Also sets the arguments of the next operation
 * that the word contains. `index` is the word's number, MSCCLPP_DEV_BELL_*.
 */
MSCCLPP_DEV void mscclpp_dev_linger_store_word(mscclpp_dev_linger_block_t *block_state, uint32_t index,
                                               uint32_t payload)
{
    if (index <= MSCCLPP_DEV_BELL_BYTES) {
        ((mscclpp_dev_word_t *)&block_state->args)[index] = payload; /* the arguments begin like the bell */
    } else if (index == MSCCLPP_DEV_BELL_CODE) {
        block_state->args.dtype = MSCCLPP_DEV_BELL_DTYPE(payload);
        block_state->args.op = MSCCLPP_DEV_BELL_OP(payload);
        block_state->args.release = MSCCLPP_DEV_BELL_RELEASE(payload);
    }
    block_state->words[index] = payload;
}

/*
 * Returns the number of words to read for an operation with the word CODE `code`: up to the end of the operation's
 * lists, and at least the bell's first line.
 */
MSCCLPP_DEV uint32_t mscclpp_dev_linger_words_end(uint32_t nranks, uint32_t code)
{
    const uint32_t end = (code & MSCCLPP_DEV_BELL_LONG_LISTS) != 0 ? MSCCLPP_DEV_BELL_LONG_END(nranks)
                         : (code & MSCCLPP_DEV_BELL_LISTS) != 0    ? MSCCLPP_DEV_BELL_SHORT_END(nranks)
                                                                   : 0;

    return end > MSCCLPP_DEV_BELL_LINE ? end : (uint32_t)MSCCLPP_DEV_BELL_LINE;
}

/*
 * Reads the bell's first *words_end words once. Called by the listening threads, which are the block's first warp.
 * Returns true, in all of these threads, if all words of operation `number` have arrived; block_state then holds them.
 * If only some words have arrived, takes them and takes them again at the next look, which does no harm. The word CODE
 * says whether the operation has lists; if lists lie beyond *words_end, raises *words_end for the next look. In the
 * thread that reads the word LEAVE, sets *leave to true if the host tells this kernel, number `kernel`, to leave, and
 * otherwise to false. In the other threads, *leave does not change.
 */
MSCCLPP_DEV bool mscclpp_dev_linger_listen(const mscclpp_dev_ctx_t *ctx, const uint64_t *bell,
                                           mscclpp_dev_linger_block_t *block_state, uint32_t nranks,
                                           uint32_t *words_end, uint64_t number, uint64_t kernel, bool *leave)
{
    const uint32_t short_end = MSCCLPP_DEV_BELL_SHORT_END(nranks), long_end = MSCCLPP_DEV_BELL_LONG_END(nranks);
    bool is_missing = false, wants_lists = false, wants_long = false;
    bool lacks_short = *words_end < short_end, lacks_rest = *words_end < long_end; /* rest: words of long lists only */
    uint32_t index;

    /*
     * The loads acquire, so that the operands are visible: the host had them ready before it rang. The words are
     * evaluated without branches, because each jump may have to fetch code.
     */
    MSCCLPP_DEV_ROLLED
    for (index = ctx->tid; index < *words_end; index += MSCCLPP_DEV_WARP) {
        const uint64_t word = mscclpp_dev_ld_acquire_sys_u64(&bell[index]);
        const bool is_new = (uint32_t)(word >> 32) == (uint32_t)number;

        *leave = index == MSCCLPP_DEV_BELL_LEAVE ? word == kernel : *leave;
        is_missing = is_missing || (!is_new && index < MSCCLPP_DEV_BELL_LEAVE);
        lacks_short = lacks_short || (!is_new && index >= MSCCLPP_DEV_BELL_LIST && index < short_end);
        lacks_rest = lacks_rest || (!is_new && index >= short_end && index < long_end);
        if (is_new && index == MSCCLPP_DEV_BELL_CODE) {
            wants_lists = (word & (MSCCLPP_DEV_BELL_LISTS | MSCCLPP_DEV_BELL_LONG_LISTS)) != 0;
            wants_long = (word & MSCCLPP_DEV_BELL_LONG_LISTS) != 0;
        }
        if (is_new && index != MSCCLPP_DEV_BELL_LEAVE) {
            mscclpp_dev_linger_store_word(block_state, index, (uint32_t)word);
        }
    }
    if (mscclpp_dev_warp_or(is_missing)) {
        return false;
    }
    if (!mscclpp_dev_warp_or(wants_lists)) {
        return true;
    }
    wants_long = mscclpp_dev_warp_or(wants_long);
    *words_end =
        mscclpp_dev_linger_words_end(nranks, wants_long ? MSCCLPP_DEV_BELL_LONG_LISTS : MSCCLPP_DEV_BELL_LISTS);
    return !mscclpp_dev_warp_or(lacks_short || (wants_long && lacks_rest));
}

/*
 * Returns true if all blocks have ended their last operation. They have then read the operation's words from the relay,
 * and the first block may write the quit word over these words. Called by the listening threads.
 *
 * Each block ends its operation sooner or later, even if the operation fails, because waits inside an operation have a
 * deadline. The other blocks wait for the relay without a deadline, as in a barrier of the kernel, because the first
 * block always writes to the relay before it leaves.
 */
MSCCLPP_DEV bool mscclpp_dev_linger_all_ended(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_linger_args_t *args,
                                              const mscclpp_dev_linger_block_t *block_state)
{
    const mscclpp_dev_mailbox_t *mailbox = args->common.mailbox;
    bool have_ended = true;
    uint32_t block;

    MSCCLPP_DEV_ROLLED
    for (block = ctx->tid; block < ctx->nblocks && have_ended; block += MSCCLPP_DEV_WARP) {
        const uint64_t *word = &mailbox->ended[block];

        have_ended = mscclpp_dev_ld_acquire_sys_u64(word) >=
                     (block == 0 ? block_state->args.launches + 1 : block_state->last_wide);
    }
    return !mscclpp_dev_warp_or(!have_ended);
}

/* Counts the operation that the bell has announced. The previous operation has ended. Called by thread 0 alone. */
MSCCLPP_DEV void mscclpp_dev_linger_count(mscclpp_dev_linger_block_t *block_state)
{
    ++block_state->args.launches;
    block_state->args.rung = 1;
}

/*
 * Returns true if the operation that has arrived is for the first block alone, and brief for the threads that have
 * these `limits`.
 */
MSCCLPP_DEV bool mscclpp_dev_linger_is_for_first(const mscclpp_dev_linger_block_t *block_state,
                                                 const mscclpp_dev_brief_limits_t *limits)
{
    const uint32_t code = block_state->words[MSCCLPP_DEV_BELL_CODE];
    const bool is_brief = mscclpp_dev_linger_is_brief(&block_state->args, code, limits);

    return MSCCLPP_DEV_BELL_BLOCKS(code) == 1 && is_brief;
}

/*
 * Serves an operation for which mscclpp_dev_linger_is_for_first is true, and counts its epoch. With `whole_block`,
 * called by all threads of the first block; otherwise, by the listening threads alone. `launches` is the number of
 * operations that have ended, and `row_shift` is limits.row_shift for the calling threads. If a thread fails, sets
 * ctx->failed in all calling threads, and block_state->failed. Thread 0 may advance the epoch at the end, because all
 * calling threads have read the epoch when the operation's function returns.
 */
MSCCLPP_DEV void mscclpp_dev_linger_serve_first(mscclpp_dev_ctx_t *ctx, mscclpp_dev_linger_block_t *block_state,
                                                uint32_t row_shift, uint64_t launches, bool whole_block)
{
    const uint32_t code = block_state->words[MSCCLPP_DEV_BELL_CODE];
    const uint32_t coll_word = block_state->words[MSCCLPP_DEV_BELL_COLL];
    mscclpp_dev_ctx_t first_block_ctx = *ctx;

    first_block_ctx.nblocks = 1;
    if (MSCCLPP_DEV_BELL_KERNEL(code) == MSCCLPP_KERNEL_ALLREDUCE_ONESHOT) {
        ctx->failed = mscclpp_dev_linger_serve_brief(&first_block_ctx, &block_state->args, launches, true, whole_block);
    } else {
        ctx->failed = mscclpp_dev_linger_serve_brief_coll(
            first_block_ctx, &block_state->args, coll_word, &block_state->words[MSCCLPP_DEV_BELL_LIST],
            (code & MSCCLPP_DEV_BELL_LISTS) != 0, row_shift, launches, whole_block);
    }
    mscclpp_dev_ctx_renew(ctx);
    if (ctx->failed) {
        mscclpp_dev_st_relaxed_block_u32(&block_state->failed, 1);
    }
    if (ctx->tid == 0) {
        ++block_state->args.epoch;
    }
}

/*
 * Polls the bell and serves brief operations. Called by the listening threads. They serve an operation alone if it is
 * brief enough, and otherwise together with the block's other threads, which wait in mscclpp_dev_linger_await_bell.
 * Returns true when an operation has arrived that is not brief. Returns false when the kernel has to leave: the host
 * says so, the kernel's time is over, or the period ends (MSCCLPP_DEV_LINGER_PERIOD). Not inlined, for the same reason
 * as the operations of linger_serve.h.
 */
MSCCLPP_DEV_OUTLINE bool mscclpp_dev_linger_listen_long(mscclpp_dev_ctx_t ctx, const mscclpp_dev_linger_args_t *args,
                                                        mscclpp_dev_linger_block_t *block_state)
{
    /* Local copies, because kernel arguments, like all other memory, leave the cache at each look at the bell. */
    const uint64_t *bell = args->common.mailbox->bell;
    const uint64_t kernel = args->number, idle_ns = args->idle_ns;
    const uint64_t window_end_ns = block_state->started_ns + args->window_ns;
    const mscclpp_dev_brief_limits_t limits = mscclpp_dev_brief_limits(&block_state->args, MSCCLPP_DEV_WARP);
    const mscclpp_dev_brief_limits_t block_limits = mscclpp_dev_brief_limits(&block_state->args, ctx.nthreads);
    const uint32_t nranks = block_state->args.nranks;
    uint64_t number = block_state->args.launches + 2;

    for (;; ++number) {
        const uint64_t now_ns = mscclpp_dev_now_ns();
        uint64_t leave_at_ns = now_ns + idle_ns < window_end_ns ? now_ns + idle_ns : window_end_ns;
        uint32_t words_end = mscclpp_dev_linger_words_end(nranks, block_state->words[MSCCLPP_DEV_BELL_CODE]);
        bool leaves = false, whole_block;

        leave_at_ns = number % MSCCLPP_DEV_LINGER_PERIOD == 0 ? now_ns : leave_at_ns;
        while (!mscclpp_dev_linger_listen(&ctx, bell, block_state, nranks, &words_end, number, kernel, &leaves)) {
            leaves = leaves || (ctx.tid == 0 && mscclpp_dev_now_ns() >= leave_at_ns);
            if (mscclpp_dev_warp_or(leaves) && mscclpp_dev_linger_all_ended(&ctx, args, block_state)) {
                return false;
            }
            leaves = false;
            mscclpp_dev_pause(&ctx);
        }
        mscclpp_dev_warp_meet(); /* all threads see the words that each thread has taken */
        whole_block = !mscclpp_dev_linger_is_for_first(block_state, &limits);
        if (whole_block && !mscclpp_dev_linger_is_for_first(block_state, &block_limits)) {
            return true;
        }
        if (ctx.tid == 0) {
            block_state->heard = true;
            mscclpp_dev_linger_count(block_state);
        }
        if (whole_block) {
            mscclpp_dev_block_sync(&ctx); /* with the other threads, in mscclpp_dev_linger_await_bell */
        }
        mscclpp_dev_linger_serve_first(&ctx, block_state, whole_block ? block_limits.row_shift : limits.row_shift,
                                       number - 1, whole_block);
    }
}

/*
 * Waits for the bell in the first block, and serves brief operations. Called by all threads of the block. Returns true,
 * in all threads, when an operation has arrived that is not brief, and false when the kernel has to leave. Only one
 * warp polls, so that a poll needs no barrier of the block. The barrier publishes to the other threads what that warp
 * has received. The previous operation has ended, so it is counted whether or not another one follows.
 */
MSCCLPP_DEV bool mscclpp_dev_linger_await_bell(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_linger_args_t *args,
                                               mscclpp_dev_linger_block_t *block_state)
{
    const mscclpp_dev_brief_limits_t limits = mscclpp_dev_brief_limits(&block_state->args, ctx->nthreads);

    if (ctx->tid < MSCCLPP_DEV_WARP) {
        const bool has_heard = mscclpp_dev_linger_listen_long(*ctx, args, block_state);

        mscclpp_dev_ctx_renew(ctx);
        if (ctx->tid == 0) {
            block_state->heard = has_heard;
            mscclpp_dev_linger_count(block_state);
        }
        mscclpp_dev_block_sync(ctx);
        return has_heard;
    }
    for (;;) {
        mscclpp_dev_block_sync(ctx);
        if (block_state->heard == 0 || !mscclpp_dev_linger_is_for_first(block_state, &limits)) {
            return block_state->heard != 0;
        }
        ctx->failed = mscclpp_dev_ld_relaxed_block_u32(&block_state->failed) != 0;
        mscclpp_dev_linger_serve_first(ctx, block_state, limits.row_shift, block_state->args.launches, true);
    }
}

/*
 * The number of loop indices of mscclpp_dev_linger_relay for each block's words. A power of 2, for fast divisions, and
 * at least MSCCLPP_DEV_RELAY_WORDS.
 */
#define MSCCLPP_DEV_RELAY_STRIDE 8u

/*
 * Passes the words that the first block has taken from the bell (block_state->words) on to the other blocks, with the
 * epoch before the operation. With `quits`, tells the other blocks to leave the kernel. Called by all threads of the
 * first block. block_state->words must not change before the block's next barrier, because other threads may still read
 * them.
 *
 * The upper half of each word of the relay is the operation's place: its number, counted from 0 at the kernel's first
 * operation. A block takes a word of the relay as new if the word's place is not the place of the block's last
 * operation.
 */
MSCCLPP_DEV void mscclpp_dev_linger_relay(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_linger_args_t *args,
                                          mscclpp_dev_linger_block_t *block_state, bool quits)
{
    const uint64_t number = block_state->args.launches + 1, place = (uint32_t)(number - args->number);
    const bool is_cluster = mscclpp_dev_cluster_size(ctx) > 1;
    const uint32_t stores = MSCCLPP_DEV_RELAY_STRIDE * (is_cluster ? ctx->nblocks - 1 : 1);
    uint32_t i;

    /* In a cluster, each word for each block has a thread of its own, if there are enough threads. */
    for (i = ctx->tid; i < stores; i += ctx->nthreads) {
        const uint32_t index = i % MSCCLPP_DEV_RELAY_STRIDE, block = 1 + i / MSCCLPP_DEV_RELAY_STRIDE;

        if (index < MSCCLPP_DEV_RELAY_WORDS) {
            const uint32_t payload = quits                              ? MSCCLPP_DEV_BELL_QUIT
                                     : index == MSCCLPP_DEV_RELAY_EPOCH ? block_state->args.epoch
                                                                        : block_state->words[index];
            const uint64_t word = place << 32 | payload;

            if (is_cluster) {
                mscclpp_dev_st_relay_cluster_u64(ctx, &block_state->relay[index], block, word);
            } else {
                mscclpp_dev_st_relay_gpu_u64(&args->common.state->relay[index], word);
            }
        }
    }
    if (ctx->tid == 0) {
        block_state->last_wide = number;
    }
}

/*
 * Waits for the next words of the relay in one of the other blocks, and takes them. Called by all threads; each thread
 * waits for some of the words. Returns false when the kernel has to leave. Operations that the first block executes
 * alone do not reach the other blocks. So the operation's number comes from a word's place, and the epoch has a word of
 * its own. The block's own place changes after the barrier, when all threads have compared their words with the old
 * place.
 */
MSCCLPP_DEV bool mscclpp_dev_linger_await_relay(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_linger_args_t *args,
                                                mscclpp_dev_linger_block_t *block_state)
{
    const bool is_cluster = mscclpp_dev_cluster_size(ctx) > 1;
    const uint32_t last_place = block_state->place;
    uint32_t index;

    for (index = ctx->tid; index < MSCCLPP_DEV_RELAY_WORDS; index += ctx->nthreads) {
        uint64_t word;

        /* A word with the place of the last operation has not been written since that operation. */
        while (word = is_cluster ? mscclpp_dev_ld_acquire_cluster_u64(&block_state->relay[index])
                                 : mscclpp_dev_ld_acquire_gpu_u64(&args->common.state->relay[index]),
               (uint32_t)(word >> 32) == last_place) {
            mscclpp_dev_pause(ctx);
        }
        if (index == MSCCLPP_DEV_RELAY_EPOCH) {
            block_state->args.launches = args->number - 1 + (uint32_t)(word >> 32);
            block_state->args.epoch = (uint32_t)word;
            block_state->args.rung = 1;
        } else {
            mscclpp_dev_linger_store_word(block_state, index, (uint32_t)word);
        }
    }
    mscclpp_dev_block_sync(ctx);
    if (ctx->tid == 0) {
        block_state->place = (uint32_t)(block_state->args.launches + 1 - args->number);
    }
    return block_state->words[MSCCLPP_DEV_BELL_CODE] != MSCCLPP_DEV_BELL_QUIT;
}

/*
 * Executes the operation with the word CODE `code`. Called by all threads of all blocks. Blocks that do not take part
 * only report the end. They report nothing if the operation is for the first block alone, because the host then waits
 * only for the first block's report. If a thread fails, sets its ctx->failed, and block_state->failed, by which all
 * threads of the block learn of the failure before the next operation.
 */
MSCCLPP_DEV void mscclpp_dev_linger_serve(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_linger_args_t *args,
                                          mscclpp_dev_linger_block_t *block_state, uint32_t code)
{
    const uint32_t kernel = MSCCLPP_DEV_BELL_KERNEL(code);
    mscclpp_dev_brief_limits_t limits = {0, 0, 0}; /* 0: here, no collective but all-reduce is brief */
    mscclpp_dev_ctx_t op_ctx = *ctx;

    op_ctx.nblocks = MSCCLPP_DEV_BELL_BLOCKS(code);
    limits.allreduce = mscclpp_dev_brief_max_bytes(&block_state->args, op_ctx.nblocks * op_ctx.nthreads);
    if (op_ctx.block >= op_ctx.nblocks) {
        if (op_ctx.tid == 0 && op_ctx.nblocks > 1) {
            mscclpp_dev_st_release_sys_u64(&block_state->args.mailbox->ended[op_ctx.block],
                                           block_state->args.launches + 1);
        }
        /* After this barrier, the description of this operation may be overwritten. */
        mscclpp_dev_block_sync(&op_ctx);
        return;
    }
    if (mscclpp_dev_linger_is_brief(&block_state->args, code, &limits)) {
        ctx->failed = mscclpp_dev_linger_serve_brief(&op_ctx, &block_state->args, block_state->args.launches,
                                                     block_state->args.rung != 0, true);
    } else if (kernel == MSCCLPP_KERNEL_ALLREDUCE_ZEROCOPY) {
        ctx->failed = mscclpp_dev_linger_serve_zerocopy(&op_ctx, &args->sets[MSCCLPP_DEV_BELL_VARIANT(code)],
                                                        &block_state->zerocopy, code);
    } else if (kernel == MSCCLPP_KERNEL_ALLREDUCE_ONESHOT_PUT) {
        ctx->failed = mscclpp_dev_linger_serve_put(&op_ctx, &block_state->args, code);
    } else if (kernel == MSCCLPP_KERNEL_PLAN) {
        ctx->failed = mscclpp_dev_linger_serve_plan(op_ctx, block_state);
    } else if (kernel == MSCCLPP_KERNEL_COLL_MOVE_PACKETS || kernel == MSCCLPP_KERNEL_COLL_COMBINE_PACKETS ||
               mscclpp_dev_linger_is_varied(kernel)) {
        ctx->failed = mscclpp_dev_linger_serve_coll(op_ctx, block_state);
    } else if (kernel == MSCCLPP_KERNEL_ALLREDUCE_NODES || kernel == MSCCLPP_KERNEL_ALLREDUCE_NODES_PACKETS) {
        if (op_ctx.tid == 0) {
            block_state->nodes.pattern = MSCCLPP_DEV_BELL_VARIANT(code);
        }
        mscclpp_dev_block_sync(&op_ctx);
        ctx->failed = kernel == MSCCLPP_KERNEL_ALLREDUCE_NODES
                          ? mscclpp_dev_linger_nodes(op_ctx, &block_state->nodes)
                          : mscclpp_dev_linger_nodes_packets(op_ctx, &block_state->nodes);
    } else {
        ctx->failed = mscclpp_dev_linger_serve_packets(&op_ctx, &block_state->args, code);
    }
    if (ctx->failed) {
        mscclpp_dev_st_relaxed_block_u32(&block_state->failed, 1);
    }
    /*
     * Only the first block counts the epoch. The other blocks read it from the relay, possibly before all of their
     * threads are here.
     */
    if (op_ctx.block == 0 && op_ctx.tid == 0 && mscclpp_dev_linger_takes_epoch(kernel)) {
        ++block_state->args.epoch;
    }
}

/*
 * Leaves the kernel. Called by all threads, as their last call. The last block to leave resets the relay, because the
 * next kernel counts places from 0 again. This block then tells the host, which must not start another lingering kernel
 * while the relay is in use.
 *
 * In a cluster, all blocks meet, and the first block tells the host. No block leaves before it has read all words that
 * the first block writes into its memory.
 */
MSCCLPP_DEV void mscclpp_dev_linger_leave(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_linger_args_t *args)
{
    mscclpp_dev_state_t *state = args->common.state;
    uint32_t i;

    mscclpp_dev_block_sync(ctx);
    if (mscclpp_dev_cluster_size(ctx) > 1) {
        mscclpp_dev_cluster_sync(ctx);
        if (ctx->block == 0 && ctx->tid == 0) {
            mscclpp_dev_st_release_sys_u64(&args->common.mailbox->left, args->number);
        }
        return;
    }
    if (ctx->tid != 0 ||
        (ctx->nblocks > 1 && mscclpp_dev_atom_acq_rel_gpu_add_u32(&state->leavers, 1) + 1 != ctx->nblocks)) {
        return;
    }
    state->leavers = 0;
    for (i = 0; i < MSCCLPP_DEV_BELL_SIZE; ++i) {
        state->relay[i] = 0;
    }
    mscclpp_dev_st_release_sys_u64(&args->common.mailbox->left, args->number);
}

/*
 * Runs the kernel: serves the operation of the launch, and then the operations for which the host rings. `block_state`
 * is in memory that the block's threads share; its contents at the beginning do not matter. After a failure the kernel
 * still answers the bell, but its operations send nothing, because each of them begins with the block's ctx->failed.
 */
MSCCLPP_DEV void mscclpp_dev_linger(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_linger_args_t *args,
                                    mscclpp_dev_linger_block_t *block_state)
{
    bool stays = true;
    uint32_t i;

    for (i = ctx->tid; i < MSCCLPP_DEV_BELL_SIZE; i += ctx->nthreads) {
        block_state->relay[i] = 0;
    }
    /* The plan's own arguments and program. Its common arguments are set below, and by each operation. */
    if (args->plan != NULL) {
        mscclpp_dev_plan_copy(ctx, (char *)&block_state->plan + sizeof(block_state->plan.common),
                              (const char *)args->plan + sizeof(block_state->plan.common),
                              sizeof(block_state->plan) - sizeof(block_state->plan.common));
        if (ctx->block < args->plan_blocks) {
            mscclpp_dev_plan_load_program(ctx, args->plan, &block_state->plan_copy);
        }
    }
    /*
     * The first block writes into the memory of the other blocks, each of which must have cleared its words before. A
     * block that takes part in the first operation has cleared them, because the first block writes only after that
     * operation. The other blocks need this barrier.
     */
    if (mscclpp_dev_cluster_size(ctx) > 1 && MSCCLPP_DEV_BELL_BLOCKS(args->code) < ctx->nblocks) {
        mscclpp_dev_cluster_sync(ctx);
    }
    if (ctx->tid == 0) {
        if (args->spans != 0) {
            block_state->nodes = args->nodes;
        } else {
            block_state->args = args->common;
            block_state->plan.common = args->common;
        }
        block_state->args.launches = args->number - 1;
        block_state->args.rung = 0;
        /* Blocks that take no part in the first operation get the epoch with the next operation. */
        if (ctx->block < MSCCLPP_DEV_BELL_BLOCKS(args->code)) {
            block_state->args.epoch = args->common.state->progress[ctx->block].epoch;
        }
        block_state->failed = mscclpp_dev_ld_relaxed_sys_u64(&args->common.state->failed) != 0;
        block_state->started_ns = mscclpp_dev_now_ns();
        block_state->last_wide = MSCCLPP_DEV_BELL_BLOCKS(args->code) > 1 ? args->number : 0;
        block_state->place = 0;
        block_state->words[MSCCLPP_DEV_BELL_CODE] = args->code;
        block_state->words[MSCCLPP_DEV_BELL_COLL] = args->coll;
    }
    mscclpp_dev_block_sync(ctx);
    ctx->failed = block_state->failed != 0;
    while (stays) {
        const uint32_t code = block_state->words[MSCCLPP_DEV_BELL_CODE];

        mscclpp_dev_linger_serve(ctx, args, block_state, code);
        mscclpp_dev_ctx_renew(ctx);
        if (ctx->block == 0) {
            stays = mscclpp_dev_linger_await_bell(ctx, args, block_state);
            if (ctx->nblocks > 1 &&
                (!stays || MSCCLPP_DEV_BELL_BLOCKS(block_state->words[MSCCLPP_DEV_BELL_CODE]) > 1)) {
                mscclpp_dev_linger_relay(ctx, args, block_state, !stays);
            }
        } else {
            stays = mscclpp_dev_linger_await_relay(ctx, args, block_state);
        }
        ctx->failed = mscclpp_dev_ld_relaxed_block_u32(&block_state->failed) != 0;
    }
    mscclpp_dev_linger_leave(ctx, args);
}

#endif
