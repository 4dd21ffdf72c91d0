/*
 * Kernels of a chosen duration: products of square matrices by cuBLAS. The few declarations of cuBLAS that are needed
 * are repeated here, because the library is loaded at run time.
 */
#include "tools/bench/bench_kernel.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tools/bench/bench_cuda.h"
#include "mca/common/base/clock.h"

/* The sizes of matrices that are tried: from the smallest to the largest, multiples of the step. */
#define ROWS_STEP 32
#define MIN_ROWS 64
#define MAX_ROWS 16384

/* Untimed and timed products of a trial. */
#define WARMUP 5
#define PRODUCTS 20

#define OPERATION_NONE 0 /* cuBLAS: CUBLAS_OP_N, a matrix that is not transposed */

typedef int (*cu_alloc_fn_t)(uintptr_t *address, size_t size);
typedef int (*cu_free_fn_t)(uintptr_t address);
typedef int (*cu_set_fn_t)(uintptr_t address, unsigned char byte, size_t size, void *stream);

static struct {
    void *library;
    void *handle;
    uintptr_t matrices; /* device memory of three matrices; 0: none */
    int rows;           /* rows and columns of a matrix */
    int (*create)(void **handle);
    int (*destroy)(void *handle);
    int (*set_stream)(void *handle, void *stream);
    int (*sgemm)(void *handle, int transpose_a, int transpose_b, int m, int n, int k, const float *alpha,
                 const float *a, int lda, const float *b, int ldb, const float *beta, float *c, int ldc);
} blas;

/* Returns true if the call has succeeded. Otherwise prints a line. */
static bool succeeded(const char *name, int result)
{
    if (0 != result) {
        fprintf(stderr, "mscclpp_bench: --between: gemm: %s failed with error %d\n", name, result);
    }
    return 0 == result;
}

/*
 * Finds a function of cuBLAS and stores it at `function_p`, which points to a pointer to a function. If there is none,
 * stores NULL, prints a line if `prints`, and returns false.
 */
static bool find_function(void *function_p, const char *name, bool prints)
{
    void *symbol = dlsym(blas.library, name);

    if (symbol == NULL && prints) {
        fprintf(stderr, "mscclpp_bench: --between: gemm: cuBLAS has no %s\n", name);
    }
    memcpy(function_p, &symbol, sizeof(symbol));
    return symbol != NULL;
}

/*
 * Loads the newest cuBLAS that is installed, unless this was done before, and finds its functions. Returns false on
 * failure, and then prints a line if `prints`.
 */
bool bench_gemm_load(bool prints)
{
    static const char *names[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11", "libcublas.so"};

    for (size_t i = 0; blas.library == NULL && i < sizeof(names) / sizeof(names[0]); ++i) {
        blas.library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    }
    if (blas.library == NULL) {
        if (prints) {
            fprintf(stderr, "mscclpp_bench: --between: gemm needs cuBLAS, and neither libcublas.so.13, .12, .11 nor "
                            "libcublas.so can be loaded\n");
        }
        return false;
    }
    return find_function(&blas.create, "cublasCreate_v2", prints) &&
           find_function(&blas.destroy, "cublasDestroy_v2", prints) &&
           find_function(&blas.set_stream, "cublasSetStream_v2", prints) &&
           find_function(&blas.sgemm, "cublasSgemm_v2", prints);
}

/* Returns the bytes of one of the square matrices. */
static size_t matrix_bytes(void)
{
    return sizeof(float) * (size_t)blas.rows * (size_t)blas.rows;
}

/* Frees the matrices, if there are any. A failure is only reported. */
static void free_matrices(void)
{
    cu_free_fn_t release = 0 != blas.matrices ? (cu_free_fn_t)bench_cuda_find("cuMemFree_v2") : NULL;

    if (release != NULL) {
        succeeded("cuMemFree", release(blas.matrices));
    }
    blas.matrices = 0;
}

/*
 * Frees the previous matrices, allocates three new ones of `rows` rows, and queues in the stream that they are set to
 * 0. No product may still use the previous matrices. On failure prints a line and returns false.
 */
static bool allocate_matrices(int rows, void *stream)
{
    cu_alloc_fn_t alloc = (cu_alloc_fn_t)bench_cuda_find("cuMemAlloc_v2");
    cu_set_fn_t set = (cu_set_fn_t)bench_cuda_find("cuMemsetD8Async");

    free_matrices();
    blas.rows = rows;
    return alloc != NULL && set != NULL && succeeded("cuMemAlloc", alloc(&blas.matrices, 3 * matrix_bytes())) &&
           succeeded("cuMemsetD8Async", set(blas.matrices, 0, 3 * matrix_bytes(), stream));
}

/*
 * Prepares products of matrices of `rows` rows, and waits until they can be launched. The first call makes the handle
 * of cuBLAS, whose products go to its stream; further calls give the same stream and only replace the matrices. After a
 * failure bench_gemm_close frees what was made.
 */
bool bench_gemm_open(int rows, void *stream)
{
    return (blas.handle != NULL || (succeeded("cublasCreate", blas.create(&blas.handle)) &&
                                    succeeded("cublasSetStream", blas.set_stream(blas.handle, stream)))) &&
           allocate_matrices(rows, stream) && bench_cuda_stream_wait(stream);
}

/* Launches one product in the stream of bench_gemm_open, of zeros by zeros. */
bool bench_gemm_launch(void)
{
    const float one = 1, zero = 0;
    int rows = blas.rows;
    float *a = (float *)blas.matrices, *b = (float *)(blas.matrices + matrix_bytes());
    float *c = (float *)(blas.matrices + 2 * matrix_bytes());

    return succeeded("cublasSgemm", blas.sgemm(blas.handle, OPERATION_NONE, OPERATION_NONE, rows, rows, rows, &one, a,
                                               rows, b, rows, &zero, c, rows));
}

/* Launches a number of products, and waits for their end. On failure prints a line and returns false. */
static bool repeat(int products, void *stream)
{
    bool ok = true;

    for (int i = 0; ok && i < products; ++i) {
        ok = bench_gemm_launch();
    }
    return ok && bench_cuda_stream_wait(stream);
}

/*
 * Times products of matrices of `rows` rows, and yields the microseconds of one. On failure prints a line and returns
 * false. The matrices stay allocated.
 */
static bool time_product(int rows, void *stream, double *microseconds_p)
{
    double started;

    if (!bench_gemm_open(rows, stream) || !repeat(WARMUP, stream)) {
        return false;
    }
    started = mscclpp_now();
    if (!repeat(PRODUCTS, stream)) {
        return false;
    }
    *microseconds_p = 1e6 * (mscclpp_now() - started) / PRODUCTS;
    return true;
}

/*
 * Finds the smallest size whose product takes at least `microseconds`, in steps of ROWS_STEP from MIN_ROWS on.
 * Assumes that larger products take longer. Yields MAX_ROWS if no size takes that long. If a product fails, prints
 * a line and returns false.
 */
bool bench_gemm_choose(double microseconds, void *stream, int *rows_p)
{
    int low = MIN_ROWS, high = MIN_ROWS; /* rows of a matrix */
    double product_us;                   /* microseconds of a product */

    /*
     * Double the size until a product takes long enough, and then halve the interval. `low` is too short, or the
     * smallest size. `high` is long enough, or the largest size.
     */
    for (;;) {
        if (!time_product(high, stream, &product_us)) {
            return false;
        }
        if (product_us >= microseconds || high >= MAX_ROWS) {
            break;
        }
        low = high;
        high *= 2;
    }
    while (high - low > ROWS_STEP) {
        int middle = (low + high) / 2 / ROWS_STEP * ROWS_STEP;

        if (!time_product(middle, stream, &product_us)) {
            return false;
        }
        if (product_us < microseconds) {
            low = middle;
        } else {
            high = middle;
        }
    }
    *rows_p = high;
    return true;
}

void bench_gemm_close(void)
{
    free_matrices();
    if (blas.handle != NULL) {
        blas.destroy(blas.handle);
        blas.handle = NULL;
    }
}
