#include "mca/common/oob/topology.h"

#include <stdlib.h>
#include <string.h>

/* All arrays are in one allocation. It begins with `node_of`, so mscclpp_nodes_fini frees `node_of`. */
mscclpp_status_t mscclpp_nodes_init(mscclpp_nodes_t *nodes, int size)
{
    enum { ARRAYS = 4 };
    int *arrays = calloc((size_t)size * ARRAYS, sizeof(*arrays));

    memset(nodes, 0, sizeof(*nodes));
    if (arrays == NULL) {
        return MSCCLPP_ERR_NO_MEMORY;
    }
    nodes->node_of = arrays;
    nodes->owners = arrays + size;
    nodes->leaders = arrays + 2 * (size_t)size;
    nodes->work = arrays + 3 * (size_t)size;
    return MSCCLPP_OK;
}

mscclpp_status_t mscclpp_nodes_copy(const mscclpp_nodes_t *nodes, int size, mscclpp_nodes_t *copy)
{
    mscclpp_nodes_t arrays;
    const mscclpp_status_t status = mscclpp_nodes_init(&arrays, size);

    *copy = *nodes;
    copy->node_of = arrays.node_of;
    copy->owners = arrays.owners;
    copy->leaders = arrays.leaders;
    copy->work = arrays.work;
    if (status == MSCCLPP_OK) {
        memcpy(copy->node_of, nodes->node_of, (size_t)size * sizeof(*copy->node_of));
        memcpy(copy->owners, nodes->owners, (size_t)size * sizeof(*copy->owners));
        memcpy(copy->leaders, nodes->leaders, (size_t)size * sizeof(*copy->leaders));
    }
    return status;
}

void mscclpp_nodes_fini(mscclpp_nodes_t *nodes)
{
    free(nodes->node_of);
    memset(nodes, 0, sizeof(*nodes));
}

/*
 * Returns the lowest rank on the node of `rank`. leaders[r] is the lowest rank on the host of rank r. `ranks_per_node`
 * divides hosts into imitated nodes, as in mscclpp_nodes_map. The search ends at `rank` itself at the latest.
 */
static int find_node_leader(const int *leaders, int rank, int ranks_per_node)
{
    int candidate, step;

    if (ranks_per_node == 0) {
        return leaders[rank];
    }
    /*
     * Candidates are the ranks of the same imitated node from its first rank on, whatever their hosts. If
     * `ranks_per_node` is below 0, the distance between two candidates is its absolute value.
     */
    candidate = ranks_per_node > 0 ? rank - rank % ranks_per_node : rank % -ranks_per_node;
    step = ranks_per_node > 0 ? 1 : -ranks_per_node;
    while (candidate < rank && leaders[candidate] != leaders[rank]) {
        candidate += step;
    }
    return candidate;
}

/* Visits the ranks in ascending order, so the leaders of all lower ranks are final when a rank is visited. */
void mscclpp_nodes_join_jobs(mscclpp_nodes_t *nodes, const uint64_t *jobs, const uint64_t *hosts, int size)
{
    int *leaders = nodes->leaders, *was_leader = nodes->work;
    int i, j;

    /* With a single job, the leaders are correct already. */
    for (i = 1; i < size && jobs[i] == jobs[0]; ++i) {
    }
    if (i >= size) {
        return;
    }
    for (i = 0; i < size; ++i) {
        was_leader[i] = leaders[i] == i;
        if (was_leader[i]) {
            /* Looks for the lowest rank of another job on this leader's host. */
            for (j = 0; j < i && (jobs[j] == jobs[i] || hosts[j] != hosts[i] || hosts[i] == 0); ++j) {
            }
            leaders[i] = j < i ? leaders[j] : i;
        } else if (leaders[i] >= 0 && leaders[i] < i && was_leader[leaders[i]]) {
            leaders[i] = leaders[leaders[i]];
        }
    }
}

/*
 * Counts the ranks of each node in `sizes`. Sets `count`, `in_order`, `one_host`, `node_of` and `rank`, and sets all
 * owners to -1. Returns false if the leaders contradict one another.
 */
static bool number_nodes(mscclpp_nodes_t *nodes, int size, int rank, int ranks_per_node, int *sizes)
{
    const int *leaders = nodes->leaders;
    int i;

    nodes->count = 0;
    nodes->in_order = nodes->one_host = true;
    for (i = 0; i < size; ++i) {
        int leader;

        /*
         * A leader is on the node that it leads, and no rank of that node comes before its leader. This check also
         * makes the leader a valid index.
         */
        if (leaders[i] < 0 || leaders[i] > i || leaders[leaders[i]] != leaders[i]) {
            return false;
        }
        nodes->one_host = nodes->one_host && leaders[i] == leaders[0];
        leader = find_node_leader(leaders, i, ranks_per_node);
        if (leader == i) {
            sizes[nodes->count] = 0;
            nodes->owners[nodes->count] = -1;
        }
        nodes->node_of[i] = leader == i ? nodes->count++ : nodes->node_of[leader];
        nodes->in_order = nodes->in_order && nodes->node_of[i] == nodes->count - 1;
        if (i == rank) {
            nodes->rank = sizes[nodes->node_of[i]];
        }
        ++sizes[nodes->node_of[i]];
    }
    return true;
}

/*
 * Takes two passes. The first one numbers the nodes and counts their ranks. The second one finds owners and members,
 * for which this rank must know its number on its node.
 */
bool mscclpp_nodes_map(mscclpp_nodes_t *nodes, int size, int rank, int ranks_per_node)
{
    int *sizes = nodes->work, i;

    nodes->size = 0;
    if (!number_nodes(nodes, size, rank, ranks_per_node, sizes)) {
        return false;
    }
    nodes->node = nodes->node_of[rank];
    nodes->shards = nodes->largest_node = sizes[0];
    for (i = 0; i < nodes->count; ++i) {
        nodes->shards = sizes[i] < nodes->shards ? sizes[i] : nodes->shards;
        nodes->largest_node = sizes[i] > nodes->largest_node ? sizes[i] : nodes->largest_node;
        sizes[i] = 0; /* from here on: how many of the node's ranks the next loop has seen */
    }
    for (i = 0; i < size; ++i) {
        const int node = nodes->node_of[i];

        if (sizes[node]++ == nodes->rank) {
            nodes->owners[node] = i;
        }
        if (node == nodes->node && nodes->size++ < MSCCLPP_DEV_MAX_RANKS) {
            nodes->members[nodes->size - 1] = i;
        }
    }
    return true;
}
