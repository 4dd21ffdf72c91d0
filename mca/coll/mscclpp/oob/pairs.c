/* The exchange of the set-up in which each rank sends to some others, and receives from these. */
#include "mca/coll/mscclpp/oob/pairs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/base/clock.h"
#include "mca/common/base/log.h"

/* The most ranks that a message names. */
#define PAIRS_SHOWN 8

/* An exchange in progress. Messages and their state are in the order of `peers`. */
typedef struct {
    mca_coll_mscclpp_gather_t gather; /* has no ranks; gather.c uses it to wait and to report */
    const int *peers;
    int count;         /* number of peers */
    int missing_count; /* peers whose messages have not come */
    bool *has_arrived; /* by peer: its message has come */
    char *received;    /* a place for each peer's message, `pitch` bytes apart */
    size_t pitch;
} pairs_t;

/*
 * Copies a peer's message to its place. Returns MSCCLPP_ERR_PEER if the message is too long, comes from a rank that is
 * not a peer, or is the peer's second one. An empty message, from a peer without memory, leaves the place as the caller
 * has initialized it. The caller frees the message.
 */
static mscclpp_status_t accept_message(pairs_t *pairs, const mca_coll_mscclpp_oob_message_t *message)
{
    int index = 0;

    while (index < pairs->count && (pairs->peers[index] != message->peer || pairs->has_arrived[index])) {
        ++index;
    }
    if (index == pairs->count || message->header.length > pairs->pitch) {
        mscclpp_error("%s: rank %d sent %llu bytes of set-up data that nobody expects; do all ranks load the same "
                      "version?",
                      pairs->gather.oob->label, message->peer, (unsigned long long)message->header.length);
        return MSCCLPP_ERR_PEER;
    }
    memcpy(pairs->received + (size_t)index * pairs->pitch, message->data, message->header.length);
    pairs->has_arrived[index] = true;
    --pairs->missing_count;
    return MSCCLPP_OK;
}

/*
 * Receives the messages that have arrived (mca_coll_mscclpp_gather_step_fn_t). Returns MSCCLPP_OK when the messages of
 * all peers have arrived and this rank's own messages have been sent.
 */
static mscclpp_status_t pairs_step(void *state)
{
    pairs_t *pairs = state;
    mca_coll_mscclpp_oob_t *oob = pairs->gather.oob;
    mscclpp_status_t status = mca_coll_mscclpp_oob_advance(oob, pairs->missing_count);
    mca_coll_mscclpp_oob_message_t *message;

    while (MSCCLPP_OK == status &&
           (message = mca_coll_mscclpp_oob_take(oob, MCA_COLL_MSCCLPP_OOB_PAIR, pairs->gather.number)) != NULL) {
        status = accept_message(pairs, message);
        free(message);
    }
    if (MSCCLPP_OK != status) {
        return status;
    }
    return 0 == pairs->missing_count && oob->sends.first == NULL ? MSCCLPP_OK : MSCCLPP_IN_PROGRESS;
}

/* Writes the first PAIRS_SHOWN peers whose messages have not arrived into `text`. */
static void list_missing(const pairs_t *pairs, char *text, size_t size)
{
    size_t used = 0;
    int shown = 0;

    (void)snprintf(text, size, "none, but messages to some are still on their way");
    for (int i = 0; i < pairs->count && shown < PAIRS_SHOWN && used < size; ++i) {
        if (!pairs->has_arrived[i]) {
            int length = snprintf(text + used, size - used, "%s%d", 0 == used ? "" : ", ", pairs->peers[i]);
            used += length > 0 ? (size_t)length : 0;
            ++shown;
        }
    }
}

/*
 * Ends the wait at the deadline: logs the missing peers, and returns MSCCLPP_ERR_TIMEOUT
 * (mca_coll_mscclpp_gather_watch_fn_t). Does not warn before that. Without a deadline, never ends the wait.
 */
static mscclpp_status_t pairs_watch(void *state)
{
    const double timeout = mca_coll_mscclpp_state.config.timeout;
    pairs_t *pairs = state;
    char ranks[128];

    if (timeout <= 0 || mscclpp_now() - pairs->gather.started < timeout) {
        return MSCCLPP_OK;
    }
    list_missing(pairs, ranks, sizeof(ranks));
    mca_coll_mscclpp_gather_report(&pairs->gather, true, ranks);
    return MSCCLPP_ERR_TIMEOUT;
}

/* Keeps the communicator alive after an error, because messages may still come. */
mscclpp_status_t mca_coll_mscclpp_oob_pairs(mca_coll_mscclpp_oob_port_t *port, const int *peers, int count,
                                            const void *sent, const size_t *lengths, void *received, size_t pitch)
{
    mca_coll_mscclpp_oob_t *oob = port->oob;
    /* `has_arrived` has one entry more than there are peers, so that NULL always means a lack of memory. */
    pairs_t pairs = {.gather = {.oob = oob, .started = mscclpp_now()},
                     .peers = peers,
                     .count = count,
                     .missing_count = count,
                     .has_arrived = calloc((size_t)count + 1, sizeof(*pairs.has_arrived)),
                     .received = received,
                     .pitch = pitch};
    mscclpp_status_t status = pairs.has_arrived != NULL || lengths == NULL ? MSCCLPP_OK : MSCCLPP_ERR_NO_MEMORY;
    int posted_count = 0;

    mscclpp_fiber_close();
    mca_coll_mscclpp_oob_lock(oob);
    pairs.gather.number = mca_coll_mscclpp_oob_number(port->number, ++port->exchanges);
    while (posted_count < count && lengths != NULL && MSCCLPP_OK == status) {
        status = mca_coll_mscclpp_oob_post(oob, peers[posted_count], MCA_COLL_MSCCLPP_OOB_PAIR, pairs.gather.number,
                                           oob->module->current_call, (const char *)sent + (size_t)posted_count * pitch,
                                           lengths[posted_count]);
        posted_count += MSCCLPP_OK == status;
    }
    pthread_mutex_unlock(&oob->lock);
    if (MSCCLPP_OK != status || lengths == NULL) {
        /*
         * The peers would wait for messages that do not come. An empty message, which needs no memory, ends their wait.
         */
        mca_coll_mscclpp_oob_send_empty(oob->module, peers + posted_count, count - posted_count,
                                        MCA_COLL_MSCCLPP_OOB_PAIR, pairs.gather.number);
    } else {
        status = mca_coll_mscclpp_gather_run(&pairs.gather, &pairs, pairs_step, pairs_watch);
    }
    if (MSCCLPP_OK != status) {
        mca_coll_mscclpp_oob_break_off(oob->module);
    }
    free(pairs.has_arrived);
    return status;
}
