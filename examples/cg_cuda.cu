/* The solver's operations on a GPU: see cg.h. */
#include <cstdio>
#include <cstdlib>

#include "cg.h"

#define THREADS 256
#define BLOCKS_MAX 512 /* the most blocks of a scalar product, each of which leaves one sum */

#define CHECK(call_)                                                                                                   \
    do {                                                                                                               \
        cudaError_t error_ = (call_);                                                                                  \
        if (error_ != cudaSuccess) {                                                                                   \
            fprintf(stderr, "cg: %s: %s\n", #call_, cudaGetErrorString(error_));                                       \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

static cudaStream_t stream;
static double *sums; /* device memory: one sum for each block of a scalar product */

const char *cg_open(int number)
{
    static cudaDeviceProp properties;
    int devices;

    CHECK(cudaGetDeviceCount(&devices));
    CHECK(cudaSetDevice(number % devices));
    CHECK(cudaGetDeviceProperties(&properties, number % devices));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMalloc(&sums, BLOCKS_MAX * sizeof(*sums)));
    return properties.name;
}

double *cg_alloc(size_t count)
{
    double *vector;

    CHECK(cudaMalloc(&vector, count * sizeof(*vector)));
    CHECK(cudaMemset(vector, 0, count * sizeof(*vector)));
    CHECK(cudaDeviceSynchronize());
    return vector;
}

void cg_free(double *vector)
{
    CHECK(cudaFree(vector));
}

void cg_to_device(double *to, const double *from, size_t count)
{
    CHECK(cudaMemcpyAsync(to, from, count * sizeof(*to), cudaMemcpyHostToDevice, stream));
    CHECK(cudaStreamSynchronize(stream));
}

void cg_to_host(double *to, const double *from, size_t count)
{
    CHECK(cudaMemcpyAsync(to, from, count * sizeof(*to), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
}

/* Returns the number of blocks that `count` elements need if each thread takes one. */
static unsigned blocks_of(size_t count)
{
    return (unsigned)((count + THREADS - 1) / THREADS);
}

/* Computes y = A x for the five-point stencil of the Poisson equation. A thread for each point. */
static __global__ void stencil(double *y, const double *x, size_t rows, size_t columns)
{
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;

    if (i < rows * columns) {
        const size_t column = i % columns;
        const double *center = &x[i];
        double left = column > 0 ? center[-1] : 0.0, right = column + 1 < columns ? center[1] : 0.0;

        y[i] = 4.0 * center[0] - left - right - *(center - columns) - *(center + columns);
    }
}

void cg_stencil(double *y, const double *x, size_t rows, size_t columns)
{
    stencil<<<blocks_of(rows * columns), THREADS, 0, stream>>>(y, x, rows, columns);
    CHECK(cudaGetLastError());
}

/*
 * Returns the sum of the numbers of a block's threads, to its first thread. All THREADS threads call it, and only once
 * in a kernel: nothing keeps a second call from overwriting what the first one still reads.
 */
static __device__ double add_up(double mine)
{
    __shared__ double partial[THREADS];

    partial[threadIdx.x] = mine;
    for (unsigned half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) {
            partial[threadIdx.x] += partial[threadIdx.x + half];
        }
    }
    return partial[threadIdx.x];
}

/*
 * Computes the scalar product of a and b, but leaves one sum for each block, since blocks cannot wait for one another.
 */
static __global__ void dot_blocks(double *block_sums, const double *a, const double *b, size_t count)
{
    double mine = 0.0;

    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += (size_t)gridDim.x * blockDim.x) {
        mine += a[i] * b[i];
    }
    mine = add_up(mine);
    if (threadIdx.x == 0) {
        block_sums[blockIdx.x] = mine;
    }
}

/* Adds up the sums that dot_blocks has left for `blocks` blocks. Launched with one block. */
static __global__ void dot_end(double *result, const double *block_sums, unsigned blocks)
{
    double mine = 0.0;

    for (unsigned i = threadIdx.x; i < blocks; i += blockDim.x) {
        mine += block_sums[i];
    }
    mine = add_up(mine);
    if (threadIdx.x == 0) {
        *result = mine;
    }
}

/* Both kernels are in one stream: the second one sees the sums, and the next call does not overwrite them too early. */
void cg_dot(double *result, const double *a, const double *b, size_t count)
{
    const unsigned blocks = blocks_of(count) < BLOCKS_MAX ? blocks_of(count) : BLOCKS_MAX;

    dot_blocks<<<blocks, THREADS, 0, stream>>>(sums, a, b, count);
    dot_end<<<1, THREADS, 0, stream>>>(result, sums, blocks);
    CHECK(cudaGetLastError());
}

/* Moves the solution along the direction p, and updates the residual. A thread for each element. */
static __global__ void advance(double *x, double *r, const double *p, const double *ap, const double *rr,
                               const double *pap, size_t count)
{
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    const double alpha = *rr / *pap;

    if (i < count) {
        x[i] += alpha * p[i];
        r[i] -= alpha * ap[i];
    }
}

void cg_advance(double *x, double *r, const double *p, const double *ap, const double *rr, const double *pap,
                size_t count)
{
    advance<<<blocks_of(count), THREADS, 0, stream>>>(x, r, p, ap, rr, pap, count);
    CHECK(cudaGetLastError());
}

/* Computes the next direction, from the residual and the last one. A thread for each element. */
static __global__ void turn(double *p, const double *r, const double *rr_new, const double *rr, size_t count)
{
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    const double beta = *rr_new / *rr;

    if (i < count) {
        p[i] = r[i] + beta * p[i];
    }
}

void cg_turn(double *p, const double *r, const double *rr_new, const double *rr, size_t count)
{
    turn<<<blocks_of(count), THREADS, 0, stream>>>(p, r, rr_new, rr, count);
    CHECK(cudaGetLastError());
}

void cg_wait(void)
{
    CHECK(cudaStreamSynchronize(stream));
}

void *cg_stream(void)
{
    return stream;
}
