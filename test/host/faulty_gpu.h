/*
 * The host twin's runtime with faults. On the thread that asks for it, the nth call of one function fails as with a
 * broken driver. The runtime also counts resources that are held, so that a test sees what an error path leaks.
 */
#ifndef TEST_HOST_FAULTY_GPU_H
#define TEST_HOST_FAULTY_GPU_H

#include <stdbool.h>

#include "mca/common/gpu/gpu.h"

typedef enum {
    FAULTY_DEVICE_INFO,
    FAULTY_PRELOAD,
    FAULTY_REACH,
    FAULTY_DEVICE_ALLOC,
    FAULTY_TEMP_ALLOC,
    FAULTY_HOST_ALLOC,
    FAULTY_HOST_REGISTER,
    FAULTY_EXPORT,
    FAULTY_IMPORT,
    FAULTY_STREAM_CREATE,
    FAULTY_STREAM_QUERY,
    FAULTY_STREAM_SYNC,
    FAULTY_COPY,
    FAULTY_PUT,
    FAULTY_EVENT_CREATE,
    FAULTY_EVENT_RECORD,
    FAULTY_EVENT_QUERY,
    FAULTY_LAUNCH,
    FAULTY_PREPARE,
    FAULTY_LAST
} faulty_function_t;

extern const mscclpp_gpu_ops_t faulty_gpu_ops;

const char *faulty_name(faulty_function_t function);

/* The nth call from now on (1: the next one) of this thread fails with `status`. */
void faulty_arm(faulty_function_t function, int nth, mscclpp_status_t status);

/* From now on nothing fails. True if the fault has happened. */
bool faulty_disarm(void);

/* How many resources are held now: allocations, mappings, streams and events together, of all threads. */
int faulty_held(void);

#endif
