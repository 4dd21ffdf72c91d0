/* Bounds by distances, cuts and flows. */
#include "tools/synth/lib/bounds.h"

#include <stdlib.h>
#include <string.h>

#include "tools/synth/lib/flow.h"
#include "tools/synth/lib/slp.h"

int synth_bound_steps(const synth_topology_t *topology, synth_collective_t collective, int root)
{
    int distance[SYNTH_MAX_RANKS][SYNTH_MAX_RANKS], most = 0;
    bool from = collective == SYNTH_BROADCAST || collective == SYNTH_SCATTER;
    bool to = collective == SYNTH_GATHER || collective == SYNTH_REDUCE;

    synth_topology_distances(topology, distance);
    for (int a = 0; a < topology->ranks; ++a) {
        for (int b = 0; b < topology->ranks; ++b) {
            if ((!from || a == root) && (!to || b == root) && distance[a][b] > most) {
                most = distance[a][b];
            }
        }
    }
    return most;
}

/* The graph of a maximum flow. Vertices: the ranks, then one for each group that is a port, then the source, which
 * is joined to every rank. */
typedef struct {
    const synth_topology_t *topology;
    synth_flow_t *flow;
    int top;       /* the source */
    int *capacity; /* of each arc: chunks in one round */
    int arcs;      /* of links and ports; one from the source to each rank follows */
} network_t;

/* The group that is a port of this link: all its links leave the same rank (`out`) or enter the same rank. -1: none. */
static int port_of(const synth_topology_t *topology, int link, bool out)
{
    for (int i = 0; i < topology->group_count; ++i) {
        const synth_group_t *group = &topology->groups[i];
        bool mine = false, port = true;

        for (int k = 0; k < group->count; ++k) {
            const synth_link_t *other = &topology->links[group->links[k]];

            mine = mine || group->links[k] == link;
            port = port && (out ? other->from == topology->links[link].from : other->to == topology->links[link].to);
        }
        if (mine && port) {
            return i;
        }
    }
    return -1;
}

/* Builds the graph. False without memory. */
static bool build(network_t *network, const synth_topology_t *topology)
{
    int n = topology->ranks, most = topology->link_count + topology->group_count * 2;

    network->topology = topology;
    network->top = n + topology->group_count;
    network->flow = synth_flow_new(network->top + 1, most + n);
    network->capacity = malloc(sizeof(int) * (size_t)(most + 1));
    if (network->flow == NULL || network->capacity == NULL) {
        return false;
    }
    for (int i = 0; i < topology->group_count; ++i) {
        const synth_group_t *group = &topology->groups[i];
        const synth_link_t *link = &topology->links[group->links[0]];
        bool out = port_of(topology, group->links[0], true) == i, in = port_of(topology, group->links[0], false) == i;

        if (out || in) {
            network->capacity[network->arcs++] = group->capacity;
            synth_flow_arc(network->flow, out ? link->from : n + i, out ? n + i : link->to, 0);
        }
    }
    for (int i = 0; i < topology->link_count; ++i) {
        int out = port_of(topology, i, true), in = port_of(topology, i, false);

        in = in == out ? -1 : in;
        network->capacity[network->arcs++] = topology->links[i].capacity;
        synth_flow_arc(network->flow, out >= 0 ? n + out : topology->links[i].from,
                       in >= 0 ? n + in : topology->links[i].to, 0);
    }
    for (int rank = 0; rank < n; ++rank) {
        synth_flow_arc(network->flow, network->top, rank, 0);
    }
    return true;
}

/* The most that flows if each rank of `from` puts in `each` units and each link carries `scale` times its capacity. */
static int64_t flow_to(network_t *network, uint64_t from, int64_t each, int64_t scale, int sink)
{
    for (int i = 0; i < network->arcs; ++i) {
        synth_flow_set(network->flow, i, network->capacity[i] * scale);
    }
    for (int rank = 0; rank < network->topology->ranks; ++rank) {
        synth_flow_set(network->flow, network->arcs + rank, (from >> rank & 1) != 0 ? each : 0);
    }
    return synth_flow_run(network->flow, network->top, sink, SYNTH_FLOW_FULL);
}

/* The ranks on the source's side of the minimum cut of the last flow. */
static uint64_t near_set(const network_t *network)
{
    uint64_t set = 0;

    for (int rank = 0; rank < network->topology->ranks; ++rank) {
        set |= synth_flow_near(network->flow, rank) ? UINT64_C(1) << rank : 0;
    }
    return set;
}

/* Lowers `share` to the largest amount that all ranks of `from` can send to the sink at once, and stores the cut
 * that limits it. */
static void tighten(network_t *network, uint64_t from, int sink, synth_rational_t *share, uint64_t *set)
{
    for (;;) {
        int64_t count = __builtin_popcountll(from), flow = flow_to(network, from, share->num, share->den, sink), inside;
        uint64_t near;

        if (flow >= count * share->num) {
            return;
        }
        near = near_set(network);
        inside = __builtin_popcountll(near & from);
        *share = synth_fraction(flow - share->num * (count - inside), share->den * inside);
        *set = near;
    }
}

/* The bound from the largest share that reaches every sink. */
static void by_shares(network_t *network, uint64_t from, uint64_t sinks, synth_bound_t *bound)
{
    synth_rational_t share = {SYNTH_MAX_CAPACITY, 1};

    for (int sink = 0; sink < network->topology->ranks; ++sink) {
        if ((sinks >> sink & 1) != 0) {
            tighten(network, from & ~(UINT64_C(1) << sink), sink, &share, &bound->set);
        }
    }
    bound->ratio = synth_fraction(share.den, share.num);
}

/* All-to-all: the bound from each of these cuts, which all pairs with one rank on either side have to cross. */
static void by_pairs(network_t *network, const uint64_t *sets, int count, synth_bound_t *bound)
{
    int n = network->topology->ranks;

    for (int i = 0; i < count; ++i) {
        int inside = __builtin_popcountll(sets[i]);
        int64_t cut;

        if (inside == 0 || inside == n) {
            continue;
        }
        cut = 0;
        for (int k = 0; k < network->topology->link_count; ++k) {
            const synth_link_t *link = &network->topology->links[k];

            if ((sets[i] >> link->from & 1) != 0 && (sets[i] >> link->to & 1) == 0) {
                cut += link->capacity;
            }
        }
        for (int g = 0; g < network->topology->group_count; ++g) { /* a group that holds the whole cut */
            const synth_group_t *group = &network->topology->groups[g];
            int crossing = 0, all = 0;

            for (int k = 0; k < group->count; ++k) {
                const synth_link_t *link = &network->topology->links[group->links[k]];

                crossing += (sets[i] >> link->from & 1) != 0 && (sets[i] >> link->to & 1) == 0;
            }
            for (int k = 0; k < network->topology->link_count; ++k) {
                const synth_link_t *link = &network->topology->links[k];

                all += (sets[i] >> link->from & 1) != 0 && (sets[i] >> link->to & 1) == 0;
            }
            cut = crossing == all && group->capacity < cut ? group->capacity : cut;
        }
        if (cut > 0 && synth_compare(bound->ratio, synth_fraction((int64_t)inside * (n - inside), cut * n)) < 0) {
            bound->ratio = synth_fraction((int64_t)inside * (n - inside), cut * n);
            bound->set = sets[i];
        }
    }
}

/* All-to-all: tries cuts around single ranks, around nodes, and the one that limits an all-gather. */
static void alltoall(network_t *network, synth_bound_t *bound)
{
    const synth_topology_t *topology = network->topology;
    uint64_t sets[3 * SYNTH_MAX_RANKS + 2], all = UINT64_MAX >> (64 - topology->ranks);
    int count = 0;

    by_shares(network, all, all, bound);
    sets[count++] = bound->set;
    sets[count++] = all & ~bound->set;
    for (int rank = 0; rank < topology->ranks; ++rank) {
        uint64_t node = 0;

        for (int other = 0; other < topology->ranks; ++other) {
            node |= topology->node_of[other] == topology->node_of[rank] ? UINT64_C(1) << other : 0;
        }
        sets[count++] = UINT64_C(1) << rank;
        sets[count++] = all & ~(UINT64_C(1) << rank);
        sets[count++] = node;
    }
    bound->ratio = synth_fraction(0, 1);
    bound->set = 0;
    by_pairs(network, sets, count, bound);
}

mscclpp_status_t synth_bound_cut(const synth_topology_t *topology, synth_collective_t collective, int root,
                                 synth_bound_t *bound)
{
    synth_collective_t dual = synth_dual(collective);
    bool turned = dual != collective || collective == SYNTH_SCATTER;
    synth_topology_t *other = turned ? synth_topology_transposed(topology) : NULL;
    network_t network = {NULL, NULL, 0, NULL, 0};
    uint64_t all = UINT64_MAX >> (64 - topology->ranks);

    if ((turned && other == NULL) || !build(&network, turned ? other : topology)) {
        synth_flow_free(network.flow);
        free(network.capacity);
        synth_topology_free(other);
        return MSCCLPP_ERR_NO_MEMORY;
    }
    *bound = (synth_bound_t){{0, 1}, 0, "cut"};
    if (dual == SYNTH_ALLGATHER) {
        by_shares(&network, all, all, bound);
    } else if (dual == SYNTH_GATHER || dual == SYNTH_SCATTER) { /* scatter: gather, the other way round */
        by_shares(&network, all, UINT64_C(1) << root, bound);
    } else if (dual == SYNTH_BROADCAST) {
        by_shares(&network, UINT64_C(1) << root, all & ~(UINT64_C(1) << root), bound);
    } else if (dual == SYNTH_ALLTOALL) {
        alltoall(&network, bound);
    }
    synth_flow_free(network.flow);
    free(network.capacity);
    synth_topology_free(other);
    return MSCCLPP_OK;
}

mscclpp_status_t synth_bound_rounds(const synth_topology_t *topology, synth_collective_t collective, int root,
                                    double seconds, synth_bound_t *bound)
{
    synth_collective_t dual = synth_dual(collective);
    synth_topology_t *other = dual != collective ? synth_topology_transposed(topology) : NULL;
    mscclpp_status_t status = synth_bound_cut(topology, collective, root, bound);
    synth_slp_t slp;

    if (status == MSCCLPP_OK && (dual == collective || other != NULL) &&
        synth_slp_solve(other != NULL ? other : topology, dual, root, 0, seconds, &slp) == MSCCLPP_OK &&
        synth_compare(bound->ratio, slp.bound) < 0) {
        *bound = (synth_bound_t){slp.bound, 0, "linear program"};
    }
    synth_topology_free(other);
    return status;
}

synth_rational_t synth_bound_allreduce(const synth_topology_t *topology)
{
    synth_rational_t ratio = {0, 1};
    synth_bound_t bound;

    for (int root = 0; root < topology->ranks; ++root) {
        if (synth_bound_cut(topology, SYNTH_BROADCAST, root, &bound) == MSCCLPP_OK) {
            ratio = synth_larger(ratio, bound.ratio);
        }
    }
    return ratio;
}
