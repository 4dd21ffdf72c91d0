/*
 * The exchange between nodes in a ring, for an all-gather and a reduce-scatter. A node sends only to the next node, so
 * that no link ever carries data that several nodes send to one node.
 *
 * An owner sends a message to the next node when it gives a turn. When it takes the turn, it passes on the messages
 * from the previous node, in n - 1 steps. Step k, counted from 1, receives the message that began k nodes before this
 * node. The message of the last step began at the next node, and is not passed on.
 *
 * All-gather: a node's message has its own data, which do not change on the way. Data arrive where they would arrive
 * without a ring, and are sent on from there.
 *
 * Reduce-scatter: a message that begins at node d + 1 has the partial results for node d, which receives it last. Each
 * node on the way combines the received results with its own results, in this order. So results for node d are combined
 * in the order d + 1, d + 2, ... d. The combined results lie at the place from which this node would send its partial
 * results for node d without a ring.
 *
 * Each node signals the next node n - 1 times in each turn, whether it has data or not. So a node that has taken a turn
 * has, in effect, heard from all nodes, and sets of slots are used as without a ring (nodes.h). Once a node has taken e
 * + 3, all nodes have taken e + 1. So all data that were passed on in e have arrived and have left their sources.
 */
#ifndef MSCCLPP_DEVICE_KERN_COLL_NODES_RING_H
#define MSCCLPP_DEVICE_KERN_COLL_NODES_RING_H

#include "device/kern/coll/nodes_merge.h"
#include "device/kern/coll/nodes_turn.h"
#include "device/lib/nodes_ring.h"

/*
 * Returns the number of the signal for which an owner waits in step `step` of a turn. Signals from the predecessor are
 * counted from 1 in each operation, and steps from 1 in each turn.
 *
 * The predecessor gives turn 0, gives turn 1, takes turn 0, gives turn 2, takes turn 1 and so on. It signals once when
 * it gives a turn, and n - 2 times when it takes a turn. It sends the signal of step 1 when it gives the turn, and the
 * signals of the further steps when it takes the turn, after it has given the next turn.
 */
MSCCLPP_DEV uint64_t mscclpp_dev_coll_nodes_ring_signal_number(const mscclpp_dev_coll_nodes_state_t *state,
                                                               const mscclpp_dev_coll_nodes_turn_t *turn, uint32_t step)
{
    const uint64_t passed_on_per_turn = state->args->nodes.nnodes - 2;
    const uint64_t turns_given = turn->index + 2 < state->turns ? turn->index + 2 : state->turns;

    if (step == 1) {
        return turn->index + 1 + (turn->index > 0 ? turn->index - 1 : 0) * passed_on_per_turn;
    }
    return turns_given + turn->index * passed_on_per_turn + step - 1;
}

/* Sends the message with which this node begins a turn. The message's data must be stored. Called by one thread. */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_ring_send(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_coll_nodes_state_t *state,
                                                  const mscclpp_dev_coll_nodes_turn_t *turn)
{
    const mscclpp_dev_nodes_args_t *nodes = &state->args->nodes;
    const uint32_t for_node = state->merges ? mscclpp_dev_ring_predecessor(nodes) : mscclpp_dev_ring_successor(nodes);
    const uint64_t slot = mscclpp_dev_coll_nodes_outgoing_offset(state, turn, for_node);

    mscclpp_dev_ring_put(ctx, nodes, mscclpp_dev_coll_nodes_incoming_offset(state, turn, nodes->node), slot,
                         mscclpp_dev_coll_nodes_slot_bytes(state, turn, slot, nodes->node, for_node));
}

/*
 * Carries out step `step` of taking a turn: waits for the message that began `step` nodes before this node, and sends
 * it to the successor unless it began there. In a reduce-scatter, first combines the message with this node's partial
 * results. Called by all threads, of which thread 0 waits and sends. If the wait fails, sets ctx->failed in all
 * threads, and sends nothing.
 */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_ring_pass_on(mscclpp_dev_ctx_t *ctx,
                                                     const mscclpp_dev_coll_nodes_state_t *state,
                                                     const mscclpp_dev_coll_nodes_turn_t *turn, uint32_t step)
{
    const mscclpp_dev_nodes_args_t *nodes = &state->args->nodes;
    const uint32_t source = MSCCLPP_DEV_NODES_BEHIND(nodes->nnodes, nodes->node, step);
    const uint32_t for_node =
        state->merges ? MSCCLPP_DEV_NODES_BEHIND(nodes->nnodes, source, 1) : mscclpp_dev_ring_successor(nodes);
    const uint64_t arrived = mscclpp_dev_coll_nodes_incoming_offset(state, turn, source);
    const uint64_t slot = state->merges ? mscclpp_dev_coll_nodes_outgoing_offset(state, turn, for_node) : arrived;
    const bool goes_on = source != mscclpp_dev_ring_successor(nodes);

    if (ctx->tid == 0) {
        mscclpp_dev_ring_await(ctx, nodes, mscclpp_dev_coll_nodes_ring_signal_number(state, turn, step));
    }
    if (goes_on && state->merges) {
        ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
        if (!ctx->failed) {
            mscclpp_dev_coll_nodes_store_results(ctx, state, turn, for_node, nodes->exchange + arrived, NULL);
        }
        mscclpp_dev_block_sync(ctx);
    }
    if (ctx->tid == 0 && goes_on && !ctx->failed) {
        mscclpp_dev_ring_put(ctx, nodes, arrived, slot,
                             mscclpp_dev_coll_nodes_slot_bytes(state, turn, slot, source, for_node));
    }
    ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
}

#endif
