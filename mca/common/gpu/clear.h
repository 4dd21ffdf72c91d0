/*
 * Zeroes memory, for which it allocates nothing. So if ranks do this together, no rank fails alone for lack of memory.
 */
#ifndef MCA_COMMON_GPU_CLEAR_H
#define MCA_COMMON_GPU_CLEAR_H

#include <stdint.h>

#include "mca/common/base/status.h"
#include "mca/common/gpu/gpu.h"

/*
 * Zeroes `size` bytes of memory that the runtime's copies reach, in the order of `stream`. Does not wait for the end.
 * Thread-safe.
 */
mscclpp_status_t mscclpp_gpu_clear(const mscclpp_gpu_ops_t *ops, mscclpp_gpu_stream_t *stream, void *memory,
                                   uint64_t size);

#endif
