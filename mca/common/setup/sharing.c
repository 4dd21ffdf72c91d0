#include "mca/common/setup/sharing.h"

#include <stdlib.h>
#include <string.h>

/* What all ranks know, as mscclpp_sharing_find gets it. */
typedef struct {
    const mscclpp_gpu_use_t *first;
    size_t stride;
} uses_t;

/* Returns what a rank knows of its GPU. */
static const mscclpp_gpu_use_t *use_of(const uses_t *uses, int rank)
{
    return (const mscclpp_gpu_use_t *)(const void *)((const char *)uses->first + (size_t)rank * uses->stride);
}

/* Compares two ranks by their GPUs, for qsort_r. */
static int compare_gpus(const void *first, const void *second, void *uses)
{
    return memcmp(use_of(uses, *(const int *)first)->uuid, use_of(uses, *(const int *)second)->uuid,
                  MSCCLPP_GPU_UUID_SIZE);
}

/*
 * Sorts the ranks by their GPUs, and then compares each rank with the first one on its GPU alone. That is enough: ranks
 * of one GPU differ in server or node if one of them differs from the first.
 */
mscclpp_gpu_sharing_t mscclpp_sharing_find(const mscclpp_gpu_use_t *uses, size_t stride, const int *node_of, int size,
                                           int *order)
{
    uses_t all = {.first = uses, .stride = stride};
    mscclpp_gpu_sharing_t sharing = {.max_ranks = 1, .max_processes = 1};
    int first = 0; /* index of the first rank on the GPU of the current one */

    for (int rank = 0; rank < size; ++rank) {
        order[rank] = rank;
    }
    qsort_r(order, (size_t)size, sizeof(*order), compare_gpus, &all);
    for (int i = 0; i < size; ++i) {
        const mscclpp_gpu_use_t *use = use_of(&all, order[i]);

        first = compare_gpus(&order[first], &order[i], &all) == 0 ? first : i;
        if (first != i) {
            sharing.take_turns =
                sharing.take_turns || use->server == 0 || use->server != use_of(&all, order[first])->server;
            sharing.across_nodes = sharing.across_nodes || node_of[order[i]] != node_of[order[first]];
        }
        sharing.take_turns = sharing.take_turns || use->strangers > 0 || (use->users > 1 && use->server == 0);
        sharing.max_ranks =
            (uint32_t)(i - first) + 1 > sharing.max_ranks ? (uint32_t)(i - first) + 1 : sharing.max_ranks;
        sharing.max_processes = use->users > sharing.max_processes ? use->users : sharing.max_processes;
    }
    return sharing;
}
