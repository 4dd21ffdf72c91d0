/* All-reduce over the space of its arguments: groups of random cases, one team a group, every result verified. */
#ifndef TEST_HOST_MATRIX_H
#define TEST_HOST_MATRIX_H

#include <stdbool.h>
#include <stdint.h>

#include "mca/common/base/config.h"

/* The ways to force an algorithm. */
typedef struct {
    const char *name;      /* on the command line and in messages */
    const char *algorithm; /* values of the parameters */
    const char *packet;
    int ranks_per_node;
    bool exchange_stores;
} matrix_algo_t;

extern const matrix_algo_t matrix_algos[];
extern const int matrix_algo_count;

typedef struct {
    const matrix_algo_t *algo;
    int ranks;
    int blocks; /* of the twin's grid */
    int threads;
    size_t scratch_size;
    uint64_t seed;
    int cases;
    int only_case; /* -1: all */
    int dtype;     /* -1: all */
    int op;        /* -1: all */
    double timeout;
    bool verbose;
} matrix_group_t;

/* Prepares what all groups share; call once, before the first group. */
void matrix_init(void);

/* Runs a group and returns how many cases failed. Each failure prints the whole case and how to run it again. */
int matrix_run(const matrix_group_t *group);

int matrix_case_count(void);

/* Finds a type and an operation that no case of the algorithm has combined so far. False if there are none. */
bool matrix_find_missing(const matrix_algo_t *algo, int *dtype_p, int *op_p);

#endif
