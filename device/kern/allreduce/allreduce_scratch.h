/*
 * All-reduce through the team's scratch, for user buffers that peers cannot map. It runs the zero-copy algorithm on
 * copies, tile by tile. Each block has its own part of the bulk area and meets only the blocks of the same number on
 * other ranks, so tiles of different blocks overlap in time.
 *
 * One set of tiles is enough. A rank passes a tile's second barrier only after all ranks have read its operands. It
 * enters the next tile's first barrier only after it has read its results.
 */
#ifndef MSCCLPP_DEVICE_KERN_ALLREDUCE_ALLREDUCE_SCRATCH_H
#define MSCCLPP_DEVICE_KERN_ALLREDUCE_ALLREDUCE_SCRATCH_H

#include "device/lib/barrier.h"
#include "device/lib/packet.h"
#include "device/lib/reduce.h"
#include "device/lib/row.h"
#include "device/types/hot.h"

/*
 * Returns the units of a tile in each shard. A tile is what a block handles between two barriers. A block's part of the
 * bulk area holds a tile of operands and a tile of results for all n shards.
 */
MSCCLPP_DEV uint64_t mscclpp_dev_scratch_tile_units(const mscclpp_dev_args_t *args, uint32_t nblocks)
{
    const uint64_t tile_units = args->bulk_size / (2 * (uint64_t)MSCCLPP_DEV_UNIT * nblocks * args->nranks);

    return MSCCLPP_DEV_ROWS && tile_units > MSCCLPP_DEV_ROW_TILE ? MSCCLPP_DEV_ROW_TILE : tile_units;
}

/*
 * Returns the start of shard `shard` of a block's tile in a rank's scratch. `tile_units` is the units of a full
 * tile, as mscclpp_dev_scratch_tile_units says. `phase` is MSCCLPP_DEV_PHASE_OPERANDS or _RESULTS.
 */
MSCCLPP_DEV char *mscclpp_dev_scratch_row(const mscclpp_dev_args_t *args, uint32_t rank, uint32_t block,
                                          uint64_t tile_units, int phase, uint32_t shard)
{
    const uint64_t row = ((uint64_t)block * 2 + (uint64_t)phase) * args->nranks + shard;

    return args->scratch[rank] + args->bulk_offset + row * tile_units * MSCCLPP_DEV_UNIT;
}

/* Returns rank `rank`'s operand for one unit of the tile, in this rank's shard. */
MSCCLPP_DEV mscclpp_dev_vec_t mscclpp_dev_scratch_operand(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args,
                                                          uint32_t rank, uint64_t tile_units, uint64_t unit)
{
    return mscclpp_dev_ld_vec(
        mscclpp_dev_scratch_row(args, rank, ctx->block, tile_units, MSCCLPP_DEV_PHASE_OPERANDS, args->rank) +
        unit * MSCCLPP_DEV_UNIT);
}

/*
 * Combines this rank's shard of a tile, `part_units` units, from the scratch of all ranks, and stores the result in the
 * scratch of all ranks. `const_ranks` is the number of ranks as a constant, or 0 for any number.
 */
MSCCLPP_DEV void mscclpp_dev_scratch_combine(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args,
                                             int const_ranks, bool hot, int dtype, int op, uint64_t tile_units,
                                             uint64_t part_units)
{
    const uint32_t nranks = args->nranks;
    mscclpp_dev_acc_t acc;
    mscclpp_dev_vec_t value;
    uint64_t unit;
    uint32_t rank;
    int i;

    for (unit = ctx->tid; unit < part_units; unit += ctx->nthreads) {
        if (const_ranks != 0) {
            mscclpp_dev_vec_t operands[MSCCLPP_DEV_CONST_RANKS_MAX];

            MSCCLPP_DEV_UNROLL
            for (i = 0; i < const_ranks; ++i) {
                operands[i] = mscclpp_dev_scratch_operand(ctx, args, (uint32_t)i, tile_units, unit);
            }
            mscclpp_dev_acc_set(&acc, dtype, operands[0]);
            MSCCLPP_DEV_UNROLL
            for (i = 1; i < const_ranks; ++i) {
                mscclpp_dev_acc_add(&acc, hot, dtype, op, operands[i]);
            }
        } else {
            mscclpp_dev_acc_set(&acc, dtype, mscclpp_dev_scratch_operand(ctx, args, 0, tile_units, unit));
            for (rank = 1; rank < nranks; ++rank) {
                mscclpp_dev_acc_add(&acc, hot, dtype, op,
                                    mscclpp_dev_scratch_operand(ctx, args, rank, tile_units, unit));
            }
        }
        value = mscclpp_dev_acc_get(&acc, dtype);
        for (rank = 0; rank < nranks; ++rank) {
            const uint32_t peer = args->rank + rank < nranks ? args->rank + rank : args->rank + rank - nranks;

            mscclpp_dev_st_vec(
                mscclpp_dev_scratch_row(args, peer, ctx->block, tile_units, MSCCLPP_DEV_PHASE_RESULTS, args->rank) +
                    unit * MSCCLPP_DEV_UNIT,
                value);
        }
    }
}

/*
 * Returns true if this rank's own shard can stay in the user's buffers instead of its own scratch, where nobody else
 * would read it. All `part_units` units of the shard, from unit `index` on, must be whole, and the rows must be
 * combined by mscclpp_dev_row_combine, the only code that reads any aligned memory.
 */
MSCCLPP_DEV bool mscclpp_dev_scratch_is_direct(const mscclpp_dev_args_t *args, int dtype, int op, uint64_t index,
                                               uint64_t part_units)
{
    return MSCCLPP_DEV_ROWS && ((uintptr_t)args->in | (uintptr_t)args->out) % MSCCLPP_DEV_UNIT == 0 &&
           (index + part_units) * MSCCLPP_DEV_UNIT <= args->bytes && mscclpp_dev_row_is_known(dtype, op);
}

/* In place of a unit of the user's buffers: the shard goes through the scratch. */
#define MSCCLPP_DEV_SCRATCH_NO_UNIT (~(uint64_t)0)

/*
 * Combines this rank's shard like mscclpp_dev_scratch_combine, but row by row. Returns false, with nothing done, if
 * this would not be faster or is not supported; the caller then uses the other function. `own_unit` is the shard's
 * first unit in the user's buffers if this rank's operand and result stay there, or MSCCLPP_DEV_SCRATCH_NO_UNIT.
 */
MSCCLPP_DEV bool mscclpp_dev_scratch_combine_rows(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args,
                                                  int dtype, int op, uint64_t tile_units, uint64_t part_units,
                                                  uint64_t own_unit)
{
#if MSCCLPP_DEV_ROWS
    const char *in[MSCCLPP_DEV_MAX_RANKS];
    char *out[MSCCLPP_DEV_MAX_RANKS];
    uint32_t rank;

    for (rank = 0; rank < args->nranks; ++rank) {
        in[rank] = mscclpp_dev_scratch_row(args, rank, ctx->block, tile_units, MSCCLPP_DEV_PHASE_OPERANDS, args->rank);
        out[rank] = mscclpp_dev_scratch_row(args, rank, ctx->block, tile_units, MSCCLPP_DEV_PHASE_RESULTS, args->rank);
    }
    if (own_unit != MSCCLPP_DEV_SCRATCH_NO_UNIT) {
        in[args->rank] = (const char *)args->in + own_unit * MSCCLPP_DEV_UNIT;
        out[args->rank] = (char *)args->out + own_unit * MSCCLPP_DEV_UNIT;
    }
    return mscclpp_dev_row_combine(ctx, dtype, op, args->nranks, in, out, part_units);
#else
    (void)ctx;
    (void)args;
    (void)dtype;
    (void)op;
    (void)tile_units;
    (void)part_units;
    (void)own_unit;
    return false;
#endif
}

/*
 * Runs the kernel, tile by tile: stores this rank's operands in its scratch, passes a barrier, combines its shard,
 * passes a barrier, and copies the results to the output. For 2, 4 and 8 ranks the number of ranks is a constant.
 * `hot`: `dtype` and `op` are constants. After a failed barrier the kernel ends at once, and the output is incomplete.
 */
MSCCLPP_DEV void mscclpp_dev_allreduce_scratch(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args, bool hot,
                                               int dtype, int op)
{
    const uint64_t units = mscclpp_dev_units(args->bytes);
    const uint64_t shard_units = (units + args->nranks - 1) / args->nranks;
    const uint64_t tile_units = mscclpp_dev_scratch_tile_units(args, ctx->nblocks);
    const uint32_t mask = mscclpp_dev_unit_mask(dtype);
    const uint64_t launches = mscclpp_dev_last_launch(ctx, args);
    const uint32_t epoch = mscclpp_dev_last_epoch(ctx, args);
    const uint64_t barriers_before = mscclpp_dev_last_barrier(ctx, args);
    uint64_t barriers = barriers_before;
    uint64_t base;
    uint32_t i;

    mscclpp_dev_enter(ctx, args);
    for (base = ctx->block * tile_units; base < shard_units; base += ctx->nblocks * tile_units) {
        const uint64_t part_units = shard_units - base < tile_units ? shard_units - base : tile_units;
        const uint64_t own_unit = args->rank * shard_units + base;
        const bool is_direct = mscclpp_dev_scratch_is_direct(args, dtype, op, own_unit, part_units);

        /* After a failure the scratch is not overwritten, because a late rank may still read it. */
        for (i = 0; i < args->nranks && !ctx->failed; ++i) {
            if (is_direct && i == args->rank) {
                continue;
            }
            mscclpp_dev_row_load(
                ctx, mscclpp_dev_scratch_row(args, args->rank, ctx->block, tile_units, MSCCLPP_DEV_PHASE_OPERANDS, i),
                args->in, i * shard_units + base, part_units, args->bytes);
        }
        mscclpp_dev_barrier(ctx, args, ++barriers);
        if (!ctx->failed && !mscclpp_dev_scratch_combine_rows(ctx, args, dtype, op, tile_units, part_units,
                                                              is_direct ? own_unit : MSCCLPP_DEV_SCRATCH_NO_UNIT)) {
            switch (args->nranks) {
            case 2:
                mscclpp_dev_scratch_combine(ctx, args, 2, hot, dtype, op, tile_units, part_units);
                break;
            case 4:
                mscclpp_dev_scratch_combine(ctx, args, 4, hot, dtype, op, tile_units, part_units);
                break;
            case 8:
                mscclpp_dev_scratch_combine(ctx, args, 8, hot, dtype, op, tile_units, part_units);
                break;
            default:
                mscclpp_dev_scratch_combine(ctx, args, 0, hot, dtype, op, tile_units, part_units);
                break;
            }
        }
        mscclpp_dev_barrier(ctx, args, ++barriers);
        if (ctx->failed) {
            break;
        }
        for (i = 0; i < args->nranks; ++i) {
            if (is_direct && i == args->rank) {
                continue;
            }
            mscclpp_dev_row_store(
                ctx, args->out, i * shard_units + base, part_units, args->bytes,
                mscclpp_dev_scratch_row(args, args->rank, ctx->block, tile_units, MSCCLPP_DEV_PHASE_RESULTS, i), mask);
        }
    }
    mscclpp_dev_finish(ctx, args, launches, epoch, barriers_before, barriers);
}

#endif
