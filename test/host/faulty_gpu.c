#include "test/host/faulty_gpu.h"

static _Thread_local struct {
    faulty_function_t function;
    int left; /* calls until the fault; 0: no fault is armed */
    bool happened;
    mscclpp_status_t status;
} fault;

static int held;

static const char *const names[FAULTY_LAST] = {
    [FAULTY_DEVICE_INFO] = "device_info",
    [FAULTY_PRELOAD] = "preload",
    [FAULTY_REACH] = "reach",
    [FAULTY_DEVICE_ALLOC] = "device_alloc",
    [FAULTY_TEMP_ALLOC] = "temp_alloc",
    [FAULTY_HOST_ALLOC] = "host_alloc",
    [FAULTY_HOST_REGISTER] = "host_register",
    [FAULTY_EXPORT] = "export_memory",
    [FAULTY_IMPORT] = "import_memory",
    [FAULTY_STREAM_CREATE] = "stream_create",
    [FAULTY_STREAM_QUERY] = "stream_query",
    [FAULTY_STREAM_SYNC] = "stream_sync",
    [FAULTY_COPY] = "copy",
    [FAULTY_PUT] = "put",
    [FAULTY_EVENT_CREATE] = "event_create",
    [FAULTY_EVENT_RECORD] = "event_record",
    [FAULTY_EVENT_QUERY] = "event_query",
    [FAULTY_LAUNCH] = "launch",
    [FAULTY_PREPARE] = "launch_prepare",
};

const char *faulty_name(faulty_function_t function)
{
    return names[function];
}

void faulty_arm(faulty_function_t function, int nth, mscclpp_status_t status)
{
    fault.function = function;
    fault.left = nth;
    fault.happened = false;
    fault.status = status;
}

bool faulty_disarm(void)
{
    bool happened = fault.happened;

    fault.left = 0;
    fault.happened = false;
    return happened;
}

int faulty_held(void)
{
    return __atomic_load_n(&held, __ATOMIC_RELAXED);
}

/* MSCCLPP_OK, or the fault if it is due. */
static mscclpp_status_t pass(faulty_function_t function)
{
    if (fault.left == 0 || fault.function != function || --fault.left != 0) {
        return MSCCLPP_OK;
    }
    fault.happened = true;
    return fault.status;
}

static mscclpp_status_t took(mscclpp_status_t status)
{
    if (status == MSCCLPP_OK) {
        __atomic_add_fetch(&held, 1, __ATOMIC_RELAXED);
    }
    return status;
}

static void gave(const void *what)
{
    if (what != NULL) {
        __atomic_sub_fetch(&held, 1, __ATOMIC_RELAXED);
    }
}

/* Returns the fault if it is due, and otherwise the twin's result. */
#define TRY(function_, call_)                                                                                          \
    do {                                                                                                               \
        mscclpp_status_t status_ = pass(function_);                                                                    \
        return status_ != MSCCLPP_OK ? status_ : (call_);                                                              \
    } while (0)

static mscclpp_status_t faulty_probe(int *device_count_p)
{
    return mscclpp_gpu_twin_ops.probe(device_count_p);
}

static mscclpp_status_t faulty_current_device(int *device_p)
{
    return mscclpp_gpu_twin_ops.current_device(device_p);
}

static mscclpp_status_t faulty_device_info(int device, mscclpp_gpu_info_t *info_p)
{
    TRY(FAULTY_DEVICE_INFO, mscclpp_gpu_twin_ops.device_info(device, info_p));
}

static mscclpp_status_t faulty_preload(int device)
{
    TRY(FAULTY_PRELOAD, mscclpp_gpu_twin_ops.preload(device));
}

static bool faulty_is_device(const void *address, uint64_t *allocation_p)
{
    return mscclpp_gpu_twin_ops.is_device(address, allocation_p);
}

static void faulty_query(const void *address, mscclpp_mem_info_t *info_p)
{
    mscclpp_gpu_twin_ops.query(address, info_p);
}

static mscclpp_status_t faulty_reach(int device, const void *address, uint64_t allocation, mscclpp_reach_t *reach_p)
{
    TRY(FAULTY_REACH, mscclpp_gpu_twin_ops.reach(device, address, allocation, reach_p));
}

static mscclpp_status_t faulty_settle(const void *address)
{
    return mscclpp_gpu_twin_ops.settle(address);
}

static mscclpp_status_t faulty_device_alloc(int device, size_t size, void **address_p)
{
    TRY(FAULTY_DEVICE_ALLOC, took(mscclpp_gpu_twin_ops.device_alloc(device, size, address_p)));
}

static void faulty_device_free(int device, void *address)
{
    gave(address);
    mscclpp_gpu_twin_ops.device_free(device, address);
}

static mscclpp_status_t faulty_temp_alloc(mscclpp_gpu_stream_t *stream, size_t size, void **address_p)
{
    TRY(FAULTY_TEMP_ALLOC, took(mscclpp_gpu_twin_ops.temp_alloc(stream, size, address_p)));
}

static void faulty_temp_free(mscclpp_gpu_stream_t *stream, void *address)
{
    gave(address);
    mscclpp_gpu_twin_ops.temp_free(stream, address);
}

static mscclpp_status_t faulty_host_alloc(size_t size, void **host_address_p, void **device_address_p)
{
    TRY(FAULTY_HOST_ALLOC, took(mscclpp_gpu_twin_ops.host_alloc(size, host_address_p, device_address_p)));
}

static void faulty_host_free(void *host_address)
{
    gave(host_address);
    mscclpp_gpu_twin_ops.host_free(host_address);
}

static mscclpp_status_t faulty_host_register(void *host_address, size_t size, void **device_address_p)
{
    TRY(FAULTY_HOST_REGISTER, took(mscclpp_gpu_twin_ops.host_register(host_address, size, device_address_p)));
}

static void faulty_host_unregister(void *host_address)
{
    gave(host_address);
    mscclpp_gpu_twin_ops.host_unregister(host_address);
}

static uint64_t faulty_identify(const void *address)
{
    return mscclpp_gpu_twin_ops.identify(address);
}

static mscclpp_status_t faulty_export_memory(const void *address, mscclpp_gpu_handle_t *handle_p)
{
    TRY(FAULTY_EXPORT, mscclpp_gpu_twin_ops.export_memory(address, handle_p));
}

static mscclpp_status_t faulty_import_memory(int device, const mscclpp_gpu_handle_t *handle, void **base_p)
{
    TRY(FAULTY_IMPORT, took(mscclpp_gpu_twin_ops.import_memory(device, handle, base_p)));
}

static void faulty_close_memory(int device, const mscclpp_gpu_handle_t *handle, void *base)
{
    gave(base);
    mscclpp_gpu_twin_ops.close_memory(device, handle, base);
}

static mscclpp_status_t faulty_stream_create(int device, mscclpp_gpu_stream_t **stream_p)
{
    TRY(FAULTY_STREAM_CREATE, took(mscclpp_gpu_twin_ops.stream_create(device, stream_p)));
}

static void faulty_stream_destroy(mscclpp_gpu_stream_t *stream)
{
    gave(stream);
    mscclpp_gpu_twin_ops.stream_destroy(stream);
}

static mscclpp_status_t faulty_stream_wrap(int device, void *native, mscclpp_gpu_stream_t **stream_p)
{
    return took(mscclpp_gpu_twin_ops.stream_wrap(device, native, stream_p));
}

static mscclpp_status_t faulty_stream_ask(int device, void *native, mscclpp_gpu_ask_fn_t use, void *context)
{
    return mscclpp_gpu_twin_ops.stream_ask(device, native, use, context);
}

static mscclpp_status_t faulty_stream_query(mscclpp_gpu_stream_t *stream)
{
    TRY(FAULTY_STREAM_QUERY, mscclpp_gpu_twin_ops.stream_query(stream));
}

static mscclpp_status_t faulty_stream_sync(mscclpp_gpu_stream_t *stream)
{
    TRY(FAULTY_STREAM_SYNC, mscclpp_gpu_twin_ops.stream_sync(stream));
}

static mscclpp_status_t faulty_copy(mscclpp_gpu_stream_t *stream, void *to, const void *from, size_t size)
{
    TRY(FAULTY_COPY, mscclpp_gpu_twin_ops.copy(stream, to, from, size));
}

static mscclpp_status_t faulty_copy_rows(mscclpp_gpu_stream_t *stream, void *to, const void *from, size_t pitch,
                                         size_t width, size_t rows)
{
    TRY(FAULTY_COPY, mscclpp_gpu_twin_ops.copy_rows(stream, to, from, pitch, width, rows));
}

static mscclpp_status_t faulty_copy_batch(mscclpp_gpu_stream_t *stream, const mscclpp_gpu_copy_t *copies, size_t count)
{
    TRY(FAULTY_COPY, mscclpp_gpu_twin_ops.copy_batch(stream, copies, count));
}

static mscclpp_status_t faulty_put(mscclpp_gpu_stream_t *stream, void *to, const void *from, size_t size)
{
    TRY(FAULTY_PUT, mscclpp_gpu_twin_ops.put(stream, to, from, size));
}

static mscclpp_status_t faulty_event_create(int device, mscclpp_gpu_event_t **event_p)
{
    TRY(FAULTY_EVENT_CREATE, took(mscclpp_gpu_twin_ops.event_create(device, event_p)));
}

static void faulty_event_destroy(mscclpp_gpu_event_t *event)
{
    gave(event);
    mscclpp_gpu_twin_ops.event_destroy(event);
}

static mscclpp_status_t faulty_event_record(mscclpp_gpu_event_t *event, mscclpp_gpu_stream_t *stream)
{
    TRY(FAULTY_EVENT_RECORD, mscclpp_gpu_twin_ops.event_record(event, stream));
}

static mscclpp_status_t faulty_event_query(mscclpp_gpu_event_t *event)
{
    TRY(FAULTY_EVENT_QUERY, mscclpp_gpu_twin_ops.event_query(event));
}

static mscclpp_status_t faulty_launch(mscclpp_gpu_stream_t *stream, const mscclpp_dev_launch_t *launch)
{
    TRY(FAULTY_LAUNCH, mscclpp_gpu_twin_ops.launch(stream, launch));
}

static mscclpp_status_t faulty_launch_prepare(int device, const mscclpp_dev_launch_t *launch,
                                              mscclpp_gpu_prepared_t **prepared_p)
{
    TRY(FAULTY_PREPARE, took(mscclpp_gpu_twin_ops.launch_prepare(device, launch, prepared_p)));
}

static mscclpp_status_t faulty_launch_prepared(mscclpp_gpu_stream_t *stream, mscclpp_gpu_prepared_t *prepared)
{
    TRY(FAULTY_LAUNCH, mscclpp_gpu_twin_ops.launch_prepared(stream, prepared));
}

static void faulty_prepared_destroy(mscclpp_gpu_prepared_t *prepared)
{
    gave(prepared);
    mscclpp_gpu_twin_ops.prepared_destroy(prepared);
}

static bool faulty_is_capturing(mscclpp_gpu_stream_t *stream)
{
    return mscclpp_gpu_twin_ops.is_capturing(stream);
}

static mscclpp_status_t faulty_retain(mscclpp_gpu_stream_t *stream, void (*release)(void *object), void *object)
{
    return mscclpp_gpu_twin_ops.retain(stream, release, object);
}

const mscclpp_gpu_ops_t faulty_gpu_ops = {
    .name = "host",
    .twin = true,
    .probe = faulty_probe,
    .current_device = faulty_current_device,
    .device_info = faulty_device_info,
    .preload = faulty_preload,
    .is_device = faulty_is_device,
    .query = faulty_query,
    .reach = faulty_reach,
    .settle = faulty_settle,
    .device_alloc = faulty_device_alloc,
    .device_free = faulty_device_free,
    .temp_alloc = faulty_temp_alloc,
    .temp_free = faulty_temp_free,
    .host_alloc = faulty_host_alloc,
    .host_free = faulty_host_free,
    .host_register = faulty_host_register,
    .host_unregister = faulty_host_unregister,
    .identify = faulty_identify,
    .export_memory = faulty_export_memory,
    .import_memory = faulty_import_memory,
    .close_memory = faulty_close_memory,
    .stream_create = faulty_stream_create,
    .stream_destroy = faulty_stream_destroy,
    .stream_wrap = faulty_stream_wrap,
    .stream_ask = faulty_stream_ask,
    .is_capturing = faulty_is_capturing,
    .retain = faulty_retain,
    .stream_query = faulty_stream_query,
    .stream_sync = faulty_stream_sync,
    .copy = faulty_copy,
    .copy_rows = faulty_copy_rows,
    .copy_batch = faulty_copy_batch,
    .put = faulty_put,
    .event_create = faulty_event_create,
    .event_destroy = faulty_event_destroy,
    .event_record = faulty_event_record,
    .event_query = faulty_event_query,
    .launch = faulty_launch,
    .launch_prepare = faulty_launch_prepare,
    .launch_prepared = faulty_launch_prepared,
    .prepared_destroy = faulty_prepared_destroy,
    .set_progress = mscclpp_gpu_twin_set_progress,
};
