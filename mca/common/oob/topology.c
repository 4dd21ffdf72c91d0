#include "mca/common/oob/topology.h"

static bool on_one_node(const int *leaders, int a, int b, int ranks_per_node)
{
    return leaders[a] == leaders[b] &&
           (ranks_per_node == 0 || (ranks_per_node > 0 ? a / ranks_per_node == b / ranks_per_node
                                                       : a % -ranks_per_node == b % -ranks_per_node));
}

void mscclpp_nodes_join_jobs(int *leaders, const uint64_t *jobs, const uint64_t *hosts, int size)
{
    bool leads[MSCCLPP_DEV_MAX_RANKS];
    int i, j;

    for (i = 0; i < size; ++i) {
        leads[i] = leaders[i] == i;
        if (leads[i]) {
            for (j = 0; j < i && (jobs[j] == jobs[i] || hosts[j] != hosts[i] || hosts[i] == 0); ++j) {
            }
            leaders[i] = j < i ? leaders[j] : i;
        } else if (leaders[i] >= 0 && leaders[i] < i && leads[leaders[i]]) {
            leaders[i] = leaders[leaders[i]];
        }
    }
}

bool mscclpp_nodes_map(const int *leaders, int size, int rank, int ranks_per_node, mscclpp_nodes_t *nodes)
{
    int sizes[MSCCLPP_DEV_MAX_RANKS] = {0}, i, j;

    nodes->count = 0;
    nodes->size = 0;
    nodes->one_host = true;
    for (i = 0; i < size; ++i) {
        /* A leader is on the node that it leads, and none of its ranks comes before it. */
        if (leaders[i] < 0 || leaders[i] > i || leaders[leaders[i]] != leaders[i]) {
            return false;
        }
        nodes->one_host = nodes->one_host && leaders[i] == leaders[0];
        for (j = 0; j < i && !on_one_node(leaders, i, j, ranks_per_node); ++j) {
        }
        if (j == i) {
            nodes->owners[nodes->count] = -1;
        }
        nodes->node_of[i] = j == i ? nodes->count++ : nodes->node_of[j];
        if (i == rank) {
            nodes->rank = sizes[nodes->node_of[i]];
        }
        ++sizes[nodes->node_of[i]];
    }
    nodes->node = nodes->node_of[rank];
    nodes->shards = nodes->most = sizes[0];
    for (i = 0; i < nodes->count; ++i) {
        nodes->shards = sizes[i] < nodes->shards ? sizes[i] : nodes->shards;
        nodes->most = sizes[i] > nodes->most ? sizes[i] : nodes->most;
        sizes[i] = 0;
    }
    for (i = 0; i < size; ++i) {
        const int node = nodes->node_of[i];

        if (sizes[node]++ == nodes->rank) {
            nodes->owners[node] = i;
        }
        if (node == nodes->node) {
            nodes->members[nodes->size++] = i;
        }
    }
    return true;
}
