#include "mca/common/algo/shape/tiles.h"

#include "mca/common/base/numbers.h"

/* The alignment of slots, in bytes. Smaller slots are aligned to a unit. */
#define SLOT_ALIGN ((uint64_t)256)

/* The fixed time of a turn, besides its messages, and the time of a round of a meeting. Measured in messages. */
#define TURN_MESSAGES 4

/*
 * The part of the bulk area, in bytes, that rows take over trees in collectives other than all-reduce. Each level of a
 * tree passes a tile on only after all of it has arrived, so longer tiles make middle-sized messages slower.
 */
#define TREES_BYTES(bulk_size_) ((bulk_size_) / 3 * 2)

uint64_t mscclpp_tiles_find_slot_size(uint32_t nodes, uint64_t bytes)
{
    const uint64_t slot_size = bytes / MSCCLPP_DEV_NODES_SLOTS(nodes);
    const uint64_t alignment = slot_size < SLOT_ALIGN ? MSCCLPP_DEV_UNIT : SLOT_ALIGN;

    return mscclpp_max(mscclpp_round_down(slot_size, alignment), MSCCLPP_DEV_UNIT);
}

/* Returns the maximum number of blocks of a grid between nodes. On GPUs each has at least `min_bytes` of `bytes`. */
static uint32_t find_max_blocks(const mscclpp_select_input_t *input, uint64_t bytes, uint64_t min_bytes)
{
    const uint64_t limit = MSCCLPP_DEV_NODES_BLOCKS_OF(input->nodes);

    if (input->on_twin) {
        return (uint32_t)limit;
    }
    return (uint32_t)mscclpp_min(mscclpp_max(bytes / min_bytes, 1), limit);
}

/* Returns the number of units of a shard of a message of `bytes` bytes. */
static uint64_t count_shard_units(const mscclpp_select_input_t *input, uint64_t bytes)
{
    return mscclpp_divide_up(mscclpp_divide_up(bytes, MSCCLPP_DEV_UNIT), input->shards);
}

/* All blocks share the bulk area, so the grid has no more threads in total than the tile of a single block has units.
 */
bool mscclpp_tiles_choose_allreduce_grid(const mscclpp_select_input_t *input, mscclpp_choice_t *grid)
{
    const uint64_t shard_units = count_shard_units(input, input->bytes);
    const uint64_t tile_units = MSCCLPP_DEV_NODES_ROWS(input->layout->bulk_size, 1, input->shards);
    const uint32_t max_blocks = find_max_blocks(input, shard_units * MSCCLPP_DEV_UNIT, MSCCLPP_TILES_SHARD_MIN);

    if (!mscclpp_algo_choose_grid(input, shard_units, MSCCLPP_DEV_NODES_BLOCKS_OF(input->nodes), tile_units,
                                  MSCCLPP_LARGE_BLOCKS, grid)) {
        return false;
    }
    grid->nblocks = (uint32_t)mscclpp_min(grid->nblocks, max_blocks);
    return true;
}

/* Returns the number of bytes that an owner can put to another node at once. A grid has `nblocks` blocks. */
static uint64_t find_put_bytes(const mscclpp_select_input_t *input, mscclpp_dev_pattern_t pattern,
                               mscclpp_dev_nodes_pattern_t exchange, uint32_t nblocks)
{
    return exchange == MSCCLPP_DEV_NODES_WINDOWS
               ? MSCCLPP_DEV_COLL_NODES_WINDOW_ROOM(input->nodes, input->slot_size, nblocks)
               : MSCCLPP_DEV_COLL_NODES_ROOM(pattern, exchange, input->nodes, input->slot_size);
}

/* Returns the number of rows into which the scratch of a block is divided. */
static uint64_t count_rows(const mscclpp_select_input_t *input, mscclpp_dev_pattern_t pattern,
                           mscclpp_dev_nodes_pattern_t exchange)
{
    return exchange == MSCCLPP_DEV_NODES_WINDOWS
               ? MSCCLPP_DEV_COLL_NODES_WINDOWED_ROWS(pattern, input->max_node_ranks, input->shards)
               : MSCCLPP_DEV_COLL_NODES_TILE_ROWS(pattern, exchange, input->all_ranks, input->nodes,
                                                  input->max_node_ranks, input->shards);
}

/*
 * Returns the size of a tile in bytes, or 0 if there is no room for one. Two things limit a tile: the bytes that an
 * owner can put to another node at once (`put_tile`), and a row of the scratch (`row_pitch`), whose first unit is not
 * for data. Over trees, MSCCLPP_DEV_NODES_TREES_CAPPED is a third limit.
 *
 * Halves the number of the grid's blocks until both have room. All blocks share the scratch and, in windows, the
 * exchange area, so fewer blocks have more room each.
 */
static uint64_t find_coll_tile(const mscclpp_select_input_t *input, mscclpp_dev_pattern_t pattern,
                               mscclpp_dev_nodes_pattern_t exchange, uint32_t *nblocks_p)
{
    const uint64_t data_blocks = MSCCLPP_DEV_COLL_NODES_BLOCKS(pattern, input->max_node_ranks, input->shards);
    const bool in_windows = exchange == MSCCLPP_DEV_NODES_WINDOWS, over_trees = exchange == MSCCLPP_DEV_NODES_TREES;
    const uint64_t rows = count_rows(input, pattern, exchange);
    const uint64_t header_bytes = MSCCLPP_DEV_COLL_NODES_HEAD(data_blocks);
    const uint64_t rows_bytes = over_trees ? TREES_BYTES(input->layout->bulk_size) : input->layout->bulk_size;
    uint64_t put_bytes, put_tile, row_pitch, tile;

    for (;;) {
        put_bytes = find_put_bytes(input, pattern, exchange, *nblocks_p);
        put_bytes -= mscclpp_min(put_bytes, header_bytes);
        put_tile = mscclpp_round_down(put_bytes / data_blocks, MSCCLPP_DEV_UNIT);
        row_pitch = MSCCLPP_DEV_COLL_NODES_PITCH(rows_bytes, *nblocks_p, rows);
        if ((row_pitch > MSCCLPP_DEV_UNIT && (put_tile > 0 || !in_windows)) || *nblocks_p <= 1) {
            break;
        }
        *nblocks_p /= 2;
    }
    if (row_pitch <= MSCCLPP_DEV_UNIT) {
        return 0;
    }
    tile = mscclpp_min(row_pitch - MSCCLPP_DEV_UNIT, put_tile);
    return over_trees ? MSCCLPP_DEV_NODES_TREES_CAPPED(tile) : tile;
}

bool mscclpp_tiles_choose_coll_grid(const mscclpp_select_input_t *input, mscclpp_dev_pattern_t pattern,
                                    mscclpp_dev_nodes_pattern_t exchange, uint64_t block_bytes, mscclpp_choice_t *grid,
                                    uint64_t *tile_p)
{
    /* In windows, a block of the grid sends all data of an owner for a node, message by message. */
    const uint64_t sent_bytes =
        exchange == MSCCLPP_DEV_NODES_WINDOWS
            ? block_bytes * MSCCLPP_DEV_COLL_NODES_BLOCKS(pattern, input->max_node_ranks, input->shards)
            : block_bytes;
    const uint32_t max_blocks = find_max_blocks(input, sent_bytes, MSCCLPP_TILES_BLOCK_MIN);

    if (!mscclpp_algo_choose_grid(input, mscclpp_divide_up(sent_bytes, MSCCLPP_DEV_UNIT), max_blocks,
                                  MSCCLPP_ANY_CAPACITY, MSCCLPP_LARGE_BLOCKS, grid)) {
        return false;
    }
    /* On the twin and with the parameter max_blocks, the grid may have more. */
    grid->nblocks = (uint32_t)mscclpp_min(grid->nblocks, max_blocks);
    *tile_p = find_coll_tile(input, pattern, exchange, &grid->nblocks);
    return *tile_p != 0;
}

/*
 * Returns the number of turns between the one in which a rank gives a tile of an all-reduce and the one in which it
 * takes the tile back (device/kern/allreduce/allreduce_nodes.h): 1 if nodes exchange directly, and otherwise 2. Over
 * trees, each level below the first adds 2, up to the limit of the window.
 */
static uint32_t count_lag_turns(mscclpp_dev_nodes_pattern_t exchange, uint32_t nodes)
{
    uint32_t lag = exchange == MSCCLPP_DEV_NODES_DIRECT ? 1 : 2;

    if (exchange == MSCCLPP_DEV_NODES_TREES) {
        /* A tile goes up the levels of the tree, and comes down again. */
        while (lag < MSCCLPP_DEV_NODES_TREES_WINDOW - 2 && nodes > (uint32_t)1 << lag / 2) {
            lag += 2;
        }
    }
    return lag;
}

/*
 * Returns the time, in messages, of the turns that move all tiles of a block of data. Each tile takes `turns` turns and
 * `messages` messages. A rank's proxy sends the messages of all blocks of the grid, one after another. Turns of
 * different blocks of the grid take place at the same time.
 */
static uint64_t estimate_turns(uint64_t block_bytes, uint64_t tile, uint32_t nblocks, uint64_t turns, uint64_t messages)
{
    const uint64_t tiles = mscclpp_divide_up(block_bytes, tile);

    return tiles * messages + mscclpp_divide_up(tiles, nblocks) * turns * TURN_MESSAGES;
}

/* In windows, each message comes with a credit, and the nodes meet twice. So windows pay off for many long tiles. */
mscclpp_dev_nodes_pattern_t mscclpp_tiles_choose_direct(const mscclpp_select_input_t *input,
                                                        mscclpp_dev_pattern_t pattern, uint64_t block_bytes)
{
    const uint64_t windows = MSCCLPP_DEV_COLL_NODES_WINDOWS((uint64_t)input->nodes);
    mscclpp_choice_t grid;
    uint64_t tile, distance, direct_time, windows_time = 0;

    if (!MSCCLPP_DEV_COLL_NODES_MAY_WINDOW(pattern, input->nodes) ||
        !mscclpp_tiles_choose_coll_grid(input, pattern, MSCCLPP_DEV_NODES_WINDOWS, block_bytes, &grid, &tile)) {
        return MSCCLPP_DEV_NODES_DIRECT;
    }
    for (distance = 1; distance < input->nodes; distance *= 2) {
        windows_time += 2 * (uint64_t)TURN_MESSAGES; /* a round of each of the two meetings */
    }
    windows_time +=
        estimate_turns(block_bytes, tile, grid.nblocks, windows, 2 * windows * MSCCLPP_DEV_COLL_NODES_WINDOW);
    if (!mscclpp_tiles_choose_coll_grid(input, pattern, MSCCLPP_DEV_NODES_DIRECT, block_bytes, &grid, &tile)) {
        return MSCCLPP_DEV_NODES_WINDOWS;
    }
    direct_time = estimate_turns(block_bytes, tile, grid.nblocks, 1, input->nodes);
    return windows_time < direct_time ? MSCCLPP_DEV_NODES_WINDOWS : MSCCLPP_DEV_NODES_DIRECT;
}

/* Finds the tiles of an all-reduce, as mscclpp_tiles_find does. `input` has the size of the message. */
static bool find_allreduce_tiles(const mscclpp_select_input_t *input, const mscclpp_tiles_way_t *way,
                                 mscclpp_tiles_t *tiles)
{
    mscclpp_choice_t grid;
    uint64_t max_units;

    if (!mscclpp_tiles_choose_allreduce_grid(input, &grid)) {
        return false;
    }
    max_units = MSCCLPP_DEV_NODES_TILE(
        input->layout->bulk_size, grid.nblocks, input->shards,
        MSCCLPP_DEV_NODES_ROOM(way->exchange, input->nodes, input->slot_size, way->parts, way->places));
    if (max_units == 0) {
        return false;
    }
    tiles->bytes =
        MSCCLPP_DEV_UNIT * MSCCLPP_DEV_NODES_EVEN_TILE(count_shard_units(input, input->bytes), grid.nblocks, max_units);
    tiles->in_flight = grid.nblocks * (count_lag_turns(way->exchange, input->nodes) + 1);
    tiles->fanout = 0;
    return tiles->bytes > 0;
}

/*
 * Finds the tiles of a collective other than all-reduce, as mscclpp_tiles_find does. A block of the grid gives a tile
 * before it takes the previous one, so two tiles are in flight. In windows, it gives a tile to the nodes of one window
 * before it takes it from those of the previous window.
 */
static bool find_coll_tiles(const mscclpp_select_input_t *input, const mscclpp_tiles_way_t *way, uint64_t block_bytes,
                            mscclpp_tiles_t *tiles)
{
    const mscclpp_dev_pattern_t pattern = (mscclpp_dev_pattern_t)way->pattern;
    mscclpp_dev_nodes_pattern_t exchange = way->exchange;
    mscclpp_choice_t grid;

    if (exchange == MSCCLPP_DEV_NODES_DIRECT) {
        exchange = mscclpp_tiles_choose_direct(input, pattern, block_bytes);
    }
    if (!mscclpp_tiles_choose_coll_grid(input, pattern, exchange, block_bytes, &grid, &tiles->bytes)) {
        return false;
    }
    /* In an all-to-all and a scatter, an owner has a block for each rank of another node. */
    if (MSCCLPP_DEV_COLL_SENDS_MANY(pattern) && pattern != MSCCLPP_DEV_REDUCE_SCATTER) {
        tiles->bytes *= MSCCLPP_DEV_COLL_NODES_BLOCKS(pattern, input->max_node_ranks, input->shards);
    }
    tiles->in_flight = 2 * grid.nblocks;
    tiles->fanout = 0;
    if (exchange == MSCCLPP_DEV_NODES_WINDOWS) {
        tiles->in_flight = grid.nblocks;
        tiles->fanout = 2 * MSCCLPP_DEV_COLL_NODES_WINDOW;
    }
    return true;
}

bool mscclpp_tiles_find(const mscclpp_select_input_t *input, const mscclpp_tiles_way_t *way, uint64_t bytes,
                        mscclpp_tiles_t *tiles)
{
    mscclpp_select_input_t sized_input = *input;

    sized_input.bytes = bytes;
    return way->pattern < 0 ? find_allreduce_tiles(&sized_input, way, tiles)
                            : find_coll_tiles(&sized_input, way, bytes, tiles);
}

/* All parameters other than the sizes in `place` have their default values. */
bool mscclpp_tiles_find_between(const mscclpp_tiles_place_t *place, const mscclpp_tiles_way_t *way, uint64_t bytes,
                                mscclpp_tiles_t *tiles)
{
    static const mscclpp_protocol_t protocol;
    const uint64_t slot_bytes = place->exchange_size - place->exchange_size / MSCCLPP_TILES_PACKET_SHARE;
    mscclpp_layout_t layout;
    const mscclpp_select_input_t input = {.protocol = &protocol,
                                          .layout = &layout,
                                          .nodes = place->nodes,
                                          .shards = place->ranks,
                                          .max_node_ranks = place->ranks,
                                          .all_ranks = place->nodes * place->ranks,
                                          .slot_size = mscclpp_tiles_find_slot_size(place->nodes, slot_bytes)};

    mscclpp_layout_init_between(&layout, place->scratch_size);
    return mscclpp_tiles_find(&input, way, bytes, tiles);
}
