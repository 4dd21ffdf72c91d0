/*
 * What kernels keep of sparse calls: those between nodes in which no empty messages are sent. kern/coll/nodes_rounds.h
 * says what they are, and why their places may be used again.
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

/* Frees all places. Called by all threads of a dense call: one with packets in which all owners of a shard meet. */
MSCCLPP_DEV void mscclpp_dev_nodes_sparse_free(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_args_t *nodes)
{
    if (nodes->sparse != NULL && ctx->block == 0 && ctx->tid == 0) {
        nodes->sparse->units = 0;
    }
}

#endif
