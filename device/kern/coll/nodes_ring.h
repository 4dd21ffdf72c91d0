/*
 * The exchange between nodes in a ring, for patterns in which each node has one block of data for all others. A node
 * sends only to the next node, so that no link ever carries data that several nodes send to one node.
 *
 * In a turn an owner sends its data to the next node when it gives them, and passes on what comes from the previous
 * node when it takes the turn. These are the data of the previous node, then those of the node before that one, and so
 * on around the ring, n - 1 messages in all. It does not pass on the last message, whose data come from the next node.
 * Data arrive where they would arrive without a ring, and are sent on from there.
 *
 * Each node signals the next one n - 1 times in each turn, whether it has data or not. So a node that has taken a turn
 * has, in effect, heard from all nodes, and sets of slots are used as without a ring (nodes.h): once a node has taken e
 * + 3, all nodes have taken e + 1, and what each of them passed on in e has arrived and has left its source.
 */
#ifndef MSCCLPP_DEVICE_KERN_COLL_NODES_RING_H
#define MSCCLPP_DEVICE_KERN_COLL_NODES_RING_H

#include "device/kern/coll/nodes_turn.h"
#include "device/lib/nodes_ring.h"

/* True if the nodes exchange in a ring. */
MSCCLPP_DEV bool mscclpp_dev_cn_in_ring(const mscclpp_dev_cn_state_t *state)
{
    return state->args->nodes.pattern == MSCCLPP_DEV_NODES_RING;
}

/*
 * The number of the signal that an owner waits for in step `step` of a turn, counted from 1: the predecessor has sent
 * that many signals in this operation once it has sent this one. It gives turn 0, gives turn 1, takes turn 0, gives
 * turn 2, takes turn 1 and so on. It signals once when it gives a turn, and n - 2 times when it takes one. The signal
 * of step 1 is that of giving the turn; those of the further steps belong to taking it, and come after the next turn is
 * given.
 */
MSCCLPP_DEV uint64_t mscclpp_dev_cn_ring_signal_number(const mscclpp_dev_cn_state_t *state,
                                                       const mscclpp_dev_cn_turn_t *turn, uint32_t step)
{
    const uint64_t passed_on_in_a_turn = state->args->nodes.nnodes - 2;
    const uint64_t turns_given = turn->index + 2 < state->turns ? turn->index + 2 : state->turns;

    if (step == 1) {
        return turn->index + 1 + (turn->index > 0 ? turn->index - 1 : 0) * passed_on_in_a_turn;
    }
    return turns_given + turn->index * passed_on_in_a_turn + step - 1;
}

/*
 * Step `step` of taking a turn: waits for the data of the node that is `step` nodes before this one, and passes them on
 * unless the next node is their source. Called by all threads, of which the first one waits and sends. If the wait
 * fails, sets ctx->failed in all of them, and nothing is passed on.
 */
MSCCLPP_DEV void mscclpp_dev_cn_ring_pass_on(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_cn_state_t *state,
                                             const mscclpp_dev_cn_turn_t *turn, uint32_t step)
{
    const mscclpp_dev_nodes_args_t *nodes = &state->args->nodes;
    const uint32_t source = MSCCLPP_DEV_NODES_BEHIND(nodes->nnodes, nodes->node, step);
    const uint32_t to_node = mscclpp_dev_ring_successor(nodes);

    if (ctx->tid == 0) {
        const uint64_t slot = mscclpp_dev_cn_incoming(state, turn, source);

        mscclpp_dev_ring_await(ctx, nodes, mscclpp_dev_cn_ring_signal_number(state, turn, step));
        if (to_node != source && !ctx->failed) {
            mscclpp_dev_ring_put(ctx, nodes, slot, slot, mscclpp_dev_cn_slot_bytes(state, turn, slot, source, to_node));
        }
    }
    ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
}

#endif
