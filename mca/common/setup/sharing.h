/* Which ranks of all nodes share a GPU. */
#ifndef MCA_COMMON_SETUP_SHARING_H
#define MCA_COMMON_SETUP_SHARING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mca/common/gpu/gpu.h"

/* What a rank knows of its GPU. */
typedef struct {
    unsigned char uuid[MSCCLPP_GPU_UUID_SIZE];
    uint64_t server;    /* its MPS server, as in mscclpp_gpu_info_t */
    uint32_t users;     /* number of processes on the GPU that the rank knows of */
    uint32_t strangers; /* number of those processes that use another server */
} mscclpp_gpu_use_t;

/* How the GPUs of all ranks are shared. */
typedef struct {
    uint32_t max_ranks;     /* the largest number of ranks on one GPU */
    uint32_t max_processes; /* the largest number of processes on one GPU that a rank knows of; at least 1 */
    bool take_turns;        /* processes take turns on a GPU */
    bool across_nodes;      /* ranks of two nodes share a GPU */
} mscclpp_gpu_sharing_t;

/*
 * Finds how the GPUs of `size` ranks are shared, in a time that grows as size * log(size). `uses` points to what the
 * first rank knows; the others follow at distances of `stride` bytes. `node_of` has the number of each rank's node.
 * `order` has room for a number for each rank, and is overwritten.
 */
mscclpp_gpu_sharing_t mscclpp_sharing_find(const mscclpp_gpu_use_t *uses, size_t stride, const int *node_of, int size,
                                           int *order);

#endif
