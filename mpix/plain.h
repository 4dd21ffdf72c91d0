/*
 * Requests in a process without the component: MPI's own nonblocking collectives carry out their executions, which the
 * host begins. Nothing runs in the order of a stream by itself, so the host waits for streams and for marks.
 */
#ifndef MPIX_PLAIN_H
#define MPIX_PLAIN_H

#include "mpix/requests.h"

/* Begins MPI's nonblocking call of what `call` describes. Returns an MPI error code. */
int mpix_plain_begin(const mca_coll_mscclpp_queue_call_t *call, MPI_Request *under_way_p);

/* What executes a prepared request. Its `plain` is set. */
void mpix_plain_add(struct mpix_mscclpp_request *request);
void mpix_plain_remove(struct mpix_mscclpp_request *request);

/*
 * One turn for all requests: begins what is due, and finds what has ended. Does not wait. Whatever waits for one
 * request takes these turns, since another rank may wait for another request first.
 */
void mpix_plain_progress(void);

#endif
