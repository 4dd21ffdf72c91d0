/*
 * Which algorithm serves a collective other than all-reduce between nodes. Pure functions, as in
 * mca/common/algo/coll.h.
 */
#ifndef MCA_COMMON_ALGO_COLL_BETWEEN_H
#define MCA_COMMON_ALGO_COLL_BETWEEN_H

#include "mca/common/algo/coll.h"

/*
 * Chooses an algorithm between nodes, as mscclpp_coll_select does. `asked` is the one that a parameter or a rule asks
 * for; MSCCLPP_COLL_AUTO leaves the choice to the cost model. If `asked` cannot serve the call, another one does.
 */
mscclpp_status_t mscclpp_coll_select_between(const mscclpp_select_input_t *input, mscclpp_coll_t coll,
                                             uint64_t block_bytes, bool varied, int asked,
                                             mscclpp_coll_choice_t *choice_p);

#endif
