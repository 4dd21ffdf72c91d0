/* Connections: the queue pairs to one peer, and what the two sides have to agree on. */
#include "mca/common/base/clock.h"
#include "mca/common/transport/verbs/internal.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define ADDRESS_MAGIC 0x6d737662u /* to be changed together with conn_address_t */
#define GOOD_BYE_SECONDS 0.01 /* the least time that each good-bye may wait; an HCA that answers takes microseconds */

/* The address of a connection, as it is sent to the peer. */
typedef struct {
    uint32_t magic;         /* ADDRESS_MAGIC */
    int32_t rank;           /* the sender's */
    uint32_t atomic;        /* 1: the sender wants mode atomic */
    uint32_t rail_count;    /* entries of `rails` in use */
    uint64_t token_address; /* address of the sender's token 0 */
    uint64_t token_count;
    uint64_t landing; /* address of the sender's landing memory; 0: the sender bounces no memory */
    uint32_t landing_rkey;
    uint32_t reserved;
    mscclpp_verbs_qp_address_t rails[MSCCLPP_VERBS_MAX_RAILS];
} conn_address_t;

_Static_assert(sizeof(conn_address_t) <= MSCCLPP_TRANSPORT_ADDRESS_MAX, "a connection's address fits");

/*
 * Makes a connection with a queue pair for each rail and, if device memory is bounced, with its landing memory. After a
 * failure, nothing is left. The connection joins the instance's list first, because mscclpp_verbs_conn_destroy
 * removes it from there.
 */
mscclpp_status_t mscclpp_verbs_conn_create(mscclpp_transport_t *transport, int peer, mscclpp_conn_t **conn_p)
{
    mscclpp_conn_t *conn = calloc(1, sizeof(*conn));
    mscclpp_status_t status = MSCCLPP_OK;

    if (conn == NULL) {
        mscclpp_error("%s: out of memory for a connection to rank %d", transport->params.label, peer);
        return MSCCLPP_ERR_NO_MEMORY;
    }
    conn->transport = transport;
    conn->peer = peer;
    conn->status = MSCCLPP_OK;
    conn->link = &transport->conns;
    conn->next = transport->conns;
    if (conn->next != NULL) {
        conn->next->link = &conn->next;
    }
    transport->conns = conn;
    for (int i = 0; i < transport->rail_count && MSCCLPP_OK == status; ++i) {
        status = mscclpp_verbs_qp_create(conn, &transport->rails[i], &conn->qps[i]);
        conn->qp_count += MSCCLPP_OK == status;
    }
    if (MSCCLPP_OK == status && transport->bounces) {
        status = mscclpp_verbs_bounce_create(conn, true);
    }
    if (MSCCLPP_OK != status) {
        mscclpp_verbs_conn_destroy(conn);
        return status;
    }
    *conn_p = conn;
    return MSCCLPP_OK;
}

/*
 * Tells the peer that this side leaves, and waits until the peer's HCA has taken the message. After the wait the queue
 * pair may be destroyed, because everything that the peer might request again has arrived.
 *
 * Dead peers do not answer. All waits for them together end with the instance's patience (patience_seconds). But each
 * good-bye may wait at least GOOD_BYE_SECONDS, so that live peers are told even if dead ones have used up the patience.
 */
static void say_good_bye(mscclpp_conn_t *conn)
{
    mscclpp_verbs_qp_t *qp = conn->qps[0];
    const double patience_seconds = conn->transport->patience_seconds;
    const double longest_seconds = patience_seconds > GOOD_BYE_SECONDS ? patience_seconds : GOOD_BYE_SECONDS;
    const double started = mscclpp_now();
    double waited_seconds = 0;
    uint64_t good_bye_request = 0; /* number of the work request; 0: not sent yet */

    conn->leaving = true;
    /* Work requests that are only listed never complete, so the good-bye might find no room. */
    mscclpp_verbs_ring_doorbell(qp);
    mscclpp_verbs_poll(qp);
    while (MSCCLPP_OK == conn->status && !conn->peer_left && waited_seconds < longest_seconds) {
        if (0 == good_bye_request && mscclpp_verbs_free_slots(qp) > 0) {
            mscclpp_verbs_send_control(qp, MSCCLPP_VERBS_GOOD_BYE);
            (void)mscclpp_verbs_ask_completion(qp);
            mscclpp_verbs_ring_doorbell(qp);
            good_bye_request = qp->posted;
        }
        mscclpp_verbs_poll(qp);
        if (0 != good_bye_request && qp->completed >= good_bye_request) {
            break;
        }
        (void)sched_yield();
        waited_seconds = mscclpp_now() - started;
    }
    conn->transport->patience_seconds = patience_seconds - waited_seconds;
}

/*
 * Says good-bye, and frees the connection. The queue pairs are destroyed before the bounce memory is freed, because the
 * HCA may use that memory until then. Rails without a queue pair have NULL.
 */
void mscclpp_verbs_conn_destroy(mscclpp_conn_t *conn)
{
    if (conn == NULL) {
        return;
    }
    if (conn->connected) {
        say_good_bye(conn);
    }
    for (int i = 0; i < MSCCLPP_VERBS_MAX_RAILS; ++i) {
        mscclpp_verbs_qp_destroy(conn->qps[i]);
    }
    mscclpp_verbs_bounce_destroy(conn);
    if (conn->connected) {
        --conn->transport->connected[conn->atomic];
    }
    *conn->link = conn->next;
    if (conn->next != NULL) {
        conn->next->link = conn->link;
    }
    free(conn);
}

/* Writes the address (conn_address_t). If device memory is bounced, conn_create has made the landing memory. */
mscclpp_status_t mscclpp_verbs_conn_address(const mscclpp_conn_t *conn, void *address, size_t *length_p)
{
    const mscclpp_transport_t *transport = conn->transport;
    conn_address_t own_address;

    memset(&own_address, 0, sizeof(own_address));
    own_address.magic = ADDRESS_MAGIC;
    own_address.rank = transport->params.rank;
    own_address.atomic = transport->atomic;
    own_address.rail_count = (uint32_t)conn->qp_count;
    own_address.token_address = (uintptr_t)transport->params.tokens;
    own_address.token_count = transport->params.token_count;
    if (transport->bounces) {
        own_address.landing = (uintptr_t)conn->bounce->in.slots;
        own_address.landing_rkey = conn->bounce->in.mr->rkey;
    }
    for (int i = 0; i < conn->qp_count; ++i) {
        mscclpp_verbs_qp_address(conn->qps[i], &own_address.rails[i]);
    }
    memcpy(address, &own_address, sizeof(own_address));
    *length_p = sizeof(own_address);
    return MSCCLPP_OK;
}

/*
 * Decides whether the connection is atomic. A connection is atomic if both sides want that. Returns
 * MSCCLPP_ERR_NOT_SUPPORTED if another connection of this rank has the other mode, or if the CPU cannot add to the
 * tokens. The reason is then logged at the info level.
 */
static mscclpp_status_t agree_on_mode(mscclpp_conn_t *conn, bool peer_wants_atomic)
{
    mscclpp_transport_t *transport = conn->transport;
    const mscclpp_transport_params_t *params = &transport->params;

    conn->atomic = transport->atomic && peer_wants_atomic;
    if (0 != transport->connected[!conn->atomic]) {
        mscclpp_info("%s: no verbs to rank %d: signals to it are %s, and those to others are not; "
                     "set verbs_mode to no_atomic on all ranks",
                     params->label, conn->peer, conn->atomic ? "atomic" : "no_atomic");
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    if (!conn->atomic && !transport->cpu_reads_all &&
        MSCCLPP_MEM_DEVICE == mscclpp_verbs_memory_kind(transport, params->tokens)) {
        mscclpp_info("%s: no verbs to rank %d: it has no atomics, so that the CPU adds to tokens, and these are in "
                     "device memory",
                     params->label, conn->peer);
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    return MSCCLPP_OK;
}

/*
 * Connects only the rails that both sides have.
 *
 * Returns MSCCLPP_ERR_INVALID if the address is invalid or the connection is already connected. Returns
 * MSCCLPP_ERR_NOT_SUPPORTED if the modes or the ports do not match. After a failure, the connection can only be
 * destroyed.
 */
mscclpp_status_t mscclpp_verbs_conn_connect(mscclpp_conn_t *conn, const void *address, size_t length)
{
    const char *label = conn->transport->params.label;
    mscclpp_status_t status;
    conn_address_t peer_address;

    if (length != sizeof(peer_address)) {
        mscclpp_error("%s: verbs: the address of rank %d has %zu bytes instead of %zu", label, conn->peer, length,
                      sizeof(peer_address));
        return MSCCLPP_ERR_INVALID;
    }
    memcpy(&peer_address, address, sizeof(peer_address));
    if (ADDRESS_MAGIC != peer_address.magic || peer_address.rank != conn->peer || peer_address.rail_count < 1 ||
        peer_address.rail_count > MSCCLPP_VERBS_MAX_RAILS || peer_address.atomic > 1 || conn->connected) {
        mscclpp_error("%s: verbs: this is not the address of rank %d, or it is connected already", label, conn->peer);
        return MSCCLPP_ERR_INVALID;
    }
    status = agree_on_mode(conn, 0 != peer_address.atomic);
    if (MSCCLPP_OK != status) {
        return status;
    }
    if (0 != peer_address.landing) {
        status = mscclpp_verbs_bounce_create(conn, false);
        if (MSCCLPP_OK != status) {
            return status;
        }
        conn->bounce->peer_in = peer_address.landing;
        conn->bounce->peer_rkey = peer_address.landing_rkey;
    }
    /* Rails that only this side has cannot be used. */
    while (conn->qp_count > (int)peer_address.rail_count) {
        --conn->qp_count;
        mscclpp_verbs_qp_destroy(conn->qps[conn->qp_count]);
        conn->qps[conn->qp_count] = NULL;
    }
    conn->token_address = peer_address.token_address;
    conn->token_count = peer_address.token_count < MSCCLPP_VERBS_TOKEN_LIMIT ? (uint32_t)peer_address.token_count
                                                                             : MSCCLPP_VERBS_TOKEN_LIMIT;
    conn->token_rkey = peer_address.rails[0].token_rkey;
    for (int i = 0; i < conn->qp_count; ++i) {
        status = mscclpp_verbs_qp_connect(conn->qps[i], &peer_address.rails[i]);
        if (MSCCLPP_OK != status) {
            return status;
        }
    }
    conn->connected = true;
    ++conn->transport->connected[conn->atomic];
    mscclpp_debug("%s: verbs: connected to rank %d, %d rails, signals %s", label, conn->peer, conn->qp_count,
                  conn->atomic ? "atomic" : "no_atomic");
    return MSCCLPP_OK;
}

mscclpp_status_t mscclpp_verbs_conn_status(const mscclpp_conn_t *conn)
{
    return conn->status;
}
