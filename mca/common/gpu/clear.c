#include "mca/common/gpu/clear.h"

/* Bytes of one copy. A piece of the pool takes only a few copies of this size. */
#define ZEROS_BYTES ((uint64_t)64 << 10)

mscclpp_status_t mscclpp_gpu_clear(const mscclpp_gpu_ops_t *ops, mscclpp_gpu_stream_t *stream, void *memory,
                                   uint64_t size)
{
    static char zeros[ZEROS_BYTES]; /* never written to; not constant, so that it takes no room in the library's file */
    mscclpp_status_t status = MSCCLPP_OK;
    uint64_t cleared_bytes;

    for (cleared_bytes = 0; cleared_bytes < size && status == MSCCLPP_OK; cleared_bytes += ZEROS_BYTES) {
        status = ops->copy(stream, (char *)memory + cleared_bytes, zeros,
                           size - cleared_bytes < ZEROS_BYTES ? size - cleared_bytes : ZEROS_BYTES);
    }
    return status;
}
