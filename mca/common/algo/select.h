/*
 * The selector of all-reduce. It chooses an algorithm and its grid, and depends only on values that are equal on all
 * ranks. The selector of the other collectives is in mca/common/algo/coll.h.
 */
#ifndef MCA_COMMON_ALGO_SELECT_H
#define MCA_COMMON_ALGO_SELECT_H

#include <stddef.h>

#include "mca/common/algo/algo.h"
#include "mca/common/base/status.h"

/*
 * Chooses the algorithm and grid of an all-reduce. An algorithm that the user forces comes first, then that of the
 * rules file, then that of the built-in thresholds. Returns MSCCLPP_ERR_NOT_SUPPORTED in these cases: the user wants
 * all calls staged; an early call would need a meeting that the hosts of several nodes cannot hold; the scratch is too
 * small for every algorithm that may serve the call.
 */
mscclpp_status_t mscclpp_select_allreduce(const mscclpp_select_input_t *input, mscclpp_choice_t *choice_p);

/*
 * Fills in the kernel and grid of the given algorithm. Returns MSCCLPP_ERR_NOT_SUPPORTED, with *choice_p unchanged and
 * nothing logged, if the algorithm cannot serve the call.
 */
mscclpp_status_t mscclpp_select_shape(const mscclpp_select_input_t *input, const mscclpp_algo_t *algo,
                                      mscclpp_choice_t *choice_p);

/*
 * Chooses an algorithm for ranks on several nodes that is also a barrier: no rank ends the call before all ranks have
 * begun it. The algorithm never uses packets. Returns MSCCLPP_ERR_NOT_SUPPORTED, with *choice_p unchanged, if the
 * scratch or the slots are too small for it.
 */
mscclpp_status_t mscclpp_select_meeting(const mscclpp_select_input_t *input, mscclpp_choice_t *choice_p);

/*
 * Writes the choice between nodes, and the time that the cost model predicts for each pattern, as one line without a
 * newline. Truncates the line to `size` bytes.
 */
void mscclpp_select_explain(const mscclpp_select_input_t *input, const mscclpp_choice_t *choice, char *text,
                            size_t size);

#endif
