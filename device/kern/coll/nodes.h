/*
 * The collectives other than all-reduce over several nodes. Each block of the grid only meets blocks of the same
 * number: those of its node, and those of one rank of each other node. It handles its tiles of all blocks of data in
 * turns of two steps:
 *
 *   give   Every rank stores its blocks for ranks of its own node into rows of these ranks' scratch. An owner stores
 *          the data for other nodes in its exchange area. These include data that other ranks of its node have given
 *          it. It has them put to the same owner on those nodes.
 *   take   The owner waits for data from other nodes, and hands them to the ranks of its node, into rows of their
 *          scratch. Barrier of the node. Every rank moves the data in its rows to its output, or combines them.
 *
 * The next turn is given before the current one is taken, so that the links stay busy. A block for several ranks of a
 * node crosses the network only once. The blocks of a scan are its operands. Each rank combines them in rank order, as
 * on one node, and so gets the same bits. For reduce and reduce-scatter, an owner receives its node's operands,
 * combines them in rank order, and sends that partial result. The rank that gets the result combines the partial
 * results of all nodes, its own included: in node order if each node sends its own one to that rank's node
 * (nodes_merge.h), else in the order of the exchange, described in the files named below. Partial results travel in the
 * type of the elements; 16-bit floats are rounded to it in between.
 *
 * In each turn, an owner signals all other nodes, even if it has sent nothing. In a ring (nodes_ring.h) it signals only
 * the next one, by halving (nodes_halving.h) one node in each round, and over trees (nodes_trees.h) its parent and its
 * children. So a turn is an exchange like those of an all-reduce, and both use the same sets of slots in turn. They are
 * enough for the same reasons (kern/allreduce/allreduce_nodes.h). Between give e and give e + 5, a block takes e + 3.
 * The sender of e + 3 gave it after it had taken e + 1 at least.
 *
 * Why three sets of rows are enough. Steps follow one another as give t + 2, take t + 1, give t + 3. So other ranks
 * write the rows of turn t + 3 only once they have taken t + 1; this holds for an owner's data to send, too. The rank
 * that has these rows entered the barrier of take t + 1 after it had read the rows of turn t, and the data that it had
 * to send in turn t. The barrier at the beginning ends all earlier use of the bulk area.
 *
 * All threads of a block call the functions below together, unless a comment says otherwise, and divide the units.
 */
#ifndef MSCCLPP_DEVICE_KERN_COLL_NODES_H
#define MSCCLPP_DEVICE_KERN_COLL_NODES_H

#include "device/kern/coll/nodes_halving.h"
#include "device/kern/coll/nodes_merge.h"
#include "device/kern/coll/nodes_ring.h"
#include "device/kern/coll/nodes_trees.h"
#include "device/kern/coll/nodes_turn.h"
#include "device/lib/barrier.h"
#include "device/lib/port_channel.h"
#include "device/lib/reduce.h"

/* ---- Give ---- */

/* Stores the turn's part of this rank's block for `peer`, a rank of its node, into the row of `peer` for this rank. */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_give_near(const mscclpp_dev_ctx_t *ctx,
                                                  const mscclpp_dev_coll_nodes_state_t *state,
                                                  const mscclpp_dev_coll_nodes_turn_t *turn, uint32_t peer)
{
    const mscclpp_dev_coll_nodes_args_t *args = state->args;
    const mscclpp_dev_block_t part =
        mscclpp_dev_coll_nodes_part(args, turn, mscclpp_dev_coll_nodes_send_block(args, peer));

    mscclpp_dev_coll_copy(mscclpp_dev_coll_nodes_row(ctx, state, turn, args->place[peer].index,
                                                     mscclpp_dev_coll_nodes_taken_row(state, turn, args->rank)) +
                              MSCCLPP_DEV_UNIT,
                          (const char *)args->nodes.common.in + part.offset, part.bytes, ctx->tid, ctx->nthreads);
}

/*
 * Stores the turn's part of this rank's block, and its size, into a row of the owner that sends the block to
 * `receiver`. The size is stored because the owner knows only the sizes of its own blocks. If one block goes to all
 * receivers, `receiver` is not used.
 */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_relay(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_coll_nodes_state_t *state,
                                              const mscclpp_dev_coll_nodes_turn_t *turn, uint32_t owner,
                                              mscclpp_dev_block_t block, uint32_t receiver)
{
    const mscclpp_dev_coll_nodes_args_t *args = state->args;
    const mscclpp_dev_block_t part = mscclpp_dev_coll_nodes_part(args, turn, block);
    char *row = mscclpp_dev_coll_nodes_row(ctx, state, turn, owner,
                                           mscclpp_dev_coll_nodes_relay_row(state, args->rank, receiver));

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
                            mscclpp_dev_coll_nodes_is_client(args, turn, args->rank, args->nodes.node, owner);
    uint32_t i;

    /* Each rank begins with the rank after it, so that not all store to the same rank at once. */
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
 * *size_p to its size in bytes. `sender` is this rank, or a rank that has stored the block for this owner. Returns the
 * place for the next block.
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
                                          mscclpp_dev_coll_nodes_relay_row(state, sender, receiver));
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
 * If all nodes get the same data, `to_node` may be any of them.
 */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_store_for_node(const mscclpp_dev_ctx_t *ctx,
                                                       const mscclpp_dev_coll_nodes_state_t *state,
                                                       const mscclpp_dev_coll_nodes_turn_t *turn, uint32_t to_node)
{
    const mscclpp_dev_coll_nodes_args_t *args = state->args;
    const uint32_t count = mscclpp_dev_coll_nodes_count(state, turn, args->nodes.node, state->index, to_node);
    char *slot = args->nodes.exchange + mscclpp_dev_coll_nodes_outgoing(state, turn, to_node);
    char *to = slot + MSCCLPP_DEV_COLL_NODES_HEAD(count);
    uint32_t *size_p = (uint32_t *)slot;
    uint32_t i, j;

    if (state->merges) {
        mscclpp_dev_coll_nodes_store_results(ctx, state, turn, to_node, NULL, NULL);
        return;
    }
    for (i = args->begin[args->nodes.node]; i < args->begin[args->nodes.node + 1]; ++i) {
        const uint32_t sender = args->members[i];

        if (!mscclpp_dev_coll_nodes_is_client(args, turn, sender, args->nodes.node, state->index)) {
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

/*
 * Waits until this turn's data have arrived from the nodes that are `begin` to `end` - 1 places before this one, in
 * cyclic order. Called by all threads, each of which waits for other nodes. If a wait fails, sets ctx->failed in all
 * threads.
 */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_await(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_coll_nodes_state_t *state,
                                              const mscclpp_dev_coll_nodes_turn_t *turn, uint32_t begin, uint32_t end)
{
    const mscclpp_dev_nodes_args_t *nodes = &state->args->nodes;
    uint32_t distance;

    for (distance = begin + ctx->tid; distance < end && !ctx->failed; distance += ctx->nthreads) {
        const uint32_t from_node = (nodes->node + nodes->nnodes - distance) % nodes->nnodes;

        mscclpp_dev_port_wait_ahead(ctx, &nodes->common,
                                    &nodes->channels[MSCCLPP_DEV_NODES_NUMBER(nodes->nnodes, ctx->block, from_node)],
                                    turn->index + 1);
    }
    ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
}

/*
 * Sends this turn's data to the other nodes, in batches of at most `fanout` nodes, beginning with the nodes after this
 * one. Before each further batch, waits for the data of as many nodes before this one, so that a node exchanges data
 * with only a few others at a time. Called by all threads, each of which sends to other nodes. If a wait fails, sets
 * ctx->failed, and sends no further batch.
 */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_send(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_coll_nodes_state_t *state,
                                             const mscclpp_dev_coll_nodes_turn_t *turn)
{
    const mscclpp_dev_nodes_args_t *nodes = &state->args->nodes;
    uint32_t begin, end, distance;

    for (begin = 1; begin < nodes->nnodes && !ctx->failed; begin = end) {
        end = nodes->nnodes - begin < nodes->fanout ? nodes->nnodes : begin + nodes->fanout;
        for (distance = begin + ctx->tid; distance < end; distance += ctx->nthreads) {
            const uint32_t to_node = (nodes->node + distance) % nodes->nnodes;

            mscclpp_dev_port_put_with_signal(
                ctx, &nodes->common, &nodes->channels[MSCCLPP_DEV_NODES_NUMBER(nodes->nnodes, ctx->block, to_node)],
                mscclpp_dev_coll_nodes_incoming(state, turn, nodes->node),
                mscclpp_dev_coll_nodes_outgoing(state, turn, to_node),
                mscclpp_dev_coll_nodes_slot_bytes(state, turn, mscclpp_dev_coll_nodes_outgoing(state, turn, to_node),
                                                  nodes->node, to_node));
        }
        if (end < nodes->nnodes) {
            mscclpp_dev_coll_nodes_await(ctx, state, turn, begin, end);
        }
    }
}

/*
 * Carries out the step `give` of a turn. After the barrier, all ranks have stored the blocks that the owners send for
 * them. If the barrier fails, ctx->failed is set, and nothing is sent. If every node gets the same data, the data are
 * stored only once. In a ring of partial results, only those for the previous node are stored here, because they are
 * sent first. Those for other nodes are combined with data that arrive later. Over trees, a node that only forwards
 * data gives nothing.
 */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_give(mscclpp_dev_ctx_t *ctx, mscclpp_dev_coll_nodes_state_t *state,
                                             const mscclpp_dev_coll_nodes_turn_t *turn)
{
    const mscclpp_dev_nodes_args_t *nodes = &state->args->nodes;
    const uint32_t first = mscclpp_dev_coll_nodes_in_ring(state) && state->merges ? nodes->nnodes - 1 : 1;
    uint32_t i;

    mscclpp_dev_coll_nodes_give_own(ctx, state, turn);
    if (state->any_relayed) {
        mscclpp_dev_barrier(ctx, &nodes->common, ++state->barriers);
    }
    if (!state->is_owner || ctx->failed ||
        (mscclpp_dev_coll_nodes_in_trees(state) && !mscclpp_dev_coll_nodes_trees_open(ctx, state, turn))) {
        return;
    }
    for (i = first; i < nodes->nnodes && (state->sends_many || state->merges || i == 1); ++i) {
        mscclpp_dev_coll_nodes_store_for_node(ctx, state, turn, (nodes->node + i) % nodes->nnodes);
    }
    mscclpp_dev_block_sync(ctx);
    if (nodes->pattern == MSCCLPP_DEV_NODES_DIRECT) {
        mscclpp_dev_coll_nodes_send(ctx, state, turn);
    } else if (ctx->tid != 0) {
        return; /* the first thread sends all other messages */
    } else if (mscclpp_dev_coll_nodes_in_ring(state)) {
        mscclpp_dev_coll_nodes_ring_send(ctx, state, turn);
    } else if (mscclpp_dev_coll_nodes_in_halving(state)) {
        mscclpp_dev_coll_nodes_halving_send(ctx, state, turn, 0);
    } else if (state->merges) {
        mscclpp_dev_coll_nodes_trees_send_up(ctx, state, turn);
    } else {
        mscclpp_dev_coll_nodes_trees_send(ctx, state, turn, mscclpp_dev_coll_nodes_outgoing(state, turn, 0));
    }
}

/* ---- Take ---- */

/* Copies a block of `sender`, or the partial result of its node, to the row of `receiver`, a rank of this node. */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_hand_block(const mscclpp_dev_ctx_t *ctx,
                                                   const mscclpp_dev_coll_nodes_state_t *state,
                                                   const mscclpp_dev_coll_nodes_turn_t *turn, uint32_t sender,
                                                   uint32_t receiver, const char *from, uint32_t bytes)
{
    mscclpp_dev_coll_copy(mscclpp_dev_coll_nodes_row(ctx, state, turn, state->args->place[receiver].index,
                                                     mscclpp_dev_coll_nodes_taken_row(state, turn, sender)) +
                              MSCCLPP_DEV_UNIT,
                          from, bytes, ctx->tid, ctx->nthreads);
}

/*
 * Copies each block that has arrived from a node to the ranks of this node that receive it. The blocks are in the order
 * in which the sender has stored them (mscclpp_dev_coll_nodes_store_for_node).
 */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_hand_out(const mscclpp_dev_ctx_t *ctx,
                                                 const mscclpp_dev_coll_nodes_state_t *state,
                                                 const mscclpp_dev_coll_nodes_turn_t *turn, uint32_t from_node)
{
    const mscclpp_dev_coll_nodes_args_t *args = state->args;
    const uint32_t count = mscclpp_dev_coll_nodes_count(state, turn, from_node, state->index, args->nodes.node);
    const char *slot = args->nodes.exchange + mscclpp_dev_coll_nodes_incoming(state, turn, from_node);
    const char *from = slot + MSCCLPP_DEV_COLL_NODES_HEAD(count);
    const uint32_t *size_p = (const uint32_t *)slot;
    const bool has_data = mscclpp_dev_coll_nodes_flows(state, turn, from_node, state->index, args->nodes.node);
    const uint32_t begin = args->begin[args->nodes.node], end = args->begin[args->nodes.node + 1];
    uint32_t i, j;

    /* If nodes send combined blocks, there is one for each receiver. */
    for (i = begin; i < end && state->merges; ++i) {
        const uint32_t receiver = args->members[i];

        if (mscclpp_dev_coll_nodes_merges_for(args, turn, state->index, receiver, args->nodes.node)) {
            mscclpp_dev_coll_nodes_hand_block(ctx, state, turn, mscclpp_dev_coll_nodes_first_rank(args, from_node),
                                              receiver, from, *size_p);
            from += mscclpp_dev_coll_nodes_padded(*size_p++);
        }
    }
    /* Else there is one for each sender, or for each sender and receiver. */
    for (i = args->begin[from_node]; i < args->begin[from_node + 1] && has_data && !state->merges; ++i) {
        const uint32_t sender = args->members[i];

        if (!mscclpp_dev_coll_nodes_is_client(args, turn, sender, from_node, state->index)) {
            continue;
        }
        for (j = begin; j < end; ++j) {
            const uint32_t receiver = args->members[j];

            if (mscclpp_dev_coll_nodes_sends(args, sender, receiver)) {
                mscclpp_dev_coll_nodes_hand_block(ctx, state, turn, sender, receiver, from, *size_p);
            }
            if (state->sends_many) {
                from += mscclpp_dev_coll_nodes_padded(*size_p++);
            }
        }
        if (!state->sends_many) {
            from += mscclpp_dev_coll_nodes_padded(*size_p++);
        }
    }
}

/* Copies this turn's part of the other ranks' blocks from this rank's rows to the output. */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_move(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_coll_nodes_state_t *state,
                                             const mscclpp_dev_coll_nodes_turn_t *turn)
{
    const mscclpp_dev_coll_nodes_args_t *args = state->args;
    uint32_t sender;

    for (sender = 0; sender < args->nranks; ++sender) {
        const mscclpp_dev_block_t part =
            mscclpp_dev_coll_nodes_part(args, turn, mscclpp_dev_coll_nodes_recv_block(args, sender));

        if (sender != args->rank) {
            mscclpp_dev_coll_copy((char *)args->nodes.common.out + part.offset,
                                  mscclpp_dev_coll_nodes_row(ctx, state, turn, state->index,
                                                             mscclpp_dev_coll_nodes_taken_row(state, turn, sender)) +
                                      MSCCLPP_DEV_UNIT,
                                  part.bytes, ctx->tid, ctx->nthreads);
        }
    }
}

/*
 * Combines this turn's part of the operands of ranks 0 to `end` - 1 in rank order, for scans, and stores the result in
 * the output. This rank's own operand is in the input. The operand of each other rank is in that rank's row of this
 * rank's scratch. `end` is 0 only for rank 0 of an exclusive scan, which has no result, so there are no units.
 */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_combine(const mscclpp_dev_ctx_t *ctx,
                                                const mscclpp_dev_coll_nodes_state_t *state,
                                                const mscclpp_dev_coll_nodes_turn_t *turn, uint32_t end)
{
    const mscclpp_dev_coll_nodes_args_t *args = state->args;
    mscclpp_dev_block_t part = {0, 0}, own_operand;
    mscclpp_dev_acc_t acc;
    mscclpp_dev_vec_t value;
    uint64_t unit;
    uint32_t rank;

    part.bytes = mscclpp_dev_coll_nodes_result_bytes(args);
    part = mscclpp_dev_coll_nodes_part(args, turn, part);
    own_operand = mscclpp_dev_coll_nodes_part(args, turn, mscclpp_dev_coll_nodes_send_block(args, args->rank));
    for (unit = ctx->tid; unit < mscclpp_dev_units(part.bytes); unit += ctx->nthreads) {
        for (rank = 0; rank < end; ++rank) {
            const char *from = rank == args->rank ? (const char *)args->nodes.common.in + own_operand.offset
                                                  : mscclpp_dev_coll_nodes_row(ctx, state, turn, state->index, rank) +
                                                        MSCCLPP_DEV_UNIT;

            value = mscclpp_dev_ld_unit(from, unit, part.bytes);
            if (rank == 0) {
                mscclpp_dev_acc_set(&acc, state->dtype, value);
            } else {
                mscclpp_dev_acc_add(&acc, false, state->dtype, state->op, value);
            }
        }
        mscclpp_dev_st_unit((char *)args->nodes.common.out + part.offset, unit, part.bytes,
                            mscclpp_dev_acc_get(&acc, state->dtype), mscclpp_dev_unit_mask(state->dtype));
    }
}

/*
 * Hands out the data that have arrived from the children in the tree, in a reduce, on the root's node. Does nothing on
 * other nodes.
 */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_hand_out_branches(const mscclpp_dev_ctx_t *ctx,
                                                          const mscclpp_dev_coll_nodes_state_t *state,
                                                          const mscclpp_dev_coll_nodes_turn_t *turn)
{
    const mscclpp_dev_tree_place_t place = mscclpp_dev_coll_nodes_tree_place(ctx, state);
    uint32_t i;

    for (i = 0; i < MSCCLPP_DEV_TREES_CHILDREN && place.node == place.root; ++i) {
        const uint32_t child = mscclpp_dev_trees_child(&place, i);

        if (child != MSCCLPP_DEV_TREES_NONE) {
            mscclpp_dev_coll_nodes_hand_out(ctx, state, turn, child);
        }
    }
}

/*
 * Carries out the rounds of a turn, by halving or doubling. In an all-gather, blocks are handed out in the round in
 * which they arrive. Round r brings the blocks of the nodes that are 2^r to 2^(r + 1) - 1 places before this one. In a
 * reduce-scatter, the partial results are handed out at the end, when all are combined, as if they had come from the
 * next node. If a wait fails, ctx->failed is set, and nothing more is handed out.
 */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_receive_in_rounds(mscclpp_dev_ctx_t *ctx,
                                                          const mscclpp_dev_coll_nodes_state_t *state,
                                                          const mscclpp_dev_coll_nodes_turn_t *turn)
{
    const uint32_t nnodes = state->args->nodes.nnodes, node = state->args->nodes.node;
    const uint32_t rounds = mscclpp_dev_rounds_count(nnodes, 2);
    uint32_t round, begin, distance;

    for (round = 0, begin = 1; round < rounds && !ctx->failed; ++round, begin *= 2) {
        mscclpp_dev_coll_nodes_halving_round(ctx, state, turn, round);
        for (distance = begin; distance < 2 * begin && distance < nnodes && !ctx->failed && !state->merges;
             ++distance) {
            mscclpp_dev_coll_nodes_hand_out(ctx, state, turn, MSCCLPP_DEV_NODES_BEHIND(nnodes, node, distance));
        }
    }
    if (!ctx->failed && state->merges) {
        mscclpp_dev_coll_nodes_hand_out(ctx, state, turn, MSCCLPP_DEV_NODES_AHEAD(nnodes, node, 1));
    }
}

/*
 * Waits for a turn's data from other nodes, forwards them if the pattern requires this, and hands them out. Over trees,
 * a reduce gets data from the children, and a broadcast from the parent, except on the root's node. By halving, data
 * arrive round by round, and in a ring step by step. Called by all threads of owners. After a failed wait nothing more
 * is handed out.
 */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_receive(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_coll_nodes_state_t *state,
                                                const mscclpp_dev_coll_nodes_turn_t *turn)
{
    const mscclpp_dev_coll_nodes_args_t *args = state->args;
    const uint32_t nnodes = args->nodes.nnodes, root_node = args->place[args->root].node;
    uint32_t distance;

    if (mscclpp_dev_coll_nodes_in_trees(state) && state->merges) {
        if (mscclpp_dev_coll_nodes_trees_collect(ctx, state, turn)) {
            mscclpp_dev_coll_nodes_hand_out_branches(ctx, state, turn);
            mscclpp_dev_coll_nodes_trees_send_combined(ctx, state, turn);
        }
        return;
    }
    if (mscclpp_dev_coll_nodes_in_trees(state) && args->nodes.node != root_node) {
        mscclpp_dev_coll_nodes_trees_pass_on(ctx, state, turn);
        if (!ctx->failed) {
            mscclpp_dev_coll_nodes_hand_out(ctx, state, turn, root_node);
            mscclpp_dev_coll_nodes_trees_credit(ctx, state, turn);
        }
    }
    if (mscclpp_dev_coll_nodes_in_halving(state)) {
        mscclpp_dev_coll_nodes_receive_in_rounds(ctx, state, turn);
    }
    if (mscclpp_dev_coll_nodes_in_trees(state) || mscclpp_dev_coll_nodes_in_halving(state)) {
        return;
    }
    if (!mscclpp_dev_coll_nodes_in_ring(state)) {
        mscclpp_dev_coll_nodes_await(ctx, state, turn, 1, nnodes);
    }
    for (distance = 1; distance < nnodes && !ctx->failed; ++distance) {
        if (mscclpp_dev_coll_nodes_in_ring(state)) {
            mscclpp_dev_coll_nodes_ring_pass_on(ctx, state, turn, distance);
        }
        /* In a ring, only the partial results of the last step are for this node. */
        if (!ctx->failed && !(mscclpp_dev_coll_nodes_in_ring(state) && state->merges && distance + 1 < nnodes)) {
            mscclpp_dev_coll_nodes_hand_out(ctx, state, turn,
                                            MSCCLPP_DEV_NODES_BEHIND(nnodes, args->nodes.node, distance));
        }
    }
}

/*
 * Carries out the step `take` of a turn. Before the barrier, owners receive the blocks of other nodes and hand them
 * out. After the barrier, all rows of this rank are filled, and it moves or combines them into its output. A scan
 * combines the operands up to this rank's own one or, if exclusive, up to the one before. If a wait fails, ctx->failed
 * is set, and this turn's part of the output is not written.
 */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_take(mscclpp_dev_ctx_t *ctx, mscclpp_dev_coll_nodes_state_t *state,
                                             const mscclpp_dev_coll_nodes_turn_t *turn)
{
    const mscclpp_dev_coll_nodes_args_t *args = state->args;

    if (state->is_owner) {
        mscclpp_dev_coll_nodes_receive(ctx, state, turn);
    }
    mscclpp_dev_barrier(ctx, &args->nodes.common, ++state->barriers);
    if (!ctx->failed && state->merges) {
        mscclpp_dev_coll_nodes_combine_nodes(ctx, state, turn);
    } else if (!ctx->failed && MSCCLPP_DEV_COMBINES(args->pattern)) {
        mscclpp_dev_coll_nodes_combine(ctx, state, turn,
                                       args->pattern == MSCCLPP_DEV_SCAN ? args->rank + 1 : args->rank);
    } else if (!ctx->failed) {
        mscclpp_dev_coll_nodes_move(ctx, state, turn);
    }
}

/* ---- The whole ---- */

/*
 * Runs the kernel: gives and takes all turns, then copies this rank's own block. Blocks of the grid without turns only
 * copy. After a failure no further turn begins, and the output is incomplete. The counts are advanced even then.
 */
MSCCLPP_DEV void mscclpp_dev_coll_nodes(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_coll_nodes_args_t *args, int dtype,
                                        int op)
{
    const mscclpp_dev_nodes_args_t *nodes = &args->nodes;
    const mscclpp_dev_args_t *common = &nodes->common;
    const uint64_t launches = mscclpp_dev_last_launch(ctx, common);
    const uint32_t epoch = mscclpp_dev_last_epoch(ctx, common);
    const uint64_t barriers_before = mscclpp_dev_last_barrier(ctx, common);
    const uint64_t tiles = (args->most + args->tile - 1) / args->tile;
    mscclpp_dev_coll_nodes_state_t state;
    mscclpp_dev_coll_nodes_turn_t turn;
    uint64_t index;
    bool meets; /* this block meets those of other nodes before its first turn and after its last one */

    mscclpp_dev_enter(ctx, common);
    mscclpp_dev_coll_nodes_begin(&state, args, dtype, op);
    state.relay_row = args->pattern == MSCCLPP_DEV_REDUCE
                          ? 0
                          : MSCCLPP_DEV_COLL_NODES_TAKEN(args->pattern, nodes->pattern, args->nranks, nodes->nnodes,
                                                         nodes->largest_node);
    state.set_rows = MSCCLPP_DEV_COLL_NODES_TILE_ROWS(args->pattern, nodes->pattern, args->nranks, nodes->nnodes,
                                                      nodes->largest_node, nodes->shards);
    state.node_bytes = MSCCLPP_DEV_COLL_NODES_ROOM(args->pattern, nodes->pattern, nodes->nnodes, nodes->slot_size);
    state.any_relayed = mscclpp_dev_coll_nodes_any_relayed(args);
    state.exchanged = state.is_owner ? nodes->exchanged[ctx->block] : 0;
    state.barriers = barriers_before;
    state.turns = ctx->block < tiles ? (tiles - ctx->block + ctx->nblocks - 1) / ctx->nblocks : 0;
    meets = mscclpp_dev_coll_nodes_in_trees(&state) && state.is_owner && state.turns > 0;
    if (state.turns > 0) {
        mscclpp_dev_barrier(ctx, common, ++state.barriers);
    }
    if (meets) {
        mscclpp_dev_coll_nodes_trees_meet(ctx, &state, false);
    }
    /* Each turn is given before the one before it is taken, so that the links stay busy. */
    for (index = 0; index <= state.turns && state.turns > 0 && !ctx->failed; ++index) {
        if (index < state.turns) {
            turn = mscclpp_dev_coll_nodes_turn(ctx, &state, index);
            mscclpp_dev_coll_nodes_give(ctx, &state, &turn);
            ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
        }
        if (index > 0 && !ctx->failed) {
            turn = mscclpp_dev_coll_nodes_turn(ctx, &state, index - 1);
            mscclpp_dev_coll_nodes_take(ctx, &state, &turn);
        }
    }
    if (meets) {
        mscclpp_dev_coll_nodes_trees_meet(ctx, &state, true);
    }
    if (!ctx->failed) {
        mscclpp_dev_coll_nodes_copy_own(ctx, args);
    }
    mscclpp_dev_block_sync(ctx);
    if (state.is_owner && ctx->tid == 0) {
        mscclpp_dev_coll_nodes_count_exchanges(ctx, &state);
    }
    mscclpp_dev_finish(ctx, common, launches, epoch, barriers_before, state.barriers);
}

#endif
