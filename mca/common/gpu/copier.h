/*
 * Copies between device memory and pinned host memory, for transports that cannot reach device memory. One copier
 * serves one direction of one instance. Copies are made in batches, because one can only ask for the end of all of a
 * stream's work; copies may join a batch until it has ended. Used by one thread at a time.
 */
#ifndef MCA_COMMON_GPU_COPIER_H
#define MCA_COMMON_GPU_COPIER_H

#include <stdbool.h>

#include "mca/common/gpu/gpu.h"

/* Must be zeroed before its first use. */
typedef struct {
    mscclpp_gpu_stream_t *stream; /* NULL: not made yet */
    bool busy;                    /* a batch is under way, or nobody has asked for its end yet */
} mscclpp_copier_t;

/*
 * Makes the stream ahead of the first copy. A thread that copies while kernels wait for it needs this, since the
 * runtime may make a new stream wait for kernels. May be called again. Fails as the runtime does.
 */
mscclpp_status_t mscclpp_copier_open(mscclpp_copier_t *copier, const mscclpp_gpu_ops_t *gpu, int device);

/* Adds a copy to the batch. Fails as the runtime does. */
mscclpp_status_t mscclpp_copier_add(mscclpp_copier_t *copier, const mscclpp_gpu_ops_t *gpu, int device, void *to,
                                    const void *from, size_t size);

/* MSCCLPP_OK if there is no batch (any more), MSCCLPP_IN_PROGRESS, or, once, the error of the batch. */
mscclpp_status_t mscclpp_copier_test(mscclpp_copier_t *copier, const mscclpp_gpu_ops_t *gpu);

/*
 * Waits for the batch, before memory that it reads or writes goes away. The next mscclpp_copier_test reports its
 * failure.
 */
void mscclpp_copier_wait(mscclpp_copier_t *copier, const mscclpp_gpu_ops_t *gpu);

/* Waits, and gives the stream back. */
void mscclpp_copier_fini(mscclpp_copier_t *copier, const mscclpp_gpu_ops_t *gpu);

#endif
