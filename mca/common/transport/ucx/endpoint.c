/* Endpoints of the transport ucx, and how it notices that the process behind one is gone. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mca/common/base/clock.h"
#include "mca/common/base/machine.h"
#include "mca/common/base/log.h"
#include "mca/common/transport/ucx/internal.h"

#define UCX_DRAIN_SECONDS 0.1 /* time for all good-byes together to leave */
#define UCX_WATCH_SECONDS 0.1 /* time between two checks of the peers' processes */

/* Notes that an endpoint's peer is lost. Clean-up closes the endpoint once no connection has it. */
static void on_failure(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    ucx_endpoint_t *endpoint = arg;

    (void)ep;
    endpoint->is_lost = true;
    if (endpoint->conn != NULL) {
        mscclpp_transport_ucx_lose(endpoint->conn, status);
    }
}

/* Opens an endpoint to its peer. If the endpoint is `is_unwatched`, UCX is not asked to report the loss of the peer. */
static ucs_status_t open_endpoint(mscclpp_transport_t *transport, ucx_endpoint_t *endpoint)
{
    const ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      (endpoint->is_unwatched ? 0 : UCP_EP_PARAM_FIELD_ERR_HANDLER),
        .address = (const ucp_address_t *)endpoint->address,
        .err_mode = endpoint->is_unwatched ? UCP_ERR_HANDLING_MODE_NONE : UCP_ERR_HANDLING_MODE_PEER,
        .err_handler = {.cb = on_failure, .arg = endpoint}};

    return transport->ucx.ucp_ep_create(transport->worker, &params, &endpoint->ep);
}

/*
 * Watches the peer's process, if it is visible on this machine. Returns true if its end will be noticed. Does no more
 * if the process is watched already.
 */
static bool start_watching(mscclpp_conn_t *conn)
{
#ifdef SYS_pidfd_open
    if (conn->pidfd < 0 && conn->peer_address.pids != 0 && conn->peer_address.pids == mscclpp_machine_pids()) {
        conn->pidfd = (int)syscall(SYS_pidfd_open, (pid_t)conn->peer_address.pid, 0);
    }
#endif
    return conn->pidfd >= 0;
}

/* Stops watching the peer's process, if it is watched. */
static void stop_watching(mscclpp_conn_t *conn)
{
    if (conn->pidfd >= 0) {
        close(conn->pidfd);
        conn->pidfd = -1;
    }
}

/*
 * Returns an endpoint to this address that an earlier connection has left in a state to be used again (ucx_endpoint_t).
 * Returns NULL if there is none.
 */
static ucx_endpoint_t *find_reusable(const mscclpp_conn_t *conn, const void *address, size_t length)
{
    ucx_endpoint_t *endpoint = conn->peer_address.has_conn_in_use != 0 ? NULL : conn->transport->endpoints;

    while (endpoint != NULL && (endpoint->conn != NULL || endpoint->is_lost || endpoint->is_closing ||
                                endpoint->peer_forced_closes != conn->peer_address.forced_closes ||
                                endpoint->length != length || memcmp(endpoint->address, address, length) != 0)) {
        endpoint = endpoint->next;
    }
    return endpoint;
}

/* Watches the peer's process if UCX does not report its loss. After an error the process is not watched. */
mscclpp_status_t mscclpp_transport_ucx_endpoint_get(mscclpp_conn_t *conn, const void *address, size_t length)
{
    mscclpp_transport_t *transport = conn->transport;
    ucx_endpoint_t *endpoint = find_reusable(conn, address, length);
    const bool is_near = mscclpp_transport_ucx_stays_near(&transport->params) && start_watching(conn);
    ucs_status_t status = UCS_OK;

    if (endpoint == NULL) {
        endpoint = calloc(1, sizeof(*endpoint) + length);
        if (endpoint == NULL) {
            mscclpp_error("%s: out of memory for the connection to rank %d", transport->params.label, conn->peer);
            stop_watching(conn);
            return MSCCLPP_ERR_NO_MEMORY;
        }
        endpoint->length = length;
        memcpy(endpoint->address, address, length);
        /*
         * UCX reports lost peers only if its transport does, and shared memory does not. If asked to report them, UCX
         * would send traffic within this host over sockets. So the peer's process is watched here where possible.
         */
        endpoint->is_unwatched = is_near;
        status = open_endpoint(transport, endpoint);
        if (status != UCS_OK) {
            /* UCX may be able to open it only in the other way. */
            endpoint->is_unwatched = !is_near;
            status = open_endpoint(transport, endpoint);
        }
        if (status != UCS_OK) {
            mscclpp_error("%s: no ucx connection to rank %d: ucp_ep_create: %s", transport->params.label, conn->peer,
                          transport->ucx.ucs_status_string(status));
            free(endpoint);
            stop_watching(conn);
            return MSCCLPP_ERR_PEER;
        }
        endpoint->next = transport->endpoints;
        transport->endpoints = endpoint;
    }
    endpoint->peer_forced_closes = conn->peer_address.forced_closes;
    endpoint->conn = conn;
    conn->endpoint = endpoint;
    conn->ep = endpoint->ep;
    transport->has_unwatched = transport->has_unwatched || endpoint->is_unwatched;
    if (!endpoint->is_unwatched) {
        stop_watching(conn);
    } else if (!start_watching(conn)) {
        mscclpp_info("%s: the death of rank %d would not be noticed", transport->params.label, conn->peer);
    }
    return MSCCLPP_OK;
}

/*
 * Begins to close an endpoint. With `by_force`, UCX cancels the operations in progress. Clean-up frees the endpoint
 * once UCX has closed it. If UCX refuses to close it, it counts as closed.
 */
static void close_endpoint(mscclpp_transport_t *transport, ucx_endpoint_t *endpoint, bool by_force)
{
    /* Without reports of lost peers UCX cannot close by force. */
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                       .flags = by_force && !endpoint->is_unwatched ? UCP_EP_CLOSE_FLAG_FORCE : 0};

    if (endpoint->is_closing || transport->stranded) {
        return;
    }
    transport->forced_closes += by_force;
    endpoint->is_closing = true;
    endpoint->close_request = transport->ucx.ucp_ep_close_nbx(endpoint->ep, &param);
    if (UCS_PTR_IS_ERR(endpoint->close_request)) {
        mscclpp_debug("ucp_ep_close_nbx: %s",
                      transport->ucx.ucs_status_string(UCS_PTR_STATUS(endpoint->close_request)));
        endpoint->close_request = NULL;
    }
    endpoint->ep = NULL;
}

/* An endpoint that is neither lost nor closed by force stays open for the next connection to the same worker. */
void mscclpp_transport_ucx_endpoint_release(mscclpp_conn_t *conn, bool by_force)
{
    stop_watching(conn);
    if (conn->endpoint == NULL) {
        return;
    }
    conn->endpoint->conn = NULL;
    if (by_force || conn->endpoint->is_lost) {
        close_endpoint(conn->transport, conn->endpoint, true);
    }
    conn->endpoint = NULL;
    conn->ep = NULL;
}

/*
 * Looks for peers whose processes have ended, and notes them as lost. Checks only once in UCX_WATCH_SECONDS, because
 * each check is a system call. A connection with a `pidfd` always has an endpoint, because it gives up both together.
 */
static void check_processes(mscclpp_transport_t *transport)
{
    double now = mscclpp_now();

    if (now - transport->watched_at < UCX_WATCH_SECONDS) {
        return;
    }
    transport->watched_at = now;
    for (mscclpp_conn_t *conn = transport->conns; conn != NULL; conn = conn->next) {
        struct pollfd process_end = {.fd = conn->pidfd, .events = POLLIN};
        if (conn->pidfd >= 0 && conn->lost_at == 0 && poll(&process_end, 1, 0) > 0) {
            conn->endpoint->is_lost = true;
            mscclpp_transport_ucx_lose(conn, UCS_ERR_CONNECTION_RESET);
        }
    }
}

void mscclpp_transport_ucx_clean_up_endpoints(mscclpp_transport_t *transport)
{
    ucx_endpoint_t **link = &transport->endpoints;

    if (transport->has_unwatched) {
        check_processes(transport);
    }
    while (*link != NULL) {
        ucx_endpoint_t *endpoint = *link;
        if (endpoint->is_lost && endpoint->conn == NULL) {
            close_endpoint(transport, endpoint, true);
        }
        if (endpoint->close_request != NULL &&
            transport->ucx.ucp_request_check_status(endpoint->close_request) != UCS_INPROGRESS) {
            transport->ucx.ucp_request_free(endpoint->close_request);
            endpoint->close_request = NULL;
        }
        if (endpoint->is_closing && endpoint->close_request == NULL) {
            *link = endpoint->next;
            free(endpoint);
        } else {
            link = &endpoint->next;
        }
    }
}

/* Makes progress on the worker once. Returns false once the deadline has passed. */
static bool progress_until(mscclpp_transport_t *transport, double deadline)
{
    (void)mscclpp_transport_ucx_progress_worker(transport);
    return mscclpp_now() < deadline;
}

/*
 * Waits until the endpoints have sent what they have. Good-byes get UCX_DRAIN_SECONDS in total to leave. Waits for no
 * answers, because peers may already be gone. A request may be freed before it has ended, which UCX allows.
 */
static void drain(mscclpp_transport_t *transport)
{
    const ucp_request_param_t param = {0};
    double deadline = mscclpp_now() + UCX_DRAIN_SECONDS;

    for (ucx_endpoint_t *endpoint = transport->endpoints; endpoint != NULL; endpoint = endpoint->next) {
        ucs_status_ptr_t request = NULL;
        if (!endpoint->is_lost && !endpoint->is_closing) {
            request = transport->ucx.ucp_ep_flush_nbx(endpoint->ep, &param);
        }
        if (request == NULL || UCS_PTR_IS_ERR(request)) {
            continue;
        }
        while (transport->ucx.ucp_request_check_status(request) == UCS_INPROGRESS &&
               progress_until(transport, deadline)) {
        }
        transport->ucx.ucp_request_free(request);
    }
}

void mscclpp_transport_ucx_endpoint_close_all(mscclpp_transport_t *transport)
{
    drain(transport);
    for (ucx_endpoint_t *endpoint = transport->endpoints; endpoint != NULL; endpoint = endpoint->next) {
        close_endpoint(transport, endpoint, true);
    }
}

void mscclpp_transport_ucx_endpoint_drop(mscclpp_transport_t *transport)
{
    while (transport->endpoints != NULL) {
        ucx_endpoint_t *endpoint = transport->endpoints;
        transport->endpoints = endpoint->next;
        free(endpoint);
    }
}
