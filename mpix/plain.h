/*
 * Requests in a process without the component. MPI's own nonblocking collectives carry out their executions, and the
 * host begins these. Nothing runs in the order of a stream by itself, so the host waits for streams and for marks.
 */
#ifndef MPIX_PLAIN_H
#define MPIX_PLAIN_H

#include "mpix/requests.h"

/* Begins MPI's nonblocking call for `call`. Returns an MPI error code; MPI_ERR_COUNT if a count is too large. */
int mpix_plain_begin(const mca_coll_mscclpp_queue_call_t *call, MPI_Request *under_way_p);

/* Add a prepared request, whose `is_plain` is set, to those that mpix_plain_progress looks after, and remove it. */
void mpix_plain_add(struct mpix_mscclpp_request *request);
void mpix_plain_remove(struct mpix_mscclpp_request *request);

/*
 * Begins what is due of all such requests, and finds what has ended, without waiting. Whoever waits for one request
 * calls it again and again: another rank may need another request to go on first.
 */
void mpix_plain_progress(void);

#endif
