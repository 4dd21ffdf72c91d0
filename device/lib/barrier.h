/*
 * Barriers, in which block i meets block i of each other rank. The beginning and the end of an operation: its flags,
 * its counters, and its report to the host.
 */
#ifndef MSCCLPP_DEVICE_LIB_BARRIER_H
#define MSCCLPP_DEVICE_LIB_BARRIER_H

#include "device/lib/wait.h"

/* Returns the barrier words of a rank, which are at the head of its scratch. */
MSCCLPP_DEV mscclpp_dev_sync_t *mscclpp_dev_sync_of(const mscclpp_dev_args_t *args, uint32_t rank)
{
    return (mscclpp_dev_sync_t *)args->scratch[rank];
}

/*
 * Waits until the blocks with this block's number on all other ranks have entered barrier number `count`, counted over
 * the team's life. Called by all threads of the block. Afterwards all threads see what any thread of the other blocks
 * wrote before the barrier. If a thread gives up, sets ctx->failed in all threads of the block. A thread that had
 * failed before sends its peers nothing.
 *
 * Each counter has only one writer, so a plain store is enough. With several writers, each barrier would need an atomic
 * addition in the peer's memory. The block synchronises before the store, so the store releases the writes of the whole
 * block.
 */
MSCCLPP_DEV void mscclpp_dev_barrier(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args, uint64_t count)
{
    const mscclpp_dev_sync_t *own_sync = mscclpp_dev_sync_of(args, args->rank);
    mscclpp_dev_wait_t wait = {0, 0};
    uint32_t peer;

    mscclpp_dev_block_sync(ctx);
    for (peer = ctx->tid; peer < args->nranks; peer += ctx->nthreads) {
        if (peer != args->rank && !ctx->failed) {
            mscclpp_dev_st_release_sys_u64(&mscclpp_dev_sync_of(args, peer)->arrived[ctx->block][args->rank], count);
        }
    }
    for (peer = ctx->tid; peer < args->nranks; peer += ctx->nthreads) {
        if (peer == args->rank) {
            continue;
        }
        while (mscclpp_dev_ld_acquire_sys_u64(&own_sync->arrived[ctx->block][peer]) < count) {
            if (!mscclpp_dev_wait_turn(ctx, args, &wait, peer)) {
                break;
            }
        }
    }
    ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
}

/*
 * Returns the number of the team's earlier operations, all of which have ended. A lingering kernel counts for itself.
 */
MSCCLPP_DEV uint64_t mscclpp_dev_last_launch(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args)
{
    return ctx->lingers ? args->launches : args->state->progress[ctx->block].launches;
}

/*
 * Marks the thread as failed if an earlier operation gave up. Called before the thread sends anything: the operands may
 * be results of the failed operation, and peers would take this operation's packets for packets that the failed one
 * never sent. The host cannot check this, because the operation may have been in the stream already when the earlier
 * operation failed. A lingering kernel checks only once, before its first operation.
 */
MSCCLPP_DEV void mscclpp_dev_recall_failure(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args)
{
    /* Each block reads the word for itself, because another block may give up at this moment. */
    ctx->failed = ctx->failed || (!ctx->lingers && mscclpp_dev_ld_relaxed_sys_u64(&args->state->failed) != 0);
}

/*
 * Waits until all blocks of this rank have called this function. Called by all threads. Afterwards each block sees what
 * all blocks wrote before the call. If a thread gives up, sets ctx->failed in all threads of its block. All blocks of
 * the grid must be on the device at the same time.
 *
 * A turn is one passage of all blocks. A block reads the number of turns before it counts itself, so that the turn
 * cannot end in between. The last block to arrive resets the count before it ends the turn, because other blocks may
 * enter the next gate at once.
 */
MSCCLPP_DEV void mscclpp_dev_gate(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args)
{
    mscclpp_dev_state_t *state = args->state;
    mscclpp_dev_wait_t wait = {0, 0};

    mscclpp_dev_block_sync(ctx);
    if (ctx->tid == 0 && !ctx->failed) {
        const uint64_t turns = mscclpp_dev_ld_acquire_gpu_u64(&state->gate_turns);

        if (mscclpp_dev_atom_acq_rel_gpu_add_u32(&state->gate_count, 1) == ctx->nblocks - 1) {
            (void)mscclpp_dev_atom_acq_rel_gpu_add_u32(&state->gate_count, 0 - ctx->nblocks);
            mscclpp_dev_st_release_sys_u64(&state->gate_turns, turns + 1);
        } else {
            while (mscclpp_dev_ld_acquire_gpu_u64(&state->gate_turns) == turns) {
                if (!mscclpp_dev_wait_turn(ctx, args, &wait, args->rank)) {
                    break;
                }
            }
        }
    }
    ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
}

/*
 * Renews the packet flags: clears this rank's packets, so that flags start again at 0. All ranks renew them in the same
 * queued operation, before its first packet. Called by all threads of the grid. If a wait fails, sets ctx->failed, and
 * some packets may not be cleared.
 *
 * No packet of this operation is cleared:
 *   1. After the first barrier, peers send no more packets of earlier operations, which have all ended there.
 *   2. After the gate, all packets of this rank are cleared.
 *   3. After the second barrier, those of all ranks are.
 */
MSCCLPP_DEV_OUTLINE void mscclpp_dev_renew(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args)
{
    /* The packet area and, if there is one, the LL128 area. */
    const uint64_t word_count = (args->bulk_offset - MSCCLPP_DEV_PACKET_OFFSET) / sizeof(uint64_t);
    const uint64_t barriers_before = args->state->barrier[ctx->block];
    uint64_t *words = (uint64_t *)(void *)(args->scratch[args->rank] + MSCCLPP_DEV_PACKET_OFFSET);
    uint64_t i;

    mscclpp_dev_barrier(ctx, args, barriers_before + 1);
    for (i = ctx->block * ctx->nthreads + ctx->tid; i < word_count && !ctx->failed; i += ctx->nblocks * ctx->nthreads) {
        mscclpp_dev_st_relaxed_sys_u64(&words[i], 0);
    }
    mscclpp_dev_gate(ctx, args);
    mscclpp_dev_barrier(ctx, args, barriers_before + 2);
    if (ctx->tid == 0) {
        args->state->barrier[ctx->block] = barriers_before + 2;
    }
}

/*
 * Returns the flag (epoch) of the last packets that were sent. If a queued operation needs more flags than are left,
 * renews the flags first. For other operations epoch_limit is 0, because the host renews the flags for them. Also sets
 * ctx->failed if an earlier operation gave up. Called by all threads of the grid.
 *
 * A kernel that uses flags calls mscclpp_dev_enter before, because a renewal stores data. A kernel without flags
 * (`epochs` is 0) never renews them, so it may call the two functions in any order.
 */
MSCCLPP_DEV uint32_t mscclpp_dev_last_epoch(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args)
{
    uint32_t epoch;

    mscclpp_dev_recall_failure(ctx, args);
    if (ctx->lingers) {
        return args->epoch;
    }
    epoch = args->state->progress[ctx->block].epoch;
    if (args->epoch_limit != 0 && epoch + args->epochs > args->epoch_limit) {
        mscclpp_dev_renew(ctx, args);
        epoch = 0;
    }
    return epoch;
}

/*
 * Counts a queued operation as running in this block, before it sends or stores data; does nothing for others.
 * Called by all threads. Two queued operations of a team must not run at the same time, because they would use the same
 * flags and memory. mscclpp_dev_finish finds out whether they did.
 */
MSCCLPP_DEV void mscclpp_dev_enter(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args)
{
    if (args->epoch_limit != 0 && ctx->tid == 0) {
        (void)mscclpp_dev_atom_relaxed_gpu_add_u64(&args->running[ctx->block], 1);
    }
}

/*
 * Takes back what mscclpp_dev_enter has counted. Called by one thread of the block. Returns false if another queued
 * operation of the team runs in a block of this number at this moment, so that the two operations overlap.
 */
MSCCLPP_DEV bool mscclpp_dev_exit(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args)
{
    return mscclpp_dev_atom_relaxed_gpu_add_u64(&args->running[ctx->block], ~(uint64_t)0) == 1;
}

/*
 * Returns the number of barriers that the block has passed in the team's life. Also sets ctx->failed if an earlier
 * operation gave up.
 */
MSCCLPP_DEV uint64_t mscclpp_dev_last_barrier(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args)
{
    mscclpp_dev_recall_failure(ctx, args);
    return args->state->barrier[ctx->block];
}

/*
 * Reports to the host that the block has ended its operation: stores `launches`, the number of operations that have
 * ended, in the block's word of the mailbox. Called by one thread, after the block has synchronised. args->release says
 * who must see the results by then, and so which earlier stores the report has to wait for.
 */
MSCCLPP_DEV void mscclpp_dev_report_end(const mscclpp_dev_args_t *args, uint32_t block, uint64_t launches)
{
    uint64_t *word = &args->mailbox->ended[block];

    if (args->release == MSCCLPP_DEV_RELEASE_STREAM) {
        mscclpp_dev_st_relaxed_sys_u64(word, launches);
    } else if (args->release == MSCCLPP_DEV_RELEASE_DEVICE) {
        mscclpp_dev_st_release_home_u64(word, launches);
    } else {
        mscclpp_dev_st_release_sys_u64(word, launches);
    }
}

/*
 * Writes `after` to the `progress` of other blocks; mscclpp_dev_state_t says why. Each block of the grid writes its
 * share of the blocks that take no part in the operation. If the operation came by the bell (`is_rung`), the first
 * block writes all other blocks. Called by all threads. The threads with the highest numbers write first, because short
 * messages leave them idle.
 */
MSCCLPP_DEV void mscclpp_dev_advance_others(const mscclpp_dev_ctx_t *ctx, mscclpp_dev_state_t *state, bool is_rung,
                                            mscclpp_dev_progress_t after)
{
    const uint32_t step = is_rung ? 1 : ctx->nblocks;
    uint32_t block;

    if (is_rung && ctx->block != 0) {
        return;
    }
    for (block = ctx->block + (ctx->nthreads - ctx->tid) * step; block < MSCCLPP_DEV_MAX_BLOCKS;
         block += ctx->nthreads * step) {
        state->progress[block] = after;
    }
}

/*
 * Ends an operation: each block advances its part of the state and reports the end to the host. Called by all threads,
 * whether they have failed or not. If a thread has failed, sets ctx->failed in all threads of its block.
 *
 * If a thread has failed, or if another queued operation ran at the same time, all later operations of the team give up
 * at once (mscclpp_dev_recall_failure). The second case is also reported in the mailbox. The end is reported last,
 * because the host may start the next operation as soon as it sees the reports of all blocks.
 *
 * `launches` is the result of mscclpp_dev_last_launch; most callers read it at the beginning, where this takes no extra
 * time. `epoch` is the flag of the last packets, or the state's flag if there were none. `barriers_before` and
 * `barriers` are the numbers of barriers that the block had passed before and after this operation. If the operation
 * passes no barrier, they may be any two equal numbers.
 */
MSCCLPP_DEV void mscclpp_dev_finish(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args, uint64_t launches,
                                    uint32_t epoch, uint64_t barriers_before, uint64_t barriers)
{
    const bool is_rung = ctx->lingers && args->rung != 0;
    mscclpp_dev_state_t *state = args->state;
    mscclpp_dev_progress_t after;
    mscclpp_dev_ctx_t current_ctx = *ctx;
    bool was_alone = true;

    after.launches = launches + 1;
    after.epoch = epoch;
    after.reserved = 0;
    if (ctx->lingers) {
        /* Reads the indices again, so that the caller need not keep the block's number in a register. */
        mscclpp_dev_ctx_renew(&current_ctx);
        current_ctx.nblocks = ctx->nblocks;
    }
    if (args->epoch_limit != 0 && current_ctx.tid == 0) {
        was_alone = mscclpp_dev_exit(&current_ctx, args);
    }
    mscclpp_dev_advance_others(&current_ctx, state, is_rung, after);
    ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
    if (current_ctx.tid != 0) {
        return;
    }
    if (!was_alone) {
        mscclpp_dev_st_release_sys_u64(&args->mailbox->overlapped, 1);
        mscclpp_dev_st_relaxed_sys_u64(&state->failed, 1);
    }
    if (barriers_before != barriers) {
        state->barrier[current_ctx.block] = barriers;
    }
    if (ctx->failed) {
        mscclpp_dev_st_relaxed_sys_u64(&state->failed, 1);
    }
    if (!is_rung || current_ctx.block == 0) {
        state->progress[current_ctx.block] = after;
    }
    mscclpp_dev_report_end(args, current_ctx.block, launches + 1);
}

/* Ends an operation that has passed no barriers. The contract is that of mscclpp_dev_finish. */
MSCCLPP_DEV void mscclpp_dev_finish_packets(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args, uint64_t launches,
                                            uint32_t epoch)
{
    mscclpp_dev_finish(ctx, args, launches, epoch, 0, 0);
}

#endif
