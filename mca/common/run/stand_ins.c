/* Device memory that operations in graphs use in place of the user's buffers. */
#include <stdlib.h>

#include "mca/common/base/log.h"
#include "mca/common/gpu/streams.h"
#include "mca/common/run/runner.h"

struct mscclpp_runner_stand_in {
    mscclpp_runner_stand_in_t *next; /* an older one, which is smaller */
    uint64_t size;
    void *memory;
};

/*
 * Allocates device memory while a stream is captured. The memory is ready for any stream at once. Allocates in a stream
 * of the pool, because an allocation in the application's stream would become a part of the graph.
 */
static mscclpp_status_t allocate(mscclpp_runner_t *runner, uint64_t size, void **memory_p)
{
    mscclpp_gpu_stream_t *stream;
    mscclpp_status_t status = mscclpp_stream_get(runner->gpu, runner->device, &stream);

    if (status != MSCCLPP_OK) {
        return status;
    }
    status = runner->gpu->temp_alloc(stream, size, memory_p);
    if (status == MSCCLPP_OK) {
        status = runner->gpu->stream_sync(stream);
        if (status != MSCCLPP_OK) {
            runner->gpu->temp_free(stream, *memory_p);
        }
    }
    mscclpp_stream_put(runner->gpu, runner->device, stream, false);
    return status;
}

/* Keeps the older stand-ins, because graphs may still use them. */
mscclpp_status_t mscclpp_runner_get_stand_in(mscclpp_runner_t *runner, bool is_input, uint64_t bytes, void **memory_p)
{
    mscclpp_runner_stand_in_t **newest = &runner->stand_ins[is_input], *added;
    mscclpp_status_t status;

    if (*newest != NULL && (*newest)->size >= bytes) {
        *memory_p = (*newest)->memory;
        return MSCCLPP_OK;
    }
    added = calloc(1, sizeof(*added));
    if (added == NULL) {
        mscclpp_error("%s: no memory for a call in a graph", runner->group->oob.label);
        return MSCCLPP_ERR_NO_MEMORY;
    }
    /*
     * At least twice as large as the previous stand-in, so that all older stand-ins together are no larger than the
     * newest.
     */
    added->size = *newest != NULL && 2 * (*newest)->size > bytes ? 2 * (*newest)->size : bytes;
    status = allocate(runner, added->size, &added->memory);
    if (status != MSCCLPP_OK) {
        free(added);
        return status;
    }
    added->next = *newest;
    *newest = added;
    *memory_p = added->memory;
    return MSCCLPP_OK;
}

/* If no stream is available, nothing is freed, and the memory stays allocated. */
void mscclpp_runner_free_stand_ins(mscclpp_runner_t *runner)
{
    mscclpp_gpu_stream_t *stream;
    int i;

    if ((runner->stand_ins[0] == NULL && runner->stand_ins[1] == NULL) ||
        mscclpp_stream_get(runner->gpu, runner->device, &stream) != MSCCLPP_OK) {
        return;
    }
    for (i = 0; i < 2; ++i) {
        while (runner->stand_ins[i] != NULL) {
            mscclpp_runner_stand_in_t *freed = runner->stand_ins[i];

            runner->stand_ins[i] = freed->next;
            runner->gpu->temp_free(stream, freed->memory);
            free(freed);
        }
    }
    mscclpp_stream_put(runner->gpu, runner->device, stream, false);
}
