/*
 * Stores data in the step `give` of a turn (nodes.h): the data that the ranks of a node store for one another, and the
 * data that an owner stores to send them to other nodes.
 *
 * All threads of a block call the functions below together, and divide the units.
 */
#ifndef MSCCLPP_DEVICE_KERN_COLL_NODES_GIVE_H
#define MSCCLPP_DEVICE_KERN_COLL_NODES_GIVE_H

#include "device/kern/coll/nodes_merge.h"
#include "device/kern/coll/nodes_turn.h"

/* Stores the turn's part of this rank's block for `peer`, a rank of its node, into the row of `peer` for this rank. */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_give_near(const mscclpp_dev_ctx_t *ctx,
                                                  const mscclpp_dev_coll_nodes_state_t *state,
                                                  const mscclpp_dev_coll_nodes_turn_t *turn, uint32_t peer)
{
    const mscclpp_dev_coll_nodes_args_t *args = state->args;
    const mscclpp_dev_block_t part =
        mscclpp_dev_coll_nodes_part(args, turn, mscclpp_dev_coll_nodes_send_block(args, peer));

    mscclpp_dev_coll_copy(mscclpp_dev_coll_nodes_row(ctx, state, turn, args->place[peer].index,
                                                     mscclpp_dev_coll_nodes_receive_row(state, turn, args->rank)) +
                              MSCCLPP_DEV_UNIT,
                          (const char *)args->nodes.common.in + part.offset, part.bytes, ctx->tid, ctx->nthreads);
}

/*
 * Stores the turn's part of `block`, a block of this rank, and the part's size into a row of `owner`, which sends the
 * block to `receiver`. The size is stored because the owner knows only the sizes of its own blocks. If one block goes
 * to all receivers, `receiver` is not used.
 */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_relay(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_coll_nodes_state_t *state,
                                              const mscclpp_dev_coll_nodes_turn_t *turn, uint32_t owner,
                                              mscclpp_dev_block_t block, uint32_t receiver)
{
    const mscclpp_dev_coll_nodes_args_t *args = state->args;
    const mscclpp_dev_block_t part = mscclpp_dev_coll_nodes_part(args, turn, block);
    char *row = mscclpp_dev_coll_nodes_row(ctx, state, turn, owner,
                                           mscclpp_dev_coll_nodes_tile_relay_row(state, turn, args->rank, receiver));

    if (ctx->tid == 0) {
        *(uint64_t *)row = part.bytes;
    }
    mscclpp_dev_coll_copy(row + MSCCLPP_DEV_UNIT, (const char *)args->nodes.common.in + part.offset, part.bytes,
                          ctx->tid, ctx->nthreads);
}

/*
 * Gives this rank's block for `peer`, a rank of another node, to the owner that merges it. Does nothing if this rank is
 * that owner, or if it has no block for `peer`.
 */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_give_merger(const mscclpp_dev_ctx_t *ctx,
                                                    const mscclpp_dev_coll_nodes_state_t *state,
                                                    const mscclpp_dev_coll_nodes_turn_t *turn, uint32_t peer)
{
    const mscclpp_dev_coll_nodes_args_t *args = state->args;
    const uint32_t owner = mscclpp_dev_coll_nodes_merger_of(args, turn, peer);

    if (owner != state->index && mscclpp_dev_coll_nodes_sends(args, args->rank, peer)) {
        mscclpp_dev_coll_nodes_relay(ctx, state, turn, owner, mscclpp_dev_coll_nodes_send_block(args, peer), peer);
    }
}

/*
 * Stores this rank's blocks for the ranks of the turn's window, as mscclpp_dev_coll_nodes_give_own does without
 * windows. If `is_relayed`, `owner` sends this rank's blocks for other nodes; otherwise this rank sends them itself. On
 * each node, begins with the rank after this rank, so that the ranks do not all store to the same rank at once.
 */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_give_window(const mscclpp_dev_ctx_t *ctx,
                                                    const mscclpp_dev_coll_nodes_state_t *state,
                                                    const mscclpp_dev_coll_nodes_turn_t *turn, uint32_t owner,
                                                    bool is_relayed)
{
    const mscclpp_dev_coll_nodes_args_t *args = state->args;
    uint32_t distance, i;

    for (distance = turn->first_distance; distance < turn->distances_end; ++distance) {
        const uint32_t node = MSCCLPP_DEV_NODES_AHEAD(args->nodes.nnodes, args->nodes.node, distance);
        const uint32_t node_ranks = args->begin[node + 1] - args->begin[node];

        for (i = 1; i <= node_ranks && (distance == 0 || is_relayed); ++i) {
            const uint32_t peer = args->members[args->begin[node] + (state->index + i) % node_ranks];

            if (distance > 0) {
                mscclpp_dev_coll_nodes_relay(ctx, state, turn, owner, mscclpp_dev_coll_nodes_send_block(args, peer),
                                             peer);
            } else if (peer != args->rank) {
                mscclpp_dev_coll_nodes_give_near(ctx, state, turn, peer);
            }
        }
    }
}

/*
 * Stores this rank's blocks where other ranks of its node need them. Blocks for ranks of the node go into those ranks'
 * rows, and blocks for other nodes into rows of the owner that sends them. Blocks that this rank sends itself stay in
 * the input for now.
 */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_give_own(const mscclpp_dev_ctx_t *ctx,
                                                 const mscclpp_dev_coll_nodes_state_t *state,
                                                 const mscclpp_dev_coll_nodes_turn_t *turn)
{
    const mscclpp_dev_coll_nodes_args_t *args = state->args;
    const uint32_t owner = mscclpp_dev_coll_nodes_owner_of(args, turn, args->rank);
    const bool is_relayed = !state->merges && owner != state->index &&
                            mscclpp_dev_coll_nodes_sends_for(args, turn, args->rank, args->nodes.node, owner);
    uint32_t i;

    if (state->windows > 0) {
        mscclpp_dev_coll_nodes_give_window(ctx, state, turn, owner, is_relayed);
        return;
    }
    /* Each rank begins with the next rank, so that the ranks do not all store to the same rank at once. */
    for (i = 1; i < args->nranks; ++i) {
        const uint32_t peer = args->rank + i < args->nranks ? args->rank + i : args->rank + i - args->nranks;

        if (args->place[peer].node == args->nodes.node) {
            mscclpp_dev_coll_nodes_give_near(ctx, state, turn, peer);
        } else if (state->merges) {
            mscclpp_dev_coll_nodes_give_merger(ctx, state, turn, peer);
        } else if (is_relayed && state->sends_many) {
            mscclpp_dev_coll_nodes_relay(ctx, state, turn, owner, mscclpp_dev_coll_nodes_send_block(args, peer), peer);
        }
    }
    if (is_relayed && !state->sends_many) {
        mscclpp_dev_coll_nodes_relay(ctx, state, turn, owner, mscclpp_dev_coll_nodes_common_block(args), 0);
    }
}

/*
 * Copies the turn's part of the block of `sender` for `receiver` to the place `to` in the exchange area, and sets
 * *size_p to the part's size in bytes. `sender` is this rank, or a rank that has stored the block for this owner.
 * Returns the place for the next block.
 */
MSCCLPP_DEV char *mscclpp_dev_coll_nodes_store_block(const mscclpp_dev_ctx_t *ctx,
                                                     const mscclpp_dev_coll_nodes_state_t *state,
                                                     const mscclpp_dev_coll_nodes_turn_t *turn, uint32_t sender,
                                                     uint32_t receiver, uint32_t *size_p, char *to)
{
    const mscclpp_dev_coll_nodes_args_t *args = state->args;
    mscclpp_dev_block_t part;
    const char *from;

    if (sender == args->rank) {
        part = mscclpp_dev_coll_nodes_part(args, turn,
                                           state->sends_many ? mscclpp_dev_coll_nodes_send_block(args, receiver)
                                                             : mscclpp_dev_coll_nodes_common_block(args));
        from = (const char *)args->nodes.common.in + part.offset;
    } else {
        from = mscclpp_dev_coll_nodes_row(ctx, state, turn, state->index,
                                          mscclpp_dev_coll_nodes_tile_relay_row(state, turn, sender, receiver));
        part.bytes = *(const uint64_t *)from;
        from += MSCCLPP_DEV_UNIT;
    }
    if (ctx->tid == 0) {
        *size_p = (uint32_t)part.bytes;
    }
    mscclpp_dev_coll_copy(to, from, part.bytes, ctx->tid, ctx->nthreads);
    return to + mscclpp_dev_coll_nodes_padded(part.bytes);
}

/*
 * Stores the data that this owner sends to a node in the exchange area: first the sizes of the blocks, then the blocks.
 * If all nodes get the same data, `to_node` may be any node.
 */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_store_for_node(const mscclpp_dev_ctx_t *ctx,
                                                       const mscclpp_dev_coll_nodes_state_t *state,
                                                       const mscclpp_dev_coll_nodes_turn_t *turn, uint32_t to_node)
{
    const mscclpp_dev_coll_nodes_args_t *args = state->args;
    const uint32_t count = mscclpp_dev_coll_nodes_count_blocks(state, turn, args->nodes.node, state->index, to_node);
    char *slot = args->nodes.exchange + mscclpp_dev_coll_nodes_outgoing_offset(state, turn, to_node);
    char *to = slot + MSCCLPP_DEV_COLL_NODES_HEAD(count);
    uint32_t *size_p = (uint32_t *)slot;
    uint32_t i, j;

    if (state->merges) {
        mscclpp_dev_coll_nodes_store_results(ctx, state, turn, to_node, NULL, NULL);
        return;
    }
    for (i = args->begin[args->nodes.node]; i < args->begin[args->nodes.node + 1]; ++i) {
        const uint32_t sender = args->members[i];

        if (!mscclpp_dev_coll_nodes_sends_for(args, turn, sender, args->nodes.node, state->index)) {
            continue;
        }
        if (!state->sends_many) {
            to = mscclpp_dev_coll_nodes_store_block(ctx, state, turn, sender, 0, size_p++, to);
        }
        for (j = args->begin[to_node]; j < args->begin[to_node + 1] && state->sends_many; ++j) {
            to = mscclpp_dev_coll_nodes_store_block(ctx, state, turn, sender, args->members[j], size_p++, to);
        }
    }
}

#endif
