/* All algorithms of all-reduce. */
#include <string.h>

#include "mca/common/algo/algo.h"

const mscclpp_algo_t *const mscclpp_algos[] = {
    &mscclpp_algo_allreduce_oneshot,        &mscclpp_algo_allreduce_twophase,
    &mscclpp_algo_allreduce_oneshot_put,    &mscclpp_algo_allreduce_zerocopy,
    &mscclpp_algo_allreduce_engines,        &mscclpp_algo_allreduce_scratch,
    &mscclpp_algo_allreduce_nodes,          &mscclpp_algo_allreduce_nodes_split,
    &mscclpp_algo_allreduce_nodes_ring,     &mscclpp_algo_allreduce_nodes_packets,
    &mscclpp_algo_allreduce_nodes_doubling, &mscclpp_algo_allreduce_nodes_halving,
    &mscclpp_algo_allreduce_nodes_trees,
};

const int mscclpp_algo_count = (int)(sizeof(mscclpp_algos) / sizeof(mscclpp_algos[0]));

int mscclpp_algo_find(const char *name)
{
    int i;

    for (i = 0; i < mscclpp_algo_count; ++i) {
        if (strcmp(mscclpp_algos[i]->name, name) == 0) {
            return i;
        }
    }
    return -1;
}
