/*
 * The carrier for control messages as UCX active messages. One context and one worker serve all teams of the process,
 * and the worker makes progress only in their polls. The first message to a process opens an endpoint, which all teams
 * that know that process share.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mca/common/base/clock.h"
#include "mca/common/ctrl/carrier.h"
#include "mca/common/base/libucp.h"
#include "mca/common/ctrl/ucx_queue.h"
#include "mca/common/base/log.h"

#define UCX_MESSAGE_ID 0
#define UCX_PROGRESS_MAX 16      /* the most calls of the worker's progress in one poll */
#define UCX_ORPHANS_MAX 64       /* messages kept for teams that this rank has yet to connect */
#define UCX_QUEUE_MAX 1024       /* messages that one team may leave unread */
#define UCX_DESTROY_SECONDS 0.02 /* time for the messages that a destroyed team has yet to send */
#define UCX_FINALIZE_SECONDS 1.0 /* time for endpoints to close at the end */

/* A process that messages go to, perhaps this one. Kept while a team knows it, and until its endpoint is closed. */
typedef struct ucx_peer {
    struct ucx_peer *next;
    unsigned references;            /* by teams that know the process */
    unsigned sending;               /* messages given to UCX and not yet sent */
    bool has_failed;                /* no more messages can be sent to it */
    ucp_ep_h ep;                    /* NULL before the first message */
    ucs_status_ptr_t close_request; /* closes the endpoint; NULL: it is not being closed */
    size_t length;                  /* bytes of the address */
    unsigned char address[];        /* the address of the process's worker */
} ucx_peer_t;

/* A message that is being sent; UCX reads the frame until it reports completion. */
typedef struct {
    ucx_peer_t *peer;
    mscclpp_ctrl_ucx_frame_t frame;
} ucx_sent_t;

struct mscclpp_ctrl_carrier {
    mscclpp_ctrl_carrier_t *next;
    const char *label;
    uint64_t team_id; /* 0: it is not connected */
    int rank;
    int size;
    mscclpp_ctrl_ucx_queue_t received;
    ucx_peer_t *peers[]; /* by rank of the team */
};

/* Guards everything below. Held around every call of UCX, including callbacks. */
static pthread_mutex_t ucx_lock = PTHREAD_MUTEX_INITIALIZER;
static mscclpp_ucx_functions_t ucx;
static bool ucx_failed; /* UCX failed to start. Only ucx_prepare lets it be tried again, so that later teams agree. */
static pid_t ucx_pid;   /* the process that made the context; a forked child must leave the context alone */
static ucp_context_h ucx_context; /* NULL: there is no context, and so no worker */
static ucp_worker_h ucx_worker;   /* NULL: there is no worker */
static ucp_address_t *ucx_address;
static size_t ucx_address_length;
static mscclpp_ctrl_carrier_t *ucx_carriers;
static ucx_peer_t *ucx_peers;   /* peers that some team knows */
static ucx_peer_t *ucx_retired; /* peers that no team knows any more and whose endpoints are to be closed */
static mscclpp_ctrl_ucx_queue_t ucx_orphans; /* messages for teams that this rank has yet to connect */
static bool ucx_had_contact; /* a message came from or went to another process, so a connection may be half made */

/* Returns the carrier that a message is for; NULL: this rank does not know the message's team, or not yet. */
static mscclpp_ctrl_carrier_t *find_carrier(const mscclpp_ctrl_ucx_frame_t *frame)
{
    mscclpp_ctrl_carrier_t *carrier = ucx_carriers;

    while (carrier != NULL && (frame->team_id != carrier->team_id || frame->to != (uint32_t)carrier->rank)) {
        carrier = carrier->next;
    }
    return carrier;
}

/* Queues a message that has arrived. UCX calls this function in the worker's progress, with the lock held. */
static ucs_status_t on_message(void *arg, const void *header, size_t header_length, void *data, size_t length,
                               const ucp_am_recv_param_t *param)
{
    mscclpp_ctrl_ucx_message_t *message;
    mscclpp_ctrl_carrier_t *carrier;
    mscclpp_ctrl_ucx_queue_t *queue;

    (void)arg, (void)data, (void)length, (void)param;
    if (header_length != sizeof(message->frame)) {
        mscclpp_debug("a control message of %zu bytes is not ours", header_length);
        return UCS_OK;
    }
    message = mscclpp_ctrl_ucx_queue_new();
    if (message == NULL) {
        mscclpp_error("out of memory: a control message is lost");
        return UCS_OK;
    }
    memcpy(&message->frame, header, sizeof(message->frame));
    carrier = find_carrier(&message->frame);
    queue = carrier != NULL ? &carrier->received : &ucx_orphans;
    if (message->frame.length > MSCCLPP_CTRL_MESSAGE_MAX ||
        (carrier != NULL && message->frame.rank >= (uint32_t)carrier->size)) {
        mscclpp_debug("a control message of rank %u with %u bytes is not ours", message->frame.rank,
                      message->frame.length);
        free(message);
        return UCS_OK;
    }
    mscclpp_ctrl_ucx_queue_push(queue, message);
    if (queue->count > (carrier != NULL ? UCX_QUEUE_MAX : UCX_ORPHANS_MAX)) {
        free(mscclpp_ctrl_ucx_queue_pop(queue)); /* drops the oldest: nobody reads here, or the team is gone */
    }
    return UCS_OK;
}

/* Frees a message that UCX no longer needs. One that was not delivered is lost. */
static void on_sent(void *request, ucs_status_t status, void *user_data)
{
    ucx_sent_t *sent = user_data;

    if (status != UCS_OK) {
        mscclpp_debug("a control message was not delivered: %s", ucx.ucs_status_string(status));
    }
    --sent->peer->sending;
    free(sent);
    ucx.ucp_request_free(request);
}

/* Notes that the peer's endpoint has failed. The next message fails; the peer may just have ended. */
static void on_failure(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    ucx_peer_t *peer = arg;

    (void)ep;
    peer->has_failed = true;
    mscclpp_debug("the endpoint of a peer has failed: %s", ucx.ucs_status_string(status));
}

/* Returns true if the call succeeded. A failure is logged at the info level: another carrier may remain. */
static bool succeeded(const char *call, ucs_status_t status)
{
    if (status != UCS_OK) {
        mscclpp_info("no UCX for control messages: %s: %s", call, ucx.ucs_status_string(status));
    }
    return status == UCS_OK;
}

/* Loads UCX, and makes the context. Returns false if either fails. The caller holds the lock. */
static bool open_context(void)
{
    if (mscclpp_ucx_load(&ucx) == MSCCLPP_OK) {
        ucx_context = mscclpp_ucx_open_quiet(&ucx);
    }
    ucx_pid = getpid();
    return ucx_context != NULL;
}

static void close_context(void)
{
    ucx.ucp_cleanup(ucx_context);
    ucx_context = NULL;
}

/* Makes the worker and its address. Returns false, with nothing left, if UCX refuses. The caller holds the lock. */
static bool start_worker(void)
{
    const ucp_worker_params_t params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                        .thread_mode = UCS_THREAD_MODE_SERIALIZED};
    const ucp_am_handler_param_t handler = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS | UCP_AM_HANDLER_PARAM_FIELD_CB,
        .id = UCX_MESSAGE_ID,
        .flags = UCP_AM_FLAG_WHOLE_MSG,
        .cb = on_message};
    ucp_worker_h worker;

    if (!succeeded("ucp_worker_create", ucx.ucp_worker_create(ucx_context, &params, &worker))) {
        return false;
    }
    if (!succeeded("ucp_worker_set_am_recv_handler", ucx.ucp_worker_set_am_recv_handler(worker, &handler)) ||
        !succeeded("ucp_worker_get_address", ucx.ucp_worker_get_address(worker, &ucx_address, &ucx_address_length))) {
        ucx.ucp_worker_destroy(worker);
        return false;
    }
    ucx_worker = worker;
    return true;
}

/* Returns true if this process has a context, new or old; a forked child has none. The caller holds the lock. */
static bool ensure_context(void)
{
    if (ucx_context == NULL && !ucx_failed) {
        ucx_failed = !open_context();
    }
    return ucx_context != NULL && ucx_pid == getpid();
}

/*
 * Loads UCX before there are threads. Loading it and making a context patch the C library; then UCX moves the end of
 * the heap without malloc's lock, which can destroy another thread's memory (seen with UCX 1.13).
 */
static void ucx_prepare(bool is_allowed)
{
    mscclpp_ucx_allow(is_allowed);
    if (is_allowed) {
        pthread_mutex_lock(&ucx_lock);
        ucx_failed = ucx_failed && ucx_context != NULL; /* after a refusal, loading may be tried again */
        (void)ensure_context();
        pthread_mutex_unlock(&ucx_lock);
    }
}

/*
 * Makes a team's carrier over UCX. The first team makes the worker, which serves all teams. Returns
 * MSCCLPP_ERR_NOT_SUPPORTED without a worker or a spare message.
 */
static mscclpp_status_t ucx_create(const mscclpp_oob_t *oob, mscclpp_ctrl_carrier_t **carrier_p)
{
    mscclpp_ctrl_carrier_t *carrier;
    bool is_usable;

    carrier = calloc(1, sizeof(*carrier) + (size_t)oob->size * sizeof(carrier->peers[0]));
    if (carrier == NULL) {
        mscclpp_error("%s: out of memory for control messages", oob->label);
        return MSCCLPP_ERR_NO_MEMORY;
    }
    carrier->label = oob->label;
    carrier->rank = oob->rank;
    carrier->size = oob->size;
    pthread_mutex_lock(&ucx_lock);
    is_usable = ensure_context() && mscclpp_ctrl_ucx_queue_reserve();
    /* If the limits refuse a worker now, there may be one for a later team. */
    if (is_usable && ucx_worker == NULL && !ucx_failed &&
        mscclpp_ucx_check_limits("control messages", (size_t)oob->size) == MSCCLPP_OK) {
        ucx_failed = !start_worker();
    }
    is_usable = is_usable && ucx_worker != NULL;
    if (is_usable) {
        carrier->next = ucx_carriers;
        ucx_carriers = carrier;
    }
    pthread_mutex_unlock(&ucx_lock);
    if (!is_usable) {
        free(carrier);
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    *carrier_p = carrier;
    return MSCCLPP_OK;
}

static mscclpp_status_t ucx_get_address(const mscclpp_ctrl_carrier_t *carrier, void *address, size_t capacity,
                                        size_t *length_p)
{
    /* The worker's address and its length do not change while a carrier exists, so they are read without the lock. */
    if (ucx_address_length > capacity) {
        mscclpp_info("%s: no UCX for control messages: its address takes %zu bytes, and there is room for %zu",
                     carrier->label, ucx_address_length, capacity);
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    memcpy(address, ucx_address, ucx_address_length);
    *length_p = ucx_address_length;
    return MSCCLPP_OK;
}

/* Takes a reference to a peer, which may be new. Returns NULL without memory. The caller holds the lock. */
static ucx_peer_t *get_peer(const void *address, size_t length)
{
    ucx_peer_t *peer = ucx_peers;

    while (peer != NULL && (peer->length != length || memcmp(peer->address, address, length) != 0)) {
        peer = peer->next;
    }
    if (peer == NULL) {
        peer = calloc(1, sizeof(*peer) + length);
        if (peer == NULL) {
            return NULL;
        }
        peer->length = length;
        memcpy(peer->address, address, length);
        peer->next = ucx_peers;
        ucx_peers = peer;
    }
    ++peer->references;
    return peer;
}

/* Returns the number of events; 0: no work is left. The caller holds the lock. */
static unsigned progress_worker(void)
{
    unsigned events = ucx.ucp_worker_progress(ucx_worker);

    ucx_had_contact = ucx_had_contact || events != 0;
    return events;
}

/* Begins to close the peer's endpoint, by force because the peer may be gone. The caller holds the lock. */
static void close_endpoint(ucx_peer_t *peer)
{
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_EP_CLOSE_FLAG_FORCE};

    peer->close_request = ucx.ucp_ep_close_nbx(peer->ep, &param);
    if (UCS_PTR_IS_ERR(peer->close_request)) {
        mscclpp_debug("ucp_ep_close_nbx: %s", ucx.ucs_status_string(UCS_PTR_STATUS(peer->close_request)));
        peer->close_request = NULL;
    }
    peer->ep = NULL;
}

/*
 * Closes an endpoint when its last send has ended: UCX would abort if a connection were still being made. Returns true
 * while UCX is closing an endpoint. The caller holds the lock.
 */
static bool close_idle_endpoints(void)
{
    ucx_peer_t **link = &ucx_retired;
    bool is_closing = false;

    while (*link != NULL) {
        ucx_peer_t *peer = *link;
        if (peer->ep != NULL && peer->sending == 0) {
            close_endpoint(peer);
        }
        if (peer->close_request != NULL && ucx.ucp_request_check_status(peer->close_request) != UCS_INPROGRESS) {
            ucx.ucp_request_free(peer->close_request);
            peer->close_request = NULL;
        }
        is_closing = is_closing || peer->close_request != NULL;
        if (peer->ep == NULL && peer->close_request == NULL && peer->sending == 0) {
            *link = peer->next;
            free(peer);
        } else {
            link = &peer->next;
        }
    }
    return is_closing;
}

/* Gives a reference back. The last one closes the peer's endpoint. The caller holds the lock. */
static void release_peer(ucx_peer_t *peer)
{
    ucx_peer_t **link = &ucx_peers;

    if (peer == NULL || --peer->references != 0) {
        return;
    }
    while (*link != peer) {
        link = &(*link)->next;
    }
    *link = peer->next;
    peer->next = ucx_retired;
    ucx_retired = peer;
    (void)close_idle_endpoints();
}

/* Also takes the messages that came before this rank knew the team. */
static void ucx_name_team(mscclpp_ctrl_carrier_t *carrier, uint64_t team_id)
{
    pthread_mutex_lock(&ucx_lock);
    carrier->team_id = team_id;
    mscclpp_ctrl_ucx_queue_claim(&ucx_orphans, team_id, carrier->rank, carrier->size, &carrier->received);
    pthread_mutex_unlock(&ucx_lock);
}

static mscclpp_status_t ucx_connect(mscclpp_ctrl_carrier_t *carrier, uint64_t team_id, const void *addresses,
                                    size_t stride, const size_t *lengths)
{
    mscclpp_status_t status = MSCCLPP_OK;

    pthread_mutex_lock(&ucx_lock);
    for (int rank = 0; rank < carrier->size && status == MSCCLPP_OK; ++rank) {
        carrier->peers[rank] = get_peer((const char *)addresses + (size_t)rank * stride, lengths[rank]);
        if (carrier->peers[rank] == NULL) {
            mscclpp_error("%s: out of memory for the addresses of %d ranks", carrier->label, carrier->size);
            status = MSCCLPP_ERR_NO_MEMORY;
        }
    }
    pthread_mutex_unlock(&ucx_lock);
    if (status == MSCCLPP_OK) {
        ucx_name_team(carrier, team_id);
    }
    return status;
}

static mscclpp_status_t ucx_connect_like(mscclpp_ctrl_carrier_t *carrier, const mscclpp_ctrl_carrier_t *model)
{
    pthread_mutex_lock(&ucx_lock);
    for (int rank = 0; rank < carrier->size; ++rank) {
        carrier->peers[rank] = model->peers[rank];
        ++carrier->peers[rank]->references;
    }
    pthread_mutex_unlock(&ucx_lock);
    return MSCCLPP_OK;
}

/*
 * Opens the peer's endpoint. If the system grants too little, returns the status of mscclpp_ucx_check_limits; a later
 * call may succeed. If UCX refuses, returns MSCCLPP_ERR_PEER, and the peer counts as failed for good. The caller holds
 * the lock.
 */
static mscclpp_status_t open_endpoint(ucx_peer_t *peer)
{
    const ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                                                  UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER,
                                    .address = (const ucp_address_t *)peer->address,
                                    .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                                    .err_handler = {.cb = on_failure, .arg = peer}};
    mscclpp_status_t limits = mscclpp_ucx_check_limits("a control message", 1);
    ucs_status_t status;

    if (limits != MSCCLPP_OK) {
        return limits;
    }
    status = ucx.ucp_ep_create(ucx_worker, &params, &peer->ep);
    if (status != UCS_OK) {
        mscclpp_debug("ucp_ep_create: %s", ucx.ucs_status_string(status));
        peer->ep = NULL;
        peer->has_failed = true;
        return MSCCLPP_ERR_PEER;
    }
    return MSCCLPP_OK;
}

/* Begins to send a copy of the frame, since UCX needs it until it has sent it. The caller holds the lock. */
static mscclpp_status_t send_frame(ucx_peer_t *peer, const mscclpp_ctrl_ucx_frame_t *frame)
{
    ucp_request_param_t param = {.op_attr_mask =
                                     UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS,
                                 .flags = UCP_AM_SEND_FLAG_EAGER,
                                 .cb.send = on_sent};
    mscclpp_status_t status = peer->has_failed ? MSCCLPP_ERR_PEER : MSCCLPP_OK;
    ucx_sent_t *sent;
    ucs_status_ptr_t request;

    if (status == MSCCLPP_OK && peer->ep == NULL) {
        status = open_endpoint(peer);
    }
    if (status != MSCCLPP_OK) {
        return status;
    }
    sent = malloc(sizeof(*sent));
    if (sent == NULL) {
        return MSCCLPP_ERR_NO_MEMORY;
    }
    sent->peer = peer;
    sent->frame = *frame;
    param.user_data = sent; /* on_sent frees it, unless UCX has sent it at once or refuses it */
    ++peer->sending;
    request = ucx.ucp_am_send_nbx(peer->ep, UCX_MESSAGE_ID, &sent->frame, sizeof(sent->frame), NULL, 0, &param);
    if (request == NULL || UCS_PTR_IS_ERR(request)) {
        --peer->sending;
        free(sent);
    }
    if (UCS_PTR_IS_ERR(request)) {
        mscclpp_debug("ucp_am_send_nbx: %s", ucx.ucs_status_string(UCS_PTR_STATUS(request)));
        peer->has_failed = true;
        return MSCCLPP_ERR_PEER;
    }
    return MSCCLPP_OK;
}

static mscclpp_status_t ucx_post(mscclpp_ctrl_carrier_t *carrier, int peer, const void *message, size_t length)
{
    mscclpp_status_t status;
    mscclpp_ctrl_ucx_frame_t frame;

    memset(&frame, 0, sizeof(frame));
    frame.team_id = carrier->team_id;
    frame.rank = (uint32_t)carrier->rank;
    frame.to = (uint32_t)peer;
    frame.length = (uint32_t)length;
    memcpy(frame.payload, message, length);
    pthread_mutex_lock(&ucx_lock);
    status = send_frame(carrier->peers[peer], &frame);
    ucx_had_contact = true;
    (void)progress_worker();
    pthread_mutex_unlock(&ucx_lock);
    if (status != MSCCLPP_OK) {
        /* Nothing depends on it, and a rank that waits for a lost peer names it. */
        mscclpp_info("%s: a control message cannot be sent to rank %d: %s", carrier->label, peer,
                     mscclpp_status_string(status));
    }
    return status;
}

/* Makes progress on the messages of all teams, because they share the worker. */
static mscclpp_status_t ucx_poll(mscclpp_ctrl_carrier_t *carrier, int *peer_p, void *message, size_t *length_p)
{
    mscclpp_ctrl_ucx_message_t *received;

    pthread_mutex_lock(&ucx_lock);
    for (int i = 0; i < UCX_PROGRESS_MAX && progress_worker() != 0; ++i) {
    }
    (void)close_idle_endpoints();
    received = mscclpp_ctrl_ucx_queue_pop(&carrier->received);
    pthread_mutex_unlock(&ucx_lock);
    if (received == NULL) {
        return MSCCLPP_IN_PROGRESS;
    }
    *peer_p = (int)received->frame.rank;
    *length_p = received->frame.length;
    memcpy(message, received->frame.payload, received->frame.length);
    free(received);
    return MSCCLPP_OK;
}

/* Returns true while messages to peers that have not failed are unsent. The caller holds the lock. */
static bool is_sending(const mscclpp_ctrl_carrier_t *carrier)
{
    for (int rank = 0; rank < carrier->size; ++rank) {
        if (carrier->peers[rank] != NULL && carrier->peers[rank]->sending > 0 && !carrier->peers[rank]->has_failed) {
            return true;
        }
    }
    return false;
}

/* Waits until UCX has sent the carrier's messages. Does nothing in a forked child. */
static void ucx_flush(mscclpp_ctrl_carrier_t *carrier, double seconds)
{
    double deadline = mscclpp_now() + seconds;
    bool may_be_sending = ucx_pid == getpid();

    while (may_be_sending && mscclpp_now() < deadline) {
        pthread_mutex_lock(&ucx_lock);
        may_be_sending = is_sending(carrier);
        if (may_be_sending) {
            (void)progress_worker();
        }
        pthread_mutex_unlock(&ucx_lock);
        sched_yield();
    }
}

static void ucx_rebind(mscclpp_ctrl_carrier_t *carrier, const mscclpp_oob_t *oob)
{
    carrier->label = oob->label;
}

/* Sends what is left, for some time at most, and frees the carrier. In a forked child, only frees the carrier. */
static void ucx_destroy(mscclpp_ctrl_carrier_t *carrier)
{
    mscclpp_ctrl_carrier_t **link = &ucx_carriers;
    const bool may_use_ucx = ucx_pid == getpid();

    ucx_flush(carrier, UCX_DESTROY_SECONDS);
    pthread_mutex_lock(&ucx_lock);
    for (int rank = 0; may_use_ucx && rank < carrier->size; ++rank) {
        release_peer(carrier->peers[rank]);
    }
    while (*link != carrier) {
        link = &(*link)->next;
    }
    *link = carrier->next;
    pthread_mutex_unlock(&ucx_lock);
    mscclpp_ctrl_ucx_queue_clear(&carrier->received);
    free(carrier);
}

/* Frees the worker. Does nothing while a team exists, or in a forked child. */
static void ucx_finalize(void)
{
    double deadline = mscclpp_now() + UCX_FINALIZE_SECONDS;

    pthread_mutex_lock(&ucx_lock);
    if (ucx_context == NULL || ucx_carriers != NULL || ucx_pid != getpid()) {
        pthread_mutex_unlock(&ucx_lock);
        return;
    }
    while (ucx_worker != NULL && close_idle_endpoints() && mscclpp_now() < deadline) {
        (void)progress_worker();
    }
    mscclpp_ctrl_ucx_queue_clear(&ucx_orphans);
    mscclpp_ctrl_ucx_queue_release();
    /*
     * UCX 1.13 aborts if a worker is destroyed while one of its connections is half made. A peer may have begun one and
     * ended since, which this side cannot see. So a worker that has met other processes stays, for later teams.
     */
    if (ucx_worker != NULL && !ucx_had_contact) {
        ucx.ucp_worker_release_address(ucx_worker, ucx_address);
        ucx.ucp_worker_destroy(ucx_worker);
        ucx_worker = NULL;
    }
    if (ucx_worker == NULL) {
        close_context();
    }
    pthread_mutex_unlock(&ucx_lock);
}

const mscclpp_ctrl_ops_t mscclpp_ctrl_ucx_ops = {
    .name = "ucx",
    .prepare = ucx_prepare,
    .create = ucx_create,
    .address = ucx_get_address,
    .connect = ucx_connect,
    .connect_like = ucx_connect_like,
    .name_team = ucx_name_team,
    .post = ucx_post,
    .poll = ucx_poll,
    .flush = ucx_flush,
    .rebind = ucx_rebind,
    .destroy = ucx_destroy,
    .finalize = ucx_finalize,
};
