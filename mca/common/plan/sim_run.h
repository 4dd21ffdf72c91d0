/* One run of a plan, with one size and one order of steps. */
#ifndef MCA_COMMON_PLAN_SIM_RUN_H
#define MCA_COMMON_PLAN_SIM_RUN_H

#include "mca/common/plan/sim.h"

/*
 * The caller fills in plan, report, chunk, cell_size, wrap, launches, seed and extremes. If `random` is 0, blocks take
 * turns in order, each going on as long as it can; every other number picks its own order. False if the buffers are too
 * large to simulate.
 */
bool mscclpp_sim_run(mscclpp_sim_t *sim, uint64_t random);

#endif
