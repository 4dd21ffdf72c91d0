/*
 * The exchange between nodes over two trees, for a broadcast and a reduce (lib/nodes_trees.h). In a broadcast, one rank
 * has a block of data for all ranks. A reduce goes the other way. Blocks of the grid with even numbers use the first
 * tree, and blocks with odd numbers the second tree.
 *
 * Broadcast:
 *
 *   1. An owner on the root's node sends a turn's data to its children in the tree. Any other owner forwards the data
 *      from its parent. Data arrive where they would arrive from the root's node without trees, and are sent on from
 *      there. An owner that has no data to send in a turn sends a signal only.
 *   2. Signals to a parent are credits. A node returns credit k + 1, counted from 1, when it takes turn k. The credit
 *      says that the node has handed out the data of turn k - 1. It also says that the data that the node forwarded in
 *      that turn have left their source, as its children have returned k credits.
 *   3. Turn t uses the places of turn t - 5 (MSCCLPP_DEV_NODES_SETS). So a node sends it once its children have
 *      returned t - 3 credits, the last of which says all that about turn t - 5.
 *
 * The nodes meet before the first turn and after the last turn, because a node of a tree hears from few other nodes.
 * Before the first meeting, no node may use a place that another node may still need for an earlier operation. After
 * the last meeting, all nodes have taken all turns. Of the signals from one node, that of the first meeting comes
 * first, and that of the last meeting comes last.
 *
 * Reduce: data go to the parents and credits to the children.
 *
 *   1. An owner without children sends its node's partial results when it gives a turn.
 *   2. Any other one waits for those of its children when it takes the turn. It combines the first child's, the second
 *      child's and its own, and sends the result to its parent. On the root's node it hands them out instead.
 *   3. A node returns credit k + 1 to its children when it has taken turn k. It has done with their data, which have
 *      arrived, and so have left their source. Turn t uses the places of turn t - 5, so it is sent after credit t - 4.
 */
#ifndef MSCCLPP_DEVICE_KERN_COLL_NODES_TREES_H
#define MSCCLPP_DEVICE_KERN_COLL_NODES_TREES_H

#include "device/kern/coll/nodes_merge.h"
#include "device/kern/coll/nodes_turn.h"
#include "device/lib/port_channel.h"

/*
 * Waits for signal `number` of this operation from a node, counted from 1. If the wait fails, sets ctx->failed. Called
 * by one thread.
 */
MSCCLPP_DEV_OUTLINE void mscclpp_dev_coll_nodes_trees_await(mscclpp_dev_ctx_t *ctx,
                                                            const mscclpp_dev_nodes_args_t *nodes, uint32_t node,
                                                            uint64_t number)
{
    mscclpp_dev_port_wait_ahead(ctx, &nodes->common, MSCCLPP_DEV_NODES_CHANNEL(nodes, ctx->block, node), number);
}

/*
 * Waits until each child in the tree has returned `credits` credits. If a child also signals this node when the nodes
 * meet, its first signal of the operation belongs to the meeting and is not counted as a credit. If a wait fails, sets
 * ctx->failed. Called by one thread.
 */
MSCCLPP_DEV_OUTLINE void mscclpp_dev_coll_nodes_trees_await_credits(mscclpp_dev_ctx_t *ctx,
                                                                    const mscclpp_dev_nodes_args_t *nodes,
                                                                    const mscclpp_dev_tree_place_t *place,
                                                                    uint64_t credits)
{
    uint32_t i;

    for (i = 0; i < MSCCLPP_DEV_TREES_CHILDREN && !ctx->failed; ++i) {
        const uint32_t child = mscclpp_dev_trees_child(place, i);

        if (child != MSCCLPP_DEV_TREES_NONE) {
            mscclpp_dev_coll_nodes_trees_await(
                ctx, nodes, child,
                (mscclpp_dev_trees_signals_at_meeting(nodes->nnodes, child, nodes->node) ? 1 : 0) + credits);
        }
    }
}

/*
 * Waits until the parent has returned `credits` credits, in a reduce. If the parent also signals this node when the
 * nodes meet, its first signal belongs to the meeting and is not counted. Does nothing at the root. If the wait fails,
 * sets ctx->failed. Called by one thread.
 */
MSCCLPP_DEV_OUTLINE void mscclpp_dev_coll_nodes_trees_await_parent(mscclpp_dev_ctx_t *ctx,
                                                                   const mscclpp_dev_nodes_args_t *nodes,
                                                                   const mscclpp_dev_tree_place_t *place,
                                                                   uint64_t credits)
{
    const uint32_t parent = mscclpp_dev_trees_parent(place);

    if (parent != MSCCLPP_DEV_TREES_NONE) {
        mscclpp_dev_coll_nodes_trees_await(
            ctx, nodes, parent,
            (mscclpp_dev_trees_signals_at_meeting(nodes->nnodes, parent, nodes->node) ? 1 : 0) + credits);
    }
}

/*
 * Meets all other nodes: no node leaves before all nodes have come. Each step exchanges signals with the two nodes at
 * one distance, and so passes on what the node has learned in earlier steps. `is_end`: this is the meeting after the
 * last turn. The first signal of the operation from each of these nodes belongs to the meeting at the beginning, and
 * the last signal to the meeting at the end.
 *
 * The meeting at the end also waits until no credit is in transit, because a connection must not be closed before all
 * data sent to this node have arrived. Called by all threads. A failed block does not take part. If a wait fails, sets
 * ctx->failed in all threads.
 */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_trees_meet(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_coll_nodes_state_t *state,
                                                   bool is_end)
{
    const mscclpp_dev_nodes_args_t *nodes = &state->args->nodes;
    const mscclpp_dev_tree_place_t place = mscclpp_dev_coll_nodes_tree_place(ctx, state);
    uint32_t distance;

    ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
    if (is_end && ctx->tid == 0 && state->merges) {
        mscclpp_dev_coll_nodes_trees_await_parent(ctx, nodes, &place, state->turns);
    } else if (is_end && ctx->tid == 0) {
        mscclpp_dev_coll_nodes_trees_await_credits(ctx, nodes, &place, state->turns);
    }
    for (distance = 1; distance < nodes->nnodes && ctx->tid == 0 && !ctx->failed; distance *= 2) {
        const uint32_t to = MSCCLPP_DEV_NODES_AHEAD(nodes->nnodes, nodes->node, distance);
        const uint32_t from = MSCCLPP_DEV_NODES_BEHIND(nodes->nnodes, nodes->node, distance);

        mscclpp_dev_port_signal(ctx, &nodes->common, MSCCLPP_DEV_NODES_CHANNEL(nodes, ctx->block, to));
        mscclpp_dev_coll_nodes_trees_await(ctx, nodes, from,
                                           is_end ? mscclpp_dev_trees_count_signals(&place, from, state->turns) : 1);
    }
    ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
}

/*
 * Waits until the places of a turn may be used again, on this node and on the nodes that get its data. Returns false if
 * this node gives nothing: in a broadcast every node but the root's, and in a reduce a node with children, whose data
 * it needs first. Also returns false, with ctx->failed set in all threads, if a wait fails. Called by all threads.
 */
MSCCLPP_DEV bool mscclpp_dev_coll_nodes_trees_open(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_coll_nodes_state_t *state,
                                                   const mscclpp_dev_coll_nodes_turn_t *turn)
{
    const mscclpp_dev_tree_place_t place = mscclpp_dev_coll_nodes_tree_place(ctx, state);

    if (state->merges ? mscclpp_dev_trees_child(&place, 0) != MSCCLPP_DEV_TREES_NONE : place.node != place.root) {
        return false;
    }
    if (turn->index >= MSCCLPP_DEV_NODES_SETS && ctx->tid == 0 && state->merges) {
        mscclpp_dev_coll_nodes_trees_await_parent(ctx, &state->args->nodes, &place,
                                                  turn->index + 1 - MSCCLPP_DEV_NODES_SETS);
    } else if (turn->index >= MSCCLPP_DEV_NODES_SETS && ctx->tid == 0) {
        mscclpp_dev_coll_nodes_trees_await_credits(ctx, &state->args->nodes, &place,
                                                   turn->index + 2 - MSCCLPP_DEV_NODES_SETS);
    }
    ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
    return !ctx->failed;
}

/*
 * Sends a turn's data, which are at `slot`, to the children. A child that needs none of the data gets only a signal.
 * The places on the children must be free (mscclpp_dev_coll_nodes_trees_await_credits). Called by one thread.
 */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_trees_send(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_coll_nodes_state_t *state,
                                                   const mscclpp_dev_coll_nodes_turn_t *turn, uint64_t slot)
{
    const mscclpp_dev_nodes_args_t *nodes = &state->args->nodes;
    const mscclpp_dev_tree_place_t place = mscclpp_dev_coll_nodes_tree_place(ctx, state);
    uint32_t i;

    for (i = 0; i < MSCCLPP_DEV_TREES_CHILDREN && !ctx->failed; ++i) {
        const uint32_t child = mscclpp_dev_trees_child(&place, i);

        if (child != MSCCLPP_DEV_TREES_NONE) {
            mscclpp_dev_port_put_with_signal(ctx, &nodes->common, MSCCLPP_DEV_NODES_CHANNEL(nodes, ctx->block, child),
                                             mscclpp_dev_coll_nodes_incoming_offset(state, turn, place.root), slot,
                                             mscclpp_dev_coll_nodes_slot_bytes(state, turn, slot, place.root, child));
        }
    }
}

/*
 * Waits for a turn's data from the parent, and sends them to the children once the places on the children are free.
 * Called by all threads of owners on nodes other than the root's. If a wait fails, sets ctx->failed in all threads, and
 * sends nothing.
 */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_trees_pass_on(mscclpp_dev_ctx_t *ctx,
                                                      const mscclpp_dev_coll_nodes_state_t *state,
                                                      const mscclpp_dev_coll_nodes_turn_t *turn)
{
    const mscclpp_dev_nodes_args_t *nodes = &state->args->nodes;
    const mscclpp_dev_tree_place_t place = mscclpp_dev_coll_nodes_tree_place(ctx, state);

    if (ctx->tid == 0) {
        const uint32_t parent = mscclpp_dev_trees_parent(&place);

        mscclpp_dev_coll_nodes_trees_await(
            ctx, nodes, parent,
            (mscclpp_dev_trees_signals_at_meeting(nodes->nnodes, parent, nodes->node) ? 1 : 0) + turn->index + 1);
        if (turn->index >= MSCCLPP_DEV_NODES_SETS) {
            mscclpp_dev_coll_nodes_trees_await_credits(ctx, nodes, &place, turn->index + 2 - MSCCLPP_DEV_NODES_SETS);
        }
        mscclpp_dev_coll_nodes_trees_send(ctx, state, turn,
                                          mscclpp_dev_coll_nodes_incoming_offset(state, turn, place.root));
    }
    ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
}

/*
 * Returns the credit of a turn to the parent. First waits for the children's credits that say that the data of the
 * previous turn have left their source. The turn's data must have been handed out. Called by all threads of owners on
 * nodes other than the root's. If a wait fails, sets ctx->failed in all threads, and returns no credit.
 */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_trees_credit(mscclpp_dev_ctx_t *ctx,
                                                     const mscclpp_dev_coll_nodes_state_t *state,
                                                     const mscclpp_dev_coll_nodes_turn_t *turn)
{
    const mscclpp_dev_nodes_args_t *nodes = &state->args->nodes;
    const mscclpp_dev_tree_place_t place = mscclpp_dev_coll_nodes_tree_place(ctx, state);

    if (ctx->tid == 0) {
        const uint32_t parent = mscclpp_dev_trees_parent(&place);

        mscclpp_dev_coll_nodes_trees_await_credits(ctx, nodes, &place, turn->index);
        if (!ctx->failed) {
            mscclpp_dev_port_signal(ctx, &nodes->common, MSCCLPP_DEV_NODES_CHANNEL(nodes, ctx->block, parent));
        }
    }
    ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
}

/* ---- Reduce ---- */

/*
 * Sends this node's partial results of a turn to the parent, or only a signal if there are none. The results must be
 * stored, and the place on the parent must be free. Called by one thread.
 */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_trees_send_up(mscclpp_dev_ctx_t *ctx,
                                                      const mscclpp_dev_coll_nodes_state_t *state,
                                                      const mscclpp_dev_coll_nodes_turn_t *turn)
{
    const mscclpp_dev_nodes_args_t *nodes = &state->args->nodes;
    const mscclpp_dev_tree_place_t place = mscclpp_dev_coll_nodes_tree_place(ctx, state);
    const uint32_t parent = mscclpp_dev_trees_parent(&place);
    const uint64_t slot = mscclpp_dev_coll_nodes_outgoing_offset(state, turn, place.root);

    mscclpp_dev_port_put_with_signal(ctx, &nodes->common, MSCCLPP_DEV_NODES_CHANNEL(nodes, ctx->block, parent),
                                     mscclpp_dev_coll_nodes_incoming_offset(state, turn, place.node), slot,
                                     mscclpp_dev_coll_nodes_slot_bytes(state, turn, slot, place.node, place.root));
}

/*
 * Waits for a turn's data from the children, and until the places of this node's own partial results may be used again.
 * Returns false if there are no children. Also returns false if a wait fails, and then sets ctx->failed in all threads.
 * Called by all threads.
 */
MSCCLPP_DEV bool mscclpp_dev_coll_nodes_trees_collect(mscclpp_dev_ctx_t *ctx,
                                                      const mscclpp_dev_coll_nodes_state_t *state,
                                                      const mscclpp_dev_coll_nodes_turn_t *turn)
{
    const mscclpp_dev_nodes_args_t *nodes = &state->args->nodes;
    const mscclpp_dev_tree_place_t place = mscclpp_dev_coll_nodes_tree_place(ctx, state);

    if (mscclpp_dev_trees_child(&place, 0) == MSCCLPP_DEV_TREES_NONE) {
        return false;
    }
    if (ctx->tid == 0) {
        mscclpp_dev_coll_nodes_trees_await_credits(ctx, nodes, &place,
                                                   turn->index + 1); /* a child's signals are its data */
        if (turn->index >= MSCCLPP_DEV_NODES_SETS && !ctx->failed) {
            mscclpp_dev_coll_nodes_trees_await_parent(ctx, nodes, &place, turn->index + 1 - MSCCLPP_DEV_NODES_SETS);
        }
    }
    ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
    return !ctx->failed;
}

/*
 * Combines a turn's data of the children with this node's data, in the order first child, second child, this node, and
 * sends the result to the parent. On the root's node combines nothing, because the data have been handed out already.
 * Then returns the turn's credit to the children, whose data are no longer needed. Called by all threads of owners with
 * children, so there is a first child.
 */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_trees_send_combined(mscclpp_dev_ctx_t *ctx,
                                                            const mscclpp_dev_coll_nodes_state_t *state,
                                                            const mscclpp_dev_coll_nodes_turn_t *turn)
{
    const mscclpp_dev_nodes_args_t *nodes = &state->args->nodes;
    const mscclpp_dev_tree_place_t place = mscclpp_dev_coll_nodes_tree_place(ctx, state);
    const uint32_t first = mscclpp_dev_trees_child(&place, 0), second = mscclpp_dev_trees_child(&place, 1);
    uint32_t i;

    if (place.node != place.root) {
        mscclpp_dev_coll_nodes_store_results(
            ctx, state, turn, place.root, nodes->exchange + mscclpp_dev_coll_nodes_incoming_offset(state, turn, first),
            second == MSCCLPP_DEV_TREES_NONE
                ? NULL
                : nodes->exchange + mscclpp_dev_coll_nodes_incoming_offset(state, turn, second));
    }
    mscclpp_dev_block_sync(ctx);
    if (ctx->tid == 0 && place.node != place.root) {
        mscclpp_dev_coll_nodes_trees_send_up(ctx, state, turn);
    }
    for (i = 0; i < MSCCLPP_DEV_TREES_CHILDREN && ctx->tid == 0 && !ctx->failed; ++i) {
        const uint32_t child = mscclpp_dev_trees_child(&place, i);

        if (child != MSCCLPP_DEV_TREES_NONE) {
            mscclpp_dev_port_signal(ctx, &nodes->common, MSCCLPP_DEV_NODES_CHANNEL(nodes, ctx->block, child));
        }
    }
    ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
}

#endif
