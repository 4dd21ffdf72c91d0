/*
 * Zero-copy all-reduce on mapped user buffers: each rank reads its shard of every rank's input, combines the shards,
 * and writes the result into every rank's output. Reads and writes share the outgoing links, each of which carries 2 (n
 * - 1) / n times the message.
 *
 * A link carries more if all its traffic goes one way. So the split variant first reads its whole shard and keeps the
 * result in its own output, and then writes the result to the peers. In smaller messages, the second pass costs more
 * than this gains.
 *
 * The operation works in place. One thread of the whole job reads all operands of a unit and then writes its result,
 * and no other thread touches the unit. This also holds for the split variant, because no other rank reads a rank's own
 * shard of its own buffers.
 */
#ifndef MSCCLPP_DEVICE_KERN_ALLREDUCE_ALLREDUCE_ZEROCOPY_H
#define MSCCLPP_DEVICE_KERN_ALLREDUCE_ALLREDUCE_ZEROCOPY_H

#include "device/lib/barrier.h"
#include "device/types/hot.h"
#include "device/lib/reduce.h"

/*
 * The number of units that a thread loads before it uses them. OPERANDS: units of all ranks together, if the number of
 * ranks is a constant. ROW: units of each rank, if it is not.
 */
#define MSCCLPP_DEV_ZEROCOPY_OPERANDS 8
#define MSCCLPP_DEV_ZEROCOPY_ROW 4

/* Returns true if every buffer starts at a multiple of 16 bytes. Only then are whole units moved at once. */
MSCCLPP_DEV bool mscclpp_dev_zerocopy_is_aligned(const mscclpp_dev_zerocopy_args_t *args)
{
    uintptr_t all_addresses = 0; /* combined by OR */
    uint32_t rank;

    for (rank = 0; rank < args->common.nranks; ++rank) {
        all_addresses |= (uintptr_t)args->peer_in[rank] | (uintptr_t)args->peer_out[rank];
    }
    return all_addresses % MSCCLPP_DEV_UNIT == 0;
}

/*
 * Loads `batch` whole, aligned units of one buffer, `stride` units apart, beginning with unit `index`. `batch` is a
 * constant, so that `values` stays in registers.
 */
MSCCLPP_DEV void mscclpp_dev_zerocopy_load_row(const char *from, int batch, uint64_t index, uint64_t stride,
                                               mscclpp_dev_vec_t *values)
{
    int row;

    MSCCLPP_DEV_UNROLL
    for (row = 0; row < batch; ++row) {
        values[row] = mscclpp_dev_ld_vec(from + (index + (uint64_t)row * stride) * MSCCLPP_DEV_UNIT);
    }
}

/* Stores the units that mscclpp_dev_zerocopy_load_row loads. `batch` is a constant here, too. */
MSCCLPP_DEV void mscclpp_dev_zerocopy_store_row(char *to, int batch, uint64_t index, uint64_t stride,
                                                const mscclpp_dev_vec_t *values)
{
    int row;

    MSCCLPP_DEV_UNROLL
    for (row = 0; row < batch; ++row) {
        mscclpp_dev_st_vec(to + (index + (uint64_t)row * stride) * MSCCLPP_DEV_UNIT, values[row]);
    }
}

/* A thread's operands: `batch` whole, aligned units of each rank. */
typedef struct {
    mscclpp_dev_vec_t rank_values[MSCCLPP_DEV_CONST_RANKS_MAX][MSCCLPP_DEV_ZEROCOPY_ROW];
} mscclpp_dev_zerocopy_batch_t;

/*
 * Loads a thread's operands of all ranks. The number of ranks `const_ranks` is a constant, so that all loads are in
 * progress before the first operand is used.
 */
MSCCLPP_DEV void mscclpp_dev_zerocopy_load(const mscclpp_dev_zerocopy_args_t *args, int const_ranks, int batch,
                                           uint64_t index, uint64_t stride, mscclpp_dev_zerocopy_batch_t *operands)
{
    int rank;

    MSCCLPP_DEV_UNROLL
    for (rank = 0; rank < const_ranks; ++rank) {
        mscclpp_dev_zerocopy_load_row(args->peer_in[rank], batch, index, stride, operands->rank_values[rank]);
    }
}

/*
 * Combines a thread's operands in rank order, and overwrites the operands of rank 0 with the results. Stores the
 * results in the outputs of all ranks or, with `is_split`, only in this rank's output. `index` is the thread's first
 * unit, and `stride` is the distance between its units.
 */
MSCCLPP_DEV void mscclpp_dev_zerocopy_combine(const mscclpp_dev_zerocopy_args_t *args, int const_ranks, int batch,
                                              bool is_split, bool hot, int dtype, int op, uint64_t index,
                                              uint64_t stride, mscclpp_dev_zerocopy_batch_t *operands)
{
    int rank, row;

    MSCCLPP_DEV_UNROLL
    for (row = 0; row < batch; ++row) {
        mscclpp_dev_acc_t acc;

        mscclpp_dev_acc_set(&acc, dtype, operands->rank_values[0][row]);
        MSCCLPP_DEV_UNROLL
        for (rank = 1; rank < const_ranks; ++rank) {
            mscclpp_dev_acc_add(&acc, hot, dtype, op, operands->rank_values[rank][row]);
        }
        operands->rank_values[0][row] = mscclpp_dev_acc_get(&acc, dtype);
    }
    MSCCLPP_DEV_UNROLL
    for (rank = 0; rank < (is_split ? 1 : const_ranks); ++rank) {
        char *out = is_split ? (char *)args->common.out : args->peer_out[rank];

        mscclpp_dev_zerocopy_store_row(out, batch, index, stride, operands->rank_values[0]);
    }
}

/*
 * Loads and combines a thread's operands for any number of ranks. Stores the results in the outputs of all ranks or,
 * with `is_split`, only in this rank's output. Loads the next rank's units while it combines the current rank's.
 */
MSCCLPP_DEV void mscclpp_dev_zerocopy_combine_any(const mscclpp_dev_zerocopy_args_t *args, int batch, bool is_split,
                                                  bool hot, int dtype, int op, uint64_t index, uint64_t stride)
{
    const uint32_t nranks = args->common.nranks;
    mscclpp_dev_acc_t acc[MSCCLPP_DEV_ZEROCOPY_ROW];
    mscclpp_dev_vec_t values[MSCCLPP_DEV_ZEROCOPY_ROW], next[MSCCLPP_DEV_ZEROCOPY_ROW];
    uint32_t distance, rank;
    int row;

    mscclpp_dev_zerocopy_load_row(args->peer_in[0], batch, index, stride, values);
    /* `next` is not used if there is only one rank. */
    mscclpp_dev_zerocopy_load_row(args->peer_in[nranks > 1 ? 1 : 0], batch, index, stride, next);
    MSCCLPP_DEV_UNROLL
    for (row = 0; row < batch; ++row) {
        mscclpp_dev_acc_set(&acc[row], dtype, values[row]);
    }
    for (rank = 1; rank < nranks; ++rank) {
        MSCCLPP_DEV_UNROLL
        for (row = 0; row < batch; ++row) {
            values[row] = next[row];
        }
        if (rank + 1 < nranks) {
            mscclpp_dev_zerocopy_load_row(args->peer_in[rank + 1], batch, index, stride, next);
        }
        MSCCLPP_DEV_UNROLL
        for (row = 0; row < batch; ++row) {
            mscclpp_dev_acc_add(&acc[row], hot, dtype, op, values[row]);
        }
    }
    MSCCLPP_DEV_UNROLL
    for (row = 0; row < batch; ++row) {
        values[row] = mscclpp_dev_acc_get(&acc[row], dtype);
    }
    for (distance = 0; distance < (is_split ? 1 : nranks); ++distance) {
        rank = args->common.rank + distance < nranks ? args->common.rank + distance
                                                     : args->common.rank + distance - nranks;
        mscclpp_dev_zerocopy_store_row(is_split ? (char *)args->common.out : args->peer_out[rank], batch, index, stride,
                                       values);
    }
}

/*
 * Writes `batch` whole, aligned units of this rank's output to the outputs of all peers, in the split variant.
 * `const_ranks` is the number of ranks as a constant, or 0 for any number.
 */
MSCCLPP_DEV void mscclpp_dev_zerocopy_write_out(const mscclpp_dev_zerocopy_args_t *args, int const_ranks, int batch,
                                                uint64_t index, uint64_t stride)
{
    const uint32_t nranks = const_ranks != 0 ? (uint32_t)const_ranks : args->common.nranks;
    mscclpp_dev_vec_t values[MSCCLPP_DEV_ZEROCOPY_OPERANDS];
    uint32_t distance;

    mscclpp_dev_zerocopy_load_row((const char *)args->common.out, batch, index, stride, values);
    MSCCLPP_DEV_UNROLL
    for (distance = 1; distance < nranks; ++distance) {
        const uint32_t peer = args->common.rank + distance;

        mscclpp_dev_zerocopy_store_row(args->peer_out[peer < nranks ? peer : peer - nranks], batch, index, stride,
                                       values);
    }
}

/*
 * Combines unit number `index` of all ranks, and writes the result to all ranks. The unit may have any alignment or be
 * cut off.
 */
MSCCLPP_DEV void mscclpp_dev_zerocopy_unit(const mscclpp_dev_zerocopy_args_t *args, bool hot, int dtype, int op,
                                           uint32_t mask, uint64_t index)
{
    const uint32_t nranks = args->common.nranks;
    const uint64_t bytes = args->common.bytes;
    mscclpp_dev_acc_t acc;
    mscclpp_dev_vec_t value;
    uint32_t distance, rank;

    mscclpp_dev_acc_set(&acc, dtype, mscclpp_dev_ld_unit(args->peer_in[0], index, bytes));
    for (rank = 1; rank < nranks; ++rank) {
        mscclpp_dev_acc_add(&acc, hot, dtype, op, mscclpp_dev_ld_unit(args->peer_in[rank], index, bytes));
    }
    value = mscclpp_dev_acc_get(&acc, dtype);
    for (distance = 0; distance < nranks; ++distance) {
        rank = args->common.rank + distance < nranks ? args->common.rank + distance
                                                     : args->common.rank + distance - nranks;
        mscclpp_dev_st_unit(args->peer_out[rank], index, bytes, value, mask);
    }
}

/*
 * Combines a thread's units from `unit` to `end_unit` - 1, which are `threads` apart, in whole batches. Returns the
 * first of the thread's units that was not handled, because less than a batch is left.
 */
MSCCLPP_DEV uint64_t mscclpp_dev_zerocopy_batches(const mscclpp_dev_zerocopy_args_t *args, int const_ranks, int batch,
                                                  bool is_split, bool hot, int dtype, int op, uint64_t unit,
                                                  uint64_t end_unit, uint64_t threads)
{
    const uint64_t step = (uint64_t)batch * threads;
    const uint64_t last_distance = step - threads; /* from a batch's first unit to its last one */
    mscclpp_dev_zerocopy_batch_t operands;

    for (; unit + last_distance < end_unit; unit += step) {
        if (const_ranks == 0) {
            mscclpp_dev_zerocopy_combine_any(args, batch, is_split, hot, dtype, op, unit, threads);
        } else {
            mscclpp_dev_zerocopy_load(args, const_ranks, batch, unit, threads, &operands);
            mscclpp_dev_zerocopy_combine(args, const_ranks, batch, is_split, hot, dtype, op, unit, threads, &operands);
        }
    }
    return unit;
}

/*
 * Runs the whole operation, between two barriers. After the first barrier, all ranks have reached the operation in
 * their streams, so all operands are in place. After the second barrier, all results are in place, and no peer accesses
 * this rank's buffers any more. `const_ranks` is the number of ranks as a constant, or 0 for any number. If the first
 * barrier fails, no output is written; if the second one fails, the output may be incomplete.
 */
MSCCLPP_DEV void mscclpp_dev_zerocopy_ranks(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_zerocopy_args_t *args,
                                            int const_ranks, bool is_split, bool hot, int dtype, int op)
{
    const mscclpp_dev_args_t *common = &args->common;
    /* If the types are looked up at run time, the look-up takes the registers that a row would need. */
    const int batch = const_ranks != 0            ? MSCCLPP_DEV_ZEROCOPY_OPERANDS / const_ranks
                      : hot || !MSCCLPP_DEV_FOLDS ? MSCCLPP_DEV_ZEROCOPY_ROW
                                                  : 1;
    const uint64_t threads = (uint64_t)ctx->nblocks * ctx->nthreads;
    const uint64_t thread = (uint64_t)ctx->block * ctx->nthreads + ctx->tid;
    const uint64_t units = mscclpp_dev_units(common->bytes), whole_units = common->bytes / MSCCLPP_DEV_UNIT;
    const uint64_t shard = (units + common->nranks - 1) / common->nranks;
    const uint64_t first_unit = common->rank * shard;
    const uint64_t end_unit = first_unit + shard < units ? first_unit + shard : units,
                   whole_end_unit = end_unit < whole_units ? end_unit : whole_units;
    const uint32_t mask = mscclpp_dev_unit_mask(dtype);
    const bool moves_whole = mask == MSCCLPP_DEV_WHOLE_UNIT && mscclpp_dev_zerocopy_is_aligned(args);
    const uint64_t launches = mscclpp_dev_last_launch(ctx, common);
    const uint32_t epoch = mscclpp_dev_last_epoch(ctx, common);
    const uint64_t barriers = mscclpp_dev_last_barrier(ctx, common) + 2;
    uint64_t unit = first_unit + thread;

    mscclpp_dev_enter(ctx, common);
    mscclpp_dev_barrier(ctx, common, barriers - 1);
    if (!ctx->failed) {
        if (moves_whole) {
            unit = mscclpp_dev_zerocopy_batches(args, const_ranks, batch, is_split, hot, dtype, op, unit,
                                                whole_end_unit, threads);
        }
        /* In both variants, a thread writes the units that remain after its last batch to all ranks at once. */
        for (; unit < end_unit; unit += threads) {
            mscclpp_dev_zerocopy_unit(args, hot, dtype, op, mask, unit);
        }
        /* A unit is handled by the same thread in both passes, so no barrier is needed between them. */
        if (moves_whole && is_split) {
            for (unit = first_unit + thread; unit + (uint64_t)(batch - 1) * threads < whole_end_unit;
                 unit += (uint64_t)batch * threads) {
                mscclpp_dev_zerocopy_write_out(args, const_ranks, batch, unit, threads);
            }
        }
    }
    mscclpp_dev_barrier(ctx, common, barriers);
    mscclpp_dev_finish(ctx, common, launches, epoch, barriers - 2, barriers);
}

/* Runs the kernel. `hot` says that `dtype` and `op` are constants. */
MSCCLPP_DEV void mscclpp_dev_allreduce_zerocopy(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_zerocopy_args_t *args,
                                                bool is_split, bool hot, int dtype, int op)
{
#define MSCCLPP_DEV_ZEROCOPY_RANKS(n_)                                                                                 \
    case n_:                                                                                                           \
        mscclpp_dev_zerocopy_ranks(ctx, args, n_, is_split, hot, dtype, op);                                           \
        break;
    switch (args->common.nranks) {
        MSCCLPP_DEV_RANKS(MSCCLPP_DEV_ZEROCOPY_RANKS)
    default:
        mscclpp_dev_zerocopy_ranks(ctx, args, 0, is_split, hot, dtype, op);
        break;
    }
#undef MSCCLPP_DEV_ZEROCOPY_RANKS
}

#endif
