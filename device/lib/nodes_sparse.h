/*
 * The state that kernels keep for sparse calls: calls between nodes that send no empty messages.
 * kern/coll/nodes_rounds.h describes them, and says why their places may be used again.
 */
#ifndef MSCCLPP_DEVICE_LIB_NODES_SPARSE_H
#define MSCCLPP_DEVICE_LIB_NODES_SPARSE_H

#include "device/shim/shim.h"
#include "device/types/nodes.h"

/* Returns the number of sparse calls so far, or 0 if this rank owns no shard. */
MSCCLPP_DEV uint64_t mscclpp_dev_nodes_sparse_calls(const mscclpp_dev_nodes_args_t *nodes)
{
    return nodes->sparse != NULL ? nodes->sparse->calls : 0;
}

/*
 * Frees all places of sparse calls. Called by all threads of a dense call, which is a call with packets in which all
 * owners of a shard meet.
 */
MSCCLPP_DEV void mscclpp_dev_nodes_sparse_free(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_args_t *nodes)
{
    if (nodes->sparse != NULL && ctx->block == 0 && ctx->tid == 0) {
        nodes->sparse->units = 0;
    }
}

#endif
