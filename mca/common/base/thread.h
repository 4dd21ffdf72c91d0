/* Threads of the library, beside the threads of the application. */
#ifndef MCA_COMMON_BASE_THREAD_H
#define MCA_COMMON_BASE_THREAD_H

#include <pthread.h>

/*
 * Starts a thread that calls function(argument). `name` has at most 15 characters; debuggers and `ps -L` show it.
 *
 * All signals are blocked in the thread, because they are for the application. The timer slack of the thread is
 * minimal, so its short sleeps end on time. If the caller may use one processor only, the thread may use all processors
 * that the system allows. Launchers bind each rank to a processor by default, and a rank that waits keeps that
 * processor busy.
 *
 * Returns 0, or an errno value with nothing logged; then there is no thread. The caller has to join the thread.
 */
int mscclpp_thread_start(pthread_t *thread, const char *name, void *(*function)(void *), void *argument);

#endif
