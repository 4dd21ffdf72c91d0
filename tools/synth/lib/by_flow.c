/* Scatter as a flow over steps; gather is scatter the other way round. */
#include <stdlib.h>

#include "tools/synth/lib/direct.h"
#include "tools/synth/lib/flow.h"

/* A scatter in which step s has rounds[s] rounds. */
typedef struct {
    const synth_topology_t *topology;
    int root, chunks, steps;
    int rounds[SYNTH_MAX_STEPS];
    synth_flow_t *flow;
} spread_t;

/* The vertex of a rank before a step. */
static int node(const spread_t *spread, int rank, int step)
{
    return step * spread->topology->ranks + rank;
}

/* Builds the graph and computes the flow. Whether all chunks arrive. Arcs of links come first, then those that hold
 * chunks, then those to the sink. Groups are left to the replay. */
static bool run_flow(spread_t *spread)
{
    const synth_topology_t *topology = spread->topology;
    int n = topology->ranks, sink = n * (spread->steps + 1);

    synth_flow_free(spread->flow);
    spread->flow = synth_flow_new(sink + 1, spread->steps * (topology->link_count + n) + n);
    if (spread->flow == NULL) {
        return false;
    }
    for (int s = 0; s < spread->steps; ++s) {
        for (int l = 0; l < topology->link_count; ++l) {
            const synth_link_t *link = &topology->links[l];

            synth_flow_arc(spread->flow, node(spread, link->from, s), node(spread, link->to, s + 1),
                           (int64_t)link->capacity * spread->rounds[s]);
        }
    }
    for (int s = 0; s < spread->steps; ++s) {
        for (int r = 0; r < n; ++r) {
            synth_flow_arc(spread->flow, node(spread, r, s), node(spread, r, s + 1), SYNTH_FLOW_FULL);
        }
    }
    for (int r = 0; r < n; ++r) {
        synth_flow_arc(spread->flow, node(spread, r, spread->steps), sink, r == spread->root ? 0 : spread->chunks);
    }
    return synth_flow_run(spread->flow, node(spread, spread->root, 0), sink, SYNTH_FLOW_FULL) ==
           (int64_t)(n - 1) * spread->chunks;
}

/* The schedule of a flow: traces each chunk back from its receiver to the root. NULL without memory. */
static synth_schedule_t *trace(spread_t *spread, bool gather)
{
    const synth_topology_t *topology = spread->topology;
    int n = topology->ranks, e = topology->link_count;
    synth_schedule_t *schedule =
        synth_schedule_new(gather ? SYNTH_GATHER : SYNTH_SCATTER, n, spread->root, spread->chunks);
    bool fine = schedule != NULL;

    for (int k = 0; fine && k < n * spread->chunks; ++k) {
        int rank = k / spread->chunks;

        for (int s = spread->steps - 1; fine && s >= 0 && k / spread->chunks != spread->root; --s) {
            int link = -1;

            if (synth_flow_on(spread->flow, spread->steps * e + s * n + rank) > 0) {
                synth_flow_take(spread->flow, spread->steps * e + s * n + rank, 1);
                continue;
            }
            for (int l = 0; l < e && link < 0; ++l) {
                link = topology->links[l].to == rank && synth_flow_on(spread->flow, s * e + l) > 0 ? l : -1;
            }
            fine = link >= 0;
            if (fine) {
                synth_flow_take(spread->flow, s * e + link, 1);
                rank = topology->links[link].from;
                fine = gather ? synth_schedule_add(schedule, k, topology->links[link].to, rank, spread->steps - 1 - s,
                                                   false)
                              : synth_schedule_add(schedule, k, rank, topology->links[link].to, s, false);
            }
        }
    }
    if (fine) {
        schedule->steps = spread->steps;
        for (int s = 0; s < spread->steps; ++s) {
            schedule->rounds[s] = spread->rounds[gather ? spread->steps - 1 - s : s];
        }
        fine = synth_schedule_prune(schedule);
    }
    if (!fine) {
        synth_schedule_free(schedule);
        return NULL;
    }
    return schedule;
}

/* Tries all ways to share `rest` rounds among the steps from `step` on. Returns the first schedule that is found, or
 * NULL. */
static synth_schedule_t *spread_rounds(spread_t *spread, int step, int rest, bool gather)
{
    synth_schedule_t *schedule = NULL;

    if (step == spread->steps - 1) {
        spread->rounds[step] = rest;
        return run_flow(spread) ? trace(spread, gather) : NULL;
    }
    for (int here = 1; schedule == NULL && here <= rest - (spread->steps - 1 - step); ++here) {
        spread->rounds[step] = here;
        schedule = spread_rounds(spread, step + 1, rest - here, gather);
    }
    return schedule;
}

synth_schedule_t *synth_by_flow(const synth_topology_t *topology, synth_collective_t collective, int root, int chunks,
                                int steps, int rounds)
{
    bool gather = collective == SYNTH_GATHER;
    synth_topology_t *turned = gather ? synth_topology_transposed(topology) : NULL;
    spread_t spread = {gather ? turned : topology, root, chunks, steps, {0}, NULL};
    synth_schedule_t *schedule = NULL;
    double ways = 1;

    for (int i = 1; i < steps; ++i) {
        ways *= (double)(rounds - i) / i;
    }
    if (rounds >= steps && ways < 20000 && spread.topology != NULL) {
        schedule = spread_rounds(&spread, 0, rounds, gather);
    }
    synth_flow_free(spread.flow);
    synth_topology_free(turned);
    return schedule;
}
