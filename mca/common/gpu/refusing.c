#include "mca/common/gpu/refusing.h"

#include <dlfcn.h>

#include "mca/common/base/log.h"

static const mscclpp_gpu_ops_t *real_ops;
static mscclpp_gpu_ops_t refusing_ops;
static mscclpp_gpu_refuses_fn_t is_refused;

/*
 * The functions of the table that take memory or other limited resources: X(function, parameters, names of the
 * parameters).
 */
#define RESOURCE_FUNCTIONS(X)                                                                                          \
    X(device_alloc, (int device, size_t size, void **address_p), (device, size, address_p))                            \
    X(temp_alloc, (mscclpp_gpu_stream_t * stream, size_t size, void **address_p), (stream, size, address_p))           \
    X(host_alloc, (size_t size, void **address_p, void **device_p), (size, address_p, device_p))                       \
    X(host_register, (void *address, size_t size, void **device_p), (address, size, device_p))                         \
    X(export_memory, (const void *address, mscclpp_gpu_handle_t *handle_p), (address, handle_p))                       \
    X(import_memory, (int device, const mscclpp_gpu_handle_t *handle, void **base_p), (device, handle, base_p))        \
    X(export_dmabuf, (const void *address, size_t length, int *fd_p, uint64_t *offset_p),                              \
      (address, length, fd_p, offset_p))                                                                               \
    X(stream_create, (int device, mscclpp_gpu_stream_t **stream_p), (device, stream_p))                                \
    X(event_create, (int device, mscclpp_gpu_event_t **event_p), (device, event_p))                                    \
    X(launch_prepare, (int device, const mscclpp_dev_launch_t *launch, mscclpp_gpu_prepared_t **prepared_p),           \
      (device, launch, prepared_p))

/* For each of them, a function that asks the test first. LIST takes the parentheses off a list. */
#define LIST(...) __VA_ARGS__
#define REFUSING(function_, params_, args_)                                                                            \
    static mscclpp_status_t refusing_##function_(LIST params_)                                                         \
    {                                                                                                                  \
        if (is_refused(#function_)) {                                                                                  \
            mscclpp_info("%s is refused by the test", #function_);                                                     \
            return MSCCLPP_ERR_NO_MEMORY;                                                                              \
        }                                                                                                              \
        return real_ops->function_(LIST args_);                                                                        \
    }
RESOURCE_FUNCTIONS(REFUSING)

/* The table is static, so there is only one. */
const mscclpp_gpu_ops_t *mscclpp_gpu_refusing(const mscclpp_gpu_ops_t *ops)
{
    /* ISO C has no cast from an object pointer to a function pointer. */
    union {
        void *address;
        mscclpp_gpu_refuses_fn_t function;
    } symbol = {.address = dlsym(RTLD_DEFAULT, MSCCLPP_GPU_REFUSES)};

    if (symbol.address == NULL) {
        return ops;
    }
    is_refused = symbol.function;
    real_ops = ops;
    refusing_ops = *ops;
#define REPLACE(function_, params_, args_)                                                                             \
    refusing_ops.function_ = ops->function_ != NULL ? refusing_##function_ : NULL;
    RESOURCE_FUNCTIONS(REPLACE)
    return &refusing_ops;
}
