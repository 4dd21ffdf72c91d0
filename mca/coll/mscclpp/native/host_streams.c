/* Passes the calls of libmpix_mscclpp on to the twin's queues and graphs (device/launch/launch.h). */
#include "mca/coll/mscclpp/native/host_streams.h"

#include <errno.h>

#include "mca/coll/mscclpp/ompi/module.h"
#include "mca/common/team/queue.h"

/* Returns the MPI error code for the errno value that a function of the twin has returned; 0 is success. */
static int errno_to_mpi(int error)
{
    switch (error) {
    case 0:
        return OMPI_SUCCESS;
    case ENOMEM:
        return MPI_ERR_NO_MEM;
    case EINVAL:
    case EBUSY:
        return MPI_ERR_ARG;
    default:
        return MPI_ERR_INTERN;
    }
}

int mca_coll_mscclpp_is_twin(void)
{
    return mca_coll_mscclpp_state.gpu != NULL && mca_coll_mscclpp_state.gpu->twin;
}

/* Sets the queue apart: as in a stream of a GPU, work never runs in the thread that queues it. */
int mca_coll_mscclpp_host_stream_create(void **stream_p)
{
    mscclpp_dev_twin_queue_t *queue;
    int error;

    if (!mca_coll_mscclpp_is_twin()) {
        return MPI_ERR_UNSUPPORTED_OPERATION;
    }
    error = mscclpp_dev_twin_queue_create(&queue);
    if (0 == error) {
        mscclpp_dev_twin_queue_set_apart(queue);
        *stream_p = queue;
    }
    return errno_to_mpi(error);
}

int mca_coll_mscclpp_host_stream_destroy(void *stream)
{
    mscclpp_dev_twin_queue_destroy(stream);
    return OMPI_SUCCESS;
}

int mca_coll_mscclpp_host_call(void *stream, void (*function)(void *argument), void *argument)
{
    return errno_to_mpi(mscclpp_dev_twin_call(stream, function, argument));
}

int mca_coll_mscclpp_host_capture_begin(void *stream)
{
    return errno_to_mpi(mscclpp_dev_twin_begin_record(stream));
}

int mca_coll_mscclpp_host_capture_end(void *stream, void **graph_p)
{
    mscclpp_dev_twin_graph_t *graph = NULL;
    const int error = mscclpp_dev_twin_end_record(stream, &graph);

    *graph_p = graph;
    return errno_to_mpi(error);
}

int mca_coll_mscclpp_host_graph_launch(void *graph, void *stream)
{
    return errno_to_mpi(mscclpp_dev_twin_replay(graph, stream));
}

int mca_coll_mscclpp_host_graph_destroy(void *graph)
{
    mscclpp_dev_twin_graph_destroy(graph);
    return OMPI_SUCCESS;
}

int mca_coll_mscclpp_host_loop(void *stream, void *body, const uint64_t *condition)
{
    return errno_to_mpi(mscclpp_dev_twin_loop(stream, body, condition));
}

int mca_coll_mscclpp_host_graph_append(void *graph, void *added)
{
    return errno_to_mpi(mscclpp_dev_twin_append(graph, added));
}
