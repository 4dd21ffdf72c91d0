/* The CUDA runtime's table of functions; and devices and allocations. */
#include "mca/common/gpu/cuda/driver.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* CU_DEVICE_ATTRIBUTE_MPS_ENABLED, which older headers lack. Older drivers refuse it. */
#define MPS_ENABLED ((CUdevice_attribute)133)

/* The folder of the MPS daemon's pipes, unless CUDA_MPS_PIPE_DIRECTORY names another one. */
#define MPS_FOLDER "/tmp/nvidia-mps"

/* 2^64 divided by the golden ratio, an odd number. Multiplying by it spreads a number over the high bits. */
#define HASH_FACTOR UINT64_C(0x9e3779b97f4a7c15)

/*
 * Returns a number for the MPS server that this process uses, or 0 if it uses none. Processes with the same server run
 * kernels at the same time. Processes without MPS, or with different servers, take turns on a GPU.
 *
 * An MPS daemon is identified by its folder, and has one server for each user. If the folder cannot be read, this
 * process counts as one without MPS.
 */
static uint64_t find_server(int device)
{
    const char *folder = getenv("CUDA_MPS_PIPE_DIRECTORY");
    struct stat folder_info;
    uint64_t server;
    int is_enabled = 0;

    if (CUDA_SUCCESS != mscclpp_cuda_driver()->device_get_attribute(&is_enabled, MPS_ENABLED, device) ||
        0 == is_enabled || 0 != stat(folder != NULL && '\0' != folder[0] ? folder : MPS_FOLDER, &folder_info)) {
        return 0;
    }
    server = (uint64_t)folder_info.st_ino * HASH_FACTOR ^ (uint64_t)folder_info.st_dev << 32 ^ (uint64_t)geteuid();
    return 0 == server ? 1 : server;
}

/* Describes the device. After a failure, *info_p is unchanged. */
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
    /*
     * The nearest HCA is chosen by this address, and plans that name their GPUs are matched by it. Without it, the rank
     * goes on: any HCA is as near, and no such plan is used.
     */
    if (CUDA_SUCCESS != DRIVER_CALL(MSCCLPP_LOG_DEBUG,
                                    driver->device_get_pci_bus_id(info.pci_bus_id, sizeof(info.pci_bus_id), device))) {
        info.pci_bus_id[0] = '\0';
    }
    info.server = find_server(device);
    *info_p = info;
    return MSCCLPP_OK;
}

/*
 * Returns true if lines of 128 bytes are expected to arrive at the peer as a whole. CUDA does not report this. Native
 * atomics between the devices are taken as the sign, because NVLink has them and PCIe does not. Devices before compute
 * capability 7.0 count as unable.
 */
static bool cuda_keeps_lines(int device, const unsigned char *peer_uuid)
{
    mscclpp_gpu_info_t own_info, peer_info;
    int peer, has_atomics = 0, count = 0;

    if (MSCCLPP_OK != cuda_device_info(device, &own_info) || own_info.compute_major < 7) {
        return false;
    }
    if (0 == memcmp(own_info.uuid, peer_uuid, sizeof(own_info.uuid))) {
        return true;
    }
    if (MSCCLPP_OK != mscclpp_cuda_probe(&count)) {
        return false;
    }
    for (peer = 0; peer < count; ++peer) {
        if (MSCCLPP_OK == cuda_device_info(peer, &peer_info) &&
            0 == memcmp(peer_info.uuid, peer_uuid, sizeof(peer_info.uuid))) {
            return peer_info.compute_major >= 7 &&
                   cudaSuccess == CUDA_CALL(MSCCLPP_LOG_DEBUG,
                                            cudaDeviceGetP2PAttribute(&has_atomics, cudaDevP2PAttrNativeAtomicSupported,
                                                                      device, peer)) &&
                   0 != has_atomics;
        }
    }
    return false;
}

/*
 * Loads the kernels into the device's context. After a failure, which is logged, the next call tries again. The device
 * is entered before the lock is taken, because entering may take the same lock to create the context.
 */
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
    if (!entry->is_loaded) {
        status = mscclpp_cuda_status(
            CUDA_CALL(MSCCLPP_LOG_ERROR,
                      (cudaError_t)mscclpp_dev_cuda_preload(device, (void *)mscclpp_cuda_driver()->launch_kernel)));
        entry->is_loaded = MSCCLPP_OK == status;
    }
    pthread_mutex_unlock(&entry->lock);
    mscclpp_cuda_leave(&scope);
    return status;
}

/*
 * Zeroes device memory. Uses a new stream, because the default stream would wait for the application's work, and must
 * not be used during a capture. Waits until the memory is zero.
 */
static cudaError_t zero_memory(void *address, size_t size)
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

/*
 * The size of a large page, in bytes. Allocations are rounded up to whole large pages, because peers then map them by
 * large pages, too. If an allocation is a page short of that, copy engines that write to it lose a quarter of their
 * rate. Smaller allocations share pages and are not rounded.
 */
#define LARGE_PAGE_BYTES ((size_t)2 << 20)

/*
 * Allocates zeroed device memory, of whole large pages if `size` is at least one. Waits until the memory is zero. After
 * a failure, which is logged, nothing is left.
 */
static mscclpp_status_t cuda_device_alloc(int device, size_t size, void **address_p)
{
    mscclpp_cuda_scope_t scope;
    cudaError_t error;
    void *address;
    mscclpp_status_t status = mscclpp_cuda_refuse_empty(size);

    if (MSCCLPP_OK == status) {
        status = mscclpp_cuda_enter(device, &scope);
    }
    if (MSCCLPP_OK != status) {
        return status;
    }
    if (size >= LARGE_PAGE_BYTES && size <= SIZE_MAX - LARGE_PAGE_BYTES) {
        size = (size + LARGE_PAGE_BYTES - 1) / LARGE_PAGE_BYTES * LARGE_PAGE_BYTES;
    }
    error = cudaMalloc(&address, size);
    if (cudaSuccess != error) {
        /* A shortage is only a warning, because callers can manage with less memory and report it themselves. */
        mscclpp_log(cudaErrorMemoryAllocation == error ? MSCCLPP_LOG_WARN : MSCCLPP_LOG_ERROR,
                    "cannot allocate %zu bytes on CUDA device %d: %s (%s)", size, device, cudaGetErrorName(error),
                    cudaGetErrorString(error));
        (void)cudaGetLastError();
    } else {
        error = zero_memory(address, size);
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

/* Frees memory of cuda_device_alloc. If the device cannot be entered, the memory is leaked. NULL is allowed. */
static void cuda_device_free(int device, void *address)
{
    mscclpp_cuda_scope_t scope;

    if (address != NULL && MSCCLPP_OK == mscclpp_cuda_enter(device, &scope)) {
        CUDA_RELEASE(cudaFree(address));
        mscclpp_cuda_leave(&scope);
    }
}

/* Allocates pinned host memory. Kernels of all devices can access the memory. */
static mscclpp_status_t cuda_host_alloc(size_t size, void **host_address_p, void **device_address_p)
{
    mscclpp_cuda_scope_t scope;
    cudaError_t error;
    void *host_address;
    void *device_address;
    mscclpp_status_t status = mscclpp_cuda_refuse_empty(size);

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

/* Frees memory of cuda_host_alloc. If no device can be entered, the memory is leaked. NULL is allowed. */
static void cuda_host_free(void *host_address)
{
    mscclpp_cuda_scope_t scope;

    if (host_address != NULL && MSCCLPP_OK == mscclpp_cuda_enter_any(&scope)) {
        CUDA_RELEASE(cudaFreeHost(host_address));
        mscclpp_cuda_leave(&scope);
    }
}

/*
 * Pins host memory. Kernels of all devices can access the memory. Failures of CUDA's calls are logged at the info
 * level, because callers can manage without pinned memory. After a failure, nothing is pinned.
 */
static mscclpp_status_t cuda_host_register(void *host_address, size_t size, void **device_address_p)
{
    mscclpp_cuda_scope_t scope;
    cudaError_t error;
    void *device_address;
    mscclpp_status_t status = mscclpp_cuda_refuse_empty(size);

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

/* Undoes cuda_host_register. If no device can be entered, the memory stays pinned. */
static void cuda_host_unregister(void *host_address)
{
    mscclpp_cuda_scope_t scope;

    if (MSCCLPP_OK == mscclpp_cuda_enter_any(&scope)) {
        CUDA_RELEASE(cudaHostUnregister(host_address));
        mscclpp_cuda_leave(&scope);
    }
}

const mscclpp_gpu_ops_t mscclpp_gpu_cuda_ops = {
    .name = "cuda",
    .probe = mscclpp_cuda_probe,
    .is_likely = mscclpp_cuda_is_likely,
    .current_device = mscclpp_cuda_current_device,
    .device_info = cuda_device_info,
    .keeps_lines = cuda_keeps_lines,
    .preload = cuda_preload,
    .is_device = mscclpp_cuda_is_device,
    .query = mscclpp_cuda_query,
    .reach = mscclpp_cuda_reach,
    .settle = mscclpp_cuda_settle,
    .device_alloc = cuda_device_alloc,
    .device_free = cuda_device_free,
    .temp_alloc = mscclpp_cuda_temp_alloc,
    .temp_free = mscclpp_cuda_temp_free,
    .host_alloc = cuda_host_alloc,
    .host_free = cuda_host_free,
    .host_register = cuda_host_register,
    .host_unregister = cuda_host_unregister,
    .identify = mscclpp_cuda_identify,
    .export_memory = mscclpp_cuda_export_memory,
    .import_memory = mscclpp_cuda_import_memory,
    .close_memory = mscclpp_cuda_close_memory,
    .export_dmabuf = mscclpp_cuda_export_dmabuf,
    .stream_create = mscclpp_cuda_stream_create,
    .stream_destroy = mscclpp_cuda_stream_destroy,
    .stream_wrap = mscclpp_cuda_stream_wrap,
    .stream_ask = mscclpp_cuda_stream_ask,
    .is_capturing = mscclpp_cuda_is_capturing,
    .retain = mscclpp_cuda_retain,
    .stream_query = mscclpp_cuda_stream_query,
    .stream_sync = mscclpp_cuda_stream_sync,
    .copy = mscclpp_cuda_copy,
    .copy_rows = mscclpp_cuda_copy_rows,
    .copy_batch = mscclpp_cuda_copy_batch,
    .put = mscclpp_cuda_copy,
    .event_create = mscclpp_cuda_event_create,
    .event_destroy = mscclpp_cuda_event_destroy,
    .event_record = mscclpp_cuda_event_record,
    .event_query = mscclpp_cuda_event_query,
    .launch = mscclpp_cuda_launch,
    .launch_prepare = mscclpp_cuda_launch_prepare,
    .launch_prepared = mscclpp_cuda_launch_prepared,
    .prepared_destroy = mscclpp_cuda_prepared_destroy,
};
