/*
 * The conjugate-gradient method on GPUs, with plain MPI_Allreduce on device buffers.
 *
 * Solves the Poisson equation on a square of N x N points. Each rank owns some rows of the grid. One step of the method
 * takes two scalar products over all ranks. Each is one number in device memory, which MPI_Allreduce sums up where it
 * is: nothing is copied to the host, and the next kernel reads the sum.
 *
 * Rows at the borders go to the neighbours through host memory, since an Open MPI without CUDA cannot send device
 * buffers from rank to rank.
 *
 * Usage: mpirun -n RANKS --mca coll mscclpp cg_cuda [N]
 *        mpirun -n RANKS --mca coll mscclpp --mca coll_mscclpp_device host cg_host [N]
 */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "cg.h"

#define SIZE_MAX_ALLOWED 16384L
#define TOLERANCE 1e-10 /* of the residual, relative to the first one */
#define ERROR_ALLOWED 1e-6
#define LOOK_EVERY 10 /* steps: looking at the residual copies it to the host, which takes time */

static int rank, size;

/* This rank's rows of the grid. */
typedef struct {
    size_t columns;
    size_t first; /* index of the first row in the grid */
    size_t rows;
} part_t;

/* Prints a message and ends the job. */
static void fail(const char *text)
{
    fprintf(stderr, "cg: rank %d: %s\n", rank, text);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Returns the rows that this rank has of a grid of n x n points. Each rank has at least one. */
static part_t divide(size_t n)
{
    part_t part = {n, n * (size_t)rank / (size_t)size, 0};

    part.rows = n * (size_t)(rank + 1) / (size_t)size - part.first;
    return part;
}

/*
 * Fills the rows above and below this rank's part of `vector` with those of its neighbours. At the edges of the square
 * they stay 0: MPI_PROC_NULL sends nothing, and what was not received is not copied. `border` is host memory for four
 * rows. The kernels that wrote `vector` are waited for first.
 */
static void exchange_borders(double *vector, const part_t *part, double *border)
{
    const int above = rank == 0 ? MPI_PROC_NULL : rank - 1, below = rank == size - 1 ? MPI_PROC_NULL : rank + 1;
    const int columns = (int)part->columns;
    double *first_row = border, *last_row = border + columns;
    double *from_above = last_row + columns, *from_below = from_above + columns;

    cg_wait();
    cg_to_host(first_row, vector, part->columns);
    cg_to_host(last_row, vector + (part->rows - 1) * part->columns, part->columns);
    MPI_Sendrecv(first_row, columns, MPI_DOUBLE, above, 0, from_below, columns, MPI_DOUBLE, below, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    MPI_Sendrecv(last_row, columns, MPI_DOUBLE, below, 1, from_above, columns, MPI_DOUBLE, above, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    if (above != MPI_PROC_NULL) {
        cg_to_device(vector - part->columns, from_above, part->columns);
    }
    if (below != MPI_PROC_NULL) {
        cg_to_device(vector + part->rows * part->columns, from_below, part->columns);
    }
}

/* Computes the scalar product over all ranks, and leaves it at `result`, in device memory, on each of them. */
static void dot(double *result, const double *a, const double *b, const part_t *part)
{
    cg_dot(result, a, b, part->rows * part->columns);
    cg_wait(); /* MPI knows nothing of streams: what it is to read has to be there */
    MPI_Allreduce(MPI_IN_PLACE, result, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

/* Copies a number from device memory, and returns it. */
static double value_of(const double *number)
{
    double value;

    cg_to_host(&value, number, 1);
    return value;
}

/* Returns the value that the solver is to find at a point of the grid of n x n points. */
static double solution(size_t row, size_t column, size_t n)
{
    const double x = (double)(column + 1) / (double)(n + 1), y = (double)(row + 1) / (double)(n + 1);

    return x * (1.0 - x) * exp(y) * sin(7.0 * y);
}

/*
 * Solves A x = b. At first `x` is 0, and both the residual `r` and the direction `p` are b. `p` has a row of ghost
 * points above and below. `ap`, `scalars` (three numbers) and `border` are work space. Stops when the residual is small
 * enough, which is only looked at every LOOK_EVERY steps, or after far more steps than that should take. Returns the
 * number of steps.
 */
static long solve(double *x, double *r, double *p, double *ap, double *scalars, const part_t *part, double *border)
{
    const size_t count = part->rows * part->columns;
    const long max_steps = 20 * (long)part->columns + 100; /* far more than are needed */
    double *rr = &scalars[0], *rr_new = &scalars[1], *pap = &scalars[2], *old_rr;
    double first_square, square; /* of the residual */
    long step;

    dot(rr, r, r, part);
    first_square = square = value_of(rr);
    for (step = 0; step < max_steps && square > TOLERANCE * TOLERANCE * first_square; ++step) {
        exchange_borders(p, part, border);
        cg_stencil(ap, p, part->rows, part->columns);
        dot(pap, p, ap, part);
        cg_advance(x, r, p, ap, rr, pap, count);
        dot(rr_new, r, r, part);
        cg_turn(p, r, rr_new, rr, count);
        old_rr = rr;
        rr = rr_new;
        rr_new = old_rr;
        if (step % LOOK_EVERY == LOOK_EVERY - 1) {
            cg_wait();
            square = value_of(rr); /* equal on all ranks, so all of them stop together */
        }
    }
    return step;
}

/*
 * Sets up the problem, solves it, and compares with the known solution. Returns 0 if it is right on all ranks, 1 if
 * not, and 2 for a number of points that is not allowed. MPI ends the program if one of its calls fails.
 */
int main(int argc, char **argv)
{
    char *end = NULL;
    long n = argc > 1 ? strtol(argv[1], &end, 10) : 256;
    int machine_rank;
    MPI_Comm machine;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (n < size || n > SIZE_MAX_ALLOWED || (end != NULL && *end != '\0')) {
        if (rank == 0) {
            fprintf(stderr, "cg: '%s' is not allowed; use a number of points from %d, the number of ranks, to %ld\n",
                    argc > 1 ? argv[1] : "256", size, SIZE_MAX_ALLOWED);
        }
        MPI_Finalize();
        return 2;
    }
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine);
    MPI_Comm_rank(machine, &machine_rank);
    MPI_Comm_free(&machine);

    const char *device = cg_open(machine_rank);
    const part_t part = divide((size_t)n);
    const size_t count = part.rows * part.columns, bordered = count + 2 * part.columns;
    double *x = cg_alloc(count), *r = cg_alloc(count), *ap = cg_alloc(count), *scalars = cg_alloc(3);
    double *bordered_p = cg_alloc(bordered), *p = bordered_p + part.columns;
    double *host = malloc(bordered * sizeof(double)), *border = malloc(4 * part.columns * sizeof(double));
    if (host == NULL || border == NULL) {
        fail("no memory");
    }

    /* b = A times the solution; r = p = b, as x is 0 at first. */
    for (size_t i = 0; i < count; ++i) {
        host[i] = solution(part.first + i / part.columns, i % part.columns, part.columns);
    }
    cg_to_device(p, host, count);
    exchange_borders(p, &part, border);
    cg_stencil(r, p, part.rows, part.columns);
    cg_wait();
    cg_to_host(host, r, count);
    cg_to_device(p, host, count);

    double start = MPI_Wtime();
    long steps = solve(x, r, p, ap, scalars, &part, border);
    double seconds = MPI_Wtime() - start;

    double error = 0.0, largest_error;
    cg_wait();
    cg_to_host(host, x, count);
    for (size_t i = 0; i < count; ++i) {
        double wanted = solution(part.first + i / part.columns, i % part.columns, part.columns);
        error = fmax(error, fabs(host[i] - wanted));
    }
    if (isnan(error) || error > ERROR_ALLOWED) {
        error = INFINITY; /* MPI_MAX may overlook a NaN */
    }
    MPI_Reduce(&error, &largest_error, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Bcast(&largest_error, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("cg: %ld x %ld points on %d ranks (%s): %ld steps of %.1f us, largest error %.1e: %s\n", n, n, size,
               device, steps, steps > 0 ? 1e6 * seconds / (double)steps : 0.0, largest_error,
               largest_error <= ERROR_ALLOWED ? "right" : "WRONG");
    }
    free(border);
    free(host);
    cg_free(bordered_p);
    cg_free(scalars);
    cg_free(ap);
    cg_free(r);
    cg_free(x);
    MPI_Finalize();
    return largest_error <= ERROR_ALLOWED ? 0 : 1;
}
