/*
 * Stands in for a header that Open MPI 5.0 names in opal_config.h and does not install. Reached by -idirafter only.
 * What matters is that the two types are those the library was built with: they fix the layout of opal_mutex_t, and so
 * of structures that this component shares with Open MPI.
 */
#ifndef MCA_COLL_MSCCLPP_OMPI_STUBS_OPAL_MCA_THREADS_PTHREADS_THREADS_PTHREADS_MUTEX_H
#define MCA_COLL_MSCCLPP_OMPI_STUBS_OPAL_MCA_THREADS_PTHREADS_THREADS_PTHREADS_MUTEX_H

#include <pthread.h>
#include <stdbool.h>

#include "opal/class/opal_object.h"
#include "opal/constants.h"

typedef pthread_mutex_t opal_thread_internal_mutex_t;
typedef pthread_cond_t opal_thread_internal_cond_t;

#define OPAL_THREAD_INTERNAL_MUTEX_INITIALIZER PTHREAD_MUTEX_INITIALIZER
#define OPAL_THREAD_INTERNAL_COND_INITIALIZER PTHREAD_COND_INITIALIZER
#ifdef PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP
#define OPAL_THREAD_INTERNAL_RECURSIVE_MUTEX_INITIALIZER PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP
#endif

static inline int opal_thread_internal_mutex_init(opal_thread_internal_mutex_t *mutex, bool recursive)
{
    pthread_mutexattr_t attributes;
    int rc;

    if (0 != pthread_mutexattr_init(&attributes)) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    rc = pthread_mutexattr_settype(&attributes, recursive ? PTHREAD_MUTEX_RECURSIVE : PTHREAD_MUTEX_DEFAULT);
    if (0 == rc) {
        rc = pthread_mutex_init(mutex, &attributes);
    }
    (void)pthread_mutexattr_destroy(&attributes);
    return 0 == rc ? OPAL_SUCCESS : OPAL_ERR_IN_ERRNO;
}

static inline void opal_thread_internal_mutex_destroy(opal_thread_internal_mutex_t *mutex)
{
    (void)pthread_mutex_destroy(mutex);
}

static inline void opal_thread_internal_mutex_lock(opal_thread_internal_mutex_t *mutex)
{
    (void)pthread_mutex_lock(mutex);
}

static inline int opal_thread_internal_mutex_trylock(opal_thread_internal_mutex_t *mutex)
{
    return 0 != pthread_mutex_trylock(mutex);
}

static inline void opal_thread_internal_mutex_unlock(opal_thread_internal_mutex_t *mutex)
{
    (void)pthread_mutex_unlock(mutex);
}

static inline int opal_thread_internal_cond_init(opal_thread_internal_cond_t *condition)
{
    return 0 == pthread_cond_init(condition, NULL) ? OPAL_SUCCESS : OPAL_ERR_IN_ERRNO;
}

static inline void opal_thread_internal_cond_destroy(opal_thread_internal_cond_t *condition)
{
    (void)pthread_cond_destroy(condition);
}

static inline void opal_thread_internal_cond_wait(opal_thread_internal_cond_t *condition,
                                                  opal_thread_internal_mutex_t *mutex)
{
    (void)pthread_cond_wait(condition, mutex);
}

static inline void opal_thread_internal_cond_signal(opal_thread_internal_cond_t *condition)
{
    (void)pthread_cond_signal(condition);
}

static inline void opal_thread_internal_cond_broadcast(opal_thread_internal_cond_t *condition)
{
    (void)pthread_cond_broadcast(condition);
}

#endif
