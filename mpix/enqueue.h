/* What the files of queued collectives share: a call is queued, or waits for its stream and becomes MPI's own. */
#ifndef MPIX_ENQUEUE_H
#define MPIX_ENQUEUE_H

#include <limits.h>

#include "mpix/internal.h"

/* No MPI error code: the caller has to make MPI's call. */
#define MPIX_MAKE_PLAIN_CALL (-1)

/*
 * Queues a call, or waits for the stream if the call cannot be queued. `described` is what the function that filled in
 * the call has returned. Returns MPI_SUCCESS if the call is queued; an MPI error code, which has been reported; or
 * MPIX_MAKE_PLAIN_CALL if the stream is empty and the caller has to call MPI.
 */
int mpix_queue_or_wait(int described, mca_coll_mscclpp_queue_call_t *call, void *stream);

/*
 * Yields the code of mpix_queue_or_wait, or if that is MPIX_MAKE_PLAIN_CALL, the result of MPI's call `call_`. `count_`
 * is the largest count among the arguments; one that MPI's int cannot hold is an error. So `call_` may cast its counts
 * to int. 0: all its counts are ints already.
 */
#define MPIX_PLAIN(code_, comm_, count_, call_)                                                                        \
    ((code_) != MPIX_MAKE_PLAIN_CALL ? (code_) : (count_) > INT_MAX ? mpix_report((comm_), MPI_ERR_COUNT) : (call_))

/* Returns the larger of the two counts of a call. Only counts that MPI reads on this rank are in the call. */
MPI_Count mpix_largest_count(const mca_coll_mscclpp_queue_call_t *call);

#endif
