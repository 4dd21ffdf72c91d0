/*
 * The sizes of the tiles that nodes exchange, and of the slots of the exchange area. Kernels, the cost model and
 * mscclpp_sim take the same sizes from here. The functions have no side effects.
 */
#ifndef MCA_COMMON_ALGO_SHAPE_TILES_H
#define MCA_COMMON_ALGO_SHAPE_TILES_H

#include "device/types/coll_nodes.h"
#include "mca/common/algo/algo.h"

/*
 * Between nodes, the minimum number of bytes for each block of a grid: of a shard of an all-reduce, and of a rank's
 * block in other collectives. Less would not pay for the proxies' work in each exchange, which takes some microseconds.
 */
#define MSCCLPP_TILES_SHARD_MIN ((uint64_t)32 << 10)
#define MSCCLPP_TILES_BLOCK_MIN ((uint64_t)64 << 10)

/* Packets get this part of an exchange area of the full size: 1 / SHARE. They are for small messages. */
#define MSCCLPP_TILES_PACKET_SHARE 8

/*
 * Returns the size in bytes of a slot of an exchange area between `nodes` nodes. All slots together have `bytes` bytes.
 * A slot has at least one unit, for which the area may have to be larger than `bytes`.
 */
uint64_t mscclpp_tiles_find_slot_size(uint32_t nodes, uint64_t bytes);

/*
 * Chooses the grid of an all-reduce between nodes in tiles. On GPUs, each block has at least MSCCLPP_TILES_SHARD_MIN
 * bytes of a shard, unless there is only one block. Returns false if a tile in the bulk area has fewer units than the
 * smallest block has threads: a warp on the GPU, one thread on the twin.
 */
bool mscclpp_tiles_choose_allreduce_grid(const mscclpp_select_input_t *input, mscclpp_choice_t *grid);

/*
 * Chooses the grid of another collective between nodes in tiles. Its blocks of data have at most `block_bytes` bytes.
 * Stores the size in bytes of a tile of one block of data in *tile_p. Returns false if a grid of one block has no room
 * for a tile; that does not depend on `block_bytes`.
 */
bool mscclpp_tiles_choose_coll_grid(const mscclpp_select_input_t *input, mscclpp_dev_pattern_t pattern,
                                    mscclpp_dev_nodes_pattern_t exchange, uint64_t block_bytes, mscclpp_choice_t *grid,
                                    uint64_t *tile_p);

/*
 * Returns how nodes exchange tiles if each sends straight to all others: WINDOWS if that takes less time, or if there
 * is no room for tiles without windows; otherwise DIRECT.
 */
mscclpp_dev_nodes_pattern_t mscclpp_tiles_choose_direct(const mscclpp_select_input_t *input,
                                                        mscclpp_dev_pattern_t pattern, uint64_t block_bytes);

/*
 * How nodes exchange tiles. DIRECT stands for WINDOWS, too: mscclpp_tiles_choose_direct then decides. `parts` and
 * `places` are those of a tile (mscclpp_dev_steps_t) in an all-reduce by halving; otherwise they are not used.
 */
typedef struct {
    int pattern; /* mscclpp_dev_pattern_t; below 0: an all-reduce */
    mscclpp_dev_nodes_pattern_t exchange;
    uint32_t parts, places;
} mscclpp_tiles_way_t;

/* The tiles of a rank. */
typedef struct {
    uint64_t bytes;     /* size of a tile: its part of the shard in an all-reduce, otherwise of all data that an owner
                           has for another node */
    uint32_t in_flight; /* number of tiles that are exchanged at the same time, in all blocks of the grid */
    uint32_t fanout;    /* maximum number of sends to other nodes ahead of the receptions (mscclpp_schedule_t); 0: any
                           number. The parameter nodes_fanout may limit it further. */
} mscclpp_tiles_t;

/*
 * Finds the tiles that the kernel has for a call. `bytes` is the size of the message or, in patterns with several
 * blocks of data, of a block. Returns false if there is no room for tiles; *tiles may be changed even then.
 */
bool mscclpp_tiles_find(const mscclpp_select_input_t *input, const mscclpp_tiles_way_t *way, uint64_t bytes,
                        mscclpp_tiles_t *tiles);

/* Nodes of GPUs with the same number of ranks each, and the parameters scratch_size and exchange_size, in bytes. */
typedef struct {
    uint32_t nodes;
    uint32_t ranks; /* number of ranks of each node */
    uint64_t scratch_size;
    uint64_t exchange_size;
} mscclpp_tiles_place_t;

/* Does what mscclpp_tiles_find does, for a communicator on two or more nodes. */
bool mscclpp_tiles_find_between(const mscclpp_tiles_place_t *place, const mscclpp_tiles_way_t *way, uint64_t bytes,
                                mscclpp_tiles_t *tiles);

#endif
