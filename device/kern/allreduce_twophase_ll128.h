/*
 * Two-phase all-reduce (allreduce_twophase.h) with LL128: each link carries 2 (n - 1) / n times the message and a
 * fifteenth of it more. Warps take the place of threads, and bundles that of units.
 */
#ifndef MSCCLPP_DEVICE_KERN_ALLREDUCE_TWOPHASE_LL128_H
#define MSCCLPP_DEVICE_KERN_ALLREDUCE_TWOPHASE_LL128_H

#include "device/kern/allreduce_twophase.h"

/*
 * What a warp handles at a time: bundles that a grid apart, of so many operands or results together as there are
 * registers for, whose loads are all under way before the first is used. `n` is the number of ranks, or 0.
 */
#define MSCCLPP_DEV_LL128_OPERANDS 8
#define MSCCLPP_DEV_LL128_BATCH(n_) ((n_) == 0 ? 1 : MSCCLPP_DEV_LL128_OPERANDS / (n_))

/* The bundles of a batch: the first, and from each to the next one. Those from `chunk` on are none. */
typedef struct {
    uint64_t first;
    uint64_t step;
    uint64_t chunk;
} mscclpp_dev_ll128_batch_t;

/* Where `sender` puts bundle `b`; epoch->capacity is in bundles. A receiver has no slot for itself. */
MSCCLPP_DEV char *mscclpp_dev_ll128_slot(const mscclpp_dev_twophase_t *epoch, uint32_t receiver, uint32_t sender,
                                         int phase, uint64_t b)
{
    const mscclpp_dev_args_t *args = epoch->args;
    const uint64_t slot = (uint64_t)phase * (args->nranks - 1) + (sender < receiver ? sender : sender - 1);

    return args->scratch[receiver] + MSCCLPP_DEV_LL128_OFFSET(args->packet_half) +
           (epoch->flag & 1) * args->packet_half + (slot * epoch->capacity + b) * MSCCLPP_DEV_BUNDLE_BYTES;
}

MSCCLPP_DEV void mscclpp_dev_ll128_load(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_twophase_t *epoch,
                                        uint32_t owner, uint64_t b, mscclpp_dev_bundle_t *bundle)
{
    uint32_t i, unit;

    for (i = 0; i < MSCCLPP_DEV_LANES; ++i) {
        bundle->lane[i] = mscclpp_dev_bundle_unit(mscclpp_dev_lane(ctx, i), &unit)
                              ? mscclpp_dev_twophase_load(epoch, owner, b * MSCCLPP_DEV_BUNDLE_UNITS + unit)
                              : mscclpp_dev_vec_zero();
    }
}

MSCCLPP_DEV void mscclpp_dev_ll128_store(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_twophase_t *epoch,
                                         uint32_t owner, uint64_t b, const mscclpp_dev_bundle_t *bundle, uint32_t mask)
{
    uint32_t i, unit;

    for (i = 0; i < MSCCLPP_DEV_LANES; ++i) {
        if (mscclpp_dev_bundle_unit(mscclpp_dev_lane(ctx, i), &unit)) {
            mscclpp_dev_twophase_store(ctx, epoch, owner, b * MSCCLPP_DEV_BUNDLE_UNITS + unit, bundle->lane[i], mask);
        }
    }
}

/* Of a closed bundle. */
MSCCLPP_DEV void mscclpp_dev_ll128_put(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_twophase_t *epoch, uint32_t peer,
                                       int phase, uint64_t b, const mscclpp_dev_bundle_t *bundle)
{
    mscclpp_dev_bundle_st(ctx, mscclpp_dev_ll128_slot(epoch, peer, epoch->args->rank, phase, b), bundle);
}

MSCCLPP_DEV bool mscclpp_dev_ll128_poll(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_twophase_t *epoch,
                                        uint32_t peer, int phase, uint64_t b, mscclpp_dev_bundle_t *bundle)
{
    return mscclpp_dev_bundle_ld(ctx, mscclpp_dev_ll128_slot(epoch, epoch->args->rank, peer, phase, b), epoch->flag,
                                 bundle);
}

MSCCLPP_DEV void mscclpp_dev_ll128_get(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_twophase_t *epoch, uint32_t peer,
                                       int phase, uint64_t b, mscclpp_dev_bundle_t *bundle)
{
    mscclpp_dev_get_bundle(ctx, epoch->args, mscclpp_dev_ll128_slot(epoch, epoch->args->rank, peer, phase, b), bundle,
                           epoch->flag, peer);
}

MSCCLPP_DEV void mscclpp_dev_ll128_send(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_twophase_t *epoch, int n,
                                        const mscclpp_dev_ll128_batch_t *batch)
{
    const mscclpp_dev_args_t *args = epoch->args;
    mscclpp_dev_bundle_t v[MSCCLPP_DEV_LL128_OPERANDS];
    uint32_t r;
    int i, j;

    MSCCLPP_DEV_UNROLL
    for (j = 0; n != 0 && j < MSCCLPP_DEV_LL128_BATCH(n); ++j) {
        const uint64_t b = batch->first + (uint64_t)j * batch->step;

        MSCCLPP_DEV_UNROLL
        for (i = 1; i < n; ++i) {
            if (b < batch->chunk) {
                mscclpp_dev_ll128_load(ctx, epoch, mscclpp_dev_twophase_peer(args, (uint32_t)i), b, &v[j * n + i]);
            }
        }
    }
    MSCCLPP_DEV_UNROLL
    for (j = 0; n != 0 && j < MSCCLPP_DEV_LL128_BATCH(n); ++j) {
        const uint64_t b = batch->first + (uint64_t)j * batch->step;

        MSCCLPP_DEV_UNROLL
        for (i = 1; i < n; ++i) {
            if (b < batch->chunk) {
                mscclpp_dev_bundle_close(ctx, &v[j * n + i], epoch->flag);
                mscclpp_dev_ll128_put(ctx, epoch, mscclpp_dev_twophase_peer(args, (uint32_t)i), 0, b, &v[j * n + i]);
            }
        }
    }
    for (r = 1; n == 0 && r < args->nranks; ++r) {
        const uint32_t peer = mscclpp_dev_twophase_peer(args, r);

        mscclpp_dev_ll128_load(ctx, epoch, peer, batch->first, &v[0]);
        mscclpp_dev_bundle_close(ctx, &v[0], epoch->flag);
        mscclpp_dev_ll128_put(ctx, epoch, peer, 0, batch->first, &v[0]);
    }
}

/*
 * Combines the operands of bundle `b` in rank order: those in `v`, of which the peers' are still closed; or, if `n` is
 * 0, those that it waits for one after another, with room for one in `v`.
 */
MSCCLPP_DEV void mscclpp_dev_ll128_combine(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_twophase_t *epoch, int n, bool hot,
                                           int dtype, int op, uint64_t b, mscclpp_dev_bundle_t *v,
                                           mscclpp_dev_bundle_t *result)
{
    const mscclpp_dev_args_t *args = epoch->args;
    mscclpp_dev_acc_t acc[MSCCLPP_DEV_LANES];
    uint32_t lane, r;
    int i;

    MSCCLPP_DEV_UNROLL
    for (i = 0; i < n; ++i) {
        if ((uint32_t)i != args->rank) {
            mscclpp_dev_bundle_open(ctx, &v[i]);
        }
        for (lane = 0; lane < MSCCLPP_DEV_LANES; ++lane) {
            if (i == 0) {
                mscclpp_dev_acc_set(&acc[lane], dtype, v[i].lane[lane]);
            } else {
                mscclpp_dev_acc_add(&acc[lane], hot, dtype, op, v[i].lane[lane]);
            }
        }
    }
    for (r = 0; n == 0 && r < args->nranks; ++r) {
        if (r == args->rank) {
            mscclpp_dev_ll128_load(ctx, epoch, r, b, v);
        } else {
            mscclpp_dev_ll128_get(ctx, epoch, r, 0, b, v);
            mscclpp_dev_bundle_open(ctx, v);
        }
        for (lane = 0; lane < MSCCLPP_DEV_LANES; ++lane) {
            if (r == 0) {
                mscclpp_dev_acc_set(&acc[lane], dtype, v->lane[lane]);
            } else {
                mscclpp_dev_acc_add(&acc[lane], hot, dtype, op, v->lane[lane]);
            }
        }
    }
    for (lane = 0; lane < MSCCLPP_DEV_LANES; ++lane) {
        result->lane[lane] = mscclpp_dev_acc_get(&acc[lane], dtype);
    }
}

MSCCLPP_DEV void mscclpp_dev_ll128_reduce(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_twophase_t *epoch, int n, bool hot,
                                          int dtype, int op, uint32_t mask, const mscclpp_dev_ll128_batch_t *batch)
{
    const mscclpp_dev_args_t *args = epoch->args;
    mscclpp_dev_bundle_t v[MSCCLPP_DEV_LL128_OPERANDS];
    bool missing = false;
    uint32_t r;
    int i, j;

    MSCCLPP_DEV_UNROLL
    for (j = 0; n != 0 && j < MSCCLPP_DEV_LL128_BATCH(n); ++j) {
        const uint64_t b = batch->first + (uint64_t)j * batch->step;

        MSCCLPP_DEV_UNROLL
        for (i = 0; i < n; ++i) {
            if (b < batch->chunk && (uint32_t)i == args->rank) {
                mscclpp_dev_ll128_load(ctx, epoch, (uint32_t)i, b, &v[j * n + i]);
            } else if (b < batch->chunk && !mscclpp_dev_ll128_poll(ctx, epoch, (uint32_t)i, 0, b, &v[j * n + i])) {
                missing = true;
            }
        }
    }
    missing = n != 0 && mscclpp_dev_warp_or(missing);
    MSCCLPP_DEV_UNROLL
    for (j = 0; j < MSCCLPP_DEV_LL128_BATCH(n); ++j) {
        const uint64_t b = batch->first + (uint64_t)j * batch->step;
        mscclpp_dev_bundle_t result;

        if (b >= batch->chunk) {
            break;
        }
        MSCCLPP_DEV_UNROLL
        for (i = 0; i < n; ++i) {
            if (missing && (uint32_t)i != args->rank) {
                mscclpp_dev_ll128_get(ctx, epoch, (uint32_t)i, 0, b, &v[j * n + i]);
            }
        }
        mscclpp_dev_ll128_combine(ctx, epoch, n, hot, dtype, op, b, &v[j * n], &result);
        v[j * n] = result;
        mscclpp_dev_bundle_close(ctx, &v[j * n], epoch->flag);
        for (r = 1; r < args->nranks && !ctx->failed; ++r) {
            mscclpp_dev_ll128_put(ctx, epoch, mscclpp_dev_twophase_peer(args, r), 1, b, &v[j * n]);
        }
        mscclpp_dev_ll128_store(ctx, epoch, args->rank, b, &result, mask);
    }
}

MSCCLPP_DEV void mscclpp_dev_ll128_receive(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_twophase_t *epoch, int n,
                                           uint32_t mask, const mscclpp_dev_ll128_batch_t *batch)
{
    const mscclpp_dev_args_t *args = epoch->args;
    mscclpp_dev_bundle_t v[MSCCLPP_DEV_LL128_OPERANDS];
    bool missing = false;
    uint32_t r;
    int i, j;

    MSCCLPP_DEV_UNROLL
    for (j = 0; n != 0 && j < MSCCLPP_DEV_LL128_BATCH(n); ++j) {
        const uint64_t b = batch->first + (uint64_t)j * batch->step;

        MSCCLPP_DEV_UNROLL
        for (i = 1; i < n; ++i) {
            if (b < batch->chunk && !mscclpp_dev_ll128_poll(ctx, epoch, mscclpp_dev_twophase_peer(args, (uint32_t)i), 1,
                                                            b, &v[j * n + i])) {
                missing = true;
            }
        }
    }
    missing = n != 0 && mscclpp_dev_warp_or(missing);
    MSCCLPP_DEV_UNROLL
    for (j = 0; n != 0 && j < MSCCLPP_DEV_LL128_BATCH(n); ++j) {
        const uint64_t b = batch->first + (uint64_t)j * batch->step;

        MSCCLPP_DEV_UNROLL
        for (i = 1; i < n; ++i) {
            const uint32_t peer = mscclpp_dev_twophase_peer(args, (uint32_t)i);

            if (b < batch->chunk) {
                if (missing) {
                    mscclpp_dev_ll128_get(ctx, epoch, peer, 1, b, &v[j * n + i]);
                }
                mscclpp_dev_bundle_open(ctx, &v[j * n + i]);
                mscclpp_dev_ll128_store(ctx, epoch, peer, b, &v[j * n + i], mask);
            }
        }
    }
    for (r = 1; n == 0 && r < args->nranks; ++r) {
        const uint32_t peer = mscclpp_dev_twophase_peer(args, r);

        mscclpp_dev_ll128_get(ctx, epoch, peer, 1, batch->first, &v[0]);
        mscclpp_dev_bundle_open(ctx, &v[0]);
        mscclpp_dev_ll128_store(ctx, epoch, peer, batch->first, &v[0], mask);
    }
}

/* One epoch of `chunk` bundles of every shard. */
MSCCLPP_DEV void mscclpp_dev_ll128_epoch(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_twophase_t *epoch, int n, bool hot,
                                         int dtype, int op, uint64_t chunk)
{
    const uint32_t own = (ctx->block * ctx->nthreads + ctx->tid) / MSCCLPP_DEV_WARP;
    const uint32_t mask = mscclpp_dev_unit_mask(dtype);
    mscclpp_dev_ll128_batch_t batch;
    uint64_t turn;

    batch.step = ctx->nblocks * ctx->nthreads / MSCCLPP_DEV_WARP;
    batch.chunk = chunk;
    turn = batch.step * (uint64_t)MSCCLPP_DEV_LL128_BATCH(n);
    for (batch.first = own; batch.first < chunk && !ctx->failed; batch.first += turn) {
        mscclpp_dev_ll128_send(ctx, epoch, n, &batch);
    }
    for (batch.first = own; batch.first < chunk; batch.first += turn) {
        mscclpp_dev_ll128_reduce(ctx, epoch, n, hot, dtype, op, mask, &batch);
    }
    for (batch.first = own; batch.first < chunk; batch.first += turn) {
        mscclpp_dev_ll128_receive(ctx, epoch, n, mask, &batch);
    }
}

MSCCLPP_DEV void mscclpp_dev_allreduce_twophase_ll128(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args, bool hot,
                                                      int dtype, int op)
{
    const uint64_t launches = mscclpp_dev_last_launch(ctx, args);
    mscclpp_dev_twophase_t epoch;
    uint64_t bundles, chunk, base;

    epoch.args = args;
    epoch.shard = mscclpp_dev_share(mscclpp_dev_units(args->bytes), args->nranks);
    epoch.capacity = args->ll128_capacity;
    epoch.flag = mscclpp_dev_last_epoch(ctx, args);
    bundles = mscclpp_dev_share(epoch.shard, MSCCLPP_DEV_BUNDLE_UNITS);
    chunk = MSCCLPP_DEV_PACKET_CHUNK(bundles, args->ll128_capacity, ctx->nblocks * ctx->nthreads / MSCCLPP_DEV_WARP);
    for (base = 0; base < bundles; base += chunk) {
        ++epoch.flag;
        epoch.base = base * MSCCLPP_DEV_BUNDLE_UNITS;
        switch (args->nranks) {
        case 2:
            mscclpp_dev_ll128_epoch(ctx, &epoch, 2, hot, dtype, op, chunk);
            break;
        case 4:
            mscclpp_dev_ll128_epoch(ctx, &epoch, 4, hot, dtype, op, chunk);
            break;
        case 8:
            mscclpp_dev_ll128_epoch(ctx, &epoch, 8, hot, dtype, op, chunk);
            break;
        default:
            mscclpp_dev_ll128_epoch(ctx, &epoch, 0, hot, dtype, op, chunk);
            break;
        }
    }
    mscclpp_dev_finish_packets(ctx, args, launches, epoch.flag);
}

#endif
