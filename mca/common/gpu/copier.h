/*
 * A copier copies between device memory and pinned host memory, for transports that cannot access device memory. It
 * serves one direction of one user, and one thread at a time. Copies are made in batches, because a stream can only be
 * asked whether all of its work has ended. Copies may join a batch until the batch has ended.
 */
#ifndef MCA_COMMON_GPU_COPIER_H
#define MCA_COMMON_GPU_COPIER_H

#include <stdbool.h>

#include "mca/common/gpu/gpu.h"

/* Must be zeroed before its first use. */
typedef struct {
    mscclpp_gpu_stream_t *stream; /* NULL: not created yet */
    bool busy;                    /* a batch is in progress, or mscclpp_copier_test has not found its end yet */
} mscclpp_copier_t;

/*
 * Creates the stream before the first copy needs it. A thread that copies while kernels wait for it must do this in
 * advance: the runtime may make the creation of a stream wait for kernels. May be called again. Returns the error of
 * the GPU runtime.
 */
mscclpp_status_t mscclpp_copier_open(mscclpp_copier_t *copier, const mscclpp_gpu_ops_t *gpu, int device);

/*
 * Adds a copy to the batch, or begins a batch with it. Creates the stream if it does not exist yet. The memory must
 * stay until the batch has ended. Returns the error of the GPU runtime.
 */
mscclpp_status_t mscclpp_copier_add(mscclpp_copier_t *copier, const mscclpp_gpu_ops_t *gpu, int device, void *to,
                                    const void *from, size_t size);

/*
 * Returns MSCCLPP_OK if the batch has ended or if there is none, MSCCLPP_IN_PROGRESS if not, or the error of the batch.
 * The error is returned only once.
 */
mscclpp_status_t mscclpp_copier_test(mscclpp_copier_t *copier, const mscclpp_gpu_ops_t *gpu);

/*
 * Waits for the end of the batch. Call it before memory that the batch uses is freed. Does not report a failure of the
 * batch; the next mscclpp_copier_test does.
 */
void mscclpp_copier_wait(mscclpp_copier_t *copier, const mscclpp_gpu_ops_t *gpu);

/* Waits for the batch, and destroys the stream. */
void mscclpp_copier_fini(mscclpp_copier_t *copier, const mscclpp_gpu_ops_t *gpu);

#endif
