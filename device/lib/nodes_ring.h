/*
 * A ring of nodes: a kernel sends only to the next node, its successor, and receives only from the previous one, its
 * predecessor. One thread of a block calls put and await. These functions are not inlined, because kernels with a ring
 * are short of registers.
 */
#ifndef MSCCLPP_DEVICE_LIB_NODES_RING_H
#define MSCCLPP_DEVICE_LIB_NODES_RING_H

#include "device/lib/port_channel.h"
#include "device/types/nodes.h"

/* Returns the number of the next node. */
MSCCLPP_DEV uint32_t mscclpp_dev_ring_successor(const mscclpp_dev_nodes_args_t *nodes)
{
    return MSCCLPP_DEV_NODES_AHEAD(nodes->nnodes, nodes->node, 1);
}

/* Returns the number of the previous node. */
MSCCLPP_DEV uint32_t mscclpp_dev_ring_predecessor(const mscclpp_dev_nodes_args_t *nodes)
{
    return MSCCLPP_DEV_NODES_BEHIND(nodes->nnodes, nodes->node, 1);
}

/*
 * Asks for a put of `bytes` bytes to the successor, with a signal. Does not wait for the put. `to` and `from` are
 * offsets in the exchange areas of the successor and of this rank.
 */
MSCCLPP_DEV_OUTLINE void mscclpp_dev_ring_put(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_args_t *nodes,
                                              uint64_t to, uint64_t from, uint64_t bytes)
{
    const uint32_t successor = mscclpp_dev_ring_successor(nodes);

    mscclpp_dev_port_put_with_signal(ctx, &nodes->common, MSCCLPP_DEV_NODES_CHANNEL(nodes, ctx->block, successor), to,
                                     from, bytes);
}

/*
 * Waits for signal `number` of this operation from the predecessor, counted from 1. If the wait fails, sets
 * ctx->failed.
 */
MSCCLPP_DEV_OUTLINE void mscclpp_dev_ring_await(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_args_t *nodes,
                                                uint64_t number)
{
    const uint32_t predecessor = mscclpp_dev_ring_predecessor(nodes);

    mscclpp_dev_port_wait_ahead(ctx, &nodes->common, MSCCLPP_DEV_NODES_CHANNEL(nodes, ctx->block, predecessor), number);
}

#endif
