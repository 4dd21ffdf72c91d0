/*
 * Runs a plan over all its ranks, without GPU or MPI. It traces every element from the inputs to the results, and
 * checks that the plan orders every pair of accesses to a chunk. Launches follow one another without a barrier
 * (docs/plans.md, "What is simulated").
 */
#ifndef MCA_COMMON_PLAN_SIMULATE_H
#define MCA_COMMON_PLAN_SIMULATE_H

#include "mca/common/plan/plan.h"

enum { MSCCLPP_PLAN_LAUNCHES = 3, MSCCLPP_PLAN_MAX_LAUNCHES = 100 };

typedef struct {
    int launches; /* back to back */
    uint64_t seed;
} mscclpp_plan_sim_options_t;

typedef struct {
    int runs; /* sizes times schedules */
    int sizes;
    bool checked;   /* results were compared, since the collective defines them */
    uint64_t steps; /* operations done */
} mscclpp_plan_sim_stats_t;

/* Needs a plan without static faults. True if no fault was found. */
bool mscclpp_plan_simulate(const mscclpp_plan_t *plan, const mscclpp_plan_sim_options_t *options,
                           mscclpp_plan_report_t *report, mscclpp_plan_sim_stats_t *stats);

#endif
