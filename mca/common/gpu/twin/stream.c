/* The host twin's streams, and the work that is put into them. A stream is a queue of device/launch/launch.h. */
#include "mca/common/gpu/twin/internal.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mca/common/gpu/twin/copy.h"
#include "mca/common/base/log.h"

/* The number of times that stream_sync yields before it sleeps, and the time of each sleep. */
#define YIELDS_MAX 1000
#define SLEEP_NANOSECONDS 50000

/* Memory given to temp_free that queued kernels may still use. */
typedef struct twin_pending {
    struct twin_pending *next;
    void *address;
} twin_pending_t;

/* `is_owned`: the queue was created here, and is not the application's. */
struct mscclpp_gpu_stream {
    mscclpp_dev_twin_queue_t *queue;
    bool is_owned;
    pthread_mutex_t lock; /* guards `pending` */
    twin_pending_t *pending;
};

struct mscclpp_gpu_event {
    mscclpp_dev_twin_queue_t *queue; /* NULL: not recorded yet */
    uint64_t mark;                   /* number of jobs put into the queue before the event */
};

/* Returns the status for an error number of the functions in device/launch/launch.h. */
static mscclpp_status_t status_of_errno(int error)
{
    switch (error) {
    case ENOMEM:
        return MSCCLPP_ERR_NO_MEMORY;
    case EINVAL:
        return MSCCLPP_ERR_INVALID;
    default:
        return MSCCLPP_ERR_SYSTEM;
    }
}

/*
 * Makes a stream for a queue. With `is_owned`, destroying the stream also destroys the queue. After a failure, which is
 * logged, the queue still exists.
 */
static mscclpp_status_t make_stream(mscclpp_dev_twin_queue_t *queue, bool is_owned, mscclpp_gpu_stream_t **stream_p)
{
    mscclpp_gpu_stream_t *stream = calloc(1, sizeof(*stream));

    if (stream == NULL) {
        mscclpp_error("out of memory for a stream");
        return MSCCLPP_ERR_NO_MEMORY;
    }
    pthread_mutex_init(&stream->lock, NULL);
    stream->queue = queue;
    stream->is_owned = is_owned;
    *stream_p = stream;
    return MSCCLPP_OK;
}

/* Creates a queue, and a stream for it. After a failure, which is logged, nothing is left. */
mscclpp_status_t mscclpp_twin_stream_create(int device, mscclpp_gpu_stream_t **stream_p)
{
    mscclpp_status_t status = mscclpp_twin_check_device(device);
    mscclpp_dev_twin_queue_t *queue;
    int error;

    if (MSCCLPP_OK != status) {
        return status;
    }
    error = mscclpp_dev_twin_queue_create(&queue);
    if (0 != error) {
        errno = error;
        mscclpp_error("cannot create a queue of the host twin: %m");
        return status_of_errno(error);
    }
    status = make_stream(queue, true, stream_p);
    if (MSCCLPP_OK != status) {
        mscclpp_dev_twin_queue_destroy(queue);
    }
    return status;
}

/* Checks a stream of the application. Refuses NULL, which means CUDA's default stream. */
static mscclpp_status_t check_native(int device, const void *native)
{
    mscclpp_status_t status = mscclpp_twin_check_device(device);

    if (MSCCLPP_OK == status && native == NULL) {
        mscclpp_error("the host twin has no default stream to wrap");
        status = MSCCLPP_ERR_INVALID;
    }
    return status;
}

mscclpp_status_t mscclpp_twin_stream_wrap(int device, void *native, mscclpp_gpu_stream_t **stream_p)
{
    mscclpp_status_t status = check_native(device, native);

    return MSCCLPP_OK == status ? make_stream(native, false, stream_p) : status;
}

mscclpp_status_t mscclpp_twin_stream_ask(int device, void *native, mscclpp_gpu_ask_fn_t use, void *context)
{
    mscclpp_gpu_stream_t stream = {.queue = native, .is_owned = false};
    mscclpp_status_t status = check_native(device, native);

    return MSCCLPP_OK == status ? use(&stream, context) : status;
}

/* Frees the memory that waited for the stream's kernels. These must have ended. */
static void free_pending(mscclpp_gpu_stream_t *stream)
{
    twin_pending_t *pending;

    pthread_mutex_lock(&stream->lock);
    pending = stream->pending;
    stream->pending = NULL;
    pthread_mutex_unlock(&stream->lock);
    while (pending != NULL) {
        twin_pending_t *next = pending->next;
        free(pending->address);
        free(pending);
        pending = next;
    }
}

bool mscclpp_twin_is_capturing(mscclpp_gpu_stream_t *stream)
{
    return mscclpp_dev_twin_queue_is_recorded(stream->queue);
}

mscclpp_status_t mscclpp_twin_retain(mscclpp_gpu_stream_t *stream, void (*release)(void *object), void *object)
{
    return mscclpp_dev_twin_keep(stream->queue, release, object) == 0 ? MSCCLPP_OK : MSCCLPP_ERR_NOT_SUPPORTED;
}

/* Never returns an error, because work of the twin cannot fail. */
mscclpp_status_t mscclpp_twin_stream_query(mscclpp_gpu_stream_t *stream)
{
    if (!mscclpp_dev_twin_queue_is_idle(stream->queue)) {
        return MSCCLPP_IN_PROGRESS;
    }
    return MSCCLPP_OK;
}

/*
 * Waits until all work in the stream has ended, and then frees the memory that waited for this work. Always succeeds.
 */
mscclpp_status_t mscclpp_twin_stream_sync(mscclpp_gpu_stream_t *stream)
{
    /*
     * Yields at first, because the kernels need the CPU. Sleeps if the work takes longer, because the peers' kernels
     * need it, too.
     */
    for (unsigned round = 0; !mscclpp_dev_twin_queue_is_idle(stream->queue); ++round) {
        if (round < YIELDS_MAX) {
            sched_yield();
        } else {
            nanosleep(&(struct timespec){.tv_nsec = SLEEP_NANOSECONDS}, NULL);
        }
    }
    free_pending(stream);
    return MSCCLPP_OK;
}

/*
 * Destroys a stream. Destroying a queue waits for its work, so nothing uses the pending memory afterwards. A queue of
 * the application is not destroyed, so its work is waited for if memory is pending.
 */
void mscclpp_twin_stream_destroy(mscclpp_gpu_stream_t *stream)
{
    if (stream == NULL) {
        return;
    }
    if (stream->is_owned) {
        mscclpp_dev_twin_queue_destroy(stream->queue);
        free_pending(stream);
    } else if (stream->pending != NULL) {
        mscclpp_twin_stream_sync(stream); /* work in the application's queue may still use the pending memory */
    }
    pthread_mutex_destroy(&stream->lock);
    free(stream);
}

/* Allocates at once, and not in the order of the stream. */
mscclpp_status_t mscclpp_twin_temp_alloc(mscclpp_gpu_stream_t *stream, size_t size, void **address_p)
{
    (void)stream;
    return mscclpp_twin_alloc_zeroed(size, address_p);
}

/*
 * Frees memory after the queued kernels, which may still use it, have ended. Does not wait for them, because that could
 * deadlock. If there is no memory to remember the address, it is leaked, which is logged.
 */
void mscclpp_twin_temp_free(mscclpp_gpu_stream_t *stream, void *address)
{
    twin_pending_t *pending;

    if (address == NULL) {
        return;
    }
    if (mscclpp_dev_twin_queue_is_idle(stream->queue)) {
        free_pending(stream);
        free(address);
        return;
    }
    /*
     * Work in the application's queue may continue after the next call of this file, and the application may destroy
     * the queue. So the queue itself frees the memory.
     */
    if (!stream->is_owned && mscclpp_dev_twin_call(stream->queue, free, address) == 0) {
        return;
    }
    pending = malloc(sizeof(*pending));
    if (pending == NULL) {
        mscclpp_warn("out of memory: temporary memory %p is lost", address);
        return;
    }
    pending->address = address;
    pthread_mutex_lock(&stream->lock);
    pending->next = stream->pending;
    stream->pending = pending;
    pthread_mutex_unlock(&stream->lock);
}

/*
 * Waits for the work in the stream, and then copies rows of `width` bytes that are `pitch` bytes apart, all in this
 * call. So a later job of the stream finds them.
 */
mscclpp_status_t mscclpp_twin_copy_rows(mscclpp_gpu_stream_t *stream, void *to, const void *from, size_t pitch,
                                        size_t width, size_t rows)
{
    mscclpp_status_t status = mscclpp_twin_stream_sync(stream);

    for (size_t row = 0; row < rows && width > 0 && to != from && MSCCLPP_OK == status; ++row) {
        mscclpp_twin_copy((char *)to + row * pitch, (const char *)from + row * pitch, width);
    }
    return status;
}

/* Copies a single row, in this call. */
mscclpp_status_t mscclpp_twin_stream_copy(mscclpp_gpu_stream_t *stream, void *to, const void *from, size_t size)
{
    return mscclpp_twin_copy_rows(stream, to, from, size, size, 1);
}

/* Makes the copies one after another, each of which waits for the work in the stream. */
mscclpp_status_t mscclpp_twin_copy_batch(mscclpp_gpu_stream_t *stream, const mscclpp_gpu_copy_t *copies, size_t count)
{
    mscclpp_status_t status = MSCCLPP_OK;

    for (size_t i = 0; i < count && MSCCLPP_OK == status; ++i) {
        status = mscclpp_twin_stream_copy(stream, copies[i].to, copies[i].from, copies[i].size);
    }
    return status;
}

/* Queues a copy in the stream's queue, without waiting for it. A failure is logged. */
mscclpp_status_t mscclpp_twin_put(mscclpp_gpu_stream_t *stream, void *to, const void *from, size_t size)
{
    const mscclpp_dev_twin_copy_t copy = {.to = to, .from = from, .size = size};
    int error = size > 0 && to != from ? mscclpp_dev_twin_copy(stream->queue, &copy) : 0;

    if (0 != error) {
        errno = error;
        mscclpp_error("copy of %zu bytes in a queue of the host twin failed: %m", size);
        return status_of_errno(error);
    }
    return MSCCLPP_OK;
}

/* Creates an event that counts as passed until it is recorded. After a failure *event_p is unchanged. */
mscclpp_status_t mscclpp_twin_event_create(int device, mscclpp_gpu_event_t **event_p)
{
    mscclpp_status_t status = mscclpp_twin_check_device(device);
    mscclpp_gpu_event_t *event;

    if (MSCCLPP_OK != status) {
        return status;
    }
    event = calloc(1, sizeof(*event));
    if (event == NULL) {
        mscclpp_error("out of memory for an event");
        return MSCCLPP_ERR_NO_MEMORY;
    }
    *event_p = event;
    return MSCCLPP_OK;
}

void mscclpp_twin_event_destroy(mscclpp_gpu_event_t *event)
{
    free(event);
}

mscclpp_status_t mscclpp_twin_event_record(mscclpp_gpu_event_t *event, mscclpp_gpu_stream_t *stream)
{
    event->queue = stream->queue;
    event->mark = mscclpp_dev_twin_queue_mark_end(stream->queue);
    return MSCCLPP_OK;
}

mscclpp_status_t mscclpp_twin_event_query(mscclpp_gpu_event_t *event)
{
    return event->queue == NULL || mscclpp_dev_twin_queue_has_passed(event->queue, event->mark) ? MSCCLPP_OK
                                                                                                : MSCCLPP_IN_PROGRESS;
}

/*
 * Queues a kernel in the stream's queue. A kernel of a single thread may run in this call. The launch and its arguments
 * are copied. A failure is logged.
 */
mscclpp_status_t mscclpp_twin_launch(mscclpp_gpu_stream_t *stream, const mscclpp_dev_launch_t *launch)
{
    int error = mscclpp_dev_twin_launch(stream->queue, launch);

    if (0 != error) {
        errno = error;
        mscclpp_error("launch of kernel %d with %u blocks of %u threads on the host twin failed: %m",
                      (int)launch->kernel, launch->nblocks, launch->nthreads);
        return status_of_errno(error);
    }
    return MSCCLPP_OK;
}

/* Prepared launches are no faster on the twin. They exist so that code that uses them runs on the twin, too. */
struct mscclpp_gpu_prepared {
    mscclpp_dev_launch_t launch; /* its `args` follow this struct in the same memory */
};

/*
 * Copies the launch and its arguments, so the caller may free both. Lack of memory is not logged, because the caller
 * can launch without this.
 */
mscclpp_status_t mscclpp_twin_launch_prepare(int device, const mscclpp_dev_launch_t *launch,
                                             mscclpp_gpu_prepared_t **prepared_p)
{
    const size_t size = mscclpp_dev_args_size(launch->kernel);
    mscclpp_gpu_prepared_t *prepared;
    mscclpp_status_t status = mscclpp_twin_check_device(device);

    if (MSCCLPP_OK != status) {
        return status;
    }
    prepared = malloc(sizeof(*prepared) + size);
    if (prepared == NULL) {
        return MSCCLPP_ERR_NO_MEMORY;
    }
    prepared->launch = *launch;
    prepared->launch.args = memcpy(prepared + 1, launch->args, size);
    *prepared_p = prepared;
    return MSCCLPP_OK;
}

mscclpp_status_t mscclpp_twin_launch_prepared(mscclpp_gpu_stream_t *stream, mscclpp_gpu_prepared_t *prepared)
{
    return mscclpp_twin_launch(stream, &prepared->launch);
}

void mscclpp_twin_prepared_destroy(mscclpp_gpu_prepared_t *prepared)
{
    free(prepared);
}
