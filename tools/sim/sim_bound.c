#include <stdlib.h>

#include "tools/sim/sim.h"

/*
 * A bound by latency: in every collective call, data of one node have to reach all others, or data of all have to reach
 * one.
 *
 * Returns the least time of a broadcast: every node that has the data sends them to one node after another, every
 * `each` seconds (R. M. Karp et al., Optimal Broadcast and Summation in the LogP Model, SPAA 1993). Reversed, it is the
 * least time of a reduction. `when` and `next` have room for all nodes: when each has the data, and when its next send
 * arrives.
 */
static double broadcast_time(const mscclpp_cost_figures_t *figures, double each, uint32_t nodes, double *when,
                             double *next)
{
    const double hop = figures->overhead + figures->latency;
    uint32_t reached = 1, i;

    /* Nodes are numbered in the order in which they get the data. The earliest send of all reaches the next one. */
    when[0] = 0;
    next[0] = hop;
    while (reached < nodes) {
        uint32_t best = 0;

        for (i = 1; i < reached && when[i] + hop <= next[best]; ++i) {
            best = next[i] < next[best] ? i : best;
        }
        when[reached] = next[best];
        next[reached] = when[reached] + hop;
        next[best] += each;
        ++reached;
    }
    return when[nodes - 1];
}

double sim_least_latency(const mscclpp_cost_figures_t *figures, int pattern, uint32_t nodes)
{
    const bool receives = pattern == MSCCLPP_DEV_GATHER || pattern == MSCCLPP_DEV_REDUCE;
    const double posts = figures->overhead > figures->gap ? figures->overhead : figures->gap;
    double *times = calloc(2 * (size_t)nodes, sizeof(double));
    double least = 0;

    if (times != NULL && nodes > 1) {
        least = broadcast_time(figures, receives ? figures->gap : posts, nodes, times, times + nodes);
    }
    free(times);
    return least;
}
