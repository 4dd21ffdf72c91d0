/*
 * Orders our work after the application's synchronous calls.
 *
 * The problem: cudaMemcpy and cudaMemset return before the device has done their work. A copy from pageable memory
 * returns once all bytes are in a buffer of the driver; a copy from device to device and cudaMemset return at once.
 * Their work runs in the default stream, for which this library's non-blocking streams do not wait.
 *
 * The remedy: the driver can make such calls wait.
 * - For memory of cudaMalloc and managed memory, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS does it for one allocation.
 * - For memory without a context of its own, that attribute does not work: pool memory takes it, but copies from
 *   pageable memory still do not wait; memory that the application maps itself refuses it. For these,
 *   CU_CTX_SYNC_MEMOPS makes whole contexts wait.
 * - If the driver lacks that flag, each collective call waits for the default streams.
 *
 * In every case, synchronous calls made before the remedy are waited for once.
 */
#include "mca/common/gpu/cuda/driver.h"

#include <stdint.h>

/* CU_CTX_SYNC_MEMOPS, which headers before CUDA 12.1 lack. */
#define SYNC_MEMOPS 0x80u

/*
 * The numbers of allocations that need no more ordering. The driver numbers allocations in sequence and never reuses a
 * number, so allocations that are in use together rarely share a slot. One that has lost its slot is ordered once more.
 */
#define SETTLED_SLOTS 4096u

static atomic_ullong settled[SETTLED_SLOTS];

bool mscclpp_cuda_is_settled(unsigned long long buffer_id)
{
    return 0 != buffer_id &&
           atomic_load_explicit(&settled[buffer_id % SETTLED_SLOTS], memory_order_acquire) == buffer_id;
}

/*
 * Returns true if the work in the stream, one of the current context's default streams, has ended without an error.
 * Returns false, without waiting, while the stream must not be queried: if any thread captures a stream for which the
 * default stream waits, a query would end the capture. If the work has failed, returns false and stores the error,
 * which is logged, in *result_p.
 */
static bool await_default_stream(CUstream stream, CUresult *result_p)
{
    const mscclpp_cuda_driver_t *driver = mscclpp_cuda_driver();
    CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult result;

    if (CUDA_SUCCESS != driver->stream_is_capturing(stream, &capture) || CU_STREAM_CAPTURE_STATUS_NONE != capture) {
        return false;
    }
    result = DRIVER_CALL(MSCCLPP_LOG_ERROR, driver->stream_synchronize(stream));
    if (CUDA_SUCCESS != result) {
        *result_p = result;
    }
    return CUDA_SUCCESS == result;
}

/*
 * Waits for the work in both default streams: the one that all threads share, and the calling thread's own. Waits for
 * the second one even if the first one has failed. Returns as await_default_stream does, true only if both have ended.
 */
static bool await_default_streams(CUresult *result_p)
{
    bool has_legacy_ended = await_default_stream(CU_STREAM_LEGACY, result_p);

    return await_default_stream(CU_STREAM_PER_THREAD, result_p) && has_legacy_ended;
}

/*
 * Makes synchronous calls in the current context wait for their work from now on, and waits for the work of earlier
 * calls. Returns true if both have succeeded. An error of earlier work is stored in *result_p. If it is not possible to
 * wait for earlier work now, returns false, and the next call tries again.
 */
static bool make_calls_wait(CUresult *result_p)
{
    const mscclpp_cuda_driver_t *driver = mscclpp_cuda_driver();
    unsigned flags = 0;
    bool is_flag_new = false, has_waited;

    if (driver->ctx_set_flags != NULL && CUDA_SUCCESS == driver->ctx_get_flags(&flags)) {
        if (0 != (flags & SYNC_MEMOPS)) {
            return true;
        }
        is_flag_new = CUDA_SUCCESS == DRIVER_CALL(MSCCLPP_LOG_DEBUG, driver->ctx_set_flags(flags | SYNC_MEMOPS));
    }
    has_waited = await_default_streams(result_p);
    if (!has_waited && is_flag_new) {
        /* Resets the flag, because it would mean that the work of earlier calls has ended. */
        (void)DRIVER_CALL(MSCCLPP_LOG_WARN, driver->ctx_set_flags(flags));
    }
    return has_waited;
}

/*
 * Calls `visit` in the thread's own context, in which the thread made its latest calls, and in `owner_context`, which
 * is the context of the memory's owner. NULL means that there is no such context. Meanwhile, the thread's capture mode
 * is relaxed, so that these calls do not end a capture of the application.
 */
static bool call_in_contexts(CUcontext owner_context, bool (*visit)(CUresult *), CUresult *result_p)
{
    const mscclpp_cuda_driver_t *driver = mscclpp_cuda_driver();
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUcontext thread_context = NULL;
    bool has_succeeded = true;

    (void)driver->ctx_get_current(&thread_context);
    (void)driver->exchange_capture_mode(&mode);
    if (thread_context != NULL) {
        has_succeeded = visit(result_p);
    }
    if (owner_context != NULL && thread_context != owner_context) {
        if (CUDA_SUCCESS == DRIVER_CALL(MSCCLPP_LOG_ERROR, driver->ctx_set_current(owner_context))) {
            has_succeeded = visit(result_p) && has_succeeded;
            (void)DRIVER_CALL(MSCCLPP_LOG_WARN, driver->ctx_set_current(thread_context));
        } else {
            has_succeeded = false;
        }
    }
    (void)driver->exchange_capture_mode(&mode);
    return has_succeeded;
}

/*
 * Waits until the work that synchronous calls have left on an allocation has ended. Makes later synchronous calls on it
 * wait for their own work. Marks the allocation as settled if the driver stores this for the allocation. Otherwise the
 * flag of the contexts counts, which is checked each time.
 *
 * If a capture forbids waiting, returns MSCCLPP_OK without marking the allocation, so that the next call tries again.
 * Returns MSCCLPP_ERR_DEVICE if the work has failed.
 */
mscclpp_status_t mscclpp_cuda_settle_buffer(const void *address, unsigned long long buffer_id)
{
    const mscclpp_cuda_driver_t *driver = mscclpp_cuda_driver();
    CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_CONTEXT};
    unsigned type = 0;
    unsigned is_managed = 0;
    int ordinal = -1;
    CUcontext context = NULL;
    void *values[] = {&type, &is_managed, &ordinal, &context};
    const CUdeviceptr pointer = (CUdeviceptr)(uintptr_t)address;
    CUresult result = CUDA_SUCCESS;
    unsigned enable = 1;

    /* Synchronous calls on pinned host memory always wait for their work. */
    if (CUDA_SUCCESS !=
            driver->pointer_get_attributes(sizeof(attributes) / sizeof(attributes[0]), attributes, values, pointer) ||
        (CU_MEMORYTYPE_DEVICE != type && 0 == is_managed)) {
        return MSCCLPP_OK;
    }
    if (context != NULL &&
        CUDA_SUCCESS == DRIVER_CALL(MSCCLPP_LOG_DEBUG, driver->pointer_set_attribute(
                                                           &enable, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, pointer))) {
        if (call_in_contexts(context, await_default_streams, &result)) {
            atomic_store_explicit(&settled[buffer_id % SETTLED_SLOTS], buffer_id, memory_order_release);
        }
    } else {
        if (context == NULL && ordinal >= 0 && ordinal < driver->device_count) {
            (void)mscclpp_cuda_primary_context(ordinal, &context);
        }
        (void)call_in_contexts(context, make_calls_wait, &result);
    }
    return CUDA_SUCCESS == result ? MSCCLPP_OK : MSCCLPP_ERR_DEVICE;
}

/* Does nothing for memory that the driver does not know, such as host memory, and for settled allocations. */
mscclpp_status_t mscclpp_cuda_settle(const void *address)
{
    unsigned long long buffer_id = mscclpp_cuda_driver() == NULL ? 0 : mscclpp_cuda_buffer_id(address);

    return 0 == buffer_id || mscclpp_cuda_is_settled(buffer_id) ? MSCCLPP_OK
                                                                : mscclpp_cuda_settle_buffer(address, buffer_id);
}
