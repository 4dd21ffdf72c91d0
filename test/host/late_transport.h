/*
 * A slow transport for tests, over shm. Operations wait in a short queue, and progress executes a few at a time. This
 * exposes code that mistakes IN_PROGRESS for done, or the beginning of a flush for its end.
 */
#ifndef TEST_HOST_LATE_TRANSPORT_H
#define TEST_HOST_LATE_TRANSPORT_H

#include "mca/common/transport/transport.h"

extern const mscclpp_transport_ops_t late_transport;

/* While a connection is held, none of its operations is executed, and its queue soon fills up. Any thread. */
void late_hold(mscclpp_conn_t *conn, bool hold);

/* The number of operations that a connection has begun so far. */
uint64_t late_begun(const mscclpp_conn_t *conn);

/* The connection breaks with `status` at its next progress. */
void late_break(mscclpp_conn_t *conn, mscclpp_status_t status);

#endif
