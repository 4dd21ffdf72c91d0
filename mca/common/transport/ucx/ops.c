/*
 * The operations of the transport ucx: their queue, and the operations that UCX executes directly in the peer's memory.
 */
#include "mca/common/transport/ucx/internal.h"

#include "mca/common/base/log.h"

/* Returns the entry of operation `number`, which later operations use again. */
static ucx_op_t *op_at(mscclpp_conn_t *conn, uint64_t number)
{
    return &conn->ops[number % UCX_OPS_MAX];
}

/* Ends a request of the connection. If the request failed, the peer is lost. */
static void end_request(void *request, ucs_status_t status, void *user_data)
{
    mscclpp_conn_t *conn = user_data;

    --conn->outstanding_count;
    if (status != UCS_OK) {
        mscclpp_transport_ucx_lose(conn, status);
    }
    conn->transport->ucx.ucp_request_free(request);
}

/*
 * Notes that UCX has sent a direct put. UCX no longer needs the put's source. Only a later flush tells that the bytes
 * have arrived.
 */
static void on_put(void *request, ucs_status_t status, void *user_data)
{
    ucx_op_t *op = user_data;

    op->is_sending = false;
    --op->conn->sending_count;
    end_request(request, status, op->conn);
}

/* Notes that a flush has ended. The direct puts before the flush are in the peer's memory. */
static void on_flushed(void *request, ucs_status_t status, void *user_data)
{
    mscclpp_conn_t *conn = user_data;

    if (status == UCS_OK) {
        conn->flushed_end = conn->flushing_end;
    }
    conn->flushing_end = 0;
    end_request(request, status, user_data);
}

/*
 * Handles what a call of UCX that takes a callback has returned. NULL: done at once, and the callback is not called. An
 * error: the peer is lost. The caller has counted the request in conn->outstanding_count before the call, since the
 * callback may run within it.
 */
static void handle_result(mscclpp_conn_t *conn, ucs_status_ptr_t request)
{
    if (request == NULL || UCS_PTR_IS_ERR(request)) {
        --conn->outstanding_count;
    }
    if (UCS_PTR_IS_ERR(request)) {
        mscclpp_transport_ucx_lose(conn, UCS_PTR_STATUS(request));
    }
}

/* Begins a direct put. UCX writes to the peer's memory. The source is in use while `op->is_sending` is set. */
static void put_directly(mscclpp_conn_t *conn, ucx_op_t *op)
{
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                                                       UCP_OP_ATTR_FIELD_MEMORY_TYPE | UCP_OP_ATTR_FIELD_MEMH,
                                       .cb.send = on_put,
                                       .user_data = op,
                                       .memory_type = UCS_MEMORY_TYPE_HOST,
                                       .memh = op->region->memory};
    ucs_status_ptr_t request;

    op->is_sending = true;
    ++conn->outstanding_count;
    ++conn->sending_count;
    request = conn->transport->ucx.ucp_put_nbx(conn->ep, op->region->address + op->from, op->length,
                                               op->remote->address + op->to, op->remote->rkey, &param);
    /* NULL: done at once, and `on_put` is not called. */
    if (request == NULL || UCS_PTR_IS_ERR(request)) {
        op->is_sending = false;
        --conn->sending_count;
    }
    handle_result(conn, request);
}

/*
 * Begins a flush of the connection. The flush covers all operations that have begun so far. It has ended when
 * `flushing_end` is 0, which may be the case when the function returns. Then either `flushed_end` says which operations
 * the flush included, or the peer is lost.
 */
static void begin_flush(mscclpp_conn_t *conn)
{
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                       .cb.send = on_flushed,
                                       .user_data = conn};
    ucs_status_ptr_t request;

    conn->flushing_end = conn->op_next;
    ++conn->outstanding_count;
    request = conn->transport->ucx.ucp_ep_flush_nbx(conn->ep, &param);
    if (request == NULL) {
        conn->flushed_end = conn->flushing_end;
    }
    if (request == NULL || UCS_PTR_IS_ERR(request)) {
        conn->flushing_end = 0;
    }
    handle_result(conn, request);
}

/*
 * Returns true if earlier messages must arrive before the direct put: those that write some of the same bytes would
 * later overwrite its data. (If there was no signal between the two, their order would not matter.) Only puts and adds
 * write, and both have a remote.
 */
static bool must_wait_for_messages(const mscclpp_conn_t *conn, const ucx_op_t *op)
{
    if (conn->acked >= conn->write_end) {
        return false;
    }
    for (uint64_t number = conn->op_begin; number < conn->op_next; ++number) {
        const ucx_op_t *earlier = &conn->ops[number % UCX_OPS_MAX];
        const uint64_t length = earlier->kind == UCX_ADD ? sizeof(uint64_t) : earlier->length;
        const bool may_still_write =
            earlier->by_message && earlier->kind != UCX_SIGNAL && conn->acked < earlier->message_end;
        const bool overlaps = earlier->to < op->to + op->length && op->to < earlier->to + length;

        if (may_still_write && overlaps && earlier->remote->region == op->remote->region) {
            return true;
        }
    }
    return false;
}

/*
 * Begins the next operation that has not begun. Returns false if the operation or a part of it has to wait, or if the
 * connection broke. Signals, adds and puts with a signal wait until a flush has shown that earlier direct puts are in
 * the peer's memory. If there has been no such flush, sets *needs_flush_p.
 */
static bool begin_next(mscclpp_conn_t *conn, bool *needs_flush_p)
{
    ucx_op_t *op = op_at(conn, conn->op_next);

    if ((op->kind != UCX_PUT || op->signal != 0) && conn->flushed_end < conn->direct_end) {
        *needs_flush_p = true;
        return false;
    }
    if (op->by_message) {
        bool is_packed = mscclpp_transport_ucx_pack(conn, op);

        mscclpp_transport_ucx_send(conn); /* now, because later direct puts may take long */
        conn->write_end = is_packed && op->kind != UCX_SIGNAL ? op->message_end : conn->write_end;
        return is_packed;
    }
    if (must_wait_for_messages(conn, op)) {
        return false;
    }
    put_directly(conn, op);
    conn->direct_end = conn->op_next + 1;
    return true;
}

/* Removes the oldest operation, which has ended or is given up, and lets go of its remote. There must be one. */
static void drop_first_op(mscclpp_conn_t *conn)
{
    const ucx_op_t *op = op_at(conn, conn->op_begin);

    if (op->remote != NULL) {
        mscclpp_transport_ucx_drop_remote(op->remote);
    }
    ++conn->op_begin;
}

/*
 * Removes the operations that have ended, in order: operations end with the acknowledgement of their messages, and
 * direct puts with a flush that covers them. Operations before `op_next` are in messages as a whole, so their
 * `message_end` is valid.
 */
static void drop_ended_ops(mscclpp_conn_t *conn)
{
    while (conn->op_begin < conn->op_next) {
        const ucx_op_t *op = op_at(conn, conn->op_begin);
        if (op->by_message ? conn->acked < op->message_end : op->is_sending || conn->flushed_end <= conn->op_begin) {
            break;
        }
        drop_first_op(conn);
    }
}

void mscclpp_transport_ucx_drop_ops(mscclpp_conn_t *conn)
{
    while (conn->op_begin < conn->op_end) {
        drop_first_op(conn);
    }
}

/*
 * Returns true if direct puts that no flush has covered need one. This is so if an operation waits for it
 * (`is_awaited`), if direct puts fill half of the queue, or if a caller waits for a flush. A flush covers only
 * operations that have begun, so a caller's flush is begun only after all operations that it must cover.
 */
static bool wants_flush(const mscclpp_conn_t *conn, bool is_awaited)
{
    if (conn->flushing_end != 0 || conn->flushed_end >= conn->direct_end) {
        return false;
    }
    return is_awaited || (conn->flushed_end < conn->wanted_end && conn->wanted_end <= conn->op_next) ||
           conn->op_next - conn->op_begin >= UCX_OPS_MAX / 2;
}

/* Repeats only if a flush ends at once, because then operations that waited for the flush can begin. */
void mscclpp_transport_ucx_advance(mscclpp_conn_t *conn)
{
    bool may_begin_more = true;

    while (may_begin_more && conn->connected && conn->status == MSCCLPP_OK && conn->lost_at == 0) {
        bool needs_flush = false;

        while (conn->op_next < conn->op_end && conn->lost_at == 0 && begin_next(conn, &needs_flush)) {
            ++conn->op_next;
        }
        mscclpp_transport_ucx_send(conn);
        may_begin_more = false;
        if (wants_flush(conn, needs_flush)) {
            begin_flush(conn);
            may_begin_more = conn->flushing_end == 0; /* the flush ended at once, so more operations may begin */
        }
        drop_ended_ops(conn);
    }
}

/*
 * Checks that the connection takes another operation. MSCCLPP_IN_PROGRESS: too many operations are in progress.
 * Otherwise returns the reason why the connection takes none. A connection that the peer has closed breaks when it is
 * used.
 */
static mscclpp_status_t check_can_take(mscclpp_conn_t *conn)
{
    if (conn->status != MSCCLPP_OK) {
        return conn->status;
    }
    if (!conn->connected) {
        mscclpp_error("%s: the ucx connection to rank %d is used before it is connected", conn->transport->params.label,
                      conn->peer);
        return MSCCLPP_ERR_INVALID;
    }
    if (conn->peer_left) {
        mscclpp_transport_ucx_fail(conn, MSCCLPP_ERR_PEER, "the peer has closed it");
        return conn->status;
    }
    return conn->op_end - conn->op_begin < UCX_OPS_MAX ? MSCCLPP_OK : MSCCLPP_IN_PROGRESS;
}

/*
 * Checks that the bytes are within a region. The region has `region_length` bytes and belongs to rank `owner`. `action`
 * begins the message of a refusal.
 */
static mscclpp_status_t check_range(const mscclpp_conn_t *conn, const char *action, uint64_t offset, uint64_t length,
                                    int owner, uint64_t region_length)
{
    if (offset > region_length || length > region_length - offset) {
        mscclpp_error("%s: %s %llu bytes from byte %llu on of a region of rank %d, which has %llu",
                      conn->transport->params.label, action, (unsigned long long)length, (unsigned long long)offset,
                      owner, (unsigned long long)region_length);
        return MSCCLPP_ERR_INVALID;
    }
    return MSCCLPP_OK;
}

/* Appends a copy of an operation to the queue, which must have room, and begins what can begin. */
static void enqueue(mscclpp_conn_t *conn, const ucx_op_t *op)
{
    *op_at(conn, conn->op_end) = *op;
    op_at(conn, conn->op_end)->conn = conn;
    if (op->remote != NULL) {
        ++op->remote->op_count;
    }
    ++conn->op_end;
    mscclpp_transport_ucx_advance(conn);
}

/* Returns true if a put between these regions goes by messages, because UCX cannot access its source or its target. */
static bool goes_by_message(const mscclpp_remote_t *remote, const mscclpp_region_t *region)
{
    return remote->rkey == NULL || region->memory == NULL;
}

/*
 * Queues a put. If `signal` is not 0, a signal of token `signal - 1` follows its data. A put of 0 bytes is only
 * checked: it sends no signal either. Returns MSCCLPP_ERR_INVALID for bytes outside a region; otherwise returns what
 * check_can_take does.
 */
static mscclpp_status_t put_and_signal(mscclpp_conn_t *conn, mscclpp_remote_t *remote, uint64_t to,
                                       mscclpp_region_t *region, uint64_t from, uint64_t length, uint64_t signal)
{
    const ucx_op_t op = {.kind = UCX_PUT,
                         .by_message = goes_by_message(remote, region),
                         .remote = remote,
                         .region = region,
                         .to = to,
                         .from = from,
                         .length = length,
                         .signal = signal};
    mscclpp_status_t status = check_range(conn, "a put into", to, length, conn->peer, remote->length);

    if (status == MSCCLPP_OK) {
        status = check_range(conn, "a put of", from, length, conn->transport->params.rank, region->length);
    }
    if (status == MSCCLPP_OK) {
        status = check_can_take(conn);
    }
    if (status == MSCCLPP_OK && length > 0) {
        enqueue(conn, &op);
    }
    return status;
}

mscclpp_status_t mscclpp_transport_ucx_put(mscclpp_conn_t *conn, mscclpp_remote_t *remote, uint64_t to,
                                           mscclpp_region_t *region, uint64_t from, uint64_t length)
{
    return put_and_signal(conn, remote, to, region, from, length, 0);
}

/* Checks that the peer has this token. Otherwise logs an error. */
static mscclpp_status_t check_token(const mscclpp_conn_t *conn, uint32_t token)
{
    if (token < conn->peer_address.token_count) {
        return MSCCLPP_OK;
    }
    mscclpp_error("%s: rank %d has no token %u; it has %llu", conn->transport->params.label, conn->peer, token,
                  (unsigned long long)conn->peer_address.token_count);
    return MSCCLPP_ERR_INVALID;
}

/*
 * The last message of the data carries the signal, so this needs a put that has data and goes by messages. For any
 * other put, returns MSCCLPP_ERR_NOT_SUPPORTED and queues nothing.
 */
mscclpp_status_t mscclpp_transport_ucx_put_signal(mscclpp_conn_t *conn, mscclpp_remote_t *remote, uint64_t to,
                                                  mscclpp_region_t *region, uint64_t from, uint64_t length,
                                                  uint32_t token)
{
    mscclpp_status_t status;

    if (length == 0 || !goes_by_message(remote, region)) {
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    status = check_token(conn, token);
    return status == MSCCLPP_OK ? put_and_signal(conn, remote, to, region, from, length, 1 + (uint64_t)token) : status;
}

/* A signal always goes as a message. */
mscclpp_status_t mscclpp_transport_ucx_signal(mscclpp_conn_t *conn, uint32_t token)
{
    const ucx_op_t op = {.kind = UCX_SIGNAL, .by_message = true, .to = token, .value = 1};
    mscclpp_status_t status = check_can_take(conn);

    if (status == MSCCLPP_OK) {
        status = check_token(conn, token);
    }
    if (status == MSCCLPP_OK) {
        enqueue(conn, &op);
    }
    return status;
}

/*
 * An add always goes as a message. An invalid address is refused here, with MSCCLPP_ERR_INVALID, because at the peer it
 * would break the connection.
 */
mscclpp_status_t mscclpp_transport_ucx_add(mscclpp_conn_t *conn, mscclpp_remote_t *remote, uint64_t to, uint64_t value)
{
    const ucx_op_t op = {.kind = UCX_ADD, .by_message = true, .remote = remote, .to = to, .value = value};
    mscclpp_status_t status = check_range(conn, "an addition to", to, sizeof(uint64_t), conn->peer, remote->length);

    if (status == MSCCLPP_OK && (remote->address + to) % sizeof(uint64_t) != 0) {
        mscclpp_error("%s: an add to byte %llu of a region of rank %d: its address must be a multiple of 8",
                      conn->transport->params.label, (unsigned long long)to, conn->peer);
        status = MSCCLPP_ERR_INVALID;
    }
    if (status == MSCCLPP_OK) {
        status = check_can_take(conn);
    }
    if (status == MSCCLPP_OK) {
        enqueue(conn, &op);
    }
    return status;
}

/* The ticket is the number of operations taken so far. It completes once that many operations have ended. */
mscclpp_status_t mscclpp_transport_ucx_flush(mscclpp_conn_t *conn, uint64_t *ticket_p)
{
    if (conn->status != MSCCLPP_OK) {
        return conn->status;
    }
    conn->wanted_end = conn->op_end;
    *ticket_p = conn->op_end;
    mscclpp_transport_ucx_advance(conn);
    return MSCCLPP_OK;
}

/* A completed ticket stays completed, even if the connection fails later. Makes no progress by itself. */
mscclpp_status_t mscclpp_transport_ucx_test(mscclpp_conn_t *conn, uint64_t ticket)
{
    if (conn->op_begin >= ticket) {
        return MSCCLPP_OK;
    }
    return conn->status != MSCCLPP_OK ? conn->status : MSCCLPP_IN_PROGRESS;
}

/*
 * It is not enough that UCX has released all messages, because UCX may still keep the end of a message that the
 * socket did not accept. So a flush is begun, which shows that the messages have left. A flush shows nothing about
 * messages whose data the peer fetches; `sending_count` tells whether UCX still holds such messages.
 */
bool mscclpp_transport_ucx_has_left(mscclpp_conn_t *conn)
{
    bool may_flush;

    if (conn->op_begin == conn->op_end) {
        return true;
    }
    if (conn->op_next != conn->op_end || conn->sent != conn->packed || conn->sending_count != 0) {
        return false;
    }
    may_flush = conn->flushing_end == 0 && conn->connected && conn->lost_at == 0;
    if (conn->flushed_end != conn->op_end && may_flush) {
        begin_flush(conn);
    }
    return conn->flushed_end == conn->op_end;
}
