#include "mca/common/base/thread.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>

/* By default Linux adds 50 microseconds to each nap. */
#define TIMER_SLACK_NS 1000

/* The arguments of a new thread, which frees them. */
typedef struct {
    char name[16];
    void *(*function)(void *);
    void *argument;
} start_t;

/* Runs in the new thread, because PR_SET_TIMERSLACK applies to the thread that calls prctl. */
static void *run(void *argument)
{
    const start_t start = *(start_t *)argument;

    free(argument);
    (void)pthread_setname_np(pthread_self(), start.name);
    (void)prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS);
    return start.function(start.argument);
}

/*
 * Requests all processors for the new thread if this thread may use only one. The system grants those that it allows.
 */
static void allow_all_processors(pthread_attr_t *attributes)
{
    cpu_set_t processors;

    if (sched_getaffinity(0, sizeof(processors), &processors) != 0 || CPU_COUNT(&processors) != 1) {
        return;
    }
    for (int i = 0; i < CPU_SETSIZE; ++i) {
        CPU_SET(i, &processors);
    }
    (void)pthread_attr_setaffinity_np(attributes, sizeof(processors), &processors);
}

/*
 * The new thread inherits the mask of this thread, so all signals are blocked here while it is created. Once the thread
 * exists, it owns `start` and frees it.
 */
int mscclpp_thread_start(pthread_t *thread, const char *name, void *(*function)(void *), void *argument)
{
    start_t *start = malloc(sizeof(*start));
    sigset_t all_signals, mask_before;
    pthread_attr_t attributes;
    int error;

    if (start == NULL) {
        return ENOMEM;
    }
    (void)snprintf(start->name, sizeof(start->name), "%s", name);
    start->function = function;
    start->argument = argument;
    sigfillset(&all_signals);
    error = pthread_attr_init(&attributes);
    if (error == 0) {
        allow_all_processors(&attributes);
        error = pthread_sigmask(SIG_SETMASK, &all_signals, &mask_before);
        if (error == 0) {
            error = pthread_create(thread, &attributes, run, start);
            (void)pthread_sigmask(SIG_SETMASK, &mask_before, NULL);
        }
        pthread_attr_destroy(&attributes);
    }
    if (error != 0) {
        free(start);
    }
    return error;
}
