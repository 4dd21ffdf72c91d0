/* Bounds by distances, cuts and flows. */
#include "tools/synth/lib/bounds.h"

#include <stdlib.h>
#include <string.h>

#include "tools/synth/lib/flow.h"
#include "tools/synth/lib/slp.h"

enum {
    MAX_NODES = 8, /* if there are no more nodes than this, all sets of nodes are tried */
    MAX_CAPACITY = SYNTH_MAX_CAPACITY * SYNTH_MAX_RANKS /* no rank sends or receives more in a round */
};

/*
 * Without a root, each rank has chunks for each other rank. With a root, only the root has chunks, or only the root
 * gets them.
 */
int synth_bound_steps(const synth_topology_t *topology, synth_collective_t collective, int root)
{
    int distance[SYNTH_MAX_RANKS][SYNTH_MAX_RANKS], longest = 0;
    bool from_root = collective == SYNTH_BROADCAST || collective == SYNTH_SCATTER;
    bool to_root = collective == SYNTH_GATHER || collective == SYNTH_REDUCE;

    synth_topology_distances(topology, distance);
    for (int source = 0; source < topology->ranks; ++source) {
        for (int receiver = 0; receiver < topology->ranks; ++receiver) {
            if ((!from_root || source == root) && (!to_root || receiver == root) &&
                distance[source][receiver] > longest) {
                longest = distance[source][receiver];
            }
        }
    }
    return longest;
}

/*
 * The graph of a maximum flow. Its vertices are the ranks, one vertex for each group (used if the group is a port), the
 * source, and the sink. The source has an arc to every rank, and every rank has an arc to the sink.
 */
typedef struct {
    const synth_topology_t *topology;
    synth_flow_t *flow;
    int source, sink;
    int *capacity; /* of each arc of a link or port: chunks in one round */
    int arcs; /* the number of arcs of links and ports; the arcs from the source to each rank and from each rank to the
                 sink follow them */
} network_t;

/*
 * Finds the ports of each link. A group is a port of a rank if all links of the group leave or all enter this rank.
 * out_of[link] becomes the port of the rank that the link leaves, and into[link] the port of the rank that it enters,
 * or -1 if there is none. A group of links between two ranks counts as a port of the sending rank only. If a link has
 * several such groups, the first group counts: the loop comes to it last, and it replaces the others.
 */
static void find_ports(const synth_topology_t *topology, int *out_of, int *into)
{
    for (int i = 0; i < topology->link_count; ++i) {
        out_of[i] = into[i] = -1;
    }
    for (int i = topology->group_count - 1; i >= 0; --i) {
        const synth_group_t *group = &topology->groups[i];
        const synth_link_t *first = &topology->links[group->links[0]];
        bool is_out = true, is_in = true;

        for (int j = 0; j < group->count; ++j) {
            is_out = is_out && topology->links[group->links[j]].from == first->from;
            is_in = is_in && topology->links[group->links[j]].to == first->to;
        }
        for (int j = 0; j < group->count; ++j) {
            out_of[group->links[j]] = is_out ? i : out_of[group->links[j]];
            into[group->links[j]] = is_in && !is_out ? i : into[group->links[j]];
        }
    }
}

/*
 * Builds the graph with capacities of 0, which max_flow replaces. Returns false if memory runs out. The caller frees
 * flow and capacity in either case. The arcs are added in the order of network_t:
 * 1. ports and then links, in the order of `capacity`,
 * 2. an arc from the source to each rank,
 * 3. an arc from each rank to the sink.
 */
static bool build_network(network_t *network, const synth_topology_t *topology)
{
    int ranks = topology->ranks, max_arcs = topology->link_count + topology->group_count * 2;
    int out_of[SYNTH_MAX_LINKS], into[SYNTH_MAX_LINKS];

    find_ports(topology, out_of, into);
    network->topology = topology;
    network->source = ranks + topology->group_count;
    network->sink = network->source + 1;
    network->flow = synth_flow_new(network->sink + 1, max_arcs + 2 * ranks);
    network->capacity = malloc(sizeof(int) * (size_t)(max_arcs + 1));
    if (network->flow == NULL || network->capacity == NULL) {
        return false;
    }
    for (int i = 0; i < topology->group_count; ++i) {
        const synth_group_t *group = &topology->groups[i];
        const synth_link_t *link = &topology->links[group->links[0]];
        bool is_out = false, is_in = false; /* the group is the port of at least one of its links; its other links may
                                               have an earlier group as their port */

        for (int j = 0; j < group->count; ++j) {
            is_out = is_out || out_of[group->links[j]] == i;
            is_in = is_in || into[group->links[j]] == i;
        }
        if (is_out || is_in) {
            network->capacity[network->arcs++] = group->capacity;
            synth_flow_add_arc(network->flow, is_out ? link->from : ranks + i, is_out ? ranks + i : link->to, 0);
        }
    }
    for (int i = 0; i < topology->link_count; ++i) {
        int out = out_of[i], in = into[i];

        network->capacity[network->arcs++] = topology->links[i].capacity;
        synth_flow_add_arc(network->flow, out >= 0 ? ranks + out : topology->links[i].from,
                           in >= 0 ? ranks + in : topology->links[i].to, 0);
    }
    for (int rank = 0; rank < ranks; ++rank) {
        synth_flow_add_arc(network->flow, network->source, rank, 0);
    }
    for (int rank = 0; rank < ranks; ++rank) {
        synth_flow_add_arc(network->flow, rank, network->sink, 0);
    }
    return true;
}

/*
 * Returns the largest flow in which each rank of `senders` puts in at most `units` units and each link carries up to
 * `scale` times its capacity. Each rank of `receivers` takes out any amount. `sink` is the sink of the network. It may
 * also be a rank that takes out everything; `receivers` is then empty.
 */
static int64_t max_flow(network_t *network, uint64_t senders, int64_t units, int64_t scale, uint64_t receivers,
                        int sink)
{
    for (int i = 0; i < network->arcs; ++i) {
        synth_flow_set_capacity(network->flow, i, network->capacity[i] * scale);
    }
    for (int rank = 0; rank < network->topology->ranks; ++rank) {
        synth_flow_set_capacity(network->flow, network->arcs + rank, (senders >> rank & 1) != 0 ? units : 0);
        synth_flow_set_capacity(network->flow, network->arcs + network->topology->ranks + rank,
                                (receivers >> rank & 1) != 0 ? SYNTH_FLOW_FULL : 0);
    }
    return synth_flow_run(network->flow, network->source, sink, SYNTH_FLOW_FULL);
}

/* Returns the ranks on the source's side of the minimum cut of the last flow. */
static uint64_t ranks_near_source(const network_t *network)
{
    uint64_t set = 0;

    for (int rank = 0; rank < network->topology->ranks; ++rank) {
        set |= synth_flow_is_near(network->flow, rank) ? UINT64_C(1) << rank : 0;
    }
    return set;
}

/*
 * Lowers *share to the largest amount that each rank of `senders` can send to the sink in one round, if all of them
 * send at the same time. If *share is lowered, *cut becomes the set of ranks whose cut limits it.
 *
 * Each turn tries the current share. If not all of it arrives, the minimum cut has senders on its near side. The share
 * is then lowered to the capacity of the cut divided by the number of these senders. The flow also contains what
 * senders on the far side put in, which does not cross the cut, so this is subtracted to get the capacity. Each turn
 * but the last lowers the share to the limit of some cut. There are finitely many cuts, so the loop ends.
 */
static void lower_share(network_t *network, uint64_t senders, int sink, synth_rational_t *share, uint64_t *cut)
{
    for (;;) {
        int64_t flow = max_flow(network, senders, share->num, share->den, 0, sink);
        int64_t sender_count = __builtin_popcountll(senders), near_senders;
        uint64_t near_ranks;

        if (flow >= sender_count * share->num) {
            return;
        }
        near_ranks = ranks_near_source(network);
        near_senders = __builtin_popcountll(near_ranks & senders);
        *share = synth_fraction(flow - share->num * (sender_count - near_senders), share->den * near_senders);
        *cut = near_ranks;
    }
}

/*
 * Sets the bound of a collective in which each rank of `senders` sends the same amount to every rank of `sinks`. Each
 * sink is examined separately. The bound follows from the least of the amounts that can reach one sink in one round. A
 * sink sends nothing to itself. The amount is never 0, since every rank of a machine can reach every other one
 * (synth_topology_connected).
 */
static void bound_by_shares(network_t *network, uint64_t senders, uint64_t sinks, synth_bound_t *bound)
{
    synth_rational_t share = {MAX_CAPACITY, 1};

    for (int sink = 0; sink < network->topology->ranks; ++sink) {
        if ((sinks >> sink & 1) != 0) {
            lower_share(network, senders & ~(UINT64_C(1) << sink), sink, &share, &bound->cut);
        }
    }
    bound->ratio = synth_fraction(share.den, share.num);
}

/*
 * Returns the least capacity of a group that contains all links from a set of ranks to the other ranks. The group need
 * not be a port. Returns SYNTH_FLOW_FULL if there is no such group.
 */
static int64_t min_group_capacity(const synth_topology_t *topology, uint64_t set)
{
    int64_t min_capacity = SYNTH_FLOW_FULL;
    int crossing_links = 0;

    for (int i = 0; i < topology->link_count; ++i) {
        crossing_links += (set >> topology->links[i].from & 1) != 0 && (set >> topology->links[i].to & 1) == 0;
    }
    for (int j = 0; j < topology->group_count; ++j) {
        const synth_group_t *group = &topology->groups[j];
        int crossing_in_group = 0;

        for (int i = 0; i < group->count; ++i) {
            const synth_link_t *link = &topology->links[group->links[i]];

            crossing_in_group += (set >> link->from & 1) != 0 && (set >> link->to & 1) == 0;
        }
        min_capacity =
            crossing_in_group == crossing_links && group->capacity < min_capacity ? group->capacity : min_capacity;
    }
    return min_capacity;
}

/*
 * Raises the bound of an all-to-all if the chunks from the ranks of a set to all other ranks need more rounds. A rank's
 * number of chunks counts those to all ranks, so each pair of ranks has the fraction 1 / topology->ranks of it.
 */
static void raise_by_pairs(network_t *network, uint64_t set, synth_bound_t *bound)
{
    const synth_topology_t *topology = network->topology;
    uint64_t all_ranks = UINT64_MAX >> (64 - topology->ranks), others = all_ranks & ~set;
    int64_t pairs = (int64_t)__builtin_popcountll(set) * __builtin_popcountll(others), capacity, group_capacity;

    if (pairs == 0) {
        return;
    }
    /* Divided by the number of ranks, so that the ranks of the set together put in no more than SYNTH_FLOW_FULL. */
    capacity = max_flow(network, set, SYNTH_FLOW_FULL / topology->ranks, 1, others, network->sink);
    group_capacity = min_group_capacity(topology, set);
    capacity = group_capacity < capacity ? group_capacity : capacity;
    if (capacity > 0 && synth_compare(bound->ratio, synth_fraction(pairs, capacity * topology->ranks)) < 0) {
        bound->ratio = synth_fraction(pairs, capacity * topology->ranks);
        bound->cut = set;
    }
}

/* Returns the set of the node's ranks: bit n for rank n. */
static uint64_t ranks_of(const synth_topology_t *topology, int node)
{
    uint64_t set = 0;

    for (int rank = 0; rank < topology->ranks; ++rank) {
        set |= topology->node_of[rank] == node ? UINT64_C(1) << rank : 0;
    }
    return set;
}

/*
 * Raises the bound of an all-to-all by cuts between nodes: around each node, around the first 2, 3, ... nodes, and
 * around every set of nodes if there are few.
 */
static void raise_by_nodes(network_t *network, synth_bound_t *bound)
{
    int nodes = network->topology->node_count;
    uint64_t first_nodes = 0;

    for (int node = 0; node < nodes; ++node) {
        first_nodes |= ranks_of(network->topology, node);
        raise_by_pairs(network, ranks_of(network->topology, node), bound);
        raise_by_pairs(network, first_nodes, bound);
    }
    for (uint64_t node_set = 1; nodes <= MAX_NODES && node_set < UINT64_C(1) << nodes; ++node_set) {
        uint64_t set = 0;

        for (int node = 0; node < nodes; ++node) {
            set |= (node_set >> node & 1) != 0 ? ranks_of(network->topology, node) : 0;
        }
        raise_by_pairs(network, set, bound);
    }
}

/*
 * Sets the bound of an all-to-all. It comes from cuts around single ranks, around sets of nodes, and from the cut that
 * limits an all-gather.
 */
static void bound_alltoall(network_t *network, synth_bound_t *bound)
{
    uint64_t all_ranks = UINT64_MAX >> (64 - network->topology->ranks), gather_cut;

    /* Only the cut of the all-gather is used: the ratio of an all-gather is no bound of an all-to-all. */
    bound_by_shares(network, all_ranks, all_ranks, bound);
    gather_cut = bound->cut;
    *bound = (synth_bound_t){.ratio = {0, 1}, .proof = "cut"};
    raise_by_pairs(network, gather_cut, bound);
    raise_by_pairs(network, all_ranks & ~gather_cut, bound);
    for (int rank = 0; rank < network->topology->ranks; ++rank) {
        raise_by_pairs(network, UINT64_C(1) << rank, bound);
        raise_by_pairs(network, all_ranks & ~(UINT64_C(1) << rank), bound);
    }
    raise_by_nodes(network, bound);
}

/*
 * Turns every collective into one that moves data without combining: its dual, or for a scatter the gather in the other
 * direction. bound_by_shares and bound_alltoall then compute the bound.
 */
mscclpp_status_t synth_bound_cut(const synth_topology_t *topology, synth_collective_t collective, int root,
                                 synth_bound_t *bound)
{
    /*
     * A collective that combines takes as many rounds as its dual on reversed links, and a scatter as many as a gather.
     */
    synth_collective_t dual = synth_dual(collective);
    bool is_reversed = dual != collective || collective == SYNTH_SCATTER;
    synth_topology_t *reversed = is_reversed ? synth_topology_transposed(topology) : NULL;
    network_t network = {.flow = NULL};
    uint64_t all_ranks = UINT64_MAX >> (64 - topology->ranks);

    if ((is_reversed && reversed == NULL) || !build_network(&network, is_reversed ? reversed : topology)) {
        synth_flow_free(network.flow);
        free(network.capacity);
        synth_topology_free(reversed);
        return MSCCLPP_ERR_NO_MEMORY;
    }
    *bound = (synth_bound_t){.ratio = {0, 1}, .proof = "cut"};
    if (dual == SYNTH_ALLGATHER) {
        bound_by_shares(&network, all_ranks, all_ranks, bound);
    } else if (dual == SYNTH_GATHER || dual == SYNTH_SCATTER) { /* scatter: gather, the other way round */
        bound_by_shares(&network, all_ranks, UINT64_C(1) << root, bound);
    } else if (dual == SYNTH_BROADCAST) {
        bound_by_shares(&network, UINT64_C(1) << root, all_ranks & ~(UINT64_C(1) << root), bound);
    } else if (dual == SYNTH_ALLTOALL) {
        bound_alltoall(&network, bound);
    }
    synth_flow_free(network.flow);
    free(network.capacity);
    synth_topology_free(reversed);
    return MSCCLPP_OK;
}

/* Solves the linear program on reversed links if the collective combines. */
mscclpp_status_t synth_bound_rounds(const synth_topology_t *topology, synth_collective_t collective, int root,
                                    double seconds, synth_bound_t *bound)
{
    synth_collective_t dual = synth_dual(collective);
    synth_topology_t *reversed = dual != collective ? synth_topology_transposed(topology) : NULL;
    mscclpp_status_t status = synth_bound_cut(topology, collective, root, bound);
    synth_slp_t slp;

    /* If the linear program fails for any reason, the bound by cuts is still valid. */
    if (status == MSCCLPP_OK && (dual == collective || reversed != NULL) &&
        synth_slp_solve(reversed != NULL ? reversed : topology, dual, root, 0, seconds, &slp) == MSCCLPP_OK &&
        synth_compare(bound->ratio, slp.bound) < 0) {
        *bound = (synth_bound_t){.ratio = slp.bound, .proof = "linear program"};
    }
    synth_topology_free(reversed);
    return status;
}

/*
 * Returns the largest number of chunks that can be sent between different parts of the machine in one round. part[rank]
 * is the part to which a rank belongs. Each chunk leaves through one port, crosses one link, and enters through one
 * port. A link without a port begins at the flow's source or ends at its sink. If memory runs out, returns
 * SYNTH_FLOW_FULL, which limits nothing.
 */
static int64_t max_sends_of_round(const synth_topology_t *topology, const int *part)
{
    int groups = topology->group_count, source = 2 * groups, sink = source + 1, arcs = 0;
    synth_flow_t *flow = synth_flow_new(sink + 1, topology->link_count + 2 * groups);
    int out_of[SYNTH_MAX_LINKS], into[SYNTH_MAX_LINKS];
    int64_t max_sends;

    if (flow == NULL) {
        return SYNTH_FLOW_FULL;
    }
    find_ports(topology, out_of, into);
    for (int i = 0; i < groups; ++i, arcs += 2) {
        synth_flow_add_arc(flow, source, i, topology->groups[i].capacity);
        synth_flow_add_arc(flow, groups + i, sink, topology->groups[i].capacity);
    }
    for (int i = 0; i < topology->link_count; ++i) {
        const synth_link_t *link = &topology->links[i];
        int out = out_of[i], in = into[i];

        if (part[link->from] != part[link->to]) {
            synth_flow_add_arc(flow, out >= 0 ? out : source, in >= 0 ? groups + in : sink, link->capacity);
        }
    }
    max_sends = synth_flow_run(flow, source, sink, SYNTH_FLOW_FULL);
    synth_flow_free(flow);
    return max_sends;
}

/*
 * Raises the bound of an all-reduce to what its sends between parts of the machine take, if that is more. With k parts,
 * a piece of the vector takes at least k - 1 sends until some rank has its sum. It takes k - 1 more sends until the
 * other parts have the sum.
 */
static void raise_by_sends(const synth_topology_t *topology, const int *part, int parts, synth_bound_t *bound)
{
    int64_t sends_in_round = parts > 1 ? max_sends_of_round(topology, part) : SYNTH_FLOW_FULL;

    if (sends_in_round > 0 && synth_compare(bound->ratio, synth_fraction(2 * (parts - 1), sends_in_round)) < 0) {
        *bound = (synth_bound_t){.ratio = synth_fraction(2 * (parts - 1), sends_in_round), .proof = "number of sends"};
    }
}

/* Sets the bound by the narrowest cut. Rank 0 is on one side of every cut, so flows from and to rank 0 find it. */
static void bound_by_narrowest(network_t *network, synth_bound_t *bound)
{
    synth_rational_t share = {MAX_CAPACITY, 1};

    for (int rank = 1; rank < network->topology->ranks; ++rank) {
        lower_share(network, 1, rank, &share, &bound->cut);
        lower_share(network, UINT64_C(1) << rank, 0, &share, &bound->cut);
    }
    bound->ratio = synth_fraction(share.den, share.num);
}

/* Counts the sends twice: between single ranks, and between nodes. */
void synth_bound_allreduce(const synth_topology_t *topology, synth_bound_t *bound)
{
    int part[SYNTH_MAX_RANKS];
    network_t network = {.flow = NULL};

    *bound = (synth_bound_t){.ratio = {0, 1}, .proof = "cut"};
    if (build_network(&network, topology)) {
        bound_by_narrowest(&network, bound);
    }
    synth_flow_free(network.flow);
    free(network.capacity);
    for (int i = 0; i < topology->ranks; ++i) {
        part[i] = i; /* each rank is a separate part */
    }
    raise_by_sends(topology, part, topology->ranks, bound);
    raise_by_sends(topology, topology->node_of, topology->node_count, bound);
}
