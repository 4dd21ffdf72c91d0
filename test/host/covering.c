#include "test/host/covering.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/host/elements.h"

#define ATTEMPTS 60 /* for the first row that has a pair at all */
#define CHOICES 12  /* rows of which the one with the most new pairs is taken */

/* The pairs that are covered already: one byte for each two values. */
typedef struct {
    const covering_t *covering;
    int first[COVERING_DIMS]; /* number of a dimension's first value among all values */
    int total;
    unsigned char *done; /* 1: covered, 2: impossible */
} state_t;

/* Returns the memory, or ends the program if it is NULL. */
static void *need(void *memory)
{
    if (memory == NULL) {
        perror("malloc");
        exit(1);
    }
    return memory;
}

static unsigned char *pair_of(const state_t *state, int dim_a, int a, int dim_b, int b)
{
    return &state->done[(size_t)(state->first[dim_a] + a) * (size_t)state->total + (size_t)(state->first[dim_b] + b)];
}

/* Counts the new pairs of a row. `mark`: also marks them as covered. */
static int count_new(const state_t *state, const int *row, bool mark)
{
    int i, k, fresh = 0;

    for (i = 0; i < state->covering->dims; ++i) {
        for (k = i + 1; k < state->covering->dims && row[i] >= 0; ++k) {
            unsigned char *pair = row[k] >= 0 ? pair_of(state, i, row[i], k, row[k]) : NULL;

            if (pair != NULL && *pair != 1) {
                ++fresh;
                *pair = mark ? 1 : *pair;
            }
        }
    }
    return fresh;
}

/* Finds the best of some random rows with a pair of values. False if no row has the pair. */
static bool find_row(const state_t *state, int dim_a, int a, int dim_b, int b, uint64_t *seed, int *best)
{
    const covering_t *covering = state->covering;
    int row[COVERING_DIMS], attempt, found = 0, most = 0, i;

    for (attempt = 0; attempt < ATTEMPTS && found < CHOICES; ++attempt) {
        int fresh;

        for (i = 0; i < covering->dims; ++i) {
            row[i] = (int)random_below(seed, (uint64_t)covering->values[i]);
        }
        row[dim_a] = a;
        row[dim_b] = b;
        covering->settle(covering->context, row);
        if (row[dim_a] != a || row[dim_b] != b) {
            continue;
        }
        ++found;
        fresh = count_new(state, row, false);
        if (fresh > most) {
            most = fresh;
            memcpy(best, row, sizeof(row));
        }
    }
    return found > 0;
}

static void add_row(const state_t *state, covering_result_t *result, const int *row)
{
    result->rows = need(realloc(result->rows, (size_t)(result->count + 1) * sizeof(*result->rows)));
    memcpy(result->rows[result->count++], row, sizeof(*result->rows));
    result->pairs += count_new(state, row, true);
}

/* Covers all pairs of two dimensions. */
static void cover(const state_t *state, int dim_a, int dim_b, uint64_t *seed, covering_result_t *result)
{
    int a, b, row[COVERING_DIMS];

    for (a = 0; a < state->covering->values[dim_a]; ++a) {
        for (b = 0; b < state->covering->values[dim_b]; ++b) {
            unsigned char *pair = pair_of(state, dim_a, a, dim_b, b);

            if (*pair == 0 && find_row(state, dim_a, a, dim_b, b, seed, row)) {
                add_row(state, result, row);
            } else if (*pair == 0) {
                *pair = 2;
            }
        }
    }
}

void covering_build(const covering_t *covering, uint64_t seed, covering_result_t *result)
{
    state_t state = {.covering = covering};
    int i, k;

    memset(result, 0, sizeof(*result));
    for (i = 0; i < covering->dims; ++i) {
        state.first[i] = state.total;
        state.total += covering->values[i];
    }
    state.done = need(calloc((size_t)state.total, (size_t)state.total));
    for (i = 0; i < covering->dims; ++i) {
        for (k = i + 1; k < covering->dims; ++k) {
            cover(&state, i, k, &seed, result);
        }
    }
    for (i = 0; i < state.total * state.total; ++i) {
        result->impossible += state.done[i] == 2;
    }
    free(state.done);
}

bool covering_has(const covering_result_t *result, int dim_a, int a, int dim_b, int b)
{
    int i;

    for (i = 0; i < result->count && !(result->rows[i][dim_a] == a && result->rows[i][dim_b] == b); ++i) {
    }
    return i < result->count;
}
