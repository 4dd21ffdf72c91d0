/*
 * Two-phase all-reduce with packets: each rank collects and combines one shard of the message (reduce-scatter), then
 * sends the result to all (all-gather). It takes two steps of latency. Each link carries 2 (n - 1) / n times the
 * message, doubled by the flags.
 *
 * All shards have the same number of units. Units beyond the message's end are sent as zeros and never stored, so that
 * every rank receives packets from every peer whatever the count (see packet.h).
 */
#ifndef MSCCLPP_DEVICE_KERN_ALLREDUCE_ALLREDUCE_TWOPHASE_H
#define MSCCLPP_DEVICE_KERN_ALLREDUCE_ALLREDUCE_TWOPHASE_H

#include "device/lib/barrier.h"
#include "device/types/hot.h"
#include "device/lib/packet.h"
#include "device/lib/reduce.h"

/*
 * Place of a sender's packets in the scratch of `receiver`. Each half of the packet area holds two slots per sender:
 * one for operands (`phase` 0) and one for results (`phase` 1).
 */
MSCCLPP_DEV char *mscclpp_dev_twophase_slot(const mscclpp_dev_args_t *args, uint32_t receiver, uint32_t sender,
                                            int phase, uint32_t flag, uint64_t capacity, uint64_t u)
{
    return args->scratch[receiver] + MSCCLPP_DEV_PACKET_OFFSET + (flag & 1) * args->packet_half +
           ((uint64_t)phase * args->nranks + sender) * capacity * MSCCLPP_DEV_PACKET_UNIT + u * MSCCLPP_DEV_PACKET_STEP;
}

/* One epoch of a call: where its units lie in the shards and in the packet area. */
typedef struct {
    const mscclpp_dev_args_t *args;
    uint64_t shard; /* units per shard */
    uint64_t base;  /* first unit of the epoch in each shard */
    uint64_t capacity;
    uint32_t flag;
} mscclpp_dev_twophase_t;

/* Loads unit `u` of the epoch's part of a shard; zeros beyond the end of the shard. */
MSCCLPP_DEV mscclpp_dev_vec_t mscclpp_dev_twophase_load(const mscclpp_dev_twophase_t *epoch, uint32_t owner, uint64_t u)
{
    if (epoch->base + u >= epoch->shard) {
        return mscclpp_dev_vec_zero();
    }
    return mscclpp_dev_ld_unit(epoch->args->in, owner * epoch->shard + epoch->base + u, epoch->args->bytes);
}

/* Sends a unit to a peer, in phase 0 or 1. */
MSCCLPP_DEV void mscclpp_dev_twophase_put(const mscclpp_dev_twophase_t *epoch, uint32_t peer, int phase, uint64_t u,
                                          mscclpp_dev_vec_t v)
{
    const mscclpp_dev_args_t *args = epoch->args;

    mscclpp_dev_put_unit(mscclpp_dev_twophase_slot(args, peer, args->rank, phase, epoch->flag, epoch->capacity, u),
                         epoch->capacity * MSCCLPP_DEV_PACKET_STEP, v, epoch->flag, MSCCLPP_DEV_LL16);
}

/* Reads a unit from a peer into *v. Returns false if it has not arrived. */
MSCCLPP_DEV bool mscclpp_dev_twophase_poll(const mscclpp_dev_twophase_t *epoch, uint32_t peer, int phase, uint64_t u,
                                           mscclpp_dev_vec_t *v)
{
    const mscclpp_dev_args_t *args = epoch->args;

    return mscclpp_dev_poll_unit(
        mscclpp_dev_twophase_slot(args, args->rank, peer, phase, epoch->flag, epoch->capacity, u),
        epoch->capacity * MSCCLPP_DEV_PACKET_STEP, v, epoch->flag, MSCCLPP_DEV_LL16);
}

/* Waits for a unit from a peer. */
MSCCLPP_DEV void mscclpp_dev_twophase_get(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_twophase_t *epoch, uint32_t peer,
                                          int phase, uint64_t u, mscclpp_dev_vec_t *v)
{
    const mscclpp_dev_args_t *args = epoch->args;

    mscclpp_dev_get_unit(ctx, args,
                         mscclpp_dev_twophase_slot(args, args->rank, peer, phase, epoch->flag, epoch->capacity, u),
                         epoch->capacity * MSCCLPP_DEV_PACKET_STEP, v, epoch->flag, MSCCLPP_DEV_LL16, peer);
}

/*
 * The first of three steps: sends each owner this rank's operand for unit `u` of its shard. The next two combine this
 * rank's own shard and send the result, and receive the results of the other shards. `n` is the number of ranks as a
 * constant, or 0 for any number. A constant lets the compiler start all loads before it uses the first one.
 */
MSCCLPP_DEV void mscclpp_dev_twophase_send(const mscclpp_dev_twophase_t *epoch, int n, uint64_t u)
{
    const mscclpp_dev_args_t *args = epoch->args;
    mscclpp_dev_vec_t v[8];
    uint32_t r;
    int i;

    MSCCLPP_DEV_UNROLL
    for (i = 1; i < n; ++i) {
        v[i] = mscclpp_dev_twophase_load(epoch, mscclpp_dev_peer(args, (uint32_t)i), u);
    }
    MSCCLPP_DEV_UNROLL
    for (i = 1; i < n; ++i) {
        mscclpp_dev_twophase_put(epoch, mscclpp_dev_peer(args, (uint32_t)i), 0, u, v[i]);
    }
    for (r = 1; n == 0 && r < args->nranks; ++r) {
        const uint32_t peer = mscclpp_dev_peer(args, r);

        mscclpp_dev_twophase_put(epoch, peer, 0, u, mscclpp_dev_twophase_load(epoch, peer, u));
    }
}

/* Receives unit `u` of this rank's shard from all ranks, and combines these units in rank order. */
MSCCLPP_DEV mscclpp_dev_vec_t mscclpp_dev_twophase_combine(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_twophase_t *epoch,
                                                           int n, bool hot, int dtype, int op, uint64_t u)
{
    const mscclpp_dev_args_t *args = epoch->args;
    const mscclpp_dev_vec_t own = mscclpp_dev_twophase_load(epoch, args->rank, u);
    mscclpp_dev_acc_t acc;
    mscclpp_dev_vec_t v[8];
    bool there[8];
    uint32_t r;
    int i;

    MSCCLPP_DEV_UNROLL
    for (i = 0; i < n; ++i) {
        v[i] = own;
        there[i] = (uint32_t)i == args->rank || mscclpp_dev_twophase_poll(epoch, (uint32_t)i, 0, u, &v[i]);
    }
    MSCCLPP_DEV_UNROLL
    for (i = 0; i < n; ++i) {
        if (!there[i]) {
            mscclpp_dev_twophase_get(ctx, epoch, (uint32_t)i, 0, u, &v[i]);
        }
        if (i == 0) {
            mscclpp_dev_acc_set(&acc, dtype, v[0]);
        } else {
            mscclpp_dev_acc_add(&acc, hot, dtype, op, v[i]);
        }
    }
    for (r = 0; n == 0 && r < args->nranks; ++r) {
        v[0] = own;
        if (r != args->rank) {
            mscclpp_dev_twophase_get(ctx, epoch, r, 0, u, &v[0]);
        }
        if (r == 0) {
            mscclpp_dev_acc_set(&acc, dtype, v[0]);
        } else {
            mscclpp_dev_acc_add(&acc, hot, dtype, op, v[0]);
        }
    }
    return mscclpp_dev_acc_get(&acc, dtype);
}

/* Stores unit `u` of a shard of the result, unless it lies beyond the end of the shard. */
MSCCLPP_DEV void mscclpp_dev_twophase_store(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_twophase_t *epoch,
                                            uint32_t owner, uint64_t u, mscclpp_dev_vec_t v, uint32_t mask)
{
    if (epoch->base + u < epoch->shard && !ctx->failed) {
        mscclpp_dev_st_unit(epoch->args->out, owner * epoch->shard + epoch->base + u, epoch->args->bytes, v, mask);
    }
}

/* Receives unit `u` of all other shards of the result, and stores them. */
MSCCLPP_DEV void mscclpp_dev_twophase_receive(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_twophase_t *epoch, int n,
                                              uint64_t u, uint32_t mask)
{
    const mscclpp_dev_args_t *args = epoch->args;
    mscclpp_dev_vec_t v[8];
    bool there[8];
    uint32_t r;
    int i;

    MSCCLPP_DEV_UNROLL
    for (i = 1; i < n; ++i) {
        there[i] = mscclpp_dev_twophase_poll(epoch, mscclpp_dev_peer(args, (uint32_t)i), 1, u, &v[i]);
    }
    MSCCLPP_DEV_UNROLL
    for (i = 1; i < n; ++i) {
        const uint32_t peer = mscclpp_dev_peer(args, (uint32_t)i);

        if (!there[i]) {
            mscclpp_dev_twophase_get(ctx, epoch, peer, 1, u, &v[i]);
        }
        mscclpp_dev_twophase_store(ctx, epoch, peer, u, v[i], mask);
    }
    for (r = 1; n == 0 && r < args->nranks; ++r) {
        const uint32_t peer = mscclpp_dev_peer(args, r);

        mscclpp_dev_twophase_get(ctx, epoch, peer, 1, u, &v[0]);
        mscclpp_dev_twophase_store(ctx, epoch, peer, u, v[0], mask);
    }
}

/* One epoch: `chunk` units of every shard. */
MSCCLPP_DEV void mscclpp_dev_twophase_epoch(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_twophase_t *epoch, int n,
                                            bool hot, int dtype, int op, uint64_t chunk)
{
    const mscclpp_dev_args_t *args = epoch->args;
    const uint64_t threads = (uint64_t)ctx->nblocks * ctx->nthreads;
    const uint64_t thread = (uint64_t)ctx->block * ctx->nthreads + ctx->tid;
    const uint32_t mask = mscclpp_dev_unit_mask(dtype);
    uint64_t u;
    uint32_t i;

    for (u = thread; u < chunk && !ctx->failed; u += threads) {
        mscclpp_dev_twophase_send(epoch, n, u);
    }
    for (u = thread; u < chunk; u += threads) {
        const mscclpp_dev_vec_t v = mscclpp_dev_twophase_combine(ctx, epoch, n, hot, dtype, op, u);

        for (i = 1; i < args->nranks && !ctx->failed; ++i) {
            mscclpp_dev_twophase_put(epoch, mscclpp_dev_peer(args, i), 1, u, v);
        }
        mscclpp_dev_twophase_store(ctx, epoch, args->rank, u, v, mask);
    }
    for (u = thread; u < chunk; u += threads) {
        mscclpp_dev_twophase_receive(ctx, epoch, n, u, mask);
    }
}

/* All-reduce of a message of any size. `n` is the number of ranks as a constant, or 0 for any number. */
MSCCLPP_DEV void mscclpp_dev_twophase_ranks(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args, int n, bool hot,
                                            int dtype, int op)
{
    const uint64_t threads = (uint64_t)ctx->nblocks * ctx->nthreads;
    const uint64_t launches = mscclpp_dev_last_launch(ctx, args);
    mscclpp_dev_twophase_t epoch;
    uint64_t chunk;

    mscclpp_dev_enter(ctx, args);
    epoch.args = args;
    epoch.shard = mscclpp_dev_share(mscclpp_dev_units(args->bytes), args->nranks);
    epoch.capacity = args->twophase_capacity;
    epoch.flag = mscclpp_dev_last_epoch(ctx, args);
    chunk = MSCCLPP_DEV_PACKET_CHUNK(epoch.shard, epoch.capacity, threads);
    for (epoch.base = 0; epoch.base < epoch.shard; epoch.base += chunk) {
        ++epoch.flag;
        mscclpp_dev_twophase_epoch(ctx, &epoch, n, hot, dtype, op, chunk);
    }
    mscclpp_dev_finish_packets(ctx, args, launches, epoch.flag);
}

/* The kernel body. `hot` says that `dtype` and `op` are constants. */
MSCCLPP_DEV void mscclpp_dev_allreduce_twophase(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args, bool hot,
                                                int dtype, int op)
{
#define MSCCLPP_DEV_TWOPHASE_RANKS(n_)                                                                                 \
    case n_:                                                                                                           \
        mscclpp_dev_twophase_ranks(ctx, args, n_, hot, dtype, op);                                                     \
        break;
    switch (args->nranks) {
        MSCCLPP_DEV_RANKS(MSCCLPP_DEV_TWOPHASE_RANKS)
    default:
        mscclpp_dev_twophase_ranks(ctx, args, 0, hot, dtype, op);
        break;
    }
#undef MSCCLPP_DEV_TWOPHASE_RANKS
}

#endif
