/*
 * Moves blocks whose sizes only their senders and receivers know, in one step if the blocks are small. Each rank sends
 * each peer a head: a packet with the size of this rank's largest block. Small blocks follow the head as packets, in
 * the same slot. If no head has the size of a large block, the call ends there, as a call of packets.h does. Otherwise
 * all ranks go on with tiles (tiles.h), for the large blocks only. The sender and the receiver of a block agree whether
 * the block is small, because both know its size.
 *
 * lib/packet.h requires that each kernel receives a packet from every peer. The heads are these packets.
 */
#ifndef MSCCLPP_DEVICE_KERN_COLL_UNSIZED_H
#define MSCCLPP_DEVICE_KERN_COLL_UNSIZED_H

#include "device/kern/coll/packets.h"
#include "device/kern/coll/tiles.h"

/* The number of units in a slot that precede the block's data. */
#define MSCCLPP_DEV_COLL_HEAD_UNITS 1

/* Sends every peer this rank's head. Called by all threads of one block of the grid. After a failure, sends nothing. */
MSCCLPP_DEV void mscclpp_dev_coll_send_heads(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_coll_packets_t *packets)
{
    const mscclpp_dev_args_t *args = &packets->coll->common;
    const uint64_t largest_bytes = packets->blocks->largest_block;
    mscclpp_dev_vec_t head = mscclpp_dev_vec_zero();
    uint32_t i;

    head.w[0] = (uint32_t)largest_bytes;
    head.w[1] = (uint32_t)(largest_bytes >> 32);
    for (i = 1 + ctx->tid; i < args->nranks && !ctx->failed; i += ctx->nthreads) {
        mscclpp_dev_put_unit(mscclpp_dev_coll_slot(packets, mscclpp_dev_coll_next(args, i), args->rank, 0),
                             packets->half_gap, head, packets->flag, MSCCLPP_DEV_LL16);
    }
}

/*
 * Waits for the head of a peer, and returns the size of the peer's largest block. If the wait fails, sets ctx->failed,
 * and the result is arbitrary.
 */
MSCCLPP_DEV uint64_t mscclpp_dev_coll_get_head(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_coll_packets_t *packets,
                                               uint32_t peer)
{
    mscclpp_dev_vec_t head = mscclpp_dev_vec_zero();

    mscclpp_dev_coll_packets_get(ctx, packets, peer, 0, &head);
    return (uint64_t)head.w[1] << 32 | head.w[0];
}

/* Returns the number of units of a small block, which goes as packets, and 0 for a large block. */
MSCCLPP_DEV uint32_t mscclpp_dev_coll_small_units(const mscclpp_dev_coll_packets_t *packets, mscclpp_dev_block_t block)
{
    return block.bytes <= packets->blocks->packets_max ? (uint32_t)mscclpp_dev_units(block.bytes) : 0;
}

/* Sends this thread's units of the small blocks. After a failure, sends nothing. */
MSCCLPP_DEV void mscclpp_dev_coll_send_small(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_coll_packets_t *packets)
{
    const mscclpp_dev_args_t *args = &packets->coll->common;
    uint32_t i, unit;

    for (i = 1 + packets->row; i < args->nranks && !ctx->failed; i += packets->rows) {
        const uint32_t peer = mscclpp_dev_coll_next(args, i);
        const mscclpp_dev_block_t block = mscclpp_dev_coll_send_block(packets->coll, packets->blocks, peer);
        const uint32_t units = mscclpp_dev_coll_small_units(packets, block);

        for (unit = packets->lane; unit < units; unit += packets->row_threads) {
            mscclpp_dev_put_unit(mscclpp_dev_coll_slot(packets, peer, args->rank, MSCCLPP_DEV_COLL_HEAD_UNITS + unit),
                                 packets->half_gap,
                                 mscclpp_dev_ld_unit((const char *)args->in + block.offset, unit, block.bytes),
                                 packets->flag, MSCCLPP_DEV_LL16);
        }
    }
}

/* Moves this thread's units of the small blocks from peers to their places. If a wait fails, sets ctx->failed. */
MSCCLPP_DEV void mscclpp_dev_coll_take_small(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_coll_packets_t *packets)
{
    const mscclpp_dev_args_t *args = &packets->coll->common;
    mscclpp_dev_vec_t value;
    uint32_t i, unit;

    for (i = 1 + packets->row; i < args->nranks; i += packets->rows) {
        const uint32_t peer = mscclpp_dev_coll_previous(args, i);
        const mscclpp_dev_block_t block = mscclpp_dev_coll_recv_block(packets->coll, packets->blocks, peer);
        const uint32_t units = mscclpp_dev_coll_small_units(packets, block);

        for (unit = packets->lane; unit < units; unit += packets->row_threads) {
            mscclpp_dev_coll_packets_get(ctx, packets, peer, MSCCLPP_DEV_COLL_HEAD_UNITS + unit, &value);
            if (!ctx->failed) {
                mscclpp_dev_st_unit((char *)args->out + block.offset, unit, block.bytes, value, MSCCLPP_DEV_WHOLE_UNIT);
            }
        }
    }
}

/*
 * Waits for the heads of all peers. Returns true, in all threads of the block, if some rank has a large block. If a
 * wait fails, returns false and sets ctx->failed in all threads. Called by all threads of the block, which synchronises
 * them.
 */
MSCCLPP_DEV bool mscclpp_dev_coll_has_large(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_coll_packets_t *packets)
{
    const mscclpp_dev_args_t *args = &packets->coll->common;
    const uint64_t packets_max = packets->blocks->packets_max;
    bool has_large = packets->blocks->largest_block > packets_max;
    uint32_t i;

    for (i = 1 + ctx->tid; i < args->nranks; i += ctx->nthreads) {
        const uint64_t largest_bytes = mscclpp_dev_coll_get_head(ctx, packets, mscclpp_dev_coll_previous(args, i));

        has_large = has_large || largest_bytes > packets_max;
    }
    has_large = mscclpp_dev_block_sync_or(ctx, has_large);
    ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
    return has_large && !ctx->failed;
}

/* Returns the size of the largest block of all ranks. The heads of all peers have arrived. */
MSCCLPP_DEV uint64_t mscclpp_dev_coll_find_largest(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_coll_packets_t *packets)
{
    const mscclpp_dev_args_t *args = &packets->coll->common;
    uint64_t largest_bytes = packets->blocks->largest_block;
    uint32_t i;

    for (i = 1; i < args->nranks; ++i) {
        const uint64_t peer_largest_bytes = mscclpp_dev_coll_get_head(ctx, packets, mscclpp_dev_coll_next(args, i));

        largest_bytes = peer_largest_bytes > largest_bytes ? peer_largest_bytes : largest_bytes;
    }
    return largest_bytes;
}

/*
 * Runs the kernel, for patterns that move blocks. After a failure, sends no more blocks to peers, and stores no more
 * blocks from peers. Copies this rank's own block even after a failure.
 */
MSCCLPP_DEV void mscclpp_dev_coll_move_unsized(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_blocks_args_t *args)
{
    const mscclpp_dev_coll_args_t *coll = &args->coll;
    const mscclpp_dev_args_t *common = &coll->common;
    uint64_t barriers_before = 0, barriers = 0, launches;
    mscclpp_dev_coll_packets_t packets;
    mscclpp_dev_coll_turn_t turn;

    mscclpp_dev_coll_packets_divide(ctx, &packets, coll, args);
    launches = mscclpp_dev_coll_packets_begin(ctx, &packets);
    if (ctx->block == 0) {
        mscclpp_dev_coll_send_heads(ctx, &packets);
    }
    mscclpp_dev_coll_send_small(ctx, &packets);
    mscclpp_dev_coll_copy_own(ctx, coll, args);
    mscclpp_dev_coll_take_small(ctx, &packets);
    if (mscclpp_dev_coll_has_large(ctx, &packets)) {
        /* Read only here, because mscclpp_dev_coll_packets_begin may renew the flags, which passes barriers. */
        barriers_before = barriers = mscclpp_dev_last_barrier(ctx, common);
        mscclpp_dev_barrier(ctx, common, ++barriers); /* heads do not order accesses to tiles */
        mscclpp_dev_coll_first_turn(ctx, &turn, coll, args, args->packets_max);
        mscclpp_dev_coll_take_turns(ctx, turn, mscclpp_dev_coll_find_largest(ctx, &packets), false, (int)common->dtype,
                                    (int)common->op, &barriers);
    }
    mscclpp_dev_finish(ctx, common, launches, packets.flag, barriers_before, barriers);
}

#endif
