/* The examples' device on a GPU: see stage.h. */
#include <cstdio>
#include <cstdlib>

#include "stage.h"

#define THREADS 128

#define CHECK(call_)                                                                                                   \
    do {                                                                                                               \
        cudaError_t error_ = (call_);                                                                                  \
        if (error_ != cudaSuccess) {                                                                                   \
            fprintf(stderr, "%s: %s\n", #call_, cudaGetErrorString(error_));                                           \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

static cudaStream_t stream;

const char *stage_open(int number)
{
    static cudaDeviceProp properties;
    int devices;

    CHECK(cudaGetDeviceCount(&devices));
    CHECK(cudaSetDevice(number % devices));
    CHECK(cudaGetDeviceProperties(&properties, number % devices));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return properties.name;
}

void stage_close(void)
{
    CHECK(cudaStreamDestroy(stream));
}

unsigned stage_threads(void)
{
    return THREADS;
}

void *stage_alloc(size_t bytes)
{
    void *memory;

    CHECK(cudaMalloc(&memory, bytes));
    CHECK(cudaMemset(memory, 0, bytes));
    CHECK(cudaDeviceSynchronize());
    return memory;
}

void stage_free(void *memory)
{
    CHECK(cudaFree(memory));
}

void *stage_alloc_pinned(size_t bytes)
{
    void *memory;

    CHECK(cudaMallocHost(&memory, bytes));
    return memory;
}

void stage_free_pinned(void *memory)
{
    CHECK(cudaFreeHost(memory));
}

void stage_to_device(void *to, const void *from, size_t bytes)
{
    CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream));
    CHECK(cudaStreamSynchronize(stream));
}

void stage_to_host(void *to, const void *from, size_t bytes)
{
    CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
}

#define STAGE_LAUNCH(name_)                                                                                            \
    static __global__ void name_##_kernel(name_##_args_t args)                                                         \
    {                                                                                                                  \
        mpix_group_t block = mpix_block();                                                                             \
        name_##_body(&block, &args);                                                                                   \
    }                                                                                                                  \
    void name_##_launch(unsigned blocks, const name_##_args_t *args)                                                   \
    {                                                                                                                  \
        name_##_kernel<<<blocks, THREADS, 0, stream>>>(*args);                                                         \
        CHECK(cudaGetLastError());                                                                                     \
    }
KERNELS(STAGE_LAUNCH)

void stage_wait(void)
{
    CHECK(cudaStreamSynchronize(stream));
}
