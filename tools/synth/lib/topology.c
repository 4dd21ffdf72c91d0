/* Making topologies, and their simple properties. */
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
    bool all = true;

    for (int rank = 0; rank < topology->ranks; ++rank) {
        all = all && topology->gpu[rank][0] != '\0';
    }
    return all;
}

void synth_topology_link(synth_topology_t *topology, int from, int to, int capacity)
{
    int *at = &topology->link_between[from][to];

    if (*at < 0) {
        *at = topology->link_count++;
        topology->links[*at] = (synth_link_t){from, to, 0};
    }
    topology->links[*at].capacity += capacity;
}

bool synth_topology_group(synth_topology_t *topology, const char *name, int capacity, const int *links, int count)
{
    synth_group_t *group = &topology->groups[topology->group_count];

    group->links = malloc(sizeof(*links) * (count > 0 ? count : 1));
    if (group->links == NULL) {
        return false;
    }
    memcpy(group->links, links, sizeof(*links) * count);
    snprintf(group->name, sizeof(group->name), "%s", name);
    group->capacity = capacity;
    group->count = count;
    ++topology->group_count;
    return true;
}

synth_topology_t *synth_topology_transposed(const synth_topology_t *topology)
{
    synth_topology_t *turned = synth_topology_new(topology->name, topology->ranks);

    if (turned == NULL) {
        return NULL;
    }
    /* Links keep their positions, so groups hold as they are. */
    for (int i = 0; i < topology->link_count; ++i) {
        const synth_link_t *link = &topology->links[i];

        synth_topology_link(turned, link->to, link->from, link->capacity);
    }
    for (int i = 0; i < topology->group_count; ++i) {
        const synth_group_t *group = &topology->groups[i];

        if (!synth_topology_group(turned, group->name, group->capacity, group->links, group->count)) {
            synth_topology_free(turned);
            return NULL;
        }
    }
    memcpy(turned->node_of, topology->node_of, sizeof(turned->node_of));
    turned->node_count = topology->node_count;
    turned->unit_gbps = topology->unit_gbps;
    turned->alpha_us = topology->alpha_us;
    return turned;
}

void synth_topology_distances(const synth_topology_t *topology, int distance[][SYNTH_MAX_RANKS])
{
    enum { FAR = 1 << 20 };
    int n = topology->ranks;

    for (int a = 0; a < n; ++a) {
        for (int b = 0; b < n; ++b) {
            distance[a][b] = a == b ? 0 : topology->link_between[a][b] >= 0 ? 1 : FAR;
        }
    }
    for (int via = 0; via < n; ++via) {
        for (int a = 0; a < n; ++a) {
            for (int b = 0; b < n; ++b) {
                if (distance[a][via] + distance[via][b] < distance[a][b]) {
                    distance[a][b] = distance[a][via] + distance[via][b];
                }
            }
        }
    }
}

int synth_topology_diameter(const synth_topology_t *topology)
{
    int distance[SYNTH_MAX_RANKS][SYNTH_MAX_RANKS], most = 0;

    synth_topology_distances(topology, distance);
    for (int a = 0; a < topology->ranks; ++a) {
        for (int b = 0; b < topology->ranks; ++b) {
            most = distance[a][b] > most ? distance[a][b] : most;
        }
    }
    return most;
}

bool synth_topology_connected(const synth_topology_t *topology, char *why, size_t why_size)
{
    int distance[SYNTH_MAX_RANKS][SYNTH_MAX_RANKS];

    synth_topology_distances(topology, distance);
    for (int a = 0; a < topology->ranks; ++a) {
        for (int b = 0; b < topology->ranks; ++b) {
            if (distance[a][b] < topology->ranks) {
                continue;
            }
            if (distance[b][a] < topology->ranks) {
                snprintf(why, why_size,
                         "rank %d does not reach rank %d, but rank %d reaches rank %d: a link is missing, or one is "
                         "written the wrong way round (from, then to)",
                         a, b, b, a);
            } else {
                snprintf(why, why_size, "rank %d and rank %d are not connected; every rank has to reach every other", a,
                         b);
            }
            return false;
        }
    }
    return true;
}

int synth_topology_asymmetry(const synth_topology_t *topology)
{
    int count = 0;

    for (int a = 0; a < topology->ranks; ++a) {
        for (int b = a + 1; b < topology->ranks; ++b) {
            int there = topology->link_between[a][b], back = topology->link_between[b][a];

            count +=
                (there < 0 ? 0 : topology->links[there].capacity) != (back < 0 ? 0 : topology->links[back].capacity);
        }
    }
    return count;
}
