/* The part of the choice between nodes that uses the cost model. The functions have no side effects. */
#ifndef MCA_COMMON_ALGO_ALLREDUCE_BETWEEN_H
#define MCA_COMMON_ALGO_ALLREDUCE_BETWEEN_H

#include <stddef.h>

#include "device/types/nodes.h"
#include "mca/common/algo/algo.h"
#include "mca/common/algo/schedule/cost.h"

/*
 * Returns the figures of the call's transport for the cost model. Measured figures of the rules file replace the
 * built-in ones. If the transport is unknown, or has no built-in figures, returns the built-in figures of verbs.
 */
mscclpp_cost_figures_t mscclpp_between_find_figures(const mscclpp_select_input_t *input);

/*
 * Returns true if a rank may send to `peer_nodes` other nodes at a time. The parameter nodes_fanout limits this number.
 */
bool mscclpp_between_keeps_fanout(const mscclpp_select_input_t *input, uint32_t peer_nodes);

/*
 * Writes a blank and the figures in parentheses, as the end of a line that explains a choice. Writes at most `size`
 * bytes, with the zero byte; text that does not fit is cut off.
 */
void mscclpp_between_print_figures(const mscclpp_select_input_t *input, const mscclpp_cost_figures_t *figures,
                                   char *text, size_t size);

/*
 * Returns the time in seconds that the cost model predicts for the call between its nodes with this pattern, in the
 * kernel's tiles. DOUBLING has no tiles, so its time is that with packets. Returns HUGE_VAL if there is no room for
 * tiles. Returns 0 for all patterns if there are more nodes than a schedule can have; so none of them seems faster than
 * DIRECT.
 */
double mscclpp_between_estimate(const mscclpp_select_input_t *input, mscclpp_dev_nodes_pattern_t pattern);

/* Returns the time that the cost model predicts with packets, in seconds. `pattern` is DIRECT or DOUBLING. */
double mscclpp_between_estimate_packets(const mscclpp_select_input_t *input, mscclpp_dev_nodes_pattern_t pattern);

/*
 * Stores the size of the kernel's tiles, and the number of tiles in flight, in `figures`. A smaller size in `figures`
 * stays. `bytes` is as in mscclpp_tiles_find. Returns false, with *figures unchanged, if there is no room for tiles.
 */
bool mscclpp_between_set_tiles(const mscclpp_select_input_t *input, const mscclpp_schedule_t *schedule,
                               mscclpp_dev_nodes_pattern_t exchange, uint64_t bytes, mscclpp_cost_figures_t *figures);

/*
 * Does what mscclpp_select_explain (mca/common/algo/select.h) describes. `can_double` says that recursive doubling can
 * serve the call; otherwise its time is shown as infinite.
 */
void mscclpp_between_explain(const mscclpp_select_input_t *input, const char *chosen, bool can_double, char *text,
                             size_t size);

#endif
