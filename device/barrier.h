/* Barriers between the blocks of one number on all ranks, and the end of a kernel. */
#ifndef MSCCLPP_DEVICE_BARRIER_H
#define MSCCLPP_DEVICE_BARRIER_H

#include "device/wait.h"

MSCCLPP_DEV mscclpp_dev_sync_t *mscclpp_dev_sync_of(const mscclpp_dev_args_t *args, uint32_t rank)
{
    return (mscclpp_dev_sync_t *)args->scratch[rank];
}

/*
 * Meets the blocks of this number on all other ranks for the `count`-th time in the team's life. To be called by all
 * threads of the block. What any of its threads wrote before is visible to all threads of those blocks after. If a
 * thread gives up, all threads of the block have failed after it.
 *
 * Each counter has one writer, so a store of the count serves where a counter with several would need an atomic
 * addition on the peer's memory. The store releases what the whole block wrote, since the block synchronises first.
 */
MSCCLPP_DEV void mscclpp_dev_barrier(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args, uint64_t count)
{
    const mscclpp_dev_sync_t *own = mscclpp_dev_sync_of(args, args->rank);
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
        while (mscclpp_dev_ld_acquire_sys_u64(&own->arrived[ctx->block][peer]) < count) {
            if (!mscclpp_dev_wait_turn(ctx, args, &wait, peer)) {
                break;
            }
        }
    }
    ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
}

/*
 * What an operation goes on from: how many there were, and the flag of the last packets. A block of a lingering kernel
 * keeps count by itself, since the first one may have ended an operation, and changed the state, which others are still
 * to begin.
 */
MSCCLPP_DEV uint64_t mscclpp_dev_last_launch(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args)
{
    return ctx->lingers ? args->launches : args->state->launches;
}

/*
 * Where an earlier operation gave up, this one has failed, too, before it sends anything: it may be in the stream
 * already, its operands may be that one's results, and its numbers would be taken for those of what was never sent. A
 * lingering kernel looks once, before its first operation.
 */
MSCCLPP_DEV void mscclpp_dev_recall_failure(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args)
{
    ctx->failed = ctx->failed || (!ctx->lingers && args->state->failed != 0);
}

MSCCLPP_DEV uint32_t mscclpp_dev_last_epoch(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args)
{
    mscclpp_dev_recall_failure(ctx, args);
    return ctx->lingers ? args->epoch : args->state->epoch;
}

/* How often the block has met its namesakes. */
MSCCLPP_DEV uint64_t mscclpp_dev_last_barrier(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args)
{
    mscclpp_dev_recall_failure(ctx, args);
    return args->state->barrier[ctx->block];
}

/* A word of the mailbox that tells of an end. */
MSCCLPP_DEV void mscclpp_dev_tell(const mscclpp_dev_args_t *args, uint64_t *word, uint64_t launches)
{
    if (args->release == MSCCLPP_DEV_RELEASE_STREAM) {
        mscclpp_dev_st_relaxed_sys_u64(word, launches);
    } else if (args->release == MSCCLPP_DEV_RELEASE_DEVICE) {
        mscclpp_dev_st_release_home_u64(word, launches);
    } else {
        mscclpp_dev_st_release_sys_u64(word, launches);
    }
}

/*
 * Ends an operation without barriers: the last block to arrive advances the state and tells the host. `launches` is
 * what the state said at its beginning, when the read could be had for nothing; `epoch` is the flag of the last
 * packets. To be called by all threads, after they have met, and failed if one of them had.
 *
 * All blocks have read the state before any of them arrives here, so the last one may change it. Blocks that need not
 * read it tell the host each of its own end, which spares them the meeting.
 */
MSCCLPP_DEV void mscclpp_dev_end(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args, uint64_t launches,
                                 uint32_t epoch)
{
    mscclpp_dev_state_t *state = args->state;
    bool failed = ctx->failed;

    if (ctx->tid != 0) {
        return;
    }
    if (ctx->nblocks > 1) {
        if (ctx->lingers && args->apart != 0) {
            mscclpp_dev_ctx_t self = *ctx;

            mscclpp_dev_ctx_renew(&self); /* nobody has remembered the block's number for this */
            if (self.block != 0) {
                mscclpp_dev_tell(args, &args->mailbox->others[self.block - 1], launches + 1);
                return;
            }
        } else {
            const uint32_t own = failed ? 1 + MSCCLPP_DEV_TICKET_FAILED : 1;
            const uint32_t ticket = mscclpp_dev_atom_acq_rel_gpu_add_u32(&state->ticket, own) + own;

            if (ticket % MSCCLPP_DEV_TICKET_FAILED != ctx->nblocks) {
                return;
            }
            state->ticket = 0;
            failed = ticket >= MSCCLPP_DEV_TICKET_FAILED;
        }
    }
    if (failed) {
        state->failed = 1;
    }
    state->epoch = epoch;
    state->launches = launches + 1;
    mscclpp_dev_tell(args, &args->mailbox->done, launches + 1);
}

/* The same by threads that have not met yet. */
MSCCLPP_DEV void mscclpp_dev_finish_packets(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args, uint64_t launches,
                                            uint32_t epoch)
{
    ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
    mscclpp_dev_end(ctx, args, launches, epoch);
}

/*
 * The same for operations in which each block met its namesakes: `before` times since the team began, as the state says
 * of the block, and `barriers` with this operation; `epoch` is the state's own if there were no packets.
 */
MSCCLPP_DEV void mscclpp_dev_finish(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args, uint64_t launches,
                                    uint32_t epoch, uint64_t before, uint64_t barriers)
{
    ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
    if (ctx->tid == 0 && before != barriers) {
        args->state->barrier[ctx->block] = barriers;
    }
    mscclpp_dev_end(ctx, args, launches, epoch);
}

#endif
