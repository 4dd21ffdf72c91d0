/*
 * CUDA's driver, opened at run time. The CUDA runtimes within the process, one linked into each library that uses it,
 * all follow the driver's current context.
 */
#include "test/bench/bench_cuda.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>

typedef int (*cu_init_fn_t)(unsigned flags);
typedef int (*cu_device_get_fn_t)(int *device, int ordinal);
typedef int (*cu_primary_retain_fn_t)(void **context, int device);
typedef int (*cu_set_current_fn_t)(void *context);
typedef int (*cu_stream_create_fn_t)(void **stream, unsigned flags);
typedef int (*cu_stream_fn_t)(void *stream);
typedef int (*cu_alloc_managed_fn_t)(uintptr_t *address, size_t size, unsigned flags);
typedef int (*cu_alloc_async_fn_t)(uintptr_t *address, size_t size, void *stream);
typedef int (*cu_free_fn_t)(uintptr_t address);
typedef int (*cu_free_async_fn_t)(uintptr_t address, void *stream);

#define CU_STREAM_NON_BLOCKING 1u
#define CU_MEM_ATTACH_GLOBAL 1u

void *bench_cuda_find(const char *name)
{
    static void *driver;

    if (NULL == driver) {
        driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
        if (NULL == driver) {
            fprintf(stderr, "cannot open the CUDA driver: %s\n", dlerror());
            return NULL;
        }
    }
    void *function = dlsym(driver, name);
    if (NULL == function) {
        fprintf(stderr, "the CUDA driver has no %s\n", name);
    }
    return function;
}

static bool succeeded(const char *name, int result)
{
    if (0 != result) {
        fprintf(stderr, "%s failed with CUDA error %d\n", name, result);
    }
    return 0 == result;
}

bool bench_cuda_select(int device)
{
    cu_init_fn_t init = (cu_init_fn_t)bench_cuda_find("cuInit");
    cu_device_get_fn_t get = (cu_device_get_fn_t)bench_cuda_find("cuDeviceGet");
    cu_primary_retain_fn_t retain = (cu_primary_retain_fn_t)bench_cuda_find("cuDevicePrimaryCtxRetain");
    cu_set_current_fn_t set = (cu_set_current_fn_t)bench_cuda_find("cuCtxSetCurrent");
    void *context;
    int handle;

    /* The primary context is kept to the process' end, as the CUDA runtime keeps it. */
    return NULL != init && NULL != get && NULL != retain && NULL != set && succeeded("cuInit", init(0)) &&
           succeeded("cuDeviceGet", get(&handle, device)) &&
           succeeded("cuDevicePrimaryCtxRetain", retain(&context, handle)) &&
           succeeded("cuCtxSetCurrent", set(context));
}

bool bench_cuda_stream_create(void **native_p)
{
    cu_stream_create_fn_t create = (cu_stream_create_fn_t)bench_cuda_find("cuStreamCreate");

    return NULL != create && succeeded("cuStreamCreate", create(native_p, CU_STREAM_NON_BLOCKING));
}

void bench_cuda_stream_destroy(void *native)
{
    cu_stream_fn_t destroy = NULL;

    if (NULL != native) {
        destroy = (cu_stream_fn_t)bench_cuda_find("cuStreamDestroy_v2");
    }
    if (NULL != destroy) {
        succeeded("cuStreamDestroy", destroy(native));
    }
}

bool bench_cuda_managed_alloc(size_t size, void **address_p)
{
    cu_alloc_managed_fn_t alloc = (cu_alloc_managed_fn_t)bench_cuda_find("cuMemAllocManaged");
    uintptr_t address;

    if (NULL == alloc || !succeeded("cuMemAllocManaged", alloc(&address, size, CU_MEM_ATTACH_GLOBAL))) {
        return false;
    }
    *address_p = (void *)address;
    return true;
}

void bench_cuda_managed_free(void *address)
{
    cu_free_fn_t release = (cu_free_fn_t)bench_cuda_find("cuMemFree_v2");

    if (NULL != release) {
        succeeded("cuMemFree", release((uintptr_t)address));
    }
}

bool bench_cuda_pool_alloc(size_t size, void **address_p)
{
    cu_alloc_async_fn_t alloc = (cu_alloc_async_fn_t)bench_cuda_find("cuMemAllocAsync");
    cu_stream_fn_t synchronize = (cu_stream_fn_t)bench_cuda_find("cuStreamSynchronize");
    uintptr_t address;

    if (NULL == alloc || NULL == synchronize || !succeeded("cuMemAllocAsync", alloc(&address, size, NULL)) ||
        !succeeded("cuStreamSynchronize", synchronize(NULL))) {
        return false;
    }
    *address_p = (void *)address;
    return true;
}

void bench_cuda_pool_free(void *address)
{
    cu_free_async_fn_t release = (cu_free_async_fn_t)bench_cuda_find("cuMemFreeAsync");

    if (NULL != release) {
        succeeded("cuMemFreeAsync", release((uintptr_t)address, NULL));
    }
}
