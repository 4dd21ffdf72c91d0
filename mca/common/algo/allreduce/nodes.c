/* Host side of the all-reduces over several nodes without packets (device/kern/allreduce/allreduce_nodes.h). */
#include "device/types/nodes.h"
#include "mca/common/algo/algo.h"
#include "mca/common/algo/schedule/schedule.h"
#include "mca/common/algo/shape/tiles.h"

/*
 * Chooses the grid and the kernel for tiles of the bulk area. On GPUs, the grid has at least one block, and only as
 * many as can have MSCCLPP_TILES_SHARD_MIN bytes of a shard each. Returns false if the call is not between nodes, if no
 * rank has a shard, or if a slot cannot hold one unit. Returns false, too, if a tile in the bulk area has fewer units
 * than the smallest block has threads: a warp on the GPU, one thread on the twin.
 */
static bool shape(const mscclpp_select_input_t *input, mscclpp_choice_t *choice)
{
    const uint32_t limit = MSCCLPP_DEV_NODES_BLOCKS_OF(input->nodes);
    uint64_t units = (input->bytes + MSCCLPP_DEV_UNIT - 1) / MSCCLPP_DEV_UNIT;
    uint64_t shard_units, tile_units;
    uint32_t max_blocks;

    if (input->nodes < 2 || input->shards == 0 || input->slot_size < MSCCLPP_DEV_UNIT) {
        return false;
    }
    shard_units = (units + input->shards - 1) / input->shards;
    tile_units = MSCCLPP_DEV_NODES_ROWS(input->layout->bulk_size, 1, input->shards);
    choice->epochs = 0;
    choice->kernel = MSCCLPP_KERNEL_ALLREDUCE_NODES;
    /*
     * All blocks share the bulk area. The grid may have no more threads in total than the tile of a single block has
     * units.
     */
    if (tile_units == 0 || !mscclpp_algo_grid(input, shard_units, limit, tile_units, false, choice)) {
        return false;
    }
    max_blocks = input->on_twin
                     ? limit
                     : mscclpp_tiles_blocks(input->nodes, shard_units * MSCCLPP_DEV_UNIT, MSCCLPP_TILES_SHARD_MIN);
    choice->nblocks = choice->nblocks > max_blocks ? max_blocks : choice->nblocks;
    return true;
}

const mscclpp_algo_t mscclpp_algo_allreduce_nodes = {
    .name = "nodes",
    .description = "shards combined within nodes, exchanged between nodes over port channels, and handed out again",
    .spans_nodes = true,
    .shape = shape,
};

const mscclpp_algo_t mscclpp_algo_allreduce_nodes_split = {
    .name = "nodes_split",
    .description = "the same, each node combining a part of what all exchange and sending the others the result",
    .spans_nodes = true,
    .pattern = MSCCLPP_DEV_NODES_SPLIT,
    .shape = shape,
};

/*
 * Shapes a call as `shape` does, but returns false for 16-bit floats. In a ring, halving or trees, each node rounds
 * what it passes on to the type of the elements. For 16-bit floats, which are combined in float32, that would be one
 * rounding for every node, or for every step. The other patterns round only the partial result of each node and the
 * final result.
 */
static bool shape_unless_16_bit_float(const mscclpp_select_input_t *input, mscclpp_choice_t *choice)
{
    return input->dtype != MSCCLPP_DTYPE_FLOAT16 && input->dtype != MSCCLPP_DTYPE_BFLOAT16 && shape(input, choice);
}

/* Shapes a call that goes by halving. The slots of a set together must hold one unit for each place of the schedule. */
static bool shape_halving(const mscclpp_select_input_t *input, mscclpp_choice_t *choice)
{
    mscclpp_schedule_t schedule;

    return mscclpp_schedule_init(&schedule, MSCCLPP_SCHEDULE_HALVING, MSCCLPP_SCHEDULE_ALLREDUCE, input->nodes, 0, 0,
                                 0) &&
           shape_unless_16_bit_float(input, choice) &&
           MSCCLPP_DEV_NODES_STEPS_ROOM(input->nodes, input->slot_size, schedule.blocks, schedule.places) > 0;
}

/* Shapes a call that goes over trees. A place in the sets must hold a unit. */
static bool shape_trees(const mscclpp_select_input_t *input, mscclpp_choice_t *choice)
{
    return shape_unless_16_bit_float(input, choice) && MSCCLPP_DEV_NODES_TREES_ROOM(input->nodes, input->slot_size) > 0;
}

const mscclpp_algo_t mscclpp_algo_allreduce_nodes_ring = {
    .name = "nodes_ring",
    .description = "the same, what nodes exchange going around from node to node; not for 16-bit floats",
    .spans_nodes = true,
    .fallback = &mscclpp_algo_allreduce_nodes_split,
    .pattern = MSCCLPP_DEV_NODES_RING,
    .shape = shape_unless_16_bit_float,
};

const mscclpp_algo_t mscclpp_algo_allreduce_nodes_halving = {
    .name = "nodes_halving",
    .description = "the same, halves of what is left exchanged with one node after another, and back; not for 16-bit "
                   "floats",
    .spans_nodes = true,
    .fallback = &mscclpp_algo_allreduce_nodes_split,
    .pattern = MSCCLPP_DEV_NODES_HALVING,
    .shape = shape_halving,
};

const mscclpp_algo_t mscclpp_algo_allreduce_nodes_trees = {
    .name = "nodes_trees",
    .description =
        "the same, combined over two trees of the nodes, and the results back over them; not for 16-bit floats",
    .spans_nodes = true,
    .fallback = &mscclpp_algo_allreduce_nodes_split,
    .pattern = MSCCLPP_DEV_NODES_TREES,
    .shape = shape_trees,
};
