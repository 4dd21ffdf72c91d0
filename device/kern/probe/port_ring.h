/*
 * Transfers round the ring of ranks over port channels, which verify and measure the transports. In each round, every
 * rank passes on to the next rank the data it received in the round before, starting with its own input. So the output
 * is the input of the rank `rounds` ranks back; it is wrong if any signal arrived before its bytes. Each block moves
 * its own slice over its own channels. A rank tells the previous rank when the slot of a round is free, and puts only
 * when the next rank has told it so.
 */
#ifndef MSCCLPP_DEVICE_KERN_PROBE_PORT_RING_H
#define MSCCLPP_DEVICE_KERN_PROBE_PORT_RING_H

#include "device/lib/barrier.h"
#include "device/lib/memory_channel.h"
#include "device/lib/port_channel.h"

/*
 * Carries out one round of a block's slice. Called by one thread. `word_before` is the value of the block's word before
 * the first round. Returns true if the signal arrived before the addition that precedes it; that is an error of the
 * transport. If a wait fails, sets ctx->failed and returns false.
 */
MSCCLPP_DEV bool mscclpp_dev_port_ring_round_is_late(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_port_ring_args_t *ring,
                                                     uint32_t round, uint64_t slice_begin, uint64_t slice_bytes,
                                                     uint64_t word_before)
{
    const mscclpp_dev_args_t *args = &ring->common;
    const mscclpp_dev_port_channel_t *to_next = &ring->next[ctx->block], *to_previous = &ring->previous[ctx->block];
    const uint64_t from_offset = round % 2 * ring->slot_size + slice_begin,
                   to_offset = (round + 1) % 2 * ring->slot_size + slice_begin;
    const uint64_t word_offset = 2 * ring->slot_size + ctx->block * sizeof(uint64_t);

    /* Tells the previous rank that the slot of this round is free here. Waits until the next rank has said the same. */
    mscclpp_dev_port_signal(ctx, args, to_previous);
    mscclpp_dev_port_wait(ctx, args, to_next);
    if (ring->add != 0) {
        mscclpp_dev_port_add(ctx, args, to_next, word_offset, ring->add);
    }
    if (ring->combined != 0) {
        mscclpp_dev_port_put_with_signal_and_flush(ctx, args, to_next, to_offset, from_offset, slice_bytes);
    } else {
        mscclpp_dev_port_put(ctx, args, to_next, to_offset, from_offset, slice_bytes);
        mscclpp_dev_port_signal(ctx, args, to_next);
        mscclpp_dev_port_flush(ctx, args, to_next);
    }
    /*
     * Overwrites the source. If the transport still reads the source after the flush, it sends wrong bytes, and the
     * host finds them in the output.
     */
    if (ring->overwrite != 0 && slice_bytes > 0 && !ctx->failed) {
        ring->region[from_offset] = 0;
        ring->region[from_offset + slice_bytes - 1] = 0;
    }
    mscclpp_dev_port_wait(ctx, args, to_previous);
    return !ctx->failed &&
           mscclpp_dev_ld_relaxed_sys_u64((const uint64_t *)(const void *)(ring->region + word_offset)) !=
               word_before + (round + 1) * ring->add;
}

/*
 * Runs the kernel: passes bytes around the ring. If there are additions, counts the rounds in which the addition was
 * late. After a failed wait the output is not written.
 */
MSCCLPP_DEV void mscclpp_dev_port_ring(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_port_ring_args_t *ring)
{
    const mscclpp_dev_args_t *args = &ring->common;
    const uint64_t units = mscclpp_dev_units(args->bytes);
    const uint64_t share = (units + ctx->nblocks - 1) / ctx->nblocks * MSCCLPP_DEV_UNIT;
    const uint64_t slice_begin = ctx->block * share < args->bytes ? ctx->block * share : args->bytes;
    const uint64_t slice_bytes = args->bytes - slice_begin < share ? args->bytes - slice_begin : share;
    const uint64_t word_before = mscclpp_dev_ld_relaxed_sys_u64(
        (const uint64_t *)(const void *)(ring->region + 2 * ring->slot_size + ctx->block * sizeof(uint64_t)));
    uint32_t round;

    mscclpp_dev_block_copy(ctx, ring->region + slice_begin, (const char *)args->in + slice_begin, slice_bytes);
    for (round = 0; round < ring->rounds && !ctx->failed; ++round) {
        mscclpp_dev_block_sync(ctx);
        if (ctx->tid == 0 &&
            mscclpp_dev_port_ring_round_is_late(ctx, ring, round, slice_begin, slice_bytes, word_before)) {
            ring->late[ctx->block] += 1;
        }
        ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
    }
    if (!ctx->failed) {
        mscclpp_dev_block_copy(ctx, (char *)args->out + slice_begin,
                               ring->region + ring->rounds % 2 * ring->slot_size + slice_begin, slice_bytes);
    }
    mscclpp_dev_finish_packets(ctx, args, mscclpp_dev_last_launch(ctx, args), mscclpp_dev_last_epoch(ctx, args));
}

#endif
