#include <stdlib.h>

#include "tools/sim/sim.h"

/*
 * Every collective call has a node whose word all others need, or one that needs theirs.
 *
 * The least time in which one node's word can reach all others: whoever knows it tells another node after another, one
 * every `each` seconds (R. M. Karp et al., Optimal Broadcast and Summation in the LogP Model, SPAA 1993). Backwards
 * it is the least time in which one node hears from all. `when` has room for all nodes.
 */
static double reach_all(const mscclpp_cost_figures_t *figures, double each, uint32_t nodes, double *when, double *next)
{
    const double hop = figures->overhead + figures->latency;
    uint32_t known = 1, i;

    /* Nodes are found in the order of the times at which they know. The earliest next word is the next node's. */
    when[0] = 0;
    next[0] = hop;
    while (known < nodes) {
        uint32_t best = 0;

        for (i = 1; i < known && when[i] + hop <= next[best]; ++i) {
            best = next[i] < next[best] ? i : best;
        }
        when[known] = next[best];
        next[known] = when[known] + hop;
        next[best] += each;
        ++known;
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
        least = reach_all(figures, receives ? figures->gap : posts, nodes, times, times + nodes);
    }
    free(times);
    return least;
}
