/*
 * Shared by all patterns of the all-reduce over several nodes: blocks, tiles, and the work of a node's ranks on a tile.
 */
#ifndef MSCCLPP_DEVICE_KERN_ALLREDUCE_ALLREDUCE_NODES_TILE_H
#define MSCCLPP_DEVICE_KERN_ALLREDUCE_ALLREDUCE_NODES_TILE_H

#include "device/types/nodes.h"
#include "device/lib/reduce.h"

/* State of a block, kept from step to step. */
typedef struct {
    const mscclpp_dev_nodes_args_t *nodes;
    uint64_t shard;     /* units */
    uint64_t tile;      /* units of a full tile, for each shard */
    uint64_t tiles;     /* tiles of this block */
    uint64_t exchanged; /* exchanges before the first tile */
    uint64_t barriers;
    uint32_t mask;
    bool owner;
    bool hot;
    int dtype;
    int op;
} mscclpp_dev_nodes_block_t;

/* A tile: its start in each shard, its size in units, and the start of its set in the exchange area, in bytes. */
typedef struct {
    uint64_t index;
    uint64_t base;
    uint64_t size;
    uint64_t part; /* units of each part, except the last ones */
    uint64_t set;
} mscclpp_dev_nodes_tile_t;

/* Describes tile `index` of this block of the grid. */
MSCCLPP_DEV mscclpp_dev_nodes_tile_t mscclpp_dev_nodes_tile(const mscclpp_dev_ctx_t *ctx,
                                                            const mscclpp_dev_nodes_block_t *block, uint64_t index)
{
    const mscclpp_dev_nodes_args_t *nodes = block->nodes;
    const uint32_t set = (uint32_t)((block->exchanged + index) % MSCCLPP_DEV_NODES_SETS);
    const uint32_t parts = nodes->pattern == MSCCLPP_DEV_NODES_HALVING ? nodes->halving.parts : nodes->nnodes;
    mscclpp_dev_nodes_tile_t tile;

    tile.index = index;
    tile.base = (ctx->block + index * ctx->nblocks) * block->tile;
    tile.size = block->shard - tile.base < block->tile ? block->shard - tile.base : block->tile;
    tile.part = (tile.size + parts - 1) / parts;
    tile.set = MSCCLPP_DEV_NODES_SLOT(nodes->nnodes, ctx->block, set) * nodes->slot_size;
    return tile;
}

/* Where shard `s` of a tile begins in a rank's scratch; `results` 0: operands, 1: results. */
MSCCLPP_DEV char *mscclpp_dev_nodes_place(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_block_t *block,
                                          const mscclpp_dev_nodes_tile_t *tile, uint32_t rank, uint32_t results,
                                          uint32_t s)
{
    const mscclpp_dev_nodes_args_t *nodes = block->nodes;
    const uint64_t row = ((uint64_t)ctx->block * 4 + 2 * results + tile->index % 2) * nodes->shards + s;

    return nodes->common.scratch[rank] + nodes->common.bulk_offset + row * block->tile * MSCCLPP_DEV_UNIT;
}

/* The first unit of a part, which is also the first one behind the previous part. Parts are counted from 0. */
MSCCLPP_DEV uint64_t mscclpp_dev_nodes_begin(const mscclpp_dev_nodes_tile_t *tile, uint32_t part)
{
    return part * tile->part < tile->size ? part * tile->part : tile->size;
}

/* Unit `u` of this node's partial result for this rank's shard. */
MSCCLPP_DEV mscclpp_dev_vec_t mscclpp_dev_nodes_combine_ranks(const mscclpp_dev_ctx_t *ctx,
                                                              const mscclpp_dev_nodes_block_t *block,
                                                              const mscclpp_dev_nodes_tile_t *tile, uint64_t u)
{
    const mscclpp_dev_args_t *args = &block->nodes->common;
    mscclpp_dev_acc_t acc;
    uint32_t r;

    if (args->nranks == 1) {
        return mscclpp_dev_ld_unit(args->in, tile->base + u, args->bytes);
    }
    for (r = 0; r < args->nranks; ++r) {
        const mscclpp_dev_vec_t v =
            mscclpp_dev_ld_vec(mscclpp_dev_nodes_place(ctx, block, tile, r, 0, args->rank) + u * MSCCLPP_DEV_UNIT);

        if (r == 0) {
            mscclpp_dev_acc_set(&acc, block->dtype, v);
        } else {
            mscclpp_dev_acc_add(&acc, block->hot, block->dtype, block->op, v);
        }
    }
    return mscclpp_dev_acc_get(&acc, block->dtype);
}

#endif
