/*
 * Streams of requests that kernels release: one is found that does not hold up the application's stream, if there is
 * any. The streams are imitated: what waits at the head of a hardware queue holds up all that is put into it later.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "mpix/release_stream.h"
#include "test/mpi/mpi_test.h"

enum { QUEUES_MAX = 4 };

/* A stream is the number of its hardware queue. */
typedef struct {
    int queue;
} stream_t;

/* A queue whose head waits keeps the store that comes behind. */
static struct {
    pthread_mutex_t lock;
    int queues;  /* of the GPU */
    int streams; /* so far */
    int alive;
    struct {
        const uint64_t *word; /* NULL: nothing waits */
        uint64_t value;
        uint64_t *later; /* NULL: no store */
        uint64_t later_value;
    } queue[QUEUES_MAX];
} gpu = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int stream_make(void **stream_p)
{
    stream_t *stream = malloc(sizeof(*stream));

    stream->queue = gpu.streams++ % gpu.queues;
    ++gpu.alive;
    *stream_p = stream;
    return MPI_SUCCESS;
}

/* Carries out what is no longer held up. With the lock held. */
static void move(void)
{
    for (int i = 0; i < gpu.queues; ++i) {
        if (gpu.queue[i].word != NULL && mpix_word_get(gpu.queue[i].word) >= gpu.queue[i].value) {
            gpu.queue[i].word = NULL;
        }
        if (gpu.queue[i].word == NULL && gpu.queue[i].later != NULL) {
            mpix_word_set(gpu.queue[i].later, gpu.queue[i].later_value);
            gpu.queue[i].later = NULL;
        }
    }
}

static void stream_free(void *stream)
{
    --gpu.alive;
    free(stream);
}

static int stream_await(void *stream, const uint64_t *word, uint64_t value)
{
    const int queue = ((stream_t *)stream)->queue;

    pthread_mutex_lock(&gpu.lock);
    move();
    gpu.queue[queue].word = word;
    gpu.queue[queue].value = value;
    pthread_mutex_unlock(&gpu.lock);
    return MPI_SUCCESS;
}

static int stream_store(void *stream, uint64_t *word, uint64_t value)
{
    const int queue = ((stream_t *)stream)->queue;

    pthread_mutex_lock(&gpu.lock);
    gpu.queue[queue].later = word;
    gpu.queue[queue].later_value = value;
    pthread_mutex_unlock(&gpu.lock);
    return MPI_SUCCESS;
}

/* The imitated GPU. Ends when *argument is not 0. */
static void *run(void *argument)
{
    while (!__atomic_load_n((int *)argument, __ATOMIC_ACQUIRE)) {
        pthread_mutex_lock(&gpu.lock);
        move();
        pthread_mutex_unlock(&gpu.lock);
        sched_yield();
    }
    return NULL;
}

static void with_queues(int queues, int first_of_application)
{
    static const mpix_backend_t backend = {.stream_make = stream_make,
                                           .stream_free = stream_free,
                                           .stream_await = stream_await,
                                           .stream_store = stream_store};
    uint64_t words[2] = {0, 0};
    void *own = NULL, *application;
    pthread_t thread;
    int code, end = 0;

    /* The last wait may still be there, as nobody waits for it to end; the words that it looked at are gone. */
    memset(gpu.queue, 0, sizeof(gpu.queue));
    gpu.queues = queues;
    gpu.streams = first_of_application;
    gpu.alive = 0;
    MT_MPI(stream_make(&application));
    gpu.streams = 0;
    pthread_create(&thread, NULL, run, &end);
    code = mpix_release_stream_make(&backend, application, words, 0.5, &own);
    __atomic_store_n(&end, 1, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    if (queues == 1) {
        MT_CHECK(code == MPI_ERR_UNSUPPORTED_OPERATION, "one queue: code %d", code);
        MT_CHECK(gpu.alive == 1, "one queue: %d streams are left", gpu.alive);
    } else {
        MT_CHECK(code == MPI_SUCCESS, "%d queues: code %d", queues, code);
        MT_CHECK(own != NULL && ((stream_t *)own)->queue != ((stream_t *)application)->queue,
                 "%d queues: the stream shares a queue with the application's", queues);
        MT_CHECK(gpu.alive == 2, "%d queues: %d streams are left", queues, gpu.alive);
        stream_free(own);
    }
    stream_free(application);
}

int main(int argc, char **argv)
{
    mt_init(&argc, &argv, MPI_THREAD_SINGLE);
    with_queues(1, 0);
    with_queues(2, 0);
    with_queues(2, 1);
    with_queues(4, 3);
    return mt_finish();
}
