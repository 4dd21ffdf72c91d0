/* The selector: a pure function from what all ranks know to an algorithm and its grid. */
#ifndef MCA_COMMON_ALGO_SELECT_H
#define MCA_COMMON_ALGO_SELECT_H

#include "mca/common/algo/algo.h"
#include "mca/common/base/status.h"

/* MSCCLPP_ERR_NOT_SUPPORTED if the protocol says that everything is staged, or if nothing fits the scratch. */
mscclpp_status_t mscclpp_select_allreduce(const mscclpp_select_input_t *input, mscclpp_choice_t *choice_p);

/* The choice for an algorithm given by hand. MSCCLPP_ERR_NOT_SUPPORTED if the scratch is too small for it. */
mscclpp_status_t mscclpp_select_shape(const mscclpp_select_input_t *input, const mscclpp_algo_t *algo,
                                      mscclpp_choice_t *choice_p);

/*
 * Like mscclpp_select_allreduce, but without packets, and for a call that no rank of any node ends before all ranks
 * have begun it.
 */
mscclpp_status_t mscclpp_select_meeting(const mscclpp_select_input_t *input, mscclpp_choice_t *choice_p);

#endif
