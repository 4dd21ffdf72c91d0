/* The patterns of collectives, and the names of their algorithms. */
#include <string.h>

#include "mca/common/algo/coll.h"

static const mscclpp_dev_pattern_t patterns[MSCCLPP_COLL_LAST] = {
#define PATTERN(id_, name_, pattern_) [MSCCLPP_COLL_##id_] = pattern_,
    MSCCLPP_COLLS(PATTERN)
#undef PATTERN
};

static const char *const algo_names[MSCCLPP_COLL_BY_LAST] = {
    [MSCCLPP_COLL_BY_PACKETS] = "packets", [MSCCLPP_COLL_BY_ZEROCOPY] = "zerocopy",
    [MSCCLPP_COLL_BY_ENGINES] = "engines", [MSCCLPP_COLL_BY_SCRATCH] = "scratch",
    [MSCCLPP_COLL_BY_PUTS] = "puts",
};

mscclpp_dev_pattern_t mscclpp_coll_pattern(mscclpp_coll_t coll)
{
    return patterns[coll];
}

const char *mscclpp_coll_algo_name(mscclpp_coll_algo_t algo)
{
    return algo == MSCCLPP_COLL_BY_NODES           ? "nodes"
           : algo == MSCCLPP_COLL_BY_NODES_PACKETS ? "nodes_packets"
           : algo == MSCCLPP_COLL_BY_NODES_ROUNDS  ? "nodes_rounds"
           : algo == MSCCLPP_COLL_BY_NODES_RING    ? "nodes_ring"
           : algo == MSCCLPP_COLL_BY_NODES_TREES   ? "nodes_trees"
           : algo == MSCCLPP_COLL_BY_NODES_HALVING ? "nodes_halving"
                                                   : algo_names[algo];
}

int mscclpp_coll_algo_find(const char *name)
{
    int i;

    for (i = 0; i < MSCCLPP_COLL_BY_LAST; ++i) {
        if (strcmp(name, algo_names[i]) == 0) {
            return i;
        }
    }
    return strcmp(name, "stage") == 0 ? MSCCLPP_COLL_STAGE : MSCCLPP_COLL_AUTO;
}

int mscclpp_coll_algo_find_any(const char *name)
{
    int i;

    for (i = MSCCLPP_COLL_BY_NODES; i < MSCCLPP_COLL_BY_END; ++i) {
        if (strcmp(name, mscclpp_coll_algo_name((mscclpp_coll_algo_t)i)) == 0) {
            return i;
        }
    }
    return mscclpp_coll_algo_find(name);
}
