/*
 * The sending half of messages whose bytes the peer's CPU puts in place.
 *
 * Each message of a put has a piece of the sender's bounce memory. The piece holds the bytes of the message if they
 * come from device memory. The receiver has a piece at the same offset of its landing memory. There the bytes wait for
 * their copy to the target, unless they can go to the target directly. Both sides free their piece once the receiver
 * has acknowledged the message. So one count at the sender bounds the memory on both sides.
 */
#include <string.h>

#include "mca/common/base/log.h"
#include "mca/common/transport/ucx/internal.h"

/* Returns the entry of message `number`, which later messages use again. */
static ucx_message_t *message_at(mscclpp_conn_t *conn, uint64_t number)
{
    return &conn->messages[number % UCX_MESSAGES_MAX];
}

bool mscclpp_transport_ucx_copy(mscclpp_conn_t *conn, mscclpp_copier_t *copier, void *to, const void *from, size_t size)
{
    const mscclpp_transport_params_t *params = &conn->transport->params;
    mscclpp_status_t status = mscclpp_copier_add(copier, params->gpu, params->device, to, from, size);

    if (status != MSCCLPP_OK) {
        mscclpp_transport_ucx_fail(conn, status, "device memory cannot be copied");
        return false;
    }
    return true;
}

/*
 * Allocates `size` bytes of pinned memory, if *memory_p is NULL. Only the host's address is used, by copies and by UCX.
 * On failure breaks the connection and returns false.
 */
static bool ensure_bounce_memory(mscclpp_conn_t *conn, char **memory_p, size_t size)
{
    void *host, *device;
    mscclpp_status_t status;

    if (*memory_p != NULL) {
        return true;
    }
    status = conn->transport->params.gpu->host_alloc(size, &host, &device);
    if (status != MSCCLPP_OK) {
        mscclpp_transport_ucx_fail(conn, status, "no bounce memory");
        return false;
    }
    *memory_p = host;
    return true;
}

bool mscclpp_transport_ucx_ensure_landing(mscclpp_conn_t *conn)
{
    return ensure_bounce_memory(conn, &conn->landing, conn->landing_size + sizeof(uint64_t));
}

/* Makes the copier, if there is none yet. On failure breaks the connection and returns false. */
static bool ensure_copier(mscclpp_conn_t *conn, mscclpp_copier_t *copier)
{
    const mscclpp_transport_params_t *params = &conn->transport->params;
    mscclpp_status_t status = mscclpp_copier_open(copier, params->gpu, params->device);

    if (status != MSCCLPP_OK) {
        mscclpp_transport_ucx_fail(conn, status, "no stream for copies of device memory");
    }
    return status == MSCCLPP_OK;
}

/*
 * A side with regions in device memory needs bounce memory for both directions. A side without such regions needs
 * landing memory if the peer sends it messages with data.
 */
mscclpp_status_t mscclpp_transport_ucx_equip(mscclpp_conn_t *conn)
{
    mscclpp_transport_t *transport = conn->transport;
    const bool bounces = transport->device_regions > 0;
    /* Data is sent in messages, unless both sides have registered their host memory with UCX. */
    const bool needs_landing = bounces || conn->peer_address.device_regions > 0 || !transport->registers_host ||
                               conn->peer_address.registers_host == 0;

    if ((!needs_landing || mscclpp_transport_ucx_ensure_landing(conn)) &&
        (!bounces || (ensure_bounce_memory(conn, &conn->ring, conn->ring_size) &&
                      ensure_copier(conn, &transport->out) && ensure_copier(conn, &transport->in)))) {
        return MSCCLPP_OK;
    }
    return conn->status;
}

/* A batch contains copies of all connections and does not tell which one has failed, so a failure breaks them all. */
bool mscclpp_transport_ucx_test_batch(mscclpp_transport_t *transport, mscclpp_copier_t *copier)
{
    mscclpp_status_t status = mscclpp_copier_test(copier, transport->params.gpu);

    if (status == MSCCLPP_IN_PROGRESS) {
        return false;
    }
    if (status != MSCCLPP_OK) {
        for (mscclpp_conn_t *conn = transport->conns; conn != NULL; conn = conn->next) {
            mscclpp_transport_ucx_fail(conn, status, "a copy of device memory failed");
        }
        return false;
    }
    return true;
}

void mscclpp_transport_ucx_await_copies(mscclpp_transport_t *transport)
{
    mscclpp_copier_wait(&transport->out, transport->params.gpu);
    mscclpp_copier_wait(&transport->in, transport->params.gpu);
}

void mscclpp_transport_ucx_note_copied_out(mscclpp_transport_t *transport)
{
    if (!transport->out.busy || !mscclpp_transport_ucx_test_batch(transport, &transport->out)) {
        return;
    }
    for (mscclpp_conn_t *conn = transport->conns; conn != NULL; conn = conn->next) {
        conn->ready = conn->packed;
        conn->ring_ready = conn->ring_end;
    }
}

/*
 * Returns the entry of the next message. Returns NULL if too many messages await their acknowledgement, or if UCX still
 * reads the header of the message that had this entry before.
 */
static ucx_message_t *next_message(mscclpp_conn_t *conn)
{
    ucx_message_t *message = message_at(conn, conn->packed);

    return conn->packed - conn->acked < UCX_MESSAGES_MAX && !message->is_sending ? message : NULL;
}

/*
 * Fills in a message for the operation. A put must already have taken its piece of the bounce memory, because
 * `ring_end` must include that piece.
 */
static void start_message(mscclpp_conn_t *conn, ucx_message_t *message, const ucx_op_t *op)
{
    memset(message, 0, sizeof(*message));
    message->conn = conn;
    message->header.magic = UCX_MAGIC;
    message->header.conn = conn->peer_address.conn;
    message->header.sequence = conn->packed;
    message->header.kind = (uint32_t)op->kind;
    message->header.region = op->remote != NULL ? op->remote->region : 0;
    message->header.to = op->to + op->packed_bytes;
    message->header.value = op->value;
    message->ring_end = conn->ring_end;
}

/*
 * Counts the message that was filled in last as packed. It is also ready, unless its bytes are still being copied or an
 * earlier message is not ready: messages are sent in order.
 */
static void add_message(mscclpp_conn_t *conn, bool is_copying)
{
    if (conn->ready == conn->packed && !is_copying) {
        ++conn->ready;
        conn->ring_ready = conn->ring_end;
    }
    ++conn->packed;
}

/*
 * Returns the bytes of the put that the next message takes. A message takes at most a chunk, in one piece of the bounce
 * memory. Returns 0 if the bounce memory has no room at present.
 */
static size_t next_length(const mscclpp_conn_t *conn, const ucx_op_t *op, bool is_device)
{
    size_t size = conn->chunk_size;
    size_t ring_offset = conn->ring_end % conn->ring_size;

    if (size > op->length - op->packed_bytes) {
        size = op->length - op->packed_bytes;
    }
    if (size > conn->ring_size - ring_offset) {
        size = conn->ring_size - ring_offset;
    }
    if (conn->ring_end + size - conn->ring_begin > conn->ring_size) {
        return 0;
    }
    /* Copies fill at most half of the bounce memory at a time, so that the other half can be sent meanwhile. */
    if (is_device && conn->ring_end + size - conn->ring_ready > conn->ring_size / 2) {
        return 0;
    }
    return size;
}

/*
 * Turns a put into messages, each for a piece of the bounce memory. Data in device memory is copied to that piece. UCX
 * sends other data directly from the source, but the peer's bounce memory must still have room for it.
 *
 * A piece is rounded up to UCX_RING_ALIGN. The size of the memory is a multiple of that, so a piece never extends past
 * its end. Returns false if some bytes are left, because there is no room now or because the connection broke.
 */
static bool pack_put(mscclpp_conn_t *conn, ucx_op_t *op)
{
    const char *source = op->region->address + op->from;
    const bool is_device = op->region->on_device;

    if (is_device && !ensure_bounce_memory(conn, &conn->ring, conn->ring_size)) {
        return false;
    }
    while (op->packed_bytes < op->length) {
        ucx_message_t *message = next_message(conn);
        size_t size = message != NULL ? next_length(conn, op, is_device) : 0;
        size_t ring_offset = conn->ring_end % conn->ring_size;

        if (size == 0 ||
            (is_device && !mscclpp_transport_ucx_copy(conn, &conn->transport->out, conn->ring + ring_offset,
                                                      source + op->packed_bytes, size))) {
            return false;
        }
        conn->ring_end += (size + UCX_RING_ALIGN - 1) / UCX_RING_ALIGN * UCX_RING_ALIGN;
        start_message(conn, message, op);
        message->header.value = size;
        message->header.may_tear = op->signal != 0;
        message->header.signal = op->packed_bytes + size == op->length ? op->signal : 0;
        message->header.ring_offset = ring_offset;
        message->data = is_device ? conn->ring + ring_offset : source + op->packed_bytes;
        message->region = is_device ? NULL : op->region;
        add_message(conn, is_device);
        op->packed_bytes += size;
    }
    op->message_end = conn->packed;
    return true;
}

/* A put becomes as many messages as it needs. Any other operation becomes one message without data. */
bool mscclpp_transport_ucx_pack(mscclpp_conn_t *conn, ucx_op_t *op)
{
    ucx_message_t *message;

    if (op->kind == UCX_PUT) {
        return pack_put(conn, op);
    }
    message = next_message(conn);
    if (message == NULL) {
        return false;
    }
    start_message(conn, message, op);
    add_message(conn, false);
    op->message_end = conn->packed;
    return true;
}

/*
 * Notes that UCX has sent a message. UCX no longer needs the message's header and data. If sending has failed, the peer
 * is lost.
 */
static void on_sent(void *request, ucs_status_t status, void *user_data)
{
    ucx_message_t *message = user_data;
    mscclpp_conn_t *conn = message->conn;

    message->is_sending = false;
    --conn->sending_count;
    --conn->outstanding_count;
    if (status != UCS_OK) {
        mscclpp_transport_ucx_lose(conn, status);
    }
    conn->transport->ucx.ucp_request_free(request);
}

/*
 * Ends the sending of a note. Now the next note of this kind can be sent, which uses the same memory. If sending has
 * failed, the peer is lost.
 */
static void on_note_sent(void *request, ucs_status_t status, void *user_data)
{
    ucx_note_t *note = user_data;
    mscclpp_conn_t *conn = note->conn;

    note->is_sending = false;
    --conn->outstanding_count;
    if (status != UCS_OK) {
        mscclpp_transport_ucx_lose(conn, status);
    }
    conn->transport->ucx.ucp_request_free(request);
}

/*
 * Gives a message to UCX. Returns true if UCX needs the header and the data until it calls the callback. Returns false
 * if sending ended immediately, with or without success; then the callback is not called. If sending failed, the peer
 * is lost. A message without data is sent immediately, and is never only announced.
 */
static bool send_by_ucx(mscclpp_conn_t *conn, const ucx_header_t *header, const void *data, size_t length,
                        ucp_send_nbx_callback_t callback, void *user_data)
{
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                                                       UCP_OP_ATTR_FIELD_MEMORY_TYPE | UCP_OP_ATTR_FIELD_FLAGS,
                                       .flags = length == 0 ? UCP_AM_SEND_FLAG_EAGER : 0,
                                       .cb.send = callback,
                                       .user_data = user_data,
                                       .memory_type = UCS_MEMORY_TYPE_HOST};
    ucs_status_ptr_t request;

    ++conn->outstanding_count;
    request =
        conn->transport->ucx.ucp_am_send_nbx(conn->ep, UCX_MESSAGE_ID, header, sizeof(*header), data, length, &param);
    if (request != NULL && !UCS_PTR_IS_ERR(request)) {
        return true;
    }
    --conn->outstanding_count;
    if (UCS_PTR_IS_ERR(request)) {
        mscclpp_transport_ucx_lose(conn, UCS_PTR_STATUS(request));
    }
    return false;
}

/* Messages become ready when the copies that fill them have ended. Sends in order, and stops if the peer is lost. */
void mscclpp_transport_ucx_send(mscclpp_conn_t *conn)
{
    if (conn->ready != conn->packed) {
        mscclpp_transport_ucx_note_copied_out(conn->transport);
    }
    while (conn->sent < conn->ready && conn->lost_at == 0) {
        ucx_message_t *message = message_at(conn, conn->sent);
        size_t length = message->header.kind == UCX_PUT ? message->header.value : 0;

        ++conn->sent;
        message->is_sending = true;
        ++conn->sending_count;
        if (!send_by_ucx(conn, &message->header, message->data, length, on_sent, message)) {
            message->is_sending = false;
            --conn->sending_count;
        }
    }
}

bool mscclpp_transport_ucx_send_note(mscclpp_conn_t *conn, ucx_kind_t kind)
{
    ucx_note_t *note = &conn->notes[kind - UCX_ACK];

    if (!conn->connected || conn->lost_at != 0 || note->is_sending) {
        return false;
    }
    memset(note, 0, sizeof(*note));
    note->conn = conn;
    note->header.magic = UCX_MAGIC;
    note->header.conn = conn->peer_address.conn;
    note->header.kind = (uint32_t)kind;
    note->header.sequence = conn->executed;
    note->is_sending = true;
    if (!send_by_ucx(conn, &note->header, NULL, 0, on_note_sent, note)) {
        note->is_sending = false;
    }
    return true;
}
