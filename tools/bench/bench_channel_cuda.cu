/* The kernels of mode channel on a GPU. */
#include "tools/bench/bench_channel.h"
#include "tools/bench/bench_channel_coll.h"

static __global__ void bench_channel_kernel(bench_channel_args_t args)
{
    mpix_group_t block = mpix_block();

    bench_channel_body(&block, &args);
}

int bench_channel_launch(void *stream, unsigned threads, const bench_channel_args_t *args)
{
    bench_channel_args_t copy = *args;
    void *parameters[] = {&copy};

    return (int)cudaLaunchKernel((const void *)bench_channel_kernel, dim3(1), dim3(threads), parameters, 0,
                                 (cudaStream_t)stream);
}

static __global__ void bench_channel_coll_kernel(bench_channel_coll_args_t args)
{
    mpix_group_t block = mpix_block();

    bench_channel_coll_body(&block, &args);
}

int bench_channel_coll_launch(void *stream, unsigned threads, const bench_channel_coll_args_t *args)
{
    bench_channel_coll_args_t copy = *args;
    void *parameters[] = {&copy};

    return (int)cudaLaunchKernel((const void *)bench_channel_coll_kernel, dim3(1), dim3(threads), parameters, 0,
                                 (cudaStream_t)stream);
}
