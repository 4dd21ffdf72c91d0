/* The table of the CUDA runtime: devices, allocations and streams. */
#include "mca/common/gpu_cuda_driver.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct mscclpp_gpu_stream {
    cudaStream_t stream;
    int device;
    bool owned;
};

static mscclpp_status_t cuda_device_info(int device, mscclpp_gpu_info_t *info_p)
{
    const mscclpp_cuda_driver_t *driver = mscclpp_cuda_driver();
    mscclpp_status_t status = mscclpp_cuda_check_device(device);
    mscclpp_gpu_info_t info;
    CUuuid uuid;

    if (MSCCLPP_OK != status) {
        return status;
    }
    memset(&info, 0, sizeof(info));
    if (CUDA_SUCCESS != DRIVER_CALL(MSCCLPP_LOG_ERROR, driver->device_get_name(info.name, sizeof(info.name), device)) ||
        CUDA_SUCCESS != DRIVER_CALL(MSCCLPP_LOG_ERROR, driver->device_get_uuid(&uuid, device)) ||
        CUDA_SUCCESS != DRIVER_CALL(MSCCLPP_LOG_ERROR,
                                    driver->device_get_attribute(&info.sm_count,
                                                                 CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device)) ||
        CUDA_SUCCESS != DRIVER_CALL(MSCCLPP_LOG_ERROR,
                                    driver->device_get_attribute(
                                        &info.compute_major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device)) ||
        CUDA_SUCCESS != DRIVER_CALL(MSCCLPP_LOG_ERROR,
                                    driver->device_get_attribute(
                                        &info.compute_minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device))) {
        return MSCCLPP_ERR_DEVICE;
    }
    _Static_assert(sizeof(uuid) == sizeof(info.uuid), "a UUID is a UUID");
    memcpy(info.uuid, &uuid, sizeof(info.uuid));
    /* Needed for choosing the nearest HCA only. */
    if (CUDA_SUCCESS != DRIVER_CALL(MSCCLPP_LOG_DEBUG,
                                    driver->device_get_pci_bus_id(info.pci_bus_id, sizeof(info.pci_bus_id), device))) {
        info.pci_bus_id[0] = '\0';
    }
    info.shareable = false; /* without MPS the contexts of two processes take turns on the GPU */
    *info_p = info;
    return MSCCLPP_OK;
}

/* Nothing says so in as many words: native atomics are what NVLink has and PCIe has not. */
static bool cuda_keeps_lines(int device, const unsigned char *peer_uuid)
{
    mscclpp_gpu_info_t own, info;
    int peer, atomics = 0, count = 0;

    if (MSCCLPP_OK != cuda_device_info(device, &own) || own.compute_major < 7) {
        return false;
    }
    if (0 == memcmp(own.uuid, peer_uuid, sizeof(own.uuid))) {
        return true;
    }
    if (MSCCLPP_OK != mscclpp_cuda_probe(&count)) {
        return false;
    }
    for (peer = 0; peer < count; ++peer) {
        if (MSCCLPP_OK == cuda_device_info(peer, &info) && 0 == memcmp(info.uuid, peer_uuid, sizeof(info.uuid))) {
            return info.compute_major >= 7 &&
                   cudaSuccess == CUDA_CALL(MSCCLPP_LOG_DEBUG,
                                            cudaDeviceGetP2PAttribute(&atomics, cudaDevP2PAttrNativeAtomicSupported,
                                                                      device, peer)) &&
                   0 != atomics;
        }
    }
    return false;
}

static mscclpp_status_t cuda_preload(int device)
{
    mscclpp_cuda_scope_t scope;
    mscclpp_cuda_device_t *entry;
    mscclpp_status_t status = mscclpp_cuda_enter(device, &scope);

    if (MSCCLPP_OK != status) {
        return status;
    }
    entry = &mscclpp_cuda_driver()->devices[device];
    pthread_mutex_lock(&entry->lock);
    if (!entry->preloaded) {
        status = mscclpp_cuda_status(CUDA_CALL(MSCCLPP_LOG_ERROR, (cudaError_t)mscclpp_dev_cuda_preload()));
        entry->preloaded = MSCCLPP_OK == status;
    }
    pthread_mutex_unlock(&entry->lock);
    mscclpp_cuda_leave(&scope);
    return status;
}

static mscclpp_status_t check_size(size_t size)
{
    if (0 == size) {
        mscclpp_error("cannot allocate 0 bytes");
        return MSCCLPP_ERR_INVALID;
    }
    return MSCCLPP_OK;
}

/* On a stream of its own: the default stream would wait for the application's work, and is illegal under a capture. */
static cudaError_t zero(void *address, size_t size)
{
    cudaStream_t stream;
    cudaError_t error = CUDA_CALL(MSCCLPP_LOG_ERROR, cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));

    if (cudaSuccess != error) {
        return error;
    }
    error = CUDA_CALL(MSCCLPP_LOG_ERROR, cudaMemsetAsync(address, 0, size, stream));
    if (cudaSuccess == error) {
        error = CUDA_CALL(MSCCLPP_LOG_ERROR, cudaStreamSynchronize(stream));
    }
    CUDA_RELEASE(cudaStreamDestroy(stream));
    return error;
}

static mscclpp_status_t cuda_device_alloc(int device, size_t size, void **address_p)
{
    mscclpp_cuda_scope_t scope;
    cudaError_t error;
    void *address;
    mscclpp_status_t status = check_size(size);

    if (MSCCLPP_OK == status) {
        status = mscclpp_cuda_enter(device, &scope);
    }
    if (MSCCLPP_OK != status) {
        return status;
    }
    error = cudaMalloc(&address, size);
    if (cudaSuccess != error) {
        mscclpp_error("cannot allocate %zu bytes on CUDA device %d: %s (%s)", size, device, cudaGetErrorName(error),
                      cudaGetErrorString(error));
        (void)cudaGetLastError();
    } else {
        error = zero(address, size);
        if (cudaSuccess != error) {
            CUDA_RELEASE(cudaFree(address));
        }
    }
    mscclpp_cuda_leave(&scope);
    if (cudaSuccess == error) {
        *address_p = address;
    }
    return mscclpp_cuda_status(error);
}

static void cuda_device_free(int device, void *address)
{
    mscclpp_cuda_scope_t scope;

    if (NULL != address && MSCCLPP_OK == mscclpp_cuda_enter(device, &scope)) {
        CUDA_RELEASE(cudaFree(address));
        mscclpp_cuda_leave(&scope);
    }
}

static mscclpp_status_t cuda_temp_alloc(mscclpp_gpu_stream_t *stream, size_t size, void **address_p)
{
    mscclpp_cuda_scope_t scope;
    cudaError_t error;
    void *address;
    mscclpp_status_t status = check_size(size);

    if (MSCCLPP_OK == status) {
        status = mscclpp_cuda_enter(stream->device, &scope);
    }
    if (MSCCLPP_OK != status) {
        return status;
    }
    if (mscclpp_cuda_driver()->devices[stream->device].has_pools) {
        error = CUDA_CALL(MSCCLPP_LOG_ERROR, cudaMallocAsync(&address, size, stream->stream));
    } else {
        error = CUDA_CALL(MSCCLPP_LOG_ERROR, cudaMalloc(&address, size));
    }
    mscclpp_cuda_leave(&scope);
    if (cudaSuccess == error) {
        *address_p = address;
    }
    return mscclpp_cuda_status(error);
}

static void cuda_temp_free(mscclpp_gpu_stream_t *stream, void *address)
{
    mscclpp_cuda_scope_t scope;

    if (NULL == address || MSCCLPP_OK != mscclpp_cuda_enter(stream->device, &scope)) {
        return;
    }
    if (mscclpp_cuda_driver()->devices[stream->device].has_pools) {
        CUDA_RELEASE(cudaFreeAsync(address, stream->stream));
    } else {
        CUDA_RELEASE(cudaFree(address)); /* waits for the stream's work by itself */
    }
    mscclpp_cuda_leave(&scope);
}

static mscclpp_status_t cuda_host_alloc(size_t size, void **host_address_p, void **device_address_p)
{
    mscclpp_cuda_scope_t scope;
    cudaError_t error;
    void *host_address;
    void *device_address;
    mscclpp_status_t status = check_size(size);

    if (MSCCLPP_OK == status) {
        status = mscclpp_cuda_enter_any(&scope);
    }
    if (MSCCLPP_OK != status) {
        return status;
    }
    error =
        CUDA_CALL(MSCCLPP_LOG_ERROR, cudaHostAlloc(&host_address, size, cudaHostAllocPortable | cudaHostAllocMapped));
    if (cudaSuccess == error) {
        memset(host_address, 0, size);
        error = CUDA_CALL(MSCCLPP_LOG_ERROR, cudaHostGetDevicePointer(&device_address, host_address, 0));
        if (cudaSuccess != error) {
            CUDA_RELEASE(cudaFreeHost(host_address));
        }
    }
    mscclpp_cuda_leave(&scope);
    if (cudaSuccess == error) {
        *host_address_p = host_address;
        *device_address_p = device_address;
    }
    return mscclpp_cuda_status(error);
}

static void cuda_host_free(void *host_address)
{
    mscclpp_cuda_scope_t scope;

    if (NULL != host_address && MSCCLPP_OK == mscclpp_cuda_enter_any(&scope)) {
        CUDA_RELEASE(cudaFreeHost(host_address));
        mscclpp_cuda_leave(&scope);
    }
}

static mscclpp_status_t cuda_host_register(void *host_address, size_t size, void **device_address_p)
{
    mscclpp_cuda_scope_t scope;
    cudaError_t error;
    void *device_address;
    mscclpp_status_t status = check_size(size);

    if (MSCCLPP_OK == status) {
        status = mscclpp_cuda_enter_any(&scope);
    }
    if (MSCCLPP_OK != status) {
        return status;
    }
    error = CUDA_CALL(MSCCLPP_LOG_INFO,
                      cudaHostRegister(host_address, size, cudaHostRegisterPortable | cudaHostRegisterMapped));
    if (cudaSuccess == error) {
        error = CUDA_CALL(MSCCLPP_LOG_INFO, cudaHostGetDevicePointer(&device_address, host_address, 0));
        if (cudaSuccess != error) {
            CUDA_RELEASE(cudaHostUnregister(host_address));
        }
    }
    mscclpp_cuda_leave(&scope);
    if (cudaSuccess == error) {
        *device_address_p = device_address;
    }
    return mscclpp_cuda_status(error);
}

static void cuda_host_unregister(void *host_address)
{
    mscclpp_cuda_scope_t scope;

    if (MSCCLPP_OK == mscclpp_cuda_enter_any(&scope)) {
        CUDA_RELEASE(cudaHostUnregister(host_address));
        mscclpp_cuda_leave(&scope);
    }
}

static mscclpp_status_t stream_new(int device, cudaStream_t native, bool owned, mscclpp_gpu_stream_t **stream_p)
{
    mscclpp_gpu_stream_t *stream = malloc(sizeof(*stream));

    if (NULL == stream) {
        mscclpp_error("out of memory for a stream");
        return MSCCLPP_ERR_NO_MEMORY;
    }
    stream->stream = native;
    stream->device = device;
    stream->owned = owned;
    *stream_p = stream;
    return MSCCLPP_OK;
}

/* Of the highest priority, so that blocks of the application's kernels that wait for a place do not delay a peer. */
static mscclpp_status_t cuda_stream_create(int device, mscclpp_gpu_stream_t **stream_p)
{
    mscclpp_cuda_scope_t scope;
    cudaStream_t native;
    cudaError_t error;
    int lowest = 0;
    int highest = 0;
    mscclpp_status_t status = mscclpp_cuda_enter(device, &scope);

    if (MSCCLPP_OK != status) {
        return status;
    }
    error = CUDA_CALL(MSCCLPP_LOG_ERROR, cudaDeviceGetStreamPriorityRange(&lowest, &highest));
    if (cudaSuccess == error) {
        error = CUDA_CALL(MSCCLPP_LOG_ERROR, cudaStreamCreateWithPriority(&native, cudaStreamNonBlocking, highest));
    }
    status = mscclpp_cuda_status(error);
    if (MSCCLPP_OK == status) {
        status = stream_new(device, native, true, stream_p);
        if (MSCCLPP_OK != status) {
            CUDA_RELEASE(cudaStreamDestroy(native));
        }
    }
    mscclpp_cuda_leave(&scope);
    return status;
}

static void cuda_stream_destroy(mscclpp_gpu_stream_t *stream)
{
    mscclpp_cuda_scope_t scope;

    if (NULL == stream) {
        return;
    }
    if (stream->owned && MSCCLPP_OK == mscclpp_cuda_enter(stream->device, &scope)) {
        CUDA_RELEASE(cudaStreamDestroy(stream->stream));
        mscclpp_cuda_leave(&scope);
    }
    free(stream);
}

static mscclpp_status_t cuda_stream_wrap(int device, void *native, mscclpp_gpu_stream_t **stream_p)
{
    mscclpp_status_t status = mscclpp_cuda_check_device(device);

    return MSCCLPP_OK == status ? stream_new(device, native, false, stream_p) : status;
}

static mscclpp_status_t cuda_stream_query(mscclpp_gpu_stream_t *stream)
{
    mscclpp_cuda_scope_t scope;
    cudaError_t error;
    mscclpp_status_t status = mscclpp_cuda_enter(stream->device, &scope);

    if (MSCCLPP_OK != status) {
        return status;
    }
    error = cudaStreamQuery(stream->stream);
    if (cudaErrorNotReady == error) {
        status = MSCCLPP_IN_PROGRESS;
    } else {
        status = mscclpp_cuda_status(mscclpp_cuda_check(MSCCLPP_LOG_ERROR, "work of a CUDA stream", error));
    }
    mscclpp_cuda_leave(&scope);
    return status;
}

static mscclpp_status_t cuda_stream_sync(mscclpp_gpu_stream_t *stream)
{
    mscclpp_cuda_scope_t scope;
    mscclpp_status_t status = mscclpp_cuda_enter(stream->device, &scope);

    if (MSCCLPP_OK == status) {
        status = mscclpp_cuda_status(CUDA_CALL(MSCCLPP_LOG_ERROR, cudaStreamSynchronize(stream->stream)));
        mscclpp_cuda_leave(&scope);
    }
    return status;
}

static mscclpp_status_t cuda_copy(mscclpp_gpu_stream_t *stream, void *to, const void *from, size_t size)
{
    mscclpp_cuda_scope_t scope;
    mscclpp_status_t status;

    if (0 == size || to == from) {
        return MSCCLPP_OK;
    }
    status = mscclpp_cuda_enter(stream->device, &scope);
    if (MSCCLPP_OK == status) {
        status = mscclpp_cuda_status(
            CUDA_CALL(MSCCLPP_LOG_ERROR, cudaMemcpyAsync(to, from, size, cudaMemcpyDefault, stream->stream)));
        mscclpp_cuda_leave(&scope);
    }
    return status;
}

static mscclpp_status_t copy_one_by_one(mscclpp_gpu_stream_t *stream, const mscclpp_gpu_copy_t *copies, size_t count)
{
    mscclpp_status_t status = MSCCLPP_OK;

    for (size_t i = 0; i < count && MSCCLPP_OK == status; ++i) {
        status = cuda_copy(stream, copies[i].to, copies[i].from, copies[i].size);
    }
    return status;
}

#if CUDART_VERSION >= 13000
/* Copies that one call of the runtime gets. */
#define BATCH_MAX 64

/* Cleared once the driver has refused a batch: older ones have none. */
static atomic_bool has_batches = true;

static mscclpp_status_t cuda_copy_batch(mscclpp_gpu_stream_t *stream, const mscclpp_gpu_copy_t *copies, size_t count)
{
    struct cudaMemcpyAttributes attributes = {.srcAccessOrder = cudaMemcpySrcAccessOrderStream};
    void *to[BATCH_MAX];
    const void *from[BATCH_MAX];
    size_t sizes[BATCH_MAX], first = 0, used = 0;
    mscclpp_cuda_scope_t scope;
    cudaError_t error;
    mscclpp_status_t status;

    if (count < 2 || count > BATCH_MAX || !atomic_load_explicit(&has_batches, memory_order_relaxed)) {
        return copy_one_by_one(stream, copies, count);
    }
    for (size_t i = 0; i < count; ++i) {
        if (0 != copies[i].size && copies[i].to != copies[i].from) {
            to[used] = copies[i].to;
            from[used] = copies[i].from;
            sizes[used++] = copies[i].size;
        }
    }
    if (0 == used) {
        return MSCCLPP_OK;
    }
    status = mscclpp_cuda_enter(stream->device, &scope);
    if (MSCCLPP_OK != status) {
        return status;
    }
    error = CUDA_CALL(MSCCLPP_LOG_DEBUG,
                      cudaMemcpyBatchAsync(to, from, sizes, used, &attributes, &first, 1, stream->stream));
    mscclpp_cuda_leave(&scope);
    if (cudaSuccess != error) {
        /* What is wrong with one of the copies shows again; some may be made twice, which changes nothing. */
        atomic_store_explicit(&has_batches, false, memory_order_relaxed);
        return copy_one_by_one(stream, copies, count);
    }
    return MSCCLPP_OK;
}
#else
static mscclpp_status_t cuda_copy_batch(mscclpp_gpu_stream_t *stream, const mscclpp_gpu_copy_t *copies, size_t count)
{
    return copy_one_by_one(stream, copies, count);
}
#endif

/* The runtime takes no pitch above this. */
#define PITCH_MAX ((size_t)INT_MAX)

static mscclpp_status_t cuda_copy_rows(mscclpp_gpu_stream_t *stream, void *to, const void *from, size_t pitch,
                                       size_t width, size_t rows)
{
    mscclpp_cuda_scope_t scope;
    mscclpp_status_t status = MSCCLPP_OK;

    if (0 == width || 0 == rows || to == from) {
        return MSCCLPP_OK;
    }
    if (pitch > PITCH_MAX) {
        for (size_t row = 0; row < rows && MSCCLPP_OK == status; ++row) {
            status = cuda_copy(stream, (char *)to + row * pitch, (const char *)from + row * pitch, width);
        }
        return status;
    }
    status = mscclpp_cuda_enter(stream->device, &scope);
    if (MSCCLPP_OK == status) {
        status =
            mscclpp_cuda_status(CUDA_CALL(MSCCLPP_LOG_ERROR, cudaMemcpy2DAsync(to, pitch, from, pitch, width, rows,
                                                                               cudaMemcpyDefault, stream->stream)));
        mscclpp_cuda_leave(&scope);
    }
    return status;
}

/* The driver orders the copies of a stream, visibility to other devices included, as for the application's own. */
static mscclpp_status_t cuda_put_flag(mscclpp_gpu_stream_t *stream, uint64_t *to, const uint64_t *from)
{
    return cuda_copy(stream, to, from, sizeof(*to));
}

/* With the default flags: all earlier work of the stream is visible to the whole system first. */
static mscclpp_status_t cuda_write_flag(mscclpp_gpu_stream_t *stream, uint64_t *to, uint64_t value)
{
    const mscclpp_cuda_driver_t *driver = mscclpp_cuda_driver();
    mscclpp_cuda_scope_t scope;
    mscclpp_status_t status;

    if (NULL == driver->stream_write_value) {
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    status = mscclpp_cuda_enter(stream->device, &scope);
    if (MSCCLPP_OK == status) {
        CUresult result =
            DRIVER_CALL(MSCCLPP_LOG_ERROR, driver->stream_write_value(stream->stream, (CUdeviceptr)(uintptr_t)to, value,
                                                                      CU_STREAM_WRITE_VALUE_DEFAULT));
        status = CUDA_SUCCESS == result ? MSCCLPP_OK : MSCCLPP_ERR_DEVICE;
        mscclpp_cuda_leave(&scope);
    }
    return status;
}

static mscclpp_status_t cuda_launch(mscclpp_gpu_stream_t *stream, const mscclpp_dev_launch_t *launch)
{
    mscclpp_cuda_scope_t scope;
    mscclpp_status_t status = mscclpp_cuda_enter(stream->device, &scope);

    if (MSCCLPP_OK == status) {
        cudaError_t error = (cudaError_t)mscclpp_dev_cuda_launch(stream->stream, launch);
        if (cudaSuccess != error) {
            mscclpp_error("launch of kernel %d with %u blocks of %u threads on CUDA device %d failed: %s (%s)",
                          (int)launch->kernel, launch->nblocks, launch->nthreads, stream->device,
                          cudaGetErrorName(error), cudaGetErrorString(error));
            (void)cudaGetLastError();
            status = mscclpp_cuda_status(error);
        }
        mscclpp_cuda_leave(&scope);
    }
    return status;
}

const mscclpp_gpu_ops_t mscclpp_gpu_cuda_ops = {
    .name = "cuda",
    .probe = mscclpp_cuda_probe,
    .current_device = mscclpp_cuda_current_device,
    .device_info = cuda_device_info,
    .keeps_lines = cuda_keeps_lines,
    .preload = cuda_preload,
    .is_device = mscclpp_cuda_is_device,
    .query = mscclpp_cuda_query,
    .reach = mscclpp_cuda_reach,
    .device_alloc = cuda_device_alloc,
    .device_free = cuda_device_free,
    .temp_alloc = cuda_temp_alloc,
    .temp_free = cuda_temp_free,
    .host_alloc = cuda_host_alloc,
    .host_free = cuda_host_free,
    .host_register = cuda_host_register,
    .host_unregister = cuda_host_unregister,
    .export_memory = mscclpp_cuda_export_memory,
    .import_memory = mscclpp_cuda_import_memory,
    .close_memory = mscclpp_cuda_close_memory,
    .export_dmabuf = mscclpp_cuda_export_dmabuf,
    .stream_create = cuda_stream_create,
    .stream_destroy = cuda_stream_destroy,
    .stream_wrap = cuda_stream_wrap,
    .stream_query = cuda_stream_query,
    .stream_sync = cuda_stream_sync,
    .copy = cuda_copy,
    .copy_rows = cuda_copy_rows,
    .copy_batch = cuda_copy_batch,
    .put = cuda_copy,
    .put_flag = cuda_put_flag,
    .write_flag = cuda_write_flag,
    .launch = cuda_launch,
};
