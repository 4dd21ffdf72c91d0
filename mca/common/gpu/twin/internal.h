/* Declarations that the files of the host twin's runtime share. */
#ifndef MCA_COMMON_GPU_TWIN_INTERNAL_H
#define MCA_COMMON_GPU_TWIN_INTERNAL_H

#include "mca/common/gpu/gpu.h"

#define TWIN_DEVICE 0 /* the twin's only device */

/* twin/memory.c: returns MSCCLPP_ERR_INVALID for any device other than the twin's only one. */
mscclpp_status_t mscclpp_twin_check_device(int device);

/*
 * Allocates zeroed memory of the process, aligned to a page, which the caller frees with free(). Returns
 * MSCCLPP_ERR_INVALID for 0 bytes, or MSCCLPP_ERR_NO_MEMORY. Both are logged, and *address_p is then unchanged.
 */
mscclpp_status_t mscclpp_twin_alloc_zeroed(size_t size, void **address_p);

/* twin/stream.c: functions of mscclpp_gpu_ops_t, where they are described. */
mscclpp_status_t mscclpp_twin_stream_create(int device, mscclpp_gpu_stream_t **stream_p);
mscclpp_status_t mscclpp_twin_stream_wrap(int device, void *native, mscclpp_gpu_stream_t **stream_p);
mscclpp_status_t mscclpp_twin_stream_ask(int device, void *native, mscclpp_gpu_ask_fn_t use, void *context);
bool mscclpp_twin_is_capturing(mscclpp_gpu_stream_t *stream);
mscclpp_status_t mscclpp_twin_retain(mscclpp_gpu_stream_t *stream, void (*release)(void *object), void *object);
mscclpp_status_t mscclpp_twin_stream_query(mscclpp_gpu_stream_t *stream);
mscclpp_status_t mscclpp_twin_stream_sync(mscclpp_gpu_stream_t *stream);
void mscclpp_twin_stream_destroy(mscclpp_gpu_stream_t *stream);
mscclpp_status_t mscclpp_twin_temp_alloc(mscclpp_gpu_stream_t *stream, size_t size, void **address_p);
void mscclpp_twin_temp_free(mscclpp_gpu_stream_t *stream, void *address);
mscclpp_status_t mscclpp_twin_copy_rows(mscclpp_gpu_stream_t *stream, void *to, const void *from, size_t pitch,
                                        size_t width, size_t rows);
mscclpp_status_t mscclpp_twin_stream_copy(mscclpp_gpu_stream_t *stream, void *to, const void *from, size_t size);
mscclpp_status_t mscclpp_twin_copy_batch(mscclpp_gpu_stream_t *stream, const mscclpp_gpu_copy_t *copies, size_t count);
mscclpp_status_t mscclpp_twin_put(mscclpp_gpu_stream_t *stream, void *to, const void *from, size_t size);
mscclpp_status_t mscclpp_twin_event_create(int device, mscclpp_gpu_event_t **event_p);
void mscclpp_twin_event_destroy(mscclpp_gpu_event_t *event);
mscclpp_status_t mscclpp_twin_event_record(mscclpp_gpu_event_t *event, mscclpp_gpu_stream_t *stream);
mscclpp_status_t mscclpp_twin_event_query(mscclpp_gpu_event_t *event);
mscclpp_status_t mscclpp_twin_launch(mscclpp_gpu_stream_t *stream, const mscclpp_dev_launch_t *launch);
mscclpp_status_t mscclpp_twin_launch_prepare(int device, const mscclpp_dev_launch_t *launch,
                                             mscclpp_gpu_prepared_t **prepared_p);
mscclpp_status_t mscclpp_twin_launch_prepared(mscclpp_gpu_stream_t *stream, mscclpp_gpu_prepared_t *prepared);
void mscclpp_twin_prepared_destroy(mscclpp_gpu_prepared_t *prepared);

#endif
