/* The names of algorithms in rules. Any thread may call the functions. */
#ifndef MCA_COMMON_ALGO_RULE_NAMES_H
#define MCA_COMMON_ALGO_RULE_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mca/common/base/colls.h"

/*
 * Finds the algorithm with this name for a rule, and stores it as in mscclpp_rule_t. The name is not that of a plan.
 * `coll` is MSCCLPP_COLL_LAST for all-reduce. `spans` says that the rule is for ranks on several nodes, which have
 * separate algorithms. Returns false, with *algorithm_p unchanged, if such a rule may not have this name; then
 * `allowed`, of `size` bytes, lists the names that it may have.
 */
bool mscclpp_rule_find_name(mscclpp_coll_t coll, bool spans, const char *name, int64_t *algorithm_p, char *allowed,
                            size_t size);

/* Returns true if rules of the collective may name the algorithm. `coll` and `spans` are as above. */
bool mscclpp_rule_may_name(mscclpp_coll_t coll, bool spans, int64_t algorithm);

/* Returns the name of a rule's `algorithm`, which must not be a plan. */
const char *mscclpp_rule_name(mscclpp_coll_t coll, int64_t algorithm);

#endif
