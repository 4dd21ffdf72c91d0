/*
 * Small blocks of one size over several nodes as packets: the state of an epoch, and the rows in which packets lie.
 */
#ifndef MSCCLPP_DEVICE_KERN_COLL_NODES_ROWS_H
#define MSCCLPP_DEVICE_KERN_COLL_NODES_ROWS_H

#include "device/kern/coll/nodes_turn.h"
#include "device/lib/nodes_rounds.h"
#include "device/lib/packet.h"

/* Units of packets: unit `u` lies at first + u * MSCCLPP_DEV_PACKET_STEP, its second half `pair` behind. */
typedef struct {
    char *first;
    uint64_t pair;
} mscclpp_dev_cp_row_t;

typedef struct {
    mscclpp_dev_cn_block_t b;
    mscclpp_dev_cn_turn_t turn;
    uint64_t units;    /* of a block */
    uint64_t capacity; /* units of a row of scratch */
    uint64_t room;     /* units of the data for one node */
    uint32_t flag;
    bool rounds; /* data for other nodes go in rounds (nodes_rounds.h) */
    mscclpp_dev_rounds_t r;
    uint64_t pitch; /* units of a place */
    bool carries;   /* this owner's messages have data in this epoch */
} mscclpp_dev_cp_t;

MSCCLPP_DEV void mscclpp_dev_cp_put(const mscclpp_dev_cp_t *p, mscclpp_dev_cp_row_t row, uint64_t u,
                                    mscclpp_dev_vec_t v)
{
    mscclpp_dev_put_unit(row.first + u * MSCCLPP_DEV_PACKET_STEP, row.pair, v, p->flag, MSCCLPP_DEV_LL16);
}

MSCCLPP_DEV mscclpp_dev_vec_t mscclpp_dev_cp_get(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_cp_t *p,
                                                 mscclpp_dev_cp_row_t row, uint64_t u, uint32_t peer)
{
    mscclpp_dev_vec_t v = mscclpp_dev_vec_zero();

    mscclpp_dev_get_unit(ctx, &p->b.args->nodes.common, row.first + u * MSCCLPP_DEV_PACKET_STEP, row.pair, &v, p->flag,
                         MSCCLPP_DEV_LL16, peer);
    return v;
}

/* A row in the scratch of a rank of this node. */
MSCCLPP_DEV mscclpp_dev_cp_row_t mscclpp_dev_cp_row(const mscclpp_dev_cp_t *p, uint32_t index, uint64_t number)
{
    const mscclpp_dev_args_t *common = &p->b.args->nodes.common;
    mscclpp_dev_cp_row_t row;

    row.first = common->scratch[index] + MSCCLPP_DEV_PACKET_OFFSET + (p->flag & 1) * common->packet_half +
                number * p->capacity * MSCCLPP_DEV_PACKET_UNIT;
    row.pair = p->capacity * MSCCLPP_DEV_PACKET_STEP;
    return row;
}

/* Offsets in the exchange area: data for node `k`, and data from node `k`. */
MSCCLPP_DEV uint64_t mscclpp_dev_cp_slot(const mscclpp_dev_cp_t *p, uint32_t slot)
{
    const mscclpp_dev_nodes_args_t *nodes = &p->b.args->nodes;

    return nodes->packets_offset +
           ((p->flag & 1) * ((uint64_t)nodes->nnodes + 1) + slot) * nodes->packet_units * MSCCLPP_DEV_PACKET_UNIT;
}

MSCCLPP_DEV uint64_t mscclpp_dev_cp_outgoing(const mscclpp_dev_cp_t *p, uint32_t k)
{
    return mscclpp_dev_cp_slot(p, 0) + (p->b.many ? k * p->room * MSCCLPP_DEV_PACKET_UNIT : 0);
}

/* Place of an empty packet for node `k`: the last unit of its room. */
MSCCLPP_DEV uint64_t mscclpp_dev_cp_empty(const mscclpp_dev_cp_t *p, uint32_t k)
{
    return mscclpp_dev_cp_outgoing(p, k) + (p->room - 1) * MSCCLPP_DEV_PACKET_UNIT;
}

/* The row formed by `units` units at an offset in the exchange area. */
MSCCLPP_DEV mscclpp_dev_cp_row_t mscclpp_dev_cp_far(const mscclpp_dev_cp_t *p, uint64_t offset, uint64_t units)
{
    mscclpp_dev_cp_row_t row;

    row.first = p->b.args->nodes.exchange + offset;
    row.pair = units * MSCCLPP_DEV_PACKET_STEP;
    return row;
}

/* Number of units that owner `owner` of node `from` sends to node `to`. 0: it sends an empty packet. */
MSCCLPP_DEV uint64_t mscclpp_dev_cp_units(const mscclpp_dev_cp_t *p, uint32_t from, uint32_t owner, uint32_t to)
{
    return mscclpp_dev_cn_flows(&p->b, &p->turn, from, owner, to)
               ? mscclpp_dev_cn_count(&p->b, &p->turn, from, owner, to) * p->units
               : 0;
}

#endif
