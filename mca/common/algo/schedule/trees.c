/* Schedules over one of two trees (device/lib/nodes_trees.h), as a block of the kernel carries them out for a tile. */
#include "device/lib/nodes_trees.h"
#include "mca/common/algo/schedule/kinds.h"

/* Returns the place of a node in the schedule's tree. */
static mscclpp_dev_tree_place_t find_tree_place(const mscclpp_schedule_t *schedule, uint32_t node)
{
    return (mscclpp_dev_tree_place_t){
        .nnodes = schedule->nodes, .node = node, .root = schedule->root, .tree = schedule->tree};
}

/* Returns the number of a node's children. A single child is child 0, so children are numbered without gaps. */
static uint32_t count_children(const mscclpp_dev_tree_place_t *place)
{
    uint32_t count = 0;

    while (count < MSCCLPP_DEV_TREES_CHILDREN && mscclpp_dev_trees_child(place, count) != MSCCLPP_DEV_TREES_NONE) {
        ++count;
    }
    return count;
}

/*
 * Finds step `index` of a reduce over two trees. A node combines the blocks of its children with its own, in round 0,
 * and then sends the result to its parent. Returns false if there is no such step.
 */
static bool find_step_of_reduce(const mscclpp_schedule_t *schedule, uint32_t node, uint64_t index,
                                mscclpp_step_t *step_p)
{
    const mscclpp_dev_tree_place_t place = find_tree_place(schedule, node);
    const uint32_t parent = mscclpp_dev_trees_parent(&place), children = count_children(&place);

    if (index < children) {
        const uint32_t child = mscclpp_dev_trees_child(&place, (uint32_t)index);

        return mscclpp_step_set(step_p, MSCCLPP_STEP_BEFORE, child, 0, 1) &&
               mscclpp_step_set_slot(step_p, 0, (uint32_t)index);
    }
    if (parent == MSCCLPP_DEV_TREES_NONE || index != children) {
        return false;
    }
    /* A leaf has no receptions to wait for, so it sends in round 0. The parent has a slot for each of its children. */
    return mscclpp_step_set(step_p, MSCCLPP_STEP_SEND, parent, 0, 1) &&
           mscclpp_step_set_slot(step_p, children > 0 ? 1 : 0, mscclpp_dev_trees_child_index(&place));
}

/*
 * Finds step `index` of a broadcast over two trees. A node receives the message from its parent, unless it is the root,
 * and then sends it to its children. Returns false if there is no such step.
 */
static bool find_step_of_broadcast(const mscclpp_schedule_t *schedule, uint32_t node, uint64_t index,
                                   mscclpp_step_t *step_p)
{
    const mscclpp_dev_tree_place_t place = find_tree_place(schedule, node);
    const uint32_t parent = mscclpp_dev_trees_parent(&place);
    const uint32_t receptions = parent != MSCCLPP_DEV_TREES_NONE ? 1 : 0;
    uint32_t child;

    if (index < receptions) {
        return mscclpp_step_set(step_p, MSCCLPP_STEP_STORE, parent, 0, 1);
    }
    if (index - receptions >= count_children(&place)) {
        return false;
    }
    child = mscclpp_dev_trees_child(&place, (uint32_t)index - receptions);
    return mscclpp_step_set(step_p, MSCCLPP_STEP_SEND, child, 0, 1) && mscclpp_step_set_slot(step_p, receptions, 0);
}

/* Returns the number of a node's steps in a reduce over two trees. A node has one step for each neighbour. */
static uint64_t count_steps_of_reduce(const mscclpp_schedule_t *schedule, uint32_t node)
{
    const mscclpp_dev_tree_place_t place = find_tree_place(schedule, node);

    return (uint64_t)count_children(&place) + (node != schedule->root ? 1 : 0);
}

/*
 * An all-reduce is a reduce, in rounds 0 and 1, and then a broadcast, in rounds 2 and 3. The broadcast's messages
 * arrive in the slot after those of the children.
 */
bool mscclpp_find_trees_step(const mscclpp_schedule_t *schedule, uint32_t node, uint64_t index, mscclpp_step_t *step_p)
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
           mscclpp_step_set_slot(step_p, step_p->round + 2, MSCCLPP_DEV_TREES_CHILDREN);
}
