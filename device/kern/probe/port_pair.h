/*
 * Transfers between two ranks over one port channel, to measure a transport for kernels. A single thread does
 * everything. The two kernels meet first, so that the time includes neither the launch nor a late peer.
 *
 * `MSCCLPP_DEV_PAIR_FIRST` and `_SECOND`: the ranks pass a message back and forth. `_SENDER`: in each round, the rank
 * puts `puts` messages into the same place, the last one with a signal and a flush. `_RECEIVER`: the rank waits for the
 * signals. `_BOTH`: the rank both sends and receives.
 */
#ifndef MSCCLPP_DEVICE_KERN_PROBE_PORT_PAIR_H
#define MSCCLPP_DEVICE_KERN_PROBE_PORT_PAIR_H

#include "device/lib/barrier.h"
#include "device/lib/port_channel.h"

/*
 * Sends a round's puts, the last one with a signal, and waits until their source may be overwritten. If the wait fails,
 * sets ctx->failed.
 */
MSCCLPP_DEV void mscclpp_dev_port_pair_send(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_port_pair_args_t *pair)
{
    const mscclpp_dev_args_t *args = &pair->common;
    uint32_t put;

    for (put = 1; put < pair->puts; ++put) {
        mscclpp_dev_port_put(ctx, args, &pair->channel, pair->to, pair->from, args->bytes);
    }
    mscclpp_dev_port_put_with_signal_and_flush(ctx, args, &pair->channel, pair->to, pair->from, args->bytes);
}

/* Carries out one round, in this rank's role. If a wait fails, sets ctx->failed. */
MSCCLPP_DEV void mscclpp_dev_port_pair_round(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_port_pair_args_t *pair)
{
    const mscclpp_dev_args_t *args = &pair->common;

    switch (pair->role) {
    case MSCCLPP_DEV_PAIR_FIRST:
        mscclpp_dev_port_put_with_signal(ctx, args, &pair->channel, pair->to, pair->from, args->bytes);
        mscclpp_dev_port_wait(ctx, args, &pair->channel);
        break;
    case MSCCLPP_DEV_PAIR_SECOND:
        mscclpp_dev_port_wait(ctx, args, &pair->channel);
        mscclpp_dev_port_put_with_signal(ctx, args, &pair->channel, pair->to, pair->from, args->bytes);
        break;
    case MSCCLPP_DEV_PAIR_SENDER:
        mscclpp_dev_port_pair_send(ctx, pair);
        break;
    case MSCCLPP_DEV_PAIR_BOTH:
        mscclpp_dev_port_pair_send(ctx, pair);
        mscclpp_dev_port_wait(ctx, args, &pair->channel);
        break;
    default: /* MSCCLPP_DEV_PAIR_RECEIVER */
        mscclpp_dev_port_wait(ctx, args, &pair->channel);
        break;
    }
}

/*
 * Runs the kernel: after both ranks have met, measures the time of all rounds, and writes it to *elapsed_ns. After a
 * failed wait writes nothing, so the host's value stays there.
 */
MSCCLPP_DEV void mscclpp_dev_port_pair(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_port_pair_args_t *pair)
{
    const mscclpp_dev_args_t *args = &pair->common;
    uint64_t begin_ns, end_ns;
    uint32_t round;

    if (ctx->tid == 0 && ctx->block == 0) {
        mscclpp_dev_port_signal(ctx, args, &pair->channel);
        mscclpp_dev_port_wait(ctx, args, &pair->channel);
        begin_ns = mscclpp_dev_now_ns();
        for (round = 0; round < pair->rounds && !ctx->failed; ++round) {
            mscclpp_dev_port_pair_round(ctx, pair);
        }
        end_ns = mscclpp_dev_now_ns();
        /* The host may overwrite the source once the kernel has ended. */
        mscclpp_dev_port_flush(ctx, args, &pair->channel);
        if (!ctx->failed) {
            mscclpp_dev_st_release_sys_u64(pair->elapsed_ns, end_ns > begin_ns ? end_ns - begin_ns : 1);
        }
    }
    ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
    mscclpp_dev_finish_packets(ctx, args, mscclpp_dev_last_launch(ctx, args), mscclpp_dev_last_epoch(ctx, args));
}

#endif
