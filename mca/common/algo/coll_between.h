/* The choice of the algorithm that serves a collective other than all-reduce between nodes. It has no side effects. */
#ifndef MCA_COMMON_ALGO_COLL_BETWEEN_H
#define MCA_COMMON_ALGO_COLL_BETWEEN_H

#include "mca/common/algo/coll.h"

/*
 * Chooses an algorithm between nodes, as mscclpp_coll_select does. `forced` is the algorithm that a parameter or a rule
 * asks for; MSCCLPP_ALGO_AUTO leaves the choice to the cost model. If `forced` cannot serve the call, another algorithm
 * does. Returns MSCCLPP_ERR_NOT_SUPPORTED, with *choice_p unchanged, if there is no room for tiles.
 */
mscclpp_status_t mscclpp_coll_select_between(const mscclpp_select_input_t *input, mscclpp_coll_t coll,
                                             uint64_t block_bytes, bool varied, int forced,
                                             mscclpp_coll_choice_t *choice_p);

#endif
