/*
 * All-reduce over several nodes. Tile by tile, each block meets its namesakes of the own node and those of one rank of
 * each other node only, so the phases of different blocks overlap:
 *
 *   every rank copies its operands into its scratch, cut into as many shards as the smallest node has ranks; barrier of
 *   the node; the owner of a shard combines its node's operands in rank order and sends this partial result to the
 *   owners of the same shard on the other nodes; these all combine the partial results in the order of the nodes and
 *   hand the result to the ranks of their node; barrier of the node; every rank copies the result out.
 *
 * All nodes combine the same partial results in the same order, so all ranks get the same bits. Partial results travel
 * in the type of the elements: 16-bit floats are accumulated in float32 within a node and among the partial results,
 * and rounded in between.
 *
 * Why two sets of slots are enough, and a put needs no flush. Exchange e of a block, counted over all operations, uses
 * set e mod 2, whose places do not depend on the operation. A rank signals e after its block has read what came in
 * e - 1, since the block synchronises in between. So a peer that has waited for the signals of e, as it does before it
 * begins e + 1, knows that nobody reads what came in e - 1 any more and may put e + 1 into the same set. And the signal
 * of e says that the peer had waited for e - 1, so the put of e - 1 has reached it and has long left its source, which
 * e + 1 overwrites.
 *
 * The scratch needs one set of tiles, as in allreduce_scratch.h: a rank passes a tile's second barrier only when all
 * owners have read its operands, and enters the next tile's first one only when it has read its results.
 */
#ifndef MSCCLPP_DEVICE_KERN_ALLREDUCE_NODES_H
#define MSCCLPP_DEVICE_KERN_ALLREDUCE_NODES_H

#include "device/barrier.h"
#include "device/nodes_types.h"
#include "device/port_channel.h"
#include "device/reduce.h"

/* Where shard `s` of a block's tile begins in a rank's scratch; `results` 0: operands, 1: results. */
MSCCLPP_DEV char *mscclpp_dev_nodes_place(const mscclpp_dev_nodes_args_t *nodes, uint32_t rank, uint32_t block,
                                          uint64_t tile, uint32_t results, uint32_t s)
{
    const uint64_t row = ((uint64_t)block * 2 + results) * nodes->shards + s;

    return nodes->common.scratch[rank] + nodes->common.bulk_offset + row * tile * MSCCLPP_DEV_UNIT;
}

/* Combines the operands of the own node's ranks for the own shard and writes them to `to`. */
MSCCLPP_DEV void mscclpp_dev_nodes_combine_ranks(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_args_t *nodes,
                                                 bool hot, int dtype, int op, uint64_t tile, uint64_t size, char *to)
{
    const mscclpp_dev_args_t *args = &nodes->common;
    mscclpp_dev_acc_t acc;
    uint64_t u;
    uint32_t r;

    for (u = ctx->tid; u < size; u += ctx->nthreads) {
        for (r = 0; r < args->nranks; ++r) {
            const mscclpp_dev_vec_t v = mscclpp_dev_ld_vec(
                mscclpp_dev_nodes_place(nodes, r, ctx->block, tile, 0, args->rank) + u * MSCCLPP_DEV_UNIT);

            if (r == 0) {
                mscclpp_dev_acc_set(&acc, dtype, v);
            } else {
                mscclpp_dev_acc_add(&acc, hot, dtype, op, v);
            }
        }
        mscclpp_dev_st_vec(to + u * MSCCLPP_DEV_UNIT, mscclpp_dev_acc_get(&acc, dtype));
    }
}

/* Combines the partial results of all nodes for the own shard and hands the result to the ranks of the own node. */
MSCCLPP_DEV void mscclpp_dev_nodes_combine_nodes(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_args_t *nodes,
                                                 bool hot, int dtype, int op, uint64_t tile, uint64_t size,
                                                 const char *set)
{
    const mscclpp_dev_args_t *args = &nodes->common;
    mscclpp_dev_acc_t acc;
    mscclpp_dev_vec_t v;
    uint64_t u;
    uint32_t k, r;

    for (u = ctx->tid; u < size; u += ctx->nthreads) {
        for (k = 0; k < nodes->nnodes; ++k) {
            const uint64_t slot = k == nodes->node ? 0 : 1 + (uint64_t)k;

            v = mscclpp_dev_ld_vec(set + slot * nodes->slot_size + u * MSCCLPP_DEV_UNIT);
            if (k == 0) {
                mscclpp_dev_acc_set(&acc, dtype, v);
            } else {
                mscclpp_dev_acc_add(&acc, hot, dtype, op, v);
            }
        }
        v = mscclpp_dev_acc_get(&acc, dtype);
        for (r = 0; r < args->nranks; ++r) {
            const uint32_t peer = args->rank + r < args->nranks ? args->rank + r : args->rank + r - args->nranks;

            mscclpp_dev_st_vec(
                mscclpp_dev_nodes_place(nodes, peer, ctx->block, tile, 1, args->rank) + u * MSCCLPP_DEV_UNIT, v);
        }
    }
}

/* Sends a partial result to all other nodes and waits for theirs; by one thread. */
MSCCLPP_DEV void mscclpp_dev_nodes_swap(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_args_t *nodes, uint64_t first,
                                        uint64_t bytes)
{
    const mscclpp_dev_port_channel_t *channels =
        nodes->channels + MSCCLPP_DEV_NODES_NUMBER(nodes->nnodes, ctx->block, 0);
    uint32_t i;

    /* Each node begins with the one behind it, so that not all of them send to the same one at a time. */
    for (i = 1; i < nodes->nnodes; ++i) {
        const uint32_t k = (nodes->node + i) % nodes->nnodes;

        mscclpp_dev_port_put_with_signal(ctx, &nodes->common, &channels[k],
                                         (first + 1 + nodes->node) * nodes->slot_size, first * nodes->slot_size, bytes);
    }
    for (i = 1; i < nodes->nnodes && !ctx->failed; ++i) {
        mscclpp_dev_port_wait(ctx, &nodes->common, &channels[(nodes->node + nodes->nnodes - i) % nodes->nnodes]);
    }
}

/* The owner's part of a tile. */
MSCCLPP_DEV void mscclpp_dev_nodes_own(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_args_t *nodes, bool hot,
                                       int dtype, int op, uint64_t tile, uint64_t size, uint64_t exchange)
{
    const uint64_t first =
        MSCCLPP_DEV_NODES_SLOT(nodes->nnodes, ctx->block, (uint32_t)(exchange % MSCCLPP_DEV_NODES_SETS));
    char *set = nodes->exchange + first * nodes->slot_size;

    mscclpp_dev_nodes_combine_ranks(ctx, nodes, hot, dtype, op, tile, size, set);
    mscclpp_dev_block_sync(ctx);
    if (ctx->tid == 0) {
        mscclpp_dev_nodes_swap(ctx, nodes, first, size * MSCCLPP_DEV_UNIT);
    }
    ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
    if (!ctx->failed) {
        mscclpp_dev_nodes_combine_nodes(ctx, nodes, hot, dtype, op, tile, size, set);
    }
}

MSCCLPP_DEV void mscclpp_dev_allreduce_nodes(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_args_t *nodes, bool hot,
                                             int dtype, int op)
{
    const mscclpp_dev_args_t *args = &nodes->common;
    const bool owner = args->rank < nodes->shards;
    const uint64_t units = mscclpp_dev_units(args->bytes);
    const uint64_t shard = (units + nodes->shards - 1) / nodes->shards;
    const uint64_t tile = MSCCLPP_DEV_NODES_TILE(args->bulk_size, ctx->nblocks, nodes->shards, nodes->slot_size);
    const uint32_t mask = mscclpp_dev_unit_mask(dtype);
    const uint64_t launches = args->state->launches;
    const uint32_t epoch = args->state->epoch;
    uint64_t barriers = args->state->barrier[ctx->block];
    uint64_t exchange = owner ? nodes->exchanged[ctx->block] : 0;
    uint64_t base, u;
    uint32_t s;

    for (base = ctx->block * tile; base < shard; base += ctx->nblocks * tile) {
        const uint64_t size = shard - base < tile ? shard - base : tile;

        for (s = 0; s < nodes->shards; ++s) {
            char *operands = mscclpp_dev_nodes_place(nodes, args->rank, ctx->block, tile, 0, s);

            for (u = ctx->tid; u < size; u += ctx->nthreads) {
                mscclpp_dev_st_vec(operands + u * MSCCLPP_DEV_UNIT,
                                   mscclpp_dev_ld_unit(args->in, s * shard + base + u, args->bytes));
            }
        }
        mscclpp_dev_barrier(ctx, args, ++barriers);
        if (owner && !ctx->failed) {
            mscclpp_dev_nodes_own(ctx, nodes, hot, dtype, op, tile, size, exchange++);
        }
        mscclpp_dev_barrier(ctx, args, ++barriers);
        if (ctx->failed) {
            break;
        }
        for (s = 0; s < nodes->shards; ++s) {
            const char *results = mscclpp_dev_nodes_place(nodes, args->rank, ctx->block, tile, 1, s);

            for (u = ctx->tid; u < size; u += ctx->nthreads) {
                mscclpp_dev_st_unit(args->out, s * shard + base + u, args->bytes,
                                    mscclpp_dev_ld_vec(results + u * MSCCLPP_DEV_UNIT), mask);
            }
        }
    }
    mscclpp_dev_block_sync(ctx);
    if (owner && ctx->tid == 0) {
        nodes->exchanged[ctx->block] = exchange;
    }
    mscclpp_dev_finish(ctx, args, launches, epoch, barriers);
}

#endif
