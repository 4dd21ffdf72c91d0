/* What the files of libmpix_mscclpp share. */
#ifndef MPIX_INTERNAL_H
#define MPIX_INTERNAL_H

#include "mca/coll/mscclpp/native/api.h"

/*
 * find.c: returns the table of the component that Open MPI has loaded; NULL: there is none, or MPI is not initialised.
 * A component of another version is an error: *code_p says so, and a message is printed once. Else *code_p is
 * MPI_SUCCESS.
 */
const mca_coll_mscclpp_api_t *mpix_component(int *code_p);

/* stream.c: waits until a stream is empty. Works without the component, too. Returns an MPI error code. */
int mpix_stream_wait(void *stream);
/* stream.c: tells whether a stream is being captured. Works without the component, too. */
int mpix_stream_is_capturing(void *stream);

/* An address from dlsym, as a function that is to be cast to its type. NULL: there is none. */
typedef union {
    void *address;
    void (*function)(void);
} mpix_symbol_t;
/* stream.c: finds a function of CUDA's driver. NULL if the driver is not loaded, or lacks the function. */
mpix_symbol_t mpix_driver(const char *name);

/* enqueue.c: asks the component to queue a call; without it, the call is not queued. Never waits for the stream. */
mca_coll_mscclpp_queue_end_t mpix_queue(const mca_coll_mscclpp_queue_call_t *call, int *code_p);

/* error.c: returns the error code for MPIX_MSCCLPP_ERR_...; MPI_ERR_INTERN if MPI cannot make it. */
int mpix_error_code(int which);

/* error.c: calls the communicator's error handler, unless `code` is MPI_SUCCESS. Returns the code. */
int mpix_report(MPI_Comm comm, int code);

/* error.c: returns the error code for how a queued call ended. `code`: the one for MCA_COLL_MSCCLPP_QUEUE_ERROR. */
int mpix_code_of(mca_coll_mscclpp_queue_end_t end, int code);

/*
 * check_handle.c: checks that the program's handle, `size` bytes at `handle`, has the size that this library writes.
 * `expected_size` is that of handles.h for the abi; 0: the abi is unknown. Prints what is wrong in the call of
 * MPIX_Mscclpp_<function>, and returns an MPI error code. The caller calls the error handler.
 */
int mpix_check_handle(const char *function, unsigned abi, const void *handle, size_t size, size_t expected_size);

/* query.c: counts a call on a communicator that was not queued, for which the host waited. */
void mpix_count_waited(MPI_Comm comm);

#endif
