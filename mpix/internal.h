/* Functions that the files of libmpix_mscclpp share. */
#ifndef MPIX_INTERNAL_H
#define MPIX_INTERNAL_H

#include "mca/coll/mscclpp/native/api.h"

/*
 * find.c: returns the table of the component that Open MPI has loaded. Returns NULL if there is none, or if MPI is not
 * initialised; *code_p is then MPI_SUCCESS. Also returns NULL if the component is of another version; *code_p is then
 * MPI_ERR_OTHER, and a message has been printed once.
 */
const mca_coll_mscclpp_api_t *mpix_component(int *code_p);

/*
 * stream.c: waits until a stream is empty. Also works without the component. Returns an MPI error code, which is not
 * reported.
 */
int mpix_stream_wait(void *stream);

/* stream.c: returns 1 if a stream is being captured. Also works without the component. */
int mpix_stream_is_capturing(void *stream);

/* An address from dlsym, as a function that the caller casts to its type. NULL: not found. */
typedef union {
    void *address;
    void (*function)(void);
} mpix_symbol_t;

/*
 * stream.c: finds a function of CUDA's driver. The address is NULL if the driver is not loaded, or lacks the function.
 */
mpix_symbol_t mpix_driver(const char *name);

/*
 * enqueue.c: lets the component queue a call; without the component, the call is not queued. Never waits for the
 * stream.
 */
mca_coll_mscclpp_queue_end_t mpix_queue(const mca_coll_mscclpp_queue_call_t *call, int *code_p);

/* error.c: returns the error code for MPIX_MSCCLPP_ERR_..., or MPI_ERR_INTERN if MPI cannot make the code. */
int mpix_error_code(int which);

/* error.c: calls the communicator's error handler, unless `code` is MPI_SUCCESS. Returns the code. */
int mpix_report(MPI_Comm comm, int code);

/*
 * error.c: converts the end of a queued call to an MPI error code. `code` is the result for
 * MCA_COLL_MSCCLPP_QUEUE_ERROR.
 */
int mpix_code_of(mca_coll_mscclpp_queue_end_t end, int code);

/*
 * check_handle.c: checks that the program's handle, `size` bytes at `handle`, has the size that this library writes.
 * `expected_size` is the size that a function of handles.h returns for the abi, 0 if the abi is unknown. Prints what is
 * wrong in the call of MPIX_Mscclpp_<function>, and returns an MPI error code. The caller calls the error handler.
 */
int mpix_check_handle(const char *function, unsigned abi, const void *handle, size_t size, size_t expected_size);

/* query.c: counts a call on a communicator that was not queued, so that the host waited. */
void mpix_count_waited(MPI_Comm comm);

#endif
