/* The part of the choice between nodes that uses the cost model. The functions have no side effects. */
#ifndef MCA_COMMON_ALGO_ALLREDUCE_BETWEEN_H
#define MCA_COMMON_ALGO_ALLREDUCE_BETWEEN_H

#include <stddef.h>

#include "device/types/nodes.h"
#include "mca/common/algo/algo.h"
#include "mca/common/algo/schedule/cost.h"

/*
 * Returns the figures of the call's transport for the cost model: the measured figures of the rules file if it has
 * some, and otherwise the built-in figures. If the transport is unknown, or has no built-in figures, returns the
 * figures of verbs.
 */
mscclpp_cost_figures_t mscclpp_between_figures(const mscclpp_select_input_t *input);

/*
 * Returns true if a rank may send to `peer_nodes` other nodes at a time. The parameter nodes_fanout limits this number.
 */
bool mscclpp_between_keeps_fanout(const mscclpp_select_input_t *input, uint32_t peer_nodes);

/*
 * Writes a blank and the figures in parentheses, as the end of a line that explains a choice. Writes at most `size`
 * bytes, like snprintf.
 */
void mscclpp_between_print_figures(const mscclpp_select_input_t *input, const mscclpp_cost_figures_t *figures,
                                   char *text, size_t size);

/*
 * Returns the time in seconds that the model predicts for an all-reduce between the call's nodes with this pattern, in
 * tiles as the kernel has them. For DOUBLING, which has no tiles, it is that with packets. If there are more nodes than
 * a schedule can have, returns 0 for all patterns alike, so that none of them seems better than DIRECT. If there is no
 * room for tiles, returns HUGE_VAL.
 */
double mscclpp_between_cost(const mscclpp_select_input_t *input, mscclpp_dev_nodes_pattern_t pattern);

/* The same with packets. `pattern` is DIRECT or DOUBLING. */
double mscclpp_between_packets_cost(const mscclpp_select_input_t *input, mscclpp_dev_nodes_pattern_t pattern);

/*
 * Stores the size and the number of the kernel's tiles in the figures. Figures keep their own tiles if these are
 * shorter. Returns false if there is no room for tiles. `bytes` is as in mscclpp_tiles_of_kernel.
 */
bool mscclpp_between_take_tiles(const mscclpp_select_input_t *input, const mscclpp_schedule_t *schedule,
                                mscclpp_dev_nodes_pattern_t exchange, uint64_t bytes, mscclpp_cost_figures_t *figures);

/*
 * Does what mscclpp_select_explain (mca/common/algo/select.h) describes. `can_double`: recursive doubling can serve the
 * call.
 */
void mscclpp_between_explain(const mscclpp_select_input_t *input, const char *chosen, bool can_double, char *text,
                             size_t size);

#endif
