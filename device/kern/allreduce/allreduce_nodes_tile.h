/*
 * Shared by all patterns of the all-reduce over several nodes: blocks, tiles, and the work of a node's ranks on a tile.
 */
#ifndef MSCCLPP_DEVICE_KERN_ALLREDUCE_ALLREDUCE_NODES_TILE_H
#define MSCCLPP_DEVICE_KERN_ALLREDUCE_ALLREDUCE_NODES_TILE_H

#include "device/types/nodes.h"
#include "device/lib/reduce.h"

/* The operation, as a block of the grid sees it, and the block's progress. */
typedef struct {
    const mscclpp_dev_nodes_args_t *nodes;
    uint64_t shard_units; /* units of each shard */
    uint64_t tile_units;  /* units of a full tile, for each shard */
    uint64_t tiles;       /* tiles of this block */
    uint64_t exchanged;   /* exchanges of this block in earlier operations */
    uint64_t barriers;    /* barriers that the block has passed */
    uint32_t mask;        /* mscclpp_dev_unit_mask of the type */
    bool is_owner;        /* this rank owns a shard, so it exchanges data with other nodes */
    bool hot;             /* `dtype` and `op` are constants of the compiled kernel */
    int dtype;
    int op;
} mscclpp_dev_nodes_block_t;

/* A tile of each shard. It is cut into parts for the nodes, or for the messages of a list of steps. */
typedef struct {
    uint64_t index;      /* number of the tile among those of this block, from 0 */
    uint64_t base;       /* its first unit in each shard */
    uint64_t units;      /* units of each shard */
    uint64_t part_units; /* units of each part; the last parts may have fewer, or none */
    uint64_t set;        /* where its set of slots begins in the exchange area, offset in bytes */
} mscclpp_dev_nodes_tile_t;

/*
 * Describes tile `index` of this block, where `index` is less than block->tiles. The tiles of a shard are dealt out to
 * the blocks in turn. The last tile of a shard may be smaller.
 */
MSCCLPP_DEV mscclpp_dev_nodes_tile_t mscclpp_dev_nodes_tile(const mscclpp_dev_ctx_t *ctx,
                                                            const mscclpp_dev_nodes_block_t *block, uint64_t index)
{
    const mscclpp_dev_nodes_args_t *nodes = block->nodes;
    const uint32_t set = (uint32_t)((block->exchanged + index) % MSCCLPP_DEV_NODES_SETS);
    const uint32_t parts = nodes->pattern == MSCCLPP_DEV_NODES_HALVING ? nodes->halving.parts : nodes->nnodes;
    mscclpp_dev_nodes_tile_t tile;

    tile.index = index;
    tile.base = (ctx->block + index * ctx->nblocks) * block->tile_units;
    tile.units =
        block->shard_units - tile.base < block->tile_units ? block->shard_units - tile.base : block->tile_units;
    tile.part_units = (tile.units + parts - 1) / parts;
    tile.set = MSCCLPP_DEV_NODES_SLOT(nodes->nnodes, ctx->block, set) * nodes->slot_size;
    if (nodes->pattern == MSCCLPP_DEV_NODES_TREES) {
        tile.set = MSCCLPP_DEV_NODES_SLOT(nodes->nnodes, ctx->block, 0) * nodes->slot_size +
                   index % MSCCLPP_DEV_NODES_TREES_WINDOW * MSCCLPP_DEV_NODES_TREES_PLACES * block->tile_units *
                       MSCCLPP_DEV_UNIT;
    }
    return tile;
}

/*
 * The two kinds of data in a rank's scratch: its operands of a tile for all shards, and the results that the owners
 * store for it. There are two sets of each kind, which the tiles use in turn.
 */
enum { MSCCLPP_DEV_TILE_OPERANDS, MSCCLPP_DEV_TILE_RESULTS };

/*
 * Returns the place of a shard of a tile in the scratch of rank `rank` of this node. `contents` selects this rank's
 * operands or the results for it.
 */
MSCCLPP_DEV char *mscclpp_dev_nodes_tile_row(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_block_t *block,
                                             const mscclpp_dev_nodes_tile_t *tile, uint32_t rank, uint32_t contents,
                                             uint32_t shard)
{
    const mscclpp_dev_nodes_args_t *nodes = block->nodes;
    const uint64_t row = ((uint64_t)ctx->block * 4 + 2 * contents + tile->index % 2) * nodes->shards + shard;

    return nodes->common.scratch[rank] + nodes->common.bulk_offset + row * block->tile_units * MSCCLPP_DEV_UNIT;
}

/* Returns the first unit of a part of the tile, which is the end of the part before it. Parts are counted from 0. */
MSCCLPP_DEV uint64_t mscclpp_dev_nodes_part_begin(const mscclpp_dev_nodes_tile_t *tile, uint32_t part)
{
    return part * tile->part_units < tile->units ? part * tile->part_units : tile->units;
}

/*
 * Returns one unit of the node's partial result: the operands of all ranks of the node in this rank's shard, combined
 * in rank order. The operands must be in the scratch of all ranks of the node. A rank that is alone on its node reads
 * its operand in place.
 */
MSCCLPP_DEV mscclpp_dev_vec_t mscclpp_dev_nodes_combine_ranks(const mscclpp_dev_ctx_t *ctx,
                                                              const mscclpp_dev_nodes_block_t *block,
                                                              const mscclpp_dev_nodes_tile_t *tile, uint64_t unit)
{
    const mscclpp_dev_args_t *args = &block->nodes->common;
    mscclpp_dev_acc_t acc;
    uint32_t rank;

    if (args->nranks == 1) {
        return mscclpp_dev_ld_unit(args->in, tile->base + unit, args->bytes);
    }
    for (rank = 0; rank < args->nranks; ++rank) {
        const mscclpp_dev_vec_t value = mscclpp_dev_ld_vec(
            mscclpp_dev_nodes_tile_row(ctx, block, tile, rank, MSCCLPP_DEV_TILE_OPERANDS, args->rank) +
            unit * MSCCLPP_DEV_UNIT);

        if (rank == 0) {
            mscclpp_dev_acc_set(&acc, block->dtype, value);
        } else {
            mscclpp_dev_acc_add(&acc, block->hot, block->dtype, block->op, value);
        }
    }
    return mscclpp_dev_acc_get(&acc, block->dtype);
}

#endif
