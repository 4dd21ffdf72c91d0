/*
 * All-reduce over several nodes with packets, for small messages. It uses no barriers and no signals, and sends one
 * message to each other node, or, with MSCCLPP_DEV_NODES_DOUBLING, to one partner after another, whose number grows
 * with the logarithm of the number of nodes:
 *
 *   1. Every rank sends its operands as packets to the ranks of its node that own them.
 *   2. An owner combines the operands in rank order, stores this partial result as packets in the exchange area, and
 * has it put to the owners of the same shard on the other nodes.
 *   3. These owners wait for the packets, combine the partial results in node order, and send the result as packets to
 *      the ranks of their node.
 *
 * A rank that is alone on its node skips the steps within the node. A rank may reach the memory of other nodes if they
 * are imitated; it then stores the packets there itself, without puts. Each block handles a contiguous part of the
 * shard, so that it sends all its data for another node in one put.
 *
 * Why two sets, selected by the parity of the flag, are enough, and why nobody flushes or signals: packets show by
 * themselves that they have arrived, in whatever order a put's bytes arrive; the transport guarantees whole words.
 * Epoch e + 2 is put from where epoch e was put from, to where epoch e was put. A block pushes e + 2 after its threads,
 * together, have received packets of e + 1 from the blocks of the same number on all other nodes (each has at least one
 * unit). Those blocks pushed e + 1 after all their threads had read all packets of e, as a block synchronises before it
 * pushes. If e belonged to an earlier kernel, that kernel had ended on their side. So everything that e put has arrived
 * and has been read.
 *
 * If packets are stored, the same holds between kernels, and within a kernel for each thread. A thread stores e + 2
 * where it stored e, after it has received e + 1 from the thread of the same number there, which had read e by then.
 *
 * It may also be that only one of the two sides has its packets put. In e + 2, that side overwrites only what the other
 * side has read, even if parts of e are still being put. It pushes once its whole block has received e + 1. And it
 * stores or prepares e + 1 only after it has read e.
 *
 * Within the node, the argument is that of packet.h: a rank that owns nothing exchanges packets with owners only, and
 * nobody else writes to it.
 */
#ifndef MSCCLPP_DEVICE_KERN_ALLREDUCE_ALLREDUCE_NODES_PACKETS_H
#define MSCCLPP_DEVICE_KERN_ALLREDUCE_ALLREDUCE_NODES_PACKETS_H

#include "device/lib/barrier.h"
#include "device/types/nodes.h"
#include "device/lib/packet.h"
#include "device/lib/port_channel.h"
#include "device/lib/reduce.h"

/* Number of senders whose packets are loaded before the first one is checked. */
#define MSCCLPP_DEV_NODES_BATCH 8

/* A block's part of an epoch. */
typedef struct {
    const mscclpp_dev_nodes_args_t *nodes;
    uint64_t shard;    /* units */
    uint64_t base;     /* first unit of the epoch in each shard */
    uint64_t begin;    /* the block's first unit in the epoch, and how many it has */
    uint64_t count;    /* may be 0 for the last blocks of a short message */
    uint64_t capacity; /* units of a slot within the node */
    uint32_t flag;
} mscclpp_dev_nodes_epoch_t;

/* Place of one unit's packets from several senders: sender i's are at first + i * stride. */
typedef struct {
    char *first;
    uint64_t stride;
    uint64_t pair;
} mscclpp_dev_nodes_row_t;

/* Operands (`phase` 0) or results (1) from ranks of this node, for unit `u` of the block's part. */
MSCCLPP_DEV mscclpp_dev_nodes_row_t mscclpp_dev_nodes_near(const mscclpp_dev_nodes_epoch_t *epoch, uint32_t receiver,
                                                           int phase, uint64_t u)
{
    const mscclpp_dev_args_t *args = &epoch->nodes->common;
    mscclpp_dev_nodes_row_t row;

    row.stride = epoch->capacity * MSCCLPP_DEV_PACKET_UNIT;
    row.pair = epoch->capacity * MSCCLPP_DEV_PACKET_STEP;
    row.first = args->scratch[receiver] + MSCCLPP_DEV_PACKET_OFFSET + (epoch->flag & 1) * args->packet_half +
                (uint64_t)phase * epoch->nodes->most * row.stride + (epoch->begin + u) * MSCCLPP_DEV_PACKET_STEP;
    return row;
}

/* Offset of the block's part of slot `slot` in the exchange area: 0 to send from, 1 + k for what node k sends. */
MSCCLPP_DEV uint64_t mscclpp_dev_nodes_packet_slot(const mscclpp_dev_nodes_epoch_t *epoch, uint32_t slot)
{
    const mscclpp_dev_nodes_args_t *nodes = epoch->nodes;
    const uint64_t number = (epoch->flag & 1) * ((uint64_t)nodes->nnodes + 1) + slot;

    return nodes->packets_offset + (number * nodes->packet_units + epoch->begin) * MSCCLPP_DEV_PACKET_UNIT;
}

/* Partial results of all nodes; unit `u` of the block's part. */
MSCCLPP_DEV mscclpp_dev_nodes_row_t mscclpp_dev_nodes_far(const mscclpp_dev_nodes_epoch_t *epoch, uint64_t u)
{
    mscclpp_dev_nodes_row_t row;

    row.stride = epoch->nodes->packet_units * MSCCLPP_DEV_PACKET_UNIT;
    row.pair = epoch->count * MSCCLPP_DEV_PACKET_STEP;
    row.first = epoch->nodes->exchange + mscclpp_dev_nodes_packet_slot(epoch, 1) + u * MSCCLPP_DEV_PACKET_STEP;
    return row;
}

/* The rank that a wait for sender `i` names. */
MSCCLPP_DEV uint32_t mscclpp_dev_nodes_late_rank(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_args_t *nodes,
                                                 bool far, uint32_t i)
{
    return far ? nodes->channels[MSCCLPP_DEV_NODES_NUMBER(nodes->nnodes, ctx->block, i)].peer : i;
}

/* Combines a unit of `n` senders in order. `own` is that of sender `own_sender`; the others are waited for. */
MSCCLPP_DEV mscclpp_dev_vec_t mscclpp_dev_nodes_gather(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_epoch_t *epoch,
                                                       bool hot, int dtype, int op, mscclpp_dev_nodes_row_t row,
                                                       bool far, uint32_t n, uint32_t own_sender, mscclpp_dev_vec_t own)
{
    const mscclpp_dev_nodes_args_t *nodes = epoch->nodes;
    mscclpp_dev_vec_t v[MSCCLPP_DEV_NODES_BATCH];
    bool has_arrived[MSCCLPP_DEV_NODES_BATCH];
    mscclpp_dev_acc_t acc;
    uint32_t base;
    int i;

    mscclpp_dev_acc_set(&acc, dtype, own); /* compilers do not see that there always is a sender 0 */
    for (base = 0; base < n; base += MSCCLPP_DEV_NODES_BATCH) {
        MSCCLPP_DEV_UNROLL
        for (i = 0; i < MSCCLPP_DEV_NODES_BATCH; ++i) {
            const uint32_t sender = base + (uint32_t)i;

            v[i] = own;
            has_arrived[i] =
                sender >= n || sender == own_sender ||
                mscclpp_dev_poll_unit(row.first + sender * row.stride, row.pair, &v[i], epoch->flag, MSCCLPP_DEV_LL16);
        }
        MSCCLPP_DEV_UNROLL
        for (i = 0; i < MSCCLPP_DEV_NODES_BATCH; ++i) {
            const uint32_t sender = base + (uint32_t)i;

            if (!has_arrived[i]) {
                mscclpp_dev_get_unit(ctx, &nodes->common, row.first + sender * row.stride, row.pair, &v[i], epoch->flag,
                                     MSCCLPP_DEV_LL16, mscclpp_dev_nodes_late_rank(ctx, nodes, far, sender));
            }
            if (sender == 0) {
                mscclpp_dev_acc_set(&acc, dtype, v[i]);
            } else if (sender < n) {
                mscclpp_dev_acc_add(&acc, hot, dtype, op, v[i]);
            }
        }
    }
    return mscclpp_dev_acc_get(&acc, dtype);
}

/* Unit `u` of the block's part, in this rank's operands for the owner of shard `s`. */
MSCCLPP_DEV mscclpp_dev_vec_t mscclpp_dev_nodes_load(const mscclpp_dev_nodes_epoch_t *epoch, uint32_t s, uint64_t u)
{
    const mscclpp_dev_args_t *args = &epoch->nodes->common;
    const uint64_t unit_index = epoch->base + epoch->begin + u;

    return unit_index >= epoch->shard ? mscclpp_dev_vec_zero()
                                      : mscclpp_dev_ld_unit(args->in, s * epoch->shard + unit_index, args->bytes);
}

/* Stores unit `u` of the result for shard `s`, unless it lies beyond the shard or the thread has failed. */
MSCCLPP_DEV void mscclpp_dev_nodes_store(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_epoch_t *epoch,
                                         uint32_t s, uint64_t u, mscclpp_dev_vec_t v, uint32_t mask)
{
    const mscclpp_dev_args_t *args = &epoch->nodes->common;
    const uint64_t unit_index = epoch->base + epoch->begin + u;

    if (unit_index < epoch->shard && !ctx->failed) {
        mscclpp_dev_st_unit(args->out, s * epoch->shard + unit_index, args->bytes, v, mask);
    }
}

/* The partial result of this rank's node. It is computed twice; the second time, all packets have already arrived. */
MSCCLPP_DEV mscclpp_dev_vec_t mscclpp_dev_nodes_partial(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_epoch_t *epoch,
                                                        bool hot, int dtype, int op, uint64_t u)
{
    const mscclpp_dev_args_t *args = &epoch->nodes->common;
    const mscclpp_dev_vec_t own = mscclpp_dev_nodes_load(epoch, args->rank, u);

    if (args->nranks == 1) {
        return own;
    }
    return mscclpp_dev_nodes_gather(ctx, epoch, hot, dtype, op, mscclpp_dev_nodes_near(epoch, args->rank, 0, u), false,
                                    args->nranks, args->rank, own);
}

/* Sends unit `u` as a packet to a rank of this node. `phase`: 0 for an operand, 1 for a result. */
MSCCLPP_DEV void mscclpp_dev_nodes_send_near(const mscclpp_dev_nodes_epoch_t *epoch, uint32_t receiver, int phase,
                                             uint64_t u, mscclpp_dev_vec_t v)
{
    const mscclpp_dev_nodes_row_t row = mscclpp_dev_nodes_near(epoch, receiver, phase, u);

    mscclpp_dev_put_unit(row.first + epoch->nodes->common.rank * row.stride, row.pair, v, epoch->flag,
                         MSCCLPP_DEV_LL16);
}

/* Stores the packets of a unit: where they are put from, or at all other nodes. */
MSCCLPP_DEV void mscclpp_dev_nodes_send_far(const mscclpp_dev_nodes_epoch_t *epoch, uint64_t u, mscclpp_dev_vec_t v)
{
    const mscclpp_dev_nodes_args_t *nodes = epoch->nodes;
    const uint64_t pair = epoch->count * MSCCLPP_DEV_PACKET_STEP;
    const uint64_t slot = mscclpp_dev_nodes_packet_slot(epoch, nodes->maps != 0 ? 1 + nodes->node : 0);
    const uint64_t unit_index = slot + u * MSCCLPP_DEV_PACKET_STEP;
    uint32_t i;

    if (nodes->maps == 0) {
        mscclpp_dev_put_unit(nodes->exchange + unit_index, pair, v, epoch->flag, MSCCLPP_DEV_LL16);
        return;
    }
    for (i = 1; i < nodes->nnodes; ++i) {
        const uint32_t k = nodes->node + i < nodes->nnodes ? nodes->node + i : nodes->node + i - nodes->nnodes;

        mscclpp_dev_put_unit(nodes->mapped[k] + (unit_index - nodes->packets_offset), pair, v, epoch->flag,
                             MSCCLPP_DEV_LL16);
    }
}

/* Puts the block's stored packets to all other nodes. The block's threads share the nodes. */
MSCCLPP_DEV void mscclpp_dev_nodes_put_packets(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_epoch_t *epoch)
{
    const mscclpp_dev_nodes_args_t *nodes = epoch->nodes;
    uint32_t i;

    /* Each node begins with the next one, so that not all send to the same node at once. */
    for (i = 1 + ctx->tid; i < nodes->nnodes; i += ctx->nthreads) {
        const uint32_t k = MSCCLPP_DEV_NODES_AHEAD(nodes->nnodes, nodes->node, i);

        mscclpp_dev_port_put(ctx, &nodes->common,
                             &nodes->channels[MSCCLPP_DEV_NODES_NUMBER(nodes->nnodes, ctx->block, k)],
                             mscclpp_dev_nodes_packet_slot(epoch, 1 + nodes->node),
                             mscclpp_dev_nodes_packet_slot(epoch, 0), epoch->count * MSCCLPP_DEV_PACKET_UNIT);
    }
}

/* Sends unit `u` of the result to all ranks of this owner's node. */
MSCCLPP_DEV void mscclpp_dev_nodes_deliver(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_epoch_t *epoch,
                                           uint64_t u, mscclpp_dev_vec_t v, uint32_t mask)
{
    const mscclpp_dev_args_t *args = &epoch->nodes->common;
    uint32_t i;

    for (i = 1; i < args->nranks && !ctx->failed; ++i) {
        mscclpp_dev_nodes_send_near(
            epoch, args->rank + i < args->nranks ? args->rank + i : args->rank + i - args->nranks, 1, u, v);
    }
    mscclpp_dev_nodes_store(ctx, epoch, args->rank, u, v, mask);
}

/* ---- Step by step: with one partner after another ---- */

/* What this node has is not stored yet. */
#define MSCCLPP_DEV_NODES_UNSTORED 0xffffffffu

/*
 * Offset of unit `u` of the block's part of slot `slot` in the exchange area. After the slots for messages come those
 * to send from, one for each round.
 */
MSCCLPP_DEV uint64_t mscclpp_dev_nodes_step_offset(const mscclpp_dev_nodes_epoch_t *epoch, uint32_t slot, uint64_t u)
{
    const mscclpp_dev_nodes_args_t *nodes = epoch->nodes;
    const uint64_t half = ((uint64_t)nodes->nnodes + 1) * nodes->packet_units;
    const uint64_t units =
        MSCCLPP_DEV_NODES_PACKET_UNITS(nodes->pattern, nodes->nnodes, nodes->packet_units, nodes->doubling.slots);

    return nodes->packets_offset + ((epoch->flag & 1) * half + slot * units + epoch->begin) * MSCCLPP_DEV_PACKET_UNIT +
           u * MSCCLPP_DEV_PACKET_STEP;
}

/* Waits for unit `u` in a slot of this node. */
MSCCLPP_DEV mscclpp_dev_vec_t mscclpp_dev_nodes_step_get(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_epoch_t *epoch,
                                                         uint32_t slot, uint64_t u, uint32_t peer)
{
    mscclpp_dev_vec_t v = mscclpp_dev_vec_zero();

    mscclpp_dev_get_unit(ctx, &epoch->nodes->common,
                         epoch->nodes->exchange + mscclpp_dev_nodes_step_offset(epoch, slot, u),
                         epoch->count * MSCCLPP_DEV_PACKET_STEP, &v, epoch->flag, MSCCLPP_DEV_LL16, peer);
    return v;
}

/* Stores unit `u` as a packet in a slot of this node, to be sent from there. */
MSCCLPP_DEV void mscclpp_dev_nodes_step_put(const mscclpp_dev_nodes_epoch_t *epoch, uint32_t slot, uint64_t u,
                                            mscclpp_dev_vec_t v)
{
    mscclpp_dev_put_unit(epoch->nodes->exchange + mscclpp_dev_nodes_step_offset(epoch, slot, u),
                         epoch->count * MSCCLPP_DEV_PACKET_STEP, v, epoch->flag, MSCCLPP_DEV_LL16);
}

/* Unit `u` of what this node has: in slot `stored`, or not stored. `first` is this thread's first unit. */
MSCCLPP_DEV mscclpp_dev_vec_t mscclpp_dev_nodes_step_own(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_epoch_t *epoch,
                                                         bool hot, int dtype, int op, uint32_t stored, uint64_t u,
                                                         mscclpp_dev_vec_t first)
{
    return u == ctx->tid                          ? first
           : stored == MSCCLPP_DEV_NODES_UNSTORED ? mscclpp_dev_nodes_partial(ctx, epoch, hot, dtype, op, u)
                                                  : mscclpp_dev_nodes_step_get(ctx, epoch, stored, u, 0);
}

/* Sends the block's part to the peer, from where it lies. Called by all threads. */
MSCCLPP_DEV void mscclpp_dev_nodes_step_send(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_epoch_t *epoch,
                                             const mscclpp_dev_step_t *step, uint32_t from)
{
    const mscclpp_dev_nodes_args_t *nodes = epoch->nodes;
    uint64_t u;

    if (nodes->maps != 0) {
        for (u = ctx->tid; u < epoch->count && !ctx->failed; u += ctx->nthreads) {
            const mscclpp_dev_vec_t v = mscclpp_dev_nodes_step_get(ctx, epoch, from, u, 0);

            mscclpp_dev_put_unit(nodes->mapped[step->peer] +
                                     (mscclpp_dev_nodes_step_offset(epoch, step->slot, u) - nodes->packets_offset),
                                 epoch->count * MSCCLPP_DEV_PACKET_STEP, v, epoch->flag, MSCCLPP_DEV_LL16);
        }
        return;
    }
    mscclpp_dev_block_sync(ctx);
    if (ctx->tid == 0 && !ctx->failed) {
        mscclpp_dev_port_put(ctx, &nodes->common,
                             &nodes->channels[MSCCLPP_DEV_NODES_NUMBER(nodes->nnodes, ctx->block, step->peer)],
                             mscclpp_dev_nodes_step_offset(epoch, step->slot, 0),
                             mscclpp_dev_nodes_step_offset(epoch, from, 0), epoch->count * MSCCLPP_DEV_PACKET_UNIT);
    }
}

/* The node's unit after a step of this kind: what it has, combined with what it has received. */
MSCCLPP_DEV mscclpp_dev_vec_t mscclpp_dev_nodes_step_combine(uint32_t kind, bool hot, int dtype, int op,
                                                             mscclpp_dev_vec_t own, mscclpp_dev_vec_t received)
{
    mscclpp_dev_acc_t acc;

    if (kind == MSCCLPP_DEV_STEP_STORE) {
        return received;
    }
    mscclpp_dev_acc_set(&acc, dtype, kind == MSCCLPP_DEV_STEP_BEFORE ? received : own);
    mscclpp_dev_acc_add(&acc, hot, dtype, op, kind == MSCCLPP_DEV_STEP_BEFORE ? own : received);
    return mscclpp_dev_acc_get(&acc, dtype);
}

/*
 * The owner's part with one partner after another. Each unit stays with one thread. What a round combines is stored
 * where the next round sends it from. The argument why two sets are enough holds here, too: whoever has ended epoch
 * e + 1 has received, directly or through others, what every block of the same number pushed in e + 1, after all its
 * threads had read all packets of e. So all puts of e have arrived, and both slots and sources of e are free, whichever
 * pattern e and e + 2 have.
 */
MSCCLPP_DEV void mscclpp_dev_nodes_stepwise(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_epoch_t *epoch, bool hot,
                                            int dtype, int op)
{
    const mscclpp_dev_nodes_args_t *nodes = epoch->nodes;
    const uint32_t mask = mscclpp_dev_unit_mask(dtype);
    mscclpp_dev_vec_t first = mscclpp_dev_vec_zero(), v;
    uint32_t stored = MSCCLPP_DEV_NODES_UNSTORED, s, to;
    bool delivered = false;
    uint64_t u;

    if (epoch->count == 0) {
        return;
    }
    if (ctx->tid < epoch->count) {
        first = mscclpp_dev_nodes_partial(ctx, epoch, hot, dtype, op, ctx->tid);
    }
    for (s = 0; s < nodes->doubling.count; ++s) {
        const mscclpp_dev_step_t step = nodes->doubling.step[s];
        const bool sends = step.kind == MSCCLPP_DEV_STEP_SEND, last = s + 1 == nodes->doubling.count;

        to = nodes->doubling.slots + (sends ? step.round : last ? 0 : nodes->doubling.step[s + 1].round);
        for (u = ctx->tid; u < epoch->count && !(sends && stored == to); u += ctx->nthreads) {
            v = mscclpp_dev_nodes_step_own(ctx, epoch, hot, dtype, op, stored, u, first);
            if (!sends) {
                v = mscclpp_dev_nodes_step_combine(
                    step.kind, hot, dtype, op, v,
                    mscclpp_dev_nodes_step_get(ctx, epoch, step.slot, u,
                                               mscclpp_dev_nodes_late_rank(ctx, nodes, true, step.peer)));
            }
            first = u == ctx->tid ? v : first;
            if (!sends && last) {
                mscclpp_dev_nodes_deliver(ctx, epoch, u, v, mask);
            } else if (!ctx->failed) {
                mscclpp_dev_nodes_step_put(epoch, to, u, v);
            }
        }
        stored = to;
        delivered = !sends && last;
        if (sends) {
            mscclpp_dev_nodes_step_send(ctx, epoch, &step, to);
        }
    }
    for (u = ctx->tid; u < epoch->count && !delivered; u += ctx->nthreads) {
        mscclpp_dev_nodes_deliver(ctx, epoch, u,
                                  mscclpp_dev_nodes_step_own(ctx, epoch, hot, dtype, op, stored, u, first), mask);
    }
}

/* The owner's part: combines all nodes' partial results and sends the result to all ranks of its node. */
MSCCLPP_DEV void mscclpp_dev_nodes_combine(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_epoch_t *epoch, bool hot,
                                           int dtype, int op)
{
    const mscclpp_dev_nodes_args_t *nodes = epoch->nodes;
    const uint32_t mask = mscclpp_dev_unit_mask(dtype);
    mscclpp_dev_vec_t first = mscclpp_dev_vec_zero(), v;
    uint64_t u;

    for (u = ctx->tid; u < epoch->count; u += ctx->nthreads) {
        v = mscclpp_dev_nodes_partial(ctx, epoch, hot, dtype, op, u);
        first = u == ctx->tid ? v : first;
        if (!ctx->failed) {
            mscclpp_dev_nodes_send_far(epoch, u, v);
        }
    }
    if (nodes->maps == 0) {
        mscclpp_dev_block_sync(ctx);
        if (epoch->count > 0) {
            mscclpp_dev_nodes_put_packets(ctx, epoch);
        }
    }
    for (u = ctx->tid; u < epoch->count; u += ctx->nthreads) {
        v = u == ctx->tid ? first : mscclpp_dev_nodes_partial(ctx, epoch, hot, dtype, op, u);
        v = mscclpp_dev_nodes_gather(ctx, epoch, hot, dtype, op, mscclpp_dev_nodes_far(epoch, u), true, nodes->nnodes,
                                     nodes->node, v);
        mscclpp_dev_nodes_deliver(ctx, epoch, u, v, mask);
    }
}

/* One epoch of the block's part: operands to their owners, the owners' exchange, results to all ranks. */
MSCCLPP_DEV void mscclpp_dev_nodes_epoch(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_epoch_t *epoch, bool hot,
                                         int dtype, int op)
{
    const mscclpp_dev_nodes_args_t *nodes = epoch->nodes;
    const mscclpp_dev_args_t *args = &nodes->common;
    const uint32_t mask = mscclpp_dev_unit_mask(dtype);
    uint64_t u;
    uint32_t s;

    for (u = ctx->tid; u < epoch->count && !ctx->failed; u += ctx->nthreads) {
        for (s = 0; s < nodes->shards; ++s) {
            if (s != args->rank) {
                mscclpp_dev_nodes_send_near(epoch, s, 0, u, mscclpp_dev_nodes_load(epoch, s, u));
            }
        }
    }
    if (args->rank < nodes->shards && nodes->pattern == MSCCLPP_DEV_NODES_DOUBLING) {
        mscclpp_dev_nodes_stepwise(ctx, epoch, hot, dtype, op);
    } else if (args->rank < nodes->shards) {
        mscclpp_dev_nodes_combine(ctx, epoch, hot, dtype, op);
    }
    for (u = ctx->tid; u < epoch->count; u += ctx->nthreads) {
        const mscclpp_dev_nodes_row_t row = mscclpp_dev_nodes_near(epoch, args->rank, 1, u);

        for (s = 0; s < nodes->shards; ++s) {
            mscclpp_dev_vec_t v = mscclpp_dev_vec_zero();

            if (s != args->rank) {
                mscclpp_dev_get_unit(ctx, args, row.first + s * row.stride, row.pair, &v, epoch->flag, MSCCLPP_DEV_LL16,
                                     s);
                mscclpp_dev_nodes_store(ctx, epoch, s, u, v, mask);
            }
        }
    }
}

/* The kernel's body: one epoch after another, until the whole shard is done. */
MSCCLPP_DEV void mscclpp_dev_allreduce_nodes_packets(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_args_t *nodes,
                                                     bool hot, int dtype, int op)
{
    const mscclpp_dev_args_t *args = &nodes->common;
    const uint64_t units = mscclpp_dev_units(args->bytes);
    const uint64_t shard = (units + nodes->shards - 1) / nodes->shards;
    const uint64_t slot =
        MSCCLPP_DEV_NODES_PACKET_UNITS(nodes->pattern, nodes->nnodes, nodes->packet_units, nodes->doubling.slots);
    const uint64_t capacity = MSCCLPP_DEV_NODES_CAPACITY(args->packet_half, nodes->most, slot);
    const uint64_t chunk = MSCCLPP_DEV_PACKET_CHUNK(shard, capacity, (uint64_t)ctx->nblocks * ctx->nthreads);
    const uint64_t part = (chunk + ctx->nblocks - 1) / ctx->nblocks;
    const uint64_t launches = mscclpp_dev_last_launch(ctx, args);
    mscclpp_dev_nodes_epoch_t epoch;

    epoch.nodes = nodes;
    epoch.shard = shard;
    epoch.capacity = capacity;
    epoch.begin = ctx->block * part < chunk ? ctx->block * part : chunk;
    epoch.count = chunk - epoch.begin < part ? chunk - epoch.begin : part;
    epoch.flag = mscclpp_dev_last_epoch(ctx, args);
    for (epoch.base = 0; epoch.base < shard; epoch.base += chunk) {
        ++epoch.flag;
        mscclpp_dev_nodes_epoch(ctx, &epoch, hot, dtype, op);
    }
    mscclpp_dev_finish_packets(ctx, args, launches, epoch.flag);
}

#endif
