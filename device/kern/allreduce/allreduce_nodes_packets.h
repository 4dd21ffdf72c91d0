/*
 * All-reduce over several nodes with packets, for small messages, without barriers and signals. An owner sends one
 * message to each other node. With MSCCLPP_DEV_NODES_DOUBLING, it sends to one partner after another; their number
 * grows with the logarithm of the number of nodes.
 *
 *   1. Every rank sends its operands as packets to the ranks of its node that own them.
 *   2. An owner combines the operands in rank order, and stores this partial result as packets in the exchange area.
 *      It has the packets put to the owners of the same shard on the other nodes.
 *   3. These owners wait for the packets, combine the partial results in node order, and send the result as packets to
 *      the ranks of their node.
 *
 * A rank that is alone on its node skips the steps within the node. A rank may reach the memory of other nodes if they
 * are imitated; it then stores the packets there itself, without puts. Each block handles a contiguous part of the
 * shard, so that it sends all its data for another node in one put.
 *
 * Nobody flushes or signals, because packets show by themselves that they have arrived, in whatever order a put's bytes
 * arrive. The transport guarantees whole words. Epochs use two sets in turn, except for those of sparse calls, which
 * use neither (kern/coll/nodes_rounds.h). Why two sets are enough:
 *
 *   1. Epoch e + 2 is put from where epoch e was put from, to where epoch e was put.
 *   2. A block pushes e + 2 after its threads, together, have received packets of e + 1 from the blocks of the same
 *      number on all other nodes. Each of these has at least one unit.
 *   3. Those blocks pushed e + 1 after all their threads had read all packets of e, as a block synchronises before it
 *      pushes. If e belonged to an earlier kernel, that kernel had ended on their side.
 *   4. So everything that e put has arrived and has been read.
 *
 * If packets are stored, the same holds between kernels, and within a kernel for each thread. A thread stores e + 2
 * where it stored e, after it has received e + 1 from the thread of the same number there. That thread had read e
 * before it stored e + 1.
 *
 * Perhaps only one of the two sides has its packets put. In e + 2, that side overwrites only what the other side has
 * read, even if parts of e are still being put. It pushes once its whole block has received e + 1. And it stores or
 * prepares e + 1 only after it has read e.
 *
 * Within the node, packet.h has the proof. A rank that owns nothing exchanges packets with owners only.
 */
#ifndef MSCCLPP_DEVICE_KERN_ALLREDUCE_ALLREDUCE_NODES_PACKETS_H
#define MSCCLPP_DEVICE_KERN_ALLREDUCE_ALLREDUCE_NODES_PACKETS_H

#include "device/lib/barrier.h"
#include "device/lib/nodes_sparse.h"
#include "device/lib/packet.h"
#include "device/lib/port_channel.h"
#include "device/lib/reduce.h"
#include "device/lib/row.h"

/* Number of senders whose packets a thread loads before it checks the first of them. */
#define MSCCLPP_DEV_NODES_BATCH 8

/* A block's part of an epoch. */
typedef struct {
    const mscclpp_dev_nodes_args_t *nodes;
    uint64_t shard_units; /* units of each shard */
    uint64_t base;        /* first unit of the epoch in each shard */
    uint64_t begin;       /* the block's first unit in the epoch */
    uint64_t count; /* number of the block's units in the epoch; may be 0 for the last blocks of a short message */
    uint64_t near_slot_units; /* units of a slot within the node */
    uint64_t far_slot_units;  /* units of a slot between nodes */
    uint32_t set;             /* the set of slots between nodes: 0 or 1 */
    uint32_t flag;            /* the flag in the epoch's packets */
} mscclpp_dev_nodes_epoch_t;

/* The places of one unit's packets from several senders. */
typedef struct {
    char *first;       /* the packets of sender 0 */
    uint64_t stride;   /* bytes from one sender's packets to those of the next sender */
    uint64_t half_gap; /* bytes from the first half of the unit to the second */
} mscclpp_dev_nodes_row_t;

/*
 * Returns the places of one unit in the scratch of `receiver` during a phase: one place for each rank of the node.
 * `unit` counts from the start of the block's part.
 */
MSCCLPP_DEV mscclpp_dev_nodes_row_t mscclpp_dev_nodes_near_row(const mscclpp_dev_nodes_epoch_t *epoch,
                                                               uint32_t receiver, int phase, uint64_t unit)
{
    const mscclpp_dev_args_t *args = &epoch->nodes->common;
    mscclpp_dev_nodes_row_t row;

    row.stride = epoch->near_slot_units * MSCCLPP_DEV_PACKET_UNIT;
    row.half_gap = epoch->near_slot_units * MSCCLPP_DEV_PACKET_STEP;
    row.first = args->scratch[receiver] + MSCCLPP_DEV_PACKET_OFFSET + (epoch->flag & 1) * args->packet_half +
                (uint64_t)phase * epoch->nodes->largest_node * row.stride +
                (epoch->begin + unit) * MSCCLPP_DEV_PACKET_STEP;
    return row;
}

/* Returns the offset of the block's part of a slot in the exchange area: 0 to send from, 1 + k for what node k sends.
 */
MSCCLPP_DEV uint64_t mscclpp_dev_nodes_packet_slot_offset(const mscclpp_dev_nodes_epoch_t *epoch, uint32_t slot)
{
    const mscclpp_dev_nodes_args_t *nodes = epoch->nodes;
    const uint64_t number = epoch->set * ((uint64_t)nodes->nnodes + 1) + slot;

    return nodes->packets_offset + (number * nodes->packet_units + epoch->begin) * MSCCLPP_DEV_PACKET_UNIT;
}

/* Returns the places of one unit of the block's part in the exchange area: the packets of all other nodes. */
MSCCLPP_DEV mscclpp_dev_nodes_row_t mscclpp_dev_nodes_far_row(const mscclpp_dev_nodes_epoch_t *epoch, uint64_t unit)
{
    mscclpp_dev_nodes_row_t row;

    row.stride = epoch->nodes->packet_units * MSCCLPP_DEV_PACKET_UNIT;
    row.half_gap = epoch->count * MSCCLPP_DEV_PACKET_STEP;
    row.first =
        epoch->nodes->exchange + mscclpp_dev_nodes_packet_slot_offset(epoch, 1) + unit * MSCCLPP_DEV_PACKET_STEP;
    return row;
}

/* Returns the rank that is late if the packets of a sender do not come. If `is_far`, the sender is a node. */
MSCCLPP_DEV uint32_t mscclpp_dev_nodes_late_rank(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_args_t *nodes,
                                                 bool is_far, uint32_t sender)
{
    return is_far ? MSCCLPP_DEV_NODES_CHANNEL(nodes, ctx->block, sender)->peer : sender;
}

/*
 * Waits for one unit from each of `nsenders` senders, and combines these units in the order of senders. The unit of
 * sender `own_sender` is `own_value`; it is not sent. The senders are nodes if `is_far`, otherwise ranks of this node.
 * If a wait fails, sets ctx->failed, and the value is arbitrary.
 */
MSCCLPP_DEV mscclpp_dev_vec_t mscclpp_dev_nodes_gather(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_epoch_t *epoch,
                                                       bool hot, int dtype, int op, mscclpp_dev_nodes_row_t row,
                                                       bool is_far, uint32_t nsenders, uint32_t own_sender,
                                                       mscclpp_dev_vec_t own_value)
{
    const mscclpp_dev_nodes_args_t *nodes = epoch->nodes;
    mscclpp_dev_vec_t values[MSCCLPP_DEV_NODES_BATCH];
    bool has_arrived[MSCCLPP_DEV_NODES_BATCH];
    mscclpp_dev_acc_t acc;
    uint32_t first_sender;
    int i;

    /* Avoids a compiler warning: compilers do not see that sender 0 always sets `acc`. */
    mscclpp_dev_acc_set(&acc, dtype, own_value);
    for (first_sender = 0; first_sender < nsenders; first_sender += MSCCLPP_DEV_NODES_BATCH) {
        MSCCLPP_DEV_UNROLL
        for (i = 0; i < MSCCLPP_DEV_NODES_BATCH; ++i) {
            const uint32_t sender = first_sender + (uint32_t)i;

            values[i] = own_value;
            has_arrived[i] = sender >= nsenders || sender == own_sender ||
                             mscclpp_dev_poll_unit(row.first + sender * row.stride, row.half_gap, &values[i],
                                                   epoch->flag, MSCCLPP_DEV_LL16);
        }
        MSCCLPP_DEV_UNROLL
        for (i = 0; i < MSCCLPP_DEV_NODES_BATCH; ++i) {
            const uint32_t sender = first_sender + (uint32_t)i;

            if (!has_arrived[i]) {
                mscclpp_dev_get_unit(ctx, &nodes->common, row.first + sender * row.stride, row.half_gap, &values[i],
                                     epoch->flag, MSCCLPP_DEV_LL16,
                                     mscclpp_dev_nodes_late_rank(ctx, nodes, is_far, sender));
            }
            if (sender == 0) {
                mscclpp_dev_acc_set(&acc, dtype, values[i]);
            } else if (sender < nsenders) {
                mscclpp_dev_acc_add(&acc, hot, dtype, op, values[i]);
            }
        }
    }
    return mscclpp_dev_acc_get(&acc, dtype);
}

/* Loads one unit of the block's part from this rank's operands for a shard; zeros beyond the end of the shard. */
MSCCLPP_DEV mscclpp_dev_vec_t mscclpp_dev_nodes_load_unit(const mscclpp_dev_nodes_epoch_t *epoch, uint32_t shard,
                                                          uint64_t unit)
{
    const mscclpp_dev_args_t *args = &epoch->nodes->common;
    const uint64_t shard_unit = epoch->base + epoch->begin + unit;

    return shard_unit >= epoch->shard_units
               ? mscclpp_dev_vec_zero()
               : mscclpp_dev_ld_unit(args->in, shard * epoch->shard_units + shard_unit, args->bytes);
}

/* Stores one unit of a shard of the result, unless it is beyond the end of the shard or the thread has failed. */
MSCCLPP_DEV void mscclpp_dev_nodes_store_unit(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_epoch_t *epoch,
                                              uint32_t shard, uint64_t unit, mscclpp_dev_vec_t value, uint32_t mask)
{
    const mscclpp_dev_args_t *args = &epoch->nodes->common;
    const uint64_t shard_unit = epoch->base + epoch->begin + unit;

    if (shard_unit < epoch->shard_units && !ctx->failed) {
        mscclpp_dev_st_unit(args->out, shard * epoch->shard_units + shard_unit, args->bytes, value, mask);
    }
}

/*
 * Waits for the operands of this rank's node for one unit, and combines them into the node's partial result. A thread
 * keeps this value for its first unit only, so other units may be combined twice. The second time, all packets have
 * already arrived. If a wait fails, sets ctx->failed, and the value is arbitrary.
 */
MSCCLPP_DEV mscclpp_dev_vec_t mscclpp_dev_nodes_reduce(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_epoch_t *epoch,
                                                       bool hot, int dtype, int op, uint64_t unit)
{
    const mscclpp_dev_args_t *args = &epoch->nodes->common;
    const mscclpp_dev_vec_t own_value = mscclpp_dev_nodes_load_unit(epoch, args->rank, unit);

    if (args->nranks == 1) {
        return own_value;
    }
    return mscclpp_dev_nodes_gather(ctx, epoch, hot, dtype, op,
                                    mscclpp_dev_nodes_near_row(epoch, args->rank, MSCCLPP_DEV_PHASE_OPERANDS, unit),
                                    false, args->nranks, args->rank, own_value);
}

/* Sends one unit as packets to a rank of this node: an operand or a result, as `phase` says. */
MSCCLPP_DEV void mscclpp_dev_nodes_send_near(const mscclpp_dev_nodes_epoch_t *epoch, uint32_t receiver, int phase,
                                             uint64_t unit, mscclpp_dev_vec_t value)
{
    const mscclpp_dev_nodes_row_t row = mscclpp_dev_nodes_near_row(epoch, receiver, phase, unit);

    mscclpp_dev_put_unit(row.first + epoch->nodes->common.rank * row.stride, row.half_gap, value, epoch->flag,
                         MSCCLPP_DEV_LL16);
}

/*
 * Stores the packets of a unit in the memory of all other nodes if kernels can access it. Otherwise stores them in
 * this rank's exchange area, from which mscclpp_dev_nodes_put_packets puts them later.
 */
MSCCLPP_DEV void mscclpp_dev_nodes_send_far(const mscclpp_dev_nodes_epoch_t *epoch, uint64_t unit,
                                            mscclpp_dev_vec_t value)
{
    const mscclpp_dev_nodes_args_t *nodes = epoch->nodes;
    const uint64_t half_gap = epoch->count * MSCCLPP_DEV_PACKET_STEP;
    const uint64_t slot = mscclpp_dev_nodes_packet_slot_offset(epoch, nodes->is_mapped != 0 ? 1 + nodes->node : 0);
    const uint64_t offset = slot + unit * MSCCLPP_DEV_PACKET_STEP;
    uint32_t i;

    if (nodes->is_mapped == 0) {
        mscclpp_dev_put_unit(nodes->exchange + offset, half_gap, value, epoch->flag, MSCCLPP_DEV_LL16);
        return;
    }
    for (i = 1; i < nodes->nnodes; ++i) {
        const uint32_t to_node = nodes->node + i < nodes->nnodes ? nodes->node + i : nodes->node + i - nodes->nnodes;

        mscclpp_dev_put_unit(nodes->mapped[to_node] + (offset - nodes->packets_offset), half_gap, value, epoch->flag,
                             MSCCLPP_DEV_LL16);
    }
}

/*
 * Puts the block's packets, which its threads have stored in the exchange area, to all other nodes. Called by all
 * threads, each of which puts to other nodes. The block must have synchronised after the packets were stored.
 */
MSCCLPP_DEV void mscclpp_dev_nodes_put_packets(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_epoch_t *epoch)
{
    const mscclpp_dev_nodes_args_t *nodes = epoch->nodes;
    uint32_t i;

    /* Each node begins with the node after it, so that not all send to the same node at once. */
    for (i = 1 + ctx->tid; i < nodes->nnodes; i += ctx->nthreads) {
        const uint32_t to_node = MSCCLPP_DEV_NODES_AHEAD(nodes->nnodes, nodes->node, i);

        mscclpp_dev_port_put(ctx, &nodes->common, MSCCLPP_DEV_NODES_CHANNEL(nodes, ctx->block, to_node),
                             mscclpp_dev_nodes_packet_slot_offset(epoch, 1 + nodes->node),
                             mscclpp_dev_nodes_packet_slot_offset(epoch, 0), epoch->count * MSCCLPP_DEV_PACKET_UNIT);
    }
}

/*
 * Sends one unit of the result to all other ranks of this owner's node, and stores its bytes that `mask` selects in
 * this rank's output. Begins with the rank after this one, so that not all ranks send to one at the same time. Does
 * nothing in a thread that has failed.
 */
MSCCLPP_DEV void mscclpp_dev_nodes_deliver(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_epoch_t *epoch,
                                           uint64_t unit, mscclpp_dev_vec_t value, uint32_t mask)
{
    const mscclpp_dev_args_t *args = &epoch->nodes->common;
    uint32_t i;

    for (i = 1; i < args->nranks && !ctx->failed; ++i) {
        mscclpp_dev_nodes_send_near(epoch,
                                    args->rank + i < args->nranks ? args->rank + i : args->rank + i - args->nranks,
                                    MSCCLPP_DEV_PHASE_RESULTS, unit, value);
    }
    mscclpp_dev_nodes_store_unit(ctx, epoch, args->rank, unit, value, mask);
}

/* ---- Step by step: with one partner after another ---- */

/* Units that a thread takes through a step together: the twin combines many at once. */
#define MSCCLPP_DEV_NODES_STEP_UNITS (MSCCLPP_DEV_ROWS ? 32u : 1u)

/*
 * Returns the offset in the exchange area of one unit of the block's part of slot `slot`. The slots for received
 * messages come first. After them there is one slot for each round, from which messages are sent.
 */
MSCCLPP_DEV uint64_t mscclpp_dev_nodes_step_offset(const mscclpp_dev_nodes_epoch_t *epoch, uint32_t slot, uint64_t unit)
{
    const mscclpp_dev_nodes_args_t *nodes = epoch->nodes;
    const uint64_t half = ((uint64_t)nodes->nnodes + 1) * nodes->packet_units;

    return nodes->packets_offset +
           (epoch->set * half + slot * epoch->far_slot_units + epoch->begin) * MSCCLPP_DEV_PACKET_UNIT +
           unit * MSCCLPP_DEV_PACKET_STEP;
}

/* Returns the packets of the block's part of a slot of this node. */
MSCCLPP_DEV char *mscclpp_dev_nodes_step_row(const mscclpp_dev_nodes_epoch_t *epoch, uint32_t slot)
{
    return epoch->nodes->exchange + mscclpp_dev_nodes_step_offset(epoch, slot, 0);
}

/* Waits for one unit of a slot's packets. A failed wait names `peer` and sets ctx->failed; the value is arbitrary. */
MSCCLPP_DEV mscclpp_dev_vec_t mscclpp_dev_nodes_step_get(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_epoch_t *epoch,
                                                         const char *row, uint64_t unit, uint32_t peer)
{
    mscclpp_dev_vec_t value = mscclpp_dev_vec_zero();

    mscclpp_dev_get_unit(ctx, &epoch->nodes->common, row + unit * MSCCLPP_DEV_PACKET_STEP,
                         epoch->count * MSCCLPP_DEV_PACKET_STEP, &value, epoch->flag, MSCCLPP_DEV_LL16, peer);
    return value;
}

/*
 * Returns the current value of one unit on this node. The value of this thread's first unit is `first_value`. The
 * values of other units are in the packets `stored`, or are combined from the operands if that is NULL. This thread has
 * stored them itself, so it does not wait for them, and the rank 0 that it passes is never reported as late.
 */
MSCCLPP_DEV mscclpp_dev_vec_t mscclpp_dev_nodes_step_value(mscclpp_dev_ctx_t *ctx,
                                                           const mscclpp_dev_nodes_epoch_t *epoch, bool hot, int dtype,
                                                           int op, const char *stored, uint64_t unit,
                                                           mscclpp_dev_vec_t first_value)
{
    return unit == ctx->tid ? first_value
           : stored == NULL ? mscclpp_dev_nodes_reduce(ctx, epoch, hot, dtype, op, unit)
                            : mscclpp_dev_nodes_step_get(ctx, epoch, stored, unit, 0);
}

/*
 * Carries out a sending step: sends the block's part, which is in slot `from_slot`. Called by all threads. If kernels
 * can access the peer's memory, each thread stores the units that it has stored in the slot. Otherwise the block
 * synchronises, so that the slot is complete, and one thread requests a put of the whole part. A thread that has failed
 * sends nothing.
 */
MSCCLPP_DEV void mscclpp_dev_nodes_step_send(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_epoch_t *epoch,
                                             const mscclpp_dev_step_t *step, uint32_t from_slot)
{
    const mscclpp_dev_nodes_args_t *nodes = epoch->nodes;
    uint64_t unit;

    if (nodes->is_mapped != 0) {
        const char *from = mscclpp_dev_nodes_step_row(epoch, from_slot);

        for (unit = ctx->tid; unit < epoch->count && !ctx->failed; unit += ctx->nthreads) {
            const mscclpp_dev_vec_t value = mscclpp_dev_nodes_step_get(ctx, epoch, from, unit, 0);

            mscclpp_dev_put_unit(nodes->mapped[step->peer] +
                                     (mscclpp_dev_nodes_step_offset(epoch, step->slot, unit) - nodes->packets_offset),
                                 epoch->count * MSCCLPP_DEV_PACKET_STEP, value, epoch->flag, MSCCLPP_DEV_LL16);
        }
        return;
    }
    mscclpp_dev_block_sync(ctx);
    if (ctx->tid == 0 && !ctx->failed) {
        mscclpp_dev_port_put(ctx, &nodes->common, MSCCLPP_DEV_NODES_CHANNEL(nodes, ctx->block, step->peer),
                             mscclpp_dev_nodes_step_offset(epoch, step->slot, 0),
                             mscclpp_dev_nodes_step_offset(epoch, from_slot, 0),
                             epoch->count * MSCCLPP_DEV_PACKET_UNIT);
    }
}

/*
 * Combines `count` units of this node, `own_units`, with those that a receiving step has received, `new_units`. The
 * order of the two follows the order of nodes, and depends on the kind of the step. Returns the array with the new
 * values, which is one of the two; the other one keeps nothing of use.
 */
MSCCLPP_DEV mscclpp_dev_vec_t *mscclpp_dev_nodes_step_combine(uint32_t kind, bool hot, int dtype, int op,
                                                              mscclpp_dev_vec_t *own_units,
                                                              mscclpp_dev_vec_t *new_units, uint32_t count)
{
    mscclpp_dev_vec_t *first = kind == MSCCLPP_DEV_STEP_BEFORE ? new_units : own_units,
                      *second = first == own_units ? new_units : own_units;
    uint32_t i;

    if (kind == MSCCLPP_DEV_STEP_STORE) {
        return new_units;
    }
#if MSCCLPP_DEV_ROWS
    if (mscclpp_dev_row_add(dtype, op, first, second, count)) {
        return first;
    }
#endif
    for (i = 0; i < count; ++i) {
        mscclpp_dev_acc_t acc;

        mscclpp_dev_acc_set(&acc, dtype, first[i]);
        mscclpp_dev_acc_add(&acc, hot, dtype, op, second[i]);
        first[i] = mscclpp_dev_acc_get(&acc, dtype);
    }
    return first;
}

/*
 * Carries out a step for this thread's units from `unit` on, at most MSCCLPP_DEV_NODES_STEP_UNITS of them. Takes their
 * values as mscclpp_dev_nodes_step_value does. A receiving step combines them with what it receives. Then stores
 * them in the packets `to`, or, if that is NULL, delivers them as the result. Returns the value of this thread's first
 * unit.
 */
MSCCLPP_DEV mscclpp_dev_vec_t mscclpp_dev_nodes_step_units(mscclpp_dev_ctx_t *ctx,
                                                           const mscclpp_dev_nodes_epoch_t *epoch, bool hot, int dtype,
                                                           int op, const mscclpp_dev_step_t *step, const char *stored,
                                                           char *to, uint64_t unit, mscclpp_dev_vec_t first_value)
{
    mscclpp_dev_vec_t own_units[MSCCLPP_DEV_NODES_STEP_UNITS], new_units[MSCCLPP_DEV_NODES_STEP_UNITS],
        *values = own_units;
    const uint64_t begin = unit;
    uint32_t count = 0, i;

    own_units[0] = new_units[0] = first_value; /* avoids a compiler warning: there is a unit */
    for (; count < MSCCLPP_DEV_NODES_STEP_UNITS && unit < epoch->count; ++count, unit += ctx->nthreads) {
        own_units[count] = mscclpp_dev_nodes_step_value(ctx, epoch, hot, dtype, op, stored, unit, first_value);
    }
    if (step->kind != MSCCLPP_DEV_STEP_SEND) {
        const char *from = mscclpp_dev_nodes_step_row(epoch, step->slot);
        const uint32_t peer = mscclpp_dev_nodes_late_rank(ctx, epoch->nodes, true, step->peer);

        for (i = 0; i < count; ++i) {
            new_units[i] = mscclpp_dev_nodes_step_get(ctx, epoch, from, begin + (uint64_t)i * ctx->nthreads, peer);
        }
        values = mscclpp_dev_nodes_step_combine(step->kind, hot, dtype, op, own_units, new_units, count);
    }
    for (i = 0, unit = begin; i < count; ++i, unit += ctx->nthreads) {
        if (to == NULL) {
            mscclpp_dev_nodes_deliver(ctx, epoch, unit, values[i], mscclpp_dev_unit_mask(dtype));
        } else if (!ctx->failed) {
            mscclpp_dev_put_unit(to + unit * MSCCLPP_DEV_PACKET_STEP, epoch->count * MSCCLPP_DEV_PACKET_STEP, values[i],
                                 epoch->flag, MSCCLPP_DEV_LL16);
        }
    }
    return begin == ctx->tid ? values[0] : first_value;
}

/*
 * Carries out all steps of an owner's part of an epoch, with one partner after another, and sends the result to all
 * ranks of the node. Each unit is handled by the same thread in all steps. The result of a receiving step is stored in
 * the slot from which the next round sends it.
 *
 * Two sets are enough here, too. A block that has ended epoch e + 1 has received data that every block of the same
 * number pushed in e + 1, directly or through others. Each of those blocks pushed them after all its threads had read
 * all packets of e. So all puts of e have arrived, and the slots and sources of e are free, whichever patterns e and e
 * + 2 have.
 */
MSCCLPP_DEV void mscclpp_dev_nodes_run_steps(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_epoch_t *epoch, bool hot,
                                             int dtype, int op)
{
    const mscclpp_dev_nodes_args_t *nodes = epoch->nodes;
    mscclpp_dev_vec_t first_value = mscclpp_dev_vec_zero();
    char *stored = NULL, *to;
    uint32_t i, to_slot;
    bool is_delivered = false;
    uint64_t unit;

    if (epoch->count == 0) {
        return;
    }
    if (ctx->tid < epoch->count) {
        first_value = mscclpp_dev_nodes_reduce(ctx, epoch, hot, dtype, op, ctx->tid);
    }
    for (i = 0; i < nodes->doubling.count; ++i) {
        const mscclpp_dev_step_t step = nodes->doubling.step[i];
        const bool sends = step.kind == MSCCLPP_DEV_STEP_SEND, is_last = i + 1 == nodes->doubling.count;

        /* The slot that this step, if it sends, or else the next step sends from. The last step stores nothing. */
        to_slot = nodes->doubling.slots + (sends ? step.round : is_last ? 0 : nodes->doubling.step[i + 1].round);
        to = mscclpp_dev_nodes_step_row(epoch, to_slot);
        /* A sending step need not store data that the receiving step before it has stored in the same slot. */
        for (unit = ctx->tid; unit < epoch->count && !(sends && stored == to);
             unit += (uint64_t)ctx->nthreads * MSCCLPP_DEV_NODES_STEP_UNITS) {
            first_value = mscclpp_dev_nodes_step_units(ctx, epoch, hot, dtype, op, &step, stored,
                                                       sends || !is_last ? to : NULL, unit, first_value);
        }
        stored = to;
        is_delivered = !sends && is_last;
        if (sends) {
            mscclpp_dev_nodes_step_send(ctx, epoch, &step, to_slot);
        }
    }
    /* If the last step is a sending one, or if there are no steps, the result has not been delivered yet. */
    for (unit = ctx->tid; unit < epoch->count && !is_delivered; unit += ctx->nthreads) {
        mscclpp_dev_nodes_deliver(ctx, epoch, unit,
                                  mscclpp_dev_nodes_step_value(ctx, epoch, hot, dtype, op, stored, unit, first_value),
                                  mscclpp_dev_unit_mask(dtype));
    }
}

/*
 * Carries out an owner's part of an epoch: combines its node's operands, exchanges this partial result with the other
 * nodes, and sends the result to all ranks of its node. A thread that has failed sends and stores nothing more.
 */
MSCCLPP_DEV void mscclpp_dev_nodes_exchange_direct(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_epoch_t *epoch,
                                                   bool hot, int dtype, int op)
{
    const mscclpp_dev_nodes_args_t *nodes = epoch->nodes;
    const uint32_t mask = mscclpp_dev_unit_mask(dtype);
    mscclpp_dev_vec_t first_value = mscclpp_dev_vec_zero(), value;
    uint64_t unit;

    for (unit = ctx->tid; unit < epoch->count; unit += ctx->nthreads) {
        value = mscclpp_dev_nodes_reduce(ctx, epoch, hot, dtype, op, unit);
        first_value = unit == ctx->tid ? value : first_value;
        if (!ctx->failed) {
            mscclpp_dev_nodes_send_far(epoch, unit, value);
        }
    }
    if (nodes->is_mapped == 0) {
        mscclpp_dev_block_sync(ctx);
        if (epoch->count > 0) {
            mscclpp_dev_nodes_put_packets(ctx, epoch);
        }
    }
    for (unit = ctx->tid; unit < epoch->count; unit += ctx->nthreads) {
        value = unit == ctx->tid ? first_value : mscclpp_dev_nodes_reduce(ctx, epoch, hot, dtype, op, unit);
        value = mscclpp_dev_nodes_gather(ctx, epoch, hot, dtype, op, mscclpp_dev_nodes_far_row(epoch, unit), true,
                                         nodes->nnodes, nodes->node, value);
        mscclpp_dev_nodes_deliver(ctx, epoch, unit, value, mask);
    }
}

/*
 * Runs one epoch of the block's part. Sends this rank's operands to the owners, takes part in the owners' exchange if
 * this rank is an owner, and waits for the results of the other shards. Owners are the first ranks of a node, in the
 * order of shards; a rank after them sends all its operands. A thread that has failed sends and stores nothing more.
 */
MSCCLPP_DEV void mscclpp_dev_nodes_epoch(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_epoch_t *epoch, bool hot,
                                         int dtype, int op)
{
    const mscclpp_dev_nodes_args_t *nodes = epoch->nodes;
    const mscclpp_dev_args_t *args = &nodes->common;
    const uint32_t mask = mscclpp_dev_unit_mask(dtype);
    uint64_t unit;
    uint32_t shard;

    for (unit = ctx->tid; unit < epoch->count && !ctx->failed; unit += ctx->nthreads) {
        for (shard = 0; shard < nodes->shards; ++shard) {
            if (shard != args->rank) {
                mscclpp_dev_nodes_send_near(epoch, shard, MSCCLPP_DEV_PHASE_OPERANDS, unit,
                                            mscclpp_dev_nodes_load_unit(epoch, shard, unit));
            }
        }
    }
    if (args->rank < nodes->shards && nodes->pattern == MSCCLPP_DEV_NODES_DOUBLING) {
        mscclpp_dev_nodes_run_steps(ctx, epoch, hot, dtype, op);
    } else if (args->rank < nodes->shards) {
        mscclpp_dev_nodes_exchange_direct(ctx, epoch, hot, dtype, op);
    }
    for (unit = ctx->tid; unit < epoch->count; unit += ctx->nthreads) {
        const mscclpp_dev_nodes_row_t row =
            mscclpp_dev_nodes_near_row(epoch, args->rank, MSCCLPP_DEV_PHASE_RESULTS, unit);

        for (shard = 0; shard < nodes->shards; ++shard) {
            mscclpp_dev_vec_t value = mscclpp_dev_vec_zero();

            if (shard != args->rank) {
                mscclpp_dev_get_unit(ctx, args, row.first + shard * row.stride, row.half_gap, &value, epoch->flag,
                                     MSCCLPP_DEV_LL16, shard);
                mscclpp_dev_nodes_store_unit(ctx, epoch, shard, unit, value, mask);
            }
        }
    }
}

/*
 * Runs the kernel: epochs until the whole shard is done. Each epoch uses up a flag, even after a failure, so that all
 * ranks count alike. Queued calls over several nodes use no packets, so nothing calls mscclpp_dev_enter.
 */
MSCCLPP_DEV void mscclpp_dev_allreduce_nodes_packets(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_args_t *nodes,
                                                     bool hot, int dtype, int op)
{
    const mscclpp_dev_args_t *args = &nodes->common;
    const uint64_t units = mscclpp_dev_units(args->bytes);
    const uint64_t shard = (units + nodes->shards - 1) / nodes->shards;
    const uint64_t slot_units =
        MSCCLPP_DEV_NODES_PACKET_UNITS(nodes->pattern, nodes->nnodes, nodes->packet_units, nodes->doubling.slots);
    const uint64_t capacity = MSCCLPP_DEV_NODES_CAPACITY(args->packet_half, nodes->largest_node, slot_units);
    const uint64_t epoch_units = MSCCLPP_DEV_PACKET_CHUNK(shard, capacity, (uint64_t)ctx->nblocks * ctx->nthreads);
    const uint64_t block_share = (epoch_units + ctx->nblocks - 1) / ctx->nblocks;
    const uint64_t launches = mscclpp_dev_last_launch(ctx, args);
    mscclpp_dev_nodes_epoch_t epoch;

    mscclpp_dev_nodes_sparse_free(ctx, nodes);
    epoch.nodes = nodes;
    epoch.shard_units = shard;
    epoch.near_slot_units = capacity;
    epoch.far_slot_units = slot_units;
    epoch.begin = ctx->block * block_share < epoch_units ? ctx->block * block_share : epoch_units;
    epoch.count = epoch_units - epoch.begin < block_share ? epoch_units - epoch.begin : block_share;
    epoch.flag = mscclpp_dev_last_epoch(ctx, args);
    epoch.set = MSCCLPP_DEV_NODES_PACKET_SET(epoch.flag, mscclpp_dev_nodes_sparse_calls(nodes));
    for (epoch.base = 0; epoch.base < shard; epoch.base += epoch_units) {
        ++epoch.flag;
        epoch.set ^= 1;
        mscclpp_dev_nodes_epoch(ctx, &epoch, hot, dtype, op);
    }
    mscclpp_dev_finish_packets(ctx, args, launches, epoch.flag);
}

#endif
