/*
 * A transport for tests, over shm, that is late: what is begun lies in a queue of few places and is done a little at a
 * time by progress. Whoever takes IN_PROGRESS for done, or a flush for ended when it has begun, is found out.
 */
#ifndef TEST_HOST_LATE_TRANSPORT_H
#define TEST_HOST_LATE_TRANSPORT_H

#include "mca/common/transport/transport.h"

extern const mscclpp_transport_ops_t late_transport;

/* Nothing that a connection has begun is done until it is let go, and soon it has no room. Any thread. */
void late_hold(mscclpp_conn_t *conn, bool hold);

/* Operations that a connection has begun so far. */
uint64_t late_begun(const mscclpp_conn_t *conn);

/* The connection breaks with `status` at its next progress. */
void late_break(mscclpp_conn_t *conn, mscclpp_status_t status);

#endif
