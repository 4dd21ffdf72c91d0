/*
 * The exchange between nodes over two trees, for patterns in which one rank has a block of data for all. Blocks of the
 * grid with even numbers use the first tree, the others the second (lib/nodes_trees.h). An owner on the root's node
 * sends a turn's data to its children in the tree; any other owner passes on what comes from its parent. Data arrive
 * where they would arrive from the root's node without trees, and are sent on from there. An owner that has no data to
 * send in a turn sends a signal only.
 *
 * Signals to a parent are credits. A node returns credit k + 1, counted from 1, when it takes turn k. It says that the
 * node has handed out the data of turn k - 1, and that what it passed on in that turn has left its source, as its
 * children have returned k credits. Turn t uses the places of turn t - 5 (MSCCLPP_DEV_NODES_SETS), so a node sends it
 * once its children have returned t - 3 credits, the last of which says all that about turn t - 5.
 *
 * The nodes meet before the first turn and after the last one, since a node of a tree hears from few others. Before
 * that, no node may use a place that another one may still need for an earlier operation; and all of them have taken
 * all turns when they leave. The signals of a meeting precede and follow the others from the same node.
 */
#ifndef MSCCLPP_DEVICE_KERN_COLL_NODES_TREES_H
#define MSCCLPP_DEVICE_KERN_COLL_NODES_TREES_H

#include "device/kern/coll/nodes_turn.h"
#include "device/lib/nodes_trees.h"
#include "device/lib/port_channel.h"

/* True if the nodes exchange over trees. */
MSCCLPP_DEV bool mscclpp_dev_cn_in_trees(const mscclpp_dev_cn_state_t *state)
{
    return state->args->nodes.pattern == MSCCLPP_DEV_NODES_TREES;
}

/* This node's place in the tree of this block of the grid. */
MSCCLPP_DEV mscclpp_dev_trees_t mscclpp_dev_cn_tree(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_cn_state_t *state)
{
    const mscclpp_dev_coll_nodes_args_t *args = state->args;
    mscclpp_dev_trees_t place;

    place.nnodes = args->nodes.nnodes;
    place.node = args->nodes.node;
    place.root = args->place[args->root].node;
    place.tree = ctx->block % 2;
    return place;
}

/* Waits for signal `number` of this operation from a node, counted from 1. Called by one thread, as is the next. */
MSCCLPP_DEV_OUTLINE void mscclpp_dev_cn_trees_await(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_args_t *nodes,
                                                    uint32_t node, uint64_t number)
{
    mscclpp_dev_port_wait_ahead(ctx, &nodes->common,
                                &nodes->channels[MSCCLPP_DEV_NODES_NUMBER(nodes->nnodes, ctx->block, node)], number);
}

/*
 * Waits until each child has returned `credits` credits. If a child is one of the nodes that signal this one when the
 * nodes meet, its first signal of the operation is that of the meeting, and is no credit.
 */
MSCCLPP_DEV_OUTLINE void mscclpp_dev_cn_trees_await_credits(mscclpp_dev_ctx_t *ctx,
                                                            const mscclpp_dev_nodes_args_t *nodes,
                                                            const mscclpp_dev_trees_t *place, uint64_t credits)
{
    uint32_t i;

    for (i = 0; i < MSCCLPP_DEV_TREES_CHILDREN && !ctx->failed; ++i) {
        const uint32_t child = mscclpp_dev_trees_child(place, i);

        if (child != MSCCLPP_DEV_TREES_NONE) {
            mscclpp_dev_cn_trees_await(ctx, nodes, child,
                                       (mscclpp_dev_trees_meets(nodes->nnodes, child, nodes->node) ? 1 : 0) + credits);
        }
    }
}

/*
 * Meets all other nodes: nobody leaves before all have come. Each step exchanges signals with the nodes at one
 * distance, and passes on what the steps before have told. `is_end`: after the last turn. Of the signals that come from
 * such a node in the operation, the first is that of the meeting at the beginning, and the last that of the meeting at
 * the end. At the end no credit is under way any more either, since a connection must not be closed before all that was
 * sent to this node has arrived. Called by all threads. A failed block does not take part.
 */
MSCCLPP_DEV void mscclpp_dev_cn_trees_meet(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_cn_state_t *state, bool is_end)
{
    const mscclpp_dev_nodes_args_t *nodes = &state->args->nodes;
    const mscclpp_dev_trees_t place = mscclpp_dev_cn_tree(ctx, state);
    uint32_t distance;

    ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
    if (is_end && ctx->tid == 0) {
        mscclpp_dev_cn_trees_await_credits(ctx, nodes, &place, state->turns);
    }
    for (distance = 1; distance < nodes->nnodes && ctx->tid == 0 && !ctx->failed; distance *= 2) {
        const uint32_t to = MSCCLPP_DEV_NODES_AHEAD(nodes->nnodes, nodes->node, distance);
        const uint32_t from = MSCCLPP_DEV_NODES_BEHIND(nodes->nnodes, nodes->node, distance);

        mscclpp_dev_port_signal(ctx, &nodes->common,
                                &nodes->channels[MSCCLPP_DEV_NODES_NUMBER(nodes->nnodes, ctx->block, to)]);
        mscclpp_dev_cn_trees_await(ctx, nodes, from,
                                   is_end ? mscclpp_dev_trees_signals(&place, from, state->turns) : 1);
    }
    ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
}

/*
 * Waits until the places of a turn may be used again, here and on the children. Returns false if this node has nothing
 * to give, as it is not the root's. Called by all threads.
 */
MSCCLPP_DEV bool mscclpp_dev_cn_trees_open(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_cn_state_t *state,
                                           const mscclpp_dev_cn_turn_t *turn)
{
    const mscclpp_dev_trees_t place = mscclpp_dev_cn_tree(ctx, state);

    if (place.node != place.root) {
        return false;
    }
    if (turn->index >= MSCCLPP_DEV_NODES_SETS && ctx->tid == 0) {
        mscclpp_dev_cn_trees_await_credits(ctx, &state->args->nodes, &place, turn->index - 3);
    }
    ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
    return !ctx->failed;
}

/*
 * Sends a turn's data, which lie at `slot`, to the children. A child gets a signal alone if it needs none of the data.
 * The places on the children must be free (see above). Called by one thread.
 */
MSCCLPP_DEV void mscclpp_dev_cn_trees_send(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_cn_state_t *state,
                                           const mscclpp_dev_cn_turn_t *turn, uint64_t slot)
{
    const mscclpp_dev_nodes_args_t *nodes = &state->args->nodes;
    const mscclpp_dev_trees_t place = mscclpp_dev_cn_tree(ctx, state);
    uint32_t i;

    for (i = 0; i < MSCCLPP_DEV_TREES_CHILDREN && !ctx->failed; ++i) {
        const uint32_t child = mscclpp_dev_trees_child(&place, i);

        if (child != MSCCLPP_DEV_TREES_NONE) {
            mscclpp_dev_port_put_with_signal(
                ctx, &nodes->common, &nodes->channels[MSCCLPP_DEV_NODES_NUMBER(nodes->nnodes, ctx->block, child)],
                mscclpp_dev_cn_incoming(state, turn, place.root), slot,
                mscclpp_dev_cn_slot_bytes(state, turn, slot, place.root, child));
        }
    }
}

/*
 * Waits for a turn's data from the parent, and passes them on once the children have the places free. Called by all
 * threads of owners on other nodes than the root's. If a wait fails, sets ctx->failed in all of them, and nothing is
 * passed on.
 */
MSCCLPP_DEV void mscclpp_dev_cn_trees_pass_on(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_cn_state_t *state,
                                              const mscclpp_dev_cn_turn_t *turn)
{
    const mscclpp_dev_nodes_args_t *nodes = &state->args->nodes;
    const mscclpp_dev_trees_t place = mscclpp_dev_cn_tree(ctx, state);

    if (ctx->tid == 0) {
        const uint32_t parent = mscclpp_dev_trees_parent(&place);

        mscclpp_dev_cn_trees_await(ctx, nodes, parent,
                                   (mscclpp_dev_trees_meets(nodes->nnodes, parent, nodes->node) ? 1 : 0) + turn->index +
                                       1);
        if (turn->index >= MSCCLPP_DEV_NODES_SETS) {
            mscclpp_dev_cn_trees_await_credits(ctx, nodes, &place, turn->index - 3);
        }
        mscclpp_dev_cn_trees_send(ctx, state, turn, mscclpp_dev_cn_incoming(state, turn, place.root));
    }
    ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
}

/*
 * Returns the credit of a turn to the parent, after the children's credits that it depends on (see above). The turn's
 * data must be handed out. Called by all threads of owners on other nodes than the root's.
 */
MSCCLPP_DEV void mscclpp_dev_cn_trees_credit(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_cn_state_t *state,
                                             const mscclpp_dev_cn_turn_t *turn)
{
    const mscclpp_dev_nodes_args_t *nodes = &state->args->nodes;
    const mscclpp_dev_trees_t place = mscclpp_dev_cn_tree(ctx, state);

    if (ctx->tid == 0) {
        const uint32_t parent = mscclpp_dev_trees_parent(&place);

        mscclpp_dev_cn_trees_await_credits(ctx, nodes, &place, turn->index);
        if (!ctx->failed) {
            mscclpp_dev_port_signal(ctx, &nodes->common,
                                    &nodes->channels[MSCCLPP_DEV_NODES_NUMBER(nodes->nnodes, ctx->block, parent)]);
        }
    }
    ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
}

#endif
