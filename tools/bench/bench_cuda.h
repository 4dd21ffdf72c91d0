/*
 * What a CUDA application does and the host library does not: choose the thread's current device, create streams, and
 * allocate memory of every kind. A function that fails prints why; one with a result returns false, or NULL. For test
 * programs. The driver is opened at run time, so that these programs start on a machine without a driver.
 */
#ifndef TOOLS_BENCH_BENCH_CUDA_H
#define TOOLS_BENCH_BENCH_CUDA_H

#include <stdbool.h>
#include <stddef.h>

/* Finds a function of the driver. If there is none, prints one line and returns NULL. */
void *bench_cuda_find(const char *name);

/* Makes the device's primary context the current one of this thread. */
bool bench_cuda_select(int device);

/* Creates a stream that does not wait for the default stream. `native` is a CUstream, which is also a cudaStream_t. */
bool bench_cuda_stream_create(void **native_p);
void bench_cuda_stream_destroy(void *native);
bool bench_cuda_stream_wait(void *native); /* until all that is in it has ended; false if some of it failed */

/* Allocates managed memory, which the host and all devices reach at one address. */
bool bench_cuda_managed_alloc(size_t size, void **address_p);
void bench_cuda_managed_free(void *address);

/* Allocates from the device's default memory pool, and waits until the memory can be used in any stream. */
bool bench_cuda_pool_alloc(size_t size, void **address_p);
void bench_cuda_pool_free(void *address);

/* Allocates memory of the current device and maps it (cuMemCreate, cuMemMap). Free it with the `size` as allocated. */
bool bench_cuda_mapped_alloc(size_t size, void **address_p);
void bench_cuda_mapped_free(void *address, size_t size);

#endif
