/* The operations of the transport ucx: their queue, and those that UCX carries out directly in the peer's memory. */
#include "mca/common/transport/ucx/internal.h"

#include "mca/common/base/log.h"

/* The place of operation `number` in the connection's ring. */
static ucx_op_t *op_at(mscclpp_conn_t *conn, uint64_t number)
{
    return &conn->ops[number % UCX_OPS_MAX];
}

/* UCX has ended an operation. */
static void on_done(void *request, ucs_status_t status, void *user_data)
{
    mscclpp_conn_t *conn = user_data;

    --conn->outstanding;
    if (status != UCS_OK) {
        mscclpp_transport_ucx_lose(conn, status);
    }
    conn->transport->ucx.ucp_request_free(request);
}

/* UCX no longer needs a put's source. */
static void on_put(void *request, ucs_status_t status, void *user_data)
{
    ucx_op_t *op = user_data;

    op->sending = false;
    --op->conn->sending;
    on_done(request, status, op->conn);
}

/* What was begun before a flush has arrived. */
static void on_flushed(void *request, ucs_status_t status, void *user_data)
{
    mscclpp_conn_t *conn = user_data;

    if (status == UCS_OK) {
        conn->flushed = conn->flushing;
    }
    conn->flushing = 0;
    on_done(request, status, user_data);
}

/*
 * Handles the result of a call of UCX that takes a callback. The request was counted before that call, as the callback
 * may run within it.
 */
static void check_request(mscclpp_conn_t *conn, ucs_status_ptr_t request)
{
    if (request == NULL || UCS_PTR_IS_ERR(request)) {
        --conn->outstanding;
    }
    if (UCS_PTR_IS_ERR(request)) {
        mscclpp_transport_ucx_lose(conn, UCS_PTR_STATUS(request));
    }
}

/* Begins a put by remote access, without a message. */
static void put_directly(mscclpp_conn_t *conn, ucx_op_t *op)
{
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                                                       UCP_OP_ATTR_FIELD_MEMORY_TYPE | UCP_OP_ATTR_FIELD_MEMH,
                                       .cb.send = on_put,
                                       .user_data = op,
                                       .memory_type = UCS_MEMORY_TYPE_HOST,
                                       .memh = op->region->memory};
    ucs_status_ptr_t request;

    op->sending = true;
    ++conn->outstanding;
    ++conn->sending;
    request = conn->transport->ucx.ucp_put_nbx(conn->ep, op->region->address + op->from, op->length,
                                               op->remote->address + op->to, op->remote->rkey, &param);
    if (request == NULL || UCS_PTR_IS_ERR(request)) {
        op->sending = false;
        --conn->sending;
    }
    check_request(conn, request);
}

/* Begins a flush of everything begun so far. */
static void begin_flush(mscclpp_conn_t *conn)
{
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                       .cb.send = on_flushed,
                                       .user_data = conn};
    ucs_status_ptr_t request;

    conn->flushing = conn->op_next;
    ++conn->outstanding;
    request = conn->transport->ucx.ucp_ep_flush_nbx(conn->ep, &param);
    if (request == NULL) {
        conn->flushed = conn->flushing;
    }
    if (request == NULL || UCS_PTR_IS_ERR(request)) {
        conn->flushing = 0;
    }
    check_request(conn, request);
}

/*
 * True if a direct put would overtake a message: if it writes bytes that a message not yet carried out also writes, and
 * that message would then overwrite them. (There was a signal between the two, or else the order does not matter.)
 */
static bool overtakes(const mscclpp_conn_t *conn, const ucx_op_t *op)
{
    if (conn->acked >= conn->laid) {
        return false;
    }
    for (uint64_t number = conn->op_begin; number < conn->op_next; ++number) {
        const ucx_op_t *before = &conn->ops[number % UCX_OPS_MAX];
        const uint64_t length = before->kind == UCX_ADD ? sizeof(uint64_t) : before->length;

        if (before->by_message && before->kind != UCX_SIGNAL && conn->acked < before->last &&
            before->remote->region == op->remote->region && before->to < op->to + op->length &&
            op->to < before->to + length) {
            return true;
        }
    }
    return false;
}

/*
 * Begins the operation `op_next`; false if it, or part of it, has to wait. *blocked_p: it waits for a flush. Signals
 * and adds, with or without bytes, wait until earlier direct puts are in the peer's memory.
 */
static bool begin_next(mscclpp_conn_t *conn, bool *blocked_p)
{
    ucx_op_t *op = op_at(conn, conn->op_next);

    if ((op->kind != UCX_PUT || op->signal != 0) && conn->flushed < conn->direct) {
        *blocked_p = true;
        return false;
    }
    if (op->by_message) {
        bool packed = mscclpp_transport_ucx_pack(conn, op);

        mscclpp_transport_ucx_send(conn); /* before the direct puts that follow, which may be long */
        conn->laid = packed && op->kind != UCX_SIGNAL ? op->last : conn->laid;
        return packed;
    }
    if (overtakes(conn, op)) {
        return false;
    }
    put_directly(conn, op);
    conn->direct = conn->op_next + 1;
    return true;
}

/* Removes the first operation, which is over or given up. */
static void drop_first_op(mscclpp_conn_t *conn)
{
    const ucx_op_t *op = op_at(conn, conn->op_begin);

    if (op->remote != NULL) {
        mscclpp_transport_ucx_drop_remote(op->remote);
    }
    ++conn->op_begin;
}

/* Drops operations, in order, that the peer has acknowledged or a flush has covered. */
static void drop_ended_ops(mscclpp_conn_t *conn)
{
    while (conn->op_begin < conn->op_next) {
        const ucx_op_t *op = op_at(conn, conn->op_begin);
        if (op->by_message ? conn->acked < op->last : op->sending || conn->flushed <= conn->op_begin) {
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

/* Begins operations as far as possible, sends messages, and drops operations that have ended. */
void mscclpp_transport_ucx_advance(mscclpp_conn_t *conn)
{
    bool again = true;

    while (again && conn->connected && conn->status == MSCCLPP_OK && conn->lost_at == 0) {
        bool blocked = false;

        while (conn->op_next < conn->op_end && conn->lost_at == 0 && begin_next(conn, &blocked)) {
            ++conn->op_next;
        }
        mscclpp_transport_ucx_send(conn);
        again = false;
        if (conn->flushing == 0 && conn->flushed < conn->direct &&
            (blocked || (conn->flushed < conn->wanted && conn->wanted <= conn->op_next) ||
             conn->op_next - conn->op_begin >= UCX_OPS_MAX / 2)) {
            begin_flush(conn);
            again = conn->flushing == 0; /* ended at once */
        }
        drop_ended_ops(conn);
    }
}

/* MSCCLPP_OK if one more operation can be taken, or why not. */
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
    if (conn->left) {
        mscclpp_transport_ucx_fail(conn, MSCCLPP_ERR_PEER, "the peer has closed it");
        return conn->status;
    }
    return conn->op_end - conn->op_begin < UCX_OPS_MAX ? MSCCLPP_OK : MSCCLPP_IN_PROGRESS;
}

/* Reports a range that leaves a region of `region_length` bytes, which belongs to rank `whose`. */
static mscclpp_status_t check_range(const mscclpp_conn_t *conn, const char *what, uint64_t offset, uint64_t length,
                                    int whose, uint64_t region_length)
{
    if (offset > region_length || length > region_length - offset) {
        mscclpp_error("%s: %s %llu bytes from byte %llu on of a region of rank %d, which has %llu",
                      conn->transport->params.label, what, (unsigned long long)length, (unsigned long long)offset,
                      whose, (unsigned long long)region_length);
        return MSCCLPP_ERR_INVALID;
    }
    return MSCCLPP_OK;
}

/* Adds an operation to the connection's queue, and begins what can begin. */
static void enqueue(mscclpp_conn_t *conn, const ucx_op_t *op)
{
    *op_at(conn, conn->op_end) = *op;
    op_at(conn, conn->op_end)->conn = conn;
    if (op->remote != NULL) {
        ++op->remote->users;
    }
    ++conn->op_end;
    mscclpp_transport_ucx_advance(conn);
}

/* Tells whether a put must go by messages, as UCX cannot access one of the memories directly. */
static bool goes_by_message(const mscclpp_remote_t *remote, const mscclpp_region_t *region)
{
    return remote->rkey == NULL || region->memory == NULL;
}

/* Puts bytes. If `signal` is not 0, a signal of token `signal - 1` follows them. */
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

/* Reports a token that the peer does not have. */
static mscclpp_status_t check_token(const mscclpp_conn_t *conn, uint32_t token)
{
    if (token < conn->to.token_count) {
        return MSCCLPP_OK;
    }
    mscclpp_error("%s: rank %d has no token %u; it has %llu", conn->transport->params.label, conn->peer, token,
                  (unsigned long long)conn->to.token_count);
    return MSCCLPP_ERR_INVALID;
}

/* Puts bytes with a signal, if they go by messages; else the caller asks for the two one by one. */
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

/* Takes a signal into the connection's queue. */
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

/* Takes an add into the connection's queue. */
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

/* The ticket is the number of operations taken so far. */
mscclpp_status_t mscclpp_transport_ucx_flush(mscclpp_conn_t *conn, uint64_t *ticket_p)
{
    if (conn->status != MSCCLPP_OK) {
        return conn->status;
    }
    conn->wanted = conn->op_end;
    *ticket_p = conn->op_end;
    mscclpp_transport_ucx_advance(conn);
    return MSCCLPP_OK;
}

/* Tells whether all operations before the ticket have ended. */
mscclpp_status_t mscclpp_transport_ucx_test(mscclpp_conn_t *conn, uint64_t ticket)
{
    if (conn->op_begin >= ticket) {
        return MSCCLPP_OK;
    }
    return conn->status != MSCCLPP_OK ? conn->status : MSCCLPP_IN_PROGRESS;
}

/*
 * True if everything has left this side. That UCX releases a message does not prove that it has left: UCX may keep its
 * end if the socket takes no more. A flush proves it, except for messages whose bytes the peer fetches.
 */
bool mscclpp_transport_ucx_has_left(mscclpp_conn_t *conn)
{
    if (conn->op_begin == conn->op_end) {
        return true;
    }
    if (conn->op_next != conn->op_end || conn->sent != conn->packed || conn->sending != 0) {
        return false;
    }
    if (conn->flushed != conn->op_end && conn->flushing == 0 && conn->connected && conn->lost_at == 0) {
        begin_flush(conn);
    }
    return conn->flushed == conn->op_end;
}
