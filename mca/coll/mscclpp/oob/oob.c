/*
 * The table of functions through which the host library talks to other ranks while it sets up a team. It does not use
 * the previous component's collectives: a rank that passed host buffers may be in one of those, and then the two calls
 * would be mistaken for one.
 */
#include "mca/common/base/clock.h"
#include "mca/coll/mscclpp/oob/message.h"
#include "mca/coll/mscclpp/oob/oob.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/base/call.h"
#include "mca/common/base/log.h"

#define OOB_RANKS_SHOWN 8

/* An all-gather in progress. */
typedef struct {
    mca_coll_mscclpp_oob_t *oob;
    char *recvbuf;
    size_t length;
    uint64_t number;
    int size;
    int missing;
    double started;
    bool warned;
    bool *arrived; /* by rank: its data have arrived */
} oob_gather_t;

/* Lists the first ranks whose data have not come. */
static void list_missing(const oob_gather_t *gather, char *text, size_t size)
{
    size_t used = 0;
    int shown = 0;

    text[0] = '\0';
    for (int i = 0; i < gather->size && used < size; ++i) {
        if (gather->arrived[i]) {
            continue;
        }
        if (OOB_RANKS_SHOWN == shown) {
            (void)snprintf(text + used, size - used, " and %d more", gather->missing - shown);
            return;
        }
        int length = snprintf(text + used, size - used, "%s%d", 0 == shown ? "" : ", ", i);
        used += length > 0 ? (size_t)length : 0;
        ++shown;
    }
}

/* Names the missing ranks: first in a warning, and later in the error that ends the wait. */
static mscclpp_status_t check_clock(oob_gather_t *gather)
{
    const mscclpp_config_t *config = &mca_coll_mscclpp_state.config;
    double waited = mscclpp_now() - gather->started;
    bool late = config->timeout > 0 && waited > config->timeout;
    bool warn = config->warn_after > 0 && waited > config->warn_after && !gather->warned;
    const int rank = ompi_comm_rank(gather->oob->comm);
    char call[96], ranks[128];

    if (!late && !warn) {
        return MSCCLPP_OK;
    }
    gather->warned = true;
    if (0 == gather->missing) {
        (void)snprintf(ranks, sizeof(ranks), "none, but messages to some are still on their way");
    } else {
        list_missing(gather, ranks, sizeof(ranks));
    }
    (void)snprintf(call, sizeof(call), "call %llu, set-up of device communication",
                   (unsigned long long)gather->oob->module->in_hand);
    if (late) {
        mscclpp_report_deadline(gather->oob->label, call, rank, config->timeout, ranks, config->check_calls);
    } else {
        mscclpp_report_late(gather->oob->label, call, rank, waited, ranks);
    }
    return late ? MSCCLPP_ERR_TIMEOUT : MSCCLPP_OK;
}

/* Puts one rank's data into its place. MSCCLPP_ERR_PEER for a wrong length or a second message. */
static mscclpp_status_t accept_part(oob_gather_t *gather, const mca_coll_mscclpp_oob_message_t *message)
{
    if (message->header.length != gather->length || gather->arrived[message->peer]) {
        mscclpp_error("%s: rank %d sent %llu bytes of set-up data instead of %zu; do all ranks load the same version?",
                      gather->oob->label, message->peer, (unsigned long long)message->header.length, gather->length);
        return MSCCLPP_ERR_PEER;
    }
    if (gather->length > 0) {
        memcpy(gather->recvbuf + (size_t)message->peer * gather->length, message->data, gather->length);
    }
    gather->arrived[message->peer] = true;
    --gather->missing;
    return MSCCLPP_OK;
}

void mca_coll_mscclpp_report_mixed(const mca_coll_mscclpp_module_t *module, uint64_t call, int host_rank,
                                   int device_rank)
{
    char text[48];

    (void)snprintf(text, sizeof(text), "call %llu", (unsigned long long)call);
    mscclpp_report_mixed(mca_coll_mscclpp_comm_name(module->comm), text, host_rank, device_rank);
}

/*
 * One step of an all-gather: sends, and receives what has arrived. MSCCLPP_IN_PROGRESS until everything has been
 * received and sent. Called with the lock held.
 */
static mscclpp_status_t gather_step(oob_gather_t *gather)
{
    mca_coll_mscclpp_oob_t *oob = gather->oob;
    mscclpp_status_t status = mca_coll_mscclpp_oob_advance(oob, gather->missing);
    mca_coll_mscclpp_oob_message_t *message;

    while (MSCCLPP_OK == status &&
           (message = mca_coll_mscclpp_oob_take(oob, MCA_COLL_MSCCLPP_OOB_GATHER, gather->number)) != NULL) {
        status = accept_part(gather, message);
        free(message);
    }
    if (MSCCLPP_OK != status) {
        return status;
    }
    message = mca_coll_mscclpp_oob_take(oob, MCA_COLL_MSCCLPP_OOB_REFUSE, oob->module->in_hand);
    if (message != NULL) {
        mca_coll_mscclpp_report_mixed(oob->module, oob->module->in_hand, message->peer, ompi_comm_rank(oob->comm));
        free(message);
        return MSCCLPP_ERR_MIXED;
    }
    message = mca_coll_mscclpp_oob_take(oob, MCA_COLL_MSCCLPP_OOB_ABSTAIN, gather->number);
    if (message != NULL) {
        mscclpp_info("%s: rank %d: memory for the set-up: %s: device buffers are staged", oob->label, message->peer,
                     mscclpp_status_string(MSCCLPP_ERR_NO_MEMORY));
        free(message);
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    return 0 == gather->missing && oob->sends.first == NULL ? MSCCLPP_OK : MSCCLPP_IN_PROGRESS;
}

/* MSCCLPP_ERR_REVOKED if the communicator was revoked or one of its processes failed. */
static mscclpp_status_t oob_check(void *context)
{
    mca_coll_mscclpp_oob_t *oob = ((const mca_coll_mscclpp_oob_port_t *)context)->oob;

    if (!mca_coll_mscclpp_comm_revoked(oob->comm)) {
        return MSCCLPP_OK;
    }
    if (!oob->revoked) {
        oob->revoked = true;
        mscclpp_error("%s: call %llu: the communicator was revoked or one of its processes failed", oob->label,
                      (unsigned long long)oob->module->in_hand);
    }
    return MSCCLPP_ERR_REVOKED;
}

/* The table's all-gather: sends this rank's part to all others, and waits for theirs. */
static mscclpp_status_t oob_allgather(void *context, const void *sendbuf, void *recvbuf, size_t length)
{
    mca_coll_mscclpp_oob_t *oob = ((const mca_coll_mscclpp_oob_port_t *)context)->oob;
    int rank = ompi_comm_rank(oob->comm);
    oob_gather_t gather = {.oob = oob, .recvbuf = recvbuf, .length = length, .size = ompi_comm_size(oob->comm)};
    mscclpp_status_t status = MSCCLPP_OK;

    gather.started = mscclpp_now();
    gather.missing = gather.size - 1;
    gather.arrived = recvbuf != NULL ? calloc((size_t)gather.size, sizeof(*gather.arrived)) : NULL;
    if (gather.arrived != NULL) {
        gather.arrived[rank] = true;
        if (length > 0) {
            memmove((char *)recvbuf + (size_t)rank * length, sendbuf, length);
        }
    }
    mca_coll_mscclpp_oob_lock(oob);
    gather.number = ++oob->gathers;
    status = gather.arrived != NULL ? mca_coll_mscclpp_oob_post_all(oob, MCA_COLL_MSCCLPP_OOB_GATHER, gather.number,
                                                                    oob->module->in_hand, sendbuf, length)
                                    : MSCCLPP_ERR_NO_MEMORY;
    pthread_mutex_unlock(&oob->lock);
    if (MSCCLPP_ERR_NO_MEMORY == status) {
        /*
         * No rank has received this rank's part, so no rank completes this all-gather. All ranks end it with this
         * error.
         */
        mca_coll_mscclpp_oob_abstain(oob->module, gather.number);
        free(gather.arrived);
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }

    while (MSCCLPP_OK == status) {
        mca_coll_mscclpp_oob_lock(oob);
        status = gather_step(&gather);
        pthread_mutex_unlock(&oob->lock);
        if (MSCCLPP_IN_PROGRESS != status) {
            break;
        }
        mca_coll_mscclpp_progress();
        status = oob_check(context);
        if (MSCCLPP_OK == status) {
            status = check_clock(&gather);
        }
    }
    free(gather.arrived);
    if (MSCCLPP_OK != status) {
        mca_coll_mscclpp_oob_break_off(oob->module);
    }
    return status;
}

static void oob_progress(void *context)
{
    (void)context;
    opal_progress();
}

/* The table's post_message: sends a control message through the team's port. */
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
    status = mca_coll_mscclpp_oob_post(oob, peer, MCA_COLL_MSCCLPP_OOB_CONTROL, port->number, oob->module->in_hand,
                                       message, length);
    pthread_mutex_unlock(&oob->lock);
    return status;
}

/* The table's poll_message: takes a control message that has arrived for the team's port. */
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

mca_coll_mscclpp_oob_t *mca_coll_mscclpp_oob_of(mca_coll_mscclpp_module_t *module)
{
    mca_coll_mscclpp_oob_t *oob;

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
    mca_coll_mscclpp_oob_t *oob = mca_coll_mscclpp_oob_of(module);

    if (oob == NULL) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    port = port != NULL ? port : &oob->port;
    port->oob = oob;
    *oob_p = (mscclpp_oob_t){
        .context = port,
        .rank = ompi_comm_rank(module->comm),
        .size = ompi_comm_size(module->comm),
        .label = oob->label,
        .allgather = oob_allgather,
        .progress = oob_progress,
        .check = oob_check,
        .post_message = oob_post_message,
        .poll_message = oob_poll_message,
    };
    return OMPI_SUCCESS;
}

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

int mca_coll_mscclpp_oob_refuse(mca_coll_mscclpp_module_t *module, uint64_t call)
{
    mca_coll_mscclpp_oob_t *oob;
    int device_rank = -1;

    pthread_mutex_lock(&mca_coll_mscclpp_state.lock);
    oob = module->oob;
    pthread_mutex_unlock(&mca_coll_mscclpp_state.lock);
    if (oob == NULL) {
        /* Asks first whether there is a message, so that a program without device buffers allocates nothing. */
        ompi_status_public_t status;
        int arrived = 0;
        int rc = MCA_PML_CALL(iprobe(MPI_ANY_SOURCE, MCA_COLL_MSCCLPP_TAG, module->comm, &arrived, &status));
        if (OMPI_SUCCESS != rc || !arrived) {
            return -1;
        }
        oob = mca_coll_mscclpp_oob_of(module);
    }
    if (oob == NULL || 0 != pthread_mutex_trylock(&oob->lock)) {
        return -1;
    }
    if (MSCCLPP_OK == mca_coll_mscclpp_oob_advance(oob, MCA_COLL_MSCCLPP_OOB_ANY)) {
        for (mca_coll_mscclpp_oob_message_t *message = oob->inbox.first; message != NULL; message = message->next) {
            if (MCA_COLL_MSCCLPP_OOB_GATHER != message->header.kind || call != message->header.call) {
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
