/* What the files of libmpix_mscclpp share. */
#ifndef MPIX_INTERNAL_H
#define MPIX_INTERNAL_H

#include "mca/coll/mscclpp/native/api.h"

/*
 * find.c: the table of the component that Open MPI has loaded; NULL: there is none. A component of another version is
 * an error: *code_p says so, and a message is printed once.
 */
const mca_coll_mscclpp_api_t *mpix_component(int *code_p);

/* stream.c: waits until a stream is empty. Works without the component, too. */
int mpix_stream_wait(void *stream);
/* stream.c: whether a stream is being captured. Works without the component, too. */
int mpix_stream_is_capturing(void *stream);

/* stream.c: a function of CUDA's driver, which is to be cast to its type; NULL if the process has not loaded it. */
typedef union {
    void *address;
    void (*function)(void);
} mpix_symbol_t;
mpix_symbol_t mpix_driver(const char *name);

/* enqueue.c: asks the component to queue a call. Never waits for the stream. */
mca_coll_mscclpp_queue_end_t mpix_queue(const mca_coll_mscclpp_queue_call_t *call, int *code_p);

/* error.c: the error code for MPIX_MSCCLPP_ERR_...; MPI_ERR_INTERN if MPI cannot make it. */
int mpix_error_code(int which);

/* error.c: calls the communicator's error handler for an error. Returns the code. */
int mpix_report(MPI_Comm comm, int code);

/* error.c: the error code for how a queued call ended. */
int mpix_code_of(mca_coll_mscclpp_queue_end_t end, int code);

/*
 * check_handle.c: checks the arguments of MPIX_Mscclpp_<function>, which writes a handle of `right` bytes, a size of
 * handles.h. Returns an MPI error code, after a message. No error handler has been called.
 */
int mpix_check_handle(const char *function, unsigned abi, const void *handle, size_t size, size_t right);

/* query.c: counts a call that waited. */
void mpix_count_waited(MPI_Comm comm);

#endif
