/* Finds the rule of a rules file for a given call. All ranks have the rules of rank 0. */
#ifndef MCA_COMMON_ALGO_RULE_MATCH_H
#define MCA_COMMON_ALGO_RULE_MATCH_H

#include "mca/common/algo/algo.h"
#include "mca/common/base/colls.h"

/*
 * Finds the first rule for a call of `bytes` bytes by ranks on `nodes` nodes, and stores the rule's algorithm, as in
 * mscclpp_rule_t. `coll` is MSCCLPP_COLL_LAST for all-reduce. Returns false, with *algorithm_p unchanged, if no rule is
 * for such a call. Depends only on its arguments, so the result is equal on all ranks.
 */
bool mscclpp_rule_match(const mscclpp_protocol_t *protocol, mscclpp_coll_t coll, uint64_t bytes, bool in_place,
                        uint32_t nodes, int64_t *algorithm_p);

#endif
