/*
 * Private to the files of this folder: the driver's functions, entering and leaving a device, and reporting errors.
 *
 * A device is entered by calls of the driver: they make the device's primary context current, and later put back the
 * thread's former context, or none. So no unwanted context is created, and the device that the application has chosen
 * in its own copy of the runtime does not change. cudaSetDevice would do both.
 */
#ifndef MCA_COMMON_GPU_CUDA_DRIVER_H
#define MCA_COMMON_GPU_CUDA_DRIVER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>

#include "mca/common/gpu/gpu.h"
#include "mca/common/base/log.h"

/* X(field, function, CUDA version that brought its present signature) */
#define CUDA_DRIVER_ENTRIES(X)                                                                                         \
    X(get_error_name, cuGetErrorName, 6000)                                                                            \
    X(ctx_get_current, cuCtxGetCurrent, 4000)                                                                          \
    X(ctx_set_current, cuCtxSetCurrent, 4000)                                                                          \
    X(ctx_get_device, cuCtxGetDevice, 2000)                                                                            \
    X(primary_ctx_retain, cuDevicePrimaryCtxRetain, 7000)                                                              \
    X(device_get_name, cuDeviceGetName, 2000)                                                                          \
    X(device_get_uuid, cuDeviceGetUuid, 11040)                                                                         \
    X(device_get_attribute, cuDeviceGetAttribute, 2000)                                                                \
    X(exchange_capture_mode, cuThreadExchangeStreamCaptureMode, 10010)                                                 \
    X(pointer_get_attributes, cuPointerGetAttributes, 7000)                                                            \
    X(pointer_set_attribute, cuPointerSetAttribute, 6000)                                                              \
    X(stream_is_capturing, cuStreamIsCapturing, 10000)                                                                 \
    X(stream_synchronize, cuStreamSynchronize, 2000)                                                                   \
    X(mem_get_address_range, cuMemGetAddressRange, 3020)                                                               \
    X(device_get_pci_bus_id, cuDeviceGetPCIBusId, 4010)

/* Functions of newer drivers. The pointers are NULL if the driver lacks them. */
#define CUDA_DRIVER_OPTIONAL_ENTRIES(X)                                                                                \
    X(mem_get_handle_for_address_range, cuMemGetHandleForAddressRange, 11070)                                          \
    X(stream_get_capture_info, cuStreamGetCaptureInfo, 11030)                                                          \
    X(user_object_create, cuUserObjectCreate, 11030)                                                                   \
    X(graph_retain_user_object, cuGraphRetainUserObject, 11030)                                                        \
    X(launch_kernel, cuLaunchKernelEx, 11060)                                                                          \
    X(ctx_get_flags, cuCtxGetFlags, 7000)                                                                              \
    X(ctx_set_flags, cuCtxSetFlags, 12010)

typedef struct {
    pthread_mutex_t lock;       /* held while `context`, `has_pools` and `is_loaded` are set for the first time */
    _Atomic(CUcontext) context; /* the primary context, which is kept until the process ends; NULL until needed */
    bool has_pools;             /* the device can allocate in the order of a stream; valid once there is a context */
    bool is_loaded;             /* all kernels are loaded */
    atomic_ullong peers;        /* bit p: kernels of this device can access device p; only for p < 64 */
} mscclpp_cuda_device_t;

typedef struct {
#define CUDA_DRIVER_FIELD(field_, function_, version_) PFN_##function_##_v##version_ field_;
    CUDA_DRIVER_ENTRIES(CUDA_DRIVER_FIELD)
    CUDA_DRIVER_OPTIONAL_ENTRIES(CUDA_DRIVER_FIELD)
#undef CUDA_DRIVER_FIELD
    int device_count;
    mscclpp_cuda_device_t *devices; /* by device number */
} mscclpp_cuda_driver_t;

/* The state of the calling thread that mscclpp_cuda_enter has changed. */
typedef struct {
    CUcontext context;        /* the context that was current before; NULL: none */
    bool has_switched;        /* another context was made current */
    CUstreamCaptureMode mode; /* the previous capture mode */
} mscclpp_cuda_scope_t;

extern _Atomic(mscclpp_cuda_driver_t *) mscclpp_cuda_driver_loaded;

/* Returns the driver's functions; NULL before a successful mscclpp_cuda_probe. */
static inline mscclpp_cuda_driver_t *mscclpp_cuda_driver(void)
{
    return atomic_load_explicit(&mscclpp_cuda_driver_loaded, memory_order_acquire);
}

/*
 * Returns the driver's functions, and probes first if no thread has probed. Probes only once the application has
 * initialised the driver. Until then it returns NULL, and the process owns no device memory.
 */
mscclpp_cuda_driver_t *mscclpp_cuda_driver_in_use(void);

/* Functions of mscclpp_gpu_ops_t, where they are described. */
mscclpp_status_t mscclpp_cuda_probe(int *device_count_p);
bool mscclpp_cuda_is_likely(void);
mscclpp_status_t mscclpp_cuda_current_device(int *device_p);

bool mscclpp_cuda_is_device(const void *address, uint64_t *allocation_p);
mscclpp_status_t mscclpp_cuda_reach(int device, const void *address, uint64_t allocation, mscclpp_reach_t *reach_p);
mscclpp_status_t mscclpp_cuda_settle(const void *address);
void mscclpp_cuda_query(const void *address, mscclpp_mem_info_t *info_p);
uint64_t mscclpp_cuda_identify(const void *address);
mscclpp_status_t mscclpp_cuda_export_memory(const void *address, mscclpp_gpu_handle_t *handle_p);
mscclpp_status_t mscclpp_cuda_import_memory(int device, const mscclpp_gpu_handle_t *handle, void **base_p);
void mscclpp_cuda_close_memory(int device, const mscclpp_gpu_handle_t *handle, void *base);
mscclpp_status_t mscclpp_cuda_export_dmabuf(const void *address, size_t length, int *fd_p, uint64_t *offset_p);

mscclpp_status_t mscclpp_cuda_temp_alloc(mscclpp_gpu_stream_t *stream, size_t size, void **address_p);
void mscclpp_cuda_temp_free(mscclpp_gpu_stream_t *stream, void *address);
mscclpp_status_t mscclpp_cuda_stream_create(int device, mscclpp_gpu_stream_t **stream_p);
void mscclpp_cuda_stream_destroy(mscclpp_gpu_stream_t *stream);
mscclpp_status_t mscclpp_cuda_stream_wrap(int device, void *native, mscclpp_gpu_stream_t **stream_p);
mscclpp_status_t mscclpp_cuda_stream_ask(int device, void *native, mscclpp_gpu_ask_fn_t use, void *context);
bool mscclpp_cuda_is_capturing(mscclpp_gpu_stream_t *stream);
mscclpp_status_t mscclpp_cuda_retain(mscclpp_gpu_stream_t *stream, void (*release)(void *object), void *object);
mscclpp_status_t mscclpp_cuda_stream_query(mscclpp_gpu_stream_t *stream);
mscclpp_status_t mscclpp_cuda_stream_sync(mscclpp_gpu_stream_t *stream);
mscclpp_status_t mscclpp_cuda_copy(mscclpp_gpu_stream_t *stream, void *to, const void *from, size_t size);
mscclpp_status_t mscclpp_cuda_copy_batch(mscclpp_gpu_stream_t *stream, const mscclpp_gpu_copy_t *copies, size_t count);
mscclpp_status_t mscclpp_cuda_copy_rows(mscclpp_gpu_stream_t *stream, void *to, const void *from, size_t pitch,
                                        size_t width, size_t rows);
mscclpp_status_t mscclpp_cuda_event_create(int device, mscclpp_gpu_event_t **event_p);
void mscclpp_cuda_event_destroy(mscclpp_gpu_event_t *event);
mscclpp_status_t mscclpp_cuda_event_record(mscclpp_gpu_event_t *event, mscclpp_gpu_stream_t *stream);
mscclpp_status_t mscclpp_cuda_event_query(mscclpp_gpu_event_t *event);
mscclpp_status_t mscclpp_cuda_launch(mscclpp_gpu_stream_t *stream, const mscclpp_dev_launch_t *launch);
mscclpp_status_t mscclpp_cuda_launch_prepare(int device, const mscclpp_dev_launch_t *launch,
                                             mscclpp_gpu_prepared_t **prepared_p);
mscclpp_status_t mscclpp_cuda_launch_prepared(mscclpp_gpu_stream_t *stream, mscclpp_gpu_prepared_t *prepared);
void mscclpp_cuda_prepared_destroy(mscclpp_gpu_prepared_t *prepared);

/* cuda/stream.c: returns the CUDA stream of a stream of this library. */
cudaStream_t mscclpp_cuda_native_stream(const mscclpp_gpu_stream_t *stream);

/*
 * Returns the driver's number of the allocation that contains an address; 0 for memory that the driver does not know.
 */
unsigned long long mscclpp_cuda_buffer_id(const void *address);

/* cuda/order.c: returns true if an allocation has been settled, so that `settle` has nothing to do for it. */
bool mscclpp_cuda_is_settled(unsigned long long buffer_id);

/* cuda/order.c: does the work of `settle` for an allocation that has not been settled. */
mscclpp_status_t mscclpp_cuda_settle_buffer(const void *address, unsigned long long buffer_id);

/* Returns MSCCLPP_ERR_INVALID for the number of a device that does not exist. */
mscclpp_status_t mscclpp_cuda_check_device(int device);

/*
 * Refuses to allocate or register 0 bytes, as the twin does: returns MSCCLPP_ERR_INVALID. Without this, some functions
 * of CUDA would succeed and return no memory.
 */
mscclpp_status_t mscclpp_cuda_refuse_empty(size_t size);

/*
 * Stores the primary context of a device, whose number was checked, in *context_p. Creates the context if needed, and
 * keeps it until the process ends. A failure is logged as an error.
 */
mscclpp_status_t mscclpp_cuda_primary_context(int device, CUcontext *context_p);

/*
 * Makes a device current in this thread until mscclpp_cuda_leave. mscclpp_cuda_probe must have found devices. If it
 * fails, nothing has changed, and there is nothing to leave.
 *
 * Uses the relaxed capture mode: another thread of the application may be capturing a stream. In a stricter mode our
 * calls, which have nothing to do with that capture, would end it.
 */
mscclpp_status_t mscclpp_cuda_enter(int device, mscclpp_cuda_scope_t *scope_p);

/* Restores the context and the capture mode that the thread had before mscclpp_cuda_enter. */
void mscclpp_cuda_leave(const mscclpp_cuda_scope_t *scope);

/*
 * Enters the thread's own device or, if it has none, a device that has a context already. For calls that need any
 * context.
 */
mscclpp_status_t mscclpp_cuda_enter_any(mscclpp_cuda_scope_t *scope_p);

/*
 * Checks a call of the runtime. If it has failed, logs the failure at the level that the caller has chosen, and clears
 * the thread's last error. Returns `error`.
 */
cudaError_t mscclpp_cuda_check(mscclpp_log_level_t level, const char *call, cudaError_t error);
#define CUDA_CALL(level_, call_) mscclpp_cuda_check((level_), #call_, (call_))

/*
 * Checks a call of the runtime that releases a resource. Logs a failure and clears the last error; the caller
 * continues.
 */
void mscclpp_cuda_check_release(const char *call, cudaError_t error);
#define CUDA_RELEASE(call_) mscclpp_cuda_check_release(#call_, (call_))

/* Checks a call of the driver, which has no last error. Logs a failure at the level that the caller has chosen. */
CUresult mscclpp_cuda_check_driver(mscclpp_log_level_t level, const char *call, CUresult result);
#define DRIVER_CALL(level_, call_) mscclpp_cuda_check_driver((level_), #call_, (call_))

/* Returns the status of this library for an error of the runtime. */
static inline mscclpp_status_t mscclpp_cuda_status(cudaError_t error)
{
    if (cudaSuccess == error) {
        return MSCCLPP_OK;
    }
    return cudaErrorMemoryAllocation == error ? MSCCLPP_ERR_NO_MEMORY : MSCCLPP_ERR_DEVICE;
}

#endif
