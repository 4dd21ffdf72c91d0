/* Runs a plan once, with one size and one order of steps. */
#ifndef MCA_COMMON_PLAN_SIM_RUN_H
#define MCA_COMMON_PLAN_SIM_RUN_H

#include "mca/common/plan/sim.h"

/*
 * Runs a plan once, and adds the faults to the report. The caller fills in plan, report, cells_per_chunk, cell_size,
 * wrap_cells, launches, seed and extremes; for times also cost, trace, movers and cell_bytes. All else is zero, and
 * what the run allocates is freed again.
 *
 * If `random` is 0, blocks take turns in order, and each goes on as long as it can; every other number picks an order
 * of its own. Returns false if the buffers are too large to simulate.
 */
bool mscclpp_sim_run(mscclpp_sim_t *sim, uint64_t random);

#endif
