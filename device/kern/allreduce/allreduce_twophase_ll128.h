/*
 * Two-phase all-reduce (allreduce_twophase.h) with LL128 packets. Each link carries 2 (n - 1) / n times the message,
 * plus one fifteenth for flags. Warps and bundles here correspond to threads and units there.
 */
#ifndef MSCCLPP_DEVICE_KERN_ALLREDUCE_ALLREDUCE_TWOPHASE_LL128_H
#define MSCCLPP_DEVICE_KERN_ALLREDUCE_ALLREDUCE_TWOPHASE_LL128_H

#include "device/types/hot.h"
#include "device/kern/allreduce/allreduce_twophase.h"

/*
 * If the number of ranks `const_ranks` is a constant, a warp handles a batch of several bundles at a time: as many as
 * its registers can hold operands of all ranks. All loads of a batch are in progress before the first operand is used.
 */
#define MSCCLPP_DEV_LL128_OPERANDS 8
#define MSCCLPP_DEV_LL128_BATCH(n_) (MSCCLPP_DEV_LL128_OPERANDS / ((n_) == 0 ? 1 : (n_)))

/* The bundles that a warp handles together: number `first`, then one every `step`, up to `epoch_bundles` - 1. */
typedef struct {
    uint64_t first;
    uint64_t step;
    uint64_t epoch_bundles;
} mscclpp_dev_ll128_batch_t;

/*
 * Returns the number of bundle `j` of a batch; of its first bundle if the batch is shorter. The batch must not be
 * empty. Loading the first one again is faster than a branch, which would make each load wait for the one before.
 */
MSCCLPP_DEV uint64_t mscclpp_dev_ll128_index_or_first(const mscclpp_dev_ll128_batch_t *batch, int j)
{
    const uint64_t index = batch->first + (uint64_t)j * batch->step;

    return index < batch->epoch_bundles ? index : batch->first;
}

/* Loads bundle number `index` of the operand's shard for `owner`. Lanes without a unit get zeros. */
MSCCLPP_DEV void mscclpp_dev_ll128_load(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_twophase_t *epoch,
                                        uint32_t owner, uint64_t index, mscclpp_dev_bundle_t *bundle)
{
    uint32_t i, unit;

    for (i = 0; i < MSCCLPP_DEV_LANES; ++i) {
        bundle->lane[i] = mscclpp_dev_bundle_unit(mscclpp_dev_lane(ctx, i), &unit)
                              ? mscclpp_dev_twophase_load(epoch, owner, index * MSCCLPP_DEV_BUNDLE_UNITS + unit)
                              : mscclpp_dev_vec_zero();
    }
}

/*
 * Stores bundle number `index` of owner `owner`'s shard of the result, except units after the shard's end. A thread
 * that has failed stores nothing.
 */
MSCCLPP_DEV void mscclpp_dev_ll128_store(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_twophase_t *epoch,
                                         uint32_t owner, uint64_t index, const mscclpp_dev_bundle_t *bundle,
                                         uint32_t mask)
{
    uint32_t i, unit;

    for (i = 0; i < MSCCLPP_DEV_LANES; ++i) {
        if (mscclpp_dev_bundle_unit(mscclpp_dev_lane(ctx, i), &unit)) {
            mscclpp_dev_twophase_store(ctx, epoch, owner, index * MSCCLPP_DEV_BUNDLE_UNITS + unit, bundle->lane[i],
                                       mask);
        }
    }
}

/*
 * Sends a closed bundle, which has flags in its lines, to a peer, as bundle number `index` of a phase. Called by all
 * lanes of the warp together.
 */
MSCCLPP_DEV void mscclpp_dev_ll128_put(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_twophase_t *epoch, uint32_t peer,
                                       int phase, uint64_t index, const mscclpp_dev_bundle_t *bundle)
{
    mscclpp_dev_bundle_st(
        ctx, mscclpp_dev_bundle_slot(epoch->args, peer, epoch->args->rank, phase, epoch->capacity, index), bundle);
}

/*
 * Loads a bundle without waiting; mscclpp_dev_bundle_has tells whether it had arrived. The lanes of the warp must be
 * together.
 */
MSCCLPP_DEV void mscclpp_dev_ll128_poll(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_twophase_t *epoch,
                                        uint32_t peer, int phase, uint64_t index, mscclpp_dev_bundle_t *bundle)
{
    mscclpp_dev_bundle_ld(ctx,
                          mscclpp_dev_bundle_slot(epoch->args, epoch->args->rank, peer, phase, epoch->capacity, index),
                          epoch->flag, bundle);
}

/*
 * Waits for a bundle from a peer, and opens it, so that it contains only data. Called by all lanes of the warp
 * together. If the warp gives up, sets ctx->failed in all lanes, and the data are arbitrary.
 */
MSCCLPP_DEV void mscclpp_dev_ll128_get(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_twophase_t *epoch, uint32_t peer,
                                       int phase, uint64_t index, mscclpp_dev_bundle_t *bundle)
{
    mscclpp_dev_wait_t wait = {0, 0};
    uint32_t late_rank;

    mscclpp_dev_warp_meet();
    do {
        mscclpp_dev_ll128_poll(ctx, epoch, peer, phase, index, bundle);
        late_rank = mscclpp_dev_bundle_has(ctx, bundle, epoch->flag) ? MSCCLPP_DEV_NOT_LATE : peer;
    } while (mscclpp_dev_bundle_wait(ctx, epoch->args, &wait, late_rank));
    mscclpp_dev_bundle_open(ctx, bundle);
}

/*
 * Carries out the first phase for any number of ranks: sends bundle number `index` of each other rank's shard to that
 * rank.
 */
MSCCLPP_DEV void mscclpp_dev_ll128_send_any(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_twophase_t *epoch,
                                            uint64_t index)
{
    mscclpp_dev_bundle_t bundle;
    uint32_t distance;

    for (distance = 1; distance < epoch->args->nranks; ++distance) {
        const uint32_t peer = mscclpp_dev_peer(epoch->args, distance);

        mscclpp_dev_ll128_load(ctx, epoch, peer, index, &bundle);
        mscclpp_dev_bundle_close(ctx, &bundle, epoch->flag);
        mscclpp_dev_ll128_put(ctx, epoch, peer, MSCCLPP_DEV_PHASE_OPERANDS, index, &bundle);
    }
}

/*
 * Carries out the first phase for a batch of bundles, if the number of ranks is the constant `const_ranks`: sends the
 * bundles. Loads all of them before it sends the first one.
 */
MSCCLPP_DEV void mscclpp_dev_ll128_send(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_twophase_t *epoch,
                                        int const_ranks, const mscclpp_dev_ll128_batch_t *batch)
{
    const mscclpp_dev_args_t *args = epoch->args;
    mscclpp_dev_bundle_t bundles[MSCCLPP_DEV_LL128_OPERANDS];
    int i, j;

    MSCCLPP_DEV_UNROLL
    for (j = 0; j < MSCCLPP_DEV_LL128_BATCH(const_ranks); ++j) {
        const uint64_t index = batch->first + (uint64_t)j * batch->step;

        MSCCLPP_DEV_UNROLL
        for (i = 1; i < const_ranks; ++i) {
            if (index < batch->epoch_bundles) {
                mscclpp_dev_ll128_load(ctx, epoch, mscclpp_dev_peer(args, (uint32_t)i), index,
                                       &bundles[j * const_ranks + i]);
            }
        }
    }
    MSCCLPP_DEV_UNROLL
    for (j = 0; j < MSCCLPP_DEV_LL128_BATCH(const_ranks); ++j) {
        const uint64_t index = batch->first + (uint64_t)j * batch->step;

        MSCCLPP_DEV_UNROLL
        for (i = 1; i < const_ranks; ++i) {
            if (index < batch->epoch_bundles) {
                mscclpp_dev_bundle_close(ctx, &bundles[j * const_ranks + i], epoch->flag);
                mscclpp_dev_ll128_put(ctx, epoch, mscclpp_dev_peer(args, (uint32_t)i), MSCCLPP_DEV_PHASE_OPERANDS,
                                      index, &bundles[j * const_ranks + i]);
            }
        }
    }
}

/*
 * Adds one rank's operand to the accumulators. Called in rank order: `position` is the rank's place in this order. The
 * operand at position 0 initializes the accumulators.
 */
MSCCLPP_DEV void mscclpp_dev_ll128_add(mscclpp_dev_acc_t *acc, uint32_t position, bool hot, int dtype, int op,
                                       const mscclpp_dev_bundle_t *bundle)
{
    uint32_t i;

    for (i = 0; i < MSCCLPP_DEV_LANES; ++i) {
        if (position == 0) {
            mscclpp_dev_acc_set(&acc[i], dtype, bundle->lane[i]);
        } else {
            mscclpp_dev_acc_add(&acc[i], hot, dtype, op, bundle->lane[i]);
        }
    }
}

/*
 * Sends the result of bundle number `index` to all peers, and stores it in this rank's output. `const_ranks` is the
 * number of ranks if it is a constant, else 0. After a failure nothing is sent or stored. All lanes of the warp have
 * then failed, and they still close the bundle together, as they must.
 */
MSCCLPP_DEV void mscclpp_dev_ll128_finish(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_twophase_t *epoch,
                                          int const_ranks, int dtype, uint32_t mask, uint64_t index,
                                          const mscclpp_dev_acc_t *acc)
{
    const mscclpp_dev_args_t *args = epoch->args;
    const uint32_t nranks = const_ranks != 0 ? (uint32_t)const_ranks : args->nranks;
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
            mscclpp_dev_ll128_put(ctx, epoch, mscclpp_dev_peer(args, i), MSCCLPP_DEV_PHASE_RESULTS, index, &closed);
        }
    }
    mscclpp_dev_ll128_store(ctx, epoch, args->rank, index, &result, mask);
}

/*
 * Reduces one bundle between the two phases, for any number of ranks. Waits for bundle number `index` of this rank's
 * shard from all peers, combines it in rank order, and sends the result. If the warp gives up, sets ctx->failed and
 * sends nothing.
 */
MSCCLPP_DEV void mscclpp_dev_ll128_reduce_any(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_twophase_t *epoch, bool hot,
                                              int dtype, int op, uint32_t mask, uint64_t index)
{
    mscclpp_dev_acc_t acc[MSCCLPP_DEV_LANES];
    mscclpp_dev_bundle_t bundle;
    uint32_t rank;

    for (rank = 0; rank < epoch->args->nranks; ++rank) {
        if (rank == epoch->args->rank) {
            mscclpp_dev_ll128_load(ctx, epoch, rank, index, &bundle);
        } else {
            mscclpp_dev_ll128_get(ctx, epoch, rank, MSCCLPP_DEV_PHASE_OPERANDS, index, &bundle);
        }
        mscclpp_dev_ll128_add(acc, rank, hot, dtype, op, &bundle);
    }
    mscclpp_dev_ll128_finish(ctx, epoch, 0, dtype, mask, index, acc);
}

/*
 * Reduces a batch of bundles between the two phases, for a constant number of ranks `const_ranks`: waits for the
 * bundles of this rank's shard from all peers, combines them in rank order, and sends the results. bundles[j *
 * const_ranks + rank] is bundle j of the batch, from that rank. All bundles are polled together until the last one has
 * arrived. If the warp gives up, sets ctx->failed and sends nothing. Called by all lanes of the warp together.
 */
MSCCLPP_DEV void mscclpp_dev_ll128_reduce(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_twophase_t *epoch, int const_ranks,
                                          bool hot, int dtype, int op, uint32_t mask,
                                          const mscclpp_dev_ll128_batch_t *batch)
{
    const mscclpp_dev_args_t *args = epoch->args;
    mscclpp_dev_bundle_t bundles[MSCCLPP_DEV_LL128_OPERANDS];
    mscclpp_dev_wait_t wait = {0, 0};
    uint32_t late_rank;
    int i, j, rank;

    MSCCLPP_DEV_UNROLL
    for (j = 0; j < MSCCLPP_DEV_LL128_BATCH(const_ranks); ++j) {
        const uint64_t index = batch->first + (uint64_t)j * batch->step;

        if (index < batch->epoch_bundles) {
            mscclpp_dev_bundle_t own_bundle;

            /*
             * This rank's number is not a constant, so its operand is stored at all places. The polls below overwrite
             * the places of the other ranks.
             */
            mscclpp_dev_ll128_load(ctx, epoch, args->rank, index, &own_bundle);
            MSCCLPP_DEV_UNROLL
            for (rank = 0; rank < const_ranks; ++rank) {
                bundles[j * const_ranks + rank] = own_bundle;
            }
        }
    }
    mscclpp_dev_warp_meet();
    do {
        late_rank = MSCCLPP_DEV_NOT_LATE;
        MSCCLPP_DEV_UNROLL
        for (i = 0; i < MSCCLPP_DEV_LL128_OPERANDS; ++i) {
            if ((uint32_t)(i % const_ranks) != args->rank) {
                mscclpp_dev_ll128_poll(ctx, epoch, (uint32_t)(i % const_ranks), MSCCLPP_DEV_PHASE_OPERANDS,
                                       mscclpp_dev_ll128_index_or_first(batch, i / const_ranks), &bundles[i]);
            }
        }
        MSCCLPP_DEV_UNROLL
        for (i = 0; i < MSCCLPP_DEV_LL128_OPERANDS; ++i) {
            if ((uint32_t)(i % const_ranks) != args->rank && !mscclpp_dev_bundle_has(ctx, &bundles[i], epoch->flag)) {
                late_rank = (uint32_t)(i % const_ranks);
            }
        }
    } while (mscclpp_dev_bundle_wait(ctx, args, &wait, late_rank));
    MSCCLPP_DEV_UNROLL
    for (j = 0; j < MSCCLPP_DEV_LL128_BATCH(const_ranks); ++j) {
        const uint64_t index = batch->first + (uint64_t)j * batch->step;

        if (index < batch->epoch_bundles) {
            mscclpp_dev_acc_t acc[MSCCLPP_DEV_LANES];

            MSCCLPP_DEV_UNROLL
            for (rank = 0; rank < const_ranks; ++rank) {
                if ((uint32_t)rank != args->rank) {
                    mscclpp_dev_bundle_open(ctx, &bundles[j * const_ranks + rank]);
                }
                mscclpp_dev_ll128_add(acc, (uint32_t)rank, hot, dtype, op, &bundles[j * const_ranks + rank]);
            }
            mscclpp_dev_ll128_finish(ctx, epoch, const_ranks, dtype, mask, index, acc);
        }
    }
}

/*
 * Carries out the second phase for any number of ranks: waits for bundle number `index` of each other shard, and stores
 * it. If the warp gives up, sets ctx->failed and stores no further bundle.
 */
MSCCLPP_DEV void mscclpp_dev_ll128_receive_any(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_twophase_t *epoch,
                                               uint32_t mask, uint64_t index)
{
    mscclpp_dev_bundle_t bundle;
    uint32_t distance;

    for (distance = 1; distance < epoch->args->nranks; ++distance) {
        const uint32_t peer = mscclpp_dev_peer(epoch->args, distance);

        mscclpp_dev_ll128_get(ctx, epoch, peer, MSCCLPP_DEV_PHASE_RESULTS, index, &bundle);
        mscclpp_dev_ll128_store(ctx, epoch, peer, index, &bundle, mask);
    }
}

/*
 * Carries out the second phase, if the number of ranks is the constant `const_ranks`: waits for a batch of bundles of
 * all other shards of the result, and stores them. bundles[j * const_ranks + distance] is bundle j of the batch, from
 * the peer at that distance; distance 0, this rank, is unused. (In mscclpp_dev_ll128_reduce the second index is the
 * rank.) If the warp gives up, sets ctx->failed and stores nothing. Called by all lanes of the warp together.
 */
MSCCLPP_DEV void mscclpp_dev_ll128_receive(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_twophase_t *epoch, int const_ranks,
                                           uint32_t mask, const mscclpp_dev_ll128_batch_t *batch)
{
    const mscclpp_dev_args_t *args = epoch->args;
    mscclpp_dev_bundle_t bundles[MSCCLPP_DEV_LL128_OPERANDS];
    mscclpp_dev_wait_t wait = {0, 0};
    uint32_t late_rank;
    int j, distance;

    mscclpp_dev_warp_meet();
    do {
        late_rank = MSCCLPP_DEV_NOT_LATE;
        MSCCLPP_DEV_UNROLL
        for (j = 0; j < MSCCLPP_DEV_LL128_BATCH(const_ranks); ++j) {
            MSCCLPP_DEV_UNROLL
            for (distance = 1; distance < const_ranks; ++distance) {
                mscclpp_dev_ll128_poll(ctx, epoch, mscclpp_dev_peer(args, (uint32_t)distance),
                                       MSCCLPP_DEV_PHASE_RESULTS, mscclpp_dev_ll128_index_or_first(batch, j),
                                       &bundles[j * const_ranks + distance]);
            }
        }
        MSCCLPP_DEV_UNROLL
        for (j = 0; j < MSCCLPP_DEV_LL128_BATCH(const_ranks); ++j) {
            MSCCLPP_DEV_UNROLL
            for (distance = 1; distance < const_ranks; ++distance) {
                if (!mscclpp_dev_bundle_has(ctx, &bundles[j * const_ranks + distance], epoch->flag)) {
                    late_rank = mscclpp_dev_peer(args, (uint32_t)distance);
                }
            }
        }
    } while (mscclpp_dev_bundle_wait(ctx, args, &wait, late_rank));
    MSCCLPP_DEV_UNROLL
    for (j = 0; j < MSCCLPP_DEV_LL128_BATCH(const_ranks); ++j) {
        const uint64_t index = batch->first + (uint64_t)j * batch->step;

        MSCCLPP_DEV_UNROLL
        for (distance = 1; distance < const_ranks; ++distance) {
            if (index < batch->epoch_bundles) {
                mscclpp_dev_bundle_open(ctx, &bundles[j * const_ranks + distance]);
                mscclpp_dev_ll128_store(ctx, epoch, mscclpp_dev_peer(args, (uint32_t)distance), index,
                                        &bundles[j * const_ranks + distance], mask);
            }
        }
    }
}

/*
 * Runs one epoch of `epoch_bundles` bundles of every shard, if the number of ranks is the constant `const_ranks`. After
 * a failure nothing more is sent or stored, and the loops end without waiting.
 */
MSCCLPP_DEV void mscclpp_dev_ll128_epoch(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_twophase_t *epoch, int const_ranks,
                                         bool hot, int dtype, int op, uint64_t epoch_bundles)
{
    const uint32_t warp = (ctx->block * ctx->nthreads + ctx->tid) / MSCCLPP_DEV_WARP;
    const uint32_t mask = mscclpp_dev_unit_mask(dtype);
    mscclpp_dev_ll128_batch_t batch;
    uint64_t batch_step;

    batch.step = ctx->nblocks * ctx->nthreads / MSCCLPP_DEV_WARP;
    batch.epoch_bundles = epoch_bundles;
    batch_step = batch.step * MSCCLPP_DEV_LL128_BATCH(const_ranks);
    for (batch.first = warp; batch.first < epoch_bundles && !ctx->failed; batch.first += batch_step) {
        mscclpp_dev_ll128_send(ctx, epoch, const_ranks, &batch);
    }
    for (batch.first = warp; batch.first < epoch_bundles; batch.first += batch_step) {
        mscclpp_dev_ll128_reduce(ctx, epoch, const_ranks, hot, dtype, op, mask, &batch);
    }
    for (batch.first = warp; batch.first < epoch_bundles; batch.first += batch_step) {
        mscclpp_dev_ll128_receive(ctx, epoch, const_ranks, mask, &batch);
    }
}

/* Runs one epoch for any number of ranks, one bundle at a time. After a failure nothing more is sent or stored. */
MSCCLPP_DEV void mscclpp_dev_ll128_epoch_any(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_twophase_t *epoch, bool hot,
                                             int dtype, int op, uint64_t epoch_bundles)
{
    const uint32_t warp = (ctx->block * ctx->nthreads + ctx->tid) / MSCCLPP_DEV_WARP;
    const uint32_t step = ctx->nblocks * ctx->nthreads / MSCCLPP_DEV_WARP;
    const uint32_t mask = mscclpp_dev_unit_mask(dtype);
    uint64_t index;

    for (index = warp; index < epoch_bundles && !ctx->failed; index += step) {
        mscclpp_dev_ll128_send_any(ctx, epoch, index);
    }
    for (index = warp; index < epoch_bundles; index += step) {
        mscclpp_dev_ll128_reduce_any(ctx, epoch, hot, dtype, op, mask, index);
    }
    for (index = warp; index < epoch_bundles; index += step) {
        mscclpp_dev_ll128_receive_any(ctx, epoch, mask, index);
    }
}

/*
 * Runs the operation for a message of any size, epoch by epoch. `const_ranks` is the number of ranks as a constant, or
 * 0 for any number. Each epoch uses up a flag, even after a failure, so that all ranks count in the same way.
 */
MSCCLPP_DEV void mscclpp_dev_ll128_ranks(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args, int const_ranks,
                                         bool hot, int dtype, int op)
{
    const uint64_t launches = mscclpp_dev_last_launch(ctx, args);
    mscclpp_dev_twophase_t epoch;
    uint64_t bundles, epoch_bundles, base;

    mscclpp_dev_enter(ctx, args);
    epoch.args = args;
    epoch.shard_units = mscclpp_dev_share(mscclpp_dev_units(args->bytes), args->nranks);
    epoch.capacity = args->ll128_capacity;
    epoch.flag = mscclpp_dev_last_epoch(ctx, args);
    ctx->failed = mscclpp_dev_warp_or(ctx->failed); /* all lanes of a warp execute the loops below together */
    bundles = mscclpp_dev_share(epoch.shard_units, MSCCLPP_DEV_BUNDLE_UNITS);
    for (base = 0; base < bundles; base += epoch_bundles) {
        ++epoch.flag;
        epoch.base = base * MSCCLPP_DEV_BUNDLE_UNITS;
        epoch_bundles = bundles - base < epoch.capacity ? bundles - base : epoch.capacity;
        if (const_ranks == 0) {
            mscclpp_dev_ll128_epoch_any(ctx, &epoch, hot, dtype, op, epoch_bundles);
        } else {
            mscclpp_dev_ll128_epoch(ctx, &epoch, const_ranks, hot, dtype, op, epoch_bundles);
        }
    }
    mscclpp_dev_finish_packets(ctx, args, launches, epoch.flag);
}

/* Runs the kernel. `hot` says that `dtype` and `op` are constants. */
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
