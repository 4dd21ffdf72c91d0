/* The library's error classes and codes, and the calls of error handlers. */
#include "mpix/internal.h"

#include <pthread.h>
#include <stdio.h>

#include "mpix/include/mpix_mscclpp.h"

/* The text of each error for MPI_Error_string. */
static const char *const texts[] = {
    [MPIX_MSCCLPP_ERR_TIMEOUT] = "MPIX_MSCCLPP_ERR_TIMEOUT: a rank did not come to a queued call within the deadline",
    [MPIX_MSCCLPP_ERR_PEER] = "MPIX_MSCCLPP_ERR_PEER: another rank failed in a queued call",
    [MPIX_MSCCLPP_ERR_BUSY] = "MPIX_MSCCLPP_ERR_BUSY: two queued calls of one communicator ran at the same time",
    [MPIX_MSCCLPP_ERR_CAPTURE] = "MPIX_MSCCLPP_ERR_CAPTURE: this call cannot be queued, and the stream is captured",
};
#define LAST_ERROR MPIX_MSCCLPP_ERR_CAPTURE

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/*
 * [MPIX_MSCCLPP_ERR_...]: MPI's error classes and codes. They are made when they are first needed, and kept until the
 * process ends.
 */
static int classes[LAST_ERROR + 1]; /* 0: not made yet */
static int codes[LAST_ERROR + 1];

/* Makes the class `which` and its only code. If MPI cannot, both become MPI_ERR_INTERN. The caller holds the lock. */
static void make_class(int which)
{
    if (MPI_Add_error_class(&classes[which]) != MPI_SUCCESS ||
        MPI_Add_error_code(classes[which], &codes[which]) != MPI_SUCCESS) {
        classes[which] = codes[which] = MPI_ERR_INTERN;
        return;
    }
    (void)MPI_Add_error_string(classes[which], texts[which]);
    (void)MPI_Add_error_string(codes[which], texts[which]);
}

/*
 * Makes the code under the lock, so that only one thread does. `which` is one of MPIX_MSCCLPP_ERR_..., so it is a valid
 * index.
 */
int mpix_error_code(int which)
{
    int code;

    pthread_mutex_lock(&lock);
    if (classes[which] == 0) {
        make_class(which);
    }
    code = codes[which];
    pthread_mutex_unlock(&lock);
    return code;
}

/* Makes the class, if that was not done yet, so that programs can ask for it before the first error. */
int MPIX_Mscclpp_error_class(int which, int *error_class)
{
    if (which < 1 || which > LAST_ERROR || error_class == NULL) {
        return MPI_ERR_ARG;
    }
    (void)mpix_error_code(which);
    *error_class = classes[which]; /* read without the lock: it never changes again */
    return MPI_SUCCESS;
}

int mpix_report(MPI_Comm comm, int code)
{
    if (code != MPI_SUCCESS) {
        (void)MPI_Comm_call_errhandler(comm != MPI_COMM_NULL ? comm : MPI_COMM_WORLD, code);
    }
    return code;
}

/*
 * Converts the end of a queued call to an MPI error code. Returns MPI_SUCCESS if the call was queued, or if it was not
 * queued but no error occurred. The component may be newer than this library: an end that is unknown here is an error.
 */
int mpix_code_of(mca_coll_mscclpp_queue_end_t end, int code)
{
    switch (end) {
    case MCA_COLL_MSCCLPP_QUEUE_TIMEOUT:
        return mpix_error_code(MPIX_MSCCLPP_ERR_TIMEOUT);
    case MCA_COLL_MSCCLPP_QUEUE_PEER:
        return mpix_error_code(MPIX_MSCCLPP_ERR_PEER);
    case MCA_COLL_MSCCLPP_QUEUE_BUSY:
        return mpix_error_code(MPIX_MSCCLPP_ERR_BUSY);
    case MCA_COLL_MSCCLPP_QUEUE_ERROR:
        return code;
    case MCA_COLL_MSCCLPP_QUEUED:
    case MCA_COLL_MSCCLPP_NOT_QUEUED:
        return MPI_SUCCESS;
    }
    return MPI_ERR_INTERN;
}

/*
 * Sets *code to MPI_SUCCESS and the text to an empty one if there is no component, or if nothing has failed. Errors of
 * this function itself are only returned, and not passed to the error handler.
 */
int MPIX_Mscclpp_get_async_error(MPI_Comm comm, int *code, char *text, int size)
{
    int component_code;
    const mca_coll_mscclpp_api_t *component = mpix_component(&component_code);
    char message[320] = "";
    mca_coll_mscclpp_queue_end_t end = MCA_COLL_MSCCLPP_QUEUED;

    if (comm == MPI_COMM_NULL) {
        return MPI_ERR_COMM;
    }
    if (code == NULL || size < 0 || (text == NULL && size > 0)) {
        return MPI_ERR_ARG;
    }
    if (component != NULL) {
        end = component->find_failure(comm, message, sizeof(message));
    }
    *code = mpix_code_of(end, MPI_ERR_OTHER);
    if (size > 0) {
        (void)snprintf(text, (size_t)size, "%s", message);
    }
    return component_code;
}
