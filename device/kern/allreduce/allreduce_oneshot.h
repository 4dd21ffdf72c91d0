/*
 * One-shot all-reduce with packets: every rank sends its whole message to every peer and combines all messages itself.
 * It takes one step of latency. Each link carries (n - 1) times the message, doubled by the flags.
 */
#ifndef MSCCLPP_DEVICE_KERN_ALLREDUCE_ALLREDUCE_ONESHOT_H
#define MSCCLPP_DEVICE_KERN_ALLREDUCE_ALLREDUCE_ONESHOT_H

#include "device/lib/barrier.h"
#include "device/types/hot.h"
#include "device/lib/packet.h"
#include "device/lib/reduce.h"

/*
 * One epoch of a call. The values that all units of the epoch share are computed once, because in small calls
 * arithmetic would take a large part of the time. The units of a slot can be counted in 32 bits.
 */
typedef struct {
    const mscclpp_dev_args_t *args;
    const char *in;    /* the first byte of the epoch's part of the operand */
    char *out;         /* the first byte of the same part of the result */
    uint64_t bytes;    /* bytes from `in` to the end of the operand */
    uint64_t half_gap; /* bytes from the first half of a unit's packets to the second half */
    uint64_t slots;    /* where the slots that this epoch uses begin in a scratch, offset in bytes */
    uint32_t flag;     /* the flag in the epoch's packets */
    uint32_t units;    /* units in this epoch */
} mscclpp_dev_oneshot_t;

/* Returns the place of one unit from `sender` in the scratch of `receiver`. */
MSCCLPP_DEV char *mscclpp_dev_oneshot_slot(const mscclpp_dev_oneshot_t *epoch, uint32_t receiver, uint32_t sender,
                                           uint32_t unit)
{
    return epoch->args->scratch[receiver] + epoch->slots + sender * 2 * epoch->half_gap +
           (uint64_t)unit * MSCCLPP_DEV_PACKET_STEP;
}

/* Reads one unit of a sender into *value and returns true, or returns false if it has not arrived. Never waits. */
MSCCLPP_DEV bool mscclpp_dev_oneshot_poll(const mscclpp_dev_oneshot_t *epoch, uint32_t sender, uint32_t unit, int width,
                                          mscclpp_dev_vec_t *value)
{
    return mscclpp_dev_poll_unit(mscclpp_dev_oneshot_slot(epoch, epoch->args->rank, sender, unit), epoch->half_gap,
                                 value, epoch->flag, width);
}

/* Waits for one unit of a sender, and reads it into *value. If the wait fails, sets ctx->failed. */
MSCCLPP_DEV void mscclpp_dev_oneshot_get(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_oneshot_t *epoch, uint32_t sender,
                                         uint32_t unit, int width, mscclpp_dev_vec_t *value)
{
    mscclpp_dev_get_unit(ctx, epoch->args, mscclpp_dev_oneshot_slot(epoch, epoch->args->rank, sender, unit),
                         epoch->half_gap, value, epoch->flag, width, sender);
}

/*
 * Sends one unit to all peers. Each rank begins with the rank after it, so that the ranks do not all send to the same
 * one at the same time. A thread that has failed sends nothing.
 *
 * Here and below, `const_ranks` is the number of ranks as a constant, or 0 for any number. `width` is MSCCLPP_DEV_LL16
 * or MSCCLPP_DEV_LL8. `hot` says that `dtype` and `op` are constants.
 */
MSCCLPP_DEV void mscclpp_dev_oneshot_put(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_oneshot_t *epoch,
                                         int const_ranks, uint32_t unit, int width, mscclpp_dev_vec_t value)
{
    const mscclpp_dev_args_t *args = epoch->args;
    const uint32_t nranks = const_ranks != 0 ? (uint32_t)const_ranks : args->nranks;
    uint32_t i;

    if (ctx->failed) {
        return;
    }
    MSCCLPP_DEV_UNROLL
    for (i = 1; i < nranks; ++i) {
        const uint32_t peer = args->rank + i < nranks ? args->rank + i : args->rank + i - nranks;

        mscclpp_dev_put_unit(mscclpp_dev_oneshot_slot(epoch, peer, args->rank, unit), epoch->half_gap, value,
                             epoch->flag, width);
    }
}

/*
 * Waits for one unit from each peer, and combines the units of all ranks in rank order. `own_value` is this rank's
 * unit. If a wait fails, sets ctx->failed, and the value is arbitrary. A constant number of ranks lets the compiler
 * load all packets before the first check. If `const_ranks` is 0, the first two loops have no turns, and the last one,
 * which only then has turns, does their work.
 */
MSCCLPP_DEV mscclpp_dev_vec_t mscclpp_dev_oneshot_gather(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_oneshot_t *epoch,
                                                         int const_ranks, bool hot, int dtype, int op, int width,
                                                         uint32_t unit, mscclpp_dev_vec_t own_value)
{
    const mscclpp_dev_args_t *args = epoch->args;
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
        has_arrived[i] =
            (uint32_t)i == args->rank || mscclpp_dev_oneshot_poll(epoch, (uint32_t)i, unit, width, &values[i]);
    }
    MSCCLPP_DEV_UNROLL
    for (i = 0; i < const_ranks; ++i) {
        if (!has_arrived[i]) {
            mscclpp_dev_oneshot_get(ctx, epoch, (uint32_t)i, unit, width, &values[i]);
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
            mscclpp_dev_oneshot_get(ctx, epoch, rank, unit, width, &values[0]);
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
 * Runs one epoch: sends, receives and combines its units. Each thread handles its own units from beginning to end.
 * After a failure nothing more is sent or stored.
 */
MSCCLPP_DEV void mscclpp_dev_oneshot_epoch(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_oneshot_t *epoch, int const_ranks,
                                           bool hot, int dtype, int op, int width)
{
    const uint32_t threads = ctx->nblocks * ctx->nthreads;
    const uint32_t thread = ctx->block * ctx->nthreads + ctx->tid;
    const uint32_t mask = mscclpp_dev_unit_mask(dtype);
    mscclpp_dev_vec_t first_value;
    uint32_t unit;

    if (thread >= epoch->units) {
        return;
    }
    /* The thread's first unit is read once, for both loops. Most messages have only one unit per thread. */
    first_value = mscclpp_dev_ld_unit(epoch->in, thread, epoch->bytes);
    mscclpp_dev_oneshot_put(ctx, epoch, const_ranks, thread, width, first_value);
    for (unit = thread + threads; unit < epoch->units; unit += threads) {
        mscclpp_dev_oneshot_put(ctx, epoch, const_ranks, unit, width,
                                mscclpp_dev_ld_unit(epoch->in, unit, epoch->bytes));
    }
    for (unit = thread; unit < epoch->units; unit += threads) {
        mscclpp_dev_vec_t value = unit == thread ? first_value : mscclpp_dev_ld_unit(epoch->in, unit, epoch->bytes);

        value = mscclpp_dev_oneshot_gather(ctx, epoch, const_ranks, hot, dtype, op, width, unit, value);
        if (!ctx->failed) {
            mscclpp_dev_st_unit(epoch->out, unit, epoch->bytes, value, mask);
        }
    }
}

/*
 * Goes on to the next epoch, which starts at unit `base` of the message: advances the flag, and sets what depends on it
 * and on `base`. The other fields must be set before.
 */
MSCCLPP_DEV void mscclpp_dev_oneshot_begin(mscclpp_dev_oneshot_t *epoch, uint64_t base)
{
    const mscclpp_dev_args_t *args = epoch->args;

    ++epoch->flag;
    epoch->slots = MSCCLPP_DEV_PACKET_OFFSET + (epoch->flag & 1) * args->packet_half;
    epoch->in = (const char *)args->in + base * MSCCLPP_DEV_UNIT;
    epoch->out = (char *)args->out + base * MSCCLPP_DEV_UNIT;
    epoch->bytes = args->bytes - base * MSCCLPP_DEV_UNIT;
}

/*
 * Returns true if mscclpp_dev_oneshot_brief can handle `units`: each thread has at most one unit, all units fit in a
 * slot, and there are 2, 4 or 8 ranks.
 */
MSCCLPP_DEV bool mscclpp_dev_oneshot_is_brief(const mscclpp_dev_args_t *args, uint64_t units, uint32_t threads)
{
    return units <= threads && units <= args->oneshot_capacity &&
           (args->nranks == 2 || args->nranks == 4 || args->nranks == 8);
}

/*
 * Runs the operation for a message for which mscclpp_dev_oneshot_is_brief is true. Each thread has at most one unit,
 * which stays in registers, and there is only one epoch, so no loops are needed. `const_ranks` is never 0 here. After a
 * failure the thread stores nothing.
 */
MSCCLPP_DEV void mscclpp_dev_oneshot_brief(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args, int const_ranks,
                                           bool hot, int dtype, int op, int width)
{
    const uint32_t thread = ctx->block * ctx->nthreads + ctx->tid;
    const uint64_t launches = mscclpp_dev_last_launch(ctx, args);
    mscclpp_dev_oneshot_t epoch;

    epoch.args = args;
    epoch.flag = mscclpp_dev_last_epoch(ctx, args);
    epoch.half_gap = (uint64_t)args->oneshot_capacity * MSCCLPP_DEV_PACKET_STEP;
    mscclpp_dev_oneshot_begin(&epoch, 0);
    if (thread < mscclpp_dev_units(args->bytes)) {
        mscclpp_dev_vec_t value = mscclpp_dev_ld_unit_by(epoch.in, thread, epoch.bytes, false);

        mscclpp_dev_oneshot_put(ctx, &epoch, const_ranks, thread, width, value);
        value = mscclpp_dev_oneshot_gather(ctx, &epoch, const_ranks, hot, dtype, op, width, thread, value);
        if (!ctx->failed) {
            mscclpp_dev_st_unit_by(epoch.out, thread, epoch.bytes, value, mscclpp_dev_unit_mask(dtype), false);
        }
    }
    mscclpp_dev_finish_packets(ctx, args, launches, epoch.flag);
}

/*
 * Runs the operation for a message of any size, epoch by epoch. Each epoch uses up a flag, even after a failure, so
 * that all ranks count in the same way.
 */
MSCCLPP_DEV void mscclpp_dev_oneshot_long(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args, int const_ranks,
                                          bool hot, int dtype, int op, int width)
{
    const uint64_t units = mscclpp_dev_units(args->bytes);
    const uint64_t launches = mscclpp_dev_last_launch(ctx, args);
    mscclpp_dev_oneshot_t epoch;
    uint64_t base;

    epoch.args = args;
    epoch.flag = mscclpp_dev_last_epoch(ctx, args);
    epoch.half_gap = (uint64_t)args->oneshot_capacity * MSCCLPP_DEV_PACKET_STEP;
    epoch.units = (uint32_t)MSCCLPP_DEV_PACKET_CHUNK(units, args->oneshot_capacity, ctx->nblocks * ctx->nthreads);
    for (base = 0; base < units; base += epoch.units) {
        mscclpp_dev_oneshot_begin(&epoch, base);
        mscclpp_dev_oneshot_epoch(ctx, &epoch, const_ranks, hot, dtype, op, width);
    }
    mscclpp_dev_finish_packets(ctx, args, launches, epoch.flag);
}

/*
 * Runs the kernel. The number of ranks is a constant if it is in MSCCLPP_DEV_RANKS. Only for these is there code for
 * brief messages.
 */
MSCCLPP_DEV void mscclpp_dev_allreduce_oneshot(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args, bool hot,
                                               int dtype, int op, int width)
{
    const bool is_brief =
        mscclpp_dev_oneshot_is_brief(args, mscclpp_dev_units(args->bytes), ctx->nblocks * ctx->nthreads);

    mscclpp_dev_await_stream(ctx);
    mscclpp_dev_enter(ctx, args);
#define MSCCLPP_DEV_ONESHOT_RANKS(n_)                                                                                  \
    case n_:                                                                                                           \
        if (is_brief) {                                                                                                \
            mscclpp_dev_oneshot_brief(ctx, args, n_, hot, dtype, op, width);                                           \
        } else {                                                                                                       \
            mscclpp_dev_oneshot_long(ctx, args, n_, hot, dtype, op, width);                                            \
        }                                                                                                              \
        break;
    switch (args->nranks) {
        MSCCLPP_DEV_RANKS(MSCCLPP_DEV_ONESHOT_RANKS)
    default:
        mscclpp_dev_oneshot_long(ctx, args, 0, hot, dtype, op, width);
        break;
    }
#undef MSCCLPP_DEV_ONESHOT_RANKS
}

#endif
