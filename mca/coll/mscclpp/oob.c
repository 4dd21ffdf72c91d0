/*
 * Set-up exchange and control messages over the communicator's own point-to-point, under one tag that no other
 * collective component uses at the same time. Not the previous component's collectives: a rank that is in one of these
 * for another reason (it passed host memory) would answer, and the two would be mixed up. Every message begins with a
 * header that says what it is; what arrives early is kept until it is asked for.
 */
#include "mca/coll/mscclpp/coll_mscclpp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mca/common/log.h"

#define OOB_TAG MCA_COLL_BASE_TAG_UCC
#define OOB_MAGIC 0x6d736370u
#define OOB_RANKS_SHOWN 8

typedef enum {
    OOB_GATHER = 1,  /* one rank's part of an all-gather; `number` counts these */
    OOB_CONTROL = 2, /* a message of the host library's */
    OOB_REFUSE = 3   /* the sender passed host memory in all-reduce call `call` */
} oob_kind_t;

typedef struct {
    uint32_t magic;
    uint32_t kind;
    uint64_t number;
    uint64_t call;
    uint64_t length; /* bytes that follow */
} oob_header_t;

/* On its way out, on its way in, or waiting to be asked for. */
typedef struct oob_message {
    struct oob_message *next;
    ompi_request_t *request; /* NULL once it is complete */
    int peer;
    size_t size;  /* header and what follows it */
    bool refused; /* of OOB_GATHER: has been answered by OOB_REFUSE */
    oob_header_t header;
    unsigned char data[];
} oob_message_t;

typedef struct {
    oob_message_t *first;
    oob_message_t **end;
} oob_queue_t;

struct mca_coll_mscclpp_oob {
    mca_coll_mscclpp_module_t *module;
    struct ompi_communicator_t *comm;
    pthread_mutex_t lock; /* guards what follows; held over point-to-point calls, none of which waits */
    oob_queue_t sends;
    oob_queue_t receives;
    oob_queue_t inbox;
    uint64_t gathers; /* all-gathers begun on this rank */
    bool revoked;     /* has been reported */
    char label[MPI_MAX_OBJECT_NAME];
};

static double now(void)
{
    struct timespec time;

    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void queue_init(oob_queue_t *queue)
{
    queue->first = NULL;
    queue->end = &queue->first;
}

static void queue_append(oob_queue_t *queue, oob_message_t *message)
{
    message->next = NULL;
    *queue->end = message;
    queue->end = &message->next;
}

/* `link` is what points to the message. Returns the message. */
static oob_message_t *queue_unlink(oob_queue_t *queue, oob_message_t **link)
{
    oob_message_t *message = *link;

    *link = message->next;
    if (queue->end == &message->next) {
        queue->end = link;
    }
    return message;
}

static oob_message_t *message_create(int peer, size_t size)
{
    oob_message_t *message = malloc(sizeof(*message) - sizeof(message->header) + size);

    if (NULL == message) {
        mscclpp_error("no memory for a message of %zu bytes", size);
        return NULL;
    }
    message->next = NULL;
    message->request = NULL;
    message->peer = peer;
    message->size = size;
    message->refused = false;
    return message;
}

/*
 * Point-to-point has no way to take a message back. What a dead peer never accepts keeps its memory, which the
 * transport may still read.
 */
static void queue_free(oob_queue_t *queue)
{
    while (NULL != queue->first) {
        oob_message_t *message = queue_unlink(queue, &queue->first);
        if (NULL == message->request) {
            free(message);
        } else {
            bool complete = REQUEST_COMPLETE(message->request);
            (void)ompi_request_free(&message->request);
            if (complete) {
                free(message);
            }
        }
    }
}

/* Called with the lock held. */
static mscclpp_status_t post(mca_coll_mscclpp_oob_t *oob, int peer, oob_kind_t kind, uint64_t number, uint64_t call,
                             const void *data, size_t length)
{
    oob_message_t *message = message_create(peer, sizeof(oob_header_t) + length);
    int rc;

    if (NULL == message) {
        return MSCCLPP_ERR_NO_MEMORY;
    }
    message->header = (oob_header_t){OOB_MAGIC, kind, number, call, length};
    if (length > 0) {
        memcpy(message->data, data, length);
    }
    rc = MCA_PML_CALL(isend(&message->header, message->size, &ompi_mpi_byte.dt, peer, OOB_TAG,
                            MCA_PML_BASE_SEND_STANDARD, oob->comm, &message->request));
    if (OMPI_SUCCESS != rc) {
        mscclpp_error("%s: cannot send %zu bytes to rank %d (Open MPI error %d)", oob->label, message->size, peer, rc);
        free(message);
        return MSCCLPP_ERR_PEER;
    }
    queue_append(&oob->sends, message);
    return MSCCLPP_OK;
}

/* True for a complete request, which is freed then; *rc_p is how it ended. */
static bool finish(oob_message_t *message, int *rc_p)
{
    if (!REQUEST_COMPLETE(message->request)) {
        return false;
    }
    *rc_p = message->request->req_status.MPI_ERROR;
    (void)ompi_request_free(&message->request);
    message->request = NULL;
    return true;
}

static mscclpp_status_t advance_sends(mca_coll_mscclpp_oob_t *oob)
{
    mscclpp_status_t status = MSCCLPP_OK;
    oob_message_t **link = &oob->sends.first;

    while (NULL != *link) {
        int rc = MPI_SUCCESS;
        if (!finish(*link, &rc)) {
            link = &(*link)->next;
            continue;
        }
        if (MPI_SUCCESS != rc) {
            mscclpp_error("%s: a message to rank %d failed (%d)", oob->label, (*link)->peer, rc);
            status = MSCCLPP_ERR_PEER;
        }
        free(queue_unlink(&oob->sends, link));
    }
    return status;
}

/* Begins to receive every message that has arrived. */
static mscclpp_status_t begin_receives(mca_coll_mscclpp_oob_t *oob)
{
    for (;;) {
        ompi_message_t *arrived = NULL;
        ompi_status_public_t status;
        oob_message_t *message;
        int matched = 0;
        int rc = MCA_PML_CALL(improbe(MPI_ANY_SOURCE, OOB_TAG, oob->comm, &matched, &arrived, &status));

        if (OMPI_SUCCESS != rc) {
            mscclpp_error("%s: cannot look for messages (Open MPI error %d)", oob->label, rc);
            return MSCCLPP_ERR_PEER;
        }
        if (!matched) {
            return MSCCLPP_OK;
        }
        message = message_create(status.MPI_SOURCE, status._ucount);
        if (NULL == message) {
            return MSCCLPP_ERR_NO_MEMORY;
        }
        rc = MCA_PML_CALL(imrecv(&message->header, message->size, &ompi_mpi_byte.dt, &arrived, &message->request));
        if (OMPI_SUCCESS != rc) {
            mscclpp_error("%s: cannot receive from rank %d (Open MPI error %d)", oob->label, message->peer, rc);
            free(message);
            return MSCCLPP_ERR_PEER;
        }
        queue_append(&oob->receives, message);
    }
}

static bool is_sound(const oob_message_t *message)
{
    return message->size >= sizeof(oob_header_t) && OOB_MAGIC == message->header.magic &&
           message->header.length == message->size - sizeof(oob_header_t);
}

/* Moves what has been received into the inbox, in the order in which each peer sent it. */
static mscclpp_status_t end_receives(mca_coll_mscclpp_oob_t *oob)
{
    mscclpp_status_t status = MSCCLPP_OK;
    oob_message_t **link = &oob->receives.first;

    while (NULL != *link) {
        oob_message_t *earlier = oob->receives.first;
        int rc = MPI_SUCCESS;

        while (earlier != *link && earlier->peer != (*link)->peer) {
            earlier = earlier->next;
        }
        if (earlier != *link || !finish(*link, &rc)) {
            link = &(*link)->next;
            continue;
        }
        oob_message_t *message = queue_unlink(&oob->receives, link);
        if (MPI_SUCCESS != rc || !is_sound(message)) {
            mscclpp_error("%s: a message of rank %d (%zu bytes) %s (%d)", oob->label, message->peer, message->size,
                          MPI_SUCCESS != rc ? "failed" : "is not one of this component's version", rc);
            free(message);
            status = MSCCLPP_ERR_PEER;
        } else {
            queue_append(&oob->inbox, message);
        }
    }
    return status;
}

/* Called with the lock held. Never waits. */
static mscclpp_status_t advance(mca_coll_mscclpp_oob_t *oob)
{
    mscclpp_status_t status = advance_sends(oob);

    if (MSCCLPP_OK == status) {
        status = begin_receives(oob);
    }
    return MSCCLPP_OK == status ? end_receives(oob) : status;
}

/* The first message of the kind in the inbox whose number (OOB_GATHER) or call (OOB_REFUSE) is the given one. */
static oob_message_t *take(mca_coll_mscclpp_oob_t *oob, oob_kind_t kind, uint64_t which)
{
    for (oob_message_t **link = &oob->inbox.first; NULL != *link; link = &(*link)->next) {
        const oob_header_t *header = &(*link)->header;
        if (kind == header->kind &&
            (OOB_CONTROL == kind || which == (OOB_GATHER == kind ? header->number : header->call))) {
            return queue_unlink(&oob->inbox, link);
        }
    }
    return NULL;
}

/* An all-gather in hand. */
typedef struct {
    mca_coll_mscclpp_oob_t *oob;
    char *recvbuf;
    size_t length;
    uint64_t number;
    int size;
    int missing;
    double started;
    bool warned;
    bool arrived[MSCCLPP_DEV_MAX_RANKS];
} oob_gather_t;

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

/* Names the ranks that have not come, as a warning first and then as the error that ends the wait. */
static mscclpp_status_t look_at_clock(oob_gather_t *gather)
{
    const mscclpp_config_t *config = &mca_coll_mscclpp_component.config;
    double waited = now() - gather->started;
    bool late = config->timeout > 0 && waited > config->timeout;
    bool warn = config->warn_after > 0 && waited > config->warn_after && !gather->warned;
    char ranks[128];

    if (!late && !warn) {
        return MSCCLPP_OK;
    }
    gather->warned = true;
    if (0 == gather->missing) {
        (void)snprintf(ranks, sizeof(ranks), "none, but messages to some are still on their way");
    } else {
        list_missing(gather, ranks, sizeof(ranks));
    }
    mscclpp_log(
        late ? MSCCLPP_LOG_ERROR : MSCCLPP_LOG_WARN,
        "%s: all-reduce call %llu, set-up of device communication: waited %.1f s, ranks that have not come: %s%s",
        gather->oob->label, (unsigned long long)gather->oob->module->calls, waited, ranks,
        late ? " (parameter timeout)" : "");
    return late ? MSCCLPP_ERR_TIMEOUT : MSCCLPP_OK;
}

static mscclpp_status_t accept_part(oob_gather_t *gather, const oob_message_t *message)
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

/* Called with the lock held. MSCCLPP_IN_PROGRESS until everything has come and gone. */
static mscclpp_status_t gather_step(oob_gather_t *gather)
{
    mca_coll_mscclpp_oob_t *oob = gather->oob;
    mscclpp_status_t status = advance(oob);
    oob_message_t *message;

    while (MSCCLPP_OK == status && NULL != (message = take(oob, OOB_GATHER, gather->number))) {
        status = accept_part(gather, message);
        free(message);
    }
    if (MSCCLPP_OK != status) {
        return status;
    }
    message = take(oob, OOB_REFUSE, oob->module->calls);
    if (NULL != message) {
        mca_coll_mscclpp_report_mixed(oob->module, oob->module->calls, message->peer, ompi_comm_rank(oob->comm));
        free(message);
        return MSCCLPP_ERR_MIXED;
    }
    return 0 == gather->missing && NULL == oob->sends.first ? MSCCLPP_OK : MSCCLPP_IN_PROGRESS;
}

static mscclpp_status_t oob_check(void *context)
{
    mca_coll_mscclpp_oob_t *oob = context;

    if (!mca_coll_mscclpp_comm_revoked(oob->comm)) {
        return MSCCLPP_OK;
    }
    if (!oob->revoked) {
        oob->revoked = true;
        mscclpp_error("%s: all-reduce call %llu: the communicator was revoked or one of its processes failed",
                      oob->label, (unsigned long long)oob->module->calls);
    }
    return MSCCLPP_ERR_REVOKED;
}

static mscclpp_status_t oob_allgather(void *context, const void *sendbuf, void *recvbuf, size_t length)
{
    mca_coll_mscclpp_oob_t *oob = context;
    int rank = ompi_comm_rank(oob->comm);
    oob_gather_t gather = {.oob = oob, .recvbuf = recvbuf, .length = length, .size = ompi_comm_size(oob->comm)};
    mscclpp_status_t status = MSCCLPP_OK;

    gather.started = now();
    gather.missing = gather.size - 1;
    gather.arrived[rank] = true;
    if (length > 0) {
        memmove((char *)recvbuf + (size_t)rank * length, sendbuf, length);
    }

    pthread_mutex_lock(&oob->lock);
    gather.number = ++oob->gathers;
    /* Each rank begins with the peer behind it, so that not all of them send to the same one at a time. */
    for (int i = 1; i < gather.size && MSCCLPP_OK == status; ++i) {
        status = post(oob, (rank + i) % gather.size, OOB_GATHER, gather.number, oob->module->calls, sendbuf, length);
    }
    pthread_mutex_unlock(&oob->lock);

    while (MSCCLPP_OK == status) {
        pthread_mutex_lock(&oob->lock);
        status = gather_step(&gather);
        pthread_mutex_unlock(&oob->lock);
        if (MSCCLPP_IN_PROGRESS != status) {
            break;
        }
        opal_progress();
        status = oob_check(oob);
        if (MSCCLPP_OK == status) {
            status = look_at_clock(&gather);
        }
    }
    return status;
}

static void oob_progress(void *context)
{
    (void)context;
    opal_progress();
}

static mscclpp_status_t oob_post_message(void *context, int peer, const void *message, size_t length)
{
    mca_coll_mscclpp_oob_t *oob = context;
    mscclpp_status_t status;

    if (length > MSCCLPP_OOB_MESSAGE_MAX) {
        mscclpp_error("%s: a control message of %zu bytes; %d is the most", oob->label, length,
                      MSCCLPP_OOB_MESSAGE_MAX);
        return MSCCLPP_ERR_INVALID;
    }
    pthread_mutex_lock(&oob->lock);
    status = post(oob, peer, OOB_CONTROL, 0, oob->module->calls, message, length);
    pthread_mutex_unlock(&oob->lock);
    return status;
}

static mscclpp_status_t oob_poll_message(void *context, int *peer_p, void *message, size_t *length_p)
{
    mca_coll_mscclpp_oob_t *oob = context;
    oob_message_t *taken = NULL;
    mscclpp_status_t status;

    pthread_mutex_lock(&oob->lock);
    status = advance(oob);
    if (MSCCLPP_OK == status) {
        taken = take(oob, OOB_CONTROL, 0);
    }
    pthread_mutex_unlock(&oob->lock);
    if (MSCCLPP_OK != status) {
        return status;
    }
    if (NULL == taken) {
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

/* The module's, made if there is none yet; the watch of another thread may come here at the same time. */
static mca_coll_mscclpp_oob_t *get(mca_coll_mscclpp_module_t *module)
{
    mca_coll_mscclpp_oob_t *oob;

    pthread_mutex_lock(&mca_coll_mscclpp_component.lock);
    oob = module->oob;
    if (NULL == oob) {
        oob = calloc(1, sizeof(*oob));
        if (NULL != oob) {
            oob->module = module;
            oob->comm = module->comm;
            queue_init(&oob->sends);
            queue_init(&oob->receives);
            queue_init(&oob->inbox);
            (void)pthread_mutex_init(&oob->lock, NULL);
            (void)snprintf(oob->label, sizeof(oob->label), "%s", mca_coll_mscclpp_comm_name(module->comm));
            module->oob = oob;
        }
    }
    pthread_mutex_unlock(&mca_coll_mscclpp_component.lock);
    if (NULL == oob) {
        mscclpp_error("%s: no memory for the set-up of device communication", mca_coll_mscclpp_comm_name(module->comm));
    }
    return oob;
}

int mca_coll_mscclpp_oob_create(mca_coll_mscclpp_module_t *module, mscclpp_oob_t *oob_p)
{
    mca_coll_mscclpp_oob_t *oob = get(module);

    if (NULL == oob) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    *oob_p = (mscclpp_oob_t){
        .context = oob,
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

    pthread_mutex_lock(&mca_coll_mscclpp_component.lock);
    oob = module->oob;
    module->oob = NULL;
    pthread_mutex_unlock(&mca_coll_mscclpp_component.lock);
    if (NULL == oob) {
        return;
    }
    queue_free(&oob->sends);
    queue_free(&oob->receives);
    queue_free(&oob->inbox);
    (void)pthread_mutex_destroy(&oob->lock);
    free(oob);
}

int mca_coll_mscclpp_oob_refuse(mca_coll_mscclpp_module_t *module, uint64_t call)
{
    mca_coll_mscclpp_oob_t *oob;
    int device_rank = -1;
    int arrived = 0;

    /* A program that never passes device memory allocates nothing here: without a message there is nothing to keep. */
    if (NULL == module->oob) {
        ompi_status_public_t status;
        int rc = MCA_PML_CALL(iprobe(MPI_ANY_SOURCE, OOB_TAG, module->comm, &arrived, &status));
        if (OMPI_SUCCESS != rc || !arrived) {
            return -1;
        }
    }
    oob = get(module);
    if (NULL == oob || 0 != pthread_mutex_trylock(&oob->lock)) {
        return -1;
    }
    if (MSCCLPP_OK == advance(oob)) {
        for (oob_message_t *message = oob->inbox.first; NULL != message; message = message->next) {
            if (OOB_GATHER != message->header.kind || call != message->header.call) {
                continue;
            }
            if (!message->refused) {
                message->refused = MSCCLPP_OK == post(oob, message->peer, OOB_REFUSE, 0, call, NULL, 0);
            }
            device_rank = device_rank < 0 ? message->peer : device_rank;
        }
    }
    pthread_mutex_unlock(&oob->lock);
    return device_rank;
}
