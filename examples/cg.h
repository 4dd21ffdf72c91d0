/*
 * What the solver in cg.c asks of the device: vectors in its memory, and the four operations of the conjugate-gradient
 * method. cg_cuda.cu does this on a GPU, cg_host.c on the CPU. The operations may still run when a function returns;
 * cg_wait waits for them.
 */
#ifndef EXAMPLES_CG_H
#define EXAMPLES_CG_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of this process, the `number`th one of its machine. The name is for messages. */
const char *cg_open(int number);

/* `count` zeros in device memory. */
double *cg_alloc(size_t count);
void cg_free(double *vector);

/* Between device and host memory; these have happened when they return. */
void cg_to_device(double *to, const double *from, size_t count);
void cg_to_host(double *to, const double *from, size_t count);

/*
 * y = A x, the five-point stencil of the Laplace operator on `rows` rows of `columns` points each. x has one more row
 * above and one below, which belong to the neighbours; x points to the first own row.
 */
void cg_stencil(double *y, const double *x, size_t rows, size_t columns);

/* *result, in device memory, = sum of a[i] * b[i]; added up in the same order each time. */
void cg_dot(double *result, const double *a, const double *b, size_t count);

/* alpha = *rr / *pap, read in device memory; x += alpha p; r -= alpha ap */
void cg_advance(double *x, double *r, const double *p, const double *ap, const double *rr, const double *pap,
                size_t count);

/* beta = *rr_new / *rr, read in device memory; p = r + beta p */
void cg_turn(double *p, const double *r, const double *rr_new, const double *rr, size_t count);

void cg_wait(void);

/* The cudaStream_t that the operations use; NULL on the CPU, where they have happened when they return. */
void *cg_stream(void);

#ifdef __cplusplus
}
#endif

#endif
