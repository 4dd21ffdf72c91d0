/*
 * The collectives other than all-reduce over several nodes. Block i of the grid meets only block i of other ranks: of
 * all ranks of its node, and of one rank of each other node. It handles its tiles of all blocks of data in turns of two
 * steps:
 *
 *   give   Every rank stores its blocks for ranks of its own node into rows of these ranks' scratch. An owner stores
 *          the data for other nodes in its exchange area. These include data that other ranks of its node have given
 *          it. It has them put to the same owner on those nodes.
 *   take   The owner waits for data from other nodes, and hands them to the ranks of its node, into rows of their
 *          scratch. Barrier of the node. Every rank moves the data in its rows to its output, or combines them.
 *
 * The next turn is given before the current turn is taken, so that the links stay busy. A block for several ranks of a
 * node crosses the network only once.
 *
 * The blocks of a scan are its operands. Each rank combines them in rank order, as on one node, and so gets the same
 * bits. For reduce and reduce-scatter, an owner receives its node's operands, combines them in rank order, and sends
 * this partial result. The rank that gets the result combines the partial results of all nodes, its own included. If
 * each node sends its own partial result to that rank's node, they are combined in node order (nodes_merge.h).
 * Otherwise the exchange determines the order, as the files named below describe. Partial results travel in the type of
 * the elements, so 16-bit floats are rounded in between.
 *
 * In each turn, an owner signals all other nodes, even if it has sent nothing. With many nodes, blocks that differ from
 * node to node may go in windows, so that a turn is for some of the nodes (nodes_windows.h). In a ring (nodes_ring.h)
 * the owner signals only the next node, by halving (nodes_halving.h) one node in each round, and over trees
 * (nodes_trees.h) its parent and its children. So a turn is an exchange like those of an all-reduce, and both use the
 * same sets of slots in a cycle. The sets are enough for the same reasons (kern/allreduce/allreduce_nodes.h). Between
 * give e and give e + 5, a block takes e + 3. The sender of turn e + 3 gave it after it had taken at least e + 1.
 *
 * Why three sets of rows are enough. The order of the steps is give t + 2, take t + 1, give t + 3. So other ranks write
 * the rows of turn t + 3, and an owner's data to send, only after they have taken t + 1. The rank that has these rows
 * entered the barrier of take t + 1 after it had read the rows of turn t, and the data that it had to send in turn t.
 * After the barrier at the beginning, no earlier operation uses the bulk area.
 *
 * All threads of a block call the functions below together, unless a comment says otherwise, and divide the units.
 */
#ifndef MSCCLPP_DEVICE_KERN_COLL_NODES_H
#define MSCCLPP_DEVICE_KERN_COLL_NODES_H

#include "device/kern/coll/nodes_give.h"
#include "device/kern/coll/nodes_halving.h"
#include "device/kern/coll/nodes_merge.h"
#include "device/kern/coll/nodes_ring.h"
#include "device/kern/coll/nodes_trees.h"
#include "device/kern/coll/nodes_turn.h"
#include "device/kern/coll/nodes_windows.h"
#include "device/lib/barrier.h"
#include "device/lib/port_channel.h"
#include "device/lib/reduce.h"

/* ---- Give ---- */

/*
 * Carries out the step `give` of a turn. After the barrier, all ranks have stored the blocks that the owners send for
 * them. If the barrier fails, ctx->failed is set, and nothing is sent. If every node gets the same data, the data are
 * stored only once. In a ring of partial results, only the results for the previous node are stored here, because they
 * are sent first; the results for other nodes are combined with data that arrive later. Over trees, a node that only
 * forwards data gives nothing.
 */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_give(mscclpp_dev_ctx_t *ctx, mscclpp_dev_coll_nodes_state_t *state,
                                             const mscclpp_dev_coll_nodes_turn_t *turn)
{
    const mscclpp_dev_nodes_args_t *nodes = &state->args->nodes;
    const uint32_t first = mscclpp_dev_coll_nodes_in_ring(state) && state->merges
                               ? nodes->nnodes - 1
                               : mscclpp_dev_coll_nodes_first_other(turn);
    uint32_t i;

    mscclpp_dev_coll_nodes_give_own(ctx, state, turn);
    if (state->any_relayed) {
        mscclpp_dev_barrier(ctx, &nodes->common, ++state->barriers);
    }
    if (state->windows > 0 && state->is_owner && !ctx->failed) {
        mscclpp_dev_coll_nodes_windows_open(ctx, state, turn);
    }
    if (!state->is_owner || ctx->failed ||
        (mscclpp_dev_coll_nodes_in_trees(state) && !mscclpp_dev_coll_nodes_trees_open(ctx, state, turn))) {
        return;
    }
    for (i = first; i < turn->distances_end && (state->sends_many || state->merges || i == 1); ++i) {
        mscclpp_dev_coll_nodes_store_for_node(ctx, state, turn, (nodes->node + i) % nodes->nnodes);
    }
    mscclpp_dev_block_sync(ctx);
    if (nodes->pattern == MSCCLPP_DEV_NODES_DIRECT || state->windows > 0) {
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
        mscclpp_dev_coll_nodes_trees_send(ctx, state, turn, mscclpp_dev_coll_nodes_outgoing_offset(state, turn, 0));
    }
}

/* ---- Take ---- */

/*
 * Copies a block of `sender` to the row of `receiver`, a rank of this node. If nodes send partial results, `sender` is
 * the first rank of a node, and the block is its node's partial result.
 */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_hand_block(const mscclpp_dev_ctx_t *ctx,
                                                   const mscclpp_dev_coll_nodes_state_t *state,
                                                   const mscclpp_dev_coll_nodes_turn_t *turn, uint32_t sender,
                                                   uint32_t receiver, const char *from, uint32_t bytes)
{
    mscclpp_dev_coll_copy(mscclpp_dev_coll_nodes_row(ctx, state, turn, state->args->place[receiver].index,
                                                     mscclpp_dev_coll_nodes_receive_row(state, turn, sender)) +
                              MSCCLPP_DEV_UNIT,
                          from, bytes, ctx->tid, ctx->nthreads);
}

/*
 * Copies each block that has arrived from node `from_node` to the ranks of this node that receive it. The blocks are in
 * the order of mscclpp_dev_coll_nodes_store_for_node.
 */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_hand_out(const mscclpp_dev_ctx_t *ctx,
                                                 const mscclpp_dev_coll_nodes_state_t *state,
                                                 const mscclpp_dev_coll_nodes_turn_t *turn, uint32_t from_node)
{
    const mscclpp_dev_coll_nodes_args_t *args = state->args;
    const uint32_t count = mscclpp_dev_coll_nodes_count_blocks(state, turn, from_node, state->index, args->nodes.node);
    const char *slot = args->nodes.exchange + mscclpp_dev_coll_nodes_incoming_offset(state, turn, from_node);
    const char *from = slot + MSCCLPP_DEV_COLL_NODES_HEAD(count);
    const uint32_t *size_p = (const uint32_t *)slot;
    const bool has_data = mscclpp_dev_coll_nodes_has_data(state, turn, from_node, state->index, args->nodes.node);
    const uint32_t begin = args->begin[args->nodes.node], end = args->begin[args->nodes.node + 1];
    uint32_t i, j;

    /* If nodes send combined blocks, there is one block for each receiver. */
    for (i = begin; i < end && state->merges; ++i) {
        const uint32_t receiver = args->members[i];

        if (mscclpp_dev_coll_nodes_merges_for(args, turn, state->index, receiver, args->nodes.node)) {
            mscclpp_dev_coll_nodes_hand_block(ctx, state, turn, mscclpp_dev_coll_nodes_first_rank(args, from_node),
                                              receiver, from, *size_p);
            from += mscclpp_dev_coll_nodes_padded(*size_p++);
        }
    }
    /* Otherwise there is one block for each sender, or for each sender and receiver. */
    for (i = args->begin[from_node]; i < args->begin[from_node + 1] && has_data && !state->merges; ++i) {
        const uint32_t sender = args->members[i];

        if (!mscclpp_dev_coll_nodes_sends_for(args, turn, sender, from_node, state->index)) {
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

/*
 * Copies this turn's part of the block of `sender` from this rank's row to the output. Does nothing if `sender` is this
 * rank.
 */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_move_from(const mscclpp_dev_ctx_t *ctx,
                                                  const mscclpp_dev_coll_nodes_state_t *state,
                                                  const mscclpp_dev_coll_nodes_turn_t *turn, uint32_t sender)
{
    const mscclpp_dev_coll_nodes_args_t *args = state->args;
    const mscclpp_dev_block_t part =
        mscclpp_dev_coll_nodes_part(args, turn, mscclpp_dev_coll_nodes_recv_block(args, sender));

    if (sender != args->rank) {
        mscclpp_dev_coll_copy((char *)args->nodes.common.out + part.offset,
                              mscclpp_dev_coll_nodes_row(ctx, state, turn, state->index,
                                                         mscclpp_dev_coll_nodes_receive_row(state, turn, sender)) +
                                  MSCCLPP_DEV_UNIT,
                              part.bytes, ctx->tid, ctx->nthreads);
    }
}

/* Copies this turn's part of the other ranks' blocks from this rank's rows to the output. */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_move(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_coll_nodes_state_t *state,
                                             const mscclpp_dev_coll_nodes_turn_t *turn)
{
    const mscclpp_dev_coll_nodes_args_t *args = state->args;
    uint32_t sender, distance, i;

    for (distance = turn->first_distance; distance < turn->distances_end && state->windows > 0; ++distance) {
        const uint32_t node = MSCCLPP_DEV_NODES_BEHIND(args->nodes.nnodes, args->nodes.node, distance);

        for (i = args->begin[node]; i < args->begin[node + 1]; ++i) {
            mscclpp_dev_coll_nodes_move_from(ctx, state, turn, args->members[i]);
        }
    }
    for (sender = 0; sender < args->nranks && state->windows == 0; ++sender) {
        mscclpp_dev_coll_nodes_move_from(ctx, state, turn, sender);
    }
}

/*
 * Combines this turn's part of the operands of ranks 0 to `ranks_end` - 1 in rank order, for scans, and stores the
 * result in the output. This rank's own operand is in the input. The operand of each other rank is in that rank's row
 * of this rank's scratch. `ranks_end` is 0 only on rank 0 of an exclusive scan, which has no result and so no units.
 */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_combine_scan(const mscclpp_dev_ctx_t *ctx,
                                                     const mscclpp_dev_coll_nodes_state_t *state,
                                                     const mscclpp_dev_coll_nodes_turn_t *turn, uint32_t ranks_end)
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
        for (rank = 0; rank < ranks_end; ++rank) {
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
 * In a reduce over trees, hands out the data that have arrived from the children. Does nothing unless this is the
 * root's node.
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
 * which they arrive. Round r brings the blocks of the nodes that are 2^r to 2^(r + 1) - 1 places before this node. In a
 * reduce-scatter, the partial results are handed out at the end, when all of them are combined, as if they had come
 * from the next node. If a wait fails, ctx->failed is set, and nothing more is handed out.
 */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_receive_in_rounds(mscclpp_dev_ctx_t *ctx,
                                                          const mscclpp_dev_coll_nodes_state_t *state,
                                                          const mscclpp_dev_coll_nodes_turn_t *turn)
{
    const uint32_t nnodes = state->args->nodes.nnodes, node = state->args->nodes.node;
    const uint32_t rounds = mscclpp_dev_rounds_count(nnodes, 2);
    uint32_t round, first_distance, distance;

    for (round = 0, first_distance = 1; round < rounds && !ctx->failed; ++round, first_distance *= 2) {
        mscclpp_dev_coll_nodes_halving_round(ctx, state, turn, round);
        for (distance = first_distance;
             distance < 2 * first_distance && distance < nnodes && !ctx->failed && !state->merges; ++distance) {
            mscclpp_dev_coll_nodes_hand_out(ctx, state, turn, MSCCLPP_DEV_NODES_BEHIND(nnodes, node, distance));
        }
    }
    if (!ctx->failed && state->merges) {
        mscclpp_dev_coll_nodes_hand_out(ctx, state, turn, MSCCLPP_DEV_NODES_AHEAD(nnodes, node, 1));
    }
}

/*
 * Waits for a turn's data from other nodes, forwards the data if the exchange requires this, and hands them out. Over
 * trees, a reduce gets data from the children, and a broadcast from the parent, except on the root's node. By halving,
 * data arrive round by round, and in a ring step by step. Called by all threads of owners. If a wait fails, ctx->failed
 * is set, and nothing more is handed out.
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
        mscclpp_dev_coll_nodes_await(ctx, state, turn, mscclpp_dev_coll_nodes_first_other(turn), turn->distances_end);
    }
    for (distance = mscclpp_dev_coll_nodes_first_other(turn); distance < turn->distances_end && !ctx->failed;
         ++distance) {
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
 * combines the operands up to this rank's operand or, if exclusive, up to the previous rank's. If a wait fails,
 * ctx->failed is set, and this turn's part of the output is not written.
 */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_take(mscclpp_dev_ctx_t *ctx, mscclpp_dev_coll_nodes_state_t *state,
                                             const mscclpp_dev_coll_nodes_turn_t *turn)
{
    const mscclpp_dev_coll_nodes_args_t *args = state->args;

    if (state->is_owner) {
        mscclpp_dev_coll_nodes_receive(ctx, state, turn);
    }
    mscclpp_dev_barrier(ctx, &args->nodes.common, ++state->barriers);
    if (!ctx->failed && state->windows > 0 && state->is_owner) {
        mscclpp_dev_coll_nodes_windows_credit(ctx, state, turn);
    }
    if (!ctx->failed && state->merges) {
        mscclpp_dev_coll_nodes_combine_partial_results(ctx, state, turn);
    } else if (!ctx->failed && MSCCLPP_DEV_COMBINES(args->pattern)) {
        mscclpp_dev_coll_nodes_combine_scan(ctx, state, turn,
                                            args->pattern == MSCCLPP_DEV_SCAN ? args->rank + 1 : args->rank);
    } else if (!ctx->failed) {
        mscclpp_dev_coll_nodes_move(ctx, state, turn);
    }
}

/* ---- The whole kernel ---- */

/*
 * Meets all other nodes before the first turn or, with `is_end`, after the last turn. For exchanges over trees or in
 * windows.
 */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_meet(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_coll_nodes_state_t *state,
                                             bool is_end)
{
    if (state->windows > 0) {
        mscclpp_dev_coll_nodes_windows_meet(ctx, state, is_end);
    } else {
        mscclpp_dev_coll_nodes_trees_meet(ctx, state, is_end);
    }
}

/*
 * Runs the kernel: gives and takes all turns, and then copies this rank's own block. Blocks of the grid without turns
 * only copy. After a failure no further turn begins, and the output is incomplete. The counts are advanced even after a
 * failure.
 */
MSCCLPP_DEV void mscclpp_dev_coll_nodes(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_coll_nodes_args_t *args, int dtype,
                                        int op)
{
    const mscclpp_dev_nodes_args_t *nodes = &args->nodes;
    const mscclpp_dev_args_t *common = &nodes->common;
    const uint64_t launches = mscclpp_dev_last_launch(ctx, common);
    const uint32_t epoch = mscclpp_dev_last_epoch(ctx, common);
    const uint64_t barriers_before = mscclpp_dev_last_barrier(ctx, common);
    const uint64_t tiles = (args->largest_block + args->tile - 1) / args->tile;
    mscclpp_dev_coll_nodes_state_t state;
    mscclpp_dev_coll_nodes_turn_t turn;
    uint64_t flushes[MSCCLPP_DEV_COLL_NODES_WINDOW_SETS * MSCCLPP_DEV_COLL_NODES_WINDOW];
    uint64_t index;
    bool meets; /* this block meets the blocks of other nodes before its first turn and after its last turn */

    mscclpp_dev_enter(ctx, common);
    mscclpp_dev_coll_nodes_begin(&state, args, dtype, op);
    state.relay_row = args->pattern == MSCCLPP_DEV_REDUCE
                          ? 0
                          : MSCCLPP_DEV_COLL_NODES_RECEIVE_ROWS(args->pattern, nodes->pattern, args->nranks,
                                                                nodes->nnodes, nodes->largest_node);
    state.set_rows = MSCCLPP_DEV_COLL_NODES_TILE_ROWS(args->pattern, nodes->pattern, args->nranks, nodes->nnodes,
                                                      nodes->largest_node, nodes->shards);
    state.node_bytes = MSCCLPP_DEV_COLL_NODES_ROOM(args->pattern, nodes->pattern, nodes->nnodes, nodes->slot_size);
    state.any_relayed = mscclpp_dev_coll_nodes_any_relayed(args);
    state.exchanged = state.is_owner ? nodes->exchanged[ctx->block] : 0;
    state.barriers = barriers_before;
    state.turns = ctx->block < tiles ? (tiles - ctx->block + ctx->nblocks - 1) / ctx->nblocks : 0;
    if (nodes->pattern == MSCCLPP_DEV_NODES_WINDOWS) {
        state.relay_row = MSCCLPP_DEV_COLL_NODES_WINDOW_ROWS(nodes->largest_node);
        state.set_rows = MSCCLPP_DEV_COLL_NODES_WINDOWED_ROWS(args->pattern, nodes->largest_node, nodes->shards);
        state.node_bytes = MSCCLPP_DEV_COLL_NODES_WINDOW_ROOM(nodes->nnodes, nodes->slot_size, ctx->nblocks);
        state.windows = MSCCLPP_DEV_COLL_NODES_WINDOWS(nodes->nnodes);
        state.flushes = flushes;
        state.turns *= state.windows;
    }
    meets = (mscclpp_dev_coll_nodes_in_trees(&state) || state.windows > 0) && state.is_owner && state.turns > 0;
    if (state.turns > 0) {
        mscclpp_dev_barrier(ctx, common, ++state.barriers);
    }
    if (meets) {
        mscclpp_dev_coll_nodes_meet(ctx, &state, false);
    }
    /* Each turn is given before the previous turn is taken, so that the links stay busy. */
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
        mscclpp_dev_coll_nodes_meet(ctx, &state, true);
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
