#include "mca/common/gpu/gpu.h"

#include <string.h>

#include "mca/common/base/log.h"

/* Returns the functions for CUDA. NULL in a build without CUDA. */
static const mscclpp_gpu_ops_t *cuda_ops(void)
{
#if MSCCLPP_HAVE_CUDA
    return &mscclpp_gpu_cuda_ops;
#else
    return NULL;
#endif
}

mscclpp_status_t mscclpp_gpu_open_later(const char *device, const mscclpp_gpu_ops_t **ops_p)
{
    const mscclpp_gpu_ops_t *ops = cuda_ops();

    if (0 == strcmp(device, "auto") && ops != NULL && ops->is_likely != NULL && ops->is_likely()) {
        *ops_p = ops;
        return MSCCLPP_OK;
    }
    return mscclpp_gpu_open(device, ops_p);
}

mscclpp_status_t mscclpp_gpu_open(const char *device, const mscclpp_gpu_ops_t **ops_p)
{
    const mscclpp_gpu_ops_t *ops = cuda_ops();
    mscclpp_status_t status;
    int count;

    if (0 == strcmp(device, "host")) {
        *ops_p = &mscclpp_gpu_twin_ops;
        return MSCCLPP_OK;
    }
    if (0 != strcmp(device, "auto") && 0 != strcmp(device, "cuda")) {
        mscclpp_error("parameter device: \"%s\" is not allowed; use one of auto|cuda|host", device);
        return MSCCLPP_ERR_INVALID;
    }

    status = ops != NULL ? ops->probe(&count) : MSCCLPP_ERR_NOT_SUPPORTED;
    if (MSCCLPP_OK == status) {
        *ops_p = ops;
    } else if (MSCCLPP_ERR_NOT_SUPPORTED == status && 0 == strcmp(device, "cuda")) {
        mscclpp_error("parameter device is \"cuda\", but %s",
                      ops != NULL ? "no CUDA device can be used here (verbose 3 shows what the driver said)"
                                  : "this build has no CUDA");
    }
    return status;
}
