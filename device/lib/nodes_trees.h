/*
 * Two binary trees of the same nodes and the same root, for data that go from the root to all other nodes. Each tree
 * carries half of the data. A node that passes data on in one tree is a leaf of the other, so that no node sends more
 * than it receives. See P. Sanders, J. Speck and J. Larsson Traff, Two-Tree Algorithms for Full Bandwidth Broadcast,
 * Reduction and Scan, Parallel Computing 35 (2009).
 *
 * Nodes are numbered from the root, which is 0. In the first tree, a node whose number has k zero bits at the end is at
 * height k, and odd numbers are leaves. The second tree is the mirror image of the first tree, and even numbers are
 * leaves. If the number of nodes is even, the mirror image has all nodes but the last, and the last node stands between
 * the root and the mirror image.
 *
 * The two ends of a branch are 2^i numbers apart, for some i. So the nodes that meet (below) include all neighbours in
 * both trees, whatever the root.
 */
#ifndef MSCCLPP_DEVICE_LIB_NODES_TREES_H
#define MSCCLPP_DEVICE_LIB_NODES_TREES_H

#include "device/shim/shim.h"
#include "device/types/nodes.h"

/* Stands for a parent or a child that does not exist. */
#define MSCCLPP_DEV_TREES_NONE UINT32_MAX
#define MSCCLPP_DEV_TREES_CHILDREN 2u

/* A node's place in one of the trees. */
typedef struct {
    uint32_t nnodes;
    uint32_t node;
    uint32_t root; /* the root's node */
    uint32_t tree; /* 0 or 1 */
} mscclpp_dev_tree_place_t;

/*
 * Returns the parent of a number other than 0 in the first tree of `nnodes` nodes. The parent is one level higher: the
 * lowest bit that is set moves up by one place. If no node has that number, the bit is only cleared.
 */
MSCCLPP_DEV uint32_t mscclpp_dev_first_tree_parent(uint32_t nnodes, uint32_t number)
{
    const uint32_t bit = number & (~number + 1);
    const uint32_t up = (number ^ bit) | (bit << 1);

    return up < nnodes ? up : number ^ bit;
}

/*
 * Returns child 0 or 1 of a number in the first tree, or NONE if there is no such child. Let b be the lowest bit that
 * is set in the number. Child 0 is the number minus b/2. Child 1 is the number plus the first of b/2, b/4, ..., 1 for
 * which the sum is below `nnodes`, if there is one. Odd numbers have no children. Number 0 has only child 0, which is
 * the largest power of 2 below `nnodes`, or none if there is only one node.
 */
MSCCLPP_DEV uint32_t mscclpp_dev_first_tree_child(uint32_t nnodes, uint32_t number, uint32_t child)
{
    uint32_t distance = (number & (~number + 1)) / 2;

    if (number == 0) {
        for (distance = 1; 2 * distance < nnodes; distance *= 2) {
        }
        return child == 0 && nnodes > 1 ? distance : MSCCLPP_DEV_TREES_NONE;
    }
    while (child == 1 && distance > 0 && number + distance >= nnodes) {
        distance /= 2;
    }
    return distance == 0 ? MSCCLPP_DEV_TREES_NONE : child == 0 ? number - distance : number + distance;
}

/*
 * Returns M, the number of nodes in the mirrored tree: all nodes, or all but one if the number of nodes is even. Number
 * v is number M - v in the mirrored tree. If the tree has all nodes, its root is number 0, which stays 0. Otherwise its
 * root is the last node, number M, to which number 0 sends.
 */
MSCCLPP_DEV uint32_t mscclpp_dev_trees_count_mirrored(uint32_t nnodes)
{
    return nnodes % 2 == 0 ? nnodes - 1 : nnodes;
}

/*
 * Returns the node that this node receives from, or MSCCLPP_DEV_TREES_NONE at the root. In the second tree, the parent
 * is computed in the first tree of the mirrored numbers, and mirrored back. If the number of nodes is even, the last
 * node receives from the root.
 */
MSCCLPP_DEV uint32_t mscclpp_dev_trees_parent(const mscclpp_dev_tree_place_t *place)
{
    const uint32_t nnodes = place->nnodes, mirrored_nodes = mscclpp_dev_trees_count_mirrored(nnodes);
    const uint32_t number = MSCCLPP_DEV_NODES_BEHIND(nnodes, place->node, place->root);
    uint32_t up = 0;

    if (number == 0) {
        return MSCCLPP_DEV_TREES_NONE;
    }
    if (place->tree == 0) {
        up = mscclpp_dev_first_tree_parent(nnodes, number);
    } else if (number != mirrored_nodes) {
        up = (mirrored_nodes - mscclpp_dev_first_tree_parent(mirrored_nodes, mirrored_nodes - number)) % nnodes;
    }
    return MSCCLPP_DEV_NODES_AHEAD(nnodes, place->root, up);
}

/*
 * Returns child 0 or 1 of this node, to which this node sends, or MSCCLPP_DEV_TREES_NONE if there is no such child. In
 * the second tree, the child is computed with mirrored numbers, like the parent.
 */
MSCCLPP_DEV uint32_t mscclpp_dev_trees_child(const mscclpp_dev_tree_place_t *place, uint32_t child)
{
    const uint32_t nnodes = place->nnodes, mirrored_nodes = mscclpp_dev_trees_count_mirrored(nnodes);
    const uint32_t number = MSCCLPP_DEV_NODES_BEHIND(nnodes, place->node, place->root);
    uint32_t down;

    if (place->tree == 0) {
        down = mscclpp_dev_first_tree_child(nnodes, number, child);
    } else if (number == 0 && nnodes % 2 == 0) {
        down = child == 0 ? mirrored_nodes : MSCCLPP_DEV_TREES_NONE;
    } else {
        down = mscclpp_dev_first_tree_child(mirrored_nodes, number == 0 ? 0 : mirrored_nodes - number, child);
        down = down == MSCCLPP_DEV_TREES_NONE ? down : mirrored_nodes - down;
    }
    return down == MSCCLPP_DEV_TREES_NONE ? down : MSCCLPP_DEV_NODES_AHEAD(nnodes, place->root, down);
}

/* Returns 0 if this node is child 0 of its parent, and 1 if it is child 1. This node is not the root. */
MSCCLPP_DEV uint32_t mscclpp_dev_trees_child_index(const mscclpp_dev_tree_place_t *place)
{
    mscclpp_dev_tree_place_t parent = *place;

    parent.node = mscclpp_dev_trees_parent(place);
    return mscclpp_dev_trees_child(&parent, 0) == place->node ? 0 : 1;
}

/*
 * Returns true if node `from` signals node `to` when all nodes meet. At a meeting, each node signals the nodes that are
 * 1, 2, 4 ... nodes after it, and waits for the nodes that are as far before it.
 */
MSCCLPP_DEV bool mscclpp_dev_trees_signals_at_meeting(uint32_t nnodes, uint32_t from, uint32_t to)
{
    const uint32_t distance = MSCCLPP_DEV_NODES_BEHIND(nnodes, to, from);

    return distance != 0 && (distance & (distance - 1)) == 0;
}

/* Returns true if this node exchanges data or credits with node `other` in the tree. */
MSCCLPP_DEV bool mscclpp_dev_trees_is_neighbor(const mscclpp_dev_tree_place_t *place, uint32_t other)
{
    return other == mscclpp_dev_trees_parent(place) || other == mscclpp_dev_trees_child(place, 0) ||
           other == mscclpp_dev_trees_child(place, 1);
}

/*
 * Returns the number of signals from node `from` to this node in an operation of `turns` turns. The nodes meet at the
 * beginning and at the end of the operation.
 */
MSCCLPP_DEV uint64_t mscclpp_dev_trees_count_signals(const mscclpp_dev_tree_place_t *place, uint32_t from,
                                                     uint64_t turns)
{
    if (turns == 0) {
        return 0;
    }
    return (mscclpp_dev_trees_signals_at_meeting(place->nnodes, from, place->node) ? 2 : 0) +
           (mscclpp_dev_trees_is_neighbor(place, from) ? turns : 0);
}

#endif
