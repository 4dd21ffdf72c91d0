/* Host side of the all-reduces over several nodes without packets (device/kern/allreduce/allreduce_nodes.h). */
#include "device/types/nodes.h"
#include "mca/common/algo/algo.h"
#include "mca/common/algo/schedule/schedule.h"
#include "mca/common/algo/shape/tiles.h"

/*
 * Chooses the kernel and its grid for tiles in the bulk area. Returns false if the call is not between nodes, if no
 * rank has a shard, if a slot cannot hold one unit, or if the scratch has no room for tiles.
 */
static bool shape(const mscclpp_select_input_t *input, mscclpp_choice_t *choice)
{
    if (input->nodes < 2 || input->shards == 0 || input->slot_size < MSCCLPP_DEV_UNIT) {
        return false;
    }
    choice->epochs = 0;
    choice->kernel = MSCCLPP_KERNEL_ALLREDUCE_NODES;
    return mscclpp_tiles_choose_allreduce_grid(input, choice);
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
 * Shapes a call as `shape` does, but returns false for 16-bit floats. In a ring, halving or trees, each node rounds the
 * partial result that it passes on to the type of the elements. So 16-bit floats, which are combined in float32, would
 * lose precision at every node. The other patterns round only the partial result of each node and the final result.
 */
static bool shape_unless_16_bit_float(const mscclpp_select_input_t *input, mscclpp_choice_t *choice)
{
    return !MSCCLPP_DTYPE_IS_16_BIT_FLOAT(input->dtype) && shape(input, choice);
}

/*
 * Shapes a call by halving. Returns false as shape_unless_16_bit_float does, and if the slots have no room for one unit
 * in each place of the schedule.
 */
static bool shape_halving(const mscclpp_select_input_t *input, mscclpp_choice_t *choice)
{
    mscclpp_schedule_t schedule;

    if (!mscclpp_schedule_init(&schedule, MSCCLPP_SCHEDULE_HALVING, MSCCLPP_SCHEDULE_ALLREDUCE, input->nodes, 0, 0,
                               0)) {
        return false;
    }
    return shape_unless_16_bit_float(input, choice) &&
           MSCCLPP_DEV_NODES_STEPS_ROOM(input->nodes, input->slot_size, schedule.blocks, schedule.places) > 0;
}

/*
 * Shapes a call over trees. Returns false as shape_unless_16_bit_float does, and if a place in the slots has no room
 * for a unit.
 */
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
