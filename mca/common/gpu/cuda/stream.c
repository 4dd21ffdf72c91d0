/* Streams of the CUDA runtime, and the work that is put into them: copies, events, launches, temporary memory. */
#include "mca/common/gpu/cuda/driver.h"

#include <limits.h>
#include <stdlib.h>

struct mscclpp_gpu_stream {
    cudaStream_t stream;
    int device;
    bool is_owned; /* created here, and not the application's */
};

struct mscclpp_gpu_event {
    cudaEvent_t event;
    int device;
};

cudaStream_t mscclpp_cuda_native_stream(const mscclpp_gpu_stream_t *stream)
{
    return stream->stream;
}

/*
 * Allocates in the stream's order. On a device without pools, uses cudaMalloc, whose memory can be used at once. After
 * a failure, *address_p is unchanged.
 */
mscclpp_status_t mscclpp_cuda_temp_alloc(mscclpp_gpu_stream_t *stream, size_t size, void **address_p)
{
    mscclpp_cuda_scope_t scope;
    cudaError_t error;
    void *address;
    mscclpp_status_t status = mscclpp_cuda_refuse_empty(size);

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

/*
 * Frees the memory after the stream's work so far. If the device cannot be entered, the memory is leaked. NULL is
 * allowed.
 */
void mscclpp_cuda_temp_free(mscclpp_gpu_stream_t *stream, void *address)
{
    mscclpp_cuda_scope_t scope;

    if (address == NULL || MSCCLPP_OK != mscclpp_cuda_enter(stream->device, &scope)) {
        return;
    }
    if (mscclpp_cuda_driver()->devices[stream->device].has_pools) {
        CUDA_RELEASE(cudaFreeAsync(address, stream->stream));
    } else {
        CUDA_RELEASE(cudaFree(address)); /* waits for the stream's work before it frees */
    }
    mscclpp_cuda_leave(&scope);
}

/*
 * Makes our stream for a CUDA stream. With `is_owned`, destroying our stream also destroys the CUDA stream. After a
 * failure, the CUDA stream still exists.
 */
static mscclpp_status_t make_stream(int device, cudaStream_t native, bool is_owned, mscclpp_gpu_stream_t **stream_p)
{
    mscclpp_gpu_stream_t *stream = malloc(sizeof(*stream));

    if (stream == NULL) {
        mscclpp_error("out of memory for a stream");
        return MSCCLPP_ERR_NO_MEMORY;
    }
    stream->stream = native;
    stream->device = device;
    stream->is_owned = is_owned;
    *stream_p = stream;
    return MSCCLPP_OK;
}

/*
 * The stream has the highest priority. With a lower one, blocks of the application's kernels that wait for a
 * multiprocessor would delay our kernels, and thereby a peer.
 */
mscclpp_status_t mscclpp_cuda_stream_create(int device, mscclpp_gpu_stream_t **stream_p)
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
        status = make_stream(device, native, true, stream_p);
        if (MSCCLPP_OK != status) {
            CUDA_RELEASE(cudaStreamDestroy(native));
        }
    }
    mscclpp_cuda_leave(&scope);
    return status;
}

/* Destroys the CUDA stream, too, if it was created here. NULL is allowed. */
void mscclpp_cuda_stream_destroy(mscclpp_gpu_stream_t *stream)
{
    mscclpp_cuda_scope_t scope;

    if (stream == NULL) {
        return;
    }
    if (stream->is_owned && MSCCLPP_OK == mscclpp_cuda_enter(stream->device, &scope)) {
        CUDA_RELEASE(cudaStreamDestroy(stream->stream));
        mscclpp_cuda_leave(&scope);
    }
    free(stream);
}

mscclpp_status_t mscclpp_cuda_stream_wrap(int device, void *native, mscclpp_gpu_stream_t **stream_p)
{
    mscclpp_status_t status = mscclpp_cuda_check_device(device);

    return MSCCLPP_OK == status ? make_stream(device, native, false, stream_p) : status;
}

mscclpp_status_t mscclpp_cuda_stream_ask(int device, void *native, mscclpp_gpu_ask_fn_t use, void *context)
{
    mscclpp_gpu_stream_t stream = {.stream = native, .device = device, .is_owned = false};
    mscclpp_status_t status = mscclpp_cuda_check_device(device);

    return MSCCLPP_OK == status ? use(&stream, context) : status;
}

/* Returns false if the device cannot be entered; later work then fails as well. */
bool mscclpp_cuda_is_capturing(mscclpp_gpu_stream_t *stream)
{
    enum cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    mscclpp_cuda_scope_t scope;
    cudaError_t error;

    if (MSCCLPP_OK != mscclpp_cuda_enter(stream->device, &scope)) {
        return false;
    }
    error = cudaStreamIsCapturing(stream->stream, &capture);
    if (cudaSuccess != error) {
        (void)cudaGetLastError(); /* the error is the answer, and must not become the application's */
    }
    mscclpp_cuda_leave(&scope);
    /*
     * The expected error: this is the default stream, and another stream captures. Every error counts as capturing, so
     * that nothing is put into the stream.
     */
    return cudaSuccess != error || cudaStreamCaptureStatusNone != capture;
}

/*
 * Lets the graph that the stream is captured in call `release` when the graph is destroyed. Returns an error, and never
 * calls `release`, if the stream is not being captured. If the graph does not accept the user object, that object is
 * leaked, because destroying it would call `release`. The device must have been entered.
 */
static CUresult retain_in_graph(const mscclpp_cuda_driver_t *driver, CUstream stream, CUhostFn release, void *object)
{
    CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
    CUgraph graph = NULL;
    CUuserObject user_object;
    CUresult result = driver->stream_get_capture_info(stream, &capture, NULL, &graph, NULL, NULL);

    if (CUDA_SUCCESS != result || CU_STREAM_CAPTURE_STATUS_ACTIVE != capture) {
        return CUDA_SUCCESS != result ? result : CUDA_ERROR_ILLEGAL_STATE;
    }
    result = driver->user_object_create(&user_object, object, release, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
    if (CUDA_SUCCESS != result) {
        return result;
    }
    return driver->graph_retain_user_object(graph, user_object, 1, CU_GRAPH_USER_OBJECT_MOVE);
}

/* Returns MSCCLPP_ERR_NOT_SUPPORTED, without a log line, for any failure; `release` is then never called. */
mscclpp_status_t mscclpp_cuda_retain(mscclpp_gpu_stream_t *stream, void (*release)(void *object), void *object)
{
    const mscclpp_cuda_driver_t *driver = mscclpp_cuda_driver();
    mscclpp_cuda_scope_t scope;
    CUresult result;

    if (driver->stream_get_capture_info == NULL || driver->user_object_create == NULL ||
        driver->graph_retain_user_object == NULL || MSCCLPP_OK != mscclpp_cuda_enter(stream->device, &scope)) {
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    result = retain_in_graph(driver, stream->stream, release, object);
    mscclpp_cuda_leave(&scope);
    return CUDA_SUCCESS == result ? MSCCLPP_OK : MSCCLPP_ERR_NOT_SUPPORTED;
}

mscclpp_status_t mscclpp_cuda_stream_query(mscclpp_gpu_stream_t *stream)
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

mscclpp_status_t mscclpp_cuda_stream_sync(mscclpp_gpu_stream_t *stream)
{
    mscclpp_cuda_scope_t scope;
    mscclpp_status_t status = mscclpp_cuda_enter(stream->device, &scope);

    if (MSCCLPP_OK == status) {
        status = mscclpp_cuda_status(CUDA_CALL(MSCCLPP_LOG_ERROR, cudaStreamSynchronize(stream->stream)));
        mscclpp_cuda_leave(&scope);
    }
    return status;
}

/* Returns the error of queueing; an error of the copy itself appears later. */
mscclpp_status_t mscclpp_cuda_copy(mscclpp_gpu_stream_t *stream, void *to, const void *from, size_t size)
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

/* Queues the copies in the given order, up to the first that cannot be queued. Returns its error. */
static mscclpp_status_t copy_one_by_one(mscclpp_gpu_stream_t *stream, const mscclpp_gpu_copy_t *copies, size_t count)
{
    mscclpp_status_t status = MSCCLPP_OK;

    for (size_t i = 0; i < count && MSCCLPP_OK == status; ++i) {
        status = mscclpp_cuda_copy(stream, copies[i].to, copies[i].from, copies[i].size);
    }
    return status;
}

#if CUDART_VERSION >= 13000
/* The most copies in one call of the runtime. */
#define BATCH_MAX 64

/* Cleared for good by the first batch that fails, whatever the error: the driver may be too old for the call. */
static atomic_bool has_batches = true;

/*
 * Makes the copies one by one if there is only one, or more than BATCH_MAX. Does so, too, if any batch of this process
 * has failed before. `attributes` apply from the copy with index `first` on, which means to all of them.
 */
mscclpp_status_t mscclpp_cuda_copy_batch(mscclpp_gpu_stream_t *stream, const mscclpp_gpu_copy_t *copies, size_t count)
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
        /* If one of the copies was at fault, it fails again below. Some copies may be made twice, which is harmless. */
        atomic_store_explicit(&has_batches, false, memory_order_relaxed);
        return copy_one_by_one(stream, copies, count);
    }
    return MSCCLPP_OK;
}
#else
mscclpp_status_t mscclpp_cuda_copy_batch(mscclpp_gpu_stream_t *stream, const mscclpp_gpu_copy_t *copies, size_t count)
{
    return copy_one_by_one(stream, copies, count);
}
#endif

/* The largest pitch, in bytes, that the runtime takes. */
#define PITCH_MAX ((size_t)INT_MAX)

/* If the pitch is too large for the runtime, copies the rows one by one. */
mscclpp_status_t mscclpp_cuda_copy_rows(mscclpp_gpu_stream_t *stream, void *to, const void *from, size_t pitch,
                                        size_t width, size_t rows)
{
    mscclpp_cuda_scope_t scope;
    mscclpp_status_t status = MSCCLPP_OK;

    if (0 == width || 0 == rows || to == from) {
        return MSCCLPP_OK;
    }
    if (pitch > PITCH_MAX) {
        for (size_t row = 0; row < rows && MSCCLPP_OK == status; ++row) {
            status = mscclpp_cuda_copy(stream, (char *)to + row * pitch, (const char *)from + row * pitch, width);
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

/* The event has no timing, because only its order is needed. */
mscclpp_status_t mscclpp_cuda_event_create(int device, mscclpp_gpu_event_t **event_p)
{
    mscclpp_gpu_event_t *event;
    mscclpp_cuda_scope_t scope;
    mscclpp_status_t status = mscclpp_cuda_enter(device, &scope);

    if (MSCCLPP_OK != status) {
        return status;
    }
    event = calloc(1, sizeof(*event));
    if (event == NULL) {
        mscclpp_error("out of memory for an event");
        status = MSCCLPP_ERR_NO_MEMORY;
        goto leave;
    }
    event->device = device;
    status = mscclpp_cuda_status(
        CUDA_CALL(MSCCLPP_LOG_ERROR, cudaEventCreateWithFlags(&event->event, cudaEventDisableTiming)));
    if (MSCCLPP_OK != status) {
        free(event);
        goto leave;
    }
    *event_p = event;

leave:
    mscclpp_cuda_leave(&scope);
    return status;
}

/* If the device cannot be entered, the CUDA event is leaked. NULL is allowed. */
void mscclpp_cuda_event_destroy(mscclpp_gpu_event_t *event)
{
    mscclpp_cuda_scope_t scope;

    if (event == NULL) {
        return;
    }
    if (MSCCLPP_OK == mscclpp_cuda_enter(event->device, &scope)) {
        CUDA_RELEASE(cudaEventDestroy(event->event));
        mscclpp_cuda_leave(&scope);
    }
    free(event);
}

/* The stream must be of the event's device. */
mscclpp_status_t mscclpp_cuda_event_record(mscclpp_gpu_event_t *event, mscclpp_gpu_stream_t *stream)
{
    mscclpp_cuda_scope_t scope;
    mscclpp_status_t status = mscclpp_cuda_enter(stream->device, &scope);

    if (MSCCLPP_OK == status) {
        status = mscclpp_cuda_status(CUDA_CALL(MSCCLPP_LOG_ERROR, cudaEventRecord(event->event, stream->stream)));
        mscclpp_cuda_leave(&scope);
    }
    return status;
}

mscclpp_status_t mscclpp_cuda_event_query(mscclpp_gpu_event_t *event)
{
    mscclpp_cuda_scope_t scope;
    cudaError_t error;
    mscclpp_status_t status = mscclpp_cuda_enter(event->device, &scope);

    if (MSCCLPP_OK != status) {
        return status;
    }
    error = cudaEventQuery(event->event);
    if (cudaErrorNotReady == error) {
        status = MSCCLPP_IN_PROGRESS;
    } else {
        status = mscclpp_cuda_status(mscclpp_cuda_check(MSCCLPP_LOG_ERROR, "work before a CUDA event", error));
    }
    mscclpp_cuda_leave(&scope);
    return status;
}

/* After a failure, clears the thread's last error, because the application could mistake it for its own. */
mscclpp_status_t mscclpp_cuda_launch(mscclpp_gpu_stream_t *stream, const mscclpp_dev_launch_t *launch)
{
    mscclpp_cuda_scope_t scope;
    mscclpp_status_t status = mscclpp_cuda_enter(stream->device, &scope);

    if (MSCCLPP_OK == status) {
        cudaError_t error = (cudaError_t)mscclpp_dev_cuda_launch(stream->device, stream->stream, launch);
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
