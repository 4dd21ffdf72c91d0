/*
 * A pool of streams that tasks borrow.
 *
 * A process has only as many streams as it has tasks in flight, not one for each communicator. A GPU has few hardware
 * queues, and streams that share one run one after another: kernels in such streams that wait for each other's peers
 * would wait forever. A task of copy engines borrows a few more streams, in which nothing waits.
 */
#ifndef MCA_COMMON_GPU_STREAMS_H
#define MCA_COMMON_GPU_STREAMS_H

#include <stdbool.h>

#include "mca/common/gpu/gpu.h"

/* Lends a stream of the device in which no work is left. Thread-safe. */
mscclpp_status_t mscclpp_stream_get(const mscclpp_gpu_ops_t *gpu, int device, mscclpp_gpu_stream_t **stream_p);

/*
 * Takes back a stream whose work has ended, or will end by itself without waiting for a peer. `lingering`: a kernel in
 * the stream may still serve work that waits for peers, so the stream is lent again only when it is seen to be empty.
 */
void mscclpp_stream_put(const mscclpp_gpu_ops_t *gpu, int device, mscclpp_gpu_stream_t *stream, bool lingering);

/* Destroys the streams that no task has borrowed. Call it before the GPU runtime goes away. */
void mscclpp_stream_drain(void);

#endif
