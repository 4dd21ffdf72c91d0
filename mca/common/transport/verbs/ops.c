/*
 * The operations: puts, signals, adds and flushes, as work requests. Most of them only list requests, which are posted
 * when the list is full, when a flush follows, or by progress.
 */
#include "mca/common/transport/verbs/internal.h"

/* Returns MSCCLPP_OK if the connection accepts operations, or the reason why not. */
static mscclpp_status_t check_conn(const mscclpp_conn_t *conn)
{
    if (MSCCLPP_OK == conn->status && !conn->connected) {
        mscclpp_error("%s: verbs: rank %d is not connected yet", conn->transport->params.label, conn->peer);
        return MSCCLPP_ERR_INVALID;
    }
    return conn->status;
}

/* Returns true if some of the bytes lie beyond the end of a region of `size` bytes. Cannot overflow. */
static bool is_outside(uint64_t offset, uint64_t length, uint64_t size)
{
    return offset > size || length > size - offset;
}

/*
 * Starts a put. From or into bounced memory, it goes through slots. If the peer has left, succeeds without putting
 * anything. If the connection is broken, returns its status.
 *
 * Returns MSCCLPP_ERR_INVALID if the connection is not connected, or if the put exceeds a region. Returns
 * MSCCLPP_IN_PROGRESS, with nothing put, while an earlier put must be sent first or the queue is full.
 */
mscclpp_status_t mscclpp_verbs_put(mscclpp_conn_t *conn, mscclpp_remote_t *remote, uint64_t to,
                                   mscclpp_region_t *region, uint64_t from, uint64_t length)
{
    mscclpp_status_t status = check_conn(conn);

    if (MSCCLPP_OK != status) {
        return status;
    }
    if (remote->conn != conn || is_outside(to, length, remote->length) || is_outside(from, length, region->length)) {
        mscclpp_error("%s: verbs: a put of %llu bytes to rank %d does not fit: from offset %llu of %llu bytes to "
                      "offset %llu of %llu bytes",
                      conn->transport->params.label, (unsigned long long)length, conn->peer, (unsigned long long)from,
                      (unsigned long long)region->length, (unsigned long long)to, (unsigned long long)remote->length);
        return MSCCLPP_ERR_INVALID;
    }
    if (0 == length || conn->peer_left) {
        return MSCCLPP_OK;
    }
    if (region->bounced || remote->bounced) {
        return mscclpp_verbs_bounce_put(conn, remote, to, region, from, length);
    }
    /* Bounced data of earlier puts may still wait in slots, which this put must not overtake. */
    if (!mscclpp_verbs_bounce_is_empty(conn)) {
        return MSCCLPP_IN_PROGRESS;
    }
    return mscclpp_verbs_put_data(conn, remote, to, region, from, length);
}

/*
 * Returns true if a signal or an add may be posted now, because no earlier put can arrive after it, and the queue has
 * room.
 */
static bool can_follow_puts(mscclpp_conn_t *conn)
{
    return 0 == conn->qps[0]->unposted.length && mscclpp_verbs_free_slots(conn->qps[0]) > 0 &&
           mscclpp_verbs_settle_stripes(conn) && mscclpp_verbs_bounce_is_clear(conn);
}

/*
 * Lists an addition to a word of the peer on rail 0, whose HCA alone updates the words. The old value of the word goes
 * to the scratch, where it is ignored. The queue must have room.
 */
static void post_add(mscclpp_conn_t *conn, uint64_t address, uint32_t rkey, uint64_t value)
{
    mscclpp_verbs_qp_t *qp = conn->qps[0];
    struct ibv_send_wr *wr = mscclpp_verbs_next_request(qp);

    wr->opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
    wr->wr.atomic.remote_addr = address;
    wr->wr.atomic.rkey = rkey;
    wr->wr.atomic.compare_add = value;
    mscclpp_verbs_set_sge(wr, (uintptr_t)conn->transport->scratch, sizeof(*conn->transport->scratch),
                          qp->rail->scratch_mr->lkey);
}

/*
 * Signals a token of the peer, after all earlier puts. If the peer has left, succeeds without effect. If the connection
 * is broken, returns its status.
 *
 * Returns MSCCLPP_IN_PROGRESS, with nothing done, while an earlier put could arrive later than the signal, or while the
 * queue is full. Returns MSCCLPP_ERR_INVALID if the connection is not connected, or if the peer has no such token.
 */
mscclpp_status_t mscclpp_verbs_signal(mscclpp_conn_t *conn, uint32_t token)
{
    mscclpp_status_t status = check_conn(conn);

    if (MSCCLPP_OK != status) {
        return status;
    }
    if (token >= conn->token_count) {
        mscclpp_error("%s: verbs: rank %d has no token %u; it has %u", conn->transport->params.label, conn->peer, token,
                      conn->token_count);
        return MSCCLPP_ERR_INVALID;
    }
    if (conn->peer_left) {
        return MSCCLPP_OK;
    }
    if (!can_follow_puts(conn)) {
        return MSCCLPP_IN_PROGRESS;
    }
    if (conn->atomic) {
        post_add(conn, conn->token_address + token * sizeof(uint64_t), conn->token_rkey, 1);
    } else {
        mscclpp_verbs_send_control(conn->qps[0], token);
    }
    return conn->status;
}

/*
 * Adds to a word of the peer's region. If the connection does not use atomics, returns MSCCLPP_ERR_NOT_SUPPORTED. If
 * the peer has left, succeeds without adding anything. If the connection is broken, returns its status.
 *
 * Returns MSCCLPP_ERR_INVALID if the connection is not connected, or if the word is outside the region or not aligned.
 *
 * Returns MSCCLPP_IN_PROGRESS, with nothing added, while an earlier put could arrive later or the queue is full.
 */
mscclpp_status_t mscclpp_verbs_add(mscclpp_conn_t *conn, mscclpp_remote_t *remote, uint64_t to, uint64_t value)
{
    mscclpp_status_t status = check_conn(conn);

    if (MSCCLPP_OK != status) {
        return status;
    }
    if (!conn->atomic) {
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    if (remote->conn != conn || is_outside(to, sizeof(uint64_t), remote->length) ||
        0 != (remote->address + to) % sizeof(uint64_t)) {
        mscclpp_error("%s: verbs: an add at offset %llu of rank %d's region, which has %llu bytes; the word must be "
                      "aligned to 8 bytes",
                      conn->transport->params.label, (unsigned long long)to, conn->peer,
                      (unsigned long long)remote->length);
        return MSCCLPP_ERR_INVALID;
    }
    if (conn->peer_left) {
        return MSCCLPP_OK;
    }
    if (remote->bounced) {
        return mscclpp_verbs_bounce_add(conn, remote, to, value);
    }
    if (!can_follow_puts(conn)) {
        return MSCCLPP_IN_PROGRESS;
    }
    post_add(conn, remote->address + to, remote->rkeys[0], value);
    return conn->status;
}

/*
 * The ticket is the number of rail 0's last work request, whose completion is requested. Returns MSCCLPP_IN_PROGRESS
 * while a put waits to be posted or the queue has no room. Also does so until all data that is sent in stripes or slots
 * has arrived.
 *
 * Once the peer has left, all requests count as completed, and so does the ticket.
 */
mscclpp_status_t mscclpp_verbs_flush(mscclpp_conn_t *conn, uint64_t *ticket_p)
{
    mscclpp_verbs_qp_t *qp = conn->qps[0];
    mscclpp_status_t status = check_conn(conn);

    if (MSCCLPP_OK != status) {
        return status;
    }
    if (!conn->peer_left) {
        if (0 != qp->unposted.length || !mscclpp_verbs_settle_stripes(conn) || !mscclpp_verbs_bounce_is_empty(conn) ||
            !mscclpp_verbs_ask_completion(qp)) {
            return MSCCLPP_IN_PROGRESS;
        }
        mscclpp_verbs_ring_doorbell(qp);
    }
    if (MSCCLPP_OK == conn->status) {
        *ticket_p = qp->posted;
    }
    return conn->status;
}

mscclpp_status_t mscclpp_verbs_test(mscclpp_conn_t *conn, uint64_t ticket)
{
    if (ticket <= conn->qps[0]->completed) {
        return MSCCLPP_OK;
    }
    return MSCCLPP_OK != conn->status ? conn->status : MSCCLPP_IN_PROGRESS;
}
