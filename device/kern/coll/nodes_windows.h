/*
 * The direct exchange between nodes: each node sends to all other nodes, at once or in windows (lib/nodes_windows.h).
 *
 * Why no slot of an exchange in windows is overwritten too early:
 *
 *   1. A slot that data arrive in is written in turn t + SETS after a credit of its owner. The owner returns it when
 *      all its threads have read the data of turn t.
 *   2. The receiver of what was sent in turn t tells the sender nothing. So each put begins a flush, which has to have
 *      ended before the next data are stored in the slot.
 *   3. The slots are divided anew, among all blocks of the grid, so they may hold data of earlier calls. When a block
 *      has met the blocks of all other nodes, these nodes have begun this call, and so have ended all earlier calls.
 *   4. The meeting at the end does the same for later calls.
 *
 * Why the exchange cannot deadlock: let give t have time 2t and take t time 2t + 3. Then each step waits only for steps
 * of earlier times, on its own node and on other nodes: take t for give t, and give t for take t - SETS. With a small
 * fan-out, give t also waits for give t - 1. Flushes wait for the proxy, which waits for no kernel.
 *
 * All threads of a block call the functions below together, unless a comment says otherwise.
 */
#ifndef MSCCLPP_DEVICE_KERN_COLL_NODES_WINDOWS_H
#define MSCCLPP_DEVICE_KERN_COLL_NODES_WINDOWS_H

#include "device/kern/coll/nodes_turn.h"
#include "device/lib/port_channel.h"

/* Returns this block's channel to a node. */
MSCCLPP_DEV const mscclpp_dev_port_channel_t *
mscclpp_dev_coll_nodes_channel(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_args_t *nodes, uint32_t node)
{
    return MSCCLPP_DEV_NODES_CHANNEL(nodes, ctx->block, node);
}

/* Returns the smallest distance of another node in the turn. */
MSCCLPP_DEV uint32_t mscclpp_dev_coll_nodes_first_other(const mscclpp_dev_coll_nodes_turn_t *turn)
{
    return turn->first_distance == 0 ? 1 : turn->first_distance;
}

/*
 * Waits until this turn's data have arrived from the nodes that are `begin` to `end` - 1 places before this node, in
 * cyclic order. Called by all threads, which divide the nodes among themselves. In windows, does not wait for nodes
 * that never send data. If a wait fails, sets ctx->failed in all threads.
 */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_await(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_coll_nodes_state_t *state,
                                              const mscclpp_dev_coll_nodes_turn_t *turn, uint32_t begin, uint32_t end)
{
    const mscclpp_dev_nodes_args_t *nodes = &state->args->nodes;
    const mscclpp_dev_windows_t windows = mscclpp_dev_coll_nodes_windows(state);
    uint32_t distance;

    for (distance = begin + ctx->tid; distance < end && !ctx->failed; distance += ctx->nthreads) {
        const uint32_t from_node = MSCCLPP_DEV_NODES_BEHIND(nodes->nnodes, nodes->node, distance);

        if (state->windows == 0 || mscclpp_dev_windows_sends(&windows, from_node)) {
            mscclpp_dev_port_wait_ahead(ctx, &nodes->common, mscclpp_dev_coll_nodes_channel(ctx, nodes, from_node),
                                        state->windows == 0
                                            ? turn->index + 1
                                            : mscclpp_dev_windows_data_number(&windows, from_node, turn->index));
        }
    }
    ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
}

/*
 * Sends this turn's data to the other nodes, in batches of at most `fanout` nodes, beginning with the nodes after this
 * node. Before each further batch, waits for the data of as many nodes before this node, so that a node exchanges data
 * with only a few nodes at a time. The threads divide the nodes among themselves; in windows, a thread always sends
 * from the same places of a set. In windows, a node that never sends data signals no node. If a wait fails, sets
 * ctx->failed, and sends no further batch.
 */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_send(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_coll_nodes_state_t *state,
                                             const mscclpp_dev_coll_nodes_turn_t *turn)
{
    const mscclpp_dev_nodes_args_t *nodes = &state->args->nodes;
    const uint64_t first_place = turn->index % MSCCLPP_DEV_COLL_NODES_WINDOW_SETS * MSCCLPP_DEV_COLL_NODES_WINDOW;
    const mscclpp_dev_windows_t windows = mscclpp_dev_coll_nodes_windows(state);
    uint32_t begin, end, distance;

    if (state->windows > 0 && !mscclpp_dev_windows_sends(&windows, nodes->node)) {
        return;
    }
    for (begin = mscclpp_dev_coll_nodes_first_other(turn); begin < turn->distances_end && !ctx->failed; begin = end) {
        end = turn->distances_end - begin < nodes->fanout ? turn->distances_end : begin + nodes->fanout;
        distance = begin + (ctx->tid + ctx->nthreads - (begin - turn->first_distance) % ctx->nthreads) % ctx->nthreads;
        for (; distance < end; distance += ctx->nthreads) {
            const uint32_t to_node = MSCCLPP_DEV_NODES_AHEAD(nodes->nnodes, nodes->node, distance);
            const mscclpp_dev_port_channel_t *channel = mscclpp_dev_coll_nodes_channel(ctx, nodes, to_node);
            const uint64_t from = mscclpp_dev_coll_nodes_outgoing_offset(state, turn, to_node);
            const uint64_t bytes = mscclpp_dev_coll_nodes_slot_bytes(state, turn, from, nodes->node, to_node);

            if (state->windows == 0) {
                mscclpp_dev_port_put_with_signal(ctx, &nodes->common, channel,
                                                 mscclpp_dev_coll_nodes_incoming_offset(state, turn, nodes->node), from,
                                                 bytes);
            } else {
                state->flushes[first_place + distance - turn->first_distance] =
                    mscclpp_dev_port_put_with_signal_flushing(ctx, &nodes->common, channel,
                                                              from + MSCCLPP_DEV_COLL_NODES_WINDOW * state->node_bytes,
                                                              from, bytes);
            }
        }
        if (end < turn->distances_end) {
            mscclpp_dev_coll_nodes_await(ctx, state, turn, begin, end);
        }
    }
}

/* ---- Windows ---- */

/*
 * Meets all other nodes: no node leaves before all nodes have come. Each step exchanges signals with the two nodes at
 * one distance, and so passes on what the node has learned in earlier steps. `is_end`: this is the meeting after the
 * last turn. A failed block does not take part. If a wait fails, sets ctx->failed in all threads.
 */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_windows_meet(mscclpp_dev_ctx_t *ctx,
                                                     const mscclpp_dev_coll_nodes_state_t *state, bool is_end)
{
    const mscclpp_dev_nodes_args_t *nodes = &state->args->nodes;
    const mscclpp_dev_windows_t windows = mscclpp_dev_coll_nodes_windows(state);
    uint32_t distance;

    ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
    for (distance = 1; distance < nodes->nnodes && ctx->tid == 0 && !ctx->failed; distance *= 2) {
        const uint32_t to = MSCCLPP_DEV_NODES_AHEAD(nodes->nnodes, nodes->node, distance);
        const uint32_t from = MSCCLPP_DEV_NODES_BEHIND(nodes->nnodes, nodes->node, distance);

        mscclpp_dev_port_signal(ctx, &nodes->common, mscclpp_dev_coll_nodes_channel(ctx, nodes, to));
        mscclpp_dev_port_wait_ahead(ctx, &nodes->common, mscclpp_dev_coll_nodes_channel(ctx, nodes, from),
                                    is_end ? mscclpp_dev_windows_count_signals(&windows, from) : 1);
    }
    ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
}

/*
 * Waits until the places of a turn may be used again: the places to send from, and the places on the receiving nodes.
 * If two windows have more than `fanout` nodes, first waits for the data of the previous turn. Does nothing on a node
 * that sends no data. If a wait fails, sets ctx->failed in all threads.
 */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_windows_open(mscclpp_dev_ctx_t *ctx,
                                                     const mscclpp_dev_coll_nodes_state_t *state,
                                                     const mscclpp_dev_coll_nodes_turn_t *turn)
{
    const mscclpp_dev_nodes_args_t *nodes = &state->args->nodes;
    const mscclpp_dev_windows_t windows = mscclpp_dev_coll_nodes_windows(state);
    mscclpp_dev_coll_nodes_turn_t earlier;
    uint32_t place, set;

    if (!mscclpp_dev_windows_sends(&windows, nodes->node)) {
        return;
    }
    if (nodes->fanout < 2 * MSCCLPP_DEV_COLL_NODES_WINDOW && turn->index > 0) {
        earlier = mscclpp_dev_coll_nodes_turn(ctx, state, turn->index - 1);
        mscclpp_dev_coll_nodes_await(ctx, state, &earlier, mscclpp_dev_coll_nodes_first_other(&earlier),
                                     earlier.distances_end);
    }
    if (turn->index < MSCCLPP_DEV_COLL_NODES_WINDOW_SETS) {
        return;
    }
    earlier = mscclpp_dev_coll_nodes_turn(ctx, state, turn->index - MSCCLPP_DEV_COLL_NODES_WINDOW_SETS);
    set = (uint32_t)(turn->index % MSCCLPP_DEV_COLL_NODES_WINDOW_SETS);
    for (place = ctx->tid; place < MSCCLPP_DEV_COLL_NODES_WINDOW && !ctx->failed; place += ctx->nthreads) {
        const uint32_t old_distance = earlier.first_distance + place, new_distance = turn->first_distance + place;

        if (old_distance > 0 && old_distance < earlier.distances_end) {
            mscclpp_dev_port_wait_flushed(
                ctx, &nodes->common,
                mscclpp_dev_coll_nodes_channel(ctx, nodes,
                                               MSCCLPP_DEV_NODES_AHEAD(nodes->nnodes, nodes->node, old_distance)),
                state->flushes[set * MSCCLPP_DEV_COLL_NODES_WINDOW + place]);
        }
        if (new_distance > 0 && new_distance < turn->distances_end && !ctx->failed) {
            const uint32_t to_node = MSCCLPP_DEV_NODES_AHEAD(nodes->nnodes, nodes->node, new_distance);

            mscclpp_dev_port_wait_ahead(ctx, &nodes->common, mscclpp_dev_coll_nodes_channel(ctx, nodes, to_node),
                                        mscclpp_dev_windows_credit_number(&windows, to_node, turn->index));
        }
    }
    ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
}

/*
 * Returns the credits of a turn that has been taken to the nodes that will send data to its places. The block must have
 * synchronised after it read the turn's data. The threads divide the nodes among themselves. If a wait for the FIFO
 * fails, sets ctx->failed in all threads.
 */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_windows_credit(mscclpp_dev_ctx_t *ctx,
                                                       const mscclpp_dev_coll_nodes_state_t *state,
                                                       const mscclpp_dev_coll_nodes_turn_t *turn)
{
    const mscclpp_dev_nodes_args_t *nodes = &state->args->nodes;
    const mscclpp_dev_windows_t windows = mscclpp_dev_coll_nodes_windows(state);
    mscclpp_dev_coll_nodes_turn_t later;
    uint32_t distance;

    if (turn->index + MSCCLPP_DEV_COLL_NODES_WINDOW_SETS >= state->turns) {
        return;
    }
    later = mscclpp_dev_coll_nodes_turn(ctx, state, turn->index + MSCCLPP_DEV_COLL_NODES_WINDOW_SETS);
    for (distance = mscclpp_dev_coll_nodes_first_other(&later) + ctx->tid; distance < later.distances_end;
         distance += ctx->nthreads) {
        const uint32_t from_node = MSCCLPP_DEV_NODES_BEHIND(nodes->nnodes, nodes->node, distance);

        if (mscclpp_dev_windows_sends(&windows, from_node)) {
            mscclpp_dev_port_signal(ctx, &nodes->common, mscclpp_dev_coll_nodes_channel(ctx, nodes, from_node));
        }
    }
    ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
}

#endif
