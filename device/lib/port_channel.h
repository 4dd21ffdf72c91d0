/*
 * Transfers over a port channel: a kernel asks the proxy on the CPU to carry them out. One thread calls each function.
 * If other threads of its block wrote the data to send, the block must synchronise before the call. If other threads
 * read received data, the block must synchronise after the call. Offsets and sizes are in bytes and may have any
 * alignment. Offsets count from the starts of the channel's two regions.
 *
 * Requests of one thread on one channel take effect in order: a peer that has waited for a signal sees all earlier puts
 * and additions. The source of a put must not change until a flush. A thread with ctx->failed set asks for nothing.
 */
#ifndef MSCCLPP_DEVICE_LIB_PORT_CHANNEL_H
#define MSCCLPP_DEVICE_LIB_PORT_CHANNEL_H

#include "device/lib/fifo.h"
#include "device/types/port_channel.h"

/*
 * Pushes the triggers of one request. A large put takes several triggers, of which the last one has the type `type`.
 * Waits only while the FIFO is full; if this wait fails, sets ctx->failed. Returns the position of the last trigger,
 * which is valid only if the thread has not failed.
 */
MSCCLPP_DEV uint64_t mscclpp_dev_port_push(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args,
                                           const mscclpp_dev_port_channel_t *channel, uint32_t type, uint64_t to,
                                           uint64_t from, uint64_t bytes)
{
    mscclpp_dev_request_t request;

    request.channel = channel->number;
    request.value = 0;
    while (bytes > MSCCLPP_DEV_TRIGGER_CHUNK && !ctx->failed) {
        request.type = MSCCLPP_TRIGGER_DATA;
        request.to = to;
        request.from = from;
        request.size = (uint32_t)MSCCLPP_DEV_TRIGGER_CHUNK;
        (void)mscclpp_dev_fifo_push(ctx, args, &channel->fifo, mscclpp_dev_trigger_pack(&request), channel->peer);
        to += MSCCLPP_DEV_TRIGGER_CHUNK;
        from += MSCCLPP_DEV_TRIGGER_CHUNK;
        bytes -= MSCCLPP_DEV_TRIGGER_CHUNK;
    }
    request.type = type;
    request.to = to;
    request.from = from;
    request.size = (uint32_t)bytes;
    return mscclpp_dev_fifo_push(ctx, args, &channel->fifo, mscclpp_dev_trigger_pack(&request), channel->peer);
}

/* Waits until the proxy has reported the trigger at `position` as flushed. If the wait fails, sets ctx->failed. */
MSCCLPP_DEV void mscclpp_dev_port_wait_flushed(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args,
                                               const mscclpp_dev_port_channel_t *channel, uint64_t position)
{
    mscclpp_dev_wait_t wait = {0, 0};

    while (!ctx->failed && mscclpp_dev_ld_acquire_sys_u64(channel->flushed) <= position) {
        (void)mscclpp_dev_wait_turn(ctx, args, &wait, channel->peer);
    }
}

/*
 * Asks for a copy of `bytes` bytes from offset `from` of this rank's region to offset `to` of the peer's region. Does
 * not wait for the copy.
 */
MSCCLPP_DEV void mscclpp_dev_port_put(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args,
                                      const mscclpp_dev_port_channel_t *channel, uint64_t to, uint64_t from,
                                      uint64_t bytes)
{
    (void)mscclpp_dev_port_push(ctx, args, channel, MSCCLPP_TRIGGER_DATA, to, from, bytes);
}

/* Asks for a signal to the peer. The signal tells the peer that all earlier puts have arrived. */
MSCCLPP_DEV void mscclpp_dev_port_signal(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args,
                                         const mscclpp_dev_port_channel_t *channel)
{
    (void)mscclpp_dev_port_push(ctx, args, channel, MSCCLPP_TRIGGER_SIGNAL, 0, 0, 0);
}

/* Does mscclpp_dev_port_put and mscclpp_dev_port_signal with one request. */
MSCCLPP_DEV void mscclpp_dev_port_put_with_signal(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args,
                                                  const mscclpp_dev_port_channel_t *channel, uint64_t to, uint64_t from,
                                                  uint64_t bytes)
{
    (void)mscclpp_dev_port_push(ctx, args, channel, MSCCLPP_TRIGGER_DATA | MSCCLPP_TRIGGER_SIGNAL, to, from, bytes);
}

/*
 * Does mscclpp_dev_port_put and mscclpp_dev_port_signal with one request, and begins a flush. Returns a position for
 * mscclpp_dev_port_wait_flushed. Once that function has returned, the source may be overwritten.
 */
MSCCLPP_DEV uint64_t mscclpp_dev_port_put_with_signal_flushing(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args,
                                                               const mscclpp_dev_port_channel_t *channel, uint64_t to,
                                                               uint64_t from, uint64_t bytes)
{
    return mscclpp_dev_port_push(
        ctx, args, channel, MSCCLPP_TRIGGER_DATA | MSCCLPP_TRIGGER_SIGNAL | MSCCLPP_TRIGGER_FLUSH, to, from, bytes);
}

/* Waits until the sources of all puts that this thread asked for on the channel may be overwritten. */
MSCCLPP_DEV void mscclpp_dev_port_flush(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args,
                                        const mscclpp_dev_port_channel_t *channel)
{
    mscclpp_dev_port_wait_flushed(ctx, args, channel,
                                  mscclpp_dev_port_push(ctx, args, channel, MSCCLPP_TRIGGER_FLUSH, 0, 0, 0));
}

/* Does mscclpp_dev_port_put, mscclpp_dev_port_signal and mscclpp_dev_port_flush with one request. */
MSCCLPP_DEV void mscclpp_dev_port_put_with_signal_and_flush(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args,
                                                            const mscclpp_dev_port_channel_t *channel, uint64_t to,
                                                            uint64_t from, uint64_t bytes)
{
    mscclpp_dev_port_wait_flushed(ctx, args, channel,
                                  mscclpp_dev_port_put_with_signal_flushing(ctx, args, channel, to, from, bytes));
}

/* Adds to the aligned 64-bit word at offset `to` of the peer's region. Takes effect in order, like a signal. */
MSCCLPP_DEV void mscclpp_dev_port_add(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args,
                                      const mscclpp_dev_port_channel_t *channel, uint64_t to, uint64_t value)
{
    mscclpp_dev_request_t request;

    request.channel = channel->number;
    request.type = MSCCLPP_TRIGGER_ADD;
    request.to = to;
    request.value = value;
    request.from = 0;
    request.size = 0;
    (void)mscclpp_dev_fifo_push(ctx, args, &channel->fifo, mscclpp_dev_trigger_pack(&request), channel->peer);
}

/*
 * Waits for one more signal of the peer, and counts the signal as taken. If the wait fails, sets ctx->failed and counts
 * nothing. Only one thread at a time may wait on a channel or poll it.
 */
MSCCLPP_DEV void mscclpp_dev_port_wait(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args,
                                       const mscclpp_dev_port_channel_t *channel)
{
    const uint64_t target = *channel->expected + 1;
    mscclpp_dev_wait_t wait = {0, 0};

    while (mscclpp_dev_ld_acquire_sys_u64(channel->inbound) < target) {
        if (!mscclpp_dev_wait_turn(ctx, args, &wait, channel->peer)) {
            return;
        }
    }
    *channel->expected = target;
}

/*
 * Waits until `number` more signals have arrived than were taken, but takes none of them. If the wait fails, sets
 * ctx->failed. For callers that know the meaning of each of several signals; in the end such a caller adds the number
 * of signals to *channel->expected itself.
 */
MSCCLPP_DEV void mscclpp_dev_port_wait_ahead(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args,
                                             const mscclpp_dev_port_channel_t *channel, uint64_t number)
{
    const uint64_t target = *channel->expected + number;
    mscclpp_dev_wait_t wait = {0, 0};

    while (mscclpp_dev_ld_acquire_sys_u64(channel->inbound) < target) {
        if (!mscclpp_dev_wait_turn(ctx, args, &wait, channel->peer)) {
            return;
        }
    }
}

/*
 * Returns true if a signal has arrived, and counts the signal as taken. The caller then sees what it would see after a
 * wait. Otherwise returns false at once.
 */
MSCCLPP_DEV bool mscclpp_dev_port_poll(const mscclpp_dev_port_channel_t *channel)
{
    if (mscclpp_dev_ld_acquire_sys_u64(channel->inbound) <= *channel->expected) {
        return false;
    }
    *channel->expected += 1;
    return true;
}

#endif
