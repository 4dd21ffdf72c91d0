/* One run of a plan, of one size and one order of steps. */
#ifndef MCA_COMMON_PLAN_SIM_RUN_H
#define MCA_COMMON_PLAN_SIM_RUN_H

#include "mca/common/plan/sim.h"

/*
 * The caller has filled in plan, report, chunk, cell_size, wrap, launches, seed and extremes. With 0 as `random` each
 * block goes on as long as it can, in order; any other number picks an order of its own. False if the buffers are too
 * large to be simulated.
 */
bool mscclpp_sim_run(mscclpp_sim_t *sim, uint64_t random);

#endif
