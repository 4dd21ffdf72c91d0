/*
 * Stands in for a header that Open MPI 5.0 names in opal_config.h and does not install. Reached by -idirafter only.
 * Open MPI declares opal_thread_yield as an inline function and leaves its body to this header.
 */
#ifndef MCA_COLL_MSCCLPP_OMPI_STUBS_OPAL_MCA_THREADS_PTHREADS_THREADS_PTHREADS_THREADS_H
#define MCA_COLL_MSCCLPP_OMPI_STUBS_OPAL_MCA_THREADS_PTHREADS_THREADS_PTHREADS_THREADS_H

#include <pthread.h>
#include <sched.h>

static inline void opal_thread_yield(void)
{
    (void)sched_yield();
}

#endif
