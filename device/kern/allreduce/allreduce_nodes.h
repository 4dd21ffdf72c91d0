/*
 * All-reduce over several nodes. Each block only meets blocks of the same number: those of its node, and those of one
 * rank of each other node. It works tile by tile, in three steps:
 *
 *   give   Every rank copies its operands into its scratch, cut into as many shards as the smallest node has ranks.
 *          Barrier of the node. The owner of a shard combines its node's operands in rank order, and sends this partial
 *          result to the owners of the same shard on the other nodes.
 *
 *   join   Only if split: each node has received one part of the tile from all others. Its owner combines the partial
 *          results of this part in node order, and sends the result to all others. In a ring, this step is what
 *          allreduce_nodes_ring.h calls a turn. With steps, it is all that allreduce_nodes_steps.h does.
 *
 *          Over trees (allreduce_nodes_trees.h) there is no such step: `give` ends with the way up, and `take` begins
 *          with the way down.
 *
 *   take   The owner combines the partial results of all nodes in node order, unless others have combined them, and
 *          hands the result to the ranks of its node. Barrier of the node. Every rank copies the result out.
 *
 * A block gives the next tile, and joins it if there is a join, before it takes the last one. So the links are busy
 * while the block combines and copies. A rank that is alone on its node reads operands and writes results in place,
 * without scratch and barriers. If split, a node sends 2 (n - 1) / n times a tile, in two steps, instead of n - 1 times
 * a tile in one step. In a ring, it sends as much as if split, in 2 (n - 1) steps and to only one other node.
 *
 * All ranks get the same bits, because all nodes combine the same partial results in the same order, or take the result
 * from one node. Partial results travel in the type of the elements. 16-bit floats are accumulated in float32, both
 * within a node and among the partial results, and rounded in between.
 *
 * Why MSCCLPP_DEV_NODES_SETS sets of slots are enough, and a put needs no flush. Exchange e of a block, counted over
 * all operations, uses set e mod 5, whose places do not depend on the operation. Steps follow one another as give(i),
 * join(i - 1), take(i - 2), give(i + 1).
 *
 *   1. A block that gives e + 5 has joined or taken e + 3 before. So it has seen signals of e + 3 at least.
 *   2. The senders of these signals gave e + 3 after they had taken e. So nobody reads the data received in e any more,
 *      and they may be overwritten.
 *   3. To take e, a sender needed everything that was put in e. So these puts have long left their sources, which may
 *      be overwritten, too.
 *
 * Why two sets of tiles in the scratch are enough:
 *
 *   1. Other ranks read operands in the step in which they are given. If nothing is joined, they read them once more
 *      when the tile is taken, before that step's barrier.
 *   2. A rank writes operands i + 2 after the barrier in which it gave i + 1, or after the barrier in which it took i.
 *   3. It writes results i + 2 after the barrier of take i + 1. A rank that enters this barrier has copied out
 *      results i.
 *   4. The barriers at the end of one operation and at the beginning of the next one serve in the same way.
 */
#ifndef MSCCLPP_DEVICE_KERN_ALLREDUCE_ALLREDUCE_NODES_H
#define MSCCLPP_DEVICE_KERN_ALLREDUCE_ALLREDUCE_NODES_H

#include "device/lib/barrier.h"
#include "device/kern/allreduce/allreduce_nodes_ring.h"
#include "device/kern/allreduce/allreduce_nodes_steps.h"
#include "device/kern/allreduce/allreduce_nodes_tile.h"
#include "device/kern/allreduce/allreduce_nodes_trees.h"
#include "device/lib/port_channel.h"

/*
 * Returns where a node's partial results arrive, as an offset in the exchange area: in that node's slot or, if split,
 * behind the tile, where each node has a place for one part.
 */
MSCCLPP_DEV uint64_t mscclpp_dev_nodes_incoming_offset(const mscclpp_dev_nodes_block_t *block,
                                                       const mscclpp_dev_nodes_tile_t *tile, uint32_t from_node)
{
    const mscclpp_dev_nodes_args_t *nodes = block->nodes;

    if (nodes->pattern == MSCCLPP_DEV_NODES_SPLIT) {
        return tile->set + MSCCLPP_DEV_NODES_SPLIT_ROOM(nodes->nnodes, nodes->slot_size) +
               from_node * tile->part_units * MSCCLPP_DEV_UNIT;
    }
    return tile->set + (1 + (uint64_t)from_node) * nodes->slot_size;
}

/*
 * Returns one unit of the partial results of all nodes, combined in node order. This node's partial result is
 * `own_value`. The partial results of the other nodes must have arrived. The place of each begins with the tile's unit
 * `first_unit`.
 */
MSCCLPP_DEV mscclpp_dev_vec_t mscclpp_dev_nodes_combine_all_nodes(const mscclpp_dev_nodes_block_t *block,
                                                                  const mscclpp_dev_nodes_tile_t *tile, uint64_t unit,
                                                                  uint64_t first_unit, mscclpp_dev_vec_t own_value)
{
    const mscclpp_dev_nodes_args_t *nodes = block->nodes;
    mscclpp_dev_acc_t acc;
    mscclpp_dev_vec_t value;
    uint32_t node;

    for (node = 0; node < nodes->nnodes; ++node) {
        value = own_value;
        if (node != nodes->node) {
            value = mscclpp_dev_ld_vec(nodes->exchange + mscclpp_dev_nodes_incoming_offset(block, tile, node) +
                                       (unit - first_unit) * MSCCLPP_DEV_UNIT);
        }
        if (node == 0) {
            mscclpp_dev_acc_set(&acc, block->dtype, value);
        } else {
            mscclpp_dev_acc_add(&acc, block->hot, block->dtype, block->op, value);
        }
    }
    return mscclpp_dev_acc_get(&acc, block->dtype);
}

/*
 * Returns true if the nodes exchange in a ring. Hosts never choose a ring for 16-bit floats. The second condition lets
 * compilers leave out the code for rings in kernels for such a type alone.
 */
MSCCLPP_DEV bool mscclpp_dev_nodes_in_ring(const mscclpp_dev_nodes_block_t *block)
{
    return block->nodes->pattern == MSCCLPP_DEV_NODES_RING && !mscclpp_dev_is_float16(block->dtype);
}

/*
 * Waits for signal `number` of this operation, counted from 1, from each node that is `begin` to `end` - 1 places
 * before this one, in cyclic order. Called by all threads, each of which waits for other nodes. If a wait fails, sets
 * ctx->failed in all threads.
 */
MSCCLPP_DEV void mscclpp_dev_nodes_await(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_args_t *nodes, uint64_t number,
                                         uint32_t begin, uint32_t end)
{
    uint32_t distance;

    for (distance = begin + ctx->tid; distance < end && !ctx->failed; distance += ctx->nthreads) {
        mscclpp_dev_port_wait_ahead(
            ctx, &nodes->common,
            MSCCLPP_DEV_NODES_CHANNEL(nodes, ctx->block,
                                      MSCCLPP_DEV_NODES_BEHIND(nodes->nnodes, nodes->node, distance)),
            number);
    }
    ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
}

/*
 * Returns the number of a tile's signal, for the patterns `direct` and `split`. `direct` has one signal for each tile,
 * and ignores `is_joined`. `split` has two: the first comes with the partial results, the second (`is_joined`) with a
 * part of the result. Their order is give 0, give 1, join 0, give 2, join 1 and so on.
 */
MSCCLPP_DEV uint64_t mscclpp_dev_nodes_signal_number(const mscclpp_dev_nodes_block_t *block,
                                                     const mscclpp_dev_nodes_tile_t *tile, bool is_joined)
{
    if (block->nodes->pattern == MSCCLPP_DEV_NODES_DIRECT) {
        return tile->index + 1;
    }
    if (is_joined) {
        return tile->index + 1 == block->tiles ? 2 * block->tiles : 2 * tile->index + 3;
    }
    return tile->index == 0 ? 1 : 2 * tile->index;
}

/*
 * For the patterns `direct` and `split` only. Sends a tile's partial results to each other node or, if `is_joined`, the
 * result of this node's part. The result overwrites that part in the other node's tile. The other node has already sent
 * its own value of the part here, so nothing reads it any more.
 *
 * Sends in batches of at most `fanout` nodes. Between two batches, waits for the data of the batch on the other side:
 * the nodes that are as far before this one as the nodes just sent to are after it. If a wait fails, sets ctx->failed
 * and sends no further batch. Called by all threads, each of which sends to other nodes. The block must have
 * synchronised after the data were stored.
 */
MSCCLPP_DEV void mscclpp_dev_nodes_send(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_block_t *block,
                                        const mscclpp_dev_nodes_tile_t *tile, bool is_joined)
{
    const mscclpp_dev_nodes_args_t *nodes = block->nodes;
    uint32_t begin, end, distance;

    /* Each node begins with the node after it, so that not all send to the same node at once. */
    for (begin = 1; begin < nodes->nnodes && !ctx->failed; begin = end) {
        end = nodes->nnodes - begin < nodes->fanout ? nodes->nnodes : begin + nodes->fanout;
        for (distance = begin + ctx->tid; distance < end; distance += ctx->nthreads) {
            const uint32_t to_node = MSCCLPP_DEV_NODES_AHEAD(nodes->nnodes, nodes->node, distance);
            const uint32_t part = is_joined ? nodes->node : to_node;
            const bool is_split = nodes->pattern == MSCCLPP_DEV_NODES_SPLIT;
            const uint64_t first_unit = is_split ? mscclpp_dev_nodes_part_begin(tile, part) : 0;
            const uint64_t end_unit = is_split ? mscclpp_dev_nodes_part_begin(tile, part + 1) : tile->units;

            mscclpp_dev_port_put_with_signal(ctx, &nodes->common, MSCCLPP_DEV_NODES_CHANNEL(nodes, ctx->block, to_node),
                                             is_joined ? tile->set + first_unit * MSCCLPP_DEV_UNIT
                                                       : mscclpp_dev_nodes_incoming_offset(block, tile, nodes->node),
                                             tile->set + first_unit * MSCCLPP_DEV_UNIT,
                                             (end_unit - first_unit) * MSCCLPP_DEV_UNIT);
        }
        if (end < nodes->nnodes) {
            mscclpp_dev_nodes_await(ctx, nodes, mscclpp_dev_nodes_signal_number(block, tile, is_joined), begin, end);
        }
    }
}

/*
 * Carries out the step `give` of a tile: copies this rank's operands to its scratch, and passes a barrier. After that,
 * the operands of all ranks of the node are in their scratch. The owner then combines its shard, and sends the partial
 * result to the other nodes; with a list of steps, the step `join` sends it later. A rank that is alone on its node
 * reads its operands in place, and passes no barrier. If the barrier fails, ctx->failed is set, and nothing is sent.
 */
MSCCLPP_DEV void mscclpp_dev_nodes_give(mscclpp_dev_ctx_t *ctx, mscclpp_dev_nodes_block_t *block,
                                        const mscclpp_dev_nodes_tile_t *tile)
{
    const mscclpp_dev_nodes_args_t *nodes = block->nodes;
    const mscclpp_dev_args_t *args = &nodes->common;
    uint64_t unit;
    uint32_t shard;

    if (args->nranks > 1) {
        for (shard = 0; shard < nodes->shards; ++shard) {
            char *operands = mscclpp_dev_nodes_tile_row(ctx, block, tile, args->rank, MSCCLPP_DEV_TILE_OPERANDS, shard);

            for (unit = ctx->tid; unit < tile->units; unit += ctx->nthreads) {
                mscclpp_dev_st_vec(
                    operands + unit * MSCCLPP_DEV_UNIT,
                    mscclpp_dev_ld_unit(args->in, shard * block->shard_units + tile->base + unit, args->bytes));
            }
        }
        mscclpp_dev_barrier(ctx, args, ++block->barriers);
    }
    if (block->is_owner && !ctx->failed) {
        for (unit = ctx->tid; unit < tile->units; unit += ctx->nthreads) {
            mscclpp_dev_st_vec(nodes->exchange + tile->set + unit * MSCCLPP_DEV_UNIT,
                               mscclpp_dev_nodes_combine_ranks(ctx, block, tile, unit));
        }
        mscclpp_dev_block_sync(ctx);
        if (mscclpp_dev_nodes_in_ring(block)) {
            mscclpp_dev_ring_set_out(ctx, block, tile);
        } else if (mscclpp_dev_nodes_over_trees(block)) {
            mscclpp_dev_trees_go_up(ctx, block, tile);
        } else if (!mscclpp_dev_nodes_in_steps(block)) {
            mscclpp_dev_nodes_send(ctx, block, tile, false);
        }
    }
}

/*
 * Carries out the step `join` of a tile, if split: combines the partial results of all nodes for this node's part, and
 * sends the result to all other nodes. First waits for these partial results. The result overwrites this node's own
 * partial result of the part, which is not sent to any node. If the wait fails, ctx->failed is set, and nothing is
 * sent.
 */
MSCCLPP_DEV void mscclpp_dev_nodes_join(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_block_t *block,
                                        const mscclpp_dev_nodes_tile_t *tile)
{
    const mscclpp_dev_nodes_args_t *nodes = block->nodes;
    const uint64_t first_unit = mscclpp_dev_nodes_part_begin(tile, nodes->node);
    const uint64_t end_unit = mscclpp_dev_nodes_part_begin(tile, nodes->node + 1);
    uint64_t unit;

    mscclpp_dev_nodes_await(ctx, nodes, mscclpp_dev_nodes_signal_number(block, tile, false), 1, nodes->nnodes);
    if (ctx->failed) {
        return;
    }
    for (unit = first_unit + ctx->tid; unit < end_unit; unit += ctx->nthreads) {
        char *own_unit = nodes->exchange + tile->set + unit * MSCCLPP_DEV_UNIT;

        mscclpp_dev_st_vec(
            own_unit, mscclpp_dev_nodes_combine_all_nodes(block, tile, unit, first_unit, mscclpp_dev_ld_vec(own_unit)));
    }
    mscclpp_dev_block_sync(ctx);
    mscclpp_dev_nodes_send(ctx, block, tile, true);
}

/*
 * Returns one unit of the tile's result. With the pattern `direct`, combines the unit from the partial results of all
 * nodes, which must have arrived. With the other patterns, the result itself must have arrived, and is in the tile.
 */
MSCCLPP_DEV mscclpp_dev_vec_t mscclpp_dev_nodes_load_result(const mscclpp_dev_ctx_t *ctx,
                                                            const mscclpp_dev_nodes_block_t *block,
                                                            const mscclpp_dev_nodes_tile_t *tile, uint64_t unit)
{
    const mscclpp_dev_nodes_args_t *nodes = block->nodes;

    if (nodes->pattern == MSCCLPP_DEV_NODES_DIRECT) {
        return mscclpp_dev_nodes_combine_all_nodes(block, tile, unit, 0,
                                                   mscclpp_dev_nodes_combine_ranks(ctx, block, tile, unit));
    }
    return mscclpp_dev_ld_vec(nodes->exchange + tile->set + unit * MSCCLPP_DEV_UNIT);
}

/*
 * Carries out an owner's part of the step `take`: stores the tile's result in the scratch of each rank of the node, or
 * in the output if this rank is alone. With `direct` and `split`, first waits for what the other nodes send; with the
 * other patterns, the result has arrived before. If a wait fails, sets ctx->failed, and stores nothing. Called by all
 * threads.
 */
MSCCLPP_DEV void mscclpp_dev_nodes_hand_out(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_block_t *block,
                                            const mscclpp_dev_nodes_tile_t *tile)
{
    const mscclpp_dev_nodes_args_t *nodes = block->nodes;
    const mscclpp_dev_args_t *args = &nodes->common;
    uint64_t unit;
    uint32_t i;

    if (nodes->pattern == MSCCLPP_DEV_NODES_DIRECT || nodes->pattern == MSCCLPP_DEV_NODES_SPLIT) {
        mscclpp_dev_nodes_await(ctx, nodes, mscclpp_dev_nodes_signal_number(block, tile, true), 1, nodes->nnodes);
    }
    for (unit = ctx->tid; unit < tile->units && !ctx->failed; unit += ctx->nthreads) {
        const mscclpp_dev_vec_t value = mscclpp_dev_nodes_load_result(ctx, block, tile, unit);

        if (args->nranks == 1) {
            mscclpp_dev_st_unit(args->out, tile->base + unit, args->bytes, value, block->mask);
            continue;
        }
        for (i = 0; i < args->nranks; ++i) {
            const uint32_t peer = args->rank + i < args->nranks ? args->rank + i : args->rank + i - args->nranks;

            mscclpp_dev_st_vec(
                mscclpp_dev_nodes_tile_row(ctx, block, tile, peer, MSCCLPP_DEV_TILE_RESULTS, args->rank) +
                    unit * MSCCLPP_DEV_UNIT,
                value);
        }
    }
}

/*
 * Carries out the step `take` of a tile: the owners hand out their results, and after a barrier each rank copies the
 * results from its scratch to its output. If a wait fails, ctx->failed is set, and the tile's part of the output is not
 * written.
 */
MSCCLPP_DEV void mscclpp_dev_nodes_take(mscclpp_dev_ctx_t *ctx, mscclpp_dev_nodes_block_t *block,
                                        const mscclpp_dev_nodes_tile_t *tile)
{
    const mscclpp_dev_nodes_args_t *nodes = block->nodes;
    const mscclpp_dev_args_t *args = &nodes->common;
    uint64_t unit;
    uint32_t shard;

    if (block->is_owner) {
        mscclpp_dev_nodes_hand_out(ctx, block, tile);
    }
    if (args->nranks == 1) {
        return;
    }
    mscclpp_dev_barrier(ctx, args, ++block->barriers);
    for (shard = 0; shard < nodes->shards && !ctx->failed; ++shard) {
        const char *results = mscclpp_dev_nodes_tile_row(ctx, block, tile, args->rank, MSCCLPP_DEV_TILE_RESULTS, shard);

        for (unit = ctx->tid; unit < tile->units; unit += ctx->nthreads) {
            mscclpp_dev_st_unit(args->out, shard * block->shard_units + tile->base + unit, args->bytes,
                                mscclpp_dev_ld_vec(results + unit * MSCCLPP_DEV_UNIT), block->mask);
        }
    }
}

/*
 * Advances the counts that later operations start from: the number of the block's exchanges, and the number of signals
 * expected from each other node. Called by one thread of an owner, after all exchanges. Called after a failure, too, so
 * that the counts stay equal on all ranks.
 */
MSCCLPP_DEV void mscclpp_dev_nodes_count_exchanges(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_block_t *block)
{
    const mscclpp_dev_nodes_args_t *nodes = block->nodes;
    uint32_t node;

    nodes->exchanged[ctx->block] = block->exchanged + block->tiles;
    if (mscclpp_dev_nodes_in_steps(block)) {
        mscclpp_dev_steps_count_signals(ctx, block);
        return;
    }
    if (mscclpp_dev_nodes_over_trees(block)) {
        mscclpp_dev_trees_add_signals(ctx, block);
        return;
    }
    /* In a ring, each node but the predecessor adds one signal in an operation. It counts with block 0. */
    for (node = 0; node < nodes->nnodes; ++node) {
        if (node != nodes->node) {
            *MSCCLPP_DEV_NODES_CHANNEL(nodes, ctx->block, node)->expected += MSCCLPP_DEV_NODES_SIGNALS(
                nodes->pattern, nodes->nnodes, nodes->node, node, block->tiles, ctx->block == 0);
        }
    }
}

/*
 * Runs the kernel. Each turn gives one tile, and joins and takes earlier ones, as described at the top of this file.
 * After a failure no further turn begins, and the output is incomplete. The counts are advanced even then, so that they
 * stay equal on all ranks.
 */
MSCCLPP_DEV void mscclpp_dev_allreduce_nodes(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_args_t *nodes, bool hot,
                                             int dtype, int op)
{
    const mscclpp_dev_args_t *args = &nodes->common;
    const uint64_t units = mscclpp_dev_units(args->bytes);
    const uint64_t launches = mscclpp_dev_last_launch(ctx, args);
    const uint32_t epoch = mscclpp_dev_last_epoch(ctx, args);
    const uint64_t barriers_before = mscclpp_dev_last_barrier(ctx, args);
    mscclpp_dev_nodes_block_t block;
    mscclpp_dev_nodes_tile_t tile;
    uint64_t turn, grid_tiles, lag; /* lag: number of turns between giving a tile and taking it */

    mscclpp_dev_enter(ctx, args);
    block.nodes = nodes;
    block.shard_units = (units + nodes->shards - 1) / nodes->shards;
    block.tile_units = MSCCLPP_DEV_NODES_TILE(args->bulk_size, ctx->nblocks, nodes->shards,
                                              MSCCLPP_DEV_NODES_ROOM(nodes->pattern, nodes->nnodes, nodes->slot_size,
                                                                     nodes->halving.parts, nodes->halving.places));
    block.tile_units = MSCCLPP_DEV_NODES_EVEN_TILE(block.shard_units, ctx->nblocks, block.tile_units);
    grid_tiles = (block.shard_units + block.tile_units - 1) / block.tile_units;
    block.tiles = ctx->block < grid_tiles ? (grid_tiles - ctx->block + ctx->nblocks - 1) / ctx->nblocks : 0;
    block.is_owner = args->rank < nodes->shards;
    block.exchanged = block.is_owner ? nodes->exchanged[ctx->block] : 0;
    block.barriers = barriers_before;
    block.mask = mscclpp_dev_unit_mask(dtype);
    block.hot = hot;
    block.dtype = dtype;
    block.op = op;
    lag = nodes->pattern == MSCCLPP_DEV_NODES_DIRECT ? 1
          : !mscclpp_dev_nodes_over_trees(&block)    ? 2
                                                     : mscclpp_dev_trees_lag(ctx, nodes);
    /*
     * Each thread has read for itself whether an earlier operation failed. All threads of the block must come to the
     * same result before the first barrier.
     */
    ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
    if (mscclpp_dev_nodes_over_trees(&block) && block.is_owner && block.tiles > 0 && !ctx->failed) {
        mscclpp_dev_trees_meet_all(ctx, &block, false);
    }
    for (turn = 0; turn < block.tiles + lag && block.tiles > 0 && !ctx->failed; ++turn) {
        if (turn < block.tiles) {
            tile = mscclpp_dev_nodes_tile(ctx, &block, turn);
            mscclpp_dev_nodes_give(ctx, &block, &tile);
            ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
        }
        if (mscclpp_dev_nodes_in_ring(&block) && block.is_owner && turn >= 1 && !ctx->failed) {
            mscclpp_dev_ring_turn(ctx, &block, turn);
        }
        if (nodes->pattern == MSCCLPP_DEV_NODES_SPLIT && block.is_owner && turn >= 1 && turn - 1 < block.tiles &&
            !ctx->failed) {
            tile = mscclpp_dev_nodes_tile(ctx, &block, turn - 1);
            mscclpp_dev_nodes_join(ctx, &block, &tile);
            ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
        }
        if (mscclpp_dev_nodes_in_steps(&block) && block.is_owner && turn >= 1 && turn - 1 < block.tiles &&
            !ctx->failed) {
            tile = mscclpp_dev_nodes_tile(ctx, &block, turn - 1);
            mscclpp_dev_steps_turn(ctx, &block, &tile);
        }
        if (turn >= lag && !ctx->failed) {
            tile = mscclpp_dev_nodes_tile(ctx, &block, turn - lag);
            if (mscclpp_dev_nodes_over_trees(&block) && block.is_owner) {
                mscclpp_dev_trees_go_down(ctx, &block, &tile);
            }
            mscclpp_dev_nodes_take(ctx, &block, &tile);
        }
    }
    if (mscclpp_dev_nodes_over_trees(&block) && block.is_owner && block.tiles > 0 && !ctx->failed) {
        mscclpp_dev_trees_meet_all(ctx, &block, true);
    }
    mscclpp_dev_block_sync(ctx);
    if (block.is_owner && ctx->tid == 0) {
        mscclpp_dev_nodes_count_exchanges(ctx, &block);
    }
    mscclpp_dev_finish(ctx, args, launches, epoch, barriers_before, block.barriers);
}

#endif
