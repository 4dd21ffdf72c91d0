/*
 * Functions that the files of queued collectives share. A call is queued; if that is not possible, the library waits
 * for the stream and makes MPI's own call.
 */
#ifndef MPIX_ENQUEUE_H
#define MPIX_ENQUEUE_H

#include <limits.h>

#include "mpix/internal.h"

/* This is no MPI error code. It means that the caller has to make MPI's call. */
#define MPIX_MAKE_PLAIN_CALL (-1)

/*
 * Queues a call, or waits for the stream if the call cannot be queued. `describe_code` is the return value of the
 * function that filled in the call. If it is an error, the function only returns it. Otherwise it returns one of these:
 * - MPI_SUCCESS: the call is queued.
 * - MPIX_MAKE_PLAIN_CALL: the stream is empty, and the caller has to call MPI.
 * - an MPI error code, which has been reported.
 */
int mpix_queue_or_wait(int describe_code, mca_coll_mscclpp_queue_call_t *call, void *stream);

/*
 * Ends a call whose mpix_queue_or_wait has returned `code_`, and yields its MPI error code. If `code_` is
 * MPIX_MAKE_PLAIN_CALL, makes MPI's call `call_`, and yields its result; otherwise `code_` is the result, and `call_`
 * is not evaluated. `count_` is the largest count among the arguments, or 0 if all counts already are ints. If it does
 * not fit into an int, reports MPI_ERR_COUNT in place of the call, so `call_` may cast its counts to int.
 */
#define MPIX_FINISH_OR_CALL_MPI(code_, comm_, count_, call_)                                                           \
    ((code_) != MPIX_MAKE_PLAIN_CALL ? (code_) : (count_) > INT_MAX ? mpix_report((comm_), MPI_ERR_COUNT) : (call_))

/* Returns the larger of the two counts of a call. Only counts that MPI reads on this rank are in the call. */
MPI_Count mpix_largest_count(const mca_coll_mscclpp_queue_call_t *call);

#endif
