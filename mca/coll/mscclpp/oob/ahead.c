/*
 * The exchange ahead of an all-gather: some ranks send to one another, and a rank's part of the all-gather is ready
 * only once it has the messages of its peers. So the ranks wait for all others once, and not once for the exchange and
 * once more for the all-gather. While a rank waits for its peers it takes part in the all-gather in all else: late
 * ranks are named there, and failures end both.
 *
 * A rank may wait for a peer that makes no such exchange, or another one. That peer finds out, because the rank that
 * waits has sent it a message before. It tells all ranks of the all-gather to hurry: then no rank waits for messages
 * any more, and all send their parts.
 */
#include "mca/coll/mscclpp/oob/gather.h"

#include <stdlib.h>
#include <string.h>

/* Returns the index of a peer of the exchange, or -1. */
static int find_peer(const mca_coll_mscclpp_gather_t *gather, int rank)
{
    int index = 0;

    while (index < gather->ahead->count && gather->ahead->peers[index] != rank) {
        ++index;
    }
    return index < gather->ahead->count ? index : -1;
}

/* Ends the wait for messages of the exchange. */
static void give_up(mca_coll_mscclpp_gather_t *gather, mscclpp_status_t status)
{
    gather->ahead_missing = 0;
    gather->ahead_status = status;
}

/*
 * Sends this rank's messages. If there is no memory for all of them, the peers left get empty ones, which need none, so
 * that they do not wait, and this rank waits for nobody.
 */
void mca_coll_mscclpp_ahead_begin(mca_coll_mscclpp_gather_t *gather)
{
    const mscclpp_oob_ahead_t *ahead = gather->ahead;
    mca_coll_mscclpp_oob_t *oob = gather->oob;
    mscclpp_status_t status;
    int posted_count = 0;

    /* One entry more than there are peers, so that NULL always means a lack of memory. */
    if (ahead->lengths != NULL) {
        gather->ahead_arrived = calloc((size_t)ahead->count + 1, sizeof(*gather->ahead_arrived));
    }
    gather->ahead_missing = ahead->count;
    status = gather->ahead_arrived != NULL ? MSCCLPP_OK : MSCCLPP_ERR_NO_MEMORY;
    mca_coll_mscclpp_oob_lock(oob);
    while (posted_count < ahead->count && MSCCLPP_OK == status) {
        status = mca_coll_mscclpp_oob_post(
            oob, ahead->peers[posted_count], MCA_COLL_MSCCLPP_OOB_AHEAD, gather->number, oob->module->current_call,
            (const char *)ahead->sent + (size_t)posted_count * ahead->pitch, ahead->lengths[posted_count]);
        posted_count += MSCCLPP_OK == status;
    }
    pthread_mutex_unlock(&oob->lock);
    if (MSCCLPP_OK != status) {
        mca_coll_mscclpp_oob_send_empty(oob->module, ahead->peers + posted_count, ahead->count - posted_count,
                                        MCA_COLL_MSCCLPP_OOB_AHEAD, gather->number);
        give_up(gather, status);
    }
}

void mca_coll_mscclpp_ahead_end(mca_coll_mscclpp_gather_t *gather)
{
    free(gather->ahead_arrived);
    gather->ahead_arrived = NULL;
}

/*
 * Takes one message. Returns false if it does not belong to the exchange that this rank makes: its sender then waits
 * for a message that this rank does not send. An empty message fits any exchange, because its sender waits for nobody.
 */
static bool accept_message(mca_coll_mscclpp_gather_t *gather, const mca_coll_mscclpp_oob_message_t *message)
{
    const mscclpp_oob_ahead_t *ahead = gather->ahead;
    const size_t length = message->header.length;
    int index = -1;

    if (ahead != NULL && gather->ahead_arrived != NULL) {
        index = find_peer(gather, message->peer);
    }
    if (index >= 0 && length >= sizeof(ahead->id) && length <= ahead->pitch &&
        0 == memcmp(message->data, &ahead->id, sizeof(ahead->id)) && !gather->is_ready) {
        memcpy((char *)ahead->received + (size_t)index * ahead->pitch, message->data, length);
    } else if (length > 0 && (ahead == NULL || length < sizeof(ahead->id) ||
                              0 != memcmp(message->data, &ahead->id, sizeof(ahead->id)))) {
        return false;
    }
    if (index >= 0 && !gather->ahead_arrived[index]) {
        gather->ahead_arrived[index] = true;
        gather->ahead_missing -= gather->ahead_missing > 0;
    }
    return true;
}

bool mca_coll_mscclpp_ahead_look(mca_coll_mscclpp_gather_t *gather, int *source_p)
{
    mca_coll_mscclpp_oob_message_t *message;
    bool must_hurry = false;

    *source_p = -1;
    while ((message = mca_coll_mscclpp_oob_take(gather->oob, MCA_COLL_MSCCLPP_OOB_AHEAD, gather->number)) != NULL) {
        must_hurry = !accept_message(gather, message) || must_hurry;
        free(message);
    }
    while ((message = mca_coll_mscclpp_oob_take(gather->oob, MCA_COLL_MSCCLPP_OOB_HURRY, gather->number)) != NULL) {
        *source_p = message->peer;
        must_hurry = true;
        free(message);
    }
    if (!must_hurry || gather->hurried) {
        return false;
    }
    gather->hurried = true;
    if (!gather->is_ready && gather->ahead_missing > 0) {
        give_up(gather, MSCCLPP_ERR_PEER);
    }
    return true;
}

/* The caller's part replaces what was in its place in `recvbuf` before. */
bool mca_coll_mscclpp_ahead_complete(mca_coll_mscclpp_gather_t *gather)
{
    char *place;

    if (gather->ahead == NULL || gather->is_ready || gather->ahead_missing > 0) {
        return false;
    }
    gather->ahead->complete(gather->ahead->context, gather->ahead_status);
    place = gather->recvbuf + (size_t)gather->self * gather->length;
    if (gather->length > 0) {
        memmove(place, gather->sendbuf, gather->length);
        gather->sendbuf = place;
    }
    gather->is_ready = true;
    return true;
}

bool mca_coll_mscclpp_ahead_has_come(const mca_coll_mscclpp_gather_t *gather, int rank)
{
    const int index = gather->ahead != NULL && gather->ahead_arrived != NULL ? find_peer(gather, rank) : -1;

    return index >= 0 && gather->ahead_arrived[index];
}
