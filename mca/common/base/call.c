#include "mca/common/base/call.h"

#include <stdio.h>

#include "mca/common/base/log.h"

/*
 * Ranks that pass different arguments may wait for a step that no rank takes. Then the deadline is the program's fault.
 */
#define MAY_NOT_MATCH                                                                                                  \
    "; calls of the ranks that do not match (collective, count, type, operation, root) are one possible reason, "      \
    "which coll_mscclpp_check_calls = 1 finds"

void mscclpp_report_mixed(const char *label, const char *call, int host_rank, int device_rank)
{
    mscclpp_error("%s: %s: rank %d passed host buffers and rank %d device buffers; pass the same kind on all ranks, or "
                  "set coll_mscclpp_mixed_buffers to 1",
                  label, call, host_rank, device_rank);
}

void mscclpp_report_late(const char *label, const char *call, int rank, double waited, const char *late)
{
    mscclpp_warn("%s: %s: rank %d has waited %.1f s; ranks that have not arrived: %s", label, call, rank, waited, late);
}

void mscclpp_report_deadline(const char *label, const char *call, int rank, double timeout, const char *late,
                             bool compared)
{
    mscclpp_error("%s: %s did not end on rank %d within %g s (coll_mscclpp_timeout); ranks that have not arrived: %s%s",
                  label, call, rank, timeout, late, compared ? "" : MAY_NOT_MATCH);
}

static unsigned long long messages_sent;

void mscclpp_count_messages(int count)
{
    __atomic_fetch_add(&messages_sent, (unsigned long long)count, __ATOMIC_RELAXED);
}

unsigned long long *mscclpp_messages_sent(void)
{
    return &messages_sent;
}

void mscclpp_note_loss(mscclpp_loss_t *loss, int peer, const char *text)
{
    mscclpp_log(loss == NULL ? MSCCLPP_LOG_ERROR : MSCCLPP_LOG_INFO, "%s", text);
    if (loss != NULL && __atomic_exchange_n(&loss->claimed, 1, __ATOMIC_RELAXED) == 0) {
        loss->peer = peer;
        (void)snprintf(loss->text, sizeof(loss->text), "%s", text);
        __atomic_store_n(&loss->noted, 1, __ATOMIC_RELEASE);
    }
}

int mscclpp_loss_peer(const mscclpp_loss_t *loss)
{
    return loss != NULL && __atomic_load_n(&loss->noted, __ATOMIC_ACQUIRE) != 0 ? loss->peer : -1;
}
