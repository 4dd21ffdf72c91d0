/*
 * Two-phase all-reduce (allreduce_twophase.h) with LL128 packets. Each link carries 2 (n - 1) / n times the message,
 * plus one fifteenth for flags. Warps and bundles here correspond to threads and units there.
 */
#ifndef MSCCLPP_DEVICE_KERN_ALLREDUCE_ALLREDUCE_TWOPHASE_LL128_H
#define MSCCLPP_DEVICE_KERN_ALLREDUCE_ALLREDUCE_TWOPHASE_LL128_H

#include "device/types/hot.h"
#include "device/kern/allreduce/allreduce_twophase.h"

/*
 * If the number of ranks `n` is a constant, a warp handles a batch of several bundles at a time: as many as its
 * registers hold for the operands of all ranks. All loads of a batch are under way before the first operand is used.
 */
#define MSCCLPP_DEV_LL128_OPERANDS 8
#define MSCCLPP_DEV_LL128_BATCH(n_) (MSCCLPP_DEV_LL128_OPERANDS / ((n_) == 0 ? 1 : (n_)))

/* A batch of bundles: `first`, then one every `step`. Bundles from `chunk` on do not exist. */
typedef struct {
    uint64_t first;
    uint64_t step;
    uint64_t chunk;
} mscclpp_dev_ll128_batch_t;

/*
 * Bundle `j` of a batch, or its first bundle if there is no bundle `j`. Loading the first one again is faster than a
 * branch, which would make each load wait for the one before.
 */
MSCCLPP_DEV uint64_t mscclpp_dev_ll128_nth(const mscclpp_dev_ll128_batch_t *batch, int j)
{
    const uint64_t b = batch->first + (uint64_t)j * batch->step;

    return b < batch->chunk ? b : batch->first;
}

/* Loads bundle `b` of the operand's shard for `owner`. Lanes without a unit get zeros. */
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

/* Stores bundle `b` of a shard of the result. */
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

/* Puts a closed bundle. */
MSCCLPP_DEV void mscclpp_dev_ll128_put(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_twophase_t *epoch, uint32_t peer,
                                       int phase, uint64_t b, const mscclpp_dev_bundle_t *bundle)
{
    mscclpp_dev_bundle_st(ctx, mscclpp_dev_bundle_slot(epoch->args, peer, epoch->args->rank, phase, epoch->capacity, b),
                          bundle);
}

/*
 * Loads a bundle without waiting; mscclpp_dev_bundle_has tells whether it had arrived. The lanes of the warp must be
 * together.
 */
MSCCLPP_DEV void mscclpp_dev_ll128_ask(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_twophase_t *epoch, uint32_t peer,
                                       int phase, uint64_t b, mscclpp_dev_bundle_t *bundle)
{
    mscclpp_dev_bundle_ld(ctx, mscclpp_dev_bundle_slot(epoch->args, epoch->args->rank, peer, phase, epoch->capacity, b),
                          epoch->flag, bundle);
}

/* Waits for one bundle and opens it. */
MSCCLPP_DEV void mscclpp_dev_ll128_get(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_twophase_t *epoch, uint32_t peer,
                                       int phase, uint64_t b, mscclpp_dev_bundle_t *bundle)
{
    mscclpp_dev_wait_t wait = {0, 0};
    uint32_t late;

    mscclpp_dev_warp_meet();
    do {
        mscclpp_dev_ll128_ask(ctx, epoch, peer, phase, b, bundle);
        late = mscclpp_dev_bundle_has(ctx, bundle, epoch->flag) ? MSCCLPP_DEV_NOT_LATE : peer;
    } while (mscclpp_dev_bundle_wait(ctx, epoch->args, &wait, late));
    mscclpp_dev_bundle_open(ctx, bundle);
}

/* First phase, for any number of ranks: sends bundle `b` of each other rank's shard to that rank. */
MSCCLPP_DEV void mscclpp_dev_ll128_send_any(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_twophase_t *epoch,
                                            uint64_t b)
{
    mscclpp_dev_bundle_t v;
    uint32_t r;

    for (r = 1; r < epoch->args->nranks; ++r) {
        const uint32_t peer = mscclpp_dev_peer(epoch->args, r);

        mscclpp_dev_ll128_load(ctx, epoch, peer, b, &v);
        mscclpp_dev_bundle_close(ctx, &v, epoch->flag);
        mscclpp_dev_ll128_put(ctx, epoch, peer, 0, b, &v);
    }
}

/*
 * First phase, if the number of ranks is the constant `n`: sends a batch of bundles. It loads all of them before it
 * sends the first one.
 */
MSCCLPP_DEV void mscclpp_dev_ll128_send(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_twophase_t *epoch, int n,
                                        const mscclpp_dev_ll128_batch_t *batch)
{
    const mscclpp_dev_args_t *args = epoch->args;
    mscclpp_dev_bundle_t v[MSCCLPP_DEV_LL128_OPERANDS];
    int i, j;

    MSCCLPP_DEV_UNROLL
    for (j = 0; j < MSCCLPP_DEV_LL128_BATCH(n); ++j) {
        const uint64_t b = batch->first + (uint64_t)j * batch->step;

        MSCCLPP_DEV_UNROLL
        for (i = 1; i < n; ++i) {
            if (b < batch->chunk) {
                mscclpp_dev_ll128_load(ctx, epoch, mscclpp_dev_peer(args, (uint32_t)i), b, &v[j * n + i]);
            }
        }
    }
    MSCCLPP_DEV_UNROLL
    for (j = 0; j < MSCCLPP_DEV_LL128_BATCH(n); ++j) {
        const uint64_t b = batch->first + (uint64_t)j * batch->step;

        MSCCLPP_DEV_UNROLL
        for (i = 1; i < n; ++i) {
            if (b < batch->chunk) {
                mscclpp_dev_bundle_close(ctx, &v[j * n + i], epoch->flag);
                mscclpp_dev_ll128_put(ctx, epoch, mscclpp_dev_peer(args, (uint32_t)i), 0, b, &v[j * n + i]);
            }
        }
    }
}

/* Adds the operand that is the `nth` in rank order. */
MSCCLPP_DEV void mscclpp_dev_ll128_add(mscclpp_dev_acc_t *acc, uint32_t nth, bool hot, int dtype, int op,
                                       const mscclpp_dev_bundle_t *v)
{
    uint32_t i;

    for (i = 0; i < MSCCLPP_DEV_LANES; ++i) {
        if (nth == 0) {
            mscclpp_dev_acc_set(&acc[i], dtype, v->lane[i]);
        } else {
            mscclpp_dev_acc_add(&acc[i], hot, dtype, op, v->lane[i]);
        }
    }
}

/* Sends the result of bundle `b` to all peers, and stores it in this rank's part of the user's buffer. */
MSCCLPP_DEV void mscclpp_dev_ll128_finish(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_twophase_t *epoch, int n,
                                          int dtype, uint32_t mask, uint64_t b, const mscclpp_dev_acc_t *acc)
{
    const mscclpp_dev_args_t *args = epoch->args;
    const uint32_t nranks = n != 0 ? (uint32_t)n : args->nranks;
    mscclpp_dev_bundle_t result, closed;
    uint32_t i;

    for (i = 0; i < MSCCLPP_DEV_LANES; ++i) {
        result.lane[i] = mscclpp_dev_acc_get(&acc[i], dtype);
    }
    closed = result;
    mscclpp_dev_bundle_close(ctx, &closed, epoch->flag);
    if (!ctx->failed) {
        MSCCLPP_DEV_UNROLL
        for (i = 1; i < nranks; ++i) {
            mscclpp_dev_ll128_put(ctx, epoch, mscclpp_dev_peer(args, i), 1, b, &closed);
        }
    }
    mscclpp_dev_ll128_store(ctx, epoch, args->rank, b, &result, mask);
}

/* Between the phases, for any number of ranks: combines bundle `b` of this rank's shard, and sends the result. */
MSCCLPP_DEV void mscclpp_dev_ll128_reduce_any(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_twophase_t *epoch, bool hot,
                                              int dtype, int op, uint32_t mask, uint64_t b)
{
    mscclpp_dev_acc_t acc[MSCCLPP_DEV_LANES];
    mscclpp_dev_bundle_t v;
    uint32_t r;

    for (r = 0; r < epoch->args->nranks; ++r) {
        if (r == epoch->args->rank) {
            mscclpp_dev_ll128_load(ctx, epoch, r, b, &v);
        } else {
            mscclpp_dev_ll128_get(ctx, epoch, r, 0, b, &v);
        }
        mscclpp_dev_ll128_add(acc, r, hot, dtype, op, &v);
    }
    mscclpp_dev_ll128_finish(ctx, epoch, 0, dtype, mask, b, acc);
}

/*
 * Between the phases, for a constant number of ranks `n`: combines a batch of bundles of this rank's shard, and sends
 * the results.
 */
MSCCLPP_DEV void mscclpp_dev_ll128_reduce(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_twophase_t *epoch, int n, bool hot,
                                          int dtype, int op, uint32_t mask, const mscclpp_dev_ll128_batch_t *batch)
{
    const mscclpp_dev_args_t *args = epoch->args;
    mscclpp_dev_bundle_t v[MSCCLPP_DEV_LL128_OPERANDS];
    mscclpp_dev_wait_t wait = {0, 0};
    uint32_t late;
    int i, j;

    MSCCLPP_DEV_UNROLL
    for (j = 0; j < MSCCLPP_DEV_LL128_BATCH(n); ++j) {
        const uint64_t b = batch->first + (uint64_t)j * batch->step;

        if (b < batch->chunk) {
            mscclpp_dev_bundle_t own;

            mscclpp_dev_ll128_load(ctx, epoch, args->rank, b, &own);
            MSCCLPP_DEV_UNROLL
            for (i = 0; i < n; ++i) {
                v[j * n + i] = own;
            }
        }
    }
    mscclpp_dev_warp_meet();
    do {
        late = MSCCLPP_DEV_NOT_LATE;
        MSCCLPP_DEV_UNROLL
        for (i = 0; i < MSCCLPP_DEV_LL128_OPERANDS; ++i) {
            if ((uint32_t)(i % n) != args->rank) {
                mscclpp_dev_ll128_ask(ctx, epoch, (uint32_t)(i % n), 0, mscclpp_dev_ll128_nth(batch, i / n), &v[i]);
            }
        }
        MSCCLPP_DEV_UNROLL
        for (i = 0; i < MSCCLPP_DEV_LL128_OPERANDS; ++i) {
            if ((uint32_t)(i % n) != args->rank && !mscclpp_dev_bundle_has(ctx, &v[i], epoch->flag)) {
                late = (uint32_t)(i % n);
            }
        }
    } while (mscclpp_dev_bundle_wait(ctx, args, &wait, late));
    MSCCLPP_DEV_UNROLL
    for (j = 0; j < MSCCLPP_DEV_LL128_BATCH(n); ++j) {
        const uint64_t b = batch->first + (uint64_t)j * batch->step;

        if (b < batch->chunk) {
            mscclpp_dev_acc_t acc[MSCCLPP_DEV_LANES];

            MSCCLPP_DEV_UNROLL
            for (i = 0; i < n; ++i) {
                if ((uint32_t)i != args->rank) {
                    mscclpp_dev_bundle_open(ctx, &v[j * n + i]);
                }
                mscclpp_dev_ll128_add(acc, (uint32_t)i, hot, dtype, op, &v[j * n + i]);
            }
            mscclpp_dev_ll128_finish(ctx, epoch, n, dtype, mask, b, acc);
        }
    }
}

/* Second phase, for any number of ranks: receives bundle `b` of all other shards of the result. */
MSCCLPP_DEV void mscclpp_dev_ll128_receive_any(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_twophase_t *epoch,
                                               uint32_t mask, uint64_t b)
{
    mscclpp_dev_bundle_t v;
    uint32_t r;

    for (r = 1; r < epoch->args->nranks; ++r) {
        const uint32_t peer = mscclpp_dev_peer(epoch->args, r);

        mscclpp_dev_ll128_get(ctx, epoch, peer, 1, b, &v);
        mscclpp_dev_ll128_store(ctx, epoch, peer, b, &v, mask);
    }
}

/* Second phase, if the number of ranks is the constant `n`: receives a batch of bundles of all other shards. */
MSCCLPP_DEV void mscclpp_dev_ll128_receive(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_twophase_t *epoch, int n,
                                           uint32_t mask, const mscclpp_dev_ll128_batch_t *batch)
{
    const mscclpp_dev_args_t *args = epoch->args;
    mscclpp_dev_bundle_t v[MSCCLPP_DEV_LL128_OPERANDS];
    mscclpp_dev_wait_t wait = {0, 0};
    uint32_t late;
    int i, j;

    mscclpp_dev_warp_meet();
    do {
        late = MSCCLPP_DEV_NOT_LATE;
        MSCCLPP_DEV_UNROLL
        for (i = 0; i < MSCCLPP_DEV_LL128_OPERANDS; ++i) {
            if (i % n != 0) {
                mscclpp_dev_ll128_ask(ctx, epoch, mscclpp_dev_peer(args, (uint32_t)(i % n)), 1,
                                      mscclpp_dev_ll128_nth(batch, i / n), &v[i]);
            }
        }
        MSCCLPP_DEV_UNROLL
        for (i = 0; i < MSCCLPP_DEV_LL128_OPERANDS; ++i) {
            if (i % n != 0 && !mscclpp_dev_bundle_has(ctx, &v[i], epoch->flag)) {
                late = mscclpp_dev_peer(args, (uint32_t)(i % n));
            }
        }
    } while (mscclpp_dev_bundle_wait(ctx, args, &wait, late));
    MSCCLPP_DEV_UNROLL
    for (j = 0; j < MSCCLPP_DEV_LL128_BATCH(n); ++j) {
        const uint64_t b = batch->first + (uint64_t)j * batch->step;

        MSCCLPP_DEV_UNROLL
        for (i = 1; i < n; ++i) {
            if (b < batch->chunk) {
                mscclpp_dev_bundle_open(ctx, &v[j * n + i]);
                mscclpp_dev_ll128_store(ctx, epoch, mscclpp_dev_peer(args, (uint32_t)i), b, &v[j * n + i], mask);
            }
        }
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
    turn = batch.step * MSCCLPP_DEV_LL128_BATCH(n);
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

/* One epoch of `chunk` bundles of every shard, for any number of ranks. */
MSCCLPP_DEV void mscclpp_dev_ll128_epoch_any(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_twophase_t *epoch, bool hot,
                                             int dtype, int op, uint64_t chunk)
{
    const uint32_t own = (ctx->block * ctx->nthreads + ctx->tid) / MSCCLPP_DEV_WARP;
    const uint32_t step = ctx->nblocks * ctx->nthreads / MSCCLPP_DEV_WARP;
    const uint32_t mask = mscclpp_dev_unit_mask(dtype);
    uint64_t b;

    for (b = own; b < chunk && !ctx->failed; b += step) {
        mscclpp_dev_ll128_send_any(ctx, epoch, b);
    }
    for (b = own; b < chunk; b += step) {
        mscclpp_dev_ll128_reduce_any(ctx, epoch, hot, dtype, op, mask, b);
    }
    for (b = own; b < chunk; b += step) {
        mscclpp_dev_ll128_receive_any(ctx, epoch, mask, b);
    }
}

/* All-reduce of a message of any size. `n` is the number of ranks as a constant, or 0 for any number. */
MSCCLPP_DEV void mscclpp_dev_ll128_ranks(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args, int n, bool hot,
                                         int dtype, int op)
{
    const uint64_t launches = mscclpp_dev_last_launch(ctx, args);
    mscclpp_dev_twophase_t epoch;
    uint64_t bundles, chunk, base;

    mscclpp_dev_enter(ctx, args);
    epoch.args = args;
    epoch.shard = mscclpp_dev_share(mscclpp_dev_units(args->bytes), args->nranks);
    epoch.capacity = args->ll128_capacity;
    epoch.flag = mscclpp_dev_last_epoch(ctx, args);
    ctx->failed = mscclpp_dev_warp_or(ctx->failed); /* all lanes of a warp execute the loops below together */
    bundles = mscclpp_dev_share(epoch.shard, MSCCLPP_DEV_BUNDLE_UNITS);
    for (base = 0; base < bundles; base += chunk) {
        ++epoch.flag;
        epoch.base = base * MSCCLPP_DEV_BUNDLE_UNITS;
        chunk = bundles - base < epoch.capacity ? bundles - base : epoch.capacity;
        if (n == 0) {
            mscclpp_dev_ll128_epoch_any(ctx, &epoch, hot, dtype, op, chunk);
        } else {
            mscclpp_dev_ll128_epoch(ctx, &epoch, n, hot, dtype, op, chunk);
        }
    }
    mscclpp_dev_finish_packets(ctx, args, launches, epoch.flag);
}

/* The kernel body. `hot` says that `dtype` and `op` are constants. */
MSCCLPP_DEV void mscclpp_dev_allreduce_twophase_ll128(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args, bool hot,
                                                      int dtype, int op)
{
#define MSCCLPP_DEV_LL128_RANKS(n_)                                                                                    \
    case n_:                                                                                                           \
        mscclpp_dev_ll128_ranks(ctx, args, n_, hot, dtype, op);                                                        \
        break;
    switch (args->nranks) {
        MSCCLPP_DEV_RANKS(MSCCLPP_DEV_LL128_RANKS)
    default:
        mscclpp_dev_ll128_ranks(ctx, args, 0, hot, dtype, op);
        break;
    }
#undef MSCCLPP_DEV_LL128_RANKS
}

#endif
