/*
 * Small blocks of one size over several nodes as packets. It uses no barriers and no signals. It sends one message to
 * each other node; or, in rounds, a few messages whose number grows with the logarithm of the number of nodes:
 *
 *   1. Every rank stores its blocks as packets into the scratch of the ranks of its node. If another rank sends them to
 *      other nodes, it stores them into that owner's scratch, too.
 *   2. An owner stores the data for other nodes in its exchange area as packets, and has them put to the same owner on
 *      those nodes. In rounds, they go through the owners on other nodes (nodes_rounds.h).
 *   3. The owner waits for the packets from those nodes, and stores them into the scratch of the receiving ranks of its
 *      node.
 *   4. Every rank waits for its packets, and moves or combines their data.
 *
 * As with tiles (nodes.h): who sends what for whom, and what is combined where. One block does everything, in one
 * epoch.
 *
 * Why two sets, selected by the parity of the flag, are enough (lib/packet.h, allreduce_nodes_packets.h): every rank
 * receives a packet from every other rank of its node, and every owner one from the same owner on every other node. A
 * sender that has no data sends an empty packet. So a rank that has ended kernel k + 1 knows that all these senders
 * have ended kernel k, and that everything that it put in k has been read. No other rank writes here: the data that an
 * owner hands out come from a rank of the node. In rounds, an owner hears from some of those owners through others, and
 * waits for all of every message.
 */
#ifndef MSCCLPP_DEVICE_KERN_COLL_NODES_PACKETS_H
#define MSCCLPP_DEVICE_KERN_COLL_NODES_PACKETS_H

#include "device/kern/coll/nodes_rounds.h"
#include "device/lib/barrier.h"

/* ---- Send ---- */

/* Sends a block of this rank's input. */
MSCCLPP_DEV void mscclpp_dev_cp_send(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_cp_t *p, mscclpp_dev_block_t block,
                                     mscclpp_dev_cp_row_t row)
{
    const char *from = (const char *)p->b.args->nodes.common.in + block.offset;
    const uint64_t units = mscclpp_dev_units(block.bytes);
    uint64_t u;

    for (u = ctx->tid; u < units && !ctx->failed; u += ctx->nthreads) {
        mscclpp_dev_cp_put(p, row, u, mscclpp_dev_ld_unit(from, u, block.bytes));
    }
}

/* Sends a block for a rank of another node to the owner that puts it there, unless that is this rank. */
MSCCLPP_DEV void mscclpp_dev_cp_relay(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_cp_t *p,
                                      mscclpp_dev_block_t block, uint32_t receiver)
{
    const mscclpp_dev_coll_nodes_args_t *args = p->b.args;
    const uint32_t owner = p->b.merges ? mscclpp_dev_cn_merger_of(args, &p->turn, receiver)
                                       : mscclpp_dev_cn_owner_of(args, &p->turn, args->rank);

    if (owner != p->b.index && block.bytes > 0) {
        mscclpp_dev_cp_send(ctx, p, block,
                            mscclpp_dev_cp_row(p, owner, mscclpp_dev_cn_relay_row(&p->b, args->rank, receiver)));
    }
}

/* Sends this rank's blocks to the ranks of its node, and to the owners that send them on. */
MSCCLPP_DEV void mscclpp_dev_cp_send_all(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_cp_t *p)
{
    const mscclpp_dev_coll_nodes_args_t *args = p->b.args;
    uint32_t i;

    for (i = 1; i < args->nranks; ++i) {
        const uint32_t peer = args->rank + i < args->nranks ? args->rank + i : args->rank + i - args->nranks;
        const mscclpp_dev_block_t block = mscclpp_dev_cn_send_block(args, peer);

        if (args->place[peer].node == args->nodes.node) {
            const mscclpp_dev_cp_row_t row = mscclpp_dev_cp_row(p, args->place[peer].index, args->rank);

            mscclpp_dev_cp_send(ctx, p, block, row);
            if (block.bytes == 0 && ctx->tid == 0 && !ctx->failed) {
                mscclpp_dev_cp_put(p, row, 0, mscclpp_dev_vec_zero());
            }
        } else if (p->b.merges || p->b.many) {
            mscclpp_dev_cp_relay(ctx, p, block, peer);
        }
    }
    if (!p->b.merges && !p->b.many) {
        mscclpp_dev_cp_relay(ctx, p, mscclpp_dev_cn_common_block(args), 0);
    }
}

/* ---- An owner's part ---- */

/* Combines unit `u` of this node's blocks for `receiver`. */
MSCCLPP_DEV mscclpp_dev_vec_t mscclpp_dev_cp_merge(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_cp_t *p, uint32_t receiver,
                                                   uint64_t u)
{
    const mscclpp_dev_coll_nodes_args_t *args = p->b.args;
    const mscclpp_dev_block_t own = mscclpp_dev_cn_send_block(args, receiver);
    mscclpp_dev_acc_t acc;
    const uint32_t begin = args->begin[args->nodes.node], end = args->begin[args->nodes.node + 1];
    uint32_t i;

    for (i = begin; i < end; ++i) {
        const uint32_t r = args->members[i];
        mscclpp_dev_vec_t v;

        if (r == args->rank) {
            v = mscclpp_dev_ld_unit((const char *)args->nodes.common.in + own.offset, u, own.bytes);
        } else {
            v = mscclpp_dev_cp_get(
                ctx, p,
                mscclpp_dev_cp_row(p, p->b.index,
                                   receiver == args->rank ? r : mscclpp_dev_cn_relay_row(&p->b, r, receiver)),
                u, args->place[r].index);
        }
        if (i == begin) {
            mscclpp_dev_acc_set(&acc, p->b.dtype, v);
        } else {
            mscclpp_dev_acc_add(&acc, false, p->b.dtype, p->b.op, v);
        }
    }
    return mscclpp_dev_acc_get(&acc, p->b.dtype);
}

/* Unit `u` of a block of `sender`, a rank of this node, for `receiver` on another one. */
MSCCLPP_DEV mscclpp_dev_vec_t mscclpp_dev_cp_client_unit(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_cp_t *p,
                                                         uint32_t sender, uint32_t receiver, uint64_t u)
{
    const mscclpp_dev_coll_nodes_args_t *args = p->b.args;

    if (sender == args->rank) {
        const mscclpp_dev_block_t block =
            p->b.many ? mscclpp_dev_cn_send_block(args, receiver) : mscclpp_dev_cn_common_block(args);

        return mscclpp_dev_ld_unit((const char *)args->nodes.common.in + block.offset, u, block.bytes);
    }
    return mscclpp_dev_cp_get(ctx, p,
                              mscclpp_dev_cp_row(p, p->b.index, mscclpp_dev_cn_relay_row(&p->b, sender, receiver)), u,
                              args->place[sender].index);
}

/* True if `sender` sends a block to a rank of another node. */
MSCCLPP_DEV bool mscclpp_dev_cp_sends_far(const mscclpp_dev_coll_nodes_args_t *args, uint32_t sender)
{
    bool any = false;
    uint32_t k;

    for (k = 0; k < args->nodes.nnodes && !any; ++k) {
        any = k != args->nodes.node && mscclpp_dev_cn_reaches(args, sender, k);
    }
    return any;
}

/* Stores the data for node `k` in the exchange area; or the data for all nodes, if they are the same. */
MSCCLPP_DEV void mscclpp_dev_cp_store_for_node(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_cp_t *p, uint32_t k)
{
    const mscclpp_dev_coll_nodes_args_t *args = p->b.args;
    const uint64_t units = mscclpp_dev_cn_count(&p->b, &p->turn, args->nodes.node, p->b.index, k) * p->units;
    const mscclpp_dev_cp_row_t row =
        p->rounds ? mscclpp_dev_cr_outgoing(p, k) : mscclpp_dev_cp_far(p, mscclpp_dev_cp_outgoing(p, k), units);
    const uint32_t first = args->begin[k], last = p->b.many ? args->begin[k + 1] : first + 1;
    uint64_t offset = 0, u;
    uint32_t i, j;

    for (i = first; i < args->begin[k + 1] && p->b.merges; ++i) {
        const uint32_t r = args->members[i];

        if (!mscclpp_dev_cn_merges_for(args, &p->turn, p->b.index, r, k)) {
            continue;
        }
        for (u = ctx->tid; u < p->units; u += ctx->nthreads) {
            mscclpp_dev_cp_put(p, row, offset + u, mscclpp_dev_cp_merge(ctx, p, r, u));
        }
        offset += p->units;
    }
    for (i = args->begin[args->nodes.node]; i < args->begin[args->nodes.node + 1] && !p->b.merges; ++i) {
        const uint32_t a = args->members[i];
        bool leaves;

        if (!mscclpp_dev_cn_is_client(args, &p->turn, a, args->nodes.node, p->b.index)) {
            continue;
        }
        leaves = mscclpp_dev_cp_sends_far(args, a);
        for (j = first; j < last; ++j) {
            for (u = ctx->tid; u < p->units && (leaves || p->rounds); u += ctx->nthreads) {
                mscclpp_dev_cp_put(p, row, offset + u,
                                   leaves ? mscclpp_dev_cp_client_unit(ctx, p, a, args->members[j], u)
                                          : mscclpp_dev_vec_zero());
            }
            offset += p->units;
        }
    }
    for (u = offset + ctx->tid; p->rounds && u < p->pitch; u += ctx->nthreads) {
        mscclpp_dev_cp_put(p, row, u, mscclpp_dev_vec_zero());
    }
    if (ctx->tid == 0 && !p->rounds) {
        mscclpp_dev_cp_put(p, mscclpp_dev_cp_far(p, mscclpp_dev_cp_empty(p, k), 1), 0, mscclpp_dev_vec_zero());
    }
}

/* Stores the data for all other nodes. */
MSCCLPP_DEV void mscclpp_dev_cp_store_all(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_cp_t *p)
{
    const mscclpp_dev_nodes_args_t *nodes = &p->b.args->nodes;
    const bool each = p->rounds ? p->b.many : p->b.many || p->b.merges;
    uint32_t i;

    if (p->rounds && !mscclpp_dev_cr_has_data(p)) {
        return;
    }
    if (p->rounds && p->b.args->pattern == MSCCLPP_DEV_REDUCE) {
        mscclpp_dev_cp_store_for_node(ctx, p, p->r.root);
        return;
    }
    for (i = 1; i < nodes->nnodes && (each || i == 1); ++i) {
        mscclpp_dev_cp_store_for_node(ctx, p, (nodes->node + i) % nodes->nnodes);
    }
}

/* Puts the data to the other nodes. The block's threads share the nodes. */
MSCCLPP_DEV void mscclpp_dev_cp_push(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_cp_t *p)
{
    const mscclpp_dev_nodes_args_t *nodes = &p->b.args->nodes;
    uint32_t i;

    for (i = 1 + ctx->tid; i < nodes->nnodes; i += ctx->nthreads) {
        const uint32_t k = (nodes->node + i) % nodes->nnodes;
        const uint64_t units = mscclpp_dev_cp_units(p, nodes->node, p->b.index, k);

        mscclpp_dev_port_put(ctx, &nodes->common, &nodes->channels[MSCCLPP_DEV_NODES_NUMBER(nodes->nnodes, 0, k)],
                             mscclpp_dev_cp_slot(p, 1 + nodes->node),
                             units > 0 ? mscclpp_dev_cp_outgoing(p, k) : mscclpp_dev_cp_empty(p, k),
                             (units > 0 ? units : 1) * MSCCLPP_DEV_PACKET_UNIT);
    }
}

/* Hands the data from node `k` to the receiving ranks of this node. */
MSCCLPP_DEV void mscclpp_dev_cp_hand_out(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_cp_t *p, uint32_t k)
{
    const mscclpp_dev_coll_nodes_args_t *args = p->b.args;
    const uint64_t units = mscclpp_dev_cp_units(p, k, p->b.index, args->nodes.node);
    const mscclpp_dev_cp_row_t row = p->rounds
                                         ? mscclpp_dev_cr_incoming(p, k)
                                         : mscclpp_dev_cp_far(p, mscclpp_dev_cp_slot(p, 1 + k), units > 0 ? units : 1);
    const uint32_t name = args->nodes.channels[MSCCLPP_DEV_NODES_NUMBER(args->nodes.nnodes, 0, k)].peer;
    const uint32_t begin = args->begin[args->nodes.node], end = args->begin[args->nodes.node + 1];
    uint64_t offset = 0, u;
    uint32_t i, j;

    if (units == 0) {
        if (ctx->tid == 0 && !p->rounds) {
            (void)mscclpp_dev_cp_get(ctx, p, row, 0, name);
        }
        return;
    }
    for (i = begin; i < end && p->b.merges; ++i) {
        const uint32_t r = args->members[i];

        if (!mscclpp_dev_cn_merges_for(args, &p->turn, p->b.index, r, args->nodes.node)) {
            continue;
        }
        for (u = ctx->tid; u < p->units; u += ctx->nthreads) {
            const mscclpp_dev_vec_t v = mscclpp_dev_cp_get(ctx, p, row, offset + u, name);

            if (!ctx->failed) {
                mscclpp_dev_cp_put(p, mscclpp_dev_cp_row(p, args->place[r].index, mscclpp_dev_cn_first_of(args, k)), u,
                                   v);
            }
        }
        offset += p->units;
    }
    for (i = args->begin[k]; i < args->begin[k + 1] && !p->b.merges; ++i) {
        const uint32_t a = args->members[i];

        if (!mscclpp_dev_cn_is_client(args, &p->turn, a, k, p->b.index)) {
            continue;
        }
        for (j = begin; j < end; ++j) {
            const uint32_t r = args->members[j];

            for (u = ctx->tid; u < p->units && mscclpp_dev_cn_sends(args, a, r); u += ctx->nthreads) {
                const mscclpp_dev_vec_t v = mscclpp_dev_cp_get(ctx, p, row, offset + u, name);

                if (!ctx->failed) {
                    mscclpp_dev_cp_put(p, mscclpp_dev_cp_row(p, args->place[r].index, a), u, v);
                }
            }
            offset += p->b.many ? p->units : 0;
        }
        offset += p->b.many ? 0 : p->units;
    }
}

/* Hands out the data from all other nodes. In rounds, what a pattern combines has become the data of one of them. */
MSCCLPP_DEV void mscclpp_dev_cp_hand_all(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_cp_t *p)
{
    const mscclpp_dev_nodes_args_t *nodes = &p->b.args->nodes;
    uint32_t i;

    for (i = 1; i < nodes->nnodes && !(p->rounds && p->b.merges); ++i) {
        mscclpp_dev_cp_hand_out(ctx, p, (nodes->node + nodes->nnodes - i) % nodes->nnodes);
    }
    if (p->rounds && p->b.merges) {
        mscclpp_dev_cp_hand_out(ctx, p, (nodes->node + 1) % nodes->nnodes);
    }
}

/* ---- Receive ---- */

/* The rank that a wait for a block of `sender` names: `sender`, or the owner that hands the block out. */
MSCCLPP_DEV uint32_t mscclpp_dev_cp_name(const mscclpp_dev_cp_t *p, uint32_t sender)
{
    const mscclpp_dev_coll_nodes_args_t *args = p->b.args;

    return args->place[sender].node == args->nodes.node ? args->place[sender].index
           : p->b.merges                                ? mscclpp_dev_cn_merger_of(args, &p->turn, args->rank)
                                                        : mscclpp_dev_cn_owner_of(args, &p->turn, sender);
}

/* Waits for unit `u` of the block of `sender`, or of what was combined on the node of `sender`. */
MSCCLPP_DEV mscclpp_dev_vec_t mscclpp_dev_cp_receive(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_cp_t *p, uint32_t sender,
                                                     uint64_t u)
{
    return mscclpp_dev_cp_get(ctx, p, mscclpp_dev_cp_row(p, p->b.index, sender), u, mscclpp_dev_cp_name(p, sender));
}

/*
 * Unit `u` of the result. It combines the operands of ranks 0 to `end` - 1 for a scan, and else the partial results of
 * all nodes; in rounds, this node's one and what the others' ones have been combined to.
 */
MSCCLPP_DEV mscclpp_dev_vec_t mscclpp_dev_cp_combine(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_cp_t *p, uint32_t end,
                                                     uint64_t u)
{
    const mscclpp_dev_coll_nodes_args_t *args = p->b.args;
    const mscclpp_dev_block_t own = mscclpp_dev_cn_send_block(args, args->rank);
    const uint32_t count = !p->b.merges ? end : p->rounds ? 2 : args->nodes.nnodes;
    const uint32_t own_index = !p->b.merges ? args->rank : p->rounds ? 0 : args->nodes.node;
    mscclpp_dev_acc_t acc;
    uint32_t i;

    for (i = 0; i < count; ++i) {
        mscclpp_dev_vec_t v;

        if (i == own_index) {
            v = p->b.merges ? mscclpp_dev_cp_merge(ctx, p, args->rank, u)
                            : mscclpp_dev_ld_unit((const char *)args->nodes.common.in + own.offset, u, own.bytes);
        } else {
            const uint32_t node = p->rounds ? (args->nodes.node + 1) % args->nodes.nnodes : i;

            v = mscclpp_dev_cp_receive(ctx, p, p->b.merges ? mscclpp_dev_cn_first_of(args, node) : i, u);
        }
        if (i == 0) {
            mscclpp_dev_acc_set(&acc, p->b.dtype, v);
        } else {
            mscclpp_dev_acc_add(&acc, false, p->b.dtype, p->b.op, v);
        }
    }
    return mscclpp_dev_acc_get(&acc, p->b.dtype);
}

/* Waits for all packets for this rank, and moves or combines their data. */
MSCCLPP_DEV void mscclpp_dev_cp_receive_all(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_cp_t *p)
{
    const mscclpp_dev_coll_nodes_args_t *args = p->b.args;
    const bool combines = MSCCLPP_DEV_COMBINES(args->pattern);
    const uint64_t result = combines ? mscclpp_dev_cn_result_bytes(args) : 0;
    const uint32_t end = args->pattern == MSCCLPP_DEV_SCAN ? args->rank + 1 : args->rank;
    uint64_t u;
    uint32_t a;

    for (u = ctx->tid; u < mscclpp_dev_units(result); u += ctx->nthreads) {
        const mscclpp_dev_vec_t v = mscclpp_dev_cp_combine(ctx, p, end, u);

        if (!ctx->failed) {
            mscclpp_dev_st_unit(args->nodes.common.out, u, result, v, mscclpp_dev_unit_mask(p->b.dtype));
        }
    }
    for (a = 0; a < args->nranks; ++a) {
        const mscclpp_dev_block_t block = mscclpp_dev_cn_recv_block(args, a);

        if (a == args->rank) {
            continue;
        }
        if (args->place[a].node == args->nodes.node && ctx->tid == 0) {
            (void)mscclpp_dev_cp_receive(ctx, p, a, 0); /* possibly an empty packet */
        }
        for (u = ctx->tid; u < mscclpp_dev_units(block.bytes) && !combines; u += ctx->nthreads) {
            const mscclpp_dev_vec_t v = mscclpp_dev_cp_receive(ctx, p, a, u);

            if (!ctx->failed) {
                mscclpp_dev_st_unit((char *)args->nodes.common.out + block.offset, u, block.bytes, v, 0xffffu);
            }
        }
    }
}

/* The kernel's body. */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_packets(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_coll_nodes_args_t *args,
                                                int dtype, int op)
{
    const mscclpp_dev_nodes_args_t *nodes = &args->nodes;
    const uint64_t launches = mscclpp_dev_last_launch(ctx, &nodes->common);
    mscclpp_dev_cp_t p;

    p.flag = mscclpp_dev_last_epoch(ctx, &nodes->common) + 1;
    mscclpp_dev_cn_begin(&p.b, args, dtype, op);
    p.turn.index = p.turn.begin = p.turn.set = 0;
    p.turn.owner = p.flag % nodes->shards;
    p.units = mscclpp_dev_units(nodes->common.bytes);
    p.capacity = MSCCLPP_DEV_COLL_NODES_CAPACITY(nodes->common.packet_half, p.b.rows);
    p.room = MSCCLPP_DEV_COLL_NODES_PACKET_ROOM(args->pattern, nodes->nnodes, nodes->packet_units);
    mscclpp_dev_cr_begin(&p);
    mscclpp_dev_cp_send_all(ctx, &p);
    if (p.b.owner) {
        mscclpp_dev_cp_store_all(ctx, &p);
    }
    /* In place, no thread may write data that another thread still has to send. */
    ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
    if (p.b.owner && p.rounds) {
        mscclpp_dev_cr_run(ctx, &p);
    } else if (p.b.owner && !ctx->failed) {
        mscclpp_dev_cp_push(ctx, &p);
    }
    if (p.b.owner && !ctx->failed) {
        mscclpp_dev_cp_hand_all(ctx, &p);
    }
    mscclpp_dev_cp_receive_all(ctx, &p);
    if (!ctx->failed) {
        mscclpp_dev_cn_copy_own(ctx, args);
    }
    mscclpp_dev_finish_packets(ctx, &nodes->common, launches, p.flag);
}

#endif
