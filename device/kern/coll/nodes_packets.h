/*
 * Sends small blocks of one size over several nodes as packets, without barriers and signals. An owner sends one
 * message to each other node. In rounds, it sends fewer messages: their number grows with the logarithm of the number
 * of nodes.
 *
 *   1. Every rank stores its blocks as packets into the scratch of the ranks of its node. If another rank sends its
 *      blocks to other nodes, it stores them into that owner's scratch, too.
 *   2. An owner stores the data for other nodes in its exchange area as packets, and has them put to the same owner on
 *      those nodes. In rounds, they go through the owners on other nodes (nodes_rounds.h).
 *   3. The owner waits for the packets from those nodes, and stores them into the scratch of the receiving ranks of its
 *      node.
 *   4. Every rank waits for its packets, and moves or combines their data.
 *
 * One block of the grid does everything, in one epoch. The ranks send and combine blocks for one another as with tiles
 * (nodes.h), except in a scan with prefixes. There all ranks of a node give their operands to the owner whose turn it
 * is. This owner hands out the total of the earlier nodes, in the row of the last rank before its node, as if the total
 * were that rank's operand.
 *
 * Calls use two sets of slots in turn (lib/packet.h, allreduce_nodes_packets.h). Why two are enough: every rank
 * receives a packet from every other rank of its node. Every owner receives one from the same owner on every other
 * node. A sender that has no data sends an empty packet. So a rank that has ended kernel k + 1 knows that all these
 * senders have ended kernel k, and have read everything that it put in k. No other rank writes here: the data that an
 * owner hands out come from a rank of the node. In rounds, an owner hears from some of those owners through others, and
 * waits for all of every message. In sparse calls, this does not hold between nodes. They have places of their own
 * (nodes_rounds.h).
 */
#ifndef MSCCLPP_DEVICE_KERN_COLL_NODES_PACKETS_H
#define MSCCLPP_DEVICE_KERN_COLL_NODES_PACKETS_H

#include "device/kern/coll/nodes_rounds.h"
#include "device/lib/barrier.h"

/* ---- Send ---- */

/* Stores a block of this rank's input as packets into `row`. Called by all threads. A failed thread stores nothing. */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_send_packets(const mscclpp_dev_ctx_t *ctx,
                                                     const mscclpp_dev_coll_nodes_epoch_t *epoch,
                                                     mscclpp_dev_block_t block, mscclpp_dev_coll_nodes_row_t row)
{
    const char *from = (const char *)epoch->state.args->nodes.common.in + block.offset;
    const uint64_t units = mscclpp_dev_units(block.bytes);
    uint64_t unit;

    for (unit = ctx->tid; unit < units && !ctx->failed; unit += ctx->nthreads) {
        mscclpp_dev_coll_nodes_put_unit(epoch, row, unit, mscclpp_dev_ld_unit(from, unit, block.bytes));
    }
}

/*
 * Sends a block for a rank of another node to the owner that puts the block to that node. Sends nothing if this rank is
 * that owner, or if the block is empty: the owner knows from the pattern that it receives no block.
 */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_relay_packets(const mscclpp_dev_ctx_t *ctx,
                                                      const mscclpp_dev_coll_nodes_epoch_t *epoch,
                                                      mscclpp_dev_block_t block, uint32_t receiver)
{
    const mscclpp_dev_coll_nodes_args_t *args = epoch->state.args;
    const uint32_t owner = epoch->state.merges ? mscclpp_dev_coll_nodes_merger_of(args, &epoch->turn, receiver)
                                               : mscclpp_dev_coll_nodes_owner_of(args, &epoch->turn, args->rank);

    if (owner != epoch->state.index && block.bytes > 0) {
        mscclpp_dev_coll_nodes_send_packets(
            ctx, epoch, block,
            mscclpp_dev_coll_nodes_packet_row(epoch, owner,
                                              mscclpp_dev_coll_nodes_relay_row(&epoch->state, args->rank, receiver)));
    }
}

/*
 * Returns this rank's block for a rank of its node. In a scan with prefixes, the owner that makes the node's total gets
 * the operand even if it has a lower number.
 */
MSCCLPP_DEV mscclpp_dev_block_t mscclpp_dev_coll_nodes_near_block(const mscclpp_dev_coll_nodes_epoch_t *epoch,
                                                                  uint32_t peer)
{
    const mscclpp_dev_coll_nodes_args_t *args = epoch->state.args;
    mscclpp_dev_block_t block = mscclpp_dev_coll_nodes_send_block(args, peer);

    if (epoch->prefixes && args->place[peer].index == epoch->turn.owner) {
        block.bytes = args->nodes.common.bytes;
    }
    return block;
}

/*
 * Sends this rank's blocks to the ranks of its node, and to the owners that put blocks to other nodes. Each rank of the
 * node gets at least one packet, which is empty if there is no block: see the top of this file. Begins with the next
 * rank, so that the ranks do not all store to the same rank at once. A rank that is alone on its node is its own owner,
 * and sends nothing here.
 */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_send_all_packets(const mscclpp_dev_ctx_t *ctx,
                                                         const mscclpp_dev_coll_nodes_epoch_t *epoch)
{
    const mscclpp_dev_coll_nodes_args_t *args = epoch->state.args;
    uint32_t i;

    for (i = 1; i < args->nranks && args->nodes.common.nranks > 1; ++i) {
        const uint32_t peer = args->rank + i < args->nranks ? args->rank + i : args->rank + i - args->nranks;
        const bool is_near = args->place[peer].node == args->nodes.node;
        const mscclpp_dev_block_t block =
            is_near ? mscclpp_dev_coll_nodes_near_block(epoch, peer) : mscclpp_dev_coll_nodes_send_block(args, peer);

        if (is_near) {
            const mscclpp_dev_coll_nodes_row_t row = mscclpp_dev_coll_nodes_packet_row(
                epoch, args->place[peer].index, mscclpp_dev_coll_nodes_block_row(epoch, args->rank));

            mscclpp_dev_coll_nodes_send_packets(ctx, epoch, block, row);
            if (block.bytes == 0 && ctx->tid == 0 && !ctx->failed) {
                mscclpp_dev_coll_nodes_put_unit(epoch, row, 0, mscclpp_dev_vec_zero());
            }
        } else if (epoch->state.merges || epoch->state.sends_many) {
            mscclpp_dev_coll_nodes_relay_packets(ctx, epoch, block, peer);
        }
    }
    if (args->nodes.common.nranks > 1 && !epoch->state.merges && !epoch->state.sends_many && !epoch->prefixes) {
        mscclpp_dev_coll_nodes_relay_packets(ctx, epoch, mscclpp_dev_coll_nodes_common_block(args), 0);
    }
}

/* ---- An owner's part ---- */

/*
 * Waits for one unit of each of this node's blocks for `receiver`, and returns their combination in rank order. If a
 * wait fails, sets ctx->failed, and the result is arbitrary. All functions below that wait for a unit fail in this way.
 */
MSCCLPP_DEV mscclpp_dev_vec_t mscclpp_dev_coll_nodes_merge_packet_unit(mscclpp_dev_ctx_t *ctx,
                                                                       const mscclpp_dev_coll_nodes_epoch_t *epoch,
                                                                       uint32_t receiver, uint64_t unit)
{
    const mscclpp_dev_coll_nodes_args_t *args = epoch->state.args;
    const mscclpp_dev_block_t own_block = epoch->prefixes ? mscclpp_dev_coll_nodes_near_block(epoch, receiver)
                                                          : mscclpp_dev_coll_nodes_send_block(args, receiver);
    mscclpp_dev_acc_t acc;
    const uint32_t begin = args->begin[args->nodes.node], end = args->begin[args->nodes.node + 1];
    uint32_t i;

    for (i = begin; i < end; ++i) {
        const uint32_t rank = args->members[i];
        mscclpp_dev_vec_t value;

        if (rank == args->rank) {
            value = mscclpp_dev_ld_unit((const char *)args->nodes.common.in + own_block.offset, unit, own_block.bytes);
        } else {
            value = mscclpp_dev_coll_nodes_get_unit(
                ctx, epoch,
                mscclpp_dev_coll_nodes_packet_row(
                    epoch, epoch->state.index,
                    receiver == args->rank ? mscclpp_dev_coll_nodes_block_row(epoch, rank)
                                           : mscclpp_dev_coll_nodes_relay_row(&epoch->state, rank, receiver)),
                unit, args->place[rank].index);
        }
        if (i == begin) {
            mscclpp_dev_acc_set(&acc, epoch->state.dtype, value);
        } else {
            mscclpp_dev_acc_add(&acc, false, epoch->state.dtype, epoch->state.op, value);
        }
    }
    return mscclpp_dev_acc_get(&acc, epoch->state.dtype);
}

/*
 * Returns one unit of the block that `sender`, a rank of this node, has for `receiver`, a rank of another node. If
 * `sender` is another rank, waits for the unit's packets from it.
 */
MSCCLPP_DEV mscclpp_dev_vec_t mscclpp_dev_coll_nodes_client_unit(mscclpp_dev_ctx_t *ctx,
                                                                 const mscclpp_dev_coll_nodes_epoch_t *epoch,
                                                                 uint32_t sender, uint32_t receiver, uint64_t unit)
{
    const mscclpp_dev_coll_nodes_args_t *args = epoch->state.args;

    if (sender == args->rank) {
        const mscclpp_dev_block_t block = epoch->state.sends_many ? mscclpp_dev_coll_nodes_send_block(args, receiver)
                                                                  : mscclpp_dev_coll_nodes_common_block(args);

        return mscclpp_dev_ld_unit((const char *)args->nodes.common.in + block.offset, unit, block.bytes);
    }
    return mscclpp_dev_coll_nodes_get_unit(
        ctx, epoch,
        mscclpp_dev_coll_nodes_packet_row(epoch, epoch->state.index,
                                          mscclpp_dev_coll_nodes_relay_row(&epoch->state, sender, receiver)),
        unit, args->place[sender].index);
}

/* Returns true if `sender` sends a block to a rank of another node. */
MSCCLPP_DEV bool mscclpp_dev_coll_nodes_sends_far(const mscclpp_dev_coll_nodes_args_t *args, uint32_t sender)
{
    bool is_found = false;
    uint32_t node;

    for (node = 0; node < args->nodes.nnodes && !is_found; ++node) {
        is_found = node != args->nodes.node && mscclpp_dev_coll_nodes_reaches(args, sender, node);
    }
    return is_found;
}

/*
 * Stores the data for a node as packets in the exchange area. If all nodes get the same data, `to_node` may be any
 * node. Blocks that no other node needs keep their places.
 *
 * In rounds, these blocks and the rest of the place are filled with zeros, because messages have a fixed size.
 * Otherwise these blocks are not written, and an empty packet is stored, too, for a node that needs none of the data.
 * If a wait for another rank's block fails, wrong data are stored, but they are not sent.
 */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_store_packets_for_node(mscclpp_dev_ctx_t *ctx,
                                                               const mscclpp_dev_coll_nodes_epoch_t *epoch,
                                                               uint32_t to_node)
{
    const mscclpp_dev_coll_nodes_args_t *args = epoch->state.args;
    const uint64_t units = mscclpp_dev_coll_nodes_count_blocks(&epoch->state, &epoch->turn, args->nodes.node,
                                                               epoch->state.index, to_node) *
                           epoch->units;
    const mscclpp_dev_coll_nodes_row_t row =
        epoch->in_rounds ? mscclpp_dev_coll_nodes_rounds_outgoing_row(epoch, to_node)
                         : mscclpp_dev_coll_nodes_far_row(
                               epoch, mscclpp_dev_coll_nodes_outgoing_packets_offset(epoch, to_node), units);
    const uint32_t first_receiver = args->begin[to_node];
    const uint32_t receivers_end = epoch->state.sends_many ? args->begin[to_node + 1] : first_receiver + 1;
    uint64_t offset = 0, unit;
    uint32_t i, j;

    /*
     * If nodes send combined blocks, stores one block for each receiver. Otherwise stores the blocks of each rank for
     * which this owner sends.
     */
    for (i = first_receiver; i < args->begin[to_node + 1] && epoch->state.merges; ++i) {
        const uint32_t receiver = args->members[i];

        if (!mscclpp_dev_coll_nodes_merges_for(args, &epoch->turn, epoch->state.index, receiver, to_node)) {
            continue;
        }
        for (unit = ctx->tid; unit < epoch->units; unit += ctx->nthreads) {
            mscclpp_dev_coll_nodes_put_unit(epoch, row, offset + unit,
                                            mscclpp_dev_coll_nodes_merge_packet_unit(ctx, epoch, receiver, unit));
        }
        offset += epoch->units;
    }
    for (i = args->begin[args->nodes.node]; i < args->begin[args->nodes.node + 1] && !epoch->state.merges; ++i) {
        const uint32_t sender = args->members[i];
        bool is_needed;

        if (!mscclpp_dev_coll_nodes_sends_for(args, &epoch->turn, sender, args->nodes.node, epoch->state.index)) {
            continue;
        }
        is_needed = mscclpp_dev_coll_nodes_sends_far(args, sender);
        for (j = first_receiver; j < receivers_end; ++j) {
            for (unit = ctx->tid; unit < epoch->units && (is_needed || epoch->in_rounds); unit += ctx->nthreads) {
                mscclpp_dev_coll_nodes_put_unit(
                    epoch, row, offset + unit,
                    is_needed ? mscclpp_dev_coll_nodes_client_unit(ctx, epoch, sender, args->members[j], unit)
                              : mscclpp_dev_vec_zero());
            }
            offset += epoch->units;
        }
    }
    for (unit = offset + ctx->tid; epoch->in_rounds && unit < epoch->place_units; unit += ctx->nthreads) {
        mscclpp_dev_coll_nodes_put_unit(epoch, row, unit, mscclpp_dev_vec_zero());
    }
    if (ctx->tid == 0 && !epoch->in_rounds) {
        mscclpp_dev_coll_nodes_put_unit(
            epoch, mscclpp_dev_coll_nodes_far_row(epoch, mscclpp_dev_coll_nodes_empty_packet_offset(epoch, to_node), 1),
            0, mscclpp_dev_vec_zero());
    }
}

/* Stores this node's total in place 0, for a scan with prefixes. Called on the owner that has all operands. */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_store_total(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_coll_nodes_epoch_t *epoch)
{
    const mscclpp_dev_coll_nodes_row_t row = mscclpp_dev_coll_nodes_place_row(epoch, 0);
    uint64_t unit;

    for (unit = ctx->tid; unit < epoch->units; unit += ctx->nthreads) {
        mscclpp_dev_coll_nodes_put_unit(
            epoch, row, unit, mscclpp_dev_coll_nodes_merge_packet_unit(ctx, epoch, epoch->state.args->rank, unit));
    }
}

/*
 * Stores the data for all other nodes. In rounds, an owner that has no data stores nothing, and in a reduce only the
 * root's node gets data.
 */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_store_all_packets(mscclpp_dev_ctx_t *ctx,
                                                          const mscclpp_dev_coll_nodes_epoch_t *epoch)
{
    const mscclpp_dev_nodes_args_t *nodes = &epoch->state.args->nodes;
    const bool differs_by_node =
        epoch->in_rounds ? epoch->state.sends_many : epoch->state.sends_many || epoch->state.merges;
    uint32_t i;

    if (epoch->in_rounds && !mscclpp_dev_coll_nodes_rounds_has_data(epoch)) {
        return;
    }
    if (epoch->prefixes) {
        mscclpp_dev_coll_nodes_store_total(ctx, epoch);
        return;
    }
    if (epoch->in_rounds && epoch->state.args->pattern == MSCCLPP_DEV_REDUCE) {
        mscclpp_dev_coll_nodes_store_packets_for_node(ctx, epoch, epoch->scheme.root);
        return;
    }
    for (i = 1; i < nodes->nnodes && (differs_by_node || i == 1); ++i) {
        mscclpp_dev_coll_nodes_store_packets_for_node(ctx, epoch, (nodes->node + i) % nodes->nnodes);
    }
}

/*
 * Puts the data to the other nodes. A node that needs none of the data gets the empty packet. The block must have
 * synchronised after the data were stored. Called by all threads, each of which puts to other nodes.
 */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_send_packets_far(mscclpp_dev_ctx_t *ctx,
                                                         const mscclpp_dev_coll_nodes_epoch_t *epoch)
{
    const mscclpp_dev_nodes_args_t *nodes = &epoch->state.args->nodes;
    uint32_t i;

    for (i = 1 + ctx->tid; i < nodes->nnodes; i += ctx->nthreads) {
        const uint32_t to_node = (nodes->node + i) % nodes->nnodes;
        const uint64_t units = mscclpp_dev_coll_nodes_count_units(epoch, nodes->node, epoch->state.index, to_node);

        mscclpp_dev_port_put(ctx, &nodes->common, MSCCLPP_DEV_NODES_CHANNEL(nodes, 0, to_node),
                             mscclpp_dev_coll_nodes_packet_slot_offset(epoch, 1 + nodes->node),
                             units > 0 ? mscclpp_dev_coll_nodes_outgoing_packets_offset(epoch, to_node)
                                       : mscclpp_dev_coll_nodes_empty_packet_offset(epoch, to_node),
                             (units > 0 ? units : 1) * MSCCLPP_DEV_PACKET_UNIT);
    }
}

/*
 * Waits for the data from a node, and stores them into the scratch of the ranks of this node that receive them. The
 * blocks are in the order in which the sender has stored them. If the node has no data for this node, waits for the
 * empty packet instead; in rounds there is no such packet. If a wait fails, sets ctx->failed and stores nothing more.
 */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_hand_out_packets(mscclpp_dev_ctx_t *ctx,
                                                         const mscclpp_dev_coll_nodes_epoch_t *epoch,
                                                         uint32_t from_node)
{
    const mscclpp_dev_coll_nodes_args_t *args = epoch->state.args;
    const uint64_t units = mscclpp_dev_coll_nodes_count_units(epoch, from_node, epoch->state.index, args->nodes.node);
    const mscclpp_dev_coll_nodes_row_t row =
        epoch->in_rounds
            ? mscclpp_dev_coll_nodes_rounds_incoming_row(epoch, from_node)
            : mscclpp_dev_coll_nodes_far_row(epoch, mscclpp_dev_coll_nodes_packet_slot_offset(epoch, 1 + from_node),
                                             units > 0 ? units : 1);
    const uint32_t late_rank = MSCCLPP_DEV_NODES_CHANNEL(&args->nodes, 0, from_node)->peer;
    const uint32_t begin = args->begin[args->nodes.node], end = args->begin[args->nodes.node + 1];
    uint64_t offset = 0, unit;
    uint32_t i, j;

    if (units == 0) {
        if (ctx->tid == 0 && !epoch->in_rounds) {
            (void)mscclpp_dev_coll_nodes_get_unit(ctx, epoch, row, 0, late_rank);
        }
        return;
    }
    /* If nodes send combined blocks, there is one block for each receiver. */
    for (i = begin; i < end && epoch->state.merges; ++i) {
        const uint32_t receiver = args->members[i];

        if (!mscclpp_dev_coll_nodes_merges_for(args, &epoch->turn, epoch->state.index, receiver, args->nodes.node)) {
            continue;
        }
        for (unit = ctx->tid; unit < epoch->units; unit += ctx->nthreads) {
            const mscclpp_dev_vec_t value = mscclpp_dev_coll_nodes_get_unit(ctx, epoch, row, offset + unit, late_rank);

            if (!ctx->failed) {
                mscclpp_dev_coll_nodes_put_unit(
                    epoch,
                    mscclpp_dev_coll_nodes_packet_row(
                        epoch, args->place[receiver].index,
                        mscclpp_dev_coll_nodes_block_row(epoch, mscclpp_dev_coll_nodes_first_rank(args, from_node))),
                    unit, value);
            }
        }
        offset += epoch->units;
    }
    /* Otherwise there is one for each sender, or for each sender and receiver. Places of missing blocks are skipped. */
    for (i = args->begin[from_node]; i < args->begin[from_node + 1] && !epoch->state.merges; ++i) {
        const uint32_t sender = args->members[i];

        if (!mscclpp_dev_coll_nodes_sends_for(args, &epoch->turn, sender, from_node, epoch->state.index)) {
            continue;
        }
        for (j = begin; j < end; ++j) {
            const uint32_t receiver = args->members[j];

            for (unit = ctx->tid; unit < epoch->units && mscclpp_dev_coll_nodes_sends(args, sender, receiver);
                 unit += ctx->nthreads) {
                const mscclpp_dev_vec_t value =
                    mscclpp_dev_coll_nodes_get_unit(ctx, epoch, row, offset + unit, late_rank);

                if (!ctx->failed) {
                    mscclpp_dev_coll_nodes_put_unit(
                        epoch,
                        mscclpp_dev_coll_nodes_packet_row(epoch, args->place[receiver].index,
                                                          mscclpp_dev_coll_nodes_block_row(epoch, sender)),
                        unit, value);
                }
            }
            offset += epoch->state.sends_many ? epoch->units : 0;
        }
        offset += epoch->state.sends_many ? 0 : epoch->units;
    }
}

/*
 * Hands out the data from all other nodes. In rounds, combined data of all other nodes are one result, which is handed
 * out as if it had come from the next node. In rounds, nodes without data for this node are skipped, of which calls
 * with a root have many.
 */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_hand_out_all_packets(mscclpp_dev_ctx_t *ctx,
                                                             const mscclpp_dev_coll_nodes_epoch_t *epoch)
{
    const mscclpp_dev_nodes_args_t *nodes = &epoch->state.args->nodes;
    uint32_t first = 1, end = nodes->nnodes, i;

    if (epoch->prefixes) {
        mscclpp_dev_coll_nodes_hand_out_prefix(ctx, epoch);
        return;
    }
    if (epoch->in_rounds && epoch->state.merges) {
        mscclpp_dev_coll_nodes_hand_out_packets(ctx, epoch, (nodes->node + 1) % nodes->nnodes);
        return;
    }
    if (epoch->in_rounds && MSCCLPP_DEV_COLL_ONE_SENDS(epoch->scheme.pattern)) {
        first = (nodes->node + nodes->nnodes - epoch->scheme.root) % nodes->nnodes;
        end = first == 0 ? 0 : first + 1;
    } else if (epoch->in_rounds && epoch->scheme.pattern == MSCCLPP_DEV_GATHER && nodes->node != epoch->scheme.root) {
        end = 0;
    }
    for (i = first; i < end; ++i) {
        mscclpp_dev_coll_nodes_hand_out_packets(ctx, epoch, (nodes->node + nodes->nnodes - i) % nodes->nnodes);
    }
}

/* ---- Receive ---- */

/*
 * Returns the rank of this node that is late if a block of `sender` does not come: `sender`, or the owner that hands
 * the block out.
 */
MSCCLPP_DEV uint32_t mscclpp_dev_coll_nodes_late_rank(const mscclpp_dev_coll_nodes_epoch_t *epoch, uint32_t sender)
{
    const mscclpp_dev_coll_nodes_args_t *args = epoch->state.args;

    return args->place[sender].node == args->nodes.node ? args->place[sender].index
           : epoch->prefixes                            ? epoch->turn.owner
           : epoch->state.merges ? mscclpp_dev_coll_nodes_merger_of(args, &epoch->turn, args->rank)
                                 : mscclpp_dev_coll_nodes_owner_of(args, &epoch->turn, sender);
}

/* Waits for one unit of the block of `sender`, or of the partial result of its node, and returns the unit. */
MSCCLPP_DEV mscclpp_dev_vec_t mscclpp_dev_coll_nodes_receive_unit(mscclpp_dev_ctx_t *ctx,
                                                                  const mscclpp_dev_coll_nodes_epoch_t *epoch,
                                                                  uint32_t sender, uint64_t unit)
{
    return mscclpp_dev_coll_nodes_get_unit(
        ctx, epoch,
        mscclpp_dev_coll_nodes_packet_row(epoch, epoch->state.index, mscclpp_dev_coll_nodes_block_row(epoch, sender)),
        unit, mscclpp_dev_coll_nodes_late_rank(epoch, sender));
}

/*
 * Waits for all operands of one unit of the result, and returns their combination. For a scan, these are the operands
 * of ranks 0 to `ranks_end` - 1, in rank order; `ranks_end` is at least 1. With prefixes, the row of the last rank
 * before this node has the total of all earlier nodes, so the combination begins there. For reduce and reduce-scatter,
 * the operands are the partial results of all nodes, in node order. In rounds, there are two operands: this node's
 * partial result, and then the combined result of all other nodes, which is in the row of the next node.
 */
MSCCLPP_DEV mscclpp_dev_vec_t mscclpp_dev_coll_nodes_combine_packet_unit(mscclpp_dev_ctx_t *ctx,
                                                                         const mscclpp_dev_coll_nodes_epoch_t *epoch,
                                                                         uint32_t ranks_end, uint64_t unit)
{
    const mscclpp_dev_coll_nodes_args_t *args = epoch->state.args;
    const mscclpp_dev_block_t own_block = mscclpp_dev_coll_nodes_send_block(args, args->rank);
    const uint32_t operands_end = !epoch->state.merges ? ranks_end : epoch->in_rounds ? 2 : args->nodes.nnodes;
    const uint32_t own_index = !epoch->state.merges ? args->rank : epoch->in_rounds ? 0 : args->nodes.node;
    const uint32_t first_operand =
        epoch->prefixes && args->nodes.node > 0 ? mscclpp_dev_coll_nodes_first_rank(args, args->nodes.node) - 1 : 0;
    mscclpp_dev_acc_t acc;
    uint32_t i;

    for (i = first_operand; i < operands_end; ++i) {
        mscclpp_dev_vec_t value;

        if (i == own_index) {
            value = epoch->state.merges ? mscclpp_dev_coll_nodes_merge_packet_unit(ctx, epoch, args->rank, unit)
                                        : mscclpp_dev_ld_unit((const char *)args->nodes.common.in + own_block.offset,
                                                              unit, own_block.bytes);
        } else {
            const uint32_t node = epoch->in_rounds ? (args->nodes.node + 1) % args->nodes.nnodes : i;

            value = mscclpp_dev_coll_nodes_receive_unit(
                ctx, epoch, epoch->state.merges ? mscclpp_dev_coll_nodes_first_rank(args, node) : i, unit);
        }
        if (i == first_operand) {
            mscclpp_dev_acc_set(&acc, epoch->state.dtype, value);
        } else {
            mscclpp_dev_acc_add(&acc, false, epoch->state.dtype, epoch->state.op, value);
        }
    }
    return mscclpp_dev_acc_get(&acc, epoch->state.dtype);
}

/*
 * Waits for all packets for this rank, and moves or combines their data into the output. Also waits for the empty
 * packet of each rank of the node that has no block for this rank. A thread that has failed stores nothing more.
 */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_receive_all_packets(mscclpp_dev_ctx_t *ctx,
                                                            const mscclpp_dev_coll_nodes_epoch_t *epoch)
{
    const mscclpp_dev_coll_nodes_args_t *args = epoch->state.args;
    const bool combines = MSCCLPP_DEV_COMBINES(args->pattern);
    const uint64_t result_bytes = combines ? mscclpp_dev_coll_nodes_result_bytes(args) : 0;
    const uint32_t ranks_end = args->pattern == MSCCLPP_DEV_SCAN ? args->rank + 1 : args->rank;
    /* This rank receives blocks from the root, or from all ranks. In a gather, only the root receives blocks. */
    const bool has_one_sender = MSCCLPP_DEV_COLL_ONE_SENDS(args->pattern);
    const bool has_senders = !combines && (args->pattern != MSCCLPP_DEV_GATHER || args->rank == args->root);
    const uint32_t senders_end = has_one_sender ? args->root + 1 : args->nranks;
    uint32_t sender, i;
    uint64_t unit;

    for (unit = ctx->tid; unit < mscclpp_dev_units(result_bytes); unit += ctx->nthreads) {
        const mscclpp_dev_vec_t value = mscclpp_dev_coll_nodes_combine_packet_unit(ctx, epoch, ranks_end, unit);

        if (!ctx->failed) {
            mscclpp_dev_st_unit(args->nodes.common.out, unit, result_bytes, value,
                                mscclpp_dev_unit_mask(epoch->state.dtype));
        }
    }
    for (i = args->begin[args->nodes.node]; i < args->begin[args->nodes.node + 1] && ctx->tid == 0; ++i) {
        if (args->members[i] != args->rank) {
            (void)mscclpp_dev_coll_nodes_receive_unit(ctx, epoch, args->members[i], 0); /* possibly an empty packet */
        }
    }
    for (sender = has_one_sender ? args->root : 0; has_senders && sender < senders_end; ++sender) {
        const mscclpp_dev_block_t block = mscclpp_dev_coll_nodes_recv_block(args, sender);

        for (unit = ctx->tid; unit < mscclpp_dev_units(block.bytes) && sender != args->rank; unit += ctx->nthreads) {
            const mscclpp_dev_vec_t value = mscclpp_dev_coll_nodes_receive_unit(ctx, epoch, sender, unit);

            if (!ctx->failed) {
                mscclpp_dev_st_unit((char *)args->nodes.common.out + block.offset, unit, block.bytes, value,
                                    MSCCLPP_DEV_WHOLE_UNIT);
            }
        }
    }
}

/*
 * Runs the kernel, on a grid of one block. After a failure, sends nothing more to other nodes, and stores nothing more
 * in the output; the flag still counts as used. Does not call mscclpp_dev_enter, because queued calls over several
 * nodes use no packets.
 */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_packets(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_coll_nodes_args_t *args,
                                                int dtype, int op)
{
    const mscclpp_dev_nodes_args_t *nodes = &args->nodes;
    const uint64_t launches = mscclpp_dev_last_launch(ctx, &nodes->common);
    mscclpp_dev_coll_nodes_epoch_t epoch;

    epoch.flag = mscclpp_dev_last_epoch(ctx, &nodes->common) + 1;
    epoch.slots =
        nodes->packets_offset + MSCCLPP_DEV_NODES_PACKET_SET(epoch.flag, mscclpp_dev_nodes_sparse_calls(nodes)) *
                                    ((uint64_t)nodes->nnodes + 1) * nodes->packet_units * MSCCLPP_DEV_PACKET_UNIT;
    mscclpp_dev_coll_nodes_begin(&epoch.state, args, dtype, op);
    /* There is one turn. In patterns in which only one owner sends, another owner sends in each call. */
    epoch.turn.index = epoch.turn.begin = epoch.turn.set = 0;
    epoch.turn.owner = epoch.flag % nodes->shards;
    epoch.units = mscclpp_dev_units(nodes->common.bytes);
    epoch.row_units = MSCCLPP_DEV_COLL_NODES_CAPACITY(nodes->common.packet_half, epoch.state.set_rows);
    epoch.max_node_units = MSCCLPP_DEV_COLL_NODES_PACKET_ROOM(args->pattern, nodes->nnodes, nodes->packet_units);
    mscclpp_dev_coll_nodes_rounds_begin(&epoch);
    mscclpp_dev_coll_nodes_send_all_packets(ctx, &epoch);
    if (epoch.state.is_owner) {
        mscclpp_dev_coll_nodes_store_all_packets(ctx, &epoch);
    }
    /* In place, no thread may write data that another thread still has to send. */
    ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
    if (!epoch.in_rounds || !epoch.is_sparse) {
        mscclpp_dev_nodes_sparse_free(ctx, nodes);
    } else if (epoch.state.is_owner && ctx->tid == 0) {
        mscclpp_dev_coll_nodes_rounds_count(&epoch);
    }
    if (epoch.state.is_owner && epoch.in_rounds) {
        mscclpp_dev_coll_nodes_rounds_run(ctx, &epoch);
    } else if (epoch.state.is_owner && !ctx->failed) {
        mscclpp_dev_coll_nodes_send_packets_far(ctx, &epoch);
    }
    if (epoch.state.is_owner && !ctx->failed) {
        mscclpp_dev_coll_nodes_hand_out_all_packets(ctx, &epoch);
    }
    mscclpp_dev_coll_nodes_receive_all_packets(ctx, &epoch);
    if (!ctx->failed) {
        mscclpp_dev_coll_nodes_copy_own(ctx, args);
    }
    mscclpp_dev_finish_packets(ctx, &nodes->common, launches, epoch.flag);
}

#endif
