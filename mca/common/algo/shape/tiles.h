/*
 * How long the tiles are that nodes exchange, and how the exchange area is divided for that. Kernels, the cost model
 * and mscclpp_sim take the same sizes from here.
 */
#ifndef MCA_COMMON_ALGO_SHAPE_TILES_H
#define MCA_COMMON_ALGO_SHAPE_TILES_H

#include "device/types/coll_nodes.h"
#include "mca/common/algo/algo.h"

/*
 * Between nodes, a grid has one block for this many bytes of a shard of an all-reduce, or of a rank's block in other
 * collectives. With smaller parts, the proxies' work in each exchange, some microseconds, would dominate.
 */
#define MSCCLPP_TILES_SHARD_MIN ((uint64_t)32 << 10)
#define MSCCLPP_TILES_BLOCK_MIN ((uint64_t)64 << 10)

/* Packets get this fraction of an exchange area of the full size, since they are for small messages: 1 / SHARE. */
#define MSCCLPP_TILES_PACKET_SHARE 8

/*
 * Returns the bytes of a slot of an exchange area between `nodes` nodes, whose slots take `bytes` bytes in all. It is
 * at least one unit, for which the area may have to be larger.
 */
uint64_t mscclpp_tiles_slot_size(uint32_t nodes, uint64_t bytes);

/*
 * Computes the grid of an all-reduce between nodes, without packets. On GPUs, it has only as many blocks as can have
 * MSCCLPP_TILES_SHARD_MIN bytes of a shard each. Returns false if a tile in the bulk area has fewer units than the
 * smallest block has threads: a warp on the GPU, one thread on the twin.
 */
bool mscclpp_tiles_grid_of_allreduce(const mscclpp_select_input_t *input, mscclpp_choice_t *grid);

/*
 * Does the same for another collective, whose blocks of data have at most `block_bytes` bytes. Stores the bytes of a
 * tile of one block of data. Returns false if even one thread block has no room for a tile. So whether tiles fit does
 * not depend on the message size.
 */
bool mscclpp_tiles_grid_of_coll(const mscclpp_select_input_t *input, mscclpp_dev_pattern_t pattern,
                                mscclpp_dev_nodes_pattern_t exchange, uint64_t block_bytes, mscclpp_choice_t *grid,
                                uint64_t *tile_p);

/*
 * Returns how nodes exchange tiles if each sends straight to all others: in windows where that takes less time, or
 * where there is no room for tiles otherwise.
 */
mscclpp_dev_nodes_pattern_t mscclpp_tiles_direct(const mscclpp_select_input_t *input, mscclpp_dev_pattern_t pattern,
                                                 uint64_t block_bytes);

/*
 * How nodes exchange tiles; DIRECT stands for windows, too (mscclpp_tiles_direct). In an all-reduce by halving, `parts`
 * and `places` are those of a tile (mscclpp_dev_steps_t); else they do not matter.
 */
typedef struct {
    int pattern; /* mscclpp_dev_pattern_t; below 0: an all-reduce */
    mscclpp_dev_nodes_pattern_t exchange;
    uint32_t parts, places;
} mscclpp_tiles_way_t;

/* Tiles of a rank. */
typedef struct {
    uint64_t bytes;     /* of a tile: of the shard in an all-reduce, else of all that an owner has for another node */
    uint32_t under_way; /* how many of them there are at a time, in all blocks of the grid */
    uint32_t fanout;    /* to how many other nodes the kernel sends ahead of those from which it has received
                           (mscclpp_schedule_t); 0: to all at once. The parameter nodes_fanout may limit it further. */
} mscclpp_tiles_t;

/*
 * Finds the tiles that the kernel has for a call. `bytes` is the size of the message or, in patterns with several
 * blocks of data, of a block. Returns false if there is no room for tiles.
 */
bool mscclpp_tiles_of_kernel(const mscclpp_select_input_t *input, const mscclpp_tiles_way_t *way, uint64_t bytes,
                             mscclpp_tiles_t *tiles);

/* Nodes of GPUs with one number of ranks each, and the parameters scratch_size and exchange_size. */
typedef struct {
    uint32_t nodes;
    uint32_t ranks; /* of a node */
    uint64_t scratch_size, exchange_size;
} mscclpp_tiles_place_t;

/* Does what mscclpp_tiles_of_kernel does, for a communicator between two or more such nodes. */
bool mscclpp_tiles_between(const mscclpp_tiles_place_t *place, const mscclpp_tiles_way_t *way, uint64_t bytes,
                           mscclpp_tiles_t *tiles);

#endif
