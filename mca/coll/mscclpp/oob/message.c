#include "mca/coll/mscclpp/oob/message.h"
#include "mca/coll/mscclpp/oob/oob.h"

#include <stdlib.h>
#include <string.h>

#include "mca/common/base/log.h"

/* mca_coll_mscclpp_oob_drain ends after so many turns without a message, or after so many turns in all. */
#define DRAIN_IDLE_TURNS 2
#define DRAIN_TURNS_MAX 1000

/* Makes a queue empty. */
static void queue_init(mca_coll_mscclpp_oob_queue_t *queue)
{
    queue->first = NULL;
    queue->end = &queue->first;
}

/* Puts a message at the end of a queue. */
static void queue_append(mca_coll_mscclpp_oob_queue_t *queue, mca_coll_mscclpp_oob_message_t *message)
{
    message->next = NULL;
    *queue->end = message;
    queue->end = &message->next;
}

/* Removes the message that `link` points to from a queue, and returns it. */
static mca_coll_mscclpp_oob_message_t *queue_unlink(mca_coll_mscclpp_oob_queue_t *queue,
                                                    mca_coll_mscclpp_oob_message_t **link)
{
    mca_coll_mscclpp_oob_message_t *message = *link;

    *link = message->next;
    if (queue->end == &message->next) {
        queue->end = link;
    }
    return message;
}

/*
 * Allocates a message of `size` bytes, including the header, to or from rank `peer`. Returns NULL, without a log, if
 * there is no memory.
 */
static mca_coll_mscclpp_oob_message_t *message_create(int peer, size_t size)
{
    mca_coll_mscclpp_oob_message_t *message = malloc(sizeof(*message) - sizeof(message->header) + size);

    if (message == NULL) {
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
 * Empties a queue and frees its messages. A message that is still being sent or received cannot be cancelled: its
 * memory is not freed, because the transport may still use it.
 */
static void queue_free(mca_coll_mscclpp_oob_queue_t *queue)
{
    while (queue->first != NULL) {
        mca_coll_mscclpp_oob_message_t *message = queue_unlink(queue, &queue->first);
        if (message->request == NULL) {
            free(message);
        } else {
            bool is_complete = REQUEST_COMPLETE(message->request);
            (void)ompi_request_free(&message->request);
            if (is_complete) {
                free(message);
            }
        }
    }
}

/* Makes a message to be sent, with copies of its header and data. Returns NULL without memory. */
static mca_coll_mscclpp_oob_message_t *create_sent(const mca_coll_mscclpp_oob_t *oob, int peer,
                                                   const mca_coll_mscclpp_oob_header_t *header, const void *data)
{
    mca_coll_mscclpp_oob_message_t *message = message_create(peer, sizeof(*header) + header->length);

    if (message == NULL) {
        mscclpp_error("%s: no memory for a message of %llu bytes", oob->label, (unsigned long long)header->length);
        return NULL;
    }
    message->header = *header;
    if (header->length > 0) {
        memcpy(message->data, data, header->length);
    }
    return message;
}

/*
 * Begins to send a message. The list of sends then owns the message. If Open MPI cannot begin, frees the message and
 * returns MSCCLPP_ERR_PEER.
 */
static mscclpp_status_t send_message(mca_coll_mscclpp_oob_t *oob, mca_coll_mscclpp_oob_message_t *message)
{
    int rc;

    rc = MCA_PML_CALL(isend(&message->header, message->size, &ompi_mpi_byte.dt, message->peer, MCA_COLL_MSCCLPP_TAG,
                            MCA_PML_BASE_SEND_STANDARD, oob->comm, &message->request));
    if (OMPI_SUCCESS != rc) {
        mscclpp_error("%s: cannot send %zu bytes to rank %d (Open MPI error %d)", oob->label, message->size,
                      message->peer, rc);
        free(message);
        return MSCCLPP_ERR_PEER;
    }
    queue_append(&oob->sends, message);
    return MSCCLPP_OK;
}

void mca_coll_mscclpp_oob_lock(mca_coll_mscclpp_oob_t *oob)
{
    while (0 != pthread_mutex_trylock(&oob->lock)) {
        mca_coll_mscclpp_progress();
    }
}

mscclpp_status_t mca_coll_mscclpp_oob_post(mca_coll_mscclpp_oob_t *oob, int peer, mca_coll_mscclpp_oob_kind_t kind,
                                           uint64_t number, uint64_t call, const void *data, size_t length)
{
    const mca_coll_mscclpp_oob_header_t header = {
        .magic = MCA_COLL_MSCCLPP_OOB_MAGIC, .kind = kind, .number = number, .call = call, .length = length};
    mca_coll_mscclpp_oob_message_t *message = create_sent(oob, peer, &header, data);

    return message == NULL ? MSCCLPP_ERR_NO_MEMORY : send_message(oob, message);
}

mscclpp_status_t mca_coll_mscclpp_oob_post_among(mca_coll_mscclpp_oob_t *oob, const int *members, int count,
                                                 mca_coll_mscclpp_oob_kind_t kind, uint64_t number, uint64_t call,
                                                 const void *data, size_t length)
{
    const mca_coll_mscclpp_oob_header_t header = {
        .magic = MCA_COLL_MSCCLPP_OOB_MAGIC, .kind = kind, .number = number, .call = call, .length = length};
    const int rank = ompi_comm_rank(oob->comm);
    mca_coll_mscclpp_oob_queue_t unsent;
    mscclpp_status_t status = MSCCLPP_OK;

    /* All messages are made before the first one is sent, so that after MSCCLPP_ERR_NO_MEMORY none has been sent. */
    queue_init(&unsent);
    /* Each rank begins with the peer after itself, so that the ranks do not all send to the same peer at once. */
    for (int i = 1; i <= count && MSCCLPP_OK == status; ++i) {
        const int index = (rank + i) % count, peer = members != NULL ? members[index] : index;
        mca_coll_mscclpp_oob_message_t *message;
        if (peer == rank) {
            continue;
        }
        message = create_sent(oob, peer, &header, data);
        if (message == NULL) {
            status = MSCCLPP_ERR_NO_MEMORY;
        } else {
            queue_append(&unsent, message);
        }
    }
    while (MSCCLPP_OK == status && unsent.first != NULL) {
        status = send_message(oob, queue_unlink(&unsent, &unsent.first));
    }
    queue_free(&unsent);
    return status;
}

void mca_coll_mscclpp_oob_break_off(mca_coll_mscclpp_module_t *module)
{
    if (!module->keeps_comm && !OMPI_COMM_IS_INTRINSIC(module->comm)) {
        module->keeps_comm = true;
        OBJ_RETAIN(module->comm);
    }
}

void mca_coll_mscclpp_oob_let_go(mca_coll_mscclpp_module_t *module)
{
    struct ompi_communicator_t *comm = module->comm;

    if (module->keeps_comm) {
        module->keeps_comm = false;
        OBJ_RELEASE(comm);
    }
}

/*
 * Allocates nothing, so it also works when there is no memory. A failure to send is ignored: the peer then waits until
 * its deadline.
 */
void mca_coll_mscclpp_oob_send_empty(mca_coll_mscclpp_module_t *module, const int *members, int count,
                                     mca_coll_mscclpp_oob_kind_t kind, uint64_t number)
{
    mca_coll_mscclpp_oob_header_t header = {
        .magic = MCA_COLL_MSCCLPP_OOB_MAGIC, .kind = kind, .number = number, .call = module->current_call};

    /* A blocking send of so short a message ends at once, even if the peer does not receive yet. */
    for (int i = 0; i < count; ++i) {
        const int peer = members != NULL ? members[i] : i;
        if (OMPI_COMM_IS_INTER(module->comm) || peer != ompi_comm_rank(module->comm)) {
            (void)MCA_PML_CALL(send(&header, sizeof(header), &ompi_mpi_byte.dt, peer, MCA_COLL_MSCCLPP_TAG,
                                    MCA_PML_BASE_SEND_STANDARD, module->comm));
        }
    }
}

void mca_coll_mscclpp_oob_abstain_among(mca_coll_mscclpp_module_t *module, const int *members, int count,
                                        uint64_t number)
{
    mca_coll_mscclpp_oob_send_empty(module, members, count, MCA_COLL_MSCCLPP_OOB_ABSTAIN, number);
    mca_coll_mscclpp_oob_break_off(module);
}

void mca_coll_mscclpp_oob_abstain(mca_coll_mscclpp_module_t *module, uint64_t port)
{
    mca_coll_mscclpp_oob_abstain_among(module, NULL, ompi_comm_size(module->comm),
                                       mca_coll_mscclpp_oob_number(port, 1));
}

/* Returns true if a message's request is complete. Then frees the request, and sets *rc_p to its MPI error code. */
static bool end_if_complete(mca_coll_mscclpp_oob_message_t *message, int *rc_p)
{
    if (!REQUEST_COMPLETE(message->request)) {
        return false;
    }
    *rc_p = message->request->req_status.MPI_ERROR;
    (void)ompi_request_free(&message->request);
    message->request = NULL;
    return true;
}

/*
 * Frees the messages whose sends have ended. Returns MSCCLPP_ERR_PEER if any of these sends failed; the others are
 * freed nevertheless.
 */
static mscclpp_status_t advance_sends(mca_coll_mscclpp_oob_t *oob)
{
    mscclpp_status_t status = MSCCLPP_OK;
    mca_coll_mscclpp_oob_message_t **link = &oob->sends.first;

    while (*link != NULL) {
        int rc = MPI_SUCCESS;
        if (!end_if_complete(*link, &rc)) {
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

/*
 * Begins to receive up to `limit` messages that have arrived. The limit saves time: a probe that finds no message takes
 * a turn of Open MPI's progress, which yields the processor if there are more ranks than processors. Returns
 * MSCCLPP_ERR_PEER if Open MPI cannot probe or receive. A lack of memory is logged once and is no error: the message
 * stays in Open MPI's queue.
 */
static mscclpp_status_t begin_receives(mca_coll_mscclpp_oob_t *oob, int limit)
{
    for (int begun = 0; begun < limit; ++begun) {
        ompi_status_public_t status;
        mca_coll_mscclpp_oob_message_t *message;
        int has_matched = 0;
        int rc = MCA_PML_CALL(iprobe(MPI_ANY_SOURCE, MCA_COLL_MSCCLPP_TAG, oob->comm, &has_matched, &status));

        if (OMPI_SUCCESS != rc) {
            mscclpp_error("%s: cannot look for messages (Open MPI error %d)", oob->label, rc);
            return MSCCLPP_ERR_PEER;
        }
        if (!has_matched) {
            return MSCCLPP_OK;
        }
        message = message_create(status.MPI_SOURCE, status._ucount);
        if (message == NULL) {
            /*
             * The message stays in Open MPI's queue until there is memory, because its sender cannot be asked to repeat
             * it.
             */
            if (!oob->starved) {
                mscclpp_error("%s: no memory to receive %zu bytes", oob->label, (size_t)status._ucount);
            }
            oob->starved = true;
            return MSCCLPP_OK;
        }
        /*
         * Receives the message that the probe found, because nobody else receives under this tag. Matched probes are
         * not used: some libraries (libfabric 1.17's provider net) fail with them while messages go both ways.
         */
        rc = MCA_PML_CALL(irecv(&message->header, message->size, &ompi_mpi_byte.dt, message->peer, MCA_COLL_MSCCLPP_TAG,
                                oob->comm, &message->request));
        if (OMPI_SUCCESS != rc) {
            mscclpp_error("%s: cannot receive from rank %d (Open MPI error %d)", oob->label, message->peer, rc);
            free(message);
            return MSCCLPP_ERR_PEER;
        }
        queue_append(&oob->receives, message);
    }
    return MSCCLPP_OK;
}

/* Returns true if a message is one of this component: its header is whole, and gives the length that has come. */
static bool is_sound(const mca_coll_mscclpp_oob_message_t *message)
{
    return message->size >= sizeof(mca_coll_mscclpp_oob_header_t) &&
           MCA_COLL_MSCCLPP_OOB_MAGIC == message->header.magic &&
           message->header.length == message->size - sizeof(mca_coll_mscclpp_oob_header_t);
}

/*
 * Moves complete messages into the inbox. A message waits for earlier messages of the same peer, so that each peer's
 * messages stay in the order of sending. Returns MSCCLPP_ERR_PEER if receiving a message failed or its header is
 * invalid; such a message is freed.
 */
static mscclpp_status_t end_receives(mca_coll_mscclpp_oob_t *oob)
{
    mscclpp_status_t status = MSCCLPP_OK;
    mca_coll_mscclpp_oob_message_t **link = &oob->receives.first;

    while (*link != NULL) {
        mca_coll_mscclpp_oob_message_t *earlier = oob->receives.first;
        int rc = MPI_SUCCESS;

        while (earlier != *link && earlier->peer != (*link)->peer) {
            earlier = earlier->next;
        }
        if (earlier != *link || !end_if_complete(*link, &rc)) {
            link = &(*link)->next;
            continue;
        }
        mca_coll_mscclpp_oob_message_t *message = queue_unlink(&oob->receives, link);
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

/* Goes through its three steps up to the first error. Messages that have not been handled stay in their queues. */
mscclpp_status_t mca_coll_mscclpp_oob_advance(mca_coll_mscclpp_oob_t *oob, int limit)
{
    mscclpp_status_t status;

    status = advance_sends(oob);
    if (MSCCLPP_OK == status) {
        status = begin_receives(oob, limit);
    }
    if (MSCCLPP_OK == status) {
        status = end_receives(oob);
    }
    return status;
}

mca_coll_mscclpp_oob_message_t *mca_coll_mscclpp_oob_take(mca_coll_mscclpp_oob_t *oob, mca_coll_mscclpp_oob_kind_t kind,
                                                          uint64_t identifier)
{
    for (mca_coll_mscclpp_oob_message_t **link = &oob->inbox.first; *link != NULL; link = &(*link)->next) {
        const mca_coll_mscclpp_oob_header_t *header = &(*link)->header;
        /* A rank that refuses is in no all-gather, so a refusal is found by its call. */
        if (kind == header->kind &&
            identifier == (MCA_COLL_MSCCLPP_OOB_REFUSE == kind ? header->call : header->number)) {
            return queue_unlink(&oob->inbox, link);
        }
    }
    return NULL;
}

/* Returns true if messages of this kind belong to one all-gather and are dropped after it. OOB_ABSTAIN is kept. */
static bool is_of_gather(uint32_t kind)
{
    return MCA_COLL_MSCCLPP_OOB_GATHER == kind || MCA_COLL_MSCCLPP_OOB_WHOLE == kind ||
           MCA_COLL_MSCCLPP_OOB_ASK == kind || MCA_COLL_MSCCLPP_OOB_HERE == kind || MCA_COLL_MSCCLPP_OOB_END == kind ||
           MCA_COLL_MSCCLPP_OOB_AHEAD == kind || MCA_COLL_MSCCLPP_OOB_HURRY == kind;
}

/*
 * Returns true if two all-gathers are counted together. Those of each port are counted apart, and so are those of all
 * ranks and those of a node's ranks. The high bits of a number say which count it belongs to.
 */
static bool is_same_series(uint64_t number, uint64_t other_number)
{
    return number >> MCA_COLL_MSCCLPP_OOB_PORT_SHIFT == other_number >> MCA_COLL_MSCCLPP_OOB_PORT_SHIFT;
}

void mca_coll_mscclpp_oob_drop_old_gathers(mca_coll_mscclpp_oob_t *oob, uint64_t number)
{
    mca_coll_mscclpp_oob_message_t **link = &oob->inbox.first;

    while (*link != NULL) {
        const mca_coll_mscclpp_oob_header_t *header = &(*link)->header;
        const uint64_t oldest_kept = MCA_COLL_MSCCLPP_OOB_END == header->kind ? number - 1 : number;
        if (is_of_gather(header->kind) && is_same_series(header->number, number) && header->number < oldest_kept) {
            free(queue_unlink(&oob->inbox, link));
        } else {
            link = &(*link)->next;
        }
    }
}

void mca_coll_mscclpp_oob_drop_kind_before(mca_coll_mscclpp_oob_t *oob, mca_coll_mscclpp_oob_kind_t kind,
                                           uint64_t number)
{
    mca_coll_mscclpp_oob_message_t **link = &oob->inbox.first;

    while (*link != NULL) {
        if (kind == (*link)->header.kind && (*link)->header.number < number) {
            free(queue_unlink(&oob->inbox, link));
        } else {
            link = &(*link)->next;
        }
    }
}

void mca_coll_mscclpp_oob_queues_init(mca_coll_mscclpp_oob_t *oob)
{
    queue_init(&oob->sends);
    queue_init(&oob->receives);
    queue_init(&oob->inbox);
}

/*
 * Open MPI's probe looks for new messages only after it has found none, so one probe that finds none does not count. A
 * message that cannot be received, which has been logged, ends the loop, too.
 */
void mca_coll_mscclpp_oob_drain(mca_coll_mscclpp_oob_t *oob)
{
    int idle_turns = 0;

    for (int turn = 0; turn < DRAIN_TURNS_MAX && idle_turns < DRAIN_IDLE_TURNS; ++turn) {
        const mscclpp_status_t status = mca_coll_mscclpp_oob_advance(oob, MCA_COLL_MSCCLPP_OOB_ANY);

        if (MSCCLPP_OK != status) {
            return;
        }
        idle_turns = oob->inbox.first == NULL && oob->receives.first == NULL ? idle_turns + 1 : 0;
        queue_free(&oob->inbox);
    }
}

void mca_coll_mscclpp_oob_queues_free(mca_coll_mscclpp_oob_t *oob)
{
    queue_free(&oob->sends);
    queue_free(&oob->receives);
    queue_free(&oob->inbox);
}
