#include "mca/common/algo/shape/tiles.h"

#include "mca/common/base/config.h"

/* The alignment of slots in bytes, unless they are smaller. */
#define SLOT_ALIGN ((uint64_t)256)

uint64_t mscclpp_tiles_slot_size(uint32_t nodes, uint64_t bytes)
{
    const uint64_t slot_size = bytes / MSCCLPP_DEV_NODES_SLOTS(nodes);
    const uint64_t alignment = slot_size < SLOT_ALIGN ? MSCCLPP_DEV_UNIT : SLOT_ALIGN;

    return slot_size < MSCCLPP_DEV_UNIT ? MSCCLPP_DEV_UNIT : slot_size / alignment * alignment;
}

uint32_t mscclpp_tiles_blocks(uint32_t nodes, uint64_t bytes, uint64_t least)
{
    const uint64_t most = MSCCLPP_DEV_NODES_BLOCKS_OF(nodes), blocks = bytes / least;

    return (uint32_t)(blocks == 0 ? 1 : blocks < most ? blocks : most);
}

uint64_t mscclpp_tiles_of_allreduce(const mscclpp_select_input_t *input, mscclpp_dev_nodes_pattern_t pattern,
                                    uint32_t parts, uint32_t places, uint32_t nblocks)
{
    return MSCCLPP_DEV_NODES_TILE(input->layout->bulk_size, nblocks, input->shards,
                                  MSCCLPP_DEV_NODES_ROOM(pattern, input->nodes, input->slot_size, parts, places)) *
           MSCCLPP_DEV_UNIT;
}

uint32_t mscclpp_tiles_under_way(mscclpp_dev_nodes_pattern_t pattern, uint32_t nodes, uint32_t nblocks)
{
    uint32_t lag = pattern == MSCCLPP_DEV_NODES_DIRECT ? 1 : 2;

    /* A tile goes up the levels of the tree, and comes down again. */
    while (pattern == MSCCLPP_DEV_NODES_TREES && lag < MSCCLPP_DEV_NODES_TREES_WINDOW - 2 &&
           nodes > (uint32_t)1 << lag / 2) {
        lag += 2;
    }
    return nblocks * (lag + 1);
}

/*
 * Two things limit a tile: what an owner can put to another node at once (`put_tile`), and a row of the scratch
 * (`row_pitch`, whose first unit is not for data). Over trees, there is a limit besides.
 */
uint64_t mscclpp_tiles_of_coll(const mscclpp_select_input_t *input, mscclpp_dev_pattern_t pattern,
                               mscclpp_dev_nodes_pattern_t exchange, uint32_t *nblocks_p)
{
    const uint64_t data_blocks = MSCCLPP_DEV_COLL_NODES_BLOCKS(pattern, input->max_node_ranks, input->shards);
    const uint64_t rows = MSCCLPP_DEV_COLL_NODES_TILE_ROWS(pattern, exchange, input->all_ranks, input->nodes,
                                                           input->max_node_ranks, input->shards);
    const uint64_t put_bytes = MSCCLPP_DEV_COLL_NODES_ROOM(pattern, exchange, input->nodes, input->slot_size);
    const uint64_t header_bytes = MSCCLPP_DEV_COLL_NODES_HEAD(data_blocks);
    const uint64_t put_tile =
        put_bytes > header_bytes ? (put_bytes - header_bytes) / data_blocks / MSCCLPP_DEV_UNIT * MSCCLPP_DEV_UNIT : 0;
    uint64_t row_pitch, tile;

    while ((row_pitch = MSCCLPP_DEV_COLL_NODES_PITCH(input->layout->bulk_size, *nblocks_p, rows)) <= MSCCLPP_DEV_UNIT &&
           *nblocks_p > 1) {
        *nblocks_p /= 2;
    }
    tile = row_pitch <= MSCCLPP_DEV_UNIT             ? 0
           : row_pitch - MSCCLPP_DEV_UNIT < put_tile ? row_pitch - MSCCLPP_DEV_UNIT
                                                     : put_tile;
    return exchange == MSCCLPP_DEV_NODES_TREES ? MSCCLPP_DEV_NODES_TREES_CAPPED(tile) : tile;
}

mscclpp_tiles_t mscclpp_tiles_over_trees(int pattern, uint32_t nodes, uint32_t ranks, uint64_t bytes)
{
    const uint64_t units = (bytes + MSCCLPP_DEV_UNIT - 1) / MSCCLPP_DEV_UNIT;
    const uint64_t shard = (units + ranks - 1) / ranks * MSCCLPP_DEV_UNIT;
    const bool returns = pattern < 0;
    uint32_t nblocks = returns ? mscclpp_tiles_blocks(nodes, shard, MSCCLPP_TILES_SHARD_MIN)
                               : mscclpp_tiles_blocks(nodes, bytes, MSCCLPP_TILES_BLOCK_MIN);
    mscclpp_layout_t layout;
    mscclpp_config_t config;
    mscclpp_select_input_t input = {
        .layout = &layout, .nodes = nodes, .shards = ranks, .max_node_ranks = ranks, .all_ranks = nodes * ranks};
    mscclpp_tiles_t tiles;

    mscclpp_config_init(&config);
    mscclpp_layout_init(&layout, config.scratch_size);
    input.slot_size =
        mscclpp_tiles_slot_size(nodes, config.exchange_size - config.exchange_size / MSCCLPP_TILES_PACKET_SHARE);
    if (returns) {
        tiles.bytes = mscclpp_tiles_of_allreduce(&input, MSCCLPP_DEV_NODES_TREES, 1, 1, nblocks);
        tiles.under_way = mscclpp_tiles_under_way(MSCCLPP_DEV_NODES_TREES, nodes, nblocks);
    } else {
        tiles.bytes = mscclpp_tiles_of_coll(&input, (mscclpp_dev_pattern_t)pattern, MSCCLPP_DEV_NODES_TREES, &nblocks);
        tiles.under_way = 2 * nblocks; /* a block gives a tile before it takes the one before */
    }
    return tiles;
}
