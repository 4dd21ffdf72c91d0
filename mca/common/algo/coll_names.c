/* The patterns of collectives, and the names of their algorithms. */
#include <string.h>

#include "mca/common/algo/coll.h"

static const mscclpp_dev_pattern_t patterns[MSCCLPP_COLL_LAST] = {
#define PATTERN(id_, name_, pattern_) [MSCCLPP_COLL_##id_] = pattern_,
    MSCCLPP_COLLS(PATTERN)
#undef PATTERN
};

static const char *const algo_names[MSCCLPP_COLL_BY_END] = {
    [MSCCLPP_COLL_BY_PACKETS] = "packets",
    [MSCCLPP_COLL_BY_ZEROCOPY] = "zerocopy",
    [MSCCLPP_COLL_BY_ENGINES] = "engines",
    [MSCCLPP_COLL_BY_SCRATCH] = "scratch",
    [MSCCLPP_COLL_BY_PUTS] = "puts",
    [MSCCLPP_COLL_BY_NODES] = "nodes",
    [MSCCLPP_COLL_BY_NODES_PACKETS] = "nodes_packets",
    [MSCCLPP_COLL_BY_NODES_ROUNDS] = "nodes_rounds",
    [MSCCLPP_COLL_BY_NODES_RING] = "nodes_ring",
    [MSCCLPP_COLL_BY_NODES_TREES] = "nodes_trees",
    [MSCCLPP_COLL_BY_NODES_HALVING] = "nodes_halving",
};

mscclpp_dev_pattern_t mscclpp_coll_pattern(mscclpp_coll_t coll)
{
    return patterns[coll];
}

const char *mscclpp_coll_algo_name(mscclpp_coll_algo_t algo)
{
    return algo_names[algo];
}

/* Returns the algorithm below `end` with this name, or what mscclpp_coll_algo_find returns for any other text. */
static int find_below(const char *name, int end)
{
    int algo;

    for (algo = 0; algo < end; ++algo) {
        if (strcmp(name, algo_names[algo]) == 0) {
            return algo;
        }
    }
    return strcmp(name, "stage") == 0 ? MSCCLPP_ALGO_STAGE : MSCCLPP_ALGO_AUTO;
}

int mscclpp_coll_algo_find(const char *name)
{
    return find_below(name, MSCCLPP_COLL_BY_LAST);
}

int mscclpp_coll_algo_find_any(const char *name)
{
    return find_below(name, MSCCLPP_COLL_BY_END);
}
