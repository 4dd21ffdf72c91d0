/*
 * The exchange between nodes by recursive halving, for a reduce-scatter, and by recursive doubling, for an all-gather.
 * Its rounds have radix 2 (lib/nodes_rounds.h), for any number of nodes. A turn has one message to another node in each
 * round, and as many rounds as log2 of the number of nodes, rounded up. The message of round 0 is sent in the step
 * `give` of the turn (nodes.h), and the messages of the other rounds in the step `take`.
 *
 * All-gather: a message has the blocks of this node and of nodes before it. Their number doubles in each round.
 *
 * Reduce-scatter: a message has the partial results for its receiver and for nodes behind it. Their number halves in
 * each round. The receiver combines its own partial results for the same nodes with the received results, in this
 * order. The results for the receiver itself are combined only with one another: the rank that gets the result combines
 * them with the partial result of its node. The order depends on the number of nodes alone.
 *
 * A set has a place for each position, so that a message is a run of places, and all nodes know its length. Behind
 * these places, a reduce-scatter has as many places for arriving data.
 *
 * In each turn, a node receives one signal from each node that is a power of 2 before it, always in the same round. So
 * the signals from a node have the numbers of the turns. Sets of slots are used as in nodes.h: a node that has ended
 * the last round of a turn has heard from all nodes, directly or through others. So once a node has taken e + 3, all
 * nodes have given e + 3, and have taken e and e + 1. All data that were put in e have then arrived and have left their
 * sources.
 */
#ifndef MSCCLPP_DEVICE_KERN_COLL_NODES_HALVING_H
#define MSCCLPP_DEVICE_KERN_COLL_NODES_HALVING_H

#include "device/kern/coll/nodes_merge.h"
#include "device/kern/coll/nodes_turn.h"
#include "device/lib/port_channel.h"

/*
 * Returns the rounds of this call, as this node sees them. With radix 2, a node sends one message in each round:
 * message 1.
 */
MSCCLPP_DEV mscclpp_dev_rounds_t mscclpp_dev_coll_nodes_halving_rounds(const mscclpp_dev_coll_nodes_state_t *state)
{
    const mscclpp_dev_coll_nodes_args_t *args = state->args;
    mscclpp_dev_rounds_t scheme;

    scheme.nnodes = args->nodes.nnodes;
    scheme.radix = 2;
    scheme.node = args->nodes.node;
    scheme.root = 0;
    scheme.pattern = args->pattern;
    scheme.rounds = mscclpp_dev_rounds_count(args->nodes.nnodes, 2);
    return scheme;
}

/*
 * Sends the message of a round to the node at the round's distance. The message's data must be in their places, and the
 * block must have synchronised after they were stored. Called by one thread.
 */
MSCCLPP_DEV_OUTLINE void mscclpp_dev_coll_nodes_halving_send(mscclpp_dev_ctx_t *ctx,
                                                             const mscclpp_dev_coll_nodes_state_t *state,
                                                             const mscclpp_dev_coll_nodes_turn_t *turn, uint32_t round)
{
    const mscclpp_dev_nodes_args_t *nodes = &state->args->nodes;
    const mscclpp_dev_rounds_t scheme = mscclpp_dev_coll_nodes_halving_rounds(state);
    const mscclpp_dev_rounds_message_t message = mscclpp_dev_rounds_message(&scheme, scheme.node, round, 1);
    const uint32_t to_node = mscclpp_dev_rounds_behind(&scheme, message.distance);
    const uint64_t pitch = mscclpp_dev_coll_nodes_pitch(state, turn);

    mscclpp_dev_port_put_with_signal(ctx, &nodes->common, MSCCLPP_DEV_NODES_CHANNEL(nodes, ctx->block, to_node),
                                     turn->set + mscclpp_dev_rounds_arrival_place(&scheme, message, round, 1) * pitch,
                                     turn->set + mscclpp_dev_rounds_departure_place(&scheme, message, round, 1) * pitch,
                                     message.count * pitch);
}

/*
 * Combines the partial results that have arrived in a round with this node's partial results at the same positions.
 * Both have the same sizes. In round 0 this node has no results at position 0 yet, so the arrived results are stored
 * there, together with their sizes. A position is skipped if this owner has no results for the position's node in this
 * turn. Called by all threads; each thread combines different units.
 */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_halving_combine(const mscclpp_dev_ctx_t *ctx,
                                                        const mscclpp_dev_coll_nodes_state_t *state,
                                                        const mscclpp_dev_coll_nodes_turn_t *turn,
                                                        const mscclpp_dev_rounds_t *scheme, uint32_t round)
{
    const mscclpp_dev_rounds_message_t message = mscclpp_dev_rounds_message(scheme, scheme->node, round, 1);
    const uint64_t pitch = mscclpp_dev_coll_nodes_pitch(state, turn);
    uint64_t own_offset = turn->set,
             arrived_offset = turn->set + mscclpp_dev_rounds_arrival_place(scheme, message, round, 1) * pitch;
    uint32_t position;

    for (position = 0; position < message.count; ++position, own_offset += pitch, arrived_offset += pitch) {
        const uint32_t for_node = mscclpp_dev_rounds_behind(scheme, position);
        const bool has_own_results = round != 0 || position != 0;
        const uint64_t end = mscclpp_dev_coll_nodes_slot_bytes(state, turn, arrived_offset, scheme->node, for_node);
        /* The sizes at the head are equal, and are not combined. */
        const uint64_t begin = has_own_results ? MSCCLPP_DEV_COLL_NODES_HEAD(mscclpp_dev_coll_nodes_count_blocks(
                                                     state, turn, scheme->node, state->index, for_node))
                                               : 0;
        char *own_results = state->args->nodes.exchange + own_offset;
        const char *received_results = state->args->nodes.exchange + arrived_offset;
        uint64_t offset;

        for (offset = begin + ctx->tid * MSCCLPP_DEV_UNIT; offset < end; offset += ctx->nthreads * MSCCLPP_DEV_UNIT) {
            mscclpp_dev_vec_t value = mscclpp_dev_ld_vec(received_results + offset);
            mscclpp_dev_acc_t acc;

            if (has_own_results) {
                mscclpp_dev_acc_set(&acc, state->dtype, mscclpp_dev_ld_vec(own_results + offset));
                mscclpp_dev_acc_add(&acc, false, state->dtype, state->op, value);
                value = mscclpp_dev_acc_get(&acc, state->dtype);
            }
            mscclpp_dev_st_vec(own_results + offset, value);
        }
    }
}

/*
 * Carries out one round of the step `take` (nodes.h): waits for the round's message, combines its data in a
 * reduce-scatter, and sends the message of the next round. Called by all threads. If the wait fails, sets ctx->failed
 * in all threads, and sends nothing.
 */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_halving_round(mscclpp_dev_ctx_t *ctx,
                                                      const mscclpp_dev_coll_nodes_state_t *state,
                                                      const mscclpp_dev_coll_nodes_turn_t *turn, uint32_t round)
{
    const mscclpp_dev_nodes_args_t *nodes = &state->args->nodes;
    const mscclpp_dev_rounds_t scheme = mscclpp_dev_coll_nodes_halving_rounds(state);
    const uint32_t distance = mscclpp_dev_rounds_digit_value(&scheme, round);
    const uint32_t from_node = mscclpp_dev_rounds_before(&scheme, distance);

    if (ctx->tid == 0) {
        /* The sender signals once in each turn, so its signal number t + 1 of this call belongs to turn t. */
        mscclpp_dev_port_wait_ahead(ctx, &nodes->common, MSCCLPP_DEV_NODES_CHANNEL(nodes, ctx->block, from_node),
                                    turn->index + 1);
    }
    ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
    if (ctx->failed) {
        return;
    }
    if (state->merges) {
        mscclpp_dev_coll_nodes_halving_combine(ctx, state, turn, &scheme, round);
        mscclpp_dev_block_sync(ctx);
    }
    if (ctx->tid == 0 && round + 1 < scheme.rounds) {
        mscclpp_dev_coll_nodes_halving_send(ctx, state, turn, round + 1);
    }
}

#endif
