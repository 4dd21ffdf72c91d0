/* The loop on the host twin. See cg_loop.h. */
#include <mpi.h>
#include <mpix_mscclpp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cg.h"
#include "cg_loop.h"

/* An operation in the stream, with its arguments. It is never freed, since the loop repeats it. */
typedef struct operation {
    void (*carry_out)(const struct operation *operation);
    double *to[2];         /* what it writes */
    const double *from[4]; /* what it reads */
    size_t count[2];       /* numbers in a vector, or rows and columns */
} operation_t;

static void *stream;
static void *body; /* the graph that the loop repeats */
static loop_control_t *control;
static uint64_t goes_on; /* the loop's condition */

/* Ends the job if a call failed. */
static void check(int code, const char *what)
{
    if (code != MPI_SUCCESS) {
        fprintf(stderr, "cg_loop: %s failed\n", what);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

/* Carries out the operation_t that `argument` points to. MPIX_Mscclpp_host_launch lets the stream's thread call it. */
static void carry_out(void *argument)
{
    const operation_t *operation = argument;

    operation->carry_out(operation);
}

/* Queues a copy of an operation in the stream, because the caller's ends before the stream's thread reads it. */
static void queue_operation(operation_t operation)
{
    operation_t *kept = malloc(sizeof(*kept));

    check(kept != NULL ? MPI_SUCCESS : MPI_ERR_NO_MEM, "malloc");
    *kept = operation;
    check(MPIX_Mscclpp_host_launch(stream, carry_out, kept), "MPIX_Mscclpp_host_launch");
}

void loop_open(loop_control_t *control_)
{
    control = control_;
    if (MPIX_Mscclpp_host_stream_create(&stream) != MPI_SUCCESS) {
        printf("skipped: no host twin\n");
        exit(77); /* which `check` takes for "skipped" */
    }
}

void loop_close(void)
{
    check(MPIX_Mscclpp_host_graph_destroy(body), "MPIX_Mscclpp_host_graph_destroy");
    check(MPIX_Mscclpp_host_stream_destroy(stream), "MPIX_Mscclpp_host_stream_destroy");
}

void *loop_stream(void)
{
    return stream;
}

/* The operations, which the stream's thread carries out. Each is followed by the function that queues it. */
static void copy(const operation_t *operation)
{
    memcpy(operation->to[0], operation->from[0], operation->count[0] * sizeof(double));
}

void loop_copy(double *to, const double *from, size_t count)
{
    queue_operation((operation_t){copy, {to}, {from}, {count}});
}

static void stencil(const operation_t *operation)
{
    cg_stencil(operation->to[0], operation->from[0], operation->count[0], operation->count[1]);
}

void loop_stencil(double *y, const double *x, size_t rows, size_t columns)
{
    queue_operation((operation_t){stencil, {y}, {x}, {rows, columns}});
}

static void dot(const operation_t *operation)
{
    cg_dot(operation->to[0], operation->from[0], operation->from[1], operation->count[0]);
}

void loop_dot(double *result, const double *a, const double *b, size_t count)
{
    queue_operation((operation_t){dot, {result}, {a, b}, {count}});
}

static void advance(const operation_t *operation)
{
    cg_advance(operation->to[0], operation->to[1], operation->from[0], operation->from[1], operation->from[2],
               operation->from[3], operation->count[0]);
}

void loop_advance(double *x, double *r, const double *p, const double *ap, const double *rr, const double *pap,
                  size_t count)
{
    queue_operation((operation_t){advance, {x, r}, {p, ap, rr, pap}, {count}});
}

static void turn(const operation_t *operation)
{
    cg_turn(operation->to[0], operation->from[0], operation->from[1], operation->from[2], operation->count[0]);
}

void loop_turn(double *p, const double *r, const double *rr_new, const double *rr, size_t count)
{
    queue_operation((operation_t){turn, {p}, {r, rr_new, rr}, {count}});
}

/* Ends a step: takes over the squared residual, counts the step, and decides whether the loop goes on. */
static void next(const operation_t *operation)
{
    *operation->to[0] = *operation->from[0];
    control->steps += 1;
    __atomic_store_n(&goes_on, *operation->to[0] > control->limit && control->steps < control->max_steps,
                     __ATOMIC_RELEASE);
}

void loop_next(double *rr, const double *rr_new)
{
    queue_operation((operation_t){next, {rr}, {rr_new}, {0}});
}

void loop_begin(void)
{
    check(MPIX_Mscclpp_host_capture_begin(stream), "MPIX_Mscclpp_host_capture_begin");
}

void loop_end(void)
{
    check(MPIX_Mscclpp_host_capture_end(stream, &body), "MPIX_Mscclpp_host_capture_end");
}

void loop_run(void)
{
    goes_on = 1;
    check(MPIX_Mscclpp_host_while(stream, body, &goes_on), "MPIX_Mscclpp_host_while");
    loop_wait();
}

void loop_wait(void)
{
    check(MPIX_Mscclpp_host_stream_sync(stream), "MPIX_Mscclpp_host_stream_sync");
}
