/* Sums in progress, for tests of nonblocking and persistent calls, and counters of what served them. */
#ifndef TEST_MPI_MPI_SUMS_H
#define TEST_MPI_MPI_SUMS_H

#include "test/mpi/mpi_test.h"

#if defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION < 5
#include <mpi-ext.h>
#define PERSISTENT_INIT(Name_) MPIX_##Name_##_init
#else
#define PERSISTENT_INIT(Name_) MPI_##Name_##_init
#endif

typedef struct {
    int count;
    int call; /* makes its operands differ from those of other calls */
    mt_buffer_t send;
    mt_buffer_t recv;
    MPI_Request request;
} sum_t;

/* Number `index` of an operand. */
unsigned sum_value(int rank, int index, int call);

void sum_make(sum_t *sum, int count, int call);
void sum_fill(sum_t *sum, int call); /* with other operands */
void sum_start(sum_t *sum, MPI_Comm comm);
void sum_init(sum_t *sum, MPI_Comm comm); /* as a persistent request */
void sum_free(sum_t *sum);

/*
 * Compare the result of a sum that has ended. _check then frees the sum. _wait waits for the sum, and then does the
 * same as _check.
 */
void sum_compare(const sum_t *sum, const char *what);
void sum_check(sum_t *sum, const char *what);
void sum_wait(sum_t *sum, const char *what);

/* Makes a blocking sum and checks it. */
void sum_now(int count, int call, MPI_Comm comm, const char *what);

typedef struct {
    uint64_t served;
    uint64_t staged;
} counts_t;

counts_t counts_now(void);

/* Checks that since `before` kernels have served exactly `calls` calls, and that nothing was staged. */
void counts_check(counts_t before, uint64_t calls, const char *what);

#endif
