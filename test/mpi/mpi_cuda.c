#include "test/mpi/mpi_cuda.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <mpi.h>

#include "tools/bench/bench_cuda.h"

#define BYTES ((size_t)1 << 20)

typedef int (*cu_void_fn_t)(void);
typedef int (*cu_count_fn_t)(int *count);
typedef int (*cu_attribute_fn_t)(int *value, int attribute, int device);
typedef int (*cu_alloc_fn_t)(uintptr_t *address, size_t size);
typedef int (*cu_free_fn_t)(uintptr_t address);
typedef int (*cu_handle_fn_t)(void *handle);
typedef int (*cu_load_fn_t)(void **module, const void *image);
typedef int (*cu_function_fn_t)(void **function, void *module, const char *name);
typedef int (*cu_launch_fn_t)(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                              unsigned block_y, unsigned block_z, unsigned shared, void *stream, void **parameters,
                              void **extra);
typedef int (*cu_memset_fn_t)(uintptr_t address, unsigned char byte, size_t size, void *stream);
typedef int (*cu_begin_fn_t)(void *stream, int mode);
typedef int (*cu_end_fn_t)(void *stream, void **graph);
typedef int (*cu_instantiate_fn_t)(void **instance, void *graph, unsigned long long flags);
typedef int (*cu_graph_launch_fn_t)(void *instance, void *stream);

#define CAPTURE_MODE_GLOBAL 0
#define DEVICE_ATTRIBUTE_MPS_ENABLED 133

static const char image[] = ".version 6.0\n"
                            ".target sm_50\n"
                            ".address_size 64\n"
                            ".visible .entry nothing()\n"
                            "{\n"
                            "    ret;\n"
                            "}\n";

static void refuse(const char *name, int result)
{
    fprintf(stderr, "%s failed with CUDA error %d\n", name, result);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* The functions have types of their own, so this cannot be a function of its own. */
#define CALL(type_, name_, ...)                                                                                        \
    do {                                                                                                               \
        type_ function_ = (type_)bench_cuda_find(name_);                                                               \
        int result_ = function_ == NULL ? -1 : function_(__VA_ARGS__);                                                 \
        if (0 != result_) {                                                                                            \
            refuse(name_, result_);                                                                                    \
        }                                                                                                              \
    } while (0)

/* A stream that is made once. */
static void *own_stream(void)
{
    static void *stream;

    if (stream == NULL && !bench_cuda_stream_create(&stream)) {
        refuse("cuStreamCreate", -1);
    }
    return stream;
}

/* Device memory that is allocated once. */
static uintptr_t own_memory(void)
{
    static uintptr_t memory;

    if (0 == memory) {
        CALL(cu_alloc_fn_t, "cuMemAlloc_v2", &memory, BYTES);
    }
    return memory;
}

int mt_cuda_devices(void)
{
    int count = 0;

    CALL(cu_count_fn_t, "cuDeviceGetCount", &count);
    return count;
}

bool mt_cuda_mps(void)
{
    cu_attribute_fn_t ask = (cu_attribute_fn_t)bench_cuda_find("cuDeviceGetAttribute");
    int enabled = 0, device = -1;

    CALL(cu_count_fn_t, "cuCtxGetDevice", &device);
    return ask != NULL && 0 == ask(&enabled, DEVICE_ATTRIBUTE_MPS_ENABLED, device) && 1 == enabled;
}

void mt_cuda_synchronize(void)
{
    CALL(cu_void_fn_t, "cuCtxSynchronize");
}

void mt_cuda_allocate(void)
{
    uintptr_t address = 0;

    CALL(cu_alloc_fn_t, "cuMemAlloc_v2", &address, BYTES);
    CALL(cu_free_fn_t, "cuMemFree_v2", address);
}

void mt_cuda_load(void)
{
    void *module = NULL, *function = NULL;

    CALL(cu_load_fn_t, "cuModuleLoadData", &module, image);
    CALL(cu_function_fn_t, "cuModuleGetFunction", &function, module, "nothing");
    CALL(cu_launch_fn_t, "cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, own_stream(), NULL, NULL);
    CALL(cu_handle_fn_t, "cuStreamSynchronize", own_stream());
    CALL(cu_handle_fn_t, "cuModuleUnload", module);
}

void mt_cuda_capture(void)
{
    void *graph = NULL, *instance = NULL;

    (void)own_memory(); /* made before the capture, which allows no allocation */
    CALL(cu_begin_fn_t, "cuStreamBeginCapture_v2", own_stream(), CAPTURE_MODE_GLOBAL);
    CALL(cu_memset_fn_t, "cuMemsetD8Async", own_memory(), 1, BYTES, own_stream());
    CALL(cu_end_fn_t, "cuStreamEndCapture", own_stream(), &graph);
    CALL(cu_instantiate_fn_t, "cuGraphInstantiateWithFlags", &instance, graph, 0);
    CALL(cu_graph_launch_fn_t, "cuGraphLaunch", instance, own_stream());
    CALL(cu_handle_fn_t, "cuStreamSynchronize", own_stream());
    CALL(cu_handle_fn_t, "cuGraphExecDestroy", instance);
    CALL(cu_handle_fn_t, "cuGraphDestroy", graph);
}
