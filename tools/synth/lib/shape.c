/* Which machines are regular enough for formulas. */
#include <string.h>

#include "tools/synth/lib/closed.h"

/* Whether a group holds all links out of one rank, or into it, that lead to other nodes, or to all ranks. */
static bool is_port(const synth_topology_t *topology, const synth_group_t *group, bool far, bool out, int *rank_p)
{
    int count = 0;

    *rank_p = out ? topology->links[group->links[0]].from : topology->links[group->links[0]].to;
    for (int k = 0; k < group->count; ++k) {
        const synth_link_t *link = &topology->links[group->links[k]];

        if ((out ? link->from : link->to) != *rank_p ||
            (far && topology->node_of[link->from] == topology->node_of[link->to])) {
            return false;
        }
    }
    for (int i = 0; i < topology->link_count; ++i) {
        const synth_link_t *link = &topology->links[i];

        count += (out ? link->from : link->to) == *rank_p &&
                 (!far || topology->node_of[link->from] != topology->node_of[link->to]);
    }
    return count == group->count;
}

/* One port out of each rank and one into it, all of one capacity, or no groups at all: 0 then; -1 for anything else. */
static int ports(const synth_topology_t *topology, bool far)
{
    uint64_t seen[2] = {0, 0}, all = UINT64_MAX >> (64 - topology->ranks);

    if (topology->group_count == 0) {
        return 0;
    }
    for (int i = 0; i < topology->group_count; ++i) {
        const synth_group_t *group = &topology->groups[i];
        int rank, way;

        way = is_port(topology, group, far, true, &rank) && (seen[1] >> rank & 1) == 0    ? 1
              : is_port(topology, group, far, false, &rank) && (seen[0] >> rank & 1) == 0 ? 0
                                                                                          : -1;
        if (way < 0 || group->capacity != topology->groups[0].capacity) {
            return -1;
        }
        seen[way] |= UINT64_C(1) << rank;
    }
    return seen[0] == all && seen[1] == all ? topology->groups[0].capacity : -1;
}

/* The capacity of the links of all pairs that are on one node, or on two and of one position; 0 if they differ. */
static int common_capacity(const synth_topology_t *topology, const synth_shape_t *shape, bool inside)
{
    int n = shape->nodes * shape->gpus, capacity = -1;

    for (int a = 0; a < n; ++a) {
        for (int b = 0; b < n; ++b) {
            bool near = a / shape->gpus == b / shape->gpus, rail = a % shape->gpus == b % shape->gpus;
            int link = topology->at[shape->at[a]][shape->at[b]];
            int here = link >= 0 ? topology->links[link].capacity : 0;

            if (a == b || (!near && !rail && here == 0)) {
                continue;
            }
            if ((!near && !rail) || (near == inside && capacity >= 0 && here != capacity)) {
                return 0;
            }
            capacity = near == inside ? here : capacity;
        }
    }
    return capacity;
}

static int smaller(int port, int links)
{
    return port > 0 && port < links ? port : links;
}

/* Puts ranks where they belong: by node, and by the rank of the first node that each is joined to. */
static bool place(const synth_topology_t *topology, synth_shape_t *shape)
{
    int count[SYNTH_MAX_RANKS] = {0}, first = 0;

    shape->nodes = topology->node_count;
    shape->gpus = topology->ranks / topology->node_count;
    if (shape->nodes * shape->gpus != topology->ranks) {
        return false;
    }
    memset(shape->at, -1, sizeof(shape->at));
    for (int rank = 0; rank < topology->ranks; ++rank) {
        if (topology->node_of[rank] == 0) {
            if (first == shape->gpus) {
                return false;
            }
            shape->at[first++] = rank;
        }
        ++count[topology->node_of[rank]];
    }
    for (int rank = 0; rank < topology->ranks; ++rank) {
        int position = -1;

        if (count[topology->node_of[rank]] != shape->gpus) {
            return false;
        }
        for (int g = 0; topology->node_of[rank] != 0 && g < shape->gpus; ++g) {
            position = topology->at[rank][shape->at[g]] >= 0 ? g : position;
        }
        if (topology->node_of[rank] != 0) {
            if (position < 0) {
                return false;
            }
            shape->at[topology->node_of[rank] * shape->gpus + position] = rank;
        }
    }
    for (int i = 0; i < topology->ranks; ++i) { /* two at one place leave another one empty */
        if (shape->at[i] < 0) {
            return false;
        }
    }
    return true;
}

void synth_shape(const synth_topology_t *topology, synth_shape_t *shape)
{
    int port = ports(topology, false), rail;

    memset(shape, 0, sizeof(*shape));
    shape->nodes = 1;
    shape->gpus = topology->ranks;
    for (int rank = 0; rank < topology->ranks; ++rank) {
        shape->at[rank] = rank;
    }
    shape->inside = common_capacity(topology, shape, true);
    if (shape->inside > 0 && port >= 0) {
        shape->kind = SYNTH_COMPLETE;
        shape->port = smaller(port, shape->inside * (topology->ranks - 1));
        return;
    }
    port = ports(topology, true);
    if (topology->node_count < 2 || port < 0 || !place(topology, shape) || shape->gpus < 2) {
        return;
    }
    shape->inside = common_capacity(topology, shape, true);
    rail = common_capacity(topology, shape, false);
    shape->port = smaller(port, rail * (shape->nodes - 1));
    if (shape->inside > 0 && rail > 0 && shape->inside % shape->port == 0) {
        shape->kind = SYNTH_NODES;
    }
}
