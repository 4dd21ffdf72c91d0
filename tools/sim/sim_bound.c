/* A lower bound for the time of any collective: no schedule is faster than the fastest broadcast. */
#include <stdlib.h>

#include "tools/sim/sim.h"

/*
 * Returns the least time of a broadcast, in seconds. In the fastest broadcast, every node that has the data sends them
 * to one node after another, every `interval` seconds (R. M. Karp et al., Optimal Broadcast and Summation in the LogP
 * Model, SPAA 1993). The caller provides two arrays with an entry for each node: `reached_at` stores when the node has
 * the data, and `next_arrival` stores when its next message arrives.
 *
 * This time is a lower bound for every collective call: data of one node have to reach all other nodes, or data of all
 * nodes have to reach one. A reduction is a broadcast in reverse.
 */
static double broadcast_time(const mscclpp_cost_figures_t *figures, double interval, uint32_t nodes, double *reached_at,
                             double *next_arrival)
{
    const double hop = figures->overhead + figures->latency;
    uint32_t reached = 1, i;

    /*
     * Nodes are numbered in the order in which they get the data. The message that arrives first reaches the next node.
     */
    reached_at[0] = 0;
    next_arrival[0] = hop;
    while (reached < nodes) {
        uint32_t sender = 0;

        /* The nodes from i on got the data so late that none of their messages can arrive first. */
        for (i = 1; i < reached && reached_at[i] + hop <= next_arrival[sender]; ++i) {
            sender = next_arrival[i] < next_arrival[sender] ? i : sender;
        }
        reached_at[reached] = next_arrival[sender];
        next_arrival[reached] = reached_at[reached] + hop;
        next_arrival[sender] += interval;
        ++reached;
    }
    return reached_at[nodes - 1];
}

/* Computes the time of the fastest broadcast. A gather or a reduction is this broadcast in reverse. */
double sim_min_latency(const mscclpp_cost_figures_t *figures, int pattern, uint32_t nodes)
{
    const bool collects = pattern == MSCCLPP_DEV_GATHER || pattern == MSCCLPP_DEV_REDUCE;
    /*
     * Two messages of a node begin at least the overhead and at least the gap apart. In reverse the messages are
     * received, which takes no overhead.
     */
    const double send_interval = figures->overhead > figures->gap ? figures->overhead : figures->gap;
    double *times = calloc(2 * (size_t)nodes, sizeof(double));
    double latency = 0;

    if (times != NULL && nodes > 1) {
        latency = broadcast_time(figures, collects ? figures->gap : send_interval, nodes, times, times + nodes);
    }
    free(times);
    return latency;
}
