/* Handles what the HCA reports: completions, signals of peers, and errors. */
#include "mca/common/base/clock.h"
#include "mca/common/transport/verbs/internal.h"

#include <errno.h>

#define POLL_BATCH 16      /* completions that are read at a time */
#define POLL_ROUNDS 4      /* the most batches of one queue pair in a row, so that other queue pairs are not delayed */
#define EVENT_ROUNDS 1024u /* rounds of progress between two checks of events and of the clock */
#define PROBE_SECONDS 1.0  /* seconds between two probes of the peers */

/*
 * Returns the status of this library for the status of a failed completion. MSCCLPP_ERR_PEER says that the peer caused
 * the failure.
 */
static mscclpp_status_t status_of_completion(enum ibv_wc_status status)
{
    switch (status) {
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RNR_RETRY_EXC_ERR:
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_OP_ERR:
    case IBV_WC_REM_ABORT_ERR:
        return MSCCLPP_ERR_PEER;
    default:
        return MSCCLPP_ERR_SYSTEM;
    }
}

static void poll_events(mscclpp_transport_t *transport);

/*
 * Takes the peer's good-bye. Everything that the peer sent before its good-bye has arrived. Requests of this side count
 * as completed, because the peer no longer needs them. Requests that have not been posted are dropped.
 */
static void note_good_bye(mscclpp_conn_t *conn)
{
    mscclpp_debug("%s: verbs: rank %d has closed its connection", conn->transport->params.label, conn->peer);
    conn->peer_left = true;
    mscclpp_verbs_abandon_add(conn);
    for (int i = 0; i < conn->qp_count; ++i) {
        mscclpp_verbs_qp_t *qp = conn->qps[i];
        qp->unposted = (mscclpp_verbs_unposted_t){0};
        qp->listed = 0;
        qp->last_asking = qp->completed = qp->posted;
    }
}

/*
 * Breaks the connection because a request has failed. Only the first failure is logged, because later ones follow from
 * it. If an event explains the failure, handling the event breaks the connection and logs the event instead of the
 * completion.
 */
static void fail_by_completion(mscclpp_verbs_qp_t *qp, const struct ibv_wc *wc)
{
    mscclpp_conn_t *conn = qp->conn;
    const mscclpp_transport_t *transport = conn->transport;

    if (MSCCLPP_OK != conn->status || conn->peer_left) {
        return;
    }
    if (IBV_WC_WR_FLUSH_ERR == wc->status) {
        /* This failure follows from another one, for which there may be an event. */
        poll_events(conn->transport);
    }
    mscclpp_verbs_fail(conn, status_of_completion(wc->status),
                       "the connection to rank %d over %s port %d failed: %s (status %d, vendor code 0x%x)", conn->peer,
                       qp->rail->name, qp->rail->port, transport->ibv.wc_status_str(wc->status), (int)wc->status,
                       wc->vendor_err);
}

/*
 * Takes a message from the peer. A message is a control message or, in mode no_atomic, a signal. The data of puts
 * before a signal is already in memory, because the HCA reports a message only after the data before it.
 */
static void handle_message(mscclpp_verbs_qp_t *qp, const struct ibv_wc *wc)
{
    mscclpp_conn_t *conn = qp->conn;
    const mscclpp_transport_params_t *params = &conn->transport->params;
    const uint32_t message = ntohl(wc->imm_data); /* a token's number or a control message */

    ++qp->receives_missing;
    if (MSCCLPP_VERBS_GOOD_BYE == message) {
        note_good_bye(conn);
        return;
    }
    if (message >= MSCCLPP_VERBS_TOKEN_LIMIT) {
        /* Not a token: a message of the bounce protocol. */
        mscclpp_verbs_bounce_on_message(conn, message);
        return;
    }
    if (message >= params->token_count) {
        mscclpp_verbs_fail(conn, MSCCLPP_ERR_PEER, "rank %d signalled token %u, and there are %zu", conn->peer, message,
                           params->token_count);
        return;
    }
    (void)__atomic_add_fetch(&params->tokens[message], 1, __ATOMIC_RELEASE);
}

/*
 * Handles one entry of the completion queue. After a good-bye all requests count as completed, so later entries are
 * ignored.
 */
static void handle_completion(mscclpp_verbs_qp_t *qp, const struct ibv_wc *wc)
{
    if (IBV_WC_SUCCESS != wc->status) {
        fail_by_completion(qp, wc);
    } else if (MSCCLPP_VERBS_RECEIVE_ID == wc->wr_id) {
        handle_message(qp, wc);
    } else if (wc->wr_id > qp->completed) {
        qp->completed = wc->wr_id;
    }
}

void mscclpp_verbs_poll(mscclpp_verbs_qp_t *qp)
{
    mscclpp_conn_t *conn = qp->conn;
    struct ibv_wc wcs[POLL_BATCH];

    for (int round = 0; round < POLL_ROUNDS && MSCCLPP_OK == conn->status; ++round) {
        int count = ibv_poll_cq(qp->cq, POLL_BATCH, wcs);
        if (count < 0) {
            mscclpp_verbs_fail(conn, MSCCLPP_ERR_SYSTEM, "the completions of rank %d on %s port %d cannot be read",
                               conn->peer, qp->rail->name, qp->rail->port);
        }
        for (int i = 0; i < count; ++i) {
            handle_completion(qp, &wcs[i]);
        }
        if (count < POLL_BATCH) {
            break;
        }
    }
    /* Posts receive requests in chains and not one by one: only when more than an eighth of them is missing. */
    if (!conn->peer_left && qp->receives_missing > qp->receives_wanted / 8) {
        mscclpp_verbs_post_receives(qp);
    }
}

/*
 * Returns true if the event concerns the connection. An event of a queue names the queue. A failure of the device
 * concerns all connections over that rail.
 */
static bool concerns_conn(const mscclpp_conn_t *conn, const mscclpp_verbs_rail_t *rail,
                          const struct ibv_async_event *event)
{
    for (int i = 0; i < conn->qp_count; ++i) {
        const mscclpp_verbs_qp_t *qp = conn->qps[i];
        switch (event->event_type) {
        case IBV_EVENT_QP_FATAL:
        case IBV_EVENT_QP_REQ_ERR:
        case IBV_EVENT_QP_ACCESS_ERR:
            if (event->element.qp == qp->qp) {
                return true;
            }
            break;
        case IBV_EVENT_CQ_ERR:
            if (event->element.cq == qp->cq) {
                return true;
            }
            break;
        case IBV_EVENT_DEVICE_FATAL:
            if (qp->rail == rail) {
                return true;
            }
            break;
        default:
            break;
        }
    }
    return false;
}

/*
 * Breaks the connections that the event concerns. A side that sends nothing has no completions, so an event may be the
 * only sign that its connection has ended.
 */
static void handle_event(mscclpp_transport_t *transport, const mscclpp_verbs_rail_t *rail,
                         const struct ibv_async_event *event)
{
    const char *event_text = transport->ibv.event_type_str(event->event_type);

    if (IBV_EVENT_PORT_ERR == event->event_type) {
        mscclpp_warn("%s: verbs: %s port %d: %s", transport->params.label, rail->name, event->element.port_num,
                     event_text);
        return;
    }
    mscclpp_debug("%s: verbs: %s: %s", transport->params.label, rail->name, event_text);
    for (mscclpp_conn_t *conn = transport->conns; conn != NULL; conn = conn->next) {
        if (concerns_conn(conn, rail, event)) {
            mscclpp_verbs_fail(conn, MSCCLPP_ERR_PEER, "the connection to rank %d over %s port %d failed: %s",
                               conn->peer, rail->name, rail->port, event_text);
        }
    }
}

/*
 * Takes the events of all devices. The devices' descriptors do not block (open_port), so the loop ends when no event is
 * left. Acknowledges each event at once, because destroying a queue pair waits until its events are acknowledged.
 */
static void poll_events(mscclpp_transport_t *transport)
{
    for (int i = 0; i < transport->rail_count; ++i) {
        mscclpp_verbs_rail_t *rail = &transport->rails[i];
        struct ibv_async_event event;
        while (0 == transport->ibv.get_async_event(rail->context, &event)) {
            handle_event(transport, rail, &event);
            transport->ibv.ack_async_event(&event);
        }
    }
}

/*
 * Probes, from time to time, whether the peers' processes live. A rank that only waits has no requests in progress, so
 * no failed completion tells it that the peer's process is dead. The probe is a write of 0 bytes, which the peer's HCA
 * answers as long as the queue pair exists. A peer is not probed while a request that asks for its completion is in
 * progress.
 */
static void probe_peers(mscclpp_transport_t *transport)
{
    const double now = mscclpp_now();

    if (now - transport->probed_at < PROBE_SECONDS) {
        return;
    }
    transport->probed_at = now;
    for (mscclpp_conn_t *conn = transport->conns; conn != NULL; conn = conn->next) {
        mscclpp_verbs_qp_t *qp = conn->qps[0];
        if (conn->connected && !conn->peer_left && MSCCLPP_OK == conn->status && qp->last_asking <= qp->completed &&
            mscclpp_verbs_free_slots(qp) > 0) {
            mscclpp_verbs_post_nothing(qp);
            (void)mscclpp_verbs_ask_completion(qp);
            mscclpp_verbs_ring_doorbell(qp);
        }
    }
}

/*
 * Returns true if the rail's completion queue may have entries. The HCA reports a failure even of requests that asked
 * for no completion. Only rail 0 receives messages: signals in mode no_atomic, those of the bounce protocol, and
 * good-byes. With several rails, a good-bye explains why the others fail.
 */
static bool may_have_completions(const mscclpp_conn_t *conn, int rail_index)
{
    return conn->qps[rail_index]->posted != conn->qps[rail_index]->completed ||
           (0 == rail_index && (!conn->atomic || conn->bounce != NULL || conn->qp_count > 1));
}

/*
 * Makes progress on all connections. Polls events and probes the peers only once in EVENT_ROUNDS rounds, because
 * polling events needs system calls. Returns the first failure since the last call; conn_status returns the others.
 */
mscclpp_status_t mscclpp_verbs_progress(mscclpp_transport_t *transport)
{
    mscclpp_status_t failure;

    for (mscclpp_conn_t *conn = transport->conns; conn != NULL; conn = conn->next) {
        for (int i = 0; conn->connected && i < conn->qp_count && MSCCLPP_OK == conn->status; ++i) {
            mscclpp_verbs_qp_t *qp = conn->qps[i];
            mscclpp_verbs_ring_doorbell(qp);
            if (may_have_completions(conn, i)) {
                mscclpp_verbs_poll(qp);
            }
            if (0 != qp->unposted.length || qp->unposted.read_back) {
                mscclpp_verbs_continue_put(qp);
                mscclpp_verbs_ring_doorbell(qp);
            }
        }
    }
    if (transport->bouncing_conns > 0) {
        mscclpp_verbs_bounce_progress(transport);
    }
    if (++transport->rounds % EVENT_ROUNDS == 0) {
        poll_events(transport);
        probe_peers(transport);
    }
    failure = transport->unreported_failure;
    transport->unreported_failure = MSCCLPP_OK;
    return failure;
}
