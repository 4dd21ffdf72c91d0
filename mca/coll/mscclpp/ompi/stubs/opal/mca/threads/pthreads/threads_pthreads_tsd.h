/*
 * Stands in for a header that Open MPI 5.0 names in opal_config.h and does not install. Reached by -idirafter only.
 * Inline functions of Open MPI's headers read and write thread-specific data through it.
 */
#ifndef MCA_COLL_MSCCLPP_OMPI_STUBS_OPAL_MCA_THREADS_PTHREADS_THREADS_PTHREADS_TSD_H
#define MCA_COLL_MSCCLPP_OMPI_STUBS_OPAL_MCA_THREADS_PTHREADS_THREADS_PTHREADS_TSD_H

#include <pthread.h>

#include "opal/constants.h"

typedef pthread_key_t opal_tsd_key_t;

static inline int opal_tsd_key_delete(opal_tsd_key_t key)
{
    return 0 == pthread_key_delete(key) ? OPAL_SUCCESS : OPAL_ERROR;
}

static inline int opal_tsd_set(opal_tsd_key_t key, void *value)
{
    return 0 == pthread_setspecific(key, value) ? OPAL_SUCCESS : OPAL_ERROR;
}

static inline int opal_tsd_get(opal_tsd_key_t key, void **value_p)
{
    *value_p = pthread_getspecific(key);
    return OPAL_SUCCESS;
}

#endif
