/*
 * The exchange between nodes over two trees (lib/nodes_trees.h). Blocks of the grid with even numbers use the first
 * tree, the others the second. The root of both is node 0.
 *
 * A node combines a tile of its children with its own, in the order first child, second child, own, and sends that to
 * its parent. What the root has combined is the result, which goes down the same tree: each node passes it on to its
 * children.
 *
 * To give a tile means that the node's ranks provide their operands of it (allreduce_nodes.h). A node sends a tile up
 * once it is given and the children's tiles have come. It passes the tile's result on some turns later
 * (mscclpp_dev_trees_lag), because a node farther from the root waits longer for it. In these turns it gives further
 * tiles.
 *
 * The block's part of the area is divided anew, into MSCCLPP_DEV_NODES_TREES_WINDOW sets that are used in turn. A set
 * has the node's own partial results, which the result replaces when it arrives, and the tiles of the two children.
 * Because other operations divide the area in another way, all nodes meet before the first tile and after the last one.
 *
 * Why no credits are needed. Let W be the number of sets and L the largest lag, at most W - 2. In each turn a node
 * gives a tile and sends it up, and then passes on one result. So a node that sends tile i up has passed on the results
 * up to i - 1 - L at least. So have all nodes below it, since each has waited for those below it first. Tile i + W
 * takes the places of tile i:
 * - In the parent, of a child's tile. The child has received result i before, as W > L, so the parent has combined it.
 * - In the node itself, of its own tile. It has received result i, so what it sent up has left. What it passed on has
 *   left, too: its children have sent up tile i + W - 1, so they have received result i, as W - 1 > L.
 * - In a child, of the result. The parent sends result i + W after it has received the child's tile i + W. By then all
 *   nodes below the parent have passed on result i. The same holds after the last tile, which has come from the child.
 *
 * Each node rounds what it passes on to the type of the elements. Types that are combined in a wider type are not
 * exchanged like this.
 */
#ifndef MSCCLPP_DEVICE_KERN_ALLREDUCE_ALLREDUCE_NODES_TREES_H
#define MSCCLPP_DEVICE_KERN_ALLREDUCE_ALLREDUCE_NODES_TREES_H

#include "device/kern/allreduce/allreduce_nodes_tile.h"
#include "device/lib/nodes_trees.h"
#include "device/lib/port_channel.h"

/*
 * Returns true if the nodes exchange over trees. Hosts never choose trees for 16-bit floats. The second condition lets
 * compilers leave out the code for trees in kernels for such a type alone.
 */
MSCCLPP_DEV bool mscclpp_dev_nodes_over_trees(const mscclpp_dev_nodes_block_t *block)
{
    return block->nodes->pattern == MSCCLPP_DEV_NODES_TREES && !mscclpp_dev_is_float16(block->dtype);
}

/*
 * Returns this node's place in the tree of the block. Even blocks use the first tree, odd ones the second, so that each
 * tree carries half of the data.
 */
MSCCLPP_DEV mscclpp_dev_tree_place_t mscclpp_dev_trees_place(const mscclpp_dev_ctx_t *ctx,
                                                             const mscclpp_dev_nodes_args_t *nodes)
{
    mscclpp_dev_tree_place_t place;

    place.nnodes = nodes->nnodes;
    place.node = nodes->node;
    place.root = 0;
    place.tree = ctx->block % 2;
    return place;
}

/*
 * Returns how many turns lie between giving a tile and passing on its result: one turn up and one down for each level
 * above this node, as far as the sets suffice. Equal on all ranks of the node.
 */
MSCCLPP_DEV uint64_t mscclpp_dev_trees_lag(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_args_t *nodes)
{
    mscclpp_dev_tree_place_t place = mscclpp_dev_trees_place(ctx, nodes);
    uint64_t lag = 0;
    uint32_t parent;

    while (lag < MSCCLPP_DEV_NODES_TREES_WINDOW - 2 &&
           (parent = mscclpp_dev_trees_parent(&place)) != MSCCLPP_DEV_TREES_NONE) {
        place.node = parent;
        lag += 2;
    }
    return lag;
}

/* Returns where the data that child 0 or 1 of a node sends up arrive in that node's area. */
MSCCLPP_DEV uint64_t mscclpp_dev_trees_incoming_offset(const mscclpp_dev_nodes_block_t *block,
                                                       const mscclpp_dev_nodes_tile_t *tile, uint32_t child)
{
    return tile->set + (1 + child) * block->tile_units * MSCCLPP_DEV_UNIT;
}

/*
 * Waits for signal `number` of this operation from a node, counted from 1. Called by one thread. If the wait fails,
 * sets ctx->failed.
 */
MSCCLPP_DEV_OUTLINE void mscclpp_dev_trees_await(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_args_t *nodes,
                                                 uint32_t node, uint64_t number)
{
    mscclpp_dev_port_wait_ahead(ctx, &nodes->common, MSCCLPP_DEV_NODES_CHANNEL(nodes, ctx->block, node), number);
}

/*
 * Waits for a tile from `node`, a neighbour in the tree. If `node` signals this node when all meet, its first signal is
 * that of the meeting. Called by one thread. If the wait fails, sets ctx->failed.
 */
MSCCLPP_DEV void mscclpp_dev_trees_await_tile(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_args_t *nodes,
                                              const mscclpp_dev_nodes_tile_t *tile, uint32_t node)
{
    mscclpp_dev_trees_await(ctx, nodes, node,
                            (mscclpp_dev_trees_signals_at_meeting(nodes->nnodes, node, nodes->node) ? 1 : 0) +
                                tile->index + 1);
}

/*
 * Sends what lies in this node's own place of a tile to the place at offset `to` in another node's area, with a signal.
 * Called by one thread.
 */
MSCCLPP_DEV_OUTLINE void mscclpp_dev_trees_put(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_args_t *nodes,
                                               const mscclpp_dev_nodes_tile_t *tile, uint32_t node, uint64_t to)
{
    mscclpp_dev_port_put_with_signal(ctx, &nodes->common, MSCCLPP_DEV_NODES_CHANNEL(nodes, ctx->block, node), to,
                                     tile->set, tile->units * MSCCLPP_DEV_UNIT);
}

/*
 * Meets all other nodes: no node leaves before all have come. Each step exchanges signals with the two nodes at one
 * distance; a signal also tells what the node has learned in the steps before. `is_end`: this is the meeting after the
 * last tile, and the signal awaited from a node is its last one of the operation. Called by all threads. If a wait
 * fails, sets ctx->failed in all of them.
 */
MSCCLPP_DEV void mscclpp_dev_trees_meet_all(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_block_t *block, bool is_end)
{
    const mscclpp_dev_nodes_args_t *nodes = block->nodes;
    const mscclpp_dev_tree_place_t place = mscclpp_dev_trees_place(ctx, nodes);
    uint32_t distance;

    for (distance = 1; distance < nodes->nnodes && ctx->tid == 0 && !ctx->failed; distance *= 2) {
        const uint32_t to = MSCCLPP_DEV_NODES_AHEAD(nodes->nnodes, nodes->node, distance);
        const uint32_t from = MSCCLPP_DEV_NODES_BEHIND(nodes->nnodes, nodes->node, distance);

        mscclpp_dev_port_signal(ctx, &nodes->common, MSCCLPP_DEV_NODES_CHANNEL(nodes, ctx->block, to));
        mscclpp_dev_trees_await(ctx, nodes, from,
                                is_end ? mscclpp_dev_trees_count_signals(&place, from, block->tiles) : 1);
    }
    ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
}

/* Sends a tile's result, which lies in this node's own place, to its children. Called by one thread. */
MSCCLPP_DEV void mscclpp_dev_trees_send_down(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_args_t *nodes,
                                             const mscclpp_dev_tree_place_t *place,
                                             const mscclpp_dev_nodes_tile_t *tile)
{
    uint32_t i;

    for (i = 0; i < MSCCLPP_DEV_TREES_CHILDREN && !ctx->failed; ++i) {
        const uint32_t child = mscclpp_dev_trees_child(place, i);

        if (child != MSCCLPP_DEV_TREES_NONE) {
            mscclpp_dev_trees_put(ctx, nodes, tile, child, tile->set);
        }
    }
}

/*
 * Combines a tile of the first child and, if `has_second`, of the second one with this node's own partial results, in
 * place. The children's data must have arrived. Called by all threads; each combines units of its own.
 */
MSCCLPP_DEV void mscclpp_dev_trees_combine(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_block_t *block,
                                           const mscclpp_dev_nodes_tile_t *tile, bool has_second)
{
    const char *first = block->nodes->exchange + mscclpp_dev_trees_incoming_offset(block, tile, 0);
    const char *second = block->nodes->exchange + mscclpp_dev_trees_incoming_offset(block, tile, 1);
    char *own_results = block->nodes->exchange + tile->set;
    mscclpp_dev_acc_t acc;
    uint64_t unit;

    for (unit = ctx->tid; unit < tile->units; unit += ctx->nthreads) {
        const uint64_t offset = unit * MSCCLPP_DEV_UNIT;

        mscclpp_dev_acc_set(&acc, block->dtype, mscclpp_dev_ld_vec(first + offset));
        if (has_second) {
            mscclpp_dev_acc_add(&acc, block->hot, block->dtype, block->op, mscclpp_dev_ld_vec(second + offset));
        }
        mscclpp_dev_acc_add(&acc, block->hot, block->dtype, block->op, mscclpp_dev_ld_vec(own_results + offset));
        mscclpp_dev_st_vec(own_results + offset, mscclpp_dev_acc_get(&acc, block->dtype));
    }
}

/*
 * Sends a tile up, once those of the children have come and are combined with it; the root sends the result down
 * instead. The node's partial results must be in place. Called by all threads. If a wait fails, sets ctx->failed in all
 * of them, and sends nothing.
 */
MSCCLPP_DEV void mscclpp_dev_trees_go_up(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_block_t *block,
                                         const mscclpp_dev_nodes_tile_t *tile)
{
    const mscclpp_dev_nodes_args_t *nodes = block->nodes;
    const mscclpp_dev_tree_place_t place = mscclpp_dev_trees_place(ctx, nodes);
    const uint32_t parent = mscclpp_dev_trees_parent(&place), first = mscclpp_dev_trees_child(&place, 0),
                   second = mscclpp_dev_trees_child(&place, 1);

    if (first != MSCCLPP_DEV_TREES_NONE) {
        if (ctx->tid == 0) {
            mscclpp_dev_trees_await_tile(ctx, nodes, tile, first);
            if (second != MSCCLPP_DEV_TREES_NONE && !ctx->failed) {
                mscclpp_dev_trees_await_tile(ctx, nodes, tile, second);
            }
        }
        ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
        if (!ctx->failed) {
            mscclpp_dev_trees_combine(ctx, block, tile, second != MSCCLPP_DEV_TREES_NONE);
        }
        mscclpp_dev_block_sync(ctx);
    }
    if (ctx->tid == 0 && !ctx->failed && parent == MSCCLPP_DEV_TREES_NONE) {
        mscclpp_dev_trees_send_down(ctx, nodes, &place, tile);
    } else if (ctx->tid == 0 && !ctx->failed) {
        mscclpp_dev_trees_put(ctx, nodes, tile, parent,
                              mscclpp_dev_trees_incoming_offset(block, tile, mscclpp_dev_trees_child_index(&place)));
    }
    ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
}

/*
 * Waits for a tile's result from the parent, and passes it on to the children. The root has it already. Called by all
 * threads. If the wait fails, sets ctx->failed in all of them, and sends nothing.
 */
MSCCLPP_DEV void mscclpp_dev_trees_go_down(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_block_t *block,
                                           const mscclpp_dev_nodes_tile_t *tile)
{
    const mscclpp_dev_nodes_args_t *nodes = block->nodes;
    const mscclpp_dev_tree_place_t place = mscclpp_dev_trees_place(ctx, nodes);
    const uint32_t parent = mscclpp_dev_trees_parent(&place);

    if (parent == MSCCLPP_DEV_TREES_NONE) {
        return;
    }
    if (ctx->tid == 0) {
        mscclpp_dev_trees_await_tile(ctx, nodes, tile, parent);
        mscclpp_dev_trees_send_down(ctx, nodes, &place, tile);
    }
    ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
}

/*
 * Adds this operation's signals to the numbers that later operations wait for. Called by one thread of an owner, after
 * all exchanges, and also after a failure.
 */
MSCCLPP_DEV void mscclpp_dev_trees_add_signals(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_block_t *block)
{
    const mscclpp_dev_nodes_args_t *nodes = block->nodes;
    const mscclpp_dev_tree_place_t place = mscclpp_dev_trees_place(ctx, nodes);
    uint32_t node;

    for (node = 0; node < nodes->nnodes; ++node) {
        const uint64_t signals = node == nodes->node ? 0 : mscclpp_dev_trees_count_signals(&place, node, block->tiles);

        if (signals > 0) {
            *MSCCLPP_DEV_NODES_CHANNEL(nodes, ctx->block, node)->expected += signals;
        }
    }
}

#endif
