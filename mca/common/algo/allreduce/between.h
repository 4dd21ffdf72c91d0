/* The cost model's part in the choice of an all-reduce between nodes. Pure functions. */
#ifndef MCA_COMMON_ALGO_ALLREDUCE_BETWEEN_H
#define MCA_COMMON_ALGO_ALLREDUCE_BETWEEN_H

#include <stddef.h>

#include "device/types/nodes.h"
#include "mca/common/algo/algo.h"

/* Seconds that an all-reduce takes in this pattern, by the model. */
double mscclpp_between_cost(const mscclpp_select_input_t *input, mscclpp_dev_nodes_pattern_t pattern);

/* As mscclpp_select_explain (mca/common/algo/select.h). */
void mscclpp_between_explain(const mscclpp_select_input_t *input, const char *chosen, char *text, size_t size);

#endif
