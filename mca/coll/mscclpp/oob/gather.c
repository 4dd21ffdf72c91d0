#include "mca/coll/mscclpp/oob/gather.h"
#include "mca/coll/mscclpp/oob/waits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/base/call.h"
#include "mca/common/base/clock.h"
#include "mca/common/base/fiber.h"
#include "mca/common/base/log.h"

/*
 * After so many steps of a wait, opal_progress is called once. Most point-to-point layers advance Open MPI's progress
 * in a probe that finds no message, so a call after each step would only yield the processor once more. A few layers do
 * not.
 */
#define PROGRESS_TURNS 4u

int mca_coll_mscclpp_gather_rank(const mca_coll_mscclpp_gather_t *gather, int index)
{
    return gather->members != NULL ? gather->members[index] : index;
}

/* Returns the index of a rank, or -1. A binary search, because the members ascend. There is at least one. */
int mca_coll_mscclpp_gather_find(const mca_coll_mscclpp_gather_t *gather, int rank)
{
    int low = 0, high = gather->count - 1;

    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (mca_coll_mscclpp_gather_rank(gather, middle) < rank) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return rank == mca_coll_mscclpp_gather_rank(gather, low) ? low : -1;
}

/* The set-up is part of the module's current call, so the messages give the number of this call. */
void mca_coll_mscclpp_gather_report(const mca_coll_mscclpp_gather_t *gather, bool is_past_deadline, const char *ranks)
{
    const mscclpp_config_t *config = &mca_coll_mscclpp_state.config;
    const int rank = ompi_comm_rank(gather->oob->comm);
    char call[96];

    (void)snprintf(call, sizeof(call), "call %llu, set-up of device communication",
                   (unsigned long long)gather->oob->module->current_call);
    if (is_past_deadline) {
        mscclpp_report_deadline(gather->oob->label, call, rank, config->timeout, ranks, config->check_calls);
    } else {
        mscclpp_report_late(gather->oob->label, call, rank, mscclpp_now() - gather->started, ranks);
    }
}

void mca_coll_mscclpp_report_mixed(const mca_coll_mscclpp_module_t *module, uint64_t call, int host_rank,
                                   int device_rank)
{
    char text[48];

    (void)snprintf(text, sizeof(text), "call %llu", (unsigned long long)call);
    mscclpp_report_mixed(mca_coll_mscclpp_comm_name(module->comm), text, host_rank, device_rank);
}

/*
 * A refusal belongs to a call, and an abstention to one all-gather. So the two kinds of message are looked up by
 * different numbers.
 */
mscclpp_status_t mca_coll_mscclpp_gather_ended(mca_coll_mscclpp_gather_t *gather, int *culprit_p)
{
    mca_coll_mscclpp_oob_t *oob = gather->oob;
    mca_coll_mscclpp_oob_message_t *message =
        mca_coll_mscclpp_oob_take(oob, MCA_COLL_MSCCLPP_OOB_REFUSE, oob->module->current_call);

    if (message != NULL) {
        mca_coll_mscclpp_report_mixed(oob->module, oob->module->current_call, message->peer, ompi_comm_rank(oob->comm));
        *culprit_p = message->peer;
        free(message);
        return MSCCLPP_ERR_MIXED;
    }
    message = mca_coll_mscclpp_oob_take(oob, MCA_COLL_MSCCLPP_OOB_ABSTAIN, gather->number);
    if (message != NULL) {
        mscclpp_info("%s: rank %d: memory for the set-up: %s: device buffers are staged", oob->label, message->peer,
                     mscclpp_status_string(MSCCLPP_ERR_NO_MEMORY));
        *culprit_p = message->peer;
        free(message);
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    return MSCCLPP_OK;
}

mscclpp_status_t mca_coll_mscclpp_gather_told(const mca_coll_mscclpp_gather_t *gather, int *culprit_p, int *source_p)
{
    mca_coll_mscclpp_oob_t *oob = gather->oob;
    mca_coll_mscclpp_gather_ending_t ending = {MSCCLPP_ERR_PEER, -1};
    mca_coll_mscclpp_oob_message_t *message =
        mca_coll_mscclpp_oob_take(oob, MCA_COLL_MSCCLPP_OOB_END, gather->number - 1);

    if (message == NULL) {
        message = mca_coll_mscclpp_oob_take(oob, MCA_COLL_MSCCLPP_OOB_END, gather->number);
    }
    if (message == NULL) {
        message = mca_coll_mscclpp_oob_take(oob, MCA_COLL_MSCCLPP_OOB_GIVES_UP, oob->module->current_call);
        ending.culprit = message != NULL ? message->peer : -1;
        oob->module->peer_reports = oob->module->peer_reports || message != NULL;
    }
    if (message == NULL) {
        return MSCCLPP_OK;
    }
    if (sizeof(ending) == message->header.length) {
        memcpy(&ending, message->data, sizeof(ending));
    }
    *culprit_p = ending.culprit;
    *source_p = message->peer;
    mscclpp_info("%s: rank %d has ended the set-up because of rank %d: %s", oob->label, message->peer, ending.culprit,
                 mscclpp_status_string((mscclpp_status_t)ending.status));
    free(message);
    return (mscclpp_status_t)ending.status;
}

bool mca_coll_mscclpp_gather_must_tell(mscclpp_status_t status)
{
    return MSCCLPP_OK != status && MSCCLPP_ERR_NO_MEMORY != status && MSCCLPP_ERR_REVOKED != status;
}

/* Waits call this function repeatedly. `revoked` lets it log the revocation only once. */
mscclpp_status_t mca_coll_mscclpp_oob_check(mca_coll_mscclpp_oob_t *oob)
{
    if (!mca_coll_mscclpp_comm_revoked(oob->comm)) {
        return MSCCLPP_OK;
    }
    if (!oob->revoked) {
        oob->revoked = true;
        mscclpp_error("%s: call %llu: the communicator was revoked or one of its processes failed", oob->label,
                      (unsigned long long)oob->module->current_call);
    }
    return MSCCLPP_ERR_REVOKED;
}

/* Holds the lock only during a step. Progress runs without the lock, because it may resume calls that take it. */
mscclpp_status_t mca_coll_mscclpp_gather_run(mca_coll_mscclpp_gather_t *gather, void *state,
                                             mca_coll_mscclpp_gather_step_fn_t *step,
                                             mca_coll_mscclpp_gather_watch_fn_t *watch)
{
    mca_coll_mscclpp_oob_t *oob = gather->oob;
    mscclpp_status_t status = MSCCLPP_OK;
    unsigned turns = 0;

    while (MSCCLPP_OK == status) {
        mca_coll_mscclpp_oob_lock(oob);
        status = step(state);
        pthread_mutex_unlock(&oob->lock);
        if (MSCCLPP_IN_PROGRESS != status) {
            return status;
        }
        if (mca_coll_mscclpp_ahead_complete(gather)) {
            status = MSCCLPP_OK; /* the next step sends the part */
            continue;
        }
        /* A fiber yields instead: the code that resumes it runs within Open MPI's progress already. */
        if (!mscclpp_fiber_yield() && 0 == ++turns % PROGRESS_TURNS) {
            opal_progress();
        }
        mca_coll_mscclpp_waits_answer(oob);
        status = mca_coll_mscclpp_oob_check(oob);
        if (MSCCLPP_OK == status) {
            status = watch(state);
        }
    }
    return status;
}
