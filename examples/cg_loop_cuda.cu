/* The loop on a GPU: a WHILE node, whose body is captured. See cg_loop.h. */
#include <cstdio>
#include <cstdlib>

#include "cg.h"
#include "cg_loop.h"

#define CHECK(call_)                                                                                                   \
    do {                                                                                                               \
        cudaError_t error_ = (call_);                                                                                  \
        if (error_ != cudaSuccess) {                                                                                   \
            fprintf(stderr, "cg_loop: %s: %s\n", #call_, cudaGetErrorString(error_));                                  \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

static cudaStream_t stream;

void *loop_stream(void)
{
    return stream;
}

void loop_copy(double *to, const double *from, size_t count)
{
    CHECK(cudaMemcpyAsync(to, from, count * sizeof(*to), cudaMemcpyDeviceToDevice, stream));
}

void loop_stencil(double *y, const double *x, size_t rows, size_t columns)
{
    cg_stencil(y, x, rows, columns);
}

void loop_dot(double *result, const double *a, const double *b, size_t count)
{
    cg_dot(result, a, b, count);
}

void loop_advance(double *x, double *r, const double *p, const double *ap, const double *rr, const double *pap,
                  size_t count)
{
    cg_advance(x, r, p, ap, rr, pap, count);
}

void loop_turn(double *p, const double *r, const double *rr_new, const double *rr, size_t count)
{
    cg_turn(p, r, rr_new, rr, count);
}

void loop_wait(void)
{
    CHECK(cudaStreamSynchronize(stream));
}

#if CUDART_VERSION >= 12040

static loop_control_t *control;
static cudaGraph_t graph;
static cudaGraphExec_t instance;
static cudaGraphConditionalHandle handle; /* the loop's condition */

void loop_open(loop_control_t *control_)
{
    control = control_;
    stream = (cudaStream_t)cg_stream();
    CHECK(cudaGraphCreate(&graph, 0));
    /* Each launch of the graph sets the condition to 1, so that the loop begins. */
    CHECK(cudaGraphConditionalHandleCreate(&handle, graph, 1, cudaGraphCondAssignDefault));
}

void loop_close(void)
{
    CHECK(cudaGraphExecDestroy(instance));
    CHECK(cudaGraphDestroy(graph));
}

/*
 * Ends a step: takes over the squared residual, counts the step, and decides whether the graph's loop goes on. One
 * thread, after all other kernels of the step.
 */
static __global__ void next(double *rr, const double *rr_new, loop_control_t *control,
                            cudaGraphConditionalHandle handle)
{
    *rr = *rr_new;
    control->steps += 1;
    cudaGraphSetConditional(handle, *rr > control->limit && control->steps < control->max_steps);
}

void loop_next(double *rr, const double *rr_new)
{
    next<<<1, 1, 0, stream>>>(rr, rr_new, control, handle);
    CHECK(cudaGetLastError());
}

/*
 * Adds a WHILE node to the graph, and begins to capture what is put into the stream as the body of its loop. CUDA makes
 * the body's graph with the node, and returns it in phGraph_out.
 */
void loop_begin(void)
{
    cudaGraphNodeParams params = {};
    cudaGraphNode_t node;

    params.type = cudaGraphNodeTypeConditional;
    params.conditional.handle = handle;
    params.conditional.type = cudaGraphCondTypeWhile;
    params.conditional.size = 1;
#if CUDART_VERSION >= 13000
    CHECK(cudaGraphAddNode(&node, graph, NULL, NULL, 0, &params));
#else
    CHECK(cudaGraphAddNode(&node, graph, NULL, 0, &params));
#endif
    CHECK(cudaStreamBeginCaptureToGraph(stream, params.conditional.phGraph_out[0], NULL, NULL, 0,
                                        cudaStreamCaptureModeRelaxed));
}

void loop_end(void)
{
    cudaGraph_t body;

    CHECK(cudaStreamEndCapture(stream, &body));
    CHECK(cudaGraphInstantiate(&instance, graph, 0));
}

void loop_run(void)
{
    CHECK(cudaGraphLaunch(instance, stream));
    loop_wait();
}

#else

void loop_open(loop_control_t *control_)
{
    (void)control_;
    printf("skipped: WHILE nodes need CUDA 12.4\n");
    exit(77);
}

void loop_close(void)
{
}

void loop_next(double *rr, const double *rr_new)
{
    (void)rr;
    (void)rr_new;
}

void loop_begin(void)
{
}

void loop_end(void)
{
}

void loop_run(void)
{
}

#endif
