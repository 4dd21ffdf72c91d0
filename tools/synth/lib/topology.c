/* Makes topologies, and computes their simple properties. */
#include "tools/synth/lib/topology.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

synth_topology_t *synth_topology_new(const char *name, int ranks)
{
    synth_topology_t *topology = calloc(1, sizeof(*topology));

    if (topology == NULL) {
        return NULL;
    }
    topology->link_between = malloc(SYNTH_MAX_RANKS * sizeof(*topology->link_between));
    topology->links = calloc(SYNTH_MAX_LINKS, sizeof(*topology->links));
    topology->groups = calloc(SYNTH_MAX_GROUPS, sizeof(*topology->groups));
    if (topology->link_between == NULL || topology->links == NULL || topology->groups == NULL) {
        synth_topology_free(topology);
        return NULL;
    }
    memset(topology->link_between, -1, SYNTH_MAX_RANKS * sizeof(*topology->link_between));
    snprintf(topology->name, sizeof(topology->name), "%s", name);
    topology->ranks = ranks;
    topology->node_count = 1;
    return topology;
}

void synth_topology_free(synth_topology_t *topology)
{
    if (topology == NULL) {
        return;
    }
    for (int i = 0; i < topology->group_count; ++i) {
        free(topology->groups[i].links);
    }
    free(topology->groups);
    free(topology->links);
    free(topology->link_between);
    free(topology);
}

bool synth_topology_has_gpus(const synth_topology_t *topology)
{
    bool are_known = true;

    for (int rank = 0; rank < topology->ranks; ++rank) {
        are_known = are_known && topology->gpu[rank][0] != '\0';
    }
    return are_known;
}

void synth_topology_add_link(synth_topology_t *topology, int from, int to, int capacity)
{
    int *position_p = &topology->link_between[from][to];

    if (*position_p < 0) {
        *position_p = topology->link_count++;
        topology->links[*position_p] = (synth_link_t){.from = from, .to = to};
    }
    topology->links[*position_p].capacity += capacity;
}

bool synth_topology_add_group(synth_topology_t *topology, const char *name, int capacity, const int *links, int count)
{
    synth_group_t *group = &topology->groups[topology->group_count];

    group->links = malloc(sizeof(*links) * (size_t)count);
    if (group->links == NULL) {
        return false;
    }
    memcpy(group->links, links, sizeof(*links) * (size_t)count);
    snprintf(group->name, sizeof(group->name), "%s", name);
    group->capacity = capacity;
    group->count = count;
    ++topology->group_count;
    return true;
}

/* Copies all that does not depend on the direction of links: groups, nodes, and the units of capacities and times. */
synth_topology_t *synth_topology_transposed(const synth_topology_t *topology)
{
    synth_topology_t *transposed = synth_topology_new(topology->name, topology->ranks);

    if (transposed == NULL) {
        return NULL;
    }
    /*
     * Each pair of ranks has at most one link in each direction, so links keep their positions, and groups can be
     * copied unchanged.
     */
    for (int i = 0; i < topology->link_count; ++i) {
        const synth_link_t *link = &topology->links[i];

        synth_topology_add_link(transposed, link->to, link->from, link->capacity);
    }
    for (int i = 0; i < topology->group_count; ++i) {
        const synth_group_t *group = &topology->groups[i];

        if (!synth_topology_add_group(transposed, group->name, group->capacity, group->links, group->count)) {
            synth_topology_free(transposed);
            return NULL;
        }
    }
    memcpy(transposed->node_of, topology->node_of, sizeof(transposed->node_of));
    transposed->node_count = topology->node_count;
    transposed->unit_gbps = topology->unit_gbps;
    transposed->alpha_us = topology->alpha_us;
    return transposed;
}

void synth_topology_distances(const synth_topology_t *topology, int distance[][SYNTH_MAX_RANKS])
{
    enum { FAR = 1 << 20 }; /* more than any path */
    int ranks = topology->ranks;

    for (int from = 0; from < ranks; ++from) {
        for (int to = 0; to < ranks; ++to) {
            distance[from][to] = from == to ? 0 : topology->link_between[from][to] >= 0 ? 1 : FAR;
        }
    }
    for (int via = 0; via < ranks; ++via) { /* Floyd's algorithm: paths through more and more ranks */
        for (int from = 0; from < ranks; ++from) {
            for (int to = 0; to < ranks; ++to) {
                if (distance[from][via] + distance[via][to] < distance[from][to]) {
                    distance[from][to] = distance[from][via] + distance[via][to];
                }
            }
        }
    }
}

int synth_topology_diameter(const synth_topology_t *topology)
{
    int distance[SYNTH_MAX_RANKS][SYNTH_MAX_RANKS], longest = 0;

    synth_topology_distances(topology, distance);
    for (int from = 0; from < topology->ranks; ++from) {
        for (int to = 0; to < topology->ranks; ++to) {
            longest = distance[from][to] > longest ? distance[from][to] : longest;
        }
    }
    return longest;
}

/*
 * Says so in the message if a rank is not reached in one direction only: a link was probably written the wrong way
 * round.
 */
bool synth_topology_connected(const synth_topology_t *topology, char *reason, size_t reason_size)
{
    int distance[SYNTH_MAX_RANKS][SYNTH_MAX_RANKS];

    synth_topology_distances(topology, distance);
    for (int rank = 0; rank < topology->ranks; ++rank) {
        for (int other = 0; other < topology->ranks; ++other) {
            if (distance[rank][other] < topology->ranks) {
                continue;
            }
            if (distance[other][rank] < topology->ranks) {
                snprintf(reason, reason_size,
                         "rank %d does not reach rank %d, but rank %d reaches rank %d: a link is missing, or one is "
                         "written the wrong way round (from, then to)",
                         rank, other, other, rank);
            } else {
                snprintf(reason, reason_size,
                         "rank %d and rank %d are not connected; every rank has to reach every other", rank, other);
            }
            return false;
        }
    }
    return true;
}

int synth_topology_asymmetry(const synth_topology_t *topology)
{
    int count = 0;

    for (int rank = 0; rank < topology->ranks; ++rank) {
        for (int other = rank + 1; other < topology->ranks; ++other) {
            int link = topology->link_between[rank][other], back = topology->link_between[other][rank];

            count += (link < 0 ? 0 : topology->links[link].capacity) != (back < 0 ? 0 : topology->links[back].capacity);
        }
    }
    return count;
}
