#include "mca/common/gpu/clear.h"

/* Bytes of one copy: so many that a piece of the pool takes few of them. */
#define ZEROS ((uint64_t)64 << 10)

mscclpp_status_t mscclpp_gpu_clear(const mscclpp_gpu_ops_t *ops, mscclpp_gpu_stream_t *stream, void *memory,
                                   uint64_t size)
{
    static char zeros[ZEROS]; /* never written to; not constant, so that it takes no room in the library's file */
    mscclpp_status_t status = MSCCLPP_OK;
    uint64_t done;

    for (done = 0; done < size && status == MSCCLPP_OK; done += ZEROS) {
        status = ops->copy(stream, (char *)memory + done, zeros, size - done < ZEROS ? size - done : ZEROS);
    }
    return status;
}
