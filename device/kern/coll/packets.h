/*
 * Small blocks as packets (lib/packet.h), in one epoch: each rank stores its block for a peer into its slot in the
 * peer's scratch, and the peer moves the block to its place or combines it with others. This takes one step of latency.
 *
 * A rank that has no block for a peer sends an empty packet in place of the block's first unit. So every kernel
 * receives a packet from every peer, as packets require: a rank that has ended kernel k + 1 knows that all peers have
 * ended kernel k. Without the empty packet, a rank could get two kernels ahead of a peer with which it exchanges
 * nothing. Kernel k + 2, of another pattern, could then overwrite packets of kernel k in the same half while that peer
 * still reads them.
 *
 * The slots are those of the one-shot all-reduce, so kernels of both kinds take turns in the same memory.
 */
#ifndef MSCCLPP_DEVICE_KERN_COLL_PACKETS_H
#define MSCCLPP_DEVICE_KERN_COLL_PACKETS_H

#include "device/lib/barrier.h"
#include "device/types/hot.h"
#include "device/kern/coll/blocks.h"
#include "device/lib/packet.h"
#include "device/lib/reduce.h"

/*
 * Operands that a thread loads before it waits for the first one. Lingering kernels have registers for fewer: what does
 * not fit lies in local memory, which costs a small call more than a second batch does.
 */
#define MSCCLPP_DEV_COLL_BATCH 8
#define MSCCLPP_DEV_COLL_LINGER_BATCH 4

typedef struct {
    const mscclpp_dev_coll_args_t *coll;
    const mscclpp_dev_blocks_args_t *blocks;
    uint64_t pair; /* bytes from the first half of a unit's packets to the second half */
    uint64_t half; /* offset in a scratch of the slots that this epoch uses, bytes */
    uint32_t flag;
    uint32_t row;   /* number of threads that share the units of one block */
    uint32_t lane;  /* index of this thread among those */
    uint32_t rows;  /* number of blocks that the grid works on at once */
    uint32_t first; /* index of this thread's block among those; `rows` if the thread has none */
} mscclpp_dev_coll_packets_t;

/* Place where the receiver finds unit `u` of the sender's block. */
MSCCLPP_DEV char *mscclpp_dev_coll_slot(const mscclpp_dev_coll_packets_t *p, uint32_t receiver, uint32_t sender,
                                        uint32_t u)
{
    return p->coll->common.scratch[receiver] + p->half + sender * 2 * p->pair + (uint64_t)u * MSCCLPP_DEV_PACKET_STEP;
}

/* Prepares the state of a call: which units of which blocks this thread handles. */
MSCCLPP_DEV void mscclpp_dev_coll_packets_begin(mscclpp_dev_ctx_t *ctx, mscclpp_dev_coll_packets_t *p,
                                                const mscclpp_dev_coll_args_t *coll,
                                                const mscclpp_dev_blocks_args_t *blocks)
{
    const mscclpp_dev_args_t *args = &coll->common;
    const uint32_t threads = ctx->nblocks * ctx->nthreads, thread = ctx->block * ctx->nthreads + ctx->tid;
    const uint32_t most = (uint32_t)mscclpp_dev_units(blocks != NULL ? blocks->most : args->bytes);
    const uint32_t grain = MSCCLPP_DEV_WARP; /* whole warps, so that all threads of a warp take the same branches */
    /*
     * In a scan, one thread handles a unit for all peers. If the scan is in place, that thread reads the unit for all
     * of them before it writes it. The same goes for what else may write its output where its input lies.
     */
    const bool overwrites =
        coll->pattern == MSCCLPP_DEV_SCAN || coll->pattern == MSCCLPP_DEV_EXSCAN ||
        (coll->in_place != 0 && (coll->pattern == MSCCLPP_DEV_ALLTOALL || coll->pattern == MSCCLPP_DEV_REDUCE_SCATTER));
    const uint32_t wanted = overwrites ? threads : most == 0 ? grain : (most + grain - 1) / grain * grain;

    p->coll = coll;
    p->blocks = blocks;
    p->flag = mscclpp_dev_last_epoch(ctx, args) + 1;
    p->pair = (uint64_t)args->oneshot_capacity * MSCCLPP_DEV_PACKET_STEP;
    p->half = MSCCLPP_DEV_PACKET_OFFSET + (p->flag & 1) * args->packet_half;
    p->row = wanted < threads ? wanted : threads;
    p->rows = threads / p->row;
    p->lane = thread % p->row;
    p->first = thread / p->row < p->rows ? thread / p->row : args->nranks;
}

/* Sends this thread's units to all peers. */
MSCCLPP_DEV void mscclpp_dev_coll_packets_send(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_coll_packets_t *p)
{
    const mscclpp_dev_args_t *args = &p->coll->common;
    uint32_t i, u;

    for (i = 1 + p->first; i < args->nranks && !ctx->failed; i += p->rows) {
        const uint32_t peer = mscclpp_dev_coll_next(args, i);
        const mscclpp_dev_block_t block = mscclpp_dev_coll_send_block(p->coll, p->blocks, peer);
        const uint32_t units = (uint32_t)mscclpp_dev_units(block.bytes);

        if (units == 0 && p->lane == 0) {
            mscclpp_dev_put_unit(mscclpp_dev_coll_slot(p, peer, args->rank, 0), p->pair, mscclpp_dev_vec_zero(),
                                 p->flag, MSCCLPP_DEV_LL16);
        }
        for (u = p->lane; u < units; u += p->row) {
            mscclpp_dev_put_unit(mscclpp_dev_coll_slot(p, peer, args->rank, u), p->pair,
                                 mscclpp_dev_ld_unit((const char *)args->in + block.offset, u, block.bytes), p->flag,
                                 MSCCLPP_DEV_LL16);
        }
    }
}

/* Waits for unit `u` of a peer's block. */
MSCCLPP_DEV void mscclpp_dev_coll_packets_get(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_coll_packets_t *p,
                                              uint32_t peer, uint32_t u, mscclpp_dev_vec_t *v)
{
    const mscclpp_dev_args_t *args = &p->coll->common;

    mscclpp_dev_get_unit(ctx, args, mscclpp_dev_coll_slot(p, args->rank, peer, u), p->pair, v, p->flag,
                         MSCCLPP_DEV_LL16, peer);
}

/* The kernel body for patterns that move blocks. */
MSCCLPP_DEV void mscclpp_dev_coll_move_packets(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_coll_args_t *coll,
                                               const mscclpp_dev_blocks_args_t *blocks)
{
    const mscclpp_dev_args_t *args = &coll->common;
    const uint64_t launches = mscclpp_dev_last_launch(ctx, args);
    mscclpp_dev_coll_packets_t p;
    mscclpp_dev_vec_t v;
    uint32_t i, u;

    mscclpp_dev_enter(ctx, args);
    mscclpp_dev_coll_packets_begin(ctx, &p, coll, blocks);
    mscclpp_dev_coll_packets_send(ctx, &p);
    mscclpp_dev_coll_copy_own(ctx, coll, blocks);
    for (i = 1 + p.first; i < args->nranks; i += p.rows) {
        const uint32_t peer = mscclpp_dev_coll_previous(args, i);
        const mscclpp_dev_block_t block = mscclpp_dev_coll_recv_block(coll, blocks, peer);
        const uint32_t units = (uint32_t)mscclpp_dev_units(block.bytes);

        if (units == 0 && p.lane == 0) {
            mscclpp_dev_coll_packets_get(ctx, &p, peer, 0, &v);
        }
        for (u = p.lane; u < units; u += p.row) {
            mscclpp_dev_coll_packets_get(ctx, &p, peer, u, &v);
            if (!ctx->failed) {
                mscclpp_dev_st_unit((char *)args->out + block.offset, u, block.bytes, v, 0xffffu);
            }
        }
    }
    mscclpp_dev_finish_packets(ctx, args, launches, p.flag);
}

/*
 * Reads the operand of `rank` for unit `u` of the result. Returns false if it has not arrived. This rank's own operand
 * is read from the user's buffer.
 */
MSCCLPP_DEV bool mscclpp_dev_coll_packets_poll(const mscclpp_dev_coll_packets_t *p, uint32_t rank, uint32_t u,
                                               uint64_t bytes, mscclpp_dev_vec_t *v)
{
    const mscclpp_dev_args_t *args = &p->coll->common;

    if (rank == args->rank) {
        const mscclpp_dev_block_t own = mscclpp_dev_coll_send_block(p->coll, p->blocks, rank);

        *v = mscclpp_dev_ld_unit((const char *)args->in + own.offset, u, bytes);
        return true;
    }
    return mscclpp_dev_poll_unit(mscclpp_dev_coll_slot(p, args->rank, rank, u), p->pair, v, p->flag, MSCCLPP_DEV_LL16);
}

/*
 * Waits for the operands of ranks 0 to `end` - 1 for unit `u`, and combines them. `end` is at least 1. `bytes` is the
 * size of the whole result. `batch` is a constant, at most MSCCLPP_DEV_COLL_BATCH.
 */
MSCCLPP_DEV mscclpp_dev_vec_t mscclpp_dev_coll_packets_combine(mscclpp_dev_ctx_t *ctx,
                                                               const mscclpp_dev_coll_packets_t *p, uint32_t end,
                                                               uint64_t bytes, bool hot, int dtype, int op,
                                                               uint32_t batch, uint32_t u)
{
    mscclpp_dev_acc_t acc;
    mscclpp_dev_vec_t v[MSCCLPP_DEV_COLL_BATCH];
    bool there[MSCCLPP_DEV_COLL_BATCH];
    uint32_t r, k;

    for (r = 0; r < end; r += batch) {
        MSCCLPP_DEV_UNROLL
        for (k = 0; k < batch; ++k) {
            there[k] = r + k >= end || mscclpp_dev_coll_packets_poll(p, r + k, u, bytes, &v[k]);
        }
        MSCCLPP_DEV_UNROLL
        for (k = 0; k < batch; ++k) {
            if (!there[k]) {
                mscclpp_dev_coll_packets_get(ctx, p, r + k, u, &v[k]);
            }
            if (r + k == 0) {
                mscclpp_dev_acc_set(&acc, dtype, v[k]);
            } else if (r + k < end) {
                mscclpp_dev_acc_add(&acc, hot, dtype, op, v[k]);
            }
        }
    }
    return mscclpp_dev_acc_get(&acc, dtype);
}

/* The kernel body for patterns that combine blocks. `batch` is a constant, at most MSCCLPP_DEV_COLL_BATCH. */
MSCCLPP_DEV void mscclpp_dev_coll_combine_packets(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_coll_args_t *coll,
                                                  const mscclpp_dev_blocks_args_t *blocks, bool hot, int dtype, int op,
                                                  uint32_t batch)
{
    const mscclpp_dev_args_t *args = &coll->common;
    const uint64_t launches = mscclpp_dev_last_launch(ctx, args);
    const uint32_t threads = ctx->nblocks * ctx->nthreads, thread = ctx->block * ctx->nthreads + ctx->tid;
    const uint64_t bytes = mscclpp_dev_coll_result_bytes(coll, blocks);
    const uint32_t units = (uint32_t)mscclpp_dev_units(bytes), mask = mscclpp_dev_unit_mask(dtype);
    /* A scan combines the operands of lower ranks. Other patterns combine those of all ranks. */
    const uint32_t end = coll->pattern == MSCCLPP_DEV_SCAN     ? args->rank + 1
                         : coll->pattern == MSCCLPP_DEV_EXSCAN ? args->rank
                                                               : args->nranks;
    mscclpp_dev_coll_packets_t p;
    mscclpp_dev_vec_t v;
    uint32_t i, u;

    mscclpp_dev_enter(ctx, args);
    mscclpp_dev_coll_packets_begin(ctx, &p, coll, blocks);
    mscclpp_dev_coll_packets_send(ctx, &p);
    for (u = thread; u < units; u += threads) {
        v = mscclpp_dev_coll_packets_combine(ctx, &p, end, bytes, hot, dtype, op, batch, u);
        if (!ctx->failed) {
            mscclpp_dev_st_unit(args->out, u, bytes, v, mask);
        }
    }
    /* Receives the empty packets of the ranks that have no operand for this rank. */
    for (i = 1 + thread; i < args->nranks; i += threads) {
        const uint32_t peer = mscclpp_dev_coll_previous(args, i);

        if (units == 0 || peer >= end) {
            mscclpp_dev_coll_packets_get(ctx, &p, peer, 0, &v);
        }
    }
    mscclpp_dev_finish_packets(ctx, args, launches, p.flag);
}

#endif
