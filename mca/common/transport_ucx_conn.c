/* Connections of the transport ucx: how they are made, break and end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mca/common/host.h"
#include "mca/common/log.h"
#include "mca/common/transport_ucx.h"

#define UCX_GRACE_SECONDS 0.2 /* for a good-bye that may be behind the news that the endpoint is gone */
#define UCX_CLOSE_SECONDS 1.0 /* for UCX to let go of what is given up */

static void free_conn(mscclpp_conn_t *conn)
{
    const mscclpp_gpu_ops_t *gpu = conn->transport->params.gpu;

    if (conn->ring != NULL) {
        gpu->host_free(conn->ring);
    }
    if (conn->landing != NULL) {
        gpu->host_free(conn->landing);
    }
    free(conn);
}

mscclpp_status_t mscclpp_transport_ucx_conn_create(mscclpp_transport_t *transport, int peer, mscclpp_conn_t **conn_p)
{
    size_t room = transport->params.config->bounce_size / (UCX_CHUNKS * UCX_RING_ALIGN) * UCX_CHUNKS * UCX_RING_ALIGN;
    mscclpp_conn_t *conn = calloc(1, sizeof(*conn));

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
    conn->watch = -1;
    conn->landing_size = room;
    conn->next = transport->conns;
    transport->conns = conn;
    *conn_p = conn;
    return MSCCLPP_OK;
}

static bool is_busy(const mscclpp_transport_t *transport, int peer)
{
    const mscclpp_conn_t *conn = transport->conns;

    while (conn != NULL && (conn->peer != peer || !conn->connected)) {
        conn = conn->next;
    }
    return conn != NULL;
}

mscclpp_status_t mscclpp_transport_ucx_conn_address(const mscclpp_conn_t *conn, void *address, size_t *length_p)
{
    const mscclpp_transport_t *transport = conn->transport;
    const ucx_address_t head = {.magic = UCX_MAGIC,
                                .conn = conn->id,
                                .pids = mscclpp_host_pids(),
                                .pid = getpid(),
                                .token_count = transport->params.token_count,
                                .ring_size = conn->landing_size,
                                .forced = transport->forced,
                                .busy = is_busy(transport, conn->peer),
                                .worker_length = (uint32_t)transport->address_length};
    char *at = address;

    memcpy(at, &head, sizeof(head));
    at += sizeof(head);
    memcpy(at, transport->address, head.worker_length);
    *length_p = sizeof(head) + head.worker_length;
    return MSCCLPP_OK;
}

/* What the peer says of itself must fit together, and with what this rank would say. */
static bool is_sound(const mscclpp_conn_t *conn, size_t length)
{
    const mscclpp_transport_t *transport = conn->transport;

    if (length < sizeof(conn->to) || conn->to.magic != UCX_MAGIC ||
        length - sizeof(conn->to) != conn->to.worker_length || conn->to.worker_length == 0) {
        mscclpp_error("%s: the ucx address of rank %d, %zu bytes, is none", transport->params.label, conn->peer,
                      length);
        return false;
    }
    if (conn->to.ring_size == 0 || conn->to.ring_size % (UCX_CHUNKS * UCX_RING_ALIGN) != 0) {
        mscclpp_error("%s: the ucx address of rank %d has %llu bytes of bounce memory, which is no multiple of %d",
                      transport->params.label, conn->peer, (unsigned long long)conn->to.ring_size,
                      UCX_CHUNKS * UCX_RING_ALIGN);
        return false;
    }
    return true;
}

mscclpp_status_t mscclpp_transport_ucx_conn_connect(mscclpp_conn_t *conn, const void *address, size_t length)
{
    mscclpp_status_t status;

    memcpy(&conn->to, address, length < sizeof(conn->to) ? length : sizeof(conn->to));
    if (!is_sound(conn, length)) {
        return MSCCLPP_ERR_INVALID;
    }
    conn->ring_size = conn->to.ring_size < conn->landing_size ? conn->to.ring_size : conn->landing_size;
    conn->chunk = conn->ring_size / UCX_CHUNKS;
    status =
        mscclpp_transport_ucx_endpoint_take(conn, (const char *)address + sizeof(conn->to), conn->to.worker_length);
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

void mscclpp_transport_ucx_fail(mscclpp_conn_t *conn, mscclpp_status_t status, const char *what)
{
    if (conn->status != MSCCLPP_OK) {
        return;
    }
    conn->status = status;
    if (conn->transport->adding == conn) {
        conn->transport->adding = NULL;
    }
    if (!conn->destroyed) {
        conn->tell = status != MSCCLPP_ERR_PEER;
        mscclpp_error("%s: the ucx connection to rank %d is broken: %s", conn->transport->params.label, conn->peer,
                      what);
    }
}

void mscclpp_transport_ucx_lose(mscclpp_conn_t *conn, ucs_status_t why)
{
    if (conn->lost_at == 0) {
        conn->lost_at = mscclpp_transport_ucx_now();
        conn->lost_why = why;
    }
}

/* A peer that was lost with something under way, or without a good-bye, is an error; else it has only left. */
static void judge(mscclpp_conn_t *conn)
{
    char what[160];

    if (conn->left && conn->op_begin == conn->op_end) {
        mscclpp_debug("%s: rank %d has closed its ucx connection", conn->transport->params.label, conn->peer);
        return;
    }
    if (conn->op_begin != conn->op_end || mscclpp_transport_ucx_now() - conn->lost_at > UCX_GRACE_SECONDS) {
        snprintf(what, sizeof(what), "UCX has lost the peer: %s",
                 conn->transport->ucx.ucs_status_string(conn->lost_why));
        mscclpp_transport_ucx_fail(conn, MSCCLPP_ERR_PEER, what);
    }
}

void mscclpp_transport_ucx_tend(mscclpp_transport_t *transport)
{
    mscclpp_conn_t **link = &transport->conns;

    mscclpp_transport_ucx_endpoint_tend(transport);
    while (*link != NULL) {
        mscclpp_conn_t *conn = *link;
        if (conn->destroyed && conn->outstanding == 0) {
            *link = conn->next;
            free_conn(conn);
            continue;
        }
        if (!conn->destroyed && conn->lost_at != 0 && conn->status == MSCCLPP_OK) {
            judge(conn);
        }
        if (!conn->destroyed && conn->left && conn->acked < conn->packed) {
            mscclpp_transport_ucx_fail(conn, MSCCLPP_ERR_PEER, "the peer has closed it with puts or signals under way");
        }
        if (conn->tell && mscclpp_transport_ucx_note(conn, UCX_TROUBLE)) {
            conn->tell = false;
        }
        link = &conn->next;
    }
}

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
    if (transport->adding == conn) {
        transport->adding = NULL;
    }
    if (transport->pid != getpid()) {
        return; /* freed with the instance */
    }
    mscclpp_transport_ucx_end_copies(transport);
    if (!conn->left) {
        (void)mscclpp_transport_ucx_note(conn, UCX_BYE);
    }
    conn->connected = false;
    /*
     * By force, and waited for, where UCX may still read and write memory that its owner frees next; that does not
     * depend on the peer.
     */
    by_force = conn->lost_at != 0 || conn->op_begin != conn->op_end || conn->placing != 0;
    mscclpp_transport_ucx_endpoint_release(conn, by_force);
    deadline = mscclpp_transport_ucx_now() + UCX_CLOSE_SECONDS;
    while (by_force && conn->outstanding > 0 && mscclpp_transport_ucx_now() < deadline) {
        (void)transport->ucx.ucp_worker_progress(transport->worker);
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
