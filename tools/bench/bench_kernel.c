/* A kernel that spins for a time by the GPU's clock. Its grids leave other kernels little room or none. */
#include "tools/bench/bench_kernel.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "tools/bench/bench_cuda.h"

#define THREADS 256u                 /* of a block */
#define BLOCKS_PER_MULTIPROCESSOR 8u /* of kind waves: 2,048 threads, as many as a multiprocessor holds */
#define SHARED_MEMORY (200u << 10)   /* bytes of a block of kinds full and coop, unless the device has less */

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

/* The kernel, in PTX. Each thread reads the GPU's clock until the time has passed. */
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
    unsigned shared;      /* bytes of dynamic shared memory for each block */
    uint64_t nanoseconds; /* the kernel's argument: how long to spin */
    cu_launch_fn_t launch;
    cu_launch_cooperative_fn_t launch_cooperative; /* NULL: the plain launch is used */
} kernel;

/* Returns true if the call has succeeded. Otherwise prints a line. */
static bool succeeded(const char *name, int result)
{
    if (0 != result) {
        fprintf(stderr, "mscclpp_bench: --between: %s failed with CUDA error %d\n", name, result);
    }
    return 0 == result;
}

/* Asks CUDA's driver for an attribute of a device. On failure prints a line and returns false. */
static bool get_attribute(int attribute, int device, int *value_p)
{
    cu_device_get_fn_t get = (cu_device_get_fn_t)bench_cuda_find("cuDeviceGet");
    cu_attribute_fn_t attribute_of = (cu_attribute_fn_t)bench_cuda_find("cuDeviceGetAttribute");
    int handle;

    return get != NULL && attribute_of != NULL && succeeded("cuDeviceGet", get(&handle, device)) &&
           succeeded("cuDeviceGetAttribute", attribute_of(value_p, attribute, handle));
}

/* Loads the kernel into the current context. On failure prints a line and returns false. */
static bool load_kernel(void)
{
    cu_load_fn_t load_data = (cu_load_fn_t)bench_cuda_find("cuModuleLoadData");
    cu_function_fn_t get_function = (cu_function_fn_t)bench_cuda_find("cuModuleGetFunction");

    return load_data != NULL && get_function != NULL &&
           succeeded("cuModuleLoadData", load_data(&kernel.module, image)) &&
           succeeded("cuModuleGetFunction", get_function(&kernel.function, kernel.module, "spin"));
}

/*
 * Gives the grid one block for each multiprocessor, with so much shared memory that little else fits beside the block.
 * CUDA allows so much for a block only after cuFuncSetAttribute. On failure prints a line and returns false.
 */
static bool fill_multiprocessors(int device, int multiprocessors)
{
    cu_set_attribute_fn_t set_attribute = (cu_set_attribute_fn_t)bench_cuda_find("cuFuncSetAttribute");
    int max_shared;

    if (set_attribute == NULL || !get_attribute(ATTRIBUTE_MAX_SHARED_OPTIN, device, &max_shared)) {
        return false;
    }
    kernel.blocks = (unsigned)multiprocessors;
    kernel.shared = (unsigned)max_shared < SHARED_MEMORY ? (unsigned)max_shared : SHARED_MEMORY;
    return succeeded("cuFuncSetAttribute",
                     set_attribute(kernel.function, FUNCTION_MAX_DYNAMIC_SHARED, (int)kernel.shared));
}

/*
 * Finds the driver's function for cooperative launches. If the device does not support them, the driver has no such
 * function, or the device cannot be queried, prints a line and returns false.
 */
static bool prepare_cooperative(int device)
{
    int is_supported;

    if (!get_attribute(ATTRIBUTE_COOPERATIVE_LAUNCH, device, &is_supported)) {
        return false;
    }
    if (!is_supported) {
        fprintf(stderr, "mscclpp_bench: --between: coop: this device has no cooperative launch\n");
        return false;
    }
    kernel.launch_cooperative = (cu_launch_cooperative_fn_t)bench_cuda_find("cuLaunchCooperativeKernel");
    return kernel.launch_cooperative != NULL;
}

/*
 * Loads the kernel, and chooses its grid, shared memory and launch function by its kind: waves, full, half or coop. The
 * grid of kind waves fills the GPU with threads, without shared memory. Launches are queued in `stream`. On failure
 * prints a line and returns false.
 */
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
    if (BENCH_KERNEL_HALF == kind && multiprocessors > 1) {
        multiprocessors /= 2;
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
