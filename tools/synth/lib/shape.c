/* Determines which machines are regular enough for formulas. */
#include <string.h>

#include "tools/synth/lib/closed.h"

/*
 * Returns true if a group consists of all links that lead out of one rank, or into it if `is_outgoing` is false. If
 * `only_between_nodes` is true, the group must consist of all such links to or from other nodes. *rank_p is then that
 * rank, and is otherwise undefined. The group must not be empty.
 */
static bool is_port(const synth_topology_t *topology, const synth_group_t *group, bool only_between_nodes,
                    bool is_outgoing, int *rank_p)
{
    int count = 0;

    *rank_p = is_outgoing ? topology->links[group->links[0]].from : topology->links[group->links[0]].to;
    for (int i = 0; i < group->count; ++i) {
        const synth_link_t *link = &topology->links[group->links[i]];

        if ((is_outgoing ? link->from : link->to) != *rank_p ||
            (only_between_nodes && topology->node_of[link->from] == topology->node_of[link->to])) {
            return false;
        }
    }
    for (int i = 0; i < topology->link_count; ++i) {
        const synth_link_t *link = &topology->links[i];

        count += (is_outgoing ? link->from : link->to) == *rank_p &&
                 (!only_between_nodes || topology->node_of[link->from] != topology->node_of[link->to]);
    }
    return count == group->count;
}

/*
 * Returns the common capacity of the ports. Every rank must have one outgoing and one incoming port, all of the same
 * capacity, and there may be no other groups. Returns 0 if there are no groups at all, and -1 in all other cases. If
 * `only_between_nodes` is true, a port contains only the links to other nodes. A group that could be either an outgoing
 * or an incoming port counts as the one that is still missing.
 */
static int port_capacity(const synth_topology_t *topology, bool only_between_nodes)
{
    uint64_t ranks_seen[2] = {0, 0}, all_ranks = UINT64_MAX >> (64 - topology->ranks);

    if (topology->group_count == 0) {
        return 0;
    }
    for (int i = 0; i < topology->group_count; ++i) {
        const synth_group_t *group = &topology->groups[i];
        int rank, direction; /* direction: 1 out of the rank, 0 into it, -1 no port */

        direction = is_port(topology, group, only_between_nodes, true, &rank) && (ranks_seen[1] >> rank & 1) == 0 ? 1
                    : is_port(topology, group, only_between_nodes, false, &rank) && (ranks_seen[0] >> rank & 1) == 0
                        ? 0
                        : -1;
        if (direction < 0 || group->capacity != topology->groups[0].capacity) {
            return -1;
        }
        ranks_seen[direction] |= UINT64_C(1) << rank;
    }
    return ranks_seen[0] == all_ranks && ranks_seen[1] == all_ranks ? topology->groups[0].capacity : -1;
}

/*
 * Returns the common capacity of all links of one kind. With `inside`, these are the links between ranks of one node,
 * and otherwise those between ranks of one position on different nodes. Returns 0 if the capacities differ, if some
 * links are missing, or if there are links of neither kind. Returns -1 if no two ranks could have such a link.
 */
static int common_capacity(const synth_topology_t *topology, const synth_shape_t *shape, bool inside)
{
    int ranks = shape->nodes * shape->gpus, capacity = -1;

    for (int from = 0; from < ranks; ++from) {
        for (int to = 0; to < ranks; ++to) {
            bool is_near = from / shape->gpus == to / shape->gpus, is_rail = from % shape->gpus == to % shape->gpus;
            int link = topology->link_between[shape->rank_of[from]][shape->rank_of[to]];
            int link_capacity = link >= 0 ? topology->links[link].capacity : 0;

            if (from == to || (!is_near && !is_rail && link_capacity == 0)) {
                continue;
            }
            if ((!is_near && !is_rail) || (is_near == inside && capacity >= 0 && link_capacity != capacity)) {
                return 0;
            }
            capacity = is_near == inside ? link_capacity : capacity;
        }
    }
    return capacity;
}

/*
 * Returns how much a rank can send in one round. That is the capacity of its port, or of its links if there is no port
 * or they carry less.
 */
static int port_limit(int port, int links_capacity)
{
    return port > 0 && port < links_capacity ? port : links_capacity;
}

/*
 * Sets `nodes`, `gpus` and `rank_of`. The ranks of node 0 get positions in the order of their numbers. Each other rank
 * gets the position of the rank of node 0 to which it has a link. Returns false if nodes differ in size, if a rank has
 * no such link, or if two ranks of a node get the same position. If a rank has several such links, the last one
 * determines the position. The other links then connect different positions, and for such links common_capacity later
 * refuses the machine.
 */
static bool place_ranks(const synth_topology_t *topology, synth_shape_t *shape)
{
    int node_size[SYNTH_MAX_RANKS] = {0}, placed = 0;

    shape->nodes = topology->node_count;
    shape->gpus = topology->ranks / topology->node_count;
    if (shape->nodes * shape->gpus != topology->ranks) {
        return false;
    }
    memset(shape->rank_of, -1, sizeof(shape->rank_of));
    for (int rank = 0; rank < topology->ranks; ++rank) {
        if (topology->node_of[rank] == 0) {
            if (placed == shape->gpus) {
                return false;
            }
            shape->rank_of[placed++] = rank;
        }
        ++node_size[topology->node_of[rank]];
    }
    if (placed != shape->gpus) {
        return false;
    }
    for (int rank = 0; rank < topology->ranks; ++rank) {
        int position = -1;

        if (node_size[topology->node_of[rank]] != shape->gpus) {
            return false;
        }
        for (int i = 0; topology->node_of[rank] != 0 && i < shape->gpus; ++i) {
            position = topology->link_between[rank][shape->rank_of[i]] >= 0 ? i : position;
        }
        if (topology->node_of[rank] != 0) {
            if (position < 0) {
                return false;
            }
            shape->rank_of[topology->node_of[rank] * shape->gpus + position] = rank;
        }
    }
    for (int i = 0; i < topology->ranks; ++i) { /* if two ranks have one place, another place is empty */
        if (shape->rank_of[i] < 0) {
            return false;
        }
    }
    return true;
}

/* Tries the kinds SYNTH_COMPLETE and then SYNTH_NODES. */
void synth_shape_find(const synth_topology_t *topology, synth_shape_t *shape)
{
    int port = port_capacity(topology, false), rail_capacity;

    memset(shape, 0, sizeof(*shape));
    /* A mesh or a switch is treated as one node with all ranks, whatever nodes the topology has. */
    shape->nodes = 1;
    shape->gpus = topology->ranks;
    for (int rank = 0; rank < topology->ranks; ++rank) {
        shape->rank_of[rank] = rank;
    }
    shape->inside = common_capacity(topology, shape, true);
    if (shape->inside > 0 && port >= 0) {
        shape->kind = SYNTH_COMPLETE;
        shape->port = port_limit(port, shape->inside * (topology->ranks - 1));
        return;
    }
    /*
     * Nodes: only links between nodes may have ports. A link within a node must be a whole number of times as fast as a
     * port, because the formulas use this ratio.
     */
    port = port_capacity(topology, true);
    if (topology->node_count < 2 || port < 0 || !place_ranks(topology, shape) || shape->gpus < 2) {
        return;
    }
    shape->inside = common_capacity(topology, shape, true);
    rail_capacity = common_capacity(topology, shape, false);
    shape->port = port_limit(port, rail_capacity * (shape->nodes - 1));
    if (shape->inside > 0 && rail_capacity > 0 && shape->inside % shape->port == 0) {
        shape->kind = SYNTH_NODES;
    }
}
