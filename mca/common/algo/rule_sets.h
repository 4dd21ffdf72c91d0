/* The contents of mscclpp_rules_t. Only the functions of rules.h use it. */
#ifndef MCA_COMMON_ALGO_RULE_SETS_H
#define MCA_COMMON_ALGO_RULE_SETS_H

#include "mca/common/algo/rules.h"

/* The maximum number of names of plans in a file, and the size in bytes of such a name with its zero byte. */
#define MSCCLPP_RULE_PLANS_MAX 256
#define MSCCLPP_RULE_PLAN_NAME_MAX 128

/* The rules for one number of ranks on one kind of device. */
typedef struct mscclpp_rule_sets {
    struct mscclpp_rule_sets *next; /* the list is sorted: CUDA before the twin, then by number of ranks */
    uint32_t nranks;
    bool on_twin;
    mscclpp_rule_set_t allreduce;
    mscclpp_coll_rule_set_t colls;
} mscclpp_rule_sets_t;

struct mscclpp_rules {
    /* The names of the plans in rules. An empty name ends the list, unless the list is full. */
    char plan[MSCCLPP_RULE_PLANS_MAX][MSCCLPP_RULE_PLAN_NAME_MAX];
    mscclpp_rule_sets_t *first;
    mscclpp_rule_figures_t figures[MSCCLPP_RULE_TRANSPORTS];
};

/*
 * Returns the rules for this number of ranks. Adds empty ones if there are none. Logs a lack of memory, and returns
 * NULL.
 */
mscclpp_rule_sets_t *mscclpp_rules_ensure_sets(mscclpp_rules_t *rules, uint32_t nranks, bool on_twin);

#endif
