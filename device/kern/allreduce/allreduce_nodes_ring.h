/*
 * The exchange between nodes in a ring. Each node sends only to its successor, so that no link ever carries data that
 * several nodes send to one node. A tile is cut into one part for each node. It goes through two rounds of n - 1 steps:
 *
 *   reduce   Part p starts at node p, as node p's partial result. Each node on the way combines what it receives with
 *            its own partial result and passes that on. Node p - 1 is the last one and has the part's result.
 *   gather   The result goes around from there. Each node except the last one passes it on unchanged.
 *
 * So part p is combined in the order of the nodes p, p + 1, ..., n - 1, 0, ..., p - 1. The order differs from part to
 * part, but is the same in every call. All nodes take the bytes of the last node of a part. Each node rounds the data
 * that it forwards to the type of the elements. A ring is therefore not used for types that are combined in a wider
 * type.
 *
 * A set has two areas. The first holds a node's partial results, then those combined over the nodes so far, and then
 * the results. No node sends a part's result before all nodes have combined that part. Everything that the node itself
 * has sent of that part has arrived long before. The second area receives partial results from the predecessor.
 *
 * Turn i alternates between steps of both rounds: reduce for tile i - 1, and gather for tile i - 2. So the link carries
 * one while the other is on its way. Each step has to know the number of the signal that it waits for. A node sends its
 * own part of a tile one turn before the tile's first step, when it gives the tile. It sends the part's result at the
 * end of the turn.
 *
 * Sets are used in turn as without a ring (allreduce_nodes.h). Once a node has reduced its part of e + 3, it has in
 * effect seen signals of all other nodes. Each has contributed to that part what it gave after it had taken e.
 */
#ifndef MSCCLPP_DEVICE_KERN_ALLREDUCE_ALLREDUCE_NODES_RING_H
#define MSCCLPP_DEVICE_KERN_ALLREDUCE_ALLREDUCE_NODES_RING_H

#include "device/kern/allreduce/allreduce_nodes_tile.h"
#include "device/lib/nodes_ring.h"

/*
 * Returns how many signals a node has sent to its successor before turn `turn`. It has sent one for each tile that it
 * has given, and n - 1 in round reduce of each earlier turn. It has sent n - 2 in round gather of each of these turns
 * except the first.
 */
MSCCLPP_DEV uint64_t mscclpp_dev_ring_signals_before(const mscclpp_dev_nodes_block_t *block, uint64_t turn)
{
    const uint64_t nnodes = block->nodes->nnodes, tiles_given = turn < block->tiles ? turn : block->tiles;

    return tiles_given + (turn > 1 ? (turn - 1) * (nnodes - 1) : 0) + (turn > 2 ? (turn - 2) * (nnodes - 2) : 0);
}

/*
 * Returns the number of the signal that a node waits for in step `step` of turn `turn`, in round gather or round
 * reduce. It is the number of signals that the predecessor has sent up to and including this one. Not inlined, because
 * the kernel has few registers left.
 */
MSCCLPP_DEV_OUTLINE uint64_t mscclpp_dev_ring_signal_number(const mscclpp_dev_nodes_block_t *block, uint64_t turn,
                                                            uint32_t step, bool is_gather)
{
    const uint64_t gives = turn < block->tiles ? 1 : 0, reduces = turn <= block->tiles ? 1 : 0;
    const uint64_t signals_per_step = reduces + (turn > 1 ? 1 : 0);

    if (step == 1) {
        return is_gather ? mscclpp_dev_ring_signals_before(block, turn)
                         : mscclpp_dev_ring_signals_before(block, turn - 1) + 1;
    }
    return mscclpp_dev_ring_signals_before(block, turn) + gives + (step - 2) * signals_per_step +
           (is_gather ? reduces : 0) + 1;
}

/* Returns where the second area of a tile's set begins, as an offset in the exchange area. */
MSCCLPP_DEV uint64_t mscclpp_dev_ring_incoming_offset(const mscclpp_dev_nodes_block_t *block,
                                                      const mscclpp_dev_nodes_tile_t *tile)
{
    return tile->set + MSCCLPP_DEV_NODES_RING_ROOM(block->nodes->nnodes, block->nodes->slot_size);
}

/*
 * Sends a part of a tile to the successor, into the area that begins at offset `area`, with a signal. Called by one
 * thread.
 */
MSCCLPP_DEV void mscclpp_dev_ring_send(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_block_t *block,
                                       const mscclpp_dev_nodes_tile_t *tile, uint32_t part, uint64_t area)
{
    const uint64_t begin = mscclpp_dev_nodes_part_begin(tile, part) * MSCCLPP_DEV_UNIT;
    const uint64_t end = mscclpp_dev_nodes_part_begin(tile, part + 1) * MSCCLPP_DEV_UNIT;

    mscclpp_dev_ring_put(ctx, block->nodes, area + begin, tile->set + begin, end - begin);
}

/*
 * Sends this node's part of a tile to the successor. The tile's partial results must be in place. In the first tile of
 * a call, block 0 also signals all other nodes. Without these signals a rank would receive signals only from its
 * predecessor, and could not find out which node the ring waits for. Called by all threads.
 */
MSCCLPP_DEV void mscclpp_dev_ring_set_out(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_block_t *block,
                                          const mscclpp_dev_nodes_tile_t *tile)
{
    const mscclpp_dev_nodes_args_t *nodes = block->nodes;
    uint32_t node;

    if (ctx->tid == 0) {
        mscclpp_dev_ring_send(ctx, block, tile, nodes->node, mscclpp_dev_ring_incoming_offset(block, tile));
    }
    for (node = ctx->tid; node < nodes->nnodes && ctx->block == 0 && tile->index == 0; node += ctx->nthreads) {
        if (node != nodes->node && node != mscclpp_dev_ring_successor(nodes)) {
            mscclpp_dev_port_signal(ctx, &nodes->common, MSCCLPP_DEV_NODES_CHANNEL(nodes, 0, node));
        }
    }
}

/*
 * Carries out step `step` of round reduce in turn `turn`: waits for a part from the predecessor, combines the part with
 * this node's partial result, and sends the combination to the successor. In the last step this is the part's result,
 * which begins round gather. Called by all threads. If the wait fails, sets ctx->failed in all of them, and nothing is
 * sent.
 */
MSCCLPP_DEV void mscclpp_dev_ring_reduce(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_block_t *block,
                                         const mscclpp_dev_nodes_tile_t *tile, uint64_t turn, uint32_t step)
{
    const mscclpp_dev_nodes_args_t *nodes = block->nodes;
    const uint32_t nnodes = nodes->nnodes, part = MSCCLPP_DEV_NODES_RING_REDUCED(nnodes, nodes->node, step);
    const uint64_t incoming = mscclpp_dev_ring_incoming_offset(block, tile);
    const uint64_t end_unit = mscclpp_dev_nodes_part_begin(tile, part + 1);
    mscclpp_dev_acc_t acc;
    uint64_t unit;

    if (ctx->tid == 0) {
        mscclpp_dev_ring_await(ctx, block->nodes, mscclpp_dev_ring_signal_number(block, turn, step, false));
    }
    ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
    for (unit = mscclpp_dev_nodes_part_begin(tile, part) + ctx->tid; unit < end_unit && !ctx->failed;
         unit += ctx->nthreads) {
        char *own_unit = nodes->exchange + tile->set + unit * MSCCLPP_DEV_UNIT;

        mscclpp_dev_acc_set(&acc, block->dtype,
                            mscclpp_dev_ld_vec(nodes->exchange + incoming + unit * MSCCLPP_DEV_UNIT));
        mscclpp_dev_acc_add(&acc, block->hot, block->dtype, block->op, mscclpp_dev_ld_vec(own_unit));
        mscclpp_dev_st_vec(own_unit, mscclpp_dev_acc_get(&acc, block->dtype));
    }
    mscclpp_dev_block_sync(ctx);
    if (ctx->tid == 0 && !ctx->failed) {
        mscclpp_dev_ring_send(ctx, block, tile, part, step + 1 < nnodes ? incoming : tile->set);
    }
}

/*
 * Carries out step `step` of round gather in turn `turn`: waits for a part of the result from the predecessor, and
 * sends it to the successor unless this is the last step. Called by one thread; the others may read the data after the
 * block has synchronised at the end of the turn. If the wait fails, sets ctx->failed in this thread.
 */
MSCCLPP_DEV void mscclpp_dev_ring_gather(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_block_t *block,
                                         const mscclpp_dev_nodes_tile_t *tile, uint64_t turn, uint32_t step)
{
    const uint32_t nnodes = block->nodes->nnodes;

    mscclpp_dev_ring_await(ctx, block->nodes, mscclpp_dev_ring_signal_number(block, turn, step, true));
    if (step + 1 < nnodes && !ctx->failed) {
        mscclpp_dev_ring_send(ctx, block, tile, MSCCLPP_DEV_NODES_RING_GATHERED(nnodes, block->nodes->node, step),
                              tile->set);
    }
}

/*
 * Carries out turn number `turn`, counted from 1: reduces tile `turn` - 1, and gathers the results of tile `turn` - 2,
 * if these tiles exist. Called by all threads. If a wait fails, sets ctx->failed in all of them.
 */
MSCCLPP_DEV void mscclpp_dev_ring_turn(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_block_t *block, uint64_t turn)
{
    mscclpp_dev_nodes_tile_t reduced, gathered;
    uint32_t step;

    reduced = gathered = mscclpp_dev_nodes_tile(ctx, block, turn - 1);
    if (turn > 1) {
        gathered = mscclpp_dev_nodes_tile(ctx, block, turn - 2);
    }
    for (step = 1; step < block->nodes->nnodes; ++step) {
        if (turn <= block->tiles) {
            mscclpp_dev_ring_reduce(ctx, block, &reduced, turn, step);
        }
        if (turn > 1 && ctx->tid == 0) {
            mscclpp_dev_ring_gather(ctx, block, &gathered, turn, step);
        }
    }
    ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
}

#endif
