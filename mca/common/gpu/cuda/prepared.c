/*
 * Prepared launches: graphs of one kernel each. The driver has written all that the device needs before the start. So a
 * start takes 2 us instead of 4, and the device has nothing to assemble.
 */
#include "mca/common/gpu/cuda/driver.h"

#include <stdlib.h>

struct mscclpp_gpu_prepared {
    cudaGraphExec_t graph;
    int device; /* number of the device for which the graph was made */
};

/*
 * Records the launch in a new graph, by a capture of the stream. Ends the capture even if the launch fails, because
 * otherwise the stream would stay in the capture. The caller destroys the graph; after a failure, there is none. The
 * device must have been entered.
 */
static cudaError_t capture_launch(int device, cudaStream_t stream, const mscclpp_dev_launch_t *launch,
                                  cudaGraph_t *graph_p)
{
    cudaError_t error = CUDA_CALL(MSCCLPP_LOG_DEBUG, cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    cudaError_t launch_error;

    if (cudaSuccess != error) {
        return error;
    }
    launch_error = (cudaError_t)mscclpp_dev_cuda_launch(device, stream, launch);
    error = CUDA_CALL(MSCCLPP_LOG_DEBUG, cudaStreamEndCapture(stream, graph_p));
    if (cudaSuccess != launch_error && cudaSuccess == error) {
        CUDA_RELEASE(cudaGraphDestroy(*graph_p));
    }
    return cudaSuccess != launch_error ? launch_error : error;
}

/*
 * Makes an executable graph of the launch, which the caller destroys. Captures the launch in a stream of the highest
 * priority, because the kernel gets the priority of that stream. Waits for the upload of the graph, so that the first
 * start is as fast as later ones. Failures are logged at the debug level, because the caller can launch the kernel
 * without a graph. The device must have been entered.
 */
static cudaError_t make_graph(int device, const mscclpp_dev_launch_t *launch, cudaGraphExec_t *exec_p)
{
    int lowest = 0, highest = 0;
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaError_t error = CUDA_CALL(MSCCLPP_LOG_DEBUG, cudaDeviceGetStreamPriorityRange(&lowest, &highest));

    if (cudaSuccess == error) {
        error = CUDA_CALL(MSCCLPP_LOG_DEBUG, cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, highest));
    }
    if (cudaSuccess != error) {
        return error;
    }
    error = capture_launch(device, stream, launch, &graph);
    if (cudaSuccess == error) {
        error = CUDA_CALL(MSCCLPP_LOG_DEBUG, cudaGraphInstantiateWithFlags(exec_p, graph, 0));
        CUDA_RELEASE(cudaGraphDestroy(graph));
    }
    if (cudaSuccess == error) {
        error = CUDA_CALL(MSCCLPP_LOG_DEBUG, cudaGraphUpload(*exec_p, stream));
        if (cudaSuccess == error) {
            error = CUDA_CALL(MSCCLPP_LOG_DEBUG, cudaStreamSynchronize(stream));
        }
        if (cudaSuccess != error) {
            CUDA_RELEASE(cudaGraphExecDestroy(*exec_p));
        }
    }
    CUDA_RELEASE(cudaStreamDestroy(stream));
    return error;
}

/*
 * A failure to enter the device is logged as an error. Others are logged at most at the debug level, because the caller
 * can launch without a graph.
 */
mscclpp_status_t mscclpp_cuda_launch_prepare(int device, const mscclpp_dev_launch_t *launch,
                                             mscclpp_gpu_prepared_t **prepared_p)
{
    mscclpp_gpu_prepared_t *prepared = malloc(sizeof(*prepared));
    mscclpp_cuda_scope_t scope;
    mscclpp_status_t status;

    if (prepared == NULL) {
        return MSCCLPP_ERR_NO_MEMORY;
    }
    status = mscclpp_cuda_enter(device, &scope);
    if (MSCCLPP_OK == status) {
        prepared->device = device;
        status = mscclpp_cuda_status(make_graph(device, launch, &prepared->graph));
        mscclpp_cuda_leave(&scope);
    }
    if (MSCCLPP_OK != status) {
        free(prepared);
        return status;
    }
    *prepared_p = prepared;
    return MSCCLPP_OK;
}

/* The stream must belong to the device for which the launch was prepared. */
mscclpp_status_t mscclpp_cuda_launch_prepared(mscclpp_gpu_stream_t *stream, mscclpp_gpu_prepared_t *prepared)
{
    mscclpp_cuda_scope_t scope;
    mscclpp_status_t status = mscclpp_cuda_enter(prepared->device, &scope);

    if (MSCCLPP_OK == status) {
        status = mscclpp_cuda_status(
            CUDA_CALL(MSCCLPP_LOG_ERROR, cudaGraphLaunch(prepared->graph, mscclpp_cuda_native_stream(stream))));
        mscclpp_cuda_leave(&scope);
    }
    return status;
}

/* Frees a prepared launch. If the device cannot be entered, its graph is leaked. NULL is allowed. */
void mscclpp_cuda_prepared_destroy(mscclpp_gpu_prepared_t *prepared)
{
    mscclpp_cuda_scope_t scope;

    if (prepared == NULL) {
        return;
    }
    if (MSCCLPP_OK == mscclpp_cuda_enter(prepared->device, &scope)) {
        CUDA_RELEASE(cudaGraphExecDestroy(prepared->graph));
        mscclpp_cuda_leave(&scope);
    }
    free(prepared);
}
