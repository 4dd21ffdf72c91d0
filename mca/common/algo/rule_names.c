#include "mca/common/algo/rule_names.h"

#include <stdio.h>
#include <string.h>

#include "device/types/coll_nodes.h"
#include "mca/common/algo/algo.h"
#include "mca/common/algo/coll.h"

/*
 * Does what mscclpp_rule_may_name does, for collectives other than all-reduce. Copy engines cannot combine blocks. A
 * ring, halving and trees are only for collectives whose blocks are passed on from node to node.
 */
static bool may_serve(mscclpp_coll_t coll, bool spans, int algorithm)
{
    const mscclpp_dev_pattern_t pattern = mscclpp_coll_pattern(coll);

    if (algorithm == MSCCLPP_COLL_BY_ENGINES && MSCCLPP_DEV_COMBINES(pattern)) {
        return false;
    }
    if (algorithm == MSCCLPP_COLL_BY_NODES_RING || algorithm == MSCCLPP_COLL_BY_NODES_HALVING) {
        return spans && MSCCLPP_DEV_COLL_RINGS(pattern);
    }
    if (algorithm == MSCCLPP_COLL_BY_NODES_TREES) {
        return spans && MSCCLPP_DEV_COLL_TREES(pattern);
    }
    return spans == (algorithm >= MSCCLPP_COLL_BY_NODES);
}

bool mscclpp_rule_may_name(mscclpp_coll_t coll, bool spans, int64_t algorithm)
{
    return coll == MSCCLPP_COLL_LAST ? mscclpp_algos[algorithm]->spans_nodes == spans
                                     : may_serve(coll, spans, (int)algorithm);
}

const char *mscclpp_rule_name(mscclpp_coll_t coll, int64_t algorithm)
{
    return coll == MSCCLPP_COLL_LAST ? mscclpp_algos[algorithm]->name
                                     : mscclpp_coll_algo_name((mscclpp_coll_algo_t)algorithm);
}

/* Appends each name that does not match to `allowed`, which has the whole list if none matches. Cuts off a long list.
 */
bool mscclpp_rule_find_name(mscclpp_coll_t coll, bool spans, const char *name, int64_t *algorithm_p, char *allowed,
                            size_t size)
{
    const int count = coll == MSCCLPP_COLL_LAST ? mscclpp_algo_count : MSCCLPP_COLL_BY_END;
    size_t used = (size_t)snprintf(allowed, size, "one of ");
    int i;

    for (i = 0; i < count; ++i) {
        if (!mscclpp_rule_may_name(coll, spans, i)) {
            continue;
        }
        if (strcmp(name, mscclpp_rule_name(coll, i)) == 0) {
            *algorithm_p = i;
            return true;
        }
        used += (size_t)snprintf(allowed + used, size - used, "%s|", mscclpp_rule_name(coll, i));
        used = used < size ? used : size - 1;
    }
    (void)snprintf(allowed + used, size - used, "plan:NAME");
    return false;
}
