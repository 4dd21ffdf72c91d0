/*
 * Requests in a process without the component. MPI's own nonblocking collectives carry out their executions, and the
 * host begins them. Without the component nothing runs automatically in the order of a stream, so the host waits for
 * streams and for marks.
 */
#ifndef MPIX_PLAIN_H
#define MPIX_PLAIN_H

#include "mpix/requests.h"

/*
 * Begins MPI's nonblocking call for `call`, and stores its request in *under_way_p. Returns an MPI error code, which is
 * not reported; MPI_ERR_COUNT if a count does not fit into an int.
 */
int mpix_plain_begin(const mca_coll_mscclpp_queue_call_t *call, MPI_Request *under_way_p);

/*
 * mpix_plain_add adds a prepared request, whose `is_plain` is set, to the requests that mpix_plain_progress advances.
 * mpix_plain_remove waits until MPI does not use its buffers any more, and removes it.
 */
void mpix_plain_add(struct mpix_mscclpp_request *request);
void mpix_plain_remove(struct mpix_mscclpp_request *request);

/*
 * Advances all such requests without waiting: begins the calls whose partitions are marked, and tests which calls have
 * ended. Does nothing while another thread uses the list of requests. A thread that waits for one request has to call
 * this function repeatedly, because another rank may need another request to advance first.
 */
void mpix_plain_progress(void);

#endif
