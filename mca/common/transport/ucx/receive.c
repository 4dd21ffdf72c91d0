/*
 * The receiving half of messages that this rank's CPU carries out. Messages may arrive in any order, as UCX sends short
 * and long ones in different ways; they are carried out in the order of their numbers. Bytes go directly to host memory
 * only if no earlier message can overwrite them.
 */
#include <string.h>

#include "mca/common/base/log.h"
#include "mca/common/transport/ucx/internal.h"
#include "mca/common/base/words.h"

#define UCX_TURNS_MAX 4 /* of carrying out in one progress: each may make the next possible */

/* The place of message `number` in the ring of arrivals. */
static ucx_arrival_t *arrival_at(mscclpp_conn_t *conn, uint64_t number)
{
    return &conn->arrivals[number % UCX_MESSAGES_MAX];
}

/* Breaks the connection, as the peer's message makes no sense: one side has a fault, or their parameters differ. */
static void reject(mscclpp_conn_t *conn, const char *what)
{
    mscclpp_transport_ucx_fail(conn, MSCCLPP_ERR_INVALID, what);
}

/* A message's data have arrived. */
static void on_received(void *request, ucs_status_t status, size_t length, void *user_data)
{
    ucx_arrival_t *arrival = user_data;
    mscclpp_conn_t *conn = arrival->conn;

    --conn->outstanding;
    conn->placing -= arrival->placed;
    arrival->region = NULL;
    if (status == UCS_OK && length != arrival->header.value) {
        reject(conn, "a message has not the length that it announced");
    } else if (status == UCS_OK) {
        arrival->here = true;
    } else {
        mscclpp_transport_ucx_lose(conn, status);
    }
    conn->transport->ucx.ucp_request_free(request);
}

/*
 * The address that a put or an add writes to. If there is none, breaks the connection and returns NULL. *on_device_p is
 * as in mscclpp_region.
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

/* True if the two messages write to the same bytes. */
static bool do_overlap(const ucx_header_t *a, const ucx_header_t *b)
{
    const uint64_t a_size = a->kind == UCX_PUT ? a->value : a->kind == UCX_ADD ? sizeof(uint64_t) : 0;
    const uint64_t b_size = b->kind == UCX_PUT ? b->value : b->kind == UCX_ADD ? sizeof(uint64_t) : 0;

    return a->region == b->region && a->to < b->to + b_size && b->to < a->to + a_size;
}

/*
 * The address where the bytes of a put can be written before its turn; NULL if they must go to the landing memory
 * first. Writing early is invisible, as no signal after the put is given before its turn. But no earlier message may
 * write there later.
 */
static char *find_early_place(mscclpp_conn_t *conn, const ucx_header_t *header)
{
    bool on_device = false;
    uint64_t number;
    char *target;

    for (number = conn->executed; number != header->sequence; ++number) {
        const ucx_arrival_t *before = arrival_at(conn, number);

        if (!before->coming && number >= conn->issued) {
            return NULL;
        }
        if (do_overlap(&before->header, header)) {
            return NULL;
        }
    }
    target = find_target(conn, header, header->value, &on_device);
    return on_device ? NULL : target;
}

/* Fetches the bytes of a message that has only announced them. */
static void fetch_data(mscclpp_conn_t *conn, ucx_arrival_t *arrival, void *descriptor, size_t length, char *to)
{
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                                                       UCP_OP_ATTR_FIELD_MEMORY_TYPE,
                                       .cb.recv_am = on_received,
                                       .user_data = arrival,
                                       .memory_type = UCS_MEMORY_TYPE_HOST};
    ucs_status_ptr_t request;

    ++conn->outstanding;
    conn->placing += arrival->placed;
    if (arrival->placed) {
        arrival->region = mscclpp_transport_ucx_find(&conn->transport->region_ids, arrival->header.region);
    }
    request = conn->transport->ucx.ucp_am_recv_data_nbx(conn->transport->worker, descriptor, to, length, &param);
    if (request != NULL && !UCS_PTR_IS_ERR(request)) {
        return;
    }
    --conn->outstanding;
    conn->placing -= arrival->placed;
    arrival->region = NULL;
    if (request == NULL) {
        arrival->here = true;
    } else {
        mscclpp_transport_ucx_lose(conn, UCS_PTR_STATUS(request));
    }
}

/*
 * Takes a message with an operation: keeps its header, and receives its data at their target or in the bounce memory.
 * `announced`: UCX has yet to fetch the data.
 */
static void take_arrival(mscclpp_conn_t *conn, const ucx_header_t *header, void *data, size_t length, bool announced)
{
    ucx_arrival_t *arrival = arrival_at(conn, header->sequence);
    char *place = NULL;

    if (conn->status != MSCCLPP_OK) {
        return;
    }
    if (header->sequence - conn->executed >= UCX_MESSAGES_MAX || arrival->coming) {
        reject(conn, "a message has a number that is not its turn");
        return;
    }
    if (length != (header->kind == UCX_PUT ? header->value : 0) || header->at > conn->landing_size ||
        length > conn->landing_size - header->at) {
        reject(conn, "a message does not fit the bounce memory");
        return;
    }
    /* UCX writes fetched bytes in any units, so they go directly only if their words need not appear whole. */
    if (length > 0 && (!announced || header->loose != 0)) {
        place = find_early_place(conn, header);
    }
    if (conn->status != MSCCLPP_OK || (length > 0 && place == NULL && !mscclpp_transport_ucx_make_landing(conn))) {
        return;
    }
    arrival->conn = conn;
    arrival->header = *header;
    arrival->coming = true;
    arrival->here = false;
    arrival->placed = place != NULL;
    arrival->copying = false;
    if (announced) {
        fetch_data(conn, arrival, data, length, place != NULL ? place : conn->landing + header->at);
    } else {
        if (place != NULL) {
            mscclpp_copy_words(place, data, length);
        } else if (length > 0) {
            memcpy(conn->landing + header->at, data, length);
        }
        arrival->here = true;
    }
}

/* The peer has executed all messages before `number`: their room is free again. */
static void acknowledge(mscclpp_conn_t *conn, uint64_t number)
{
    if (number < conn->acked || number > conn->sent) {
        reject(conn, "a message was acknowledged that has not been sent");
    } else if (number > conn->acked) {
        conn->acked = number;
        conn->ring_begin = conn->messages[(number - 1) % UCX_MESSAGES_MAX].ring_end;
    }
}

ucs_status_t mscclpp_transport_ucx_on_message(void *arg, const void *header, size_t header_length, void *data,
                                              size_t length, const ucp_am_recv_param_t *param)
{
    mscclpp_transport_t *transport = arg;
    mscclpp_conn_t *conn;
    ucx_header_t copy;

    if (header_length != sizeof(copy)) {
        mscclpp_debug("%s: a ucx message with a header of %zu bytes is not ours", transport->params.label,
                      header_length);
        return UCS_OK;
    }
    memcpy(&copy, header, sizeof(copy));
    conn = copy.magic == UCX_MAGIC ? mscclpp_transport_ucx_find(&transport->conn_ids, copy.conn) : NULL;
    if (conn == NULL) {
        mscclpp_debug("%s: a ucx message for a connection that is gone", transport->params.label);
        return UCS_OK;
    }
    switch (copy.kind) {
    case UCX_PUT:
    case UCX_SIGNAL:
    case UCX_ADD:
        take_arrival(conn, &copy, data, length, (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0);
        break;
    case UCX_ACK:
        acknowledge(conn, copy.sequence);
        break;
    case UCX_BYE:
        acknowledge(conn, copy.sequence);
        conn->left = true;
        break;
    case UCX_TROUBLE:
        mscclpp_transport_ucx_fail(conn, MSCCLPP_ERR_PEER, "the peer could not carry out what it was sent");
        break;
    default:
        reject(conn, "a message is of an unknown kind");
        break;
    }
    return UCS_OK;
}

/* Frees the entry of the message whose turn it was, and goes on to the next. */
static void end_turn(mscclpp_conn_t *conn)
{
    arrival_at(conn, conn->issued)->coming = false;
    arrival_at(conn, conn->issued)->here = false;
    ++conn->issued;
}

/* Copies a put's data to their place. False if that must wait or has failed. */
static bool execute_put(mscclpp_conn_t *conn, ucx_arrival_t *arrival)
{
    const ucx_header_t *header = &arrival->header;
    bool on_device = false;
    char *target;

    if (arrival->placed) {
        return true;
    }

    /* Copies half of the memory at a time, so that the sender gets room while the rest is still being copied. */
    if (conn->issued != conn->executed && conn->issued_bytes + header->value > conn->landing_size / 2) {
        return false;
    }
    target = find_target(conn, header, header->value, &on_device);
    if (target == NULL) {
        return false;
    }
    if (!on_device) {
        mscclpp_copy_words(target, conn->landing + header->at, header->value);
    } else if (conn->transport->adding != NULL ||
               !mscclpp_transport_ucx_copy(conn, &conn->transport->in, target, conn->landing + header->at,
                                           header->value)) {
        return false;
    } else {
        arrival->copying = header->signal != 0;
    }
    conn->issued_bytes += header->value;
    return true;
}

/* Reduces a put with a signal to the signal, once its bytes are on their way. */
static void reduce_to_signal(ucx_header_t *header)
{
    header->kind = UCX_SIGNAL;
    header->to = header->signal - 1;
    header->value = 1;
    header->signal = 0;
}

/*
 * Adds to device memory by copies, as the CPU cannot do it. No other operation of this transport changes the word in
 * the meantime.
 */
static bool add_to_device(mscclpp_conn_t *conn, char *target, uint64_t value)
{
    mscclpp_transport_t *transport = conn->transport;
    uint64_t *word;

    if (!mscclpp_transport_ucx_make_landing(conn)) {
        return false;
    }
    word = (uint64_t *)(void *)(conn->landing + conn->landing_size);
    if (transport->adding != NULL && transport->adding != conn) {
        return false;
    }
    transport->adding = conn; /* before the copies of the batch under way have ended: no other batch may come between */
    if (transport->in.busy) {
        return false;
    }
    switch (conn->add_stage) {
    case 0:
        conn->add_stage = 1;
        (void)mscclpp_transport_ucx_copy(conn, &transport->in, word, target, sizeof(*word));
        return false;
    case 1:
        *word += value;
        conn->add_stage = 2;
        (void)mscclpp_transport_ucx_copy(conn, &transport->in, target, word, sizeof(*word));
        return false;
    default:
        conn->add_stage = 0;
        transport->adding = NULL;
        return true;
    }
}

/* Carries out an add. False if it was refused, or waits for copies of device memory. */
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
        return add_to_device(conn, target, header->value);
    }
    (void)__atomic_fetch_add((uint64_t *)(void *)target, header->value, __ATOMIC_RELEASE);
    return true;
}

/* Carries out a signal, after everything before it. False if it was refused. */
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

/* Carries out the messages of a connection whose turn it is. True if anything was carried out. */
static bool execute_conn(mscclpp_conn_t *conn)
{
    bool progressed = false;

    while (conn->status == MSCCLPP_OK && arrival_at(conn, conn->issued)->here) {
        ucx_arrival_t *arrival = arrival_at(conn, conn->issued);
        ucx_header_t *header = &arrival->header;
        bool was_adding = conn->transport->adding == conn;
        bool done;

        if (header->kind == UCX_PUT) {
            done = execute_put(conn, arrival);
            if (done && header->signal != 0) {
                reduce_to_signal(header);
                progressed = true;
                continue;
            }
        } else if (conn->issued != conn->executed || arrival->copying) {
            done = false; /* whoever sees the sum must see the bytes before it */
        } else {
            done = header->kind == UCX_ADD ? execute_add(conn, header) : execute_signal(conn, header);
            if (done) {
                ++conn->executed;
            }
        }
        if (!done) {
            break;
        }
        end_turn(conn);
        progressed = true;
        if (was_adding) {
            break; /* the turn of the others */
        }
    }
    return progressed;
}

/* Notes copies to device memory that have ended: their messages have been carried out. True if there were any. */
static bool end_copies(mscclpp_transport_t *transport)
{
    bool progressed = false;

    if (!mscclpp_transport_ucx_copied(transport, &transport->in)) {
        return false;
    }
    for (mscclpp_conn_t *conn = transport->conns; conn != NULL; conn = conn->next) {
        progressed = progressed || conn->executed != conn->issued || conn->add_stage != 0;
        conn->executed = conn->issued;
        arrival_at(conn, conn->issued)->copying = false;
        conn->issued_bytes = 0;
    }
    return progressed;
}

/* Carries out what has arrived, as far as possible, and acknowledges it. */
void mscclpp_transport_ucx_execute(mscclpp_transport_t *transport)
{
    bool progressed = true;

    for (int turn = 0; turn < UCX_TURNS_MAX && progressed; ++turn) {
        progressed = end_copies(transport);
        for (mscclpp_conn_t *conn = transport->conns; conn != NULL; conn = conn->next) {
            progressed = (!conn->destroyed && execute_conn(conn)) || progressed;
        }
    }
    for (mscclpp_conn_t *conn = transport->conns; conn != NULL; conn = conn->next) {
        if (!conn->destroyed && conn->acknowledged != conn->executed &&
            mscclpp_transport_ucx_send_note(conn, UCX_ACK)) {
            conn->acknowledged = conn->executed;
        }
    }
}
