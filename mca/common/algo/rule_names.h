/* The names of algorithms that the rules file may have. Callable from any thread. */
#ifndef MCA_COMMON_ALGO_RULE_NAMES_H
#define MCA_COMMON_ALGO_RULE_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mca/common/base/colls.h"

/*
 * Finds the algorithm that a rule names, other than a plan. `coll` is MSCCLPP_COLL_LAST for all-reduce. `spans` tells
 * that the rule is for ranks on several nodes, which have algorithms of their own. Returns false if no such rule may
 * have this name; then `allowed`, of `size` bytes, has those that it may have.
 */
bool mscclpp_rule_find_name(mscclpp_coll_t coll, bool spans, const char *name, int64_t *algorithm_p, char *allowed,
                            size_t size);

/*
 * Returns true if rules of the collective may name the algorithm, which is no plan; the arguments are those of the
 * function above.
 */
bool mscclpp_rule_may_name(mscclpp_coll_t coll, bool spans, int64_t algorithm);

/* Returns the name for a rule's `algorithm` that is no plan. */
const char *mscclpp_rule_name(mscclpp_coll_t coll, int64_t algorithm);

#endif
