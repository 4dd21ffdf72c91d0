/*
 * Covering of pairs: of several dimensions with a few values each, as few rows as any greedy choice finds such that
 * each two values of two dimensions meet in some row. Faults that two values bring about together are found so, with a
 * small part of the whole product.
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
     * Makes a row that can be of one that cannot, deterministically: a value of -1 says that the dimension has no part
     * in the row.
     */
    void (*settle)(const void *context, int *row);
    const void *context;
} covering_t;

typedef struct {
    int (*rows)[COVERING_DIMS]; /* freed by the caller */
    int count;
    int pairs;      /* that some row has */
    int impossible; /* that no attempt made */
} covering_result_t;

void covering_build(const covering_t *covering, uint64_t seed, covering_result_t *result);

/* True if some row has both values. */
bool covering_has(const covering_result_t *result, int dim_a, int a, int dim_b, int b);

#endif
