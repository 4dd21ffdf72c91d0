/* Schedules over one of two trees (device/lib/nodes_trees.h), as a block of the kernel carries them out for a tile. */
#include "device/lib/nodes_trees.h"
#include "mca/common/algo/schedule/kinds.h"

/*
 * Finds step `index` of a reduce over two trees. A node combines the blocks of its children with its own, and sends the
 * result to its parent. The function goes through the node's steps and counts `index` down at each of them. The step at
 * which `index` is 0 is the one that was asked for. Returns false if there is no such step.
 */
static bool find_step_of_reduce(const mscclpp_schedule_t *schedule, uint32_t node, uint64_t index,
                                mscclpp_step_t *step_p)
{
    const mscclpp_dev_tree_place_t place = {
        .nnodes = schedule->nodes, .node = node, .root = schedule->root, .tree = schedule->tree};
    const uint32_t parent = mscclpp_dev_trees_parent(&place);
    uint32_t i;

    for (i = 0; i < MSCCLPP_DEV_TREES_CHILDREN; ++i) {
        const uint32_t child = mscclpp_dev_trees_child(&place, i);

        if (child != MSCCLPP_DEV_TREES_NONE && index-- == 0) {
            return mscclpp_step_set(step_p, MSCCLPP_STEP_BEFORE, child, 0, 1) &&
                   mscclpp_step_set_slot(step_p, 0, i, true);
        }
    }
    if (parent == MSCCLPP_DEV_TREES_NONE || index != 0) {
        return false;
    }
    i = mscclpp_dev_trees_child(&place, 0) == MSCCLPP_DEV_TREES_NONE ? 0 : 1; /* after the receptions, if any */
    /* At the parent, each of its children has the slot with the child's number. */
    return mscclpp_step_set(step_p, MSCCLPP_STEP_SEND, parent, 0, 1) &&
           mscclpp_step_set_slot(step_p, i, mscclpp_dev_trees_child_index(&place), true);
}

/*
 * Finds a step of a broadcast, in which a node passes the message of its parent on to its children. Counts `index` down
 * as find_step_of_reduce does. Returns false if there is no such step.
 */
static bool find_step_of_broadcast(const mscclpp_schedule_t *schedule, uint32_t node, uint64_t index,
                                   mscclpp_step_t *step_p)
{
    const mscclpp_dev_tree_place_t place = {
        .nnodes = schedule->nodes, .node = node, .root = schedule->root, .tree = schedule->tree};
    const uint32_t parent = mscclpp_dev_trees_parent(&place);
    uint32_t i;

    if (parent != MSCCLPP_DEV_TREES_NONE && index-- == 0) {
        return mscclpp_step_set(step_p, MSCCLPP_STEP_STORE, parent, 0, 1);
    }
    for (i = 0; i < MSCCLPP_DEV_TREES_CHILDREN; ++i) {
        const uint32_t child = mscclpp_dev_trees_child(&place, i);

        if (child != MSCCLPP_DEV_TREES_NONE && index-- == 0) {
            return mscclpp_step_set(step_p, MSCCLPP_STEP_SEND, child, 0, 1) &&
                   mscclpp_step_set_slot(step_p, node == schedule->root ? 0 : 1, 0, true);
        }
    }
    return false;
}

/* Returns the number of a node's steps in a reduce over two trees. A node has one step for each neighbour. */
static uint64_t count_steps_of_reduce(const mscclpp_schedule_t *schedule, uint32_t node)
{
    const mscclpp_dev_tree_place_t place = {
        .nnodes = schedule->nodes, .node = node, .root = schedule->root, .tree = schedule->tree};

    return (uint64_t)(mscclpp_dev_trees_child(&place, 0) != MSCCLPP_DEV_TREES_NONE) +
           (mscclpp_dev_trees_child(&place, 1) != MSCCLPP_DEV_TREES_NONE) + (node != schedule->root);
}

/*
 * An all-reduce is a reduce, in rounds 0 and 1, and then a broadcast, in rounds 2 and 3. The broadcast's messages
 * arrive in the slot after those of the children.
 */
bool mscclpp_schedule_trees(const mscclpp_schedule_t *schedule, uint32_t node, uint64_t index, mscclpp_step_t *step_p)
{
    uint64_t steps_up;

    if (schedule->pattern == MSCCLPP_DEV_REDUCE) {
        return find_step_of_reduce(schedule, node, index, step_p);
    }
    if (schedule->pattern == MSCCLPP_DEV_BCAST) {
        return find_step_of_broadcast(schedule, node, index, step_p);
    }
    steps_up = count_steps_of_reduce(schedule, node);
    if (index < steps_up) {
        return find_step_of_reduce(schedule, node, index, step_p);
    }
    return find_step_of_broadcast(schedule, node, index - steps_up, step_p) &&
           mscclpp_step_set_slot(step_p, step_p->round + 2, MSCCLPP_DEV_TREES_CHILDREN, true);
}
