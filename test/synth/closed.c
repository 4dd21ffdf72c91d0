/*
 * Formulas against the linear program on machines that are small enough for it: a bound by a formula must be what the
 * program says, and a schedule must be right and not better than that.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tools/synth/lib/bounds.h"
#include "tools/synth/lib/closed.h"
#include "tools/synth/lib/slp.h"

static int failures, compared, schedules;

static void fail(const char *name, synth_collective_t collective, int steps, const char *what)
{
    printf("FAIL  %s, %s, %d steps: %s\n", name, synth_collective_names[collective], steps, what);
    ++failures;
}

/* A machine whose ranks are numbered the other way round, so that no formula may rest on the numbering. */
static synth_topology_t *machine(const char *name, bool turned)
{
    synth_topology_t *topology = NULL, *part;
    char reason[SYNTH_REASON];
    int order[SYNTH_MAX_RANKS];

    if (synth_topology_named(name, reason, sizeof(reason), &topology) != MSCCLPP_OK) {
        printf("FAIL  %s: %s\n", name, reason);
        exit(1);
    }
    if (!turned) {
        return topology;
    }
    for (int rank = 0; rank < topology->ranks; ++rank) { /* nodes mixed */
        order[rank] = (rank * 7 + 3) % topology->ranks;
    }
    part = synth_topology_part(topology, order, topology->ranks);
    synth_topology_free(topology);
    return part;
}

static void look_at(const char *name, const synth_topology_t *topology, synth_collective_t collective, int root,
                    int steps)
{
    synth_shape_t shape;
    synth_schedule_t *schedule;
    synth_fault_t fault;
    synth_rational_t bound;
    synth_slp_t slp;

    synth_shape_find(topology, &shape);
    if (shape.kind == SYNTH_IRREGULAR) {
        fail(name, collective, steps, "not known to be regular");
        return;
    }
    bound = synth_closed_bound(&shape, collective, steps);
    if (synth_slp_solve(topology, collective, root, steps, 60, &slp) != MSCCLPP_OK) {
        fail(name, collective, steps, "the linear program is too large");
        return;
    }
    if (bound.num != 0 && synth_compare(bound, slp.bound) != 0) {
        fail(name, collective, steps, "the formula and the linear program differ");
    }
    compared += bound.num != 0;
    schedule = synth_closed_schedule(topology, &shape, collective, root, steps, SYNTH_MAX_CHUNKS);
    printf("%s %s, root %d, %d steps: bound %lld/%lld, program %lld/%lld", name, synth_collective_names[collective],
           root, steps, (long long)bound.num, (long long)bound.den, (long long)slp.bound.num, (long long)slp.bound.den);
    if (schedule == NULL) {
        printf(", no schedule\n");
        return;
    }
    printf(", schedule %d/%d\n", synth_schedule_rounds(schedule), schedule->chunks);
    if (!synth_schedule_verify(topology, schedule, &fault)) {
        fail(name, collective, steps, fault.text);
    } else if (synth_compare(synth_schedule_ratio(schedule), slp.bound) < 0) {
        fail(name, collective, steps, "a schedule is better than the bound");
    }
    ++schedules;
    synth_schedule_free(schedule);
}

int main(void)
{
    static const struct {
        const char *name;
        int steps; /* beyond the least */
    } machines[] = {{"mesh:3", 3},    {"mesh:6", 2},    {"switch:3", 3},  {"switch:5", 2},
                    {"nodes:2x2", 2}, {"nodes:3x2", 1}, {"nodes:2x3", 1}, {"nodes:3x3", 0}};

    for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); ++i) {
        for (int turned = 0; turned < 2; ++turned) {
            synth_topology_t *topology = machine(machines[i].name, turned != 0);

            for (int collective = 0; collective <= SYNTH_ALLTOALL; ++collective) {
                int least = synth_bound_steps(topology, collective, turned);

                for (int steps = least; steps <= least + machines[i].steps; ++steps) {
                    look_at(machines[i].name, topology, collective, turned, steps);
                }
            }
            synth_topology_free(topology);
        }
    }
    printf("%d bounds by formulas are those of the linear program, %d schedules are right, %d failures\n", compared,
           schedules, failures);
    return failures > 0 || compared < 50 || schedules < 50;
}
