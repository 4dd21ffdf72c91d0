/* Bounds by distances, cuts and flows. */
#include "tools/synth/lib/bounds.h"

#include <stdlib.h>
#include <string.h>

#include "tools/synth/lib/flow.h"
#include "tools/synth/lib/slp.h"

enum { MOST_NODES = 8 }; /* of which all sets are looked at */

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
 * is joined to every rank, and the sink, which every rank is joined to. */
typedef struct {
    const synth_topology_t *topology;
    synth_flow_t *flow;
    int top, bottom; /* the source and the sink */
    int *capacity;   /* of each arc: chunks in one round */
    int arcs;        /* of links and ports; one from the source to each rank and one from each to the sink follow */
} network_t;

/* Finds the group that is a port of each link: all its links leave the same rank (`out`) or enter the same (`in`). -1:
 * none. */
static void find_ports(const synth_topology_t *topology, int *out, int *in)
{
    for (int i = 0; i < topology->link_count; ++i) {
        out[i] = in[i] = -1;
    }
    for (int i = topology->group_count - 1; i >= 0; --i) {
        const synth_group_t *group = &topology->groups[i];
        const synth_link_t *first = &topology->links[group->links[0]];
        bool leaves = true, comes = true;

        for (int k = 0; k < group->count; ++k) {
            leaves = leaves && topology->links[group->links[k]].from == first->from;
            comes = comes && topology->links[group->links[k]].to == first->to;
        }
        for (int k = 0; k < group->count; ++k) {
            out[group->links[k]] = leaves ? i : out[group->links[k]];
            in[group->links[k]] = comes ? i : in[group->links[k]];
        }
    }
}

/* Builds the graph. False without memory. */
static bool build(network_t *network, const synth_topology_t *topology)
{
    int n = topology->ranks, most = topology->link_count + topology->group_count * 2;
    int out_of[SYNTH_MAX_LINKS], into[SYNTH_MAX_LINKS];

    find_ports(topology, out_of, into);

    network->topology = topology;
    network->top = n + topology->group_count;
    network->bottom = network->top + 1;
    network->flow = synth_flow_new(network->bottom + 1, most + 2 * n);
    network->capacity = malloc(sizeof(int) * (size_t)(most + 1));
    if (network->flow == NULL || network->capacity == NULL) {
        return false;
    }
    for (int i = 0; i < topology->group_count; ++i) {
        const synth_group_t *group = &topology->groups[i];
        const synth_link_t *link = &topology->links[group->links[0]];
        bool out = out_of[group->links[0]] == i, in = into[group->links[0]] == i;

        if (out || in) {
            network->capacity[network->arcs++] = group->capacity;
            synth_flow_arc(network->flow, out ? link->from : n + i, out ? n + i : link->to, 0);
        }
    }
    for (int i = 0; i < topology->link_count; ++i) {
        int out = out_of[i], in = into[i];

        in = in == out ? -1 : in;
        network->capacity[network->arcs++] = topology->links[i].capacity;
        synth_flow_arc(network->flow, out >= 0 ? n + out : topology->links[i].from,
                       in >= 0 ? n + in : topology->links[i].to, 0);
    }
    for (int rank = 0; rank < n; ++rank) {
        synth_flow_arc(network->flow, network->top, rank, 0);
    }
    for (int rank = 0; rank < n; ++rank) {
        synth_flow_arc(network->flow, rank, network->bottom, 0);
    }
    return true;
}

/*
 * The most that flows if each rank of `from` puts in `each` units, each link carries `scale` times its capacity, and
 * each rank of `to` takes out what comes. One rank can be the sink itself.
 */
static int64_t flow_to(network_t *network, uint64_t from, int64_t each, int64_t scale, uint64_t to, int sink)
{
    for (int i = 0; i < network->arcs; ++i) {
        synth_flow_set(network->flow, i, network->capacity[i] * scale);
    }
    for (int rank = 0; rank < network->topology->ranks; ++rank) {
        synth_flow_set(network->flow, network->arcs + rank, (from >> rank & 1) != 0 ? each : 0);
        synth_flow_set(network->flow, network->arcs + network->topology->ranks + rank,
                       (to >> rank & 1) != 0 ? SYNTH_FLOW_FULL : 0);
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
        int64_t flow = flow_to(network, from, share->num, share->den, 0, sink), count = __builtin_popcountll(from);
        int64_t inside;
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

/* A group that holds all links from a set of ranks to the others limits them, port or not; SYNTH_FLOW_FULL if none. */
static int64_t common_group(const synth_topology_t *topology, uint64_t set)
{
    int64_t least = SYNTH_FLOW_FULL;
    int all = 0;

    for (int k = 0; k < topology->link_count; ++k) {
        all += (set >> topology->links[k].from & 1) != 0 && (set >> topology->links[k].to & 1) == 0;
    }
    for (int g = 0; g < topology->group_count; ++g) {
        const synth_group_t *group = &topology->groups[g];
        int crossing = 0;

        for (int k = 0; k < group->count; ++k) {
            const synth_link_t *link = &topology->links[group->links[k]];

            crossing += (set >> link->from & 1) != 0 && (set >> link->to & 1) == 0;
        }
        least = crossing == all && group->capacity < least ? group->capacity : least;
    }
    return least;
}

/* What all pairs of a rank inside a set and one outside need. */
static void by_pairs(network_t *network, uint64_t set, synth_bound_t *bound)
{
    const synth_topology_t *topology = network->topology;
    uint64_t all = UINT64_MAX >> (64 - topology->ranks), rest = all & ~set;
    int64_t pairs = (int64_t)__builtin_popcountll(set) * __builtin_popcountll(rest), cut, common;

    if (pairs == 0) {
        return;
    }
    cut = flow_to(network, set, SYNTH_FLOW_FULL / topology->ranks, 1, rest, network->bottom);
    common = common_group(topology, set);
    cut = common < cut ? common : cut;
    if (cut > 0 && synth_compare(bound->ratio, synth_fraction(pairs, cut * topology->ranks)) < 0) {
        bound->ratio = synth_fraction(pairs, cut * topology->ranks);
        bound->set = set;
    }
}

static uint64_t ranks_of(const synth_topology_t *topology, int node)
{
    uint64_t set = 0;

    for (int rank = 0; rank < topology->ranks; ++rank) {
        set |= topology->node_of[rank] == node ? UINT64_C(1) << rank : 0;
    }
    return set;
}

/* All sets of nodes, or the first 1, 2, ... where there are too many. */
static void by_nodes(network_t *network, synth_bound_t *bound)
{
    int nodes = network->topology->node_count;
    uint64_t first = 0;

    for (int node = 0; node < nodes; ++node) {
        first |= ranks_of(network->topology, node);
        by_pairs(network, ranks_of(network->topology, node), bound);
        by_pairs(network, first, bound);
    }
    for (uint64_t some = 1; nodes <= MOST_NODES && some < UINT64_C(1) << nodes; ++some) {
        uint64_t set = 0;

        for (int node = 0; node < nodes; ++node) {
            set |= (some >> node & 1) != 0 ? ranks_of(network->topology, node) : 0;
        }
        by_pairs(network, set, bound);
    }
}

/* All-to-all: tries cuts around single ranks, around sets of nodes, and the one that limits an all-gather. */
static void alltoall(network_t *network, synth_bound_t *bound)
{
    uint64_t all = UINT64_MAX >> (64 - network->topology->ranks), tight;

    by_shares(network, all, all, bound);
    tight = bound->set;
    *bound = (synth_bound_t){{0, 1}, 0, "cut"};
    by_pairs(network, tight, bound);
    by_pairs(network, all & ~tight, bound);
    for (int rank = 0; rank < network->topology->ranks; ++rank) {
        by_pairs(network, UINT64_C(1) << rank, bound);
        by_pairs(network, all & ~(UINT64_C(1) << rank), bound);
    }
    by_nodes(network, bound);
}

mscclpp_status_t synth_bound_cut(const synth_topology_t *topology, synth_collective_t collective, int root,
                                 synth_bound_t *bound)
{
    synth_collective_t dual = synth_dual(collective);
    bool turned = dual != collective || collective == SYNTH_SCATTER;
    synth_topology_t *other = turned ? synth_topology_transposed(topology) : NULL;
    network_t network = {.flow = NULL};
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

/*
 * The most chunks that can go from parts of the machine to others in one round; `part` says where each rank is. Each
 * chunk leaves by one port, crosses one link, and comes in by one port.
 */
static int64_t between(const synth_topology_t *topology, const int *part)
{
    int groups = topology->group_count, top = 2 * groups, bottom = top + 1, arcs = 0;
    synth_flow_t *flow = synth_flow_new(bottom + 1, topology->link_count + 2 * groups);
    int out_of[SYNTH_MAX_LINKS], into[SYNTH_MAX_LINKS];
    int64_t most;

    if (flow == NULL) {
        return SYNTH_FLOW_FULL;
    }
    find_ports(topology, out_of, into);
    for (int i = 0; i < groups; ++i, arcs += 2) {
        synth_flow_arc(flow, top, i, topology->groups[i].capacity);
        synth_flow_arc(flow, groups + i, bottom, topology->groups[i].capacity);
    }
    for (int i = 0; i < topology->link_count; ++i) {
        const synth_link_t *link = &topology->links[i];
        int out = out_of[i], in = into[i];

        if (part[link->from] != part[link->to]) {
            synth_flow_arc(flow, out >= 0 ? out : top, in >= 0 ? groups + in : bottom, link->capacity);
        }
    }
    most = synth_flow_run(flow, top, bottom, SYNTH_FLOW_FULL);
    synth_flow_free(flow);
    return most;
}

/*
 * Of an all-reduce among k parts of the machine: the first rank that has a piece of the vector summed up got it after
 * at least k - 1 sends between parts, and each of the other k - 1 parts needs one more.
 */
static void by_sends(const synth_topology_t *topology, const int *part, int parts, synth_bound_t *bound)
{
    int64_t most = parts > 1 ? between(topology, part) : SYNTH_FLOW_FULL;

    if (most > 0 && synth_compare(bound->ratio, synth_fraction(2 * (parts - 1), most)) < 0) {
        *bound = (synth_bound_t){synth_fraction(2 * (parts - 1), most), 0, "number of sends"};
    }
}

/* The narrowest cut of all: it has rank 0 on one side or on the other. */
static void by_narrowest(network_t *network, synth_bound_t *bound)
{
    synth_rational_t share = {SYNTH_MAX_CAPACITY, 1};

    for (int rank = 1; rank < network->topology->ranks; ++rank) {
        tighten(network, 1, rank, &share, &bound->set);
        tighten(network, UINT64_C(1) << rank, 0, &share, &bound->set);
    }
    bound->ratio = synth_fraction(share.den, share.num);
}

void synth_bound_allreduce(const synth_topology_t *topology, synth_bound_t *bound)
{
    int rank[SYNTH_MAX_RANKS];
    network_t network = {.flow = NULL};

    *bound = (synth_bound_t){{0, 1}, 0, "cut"};
    if (build(&network, topology)) {
        by_narrowest(&network, bound);
    }
    synth_flow_free(network.flow);
    free(network.capacity);
    for (int i = 0; i < topology->ranks; ++i) {
        rank[i] = i;
    }
    by_sends(topology, rank, topology->ranks, bound);
    by_sends(topology, topology->node_of, topology->node_count, bound);
}
