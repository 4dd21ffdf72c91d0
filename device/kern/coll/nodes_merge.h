/*
 * Partial results of nodes, for reduce and reduce-scatter. An owner combines its node's operands. The rank that gets a
 * result combines the partial results of all nodes.
 */
#ifndef MSCCLPP_DEVICE_KERN_COLL_NODES_MERGE_H
#define MSCCLPP_DEVICE_KERN_COLL_NODES_MERGE_H

#include "device/kern/coll/nodes_turn.h"
#include "device/lib/reduce.h"

/*
 * Returns one unit of this node's blocks for `receiver`, combined in rank order. This rank's operand is at
 * `own_operand`. The operands of the other ranks are in rows of this rank's scratch: in the rows of received blocks if
 * this rank is the receiver, and otherwise in the rows of blocks that this rank sends for others. Each operand has
 * `bytes` bytes, the turn's part of the block.
 */
MSCCLPP_DEV mscclpp_dev_vec_t mscclpp_dev_coll_nodes_merge_unit(const mscclpp_dev_ctx_t *ctx,
                                                                const mscclpp_dev_coll_nodes_state_t *state,
                                                                const mscclpp_dev_coll_nodes_turn_t *turn,
                                                                uint32_t receiver, const char *own_operand,
                                                                uint64_t unit, uint64_t bytes)
{
    const mscclpp_dev_coll_nodes_args_t *args = state->args;
    mscclpp_dev_acc_t acc;
    mscclpp_dev_vec_t value;
    const char *from;
    const uint32_t begin = args->begin[args->nodes.node], end = args->begin[args->nodes.node + 1];
    uint32_t i;

    for (i = begin; i < end; ++i) {
        const uint32_t rank = args->members[i];

        from = own_operand;
        if (rank != args->rank) {
            from = mscclpp_dev_coll_nodes_row(ctx, state, turn, state->index,
                                              receiver == args->rank
                                                  ? mscclpp_dev_coll_nodes_receive_row(state, turn, rank)
                                                  : mscclpp_dev_coll_nodes_relay_row(state, rank, receiver)) +
                   MSCCLPP_DEV_UNIT;
        }
        value = mscclpp_dev_ld_unit(from, unit, bytes);
        if (i == begin) {
            mscclpp_dev_acc_set(&acc, state->dtype, value);
        } else {
            mscclpp_dev_acc_add(&acc, false, state->dtype, state->op, value);
        }
    }
    return mscclpp_dev_acc_get(&acc, state->dtype);
}

/*
 * Combines this node's operands for `receiver` from this owner's rows, and stores the partial result at `to` in the
 * exchange area. `first` and `second` are other nodes' partial results for `receiver`, or NULL; `second` is NULL if
 * `first` is NULL. If they are given, stores the combination of the first, the second and this node's partial result,
 * in this order. Sets *size_p to the size of the stored result in bytes. Returns the place for the next partial result.
 */
MSCCLPP_DEV char *mscclpp_dev_coll_nodes_store_merged(const mscclpp_dev_ctx_t *ctx,
                                                      const mscclpp_dev_coll_nodes_state_t *state,
                                                      const mscclpp_dev_coll_nodes_turn_t *turn, uint32_t receiver,
                                                      const char *first, const char *second, uint32_t *size_p, char *to)
{
    const mscclpp_dev_coll_nodes_args_t *args = state->args;
    const mscclpp_dev_block_t part =
        mscclpp_dev_coll_nodes_part(args, turn, mscclpp_dev_coll_nodes_send_block(args, receiver));
    const char *own_operand = (const char *)args->nodes.common.in + part.offset;
    uint64_t unit;

    if (ctx->tid == 0) {
        *size_p = (uint32_t)part.bytes;
    }
    for (unit = ctx->tid; unit < mscclpp_dev_units(part.bytes); unit += ctx->nthreads) {
        mscclpp_dev_vec_t value =
            mscclpp_dev_coll_nodes_merge_unit(ctx, state, turn, receiver, own_operand, unit, part.bytes);
        mscclpp_dev_acc_t acc;

        if (first != NULL) {
            mscclpp_dev_acc_set(&acc, state->dtype, mscclpp_dev_ld_unit(first, unit, part.bytes));
            if (second != NULL) {
                mscclpp_dev_acc_add(&acc, false, state->dtype, state->op,
                                    mscclpp_dev_ld_unit(second, unit, part.bytes));
            }
            mscclpp_dev_acc_add(&acc, false, state->dtype, state->op, value);
            value = mscclpp_dev_acc_get(&acc, state->dtype);
        }
        mscclpp_dev_st_vec(to + unit * MSCCLPP_DEV_UNIT, value);
    }
    return to + mscclpp_dev_coll_nodes_padded(part.bytes);
}

/*
 * Stores this owner's partial results for a node in the slot from which they are sent: first their sizes, then the
 * result for each receiver. `first` and `second` are slots with partial results of other nodes, which are combined with
 * this node's results as in mscclpp_dev_coll_nodes_store_merged; NULL: there is no such slot.
 */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_store_results(const mscclpp_dev_ctx_t *ctx,
                                                      const mscclpp_dev_coll_nodes_state_t *state,
                                                      const mscclpp_dev_coll_nodes_turn_t *turn, uint32_t to_node,
                                                      const char *first, const char *second)
{
    const mscclpp_dev_coll_nodes_args_t *args = state->args;
    const uint32_t count = mscclpp_dev_coll_nodes_count_blocks(state, turn, args->nodes.node, state->index, to_node);
    char *slot = args->nodes.exchange + mscclpp_dev_coll_nodes_outgoing_offset(state, turn, to_node);
    uint64_t offset = MSCCLPP_DEV_COLL_NODES_HEAD(count);
    uint32_t *size_p = (uint32_t *)slot;
    uint32_t i;

    for (i = args->begin[to_node]; i < args->begin[to_node + 1]; ++i) {
        if (mscclpp_dev_coll_nodes_merges_for(args, turn, state->index, args->members[i], to_node)) {
            offset = (uint64_t)(mscclpp_dev_coll_nodes_store_merged(
                                    ctx, state, turn, args->members[i], first == NULL ? NULL : first + offset,
                                    second == NULL ? NULL : second + offset, size_p++, slot + offset) -
                                slot);
        }
    }
}

/*
 * Combines the partial results of all nodes, and stores this turn's part of the result in the output. If each node has
 * sent its own partial result, the results are combined in node order.
 *
 * In a ring and by halving, the partial results of the other nodes are already combined, and are in the row of the next
 * node. Over trees, the partial results of each child's branch are already combined, and are in the child's row. In
 * these cases the received results come first, and this node's result last.
 */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_combine_partial_results(const mscclpp_dev_ctx_t *ctx,
                                                                const mscclpp_dev_coll_nodes_state_t *state,
                                                                const mscclpp_dev_coll_nodes_turn_t *turn)
{
    const mscclpp_dev_coll_nodes_args_t *args = state->args;
    const uint32_t nnodes = args->nodes.nnodes;
    const bool are_combined = mscclpp_dev_coll_nodes_in_ring(state) || mscclpp_dev_coll_nodes_in_halving(state);
    const bool in_trees = mscclpp_dev_coll_nodes_in_trees(state);
    const mscclpp_dev_tree_place_t place = mscclpp_dev_coll_nodes_tree_place(ctx, state);
    const uint32_t branches = mscclpp_dev_trees_child(&place, 1) != MSCCLPP_DEV_TREES_NONE ? 2 : 1;
    const uint32_t operands = are_combined ? 2 : in_trees ? branches + 1 : nnodes;
    mscclpp_dev_block_t part = {0, 0}, own_operand;
    mscclpp_dev_acc_t acc;
    mscclpp_dev_vec_t value;
    uint64_t unit;
    uint32_t i;

    part.bytes = mscclpp_dev_coll_nodes_result_bytes(args);
    part = mscclpp_dev_coll_nodes_part(args, turn, part);
    own_operand = mscclpp_dev_coll_nodes_part(args, turn, mscclpp_dev_coll_nodes_send_block(args, args->rank));
    for (unit = ctx->tid; unit < mscclpp_dev_units(part.bytes); unit += ctx->nthreads) {
        for (i = 0; i < operands; ++i) {
            const uint32_t node = are_combined    ? MSCCLPP_DEV_NODES_AHEAD(nnodes, args->nodes.node, 1 - i)
                                  : !in_trees     ? i
                                  : i == branches ? args->nodes.node
                                                  : mscclpp_dev_trees_child(&place, i);

            if (node == args->nodes.node) {
                value = mscclpp_dev_coll_nodes_merge_unit(ctx, state, turn, args->rank,
                                                          (const char *)args->nodes.common.in + own_operand.offset,
                                                          unit, part.bytes);
            } else {
                const uint64_t row = in_trees ? args->nodes.largest_node + i
                                              : mscclpp_dev_coll_nodes_receive_row(
                                                    state, turn, mscclpp_dev_coll_nodes_first_rank(args, node));

                value = mscclpp_dev_ld_unit(mscclpp_dev_coll_nodes_row(ctx, state, turn, state->index, row) +
                                                MSCCLPP_DEV_UNIT,
                                            unit, part.bytes);
            }
            if (i == 0) {
                mscclpp_dev_acc_set(&acc, state->dtype, value);
            } else {
                mscclpp_dev_acc_add(&acc, false, state->dtype, state->op, value);
            }
        }
        mscclpp_dev_st_unit((char *)args->nodes.common.out + part.offset, unit, part.bytes,
                            mscclpp_dev_acc_get(&acc, state->dtype), mscclpp_dev_unit_mask(state->dtype));
    }
}

#endif
