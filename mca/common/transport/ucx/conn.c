/* How connections of the transport ucx are made, break and end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mca/common/base/clock.h"
#include "mca/common/base/machine.h"
#include "mca/common/base/log.h"
#include "mca/common/transport/ucx/internal.h"

#define UCX_GRACE_SECONDS 0.2   /* time for a good-bye that may arrive after the report that the endpoint is gone */
#define UCX_RELEASE_SECONDS 1.0 /* time for UCX to release what is given up */

/*
 * Frees a connection. UCX no longer refers to the connection, and it is in no list. Gives up its operations first,
 * because they refer to remotes of this connection.
 */
static void free_conn(mscclpp_conn_t *conn)
{
    const mscclpp_gpu_ops_t *gpu = conn->transport->params.gpu;

    mscclpp_transport_ucx_drop_ops(conn);
    if (conn->ring != NULL) {
        gpu->host_free(conn->ring);
    }
    if (conn->landing != NULL) {
        gpu->host_free(conn->landing);
    }
    free(conn);
}

/*
 * Makes a connection without memory for messages and without an endpoint, which it gets when it is connected. The size
 * of its landing memory is the parameter bounce_size, rounded down to a multiple of UCX_CHUNKS aligned chunks. Returns
 * MSCCLPP_ERR_SYSTEM if the instance is stranded.
 */
mscclpp_status_t mscclpp_transport_ucx_conn_create(mscclpp_transport_t *transport, int peer, mscclpp_conn_t **conn_p)
{
    size_t landing_size =
        transport->params.config->bounce_size / (UCX_CHUNKS * UCX_RING_ALIGN) * UCX_CHUNKS * UCX_RING_ALIGN;
    mscclpp_conn_t *conn;

    if (transport->stranded) {
        mscclpp_error("%s: no ucx connection to rank %d: UCX still uses memory that was freed", transport->params.label,
                      peer);
        return MSCCLPP_ERR_SYSTEM;
    }
    conn = calloc(1, sizeof(*conn));
    if (conn != NULL) {
        conn->id = mscclpp_transport_ucx_enter(&transport->conn_ids, conn);
    }
    if (conn == NULL || conn->id == 0) {
        mscclpp_error("%s: out of memory for the connection to rank %d", transport->params.label, peer);
        free(conn);
        return MSCCLPP_ERR_NO_MEMORY;
    }
    conn->transport = transport;
    conn->peer = peer;
    conn->pidfd = -1;
    conn->landing_size = landing_size;
    conn->next = transport->conns;
    transport->conns = conn;
    *conn_p = conn;
    return MSCCLPP_OK;
}

/*
 * Returns true if a connection to this peer is in use. Then the peer must not reuse an endpoint for a new connection.
 */
static bool has_conn_in_use(const mscclpp_transport_t *transport, int peer)
{
    const mscclpp_conn_t *conn = transport->conns;

    while (conn != NULL && (conn->peer != peer || !conn->connected)) {
        conn = conn->next;
    }
    return conn != NULL;
}

/*
 * The worker's address follows the facts about this half. Both fit into the room for an address, as ucx_create has
 * checked.
 */
mscclpp_status_t mscclpp_transport_ucx_conn_address(const mscclpp_conn_t *conn, void *address, size_t *length_p)
{
    const mscclpp_transport_t *transport = conn->transport;
    const ucx_address_t head = {.magic = UCX_MAGIC,
                                .conn = conn->id,
                                .pids = mscclpp_machine_pids(),
                                .pid = getpid(),
                                .token_count = transport->params.token_count,
                                .ring_size = conn->landing_size,
                                .forced_closes = transport->forced_closes,
                                .has_conn_in_use = has_conn_in_use(transport, conn->peer),
                                .registers_host = transport->registers_host,
                                .device_regions = transport->device_regions,
                                .worker_length = (uint32_t)transport->address_length};
    char *cursor = address;

    memcpy(cursor, &head, sizeof(head));
    cursor += sizeof(head);
    memcpy(cursor, transport->address, head.worker_length);
    *length_p = sizeof(head) + head.worker_length;
    return MSCCLPP_OK;
}

/*
 * Returns true if a peer's address is valid; otherwise logs an error. The address comes from another process. Its head
 * has been copied to conn->peer_address, and `length` is the length of the whole address. The length is checked first,
 * because the head is incomplete if the address is too short.
 */
static bool is_valid_address(const mscclpp_conn_t *conn, size_t length)
{
    const mscclpp_transport_t *transport = conn->transport;

    if (length < sizeof(conn->peer_address) || conn->peer_address.magic != UCX_MAGIC ||
        length - sizeof(conn->peer_address) != conn->peer_address.worker_length ||
        conn->peer_address.worker_length == 0) {
        mscclpp_error("%s: the %zu bytes from rank %d are not a ucx address", transport->params.label, length,
                      conn->peer);
        return false;
    }
    if (conn->peer_address.ring_size == 0 || conn->peer_address.ring_size % (UCX_CHUNKS * UCX_RING_ALIGN) != 0) {
        mscclpp_error("%s: the ucx address of rank %d has %llu bytes of bounce memory, which is no multiple of %d",
                      transport->params.label, conn->peer, (unsigned long long)conn->peer_address.ring_size,
                      UCX_CHUNKS * UCX_RING_ALIGN);
        return false;
    }
    return true;
}

/*
 * Connects to the peer with this address. Both sides use the smaller of their two sizes of bounce memory.
 *
 * If the connection is already broken, returns its status. Returns MSCCLPP_ERR_INVALID for an invalid address or a
 * second call; otherwise fails as the memory or the endpoint does. After a failure of the first call, the connection
 * can only be destroyed.
 */
mscclpp_status_t mscclpp_transport_ucx_conn_connect(mscclpp_conn_t *conn, const void *address, size_t length)
{
    mscclpp_status_t status = conn->status;

    if (status != MSCCLPP_OK) {
        return status;
    }
    if (conn->connected || conn->endpoint != NULL) {
        mscclpp_error("%s: the ucx connection to rank %d is connected already", conn->transport->params.label,
                      conn->peer);
        return MSCCLPP_ERR_INVALID;
    }
    memcpy(&conn->peer_address, address, length < sizeof(conn->peer_address) ? length : sizeof(conn->peer_address));
    if (!is_valid_address(conn, length)) {
        return MSCCLPP_ERR_INVALID;
    }
    conn->ring_size =
        conn->peer_address.ring_size < conn->landing_size ? conn->peer_address.ring_size : conn->landing_size;
    conn->chunk_size = conn->ring_size / UCX_CHUNKS;
    status = mscclpp_transport_ucx_equip(conn);
    if (status == MSCCLPP_OK) {
        status = mscclpp_transport_ucx_endpoint_get(conn, (const char *)address + sizeof(conn->peer_address),
                                                    conn->peer_address.worker_length);
    }
    if (status != MSCCLPP_OK) {
        return status;
    }
    conn->connected = true;
    return MSCCLPP_OK;
}

mscclpp_status_t mscclpp_transport_ucx_conn_status(const mscclpp_conn_t *conn)
{
    return conn->status;
}

/*
 * Decides what the loss of a peer means. If the peer has said good-bye and no operation was in progress, it has simply
 * left. Otherwise the connection breaks: immediately if an operation was in progress, and after UCX_GRACE_SECONDS if
 * only the good-bye is missing.
 */
static void judge_loss(mscclpp_conn_t *conn)
{
    char reason[160];

    if (conn->peer_left && conn->op_begin == conn->op_end) {
        if (!conn->has_logged_leave) {
            mscclpp_debug("%s: rank %d has closed its ucx connection", conn->transport->params.label, conn->peer);
        }
        conn->has_logged_leave = true;
        return;
    }
    if (conn->op_begin != conn->op_end || mscclpp_now() - conn->lost_at > UCX_GRACE_SECONDS) {
        snprintf(reason, sizeof(reason), "UCX has lost the peer: %s",
                 conn->transport->ucx.ucs_status_string(conn->loss_status));
        mscclpp_transport_ucx_fail(conn, MSCCLPP_ERR_PEER, reason);
    }
}

/*
 * Cleans up the endpoints first, which may find peers that have died. Then frees destroyed connections. Breaks
 * connections that have lost the peer (judge_loss), and those whose peer has left before it acknowledged all messages.
 * Also tells the peers of connections that broke on this side; such a note may have to wait until the previous one has
 * been sent.
 */
void mscclpp_transport_ucx_clean_up_conns(mscclpp_transport_t *transport)
{
    mscclpp_conn_t **link = &transport->conns;

    mscclpp_transport_ucx_clean_up_endpoints(transport);
    while (*link != NULL) {
        mscclpp_conn_t *conn = *link;
        if (conn->destroyed && conn->outstanding_count == 0) {
            *link = conn->next;
            free_conn(conn);
            continue;
        }
        if (!conn->destroyed && conn->lost_at != 0 && conn->status == MSCCLPP_OK) {
            judge_loss(conn);
        }
        if (!conn->destroyed && conn->peer_left && conn->acked < conn->packed) {
            mscclpp_transport_ucx_fail(conn, MSCCLPP_ERR_PEER, "the peer has closed it with puts or signals under way");
        }
        if (conn->must_tell_peer && mscclpp_transport_ucx_send_note(conn, UCX_FAILURE)) {
            conn->must_tell_peer = false;
        }
        link = &conn->next;
    }
}

/* Returns true if the connection uses the region, by direct operations or by messages. */
static bool conn_uses(const mscclpp_conn_t *conn, const mscclpp_region_t *region)
{
    for (int i = 0; i < UCX_MESSAGES_MAX; ++i) {
        if ((conn->messages[i].is_sending && conn->messages[i].region == region) ||
            conn->arrivals[i].region == region) {
            return true;
        }
    }
    for (int i = 0; i < UCX_OPS_MAX; ++i) {
        if (conn->ops[i].is_sending && conn->ops[i].region == region) {
            return true;
        }
    }
    return false;
}

/* Returns true if UCX may still access the region. UCX may hold requests of destroyed connections, too. */
static bool is_used(const mscclpp_region_t *region)
{
    const mscclpp_conn_t *conn = region->transport->conns;

    while (conn != NULL && (conn->outstanding_count == 0 || !conn_uses(conn, region))) {
        conn = conn->next;
    }
    return conn != NULL;
}

/*
 * Waits until no connection uses the region. The caller has removed the region's number, so messages that arrive
 * meanwhile do not find the region. Returns false if some connection still uses the region after UCX_RELEASE_SECONDS.
 */
static bool await_unused(const mscclpp_region_t *region)
{
    const double deadline = mscclpp_now() + UCX_RELEASE_SECONDS;

    while (is_used(region)) {
        if (region->transport->stranded || mscclpp_now() >= deadline) {
            return false;
        }
        (void)mscclpp_transport_ucx_progress_worker(region->transport);
    }
    return true;
}

/*
 * Breaks a connection, and lets UCX give up its operations in progress. Tells the peer first, because nothing can be
 * sent afterwards.
 */
static void break_by_force(mscclpp_conn_t *conn)
{
    mscclpp_transport_ucx_fail(conn, MSCCLPP_ERR_INVALID, "a region was destroyed with a put from or to it under way");
    if (conn->must_tell_peer && mscclpp_transport_ucx_send_note(conn, UCX_FAILURE)) {
        conn->must_tell_peer = false;
    }
    conn->connected = false;
    mscclpp_transport_ucx_endpoint_release(conn, true);
}

/*
 * Gives up the instance: all its connections break, and its worker makes no more progress. Without the worker's
 * progress UCX accesses nothing more. This is the last resort if UCX does not let go of memory.
 */
static void strand(mscclpp_transport_t *transport)
{
    transport->stranded = true;
    for (mscclpp_conn_t *conn = transport->conns; conn != NULL; conn = conn->next) {
        mscclpp_transport_ucx_fail(conn, MSCCLPP_ERR_SYSTEM, "UCX does not let go of memory that is freed");
        conn->connected = false;
    }
}

/*
 * First waits until the operations in progress end normally. Then breaks the connections that use the region, and
 * waits again. A destroyed connection has already released its endpoint, so it can only be waited for. If UCX still
 * uses the region, strands the instance and returns false.
 */
bool mscclpp_transport_ucx_vacate(const mscclpp_region_t *region)
{
    mscclpp_transport_t *transport = region->transport;
    bool is_unused = await_unused(region), has_broken = false;

    for (mscclpp_conn_t *conn = transport->conns; conn != NULL && !is_unused; conn = conn->next) {
        if (!conn->destroyed && conn->endpoint != NULL && conn_uses(conn, region)) {
            break_by_force(conn);
            has_broken = true;
        }
    }
    is_unused = is_unused || (has_broken && await_unused(region));
    if (!is_unused && !transport->stranded) {
        strand(transport);
    }
    return is_unused;
}

/*
 * Ends the copies, which use the connection's memory. Then says good-bye, which is possible only while the connection
 * is connected, and gives up its operations. Clean-up frees this half of the connection once UCX has released it.
 */
void mscclpp_transport_ucx_conn_destroy(mscclpp_conn_t *conn)
{
    mscclpp_transport_t *transport;
    double deadline;
    bool by_force;

    if (conn == NULL) {
        return;
    }
    transport = conn->transport;
    conn->destroyed = true;
    mscclpp_transport_ucx_remove(&transport->conn_ids, conn->id);
    if (transport->adding_conn == conn) {
        transport->adding_conn = NULL;
    }
    if (transport->pid != getpid()) {
        return; /* a forked child must not use UCX, and frees nothing of the parent's */
    }
    mscclpp_transport_ucx_await_copies(transport);
    if (!conn->peer_left) {
        (void)mscclpp_transport_ucx_send_note(conn, UCX_BYE);
    }
    conn->connected = false;
    /*
     * If UCX may still access regions, closes by force and waits, so that the owners can reuse their memory. If UCX
     * does not cancel operations on the endpoint, this may take longer than the wait. That is safe, because destroying
     * a region waits again.
     */
    by_force = conn->lost_at != 0 || conn->op_begin != conn->op_end || conn->placing_count != 0;
    mscclpp_transport_ucx_endpoint_release(conn, by_force);
    deadline = mscclpp_now() + UCX_RELEASE_SECONDS;
    while (by_force && conn->outstanding_count > 0 && !transport->stranded && mscclpp_now() < deadline) {
        (void)mscclpp_transport_ucx_progress_worker(transport);
    }
}

void mscclpp_transport_ucx_drop_conns(mscclpp_transport_t *transport)
{
    while (transport->conns != NULL) {
        mscclpp_conn_t *conn = transport->conns;
        transport->conns = conn->next;
        free_conn(conn);
    }
}
