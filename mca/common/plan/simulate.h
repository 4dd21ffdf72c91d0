/*
 * Runs a plan over all its ranks, without GPU or MPI. It traces every element from the inputs to the results, and
 * checks that the plan orders every pair of accesses to a chunk. Launches follow one another without a barrier
 * (docs/plans.md, "What is simulated").
 */
#ifndef MCA_COMMON_PLAN_SIMULATE_H
#define MCA_COMMON_PLAN_SIMULATE_H

#include "mca/common/plan/plan.h"

enum { MSCCLPP_PLAN_LAUNCHES = 3, MSCCLPP_PLAN_MAX_LAUNCHES = 100 }; /* the default number, and the maximum */

/* The options of a simulation. */
typedef struct {
    int launches;  /* number of launches, one directly after the other */
    uint64_t seed; /* seed of the inputs, and of the order of steps */
} mscclpp_plan_sim_options_t;

typedef struct {
    int runs;        /* number of runs, over all sizes and orders of steps */
    int sizes;       /* number of sizes of chunks that were simulated */
    bool has_result; /* the collective defines the results, so they were compared */
    uint64_t steps;  /* number of operations done in all runs */
} mscclpp_plan_sim_stats_t;

/*
 * Simulates a plan, in which mscclpp_plan_check has found no fault. Adds faults and notes to the report, and stops at
 * the first size that has faults. Returns true if there are none and there was enough memory (report->no_memory). A
 * plan that is too large to simulate has the fault "size-limit". *stats is set in any case. Logs nothing.
 */
bool mscclpp_plan_simulate(const mscclpp_plan_t *plan, const mscclpp_plan_sim_options_t *options,
                           mscclpp_plan_report_t *report, mscclpp_plan_sim_stats_t *stats);

#endif
