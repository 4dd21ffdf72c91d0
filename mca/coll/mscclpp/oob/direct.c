/* All-gathers in which every rank sends its part to all others. */
#include "mca/coll/mscclpp/oob/gather.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/base/clock.h"
#include "mca/common/base/log.h"

/* The state of one all-gather. */
typedef struct {
    mca_coll_mscclpp_gather_t *gather;
    int missing_count;                                /* number of ranks whose parts have not come */
    bool has_sent;                                    /* this rank's part has been sent to all */
    bool is_told;                                     /* another rank has told all of the failure */
    bool has_arrived[MCA_COLL_MSCCLPP_GATHER_DIRECT]; /* by index: the rank's part has come */
} direct_t;

/*
 * Writes the ranks whose parts have not arrived into `text`, cut off at `size` bytes. A rank whose message of the
 * exchange ahead has come is left out: it waits for the same ranks as this one.
 */
static void list_missing(const direct_t *direct, char *text, size_t size)
{
    size_t used = 0;

    (void)snprintf(text, size, "none, but messages to some are still on their way");
    for (int i = 0; i < direct->gather->count && used < size; ++i) {
        const int rank = mca_coll_mscclpp_gather_rank(direct->gather, i);

        if (!direct->has_arrived[i] && !mca_coll_mscclpp_ahead_has_come(direct->gather, rank)) {
            int length = snprintf(text + used, size - used, "%s%d", 0 == used ? "" : ", ", rank);
            used += length > 0 ? (size_t)length : 0;
        }
    }
}

/*
 * Logs the missing ranks: once as a warning, and at the deadline as the error that ends the wait, MSCCLPP_ERR_TIMEOUT.
 * Returns MSCCLPP_OK if the wait continues (mca_coll_mscclpp_gather_watch_fn_t).
 */
static mscclpp_status_t direct_watch(void *state)
{
    const mscclpp_config_t *config = &mca_coll_mscclpp_state.config;
    direct_t *direct = state;
    mca_coll_mscclpp_gather_t *gather = direct->gather;
    double waited = mscclpp_now() - gather->started;
    bool is_past_deadline = config->timeout > 0 && waited > config->timeout;
    bool must_warn = config->warn_after > 0 && waited > config->warn_after && !gather->warned;
    char ranks[128];

    if (!is_past_deadline && !must_warn) {
        return MSCCLPP_OK;
    }
    gather->warned = true;
    list_missing(direct, ranks, sizeof(ranks));
    mca_coll_mscclpp_gather_report(gather, is_past_deadline, ranks);
    return is_past_deadline ? MSCCLPP_ERR_TIMEOUT : MSCCLPP_OK;
}

/*
 * Copies one rank's part to its place in the result. Returns MSCCLPP_ERR_PEER, which is logged, if the part has the
 * wrong length, comes from a rank outside of the all-gather, or is the rank's second one. The caller frees the message.
 */
static mscclpp_status_t accept_part(direct_t *direct, const mca_coll_mscclpp_oob_message_t *message)
{
    mca_coll_mscclpp_gather_t *gather = direct->gather;
    const int sender = mca_coll_mscclpp_gather_find(gather, message->peer);

    if (message->header.length != gather->length || sender < 0 || direct->has_arrived[sender]) {
        mscclpp_error("%s: rank %d sent %llu bytes of set-up data instead of %zu; do all ranks load the same version?",
                      gather->oob->label, message->peer, (unsigned long long)message->header.length, gather->length);
        return MSCCLPP_ERR_PEER;
    }
    if (gather->length > 0) {
        memcpy(gather->recvbuf + (size_t)sender * gather->length, message->data, gather->length);
    }
    direct->has_arrived[sender] = true;
    --direct->missing_count;
    return MSCCLPP_OK;
}

/* Looks for a message by which another rank has ended the all-gather. Returns its error, or MSCCLPP_OK. */
static mscclpp_status_t look_for_end(direct_t *direct)
{
    int culprit, source;
    mscclpp_status_t status = mca_coll_mscclpp_gather_ended(direct->gather, &culprit);

    if (MSCCLPP_OK == status) {
        status = mca_coll_mscclpp_gather_told(direct->gather, &culprit, &source);
        direct->is_told = MSCCLPP_OK != status;
    }
    return status;
}

/* Sends this rank's part to all others once it is ready. Returns MSCCLPP_ERR_NO_MEMORY with nothing sent. */
static mscclpp_status_t send_part(direct_t *direct)
{
    const mca_coll_mscclpp_gather_t *gather = direct->gather;

    if (!gather->is_ready || direct->has_sent) {
        return MSCCLPP_OK;
    }
    direct->has_sent = true;
    return mca_coll_mscclpp_oob_post_among(gather->oob, gather->members, gather->count, MCA_COLL_MSCCLPP_OOB_GATHER,
                                           gather->number, gather->oob->module->current_call, gather->sendbuf,
                                           gather->length);
}

/* Tells all others to hurry, unless another rank has told them all. The messages need no memory. */
static void tell_hurry(direct_t *direct)
{
    mca_coll_mscclpp_gather_t *gather = direct->gather;
    int source;

    if (mca_coll_mscclpp_ahead_look(gather, &source) && source < 0) {
        mca_coll_mscclpp_oob_send_empty(gather->oob->module, gather->members, gather->count, MCA_COLL_MSCCLPP_OOB_HURRY,
                                        gather->number);
    }
}

/*
 * Sends this rank's part, and receives those that have arrived (mca_coll_mscclpp_gather_step_fn_t). The result is
 * MSCCLPP_OK when all parts have arrived and this rank's own part has been sent to all ranks. Errors are those of the
 * messages and of look_for_end; all have been logged.
 */
static mscclpp_status_t direct_step(void *state)
{
    direct_t *direct = state;
    mca_coll_mscclpp_oob_t *oob = direct->gather->oob;
    /* With an exchange ahead, each rank sends up to two messages. */
    mscclpp_status_t status = mca_coll_mscclpp_oob_advance(oob, direct->missing_count + direct->gather->ahead_missing);
    mca_coll_mscclpp_oob_message_t *message;

    if (MSCCLPP_OK == status) {
        status = send_part(direct);
    }
    if (MSCCLPP_OK == status) {
        tell_hurry(direct);
    }
    while (MSCCLPP_OK == status &&
           (message = mca_coll_mscclpp_oob_take(oob, MCA_COLL_MSCCLPP_OOB_GATHER, direct->gather->number)) != NULL) {
        status = accept_part(direct, message);
        free(message);
    }
    if (MSCCLPP_OK == status) {
        status = look_for_end(direct);
    }
    if (MSCCLPP_OK != status) {
        return status;
    }
    return 0 == direct->missing_count && direct->has_sent && oob->sends.first == NULL ? MSCCLPP_OK
                                                                                      : MSCCLPP_IN_PROGRESS;
}

/*
 * For at most MCA_COLL_MSCCLPP_GATHER_DIRECT ranks, because `has_arrived` has no more entries. Each rank sends its part
 * to all others. Returns MSCCLPP_ERR_NO_MEMORY, with nothing sent, if there is no memory for the messages. After
 * another error of this rank's own it tells all others, which may have its part already.
 */
mscclpp_status_t mca_coll_mscclpp_gather_direct(mca_coll_mscclpp_gather_t *gather)
{
    mca_coll_mscclpp_oob_t *oob = gather->oob;
    direct_t direct = {.gather = gather, .missing_count = gather->count - 1};
    mscclpp_status_t status;

    direct.has_arrived[gather->self] = true; /* the caller has put this rank's own part in place */
    mca_coll_mscclpp_oob_lock(oob);
    status = send_part(&direct);
    pthread_mutex_unlock(&oob->lock);
    if (MSCCLPP_OK == status) {
        status = mca_coll_mscclpp_gather_run(gather, &direct, direct_step, direct_watch);
    }
    /* Each rank that another one refuses or abstains for learns so by itself. */
    if (mca_coll_mscclpp_gather_must_tell(status) && MSCCLPP_ERR_MIXED != status &&
        MSCCLPP_ERR_NOT_SUPPORTED != status && !direct.is_told) {
        const mca_coll_mscclpp_gather_ending_t ending = {(int32_t)status, ompi_comm_rank(oob->comm)};

        mca_coll_mscclpp_oob_lock(oob);
        (void)mca_coll_mscclpp_oob_post_among(oob, gather->members, gather->count, MCA_COLL_MSCCLPP_OOB_END,
                                              gather->number, oob->module->current_call, &ending, sizeof(ending));
        pthread_mutex_unlock(&oob->lock);
    }
    return status;
}
