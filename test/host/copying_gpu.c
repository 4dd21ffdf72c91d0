#include "test/host/copying_gpu.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct copy {
    struct copy *next;
    void *to;
    const void *from;
    size_t size;
} copy_t;

struct mscclpp_gpu_stream {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    copy_t *oldest; /* stays here until it is done */
    copy_t *newest;
    bool closing;
};

/* Copies; a word of 8 bytes in one store, as a copy engine does. */
static void do_copy(const copy_t *copy)
{
    if (copy->size == sizeof(uint64_t) && ((uintptr_t)copy->to | (uintptr_t)copy->from) % sizeof(uint64_t) == 0) {
        __atomic_store_n((uint64_t *)copy->to, __atomic_load_n((const uint64_t *)copy->from, __ATOMIC_ACQUIRE),
                         __ATOMIC_RELEASE);
    } else {
        memcpy(copy->to, copy->from, copy->size);
    }
}

/* A stream's thread: carries out its copies in order. */
static void *stream_main(void *argument)
{
    mscclpp_gpu_stream_t *stream = argument;
    unsigned done = 0;

    pthread_mutex_lock(&stream->lock);
    for (;;) {
        copy_t *copy = stream->oldest;

        if (copy == NULL) {
            if (stream->closing) {
                break;
            }
            pthread_cond_wait(&stream->changed, &stream->lock);
            continue;
        }
        pthread_mutex_unlock(&stream->lock);
        if (++done % 64 == 0) {
            nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
        }
        do_copy(copy);
        pthread_mutex_lock(&stream->lock);
        stream->oldest = copy->next;
        free(copy);
        pthread_cond_broadcast(&stream->changed);
    }
    pthread_mutex_unlock(&stream->lock);
    return NULL;
}

/* Makes a stream with a thread. */
static mscclpp_status_t stream_create(int device, mscclpp_gpu_stream_t **stream_p)
{
    mscclpp_gpu_stream_t *stream = calloc(1, sizeof(*stream));

    (void)device;
    if (stream == NULL) {
        return MSCCLPP_ERR_NO_MEMORY;
    }
    pthread_mutex_init(&stream->lock, NULL);
    pthread_cond_init(&stream->changed, NULL);
    if (pthread_create(&stream->thread, NULL, stream_main, stream) != 0) {
        free(stream);
        return MSCCLPP_ERR_SYSTEM;
    }
    *stream_p = stream;
    return MSCCLPP_OK;
}

/* Ends the stream's thread after its last copy. */
static void stream_destroy(mscclpp_gpu_stream_t *stream)
{
    if (stream == NULL) {
        return;
    }
    pthread_mutex_lock(&stream->lock);
    stream->closing = true;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
    pthread_join(stream->thread, NULL);
    pthread_cond_destroy(&stream->changed);
    pthread_mutex_destroy(&stream->lock);
    free(stream);
}

/* Whether the stream is empty. */
static mscclpp_status_t stream_query(mscclpp_gpu_stream_t *stream)
{
    mscclpp_status_t status;

    pthread_mutex_lock(&stream->lock);
    status = stream->oldest == NULL ? MSCCLPP_OK : MSCCLPP_IN_PROGRESS;
    pthread_mutex_unlock(&stream->lock);
    return status;
}

/* Waits until the stream is empty. */
static mscclpp_status_t stream_sync(mscclpp_gpu_stream_t *stream)
{
    pthread_mutex_lock(&stream->lock);
    while (stream->oldest != NULL) {
        pthread_cond_wait(&stream->changed, &stream->lock);
    }
    pthread_mutex_unlock(&stream->lock);
    return MSCCLPP_OK;
}

/* Adds a copy to the stream. */
static mscclpp_status_t enqueue(mscclpp_gpu_stream_t *stream, void *to, const void *from, size_t size)
{
    copy_t *copy = malloc(sizeof(*copy));

    if (copy == NULL) {
        return MSCCLPP_ERR_NO_MEMORY;
    }
    *copy = (copy_t){NULL, to, from, size};
    pthread_mutex_lock(&stream->lock);
    if (stream->oldest == NULL) {
        stream->oldest = copy;
    } else {
        stream->newest->next = copy;
    }
    stream->newest = copy;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
    return MSCCLPP_OK;
}

/* Queues the last copy first, because callers must not rely on an order. */
static mscclpp_status_t enqueue_batch(mscclpp_gpu_stream_t *stream, const mscclpp_gpu_copy_t *copies, size_t count)
{
    mscclpp_status_t status = MSCCLPP_OK;
    size_t i;

    for (i = count; i-- > 0 && status == MSCCLPP_OK;) {
        status = enqueue(stream, copies[i].to, copies[i].from, copies[i].size);
    }
    return status;
}

/* Distinguishes device memory from pinned memory, which the CPU may access. The twin does not. */
static void query(const void *address, mscclpp_mem_info_t *info_p)
{
    mscclpp_gpu_twin_ops.query(address, info_p);
    info_p->kind = info_p->base != NULL ? MSCCLPP_MEM_DEVICE : MSCCLPP_MEM_PINNED;
}

static mscclpp_gpu_ops_t ops;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Fills in the table: that of the twin, with these streams. */
static void fill(void)
{
    ops = mscclpp_gpu_twin_ops;
    ops.name = "copying";
    ops.twin = false;
    ops.query = query;
    ops.stream_create = stream_create;
    ops.stream_destroy = stream_destroy;
    ops.stream_wrap = NULL;
    ops.stream_ask = NULL;
    ops.stream_query = stream_query;
    ops.stream_sync = stream_sync;
    ops.temp_alloc = NULL;
    ops.temp_free = NULL;
    ops.copy = enqueue;
    ops.copy_rows = NULL;
    ops.copy_batch = enqueue_batch;
    ops.launch = NULL;
}

const mscclpp_gpu_ops_t *copying_gpu(void)
{
    pthread_once(&once, fill);
    return &ops;
}
