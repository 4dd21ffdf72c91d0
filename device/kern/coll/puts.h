/*
 * Collectives by puts into the team's scratch. Turn by turn, each rank stores a piece of its block for a peer into a
 * slot in the peer's memory (lib/put.h), and the peer moves the piece to its place or combines it with others. Unlike
 * tiles.h, the kernel needs no barrier at the beginning, because nothing else uses the slots, and because a rank
 * signals piece k + 1 before it takes piece k.
 *
 * All ranks take the same turns, even ranks that send or receive nothing, as lib/put.h requires.
 */
#ifndef MSCCLPP_DEVICE_KERN_COLL_PUTS_H
#define MSCCLPP_DEVICE_KERN_COLL_PUTS_H

#include "device/kern/coll/tiles.h"
#include "device/lib/put.h"

/*
 * Stores the turn's pieces of this rank's blocks into its peers' slots, and signals them. Called by all threads of the
 * block. After a failure, stores and signals nothing.
 */
MSCCLPP_DEV void mscclpp_dev_coll_put(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_coll_turn_t *turn)
{
    const mscclpp_dev_args_t *common = &turn->coll->common;

    if (!ctx->failed) {
        mscclpp_dev_coll_give(ctx, turn);
    }
    mscclpp_dev_put_signal(ctx, common, common->nranks, turn->number);
}

/*
 * Runs the kernel: moves or combines the blocks of data. args->largest_block is equal on all ranks. Blocks of the grid
 * may take different numbers of turns, but block i takes the same number of turns on all ranks. `hot` is a constant;
 * true: `dtype` and `op` are constants as well. After a failure nothing more is sent or taken, but the turns are still
 * counted, so that all threads of the block meet.
 */
MSCCLPP_DEV void mscclpp_dev_coll_puts(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_blocks_args_t *args, bool hot,
                                       int dtype, int op)
{
    const mscclpp_dev_coll_args_t *coll = &args->coll;
    const mscclpp_dev_args_t *common = &coll->common;
    const mscclpp_dev_blocks_args_t *blocks = args->varied != MSCCLPP_DEV_SAME ? args : NULL;
    const bool combines = MSCCLPP_DEV_COMBINES(coll->pattern);
    const uint64_t launches = mscclpp_dev_last_launch(ctx, common);
    const uint32_t epoch = mscclpp_dev_last_epoch(ctx, common);
    const uint64_t count_before = mscclpp_dev_last_barrier(ctx, common);
    uint64_t count = count_before;
    mscclpp_dev_coll_turn_t turn, next;

    mscclpp_dev_enter(ctx, common);
    turn.coll = coll;
    turn.blocks = blocks;
    turn.tile_bytes = (uint64_t)MSCCLPP_DEV_UNIT *
                      mscclpp_dev_put_full_piece_units(common, mscclpp_dev_units(args->largest_block), ctx->nblocks);
    turn.begin = ctx->block * turn.tile_bytes;
    turn.max_skipped_bytes = 0;
    turn.number = count_before + 1;
    turn.in_slots = true;
    if (turn.begin < args->largest_block) {
        mscclpp_dev_coll_put(ctx, &turn);
    }
    for (; turn.begin < args->largest_block; turn = next) {
        next = mscclpp_dev_coll_next_turn(ctx, &turn);
        if (next.begin < args->largest_block) {
            mscclpp_dev_coll_put(ctx, &next);
        }
        if (mscclpp_dev_put_await(ctx, common, common->nranks, true, turn.number)) {
            mscclpp_dev_coll_take(ctx, &turn, combines, hot, dtype, op);
        }
        count = turn.number;
    }
    /* This rank's own block comes last, because no peer waits for it. */
    if (!combines && !ctx->failed) {
        mscclpp_dev_coll_copy_own(ctx, coll, blocks);
    }
    mscclpp_dev_finish(ctx, common, launches, epoch, count_before, count);
}

#endif
