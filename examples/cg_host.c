/* The solver's operations on the CPU, for machines without a GPU: see cg.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cg.h"

const char *cg_open(int number)
{
    (void)number;
    return "CPU";
}

double *cg_alloc(size_t count)
{
    double *vector = calloc(count, sizeof(*vector));

    if (vector == NULL) {
        fprintf(stderr, "cg: no memory for %zu numbers\n", count);
        exit(1);
    }
    return vector;
}

void cg_free(double *vector)
{
    free(vector);
}

void cg_to_device(double *to, const double *from, size_t count)
{
    memcpy(to, from, count * sizeof(*to));
}

void cg_to_host(double *to, const double *from, size_t count)
{
    memcpy(to, from, count * sizeof(*to));
}

/* Points beyond the left and right edge of the square are 0. Rows above and below are in x. */
void cg_stencil(double *y, const double *x, size_t rows, size_t columns)
{
    for (size_t row = 0; row < rows; ++row) {
        for (size_t column = 0; column < columns; ++column) {
            const double *center = &x[row * columns + column];
            double left = column > 0 ? center[-1] : 0.0, right = column + 1 < columns ? center[1] : 0.0;

            y[row * columns + column] = 4.0 * center[0] - left - right - *(center - columns) - *(center + columns);
        }
    }
}

void cg_dot(double *result, const double *a, const double *b, size_t count)
{
    double sum = 0.0;

    for (size_t i = 0; i < count; ++i) {
        sum += a[i] * b[i];
    }
    *result = sum;
}

void cg_advance(double *x, double *r, const double *p, const double *ap, const double *rr, const double *pap,
                size_t count)
{
    const double alpha = *rr / *pap;

    for (size_t i = 0; i < count; ++i) {
        x[i] += alpha * p[i];
        r[i] -= alpha * ap[i];
    }
}

void cg_turn(double *p, const double *r, const double *rr_new, const double *rr, size_t count)
{
    const double beta = *rr_new / *rr;

    for (size_t i = 0; i < count; ++i) {
        p[i] = r[i] + beta * p[i];
    }
}

void cg_wait(void)
{
}

void *cg_stream(void)
{
    return NULL;
}
