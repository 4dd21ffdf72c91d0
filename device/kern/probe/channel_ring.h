/*
 * Transfers round the ring of ranks over memory channels, which verify and measure the links of a team. In each round,
 * every rank either puts its input to the next rank or gets the next rank's input, and learns that its neighbour has
 * done the same. The output is the data of the last round. Each block moves its own slice over its own channel.
 */
#ifndef MSCCLPP_DEVICE_KERN_PROBE_CHANNEL_RING_H
#define MSCCLPP_DEVICE_KERN_PROBE_CHANNEL_RING_H

#include "device/lib/barrier.h"
#include "device/lib/memory_channel.h"

/* Returns the channel of this block to `peer`. The channel's memory is the bulk area on both sides. */
MSCCLPP_DEV mscclpp_dev_memory_channel_t mscclpp_dev_ring_channel(const mscclpp_dev_ctx_t *ctx,
                                                                  const mscclpp_dev_args_t *args, uint32_t peer)
{
    mscclpp_dev_memory_channel_t channel;

    channel.local = args->scratch[args->rank] + args->bulk_offset;
    channel.remote = args->scratch[peer] + args->bulk_offset;
    channel.semaphore.inbound = &mscclpp_dev_sync_of(args, args->rank)->signalled[ctx->block][peer];
    channel.semaphore.remote_inbound = &mscclpp_dev_sync_of(args, peer)->signalled[ctx->block][args->rank];
    channel.semaphore.expected = &args->state->expected[ctx->block][peer];
    return channel;
}

/*
 * Runs the kernel: in each round, moves bytes to or from the next rank, by puts or by gets, and waits until the
 * previous rank has done the same. All rounds move the same bytes to the same places, so no rank waits for a place to
 * become free. After a failed wait the output is not written.
 */
MSCCLPP_DEV void mscclpp_dev_channel_ring(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_ring_args_t *ring)
{
    const mscclpp_dev_args_t *args = &ring->common;
    const uint32_t next = args->rank + 1 < args->nranks ? args->rank + 1 : 0;
    const uint32_t previous = args->rank > 0 ? args->rank - 1 : args->nranks - 1;
    const mscclpp_dev_memory_channel_t to_next = mscclpp_dev_ring_channel(ctx, args, next);
    const mscclpp_dev_memory_channel_t to_previous = mscclpp_dev_ring_channel(ctx, args, previous);
    const uint64_t units = mscclpp_dev_units(args->bytes);
    const uint64_t share = (units + ctx->nblocks - 1) / ctx->nblocks * MSCCLPP_DEV_UNIT;
    const uint64_t first = ctx->block * share < args->bytes ? ctx->block * share : args->bytes;
    const uint64_t size = args->bytes - first < share ? args->bytes - first : share;
    const uint64_t arrival = args->bulk_size / 2; /* offset where a neighbour's bytes arrive; this rank's own bytes
                                                     are at 0 */
    const uint64_t barrier_number = mscclpp_dev_last_barrier(ctx, args) + 1;
    uint32_t round;

    mscclpp_dev_block_copy(ctx, to_next.local + first, (const char *)args->in + first, size);
    /* After this barrier, the neighbours' kernels have started, and their operands are in place. */
    mscclpp_dev_barrier(ctx, args, barrier_number);
    for (round = 0; round < ring->rounds && !ctx->failed; ++round) {
        if (ring->get != 0) {
            mscclpp_dev_channel_get(ctx, &to_next, arrival + first, first, size);
        } else {
            mscclpp_dev_channel_put(ctx, &to_next, arrival + first, first, size);
        }
        mscclpp_dev_channel_signal(ctx, &to_next);
        mscclpp_dev_channel_wait(ctx, args, &to_previous, previous);
    }
    if (!ctx->failed) {
        mscclpp_dev_block_copy(ctx, (char *)args->out + first, to_next.local + arrival + first, size);
    }
    mscclpp_dev_finish(ctx, args, mscclpp_dev_last_launch(ctx, args), mscclpp_dev_last_epoch(ctx, args),
                       barrier_number - 1, barrier_number);
}

#endif
