/*
 * The exchange between nodes in a ring: each node sends to the one behind it, its successor, and to no other, so that
 * no link ever carries what several nodes send to one. A tile is cut into a part for each node, and goes through two
 * rounds of n - 1 steps:
 *
 *   reduce   part p sets out from node p as that node's partial result. Each node on its way combines what comes with
 *            its own partial result and passes that on; node p - 1, the last one, has the result of the part.
 *   gather   the result goes around from there, and each node but the last one passes it on as it is.
 *
 * Part p is thus combined in the order of the nodes p, p + 1, ..., n - 1, 0, ..., p - 1. That is another order for each
 * part, but the same one in every call, and all nodes take the bytes of the one that was last. What comes is rounded to
 * the type of the elements at each node; types that are combined in a wider one are therefore not for a ring.
 *
 * A set has two areas. In the first, a node's partial results become those of the nodes so far, and then the results:
 * nobody sends it the result of a part before all nodes have combined it, and by then what the node itself has sent of
 * that part has long arrived. In the second, partial results come from the predecessor.
 *
 * Turn i takes the steps of both rounds by turns, of reduce for tile i - 1 and of gather for tile i - 2, so that the
 * link carries one while the other is on its way. It has to name the signal that each step waits for by its number: the
 * own part of a tile leaves one turn before its first step, when it is given, and its result at the end of the turn.
 *
 * Sets may take turns as they do without a ring (allreduce_nodes.h): a node has seen signals of all others, as it were,
 * once it has reduced its part of e + 3, to which each of them has contributed what it gave after it had taken e.
 */
#ifndef MSCCLPP_DEVICE_KERN_ALLREDUCE_ALLREDUCE_NODES_RING_H
#define MSCCLPP_DEVICE_KERN_ALLREDUCE_ALLREDUCE_NODES_RING_H

#include "device/kern/allreduce/allreduce_nodes_tile.h"
#include "device/lib/port_channel.h"

MSCCLPP_DEV uint32_t mscclpp_dev_ring_successor(const mscclpp_dev_nodes_args_t *nodes)
{
    return nodes->node + 1 == nodes->nnodes ? 0 : nodes->node + 1;
}

MSCCLPP_DEV uint32_t mscclpp_dev_ring_predecessor(const mscclpp_dev_nodes_args_t *nodes)
{
    return nodes->node == 0 ? nodes->nnodes - 1 : nodes->node - 1;
}

/* How many signals a node has sent its successor before turn `i`. */
MSCCLPP_DEV uint64_t mscclpp_dev_ring_before(const mscclpp_dev_nodes_block_t *block, uint64_t i)
{
    const uint64_t n = block->nodes->nnodes, given = i < block->tiles ? i : block->tiles;

    return given + (i > 1 ? (i - 1) * (n - 1) : 0) + (i > 2 ? (i - 2) * (n - 2) : 0);
}

/*
 * How many it has sent up to and including what the successor needs in step `step` of turn `i`: of the round reduce, or
 * of gather. Outlined, like what follows for one thread: the kernel is short of registers.
 */
MSCCLPP_DEV_OUTLINE uint64_t mscclpp_dev_ring_number(const mscclpp_dev_nodes_block_t *block, uint64_t i, uint32_t step,
                                                     bool gather)
{
    const uint64_t given = i < block->tiles ? 1 : 0, reducing = i <= block->tiles ? 1 : 0;
    const uint64_t in_step = reducing + (i > 1 ? 1 : 0);

    if (step == 1) {
        return gather ? mscclpp_dev_ring_before(block, i) : mscclpp_dev_ring_before(block, i - 1) + 1;
    }
    return mscclpp_dev_ring_before(block, i) + given + (step - 2) * in_step + (gather ? reducing : 0) + 1;
}

/* Where the second area of a tile's set begins. */
MSCCLPP_DEV uint64_t mscclpp_dev_ring_incoming(const mscclpp_dev_nodes_block_t *block,
                                               const mscclpp_dev_nodes_tile_t *tile)
{
    return tile->set + MSCCLPP_DEV_NODES_RING_ROOM(block->nodes->nnodes, block->nodes->slot_size);
}

/* By one thread, as the next two, too. */
MSCCLPP_DEV_OUTLINE void mscclpp_dev_ring_put(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_args_t *nodes,
                                              uint64_t to, uint64_t from, uint64_t bytes)
{
    const uint64_t channel = MSCCLPP_DEV_NODES_NUMBER(nodes->nnodes, ctx->block, mscclpp_dev_ring_successor(nodes));

    mscclpp_dev_port_put_with_signal(ctx, &nodes->common, &nodes->channels[channel], to, from, bytes);
}

/* Has a part put into one of the successor's areas, with a signal. */
MSCCLPP_DEV void mscclpp_dev_ring_send(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_block_t *block,
                                       const mscclpp_dev_nodes_tile_t *tile, uint32_t part, uint64_t area)
{
    const uint64_t begin = mscclpp_dev_nodes_begin(tile, part) * MSCCLPP_DEV_UNIT;
    const uint64_t end = mscclpp_dev_nodes_begin(tile, part + 1) * MSCCLPP_DEV_UNIT;

    mscclpp_dev_ring_put(ctx, block->nodes, area + begin, tile->set + begin, end - begin);
}

/* Waits for signal `number` of the predecessor. */
MSCCLPP_DEV_OUTLINE void mscclpp_dev_ring_await(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_args_t *nodes,
                                                uint64_t number)
{
    const uint64_t channel = MSCCLPP_DEV_NODES_NUMBER(nodes->nnodes, ctx->block, mscclpp_dev_ring_predecessor(nodes));

    mscclpp_dev_port_wait_ahead(ctx, &nodes->common, &nodes->channels[channel], number);
}

/*
 * The first step of a tile, once the own partial results are in place. A rank would hear from its predecessor only, and
 * could not tell which node it is that a ring waits for: so each one says once a call to all others that it has come.
 */
MSCCLPP_DEV void mscclpp_dev_ring_set_out(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_block_t *block,
                                          const mscclpp_dev_nodes_tile_t *tile)
{
    const mscclpp_dev_nodes_args_t *nodes = block->nodes;
    uint32_t k;

    if (ctx->tid == 0) {
        mscclpp_dev_ring_send(ctx, block, tile, nodes->node, mscclpp_dev_ring_incoming(block, tile));
    }
    for (k = ctx->tid; k < nodes->nnodes && ctx->block == 0 && tile->index == 0; k += ctx->nthreads) {
        if (k != nodes->node && k != mscclpp_dev_ring_successor(nodes)) {
            mscclpp_dev_port_signal(ctx, &nodes->common,
                                    &nodes->channels[MSCCLPP_DEV_NODES_NUMBER(nodes->nnodes, 0, k)]);
        }
    }
}

/* Step `step` of the round reduce of turn `i`; the last one ends with the first of gather. By all threads. */
MSCCLPP_DEV void mscclpp_dev_ring_reduce(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_block_t *block,
                                         const mscclpp_dev_nodes_tile_t *tile, uint64_t i, uint32_t step)
{
    const mscclpp_dev_nodes_args_t *nodes = block->nodes;
    const uint32_t n = nodes->nnodes, part = (nodes->node + n - step) % n;
    const uint64_t incoming = mscclpp_dev_ring_incoming(block, tile), end = mscclpp_dev_nodes_begin(tile, part + 1);
    mscclpp_dev_acc_t acc;
    uint64_t u;

    if (ctx->tid == 0) {
        mscclpp_dev_ring_await(ctx, block->nodes, mscclpp_dev_ring_number(block, i, step, false));
    }
    ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
    for (u = mscclpp_dev_nodes_begin(tile, part) + ctx->tid; u < end && !ctx->failed; u += ctx->nthreads) {
        char *own = nodes->exchange + tile->set + u * MSCCLPP_DEV_UNIT;

        mscclpp_dev_acc_set(&acc, block->dtype, mscclpp_dev_ld_vec(nodes->exchange + incoming + u * MSCCLPP_DEV_UNIT));
        mscclpp_dev_acc_add(&acc, block->hot, block->dtype, block->op, mscclpp_dev_ld_vec(own));
        mscclpp_dev_st_vec(own, mscclpp_dev_acc_get(&acc, block->dtype));
    }
    mscclpp_dev_block_sync(ctx);
    if (ctx->tid == 0 && !ctx->failed) {
        mscclpp_dev_ring_send(ctx, block, tile, part, step + 1 < n ? incoming : tile->set);
    }
}

/* Step `step` of the round gather of turn `i`. By one thread: all others see what came when the turn ends. */
MSCCLPP_DEV void mscclpp_dev_ring_gather(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_block_t *block,
                                         const mscclpp_dev_nodes_tile_t *tile, uint64_t i, uint32_t step)
{
    const uint32_t n = block->nodes->nnodes;

    mscclpp_dev_ring_await(ctx, block->nodes, mscclpp_dev_ring_number(block, i, step, true));
    if (step + 1 < n && !ctx->failed) {
        mscclpp_dev_ring_send(ctx, block, tile, (block->nodes->node + 1 + n - step) % n, tile->set);
    }
}

/* Turn `i`, from 1 on: tile i - 1 is reduced, and the results of tile i - 2 are gathered. */
MSCCLPP_DEV void mscclpp_dev_ring_turn(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_block_t *block, uint64_t i)
{
    mscclpp_dev_nodes_tile_t reduced, gathered;
    uint32_t step;

    reduced = gathered = mscclpp_dev_nodes_tile(ctx, block, i - 1);
    if (i > 1) {
        gathered = mscclpp_dev_nodes_tile(ctx, block, i - 2);
    }
    for (step = 1; step < block->nodes->nnodes; ++step) {
        if (i <= block->tiles) {
            mscclpp_dev_ring_reduce(ctx, block, &reduced, i, step);
        }
        if (i > 1 && ctx->tid == 0) {
            mscclpp_dev_ring_gather(ctx, block, &gathered, i, step);
        }
    }
    ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
}

#endif
