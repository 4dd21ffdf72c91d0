/*
 * The receiving half of messages that this rank's CPU executes. Messages may arrive in any order, as UCX sends short
 * and long ones in different ways. They are executed in the order of their numbers. The bytes of a put go directly to
 * their target if that is host memory and no earlier message can overwrite them; otherwise they go to the landing
 * memory first.
 */
#include <string.h>

#include "mca/common/base/log.h"
#include "mca/common/transport/ucx/internal.h"
#include "mca/common/base/words.h"

#define UCX_ROUNDS_MAX 4 /* the most rounds of one call of progress: in each, more messages may become executable */

/* Returns the entry of the peer's message `number`, which later messages use again. */
static ucx_arrival_t *arrival_at(mscclpp_conn_t *conn, uint64_t number)
{
    return &conn->arrivals[number % UCX_MESSAGES_MAX];
}

/* Breaks the connection because of a message that is not valid. One side has a fault, or their parameters differ. */
static void reject(mscclpp_conn_t *conn, const char *reason)
{
    mscclpp_transport_ucx_fail(conn, MSCCLPP_ERR_INVALID, reason);
}

/*
 * Notes that the data of a message have arrived. Data of another length than announced breaks the connection. If
 * receiving has failed, the peer is lost.
 */
static void on_received(void *request, ucs_status_t status, size_t length, void *user_data)
{
    ucx_arrival_t *arrival = user_data;
    mscclpp_conn_t *conn = arrival->conn;

    --conn->outstanding_count;
    conn->placing_count -= arrival->is_placed;
    arrival->region = NULL;
    if (status == UCS_OK && length != arrival->header.value) {
        reject(conn, "a message does not have the length that it announced");
    } else if (status == UCS_OK) {
        arrival->has_data = true;
    } else {
        mscclpp_transport_ucx_lose(conn, status);
    }
    conn->transport->ucx.ucp_request_free(request);
}

/*
 * Returns the address that the message writes to. If the message names no region, or bytes outside the region, breaks
 * the connection and returns NULL. *on_device_p is true if only copies of the GPU runtime can access the address.
 */
static char *find_target(mscclpp_conn_t *conn, const ucx_header_t *header, uint64_t length, bool *on_device_p)
{
    const mscclpp_region_t *region = mscclpp_transport_ucx_find(&conn->transport->region_ids, header->region);

    if (region == NULL) {
        reject(conn, "a message is for a region that does not exist any more");
        return NULL;
    }
    if (header->to > region->length || length > region->length - header->to) {
        reject(conn, "a message goes past the end of a region");
        return NULL;
    }
    *on_device_p = region->on_device;
    return region->address + header->to;
}

/* Returns the number of bytes that a message writes to a region. A signal writes none. */
static uint64_t written_bytes(const ucx_header_t *header)
{
    return header->kind == UCX_PUT ? header->value : header->kind == UCX_ADD ? sizeof(uint64_t) : 0;
}

/* Returns true if two messages write to some of the same bytes. */
static bool do_overlap(const ucx_header_t *first, const ucx_header_t *second)
{
    return first->region == second->region && first->to < second->to + written_bytes(second) &&
           second->to < first->to + written_bytes(first);
}

/*
 * Returns where the data of a put can be written before the put's turn. Returns NULL if the data must first go to the
 * landing memory, or if the message is invalid, which breaks the connection.
 *
 * The peer's kernels cannot notice that the data is early, because no signal after the put is given before the put's
 * turn. But no earlier message may write to the same place later, so all earlier messages must have arrived and must
 * write elsewhere. The headers of the messages from `executed` to `issued`, whose copies may be in progress, are still
 * stored.
 */
static char *find_early_target(mscclpp_conn_t *conn, const ucx_header_t *header)
{
    bool on_device = false;
    uint64_t number;
    char *target;

    for (number = conn->executed; number != header->sequence; ++number) {
        const ucx_arrival_t *earlier = arrival_at(conn, number);

        if (!earlier->has_header && number >= conn->issued) {
            return NULL;
        }
        if (do_overlap(&earlier->header, header)) {
            return NULL;
        }
    }
    target = find_target(conn, header, header->value, &on_device);
    return on_device ? NULL : target;
}

/*
 * Lets UCX fetch the data of a message. UCX calls on_received later, unless the data arrives at once or UCX fails; in
 * the latter case, the peer is lost. Until the data has arrived, the arrival names the region that the data goes into,
 * so that the region is not freed (mscclpp_transport_ucx_vacate).
 */
static void fetch_data(mscclpp_conn_t *conn, ucx_arrival_t *arrival, void *descriptor, size_t length, char *to)
{
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                                                       UCP_OP_ATTR_FIELD_MEMORY_TYPE,
                                       .cb.recv_am = on_received,
                                       .user_data = arrival,
                                       .memory_type = UCS_MEMORY_TYPE_HOST};
    ucs_status_ptr_t request;

    ++conn->outstanding_count;
    conn->placing_count += arrival->is_placed;
    if (arrival->is_placed) {
        arrival->region = mscclpp_transport_ucx_find(&conn->transport->region_ids, arrival->header.region);
    }
    request = conn->transport->ucx.ucp_am_recv_data_nbx(conn->transport->worker, descriptor, to, length, &param);
    if (request != NULL && !UCS_PTR_IS_ERR(request)) {
        return;
    }
    --conn->outstanding_count;
    conn->placing_count -= arrival->is_placed;
    arrival->region = NULL;
    if (request == NULL) {
        arrival->has_data = true;
    } else {
        mscclpp_transport_ucx_lose(conn, UCS_PTR_STATUS(request));
    }
}

/*
 * Takes a message that has arrived. With `is_announced`, UCX still has to fetch the data, and `data` is UCX's
 * descriptor for that.
 *
 * A message that does not fit the state breaks the connection. This includes a sequence number below `executed`, for
 * which the unsigned difference is huge. A broken connection ignores all messages.
 */
static void accept_message(mscclpp_conn_t *conn, const ucx_header_t *header, void *data, size_t length,
                           bool is_announced)
{
    ucx_arrival_t *arrival = arrival_at(conn, header->sequence);
    char *early_target = NULL;

    if (conn->status != MSCCLPP_OK) {
        return;
    }
    if (header->sequence - conn->executed >= UCX_MESSAGES_MAX || arrival->has_header) {
        reject(conn, "a message has arrived out of turn");
        return;
    }
    if (length != (header->kind == UCX_PUT ? header->value : 0) || header->ring_offset > conn->landing_size ||
        length > conn->landing_size - header->ring_offset) {
        reject(conn, "a message does not fit the bounce memory");
        return;
    }
    /*
     * UCX writes fetched data in units of any size. So the data goes directly to its target only if its words may
     * appear in parts.
     */
    if (length > 0 && (!is_announced || header->may_tear != 0)) {
        early_target = find_early_target(conn, header);
    }
    if (conn->status != MSCCLPP_OK ||
        (length > 0 && early_target == NULL && !mscclpp_transport_ucx_ensure_landing(conn))) {
        return;
    }
    arrival->conn = conn;
    arrival->header = *header;
    arrival->has_header = true;
    arrival->has_data = false;
    arrival->is_placed = early_target != NULL;
    arrival->is_copying = false;
    if (is_announced) {
        fetch_data(conn, arrival, data, length,
                   early_target != NULL ? early_target : conn->landing + header->ring_offset);
    } else {
        if (early_target != NULL) {
            mscclpp_copy_words(early_target, data, length);
        } else if (length > 0) {
            memcpy(conn->landing + header->ring_offset, data, length);
        }
        arrival->has_data = true;
    }
}

/*
 * Takes an acknowledgement. All messages before `number` have been executed, so their entries and their bounce memory
 * are free again. The entry of the last of these messages has not been used again yet, so its `ring_end` is valid.
 */
static void on_acknowledgement(mscclpp_conn_t *conn, uint64_t number)
{
    if (number < conn->acked || number > conn->sent) {
        reject(conn, "the peer acknowledged a message that has not been sent");
    } else if (number > conn->acked) {
        conn->acked = number;
        conn->ring_begin = conn->messages[(number - 1) % UCX_MESSAGES_MAX].ring_end;
    }
}

/*
 * UCX calls this function for each message. Messages for connections that no longer exist are dropped, because peers
 * may still send messages while this side destroys its half. The result is always UCS_OK, by which UCX releases the
 * data unless a fetch of it has begun.
 */
ucs_status_t mscclpp_transport_ucx_on_message(void *arg, const void *header, size_t header_length, void *data,
                                              size_t length, const ucp_am_recv_param_t *param)
{
    mscclpp_transport_t *transport = arg;
    mscclpp_conn_t *conn;
    ucx_header_t message_header;

    if (header_length != sizeof(message_header)) {
        mscclpp_debug("%s: a ucx message with a header of %zu bytes is not ours", transport->params.label,
                      header_length);
        return UCS_OK;
    }
    memcpy(&message_header, header, sizeof(message_header));
    conn = message_header.magic == UCX_MAGIC ? mscclpp_transport_ucx_find(&transport->conn_ids, message_header.conn)
                                             : NULL;
    if (conn == NULL) {
        mscclpp_debug("%s: a ucx message for a connection that is gone", transport->params.label);
        return UCS_OK;
    }
    switch (message_header.kind) {
    case UCX_PUT:
    case UCX_SIGNAL:
    case UCX_ADD:
        accept_message(conn, &message_header, data, length, (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0);
        break;
    case UCX_ACK:
        on_acknowledgement(conn, message_header.sequence);
        break;
    case UCX_BYE:
        on_acknowledgement(conn, message_header.sequence);
        conn->peer_left = true;
        break;
    case UCX_FAILURE:
        mscclpp_transport_ucx_fail(conn, MSCCLPP_ERR_PEER, "the peer could not carry out what it was sent");
        break;
    default:
        reject(conn, "a message is of an unknown kind");
        break;
    }
    return UCS_OK;
}

/* Ends the turn of message conn->issued, whose entry is then free for a later message. */
static void end_turn(mscclpp_conn_t *conn)
{
    arrival_at(conn, conn->issued)->has_header = false;
    arrival_at(conn, conn->issued)->has_data = false;
    ++conn->issued;
}

/*
 * Executes a message that carries a put. Returns false if the copy must wait or has failed. A copy to device memory
 * also waits while an add to device memory is in progress (step_device_add).
 */
static bool execute_put(mscclpp_conn_t *conn, ucx_arrival_t *arrival)
{
    const ucx_header_t *header = &arrival->header;
    bool on_device = false;
    char *target;

    if (arrival->is_placed) {
        return true;
    }

    /* At most half of the memory is copied from at a time, so that the sender gets room while the rest is copied. */
    if (conn->issued != conn->executed && conn->issued_bytes + header->value > conn->landing_size / 2) {
        return false;
    }
    target = find_target(conn, header, header->value, &on_device);
    if (target == NULL) {
        return false;
    }
    if (!on_device) {
        mscclpp_copy_words(target, conn->landing + header->ring_offset, header->value);
    } else if (conn->transport->adding_conn != NULL ||
               !mscclpp_transport_ucx_copy(conn, &conn->transport->in, target, conn->landing + header->ring_offset,
                                           header->value)) {
        return false;
    } else {
        arrival->is_copying = header->signal != 0;
    }
    conn->issued_bytes += header->value;
    return true;
}

/* Turns a put with a signal, whose bytes are in place or being copied, into the signal alone. */
static void reduce_to_signal(ucx_header_t *header)
{
    header->kind = UCX_SIGNAL;
    header->to = header->signal - 1;
    header->value = 1;
    header->signal = 0;
}

/*
 * Goes on with an add to device memory. The CPU cannot access the word, so it is copied to the host, changed, and
 * copied back. No other operation of this instance changes the word in the meantime.
 *
 * The caller calls this function again in each round until it returns true. If a copy cannot be started, or if there is
 * no memory for the word, the connection breaks, which also gives up the add.
 */
static bool step_device_add(mscclpp_conn_t *conn, char *target, uint64_t value)
{
    mscclpp_transport_t *transport = conn->transport;
    uint64_t *word;

    if (!mscclpp_transport_ucx_ensure_landing(conn)) {
        return false;
    }
    word = (uint64_t *)(void *)(conn->landing + conn->landing_size);
    if (transport->adding_conn != NULL && transport->adding_conn != conn) {
        return false;
    }
    /* Set before the current batch has ended, so that no more copies join the batch. */
    transport->adding_conn = conn;
    if (transport->in.busy) {
        return false;
    }
    switch (conn->add_stage) {
    case UCX_ADD_NONE:
        conn->add_stage = UCX_ADD_READS;
        (void)mscclpp_transport_ucx_copy(conn, &transport->in, word, target, sizeof(*word));
        return false;
    case UCX_ADD_READS:
        *word += value;
        conn->add_stage = UCX_ADD_WRITES;
        (void)mscclpp_transport_ucx_copy(conn, &transport->in, target, word, sizeof(*word));
        return false;
    default:
        conn->add_stage = UCX_ADD_NONE;
        transport->adding_conn = NULL;
        return true;
    }
}

/*
 * Executes a message that carries an add. An add to device memory takes several calls (step_device_add). Returns false
 * if it waits for copies, or if the message broke the connection.
 */
static bool execute_add(mscclpp_conn_t *conn, const ucx_header_t *header)
{
    bool on_device = false;
    char *target = find_target(conn, header, sizeof(uint64_t), &on_device);

    if (target == NULL) {
        return false;
    }
    if ((uintptr_t)target % sizeof(uint64_t) != 0) {
        reject(conn, "an add goes to an address that is not a multiple of 8");
        return false;
    }
    if (on_device) {
        return step_device_add(conn, target, header->value);
    }
    (void)__atomic_fetch_add((uint64_t *)(void *)target, header->value, __ATOMIC_RELEASE);
    return true;
}

/*
 * Executes a message that carries a signal. Everything before the signal must have been executed. Returns false if the
 * message broke the connection.
 */
static bool execute_signal(mscclpp_conn_t *conn, const ucx_header_t *header)
{
    const mscclpp_transport_params_t *params = &conn->transport->params;

    if (header->to >= params->token_count) {
        reject(conn, "a signal is for a token that does not exist");
        return false;
    }
    /* Release order: kernels that see the sum also see what this thread wrote or saw copied before. */
    (void)__atomic_fetch_add(&params->tokens[header->to], header->value, __ATOMIC_RELEASE);
    return true;
}

/*
 * Executes the messages of a connection, in order, up to the first one that has not arrived or has to wait. Returns
 * true if anything was executed.
 *
 * A put with a signal takes two turns of the loop: one for its data, and one for the signal alone. A put is done when
 * its data is in place or is being copied, but `executed` counts it only at the end of the batch (note_copied_in). So a
 * signal after it is executed in a later round.
 */
static bool execute_conn(mscclpp_conn_t *conn)
{
    bool has_progressed = false;

    while (conn->status == MSCCLPP_OK && arrival_at(conn, conn->issued)->has_data) {
        ucx_arrival_t *arrival = arrival_at(conn, conn->issued);
        ucx_header_t *header = &arrival->header;
        bool was_adding = conn->transport->adding_conn == conn;
        bool is_done;

        if (header->kind == UCX_PUT) {
            is_done = execute_put(conn, arrival);
            if (is_done && header->signal != 0) {
                reduce_to_signal(header);
                has_progressed = true;
                continue;
            }
        } else if (conn->issued != conn->executed || arrival->is_copying) {
            is_done = false; /* earlier data is still being copied, and must be visible before the sum */
        } else {
            is_done = header->kind == UCX_ADD ? execute_add(conn, header) : execute_signal(conn, header);
            if (is_done) {
                ++conn->executed;
            }
        }
        if (!is_done) {
            break;
        }
        end_turn(conn);
        has_progressed = true;
        if (was_adding) {
            break; /* gives other connections their turn to add */
        }
    }
    return has_progressed;
}

/*
 * Counts the issued messages of all connections as executed if the batch of copies to device memory has ended. If there
 * is no batch, they needed no copy and count at once. A failed batch breaks all connections. Returns true if any were
 * counted, or if the batch was a copy of an add: more messages may then be executed. Does not wait.
 */
static bool note_copied_in(mscclpp_transport_t *transport)
{
    bool has_progressed = false;

    if (!mscclpp_transport_ucx_test_batch(transport, &transport->in)) {
        return false;
    }
    for (mscclpp_conn_t *conn = transport->conns; conn != NULL; conn = conn->next) {
        has_progressed = has_progressed || conn->executed != conn->issued || conn->add_stage != UCX_ADD_NONE;
        conn->executed = conn->issued;
        arrival_at(conn, conn->issued)->is_copying = false;
        conn->issued_bytes = 0;
    }
    return has_progressed;
}

/*
 * Visits all connections several times, because more messages can be executed when a batch of copies has ended. While
 * the last acknowledgement to a peer is still being sent, the next one waits for a later call.
 */
void mscclpp_transport_ucx_execute(mscclpp_transport_t *transport)
{
    bool has_progressed = true;

    for (int round = 0; round < UCX_ROUNDS_MAX && has_progressed; ++round) {
        has_progressed = note_copied_in(transport);
        for (mscclpp_conn_t *conn = transport->conns; conn != NULL; conn = conn->next) {
            has_progressed = (!conn->destroyed && execute_conn(conn)) || has_progressed;
        }
    }
    for (mscclpp_conn_t *conn = transport->conns; conn != NULL; conn = conn->next) {
        if (!conn->destroyed && conn->acknowledged != conn->executed &&
            mscclpp_transport_ucx_send_note(conn, UCX_ACK)) {
            conn->acknowledged = conn->executed;
        }
    }
}
