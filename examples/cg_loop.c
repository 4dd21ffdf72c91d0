/*
 * The conjugate-gradient method in a loop of a CUDA graph: from the launch of the graph to the solution, no step
 * returns to the CPU.
 *
 * The problem is that of cg.c. The calls of MPI are queued (mpix_mscclpp.h) and captured in the loop's body, beside the
 * kernels. The last kernel of a step tells from the residual whether there is another one. All ranks have the same
 * residual, bit by bit, so all of them stop after the same step.
 *
 * Usage: mpirun -n RANKS --mca coll mscclpp cg_loop_cuda [N]
 *        mpirun -n RANKS --mca coll mscclpp --mca coll_mscclpp_device host cg_loop_host [N]
 */
#include <math.h>
#include <mpi.h>
#include <mpix_mscclpp.h>
#include <stdio.h>
#include <stdlib.h>

#include "cg.h"
#include "cg_loop.h"

#define SIZE_MAX_ALLOWED 16384L
#define TOLERANCE 1e-10 /* of the residual, relative to the first one */
#define ERROR_ALLOWED 1e-6
#define QUEUED_CALLS 5 /* an all-gather and an all-reduce before the loop, one all-gather and two all-reduces in it */

static int rank, size;

/* This rank's rows of the grid, and the first and last rows of all ranks. */
typedef struct {
    size_t columns;
    size_t first; /* index of this rank's first row in the grid */
    size_t rows;
    double *edges;     /* device memory: this rank's first and last row */
    double *all_edges; /* device memory: the edges of all ranks, in the order of ranks */
} part_t;

/* Returns the value that the solver is to find at a point of the grid of n x n points. */
static double solution(size_t row, size_t column, size_t n)
{
    const double x = (double)(column + 1) / (double)(n + 1), y = (double)(row + 1) / (double)(n + 1);

    return x * (1.0 - x) * exp(y) * sin(7.0 * y);
}

/*
 * Queues the exchange that fills the rows above and below this rank's part of `vector` with those of its neighbours. At
 * the edges of the square they stay 0. Each rank gets the first and last rows of all; row 2 i of part->all_edges is the
 * first one of rank i, and row 2 i + 1 the last one.
 */
static void exchange_borders(double *vector, const part_t *part)
{
    const size_t columns = part->columns, last_row = (part->rows - 1) * columns;

    loop_copy(part->edges, vector, columns);
    loop_copy(part->edges + columns, vector + last_row, columns);
    MPIX_Mscclpp_allgather_enqueue(part->edges, 2 * (MPI_Count)columns, MPI_DOUBLE, part->all_edges,
                                   2 * (MPI_Count)columns, MPI_DOUBLE, MPI_COMM_WORLD, loop_stream());
    if (rank > 0) {
        loop_copy(vector - columns, part->all_edges + (2 * (size_t)rank - 1) * columns, columns);
    }
    if (rank + 1 < size) {
        loop_copy(vector + part->rows * columns, part->all_edges + (2 * (size_t)rank + 2) * columns, columns);
    }
}

/* Queues a scalar product over all ranks, which leaves *result in device memory on each of them. */
static void dot(double *result, const double *a, const double *b, size_t count)
{
    loop_dot(result, a, b, count);
    MPIX_Mscclpp_allreduce_enqueue(MPI_IN_PLACE, result, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, loop_stream());
}

/*
 * Queues one step of the method, the body of the loop. `scalars` are, as in cg.c, the squared residual before the step
 * and after it, and p times ap.
 */
static void step(double *x, double *r, double *p, double *ap, double *scalars, const part_t *part)
{
    const size_t count = part->rows * part->columns;
    double *rr = &scalars[0], *rr_new = &scalars[1], *pap = &scalars[2];

    exchange_borders(p, part);
    loop_stencil(ap, p, part->rows, part->columns);
    dot(pap, p, ap, count);
    loop_advance(x, r, p, ap, rr, pap, count);
    dot(rr_new, r, r, count);
    loop_turn(p, r, rr_new, rr, count);
    loop_next(rr, rr_new);
}

/*
 * Sets up the problem, captures a step as the loop's body, launches the loop once, and compares with the known
 * solution. Returns 0 if it is right on all ranks, 1 if not, and 2 for a number of points that is not allowed. It is
 * not right either if the loop only ended by its limit of steps, or if a call waited for the stream instead of being
 * queued.
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
            fprintf(stderr,
                    "cg_loop: '%s' is not allowed; use a number of points from %d, the number of ranks, to %ld\n",
                    argc > 1 ? argv[1] : "256", size, SIZE_MAX_ALLOWED);
        }
        MPI_Finalize();
        return 2;
    }
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine);
    MPI_Comm_rank(machine, &machine_rank);
    MPI_Comm_free(&machine);

    const char *device = cg_open(machine_rank);
    part_t part = {.columns = (size_t)n, .first = (size_t)n * (size_t)rank / (size_t)size};
    part.rows = (size_t)n * (size_t)(rank + 1) / (size_t)size - part.first;
    part.edges = cg_alloc(2 * part.columns);
    part.all_edges = cg_alloc(2 * part.columns * (size_t)size);
    const size_t count = part.rows * part.columns, bordered = count + 2 * part.columns;
    double *x = cg_alloc(count), *r = cg_alloc(count), *ap = cg_alloc(count), *scalars = cg_alloc(3);
    double *bordered_p = cg_alloc(bordered), *p = bordered_p + part.columns;
    double *control_memory = cg_alloc(sizeof(loop_control_t) / sizeof(double));
    double *host = malloc(count * sizeof(double));
    loop_control_t control = {0.0, 20.0 * (double)n + 100.0, 0.0};

    loop_open((loop_control_t *)control_memory);
    /* b = A times the solution; r = p = b, as x is 0 at first. */
    for (size_t i = 0; i < count; ++i) {
        host[i] = solution(part.first + i / part.columns, i % part.columns, part.columns);
    }
    cg_to_device(p, host, count);
    /* The communicator's first queued call waits for all ranks, which a captured one cannot do, so it comes before. */
    exchange_borders(p, &part);
    loop_stencil(r, p, part.rows, part.columns);
    loop_copy(p, r, count);
    dot(&scalars[0], r, r, count);
    loop_wait();
    cg_to_host(&control.limit, &scalars[0], 1);
    control.limit *= TOLERANCE * TOLERANCE;
    cg_to_device(control_memory, (const double *)&control, sizeof(control) / sizeof(double));

    loop_begin();
    step(x, r, p, ap, scalars, &part);
    loop_end();
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    loop_run();
    double seconds = MPI_Wtime() - start;

    double error = 0.0, largest_error;
    cg_to_host((double *)&control, control_memory, sizeof(control) / sizeof(double));
    cg_to_host(host, x, count);
    for (size_t i = 0; i < count; ++i) {
        double wanted = solution(part.first + i / part.columns, i % part.columns, part.columns);
        error = fmax(error, fabs(host[i] - wanted));
    }
    MPI_Count queued = 0;
    MPIX_Mscclpp_query(MPI_COMM_WORLD, MPIX_MSCCLPP_QUERY_QUEUED, &queued);
    if (isnan(error) || error > ERROR_ALLOWED || control.steps >= control.max_steps || queued != QUEUED_CALLS) {
        error = INFINITY; /* MPI_MAX may overlook a NaN */
    }
    MPI_Reduce(&error, &largest_error, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Bcast(&largest_error, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("cg_loop: %ld x %ld points on %d ranks (%s): %.0f steps of %.1f us in one launch, largest error %.1e: "
               "%s\n",
               n, n, size, device, control.steps, 1e6 * seconds / control.steps, largest_error,
               largest_error <= ERROR_ALLOWED ? "right" : "WRONG");
    }
    loop_close();
    free(host);
    cg_free(control_memory);
    cg_free(bordered_p);
    cg_free(scalars);
    cg_free(ap);
    cg_free(r);
    cg_free(x);
    cg_free(part.all_edges);
    cg_free(part.edges);
    MPI_Finalize();
    return largest_error <= ERROR_ALLOWED ? 0 : 1;
}
