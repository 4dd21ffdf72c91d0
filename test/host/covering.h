/*
 * Pairwise covering of several dimensions with a few values each. A greedy choice finds few rows such that any two
 * values of two dimensions occur together in some row. These rows find faults that two values cause together, and they
 * are a small part of all combinations.
 */
#ifndef TEST_HOST_COVERING_H
#define TEST_HOST_COVERING_H

#include <stdbool.h>
#include <stdint.h>

#define COVERING_DIMS 16

typedef struct {
    int dims;
    int values[COVERING_DIMS]; /* of each dimension: 0 to one less than this */

    /*
     * Turns an impossible row into a possible one, deterministically. A value of -1 means that the dimension has no
     * part in the row.
     */
    void (*settle)(const void *context, int *row);
    const void *context;
} covering_t;

typedef struct {
    int (*rows)[COVERING_DIMS]; /* freed by the caller */
    int count;
    int pairs;      /* pairs of values that some row has */
    int impossible; /* pairs for which no attempt found a row */
} covering_result_t;

void covering_build(const covering_t *covering, uint64_t seed, covering_result_t *result);

/* True if some row has both values. */
bool covering_has(const covering_result_t *result, int dim_a, int a, int dim_b, int b);

#endif
