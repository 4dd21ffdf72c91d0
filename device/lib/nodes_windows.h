/*
 * An exchange of each node with all others in windows, for blocks of data that differ from node to node. The other
 * nodes are numbered by their distance: a node sends to those after it, and receives from those before it, in cyclic
 * order. Distance 0 is the node itself. A window has MSCCLPP_DEV_COLL_NODES_WINDOW consecutive distances. A pass
 * consists of all W windows, one after another, and moves one tile of each block of data. Turn t is window t % W of
 * pass t / W.
 *
 * The turns use SETS sets of slots in a cycle, so different nodes write to a slot. A node that has taken turn t returns
 * credits to the nodes that will send to it in turn t + SETS. Those nodes wait for the credits before they send.
 *
 * Each node gives turn t + 1, takes turn t, and then returns the credits. So both nodes of a pair know the order of all
 * signals between them. Each signal has a number, counted from 1 in each call:
 *
 *   1. The nodes meet: one signal to each node that is 1, 2, 4 ... nodes after.
 *   2. The data of the turns in which the other node is in the window. Between them, the credits: the one for turn t
 *      follows the data of turn t - SETS + 1 and precedes those of turn t - SETS + 2.
 *   3. The nodes meet again.
 */
#ifndef MSCCLPP_DEVICE_LIB_NODES_WINDOWS_H
#define MSCCLPP_DEVICE_LIB_NODES_WINDOWS_H

#include "device/lib/nodes_trees.h"
#include "device/shim/shim.h"
#include "device/types/coll_nodes.h"

/* An exchange, as one block of a node's grid sees it. */
typedef struct {
    uint32_t nnodes;
    uint32_t node;
    uint32_t sender; /* the only node that sends; MSCCLPP_DEV_TREES_NONE: all nodes send */
    uint64_t passes;
} mscclpp_dev_windows_t;

/* Returns true if node `node` sends data to the other nodes. */
MSCCLPP_DEV bool mscclpp_dev_windows_sends(const mscclpp_dev_windows_t *windows, uint32_t node)
{
    return windows->sender == MSCCLPP_DEV_TREES_NONE || windows->sender == node;
}

/* Returns the number of turns up to turn `last` in which node `to` is in the window of node `from`. */
MSCCLPP_DEV uint64_t mscclpp_dev_windows_count_pairings(const mscclpp_dev_windows_t *windows, uint32_t from,
                                                        uint32_t to, uint64_t last)
{
    const uint32_t distance = MSCCLPP_DEV_NODES_BEHIND(windows->nnodes, to, from);
    const uint64_t window = distance / MSCCLPP_DEV_COLL_NODES_WINDOW;
    const uint64_t passes = last < window ? 0 : (last - window) / MSCCLPP_DEV_COLL_NODES_WINDOWS(windows->nnodes) + 1;

    return passes < windows->passes ? passes : windows->passes;
}

/* Returns the number of signals with data from node `from` in turns up to turn `last`. */
MSCCLPP_DEV uint64_t mscclpp_dev_windows_count_data(const mscclpp_dev_windows_t *windows, uint32_t from, uint64_t last)
{
    return mscclpp_dev_windows_sends(windows, from)
               ? mscclpp_dev_windows_count_pairings(windows, from, windows->node, last)
               : 0;
}

/* Returns the number of credits from node `from` for turns up to turn `last`. The first SETS turns need no credits. */
MSCCLPP_DEV uint64_t mscclpp_dev_windows_count_credits(const mscclpp_dev_windows_t *windows, uint32_t from,
                                                       uint64_t last)
{
    if (!mscclpp_dev_windows_sends(windows, windows->node) || last < MSCCLPP_DEV_COLL_NODES_WINDOW_SETS) {
        return 0;
    }
    return mscclpp_dev_windows_count_pairings(windows, windows->node, from, last) -
           mscclpp_dev_windows_count_pairings(windows, windows->node, from, MSCCLPP_DEV_COLL_NODES_WINDOW_SETS - 1);
}

/* Returns the number of the signal with which the data of a turn come from node `from`, which sends in this turn. */
MSCCLPP_DEV uint64_t mscclpp_dev_windows_data_number(const mscclpp_dev_windows_t *windows, uint32_t from, uint64_t turn)
{
    return (mscclpp_dev_trees_signals_at_meeting(windows->nnodes, from, windows->node) ? 1 : 0) +
           mscclpp_dev_windows_count_data(windows, from, turn) +
           mscclpp_dev_windows_count_credits(windows, from, turn + MSCCLPP_DEV_COLL_NODES_WINDOW_SETS - 2);
}

/*
 * Returns the number of the signal by which node `from` returns the credit for a turn, from turn SETS on. This node
 * sends to node `from` in that turn.
 */
MSCCLPP_DEV uint64_t mscclpp_dev_windows_credit_number(const mscclpp_dev_windows_t *windows, uint32_t from,
                                                       uint64_t turn)
{
    return (mscclpp_dev_trees_signals_at_meeting(windows->nnodes, from, windows->node) ? 1 : 0) +
           mscclpp_dev_windows_count_data(windows, from, turn - MSCCLPP_DEV_COLL_NODES_WINDOW_SETS + 1) +
           mscclpp_dev_windows_count_credits(windows, from, turn);
}

/* Returns the number of signals from node `from` to this node in a call; 0 if `from` is this node. */
MSCCLPP_DEV uint64_t mscclpp_dev_windows_count_signals(const mscclpp_dev_windows_t *windows, uint32_t from)
{
    if (windows->passes == 0 || from == windows->node) {
        return 0;
    }
    return (mscclpp_dev_trees_signals_at_meeting(windows->nnodes, from, windows->node) ? 2 : 0) +
           mscclpp_dev_windows_count_data(windows, from, UINT64_MAX) +
           mscclpp_dev_windows_count_credits(windows, from, UINT64_MAX);
}

#endif
