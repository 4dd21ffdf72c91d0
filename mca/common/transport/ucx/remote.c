/* Regions of peers, as a connection reaches them. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mca/common/base/log.h"
#include "mca/common/transport/ucx/internal.h"

/*
 * Makes a peer's region known to a connection. The connection must be connected, because UCX unpacks the key of a
 * registered region for one endpoint. If it is not, or if the bytes are not a key, returns MSCCLPP_ERR_INVALID. Returns
 * MSCCLPP_ERR_PEER if UCX refuses the key.
 */
mscclpp_status_t mscclpp_transport_ucx_remote_create(mscclpp_conn_t *conn, const void *key, size_t length,
                                                     mscclpp_remote_t **remote_p)
{
    const mscclpp_transport_t *transport = conn->transport;
    mscclpp_remote_t *remote;
    ucx_key_t head = {0};

    memcpy(&head, key, length < sizeof(head) ? length : sizeof(head));
    if (length < sizeof(head) || head.magic != UCX_MAGIC || length - sizeof(head) != head.rkey_length ||
        !conn->connected) {
        mscclpp_error("%s: the %zu bytes from rank %d are not the key of a region, or the rank is not connected",
                      transport->params.label, length, conn->peer);
        return MSCCLPP_ERR_INVALID;
    }
    remote = calloc(1, sizeof(*remote));
    if (remote == NULL) {
        mscclpp_error("%s: out of memory for a region of rank %d", transport->params.label, conn->peer);
        return MSCCLPP_ERR_NO_MEMORY;
    }
    remote->conn = conn;
    remote->region = head.region;
    remote->address = head.address;
    remote->length = head.length;
    if (head.rkey_length > 0) {
        ucs_status_t status =
            transport->ucx.ucp_ep_rkey_unpack(conn->ep, (const char *)key + sizeof(head), &remote->rkey);
        if (status != UCS_OK) {
            mscclpp_error("%s: the key of a region of rank %d: ucp_ep_rkey_unpack: %s", transport->params.label,
                          conn->peer, transport->ucx.ucs_status_string(status));
            free(remote);
            return MSCCLPP_ERR_PEER;
        }
    }
    *remote_p = remote;
    return MSCCLPP_OK;
}

/*
 * Frees a remote and its key. A forked child leaves the parent's key alone. The remote's connection still exists: the
 * last operation that uses the remote ends before the connection is freed.
 */
static void free_remote(mscclpp_remote_t *remote)
{
    if (remote->rkey != NULL && remote->conn->transport->pid == getpid()) {
        remote->conn->transport->ucx.ucp_rkey_destroy(remote->rkey);
    }
    free(remote);
}

/* Frees the remote now or, if operations use it, with the last of them. */
void mscclpp_transport_ucx_remote_destroy(mscclpp_remote_t *remote)
{
    if (remote == NULL) {
        return;
    }
    remote->destroyed = true;
    if (remote->op_count == 0) {
        free_remote(remote);
    }
}

void mscclpp_transport_ucx_drop_remote(mscclpp_remote_t *remote)
{
    --remote->op_count;
    if (remote->op_count == 0 && remote->destroyed) {
        free_remote(remote);
    }
}
