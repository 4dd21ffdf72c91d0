/*
 * One-shot all-reduce without packets: every rank puts its whole message into the memory of every peer, piece by piece,
 * and combines all messages itself. It takes one step of latency, with no agreement at the beginning and no wait at the
 * end. Each link carries (n - 1) times the message. A block puts piece k before it combines piece k - 1, so that data
 * are under way while it waits, and as lib/put.h requires.
 */
#ifndef MSCCLPP_DEVICE_KERN_ALLREDUCE_ALLREDUCE_ONESHOT_PUT_H
#define MSCCLPP_DEVICE_KERN_ALLREDUCE_ALLREDUCE_ONESHOT_PUT_H

#include "device/types/hot.h"
#include "device/lib/put.h"
#include "device/lib/reduce.h"

/*
 * Returns the number of units in the piece that begins at unit `first_unit`: at most `piece_units`, and none from unit
 * `end` on.
 */
MSCCLPP_DEV uint32_t mscclpp_dev_put_piece_units(uint64_t end, uint64_t first_unit, uint32_t piece_units)
{
    return end <= first_unit ? 0 : end - first_unit < piece_units ? (uint32_t)(end - first_unit) : piece_units;
}

/* Returns true if both user buffers begin at multiples of MSCCLPP_DEV_UNIT. */
MSCCLPP_DEV bool mscclpp_dev_put_is_aligned(const mscclpp_dev_args_t *args)
{
    return ((uintptr_t)args->in | (uintptr_t)args->out) % MSCCLPP_DEV_UNIT == 0;
}

/*
 * Returns how many units can be moved whole: all except one that the message's end cuts off. 0: buffers or type do not
 * allow whole units.
 */
MSCCLPP_DEV uint64_t mscclpp_dev_put_whole_units(const mscclpp_dev_args_t *args, int dtype)
{
    return mscclpp_dev_put_is_aligned(args) && mscclpp_dev_unit_mask(dtype) == MSCCLPP_DEV_WHOLE_UNIT
               ? args->bytes / MSCCLPP_DEV_UNIT
               : 0;
}

/* Loads a unit of the operand. `is_aligned`, a constant, says what mscclpp_dev_put_is_aligned returns; false always
 * works.
 */
MSCCLPP_DEV mscclpp_dev_vec_t mscclpp_dev_put_ld(const mscclpp_dev_args_t *args, bool is_aligned, uint64_t index)
{
    const char *from = (const char *)args->in + index * MSCCLPP_DEV_UNIT;
    const uint64_t bytes_left = args->bytes - index * MSCCLPP_DEV_UNIT;

    return !is_aligned                      ? mscclpp_dev_ld_unit(args->in, index, args->bytes)
           : bytes_left >= MSCCLPP_DEV_UNIT ? mscclpp_dev_ld_vec(from)
                                            : mscclpp_dev_ld_words(from, (uint32_t)bytes_left);
}

/*
 * Stores a unit of the result. `is_aligned` is as in mscclpp_dev_put_ld, but may be true only for types without
 * padding.
 */
MSCCLPP_DEV void mscclpp_dev_put_st(const mscclpp_dev_args_t *args, bool is_aligned, int dtype, uint64_t index,
                                    mscclpp_dev_vec_t value)
{
    char *to = (char *)args->out + index * MSCCLPP_DEV_UNIT;
    const uint64_t bytes_left = args->bytes - index * MSCCLPP_DEV_UNIT;

    if (!is_aligned) {
        mscclpp_dev_st_unit(args->out, index, args->bytes, value, mscclpp_dev_unit_mask(dtype));
    } else if (bytes_left >= MSCCLPP_DEV_UNIT) {
        mscclpp_dev_st_vec(to, value);
    } else {
        mscclpp_dev_st_words(to, value, (uint32_t)bytes_left);
    }
}

/*
 * Puts units `begin` to `end` - 1 of piece number `piece` into the slots of all peers, in whole batches of all threads.
 * `in` is the piece in this rank's operand, at a multiple of MSCCLPP_DEV_UNIT if there is a whole batch. `batch` is a
 * constant. Signals nothing. Returns the first unit that was not put, because fewer than a whole batch of all threads
 * is left.
 */
MSCCLPP_DEV uint32_t mscclpp_dev_put_send_batches(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args,
                                                  int const_ranks, int batch, const char *in, uint64_t piece,
                                                  uint32_t begin, uint32_t end)
{
    const uint32_t nranks = const_ranks != 0 ? (uint32_t)const_ranks : args->nranks;
    const uint32_t block_units = (uint32_t)batch * ctx->nthreads;
    mscclpp_dev_vec_t values[MSCCLPP_DEV_PUT_BATCH];
    uint32_t i;

    for (; begin + block_units <= end; begin += block_units) {
        const uint64_t own_offset = (uint64_t)mscclpp_dev_put_first_unit(ctx, batch, begin) * MSCCLPP_DEV_UNIT;

        mscclpp_dev_put_load(in + own_offset, batch, values);
        for (i = 1; i < nranks; ++i) {
            mscclpp_dev_put_store(
                mscclpp_dev_put_slot(ctx, args, mscclpp_dev_put_peer(args, nranks, i), args->rank, piece) + own_offset,
                batch, values);
        }
    }
    return begin;
}

/*
 * Puts piece number `piece`, which begins at unit `first_unit`, into its slot in the memory of each peer, and then
 * signals the peers that the piece has arrived. `piece_units` is the size of a full piece, in units. Called by all
 * threads. If one thread has failed, sets ctx->failed in all of them, and signals nothing.
 */
MSCCLPP_DEV void mscclpp_dev_put_send(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args, int const_ranks,
                                      bool is_aligned, int dtype, uint32_t piece_units, uint64_t first_unit,
                                      uint64_t piece)
{
    const uint32_t nranks = const_ranks != 0 ? (uint32_t)const_ranks : args->nranks;
    const uint32_t units = mscclpp_dev_put_piece_units(mscclpp_dev_units(args->bytes), first_unit, piece_units);
    const uint32_t whole_units =
        mscclpp_dev_put_piece_units(mscclpp_dev_put_whole_units(args, dtype), first_unit, piece_units);
    const char *in = (const char *)args->in + first_unit * MSCCLPP_DEV_UNIT;
    uint32_t unit, i;

    if (!ctx->failed) {
        unit = mscclpp_dev_put_send_batches(ctx, args, const_ranks, MSCCLPP_DEV_PUT_BATCH, in, piece, 0, whole_units);
        unit = mscclpp_dev_put_send_batches(ctx, args, const_ranks, MSCCLPP_DEV_PUT_BATCH / 2, in, piece, unit,
                                            whole_units);
        for (unit += ctx->tid; unit < units; unit += ctx->nthreads) {
            const mscclpp_dev_vec_t value = mscclpp_dev_put_ld(args, is_aligned, first_unit + unit);

            for (i = 1; i < nranks; ++i) {
                mscclpp_dev_st_vec(
                    mscclpp_dev_put_slot(ctx, args, mscclpp_dev_put_peer(args, nranks, i), args->rank, piece) +
                        (uint64_t)unit * MSCCLPP_DEV_UNIT,
                    value);
            }
        }
    }
    mscclpp_dev_put_signal(ctx, args, nranks, piece);
}

/*
 * Waits for piece number `piece` of every peer, combines these pieces with this rank's own one, which begins at unit
 * `first_unit`, and stores the result in the output. If a wait fails, the thread stores nothing. Works in place: all
 * threads have put the piece before, and a thread reads a unit before it overwrites it.
 */
MSCCLPP_DEV void mscclpp_dev_put_receive(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args, int const_ranks,
                                         bool is_aligned, bool hot, int dtype, int op, uint32_t piece_units,
                                         uint64_t first_unit, uint64_t piece)
{
    const uint32_t nranks = const_ranks != 0 ? (uint32_t)const_ranks : args->nranks;
    const int batch = const_ranks == 0 ? 0 : MSCCLPP_DEV_PUT_OPERANDS / (is_aligned ? 2 * const_ranks : const_ranks);
    const uint32_t units = mscclpp_dev_put_piece_units(mscclpp_dev_units(args->bytes), first_unit, piece_units);
    const uint32_t whole_units =
        const_ranks == 0
            ? 0
            : mscclpp_dev_put_piece_units(mscclpp_dev_put_whole_units(args, dtype), first_unit, piece_units);
    char *out = (char *)args->out + first_unit * MSCCLPP_DEV_UNIT;
    const char *from[MSCCLPP_DEV_CONST_RANKS_MAX];
    mscclpp_dev_acc_t acc;
    uint32_t unit = 0, rank;
    int i;

    if (!mscclpp_dev_put_await(ctx, args, nranks, !is_aligned, piece)) {
        return;
    }
    if (const_ranks != 0) {
        MSCCLPP_DEV_UNROLL
        for (i = 0; i < const_ranks; ++i) {
            from[i] = (uint32_t)i == args->rank ? (const char *)args->in + first_unit * MSCCLPP_DEV_UNIT
                                                : mscclpp_dev_put_slot(ctx, args, args->rank, (uint32_t)i, piece);
        }
        /* Whole batches, then batches of half the size; single units are left for the loop below. */
        unit = mscclpp_dev_put_combine_batches(ctx, from, out, const_ranks, batch, hot, dtype, op, unit, whole_units);
        unit = mscclpp_dev_put_combine_batches(ctx, from, out, const_ranks, (batch + 1) / 2, hot, dtype, op, unit,
                                               whole_units);
    }
    for (unit += ctx->tid; unit < units; unit += ctx->nthreads) {
        for (rank = 0; rank < nranks; ++rank) {
            const mscclpp_dev_vec_t value =
                rank == args->rank ? mscclpp_dev_put_ld(args, is_aligned, first_unit + unit)
                                   : mscclpp_dev_ld_vec(mscclpp_dev_put_slot(ctx, args, args->rank, rank, piece) +
                                                        (uint64_t)unit * MSCCLPP_DEV_UNIT);

            if (rank == 0) {
                mscclpp_dev_acc_set(&acc, dtype, value);
            } else {
                mscclpp_dev_acc_add(&acc, hot, dtype, op, value);
            }
        }
        mscclpp_dev_put_st(args, is_aligned, dtype, first_unit + unit, mscclpp_dev_acc_get(&acc, dtype));
    }
}

/*
 * Runs the whole operation. Each turn sends a piece and combines the one that was sent in the turn before.
 * `const_ranks` is the number of ranks as a constant, or 0 for any number. `is_aligned` and `hot` are constants, too.
 * After a failure the pieces are still counted, so that all ranks count in the same way, but no more of them are sent
 * or combined.
 */
MSCCLPP_DEV void mscclpp_dev_put_ranks(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args, int const_ranks,
                                       bool is_aligned, bool hot, int dtype, int op)
{
    const uint32_t piece_units = mscclpp_dev_put_full_piece_units(args, mscclpp_dev_units(args->bytes), ctx->nblocks);
    const uint64_t step = (uint64_t)ctx->nblocks * piece_units;
    const uint64_t count_before = mscclpp_dev_last_barrier(ctx, args);
    uint64_t count = count_before, first_unit = (uint64_t)ctx->block * piece_units;
    bool sends = first_unit < mscclpp_dev_units(args->bytes), receives = false;

    mscclpp_dev_enter(ctx, args);

    /* One turn more than there are pieces: the last turn has nothing to send. */
    while (sends || receives) {
        if (sends) {
            mscclpp_dev_put_send(ctx, args, const_ranks, is_aligned, dtype, piece_units, first_unit, count + 1);
        }
        if (receives) {
            mscclpp_dev_put_receive(ctx, args, const_ranks, is_aligned, hot, dtype, op, piece_units, first_unit - step,
                                    count);
        }
        receives = sends;
        count += sends;
        first_unit += step;
        sends = first_unit < mscclpp_dev_units(args->bytes);
    }
    mscclpp_dev_finish(ctx, args, mscclpp_dev_last_launch(ctx, args), mscclpp_dev_last_epoch(ctx, args), count_before,
                       count);
}

/* Runs the kernel. `hot` says that `dtype` and `op` are constants. */
MSCCLPP_DEV void mscclpp_dev_allreduce_oneshot_put(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args, bool hot,
                                                   int dtype, int op)
{
    /*
     * Only for 2 ranks the number is a constant. With more ranks, puts are less useful, because each rank sends its
     * whole operand to all others.
     */
    if (args->nranks == 2) {
        mscclpp_dev_put_ranks(ctx, args, 2, false, hot, dtype, op);
    } else {
        mscclpp_dev_put_ranks(ctx, args, 0, false, hot, dtype, op);
    }
}

#endif
