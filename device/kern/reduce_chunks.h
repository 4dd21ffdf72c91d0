/*
 * The part of the all-reduce by copy engines that needs processors. The engines of the peers put their operands of the
 * own shard into slots here, chunk by chunk; this kernel combines each chunk with the own operand, in rank order,
 * writes the result to the own output and tells the host, which lets the own engines carry it to the peers. The kernel
 * ends when the results of all peers have arrived and the own engines have read all that they had to.
 *
 * Flags are raised by copy engines, so the blocks meet nobody: there is no barrier between ranks. No slot is
 * overwritten early, because a peer's host sends chunk k + MSCCLPP_DEV_ENGINE_DEPTH only after this rank's host has
 * seen k reduced.
 *
 * Send and receive buffer may be the same on any ranks. Of a rank's buffer, chunk k of the shard of a peer is
 * overwritten by that peer's result, which was sent after the peer's kernel had reduced the chunk, for which the rank's
 * operand had to arrive: the engine had read these very bytes by then. Chunk k of the own shard is read and written by
 * this kernel alone, each unit by one thread that reads first; the engines read it once it is reduced. No two chunks
 * share a byte. Where the buffers are different the send buffer is never written.
 */
#ifndef MSCCLPP_DEVICE_KERN_REDUCE_CHUNKS_H
#define MSCCLPP_DEVICE_KERN_REDUCE_CHUNKS_H

#include "device/barrier.h"
#include "device/engine_types.h"
#include "device/reduce.h"

/* A chunk of the own shard. */
typedef struct {
    uint64_t k;     /* its number in the call */
    uint64_t first; /* byte of the message where it begins */
    uint64_t bytes; /* 0 behind the message's end */
} mscclpp_dev_chunk_t;

MSCCLPP_DEV mscclpp_dev_chunk_t mscclpp_dev_chunk_of(const mscclpp_dev_reduce_args_t *args, uint64_t k)
{
    const uint64_t begin = args->common.rank * args->shard, end = begin + args->shard;
    const uint64_t last = end < args->common.bytes ? end : args->common.bytes;
    mscclpp_dev_chunk_t chunk;

    chunk.k = k;
    chunk.first = begin + k * args->chunk;
    chunk.bytes = chunk.first < last ? last - chunk.first : 0;
    if (chunk.bytes > args->chunk) {
        chunk.bytes = args->chunk;
    }
    return chunk;
}

/* First byte of the operand of rank `r`. */
MSCCLPP_DEV const char *mscclpp_dev_chunk_operand(const mscclpp_dev_reduce_args_t *args, mscclpp_dev_chunk_t chunk,
                                                  uint32_t r)
{
    if (r == args->common.rank) {
        return (const char *)args->common.in + chunk.first;
    }
    return (const char *)args->engine + MSCCLPP_DEV_ENGINE_SLOT(r, args->common.rank, chunk.k, args->chunk);
}

/*
 * Combines whole, aligned units, `batch` at a time and `stride` units apart, as far as whole batches go. `n` is the
 * number of ranks and `batch` a constant: all loads are under way before the first operand is used. Returns the unit to
 * go on with.
 */
MSCCLPP_DEV uint64_t mscclpp_dev_chunk_batches(const mscclpp_dev_reduce_args_t *args, mscclpp_dev_chunk_t chunk, int n,
                                               int batch, bool hot, int dtype, int op, uint64_t u, uint64_t stride)
{
    const uint64_t whole = chunk.bytes / MSCCLPP_DEV_UNIT;
    char *out = (char *)args->common.out + chunk.first;
    const char *operand[8];
    int i, k;

    MSCCLPP_DEV_UNROLL
    for (i = 0; i < n; ++i) {
        operand[i] = mscclpp_dev_chunk_operand(args, chunk, (uint32_t)i);
    }
    for (; u + (uint64_t)(batch - 1) * stride < whole; u += (uint64_t)batch * stride) {
        mscclpp_dev_vec_t v[8][4];

        MSCCLPP_DEV_UNROLL
        for (i = 0; i < n; ++i) {
            MSCCLPP_DEV_UNROLL
            for (k = 0; k < batch; ++k) {
                v[i][k] = mscclpp_dev_ld_vec(operand[i] + (u + (uint64_t)k * stride) * MSCCLPP_DEV_UNIT);
            }
        }
        MSCCLPP_DEV_UNROLL
        for (k = 0; k < batch; ++k) {
            mscclpp_dev_acc_t acc;

            mscclpp_dev_acc_set(&acc, dtype, v[0][k]);
            MSCCLPP_DEV_UNROLL
            for (i = 1; i < n; ++i) {
                mscclpp_dev_acc_add(&acc, hot, dtype, op, v[i][k]);
            }
            mscclpp_dev_st_vec(out + (u + (uint64_t)k * stride) * MSCCLPP_DEV_UNIT, mscclpp_dev_acc_get(&acc, dtype));
        }
    }
    return u;
}

/* Any number of ranks, any alignment, the message's tail. */
MSCCLPP_DEV void mscclpp_dev_chunk_units(const mscclpp_dev_reduce_args_t *args, mscclpp_dev_chunk_t chunk, bool hot,
                                         int dtype, int op, uint64_t u, uint64_t stride)
{
    const uint64_t units = mscclpp_dev_units(chunk.bytes);
    uint32_t r;

    for (; u < units; u += stride) {
        mscclpp_dev_acc_t acc;

        mscclpp_dev_acc_set(&acc, dtype,
                            mscclpp_dev_ld_unit(mscclpp_dev_chunk_operand(args, chunk, 0), u, chunk.bytes));
        for (r = 1; r < args->common.nranks; ++r) {
            mscclpp_dev_acc_add(&acc, hot, dtype, op,
                                mscclpp_dev_ld_unit(mscclpp_dev_chunk_operand(args, chunk, r), u, chunk.bytes));
        }
        mscclpp_dev_st_unit((char *)args->common.out + chunk.first, u, chunk.bytes, mscclpp_dev_acc_get(&acc, dtype),
                            0xffffu);
    }
}

/* Waits until every peer's word is at least `target`. To be called by all threads, which have all failed if one has. */
MSCCLPP_DEV void mscclpp_dev_await_peers(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args, const uint64_t *words,
                                         uint64_t target)
{
    mscclpp_dev_wait_t wait = {0, 0};
    uint32_t peer;

    for (peer = ctx->tid; peer < args->nranks; peer += ctx->nthreads) {
        if (peer == args->rank) {
            continue;
        }
        while (mscclpp_dev_ld_acquire_sys_u64(&words[peer]) < target) {
            /* Many blocks that poll one line without a rest take a good part of the rate from what arrives there. */
            mscclpp_dev_rest(ctx);
            if (!mscclpp_dev_wait_turn(ctx, args, &wait, peer)) {
                break;
            }
        }
    }
    ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
}

/*
 * The last block to have reduced a chunk tells the host. Each block takes the tickets of its chunks in order, so what
 * the last block of one chunk tells comes before what the last one of the next chunk does. A ticket is used again only
 * after the host was told, for the chunk that then comes into the slot waits for that.
 */
MSCCLPP_DEV void mscclpp_dev_chunk_done(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_reduce_args_t *args, uint64_t k)
{
    uint32_t *ticket = &args->engine->ticket[k % MSCCLPP_DEV_ENGINE_DEPTH];

    mscclpp_dev_block_sync(ctx);
    if (ctx->tid != 0 || (ctx->nblocks > 1 && mscclpp_dev_atom_acq_rel_gpu_add_u32(ticket, 1) + 1 != ctx->nblocks)) {
        return;
    }
    *ticket = 0;
    mscclpp_dev_st_release_sys_u64(args->reduced, args->base + k + 1);
}

MSCCLPP_DEV void mscclpp_dev_reduce_chunks(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_reduce_args_t *args, bool hot,
                                           int dtype, int op)
{
    const mscclpp_dev_args_t *common = &args->common;
    const uint64_t threads = (uint64_t)ctx->nblocks * ctx->nthreads;
    const uint64_t thread = (uint64_t)ctx->block * ctx->nthreads + ctx->tid;
    const bool fast = ((uintptr_t)common->in | (uintptr_t)common->out) % MSCCLPP_DEV_UNIT == 0;
    uint64_t k;

    mscclpp_dev_recall_failure(ctx, common);
    for (k = 0; k < args->chunks && !ctx->failed; ++k) {
        const mscclpp_dev_chunk_t chunk = mscclpp_dev_chunk_of(args, k);
        uint64_t u = thread;

        mscclpp_dev_await_peers(ctx, common, args->engine->arrived, args->base + k + 1);
        if (ctx->failed) {
            break;
        }
        if (fast && common->nranks == 2) {
            u = mscclpp_dev_chunk_batches(args, chunk, 2, 4, hot, dtype, op, u, threads);
        } else if (fast && common->nranks == 3) {
            u = mscclpp_dev_chunk_batches(args, chunk, 3, 2, hot, dtype, op, u, threads);
        } else if (fast && common->nranks == 4) {
            u = mscclpp_dev_chunk_batches(args, chunk, 4, 2, hot, dtype, op, u, threads);
        } else if (fast && common->nranks == 8) {
            u = mscclpp_dev_chunk_batches(args, chunk, 8, 1, hot, dtype, op, u, threads);
        }
        mscclpp_dev_chunk_units(args, chunk, hot, dtype, op, u, threads);
        mscclpp_dev_chunk_done(ctx, args, k);
    }
    /* One block is enough for that; the others' processors are the application's again. */
    if (ctx->block == 0 && !ctx->failed) {
        mscclpp_dev_await_peers(ctx, common, args->engine->gathered, args->base + args->chunks);
        mscclpp_dev_await_peers(ctx, common, args->engine->left, args->base + args->chunks);
    }
    mscclpp_dev_finish_packets(ctx, common, common->state->launches, common->state->epoch);
}

#endif
