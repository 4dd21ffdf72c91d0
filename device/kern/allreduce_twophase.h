/*
 * Two-phase all-reduce with packets: each rank collects and combines one shard of the message (reduce-scatter), then
 * sends the result to all (all-gather). Two steps of latency; each link carries 2 (n - 1) / n times the message, twice
 * over for the flags.
 *
 * All shards have the same number of units; those behind the message's end are exchanged as zeros and not stored, so
 * that every rank receives packets from every peer whatever the count (see packet.h).
 */
#ifndef MSCCLPP_DEVICE_KERN_ALLREDUCE_TWOPHASE_H
#define MSCCLPP_DEVICE_KERN_ALLREDUCE_TWOPHASE_H

#include "device/barrier.h"
#include "device/packet.h"
#include "device/reduce.h"

/* Each half of the packet area holds one slot a sender for operands (`phase` 0) and one for results (1). */
MSCCLPP_DEV char *mscclpp_dev_twophase_slot(const mscclpp_dev_args_t *args, uint32_t receiver, uint32_t sender,
                                            int phase, uint32_t flag, uint64_t capacity, uint64_t u)
{
    return args->scratch[receiver] + MSCCLPP_DEV_PACKET_OFFSET + (flag & 1) * args->packet_half +
           (((uint64_t)phase * args->nranks + sender) * capacity + u) * MSCCLPP_DEV_PACKET_UNIT;
}

/* Operand of rank `r` for unit `u` of the own shard; waits for it unless it is the own one. */
MSCCLPP_DEV mscclpp_dev_vec_t mscclpp_dev_twophase_operand(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args,
                                                           uint32_t r, uint32_t flag, uint64_t capacity, uint64_t u,
                                                           mscclpp_dev_vec_t own)
{
    mscclpp_dev_vec_t v = own;

    if (r != args->rank) {
        mscclpp_dev_get_unit(ctx, args, mscclpp_dev_twophase_slot(args, args->rank, r, 0, flag, capacity, u), &v, flag,
                             MSCCLPP_DEV_LL16, r);
    }
    return v;
}

MSCCLPP_DEV void mscclpp_dev_allreduce_twophase(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args, bool hot,
                                                int dtype, int op)
{
    const int width = MSCCLPP_DEV_LL16;
    const uint64_t threads = (uint64_t)ctx->nblocks * ctx->nthreads;
    const uint64_t thread = (uint64_t)ctx->block * ctx->nthreads + ctx->tid;
    const uint32_t n = args->nranks, rank = args->rank;
    const uint64_t shard = (mscclpp_dev_units(args->bytes) + n - 1) / n;
    const uint64_t capacity = MSCCLPP_DEV_TWOPHASE_CAPACITY(args->packet_half, args->nranks);
    const uint64_t chunk = MSCCLPP_DEV_PACKET_CHUNK(shard, capacity, threads);
    const uint32_t mask = mscclpp_dev_unit_mask(dtype);
    const uint64_t barriers = args->state->barrier[ctx->block];
    const uint64_t launches = args->state->launches;
    uint32_t flag = args->state->epoch;
    uint64_t base, u;
    uint32_t i, r;

    for (base = 0; base < shard; base += chunk) {
        ++flag;
        for (u = thread; u < chunk; u += threads) {
            for (i = 1; i < n && !ctx->failed; ++i) {
                uint32_t peer = rank + i < n ? rank + i : rank + i - n;
                mscclpp_dev_vec_t v = mscclpp_dev_vec_zero();

                if (base + u < shard) {
                    v = mscclpp_dev_ld_unit(args->in, peer * shard + base + u, args->bytes);
                }
                mscclpp_dev_put_unit(mscclpp_dev_twophase_slot(args, peer, rank, 0, flag, capacity, u), v, flag, width);
            }
        }
        for (u = thread; u < chunk; u += threads) {
            mscclpp_dev_vec_t own = mscclpp_dev_vec_zero(), v;
            mscclpp_dev_acc_t acc;

            if (base + u < shard) {
                own = mscclpp_dev_ld_unit(args->in, rank * shard + base + u, args->bytes);
            }
            mscclpp_dev_acc_set(&acc, dtype, mscclpp_dev_twophase_operand(ctx, args, 0, flag, capacity, u, own));
            for (r = 1; r < n; ++r) {
                mscclpp_dev_acc_add(&acc, hot, dtype, op,
                                    mscclpp_dev_twophase_operand(ctx, args, r, flag, capacity, u, own));
            }
            v = mscclpp_dev_acc_get(&acc, dtype);
            for (i = 1; i < n && !ctx->failed; ++i) {
                uint32_t peer = rank + i < n ? rank + i : rank + i - n;

                mscclpp_dev_put_unit(mscclpp_dev_twophase_slot(args, peer, rank, 1, flag, capacity, u), v, flag, width);
            }
            if (base + u < shard && !ctx->failed) {
                mscclpp_dev_st_unit(args->out, rank * shard + base + u, args->bytes, v, mask);
            }
        }
        for (u = thread; u < chunk; u += threads) {
            for (i = 1; i < n; ++i) {
                uint32_t peer = rank + i < n ? rank + i : rank + i - n;
                mscclpp_dev_vec_t v;

                mscclpp_dev_get_unit(ctx, args, mscclpp_dev_twophase_slot(args, rank, peer, 1, flag, capacity, u), &v,
                                     flag, width, peer);
                if (base + u < shard && !ctx->failed) {
                    mscclpp_dev_st_unit(args->out, peer * shard + base + u, args->bytes, v, mask);
                }
            }
        }
    }
    mscclpp_dev_finish(ctx, args, launches, flag, barriers);
}

#endif
