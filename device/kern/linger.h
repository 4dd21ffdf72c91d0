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

/* Stores one word of the bell as an argument of the next operation, in the block's own memory. */
MSCCLPP_DEV void mscclpp_dev_linger_take(mscclpp_dev_linger_block_t *own, uint32_t w, uint32_t payload)
{
    if (w <= MSCCLPP_DEV_BELL_BYTES) {
        ((mscclpp_dev_word_t *)&own->args)[w] = payload; /* the arguments begin like the bell */
    } else if (w == MSCCLPP_DEV_BELL_CODE) {
        own->args.dtype = MSCCLPP_DEV_BELL_DTYPE(payload);
        own->args.op = MSCCLPP_DEV_BELL_OP(payload);
        own->args.release = MSCCLPP_DEV_BELL_RELEASE(payload);
    }
    own->words[w] = payload;
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
    uint32_t w;

    /* Acquire makes the operands visible: the host made sure of that before it rang. */
    for (w = ctx->tid; w <= MSCCLPP_DEV_BELL_LEAVE; w += MSCCLPP_DEV_WARP) {
        uint64_t word = mscclpp_dev_ld_acquire_sys_u64(&bell[w]);

        if (w == MSCCLPP_DEV_BELL_LEAVE) {
            *leave = word == kernel;
        } else if ((uint32_t)(word >> 32) == (uint32_t)number) {
            mscclpp_dev_linger_take(own, w, (uint32_t)word);
        } else {
            missing = true;
        }
    }
    return !mscclpp_dev_warp_or(missing);
}

/*
 * True if all blocks have ended their last operation, which means that they have read its words from the relay. The
 * first block may then write the quit word over these words. Called by the listening threads.
 * The other blocks wait for the relay without a deadline, as in a barrier of the kernel, because the first block always
 * writes to it in the end. Each block ends its operation in the end, even if it fails, because waits inside an
 * operation have a deadline.
 */
MSCCLPP_DEV bool mscclpp_dev_linger_all_ended(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_linger_args_t *args,
                                              const mscclpp_dev_linger_block_t *own)
{
    const mscclpp_dev_mailbox_t *mailbox = args->common.mailbox;
    bool ended = true;
    uint32_t b;

    for (b = ctx->tid; b < ctx->nblocks && ended; b += MSCCLPP_DEV_WARP) {
        const uint64_t *word = &mailbox->ended[b];

        ended = mscclpp_dev_ld_acquire_sys_u64(word) >= (b == 0 ? own->args.launches + 1 : own->wide);
    }
    return !mscclpp_dev_warp_or(!ended);
}

/*
 * Polls the bell with the listening threads. Returns true when an operation has arrived, and false when it is time to
 * leave. Not inlined, for the same reason as the operations below.
 */
MSCCLPP_DEV_OUTLINE bool mscclpp_dev_linger_listen_long(mscclpp_dev_ctx_t ctx, const mscclpp_dev_linger_args_t *args,
                                                        mscclpp_dev_linger_block_t *own)
{
    /*
     * A local copy, because kernel arguments leave the cache at each look at the bell, like everything else in memory.
     */
    const uint64_t *bell = args->common.mailbox->bell;
    const uint64_t number = own->args.launches + 2, kernel = args->number, now = mscclpp_dev_now_ns();
    uint64_t until = now + args->idle_ns;
    bool leave;

    until = until < own->started_ns + args->window_ns ? until : own->started_ns + args->window_ns;
    until = number % MSCCLPP_DEV_LINGER_PERIOD == 0 ? now : until;
    for (;;) {
        leave = false;
        if (mscclpp_dev_linger_listen(&ctx, bell, own, number, kernel, &leave)) {
            return true;
        }
        leave = leave || (ctx.tid == 0 && mscclpp_dev_now_ns() >= until);
        if (mscclpp_dev_warp_or(leave) && mscclpp_dev_linger_all_ended(&ctx, args, own)) {
            return false;
        }
        mscclpp_dev_pause(&ctx);
    }
}

/*
 * Waits in the first block for the bell. Returns false when it is time to leave. Only one warp listens, so that a turn
 * needs no barrier of the block. The barrier at the end publishes to the other threads what that warp has received.
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

/* A power of 2, at least MSCCLPP_DEV_RELAY_WORDS. */
#define MSCCLPP_DEV_RELAY_STRIDE 8u

/*
 * Hands the first block's words on to the other blocks, or tells them to quit. The words must not change before the
 * block's next barrier.
 */
MSCCLPP_DEV void mscclpp_dev_linger_relay(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_linger_args_t *args,
                                          mscclpp_dev_linger_block_t *own, bool quit)
{
    const uint64_t number = own->args.launches + 1, place = (uint32_t)(number - args->number);
    const bool cluster = mscclpp_dev_cluster_size(ctx) > 1;
    const uint32_t stores = MSCCLPP_DEV_RELAY_STRIDE * (cluster ? ctx->nblocks - 1 : 1);
    uint32_t i;

    /* In a cluster, each word for each block has a thread of its own, if there are enough threads. */
    for (i = ctx->tid; i < stores; i += ctx->nthreads) {
        const uint32_t w = i % MSCCLPP_DEV_RELAY_STRIDE, block = 1 + i / MSCCLPP_DEV_RELAY_STRIDE;

        if (w < MSCCLPP_DEV_RELAY_WORDS) {
            const uint32_t payload = quit                           ? MSCCLPP_DEV_BELL_QUIT
                                     : w == MSCCLPP_DEV_RELAY_EPOCH ? own->args.epoch
                                                                    : own->words[w];
            const uint64_t word = place << 32 | payload;

            if (cluster) {
                mscclpp_dev_st_relay_cluster_u64(ctx, &own->relay[w], block, word);
            } else {
                mscclpp_dev_st_relay_gpu_u64(&args->common.state->relay[w], word);
            }
        }
    }
    if (ctx->tid == 0) {
        own->wide = number;
    }
}

/*
 * Waits in one of the other blocks for the next words, and takes them. Returns false when it is time to leave.
 * Operations that the first block executes alone do not reach the other blocks, so the words include the epoch from
 * which the operation starts.
 */
MSCCLPP_DEV bool mscclpp_dev_linger_await_relay(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_linger_args_t *args,
                                                mscclpp_dev_linger_block_t *own)
{
    const bool cluster = mscclpp_dev_cluster_size(ctx) > 1;
    const uint32_t last = own->place;
    uint32_t w;

    for (w = ctx->tid; w < MSCCLPP_DEV_RELAY_WORDS; w += ctx->nthreads) {
        uint64_t word;

        while (word = cluster ? mscclpp_dev_ld_acquire_cluster_u64(&own->relay[w])
                              : mscclpp_dev_ld_acquire_gpu_u64(&args->common.state->relay[w]),
               (uint32_t)(word >> 32) == last) {
            mscclpp_dev_pause(ctx);
        }
        if (w == MSCCLPP_DEV_RELAY_EPOCH) {
            own->args.launches = args->number - 1 + (uint32_t)(word >> 32);
            own->args.epoch = (uint32_t)word;
            own->args.rung = 1;
        } else {
            mscclpp_dev_linger_take(own, w, (uint32_t)word);
        }
    }
    mscclpp_dev_block_sync(ctx);
    if (ctx->tid == 0) {
        own->place = (uint32_t)(own->args.launches + 1 - args->number);
    }
    return own->words[MSCCLPP_DEV_BELL_CODE] != MSCCLPP_DEV_BELL_QUIT;
}

/*
 * Each kind of operation is a function of its own, with its own copy of the context. Inlined together, they would need
 * more registers than there are, and what does not fit into registers leaves the cache at each look at the bell. Each
 * function returns true if the thread has failed.
 */
#define MSCCLPP_DEV_LINGER_OPERATION(name_, args_, call_)                                                              \
    MSCCLPP_DEV_OUTLINE bool mscclpp_dev_linger_##name_(mscclpp_dev_ctx_t ctx, const args_ *args)                      \
    {                                                                                                                  \
        ctx.lingers = true;                                                                                            \
        call_;                                                                                                         \
        return ctx.failed;                                                                                             \
    }

/*
 * Operations for `n_` ranks; 0 stands for any number. Hot variants have a constant type and operation, the others look
 * both up at run time.
 */
#define MSCCLPP_DEV_LINGER_BRIEF(n_, name_, hot_, dtype_, op_)                                                         \
    MSCCLPP_DEV_LINGER_OPERATION(                                                                                      \
        brief##n_##name_, mscclpp_dev_args_t,                                                                          \
        mscclpp_dev_oneshot_brief(&ctx, args, n_, hot_, (int)(dtype_), (int)(op_), MSCCLPP_DEV_LL16))
#define MSCCLPP_DEV_LINGER_LONG(n_, name_, hot_, dtype_, op_)                                                          \
    MSCCLPP_DEV_LINGER_OPERATION(                                                                                      \
        oneshot##n_##name_, mscclpp_dev_args_t,                                                                        \
        mscclpp_dev_oneshot_long(&ctx, args, n_, hot_, (int)(dtype_), (int)(op_), MSCCLPP_DEV_LL16))                   \
    MSCCLPP_DEV_LINGER_OPERATION(twophase##n_##name_, mscclpp_dev_args_t,                                              \
                                 mscclpp_dev_twophase_ranks(&ctx, args, n_, hot_, (int)(dtype_), (int)(op_)))          \
    MSCCLPP_DEV_LINGER_OPERATION(zerocopy##n_##name_, mscclpp_dev_zerocopy_args_t,                                     \
                                 mscclpp_dev_zerocopy_ranks(&ctx, args, n_, false, hot_, (int)(dtype_), (int)(op_)))

/* Only 2 ranks have a put operation of their own, because puts pay off mainly there. */
#define MSCCLPP_DEV_LINGER_HOT2(dtype_, op_)                                                                           \
    MSCCLPP_DEV_LINGER_BRIEF(2, dtype_##op_, true, dtype_, op_)                                                        \
    MSCCLPP_DEV_LINGER_LONG(2, dtype_##op_, true, dtype_, op_)                                                         \
    MSCCLPP_DEV_LINGER_OPERATION(put2##dtype_##op_, mscclpp_dev_args_t,                                                \
                                 mscclpp_dev_put_ranks(&ctx, args, 2, true, true, (int)(dtype_), (int)(op_)))
#define MSCCLPP_DEV_LINGER_HOT4(dtype_, op_)                                                                           \
    MSCCLPP_DEV_LINGER_BRIEF(4, dtype_##op_, true, dtype_, op_)                                                        \
    MSCCLPP_DEV_LINGER_LONG(4, dtype_##op_, true, dtype_, op_)
#define MSCCLPP_DEV_LINGER_HOT8(dtype_, op_)                                                                           \
    MSCCLPP_DEV_LINGER_BRIEF(8, dtype_##op_, true, dtype_, op_)                                                        \
    MSCCLPP_DEV_LINGER_LONG(8, dtype_##op_, true, dtype_, op_)
#define MSCCLPP_DEV_LINGER_ANY(n_) MSCCLPP_DEV_LINGER_BRIEF(n_, any, false, args->dtype, args->op)
MSCCLPP_DEV_HOT(MSCCLPP_DEV_LINGER_HOT2)
MSCCLPP_DEV_HOT(MSCCLPP_DEV_LINGER_HOT4)
MSCCLPP_DEV_HOT(MSCCLPP_DEV_LINGER_HOT8)
MSCCLPP_DEV_RANKS(MSCCLPP_DEV_LINGER_ANY)
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
/* Operations that combine blocks of one size, or of sizes that differ. */
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
#undef MSCCLPP_DEV_LINGER_ANY
#undef MSCCLPP_DEV_LINGER_HOT2
#undef MSCCLPP_DEV_LINGER_HOT4
#undef MSCCLPP_DEV_LINGER_HOT8
#undef MSCCLPP_DEV_LINGER_LONG
#undef MSCCLPP_DEV_LINGER_BRIEF
#undef MSCCLPP_DEV_LINGER_OPERATION

/* Executes one packet operation within a node. */
MSCCLPP_DEV bool mscclpp_dev_linger_serve_packets(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args,
                                                  uint32_t code)
{
    const uint32_t kernel = MSCCLPP_DEV_BELL_KERNEL(code), op = MSCCLPP_DEV_BELL_OP(code);
    const int hot = MSCCLPP_DEV_HOT_DTYPE(MSCCLPP_DEV_BELL_DTYPE(code));
    const bool brief = mscclpp_dev_oneshot_is_brief(args, mscclpp_dev_units(args->bytes), ctx->nblocks * ctx->nthreads);

#define MSCCLPP_DEV_LINGER_MATCH_RANKS(n_, dtype_, op_)                                                                \
    case n_:                                                                                                           \
        return kernel == MSCCLPP_KERNEL_ALLREDUCE_TWOPHASE ? mscclpp_dev_linger_twophase##n_##dtype_##op_(*ctx, args)  \
               : brief                                     ? mscclpp_dev_linger_brief##n_##dtype_##op_(*ctx, args)     \
                                                           : mscclpp_dev_linger_oneshot##n_##dtype_##op_(*ctx, args);
#define MSCCLPP_DEV_LINGER_MATCH(dtype_, op_)                                                                          \
    if (MSCCLPP_DEV_FOLDS && hot == (int)(dtype_) && op == (uint32_t)(op_)) {                                          \
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
    if (kernel == MSCCLPP_KERNEL_ALLREDUCE_TWOPHASE) {
        return mscclpp_dev_linger_twophase(*ctx, args);
    }
    if (!brief) {
        return mscclpp_dev_linger_oneshot(*ctx, args);
    }
    return args->nranks == 2   ? mscclpp_dev_linger_brief2any(*ctx, args)
           : args->nranks == 4 ? mscclpp_dev_linger_brief4any(*ctx, args)
                               : mscclpp_dev_linger_brief8any(*ctx, args);
}

/* Executes one operation by puts. */
MSCCLPP_DEV bool mscclpp_dev_linger_serve_put(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args,
                                              uint32_t code)
{
    const uint32_t op = MSCCLPP_DEV_BELL_OP(code);
    const int hot = MSCCLPP_DEV_HOT_DTYPE(MSCCLPP_DEV_BELL_DTYPE(code));

#define MSCCLPP_DEV_LINGER_MATCH(dtype_, op_)                                                                          \
    if (MSCCLPP_DEV_FOLDS && args->nranks == 2 && mscclpp_dev_put_is_plain(args) && hot == (int)(dtype_) &&            \
        op == (uint32_t)(op_)) {                                                                                       \
        return mscclpp_dev_linger_put2##dtype_##op_(*ctx, args);                                                       \
    }
    MSCCLPP_DEV_HOT(MSCCLPP_DEV_LINGER_MATCH)
#undef MSCCLPP_DEV_LINGER_MATCH
    return mscclpp_dev_linger_put(*ctx, args);
}

/* Executes one zero-copy operation on one of the kernel's sets of buffers. */
MSCCLPP_DEV bool mscclpp_dev_linger_serve_zerocopy(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_linger_set_t *set,
                                                   mscclpp_dev_zerocopy_args_t *args, uint32_t code)
{
    const uint32_t op = MSCCLPP_DEV_BELL_OP(code);
    const int hot = MSCCLPP_DEV_HOT_DTYPE(MSCCLPP_DEV_BELL_DTYPE(code));
    uint32_t r;

    for (r = ctx->tid; r < args->common.nranks; r += ctx->nthreads) {
        args->peer_in[r] = set->in[r];
        args->peer_out[r] = set->out[r];
    }
    mscclpp_dev_block_sync(ctx);
#define MSCCLPP_DEV_LINGER_MATCH(dtype_, op_)                                                                          \
    if (MSCCLPP_DEV_FOLDS && hot == (int)(dtype_) && op == (uint32_t)(op_)) {                                          \
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

/* True for the packet kernels of collectives other than all-reduce whose blocks have different sizes. */
MSCCLPP_DEV bool mscclpp_dev_linger_is_varied(uint32_t kernel)
{
    return kernel == MSCCLPP_KERNEL_COLL_MOVE_BLOCKS || kernel == MSCCLPP_KERNEL_COLL_COMBINE_BLOCKS;
}

/*
 * Reads the lists of blocks that came with the bell. Called by all threads of the block, before its next barrier. One
 * warp reads neighbouring words, since reads of the host's memory wait for one another unless they are one access.
 */
MSCCLPP_DEV void mscclpp_dev_linger_take_lists(const mscclpp_dev_ctx_t *ctx, mscclpp_dev_blocks_args_t *args)
{
    const uint32_t words = 2 * args->coll.common.nranks; /* of each list */
    uint32_t w;

    for (w = ctx->tid; w < 2 * words && ctx->tid < MSCCLPP_DEV_WARP; w += MSCCLPP_DEV_WARP) {
        const uint64_t word = mscclpp_dev_ld_relaxed_sys_u64(&args->coll.common.mailbox->lists[w]);
        uint64_t *list = w < words ? (uint64_t *)args->send : (uint64_t *)args->recv;

        list[w < words ? w : w - words] = word;
    }
    if (ctx->tid == 0) {
        args->most = args->coll.common.bytes;
        args->varied = 1;
    }
}

/*
 * Executes one operation of a collective other than all-reduce. The collective's own arguments share memory with those
 * of other kinds of operations. No kind relies on what is left there: it writes its arguments before each use, or never
 * runs in the same kernel as a collective.
 */
MSCCLPP_DEV bool mscclpp_dev_linger_serve_coll(mscclpp_dev_ctx_t *ctx, mscclpp_dev_blocks_args_t *args, uint32_t code,
                                               uint32_t word)
{
    const uint32_t kernel = MSCCLPP_DEV_BELL_KERNEL(code);
    const bool varied = mscclpp_dev_linger_is_varied(kernel);
    const bool hot = MSCCLPP_DEV_FOLDS && MSCCLPP_DEV_BELL_DTYPE(code) == MSCCLPP_DTYPE_FLOAT32 &&
                     MSCCLPP_DEV_BELL_OP(code) == MSCCLPP_OP_SUM;
    mscclpp_dev_coll_args_t *coll = &args->coll;

    if (varied) {
        mscclpp_dev_linger_take_lists(ctx, args);
    }
    if (ctx->tid == 0) {
        coll->pattern = MSCCLPP_DEV_BELL_PATTERN(word);
        coll->in_place = MSCCLPP_DEV_BELL_IN_PLACE(word);
        coll->root = MSCCLPP_DEV_BELL_ROOT(word);
        coll->stride = coll->common.bytes + MSCCLPP_DEV_BELL_PADDING(word);
    }
    mscclpp_dev_block_sync(ctx);
    switch (kernel) {
    case MSCCLPP_KERNEL_COLL_MOVE_PACKETS:
        return mscclpp_dev_linger_move(*ctx, coll);
    case MSCCLPP_KERNEL_COLL_MOVE_BLOCKS:
        return mscclpp_dev_linger_move_blocks(*ctx, args);
    case MSCCLPP_KERNEL_COLL_COMBINE_BLOCKS:
        return hot ? mscclpp_dev_linger_combine_blocks_float(*ctx, args)
                   : mscclpp_dev_linger_combine_blocks(*ctx, args);
    default:
        return hot ? mscclpp_dev_linger_combine_float(*ctx, coll) : mscclpp_dev_linger_combine(*ctx, coll);
    }
}

/* An operation like those above. The kernel copied the code when it began. */
MSCCLPP_DEV_OUTLINE bool mscclpp_dev_linger_plan(mscclpp_dev_ctx_t ctx, mscclpp_dev_linger_block_t *own)
{
    const mscclpp_dev_plan_args_t *args = &own->plan;

    ctx.lingers = true;
    mscclpp_dev_plan_run(&ctx, args, mscclpp_dev_plan_find_program(&ctx, args, &own->plan_room, true), false,
                         (int)args->common.dtype, (int)args->common.op);
    return ctx.failed;
}

/* Executes one operation by the kernel's plan. */
MSCCLPP_DEV bool mscclpp_dev_linger_serve_plan(mscclpp_dev_ctx_t *ctx, mscclpp_dev_linger_block_t *own)
{
    mscclpp_dev_plan_args_t *plan = &own->plan;

    if (ctx->tid == 0) {
        const uint64_t stride = own->args.bytes + MSCCLPP_DEV_BELL_PADDING(own->words[MSCCLPP_DEV_BELL_COLL]);

        plan->common.bytes = own->args.bytes;
        plan->common.dtype = own->args.dtype;
        plan->common.op = own->args.op;
        plan->common.release = own->args.release;
        plan->common.launches = own->args.launches;
        plan->common.epoch = own->args.epoch;
        plan->common.rung = own->args.rung;
        plan->bases[3 * plan->rank] = (char *)(uintptr_t)own->args.in;
        plan->bases[3 * plan->rank + 1] = (char *)own->args.out;
        plan->chunk = MSCCLPP_DEV_PLAN_CHUNK(plan, stride);
        plan->stride = stride;
        plan->block_bytes = MSCCLPP_DEV_PLAN_BLOCK_BYTES(plan, stride, own->args.bytes);
    }
    mscclpp_dev_block_sync(ctx);
    return mscclpp_dev_linger_plan(*ctx, own);
}

MSCCLPP_DEV bool mscclpp_dev_linger_takes_epoch(uint32_t kernel)
{
    return kernel != MSCCLPP_KERNEL_PLAN && kernel != MSCCLPP_KERNEL_ALLREDUCE_ZEROCOPY &&
           kernel != MSCCLPP_KERNEL_ALLREDUCE_NODES && kernel != MSCCLPP_KERNEL_ALLREDUCE_ONESHOT_PUT;
}

/* Executes one operation in the blocks that it is for. Other blocks only report its end. */
MSCCLPP_DEV void mscclpp_dev_linger_serve(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_linger_args_t *args,
                                          mscclpp_dev_linger_block_t *own, uint32_t code)
{
    const uint32_t kernel = MSCCLPP_DEV_BELL_KERNEL(code);
    mscclpp_dev_ctx_t mine = *ctx;

    mine.nblocks = MSCCLPP_DEV_BELL_BLOCKS(code);
    if (mine.block >= mine.nblocks) {
        if (mine.tid == 0 && mine.nblocks > 1) {
            mscclpp_dev_st_release_sys_u64(&own->args.mailbox->ended[mine.block], own->args.launches + 1);
        }
        /* The data about this operation may be overwritten after this barrier. */
        mscclpp_dev_block_sync(&mine);
        return;
    }
    if (kernel == MSCCLPP_KERNEL_ALLREDUCE_ZEROCOPY) {
        ctx->failed =
            mscclpp_dev_linger_serve_zerocopy(&mine, &args->sets[MSCCLPP_DEV_BELL_VARIANT(code)], &own->zerocopy, code);
    } else if (kernel == MSCCLPP_KERNEL_ALLREDUCE_ONESHOT_PUT) {
        ctx->failed = mscclpp_dev_linger_serve_put(&mine, &own->args, code);
    } else if (kernel == MSCCLPP_KERNEL_PLAN) {
        ctx->failed = mscclpp_dev_linger_serve_plan(&mine, own);
    } else if (kernel == MSCCLPP_KERNEL_COLL_MOVE_PACKETS || kernel == MSCCLPP_KERNEL_COLL_COMBINE_PACKETS ||
               mscclpp_dev_linger_is_varied(kernel)) {
        ctx->failed = mscclpp_dev_linger_serve_coll(&mine, &own->blocks, code, own->words[MSCCLPP_DEV_BELL_COLL]);
    } else if (kernel == MSCCLPP_KERNEL_ALLREDUCE_NODES || kernel == MSCCLPP_KERNEL_ALLREDUCE_NODES_PACKETS) {
        if (mine.tid == 0) {
            own->nodes.pattern = MSCCLPP_DEV_BELL_VARIANT(code);
        }
        mscclpp_dev_block_sync(&mine);
        ctx->failed = kernel == MSCCLPP_KERNEL_ALLREDUCE_NODES ? mscclpp_dev_linger_nodes(mine, &own->nodes)
                                                               : mscclpp_dev_linger_nodes_packets(mine, &own->nodes);
    } else {
        ctx->failed = mscclpp_dev_linger_serve_packets(&mine, &own->args, code);
    }
    if (ctx->failed) {
        mscclpp_dev_st_relaxed_block_u32(&own->failed, 1);
    }
    /*
     * Only the first block counts: the other blocks read the epoch from the relay. They may do so before all of their
     * threads are here.
     */
    if (mine.block == 0 && mine.tid == 0 && mscclpp_dev_linger_takes_epoch(kernel)) {
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
    uint32_t w;

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
    for (w = 0; w < MSCCLPP_DEV_RELAY_WORDS; ++w) {
        state->relay[w] = 0;
    }
    mscclpp_dev_st_release_sys_u64(&args->common.mailbox->left, args->number);
}

/* The kernel body: serves the operation of the launch, and then those that the host rings for. */
MSCCLPP_DEV void mscclpp_dev_linger(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_linger_args_t *args,
                                    mscclpp_dev_linger_block_t *own)
{
    bool there = true;
    uint32_t w;

    for (w = ctx->tid; w < MSCCLPP_DEV_RELAY_WORDS; w += ctx->nthreads) {
        own->relay[w] = 0;
    }
    if (args->plan != NULL) {
        mscclpp_dev_plan_copy(ctx, (char *)&own->plan + sizeof(own->plan.common),
                              (const char *)args->plan + sizeof(own->plan.common),
                              sizeof(own->plan) - sizeof(own->plan.common));
        if (ctx->block < args->plan_blocks) {
            (void)mscclpp_dev_plan_find_program(ctx, args->plan, &own->plan_room, false);
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
    while (there) {
        const uint32_t code = own->words[MSCCLPP_DEV_BELL_CODE];

        mscclpp_dev_linger_serve(ctx, args, own, code);
        mscclpp_dev_ctx_renew(ctx);
        if (ctx->block == 0) {
            there = mscclpp_dev_linger_await_bell(ctx, args, own);
            if (ctx->nblocks > 1 && (!there || MSCCLPP_DEV_BELL_BLOCKS(own->words[MSCCLPP_DEV_BELL_CODE]) > 1)) {
                mscclpp_dev_linger_relay(ctx, args, own, !there);
            }
        } else {
            there = mscclpp_dev_linger_await_relay(ctx, args, own);
        }
        ctx->failed = mscclpp_dev_ld_relaxed_block_u32(&own->failed) != 0;
    }
    mscclpp_dev_linger_leave(ctx, args);
}

#endif
