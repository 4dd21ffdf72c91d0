/*
 * A pool of streams that tasks borrow.
 *
 * The number of streams of a process is the number of its tasks in flight, not of its communicators. A GPU has few
 * hardware queues, and streams that share a queue run one after another: kernels in such streams that wait for each
 * other's peers would wait forever. A task of copy engines borrows a few more streams, in which no work waits.
 */
#ifndef MCA_COMMON_GPU_STREAMS_H
#define MCA_COMMON_GPU_STREAMS_H

#include <stdbool.h>

#include "mca/common/gpu/gpu.h"

/*
 * Lends an idle stream of the device, or a new one if none is idle. Work that is left in it ends without waiting for a
 * peer. The borrower gives it back by mscclpp_stream_put. Thread-safe.
 */
mscclpp_status_t mscclpp_stream_get(const mscclpp_gpu_ops_t *gpu, int device, mscclpp_gpu_stream_t **stream_p);

/*
 * Takes back a stream whose work has ended, or will end without waiting for a peer. `may_linger` says that a kernel in
 * the stream may still serve work that waits for peers. The stream is then lent again only after the pool has found it
 * empty.
 */
void mscclpp_stream_put(const mscclpp_gpu_ops_t *gpu, int device, mscclpp_gpu_stream_t *stream, bool may_linger);

/* Destroys the streams that no task has borrowed. Must be called before the GPU runtime ends. */
void mscclpp_stream_drain(void);

#endif
