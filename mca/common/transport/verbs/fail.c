/* Breaks connections. */
#include <stdarg.h>
#include <stdio.h>

#include "mca/common/base/log.h"
#include "mca/common/transport/verbs/internal.h"

#define LINE_BYTES 512 /* bytes of a message about a failure */

void mscclpp_verbs_bounce_give_up(mscclpp_conn_t *conn)
{
    /*
     * If the sum of an add is still being copied, later adds wait for the end of that batch before they read the word.
     */
    if (conn == conn->transport->adding) {
        conn->bounce->add_stage = 0;
        conn->transport->adding = NULL;
    }
}

void mscclpp_verbs_fail(mscclpp_conn_t *conn, mscclpp_status_t status, const char *format, ...)
{
    mscclpp_transport_t *transport = conn->transport;
    char line[LINE_BYTES];
    va_list arguments;

    if (MSCCLPP_OK != conn->status || conn->left) {
        return;
    }
    conn->status = status;
    mscclpp_verbs_bounce_give_up(conn);
    if (conn->leaving) {
        return;
    }
    if (MSCCLPP_OK == transport->failed) {
        transport->failed = status;
    }
    va_start(arguments, format);
    (void)vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    mscclpp_error("%s: verbs: %s", transport->params.label, line);
}
