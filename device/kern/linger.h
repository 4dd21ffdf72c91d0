/*
 * The lingering kernel: it stays on the device after its operation, and serves further operations that the host rings
 * for.
 *
 * The first block polls the bell. An operation may need one block or several. The first block executes an operation for
 * one block alone. It hands an operation for several blocks on to all other blocks through the relay.
 *
 * Only the first block decides to leave. It does so after its last poll of the bell, and then writes `left` to the
 * mailbox. A host that sees `left`, but not the end of the operation that it rang for, knows that the kernel will not
 * serve that operation, and launches a new kernel. No further agreement is needed. contrib/models/linger.pml is a model
 * of this protocol.
 *
 * All blocks report the end of an operation for several blocks. A block that takes no part reports it at once. The host
 * waits for the reports of all blocks, because they also tell that every block has read the relay, which the next
 * operation overwrites.
 *
 * Each block counts the operations itself. It reads the counters in mscclpp_dev_state_t only for the operation that
 * came with the launch. The first block advances these counters for later kernels.
 *
 * The host cannot ring for a zero-copy operation on new buffers: the buffers of the peers are arguments of the launch,
 * which hold several sets of them. They also name the execution plan that the kernel can run.
 *
 * Between two operations, the kernel waits for no other rank and stays no longer than its window. So it delays others
 * who wait for the device by no more than the window.
 */
#ifndef MSCCLPP_DEVICE_KERN_LINGER_H
#define MSCCLPP_DEVICE_KERN_LINGER_H

#include "device/kern/linger_serve.h"
#include "device/kern/plan/run.h"
#include "device/types/linger.h"

/*
 * Takes one word of the bell: stores its payload in the block's own memory, and what it says of the next operation in
 * that operation's arguments. `index` is the word's, MSCCLPP_DEV_BELL_*.
 */
MSCCLPP_DEV void mscclpp_dev_linger_take(mscclpp_dev_linger_block_t *own, uint32_t index, uint32_t payload)
{
    if (index <= MSCCLPP_DEV_BELL_BYTES) {
        ((mscclpp_dev_word_t *)&own->args)[index] = payload; /* the arguments begin like the bell */
    } else if (index == MSCCLPP_DEV_BELL_CODE) {
        own->args.dtype = MSCCLPP_DEV_BELL_DTYPE(payload);
        own->args.op = MSCCLPP_DEV_BELL_OP(payload);
        own->args.release = MSCCLPP_DEV_BELL_RELEASE(payload);
    }
    own->words[index] = payload;
}

/*
 * Looks at the bell once, with the listening threads. Returns true if all words of operation `number` have arrived.
 * Sets *leave if the host tells this kernel to leave.
 */
MSCCLPP_DEV bool mscclpp_dev_linger_listen(const mscclpp_dev_ctx_t *ctx, const uint64_t *bell,
                                           mscclpp_dev_linger_block_t *own, uint64_t number, uint64_t kernel,
                                           bool *leave)
{
    bool missing = false;
    uint32_t index;

    /* Acquire makes the operands visible: the host made sure of that before it rang. */
    for (index = ctx->tid; index <= MSCCLPP_DEV_BELL_LEAVE; index += MSCCLPP_DEV_WARP) {
        uint64_t word = mscclpp_dev_ld_acquire_sys_u64(&bell[index]);

        if (index == MSCCLPP_DEV_BELL_LEAVE) {
            *leave = word == kernel;
        } else if ((uint32_t)(word >> 32) == (uint32_t)number) {
            mscclpp_dev_linger_take(own, index, (uint32_t)word);
        } else {
            missing = true;
        }
    }
    return !mscclpp_dev_warp_or(missing);
}

/*
 * True if all blocks have ended their last operation, which means that they have read its words from the relay. The
 * first block may then write the quit word over these words. Called by the listening threads.
 *
 * The other blocks wait for the relay without a deadline, as in a barrier of the kernel, because the first block always
 * writes to it in the end. Each block ends its operation in the end, even if it fails, because waits inside an
 * operation have a deadline.
 */
MSCCLPP_DEV bool mscclpp_dev_linger_all_ended(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_linger_args_t *args,
                                              const mscclpp_dev_linger_block_t *own)
{
    const mscclpp_dev_mailbox_t *mailbox = args->common.mailbox;
    bool ended = true;
    uint32_t block;

    for (block = ctx->tid; block < ctx->nblocks && ended; block += MSCCLPP_DEV_WARP) {
        const uint64_t *word = &mailbox->ended[block];

        ended = mscclpp_dev_ld_acquire_sys_u64(word) >= (block == 0 ? own->args.launches + 1 : own->wide);
    }
    return !mscclpp_dev_warp_or(!ended);
}

/*
 * Polls the bell with the listening threads. Returns true when an operation has arrived, and false when it is time to
 * leave: when the host says so, or the kernel's time is over, or the period ends (MSCCLPP_DEV_LINGER_PERIOD). Not
 * inlined, for the same reason as the operations of linger_serve.h.
 */
MSCCLPP_DEV_OUTLINE bool mscclpp_dev_linger_listen_long(mscclpp_dev_ctx_t ctx, const mscclpp_dev_linger_args_t *args,
                                                        mscclpp_dev_linger_block_t *own)
{
    /*
     * A local copy, because kernel arguments leave the cache at each look at the bell, like everything else in memory.
     */
    const uint64_t *bell = args->common.mailbox->bell;
    const uint64_t number = own->args.launches + 2, kernel = args->number, now_ns = mscclpp_dev_now_ns();
    uint64_t leave_at_ns = now_ns + args->idle_ns;
    bool leaves;

    leave_at_ns = leave_at_ns < own->started_ns + args->window_ns ? leave_at_ns : own->started_ns + args->window_ns;
    leave_at_ns = number % MSCCLPP_DEV_LINGER_PERIOD == 0 ? now_ns : leave_at_ns;
    for (;;) {
        leaves = false;
        if (mscclpp_dev_linger_listen(&ctx, bell, own, number, kernel, &leaves)) {
            return true;
        }
        leaves = leaves || (ctx.tid == 0 && mscclpp_dev_now_ns() >= leave_at_ns);
        if (mscclpp_dev_warp_or(leaves) && mscclpp_dev_linger_all_ended(&ctx, args, own)) {
            return false;
        }
        mscclpp_dev_pause(&ctx);
    }
}

/*
 * In the first block: waits for the bell. Returns false when it is time to leave. Only one warp polls, so that a poll
 * needs no barrier of the block. The barrier at the end publishes to the other threads what that warp has received. The
 * operation before has ended, so it is counted whether or not another one follows.
 */
MSCCLPP_DEV bool mscclpp_dev_linger_await_bell(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_linger_args_t *args,
                                               mscclpp_dev_linger_block_t *own)
{
    if (ctx->tid < MSCCLPP_DEV_WARP) {
        const bool heard = mscclpp_dev_linger_listen_long(*ctx, args, own);

        mscclpp_dev_ctx_renew(ctx);
        if (ctx->tid == 0) {
            own->heard = heard;
            ++own->args.launches;
            own->args.rung = 1;
        }
    }
    mscclpp_dev_block_sync(ctx);
    return own->heard != 0;
}

/* In the loop below: how many numbers each block's words take. A power of 2, at least MSCCLPP_DEV_RELAY_WORDS. */
#define MSCCLPP_DEV_RELAY_STRIDE 8u

/*
 * In the first block: hands its words on to the other blocks, or, if `quits`, tells them to leave the kernel. Called by
 * all threads. The words must not change before the block's next barrier.
 */
MSCCLPP_DEV void mscclpp_dev_linger_relay(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_linger_args_t *args,
                                          mscclpp_dev_linger_block_t *own, bool quits)
{
    const uint64_t number = own->args.launches + 1, place = (uint32_t)(number - args->number);
    const bool cluster = mscclpp_dev_cluster_size(ctx) > 1;
    const uint32_t stores = MSCCLPP_DEV_RELAY_STRIDE * (cluster ? ctx->nblocks - 1 : 1);
    uint32_t i;

    /* In a cluster, each word for each block has a thread of its own, if there are enough threads. */
    for (i = ctx->tid; i < stores; i += ctx->nthreads) {
        const uint32_t index = i % MSCCLPP_DEV_RELAY_STRIDE, block = 1 + i / MSCCLPP_DEV_RELAY_STRIDE;

        if (index < MSCCLPP_DEV_RELAY_WORDS) {
            const uint32_t payload = quits                              ? MSCCLPP_DEV_BELL_QUIT
                                     : index == MSCCLPP_DEV_RELAY_EPOCH ? own->args.epoch
                                                                        : own->words[index];
            const uint64_t word = place << 32 | payload;

            if (cluster) {
                mscclpp_dev_st_relay_cluster_u64(ctx, &own->relay[index], block, word);
            } else {
                mscclpp_dev_st_relay_gpu_u64(&args->common.state->relay[index], word);
            }
        }
    }
    if (ctx->tid == 0) {
        own->wide = number;
    }
}

/*
 * In one of the other blocks: waits for the next words, and takes them. Returns false when it is time to leave.
 * Operations that the first block executes alone do not reach the other blocks, so the words include the epoch from
 * which the operation starts.
 */
MSCCLPP_DEV bool mscclpp_dev_linger_await_relay(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_linger_args_t *args,
                                                mscclpp_dev_linger_block_t *own)
{
    const bool cluster = mscclpp_dev_cluster_size(ctx) > 1;
    const uint32_t last_place = own->place;
    uint32_t index;

    for (index = ctx->tid; index < MSCCLPP_DEV_RELAY_WORDS; index += ctx->nthreads) {
        uint64_t word;

        while (word = cluster ? mscclpp_dev_ld_acquire_cluster_u64(&own->relay[index])
                              : mscclpp_dev_ld_acquire_gpu_u64(&args->common.state->relay[index]),
               (uint32_t)(word >> 32) == last_place) {
            mscclpp_dev_pause(ctx);
        }
        if (index == MSCCLPP_DEV_RELAY_EPOCH) {
            own->args.launches = args->number - 1 + (uint32_t)(word >> 32);
            own->args.epoch = (uint32_t)word;
            own->args.rung = 1;
        } else {
            mscclpp_dev_linger_take(own, index, (uint32_t)word);
        }
    }
    mscclpp_dev_block_sync(ctx);
    if (ctx->tid == 0) {
        own->place = (uint32_t)(own->args.launches + 1 - args->number);
    }
    return own->words[MSCCLPP_DEV_BELL_CODE] != MSCCLPP_DEV_BELL_QUIT;
}

/*
 * Executes one operation, whose word CODE is `code`, in the blocks that it is for. Other blocks only report its end. If
 * a thread fails, ctx->failed is set in it, and own->failed for all of them.
 */
MSCCLPP_DEV void mscclpp_dev_linger_serve(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_linger_args_t *args,
                                          mscclpp_dev_linger_block_t *own, uint32_t code)
{
    const uint32_t kernel = MSCCLPP_DEV_BELL_KERNEL(code);
    mscclpp_dev_ctx_t op_ctx = *ctx;

    op_ctx.nblocks = MSCCLPP_DEV_BELL_BLOCKS(code);
    if (op_ctx.block >= op_ctx.nblocks) {
        if (op_ctx.tid == 0 && op_ctx.nblocks > 1) {
            mscclpp_dev_st_release_sys_u64(&own->args.mailbox->ended[op_ctx.block], own->args.launches + 1);
        }
        /* The data about this operation may be overwritten after this barrier. */
        mscclpp_dev_block_sync(&op_ctx);
        return;
    }
    if (kernel == MSCCLPP_KERNEL_ALLREDUCE_ZEROCOPY) {
        ctx->failed = mscclpp_dev_linger_serve_zerocopy(&op_ctx, &args->sets[MSCCLPP_DEV_BELL_VARIANT(code)],
                                                        &own->zerocopy, code);
    } else if (kernel == MSCCLPP_KERNEL_ALLREDUCE_ONESHOT_PUT) {
        ctx->failed = mscclpp_dev_linger_serve_put(&op_ctx, &own->args, code);
    } else if (kernel == MSCCLPP_KERNEL_PLAN) {
        ctx->failed = mscclpp_dev_linger_serve_plan(&op_ctx, own);
    } else if (kernel == MSCCLPP_KERNEL_COLL_MOVE_PACKETS || kernel == MSCCLPP_KERNEL_COLL_COMBINE_PACKETS ||
               mscclpp_dev_linger_is_varied(kernel)) {
        ctx->failed = mscclpp_dev_linger_serve_coll(&op_ctx, &own->blocks, code, own->words[MSCCLPP_DEV_BELL_COLL]);
    } else if (kernel == MSCCLPP_KERNEL_ALLREDUCE_NODES || kernel == MSCCLPP_KERNEL_ALLREDUCE_NODES_PACKETS) {
        if (op_ctx.tid == 0) {
            own->nodes.pattern = MSCCLPP_DEV_BELL_VARIANT(code);
        }
        mscclpp_dev_block_sync(&op_ctx);
        ctx->failed = kernel == MSCCLPP_KERNEL_ALLREDUCE_NODES ? mscclpp_dev_linger_nodes(op_ctx, &own->nodes)
                                                               : mscclpp_dev_linger_nodes_packets(op_ctx, &own->nodes);
    } else {
        ctx->failed = mscclpp_dev_linger_serve_packets(&op_ctx, &own->args, code);
    }
    if (ctx->failed) {
        mscclpp_dev_st_relaxed_block_u32(&own->failed, 1);
    }
    /*
     * Only the first block counts: the other blocks read the epoch from the relay. They may do so before all of their
     * threads are here.
     */
    if (op_ctx.block == 0 && op_ctx.tid == 0 && mscclpp_dev_linger_takes_epoch(kernel)) {
        ++own->args.epoch;
    }
}

/*
 * Leaves the kernel. The last block to leave resets the relay, because the next kernel counts places from 0 again, and
 * then tells the host, which must not start another lingering kernel while the relay is in use.
 *
 * In a cluster, all blocks meet, and the first one tells the host. No block leaves too early, because it has read all
 * words that the first block writes into its memory.
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
    for (i = 0; i < MSCCLPP_DEV_RELAY_WORDS; ++i) {
        state->relay[i] = 0;
    }
    mscclpp_dev_st_release_sys_u64(&args->common.mailbox->left, args->number);
}

/* The kernel body: serves the operation of the launch, and then those that the host rings for. */
MSCCLPP_DEV void mscclpp_dev_linger(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_linger_args_t *args,
                                    mscclpp_dev_linger_block_t *own)
{
    bool stays = true;
    uint32_t i;

    for (i = ctx->tid; i < MSCCLPP_DEV_RELAY_WORDS; i += ctx->nthreads) {
        own->relay[i] = 0;
    }
    if (args->plan != NULL) {
        mscclpp_dev_plan_copy(ctx, (char *)&own->plan + sizeof(own->plan.common),
                              (const char *)args->plan + sizeof(own->plan.common),
                              sizeof(own->plan) - sizeof(own->plan.common));
        if (ctx->block < args->plan_blocks) {
            (void)mscclpp_dev_plan_load_program(ctx, args->plan, &own->plan_copy, false);
        }
    }
    /*
     * The first block writes into the memory of the others. Each of them must have cleared its words before. A block
     * that takes part in the first operation has done so, as the first block writes only after that operation. The
     * other blocks need this barrier.
     */
    if (mscclpp_dev_cluster_size(ctx) > 1 && MSCCLPP_DEV_BELL_BLOCKS(args->code) < ctx->nblocks) {
        mscclpp_dev_cluster_sync(ctx);
    }
    if (ctx->tid == 0) {
        if (args->spans != 0) {
            own->nodes = args->nodes;
        } else {
            own->args = args->common;
            own->plan.common = args->common;
        }
        own->args.launches = args->number - 1;
        own->args.rung = 0;
        /* Blocks that take no part in the first operation get the epoch with the next one. */
        if (ctx->block < MSCCLPP_DEV_BELL_BLOCKS(args->code)) {
            own->args.epoch = args->common.state->progress[ctx->block].epoch;
        }
        own->failed = mscclpp_dev_ld_relaxed_sys_u64(&args->common.state->failed) != 0;
        own->started_ns = mscclpp_dev_now_ns();
        own->wide = MSCCLPP_DEV_BELL_BLOCKS(args->code) > 1 ? args->number : 0;
        own->place = 0;
        own->words[MSCCLPP_DEV_BELL_CODE] = args->code;
        own->words[MSCCLPP_DEV_BELL_COLL] = args->coll;
    }
    mscclpp_dev_block_sync(ctx);
    ctx->failed = own->failed != 0;
    while (stays) {
        const uint32_t code = own->words[MSCCLPP_DEV_BELL_CODE];

        mscclpp_dev_linger_serve(ctx, args, own, code);
        mscclpp_dev_ctx_renew(ctx);
        if (ctx->block == 0) {
            stays = mscclpp_dev_linger_await_bell(ctx, args, own);
            if (ctx->nblocks > 1 && (!stays || MSCCLPP_DEV_BELL_BLOCKS(own->words[MSCCLPP_DEV_BELL_CODE]) > 1)) {
                mscclpp_dev_linger_relay(ctx, args, own, !stays);
            }
        } else {
            stays = mscclpp_dev_linger_await_relay(ctx, args, own);
        }
        ctx->failed = mscclpp_dev_ld_relaxed_block_u32(&own->failed) != 0;
    }
    mscclpp_dev_linger_leave(ctx, args);
}

#endif
