/* Runs a plan once, with one size and one order of steps. */
#ifndef MCA_COMMON_PLAN_SIM_RUN_H
#define MCA_COMMON_PLAN_SIM_RUN_H

#include "mca/common/plan/sim.h"

/*
 * Runs a plan once, and adds the faults to the report. The caller sets `plan`, `report`, `cells_per_chunk`,
 * `cell_size`, `wrap_cells`, `launches`, `seed` and `has_min_or_max`; for times also `cost`, `trace`, `movers` and
 * `cell_bytes`. All other fields must be zero. Memory that the run allocates is freed at its end.
 *
 * If `order_seed` is 0, blocks take turns in order, and each runs as long as it can. Every other number selects a
 * different order. Returns false if the buffers are too large to simulate. A lack of memory is only noted in the report
 * (`no_memory`), and the result is then true.
 */
bool mscclpp_sim_run(mscclpp_sim_t *sim, uint64_t order_seed);

#endif
