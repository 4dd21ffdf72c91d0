#include "mca/common/gpu/copier.h"

mscclpp_status_t mscclpp_copier_open(mscclpp_copier_t *copier, const mscclpp_gpu_ops_t *gpu, int device)
{
    return copier->stream == NULL ? gpu->stream_create(device, &copier->stream) : MSCCLPP_OK;
}

mscclpp_status_t mscclpp_copier_add(mscclpp_copier_t *copier, const mscclpp_gpu_ops_t *gpu, int device, void *to,
                                    const void *from, size_t size)
{
    mscclpp_status_t status = mscclpp_copier_open(copier, gpu, device);

    if (status == MSCCLPP_OK) {
        status = gpu->copy(copier->stream, to, from, size);
    }
    copier->busy = copier->busy || status == MSCCLPP_OK;
    return status;
}

mscclpp_status_t mscclpp_copier_test(mscclpp_copier_t *copier, const mscclpp_gpu_ops_t *gpu)
{
    mscclpp_status_t status = copier->busy ? gpu->stream_query(copier->stream) : MSCCLPP_OK;

    copier->busy = copier->busy && status == MSCCLPP_IN_PROGRESS;
    return status;
}

void mscclpp_copier_wait(mscclpp_copier_t *copier, const mscclpp_gpu_ops_t *gpu)
{
    if (copier->busy) {
        (void)gpu->stream_sync(copier->stream);
    }
}

void mscclpp_copier_fini(mscclpp_copier_t *copier, const mscclpp_gpu_ops_t *gpu)
{
    mscclpp_copier_wait(copier, gpu);
    if (copier->stream != NULL) {
        gpu->stream_destroy(copier->stream);
    }
    copier->stream = NULL;
    copier->busy = false;
}
