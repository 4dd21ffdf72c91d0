#include "mca/common/gpu/streams.h"

#include <pthread.h>
#include <stdlib.h>

/*
 * The streams that no task has borrowed. The last one returned is lent first, so that the same few streams stay in use.
 */
typedef struct idle {
    struct idle *next;
    const mscclpp_gpu_ops_t *gpu;
    int device;
    mscclpp_gpu_stream_t *stream;
    bool may_linger; /* a kernel may still run in it, so it is lent again only when it is seen to be empty */
} idle_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static idle_t *idle_first;

/* Does not lend a stream with `may_linger` that still has work. */
mscclpp_status_t mscclpp_stream_get(const mscclpp_gpu_ops_t *gpu, int device, mscclpp_gpu_stream_t **stream_p)
{
    idle_t **link, *entry;

    pthread_mutex_lock(&lock);
    for (link = &idle_first; (entry = *link) != NULL; link = &entry->next) {
        if (entry->gpu == gpu && entry->device == device &&
            (!entry->may_linger || gpu->stream_query(entry->stream) == MSCCLPP_OK)) {
            *link = entry->next;
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    if (entry == NULL) {
        return gpu->stream_create(device, stream_p);
    }
    *stream_p = entry->stream;
    free(entry);
    return MSCCLPP_OK;
}

/* Puts a stream back at the front of the list. Never fails: if the stream cannot be kept, it is destroyed. */
void mscclpp_stream_put(const mscclpp_gpu_ops_t *gpu, int device, mscclpp_gpu_stream_t *stream, bool may_linger)
{
    idle_t *entry = malloc(sizeof(*entry));

    if (entry == NULL) {
        gpu->stream_destroy(stream);
        return;
    }
    entry->gpu = gpu;
    entry->device = device;
    entry->stream = stream;
    entry->may_linger = may_linger;
    pthread_mutex_lock(&lock);
    entry->next = idle_first;
    idle_first = entry;
    pthread_mutex_unlock(&lock);
}

/* Destroys the idle streams after releasing the lock, because destroying a stream may wait for its work. */
void mscclpp_stream_drain(void)
{
    idle_t *entry;

    pthread_mutex_lock(&lock);
    entry = idle_first;
    idle_first = NULL;
    pthread_mutex_unlock(&lock);
    while (entry != NULL) {
        idle_t *next = entry->next;

        entry->gpu->stream_destroy(entry->stream);
        free(entry);
        entry = next;
    }
}
