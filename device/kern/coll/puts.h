/*
 * Collectives by puts into the team's scratch: turn by turn, each rank stores a piece of its block for a peer into a
 * slot in the peer's memory (lib/put.h), and the peer moves the piece to its place or combines it with others. Unlike
 * tiles.h, it needs no agreement at the beginning, because slots are not used for anything else, and a rank signals a
 * piece before it takes the one before.
 *
 * All ranks take the same turns, also those that send or receive nothing, as lib/put.h requires.
 */
#ifndef MSCCLPP_DEVICE_KERN_COLL_PUTS_H
#define MSCCLPP_DEVICE_KERN_COLL_PUTS_H

#include "device/kern/coll/tiles.h"
#include "device/lib/put.h"

/* Stores the turn's pieces of this rank's blocks into its peers' slots, and signals them. After a failure, does not. */
MSCCLPP_DEV void mscclpp_dev_coll_put(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_coll_turn_t *turn)
{
    const mscclpp_dev_args_t *common = &turn->coll->common;

    if (!ctx->failed) {
        mscclpp_dev_coll_give(ctx, turn);
    }
    mscclpp_dev_put_signal(ctx, common, common->nranks, turn->number);
}

/*
 * Runs the kernel. All ranks know the size of the largest block. Blocks of the grid may have different numbers of
 * turns, but blocks of the same number have the same number of turns on all ranks. `hot` says that
 * `dtype` and `op` are constants. After a failure the turns are still counted, so that all threads of the block meet,
 * but nothing more is sent or taken.
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
    /* The own block comes last, because no peer waits for it. */
    if (!combines && !ctx->failed) {
        mscclpp_dev_coll_copy_own(ctx, coll, blocks);
    }
    mscclpp_dev_finish(ctx, common, launches, epoch, count_before, count);
}

#endif
