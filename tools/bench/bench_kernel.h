/*
 * Kernels as an application launches them, to be put between measured calls: they spin for a given time, or multiply
 * matrices. For CUDA only. The driver and cuBLAS are opened at run time. Functions that return a bool print one line
 * and return false on failure.
 */
#ifndef TOOLS_BENCH_BENCH_KERNEL_H
#define TOOLS_BENCH_BENCH_KERNEL_H

#include <stdbool.h>

typedef enum {
    BENCH_KERNEL_NONE,
    BENCH_KERNEL_BARRIER, /* no kernel: all ranks meet before the calls */
    BENCH_KERNEL_WAVES,   /* as many threads as the GPU can hold at once */
    BENCH_KERNEL_FULL,    /* a block for each multiprocessor, with most of its shared memory */
    BENCH_KERNEL_HALF,    /* as FULL, on half of the multiprocessors, which leaves the others free */
    BENCH_KERNEL_COOP,    /* as FULL, launched cooperatively */
    BENCH_KERNEL_GEMM     /* a product of square matrices by cuBLAS */
} bench_kernel_kind_t;

/*
 * Loads a kernel of the kind waves, full, half or coop that spins for `microseconds`. Each launch queues it in
 * `stream`.
 */
bool bench_kernel_open(bench_kernel_kind_t kind, int device, double microseconds, void *stream);
bool bench_kernel_launch(void);
void bench_kernel_close(void); /* also if no kernel is loaded */

/* Loads cuBLAS. `prints`: this rank prints the line if there is no cuBLAS. */
bool bench_gemm_load(bool prints);

/*
 * Finds, by trials, the smallest matrices whose product takes at least `microseconds`, and yields their number of rows.
 * bench_gemm_open then makes matrices of this size, for products in `stream`.
 */
bool bench_gemm_choose(double microseconds, void *stream, int *rows_p);
bool bench_gemm_open(int rows, void *stream);
bool bench_gemm_launch(void); /* one product, of the matrices that bench_gemm_open has made */
void bench_gemm_close(void);  /* also if nothing is open */

#endif
