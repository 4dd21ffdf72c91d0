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

/* Returns the blocks of a grid between nodes, for `bytes` bytes, of which each block has at least `least`. */
uint32_t mscclpp_tiles_blocks(uint32_t nodes, uint64_t bytes, uint64_t least);

/*
 * Returns the bytes of a tile of a shard in an all-reduce, whose grid has `nblocks` blocks. By halving, `parts` and
 * `places` are those of a tile (mscclpp_dev_steps_t); else they do not matter. 0: there is no room for a unit.
 */
uint64_t mscclpp_tiles_of_allreduce(const mscclpp_select_input_t *input, mscclpp_dev_nodes_pattern_t pattern,
                                    uint32_t parts, uint32_t places, uint32_t nblocks);

/*
 * Returns how many tiles of an all-reduce a rank has under way, in all blocks of its grid. A block gives further tiles
 * before it has the first one's result: one, two, or over trees more with each level of the tree, for the nodes that
 * are farthest from the root (device/kern/allreduce/allreduce_nodes.h).
 */
uint32_t mscclpp_tiles_under_way(mscclpp_dev_nodes_pattern_t pattern, uint32_t nodes, uint32_t nblocks);

/*
 * Returns the bytes of a tile of one block of data in a collective other than all-reduce, or 0 if there is no room for
 * one. Halves the number of the grid's blocks until a row of the scratch has room.
 */
uint64_t mscclpp_tiles_of_coll(const mscclpp_select_input_t *input, mscclpp_dev_pattern_t pattern,
                               mscclpp_dev_nodes_pattern_t exchange, uint32_t *nblocks_p);

/* Tiles of a rank. */
typedef struct {
    uint64_t bytes;     /* of a tile */
    uint32_t under_way; /* how many of them, at most */
} mscclpp_tiles_t;

/*
 * Returns the tiles over trees of GPUs on two or more nodes of `ranks` ranks each, with the sizes of the exchange area
 * and of the scratch that a communicator has by default. `pattern`: mscclpp_dev_pattern_t, of a broadcast or a reduce;
 * below 0: an all-reduce. `bytes` is the size of the message.
 */
mscclpp_tiles_t mscclpp_tiles_over_trees(int pattern, uint32_t nodes, uint32_t ranks, uint64_t bytes);

#endif
