/* Queries about addresses, and export and import of memory between processes. */
#include "mca/common/gpu/cuda/driver.h"

#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "mca/common/base/host_memory.h"
#include "mca/common/base/process.h"

/* The opaque bytes of a handle. */
typedef struct {
    cudaIpcMemHandle_t ipc;
    int32_t device; /* the exporter's device, a number that only its own process understands */
} cuda_opaque_t;

_Static_assert(sizeof(cuda_opaque_t) <= MSCCLPP_GPU_HANDLE_SIZE, "the CUDA handle fits its bytes");

/*
 * A cache of the recent queries of a thread about addresses, so that it calls the driver less often. An entry is valid
 * as long as the address belongs to the same allocation. So each use of an entry asks for the number of the allocation,
 * which takes a third of the time of the other questions. Only plain allocations are kept, once they are settled;
 * mapped and pool memory can change behind one number.
 */
typedef struct {
    const void *address;
    unsigned long long buffer_id; /* 0: an empty entry */
    int device;
} known_address_t;

/* Entries of a thread. A call has two buffers, so this serves four calls that take turns. */
#define RECENT_MAX 8u

static _Thread_local known_address_t recent[RECENT_MAX];
static _Thread_local unsigned recent_next;

/*
 * Returns the device whose plain memory this thread has found at the address before; -1: none. `buffer_id` is the
 * number of the allocation that is at the address now, or 0.
 */
static int find_known_device(const void *address, unsigned long long buffer_id)
{
    for (unsigned i = 0; i < RECENT_MAX && 0 != buffer_id; ++i) {
        if (recent[i].address == address && recent[i].buffer_id == buffer_id) {
            return recent[i].device;
        }
    }
    return -1;
}

/* Remembers plain memory for find_known_device, in place of the oldest entry. */
static void remember_address(const void *address, unsigned long long buffer_id, int device)
{
    recent[recent_next % RECENT_MAX] = (known_address_t){.address = address, .buffer_id = buffer_id, .device = device};
    ++recent_next;
}

/*
 * Returns true if the calling thread has seen device memory at this address. The memory that the thread has seen there
 * may be gone.
 */
static bool was_seen_as_device(const void *address)
{
    for (unsigned i = 0; i < RECENT_MAX; ++i) {
        if (recent[i].address == address && 0 != recent[i].buffer_id) {
            return true;
        }
    }
    return false;
}

/*
 * Usually asks the driver only one question. If the thread has seen device memory at the address before, asks for the
 * allocation's number; otherwise, for the kind of memory. The driver is slowest for addresses that it does not know, so
 * it is not asked about addresses that are certainly host memory. Answers for other host memory are not remembered,
 * because that memory can be unmapped, and CUDA may then use its addresses.
 */
bool mscclpp_cuda_is_device(const void *address, uint64_t *allocation_p)
{
    CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED};
    const mscclpp_cuda_driver_t *driver;
    unsigned type = 0;
    unsigned is_managed = 0;
    void *values[] = {&type, &is_managed};

    if (allocation_p != NULL) {
        *allocation_p = 0;
    }
    if (address == NULL || mscclpp_host_memory_is_certain(address)) {
        return false;
    }
    /* Errors count as "no": a driver that was not initialised in this process (a forked child) owns no memory. */
    driver = mscclpp_cuda_driver_in_use();
    if (driver == NULL) {
        return false;
    }
    if (was_seen_as_device(address)) {
        const unsigned long long buffer_id = mscclpp_cuda_buffer_id(address);

        if (find_known_device(address, buffer_id) >= 0) {
            if (allocation_p != NULL) {
                *allocation_p = buffer_id;
            }
            return true;
        }
    }
    return CUDA_SUCCESS == driver->pointer_get_attributes(2, attributes, values, (CUdeviceptr)(uintptr_t)address) &&
           (CU_MEMORYTYPE_DEVICE == type || 0 != is_managed);
}

/*
 * Returns true if kernels use pinned memory at the host's address. `device` is the one for which the pinned memory was
 * registered. Returns false if the device cannot be entered.
 */
static bool is_mapped_in_place(const void *address, int device)
{
    const mscclpp_cuda_driver_t *driver = mscclpp_cuda_driver();
    CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_DEVICE_POINTER;
    CUdeviceptr device_pointer = 0;
    void *value = &device_pointer;
    mscclpp_cuda_scope_t scope;
    bool is_in_place;

    if (device < 0 || device >= driver->device_count || MSCCLPP_OK != mscclpp_cuda_enter(device, &scope)) {
        return false;
    }
    is_in_place =
        CUDA_SUCCESS == driver->pointer_get_attributes(1, &attribute, &value, (CUdeviceptr)(uintptr_t)address) &&
        device_pointer == (CUdeviceptr)(uintptr_t)address;
    mscclpp_cuda_leave(&scope);
    return is_in_place;
}

/*
 * Finds how the device reaches the memory, by questions to the runtime. Slower than the questions of find_reach, but
 * knows all kinds of memory.
 */
static mscclpp_reach_t reach_by_query(int device, const void *address)
{
    mscclpp_mem_info_t info;

    mscclpp_cuda_query(address, &info);
    if (MSCCLPP_MEM_DEVICE == info.kind) {
        return info.device == device ? MSCCLPP_REACH_HOME : MSCCLPP_REACH_NONE;
    }
    return MSCCLPP_MEM_HOST == info.kind ? MSCCLPP_REACH_NONE : MSCCLPP_REACH_FAR;
}

/*
 * Finds how kernels of the device reach the memory, with as few questions to the driver as possible. Most calls pass
 * plain memory of the device's primary context, or pool memory, which has no context. For all other memory, calls
 * reach_by_query. Remembers plain memory that is settled.
 */
static mscclpp_reach_t find_reach(int device, const void *address, unsigned long long buffer_id)
{
    const mscclpp_cuda_driver_t *driver = mscclpp_cuda_driver();
    CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_CONTEXT,
                                        CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE};
    unsigned type = 0;
    unsigned is_managed = 0;
    int ordinal = -1;
    CUcontext context = NULL, primary = NULL;
    unsigned is_exportable = 0;
    void *values[] = {&type, &is_managed, &ordinal, &context, &is_exportable};

    if (CUDA_SUCCESS != driver->pointer_get_attributes(sizeof(attributes) / sizeof(attributes[0]), attributes, values,
                                                       (CUdeviceptr)(uintptr_t)address) ||
        CU_MEMORYTYPE_DEVICE != type || 0 != is_managed || ordinal != device) {
        return reach_by_query(device, address);
    }
    if (context == NULL) {
        return MSCCLPP_REACH_HOME;
    }
    if (MSCCLPP_OK != mscclpp_cuda_primary_context(device, &primary) || context != primary) {
        return reach_by_query(device, address);
    }
    /* Memory that cannot be exported was imported, perhaps from another device. */
    if (0 == is_exportable) {
        return MSCCLPP_REACH_FAR;
    }
    if (mscclpp_cuda_is_settled(buffer_id)) {
        remember_address(address, buffer_id, device);
    }
    return MSCCLPP_REACH_HOME;
}

/* Settles the allocation if it is not known to be settled, and finds how to reach it even if that fails. */
mscclpp_status_t mscclpp_cuda_reach(int device, const void *address, uint64_t allocation, mscclpp_reach_t *reach_p)
{
    mscclpp_status_t status = MSCCLPP_OK;
    unsigned long long buffer_id;

    if (mscclpp_cuda_driver() == NULL || address == NULL) {
        *reach_p = MSCCLPP_REACH_NONE;
        return MSCCLPP_OK;
    }
    buffer_id = allocation != 0 ? allocation : mscclpp_cuda_buffer_id(address);
    if (find_known_device(address, buffer_id) == device) {
        *reach_p = MSCCLPP_REACH_HOME;
        return MSCCLPP_OK;
    }
    if (0 != buffer_id && !mscclpp_cuda_is_settled(buffer_id)) {
        status = mscclpp_cuda_settle_buffer(address, buffer_id);
    }
    *reach_p = find_reach(device, address, buffer_id);
    return status;
}

/*
 * Asks the driver for all attributes in one call. Errors are not logged, because an unknown address is simply host
 * memory.
 */
void mscclpp_cuda_query(const void *address, mscclpp_mem_info_t *info_p)
{
    const mscclpp_cuda_driver_t *driver = mscclpp_cuda_driver();
    CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,    CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_CONTEXT,
                                        CU_POINTER_ATTRIBUTE_BUFFER_ID,      CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                        CU_POINTER_ATTRIBUTE_RANGE_SIZE};
    unsigned type = 0;
    unsigned is_managed = 0;
    int ordinal = -1;
    CUcontext context = NULL;
    unsigned long long buffer_id = 0;
    CUdeviceptr base = 0;
    size_t length = 0;
    void *values[] = {&type, &is_managed, &ordinal, &context, &buffer_id, &base, &length};

    memset(info_p, 0, sizeof(*info_p));
    info_p->kind = MSCCLPP_MEM_HOST;
    info_p->device = -1;
    if (driver == NULL || address == NULL ||
        CUDA_SUCCESS != driver->pointer_get_attributes(sizeof(attributes) / sizeof(attributes[0]), attributes, values,
                                                       (CUdeviceptr)(uintptr_t)address)) {
        return;
    }
    if (0 != is_managed) {
        info_p->kind = MSCCLPP_MEM_MANAGED;
    } else if (CU_MEMORYTYPE_DEVICE == type) {
        /*
         * Pool and mapped memory have no context of their own. Our kernels cannot reach memory of a context other than
         * the device's primary one, but copies can, so we treat it like host memory.
         */
        CUcontext primary = context;
        if (context != NULL && ordinal >= 0 && ordinal < driver->device_count) {
            (void)mscclpp_cuda_primary_context(ordinal, &primary);
        }
        if (context != primary) {
            return;
        }
        info_p->kind = MSCCLPP_MEM_DEVICE;
    } else if (CU_MEMORYTYPE_HOST == type) {
        if (is_mapped_in_place(address, ordinal)) {
            info_p->kind = MSCCLPP_MEM_PINNED;
        }
    } else {
        return;
    }
    if (MSCCLPP_MEM_DEVICE == info_p->kind || MSCCLPP_MEM_MANAGED == info_p->kind) {
        info_p->device = ordinal;
    }
    info_p->buffer_id = buffer_id;
    if (0 != base && 0 != length) {
        info_p->base = (void *)(uintptr_t)base;
        info_p->length = length;
    }
}

/*
 * Makes an IPC handle of the whole allocation. Memory without such a handle is logged at the debug level at most. After
 * a failure, *handle_p is unchanged.
 */
mscclpp_status_t mscclpp_cuda_export_memory(const void *address, mscclpp_gpu_handle_t *handle_p)
{
    const mscclpp_cuda_driver_t *driver = mscclpp_cuda_driver();
    CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                        CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
                                        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_BUFFER_ID};
    unsigned type = 0;
    unsigned is_managed = 0;
    unsigned is_exportable = 0;
    int ordinal = -1;
    unsigned long long buffer_id = 0;
    void *values[] = {&type, &is_managed, &is_exportable, &ordinal, &buffer_id};
    CUdeviceptr pointer = (CUdeviceptr)(uintptr_t)address;
    CUdeviceptr base = 0;
    size_t length = 0;
    cuda_opaque_t opaque;
    mscclpp_cuda_scope_t scope;
    mscclpp_status_t status;

    /* Pool memory and memory mapped by the application itself have no handle of this kind. */
    if (driver == NULL ||
        CUDA_SUCCESS !=
            driver->pointer_get_attributes(sizeof(attributes) / sizeof(attributes[0]), attributes, values, pointer) ||
        CU_MEMORYTYPE_DEVICE != type || 0 != is_managed || 0 == is_exportable || ordinal < 0 ||
        ordinal >= driver->device_count) {
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    status = mscclpp_cuda_enter(ordinal, &scope);
    if (MSCCLPP_OK != status) {
        return status;
    }
    memset(&opaque, 0, sizeof(opaque));
    opaque.device = ordinal;
    /* The attribute alone is no proof: imported memory, and systems without this kind of sharing, fail here. */
    if (CUDA_SUCCESS != DRIVER_CALL(MSCCLPP_LOG_DEBUG, driver->mem_get_address_range(&base, &length, pointer)) ||
        cudaSuccess != CUDA_CALL(MSCCLPP_LOG_DEBUG, cudaIpcGetMemHandle(&opaque.ipc, (void *)(uintptr_t)base))) {
        status = MSCCLPP_ERR_NOT_SUPPORTED;
    }
    mscclpp_cuda_leave(&scope);
    if (MSCCLPP_OK == status) {
        memset(handle_p, 0, sizeof(*handle_p));
        handle_p->buffer_id = buffer_id;
        handle_p->offset = (uint64_t)(pointer - base);
        handle_p->length = length;
        handle_p->pid = (int64_t)getpid();
        handle_p->token = mscclpp_process_token();
        handle_p->address = (uint64_t)base;
        memcpy(handle_p->opaque, &opaque, sizeof(opaque));
    }
    return status;
}

/* The number does not change while the allocation exists. */
uint64_t mscclpp_cuda_identify(const void *address)
{
    return mscclpp_cuda_driver() == NULL ? 0 : mscclpp_cuda_buffer_id(address);
}

/*
 * Returns true if an error means that two devices, or two processes, cannot reach each other's memory. Any other error
 * is a fault.
 */
static bool is_unreachable(cudaError_t error)
{
    switch (error) {
    case cudaErrorPeerAccessUnsupported:
    case cudaErrorAlreadyMapped: /* another part of this process has mapped it */
    case cudaErrorTooManyPeers:
    case cudaErrorInvalidDevice:
    case cudaErrorMapBufferObjectFailed:
    case cudaErrorNotSupported:
    case cudaErrorNotPermitted:
        return true;
    default:
        return false;
    }
}

/*
 * Logs a failed import, and returns its status. The level of the message depends on the cause. Clears the thread's last
 * error.
 */
static mscclpp_status_t log_import_failure(const char *call, cudaError_t error, const mscclpp_gpu_handle_t *handle,
                                           int device)
{
    bool cannot_reach = is_unreachable(error);
    /* If memory is short, the caller may be able to free some, or to manage without the import. */
    bool is_out_of_memory = cudaErrorMemoryAllocation == error;

    mscclpp_log(cannot_reach       ? MSCCLPP_LOG_DEBUG
                : is_out_of_memory ? MSCCLPP_LOG_WARN
                                   : MSCCLPP_LOG_ERROR,
                "%s for %llu bytes of process %lld on CUDA device %d failed: %s (%s)", call,
                (unsigned long long)handle->length, (long long)handle->pid, device, cudaGetErrorName(error),
                cudaGetErrorString(error));
    (void)cudaGetLastError();
    return cannot_reach ? MSCCLPP_ERR_NOT_SUPPORTED : mscclpp_cuda_status(error);
}

/*
 * Lets a device access the memory of another one. Does this only once for each pair of devices, because CUDA treats a
 * second call as an error. The bit is set after the access has been enabled, so a thread that sees the bit has the
 * access. `device` must have been entered. The caller logs the error.
 */
static cudaError_t enable_peer_access(int device, int peer)
{
    mscclpp_cuda_device_t *entry = &mscclpp_cuda_driver()->devices[device];
    const unsigned long long bit = peer < 64 ? 1ull << peer : 0; /* further devices are asked about each time */
    cudaError_t error;
    int can_access = 0;

    if (0 != (atomic_load(&entry->peers) & bit)) {
        return cudaSuccess;
    }
    error = cudaDeviceCanAccessPeer(&can_access, device, peer);
    if (cudaSuccess == error) {
        error = can_access ? cudaDeviceEnablePeerAccess(peer, 0) : cudaErrorPeerAccessUnsupported;
    }
    if (cudaErrorPeerAccessAlreadyEnabled == error) {
        (void)cudaGetLastError(); /* the application has enabled the access already */
        error = cudaSuccess;
    }
    if (cudaSuccess == error) {
        atomic_fetch_or(&entry->peers, bit);
    }
    return error;
}

/*
 * Opens an allocation that this process itself has exported. All devices of a process share one address space, so only
 * the access between devices may be missing. Returns MSCCLPP_ERR_NOT_SUPPORTED if the memory has been freed, or if the
 * devices cannot reach each other. `device` must have been entered.
 */
static mscclpp_status_t import_own(int device, const mscclpp_gpu_handle_t *handle, const cuda_opaque_t *opaque,
                                   void **base_p)
{
    void *base = (void *)(uintptr_t)handle->address;
    cudaError_t error = cudaSuccess;
    mscclpp_mem_info_t info;

    mscclpp_cuda_query(base, &info);
    if (info.buffer_id != handle->buffer_id) {
        mscclpp_debug("device memory %p was freed before it was imported", base);
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    if (opaque->device != device) {
        error = enable_peer_access(device, opaque->device);
    }
    if (cudaSuccess != error) {
        return log_import_failure("cudaDeviceEnablePeerAccess", error, handle, device);
    }
    *base_p = base;
    return MSCCLPP_OK;
}

/*
 * Memory of this process needs no mapping. Memory that cannot be reached is logged at the debug level, lack of memory
 * as a warning, and any other failure as an error (log_import_failure).
 */
mscclpp_status_t mscclpp_cuda_import_memory(int device, const mscclpp_gpu_handle_t *handle, void **base_p)
{
    mscclpp_cuda_scope_t scope;
    cuda_opaque_t opaque;
    mscclpp_status_t status = mscclpp_cuda_enter(device, &scope);

    if (MSCCLPP_OK != status) {
        return status;
    }
    memcpy(&opaque, handle->opaque, sizeof(opaque));
    if (mscclpp_process_is_self(handle->pid, handle->token)) {
        status = import_own(device, handle, &opaque, base_p);
    } else {
        void *base;
        cudaError_t error = cudaIpcOpenMemHandle(&base, opaque.ipc, cudaIpcMemLazyEnablePeerAccess);
        if (cudaSuccess == error) {
            *base_p = base;
        } else {
            status = log_import_failure("cudaIpcOpenMemHandle", error, handle, device);
        }
    }
    mscclpp_cuda_leave(&scope);
    return status;
}

/* Undoes mscclpp_cuda_import_memory. Memory of this process itself was not mapped, so nothing is done for it. */
void mscclpp_cuda_close_memory(int device, const mscclpp_gpu_handle_t *handle, void *base)
{
    mscclpp_cuda_scope_t scope;

    if (base != NULL && !mscclpp_process_is_self(handle->pid, handle->token) &&
        MSCCLPP_OK == mscclpp_cuda_enter(device, &scope)) {
        CUDA_RELEASE(cudaIpcCloseMemHandle(base));
        mscclpp_cuda_leave(&scope);
    }
}

/*
 * Exports the pages from `begin` to `end` as a file descriptor. The driver exports nothing smaller than whole pages.
 * The caller closes *fd_p. Returns MSCCLPP_ERR_NOT_SUPPORTED if the driver refuses. The owner's device must have been
 * entered.
 */
static mscclpp_status_t export_pages(uintptr_t begin, uintptr_t end, int *fd_p)
{
    const mscclpp_cuda_driver_t *driver = mscclpp_cuda_driver();
    int fd = -1;

#if CUDA_VERSION >= 12080
    /*
     * Asks for a PCIe mapping even if the GPU has a faster path to the CPU, because HCAs reach it over PCIe. Not every
     * system offers the choice.
     */
    if (CUDA_SUCCESS ==
        DRIVER_CALL(MSCCLPP_LOG_DEBUG, driver->mem_get_handle_for_address_range(
                                           &fd, (CUdeviceptr)begin, end - begin, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
                                           CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE))) {
        *fd_p = fd;
        return MSCCLPP_OK;
    }
#endif
    if (CUDA_SUCCESS != DRIVER_CALL(MSCCLPP_LOG_DEBUG,
                                    driver->mem_get_handle_for_address_range(&fd, (CUdeviceptr)begin, end - begin,
                                                                             CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0))) {
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    *fd_p = fd;
    return MSCCLPP_OK;
}

/*
 * Exports whole pages; *offset_p is the offset of the memory in them. Returns MSCCLPP_ERR_NOT_SUPPORTED also for 0
 * bytes, and for memory that is not device memory.
 */
mscclpp_status_t mscclpp_cuda_export_dmabuf(const void *address, size_t length, int *fd_p, uint64_t *offset_p)
{
    const mscclpp_cuda_driver_t *driver = mscclpp_cuda_driver();
    const uintptr_t page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t begin = (uintptr_t)address & ~(page_bytes - 1);
    const uintptr_t end = ((uintptr_t)address + length + page_bytes - 1) & ~(page_bytes - 1);
    mscclpp_mem_info_t info;
    mscclpp_cuda_scope_t scope;
    mscclpp_status_t status;

    mscclpp_cuda_query(address, &info);
    if (driver == NULL || driver->mem_get_handle_for_address_range == NULL || 0 == length ||
        MSCCLPP_MEM_DEVICE != info.kind) {
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    status = mscclpp_cuda_enter(info.device, &scope);
    if (MSCCLPP_OK != status) {
        return status;
    }
    status = export_pages(begin, end, fd_p);
    mscclpp_cuda_leave(&scope);
    if (MSCCLPP_OK == status) {
        *offset_p = (uintptr_t)address - begin;
    }
    return status;
}
