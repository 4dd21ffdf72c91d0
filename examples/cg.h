/*
 * What the solver in cg.c asks of the device: vectors in its memory, and the four operations of the conjugate-gradient
 * method. cg_cuda.cu does this on a GPU, cg_host.c on the CPU. An operation may still run when its function returns;
 * cg_wait waits for it. Errors end the program.
 */
#ifndef EXAMPLES_CG_H
#define EXAMPLES_CG_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Chooses the device of this process, which is the `number`th one of its machine, from 0. Returns the device's name,
 * for messages.
 */
const char *cg_open(int number);

/* Returns `count` numbers in device memory, all 0. */
double *cg_alloc(size_t count);
void cg_free(double *vector);

/* Copy `count` numbers between device and host memory, and return when that is done. */
void cg_to_device(double *to, const double *from, size_t count);
void cg_to_host(double *to, const double *from, size_t count);

/*
 * Computes y = A x, the five-point stencil of the Laplace operator on `rows` rows of `columns` points each. x has one
 * more row above and one below, which belong to the neighbours; x points to the first own row.
 */
void cg_stencil(double *y, const double *x, size_t rows, size_t columns);

/* Sets *result, in device memory, to the sum of a[i] * b[i]. Adds up in the same order each time. */
void cg_dot(double *result, const double *a, const double *b, size_t count);

/* Moves the solution along p: x += alpha p and r -= alpha ap, with alpha = *rr / *pap, read in device memory. */
void cg_advance(double *x, double *r, const double *p, const double *ap, const double *rr, const double *pap,
                size_t count);

/* Computes the next direction: p = r + beta p, with beta = *rr_new / *rr, read in device memory. */
void cg_turn(double *p, const double *r, const double *rr_new, const double *rr, size_t count);

/* Waits until all operations so far are done. */
void cg_wait(void);

/*
 * Returns the cudaStream_t that the operations use; NULL on the CPU, where they are done when their functions return.
 */
void *cg_stream(void);

#ifdef __cplusplus
}
#endif

#endif
