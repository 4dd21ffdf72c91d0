/*
 * Copies between device memory and pinned host memory for transports that cannot reach the former, in one direction of
 * one instance. They are made in batches, because the end of all of a stream's work is all that one can ask for: copies
 * may join a batch until it has ended. Used by one thread at a time.
 */
#ifndef MCA_COMMON_GPU_COPIER_H
#define MCA_COMMON_GPU_COPIER_H

#include <stdbool.h>

#include "mca/common/gpu/gpu.h"

/* Zeroed before its first use. */
typedef struct {
    mscclpp_gpu_stream_t *stream; /* NULL: not made yet */
    bool busy;                    /* a batch is under way, or its end has not been asked for */
} mscclpp_copier_t;

/*
 * Makes what copies need, which else the first one does: for a thread that copies while kernels wait for it, since the
 * runtime may make something new wait for kernels. May be called again. Fails as the runtime does.
 */
mscclpp_status_t mscclpp_copier_open(mscclpp_copier_t *copier, const mscclpp_gpu_ops_t *gpu, int device);

/* Adds a copy to the batch. Fails as the runtime does. */
mscclpp_status_t mscclpp_copier_add(mscclpp_copier_t *copier, const mscclpp_gpu_ops_t *gpu, int device, void *to,
                                    const void *from, size_t size);

/* MSCCLPP_OK if there is no batch (any more), MSCCLPP_IN_PROGRESS, or, once, the error of the batch. */
mscclpp_status_t mscclpp_copier_test(mscclpp_copier_t *copier, const mscclpp_gpu_ops_t *gpu);

/* Waits for the batch, before memory goes that it reads or writes. Its failure is left to the test that follows. */
void mscclpp_copier_wait(mscclpp_copier_t *copier, const mscclpp_gpu_ops_t *gpu);

/* Waits, and gives the stream back. */
void mscclpp_copier_fini(mscclpp_copier_t *copier, const mscclpp_gpu_ops_t *gpu);

#endif
