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
 * Why MSCCLPP_DEV_NODES_SETS sets of slots are enough, and a put needs no flush: exchange e of a block, counted over
 * all operations, uses set e mod 5, whose places do not depend on the operation. A block that gives e + 5 has joined or
 * taken e + 3 before, and so has seen signals of e + 3 at least. The senders of these signals gave e + 3 after they had
 * taken e, because the steps follow one another as give(i), join(i - 1), take(i - 2), give(i + 1). So nobody reads the
 * data received in e any more, and they may be overwritten. To take e, the sender needed everything that was put in e.
 * So these puts have long left their sources, which may be overwritten, too.
 *
 * Why two sets of tiles in the scratch are enough: other ranks read operands in the step in which they are given, and,
 * if nothing is joined, once more when the tile is taken, before that step's barrier. A rank writes operands i + 2
 * after the barrier in which it gave i + 1, or after the barrier in which it took i. It writes results i + 2 after the
 * barrier of take i + 1, and a rank that enters this barrier has copied out results i. The barriers at the end of one
 * operation and at the beginning of the next one serve in the same way.
 */
#ifndef MSCCLPP_DEVICE_KERN_ALLREDUCE_ALLREDUCE_NODES_H
#define MSCCLPP_DEVICE_KERN_ALLREDUCE_ALLREDUCE_NODES_H

#include "device/lib/barrier.h"
#include "device/kern/allreduce/allreduce_nodes_ring.h"
#include "device/kern/allreduce/allreduce_nodes_steps.h"
#include "device/kern/allreduce/allreduce_nodes_tile.h"
#include "device/lib/port_channel.h"

/*
 * Places in a set, as offsets in bytes. Partial results from node k arrive at the start of node k's slot, and results
 * at its end. The two do not overlap, since they are at most two parts of a tile.
 */
MSCCLPP_DEV uint64_t mscclpp_dev_nodes_incoming(const mscclpp_dev_nodes_block_t *block,
                                                const mscclpp_dev_nodes_tile_t *tile, uint32_t k)
{
    return tile->set + (1 + (uint64_t)k) * block->nodes->slot_size;
}

MSCCLPP_DEV uint64_t mscclpp_dev_nodes_joined(const mscclpp_dev_nodes_block_t *block,
                                              const mscclpp_dev_nodes_tile_t *tile, uint32_t k)
{
    const uint64_t units = mscclpp_dev_nodes_begin(tile, k + 1) - mscclpp_dev_nodes_begin(tile, k);

    return mscclpp_dev_nodes_incoming(block, tile, k) + block->nodes->slot_size - units * MSCCLPP_DEV_UNIT;
}

/*
 * Combines unit `u` of all nodes' partial results. This node's is `own`. Those of the other nodes lie at the start of
 * their slots, from unit `first` on.
 */
MSCCLPP_DEV mscclpp_dev_vec_t mscclpp_dev_nodes_combine_nodes(const mscclpp_dev_nodes_block_t *block,
                                                              const mscclpp_dev_nodes_tile_t *tile, uint64_t u,
                                                              uint64_t first, mscclpp_dev_vec_t own)
{
    const mscclpp_dev_nodes_args_t *nodes = block->nodes;
    mscclpp_dev_acc_t acc;
    mscclpp_dev_vec_t v;
    uint32_t k;

    for (k = 0; k < nodes->nnodes; ++k) {
        v = own;
        if (k != nodes->node) {
            v = mscclpp_dev_ld_vec(nodes->exchange + mscclpp_dev_nodes_incoming(block, tile, k) +
                                   (u - first) * MSCCLPP_DEV_UNIT);
        }
        if (k == 0) {
            mscclpp_dev_acc_set(&acc, block->dtype, v);
        } else {
            mscclpp_dev_acc_add(&acc, block->hot, block->dtype, block->op, v);
        }
    }
    return mscclpp_dev_acc_get(&acc, block->dtype);
}

/* Hosts never choose a ring for 16-bit floats, so kernels for such a type alone need no code for rings. */
MSCCLPP_DEV bool mscclpp_dev_nodes_in_ring(const mscclpp_dev_nodes_block_t *block)
{
    return block->nodes->pattern == MSCCLPP_DEV_NODES_RING && !mscclpp_dev_is_float16(block->dtype);
}

/*
 * Waits for signal `number` of this operation from the nodes that are `first` to `end` - 1 nodes before this one;
 * numbers count from 1. Called by all threads.
 */
MSCCLPP_DEV void mscclpp_dev_nodes_await(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_args_t *nodes, uint64_t number,
                                         uint32_t first, uint32_t end)
{
    const mscclpp_dev_port_channel_t *channels =
        nodes->channels + MSCCLPP_DEV_NODES_NUMBER(nodes->nnodes, ctx->block, 0);
    uint32_t i;

    for (i = first + ctx->tid; i < end && !ctx->failed; i += ctx->nthreads) {
        mscclpp_dev_port_wait_ahead(ctx, &nodes->common,
                                    &channels[MSCCLPP_DEV_NODES_BEHIND(nodes->nnodes, nodes->node, i)], number);
    }
    ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
}

/*
 * The number of the signal that comes with a tile's partial results, or, if split, with the result of a part
 * (`joined`). If split, a node gives tile i + 1 before it joins tile i.
 */
MSCCLPP_DEV uint64_t mscclpp_dev_nodes_signal(const mscclpp_dev_nodes_block_t *block,
                                              const mscclpp_dev_nodes_tile_t *tile, bool joined)
{
    if (block->nodes->pattern == MSCCLPP_DEV_NODES_DIRECT) {
        return tile->index + 1;
    }
    if (joined) {
        return tile->index + 1 == block->tiles ? 2 * block->tiles : 2 * tile->index + 3;
    }
    return tile->index == 0 ? 1 : 2 * tile->index;
}

/*
 * Puts data to each other node, with a signal; to a few nodes at a time: the next ones follow when the data of as many
 * nodes before this one have come. If `joined`, the data are the result of this node's part. Called by all threads,
 * which share the nodes.
 */
MSCCLPP_DEV void mscclpp_dev_nodes_push(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_block_t *block,
                                        const mscclpp_dev_nodes_tile_t *tile, bool joined)
{
    const mscclpp_dev_nodes_args_t *nodes = block->nodes;
    const mscclpp_dev_port_channel_t *channels =
        nodes->channels + MSCCLPP_DEV_NODES_NUMBER(nodes->nnodes, ctx->block, 0);
    uint32_t first, last, i;

    /* Each node begins with the next one, so that not all send to the same node at once. */
    for (first = 1; first < nodes->nnodes && !ctx->failed; first = last) {
        last = nodes->nnodes - first < nodes->fanout ? nodes->nnodes : first + nodes->fanout;
        for (i = first + ctx->tid; i < last; i += ctx->nthreads) {
            const uint32_t k = MSCCLPP_DEV_NODES_AHEAD(nodes->nnodes, nodes->node, i), part = joined ? nodes->node : k;
            const bool split = nodes->pattern == MSCCLPP_DEV_NODES_SPLIT;
            const uint64_t begin = split ? mscclpp_dev_nodes_begin(tile, part) : 0;
            const uint64_t end = split ? mscclpp_dev_nodes_begin(tile, part + 1) : tile->size;

            mscclpp_dev_port_put_with_signal(ctx, &nodes->common, &channels[k],
                                             joined ? mscclpp_dev_nodes_joined(block, tile, nodes->node)
                                                    : mscclpp_dev_nodes_incoming(block, tile, nodes->node),
                                             tile->set + begin * MSCCLPP_DEV_UNIT, (end - begin) * MSCCLPP_DEV_UNIT);
        }
        if (last < nodes->nnodes) {
            mscclpp_dev_nodes_await(ctx, nodes, mscclpp_dev_nodes_signal(block, tile, joined), first, last);
        }
    }
}

/* The step `give` of a tile. */
MSCCLPP_DEV void mscclpp_dev_nodes_give(mscclpp_dev_ctx_t *ctx, mscclpp_dev_nodes_block_t *block,
                                        const mscclpp_dev_nodes_tile_t *tile)
{
    const mscclpp_dev_nodes_args_t *nodes = block->nodes;
    const mscclpp_dev_args_t *args = &nodes->common;
    uint64_t u;
    uint32_t s;

    if (args->nranks > 1) {
        for (s = 0; s < nodes->shards; ++s) {
            char *operands = mscclpp_dev_nodes_place(ctx, block, tile, args->rank, 0, s);

            for (u = ctx->tid; u < tile->size; u += ctx->nthreads) {
                mscclpp_dev_st_vec(operands + u * MSCCLPP_DEV_UNIT,
                                   mscclpp_dev_ld_unit(args->in, s * block->shard + tile->base + u, args->bytes));
            }
        }
        mscclpp_dev_barrier(ctx, args, ++block->barriers);
    }
    if (block->owner && !ctx->failed) {
        for (u = ctx->tid; u < tile->size; u += ctx->nthreads) {
            mscclpp_dev_st_vec(nodes->exchange + tile->set + u * MSCCLPP_DEV_UNIT,
                               mscclpp_dev_nodes_combine_ranks(ctx, block, tile, u));
        }
        mscclpp_dev_block_sync(ctx);
        if (mscclpp_dev_nodes_in_ring(block)) {
            mscclpp_dev_ring_set_out(ctx, block, tile);
        } else if (!mscclpp_dev_nodes_in_steps(block)) {
            mscclpp_dev_nodes_push(ctx, block, tile, false);
        }
    }
}

/* The result of this node's part overwrites this node's partial result, which was sent to nobody. */
MSCCLPP_DEV void mscclpp_dev_nodes_join(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_block_t *block,
                                        const mscclpp_dev_nodes_tile_t *tile)
{
    const mscclpp_dev_nodes_args_t *nodes = block->nodes;
    const uint64_t begin = mscclpp_dev_nodes_begin(tile, nodes->node);
    const uint64_t end = mscclpp_dev_nodes_begin(tile, nodes->node + 1);
    uint64_t u;

    mscclpp_dev_nodes_await(ctx, nodes, mscclpp_dev_nodes_signal(block, tile, false), 1, nodes->nnodes);
    if (ctx->failed) {
        return;
    }
    for (u = begin + ctx->tid; u < end; u += ctx->nthreads) {
        char *own = nodes->exchange + tile->set + u * MSCCLPP_DEV_UNIT;

        mscclpp_dev_st_vec(own, mscclpp_dev_nodes_combine_nodes(block, tile, u, begin, mscclpp_dev_ld_vec(own)));
    }
    mscclpp_dev_block_sync(ctx);
    mscclpp_dev_nodes_push(ctx, block, tile, true);
}

/* Unit `u` of the tile's result. */
MSCCLPP_DEV mscclpp_dev_vec_t mscclpp_dev_nodes_result(const mscclpp_dev_ctx_t *ctx,
                                                       const mscclpp_dev_nodes_block_t *block,
                                                       const mscclpp_dev_nodes_tile_t *tile, uint64_t u)
{
    const mscclpp_dev_nodes_args_t *nodes = block->nodes;
    uint32_t k;

    if (nodes->pattern == MSCCLPP_DEV_NODES_DIRECT) {
        return mscclpp_dev_nodes_combine_nodes(block, tile, u, 0, mscclpp_dev_nodes_combine_ranks(ctx, block, tile, u));
    }
    k = (uint32_t)u / (uint32_t)tile->part; /* faster than with 64 bits, and a slot has no more units */
    if (k == nodes->node || mscclpp_dev_nodes_in_ring(block) || mscclpp_dev_nodes_in_steps(block)) {
        return mscclpp_dev_ld_vec(nodes->exchange + tile->set + u * MSCCLPP_DEV_UNIT);
    }
    return mscclpp_dev_ld_vec(nodes->exchange + mscclpp_dev_nodes_joined(block, tile, k) +
                              (u - mscclpp_dev_nodes_begin(tile, k)) * MSCCLPP_DEV_UNIT);
}

/* The owner's part of taking a tile. */
MSCCLPP_DEV void mscclpp_dev_nodes_hand_out(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_block_t *block,
                                            const mscclpp_dev_nodes_tile_t *tile)
{
    const mscclpp_dev_nodes_args_t *nodes = block->nodes;
    const mscclpp_dev_args_t *args = &nodes->common;
    uint64_t u;
    uint32_t r;

    if (nodes->pattern == MSCCLPP_DEV_NODES_DIRECT || nodes->pattern == MSCCLPP_DEV_NODES_SPLIT) {
        mscclpp_dev_nodes_await(ctx, nodes, mscclpp_dev_nodes_signal(block, tile, true), 1, nodes->nnodes);
    }
    for (u = ctx->tid; u < tile->size && !ctx->failed; u += ctx->nthreads) {
        const mscclpp_dev_vec_t v = mscclpp_dev_nodes_result(ctx, block, tile, u);

        if (args->nranks == 1) {
            mscclpp_dev_st_unit(args->out, tile->base + u, args->bytes, v, block->mask);
            continue;
        }
        for (r = 0; r < args->nranks; ++r) {
            const uint32_t peer = args->rank + r < args->nranks ? args->rank + r : args->rank + r - args->nranks;

            mscclpp_dev_st_vec(mscclpp_dev_nodes_place(ctx, block, tile, peer, 1, args->rank) + u * MSCCLPP_DEV_UNIT,
                               v);
        }
    }
}

/* The step `take` of a tile. */
MSCCLPP_DEV void mscclpp_dev_nodes_take(mscclpp_dev_ctx_t *ctx, mscclpp_dev_nodes_block_t *block,
                                        const mscclpp_dev_nodes_tile_t *tile)
{
    const mscclpp_dev_nodes_args_t *nodes = block->nodes;
    const mscclpp_dev_args_t *args = &nodes->common;
    uint64_t u;
    uint32_t s;

    if (block->owner) {
        mscclpp_dev_nodes_hand_out(ctx, block, tile);
    }
    if (args->nranks == 1) {
        return;
    }
    mscclpp_dev_barrier(ctx, args, ++block->barriers);
    for (s = 0; s < nodes->shards && !ctx->failed; ++s) {
        const char *results = mscclpp_dev_nodes_place(ctx, block, tile, args->rank, 1, s);

        for (u = ctx->tid; u < tile->size; u += ctx->nthreads) {
            mscclpp_dev_st_unit(args->out, s * block->shard + tile->base + u, args->bytes,
                                mscclpp_dev_ld_vec(results + u * MSCCLPP_DEV_UNIT), block->mask);
        }
    }
}

/* Counts this operation's exchanges. Called by one thread, after all exchanges. */
MSCCLPP_DEV void mscclpp_dev_nodes_count(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_block_t *block)
{
    const mscclpp_dev_nodes_args_t *nodes = block->nodes;
    uint32_t k;

    nodes->exchanged[ctx->block] = block->exchanged + block->tiles;
    if (mscclpp_dev_nodes_in_steps(block)) {
        mscclpp_dev_steps_count(ctx, block);
        return;
    }
    for (k = 0; k < nodes->nnodes; ++k) {
        if (k != nodes->node) {
            *nodes->channels[MSCCLPP_DEV_NODES_NUMBER(nodes->nnodes, ctx->block, k)].expected +=
                MSCCLPP_DEV_NODES_SIGNALS(nodes->pattern, nodes->nnodes, nodes->node, k, block->tiles, ctx->block == 0);
        }
    }
}

/* The kernel's body. The tiles go through their steps one behind the other, as the top of this file says. */
MSCCLPP_DEV void mscclpp_dev_allreduce_nodes(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_args_t *nodes, bool hot,
                                             int dtype, int op)
{
    const mscclpp_dev_args_t *args = &nodes->common;
    const uint64_t units = mscclpp_dev_units(args->bytes);
    const uint64_t lag = nodes->pattern == MSCCLPP_DEV_NODES_DIRECT ? 1 : 2;
    const uint64_t launches = mscclpp_dev_last_launch(ctx, args);
    const uint32_t epoch = mscclpp_dev_last_epoch(ctx, args);
    const uint64_t before = mscclpp_dev_last_barrier(ctx, args);
    mscclpp_dev_nodes_block_t block;
    mscclpp_dev_nodes_tile_t tile;
    uint64_t i, all;

    mscclpp_dev_enter(ctx, args);
    block.nodes = nodes;
    block.shard = (units + nodes->shards - 1) / nodes->shards;
    block.tile = MSCCLPP_DEV_NODES_TILE(args->bulk_size, ctx->nblocks, nodes->shards,
                                        MSCCLPP_DEV_NODES_ROOM(nodes->pattern, nodes->nnodes, nodes->slot_size,
                                                               nodes->halving.parts, nodes->halving.places));
    all = (block.shard + block.tile - 1) / block.tile;
    block.tiles = ctx->block < all ? (all - ctx->block + ctx->nblocks - 1) / ctx->nblocks : 0;
    block.owner = args->rank < nodes->shards;
    block.exchanged = block.owner ? nodes->exchanged[ctx->block] : 0;
    block.barriers = before;
    block.mask = mscclpp_dev_unit_mask(dtype);
    block.hot = hot;
    block.dtype = dtype;
    block.op = op;
    /*
     * Each thread has checked for itself whether an earlier operation failed; the block must agree before its barriers.
     */
    ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
    for (i = 0; i < block.tiles + lag && block.tiles > 0 && !ctx->failed; ++i) {
        if (i < block.tiles) {
            tile = mscclpp_dev_nodes_tile(ctx, &block, i);
            mscclpp_dev_nodes_give(ctx, &block, &tile);
            ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
        }
        if (mscclpp_dev_nodes_in_ring(&block) && block.owner && i >= 1 && !ctx->failed) {
            mscclpp_dev_ring_turn(ctx, &block, i);
        }
        if (nodes->pattern == MSCCLPP_DEV_NODES_SPLIT && block.owner && i >= 1 && i - 1 < block.tiles && !ctx->failed) {
            tile = mscclpp_dev_nodes_tile(ctx, &block, i - 1);
            mscclpp_dev_nodes_join(ctx, &block, &tile);
            ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
        }
        if (mscclpp_dev_nodes_in_steps(&block) && block.owner && i >= 1 && i - 1 < block.tiles && !ctx->failed) {
            tile = mscclpp_dev_nodes_tile(ctx, &block, i - 1);
            mscclpp_dev_steps_turn(ctx, &block, &tile);
        }
        if (i >= lag && !ctx->failed) {
            tile = mscclpp_dev_nodes_tile(ctx, &block, i - lag);
            mscclpp_dev_nodes_take(ctx, &block, &tile);
        }
    }
    mscclpp_dev_block_sync(ctx);
    if (block.owner && ctx->tid == 0) {
        mscclpp_dev_nodes_count(ctx, &block);
    }
    mscclpp_dev_finish(ctx, args, launches, epoch, before, block.barriers);
}

#endif
