/*
 * A kernel that stays after its operation and serves the next ones that the host rings for.
 *
 * The first block polls the bell; operations that want all blocks it hands on through a relay in device memory, so that
 * all of them take part or none does. It alone decides to leave, and the mailbox says so after its last look at the
 * bell: a host that sees the word and not the end of what it rang for knows that nobody will serve it, and launches
 * anew. So neither side ever has to ask the other twice. contrib/models/linger.pml is a model of it.
 *
 * Between two operations the kernel waits for no other rank, and never longer than its window, so it delays whoever
 * waits for the device by that at most.
 */
#ifndef MSCCLPP_DEVICE_KERN_LINGER_H
#define MSCCLPP_DEVICE_KERN_LINGER_H

#include "device/hot_types.h"
#include "device/kern/allreduce_oneshot.h"
#include "device/kern/allreduce_twophase.h"
#include "device/linger_types.h"

/* Copies the bell's payload if all of it has arrived, and tells from that whether there is an operation. */
MSCCLPP_DEV bool mscclpp_dev_linger_listen(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_linger_args_t *args,
                                           mscclpp_dev_linger_block_t *own, uint64_t number, bool *leave)
{
    const uint64_t *bell = args->common.mailbox->bell;
    bool missing = false;
    uint32_t w;

    /* Acquire: the host has seen to it that the operands are there before it rang. */
    for (w = ctx->tid; w <= MSCCLPP_DEV_BELL_LEAVE; w += ctx->nthreads) {
        uint64_t word = mscclpp_dev_ld_acquire_sys_u64(&bell[w]);

        if (w == MSCCLPP_DEV_BELL_LEAVE) {
            *leave = word == args->number;
        } else if ((uint32_t)(word >> 32) == (uint32_t)number) {
            own->words[w] = (uint32_t)word;
        } else {
            missing = true;
        }
    }
    return !mscclpp_dev_block_sync_or(ctx, missing);
}

/*
 * The first block: false when it is time to leave. *torn_p is set, for all threads alike, if the host has given up an
 * operation that the other blocks may not have begun; they leave by themselves then.
 */
MSCCLPP_DEV bool mscclpp_dev_linger_await_bell(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_linger_args_t *args,
                                               mscclpp_dev_linger_block_t *own, uint64_t number, uint64_t started_ns,
                                               bool *torn_p)
{
    uint64_t now = mscclpp_dev_now_ns();
    uint64_t until = now + args->idle_ns;
    bool leave, torn = false;

    until = until < started_ns + args->window_ns ? until : started_ns + args->window_ns;
    until = number % MSCCLPP_DEV_LINGER_PERIOD == 0 ? now : until;
    for (;;) {
        leave = false;
        if (mscclpp_dev_linger_listen(ctx, args, own, number, &leave)) {
            return true;
        }
        leave = leave || (ctx->tid == 0 && mscclpp_dev_now_ns() >= until);
        /*
         * The other blocks may not yet have taken the last operation's words from the relay, which quitting overwrites.
         * One that gave up waiting for them never ends the operation.
         */
        if (leave && mscclpp_dev_ld_acquire_sys_u64(&args->common.mailbox->done) + 1 < number) {
            torn = mscclpp_dev_ld_relaxed_sys_u64(&args->common.mailbox->abort) != 0;
            leave = torn;
        }
        if (mscclpp_dev_block_sync_or(ctx, leave)) {
            *torn_p = mscclpp_dev_block_sync_or(ctx, torn);
            return false;
        }
        mscclpp_dev_pause(ctx);
    }
}

/* The first block: hands its words on, or the word to quit, as the kernel's nth message to the others. */
MSCCLPP_DEV void mscclpp_dev_linger_relay(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_linger_args_t *args,
                                          const mscclpp_dev_linger_block_t *own, uint32_t nth, bool quit)
{
    uint32_t w;

    for (w = ctx->tid; w < MSCCLPP_DEV_BELL_WORDS; w += ctx->nthreads) {
        uint32_t payload = quit ? MSCCLPP_DEV_BELL_QUIT : own->words[w];

        mscclpp_dev_st_release_gpu_u64(&args->common.state->relay[w], (uint64_t)nth << 32 | payload);
    }
}

/*
 * The other blocks: waits for the nth message. All blocks have taken its words before there can be another. Operations
 * that the first block serves alone do not come here.
 */
MSCCLPP_DEV bool mscclpp_dev_linger_await_relay(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_linger_args_t *args,
                                                mscclpp_dev_linger_block_t *own, uint32_t nth)
{
    mscclpp_dev_wait_t wait = {0, 0};
    uint32_t w;

    for (w = ctx->tid; w < MSCCLPP_DEV_BELL_WORDS; w += ctx->nthreads) {
        uint64_t word;

        while (word = mscclpp_dev_ld_acquire_gpu_u64(&args->common.state->relay[w]), (uint32_t)(word >> 32) != nth) {
            if (!mscclpp_dev_wait_turn(ctx, &args->common, &wait, args->common.rank)) {
                break;
            }
        }
        own->words[w] = (uint32_t)word;
    }
    /* Words of which a thread missed one are no operation. */
    return !mscclpp_dev_block_sync_or(ctx, ctx->failed) && own->words[MSCCLPP_DEV_BELL_CODE] != MSCCLPP_DEV_BELL_QUIT;
}

/* Makes the block's arguments those of the operation whose words it has. */
MSCCLPP_DEV void mscclpp_dev_linger_take(mscclpp_dev_ctx_t *ctx, mscclpp_dev_linger_block_t *own)
{
    const uint32_t *words = own->words;

    if (ctx->tid == 0) {
        const uint32_t code = words[MSCCLPP_DEV_BELL_CODE];

        own->args.in =
            (const void *)(uintptr_t)((uint64_t)words[MSCCLPP_DEV_BELL_IN_HIGH] << 32 | words[MSCCLPP_DEV_BELL_IN_LOW]);
        own->args.out =
            (void *)(uintptr_t)((uint64_t)words[MSCCLPP_DEV_BELL_OUT_HIGH] << 32 | words[MSCCLPP_DEV_BELL_OUT_LOW]);
        own->args.bytes = words[MSCCLPP_DEV_BELL_BYTES];
        own->args.dtype = MSCCLPP_DEV_BELL_DTYPE(code);
        own->args.op = MSCCLPP_DEV_BELL_OP(code);
    }
    mscclpp_dev_block_sync(ctx);
}

/*
 * What is not the shortest path is kept out of it, for the sake of its registers: types without folded kernels, and the
 * two-phase algorithm.
 */
MSCCLPP_DEV_OUTLINE void mscclpp_dev_linger_call_any(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args,
                                                     uint32_t kernel)
{
    if (kernel == MSCCLPP_KERNEL_ALLREDUCE_TWOPHASE) {
        mscclpp_dev_allreduce_twophase(ctx, args, false, (int)args->dtype, (int)args->op);
    } else {
        mscclpp_dev_allreduce_oneshot(ctx, args, false, (int)args->dtype, (int)args->op, MSCCLPP_DEV_LL16);
    }
}

MSCCLPP_DEV_OUTLINE bool mscclpp_dev_linger_twophase_hot(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args)
{
    const int hot = MSCCLPP_DEV_HOT_DTYPE(args->dtype);

#define MATCH(dtype_, op_)                                                                                             \
    if (hot == (int)(dtype_) && args->op == (uint32_t)(op_)) {                                                         \
        mscclpp_dev_allreduce_twophase(ctx, args, true, (int)(dtype_), (int)(op_));                                    \
        return true;                                                                                                   \
    }
    MSCCLPP_DEV_HOT(MATCH)
#undef MATCH
    return false;
}

MSCCLPP_DEV bool mscclpp_dev_linger_oneshot_hot(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args)
{
    const int hot = MSCCLPP_DEV_HOT_DTYPE(args->dtype);

#define MATCH(dtype_, op_)                                                                                             \
    if (hot == (int)(dtype_) && args->op == (uint32_t)(op_)) {                                                         \
        mscclpp_dev_allreduce_oneshot(ctx, args, true, (int)(dtype_), (int)(op_), MSCCLPP_DEV_LL16);                   \
        return true;                                                                                                   \
    }
    MSCCLPP_DEV_HOT(MATCH)
#undef MATCH
    return false;
}

/* One operation, by the first block or by all. */
MSCCLPP_DEV void mscclpp_dev_linger_serve(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_linger_block_t *own, uint32_t code)
{
    const mscclpp_dev_args_t *args = &own->args;
    const uint32_t nblocks = ctx->nblocks, kernel = MSCCLPP_DEV_BELL_KERNEL(code);

    ctx->nblocks = MSCCLPP_DEV_BELL_WIDE(code) ? nblocks : 1;
    if (!MSCCLPP_DEV_FOLDS ||
        !(kernel == MSCCLPP_KERNEL_ALLREDUCE_TWOPHASE ? mscclpp_dev_linger_twophase_hot(ctx, args)
                                                      : mscclpp_dev_linger_oneshot_hot(ctx, args))) {
        mscclpp_dev_linger_call_any(ctx, args, kernel);
    }
    ctx->nblocks = nblocks;
}

/* The last block says so, since until then the relay is in use. The next kernel's messages begin at 1 again. */
MSCCLPP_DEV void mscclpp_dev_linger_leave(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_linger_args_t *args)
{
    mscclpp_dev_state_t *state = args->common.state;
    uint32_t w;

    mscclpp_dev_block_sync(ctx);
    if (ctx->tid != 0 ||
        (ctx->nblocks > 1 && mscclpp_dev_atom_acq_rel_gpu_add_u32(&state->leavers, 1) + 1 != ctx->nblocks)) {
        return;
    }
    state->leavers = 0;
    for (w = 0; w < MSCCLPP_DEV_BELL_WORDS; ++w) {
        state->relay[w] = 0;
    }
    mscclpp_dev_st_release_sys_u64(&args->common.mailbox->left, args->number);
}

MSCCLPP_DEV void mscclpp_dev_linger(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_linger_args_t *args,
                                    mscclpp_dev_linger_block_t *own)
{
    const uint64_t started_ns = mscclpp_dev_now_ns();
    uint64_t number = args->number;
    uint32_t code = args->code;
    uint32_t messages = 0; /* of the first block to the others */
    bool there = true, torn = false;

    if (ctx->tid == 0) {
        own->args = args->common;
    }
    mscclpp_dev_block_sync(ctx);
    while (there) {
        if (ctx->block == 0 || MSCCLPP_DEV_BELL_WIDE(code)) {
            mscclpp_dev_linger_serve(ctx, own, code);
        }
        if (ctx->block == 0) {
            there = mscclpp_dev_linger_await_bell(ctx, args, own, ++number, started_ns, &torn);
            code = own->words[MSCCLPP_DEV_BELL_CODE];
            if (ctx->nblocks > 1 && !torn && (!there || MSCCLPP_DEV_BELL_WIDE(code))) {
                mscclpp_dev_linger_relay(ctx, args, own, ++messages, !there);
            }
        } else {
            there = mscclpp_dev_linger_await_relay(ctx, args, own, ++messages);
            code = own->words[MSCCLPP_DEV_BELL_CODE];
        }
        if (there) {
            mscclpp_dev_linger_take(ctx, own);
        }
    }
    mscclpp_dev_linger_leave(ctx, args);
}

#endif
