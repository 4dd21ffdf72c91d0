/*
 * Small blocks of one size over several nodes as packets: the state of an epoch, and the rows that contain packets.
 */
#ifndef MSCCLPP_DEVICE_KERN_COLL_NODES_ROWS_H
#define MSCCLPP_DEVICE_KERN_COLL_NODES_ROWS_H

#include "device/kern/coll/nodes_turn.h"
#include "device/lib/nodes_rounds.h"
#include "device/lib/packet.h"

/*
 * A row of units as packets. The first half of unit u is at first + u * MSCCLPP_DEV_PACKET_STEP, and the second half is
 * `half_gap` bytes after it.
 */
typedef struct {
    char *first;
    uint64_t half_gap;
} mscclpp_dev_coll_nodes_row_t;

/* One call, which takes one epoch. */
typedef struct {
    mscclpp_dev_coll_nodes_state_t state;
    mscclpp_dev_coll_nodes_turn_t turn;
    uint64_t units;          /* units of a block of data */
    uint64_t row_units;      /* units of a row of scratch */
    uint64_t max_node_units; /* the maximum number of units of data for one other node */
    uint32_t flag;           /* the flag in this call's packets */
    uint64_t slots; /* offset in the exchange area of the slot that is sent from; of a sparse call's first place */
    bool in_rounds; /* data for other nodes go in rounds (nodes_rounds.h); only then are the fields after the next one
                       set */
    bool prefixes;  /* a scan in rounds, whose nodes send combined operands (nodes_rounds.h) */
    mscclpp_dev_rounds_t scheme; /* the scheme of the rounds */
    uint64_t place_units;
    bool is_sparse; /* there are no empty messages (nodes_rounds.h) */
    bool has_data;  /* this owner's messages have data in this epoch; else all of them are empty */
} mscclpp_dev_coll_nodes_epoch_t;

/* Stores one unit of a row as packets. */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_put_unit(const mscclpp_dev_coll_nodes_epoch_t *epoch,
                                                 mscclpp_dev_coll_nodes_row_t row, uint64_t unit,
                                                 mscclpp_dev_vec_t value)
{
    mscclpp_dev_put_unit(row.first + unit * MSCCLPP_DEV_PACKET_STEP, row.half_gap, value, epoch->flag,
                         MSCCLPP_DEV_LL16);
}

/*
 * Waits for the packets of one unit of a row, and returns their data. If the wait fails, sets ctx->failed and reports
 * `peer` as late, and the result is arbitrary. `peer` is a rank's number in this node, or the `peer` of a channel.
 */
MSCCLPP_DEV mscclpp_dev_vec_t mscclpp_dev_coll_nodes_get_unit(mscclpp_dev_ctx_t *ctx,
                                                              const mscclpp_dev_coll_nodes_epoch_t *epoch,
                                                              mscclpp_dev_coll_nodes_row_t row, uint64_t unit,
                                                              uint32_t peer)
{
    mscclpp_dev_vec_t value = mscclpp_dev_vec_zero();

    mscclpp_dev_get_unit(ctx, &epoch->state.args->nodes.common, row.first + unit * MSCCLPP_DEV_PACKET_STEP,
                         row.half_gap, &value, epoch->flag, MSCCLPP_DEV_LL16, peer);
    return value;
}

/* Returns row `row_number` in the scratch of rank `index` of this node. */
MSCCLPP_DEV mscclpp_dev_coll_nodes_row_t mscclpp_dev_coll_nodes_packet_row(const mscclpp_dev_coll_nodes_epoch_t *epoch,
                                                                           uint32_t index, uint64_t row_number)
{
    const mscclpp_dev_args_t *common = &epoch->state.args->nodes.common;
    mscclpp_dev_coll_nodes_row_t row;

    row.first = common->scratch[index] + MSCCLPP_DEV_PACKET_OFFSET + (epoch->flag & 1) * common->packet_half +
                row_number * epoch->row_units * MSCCLPP_DEV_PACKET_UNIT;
    row.half_gap = epoch->row_units * MSCCLPP_DEV_PACKET_STEP;
    return row;
}

/*
 * Returns the number of the row for the block of `sender`, or, if nodes send partial results, for the partial result of
 * the node whose first rank is `sender` (types/coll_nodes.h).
 */
MSCCLPP_DEV uint64_t mscclpp_dev_coll_nodes_block_row(const mscclpp_dev_coll_nodes_epoch_t *epoch, uint32_t sender)
{
    const mscclpp_dev_coll_nodes_args_t *args = epoch->state.args;
    const mscclpp_dev_place_t place = args->place[sender];

    if (!MSCCLPP_DEV_COLL_NODES_FEW_ROWS(args->pattern)) {
        return sender;
    }
    return place.node == args->nodes.node ? place.index
           : MSCCLPP_DEV_COLL_NODES_FAR(args->pattern, epoch->in_rounds, args->nodes.nnodes) == 1
               ? args->nodes.largest_node
               : args->nodes.largest_node + (uint64_t)place.node;
}

/*
 * Returns the offset of a packet slot in the exchange area. Data are sent from slot 0. Data from node k arrive in slot
 * 1 + k.
 */
MSCCLPP_DEV uint64_t mscclpp_dev_coll_nodes_packet_slot_offset(const mscclpp_dev_coll_nodes_epoch_t *epoch,
                                                               uint32_t slot)
{
    return epoch->slots + slot * epoch->state.args->nodes.packet_units * MSCCLPP_DEV_PACKET_UNIT;
}

/*
 * Returns the offset of the data for a node in the exchange area. The offset is the same for all nodes if they get the
 * same data.
 */
MSCCLPP_DEV uint64_t mscclpp_dev_coll_nodes_outgoing_packets_offset(const mscclpp_dev_coll_nodes_epoch_t *epoch,
                                                                    uint32_t to_node)
{
    return mscclpp_dev_coll_nodes_packet_slot_offset(epoch, 0) +
           (epoch->state.sends_many ? to_node * epoch->max_node_units * MSCCLPP_DEV_PACKET_UNIT : 0);
}

/* Returns the offset of the empty packet for a node: the last unit of the place for that node's data. */
MSCCLPP_DEV uint64_t mscclpp_dev_coll_nodes_empty_packet_offset(const mscclpp_dev_coll_nodes_epoch_t *epoch,
                                                                uint32_t to_node)
{
    return mscclpp_dev_coll_nodes_outgoing_packets_offset(epoch, to_node) +
           (epoch->max_node_units - 1) * MSCCLPP_DEV_PACKET_UNIT;
}

/* Returns the row formed by `units` units at an offset in the exchange area. */
MSCCLPP_DEV mscclpp_dev_coll_nodes_row_t mscclpp_dev_coll_nodes_far_row(const mscclpp_dev_coll_nodes_epoch_t *epoch,
                                                                        uint64_t offset, uint64_t units)
{
    mscclpp_dev_coll_nodes_row_t row;

    row.first = epoch->state.args->nodes.exchange + offset;
    row.half_gap = units * MSCCLPP_DEV_PACKET_STEP;
    return row;
}

/*
 * Returns the number of units that owner `owner` of node `from` sends to node `to`. 0: the owner sends an empty packet.
 */
MSCCLPP_DEV uint64_t mscclpp_dev_coll_nodes_count_units(const mscclpp_dev_coll_nodes_epoch_t *epoch, uint32_t from,
                                                        uint32_t owner, uint32_t to)
{
    return mscclpp_dev_coll_nodes_has_data(&epoch->state, &epoch->turn, from, owner, to)
               ? mscclpp_dev_coll_nodes_count_blocks(&epoch->state, &epoch->turn, from, owner, to) * epoch->units
               : 0;
}

#endif
