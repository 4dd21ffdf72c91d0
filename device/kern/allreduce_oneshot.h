/*
 * One-shot all-reduce: every rank sends its whole message to every peer as packets, then combines all messages itself.
 * One step of latency; each link carries (n - 1) times the message, twice over for the flags.
 */
#ifndef MSCCLPP_DEVICE_KERN_ALLREDUCE_ONESHOT_H
#define MSCCLPP_DEVICE_KERN_ALLREDUCE_ONESHOT_H

#include "device/barrier.h"
#include "device/packet.h"
#include "device/reduce.h"

/* Where `sender` puts its unit `u` in the scratch of `receiver`. */
MSCCLPP_DEV char *mscclpp_dev_oneshot_slot(const mscclpp_dev_args_t *args, uint32_t receiver, uint32_t sender,
                                           uint32_t flag, uint64_t capacity, uint64_t u)
{
    return args->scratch[receiver] + MSCCLPP_DEV_PACKET_OFFSET + (flag & 1) * args->packet_half +
           sender * capacity * MSCCLPP_DEV_PACKET_UNIT + u * MSCCLPP_DEV_PACKET_STEP;
}

/* Unit `u` of rank `r`; waits for it unless it is the own one. */
MSCCLPP_DEV mscclpp_dev_vec_t mscclpp_dev_oneshot_operand(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args,
                                                          uint32_t r, int width, uint32_t flag, uint64_t capacity,
                                                          uint64_t u, mscclpp_dev_vec_t own)
{
    mscclpp_dev_vec_t v = own;

    if (r != args->rank) {
        mscclpp_dev_get_unit(ctx, args, mscclpp_dev_oneshot_slot(args, args->rank, r, flag, capacity, u),
                             capacity * MSCCLPP_DEV_PACKET_STEP, &v, flag, width, r);
    }
    return v;
}

/*
 * Result of unit `u` of an epoch, whose own operand is `own`. `n` is the number of ranks as a constant, so that all
 * packets are asked for before the first is looked at, or 0.
 */
MSCCLPP_DEV mscclpp_dev_vec_t mscclpp_dev_oneshot_gather(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args, int n,
                                                         bool hot, int dtype, int op, int width, uint32_t flag,
                                                         uint64_t capacity, uint64_t u, mscclpp_dev_vec_t own)
{
    mscclpp_dev_acc_t acc;
    uint32_t r;

    if (n != 0) {
        mscclpp_dev_vec_t v[8];
        bool there[8];
        int i;

        MSCCLPP_DEV_UNROLL
        for (i = 0; i < n; ++i) {
            there[i] = (uint32_t)i == args->rank;
            v[i] = own;
            if (!there[i]) {
                there[i] =
                    mscclpp_dev_poll_unit(mscclpp_dev_oneshot_slot(args, args->rank, (uint32_t)i, flag, capacity, u),
                                          capacity * MSCCLPP_DEV_PACKET_STEP, &v[i], flag, width);
            }
        }
        MSCCLPP_DEV_UNROLL
        for (i = 0; i < n; ++i) {
            if (!there[i]) {
                mscclpp_dev_get_unit(ctx, args,
                                     mscclpp_dev_oneshot_slot(args, args->rank, (uint32_t)i, flag, capacity, u),
                                     capacity * MSCCLPP_DEV_PACKET_STEP, &v[i], flag, width, (uint32_t)i);
            }
        }
        mscclpp_dev_acc_set(&acc, dtype, v[0]);
        MSCCLPP_DEV_UNROLL
        for (i = 1; i < n; ++i) {
            mscclpp_dev_acc_add(&acc, hot, dtype, op, v[i]);
        }
        return mscclpp_dev_acc_get(&acc, dtype);
    }
    mscclpp_dev_acc_set(&acc, dtype, mscclpp_dev_oneshot_operand(ctx, args, 0, width, flag, capacity, u, own));
    for (r = 1; r < args->nranks; ++r) {
        mscclpp_dev_acc_add(&acc, hot, dtype, op,
                            mscclpp_dev_oneshot_operand(ctx, args, r, width, flag, capacity, u, own));
    }
    return mscclpp_dev_acc_get(&acc, dtype);
}

MSCCLPP_DEV void mscclpp_dev_allreduce_oneshot(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args, bool hot,
                                               int dtype, int op, int width)
{
    const uint64_t threads = (uint64_t)ctx->nblocks * ctx->nthreads;
    const uint64_t thread = (uint64_t)ctx->block * ctx->nthreads + ctx->tid;
    const uint64_t units = mscclpp_dev_units(args->bytes);
    const uint64_t capacity = MSCCLPP_DEV_ONESHOT_CAPACITY(args->packet_half, args->nranks);
    const uint64_t chunk = MSCCLPP_DEV_PACKET_CHUNK(units, capacity, threads);
    const uint32_t mask = mscclpp_dev_unit_mask(dtype);
    const uint64_t barriers = args->state->barrier[ctx->block];
    const uint64_t launches = args->state->launches;
    uint32_t flag = args->state->epoch;
    uint64_t base, u;
    uint32_t i;

    for (base = 0; base < units; base += chunk) {
        /* Of most messages a thread has no other unit, and so reads it once. */
        const mscclpp_dev_vec_t first =
            thread < chunk ? mscclpp_dev_ld_unit(args->in, base + thread, args->bytes) : mscclpp_dev_vec_zero();

        ++flag;
        for (u = thread; u < chunk; u += threads) {
            mscclpp_dev_vec_t v = u == thread ? first : mscclpp_dev_ld_unit(args->in, base + u, args->bytes);

            for (i = 1; i < args->nranks && !ctx->failed; ++i) {
                uint32_t peer = args->rank + i < args->nranks ? args->rank + i : args->rank + i - args->nranks;

                mscclpp_dev_put_unit(mscclpp_dev_oneshot_slot(args, peer, args->rank, flag, capacity, u),
                                     capacity * MSCCLPP_DEV_PACKET_STEP, v, flag, width);
            }
        }
        for (u = thread; u < chunk; u += threads) {
            mscclpp_dev_vec_t v = u == thread ? first : mscclpp_dev_ld_unit(args->in, base + u, args->bytes);

            switch (args->nranks) {
            case 2:
                v = mscclpp_dev_oneshot_gather(ctx, args, 2, hot, dtype, op, width, flag, capacity, u, v);
                break;
            case 4:
                v = mscclpp_dev_oneshot_gather(ctx, args, 4, hot, dtype, op, width, flag, capacity, u, v);
                break;
            case 8:
                v = mscclpp_dev_oneshot_gather(ctx, args, 8, hot, dtype, op, width, flag, capacity, u, v);
                break;
            default:
                v = mscclpp_dev_oneshot_gather(ctx, args, 0, hot, dtype, op, width, flag, capacity, u, v);
                break;
            }
            if (!ctx->failed) {
                mscclpp_dev_st_unit(args->out, base + u, args->bytes, v, mask);
            }
        }
    }
    mscclpp_dev_finish(ctx, args, launches, flag, barriers);
}

#endif
