/* Schedules over two trees (device/lib/nodes_trees.h), which kernels carry out with other tiles in each tree. */
#include "device/lib/nodes_trees.h"
#include "mca/common/algo/schedule/kinds.h"

/* True if this node passes on what it receives in the tree. */
static bool passes_on(const mscclpp_dev_trees_t *place)
{
    return mscclpp_dev_trees_parent(place) != MSCCLPP_DEV_TREES_NONE &&
           mscclpp_dev_trees_child(place, 0) != MSCCLPP_DEV_TREES_NONE;
}

/*
 * Finds a step of a reduce of two halves, one over each tree. A node begins with the half of which it only sends its
 * own part, so that its parent in that tree need not wait for what it combines. Of the other half it combines what
 * comes from its children, and sends that on. With two nodes both halves go the same way, in the order of the trees.
 * `index` is counted down as below.
 */
static bool find_step_of_reduce(const mscclpp_schedule_t *schedule, uint32_t node, uint64_t index,
                                mscclpp_step_t *step_p)
{
    mscclpp_dev_trees_t place = {.nnodes = schedule->nodes, .node = node, .root = schedule->root, .tree = 1};
    const uint32_t first_tree =
        mscclpp_dev_trees_child(&place, 0) == MSCCLPP_DEV_TREES_NONE && schedule->nodes > 2 ? 1 : 0;
    uint32_t i, parent, half;

    for (half = 0; half < 2; ++half) {
        place.tree = half == 0 ? first_tree : 1 - first_tree;
        for (i = 0; i < MSCCLPP_DEV_TREES_CHILDREN; ++i) {
            const uint32_t child = mscclpp_dev_trees_child(&place, i);

            if (child != MSCCLPP_DEV_TREES_NONE && index-- == 0) {
                return mscclpp_step_set(step_p, MSCCLPP_STEP_BEFORE, child, place.tree, 1) &&
                       mscclpp_step_set_slot(step_p, 0, place.tree * MSCCLPP_DEV_TREES_CHILDREN + i, true);
            }
        }
        parent = mscclpp_dev_trees_parent(&place);
        if (parent != MSCCLPP_DEV_TREES_NONE && index-- == 0) {
            const mscclpp_dev_trees_t above = {
                .nnodes = schedule->nodes, .node = parent, .root = schedule->root, .tree = place.tree};

            i = mscclpp_dev_trees_child(&above, 0) == node ? 0 : 1;
            return mscclpp_step_set(step_p, MSCCLPP_STEP_SEND, parent, place.tree, 1) &&
                   mscclpp_step_set_slot(step_p, half, place.tree * MSCCLPP_DEV_TREES_CHILDREN + i, true);
        }
    }
    return false;
}

/*
 * Finds a step of a broadcast of two halves, one over each tree. A node begins with the half that it passes on. To wait
 * for the other one first would be a deadlock: its parent in that tree may wait for this node's half. Goes through the
 * steps that the node has, and counts `index` down at each, so the step wanted is that at which it is 0.
 */
bool mscclpp_schedule_trees(const mscclpp_schedule_t *schedule, uint32_t node, uint64_t index, mscclpp_step_t *step_p)
{
    mscclpp_dev_trees_t place = {.nnodes = schedule->nodes, .node = node, .root = schedule->root, .tree = 1};
    const uint32_t first_tree = passes_on(&place) ? 1 : 0;
    uint32_t i, child, half;

    if (schedule->pattern == MSCCLPP_DEV_REDUCE) {
        return find_step_of_reduce(schedule, node, index, step_p);
    }
    for (half = 0; half < 2; ++half) {
        uint32_t parent;

        place.tree = half == 0 ? first_tree : 1 - first_tree;
        parent = mscclpp_dev_trees_parent(&place);
        if (parent != MSCCLPP_DEV_TREES_NONE && index-- == 0) {
            return mscclpp_step_set(step_p, MSCCLPP_STEP_STORE, parent, place.tree, 1) &&
                   mscclpp_step_set_slot(step_p, half, place.tree, true);
        }
        for (i = 0; i < MSCCLPP_DEV_TREES_CHILDREN; ++i) {
            child = mscclpp_dev_trees_child(&place, i);
            if (child != MSCCLPP_DEV_TREES_NONE && index-- == 0) {
                return mscclpp_step_set(step_p, MSCCLPP_STEP_SEND, child, place.tree, 1) &&
                       mscclpp_step_set_slot(step_p, node == schedule->root ? 0 : 1, place.tree, true);
            }
        }
    }
    return false;
}
