/*
 * Streams that tasks borrow. A GPU has few hardware queues. Two streams on one queue run in turn, and kernels in them
 * that wait for each other's peers would wait for ever. So a process has as many streams as it has tasks in flight, not
 * one for each communicator. A task of copy engines borrows a few more, in which nothing waits.
 */
#ifndef MCA_COMMON_GPU_STREAMS_H
#define MCA_COMMON_GPU_STREAMS_H

#include <stdbool.h>

#include "mca/common/gpu/gpu.h"

/* Lends a stream of the device in which no work is left. Thread-safe. */
mscclpp_status_t mscclpp_stream_get(const mscclpp_gpu_ops_t *gpu, int device, mscclpp_gpu_stream_t **stream_p);

/*
 * Takes back a stream whose work has ended, or ends by itself without waiting for a peer. `lingering`: a kernel in the
 * stream may still take up work that waits for peers; the stream is lent again only when it is seen to be empty.
 */
void mscclpp_stream_put(const mscclpp_gpu_ops_t *gpu, int device, mscclpp_gpu_stream_t *stream, bool lingering);

/* Destroys the streams that nobody has borrowed. To be called before the GPU runtime goes away. */
void mscclpp_stream_drain(void);

#endif
