/*
 * The collectives other than all-reduce over several nodes. Each block of the grid only meets blocks of the same
 * number: those of its node, and those of one rank of each other node. It handles its tiles of all blocks of data in
 * turns of two steps:
 *
 *   give   Every rank stores its blocks for ranks of its own node into rows of these ranks' scratch. An owner stores
 *          the data for other nodes in its exchange area, including those that other ranks of its node have given it,
 *          and has them put to the same owner on those nodes.
 *   take   The owner waits for data from other nodes, and hands them to the ranks of its node, into rows of their
 *          scratch. Barrier of the node. Every rank moves the data in its rows to its output, or combines them.
 *
 * The next turn is given before the current one is taken, so that the links stay busy. A block for several ranks of a
 * node crosses the network only once. For a scan, these blocks are the operands. Each rank combines them in the order
 * of all ranks, as on one node, and so gets the same bits. For reduce and reduce-scatter, an owner receives its node's
 * operands, combines them in rank order, and sends that partial result. The rank that gets the result combines the
 * partial results of all nodes, its own included, in node order, as an all-reduce does. Partial results travel in the
 * type of the elements; 16-bit floats are rounded to it in between.
 *
 * Each owner signals each other node in each turn, even if it has sent nothing. So a turn is an exchange like those of
 * an all-reduce, and both use the same sets of slots in turn. They are enough for the same reasons
 * (kern/allreduce/allreduce_nodes.h): between give e and give e + 5, a block takes e + 3, and the sender of e + 3 gave
 * it after it had taken e + 1 at least.
 *
 * Why three sets of rows are enough: other ranks write the rows of turn t + 3, and an owner's data to send in that
 * turn, once they have taken t + 1, because the steps follow one another as give t + 2, take t + 1, give t + 3. The
 * rank that has these rows has entered the barrier of take t + 1 after it had read the rows of turn t, and the data
 * that it had to send in turn t. The barrier at the beginning ensures that all ranks of the node have ended earlier use
 * of the bulk area.
 */
#ifndef MSCCLPP_DEVICE_KERN_COLL_NODES_H
#define MSCCLPP_DEVICE_KERN_COLL_NODES_H

#include "device/kern/coll/nodes_turn.h"
#include "device/lib/barrier.h"
#include "device/lib/port_channel.h"
#include "device/lib/reduce.h"

/* ---- Give ---- */

/* Stores this rank's block for a rank of its node. */
MSCCLPP_DEV void mscclpp_dev_cn_give_near(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_cn_block_t *b,
                                          const mscclpp_dev_cn_turn_t *turn, uint32_t peer)
{
    const mscclpp_dev_coll_nodes_args_t *args = b->args;
    const mscclpp_dev_block_t part = mscclpp_dev_cn_cut(args, turn, mscclpp_dev_cn_send_block(args, peer));

    mscclpp_dev_coll_copy(mscclpp_dev_cn_row(ctx, b, turn, args->place[peer].index, args->rank) + MSCCLPP_DEV_UNIT,
                          (const char *)args->nodes.common.in + part.offset, part.bytes, ctx->tid, ctx->nthreads);
}

/* Stores a block and its size for the owner that sends it. */
MSCCLPP_DEV void mscclpp_dev_cn_relay(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_cn_block_t *b,
                                      const mscclpp_dev_cn_turn_t *turn, uint32_t owner, mscclpp_dev_block_t block,
                                      uint32_t receiver)
{
    const mscclpp_dev_coll_nodes_args_t *args = b->args;
    const mscclpp_dev_block_t part = mscclpp_dev_cn_cut(args, turn, block);
    char *row = mscclpp_dev_cn_row(ctx, b, turn, owner, mscclpp_dev_cn_relay_row(b, args->rank, receiver));

    if (ctx->tid == 0) {
        *(uint64_t *)row = part.bytes;
    }
    mscclpp_dev_coll_copy(row + MSCCLPP_DEV_UNIT, (const char *)args->nodes.common.in + part.offset, part.bytes,
                          ctx->tid, ctx->nthreads);
}

/*
 * Gives this rank's block for `peer`, a rank of another node, to the owner that merges it, unless this rank is that
 * owner.
 */
MSCCLPP_DEV void mscclpp_dev_cn_give_merger(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_cn_block_t *b,
                                            const mscclpp_dev_cn_turn_t *turn, uint32_t peer)
{
    const mscclpp_dev_coll_nodes_args_t *args = b->args;
    const uint32_t owner = mscclpp_dev_cn_merger_of(args, turn, peer);

    if (owner != b->index && mscclpp_dev_cn_sends(args, args->rank, peer)) {
        mscclpp_dev_cn_relay(ctx, b, turn, owner, mscclpp_dev_cn_send_block(args, peer), peer);
    }
}

/* Gives this rank's blocks, except those that it sends to other nodes itself. */
MSCCLPP_DEV void mscclpp_dev_cn_give_own(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_cn_block_t *b,
                                         const mscclpp_dev_cn_turn_t *turn)
{
    const mscclpp_dev_coll_nodes_args_t *args = b->args;
    const uint32_t owner = mscclpp_dev_cn_owner_of(args, turn, args->rank);
    const bool relays =
        !b->merges && owner != b->index && mscclpp_dev_cn_is_client(args, turn, args->rank, args->nodes.node, owner);
    uint32_t i;

    /* Each rank begins with the next one, so that not all store to the same rank at once. */
    for (i = 1; i < args->nranks; ++i) {
        const uint32_t peer = args->rank + i < args->nranks ? args->rank + i : args->rank + i - args->nranks;

        if (args->place[peer].node == args->nodes.node) {
            mscclpp_dev_cn_give_near(ctx, b, turn, peer);
        } else if (b->merges) {
            mscclpp_dev_cn_give_merger(ctx, b, turn, peer);
        } else if (relays && b->many) {
            mscclpp_dev_cn_relay(ctx, b, turn, owner, mscclpp_dev_cn_send_block(args, peer), peer);
        }
    }
    if (relays && !b->many) {
        mscclpp_dev_cn_relay(ctx, b, turn, owner, mscclpp_dev_cn_common_block(args), 0);
    }
}

/*
 * Stores a block of `sender` for `receiver` in the exchange area, and its size in the head. Returns the place for the
 * next block.
 */
MSCCLPP_DEV char *mscclpp_dev_cn_store_block(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_cn_block_t *b,
                                             const mscclpp_dev_cn_turn_t *turn, uint32_t sender, uint32_t receiver,
                                             uint32_t *head, char *to)
{
    const mscclpp_dev_coll_nodes_args_t *args = b->args;
    mscclpp_dev_block_t part;
    const char *from;

    if (sender == args->rank) {
        part = mscclpp_dev_cn_cut(
            args, turn, b->many ? mscclpp_dev_cn_send_block(args, receiver) : mscclpp_dev_cn_common_block(args));
        from = (const char *)args->nodes.common.in + part.offset;
    } else {
        from = mscclpp_dev_cn_row(ctx, b, turn, b->index, mscclpp_dev_cn_relay_row(b, sender, receiver));
        part.bytes = *(const uint64_t *)from;
        from += MSCCLPP_DEV_UNIT;
    }
    if (ctx->tid == 0) {
        *head = (uint32_t)part.bytes;
    }
    mscclpp_dev_coll_copy(to, from, part.bytes, ctx->tid, ctx->nthreads);
    return to + mscclpp_dev_cn_padded(part.bytes);
}

/*
 * Combines unit `u` of this node's blocks for a rank. This rank's operand is at `own`. Those of other ranks are in rows
 * of scratch: either they are for this rank, or this rank was given them to send on.
 */
MSCCLPP_DEV mscclpp_dev_vec_t mscclpp_dev_cn_merge(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_cn_block_t *b,
                                                   const mscclpp_dev_cn_turn_t *turn, uint32_t receiver,
                                                   const char *own, uint64_t u, uint64_t bytes)
{
    const mscclpp_dev_coll_nodes_args_t *args = b->args;
    mscclpp_dev_acc_t acc;
    mscclpp_dev_vec_t v;
    const char *from;
    const uint32_t begin = args->begin[args->nodes.node], end = args->begin[args->nodes.node + 1];
    uint32_t i;

    for (i = begin; i < end; ++i) {
        const uint32_t r = args->members[i];

        from = own;
        if (r != args->rank) {
            from = mscclpp_dev_cn_row(ctx, b, turn, b->index,
                                      receiver == args->rank ? r : mscclpp_dev_cn_relay_row(b, r, receiver)) +
                   MSCCLPP_DEV_UNIT;
        }
        v = mscclpp_dev_ld_unit(from, u, bytes);
        if (i == begin) {
            mscclpp_dev_acc_set(&acc, b->dtype, v);
        } else {
            mscclpp_dev_acc_add(&acc, false, b->dtype, b->op, v);
        }
    }
    return mscclpp_dev_acc_get(&acc, b->dtype);
}

/* The same as mscclpp_dev_cn_store_block, for this node's partial result for `receiver`. */
MSCCLPP_DEV char *mscclpp_dev_cn_store_merged(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_cn_block_t *b,
                                              const mscclpp_dev_cn_turn_t *turn, uint32_t receiver, uint32_t *head,
                                              char *to)
{
    const mscclpp_dev_coll_nodes_args_t *args = b->args;
    const mscclpp_dev_block_t part = mscclpp_dev_cn_cut(args, turn, mscclpp_dev_cn_send_block(args, receiver));
    const char *own = (const char *)args->nodes.common.in + part.offset;
    uint64_t u;

    if (ctx->tid == 0) {
        *head = (uint32_t)part.bytes;
    }
    for (u = ctx->tid; u < mscclpp_dev_units(part.bytes); u += ctx->nthreads) {
        mscclpp_dev_st_vec(to + u * MSCCLPP_DEV_UNIT, mscclpp_dev_cn_merge(ctx, b, turn, receiver, own, u, part.bytes));
    }
    return to + mscclpp_dev_cn_padded(part.bytes);
}

/* Stores all data that this owner sends to node `k`, or to any node if all get the same. */
MSCCLPP_DEV void mscclpp_dev_cn_store_for_node(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_cn_block_t *b,
                                               const mscclpp_dev_cn_turn_t *turn, uint32_t k)
{
    const mscclpp_dev_coll_nodes_args_t *args = b->args;
    const uint32_t count = mscclpp_dev_cn_count(b, turn, args->nodes.node, b->index, k);
    char *slot = args->nodes.exchange + mscclpp_dev_cn_outgoing(b, turn, k);
    char *to = slot + MSCCLPP_DEV_COLL_NODES_HEAD(count);
    uint32_t *head = (uint32_t *)slot;
    uint32_t i, j;

    for (i = args->begin[k]; i < args->begin[k + 1] && b->merges; ++i) {
        if (mscclpp_dev_cn_merges_for(args, turn, b->index, args->members[i], k)) {
            to = mscclpp_dev_cn_store_merged(ctx, b, turn, args->members[i], head++, to);
        }
    }
    for (i = args->begin[args->nodes.node]; i < args->begin[args->nodes.node + 1] && !b->merges; ++i) {
        const uint32_t a = args->members[i];

        if (!mscclpp_dev_cn_is_client(args, turn, a, args->nodes.node, b->index)) {
            continue;
        }
        if (!b->many) {
            to = mscclpp_dev_cn_store_block(ctx, b, turn, a, 0, head++, to);
        }
        for (j = args->begin[k]; j < args->begin[k + 1] && b->many; ++j) {
            to = mscclpp_dev_cn_store_block(ctx, b, turn, a, args->members[j], head++, to);
        }
    }
}

/* Size of the data stored for node `k`, bytes. 0: there is nothing that it needs. */
MSCCLPP_DEV uint64_t mscclpp_dev_cn_stored_bytes(const mscclpp_dev_cn_block_t *b, const mscclpp_dev_cn_turn_t *turn,
                                                 uint32_t k)
{
    const mscclpp_dev_coll_nodes_args_t *args = b->args;
    const uint32_t count = mscclpp_dev_cn_count(b, turn, args->nodes.node, b->index, k);
    const uint32_t *head = (const uint32_t *)(args->nodes.exchange + mscclpp_dev_cn_outgoing(b, turn, k));
    const bool flows = mscclpp_dev_cn_flows(b, turn, args->nodes.node, b->index, k);
    uint64_t bytes = MSCCLPP_DEV_COLL_NODES_HEAD(count);
    uint32_t i;

    for (i = 0; i < count && flows; ++i) {
        bytes += mscclpp_dev_cn_padded(head[i]);
    }
    return flows ? bytes : 0;
}

/*
 * Waits for this turn's signals of the nodes that are `first` to `end` - 1 nodes before this one. Called by all
 * threads.
 */
MSCCLPP_DEV void mscclpp_dev_cn_await(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_cn_block_t *b,
                                      const mscclpp_dev_cn_turn_t *turn, uint32_t first, uint32_t end)
{
    const mscclpp_dev_nodes_args_t *nodes = &b->args->nodes;
    uint32_t i;

    for (i = first + ctx->tid; i < end && !ctx->failed; i += ctx->nthreads) {
        const uint32_t k = (nodes->node + nodes->nnodes - i) % nodes->nnodes;

        mscclpp_dev_port_wait_ahead(ctx, &nodes->common,
                                    &nodes->channels[MSCCLPP_DEV_NODES_NUMBER(nodes->nnodes, ctx->block, k)],
                                    turn->index + 1);
    }
    ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
}

/*
 * Puts the data to the other nodes, to a few at a time: the next ones follow when the data of as many nodes before this
 * one have come. Called by all threads, which share the nodes.
 */
MSCCLPP_DEV void mscclpp_dev_cn_push(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_cn_block_t *b,
                                     const mscclpp_dev_cn_turn_t *turn)
{
    const mscclpp_dev_nodes_args_t *nodes = &b->args->nodes;
    uint32_t first, end, i;

    for (first = 1; first < nodes->nnodes && !ctx->failed; first = end) {
        end = nodes->nnodes - first < nodes->fanout ? nodes->nnodes : first + nodes->fanout;
        for (i = first + ctx->tid; i < end; i += ctx->nthreads) {
            const uint32_t k = (nodes->node + i) % nodes->nnodes;

            mscclpp_dev_port_put_with_signal(
                ctx, &nodes->common, &nodes->channels[MSCCLPP_DEV_NODES_NUMBER(nodes->nnodes, ctx->block, k)],
                mscclpp_dev_cn_incoming(b, turn, nodes->node), mscclpp_dev_cn_outgoing(b, turn, k),
                mscclpp_dev_cn_stored_bytes(b, turn, k));
        }
        if (end < nodes->nnodes) {
            mscclpp_dev_cn_await(ctx, b, turn, first, end);
        }
    }
}

/* The step `give` of a turn. */
MSCCLPP_DEV void mscclpp_dev_cn_give(mscclpp_dev_ctx_t *ctx, mscclpp_dev_cn_block_t *b,
                                     const mscclpp_dev_cn_turn_t *turn)
{
    const mscclpp_dev_nodes_args_t *nodes = &b->args->nodes;
    uint32_t i;

    mscclpp_dev_cn_give_own(ctx, b, turn);
    if (b->relays) {
        mscclpp_dev_barrier(ctx, &nodes->common, ++b->barriers);
    }
    if (!b->owner || ctx->failed) {
        return;
    }
    for (i = 1; i < nodes->nnodes && (b->many || b->merges || i == 1); ++i) {
        mscclpp_dev_cn_store_for_node(ctx, b, turn, (nodes->node + i) % nodes->nnodes);
    }
    mscclpp_dev_block_sync(ctx);
    mscclpp_dev_cn_push(ctx, b, turn);
}

/* ---- Take ---- */

/* Hands a received block of `sender` to a rank of this node. */
MSCCLPP_DEV void mscclpp_dev_cn_hand_block(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_cn_block_t *b,
                                           const mscclpp_dev_cn_turn_t *turn, uint32_t sender, uint32_t receiver,
                                           const char *from, uint32_t bytes)
{
    mscclpp_dev_coll_copy(mscclpp_dev_cn_row(ctx, b, turn, b->args->place[receiver].index, sender) + MSCCLPP_DEV_UNIT,
                          from, bytes, ctx->tid, ctx->nthreads);
}

/* Hands out everything that has come from node `k`. */
MSCCLPP_DEV void mscclpp_dev_cn_hand_out(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_cn_block_t *b,
                                         const mscclpp_dev_cn_turn_t *turn, uint32_t k)
{
    const mscclpp_dev_coll_nodes_args_t *args = b->args;
    const uint32_t count = mscclpp_dev_cn_count(b, turn, k, b->index, args->nodes.node);
    const char *slot = args->nodes.exchange + mscclpp_dev_cn_incoming(b, turn, k);
    const char *from = slot + MSCCLPP_DEV_COLL_NODES_HEAD(count);
    const uint32_t *head = (const uint32_t *)slot;
    const bool flows = mscclpp_dev_cn_flows(b, turn, k, b->index, args->nodes.node);
    const uint32_t begin = args->begin[args->nodes.node], end = args->begin[args->nodes.node + 1];
    uint32_t i, j;

    for (i = begin; i < end && b->merges; ++i) {
        const uint32_t p = args->members[i];

        if (mscclpp_dev_cn_merges_for(args, turn, b->index, p, args->nodes.node)) {
            mscclpp_dev_cn_hand_block(ctx, b, turn, mscclpp_dev_cn_first_of(args, k), p, from, *head);
            from += mscclpp_dev_cn_padded(*head++);
        }
    }
    for (i = args->begin[k]; i < args->begin[k + 1] && flows && !b->merges; ++i) {
        const uint32_t a = args->members[i];

        if (!mscclpp_dev_cn_is_client(args, turn, a, k, b->index)) {
            continue;
        }
        for (j = begin; j < end; ++j) {
            const uint32_t p = args->members[j];

            if (mscclpp_dev_cn_sends(args, a, p)) {
                mscclpp_dev_cn_hand_block(ctx, b, turn, a, p, from, *head);
            }
            if (b->many) {
                from += mscclpp_dev_cn_padded(*head++);
            }
        }
        if (!b->many) {
            from += mscclpp_dev_cn_padded(*head++);
        }
    }
}

/* Moves the other ranks' blocks for this rank to their places. */
MSCCLPP_DEV void mscclpp_dev_cn_move(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_cn_block_t *b,
                                     const mscclpp_dev_cn_turn_t *turn)
{
    const mscclpp_dev_coll_nodes_args_t *args = b->args;
    uint32_t a;

    for (a = 0; a < args->nranks; ++a) {
        const mscclpp_dev_block_t part = mscclpp_dev_cn_cut(args, turn, mscclpp_dev_cn_recv_block(args, a));

        if (a != args->rank) {
            mscclpp_dev_coll_copy((char *)args->nodes.common.out + part.offset,
                                  mscclpp_dev_cn_row(ctx, b, turn, b->index, a) + MSCCLPP_DEV_UNIT, part.bytes,
                                  ctx->tid, ctx->nthreads);
        }
    }
}

/* Computes the turn's part of the result from the partial results of all nodes. */
MSCCLPP_DEV void mscclpp_dev_cn_combine_nodes(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_cn_block_t *b,
                                              const mscclpp_dev_cn_turn_t *turn)
{
    const mscclpp_dev_coll_nodes_args_t *args = b->args;
    mscclpp_dev_block_t part = {0, 0}, own;
    mscclpp_dev_acc_t acc;
    mscclpp_dev_vec_t v;
    uint64_t u;
    uint32_t k;

    part.bytes = mscclpp_dev_cn_result_bytes(args);
    part = mscclpp_dev_cn_cut(args, turn, part);
    own = mscclpp_dev_cn_cut(args, turn, mscclpp_dev_cn_send_block(args, args->rank));
    for (u = ctx->tid; u < mscclpp_dev_units(part.bytes); u += ctx->nthreads) {
        for (k = 0; k < args->nodes.nnodes; ++k) {
            if (k == args->nodes.node) {
                v = mscclpp_dev_cn_merge(ctx, b, turn, args->rank, (const char *)args->nodes.common.in + own.offset, u,
                                         part.bytes);
            } else {
                v = mscclpp_dev_ld_unit(mscclpp_dev_cn_row(ctx, b, turn, b->index, mscclpp_dev_cn_first_of(args, k)) +
                                            MSCCLPP_DEV_UNIT,
                                        u, part.bytes);
            }
            if (k == 0) {
                mscclpp_dev_acc_set(&acc, b->dtype, v);
            } else {
                mscclpp_dev_acc_add(&acc, false, b->dtype, b->op, v);
            }
        }
        mscclpp_dev_st_unit((char *)args->nodes.common.out + part.offset, u, part.bytes,
                            mscclpp_dev_acc_get(&acc, b->dtype), mscclpp_dev_unit_mask(b->dtype));
    }
}

/* Computes the turn's part of a scan's result, from the operands of ranks 0 to `end` - 1. */
MSCCLPP_DEV void mscclpp_dev_cn_combine(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_cn_block_t *b,
                                        const mscclpp_dev_cn_turn_t *turn, uint32_t end)
{
    const mscclpp_dev_coll_nodes_args_t *args = b->args;
    mscclpp_dev_block_t part = {0, 0}, own;
    mscclpp_dev_acc_t acc;
    mscclpp_dev_vec_t v;
    uint64_t u;
    uint32_t r;

    part.bytes = mscclpp_dev_cn_result_bytes(args);
    part = mscclpp_dev_cn_cut(args, turn, part);
    own = mscclpp_dev_cn_cut(args, turn, mscclpp_dev_cn_send_block(args, args->rank));
    for (u = ctx->tid; u < mscclpp_dev_units(part.bytes); u += ctx->nthreads) {
        for (r = 0; r < end; ++r) {
            const char *from = r == args->rank ? (const char *)args->nodes.common.in + own.offset
                                               : mscclpp_dev_cn_row(ctx, b, turn, b->index, r) + MSCCLPP_DEV_UNIT;

            v = mscclpp_dev_ld_unit(from, u, part.bytes);
            if (r == 0) {
                mscclpp_dev_acc_set(&acc, b->dtype, v);
            } else {
                mscclpp_dev_acc_add(&acc, false, b->dtype, b->op, v);
            }
        }
        mscclpp_dev_st_unit((char *)args->nodes.common.out + part.offset, u, part.bytes,
                            mscclpp_dev_acc_get(&acc, b->dtype), mscclpp_dev_unit_mask(b->dtype));
    }
}

/* The step `take` of a turn. */
MSCCLPP_DEV void mscclpp_dev_cn_take(mscclpp_dev_ctx_t *ctx, mscclpp_dev_cn_block_t *b,
                                     const mscclpp_dev_cn_turn_t *turn)
{
    const mscclpp_dev_coll_nodes_args_t *args = b->args;
    uint32_t k;

    if (b->owner) {
        mscclpp_dev_cn_await(ctx, b, turn, 1, args->nodes.nnodes);
    }
    for (k = 0; k < args->nodes.nnodes && b->owner && !ctx->failed; ++k) {
        if (k != args->nodes.node) {
            mscclpp_dev_cn_hand_out(ctx, b, turn, k);
        }
    }
    mscclpp_dev_barrier(ctx, &args->nodes.common, ++b->barriers);
    if (!ctx->failed && b->merges) {
        mscclpp_dev_cn_combine_nodes(ctx, b, turn);
    } else if (!ctx->failed && MSCCLPP_DEV_COMBINES(args->pattern)) {
        mscclpp_dev_cn_combine(ctx, b, turn, args->pattern == MSCCLPP_DEV_SCAN ? args->rank + 1 : args->rank);
    } else if (!ctx->failed) {
        mscclpp_dev_cn_move(ctx, b, turn);
    }
}

/* ---- The whole ---- */

/* Counts this operation's exchanges. Called by one thread, after all exchanges. */
MSCCLPP_DEV void mscclpp_dev_cn_count_exchanges(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_cn_block_t *b)
{
    const mscclpp_dev_nodes_args_t *nodes = &b->args->nodes;
    uint32_t k;

    nodes->exchanged[ctx->block] = b->exchanged + b->turns;
    for (k = 0; k < nodes->nnodes; ++k) {
        if (k != nodes->node) {
            *nodes->channels[MSCCLPP_DEV_NODES_NUMBER(nodes->nnodes, ctx->block, k)].expected += b->turns;
        }
    }
}

/* True if, in some turn, an owner of this node is given data to send for another rank. */
MSCCLPP_DEV bool mscclpp_dev_cn_relays(const mscclpp_dev_coll_nodes_args_t *args)
{
    const bool root_is_here = args->place[args->root].node == args->nodes.node;

    if (args->pattern == MSCCLPP_DEV_REDUCE) {
        return args->nodes.common.nranks > 1 && !root_is_here;
    }
    if (args->pattern == MSCCLPP_DEV_REDUCE_SCATTER) {
        return args->nodes.common.nranks > 1;
    }
    if (MSCCLPP_DEV_COLL_ALONE(args->pattern)) {
        return root_is_here && (args->nodes.shards > 1 || args->place[args->root].index != 0);
    }
    return args->nodes.common.nranks > args->nodes.shards;
}

/* The kernel's body: give and take for each turn, then this rank's own block. */
MSCCLPP_DEV void mscclpp_dev_coll_nodes(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_coll_nodes_args_t *args, int dtype,
                                        int op)
{
    const mscclpp_dev_nodes_args_t *nodes = &args->nodes;
    const mscclpp_dev_args_t *common = &nodes->common;
    const uint64_t launches = mscclpp_dev_last_launch(ctx, common);
    const uint32_t epoch = mscclpp_dev_last_epoch(ctx, common);
    const uint64_t before = mscclpp_dev_last_barrier(ctx, common);
    const uint64_t tiles = (args->most + args->tile - 1) / args->tile;
    mscclpp_dev_cn_block_t b;
    mscclpp_dev_cn_turn_t turn;
    uint64_t i;

    mscclpp_dev_enter(ctx, common);
    mscclpp_dev_cn_begin(&b, args, dtype, op);
    b.room = MSCCLPP_DEV_COLL_NODES_ROOM(args->pattern, nodes->nnodes, nodes->slot_size);
    b.relays = mscclpp_dev_cn_relays(args);
    b.exchanged = b.owner ? nodes->exchanged[ctx->block] : 0;
    b.barriers = before;
    b.turns = ctx->block < tiles ? (tiles - ctx->block + ctx->nblocks - 1) / ctx->nblocks : 0;
    if (b.turns > 0) {
        mscclpp_dev_barrier(ctx, common, ++b.barriers);
    }
    for (i = 0; i <= b.turns && b.turns > 0 && !ctx->failed; ++i) {
        if (i < b.turns) {
            turn = mscclpp_dev_cn_turn(ctx, &b, i);
            mscclpp_dev_cn_give(ctx, &b, &turn);
            ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
        }
        if (i > 0 && !ctx->failed) {
            turn = mscclpp_dev_cn_turn(ctx, &b, i - 1);
            mscclpp_dev_cn_take(ctx, &b, &turn);
        }
    }
    if (!ctx->failed) {
        mscclpp_dev_cn_copy_own(ctx, args);
    }
    mscclpp_dev_block_sync(ctx);
    if (b.owner && ctx->tid == 0) {
        mscclpp_dev_cn_count_exchanges(ctx, &b);
    }
    mscclpp_dev_finish(ctx, common, launches, epoch, before, b.barriers);
}

#endif
