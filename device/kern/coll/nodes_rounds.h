/*
 * The owners' exchange of small blocks in rounds. lib/nodes_rounds.h says who sends which blocks to whom. What an owner
 * has for another node, or for all of them, lies in a place: a row of as many units as the largest node needs, whose
 * end is filled with zeros. A message is a run of places, so that it can be passed on from where it has arrived.
 *
 * Reduce and reduce-scatter combine what arrives with what lies there, in the type of the elements. The node that gets
 * the result contributes nothing on the way: its receiving ranks combine their node's operands with the rest.
 */
#ifndef MSCCLPP_DEVICE_KERN_COLL_NODES_ROUNDS_H
#define MSCCLPP_DEVICE_KERN_COLL_NODES_ROUNDS_H

#include "device/kern/coll/nodes_rows.h"
#include "device/lib/port_channel.h"
#include "device/lib/reduce.h"

/* Finds out whether the call goes in rounds, and fills in what these need. */
MSCCLPP_DEV void mscclpp_dev_cr_begin(mscclpp_dev_cp_t *p)
{
    const mscclpp_dev_coll_nodes_args_t *args = p->b.args;

    p->rounds = args->radix != 0;
    if (!p->rounds) {
        return;
    }
    p->r.nnodes = args->nodes.nnodes;
    p->r.radix = args->radix;
    p->r.node = args->nodes.node;
    p->r.root = MSCCLPP_DEV_COLL_ROOTED(args->pattern) ? args->place[args->root].node : 0;
    p->r.pattern = args->pattern;
    p->r.rounds = mscclpp_dev_rounds_count(args->nodes.nnodes, args->radix);
    p->pitch = MSCCLPP_DEV_COLL_NODES_BLOCKS(args->pattern, args->nodes.most, args->nodes.shards) * p->units;
    p->carries =
        (!MSCCLPP_DEV_COLL_ALONE(args->pattern) && args->pattern != MSCCLPP_DEV_REDUCE) || p->turn.owner == p->b.index;
}

/* The row of a place. */
MSCCLPP_DEV mscclpp_dev_cp_row_t mscclpp_dev_cr_row(const mscclpp_dev_cp_t *p, uint64_t place)
{
    return mscclpp_dev_cp_far(p, mscclpp_dev_cp_slot(p, 0) + place * p->pitch * MSCCLPP_DEV_PACKET_UNIT, p->pitch);
}

/* Offset of the packet that empty messages are sent from. */
MSCCLPP_DEV uint64_t mscclpp_dev_cr_blank(const mscclpp_dev_cp_t *p)
{
    return mscclpp_dev_cp_slot(p, 0) + mscclpp_dev_rounds_places(&p->r) * p->pitch * MSCCLPP_DEV_PACKET_UNIT;
}

/* Offset of the packet in which an empty message `j` of a round arrives. */
MSCCLPP_DEV uint64_t mscclpp_dev_cr_empty(const mscclpp_dev_cp_t *p, uint32_t round, uint32_t j)
{
    return mscclpp_dev_cr_blank(p) + ((uint64_t)round * (p->r.radix - 1) + j) * MSCCLPP_DEV_PACKET_UNIT;
}

/* Message `j` of `sender` in a round. Its count is 0 if this owner has no data in this call. */
MSCCLPP_DEV mscclpp_dev_rounds_message_t mscclpp_dev_cr_message(const mscclpp_dev_cp_t *p, uint32_t sender,
                                                                uint32_t round, uint32_t j)
{
    mscclpp_dev_rounds_message_t m = mscclpp_dev_rounds_message(&p->r, sender, round, j);

    m.count = p->carries ? m.count : 0;
    return m;
}

/* ---- Before the rounds ---- */

/* True if this owner has data of its node for others. */
MSCCLPP_DEV bool mscclpp_dev_cr_has_data(const mscclpp_dev_cp_t *p)
{
    const uint32_t pattern = p->b.args->pattern;

    return p->carries && (MSCCLPP_DEV_COLL_ALONE(pattern) ? p->r.node == p->r.root
                          : pattern == MSCCLPP_DEV_REDUCE ? p->r.node != p->r.root
                                                          : true);
}

/* The row for data for node `k`, or for all nodes if they are the same. */
MSCCLPP_DEV mscclpp_dev_cp_row_t mscclpp_dev_cr_outgoing(const mscclpp_dev_cp_t *p, uint32_t k)
{
    return mscclpp_dev_cr_row(p, p->b.many ? (k + p->r.nnodes - p->r.node) % p->r.nnodes : 0);
}

/* The row in which the data from node `k` lie after the rounds, or the combined data from all other nodes. */
MSCCLPP_DEV mscclpp_dev_cp_row_t mscclpp_dev_cr_incoming(const mscclpp_dev_cp_t *p, uint32_t k)
{
    const uint32_t position = (p->r.node + p->r.nnodes - k) % p->r.nnodes;
    const bool first = p->b.merges || MSCCLPP_DEV_COLL_ALONE(p->b.args->pattern);

    return mscclpp_dev_cr_row(p, first ? 0 : mscclpp_dev_rounds_place(&p->r, position, p->r.rounds));
}

/* ---- Rounds ---- */

/* Copies the blocks of an all-to-all that a round moves to where they are sent from. */
MSCCLPP_DEV void mscclpp_dev_cr_gather(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_cp_t *p, uint32_t round, uint32_t j)
{
    const mscclpp_dev_rounds_message_t m = mscclpp_dev_cr_message(p, p->r.node, round, j);
    const uint64_t departure = mscclpp_dev_rounds_departure(&p->r, m, round, j);
    uint64_t u;

    for (u = ctx->tid; u < m.count * p->pitch && !ctx->failed; u += ctx->nthreads) {
        const uint32_t i = (uint32_t)(u / p->pitch);
        const uint32_t position = mscclpp_dev_rounds_turned(&p->r, round, j, i);
        const mscclpp_dev_cp_row_t from = mscclpp_dev_cr_row(p, mscclpp_dev_rounds_place(&p->r, position, round));

        mscclpp_dev_cp_put(p, mscclpp_dev_cr_row(p, departure + i), u % p->pitch,
                           mscclpp_dev_cp_get(ctx, p, from, u % p->pitch, 0));
    }
}

/* Puts the messages of a round. The block's threads share them. */
MSCCLPP_DEV void mscclpp_dev_cr_push(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_cp_t *p, uint32_t round)
{
    const mscclpp_dev_nodes_args_t *nodes = &p->b.args->nodes;
    const uint64_t begin = mscclpp_dev_cp_slot(p, 0), place = p->pitch * MSCCLPP_DEV_PACKET_UNIT;
    uint32_t j;

    for (j = 1 + ctx->tid; j < p->r.radix; j += ctx->nthreads) {
        const mscclpp_dev_rounds_message_t m = mscclpp_dev_cr_message(p, p->r.node, round, j);
        const uint32_t peer = mscclpp_dev_rounds_behind(&p->r, m.distance);
        const mscclpp_dev_port_channel_t *channel = &nodes->channels[MSCCLPP_DEV_NODES_NUMBER(nodes->nnodes, 0, peer)];

        if (m.distance != 0 && m.count != 0) {
            mscclpp_dev_port_put(ctx, &nodes->common, channel,
                                 begin + mscclpp_dev_rounds_arrival(&p->r, m, round, j) * place,
                                 begin + mscclpp_dev_rounds_departure(&p->r, m, round, j) * place, m.count * place);
        } else if (m.distance != 0) {
            mscclpp_dev_port_put(ctx, &nodes->common, channel, mscclpp_dev_cr_empty(p, round, j),
                                 mscclpp_dev_cr_blank(p), MSCCLPP_DEV_PACKET_UNIT);
        }
    }
}

/* True if nothing lies yet where a message's first block is to be combined: on the node that gets the result. */
MSCCLPP_DEV bool mscclpp_dev_cr_is_bare(const mscclpp_dev_cp_t *p, uint32_t round, uint32_t j)
{
    return round == 0 && j == 1 && (p->r.pattern != MSCCLPP_DEV_REDUCE || p->r.node == p->r.root);
}

/* Unit `u` of a message has arrived: combines it with the unit of the same number from place 0 on. */
MSCCLPP_DEV void mscclpp_dev_cr_combine(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_cp_t *p, bool bare, uint64_t u,
                                        mscclpp_dev_vec_t v)
{
    const mscclpp_dev_cp_row_t row = mscclpp_dev_cr_row(p, u / p->pitch);
    mscclpp_dev_acc_t acc;

    if (bare && u < p->pitch) {
        mscclpp_dev_cp_put(p, row, u, v);
        return;
    }
    mscclpp_dev_acc_set(&acc, p->b.dtype, mscclpp_dev_cp_get(ctx, p, row, u % p->pitch, 0));
    mscclpp_dev_acc_add(&acc, false, p->b.dtype, p->b.op, v);
    mscclpp_dev_cp_put(p, row, u % p->pitch, mscclpp_dev_acc_get(&acc, p->b.dtype));
}

/* Waits for message `j` of a round. */
MSCCLPP_DEV void mscclpp_dev_cr_await(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_cp_t *p, uint32_t round, uint32_t j)
{
    const mscclpp_dev_nodes_args_t *nodes = &p->b.args->nodes;
    const uint32_t distance = mscclpp_dev_cr_message(p, p->r.node, round, j).distance;
    const uint32_t sender = mscclpp_dev_rounds_before(&p->r, distance);
    const mscclpp_dev_rounds_message_t m = mscclpp_dev_cr_message(p, sender, round, j);
    const uint64_t arrival = mscclpp_dev_rounds_arrival(&p->r, m, round, j);
    const uint32_t name = nodes->channels[MSCCLPP_DEV_NODES_NUMBER(nodes->nnodes, 0, sender)].peer;
    uint64_t u;

    if (distance == 0) {
        return;
    }
    if (m.count == 0 && ctx->tid == 0) {
        (void)mscclpp_dev_cp_get(ctx, p, mscclpp_dev_cp_far(p, mscclpp_dev_cr_empty(p, round, j), 1), 0, name);
    }
    for (u = ctx->tid; u < m.count * p->pitch && !ctx->failed; u += ctx->nthreads) {
        const mscclpp_dev_vec_t v =
            mscclpp_dev_cp_get(ctx, p, mscclpp_dev_cr_row(p, arrival + u / p->pitch), u % p->pitch, name);

        if (p->b.merges && !ctx->failed) {
            mscclpp_dev_cr_combine(ctx, p, mscclpp_dev_cr_is_bare(p, round, j), u, v);
        }
    }
}

/* Carries out the rounds. The data of this node lie in their places. Called by all threads. */
MSCCLPP_DEV void mscclpp_dev_cr_run(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_cp_t *p)
{
    uint32_t round, j;

    if (ctx->tid == 0) {
        mscclpp_dev_cp_put(p, mscclpp_dev_cp_far(p, mscclpp_dev_cr_blank(p), 1), 0, mscclpp_dev_vec_zero());
    }
    for (round = 0; round < p->r.rounds && !ctx->failed; ++round) {
        for (j = 1; j < p->r.radix && p->r.pattern == MSCCLPP_DEV_ALLTOALL; ++j) {
            mscclpp_dev_cr_gather(ctx, p, round, j);
        }
        ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
        if (ctx->failed) {
            return;
        }
        mscclpp_dev_cr_push(ctx, p, round);
        for (j = 1; j < p->r.radix; ++j) {
            mscclpp_dev_cr_await(ctx, p, round, j);
        }
        ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
    }
}

#endif
