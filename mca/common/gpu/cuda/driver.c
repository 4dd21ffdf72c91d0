#include "mca/common/gpu/cuda/driver.h"

#include <ctype.h>
#include <dirent.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static pthread_once_t cuda_load_once = PTHREAD_ONCE_INIT;
static pthread_once_t find_once = PTHREAD_ONCE_INIT;
static pthread_once_t probe_in_use_once = PTHREAD_ONCE_INIT;
static PFN_cuCtxGetCurrent_v4000 cuda_get_current; /* NULL if there is no driver; see find_init_query */
static mscclpp_cuda_driver_t cuda_table;
_Atomic(mscclpp_cuda_driver_t *) mscclpp_cuda_driver_loaded; /* points to cuda_table once the table is filled in */

cudaError_t mscclpp_cuda_check(mscclpp_log_level_t level, const char *call, cudaError_t error)
{
    if (cudaSuccess != error) {
        mscclpp_log(level, "%s failed: %s (%s)", call, cudaGetErrorName(error), cudaGetErrorString(error));
        (void)cudaGetLastError();
    }
    return error;
}

CUresult mscclpp_cuda_check_driver(mscclpp_log_level_t level, const char *call, CUresult result)
{
    if (CUDA_SUCCESS != result) {
        const char *name = NULL;
        if (CUDA_SUCCESS != cuda_table.get_error_name(result, &name) || name == NULL) {
            name = "unknown error";
        }
        mscclpp_log(level, "%s failed: %s (%d)", call, name, (int)result);
    }
    return result;
}

/*
 * Returns the level at which a failure to release something is logged. At the end of the process the runtime may be
 * gone before its users. Then nothing is wrong, because its resources are gone with it.
 */
static mscclpp_log_level_t release_level(cudaError_t error)
{
    return cudaErrorCudartUnloading == error || cudaErrorContextIsDestroyed == error ? MSCCLPP_LOG_DEBUG
                                                                                     : MSCCLPP_LOG_WARN;
}

void mscclpp_cuda_check_release(const char *call, cudaError_t error)
{
    (void)mscclpp_cuda_check(release_level(error), call, error);
}

/*
 * Finds a function of the driver. The function has the signature of the given version of CUDA, such as 11040. Returns
 * cudaErrorSymbolNotFound if the driver has no such function. The caller clears the thread's last error.
 */
static cudaError_t find_driver_function(const char *name, unsigned version, void **function_p)
{
    enum cudaDriverEntryPointQueryResult lookup = cudaDriverEntryPointSymbolNotFound;
    cudaError_t error;

#if CUDART_VERSION >= 12050
    error = cudaGetDriverEntryPointByVersion(name, function_p, version, cudaEnableDefault, &lookup);
#elif CUDART_VERSION >= 12000
    (void)version;
    error = cudaGetDriverEntryPoint(name, function_p, cudaEnableDefault, &lookup);
#else
    (void)version;
    error = cudaGetDriverEntryPoint(name, function_p, cudaEnableDefault);
    lookup = cudaDriverEntryPointSuccess;
#endif
    if (cudaSuccess == error && (cudaDriverEntryPointSuccess != lookup || *function_p == NULL)) {
        error = cudaErrorSymbolNotFound;
    }
    return error;
}

/*
 * Fills in the table of the driver's functions and of the devices, and publishes it in mscclpp_cuda_driver_loaded. Runs
 * once.
 *
 * If there is no device, or if the driver lacks a required function, the pointer stays NULL. The reason is logged only
 * at the debug level, because both cases are normal. The table is published last, so that a thread that sees it sees it
 * completely.
 */
static void cuda_load(void)
{
    mscclpp_cuda_driver_t *table = &cuda_table;
    cudaError_t error = cudaSuccess;
    int count = 0;

    if (cudaSuccess != CUDA_CALL(MSCCLPP_LOG_DEBUG, cudaGetDeviceCount(&count)) || count <= 0) {
        return;
    }
#define CUDA_DRIVER_LOAD(field_, function_, version_)                                                                  \
    if (cudaSuccess == error) {                                                                                        \
        error = find_driver_function(#function_, version_, (void **)&table->field_);                                   \
        (void)mscclpp_cuda_check(MSCCLPP_LOG_DEBUG, "looking for " #function_, error);                                 \
    }
    CUDA_DRIVER_ENTRIES(CUDA_DRIVER_LOAD)
#undef CUDA_DRIVER_LOAD
/* Not logged: older drivers lack these functions. */
#define CUDA_DRIVER_LOAD_OPTIONAL(field_, function_, version_)                                                         \
    if (cudaSuccess != find_driver_function(#function_, version_, (void **)&table->field_)) {                          \
        (void)cudaGetLastError();                                                                                      \
        table->field_ = NULL;                                                                                          \
    }
    CUDA_DRIVER_OPTIONAL_ENTRIES(CUDA_DRIVER_LOAD_OPTIONAL)
#undef CUDA_DRIVER_LOAD_OPTIONAL
    if (cudaSuccess != error) {
        return;
    }
    table->devices = calloc((size_t)count, sizeof(*table->devices));
    if (table->devices == NULL) {
        mscclpp_error("out of memory for the descriptions of %d CUDA devices", count);
        return;
    }
    for (int i = 0; i < count; ++i) {
        pthread_mutex_init(&table->devices[i].lock, NULL);
    }
    table->device_count = count;
    atomic_store_explicit(&mscclpp_cuda_driver_loaded, table, memory_order_release);
}

/* The first call of any thread loads the driver's functions, while other threads wait. Its result is final. */
mscclpp_status_t mscclpp_cuda_probe(int *device_count_p)
{
    const mscclpp_cuda_driver_t *driver;

    pthread_once(&cuda_load_once, cuda_load);
    driver = mscclpp_cuda_driver();
    if (driver == NULL) {
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    *device_count_p = driver->device_count;
    return MSCCLPP_OK;
}

/*
 * Checks for the driver's files and does not ask CUDA: initialising CUDA takes up to 0.2 s, which is too long for a
 * program that may never use it. Some systems create these files only when CUDA is first initialised, or have other
 * files; there only probing can tell.
 */
bool mscclpp_cuda_is_likely(void)
{
    static const char prefix[] = "nvidia";
    DIR *folder = opendir("/dev");
    const struct dirent *entry;
    bool is_found = false;

    while (folder != NULL && !is_found && (entry = readdir(folder)) != NULL) {
        is_found = 0 == strncmp(entry->d_name, prefix, strlen(prefix)) &&
                   isdigit((unsigned char)entry->d_name[strlen(prefix)]);
    }
    if (folder != NULL) {
        closedir(folder);
    }
    return is_found;
}

/*
 * Finds the function that tells whether the application uses the driver. Runs once. Loading the driver's library does
 * not initialise CUDA, and an application that uses CUDA has loaded it already.
 */
static void find_init_query(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);

    if (library == NULL) {
        mscclpp_debug("no CUDA: %s", dlerror());
        return;
    }
    *(void **)&cuda_get_current = dlsym(library, "cuCtxGetCurrent");
}

/* Probes for devices, and logs if none can be used. Runs once, so that the line is logged only once. */
static void probe_in_use(void)
{
    int count;

    if (MSCCLPP_OK != mscclpp_cuda_probe(&count)) {
        mscclpp_info("CUDA is in use in this process, but this component finds no device that it can use; device "
                     "buffers are left to the other components (verbose 3 shows what the driver said)");
    }
}

/*
 * Returns NULL if the application does not use the driver, if there is none, or if no device can be used.
 * cuCtxGetCurrent does not initialise the driver, and its error shows that the driver has not been initialised.
 */
mscclpp_cuda_driver_t *mscclpp_cuda_driver_in_use(void)
{
    mscclpp_cuda_driver_t *driver = mscclpp_cuda_driver();
    CUcontext context;

    if (driver == NULL) {
        (void)pthread_once(&find_once, find_init_query);
        if (cuda_get_current == NULL || CUDA_ERROR_NOT_INITIALIZED == cuda_get_current(&context)) {
            return NULL;
        }
        (void)pthread_once(&probe_in_use_once, probe_in_use);
        driver = mscclpp_cuda_driver();
    }
    return driver;
}

mscclpp_status_t mscclpp_cuda_check_device(int device)
{
    const mscclpp_cuda_driver_t *driver = mscclpp_cuda_driver();
    int device_count = driver != NULL ? driver->device_count : 0;

    if (device < 0 || device >= device_count) {
        mscclpp_error("CUDA device %d does not exist: there are %d", device, device_count);
        return MSCCLPP_ERR_INVALID;
    }
    return MSCCLPP_OK;
}

/*
 * The context is retained once, under the device's lock; later calls only read it. `has_pools` is set before the
 * context is published, so a thread that has the context may read it without the lock.
 */
mscclpp_status_t mscclpp_cuda_primary_context(int device, CUcontext *context_p)
{
    mscclpp_cuda_driver_t *driver = mscclpp_cuda_driver();
    mscclpp_cuda_device_t *entry = &driver->devices[device];
    CUcontext context = atomic_load_explicit(&entry->context, memory_order_acquire);
    CUresult result = CUDA_SUCCESS;

    if (context == NULL) {
        pthread_mutex_lock(&entry->lock);
        /* Another thread may have retained it before this one got the lock. */
        context = atomic_load_explicit(&entry->context, memory_order_relaxed);
        if (context == NULL) {
            int has_pools = 0;
            result = DRIVER_CALL(MSCCLPP_LOG_ERROR, driver->primary_ctx_retain(&context, device));
            if (CUDA_SUCCESS == result) {
                (void)driver->device_get_attribute(&has_pools, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, device);
                entry->has_pools = 0 != has_pools;
                atomic_store_explicit(&entry->context, context, memory_order_release);
            }
        }
        pthread_mutex_unlock(&entry->lock);
    }
    if (CUDA_SUCCESS != result) {
        return CUDA_ERROR_OUT_OF_MEMORY == result ? MSCCLPP_ERR_NO_MEMORY : MSCCLPP_ERR_DEVICE;
    }
    *context_p = context;
    return MSCCLPP_OK;
}

void mscclpp_cuda_leave(const mscclpp_cuda_scope_t *scope)
{
    mscclpp_cuda_driver_t *driver = mscclpp_cuda_driver();
    CUstreamCaptureMode mode = scope->mode;

    (void)driver->exchange_capture_mode(&mode);
    if (scope->has_switched) {
        (void)DRIVER_CALL(MSCCLPP_LOG_WARN, driver->ctx_set_current(scope->context));
    }
}

/*
 * If the current context is the device's primary one, it is not changed. The capture mode is exchanged last, so there
 * is nothing to undo after a failure that is returned. Such a failure has been logged. The result of that exchange is
 * ignored.
 */
mscclpp_status_t mscclpp_cuda_enter(int device, mscclpp_cuda_scope_t *scope_p)
{
    mscclpp_cuda_driver_t *driver = mscclpp_cuda_driver();
    mscclpp_status_t status = mscclpp_cuda_check_device(device);
    CUcontext context;

    if (MSCCLPP_OK == status) {
        status = mscclpp_cuda_primary_context(device, &context);
    }
    if (MSCCLPP_OK != status) {
        return status;
    }
    if (CUDA_SUCCESS != DRIVER_CALL(MSCCLPP_LOG_ERROR, driver->ctx_get_current(&scope_p->context))) {
        return MSCCLPP_ERR_DEVICE;
    }
    scope_p->has_switched = scope_p->context != context;
    if (scope_p->has_switched && CUDA_SUCCESS != DRIVER_CALL(MSCCLPP_LOG_ERROR, driver->ctx_set_current(context))) {
        return MSCCLPP_ERR_DEVICE;
    }
    scope_p->mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    (void)driver->exchange_capture_mode(&scope_p->mode);
    return MSCCLPP_OK;
}

/*
 * Takes the device of the current context. Without a context, takes the device that the thread has chosen by
 * cudaSetDevice. Creates no context.
 *
 * Returns MSCCLPP_ERR_NOT_SUPPORTED if no device can be used.
 */
mscclpp_status_t mscclpp_cuda_current_device(int *device_p)
{
    const mscclpp_cuda_driver_t *driver;
    CUcontext context = NULL;
    CUdevice device;
    int chosen_device, device_count;

    /* A rank that has not used CUDA yet, and so has not probed, may have to join ranks with device memory. */
    if (MSCCLPP_OK != mscclpp_cuda_probe(&device_count)) {
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    driver = mscclpp_cuda_driver();
    if (CUDA_SUCCESS == driver->ctx_get_current(&context) && context != NULL &&
        CUDA_SUCCESS == driver->ctx_get_device(&device)) {
        *device_p = device;
        return MSCCLPP_OK;
    }
    if (cudaSuccess != CUDA_CALL(MSCCLPP_LOG_ERROR, cudaGetDevice(&chosen_device))) {
        return MSCCLPP_ERR_DEVICE;
    }
    *device_p = chosen_device;
    return MSCCLPP_OK;
}

/*
 * Enters the device of the current context. A thread without a context prefers a device that already has a context,
 * because a new context takes time and memory.
 *
 * Returns MSCCLPP_ERR_NOT_SUPPORTED if there is no driver.
 */
mscclpp_status_t mscclpp_cuda_enter_any(mscclpp_cuda_scope_t *scope_p)
{
    mscclpp_cuda_driver_t *driver = mscclpp_cuda_driver();
    CUcontext context = NULL;
    int device;

    if (driver == NULL) {
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    if (CUDA_SUCCESS != driver->ctx_get_current(&context) || context == NULL) {
        for (device = 0; device < driver->device_count; ++device) {
            if (atomic_load_explicit(&driver->devices[device].context, memory_order_acquire) != NULL) {
                return mscclpp_cuda_enter(device, scope_p);
            }
        }
    }
    mscclpp_status_t status = mscclpp_cuda_current_device(&device);
    return MSCCLPP_OK == status ? mscclpp_cuda_enter(device, scope_p) : status;
}

mscclpp_status_t mscclpp_cuda_refuse_empty(size_t size)
{
    if (0 == size) {
        mscclpp_error("cannot allocate or register 0 bytes");
        return MSCCLPP_ERR_INVALID;
    }
    return MSCCLPP_OK;
}

unsigned long long mscclpp_cuda_buffer_id(const void *address)
{
    const mscclpp_cuda_driver_t *driver = mscclpp_cuda_driver();
    CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_BUFFER_ID;
    unsigned long long id = 0;
    void *value = &id;

    /* The function for a single attribute would treat other memory as an error, which tools that watch calls report. */
    return CUDA_SUCCESS == driver->pointer_get_attributes(1, &attribute, &value, (CUdeviceptr)(uintptr_t)address) ? id
                                                                                                                  : 0;
}
