/* Streams of the host twin. */
#include "mpix/internal.h"

#include <stddef.h>

#include "mpix/include/mpix_mscclpp.h"

/*
 * Returns the component's table for a function that needs `pointer`, an argument of the program. The functions of this
 * file have no communicator, so their errors are only returned. In these cases returns NULL and sets *code_p:
 * - MPI_ERR_UNSUPPORTED_OPERATION: there is no component.
 * - MPI_ERR_ARG: the pointer is NULL.
 * - MPI_ERR_OTHER: the component is of another version.
 */
static const mca_coll_mscclpp_api_t *component_for(const void *pointer, int *code_p)
{
    const mca_coll_mscclpp_api_t *component = mpix_component(code_p);

    if (*code_p == MPI_SUCCESS && component == NULL) {
        *code_p = MPI_ERR_UNSUPPORTED_OPERATION;
    } else if (*code_p == MPI_SUCCESS && pointer == NULL) {
        *code_p = MPI_ERR_ARG;
    }
    return *code_p == MPI_SUCCESS ? component : NULL;
}

int MPIX_Mscclpp_host_stream_create(void **stream)
{
    int code;
    const mca_coll_mscclpp_api_t *component = component_for((void *)stream, &code);

    return component == NULL ? code : component->host_stream_create(stream);
}

int MPIX_Mscclpp_host_stream_sync(void *stream)
{
    int code;
    const mca_coll_mscclpp_api_t *component = component_for(stream, &code);

    return component == NULL ? code : component->wait(stream);
}

int MPIX_Mscclpp_host_stream_destroy(void *stream)
{
    int code;
    const mca_coll_mscclpp_api_t *component = component_for(stream, &code);

    return component == NULL ? code : component->host_stream_destroy(stream);
}

int MPIX_Mscclpp_host_launch(void *stream, void (*function)(void *argument), void *argument)
{
    int code;
    const mca_coll_mscclpp_api_t *component = component_for(stream, &code);

    if (component != NULL && function == NULL) {
        return MPI_ERR_ARG;
    }
    return component == NULL ? code : component->host_call(stream, function, argument);
}

int MPIX_Mscclpp_host_capture_begin(void *stream)
{
    int code;
    const mca_coll_mscclpp_api_t *component = component_for(stream, &code);

    return component == NULL ? code : component->host_capture_begin(stream);
}

int MPIX_Mscclpp_host_capture_end(void *stream, void **graph)
{
    int code;
    const mca_coll_mscclpp_api_t *component = component_for(stream, &code);

    if (component != NULL && graph == NULL) {
        return MPI_ERR_ARG;
    }
    return component == NULL ? code : component->host_capture_end(stream, graph);
}

int MPIX_Mscclpp_host_graph_launch(void *graph, void *stream)
{
    int code;
    const mca_coll_mscclpp_api_t *component = component_for(stream, &code);

    if (component != NULL && graph == NULL) {
        return MPI_ERR_ARG;
    }
    return component == NULL ? code : component->host_graph_launch(graph, stream);
}

int MPIX_Mscclpp_host_graph_destroy(void *graph)
{
    int code;
    const mca_coll_mscclpp_api_t *component = component_for(graph, &code);

    return component == NULL ? code : component->host_graph_destroy(graph);
}

int MPIX_Mscclpp_host_while(void *stream, void *body, const uint64_t *condition)
{
    int code;
    const mca_coll_mscclpp_api_t *component = component_for(stream, &code);

    if (component != NULL && (body == NULL || condition == NULL)) {
        return MPI_ERR_ARG;
    }
    return component == NULL ? code : component->host_loop(stream, body, condition);
}

int MPIX_Mscclpp_host_graph_append(void *graph, void *added)
{
    int code;
    const mca_coll_mscclpp_api_t *component = component_for(graph, &code);

    if (component != NULL && added == NULL) {
        return MPI_ERR_ARG;
    }
    return component == NULL ? code : component->host_graph_append(graph, added);
}
