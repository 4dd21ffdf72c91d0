/* The state of the instance and its connections as all files see it: making progress, and noting failures. */
#include <stdio.h>

#include "mca/common/base/clock.h"
#include "mca/common/base/log.h"
#include "mca/common/transport/ucx/internal.h"

unsigned mscclpp_transport_ucx_progress_worker(mscclpp_transport_t *transport)
{
    return transport->stranded ? 0 : transport->ucx.ucp_worker_progress(transport->worker);
}

bool mscclpp_transport_ucx_succeeded(const mscclpp_transport_t *transport, const char *call, ucs_status_t status)
{
    if (status != UCS_OK) {
        mscclpp_info("%s: no transport ucx: %s: %s", transport->params.label, call,
                     transport->ucx.ucs_status_string(status));
    }
    return status == UCS_OK;
}

bool mscclpp_transport_ucx_stays_near(const mscclpp_transport_params_t *params)
{
    return params->one_host && params->config->ucx_shared_memory;
}

void mscclpp_transport_ucx_fail(mscclpp_conn_t *conn, mscclpp_status_t status, const char *reason)
{
    if (conn->status != MSCCLPP_OK) {
        return;
    }
    conn->status = status;
    if (conn->transport->adding_conn == conn) {
        conn->transport->adding_conn = NULL;
    }
    if (!conn->destroyed) {
        char log_line[256];

        /* A peer that caused the failure knows of it, or is gone. */
        conn->must_tell_peer = status != MSCCLPP_ERR_PEER;
        (void)snprintf(log_line, sizeof(log_line), "%s: the ucx connection to rank %d is broken: %s",
                       conn->transport->params.label, conn->peer, reason);
        mscclpp_note_loss(conn->must_tell_peer ? NULL : conn->transport->params.loss, conn->peer, log_line);
    }
}

void mscclpp_transport_ucx_lose(mscclpp_conn_t *conn, ucs_status_t loss_status)
{
    if (conn->lost_at == 0) {
        conn->lost_at = mscclpp_now();
        conn->loss_status = loss_status;
    }
}
