/* Breaks connections. */
#include <stdarg.h>
#include <stdio.h>

#include "mca/common/base/log.h"
#include "mca/common/transport/verbs/internal.h"

#define REASON_BYTES 512 /* the most bytes of the reason for a failure, with its terminator */

void mscclpp_verbs_abandon_add(mscclpp_conn_t *conn)
{
    /*
     * The last copy of the add may still be in progress. That does no harm: a later add waits until the batch has ended
     * before it reads the word.
     */
    if (conn == conn->transport->adding_conn) {
        conn->bounce->add_stage = MSCCLPP_VERBS_ADD_NONE;
        conn->transport->adding_conn = NULL;
    }
}

void mscclpp_verbs_fail(mscclpp_conn_t *conn, mscclpp_status_t status, const char *format, ...)
{
    mscclpp_transport_t *transport = conn->transport;
    char reason[REASON_BYTES], log_line[REASON_BYTES + 64];
    va_list arguments;

    if (MSCCLPP_OK != conn->status || conn->peer_left) {
        return;
    }
    conn->status = status;
    mscclpp_verbs_abandon_add(conn);
    if (conn->leaving) {
        return;
    }
    if (MSCCLPP_OK == transport->unreported_failure) {
        transport->unreported_failure = status;
    }
    va_start(arguments, format);
    (void)vsnprintf(reason, sizeof(reason), format, arguments);
    va_end(arguments);
    (void)snprintf(log_line, sizeof(log_line), "%s: verbs: %s", transport->params.label, reason);
    mscclpp_note_loss(MSCCLPP_ERR_PEER == status ? transport->params.loss : NULL, conn->peer, log_line);
}
