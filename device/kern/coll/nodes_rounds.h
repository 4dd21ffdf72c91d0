/*
 * The exchange of small blocks between the owners of shards in rounds. lib/nodes_rounds.h says which node sends which
 * blocks to which node. The data that an owner has for another node, or for all nodes, lie in a place: a row of as many
 * units as the largest node needs, whose end is filled with zeros. A message is a run of places, so that it can be
 * passed on from where it has arrived.
 *
 * Reduce and reduce-scatter combine arriving data with the data in the same places, in the type of the elements. The
 * node that gets the result contributes nothing on the way: its receiving ranks combine their node's operands with the
 * rest.
 *
 * In a scan with prefixes, a node combines the operands of its ranks into its total. From then on it combines totals of
 * nodes in the order of the nodes, so received totals come before its own. Each rank combines the total of all earlier
 * nodes with the operands of its own node, in rank order.
 *
 * In a sparse call, nodes send no empty messages. So n nodes send n - 1 messages, over a tree. The root of a broadcast
 * and the leaves of a reduce wait for nobody, and owners without data do nothing here. Only calls with a root are
 * sparse. Other calls whose packets go between nodes are dense: each owner receives from all owners of its shard on
 * other nodes, directly or through others. So it ends such a call only after they have begun it.
 *
 * The places of sparse calls have memory of their own, behind the slots. Each call takes places that no sparse call has
 * taken since the last dense one. If too few are left, the host makes the call dense, and then all places are free
 * again. Why that is safe: let an owner begin a sparse call S, and let D be the last dense call before it.
 *
 *   1. The owner has ended D. So the owners on all other nodes had begun D, and so had ended all calls before D.
 *   2. A sparse call before D is therefore over on all nodes. Each of its messages has data, for which its receiver
 *      waits. So all of its puts have arrived and have been read. Its places are free, as sources and as targets.
 *   3. Sparse calls after D have other places than S, on all nodes. So it does not matter how far nodes are apart.
 *
 * Dense calls use two sets of slots in turn (nodes_packets.h), and sparse calls between them use neither. All owners
 * count the calls and units in the same way, since all take part in all calls. So do their hosts (fabric/run.c).
 */
#ifndef MSCCLPP_DEVICE_KERN_COLL_NODES_ROUNDS_H
#define MSCCLPP_DEVICE_KERN_COLL_NODES_ROUNDS_H

#include "device/kern/coll/nodes_rows.h"
#include "device/lib/nodes_sparse.h"
#include "device/lib/port_channel.h"
#include "device/lib/reduce.h"

/*
 * Sets epoch->in_rounds if the call is carried out in rounds, and epoch->prefixes if it is also a scan with prefixes.
 * In rounds, also sets the fields that only rounds use, but `slots` only on owners of a sparse call.
 */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_rounds_begin(mscclpp_dev_coll_nodes_epoch_t *epoch)
{
    const mscclpp_dev_coll_nodes_args_t *args = epoch->state.args;

    epoch->in_rounds = args->radix != 0;
    epoch->prefixes = epoch->in_rounds && args->prefixes != 0;
    if (!epoch->in_rounds) {
        return;
    }
    epoch->scheme.nnodes = args->nodes.nnodes;
    epoch->scheme.radix = args->radix;
    epoch->scheme.node = args->nodes.node;
    epoch->scheme.root = MSCCLPP_DEV_COLL_ROOTED(args->pattern) ? args->place[args->root].node : 0;
    epoch->scheme.pattern = MSCCLPP_DEV_COLL_ROUNDS_PATTERN(args->pattern, epoch->prefixes);
    epoch->scheme.rounds = mscclpp_dev_rounds_count(args->nodes.nnodes, args->radix);
    epoch->place_units =
        MSCCLPP_DEV_COLL_ROUNDS_BLOCKS(args->pattern, epoch->prefixes, args->nodes.largest_node, args->nodes.shards) *
        epoch->units;
    epoch->has_data =
        !MSCCLPP_DEV_COLL_ROUNDS_BY_ONE(args->pattern, epoch->prefixes) || epoch->turn.owner == epoch->state.index;
    epoch->is_sparse = args->sparse != 0;
    if (epoch->is_sparse && epoch->state.is_owner) {
        epoch->slots = args->nodes.packets_offset +
                       (MSCCLPP_DEV_NODES_PACKET_SLOTS(args->nodes.nnodes) * args->nodes.packet_units +
                        args->nodes.sparse->units) *
                           MSCCLPP_DEV_PACKET_UNIT;
    }
}

/*
 * Counts a sparse call and its places. Called by one thread of an owner, after the block has synchronised, because all
 * threads have to know the counts of earlier calls.
 */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_rounds_count(const mscclpp_dev_coll_nodes_epoch_t *epoch)
{
    mscclpp_dev_nodes_sparse_t *sparse = epoch->state.args->nodes.sparse;

    ++sparse->calls;
    sparse->units += mscclpp_dev_rounds_count_places(&epoch->scheme) * epoch->place_units;
}

/* Returns the row at a place. */
MSCCLPP_DEV mscclpp_dev_coll_nodes_row_t mscclpp_dev_coll_nodes_place_row(const mscclpp_dev_coll_nodes_epoch_t *epoch,
                                                                          uint64_t place)
{
    return mscclpp_dev_coll_nodes_far_row(epoch, epoch->slots + place * epoch->place_units * MSCCLPP_DEV_PACKET_UNIT,
                                          epoch->place_units);
}

/* Returns the offset of the packet from which all empty messages are sent. The packet lies behind the places. */
MSCCLPP_DEV uint64_t mscclpp_dev_coll_nodes_rounds_empty_source_offset(const mscclpp_dev_coll_nodes_epoch_t *epoch)
{
    return epoch->slots +
           mscclpp_dev_rounds_count_places(&epoch->scheme) * epoch->place_units * MSCCLPP_DEV_PACKET_UNIT;
}

/* Returns the offset at which message `j` of a round arrives if it is empty. */
MSCCLPP_DEV uint64_t mscclpp_dev_coll_nodes_rounds_empty_arrival_offset(const mscclpp_dev_coll_nodes_epoch_t *epoch,
                                                                        uint32_t round, uint32_t j)
{
    return mscclpp_dev_coll_nodes_rounds_empty_source_offset(epoch) +
           ((uint64_t)round * (epoch->scheme.radix - 1) + j) * MSCCLPP_DEV_PACKET_UNIT;
}

/* Returns message `j` of `sender` in a round. Its count is 0 if this owner has no data in this call. */
MSCCLPP_DEV mscclpp_dev_rounds_message_t mscclpp_dev_coll_nodes_rounds_message(
    const mscclpp_dev_coll_nodes_epoch_t *epoch, uint32_t sender, uint32_t round, uint32_t j)
{
    mscclpp_dev_rounds_message_t message = mscclpp_dev_rounds_message(&epoch->scheme, sender, round, j);

    message.count = epoch->has_data ? message.count : 0;
    return message;
}

/* ---- Before the rounds ---- */

/* Returns true if this owner has data of its own node to send before the first round. */
MSCCLPP_DEV bool mscclpp_dev_coll_nodes_rounds_has_data(const mscclpp_dev_coll_nodes_epoch_t *epoch)
{
    const uint32_t pattern = epoch->state.args->pattern;

    return epoch->has_data && (MSCCLPP_DEV_COLL_ONE_SENDS(pattern) ? epoch->scheme.node == epoch->scheme.root
                               : pattern == MSCCLPP_DEV_REDUCE     ? epoch->scheme.node != epoch->scheme.root
                               : epoch->prefixes                   ? epoch->scheme.node + 1 < epoch->scheme.nnodes
                                                                   : true);
}

/* Returns the row for the data for a node, or for all nodes if they get the same data. */
MSCCLPP_DEV mscclpp_dev_coll_nodes_row_t
mscclpp_dev_coll_nodes_rounds_outgoing_row(const mscclpp_dev_coll_nodes_epoch_t *epoch, uint32_t to_node)
{
    return mscclpp_dev_coll_nodes_place_row(
        epoch,
        epoch->state.sends_many ? (to_node + epoch->scheme.nnodes - epoch->scheme.node) % epoch->scheme.nnodes : 0);
}

/* Returns the row that contains the data from a node after the rounds, or the combined data from all other nodes. */
MSCCLPP_DEV mscclpp_dev_coll_nodes_row_t
mscclpp_dev_coll_nodes_rounds_incoming_row(const mscclpp_dev_coll_nodes_epoch_t *epoch, uint32_t from_node)
{
    const uint32_t position = (epoch->scheme.node + epoch->scheme.nnodes - from_node) % epoch->scheme.nnodes;
    const bool at_first_place = epoch->state.merges || MSCCLPP_DEV_COLL_ONE_SENDS(epoch->state.args->pattern);

    return mscclpp_dev_coll_nodes_place_row(
        epoch, at_first_place ? 0 : mscclpp_dev_rounds_block_place(&epoch->scheme, position, epoch->scheme.rounds));
}

/* ---- Rounds ---- */

/*
 * Copies the blocks of message `j` of a round of an all-to-all, which are at scattered places, to the consecutive
 * places from which the message is sent. Called by all threads. Never waits, and so never reports a rank as late,
 * because the block has synchronised after the previous round: all packets that are read here have arrived.
 */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_rounds_gather(mscclpp_dev_ctx_t *ctx,
                                                      const mscclpp_dev_coll_nodes_epoch_t *epoch, uint32_t round,
                                                      uint32_t j)
{
    const mscclpp_dev_rounds_message_t message =
        mscclpp_dev_coll_nodes_rounds_message(epoch, epoch->scheme.node, round, j);
    const uint64_t departure = mscclpp_dev_rounds_departure_place(&epoch->scheme, message, round, j);
    uint64_t unit;

    for (unit = ctx->tid; unit < message.count * epoch->place_units && !ctx->failed; unit += ctx->nthreads) {
        const uint32_t i = (uint32_t)(unit / epoch->place_units);
        const uint32_t position = mscclpp_dev_rounds_alltoall_position(&epoch->scheme, round, j, i);
        const mscclpp_dev_coll_nodes_row_t from =
            mscclpp_dev_coll_nodes_place_row(epoch, mscclpp_dev_rounds_block_place(&epoch->scheme, position, round));

        mscclpp_dev_coll_nodes_put_unit(
            epoch, mscclpp_dev_coll_nodes_place_row(epoch, departure + i), unit % epoch->place_units,
            mscclpp_dev_coll_nodes_get_unit(ctx, epoch, from, unit % epoch->place_units, 0));
    }
}

/*
 * Sends the messages of a round. A message without data is an empty packet, or is left out in a sparse call. The data
 * must be in their places, and the block must have synchronised after they were stored. Called by all threads, each of
 * which sends other messages.
 */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_rounds_send(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_coll_nodes_epoch_t *epoch,
                                                    uint32_t round)
{
    const mscclpp_dev_nodes_args_t *nodes = &epoch->state.args->nodes;
    const uint64_t places = epoch->slots, place_bytes = epoch->place_units * MSCCLPP_DEV_PACKET_UNIT;
    uint32_t j;

    for (j = 1 + ctx->tid; j < epoch->scheme.radix; j += ctx->nthreads) {
        const mscclpp_dev_rounds_message_t message =
            mscclpp_dev_coll_nodes_rounds_message(epoch, epoch->scheme.node, round, j);
        const uint32_t peer = mscclpp_dev_rounds_behind(&epoch->scheme, message.distance);
        const mscclpp_dev_port_channel_t *channel = MSCCLPP_DEV_NODES_CHANNEL(nodes, 0, peer);

        if (message.distance != 0 && message.count != 0) {
            mscclpp_dev_port_put(
                ctx, &nodes->common, channel,
                places + mscclpp_dev_rounds_arrival_place(&epoch->scheme, message, round, j) * place_bytes,
                places + mscclpp_dev_rounds_departure_place(&epoch->scheme, message, round, j) * place_bytes,
                message.count * place_bytes);
        } else if (message.distance != 0 && !epoch->is_sparse) {
            mscclpp_dev_port_put(ctx, &nodes->common, channel,
                                 mscclpp_dev_coll_nodes_rounds_empty_arrival_offset(epoch, round, j),
                                 mscclpp_dev_coll_nodes_rounds_empty_source_offset(epoch), MSCCLPP_DEV_PACKET_UNIT);
        }
    }
}

/*
 * Returns true if the first block of a message is stored, not combined. This holds for the first message to the node
 * that gets the result, because that node contributes no data of its own at place 0.
 */
MSCCLPP_DEV bool mscclpp_dev_coll_nodes_rounds_stores_first_block(const mscclpp_dev_coll_nodes_epoch_t *epoch,
                                                                  uint32_t round, uint32_t j)
{
    return round == 0 && j == 1 &&
           (epoch->scheme.pattern != MSCCLPP_DEV_REDUCE || epoch->scheme.node == epoch->scheme.root);
}

/*
 * Combines one received unit with the unit of the same number, counted from place 0, which this node or an earlier
 * message has stored. If `stores_first_block`, the first place has no units yet, so a unit of the first block is stored
 * instead. The same thread handles a unit in all messages, so no two threads combine the same unit.
 */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_rounds_combine_arrived(mscclpp_dev_ctx_t *ctx,
                                                               const mscclpp_dev_coll_nodes_epoch_t *epoch,
                                                               bool stores_first_block, uint64_t unit,
                                                               mscclpp_dev_vec_t value)
{
    const mscclpp_dev_coll_nodes_row_t row = mscclpp_dev_coll_nodes_place_row(epoch, unit / epoch->place_units);
    mscclpp_dev_acc_t acc;

    if (stores_first_block && unit < epoch->place_units) {
        mscclpp_dev_coll_nodes_put_unit(epoch, row, unit, value);
        return;
    }
    mscclpp_dev_acc_set(&acc, epoch->state.dtype,
                        mscclpp_dev_coll_nodes_get_unit(ctx, epoch, row, unit % epoch->place_units, 0));
    mscclpp_dev_acc_add(&acc, false, epoch->state.dtype, epoch->state.op, value);
    mscclpp_dev_coll_nodes_put_unit(epoch, row, unit % epoch->place_units,
                                    mscclpp_dev_acc_get(&acc, epoch->state.dtype));
}

/*
 * Waits for message `j` of a round, and combines its data if the pattern combines blocks. Unless the call is sparse,
 * also waits for an empty message, which shows that its sender has reached this round. If a wait fails, sets
 * ctx->failed in this thread. Called by all threads.
 */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_rounds_await(mscclpp_dev_ctx_t *ctx,
                                                     const mscclpp_dev_coll_nodes_epoch_t *epoch, uint32_t round,
                                                     uint32_t j)
{
    const mscclpp_dev_nodes_args_t *nodes = &epoch->state.args->nodes;
    const uint32_t distance = mscclpp_dev_coll_nodes_rounds_message(epoch, epoch->scheme.node, round, j).distance;
    const uint32_t sender = mscclpp_dev_rounds_before(&epoch->scheme, distance);
    const mscclpp_dev_rounds_message_t message = mscclpp_dev_coll_nodes_rounds_message(epoch, sender, round, j);
    const uint64_t arrival = mscclpp_dev_rounds_arrival_place(&epoch->scheme, message, round, j);
    const uint32_t late_rank = MSCCLPP_DEV_NODES_CHANNEL(nodes, 0, sender)->peer;
    uint64_t unit;

    if (distance == 0) {
        return;
    }
    if (message.count == 0 && ctx->tid == 0 && !epoch->is_sparse) {
        (void)mscclpp_dev_coll_nodes_get_unit(
            ctx, epoch,
            mscclpp_dev_coll_nodes_far_row(epoch, mscclpp_dev_coll_nodes_rounds_empty_arrival_offset(epoch, round, j),
                                           1),
            0, late_rank);
    }
    for (unit = ctx->tid; unit < message.count * epoch->place_units && !ctx->failed; unit += ctx->nthreads) {
        const mscclpp_dev_vec_t value = mscclpp_dev_coll_nodes_get_unit(
            ctx, epoch, mscclpp_dev_coll_nodes_place_row(epoch, arrival + unit / epoch->place_units),
            unit % epoch->place_units, late_rank);

        if (epoch->state.merges && !ctx->failed) {
            mscclpp_dev_coll_nodes_rounds_combine_arrived(
                ctx, epoch, mscclpp_dev_coll_nodes_rounds_stores_first_block(epoch, round, j), unit, value);
        }
    }
}

/*
 * Returns the number of messages of a round that bring totals to this owner; 0 if the call is not a scan with prefixes.
 */
MSCCLPP_DEV uint32_t mscclpp_dev_coll_nodes_rounds_count_totals(const mscclpp_dev_coll_nodes_epoch_t *epoch,
                                                                uint32_t round)
{
    return epoch->prefixes && epoch->has_data ? mscclpp_dev_rounds_count_prefixes(&epoch->scheme, round) : 0;
}

/*
 * Combines one unit of the totals that a round of a scan with prefixes brings, and stores the results. The operands are
 * in the order of the nodes: first the totals of the `count` messages, from the farthest sender on, then this node's
 * total or its prefix. This node's total is combined only if a later round sends it (`sends_later`). One loop handles
 * all operands, so that the code that waits and combines is there once. If a wait fails, sets ctx->failed and stores
 * nothing more.
 */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_rounds_combine_totals(mscclpp_dev_ctx_t *ctx,
                                                              const mscclpp_dev_coll_nodes_epoch_t *epoch,
                                                              uint32_t round, uint32_t count, bool sends_later,
                                                              uint64_t unit)
{
    const mscclpp_dev_nodes_args_t *nodes = &epoch->state.args->nodes;
    const uint64_t prefix = mscclpp_dev_rounds_prefix_place(&epoch->scheme);
    mscclpp_dev_vec_t earlier = mscclpp_dev_vec_zero(); /* the combination of the messages so far */
    mscclpp_dev_acc_t acc;
    uint32_t i;

    MSCCLPP_DEV_ROLLED
    for (i = 0; i < count + 2 && !ctx->failed; ++i) {
        const uint32_t j = i < count ? count - i : 1;
        const mscclpp_dev_rounds_message_t message =
            mscclpp_dev_rounds_message(&epoch->scheme, epoch->scheme.node, round, j);
        const uint32_t sender = mscclpp_dev_rounds_before(&epoch->scheme, message.distance);
        const uint64_t place = i < count    ? mscclpp_dev_rounds_arrival_place(&epoch->scheme, message, round, j)
                               : i == count ? round
                                            : prefix;
        const bool has_operand = i < count || (i == count ? sends_later : round > 0);
        mscclpp_dev_vec_t value = earlier;

        if (has_operand) {
            value = mscclpp_dev_coll_nodes_get_unit(ctx, epoch, mscclpp_dev_coll_nodes_place_row(epoch, place), unit,
                                                    MSCCLPP_DEV_NODES_CHANNEL(nodes, 0, sender)->peer);
        }
        if (has_operand && i > 0) {
            mscclpp_dev_acc_set(&acc, epoch->state.dtype, earlier);
            mscclpp_dev_acc_add(&acc, false, epoch->state.dtype, epoch->state.op, value);
            value = mscclpp_dev_acc_get(&acc, epoch->state.dtype);
        }
        if (i < count) {
            earlier = value;
        } else if ((i > count || sends_later) && !ctx->failed) {
            mscclpp_dev_coll_nodes_put_unit(
                epoch, mscclpp_dev_coll_nodes_place_row(epoch, i == count ? round + 1 : prefix), unit, value);
        }
    }
}

/*
 * Waits for the messages of a round of a scan with prefixes, and combines their totals. This node keeps two totals: its
 * total, which ends with this node, and its prefix, which ends with the previous node. The received totals belong to
 * earlier nodes, so they come first in both combinations. A total that is still being sent from its place must not
 * change, so the new total goes to the next place. It is not computed if no later round sends it. If a wait fails, sets
 * ctx->failed in this thread. Called by all threads.
 */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_rounds_await_totals(mscclpp_dev_ctx_t *ctx,
                                                            const mscclpp_dev_coll_nodes_epoch_t *epoch, uint32_t round)
{
    const mscclpp_dev_rounds_t *scheme = &epoch->scheme;
    const uint32_t count = mscclpp_dev_coll_nodes_rounds_count_totals(epoch, round);
    const uint64_t next_distance = (uint64_t)mscclpp_dev_rounds_digit_value(scheme, round) * scheme->radix;
    const bool sends_later = scheme->node + next_distance < scheme->nnodes;
    uint64_t unit;

    for (unit = ctx->tid; unit < epoch->place_units && count > 0 && !ctx->failed; unit += ctx->nthreads) {
        mscclpp_dev_coll_nodes_rounds_combine_totals(ctx, epoch, round, count, sends_later, unit);
    }
}

/*
 * Carries out the rounds. The data of this node must be in their places. Called by all threads. If ctx->failed is set
 * afterwards, the result is incomplete.
 *
 * Thread 0 first stores the packet from which empty messages are sent. The block synchronises before it sends, so that
 * the data and this packet are complete. It synchronises after each round, so that all threads stop after a failure,
 * and so that all packets of the round have arrived before the next gather. In a sparse call, an owner without data
 * does nothing.
 */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_rounds_run(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_coll_nodes_epoch_t *epoch)
{
    const bool gathers = epoch->scheme.pattern == MSCCLPP_DEV_ALLTOALL;
    uint32_t round, j;

    if (epoch->is_sparse && !epoch->has_data) {
        return;
    }
    if (ctx->tid == 0 && !epoch->is_sparse) {
        mscclpp_dev_coll_nodes_put_unit(
            epoch, mscclpp_dev_coll_nodes_far_row(epoch, mscclpp_dev_coll_nodes_rounds_empty_source_offset(epoch), 1),
            0, mscclpp_dev_vec_zero());
    }
    for (round = 0; round < epoch->scheme.rounds && !ctx->failed; ++round) {
        for (j = 1; gathers && j < epoch->scheme.radix; ++j) {
            mscclpp_dev_coll_nodes_rounds_gather(ctx, epoch, round, j);
        }
        ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
        if (ctx->failed) {
            return;
        }
        mscclpp_dev_coll_nodes_rounds_send(ctx, epoch, round);
        /* In a scan with prefixes, the first messages have data, which are combined together. */
        for (j = 1 + mscclpp_dev_coll_nodes_rounds_count_totals(epoch, round); j < epoch->scheme.radix; ++j) {
            mscclpp_dev_coll_nodes_rounds_await(ctx, epoch, round, j);
        }
        if (epoch->prefixes) {
            mscclpp_dev_coll_nodes_rounds_await_totals(ctx, epoch, round);
        }
        ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
    }
}

/* ---- After the rounds, in a scan with prefixes ---- */

/*
 * Returns the row in the scratch of rank `index` of this node for a scan's total of all earlier nodes: the row of the
 * last rank before this node. Must not be called on the first node.
 */
MSCCLPP_DEV mscclpp_dev_coll_nodes_row_t mscclpp_dev_coll_nodes_prefix_row(const mscclpp_dev_coll_nodes_epoch_t *epoch,
                                                                           uint32_t index)
{
    const mscclpp_dev_coll_nodes_args_t *args = epoch->state.args;

    return mscclpp_dev_coll_nodes_packet_row(epoch, index,
                                             mscclpp_dev_coll_nodes_first_rank(args, args->nodes.node) - 1);
}

/*
 * In a scan with prefixes, hands the total of all earlier nodes out to all ranks of this node. Called by all threads
 * after the rounds. Does nothing on the first node, and on owners without data.
 */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_hand_out_prefix(mscclpp_dev_ctx_t *ctx,
                                                        const mscclpp_dev_coll_nodes_epoch_t *epoch)
{
    const mscclpp_dev_coll_nodes_row_t prefix =
        mscclpp_dev_coll_nodes_place_row(epoch, mscclpp_dev_rounds_prefix_place(&epoch->scheme));
    uint64_t unit;
    uint32_t index;

    for (unit = ctx->tid; unit < epoch->units && epoch->has_data && epoch->scheme.node > 0; unit += ctx->nthreads) {
        const mscclpp_dev_vec_t value = mscclpp_dev_coll_nodes_get_unit(ctx, epoch, prefix, unit, 0);

        for (index = 0; index < epoch->state.args->nodes.common.nranks; ++index) {
            mscclpp_dev_coll_nodes_put_unit(epoch, mscclpp_dev_coll_nodes_prefix_row(epoch, index), unit, value);
        }
    }
}

#endif
