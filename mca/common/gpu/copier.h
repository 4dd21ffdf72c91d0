/*
 * A copier copies between device memory and pinned host memory, for transports that cannot reach device memory. It
 * serves one direction of one user, and one thread at a time. Copies are made in batches, because a stream can only be
 * asked whether all of its work has ended. Copies may join a batch until it has ended.
 */
#ifndef MCA_COMMON_GPU_COPIER_H
#define MCA_COMMON_GPU_COPIER_H

#include <stdbool.h>

#include "mca/common/gpu/gpu.h"

/* Must be zeroed before its first use. */
typedef struct {
    mscclpp_gpu_stream_t *stream; /* NULL: not made yet */
    bool busy;                    /* a batch is under way, or has ended without mscclpp_copier_test having said so */
} mscclpp_copier_t;

/*
 * Makes the stream before the first copy needs it. A thread that copies while kernels wait for it must do this in
 * advance, since the runtime may make the creation of a stream wait for kernels. May be called again. Fails as the
 * runtime does.
 */
mscclpp_status_t mscclpp_copier_open(mscclpp_copier_t *copier, const mscclpp_gpu_ops_t *gpu, int device);

/* Adds a copy to the batch. Fails as the runtime does. */
mscclpp_status_t mscclpp_copier_add(mscclpp_copier_t *copier, const mscclpp_gpu_ops_t *gpu, int device, void *to,
                                    const void *from, size_t size);

/*
 * Tells whether the batch has ended: MSCCLPP_OK if so or if there is none, MSCCLPP_IN_PROGRESS if not. Reports an error
 * of the batch once.
 */
mscclpp_status_t mscclpp_copier_test(mscclpp_copier_t *copier, const mscclpp_gpu_ops_t *gpu);

/*
 * Waits for the batch, before memory that it reads or writes goes away. The next mscclpp_copier_test reports its
 * failure.
 */
void mscclpp_copier_wait(mscclpp_copier_t *copier, const mscclpp_gpu_ops_t *gpu);

/* Waits, and gives the stream back. */
void mscclpp_copier_fini(mscclpp_copier_t *copier, const mscclpp_gpu_ops_t *gpu);

#endif
