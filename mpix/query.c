/* Counts the calls that were queued, and those for which the host waited. */
#include "mpix/internal.h"

#include <pthread.h>
#include <stdlib.h>

#include "mpix/include/mpix_mscclpp.h"

/* The calls that waited are counted in an attribute of the communicator, which is not copied to its duplicates. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int key = MPI_KEYVAL_INVALID; /* key of the attribute; made with the first counter */

/* Frees the counter of a communicator. MPI calls it when the communicator is freed. */
static int free_counter(MPI_Comm comm, int keyval, void *value, void *context)
{
    (void)comm;
    (void)keyval;
    (void)context;
    free(value);
    return MPI_SUCCESS;
}

/*
 * Returns the counter of a communicator. If there is none and `may_make` is not 0, makes it first. Returns NULL if
 * there is none, or if it could not be made. The caller holds the lock while it uses the counter, because several
 * threads may count at the same time. The application must not free the communicator meanwhile.
 */
static MPI_Count *counter_of(MPI_Comm comm, int may_make)
{
    MPI_Count *counter = NULL;
    int exists = 0;

    if (key == MPI_KEYVAL_INVALID &&
        (!may_make || MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, free_counter, &key, NULL) != MPI_SUCCESS)) {
        return NULL;
    }
    if (MPI_Comm_get_attr(comm, key, (void *)&counter, &exists) == MPI_SUCCESS && exists) {
        return counter;
    }
    counter = may_make ? calloc(1, sizeof(*counter)) : NULL;
    if (counter != NULL && MPI_Comm_set_attr(comm, key, counter) != MPI_SUCCESS) {
        free(counter);
        counter = NULL;
    }
    return counter;
}

void mpix_count_waited(MPI_Comm comm)
{
    MPI_Count *counter;

    pthread_mutex_lock(&lock);
    counter = counter_of(comm, 1);
    if (counter != NULL) {
        ++*counter;
    }
    pthread_mutex_unlock(&lock);
}

/*
 * Returns errors without passing them to the error handler. If the component is of another version, *value is still
 * set, to the number that is known to this library.
 */
int MPIX_Mscclpp_query(MPI_Comm comm, int what, MPI_Count *value)
{
    int code;
    const mca_coll_mscclpp_api_t *component = mpix_component(&code);
    const MPI_Count *counter;

    if (comm == MPI_COMM_NULL) {
        return MPI_ERR_COMM;
    }
    if (value == NULL || (what != MPIX_MSCCLPP_QUERY_QUEUED && what != MPIX_MSCCLPP_QUERY_WAITED)) {
        return MPI_ERR_ARG;
    }
    if (what == MPIX_MSCCLPP_QUERY_QUEUED) {
        *value = component == NULL ? 0 : (MPI_Count)component->count(comm);
        return code;
    }
    pthread_mutex_lock(&lock);
    counter = counter_of(comm, 0);
    *value = counter == NULL ? 0 : *counter;
    pthread_mutex_unlock(&lock);
    return code;
}
