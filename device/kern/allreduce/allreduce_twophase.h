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
 * Returns the place of unit `unit` of a sender's packets in the scratch of `receiver`. Each half of the packet area,
 * which `flag` selects, holds two slots of `capacity` units per sender. `phase` selects the slot:
 * MSCCLPP_DEV_PHASE_OPERANDS or _RESULTS.
 */
MSCCLPP_DEV char *mscclpp_dev_twophase_slot(const mscclpp_dev_args_t *args, uint32_t receiver, uint32_t sender,
                                            int phase, uint32_t flag, uint64_t capacity, uint64_t unit)
{
    return args->scratch[receiver] + MSCCLPP_DEV_PACKET_OFFSET + (flag & 1) * args->packet_half +
           ((uint64_t)phase * args->nranks + sender) * capacity * MSCCLPP_DEV_PACKET_UNIT +
           unit * MSCCLPP_DEV_PACKET_STEP;
}

/* One epoch of a call: where its units lie in the shards and in the packet area. */
typedef struct {
    const mscclpp_dev_args_t *args;
    uint64_t shard_units; /* units per shard */
    uint64_t base;        /* first unit of the epoch in each shard */
    uint64_t capacity;    /* units of a slot, or bundles with LL128 */
    uint32_t flag;        /* the flag in the epoch's packets */
} mscclpp_dev_twophase_t;

/* Loads one unit of the epoch's part of a shard; zeros beyond the end of the shard. */
MSCCLPP_DEV mscclpp_dev_vec_t mscclpp_dev_twophase_load(const mscclpp_dev_twophase_t *epoch, uint32_t owner,
                                                        uint64_t unit)
{
    if (epoch->base + unit >= epoch->shard_units) {
        return mscclpp_dev_vec_zero();
    }
    return mscclpp_dev_ld_unit(epoch->args->in, owner * epoch->shard_units + epoch->base + unit, epoch->args->bytes);
}

/* Sends one unit to a peer: an operand for its shard, or a result of this rank's shard, as `phase` says. */
MSCCLPP_DEV void mscclpp_dev_twophase_put(const mscclpp_dev_twophase_t *epoch, uint32_t peer, int phase, uint64_t unit,
                                          mscclpp_dev_vec_t value)
{
    const mscclpp_dev_args_t *args = epoch->args;

    mscclpp_dev_put_unit(mscclpp_dev_twophase_slot(args, peer, args->rank, phase, epoch->flag, epoch->capacity, unit),
                         epoch->capacity * MSCCLPP_DEV_PACKET_STEP, value, epoch->flag, MSCCLPP_DEV_LL16);
}

/* Reads a unit from a peer into *value and returns true, or returns false if it has not arrived. Never waits. */
MSCCLPP_DEV bool mscclpp_dev_twophase_poll(const mscclpp_dev_twophase_t *epoch, uint32_t peer, int phase, uint64_t unit,
                                           mscclpp_dev_vec_t *value)
{
    const mscclpp_dev_args_t *args = epoch->args;

    return mscclpp_dev_poll_unit(
        mscclpp_dev_twophase_slot(args, args->rank, peer, phase, epoch->flag, epoch->capacity, unit),
        epoch->capacity * MSCCLPP_DEV_PACKET_STEP, value, epoch->flag, MSCCLPP_DEV_LL16);
}

/* Waits for a unit from a peer, and reads it into *value. If the wait fails, sets ctx->failed. */
MSCCLPP_DEV void mscclpp_dev_twophase_get(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_twophase_t *epoch, uint32_t peer,
                                          int phase, uint64_t unit, mscclpp_dev_vec_t *value)
{
    const mscclpp_dev_args_t *args = epoch->args;

    mscclpp_dev_get_unit(ctx, args,
                         mscclpp_dev_twophase_slot(args, args->rank, peer, phase, epoch->flag, epoch->capacity, unit),
                         epoch->capacity * MSCCLPP_DEV_PACKET_STEP, value, epoch->flag, MSCCLPP_DEV_LL16, peer);
}

/*
 * Sends each other owner this rank's operand for one unit of that owner's shard.
 *
 * Here and below, `const_ranks` is the number of ranks as a constant, or 0 for any number. A constant lets the compiler
 * start all loads before it uses the first one. If `const_ranks` is 0, loops up to it have no turns, and the last loop
 * of the function, which only then has turns, does their work rank by rank. `hot` says that `dtype` and `op` are
 * constants.
 */
MSCCLPP_DEV void mscclpp_dev_twophase_send(const mscclpp_dev_twophase_t *epoch, int const_ranks, uint64_t unit)
{
    const mscclpp_dev_args_t *args = epoch->args;
    mscclpp_dev_vec_t values[MSCCLPP_DEV_CONST_RANKS_MAX];
    uint32_t distance;
    int i;

    MSCCLPP_DEV_UNROLL
    for (i = 1; i < const_ranks; ++i) {
        values[i] = mscclpp_dev_twophase_load(epoch, mscclpp_dev_peer(args, (uint32_t)i), unit);
    }
    MSCCLPP_DEV_UNROLL
    for (i = 1; i < const_ranks; ++i) {
        mscclpp_dev_twophase_put(epoch, mscclpp_dev_peer(args, (uint32_t)i), MSCCLPP_DEV_PHASE_OPERANDS, unit,
                                 values[i]);
    }
    for (distance = 1; const_ranks == 0 && distance < args->nranks; ++distance) {
        const uint32_t peer = mscclpp_dev_peer(args, distance);

        mscclpp_dev_twophase_put(epoch, peer, MSCCLPP_DEV_PHASE_OPERANDS, unit,
                                 mscclpp_dev_twophase_load(epoch, peer, unit));
    }
}

/*
 * Waits for one unit of this rank's shard from each other rank, and combines the units of all ranks in rank order. If a
 * wait fails, sets ctx->failed, and the value is arbitrary.
 */
MSCCLPP_DEV mscclpp_dev_vec_t mscclpp_dev_twophase_combine(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_twophase_t *epoch,
                                                           int const_ranks, bool hot, int dtype, int op, uint64_t unit)
{
    const mscclpp_dev_args_t *args = epoch->args;
    const mscclpp_dev_vec_t own_value = mscclpp_dev_twophase_load(epoch, args->rank, unit);
    mscclpp_dev_acc_t acc;
    mscclpp_dev_vec_t values[MSCCLPP_DEV_CONST_RANKS_MAX];
    bool has_arrived[MSCCLPP_DEV_CONST_RANKS_MAX];
    uint32_t rank;
    int i;

    /*
     * With a constant number of ranks, all units are polled once before the first wait, so that their loads overlap.
     * This rank's own unit is at its place in rank order.
     */
    MSCCLPP_DEV_UNROLL
    for (i = 0; i < const_ranks; ++i) {
        values[i] = own_value;
        has_arrived[i] = (uint32_t)i == args->rank ||
                         mscclpp_dev_twophase_poll(epoch, (uint32_t)i, MSCCLPP_DEV_PHASE_OPERANDS, unit, &values[i]);
    }
    MSCCLPP_DEV_UNROLL
    for (i = 0; i < const_ranks; ++i) {
        if (!has_arrived[i]) {
            mscclpp_dev_twophase_get(ctx, epoch, (uint32_t)i, MSCCLPP_DEV_PHASE_OPERANDS, unit, &values[i]);
        }
        if (i == 0) {
            mscclpp_dev_acc_set(&acc, dtype, values[0]);
        } else {
            mscclpp_dev_acc_add(&acc, hot, dtype, op, values[i]);
        }
    }
    /* With any number of ranks, each unit is waited for in turn. */
    for (rank = 0; const_ranks == 0 && rank < args->nranks; ++rank) {
        values[0] = own_value;
        if (rank != args->rank) {
            mscclpp_dev_twophase_get(ctx, epoch, rank, MSCCLPP_DEV_PHASE_OPERANDS, unit, &values[0]);
        }
        if (rank == 0) {
            mscclpp_dev_acc_set(&acc, dtype, values[0]);
        } else {
            mscclpp_dev_acc_add(&acc, hot, dtype, op, values[0]);
        }
    }
    return mscclpp_dev_acc_get(&acc, dtype);
}

/*
 * Stores one unit of a shard of the result, unless it is beyond the end of the shard or the thread has failed. Here and
 * below, `mask` is the type's mscclpp_dev_unit_mask.
 */
MSCCLPP_DEV void mscclpp_dev_twophase_store(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_twophase_t *epoch,
                                            uint32_t owner, uint64_t unit, mscclpp_dev_vec_t value, uint32_t mask)
{
    if (epoch->base + unit < epoch->shard_units && !ctx->failed) {
        mscclpp_dev_st_unit(epoch->args->out, owner * epoch->shard_units + epoch->base + unit, epoch->args->bytes,
                            value, mask);
    }
}

/*
 * Waits for one unit of each other shard of the result, and stores it. If the number of ranks is a constant, checks the
 * units of all shards before it waits for any. If a wait fails, sets ctx->failed and stores no further unit.
 */
MSCCLPP_DEV void mscclpp_dev_twophase_receive(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_twophase_t *epoch,
                                              int const_ranks, uint64_t unit, uint32_t mask)
{
    const mscclpp_dev_args_t *args = epoch->args;
    mscclpp_dev_vec_t values[MSCCLPP_DEV_CONST_RANKS_MAX];
    bool has_arrived[MSCCLPP_DEV_CONST_RANKS_MAX];
    uint32_t distance;
    int i;

    MSCCLPP_DEV_UNROLL
    for (i = 1; i < const_ranks; ++i) {
        has_arrived[i] = mscclpp_dev_twophase_poll(epoch, mscclpp_dev_peer(args, (uint32_t)i),
                                                   MSCCLPP_DEV_PHASE_RESULTS, unit, &values[i]);
    }
    MSCCLPP_DEV_UNROLL
    for (i = 1; i < const_ranks; ++i) {
        const uint32_t peer = mscclpp_dev_peer(args, (uint32_t)i);

        if (!has_arrived[i]) {
            mscclpp_dev_twophase_get(ctx, epoch, peer, MSCCLPP_DEV_PHASE_RESULTS, unit, &values[i]);
        }
        mscclpp_dev_twophase_store(ctx, epoch, peer, unit, values[i], mask);
    }
    for (distance = 1; const_ranks == 0 && distance < args->nranks; ++distance) {
        const uint32_t peer = mscclpp_dev_peer(args, distance);

        mscclpp_dev_twophase_get(ctx, epoch, peer, MSCCLPP_DEV_PHASE_RESULTS, unit, &values[0]);
        mscclpp_dev_twophase_store(ctx, epoch, peer, unit, values[0], mask);
    }
}

/*
 * Runs one epoch: sends, combines and receives `epoch_units` units of each shard. After a failure nothing more is sent
 * or stored. The loops still run to their end, which is fast, since every further wait returns at once.
 */
MSCCLPP_DEV void mscclpp_dev_twophase_epoch(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_twophase_t *epoch,
                                            int const_ranks, bool hot, int dtype, int op, uint64_t epoch_units)
{
    const mscclpp_dev_args_t *args = epoch->args;
    const uint64_t threads = (uint64_t)ctx->nblocks * ctx->nthreads;
    const uint64_t thread = (uint64_t)ctx->block * ctx->nthreads + ctx->tid;
    const uint32_t mask = mscclpp_dev_unit_mask(dtype);
    uint64_t unit;
    uint32_t i;

    for (unit = thread; unit < epoch_units && !ctx->failed; unit += threads) {
        mscclpp_dev_twophase_send(epoch, const_ranks, unit);
    }
    for (unit = thread; unit < epoch_units; unit += threads) {
        const mscclpp_dev_vec_t value = mscclpp_dev_twophase_combine(ctx, epoch, const_ranks, hot, dtype, op, unit);

        for (i = 1; i < args->nranks && !ctx->failed; ++i) {
            mscclpp_dev_twophase_put(epoch, mscclpp_dev_peer(args, i), MSCCLPP_DEV_PHASE_RESULTS, unit, value);
        }
        mscclpp_dev_twophase_store(ctx, epoch, args->rank, unit, value, mask);
    }
    for (unit = thread; unit < epoch_units; unit += threads) {
        mscclpp_dev_twophase_receive(ctx, epoch, const_ranks, unit, mask);
    }
}

/*
 * Runs the operation for a message of any size, epoch by epoch. Each epoch uses up a flag, even after a failure, so
 * that all ranks count in the same way.
 */
MSCCLPP_DEV void mscclpp_dev_twophase_ranks(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args, int const_ranks,
                                            bool hot, int dtype, int op)
{
    const uint64_t threads = (uint64_t)ctx->nblocks * ctx->nthreads;
    const uint64_t launches = mscclpp_dev_last_launch(ctx, args);
    mscclpp_dev_twophase_t epoch;
    uint64_t epoch_units;

    mscclpp_dev_enter(ctx, args);
    epoch.args = args;
    epoch.shard_units = mscclpp_dev_share(mscclpp_dev_units(args->bytes), args->nranks);
    epoch.capacity = args->twophase_capacity;
    epoch.flag = mscclpp_dev_last_epoch(ctx, args);
    epoch_units = MSCCLPP_DEV_PACKET_CHUNK(epoch.shard_units, epoch.capacity, threads);
    for (epoch.base = 0; epoch.base < epoch.shard_units; epoch.base += epoch_units) {
        ++epoch.flag;
        mscclpp_dev_twophase_epoch(ctx, &epoch, const_ranks, hot, dtype, op, epoch_units);
    }
    mscclpp_dev_finish_packets(ctx, args, launches, epoch.flag);
}

/* Runs the kernel. It has the number of ranks as a constant if that is 2, 4 or 8. */
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
