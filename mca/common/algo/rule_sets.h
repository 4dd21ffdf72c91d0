/*
 * The form in which the rules of a file are stored. Only for the code that reads the file and the code that stores its
 * rules.
 */
#ifndef MCA_COMMON_ALGO_RULE_SETS_H
#define MCA_COMMON_ALGO_RULE_SETS_H

#include "mca/common/algo/rules.h"

/* The most names of plans in a file, and the bytes of such a name with its end. */
#define MSCCLPP_RULE_PLANS_MAX 256
#define MSCCLPP_RULE_PLAN_NAME_MAX 128

/* The rules for one number of ranks on one kind of device. */
typedef struct mscclpp_rule_sets {
    struct mscclpp_rule_sets *next; /* for more ranks, or for the twin after CUDA */
    uint32_t nranks;
    bool on_twin;
    mscclpp_rule_set_t allreduce;
    mscclpp_coll_rule_set_t colls;
} mscclpp_rule_sets_t;

struct mscclpp_rules {
    char plan[MSCCLPP_RULE_PLANS_MAX]
             [MSCCLPP_RULE_PLAN_NAME_MAX]; /* the names of plans in rules; an empty name ends the list */
    mscclpp_rule_sets_t *first;
    mscclpp_rule_figures_t figures[MSCCLPP_RULE_TRANSPORTS];
};

/*
 * Returns the rules for so many ranks, which it adds if there are none. Returns NULL if there is no memory, and logs
 * that.
 */
mscclpp_rule_sets_t *mscclpp_rules_have_sets(mscclpp_rules_t *rules, uint32_t nranks, bool on_twin);

#endif
