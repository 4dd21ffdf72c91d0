/* The host twin's table of functions, its only device, and its device memory, which is in shared segments. */
#include "mca/common/gpu/twin/internal.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mca/common/base/machine.h"
#include "mca/common/base/log.h"
#include "mca/common/base/process.h"
#include "mca/common/base/shmseg.h"

/*
 * A piece of device memory that this process holds. The list is short: scratch and state of teams, of their peers, of
 * tests.
 */
typedef struct twin_memory {
    struct twin_memory *next;
    mscclpp_shmseg_t *segment;
    uint64_t id;                 /* number of the segment in its creator */
    bool is_imported;            /* mapped from a peer or from this process itself; else allocated here */
    mscclpp_gpu_handle_t handle; /* the handle of imported memory */
} twin_memory_t;

_Static_assert(sizeof(mscclpp_shmseg_descriptor_t) <= MSCCLPP_GPU_HANDLE_SIZE, "a handle holds a segment's descriptor");

static pthread_mutex_t twin_lock = PTHREAD_MUTEX_INITIALIZER;
static twin_memory_t *twin_memories;

typedef bool (*twin_filter_fn_t)(const void *address);
static _Atomic(twin_filter_fn_t) twin_filter; /* tests: which memory counts as host memory; NULL: none does */

typedef void (*twin_bounds_fn_t)(const void *address, void **base_p, size_t *length_p);
static _Atomic(twin_bounds_fn_t) twin_bounds; /* tests: finds the bounds of memory that was not allocated here */

void mscclpp_gpu_twin_set_progress(void (*progress)(void *context), void *context)
{
    mscclpp_dev_twin_set_progress(progress, context);
}

void mscclpp_gpu_twin_set_filter(bool (*is_host)(const void *address))
{
    atomic_store_explicit(&twin_filter, is_host, memory_order_release);
}

void mscclpp_gpu_twin_set_bounds(void (*bounds)(const void *address, void **base_p, size_t *length_p))
{
    atomic_store_explicit(&twin_bounds, bounds, memory_order_release);
}

/* Finds one device, always. */
static mscclpp_status_t twin_probe(int *device_count_p)
{
    *device_count_p = 1;
    return MSCCLPP_OK;
}

/* Stores the twin's only device, which is the current device of every thread. */
static mscclpp_status_t twin_current_device(int *device_p)
{
    *device_p = TWIN_DEVICE;
    return MSCCLPP_OK;
}

/*
 * Writes the device's UUID, one for each machine. All processes of a machine use the same CPUs, so the twin's device is
 * one GPU that they share.
 */
static void write_uuid(unsigned char *uuid)
{
    const uint64_t words[2] = {mscclpp_machine_boot(), UINT64_C(0x6d73636c70707477)}; /* no GPU has a UUID like this */

    memcpy(uuid, words, MSCCLPP_GPU_UUID_SIZE);
}

/*
 * Describes the twin's only device. Its server is not 0, which means that kernels of all processes run at the same
 * time.
 */
static mscclpp_status_t twin_device_info(int device, mscclpp_gpu_info_t *info_p)
{
    mscclpp_status_t status = mscclpp_twin_check_device(device);

    if (MSCCLPP_OK != status) {
        return status;
    }
    memset(info_p, 0, sizeof(*info_p));
    snprintf(info_p->name, sizeof(info_p->name), "host twin");
    write_uuid(info_p->uuid);
    info_p->sm_count = MSCCLPP_DEV_MAX_BLOCKS; /* the system's scheduler lets any number of blocks make progress */
    info_p->server = 1;
    return MSCCLPP_OK;
}

/* Only checks the device: the kernels are functions of this library. */
static mscclpp_status_t twin_preload(int device)
{
    return mscclpp_twin_check_device(device);
}

/* Returns true if the memory contains the address. For an address below the memory, the unsigned difference is huge. */
static bool contains_address(const twin_memory_t *memory, const void *address)
{
    uintptr_t base = (uintptr_t)mscclpp_shmseg_base(memory->segment);

    return (uintptr_t)address - base < mscclpp_shmseg_length(memory->segment);
}

/*
 * Returns the link to the memory that contains an address, among the imported or the allocated memory. If there is
 * none, returns a link to NULL. The caller holds twin_lock.
 */
static twin_memory_t **find_memory(const void *address, bool is_imported)
{
    twin_memory_t **link = &twin_memories;

    while (*link != NULL && ((*link)->is_imported != is_imported || !contains_address(*link, address))) {
        link = &(*link)->next;
    }
    return link;
}

/*
 * Adds memory to the list. `handle` is NULL for memory that was allocated here. After a failure, which is logged, the
 * caller still owns the segment.
 */
static mscclpp_status_t add_memory(mscclpp_shmseg_t *segment, const mscclpp_gpu_handle_t *handle)
{
    twin_memory_t *memory = malloc(sizeof(*memory));
    mscclpp_shmseg_descriptor_t descriptor;

    if (memory == NULL) {
        mscclpp_error("out of memory for the description of device memory");
        return MSCCLPP_ERR_NO_MEMORY;
    }
    mscclpp_shmseg_describe(segment, &descriptor);
    memory->segment = segment;
    memory->id = descriptor.id;
    memory->is_imported = handle != NULL;
    if (handle != NULL) {
        memory->handle = *handle;
    }
    pthread_mutex_lock(&twin_lock);
    memory->next = twin_memories;
    twin_memories = memory;
    pthread_mutex_unlock(&twin_lock);
    return MSCCLPP_OK;
}

/*
 * Removes memory from the list, and detaches its segment. `base` must be the first byte of the memory, or NULL. Any
 * other address is logged and ignored.
 */
static void remove_memory(void *base, bool is_imported)
{
    twin_memory_t **link;
    twin_memory_t *memory;

    if (base == NULL) {
        return;
    }
    pthread_mutex_lock(&twin_lock);
    link = find_memory(base, is_imported);
    memory = *link;
    if (memory != NULL && mscclpp_shmseg_base(memory->segment) == base) {
        *link = memory->next;
    } else {
        memory = NULL;
    }
    pthread_mutex_unlock(&twin_lock);
    if (memory == NULL) {
        mscclpp_warn("%p is not the start of %s device memory and stays as it is", base,
                     is_imported ? "imported" : "allocated");
        return;
    }
    mscclpp_shmseg_detach(memory->segment);
    free(memory);
}

/* Returns true if a test wants an address to count as host memory. */
static bool is_hidden(const void *address)
{
    twin_filter_fn_t is_host = atomic_load_explicit(&twin_filter, memory_order_acquire);

    return is_host != NULL && is_host(address);
}

/*
 * Returns true for all memory except NULL, unless a test's filter hides it. The filter applies only to memory of the
 * application; memory that was allocated here is always device memory.
 */
static bool is_device(const void *address)
{
    bool is_allocated_here;

    if (address == NULL) {
        return false;
    }
    if (!is_hidden(address)) {
        return true;
    }
    pthread_mutex_lock(&twin_lock);
    is_allocated_here = *find_memory(address, false) != NULL;
    pthread_mutex_unlock(&twin_lock);
    return is_allocated_here;
}

/* Returns true for device memory. Sets *allocation_p to 0, because `reach` can ask again at no cost. */
static bool twin_is_device(const void *address, uint64_t *allocation_p)
{
    if (allocation_p != NULL) {
        *allocation_p = 0;
    }
    return is_device(address);
}

/* Kernels of the twin reach all device memory, and no memory that a test's filter hides. */
static mscclpp_status_t twin_reach(int device, const void *address, uint64_t allocation, mscclpp_reach_t *reach_p)
{
    (void)allocation;
    *reach_p = TWIN_DEVICE == device && is_device(address) ? MSCCLPP_REACH_HOME : MSCCLPP_REACH_NONE;
    return MSCCLPP_OK;
}

/* Does nothing: the application copies with memcpy, which has ended when it returns. */
static mscclpp_status_t twin_settle(const void *address)
{
    (void)address;
    return MSCCLPP_OK;
}

/*
 * Describes an allocation; see `query` in gpu.h. Memory that was not allocated here has no known bounds, except in
 * tests. The test's function `bounds` is called with twin_lock held.
 */
static void twin_query(const void *address, mscclpp_mem_info_t *info_p)
{
    twin_bounds_fn_t bounds = atomic_load_explicit(&twin_bounds, memory_order_acquire);
    const twin_memory_t *memory;

    memset(info_p, 0, sizeof(*info_p));
    info_p->kind = MSCCLPP_MEM_HOST;
    info_p->device = -1;
    if (!is_device(address)) {
        return;
    }
    info_p->kind = MSCCLPP_MEM_DEVICE;
    info_p->device = TWIN_DEVICE;
    pthread_mutex_lock(&twin_lock);
    memory = *find_memory(address, false);
    if (memory != NULL) {
        info_p->buffer_id = memory->id;
        info_p->base = mscclpp_shmseg_base(memory->segment);
        info_p->length = mscclpp_shmseg_length(memory->segment);
    } else if (bounds != NULL) {
        bounds(address, &info_p->base, &info_p->length);
    }
    pthread_mutex_unlock(&twin_lock);
}

/*
 * Allocates device memory of the twin, which is a shared segment and zeroed. After a failure, which is logged, nothing
 * is left.
 */
static mscclpp_status_t twin_device_alloc(int device, size_t size, void **address_p)
{
    mscclpp_status_t status = mscclpp_twin_check_device(device);
    mscclpp_shmseg_t *segment;

    if (MSCCLPP_OK == status) {
        status = mscclpp_shmseg_create(size, &segment);
    }
    if (MSCCLPP_OK != status) {
        return status;
    }
    status = add_memory(segment, NULL);
    if (MSCCLPP_OK != status) {
        mscclpp_shmseg_detach(segment);
        return status;
    }
    *address_p = mscclpp_shmseg_base(segment);
    return MSCCLPP_OK;
}

/* Frees memory of twin_device_alloc. NULL is allowed. */
static void twin_device_free(int device, void *address)
{
    (void)device;
    remove_memory(address, false);
}

/* Allocates host memory. Kernels of the twin run on the CPU, so both addresses are the same. */
static mscclpp_status_t twin_host_alloc(size_t size, void **host_address_p, void **device_address_p)
{
    void *address;
    mscclpp_status_t status = mscclpp_twin_alloc_zeroed(size, &address);

    if (MSCCLPP_OK == status) {
        *host_address_p = address;
        *device_address_p = address;
    }
    return status;
}

/* Frees memory of twin_host_alloc. NULL is allowed. */
static void twin_host_free(void *host_address)
{
    free(host_address);
}

/* Returns the same address. Nothing is pinned, because the twin's kernels reach any memory. */
static mscclpp_status_t twin_host_register(void *host_address, size_t size, void **device_address_p)
{
    (void)size;
    *device_address_p = host_address;
    return MSCCLPP_OK;
}

/* Does nothing, because twin_host_register pins nothing. */
static void twin_host_unregister(void *host_address)
{
    (void)host_address;
}

/*
 * Finds the segment of this library that contains an address, and the offset of the address in it. In tests that set
 * bounds, also finds a segment of another copy of the library in this process. Returns false for all other memory.
 */
static bool describe_segment(const void *address, mscclpp_shmseg_descriptor_t *descriptor, uint64_t *offset)
{
    const bool knows_other_copies = atomic_load_explicit(&twin_bounds, memory_order_acquire) != NULL;
    const twin_memory_t *memory;
    bool is_found;

    pthread_mutex_lock(&twin_lock);
    memory = *find_memory(address, false);
    is_found = memory != NULL;
    if (is_found) {
        mscclpp_shmseg_describe(memory->segment, descriptor);
        *offset = (uint64_t)((const char *)address - (const char *)mscclpp_shmseg_base(memory->segment));
    }
    pthread_mutex_unlock(&twin_lock);
    return is_found || (knows_other_copies && mscclpp_shmseg_recognise(address, descriptor, offset));
}

/* Returns the number of the segment that contains an address, or 0 for memory outside segments. */
static uint64_t twin_identify(const void *address)
{
    mscclpp_shmseg_descriptor_t descriptor;
    uint64_t offset;

    return describe_segment(address, &descriptor, &offset) ? descriptor.id : 0;
}

/*
 * Makes a handle for memory in a segment. Returns MSCCLPP_ERR_NOT_SUPPORTED for all other memory. After a failure,
 * *handle_p is unchanged.
 */
static mscclpp_status_t twin_export_memory(const void *address, mscclpp_gpu_handle_t *handle_p)
{
    mscclpp_shmseg_descriptor_t descriptor;
    uint64_t offset;

    if (!describe_segment(address, &descriptor, &offset)) {
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    memset(handle_p, 0, sizeof(*handle_p));
    handle_p->buffer_id = descriptor.id;
    handle_p->offset = offset;
    handle_p->length = descriptor.length;
    handle_p->pid = descriptor.pid;
    handle_p->token = descriptor.token;
    handle_p->address = (uint64_t)((uintptr_t)address - offset);
    memcpy(handle_p->opaque, &descriptor, sizeof(descriptor));
    return MSCCLPP_OK;
}

/*
 * Returns true if this process still maps memory that its owner has freed, at an address where the handle's memory is
 * now. CUDA refuses to map the new memory in that case, and so does the twin.
 */
static bool is_blocked_by_freed_memory(const mscclpp_gpu_handle_t *handle)
{
    bool is_found = false;

    if (mscclpp_process_is_self(handle->pid, handle->token)) {
        return false;
    }
    pthread_mutex_lock(&twin_lock);
    for (const twin_memory_t *memory = twin_memories; memory != NULL && !is_found; memory = memory->next) {
        const mscclpp_gpu_handle_t *mapped = &memory->handle;

        /* One process may have several copies of this library, each with a token and numbers of its own. */
        is_found = memory->is_imported && mapped->pid == handle->pid &&
                   (mapped->token != handle->token || mapped->buffer_id != handle->buffer_id) &&
                   mapped->address < handle->address + handle->length &&
                   handle->address < mapped->address + mapped->length;
    }
    pthread_mutex_unlock(&twin_lock);
    return is_found;
}

/*
 * Maps the segment of a handle. In the exporting process itself, returns the exporter's address, because a process maps
 * each segment at only one address. Returns MSCCLPP_ERR_NOT_SUPPORTED if freed memory is in the way or the segment
 * cannot be reached, or another error of mscclpp_shmseg_attach or add_memory. After a failure, nothing is left.
 */
static mscclpp_status_t twin_import_memory(int device, const mscclpp_gpu_handle_t *handle, void **base_p)
{
    mscclpp_status_t status = mscclpp_twin_check_device(device);
    mscclpp_shmseg_descriptor_t descriptor;
    mscclpp_shmseg_t *segment;

    if (MSCCLPP_OK != status) {
        return status;
    }
    if (is_blocked_by_freed_memory(handle)) {
        mscclpp_debug(
            "cannot map %llu bytes of process %lld: memory that it has freed is still mapped at the same address",
            (unsigned long long)handle->length, (long long)handle->pid);
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    memcpy(&descriptor, handle->opaque, sizeof(descriptor));
    status = mscclpp_shmseg_attach(&descriptor, &segment);
    if (MSCCLPP_OK != status) {
        return status;
    }
    status = add_memory(segment, handle);
    if (MSCCLPP_OK != status) {
        mscclpp_shmseg_detach(segment);
        return status;
    }
    *base_p = mscclpp_shmseg_base(segment);
    return MSCCLPP_OK;
}

/* Unmaps memory of twin_import_memory. */
static void twin_close_memory(int device, const mscclpp_gpu_handle_t *handle, void *base)
{
    (void)device;
    (void)handle;
    remove_memory(base, true);
}

const mscclpp_gpu_ops_t mscclpp_gpu_twin_ops = {
    .name = "host",
    .twin = true,
    .probe = twin_probe,
    .current_device = twin_current_device,
    .device_info = twin_device_info,
    .preload = twin_preload,
    .is_device = twin_is_device,
    .query = twin_query,
    .reach = twin_reach,
    .settle = twin_settle,
    .device_alloc = twin_device_alloc,
    .device_free = twin_device_free,
    .temp_alloc = mscclpp_twin_temp_alloc,
    .temp_free = mscclpp_twin_temp_free,
    .host_alloc = twin_host_alloc,
    .host_free = twin_host_free,
    .host_register = twin_host_register,
    .host_unregister = twin_host_unregister,
    .identify = twin_identify,
    .export_memory = twin_export_memory,
    .import_memory = twin_import_memory,
    .close_memory = twin_close_memory,
    .stream_create = mscclpp_twin_stream_create,
    .stream_destroy = mscclpp_twin_stream_destroy,
    .stream_wrap = mscclpp_twin_stream_wrap,
    .stream_ask = mscclpp_twin_stream_ask,
    .is_capturing = mscclpp_twin_is_capturing,
    .retain = mscclpp_twin_retain,
    .stream_query = mscclpp_twin_stream_query,
    .stream_sync = mscclpp_twin_stream_sync,
    .copy = mscclpp_twin_stream_copy,
    .copy_rows = mscclpp_twin_copy_rows,
    .copy_batch = mscclpp_twin_copy_batch,
    .put = mscclpp_twin_put,
    .event_create = mscclpp_twin_event_create,
    .event_destroy = mscclpp_twin_event_destroy,
    .event_record = mscclpp_twin_event_record,
    .event_query = mscclpp_twin_event_query,
    .launch = mscclpp_twin_launch,
    .launch_prepare = mscclpp_twin_launch_prepare,
    .launch_prepared = mscclpp_twin_launch_prepared,
    .prepared_destroy = mscclpp_twin_prepared_destroy,
    .set_progress = mscclpp_gpu_twin_set_progress,
};
