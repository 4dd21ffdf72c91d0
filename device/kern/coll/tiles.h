/*
 * Collectives through the bulk area of the team's scratch, for user buffers that peers cannot map. Tile by tile, each
 * rank stores its block for a peer into the peer's bulk area. The peer moves the block to its place or combines it with
 * others.
 *
 * Each block of the grid has two tiles per sender, used in turn. A rank stores turn t + 1 before it reads turn t, so
 * that the stores travel while the rank reads. One barrier per turn is enough: a rank stores turn t + 2 after the
 * barrier of turn t + 1, and every peer enters that barrier only after it has read turn t. After the barrier at the
 * beginning, no rank still uses the bulk area for an earlier operation.
 */
#ifndef MSCCLPP_DEVICE_KERN_COLL_TILES_H
#define MSCCLPP_DEVICE_KERN_COLL_TILES_H

#include "device/kern/coll/blocks.h"
#include "device/kern/coll/direct_rows.h"
#include "device/lib/put.h"
#include "device/lib/reduce.h"

/* A turn: the part of each block of data that moves, and the tiles through which it moves. */
typedef struct {
    const mscclpp_dev_coll_args_t *coll;
    const mscclpp_dev_blocks_args_t *blocks; /* NULL: all blocks have the same size */
    uint64_t tile_bytes;
    uint64_t begin;             /* offset of this turn's part in each block of data, bytes */
    uint64_t max_skipped_bytes; /* blocks of at most this size do not go through tiles */
    uint64_t number;            /* number of this turn, which selects its tiles; the next turn has the next number */
    bool in_slots;              /* the tiles are the slots of lib/put.h, and `number` is the piece */
} mscclpp_dev_coll_turn_t;

/* Returns this block's next turn after `turn`. */
MSCCLPP_DEV mscclpp_dev_coll_turn_t mscclpp_dev_coll_next_turn(const mscclpp_dev_ctx_t *ctx,
                                                               const mscclpp_dev_coll_turn_t *turn)
{
    mscclpp_dev_coll_turn_t next = *turn;

    next.begin += ctx->nblocks * turn->tile_bytes;
    ++next.number;
    return next;
}

/*
 * Returns the part of a block that this turn moves. The part has 0 bytes if the block ends before the turn's tile, or
 * if the block does not go through tiles.
 */
MSCCLPP_DEV mscclpp_dev_block_t mscclpp_dev_coll_turn_part(const mscclpp_dev_coll_turn_t *turn,
                                                           mscclpp_dev_block_t block)
{
    const uint64_t bytes_left =
        block.bytes > turn->begin && block.bytes > turn->max_skipped_bytes ? block.bytes - turn->begin : 0;

    block.offset += turn->begin;
    block.bytes = bytes_left < turn->tile_bytes ? bytes_left : turn->tile_bytes;
    return block;
}

/* Returns where the tile that the sender stores in this turn lies in the receiver's scratch, at this rank's address. */
MSCCLPP_DEV char *mscclpp_dev_coll_tile(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_coll_turn_t *turn,
                                        uint32_t receiver, uint32_t sender)
{
    const mscclpp_dev_args_t *args = &turn->coll->common;
    const uint64_t number = ((uint64_t)ctx->block * 2 + turn->number % 2) * args->nranks + sender;

    if (turn->in_slots) {
        return mscclpp_dev_put_slot(ctx, args, receiver, sender, turn->number);
    }
    return args->scratch[receiver] + args->bulk_offset + number * turn->tile_bytes;
}

/*
 * Copies to a tile or from one. Called by all threads of the block, which must meet before they use the copied bytes,
 * because any of them may have copied any byte.
 */
MSCCLPP_DEV void mscclpp_dev_coll_copy_tile(const mscclpp_dev_ctx_t *ctx, char *to, const char *from, uint64_t bytes)
{
    /* By rows, the twin copies any alignment at full speed. */
    if (((uintptr_t)to | (uintptr_t)from) % MSCCLPP_DEV_UNIT == 0 ||
        (MSCCLPP_DEV_ROWS && bytes >= MSCCLPP_DEV_DIRECT_ROWS_MIN)) {
        mscclpp_dev_coll_copy(to, from, bytes, ctx->tid, ctx->nthreads);
    } else {
        mscclpp_dev_coll_copy_shifted(to, from, bytes, ctx->tid, ctx->nthreads);
    }
}

/*
 * Stores the turn's part of this rank's blocks into its peers' tiles. The peers may read the tiles after the next
 * barrier or signal. Called by all threads of the block.
 */
MSCCLPP_DEV void mscclpp_dev_coll_give(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_coll_turn_t *turn)
{
    const mscclpp_dev_args_t *args = &turn->coll->common;
    uint32_t i;

    for (i = 1; i < args->nranks; ++i) {
        const uint32_t peer = mscclpp_dev_coll_next(args, i);
        const mscclpp_dev_block_t part =
            mscclpp_dev_coll_turn_part(turn, mscclpp_dev_coll_send_block(turn->coll, turn->blocks, peer));

        mscclpp_dev_coll_copy_tile(ctx, mscclpp_dev_coll_tile(ctx, turn, peer, args->rank),
                                   (const char *)args->in + part.offset, part.bytes);
    }
}

/*
 * Moves the data that the peers have stored in this rank's tiles to their places in the output. This rank's own
 * arguments give the size of each peer's data.
 */
MSCCLPP_DEV void mscclpp_dev_coll_take_moved(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_coll_turn_t *turn)
{
    const mscclpp_dev_args_t *args = &turn->coll->common;
    uint32_t i;

    for (i = 1; i < args->nranks; ++i) {
        const uint32_t peer = mscclpp_dev_coll_previous(args, i);
        const mscclpp_dev_block_t part =
            mscclpp_dev_coll_turn_part(turn, mscclpp_dev_coll_recv_block(turn->coll, turn->blocks, peer));

        mscclpp_dev_coll_copy_tile(ctx, (char *)args->out + part.offset,
                                   mscclpp_dev_coll_tile(ctx, turn, args->rank, peer), part.bytes);
    }
}

/*
 * Returns the address of the operand of `rank` for the turn's part of the result. This rank's operand is in the input
 * (`own_block`). The other operands are in this rank's tiles.
 */
MSCCLPP_DEV const char *mscclpp_dev_coll_operand(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_coll_turn_t *turn,
                                                 const mscclpp_dev_block_t *own_block, uint32_t rank)
{
    const mscclpp_dev_args_t *args = &turn->coll->common;

    return rank == args->rank ? (const char *)args->in + own_block->offset
                              : mscclpp_dev_coll_tile(ctx, turn, args->rank, rank);
}

#if MSCCLPP_DEV_ROWS

/*
 * Combines a large part of the result by rows and stores it, with the same result as unit by unit. The arguments are
 * those of mscclpp_dev_coll_take_combined.
 */
MSCCLPP_DEV void mscclpp_dev_coll_take_rows(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_coll_turn_t *turn,
                                            const mscclpp_dev_block_t *own_block, mscclpp_dev_block_t part,
                                            uint32_t ranks_end, int dtype, int op)
{
    mscclpp_dev_direct_args_t operands;
    uint32_t rank;

    operands.mode = MSCCLPP_DEV_DIRECT_REDUCE;
    operands.common.nranks = ranks_end;
    operands.common.bytes = part.bytes;
    operands.to[0] = (char *)turn->coll->common.out + part.offset;
    for (rank = 0; rank < ranks_end; ++rank) {
        operands.from[rank] = mscclpp_dev_coll_operand(ctx, turn, own_block, rank);
    }
    mscclpp_dev_rows_combine(&operands, dtype, op, ctx->tid, ctx->nthreads);
}

#endif

/*
 * Combines whole units in batches of `batch` units, as mscclpp_dev_coll_take_combined does. Combines nothing if this
 * rank's operand or the result does not begin at a multiple of a unit, or if elements contain padding. Returns the
 * first unit that is left for this thread. `batch` and `hot` are constants; `hot` true: `dtype` and `op` are constants
 * as well.
 */
MSCCLPP_DEV uint64_t mscclpp_dev_coll_take_batches(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_coll_turn_t *turn,
                                                   const mscclpp_dev_block_t *own_block, mscclpp_dev_block_t part,
                                                   uint32_t ranks_end, int batch, bool hot, int dtype, int op)
{
    const mscclpp_dev_args_t *args = &turn->coll->common;
    char *to = (char *)args->out + part.offset;
    const char *own_operand = (const char *)args->in + own_block->offset;
    const bool is_aligned = ((uintptr_t)to | (uintptr_t)own_operand) % MSCCLPP_DEV_UNIT == 0; /* and so are tiles */
    const uint64_t step = ctx->nthreads;
    const uint64_t whole_units = is_aligned && ranks_end != 0 && mscclpp_dev_unit_mask(dtype) == MSCCLPP_DEV_WHOLE_UNIT
                                     ? part.bytes / MSCCLPP_DEV_UNIT
                                     : 0;
    mscclpp_dev_acc_t acc[MSCCLPP_DEV_COLL_BATCH];
    mscclpp_dev_vec_t values[MSCCLPP_DEV_COLL_BATCH];
    uint64_t unit;
    uint32_t rank;
    int j;

    for (unit = ctx->tid; unit + (uint64_t)(batch - 1) * step < whole_units; unit += (uint64_t)batch * step) {
        for (rank = 0; rank < ranks_end; ++rank) {
            const char *from = mscclpp_dev_coll_operand(ctx, turn, own_block, rank);

            MSCCLPP_DEV_UNROLL
            for (j = 0; j < batch; ++j) {
                values[j] = mscclpp_dev_ld_vec(from + (unit + (uint64_t)j * step) * MSCCLPP_DEV_UNIT);
            }
            MSCCLPP_DEV_UNROLL
            for (j = 0; j < batch; ++j) {
                if (rank == 0) {
                    mscclpp_dev_acc_set(&acc[j], dtype, values[j]);
                } else {
                    mscclpp_dev_acc_add(&acc[j], hot, dtype, op, values[j]);
                }
            }
        }
        MSCCLPP_DEV_UNROLL
        for (j = 0; j < batch; ++j) {
            mscclpp_dev_st_vec(to + (unit + (uint64_t)j * step) * MSCCLPP_DEV_UNIT,
                               mscclpp_dev_acc_get(&acc[j], dtype));
        }
    }
    return unit;
}

/*
 * Combines units of two operands of any alignment in batches, as mscclpp_dev_coll_take_combined does. `unit` is this
 * thread's first unit. Returns the first unit that is left for this thread. `hot` is a constant; true: `dtype` and `op`
 * are constants as well.
 */
MSCCLPP_DEV uint64_t mscclpp_dev_coll_take_unaligned(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_coll_turn_t *turn,
                                                     const mscclpp_dev_block_t *own_block, mscclpp_dev_block_t part,
                                                     bool hot, int dtype, int op, uint64_t unit)
{
    char *to = (char *)turn->coll->common.out + part.offset;
    const char *from[2] = {mscclpp_dev_coll_operand(ctx, turn, own_block, 0),
                           mscclpp_dev_coll_operand(ctx, turn, own_block, 1)};
    const uint64_t whole_units = part.bytes / MSCCLPP_DEV_UNIT, step = ctx->nthreads;
    mscclpp_dev_vec_t values[2][MSCCLPP_DEV_COLL_BATCH_UNALIGNED];
    mscclpp_dev_acc_t acc;
    int rank, j;

    for (; unit + (MSCCLPP_DEV_COLL_BATCH_UNALIGNED - 1) * step < whole_units;
         unit += MSCCLPP_DEV_COLL_BATCH_UNALIGNED * step) {
        MSCCLPP_DEV_UNROLL
        for (rank = 0; rank < 2; ++rank) {
            MSCCLPP_DEV_UNROLL
            for (j = 0; j < MSCCLPP_DEV_COLL_BATCH_UNALIGNED; ++j) {
                values[rank][j] = mscclpp_dev_ld_unit(from[rank], unit + (uint64_t)j * step, part.bytes);
            }
        }
        MSCCLPP_DEV_UNROLL
        for (j = 0; j < MSCCLPP_DEV_COLL_BATCH_UNALIGNED; ++j) {
            mscclpp_dev_acc_set(&acc, dtype, values[0][j]);
            mscclpp_dev_acc_add(&acc, hot, dtype, op, values[1][j]);
            mscclpp_dev_st_unit(to, unit + (uint64_t)j * step, part.bytes, mscclpp_dev_acc_get(&acc, dtype),
                                mscclpp_dev_unit_mask(dtype));
        }
    }
    return unit;
}

/*
 * Combines units of two operands, as mscclpp_dev_coll_take_combined does. The loads of both operands are in progress at
 * once. Returns the first unit that is left for this thread. `hot` is a constant; true: `dtype` and `op` are constants
 * as well.
 */
MSCCLPP_DEV uint64_t mscclpp_dev_coll_take_pairs(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_coll_turn_t *turn,
                                                 const mscclpp_dev_block_t *own_block, mscclpp_dev_block_t part,
                                                 bool hot, int dtype, int op)
{
    char *to = (char *)turn->coll->common.out + part.offset;
    const char *const from[2] = {mscclpp_dev_coll_operand(ctx, turn, own_block, 0),
                                 mscclpp_dev_coll_operand(ctx, turn, own_block, 1)};
    const bool is_aligned = ((uintptr_t)to | (uintptr_t)from[0] | (uintptr_t)from[1]) % MSCCLPP_DEV_UNIT == 0;
    const uint32_t whole_units = is_aligned && mscclpp_dev_unit_mask(dtype) == MSCCLPP_DEV_WHOLE_UNIT
                                     ? (uint32_t)(part.bytes / MSCCLPP_DEV_UNIT)
                                     : 0;
    uint32_t unit = 0;

    unit = mscclpp_dev_put_combine_batches(ctx, from, to, 2, MSCCLPP_DEV_PUT_OPERANDS / 2, hot, dtype, op, unit,
                                           whole_units);
    unit = mscclpp_dev_put_combine_batches(ctx, from, to, 2, MSCCLPP_DEV_PUT_OPERANDS / 4, hot, dtype, op, unit,
                                           whole_units);
    unit = mscclpp_dev_put_combine_batches(ctx, from, to, 2, 1, hot, dtype, op, unit, whole_units);
    return mscclpp_dev_coll_take_unaligned(ctx, turn, own_block, part, hot, dtype, op, (uint64_t)unit + ctx->tid);
}

/*
 * Combines the units of the turn's part of the result that can be combined in batches. Returns the first unit that is
 * left for this thread. The arguments are those of mscclpp_dev_coll_take_combined and of mscclpp_dev_coll_take_batches.
 */
MSCCLPP_DEV uint64_t mscclpp_dev_coll_take_whole(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_coll_turn_t *turn,
                                                 const mscclpp_dev_block_t *own_block, mscclpp_dev_block_t part,
                                                 uint32_t ranks_end, bool hot, int dtype, int op)
{
    return ranks_end == 2 ? mscclpp_dev_coll_take_pairs(ctx, turn, own_block, part, hot, dtype, op)
                          : mscclpp_dev_coll_take_batches(ctx, turn, own_block, part, ranks_end,
                                                          hot ? MSCCLPP_DEV_COLL_BATCH / 2 : MSCCLPP_DEV_COLL_BATCH_ANY,
                                                          hot, dtype, op);
}

/*
 * Combines the operands of ranks 0 to `ranks_end` - 1 in rank order, and stores the turn's part of the result in the
 * output. `result_bytes` is the size of the whole result; 0: this rank gets no result. `ranks_end` is 0 only if this
 * rank gets no result. `hot` is a constant; true: `dtype` and `op` are constants as well.
 */
MSCCLPP_DEV void mscclpp_dev_coll_take_combined(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_coll_turn_t *turn,
                                                uint32_t ranks_end, uint64_t result_bytes, bool hot, int dtype, int op)
{
    const mscclpp_dev_args_t *args = &turn->coll->common;
    mscclpp_dev_block_t part = {0, 0}, own_block;
    mscclpp_dev_acc_t acc;
    mscclpp_dev_vec_t value;
    uint64_t unit;
    uint32_t rank;

    part.bytes = result_bytes;
    part = mscclpp_dev_coll_turn_part(turn, part);
    own_block = mscclpp_dev_coll_turn_part(turn, mscclpp_dev_coll_send_block(turn->coll, turn->blocks, args->rank));
#if MSCCLPP_DEV_ROWS
    if (mscclpp_dev_rows_serve(dtype, op, part.bytes)) {
        mscclpp_dev_coll_take_rows(ctx, turn, &own_block, part, ranks_end, dtype, op);
        return;
    }
#endif
    /* A kernel for all types has code with constants for the most frequent case: sums of floats. */
    unit = !hot && MSCCLPP_DEV_FOLDS && dtype == MSCCLPP_DTYPE_FLOAT32 && op == MSCCLPP_OP_SUM
               ? mscclpp_dev_coll_take_whole(ctx, turn, &own_block, part, ranks_end, true, MSCCLPP_DTYPE_FLOAT32,
                                             MSCCLPP_OP_SUM)
               : mscclpp_dev_coll_take_whole(ctx, turn, &own_block, part, ranks_end, hot, dtype, op);
    for (; unit < mscclpp_dev_units(part.bytes); unit += ctx->nthreads) {
        for (rank = 0; rank < ranks_end; ++rank) {
            value = mscclpp_dev_ld_unit(mscclpp_dev_coll_operand(ctx, turn, &own_block, rank), unit, part.bytes);
            if (rank == 0) {
                mscclpp_dev_acc_set(&acc, dtype, value);
            } else {
                mscclpp_dev_acc_add(&acc, false, dtype, op, value);
            }
        }
        mscclpp_dev_st_unit((char *)args->out + part.offset, unit, part.bytes, mscclpp_dev_acc_get(&acc, dtype),
                            mscclpp_dev_unit_mask(dtype));
    }
}

/*
 * Takes the turn's data from this rank's tiles: with `combines`, combines them into the result; otherwise moves them to
 * their places. All peers must have stored their data of this turn. `hot` is a constant; true: `dtype` and `op` are
 * constants as well.
 */
MSCCLPP_DEV void mscclpp_dev_coll_take(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_coll_turn_t *turn, bool combines,
                                       bool hot, int dtype, int op)
{
    const mscclpp_dev_coll_args_t *coll = turn->coll;
    const mscclpp_dev_args_t *common = &coll->common;
    /* A scan combines the operands of lower ranks. Other patterns combine those of all ranks. */
    const uint32_t ranks_end = coll->pattern == MSCCLPP_DEV_SCAN     ? common->rank + 1
                               : coll->pattern == MSCCLPP_DEV_EXSCAN ? common->rank
                                                                     : common->nranks;

    if (combines) {
        mscclpp_dev_coll_take_combined(ctx, turn, ranks_end, mscclpp_dev_coll_result_bytes(coll, turn->blocks), hot,
                                       dtype, op);
    } else {
        mscclpp_dev_coll_take_moved(ctx, turn);
    }
}

/*
 * Sets *turn to this block's first turn through tiles. `blocks` is NULL if all blocks have the same size. Blocks of
 * data of at most `max_skipped_bytes` bytes do not go through tiles.
 */
MSCCLPP_DEV void mscclpp_dev_coll_first_turn(const mscclpp_dev_ctx_t *ctx, mscclpp_dev_coll_turn_t *turn,
                                             const mscclpp_dev_coll_args_t *coll,
                                             const mscclpp_dev_blocks_args_t *blocks, uint64_t max_skipped_bytes)
{
    turn->coll = coll;
    turn->blocks = blocks;
    turn->tile_bytes = MSCCLPP_DEV_COLL_TILE(coll->common.bulk_size, ctx->nblocks, coll->common.nranks);
    turn->begin = ctx->block * turn->tile_bytes;
    turn->number = 0;
    turn->in_slots = false;
    turn->max_skipped_bytes = max_skipped_bytes;
}

/*
 * Moves or combines the blocks of data from turn `turn` on. In each turn, passes a barrier, stores the data of the next
 * turn into the peers' tiles, and takes the data of this turn from this rank's tiles. `largest_bytes` is the size of
 * the largest block of all ranks. Blocks of the grid may take different numbers of turns, but block i takes the same
 * number of turns on all ranks. Adds the number of passed barriers to *barriers. No rank may still use the bulk area
 * for an earlier operation. After a failure no further turn begins, and the output is incomplete.
 */
MSCCLPP_DEV void mscclpp_dev_coll_take_turns(mscclpp_dev_ctx_t *ctx, mscclpp_dev_coll_turn_t turn,
                                             uint64_t largest_bytes, bool combines, int dtype, int op,
                                             uint64_t *barriers)
{
    const mscclpp_dev_args_t *common = &turn.coll->common;
    mscclpp_dev_coll_turn_t next;

    if (turn.begin < largest_bytes && !ctx->failed) {
        mscclpp_dev_coll_give(ctx, &turn);
    }
    for (; turn.begin < largest_bytes && !ctx->failed; turn = next) {
        next = mscclpp_dev_coll_next_turn(ctx, &turn);
        mscclpp_dev_barrier(ctx, common, ++*barriers);
        if (!ctx->failed && next.begin < largest_bytes) {
            mscclpp_dev_coll_give(ctx, &next);
        }
        if (!ctx->failed) {
            mscclpp_dev_coll_take(ctx, &turn, combines, false, dtype, op);
        }
    }
}

/*
 * Runs the kernel: moves or combines the blocks of data through tiles. args->largest_block is equal on all ranks. After
 * a failure the output is incomplete.
 */
MSCCLPP_DEV void mscclpp_dev_coll_tiles(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_blocks_args_t *args, int dtype,
                                        int op)
{
    const mscclpp_dev_coll_args_t *coll = &args->coll;
    const mscclpp_dev_args_t *common = &coll->common;
    const mscclpp_dev_blocks_args_t *blocks = args->varied != MSCCLPP_DEV_SAME ? args : NULL;
    const bool combines = MSCCLPP_DEV_COMBINES(coll->pattern);
    const uint64_t launches = mscclpp_dev_last_launch(ctx, common);
    const uint32_t epoch = mscclpp_dev_last_epoch(ctx, common);
    const uint64_t barriers_before = mscclpp_dev_last_barrier(ctx, common);
    uint64_t barriers = barriers_before;
    mscclpp_dev_coll_turn_t turn;

    mscclpp_dev_enter(ctx, common);
    mscclpp_dev_coll_first_turn(ctx, &turn, coll, blocks, 0);
    mscclpp_dev_barrier(ctx, common, ++barriers);
    mscclpp_dev_coll_take_turns(ctx, turn, args->largest_block, combines, dtype, op, &barriers);
    /* This rank's own block comes last, because no peer waits for it. */
    if (!combines && !ctx->failed) {
        mscclpp_dev_coll_copy_own(ctx, coll, blocks);
    }
    mscclpp_dev_finish(ctx, common, launches, epoch, barriers_before, barriers);
}

#endif
