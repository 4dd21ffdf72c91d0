/* Host side of the all-reduce over several nodes with packets (device/kern/allreduce/allreduce_nodes_packets.h). */
#include "device/types/nodes.h"
#include "mca/common/algo/algo.h"
#include "mca/common/algo/allreduce/between.h"
#include "mca/common/algo/schedule/schedule.h"
#include "mca/common/base/numbers.h"

/*
 * The number of units of a shard for which the grid gets one block. Each block sends a trigger and a message to each
 * other node, so a grid has few blocks.
 */
#define BLOCK_UNITS 2048u

/*
 * Chooses the grid for packets between nodes. A shard that is larger than a slot of `slot_units` units takes several
 * epochs. Returns false in these cases: the call is not between nodes; no rank has a shard; a slot or the packet area
 * holds fewer units than the smallest block has threads (a warp on the GPU, one thread on the twin).
 */
static bool shape_slots(const mscclpp_select_input_t *input, uint64_t slot_units, mscclpp_choice_t *choice)
{
    const uint32_t limit = MSCCLPP_DEV_NODES_BLOCKS_OF(input->nodes);
    const uint64_t units = mscclpp_divide_up(input->bytes, MSCCLPP_DEV_UNIT);
    uint64_t shard_units, capacity, epoch_units, max_blocks;

    if (input->nodes < 2 || input->shards == 0 || input->max_node_ranks == 0 || slot_units == 0) {
        return false;
    }
    shard_units = mscclpp_divide_up(units, input->shards);
    capacity = MSCCLPP_DEV_NODES_CAPACITY(input->layout->packet_half, input->max_node_ranks, slot_units);
    if (!mscclpp_algo_choose_grid(input, shard_units, limit, capacity, MSCCLPP_LARGE_BLOCKS, choice)) {
        return false;
    }
    max_blocks = input->on_twin ? limit : mscclpp_min(mscclpp_divide_up(shard_units, BLOCK_UNITS), limit);
    choice->nblocks = (uint32_t)mscclpp_min(choice->nblocks, max_blocks);
    epoch_units = MSCCLPP_DEV_PACKET_CHUNK(shard_units, capacity, (uint64_t)choice->nblocks * choice->nthreads);
    choice->epochs = mscclpp_divide_up(shard_units, epoch_units);
    choice->kernel = MSCCLPP_KERNEL_ALLREDUCE_NODES_PACKETS;
    return true;
}

/*
 * Shapes a call in which each node sends its packets to all others at once. Returns false if the parameter nodes_fanout
 * forbids that, and as shape_slots does.
 */
static bool shape(const mscclpp_select_input_t *input, mscclpp_choice_t *choice)
{
    return input->nodes > 1 && mscclpp_between_keeps_fanout(input, input->nodes - 1) &&
           shape_slots(input, input->packet_units, choice);
}

const mscclpp_algo_t mscclpp_algo_allreduce_nodes_packets = {
    .name = "nodes_packets",
    .description = "shards combined within nodes and exchanged between nodes with packets alone",
    .sends_packets = true,
    .spans_nodes = true,
    .fallback = &mscclpp_algo_allreduce_nodes,
    .shape = shape,
};

/*
 * Shapes a call by recursive doubling. Returns false for 16-bit floats, which lose precision in each round: the nodes
 * round partial results to the type of the elements before they send them. nodes_packets rounds only the partial result
 * of each node and the final result. Also returns false as shape_slots does.
 */
static bool shape_doubling(const mscclpp_select_input_t *input, mscclpp_choice_t *choice)
{
    mscclpp_schedule_t schedule;
    uint64_t slot_units;

    if (MSCCLPP_DTYPE_IS_16_BIT_FLOAT(input->dtype) ||
        !mscclpp_schedule_init(&schedule, MSCCLPP_SCHEDULE_DOUBLING, MSCCLPP_SCHEDULE_ALLREDUCE, input->nodes, 0, 0,
                               0)) {
        return false;
    }
    slot_units =
        MSCCLPP_DEV_NODES_PACKET_UNITS(MSCCLPP_DEV_NODES_DOUBLING, input->nodes, input->packet_units, schedule.slots);
    return shape_slots(input, slot_units, choice);
}

const mscclpp_algo_t mscclpp_algo_allreduce_nodes_doubling = {
    .name = "nodes_doubling",
    .description = "the same, with one node after another, at twice the distance each time; not for 16-bit floats",
    .sends_packets = true,
    .spans_nodes = true,
    .fallback = &mscclpp_algo_allreduce_nodes_packets,
    .pattern = MSCCLPP_DEV_NODES_DOUBLING,
    .shape = shape_doubling,
};
