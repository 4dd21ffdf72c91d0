/*
 * Runs kernels on the host twin. A kernel is a function that every thread of every block calls, each on its own CPU
 * thread. Pass mpix_host_run and the address of an mpix_host_kernel_t to MPIX_Mscclpp_host_launch. The
 * mpix_host_kernel_t must not change until the kernel has run or, in a graph, until the graph is destroyed. Link with
 * -pthread.
 */
#ifndef MPIX_INCLUDE_MPIX_MSCCLPP_HOST_KERNEL_H
#define MPIX_INCLUDE_MPIX_MSCCLPP_HOST_KERNEL_H

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "shim.h"

/* A kernel and its launch. */
typedef struct {
    void (*function)(mpix_group_t *block, void *argument);
    void *argument;
    mpix_u32 blocks;
    mpix_u32 threads; /* threads of each block */
    int error;        /* 0, or the errno for which the kernel did not run */
} mpix_host_kernel_t;

/* What the threads of a launch do: wait for the start, run the kernel, or end, since not all threads could be made. */
enum { MPIX_HOST_WAIT, MPIX_HOST_RUN, MPIX_HOST_END };

/* The data that the threads of a launch share. */
typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* `state` has changed */
    int state;              /* MPIX_HOST_... */
    mpix_host_kernel_t *kernel;
    mpix_meeting_t *meetings; /* [block] */
} mpix_host_start_t;

/* One thread of a launch. */
typedef struct {
    mpix_host_start_t *start;
    mpix_u32 number; /* number of the thread among all blocks */
    pthread_t thread;
} mpix_host_thread_t;

/*
 * Runs a thread: waits until all threads have been made, and then calls the kernel's function. If some threads could
 * not be made, this thread ends without the call, since the function would wait for them. `argument` is the thread's
 * mpix_host_thread_t.
 */
static inline void *mpix_host_thread_main(void *argument)
{
    mpix_host_thread_t *self = (mpix_host_thread_t *)argument;
    mpix_host_start_t *start = self->start;
    mpix_host_kernel_t *kernel = start->kernel;
    mpix_group_t group;
    int state;

    (void)pthread_mutex_lock(&start->lock);
    while (start->state == MPIX_HOST_WAIT) {
        (void)pthread_cond_wait(&start->changed, &start->lock);
    }
    state = start->state;
    (void)pthread_mutex_unlock(&start->lock);
    if (state == MPIX_HOST_RUN) {
        group.index = self->number % kernel->threads;
        group.size = kernel->threads;
        group.kind = MPIX_BLOCK;
        group.block = self->number / kernel->threads;
        group.blocks = kernel->blocks;
        group.failed = 0;
        group.turns = 0;
        group.meeting = &start->meetings[group.block];
        kernel->function(&group, kernel->argument);
    }
    return NULL;
}

/*
 * Runs a kernel and waits for its end. `argument` is its mpix_host_kernel_t, with at least one block and one thread. If
 * memory runs out or a thread cannot be made, no thread calls the function, and the threads that were made end.
 * kernel->error then becomes the errno value; it becomes 0 if the kernel has run.
 */
static inline void mpix_host_run(void *argument)
{
    mpix_host_kernel_t *kernel = (mpix_host_kernel_t *)argument;
    const mpix_u32 thread_count = kernel->blocks * kernel->threads;
    mpix_host_thread_t *threads = (mpix_host_thread_t *)calloc(thread_count, sizeof(*threads));
    mpix_host_start_t start;
    mpix_u32 made_count = 0;
    int error = 0;

    start.state = MPIX_HOST_WAIT;
    start.kernel = kernel;
    start.meetings = (mpix_meeting_t *)calloc(kernel->blocks, sizeof(*start.meetings));
    (void)pthread_mutex_init(&start.lock, NULL);
    (void)pthread_cond_init(&start.changed, NULL);
    if (threads == NULL || start.meetings == NULL) {
        error = ENOMEM;
    }
    while (error == 0 && made_count < thread_count) {
        threads[made_count].start = &start;
        threads[made_count].number = made_count;
        error = pthread_create(&threads[made_count].thread, NULL, mpix_host_thread_main, &threads[made_count]);
        made_count += error == 0;
    }
    (void)pthread_mutex_lock(&start.lock);
    start.state = error == 0 ? MPIX_HOST_RUN : MPIX_HOST_END;
    (void)pthread_cond_broadcast(&start.changed);
    (void)pthread_mutex_unlock(&start.lock);
    while (made_count > 0) {
        (void)pthread_join(threads[--made_count].thread, NULL);
    }
    (void)pthread_cond_destroy(&start.changed);
    (void)pthread_mutex_destroy(&start.lock);
    free(start.meetings);
    free(threads);
    kernel->error = error;
}

#endif
