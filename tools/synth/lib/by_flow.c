/* Finds scatters as flows in a graph that has every rank once for each step. A gather is a reversed scatter. */
#include <stdlib.h>

#include "mca/common/base/clock.h"
#include "tools/synth/lib/direct.h"
#include "tools/synth/lib/flow.h"

enum { TOO_MANY_WAYS = 20000 }; /* to divide the rounds among the steps; with so many or more, none is tried */

/* The search for a scatter. */
typedef struct {
    const synth_topology_t *topology;
    int root, chunks, steps;
    int rounds[SYNTH_MAX_STEPS]; /* [step]: the number of rounds that is tried now */
    synth_flow_t *flow;
    double deadline; /* by mscclpp_now */
    const volatile sig_atomic_t *stop;
} scatter_t;

/* Returns the number of the vertex that stands for a rank before this step. */
static int vertex_of(const scatter_t *scatter, int rank, int step)
{
    return step * scatter->topology->ranks + rank;
}

/*
 * Builds the graph for the current division of rounds, in place of an earlier one, and computes its maximum flow.
 * Returns true if all chunks arrive, and false if they do not or memory runs out. The arcs of links come first, then
 * the arcs by which chunks stay at a rank, then the arcs to the sink. The limits of groups are ignored: the replay
 * later refuses a schedule that exceeds them.
 */
static bool run_flow(scatter_t *scatter)
{
    const synth_topology_t *topology = scatter->topology;
    int ranks = topology->ranks, sink = ranks * (scatter->steps + 1);

    synth_flow_free(scatter->flow);
    scatter->flow = synth_flow_new(sink + 1, scatter->steps * (topology->link_count + ranks) + ranks);
    if (scatter->flow == NULL) {
        return false;
    }
    for (int step = 0; step < scatter->steps; ++step) {
        for (int i = 0; i < topology->link_count; ++i) {
            const synth_link_t *link = &topology->links[i];

            synth_flow_add_arc(scatter->flow, vertex_of(scatter, link->from, step),
                               vertex_of(scatter, link->to, step + 1), (int64_t)link->capacity * scatter->rounds[step]);
        }
    }
    for (int step = 0; step < scatter->steps; ++step) {
        for (int rank = 0; rank < ranks; ++rank) {
            synth_flow_add_arc(scatter->flow, vertex_of(scatter, rank, step), vertex_of(scatter, rank, step + 1),
                               SYNTH_FLOW_FULL);
        }
    }
    for (int rank = 0; rank < ranks; ++rank) {
        synth_flow_add_arc(scatter->flow, vertex_of(scatter, rank, scatter->steps), sink,
                           rank == scatter->root ? 0 : scatter->chunks);
    }
    return synth_flow_run(scatter->flow, vertex_of(scatter, scatter->root, 0), sink, SYNTH_FLOW_FULL) ==
           (int64_t)(ranks - 1) * scatter->chunks;
}

/*
 * Makes the schedule from the flow: traces each chunk back from its receiver to the root, and removes the path that it
 * finds from the flow. As much flow enters a vertex as leaves it, so every chunk finds a path. For a gather, the
 * topology is transposed, so the two ends of each send are exchanged and the steps are reversed. The numbers of the
 * arcs are those of run_flow. Returns the schedule, which the caller frees, or NULL if memory runs out or there are too
 * many sends.
 */
static synth_schedule_t *trace_chunks(scatter_t *scatter, bool is_gather)
{
    const synth_topology_t *topology = scatter->topology;
    int ranks = topology->ranks, links = topology->link_count;
    synth_schedule_t *schedule =
        synth_schedule_new(is_gather ? SYNTH_GATHER : SYNTH_SCATTER, ranks, scatter->root, scatter->chunks);
    bool ok = schedule != NULL;

    for (int chunk = 0; ok && chunk < ranks * scatter->chunks; ++chunk) {
        int rank = chunk / scatter->chunks;

        for (int step = scatter->steps - 1; ok && step >= 0 && chunk / scatter->chunks != scatter->root; --step) {
            int link = -1;

            /* In this step, the chunk stayed at the rank, or it came over one of the rank's links. */
            if (synth_flow_on(scatter->flow, scatter->steps * links + step * ranks + rank) > 0) {
                synth_flow_remove(scatter->flow, scatter->steps * links + step * ranks + rank, 1);
                continue;
            }
            for (int i = 0; i < links && link < 0; ++i) {
                link = topology->links[i].to == rank && synth_flow_on(scatter->flow, step * links + i) > 0 ? i : -1;
            }
            ok = link >= 0;
            if (ok) {
                synth_flow_remove(scatter->flow, step * links + link, 1);
                rank = topology->links[link].from;
                ok = is_gather ? synth_schedule_add(schedule, chunk, topology->links[link].to, rank,
                                                    scatter->steps - 1 - step, false)
                               : synth_schedule_add(schedule, chunk, rank, topology->links[link].to, step, false);
            }
        }
    }
    if (ok) {
        schedule->steps = scatter->steps;
        for (int step = 0; step < scatter->steps; ++step) {
            schedule->rounds[step] = scatter->rounds[is_gather ? scatter->steps - 1 - step : step];
        }
        ok = synth_schedule_prune(schedule);
    }
    if (!ok) {
        synth_schedule_free(schedule);
        return NULL;
    }
    return schedule;
}

/* Returns true if the time is over or the caller has asked to stop. */
static bool is_over(const scatter_t *scatter)
{
    return mscclpp_now() > scatter->deadline || (scatter->stop != NULL && *scatter->stop != 0);
}

/*
 * Tries all ways to divide `rounds_left` rounds among the steps from `step` on. Each step gets at least one round, so
 * `rounds_left` must be at least the number of these steps. Returns the first schedule that it finds, which the caller
 * frees. Returns NULL if it finds none, if the time is over, if the caller has asked to stop, or if memory runs out.
 * Leaves the last graph in scatter->flow.
 */
static synth_schedule_t *try_rounds(scatter_t *scatter, int step, int rounds_left, bool is_gather)
{
    synth_schedule_t *schedule = NULL;

    if (step == scatter->steps - 1) {
        scatter->rounds[step] = rounds_left;
        return !is_over(scatter) && run_flow(scatter) ? trace_chunks(scatter, is_gather) : NULL;
    }
    for (int rounds = 1; schedule == NULL && rounds <= rounds_left - (scatter->steps - 1 - step); ++rounds) {
        scatter->rounds[step] = rounds;
        schedule = try_rounds(scatter, step + 1, rounds_left - rounds, is_gather);
    }
    return schedule;
}

/*
 * Returns the number of ways to divide the rounds, with one or more for each step: the binomial coefficient (rounds -
 * 1, steps - 1). There must be at least as many rounds as steps.
 */
static double count_ways(int rounds, int steps)
{
    double ways = 1;

    for (int i = 1; i < steps; ++i) {
        ways *= (double)(rounds - i) / i;
    }
    return ways;
}

/* Finds a gather as a scatter on the transposed topology. */
synth_schedule_t *synth_find_by_flow(const synth_topology_t *topology, synth_collective_t collective, int root,
                                     int chunks, int steps, int rounds, double deadline,
                                     const volatile sig_atomic_t *stop)
{
    bool is_gather = collective == SYNTH_GATHER;
    synth_topology_t *transposed = is_gather ? synth_topology_transposed(topology) : NULL;
    scatter_t scatter = {.topology = is_gather ? transposed : topology,
                         .root = root,
                         .chunks = chunks,
                         .steps = steps,
                         .rounds = {0},
                         .deadline = deadline,
                         .stop = stop};
    synth_schedule_t *schedule = NULL;

    if (is_gather && transposed == NULL) {
        return NULL;
    }
    if (rounds >= steps && count_ways(rounds, steps) < TOO_MANY_WAYS) {
        schedule = try_rounds(&scatter, 0, rounds, is_gather);
    }
    synth_flow_free(scatter.flow);
    synth_topology_free(transposed);
    return schedule;
}
