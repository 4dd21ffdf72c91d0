/*
 * Streams and graphs of the host twin, for libmpix_mscclpp: functions of the table in native/api.h, which says what
 * they do.
 */
#ifndef MCA_COLL_MSCCLPP_NATIVE_HOST_STREAMS_H
#define MCA_COLL_MSCCLPP_NATIVE_HOST_STREAMS_H

#include <stdint.h>

int mca_coll_mscclpp_is_twin(void);
int mca_coll_mscclpp_host_stream_create(void **stream_p);
int mca_coll_mscclpp_host_stream_destroy(void *stream);
int mca_coll_mscclpp_host_call(void *stream, void (*function)(void *argument), void *argument);
int mca_coll_mscclpp_host_capture_begin(void *stream);
int mca_coll_mscclpp_host_capture_end(void *stream, void **graph_p);
int mca_coll_mscclpp_host_graph_launch(void *graph, void *stream);
int mca_coll_mscclpp_host_graph_destroy(void *graph);
int mca_coll_mscclpp_host_loop(void *stream, void *body, const uint64_t *condition);
int mca_coll_mscclpp_host_graph_append(void *graph, void *added);

#endif
