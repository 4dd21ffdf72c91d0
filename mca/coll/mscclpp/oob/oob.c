/*
 * The table of functions through which the host library talks to other ranks while it sets up a team. It does not use
 * the previous component's collectives. A rank that passed host buffers may be in one of those, and the two calls would
 * be mistaken for one.
 */
#include "mca/common/base/clock.h"
#include "mca/coll/mscclpp/oob/gather.h"
#include "mca/coll/mscclpp/oob/pairs.h"
#include "mca/coll/mscclpp/oob/waits.h"
#include "mca/coll/mscclpp/oob/oob.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/base/log.h"

/*
 * Returns MSCCLPP_ERR_REVOKED if the communicator was revoked or one of its processes failed (the table's check). Waits
 * call it, so it also answers ranks that wait elsewhere.
 */
static mscclpp_status_t oob_check(void *context)
{
    mca_coll_mscclpp_oob_t *oob = ((const mca_coll_mscclpp_oob_port_t *)context)->oob;

    mca_coll_mscclpp_waits_answer(oob);
    return mca_coll_mscclpp_oob_check(oob);
}

/*
 * Carries out an all-gather. All of its ranks return the same status, with the exception in gather.h. If one rank has
 * no memory, all return MSCCLPP_ERR_NOT_SUPPORTED. Other errors have been logged; they end the set-up, so the
 * communicator is kept alive for late messages.
 */
static mscclpp_status_t run_gather(mca_coll_mscclpp_gather_t *gather)
{
    mca_coll_mscclpp_oob_t *oob = gather->oob;
    mscclpp_status_t status = MSCCLPP_ERR_NO_MEMORY;

    mscclpp_fiber_close();
    gather->started = mscclpp_now();
    gather->is_ready = gather->ahead == NULL;
    if (gather->recvbuf != NULL) {
        if (gather->length > 0 && gather->is_ready) { /* memmove, because the caller's part may be within its recvbuf */
            memmove(gather->recvbuf + (size_t)gather->self * gather->length, gather->sendbuf, gather->length);
            gather->sendbuf = gather->recvbuf + (size_t)gather->self * gather->length;
        }
        mca_coll_mscclpp_oob_lock(oob);
        mca_coll_mscclpp_oob_drop_old_gathers(oob, gather->number);
        pthread_mutex_unlock(&oob->lock);
        if (gather->ahead != NULL) {
            mca_coll_mscclpp_ahead_begin(gather);
        }
        status = gather->count <= MCA_COLL_MSCCLPP_GATHER_DIRECT ? mca_coll_mscclpp_gather_direct(gather)
                                                                 : mca_coll_mscclpp_gather_tree(gather);
    }
    mca_coll_mscclpp_ahead_end(gather);
    if (MSCCLPP_ERR_NO_MEMORY == status) {
        /*
         * No rank has received this rank's part, so no rank can complete this all-gather, and all return this status.
         */
        mca_coll_mscclpp_oob_abstain_among(oob->module, gather->members, gather->count, gather->number);
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    if (MSCCLPP_OK != status) {
        mca_coll_mscclpp_oob_break_off(oob->module);
    }
    return status;
}

/*
 * Carries out an all-gather among all ranks of the communicator, with the exchange `ahead` before it unless that is
 * NULL. All ranks begin these all-gathers of a port in the same order, so the numbers are the same on all ranks.
 */
static mscclpp_status_t gather_all(mca_coll_mscclpp_oob_port_t *port, const mscclpp_oob_ahead_t *ahead,
                                   const void *sendbuf, void *recvbuf, size_t length)
{
    mca_coll_mscclpp_oob_t *oob = port->oob;
    mca_coll_mscclpp_gather_t gather = {.oob = oob,
                                        .ahead = ahead,
                                        .count = ompi_comm_size(oob->comm),
                                        .self = ompi_comm_rank(oob->comm),
                                        .sendbuf = sendbuf,
                                        .recvbuf = recvbuf,
                                        .length = length};

    mca_coll_mscclpp_oob_lock(oob);
    gather.number = mca_coll_mscclpp_oob_number(port->number, ++port->gathers);
    pthread_mutex_unlock(&oob->lock);
    return run_gather(&gather);
}

/* The table's all-gather among all ranks of the communicator. */
static mscclpp_status_t oob_allgather(void *context, const void *sendbuf, void *recvbuf, size_t length)
{
    return gather_all(context, NULL, sendbuf, recvbuf, length);
}

/* The table's all-gather with an exchange ahead of it. */
static mscclpp_status_t oob_exchange_and_gather(void *context, const mscclpp_oob_ahead_t *ahead, const void *sendbuf,
                                                void *recvbuf, size_t length)
{
    return gather_all(context, ahead, sendbuf, recvbuf, length);
}

/* Carries out an all-gather among the ranks of a node. */
static mscclpp_status_t oob_allgather_among(void *context, const int *members, int count, const void *sendbuf,
                                            void *recvbuf, size_t length)
{
    mca_coll_mscclpp_oob_port_t *port = context;
    mca_coll_mscclpp_oob_t *oob = port->oob;
    mca_coll_mscclpp_gather_t gather = {
        .oob = oob, .members = members, .count = count, .sendbuf = sendbuf, .recvbuf = recvbuf, .length = length};

    gather.self = mca_coll_mscclpp_gather_find(&gather, ompi_comm_rank(oob->comm));
    mca_coll_mscclpp_oob_lock(oob);
    gather.number = MCA_COLL_MSCCLPP_OOB_AMONG | mca_coll_mscclpp_oob_number(port->number, ++port->gathers_among);
    pthread_mutex_unlock(&oob->lock);
    return run_gather(&gather);
}

/* Carries out an exchange with some ranks. */
static mscclpp_status_t oob_exchange(void *context, const int *peers, int count, const void *sent,
                                     const size_t *lengths, void *received, size_t pitch)
{
    return mca_coll_mscclpp_oob_pairs(context, peers, count, sent, lengths, received, pitch);
}

static void oob_progress(void *context)
{
    (void)context;
    opal_progress();
}

/* Sends a control message through the team's port. */
static mscclpp_status_t oob_post_message(void *context, int peer, const void *message, size_t length)
{
    const mca_coll_mscclpp_oob_port_t *port = context;
    mca_coll_mscclpp_oob_t *oob = port->oob;
    mscclpp_status_t status;

    if (length > MSCCLPP_OOB_MESSAGE_MAX) {
        mscclpp_error("%s: a control message of %zu bytes; %d is the most", oob->label, length,
                      MSCCLPP_OOB_MESSAGE_MAX);
        return MSCCLPP_ERR_INVALID;
    }
    mca_coll_mscclpp_oob_lock(oob);
    status = mca_coll_mscclpp_oob_post(oob, peer, MCA_COLL_MSCCLPP_OOB_CONTROL, port->number, oob->module->current_call,
                                       message, length);
    pthread_mutex_unlock(&oob->lock);
    return status;
}

/*
 * Takes a control message that has come for the team's port. Returns MSCCLPP_IN_PROGRESS if there is none. `message`
 * has room for MSCCLPP_OOB_MESSAGE_MAX bytes; a longer message is an error of the peer.
 */
static mscclpp_status_t oob_poll_message(void *context, int *peer_p, void *message, size_t *length_p)
{
    const mca_coll_mscclpp_oob_port_t *port = context;
    mca_coll_mscclpp_oob_t *oob = port->oob;
    mca_coll_mscclpp_oob_message_t *taken = NULL;
    mscclpp_status_t status;

    mca_coll_mscclpp_oob_lock(oob);
    status = mca_coll_mscclpp_oob_advance(oob, MCA_COLL_MSCCLPP_OOB_ANY);
    if (MSCCLPP_OK == status) {
        taken = mca_coll_mscclpp_oob_take(oob, MCA_COLL_MSCCLPP_OOB_CONTROL, port->number);
    }
    pthread_mutex_unlock(&oob->lock);
    if (MSCCLPP_OK != status) {
        return status;
    }
    if (taken == NULL) {
        return MSCCLPP_IN_PROGRESS;
    }
    if (taken->header.length > MSCCLPP_OOB_MESSAGE_MAX) {
        mscclpp_error("%s: rank %d sent a control message of %llu bytes; %d is the most", oob->label, taken->peer,
                      (unsigned long long)taken->header.length, MSCCLPP_OOB_MESSAGE_MAX);
        free(taken);
        return MSCCLPP_ERR_PEER;
    }
    memcpy(message, taken->data, taken->header.length);
    *peer_p = taken->peer;
    *length_p = taken->header.length;
    free(taken);
    return MSCCLPP_OK;
}

mca_coll_mscclpp_oob_t *mca_coll_mscclpp_oob_ensure(mca_coll_mscclpp_module_t *module)
{
    mca_coll_mscclpp_oob_t *oob;

    /* Made under the lock, because native/mixture.c may make it in another thread at the same time. */
    pthread_mutex_lock(&mca_coll_mscclpp_state.lock);
    oob = module->oob;
    if (oob == NULL) {
        oob = calloc(1, sizeof(*oob));
        if (oob != NULL) {
            oob->module = module;
            oob->comm = module->comm;
            mca_coll_mscclpp_oob_queues_init(oob);
            (void)pthread_mutex_init(&oob->lock, NULL);
            (void)snprintf(oob->label, sizeof(oob->label), "%s", mca_coll_mscclpp_comm_name(module->comm));
            module->oob = oob;
        }
    }
    pthread_mutex_unlock(&mca_coll_mscclpp_state.lock);
    if (oob == NULL) {
        mscclpp_error("%s: no memory for the set-up of device communication", mca_coll_mscclpp_comm_name(module->comm));
    }
    return oob;
}

int mca_coll_mscclpp_oob_create(mca_coll_mscclpp_module_t *module, mca_coll_mscclpp_oob_port_t *port,
                                mscclpp_oob_t *oob_p)
{
    mca_coll_mscclpp_oob_t *oob = mca_coll_mscclpp_oob_ensure(module);

    if (oob == NULL) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    /*
     * The port is the context of the functions: through it they find the messages, and its number distinguishes this
     * team's messages from those of other teams.
     */
    port = port != NULL ? port : &oob->port;
    port->oob = oob;
    *oob_p = (mscclpp_oob_t){
        .context = port,
        .rank = ompi_comm_rank(module->comm),
        .size = ompi_comm_size(module->comm),
        .label = oob->label,
        .allgather = oob_allgather,
        .allgather_among = oob_allgather_among,
        .exchange = oob_exchange,
        .exchange_and_gather = oob_exchange_and_gather,
        .progress = oob_progress,
        .check = oob_check,
        .post_message = oob_post_message,
        .poll_message = oob_poll_message,
    };
    return OMPI_SUCCESS;
}

/* First makes the object unreachable, then waits for threads that have found it, and then frees it. */
void mca_coll_mscclpp_oob_destroy(mca_coll_mscclpp_module_t *module)
{
    mca_coll_mscclpp_oob_t *oob;

    pthread_mutex_lock(&mca_coll_mscclpp_state.lock);
    oob = module->oob;
    module->oob = NULL;
    pthread_mutex_unlock(&mca_coll_mscclpp_state.lock);
    if (oob == NULL) {
        return;
    }
    /* Another thread may have read the pointer before it was cleared. */
    while (0 != __atomic_load_n(&module->watchers, __ATOMIC_ACQUIRE)) {
        sched_yield();
    }
    mca_coll_mscclpp_oob_queues_free(oob);
    (void)pthread_mutex_destroy(&oob->lock);
    free(oob);
}

/* Ignores errors, because the caller asks again later. */
int mca_coll_mscclpp_oob_refuse(mca_coll_mscclpp_module_t *module, uint64_t call)
{
    mca_coll_mscclpp_oob_t *oob;
    int device_rank = -1;

    pthread_mutex_lock(&mca_coll_mscclpp_state.lock);
    oob = module->oob;
    pthread_mutex_unlock(&mca_coll_mscclpp_state.lock);
    if (oob == NULL) {
        /*
         * Only makes the object if a message has arrived, so that a program without device buffers allocates nothing.
         */
        ompi_status_public_t status;
        int arrived = 0;
        int rc = MCA_PML_CALL(iprobe(MPI_ANY_SOURCE, MCA_COLL_MSCCLPP_TAG, module->comm, &arrived, &status));
        if (OMPI_SUCCESS != rc || !arrived) {
            return -1;
        }
        oob = mca_coll_mscclpp_oob_ensure(module);
    }
    /* Never waits for the lock, which this thread may hold further down its stack. */
    if (oob == NULL || 0 != pthread_mutex_trylock(&oob->lock)) {
        return -1;
    }
    if (MSCCLPP_OK == mca_coll_mscclpp_oob_advance(oob, MCA_COLL_MSCCLPP_OOB_ANY)) {
        for (mca_coll_mscclpp_oob_message_t *message = oob->inbox.first; message != NULL; message = message->next) {
            /*
             * Only ranks that set up a team send these messages. Each message is answered once; if that fails, the next
             * call tries again.
             */
            const bool is_waiting = MCA_COLL_MSCCLPP_OOB_GATHER == message->header.kind ||
                                    MCA_COLL_MSCCLPP_OOB_AHEAD == message->header.kind ||
                                    MCA_COLL_MSCCLPP_OOB_ASK == message->header.kind;
            if (!is_waiting || call != message->header.call) {
                continue;
            }
            if (!message->refused) {
                message->refused = MSCCLPP_OK == mca_coll_mscclpp_oob_post(
                                                     oob, message->peer, MCA_COLL_MSCCLPP_OOB_REFUSE, 0, call, NULL, 0);
            }
            device_rank = device_rank < 0 ? message->peer : device_rank;
        }
    }
    pthread_mutex_unlock(&oob->lock);
    return device_rank;
}
