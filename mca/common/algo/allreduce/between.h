/* The cost model's part in the choice between nodes. Pure functions. */
#ifndef MCA_COMMON_ALGO_ALLREDUCE_BETWEEN_H
#define MCA_COMMON_ALGO_ALLREDUCE_BETWEEN_H

#include <stddef.h>

#include "device/types/nodes.h"
#include "mca/common/algo/algo.h"
#include "mca/common/algo/schedule/cost.h"

/* The transport's built-in figures, or those of verbs; measured ones of the rules file take their place. */
mscclpp_cost_figures_t mscclpp_between_figures(const mscclpp_select_input_t *input);

/* Whether a rank may send to so many other nodes at a time. */
bool mscclpp_between_keeps_fanout(const mscclpp_select_input_t *input, uint32_t nodes);

/* Writes the figures, in parentheses, behind a reckoning. */
void mscclpp_between_print_figures(const mscclpp_select_input_t *input, const mscclpp_cost_figures_t *figures,
                                   char *text, size_t size);

/* Seconds that an all-reduce takes with this pattern, by the model. */
double mscclpp_between_cost(const mscclpp_select_input_t *input, mscclpp_dev_nodes_pattern_t pattern);

/* Does what mscclpp_select_explain (mca/common/algo/select.h) describes. */
void mscclpp_between_explain(const mscclpp_select_input_t *input, const char *chosen, char *text, size_t size);

#endif
