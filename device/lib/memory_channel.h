/*
 * Transfers over a memory channel, executed by all threads of a block. put and get only move bytes; signal and wait
 * order them. The packet functions need neither signal nor wait. Offsets and sizes are in bytes and may have any
 * alignment unless a function says otherwise.
 */
#ifndef MSCCLPP_DEVICE_LIB_MEMORY_CHANNEL_H
#define MSCCLPP_DEVICE_LIB_MEMORY_CHANNEL_H

#include "device/types/memory_channel.h"
#include "device/lib/packet.h"
#include "device/lib/semaphore.h"

/* Copies `bytes` bytes from `from` to `to`, unit by unit, with all threads of the block. */
MSCCLPP_DEV void mscclpp_dev_block_copy(const mscclpp_dev_ctx_t *ctx, char *to, const char *from, uint64_t bytes)
{
    const uint64_t units = mscclpp_dev_units(bytes);
    uint64_t unit;

    for (unit = ctx->tid; unit < units; unit += ctx->nthreads) {
        mscclpp_dev_st_unit(to, unit, bytes, mscclpp_dev_ld_unit(from, unit, bytes), MSCCLPP_DEV_WHOLE_UNIT);
    }
}

/*
 * Copies `bytes` bytes from offset `local_offset` of this rank's memory to offset `remote_offset` of the peer's memory.
 * The peer may read the bytes once it has waited for a later signal.
 */
MSCCLPP_DEV void mscclpp_dev_channel_put(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_memory_channel_t *channel,
                                         uint64_t remote_offset, uint64_t local_offset, uint64_t bytes)
{
    mscclpp_dev_block_copy(ctx, channel->remote + remote_offset, channel->local + local_offset, bytes);
}

/*
 * Copies `bytes` bytes from offset `remote_offset` of the peer's memory to offset `local_offset` of this rank's memory.
 * The block may read the bytes once it has synchronised.
 */
MSCCLPP_DEV void mscclpp_dev_channel_get(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_memory_channel_t *channel,
                                         uint64_t local_offset, uint64_t remote_offset, uint64_t bytes)
{
    mscclpp_dev_block_copy(ctx, channel->local + local_offset, channel->remote + remote_offset, bytes);
}

/*
 * Signals the peer that all earlier puts of the block have arrived. Called by all threads of the block. If thread 0 has
 * failed, signals nothing.
 */
MSCCLPP_DEV void mscclpp_dev_channel_signal(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_memory_channel_t *channel)
{
    mscclpp_dev_block_sync(ctx);
    if (ctx->tid == 0 && !ctx->failed) {
        mscclpp_dev_semaphore_signal(&channel->semaphore);
    }
}

/*
 * Waits for the peer's next signal, and takes it. Called by all threads of the block. If the wait fails, or a thread
 * has failed before, sets ctx->failed in all threads. A failed wait reports `peer` as the awaited rank.
 */
MSCCLPP_DEV void mscclpp_dev_channel_wait(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args,
                                          const mscclpp_dev_memory_channel_t *channel, uint32_t peer)
{
    if (ctx->tid == 0 && !ctx->failed) {
        mscclpp_dev_semaphore_wait(ctx, args, &channel->semaphore, peer);
    }
    ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
}

/*
 * Puts `bytes` bytes as packets, which take 32 bytes for each 16-byte unit. `remote_offset` is a multiple of 16. `flag`
 * and `width` are as in mscclpp_dev_put_unit. device/lib/packet.h describes when the memory may be reused. A thread
 * that has failed puts nothing.
 */
MSCCLPP_DEV void mscclpp_dev_channel_put_packets(const mscclpp_dev_ctx_t *ctx,
                                                 const mscclpp_dev_memory_channel_t *channel, uint64_t remote_offset,
                                                 uint64_t local_offset, uint64_t bytes, uint32_t flag, int width)
{
    const uint64_t units = mscclpp_dev_units(bytes);
    uint64_t unit;

    for (unit = ctx->tid; unit < units && !ctx->failed; unit += ctx->nthreads) {
        mscclpp_dev_put_unit(channel->remote + remote_offset + unit * MSCCLPP_DEV_PACKET_STEP,
                             units * MSCCLPP_DEV_PACKET_STEP,
                             mscclpp_dev_ld_unit(channel->local + local_offset, unit, bytes), flag, width);
    }
}

/*
 * Waits for `bytes` bytes that the peer puts as packets, with the same `flag` and `width`, at `packets` in this rank's
 * memory, and writes them to `to`. If a wait fails, sets ctx->failed in this thread, reports `peer` as the awaited
 * rank, and does not write units that have not arrived.
 */
MSCCLPP_DEV void mscclpp_dev_channel_get_packets(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args,
                                                 const char *packets, char *to, uint64_t bytes, uint32_t flag,
                                                 int width, uint32_t peer)
{
    const uint64_t units = mscclpp_dev_units(bytes);
    uint64_t unit;

    for (unit = ctx->tid; unit < units; unit += ctx->nthreads) {
        mscclpp_dev_vec_t value;

        mscclpp_dev_get_unit(ctx, args, packets + unit * MSCCLPP_DEV_PACKET_STEP, units * MSCCLPP_DEV_PACKET_STEP,
                             &value, flag, width, peer);
        if (!ctx->failed) {
            mscclpp_dev_st_unit(to, unit, bytes, value, MSCCLPP_DEV_WHOLE_UNIT);
        }
    }
}

#endif
