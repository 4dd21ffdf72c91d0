/* Finds the rule of a rules file that is for a given call. All ranks have the same rules (rank 0's). */
#ifndef MCA_COMMON_ALGO_RULE_MATCH_H
#define MCA_COMMON_ALGO_RULE_MATCH_H

#include "mca/common/algo/algo.h"
#include "mca/common/base/colls.h"

/*
 * Finds the first rule for a call of `bytes`, in place or not, by ranks on `nodes` nodes, and gives its algorithm as in
 * mscclpp_rule_t. Returns false if no rule is for such a call; then *algorithm_p is left as it is. `coll` is
 * MSCCLPP_COLL_LAST for all-reduce. Pure, so the result is equal on all ranks.
 */
bool mscclpp_rule_match(const mscclpp_protocol_t *protocol, mscclpp_coll_t coll, uint64_t bytes, bool in_place,
                        uint32_t nodes, int64_t *algorithm_p);

#endif
