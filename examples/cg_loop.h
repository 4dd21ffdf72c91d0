/*
 * What the solver in cg_loop.c asks of the device beside cg.h: the same operations in the order of a stream, and a loop
 * that the device repeats by itself. cg_loop_cuda.cu does this by a WHILE node of a CUDA graph, cg_loop_host.c by a
 * loop of the host twin. Errors end the program.
 */
#ifndef EXAMPLES_CG_LOOP_H
#define EXAMPLES_CG_LOOP_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What ends the loop, in device memory. */
typedef struct {
    double limit;     /* of the squared residual: the loop ends at or below it */
    double max_steps; /* the loop ends after so many steps */
    double steps;     /* number of steps so far */
} loop_control_t;

/*
 * Makes the stream and the loop; call cg_open first. loop_next will use `control`, in device memory. Ends the program
 * with exit status 77 where there are no such loops.
 */
void loop_open(loop_control_t *control);
void loop_close(void);

/* Returns the stream that all of these use: a cudaStream_t, or a stream of the host twin. */
void *loop_stream(void);

/* Queues a copy of `count` numbers within device memory. */
void loop_copy(double *to, const double *from, size_t count);

/* Queue the operations of cg.h. */
void loop_stencil(double *y, const double *x, size_t rows, size_t columns);
void loop_dot(double *result, const double *a, const double *b, size_t count);
void loop_advance(double *x, double *r, const double *p, const double *ap, const double *rr, const double *pap,
                  size_t count);
void loop_turn(double *p, const double *r, const double *rr_new, const double *rr, size_t count);

/*
 * Queues the last operation of a step: it sets *rr to *rr_new, counts the step, and decides whether the loop goes on.
 */
void loop_next(double *rr, const double *rr_new);

/* What is put into the stream between these two calls becomes the loop's body, and is not carried out yet. */
void loop_begin(void);
void loop_end(void);

/* Launches the loop once, and waits until it has ended. */
void loop_run(void);

/* Waits until all that is in the stream is done. */
void loop_wait(void);

#ifdef __cplusplus
}
#endif

#endif
