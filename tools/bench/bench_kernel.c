/* A kernel that spins by the GPU's clock, in the shapes that leave a GPU no room. */
#include "tools/bench/bench_kernel.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "tools/bench/bench_cuda.h"

#define THREADS 256u
#define BLOCKS_PER_MULTIPROCESSOR 8u
#define SHARED_MEMORY (200u << 10)

/* As in cuda.h: CUdevice_attribute, CUfunction_attribute. */
#define ATTRIBUTE_MULTIPROCESSORS 16
#define ATTRIBUTE_COOPERATIVE_LAUNCH 95
#define ATTRIBUTE_MAX_SHARED_OPTIN 97
#define FUNCTION_MAX_DYNAMIC_SHARED 8

typedef int (*cu_device_get_fn_t)(int *device, int ordinal);
typedef int (*cu_attribute_fn_t)(int *value, int attribute, int device);
typedef int (*cu_load_fn_t)(void **module, const void *image);
typedef int (*cu_unload_fn_t)(void *module);
typedef int (*cu_function_fn_t)(void **function, void *module, const char *name);
typedef int (*cu_set_attribute_fn_t)(void *function, int attribute, int value);
typedef int (*cu_launch_fn_t)(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                              unsigned block_y, unsigned block_z, unsigned shared, void *stream, void **parameters,
                              void **extra);
typedef int (*cu_launch_cooperative_fn_t)(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                          unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                                          void *stream, void **parameters);

static const char image[] = ".version 6.0\n"
                            ".target sm_50\n"
                            ".address_size 64\n"
                            ".visible .entry spin(.param .u64 nanoseconds)\n"
                            "{\n"
                            "    .reg .pred %before;\n"
                            "    .reg .b64 %begin, %now, %length;\n"
                            "    ld.param.u64 %length, [nanoseconds];\n"
                            "    mov.u64 %begin, %globaltimer;\n"
                            "AGAIN:\n"
                            "    mov.u64 %now, %globaltimer;\n"
                            "    sub.u64 %now, %now, %begin;\n"
                            "    setp.lt.u64 %before, %now, %length;\n"
                            "    @%before bra AGAIN;\n"
                            "    ret;\n"
                            "}\n";

static struct {
    void *module;
    void *function;
    void *stream;
    unsigned blocks;
    unsigned shared;
    uint64_t nanoseconds;
    cu_launch_fn_t launch;
    cu_launch_cooperative_fn_t launch_cooperative; /* NULL: the plain launch is used */
} kernel;

/* Reports a failed call. True if it did not fail. */
static bool succeeded(const char *name, int result)
{
    if (0 != result) {
        fprintf(stderr, "mscclpp_bench: --between: %s failed with CUDA error %d\n", name, result);
    }
    return 0 == result;
}

/* Asks CUDA's driver for an attribute of a device. False after a message. */
static bool get_attribute(int attribute, int device, int *value_p)
{
    cu_device_get_fn_t get = (cu_device_get_fn_t)bench_cuda_find("cuDeviceGet");
    cu_attribute_fn_t attribute_of = (cu_attribute_fn_t)bench_cuda_find("cuDeviceGetAttribute");
    int handle;

    return get != NULL && attribute_of != NULL && succeeded("cuDeviceGet", get(&handle, device)) &&
           succeeded("cuDeviceGetAttribute", attribute_of(value_p, attribute, handle));
}

/* Loads the kernel into the device. */
static bool load_kernel(void)
{
    cu_load_fn_t load_data = (cu_load_fn_t)bench_cuda_find("cuModuleLoadData");
    cu_function_fn_t get_function = (cu_function_fn_t)bench_cuda_find("cuModuleGetFunction");

    return load_data != NULL && get_function != NULL &&
           succeeded("cuModuleLoadData", load_data(&kernel.module, image)) &&
           succeeded("cuModuleGetFunction", get_function(&kernel.function, kernel.module, "spin"));
}

/* Chooses one block for each multiprocessor, with so much shared memory that little else fits beside it. */
static bool fill_multiprocessors(int device, int multiprocessors)
{
    cu_set_attribute_fn_t set = (cu_set_attribute_fn_t)bench_cuda_find("cuFuncSetAttribute");
    int most;

    if (set == NULL || !get_attribute(ATTRIBUTE_MAX_SHARED_OPTIN, device, &most)) {
        return false;
    }
    kernel.blocks = (unsigned)multiprocessors;
    kernel.shared = (unsigned)most < SHARED_MEMORY ? (unsigned)most : SHARED_MEMORY;
    return succeeded("cuFuncSetAttribute", set(kernel.function, FUNCTION_MAX_DYNAMIC_SHARED, (int)kernel.shared));
}

/* Finds the driver's function for cooperative launches. False if the device has none. */
static bool prepare_cooperative(int device)
{
    int able;

    if (!get_attribute(ATTRIBUTE_COOPERATIVE_LAUNCH, device, &able)) {
        return false;
    }
    if (!able) {
        fprintf(stderr, "mscclpp_bench: --between: coop: this device has no cooperative launch\n");
        return false;
    }
    kernel.launch_cooperative = (cu_launch_cooperative_fn_t)bench_cuda_find("cuLaunchCooperativeKernel");
    return kernel.launch_cooperative != NULL;
}

bool bench_kernel_open(bench_kernel_kind_t kind, int device, double microseconds, void *stream)
{
    int multiprocessors;

    kernel.stream = stream;
    kernel.nanoseconds = (uint64_t)(1e3 * microseconds);
    kernel.launch = (cu_launch_fn_t)bench_cuda_find("cuLaunchKernel");
    if (kernel.launch == NULL || !load_kernel() ||
        !get_attribute(ATTRIBUTE_MULTIPROCESSORS, device, &multiprocessors)) {
        return false;
    }
    if (BENCH_KERNEL_WAVES == kind) {
        kernel.blocks = BLOCKS_PER_MULTIPROCESSOR * (unsigned)multiprocessors;
        return true;
    }
    return fill_multiprocessors(device, multiprocessors) && (BENCH_KERNEL_COOP != kind || prepare_cooperative(device));
}

bool bench_kernel_launch(void)
{
    void *parameters[] = {&kernel.nanoseconds};

    if (kernel.launch_cooperative != NULL) {
        return succeeded("cuLaunchCooperativeKernel",
                         kernel.launch_cooperative(kernel.function, kernel.blocks, 1, 1, THREADS, 1, 1, kernel.shared,
                                                   kernel.stream, parameters));
    }
    return succeeded("cuLaunchKernel", kernel.launch(kernel.function, kernel.blocks, 1, 1, THREADS, 1, 1, kernel.shared,
                                                     kernel.stream, parameters, NULL));
}

void bench_kernel_close(void)
{
    cu_unload_fn_t unload = kernel.module != NULL ? (cu_unload_fn_t)bench_cuda_find("cuModuleUnload") : NULL;

    if (unload != NULL) {
        succeeded("cuModuleUnload", unload(kernel.module));
        kernel.module = NULL;
    }
}
