/*
 * CUDA's driver, opened at run time. The CUDA runtimes within the process, one linked into each library that uses it,
 * all follow the driver's current context.
 */
#include "tools/bench/bench_cuda.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

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

typedef int (*cu_get_device_fn_t)(int *device);

#define CU_STREAM_NON_BLOCKING 1u
#define CU_MEM_ATTACH_GLOBAL 1u

/* As in cuda.h: CUmemLocation, CUmemAllocationProp, CUmemAccessDesc. */
typedef struct {
    int type;
    int id;
} cu_location_t;

typedef struct {
    int type;
    int handle_types;
    cu_location_t location;
    void *windows;
    unsigned char flags[8];
} cu_memory_t;

typedef struct {
    cu_location_t location;
    int flags;
} cu_access_t;

typedef int (*cu_granularity_fn_t)(size_t *granularity, const cu_memory_t *memory, int option);
typedef int (*cu_mem_create_fn_t)(unsigned long long *handle, size_t size, const cu_memory_t *memory,
                                  unsigned long long flags);
typedef int (*cu_mem_release_fn_t)(unsigned long long handle);
typedef int (*cu_reserve_fn_t)(uintptr_t *address, size_t size, size_t alignment, uintptr_t wanted,
                               unsigned long long flags);
typedef int (*cu_map_fn_t)(uintptr_t address, size_t size, size_t offset, unsigned long long handle,
                           unsigned long long flags);
typedef int (*cu_set_access_fn_t)(uintptr_t address, size_t size, const cu_access_t *access, size_t count);
typedef int (*cu_range_fn_t)(uintptr_t address, size_t size);

#define CU_MEM_ALLOCATION_TYPE_PINNED 1
#define CU_MEM_LOCATION_TYPE_DEVICE 1
#define CU_MEM_ALLOC_GRANULARITY_MINIMUM 0
#define CU_MEM_ACCESS_FLAGS_PROT_READWRITE 3

/*
 * Returns a function of the driver. The first call opens the driver, which stays open. If the driver cannot be opened
 * or has no such function, prints a line and returns NULL.
 */
void *bench_cuda_find(const char *name)
{
    static void *driver;

    if (driver == NULL) {
        driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
        if (driver == NULL) {
            fprintf(stderr, "cannot open the CUDA driver: %s\n", dlerror());
            return NULL;
        }
    }
    void *function = dlsym(driver, name);
    if (function == NULL) {
        fprintf(stderr, "the CUDA driver has no %s\n", name);
    }
    return function;
}

/* Returns true if the call has succeeded. Otherwise prints a line. */
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

    /* The primary context is kept until the process ends, as the CUDA runtime does. */
    return init != NULL && get != NULL && retain != NULL && set != NULL && succeeded("cuInit", init(0)) &&
           succeeded("cuDeviceGet", get(&handle, device)) &&
           succeeded("cuDevicePrimaryCtxRetain", retain(&context, handle)) &&
           succeeded("cuCtxSetCurrent", set(context));
}

bool bench_cuda_stream_create(void **native_p)
{
    cu_stream_create_fn_t create = (cu_stream_create_fn_t)bench_cuda_find("cuStreamCreate");

    return create != NULL && succeeded("cuStreamCreate", create(native_p, CU_STREAM_NON_BLOCKING));
}

void bench_cuda_stream_destroy(void *native)
{
    cu_stream_fn_t destroy = NULL;

    if (native != NULL) {
        destroy = (cu_stream_fn_t)bench_cuda_find("cuStreamDestroy_v2");
    }
    if (destroy != NULL) {
        succeeded("cuStreamDestroy", destroy(native));
    }
}

bool bench_cuda_stream_wait(void *native)
{
    static cu_stream_fn_t synchronize;

    if (synchronize == NULL) {
        synchronize = (cu_stream_fn_t)bench_cuda_find("cuStreamSynchronize");
    }
    return synchronize != NULL && succeeded("cuStreamSynchronize", synchronize(native));
}

bool bench_cuda_managed_alloc(size_t size, void **address_p)
{
    cu_alloc_managed_fn_t alloc = (cu_alloc_managed_fn_t)bench_cuda_find("cuMemAllocManaged");
    uintptr_t address;

    if (alloc == NULL || !succeeded("cuMemAllocManaged", alloc(&address, size, CU_MEM_ATTACH_GLOBAL))) {
        return false;
    }
    *address_p = (void *)address;
    return true;
}

void bench_cuda_managed_free(void *address)
{
    cu_free_fn_t release = (cu_free_fn_t)bench_cuda_find("cuMemFree_v2");

    if (release != NULL) {
        succeeded("cuMemFree", release((uintptr_t)address));
    }
}

bool bench_cuda_pool_alloc(size_t size, void **address_p)
{
    cu_alloc_async_fn_t alloc = (cu_alloc_async_fn_t)bench_cuda_find("cuMemAllocAsync");
    cu_stream_fn_t synchronize = (cu_stream_fn_t)bench_cuda_find("cuStreamSynchronize");
    uintptr_t address;

    if (alloc == NULL || synchronize == NULL || !succeeded("cuMemAllocAsync", alloc(&address, size, NULL)) ||
        !succeeded("cuStreamSynchronize", synchronize(NULL))) {
        return false;
    }
    *address_p = (void *)address;
    return true;
}

void bench_cuda_pool_free(void *address)
{
    cu_free_async_fn_t release = (cu_free_async_fn_t)bench_cuda_find("cuMemFreeAsync");

    if (release != NULL) {
        succeeded("cuMemFreeAsync", release((uintptr_t)address, NULL));
    }
}

/*
 * Describes memory of the current device in *memory. Returns `size` rounded up to the granularity of its mappings. The
 * result is the same for the same size and device, so bench_cuda_mapped_free can compute it again. If CUDA does not
 * tell the granularity, prints a line and returns 0.
 */
static size_t mapped_size(size_t size, cu_memory_t *memory)
{
    cu_get_device_fn_t get = (cu_get_device_fn_t)bench_cuda_find("cuCtxGetDevice");
    cu_granularity_fn_t get_granularity = (cu_granularity_fn_t)bench_cuda_find("cuMemGetAllocationGranularity");
    size_t granularity = 0;

    memset(memory, 0, sizeof(*memory));
    memory->type = CU_MEM_ALLOCATION_TYPE_PINNED;
    memory->location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    if (get == NULL || get_granularity == NULL || !succeeded("cuCtxGetDevice", get(&memory->location.id)) ||
        !succeeded("cuMemGetAllocationGranularity",
                   get_granularity(&granularity, memory, CU_MEM_ALLOC_GRANULARITY_MINIMUM)) ||
        0 == granularity) {
        return 0;
    }
    return (size + granularity - 1) / granularity * granularity;
}

/*
 * Allocates memory and maps it at a reserved address. `size` is a multiple of the granularity. Releases the
 * allocation's handle at once, because the mapping keeps the memory. On failure prints a line and returns false; memory
 * that was already mapped stays mapped.
 */
static bool map_at(uintptr_t address, size_t size, const cu_memory_t *memory)
{
    cu_mem_create_fn_t create = (cu_mem_create_fn_t)bench_cuda_find("cuMemCreate");
    cu_mem_release_fn_t release = (cu_mem_release_fn_t)bench_cuda_find("cuMemRelease");
    cu_map_fn_t map = (cu_map_fn_t)bench_cuda_find("cuMemMap");
    cu_set_access_fn_t allow = (cu_set_access_fn_t)bench_cuda_find("cuMemSetAccess");
    const cu_access_t access = {memory->location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    unsigned long long handle;
    bool is_mapped;

    if (create == NULL || release == NULL || map == NULL || allow == NULL ||
        !succeeded("cuMemCreate", create(&handle, size, memory, 0))) {
        return false;
    }
    is_mapped = succeeded("cuMemMap", map(address, size, 0, handle, 0));
    return succeeded("cuMemRelease", release(handle)) && is_mapped &&
           succeeded("cuMemSetAccess", allow(address, size, &access, 1));
}

/*
 * Reserves addresses, allocates memory and maps it there. After a failure the addresses stay reserved: only programs
 * for tests and measurements call this.
 */
bool bench_cuda_mapped_alloc(size_t size, void **address_p)
{
    cu_reserve_fn_t reserve = (cu_reserve_fn_t)bench_cuda_find("cuMemAddressReserve");
    cu_memory_t memory;
    uintptr_t address;

    size = mapped_size(size, &memory);
    if (0 == size || reserve == NULL || !succeeded("cuMemAddressReserve", reserve(&address, size, 0, 0, 0)) ||
        !map_at(address, size, &memory)) {
        return false;
    }
    *address_p = (void *)address;
    return true;
}

void bench_cuda_mapped_free(void *address, size_t size)
{
    cu_range_fn_t unmap = (cu_range_fn_t)bench_cuda_find("cuMemUnmap");
    cu_range_fn_t release = (cu_range_fn_t)bench_cuda_find("cuMemAddressFree");
    cu_memory_t memory;

    size = mapped_size(size, &memory);
    if (0 != size && unmap != NULL && release != NULL && succeeded("cuMemUnmap", unmap((uintptr_t)address, size))) {
        succeeded("cuMemAddressFree", release((uintptr_t)address, size));
    }
}
