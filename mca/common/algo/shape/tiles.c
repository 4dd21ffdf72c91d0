#include "mca/common/algo/shape/tiles.h"

/* The alignment of slots in bytes, unless they are smaller. */
#define SLOT_ALIGN ((uint64_t)256)

/* The time that a turn takes besides its messages, and that a round of a meeting takes, in messages. */
#define TURN_MESSAGES 4

/*
 * How much of the bulk area rows take over trees in collectives other than all-reduce. Each level of a tree passes a
 * tile on only after all of it has come, so longer tiles make middle-sized messages slower.
 */
#define TREES_BYTES(bulk_size_) ((bulk_size_) / 3 * 2)

uint64_t mscclpp_tiles_slot_size(uint32_t nodes, uint64_t bytes)
{
    const uint64_t slot_size = bytes / MSCCLPP_DEV_NODES_SLOTS(nodes);
    const uint64_t alignment = slot_size < SLOT_ALIGN ? MSCCLPP_DEV_UNIT : SLOT_ALIGN;

    return slot_size < MSCCLPP_DEV_UNIT ? MSCCLPP_DEV_UNIT : slot_size / alignment * alignment;
}

static uint64_t units_of(uint64_t bytes)
{
    return (bytes + MSCCLPP_DEV_UNIT - 1) / MSCCLPP_DEV_UNIT;
}

/* Returns the blocks of a grid between nodes, for `bytes` bytes, of which each block has at least `min_bytes`. */
static uint32_t max_blocks(const mscclpp_select_input_t *input, uint64_t bytes, uint64_t min_bytes)
{
    const uint64_t limit = MSCCLPP_DEV_NODES_BLOCKS_OF(input->nodes), blocks = bytes / min_bytes;

    return (uint32_t)(input->on_twin ? limit : blocks == 0 ? 1 : blocks < limit ? blocks : limit);
}

/*
 * All blocks share the bulk area. The grid may have no more threads in total than the tile of a single block has units.
 */
bool mscclpp_tiles_grid_of_allreduce(const mscclpp_select_input_t *input, mscclpp_choice_t *grid)
{
    const uint64_t shard_units = (units_of(input->bytes) + input->shards - 1) / input->shards;
    const uint64_t tile_units = MSCCLPP_DEV_NODES_ROWS(input->layout->bulk_size, 1, input->shards);
    const uint32_t limit = max_blocks(input, shard_units * MSCCLPP_DEV_UNIT, MSCCLPP_TILES_SHARD_MIN);

    if (tile_units == 0 ||
        !mscclpp_algo_grid(input, shard_units, MSCCLPP_DEV_NODES_BLOCKS_OF(input->nodes), tile_units, false, grid)) {
        return false;
    }
    grid->nblocks = grid->nblocks > limit ? limit : grid->nblocks;
    return true;
}

/*
 * Returns the bytes of a tile, or 0 if there is no room for one. Two things limit a tile: what an owner can put to
 * another node at once (`put_tile`), and a row of the scratch (`row_pitch`, whose first unit is not for data). Over
 * trees, there is a limit besides. Halves the number of the grid's blocks until both have room, as all blocks share the
 * scratch and, in windows, the exchange area.
 */
static uint64_t tile_of_coll(const mscclpp_select_input_t *input, mscclpp_dev_pattern_t pattern,
                             mscclpp_dev_nodes_pattern_t exchange, uint32_t *nblocks_p)
{
    const uint64_t data_blocks = MSCCLPP_DEV_COLL_NODES_BLOCKS(pattern, input->max_node_ranks, input->shards);
    const bool in_windows = exchange == MSCCLPP_DEV_NODES_WINDOWS;
    const uint64_t rows = in_windows
                              ? MSCCLPP_DEV_COLL_NODES_WINDOWED_ROWS(pattern, input->max_node_ranks, input->shards)
                              : MSCCLPP_DEV_COLL_NODES_TILE_ROWS(pattern, exchange, input->all_ranks, input->nodes,
                                                                 input->max_node_ranks, input->shards);
    const uint64_t header_bytes = MSCCLPP_DEV_COLL_NODES_HEAD(data_blocks);
    const uint64_t rows_bytes =
        exchange == MSCCLPP_DEV_NODES_TREES ? TREES_BYTES(input->layout->bulk_size) : input->layout->bulk_size;
    uint64_t put_bytes, put_tile, row_pitch, tile;

    for (;;) {
        put_bytes = in_windows ? MSCCLPP_DEV_COLL_NODES_WINDOW_ROOM(input->nodes, input->slot_size, *nblocks_p)
                               : MSCCLPP_DEV_COLL_NODES_ROOM(pattern, exchange, input->nodes, input->slot_size);
        put_tile = put_bytes > header_bytes
                       ? (put_bytes - header_bytes) / data_blocks / MSCCLPP_DEV_UNIT * MSCCLPP_DEV_UNIT
                       : 0;
        row_pitch = MSCCLPP_DEV_COLL_NODES_PITCH(rows_bytes, *nblocks_p, rows);
        if ((row_pitch > MSCCLPP_DEV_UNIT && (put_tile > 0 || !in_windows)) || *nblocks_p <= 1) {
            break;
        }
        *nblocks_p /= 2;
    }
    tile = row_pitch <= MSCCLPP_DEV_UNIT             ? 0
           : row_pitch - MSCCLPP_DEV_UNIT < put_tile ? row_pitch - MSCCLPP_DEV_UNIT
                                                     : put_tile;
    return exchange == MSCCLPP_DEV_NODES_TREES ? MSCCLPP_DEV_NODES_TREES_CAPPED(tile) : tile;
}

bool mscclpp_tiles_grid_of_coll(const mscclpp_select_input_t *input, mscclpp_dev_pattern_t pattern,
                                mscclpp_dev_nodes_pattern_t exchange, uint64_t block_bytes, mscclpp_choice_t *grid,
                                uint64_t *tile_p)
{
    /* In windows, each block of the grid sends what an owner has for a node, message by message. */
    const uint64_t sent_bytes =
        exchange == MSCCLPP_DEV_NODES_WINDOWS
            ? block_bytes * MSCCLPP_DEV_COLL_NODES_BLOCKS(pattern, input->max_node_ranks, input->shards)
            : block_bytes;
    const uint32_t limit = max_blocks(input, sent_bytes, MSCCLPP_TILES_BLOCK_MIN);

    if (!mscclpp_algo_grid(input, units_of(sent_bytes), limit, 0, false, grid)) {
        return false;
    }
    grid->nblocks = grid->nblocks > limit ? limit : grid->nblocks;
    *tile_p = tile_of_coll(input, pattern, exchange, &grid->nblocks);
    return *tile_p != 0;
}

/*
 * Returns how many turns after a rank gives a tile of an all-reduce it takes that tile
 * (device/kern/allreduce/allreduce_nodes.h): 1 if nodes exchange directly, and otherwise 2. Over trees, each level
 * below the first adds 2, for the nodes that are farthest from the root, up to the limit of the window.
 */
static uint32_t lag_of_allreduce(mscclpp_dev_nodes_pattern_t exchange, uint32_t nodes)
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
 * Returns the time, in messages, of turns that move all tiles of a block of data. For each tile there are `turns`
 * turns, and `messages` messages. A rank's proxy sends the messages of all blocks of the grid, one after another; turns
 * of different blocks of the grid take place at the same time.
 */
static uint64_t time_of_turns(uint64_t block_bytes, uint64_t tile, uint32_t nblocks, uint64_t turns, uint64_t messages)
{
    const uint64_t tiles = (block_bytes + tile - 1) / tile;

    return tiles * messages + (tiles + nblocks - 1) / nblocks * turns * TURN_MESSAGES;
}

/*
 * In windows, each message comes with a credit, and the nodes meet twice. So windows are for calls that have longer
 * tiles there, and many of them.
 */
mscclpp_dev_nodes_pattern_t mscclpp_tiles_direct(const mscclpp_select_input_t *input, mscclpp_dev_pattern_t pattern,
                                                 uint64_t block_bytes)
{
    const uint64_t windows = MSCCLPP_DEV_COLL_NODES_WINDOWS((uint64_t)input->nodes);
    mscclpp_choice_t grid;
    uint64_t tile, distance, at_once, in_windows = 0;

    if (!MSCCLPP_DEV_COLL_NODES_MAY_WINDOW(pattern, input->nodes) ||
        !mscclpp_tiles_grid_of_coll(input, pattern, MSCCLPP_DEV_NODES_WINDOWS, block_bytes, &grid, &tile)) {
        return MSCCLPP_DEV_NODES_DIRECT;
    }
    for (distance = 1; distance < input->nodes; distance *= 2) {
        in_windows += 2 * (uint64_t)TURN_MESSAGES; /* a round of each meeting */
    }
    in_windows += time_of_turns(block_bytes, tile, grid.nblocks, windows, 2 * windows * MSCCLPP_DEV_COLL_NODES_WINDOW);
    if (!mscclpp_tiles_grid_of_coll(input, pattern, MSCCLPP_DEV_NODES_DIRECT, block_bytes, &grid, &tile)) {
        return MSCCLPP_DEV_NODES_WINDOWS;
    }
    at_once = time_of_turns(block_bytes, tile, grid.nblocks, 1, input->nodes);
    return in_windows < at_once ? MSCCLPP_DEV_NODES_WINDOWS : MSCCLPP_DEV_NODES_DIRECT;
}

/*
 * In a collective other than all-reduce, a block gives a tile before it takes the one before. In windows, it gives a
 * tile to the nodes of one window before it takes it from those of the window before.
 */
bool mscclpp_tiles_of_kernel(const mscclpp_select_input_t *input, const mscclpp_tiles_way_t *way, uint64_t bytes,
                             mscclpp_tiles_t *tiles)
{
    const mscclpp_dev_pattern_t pattern = (mscclpp_dev_pattern_t)way->pattern;
    mscclpp_dev_nodes_pattern_t exchange = way->exchange;
    mscclpp_select_input_t sized = *input;
    mscclpp_choice_t grid;
    uint64_t most_units;

    sized.bytes = bytes;
    tiles->fanout = 0;
    if (way->pattern < 0) {
        if (!mscclpp_tiles_grid_of_allreduce(&sized, &grid)) {
            return false;
        }
        most_units = MSCCLPP_DEV_NODES_TILE(
            input->layout->bulk_size, grid.nblocks, input->shards,
            MSCCLPP_DEV_NODES_ROOM(way->exchange, input->nodes, input->slot_size, way->parts, way->places));
        if (most_units == 0) {
            return false;
        }
        tiles->bytes =
            MSCCLPP_DEV_UNIT * MSCCLPP_DEV_NODES_EVEN_TILE((units_of(bytes) + input->shards - 1) / input->shards,
                                                           grid.nblocks, most_units);
        tiles->under_way = grid.nblocks * (lag_of_allreduce(way->exchange, input->nodes) + 1);
        return tiles->bytes > 0;
    }
    if (exchange == MSCCLPP_DEV_NODES_DIRECT) {
        exchange = mscclpp_tiles_direct(&sized, pattern, bytes);
    }
    if (!mscclpp_tiles_grid_of_coll(&sized, pattern, exchange, bytes, &grid, &tiles->bytes)) {
        return false;
    }
    /* For an all-to-all and a scatter, an owner has a block for each rank of another node. */
    tiles->bytes *= MSCCLPP_DEV_COLL_SENDS_MANY(pattern) && pattern != MSCCLPP_DEV_REDUCE_SCATTER
                        ? MSCCLPP_DEV_COLL_NODES_BLOCKS(pattern, input->max_node_ranks, input->shards)
                        : 1;
    tiles->under_way = 2 * grid.nblocks;
    if (exchange == MSCCLPP_DEV_NODES_WINDOWS) {
        tiles->fanout = 2 * MSCCLPP_DEV_COLL_NODES_WINDOW;
        tiles->under_way = grid.nblocks;
    }
    return true;
}

/* Nothing is asked for by parameters other than the sizes of `place`. */
bool mscclpp_tiles_between(const mscclpp_tiles_place_t *place, const mscclpp_tiles_way_t *way, uint64_t bytes,
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
                                          .slot_size = mscclpp_tiles_slot_size(place->nodes, slot_bytes)};

    mscclpp_layout_init_between(&layout, place->scratch_size);
    return mscclpp_tiles_of_kernel(&input, way, bytes, tiles);
}
