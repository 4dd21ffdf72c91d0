#include "mca/common/transport/verbs/bounce.h"

#include <stdlib.h>
#include <string.h>

#include "mca/common/transport/verbs/internal.h"

#define SLOTS MSCCLPP_VERBS_BOUNCE_SLOTS

/*
 * Breaks the connection on both sides. The peer is told first, because a broken connection sends nothing; otherwise the
 * peer would wait for an acknowledgement forever. With a full queue the peer is not told.
 */
static void fail_and_tell_peer(mscclpp_conn_t *conn, mscclpp_status_t status, const char *reason)
{
    if (MSCCLPP_OK != conn->status || conn->peer_left) {
        return;
    }
    if (conn->connected && mscclpp_verbs_free_slots(conn->qps[0]) > 0) {
        mscclpp_verbs_send_control(conn->qps[0], MSCCLPP_VERBS_FAILURE);
        mscclpp_verbs_ring_doorbell(conn->qps[0]);
    }
    mscclpp_verbs_fail(conn, status, "the connection to rank %d failed: %s", conn->peer, reason);
}

/*
 * Allocates and registers slots, unless they exist. Returns false, with nothing allocated and nothing logged, on
 * failure. `slots->slots` is set last, so it is NULL if there are none.
 */
static bool ensure_slots(mscclpp_conn_t *conn, mscclpp_verbs_slots_t *slots, int access)
{
    const mscclpp_gpu_ops_t *gpu = conn->transport->params.gpu;
    const size_t size = SLOTS * sizeof(mscclpp_verbs_slot_t);
    void *memory, *device;

    if (slots->slots != NULL) {
        return true;
    }
    if (MSCCLPP_OK != gpu->host_alloc(size, &memory, &device)) {
        return false;
    }
    slots->mr = mscclpp_verbs_register(conn->transport, &conn->transport->rails[0], memory, size, MSCCLPP_MEM_HOST,
                                       IBV_ACCESS_LOCAL_WRITE | access);
    if (slots->mr == NULL) {
        gpu->host_free(memory);
        return false;
    }
    slots->slots = memory;
    return true;
}

/* Opens both copiers of the instance, unless they are open. */
static mscclpp_status_t open_copiers(mscclpp_transport_t *transport)
{
    const mscclpp_transport_params_t *params = &transport->params;
    mscclpp_status_t status = mscclpp_copier_open(&transport->out, params->gpu, params->device);

    return MSCCLPP_OK == status ? mscclpp_copier_open(&transport->in, params->gpu, params->device) : status;
}

/* Unregisters and frees slots, if there are any. */
static void free_slots(mscclpp_conn_t *conn, mscclpp_verbs_slots_t *slots)
{
    if (slots->slots != NULL) {
        (void)conn->transport->ibv.dereg_mr(slots->mr);
        conn->transport->params.gpu->host_free(slots->slots);
        slots->slots = NULL;
    }
}

/* Makes only the parts that do not exist yet. After a failure, mscclpp_verbs_bounce_destroy frees what was made. */
mscclpp_status_t mscclpp_verbs_bounce_create(mscclpp_conn_t *conn, bool has_landing)
{
    if (conn->bounce == NULL) {
        conn->bounce = calloc(1, sizeof(*conn->bounce));
        conn->transport->bouncing_conns += conn->bounce != NULL;
    }
    if (conn->bounce == NULL || !ensure_slots(conn, &conn->bounce->out, 0) ||
        (has_landing && !ensure_slots(conn, &conn->bounce->in, IBV_ACCESS_REMOTE_WRITE))) {
        mscclpp_error("%s: no memory through which device memory could be bounced for rank %d",
                      conn->transport->params.label, conn->peer);
        return MSCCLPP_ERR_NO_MEMORY;
    }
    /* A side without bounced memory copies nothing. */
    return has_landing ? open_copiers(conn->transport) : MSCCLPP_OK;
}

/*
 * The HCA no longer uses the slots, because the queue pairs have been destroyed. Copies may still use them, so the
 * function waits for the copies.
 */
void mscclpp_verbs_bounce_destroy(mscclpp_conn_t *conn)
{
    mscclpp_transport_t *transport = conn->transport;

    if (conn->bounce == NULL) {
        return;
    }
    mscclpp_verbs_bounce_wait(transport);
    mscclpp_verbs_abandon_add(conn); /* an unfinished one must not delay other connections */
    free_slots(conn, &conn->bounce->out);
    free_slots(conn, &conn->bounce->in);
    free(conn->bounce);
    conn->bounce = NULL;
    --transport->bouncing_conns;
}

bool mscclpp_verbs_bounce_is_clear(const mscclpp_conn_t *conn)
{
    const mscclpp_verbs_bounce_t *bounce = conn->bounce;

    return bounce == NULL ||
           (0 == bounce->waiting.length && bounce->posted == bounce->begun && bounce->acknowledged == bounce->messages);
}

bool mscclpp_verbs_bounce_is_empty(const mscclpp_conn_t *conn)
{
    return conn->bounce == NULL || (0 == conn->bounce->waiting.length && conn->bounce->freed == conn->bounce->begun);
}

/*
 * Fills free slots from the puts that wait. If the source is bounced, also starts to copy the data into the slots.
 * Otherwise the HCA reads the source directly, and the slots contain only headers. A copy that cannot be started breaks
 * the connection.
 */
static void begin_slots(mscclpp_conn_t *conn)
{
    mscclpp_transport_t *transport = conn->transport;
    mscclpp_verbs_bounce_t *bounce = conn->bounce;

    while (bounce->waiting.length > 0 && bounce->begun - bounce->freed < SLOTS && MSCCLPP_OK == conn->status) {
        mscclpp_verbs_sent_t *sent = &bounce->sent[bounce->begun % SLOTS];
        mscclpp_verbs_slot_t *slot = &bounce->out.slots[bounce->begun % SLOTS];
        uint64_t size = conn->qps[0]->rail->max_message_bytes;

        size = size < MSCCLPP_VERBS_BOUNCE_BYTES ? size : MSCCLPP_VERBS_BOUNCE_BYTES;
        size = size < bounce->waiting.length ? size : bounce->waiting.length;
        *sent = (mscclpp_verbs_sent_t){.from = bounce->waiting.from,
                                       .to = bounce->waiting.to,
                                       .length = size,
                                       .lkey = bounce->waiting.lkey,
                                       .rkey = bounce->waiting.rkey,
                                       .to_landing = bounce->waiting.to_landing};
        if (bounce->waiting.is_from_bounced) {
            mscclpp_status_t status;
            /* At most half of the slots are copied to at a time, so that the HCA sends the others meanwhile. */
            if (bounce->begun - bounce->copied >= SLOTS / 2) {
                break;
            }
            status = mscclpp_copier_add(&transport->out, transport->params.gpu, transport->params.device, slot->data,
                                        (const void *)(uintptr_t)bounce->waiting.from, size);
            if (MSCCLPP_OK != status) {
                fail_and_tell_peer(conn, status, "device memory cannot be copied");
                break;
            }
            sent->from = (uintptr_t)slot->data;
            sent->lkey = bounce->out.mr->lkey;
        } else if (bounce->copied == bounce->begun) {
            /*
             * There is nothing to copy, so the slot counts as filled. If earlier slots are still being copied to, it
             * waits for them.
             */
            ++bounce->copied;
        }
        memset(&slot->header, 0, sizeof(slot->header));
        slot->header.to = bounce->waiting.to;
        slot->header.length = size;
        ++bounce->begun;
        bounce->waiting.from += size;
        bounce->waiting.to += size;
        bounce->waiting.length -= size;
    }
}

/*
 * Posts the work requests of a slot. A slot takes two work requests, for which the queue must have room: the data and,
 * if the data goes to landing memory, the header with a message.
 *
 * Messages fill the peer's slots in turn. The next slot is certainly free: each message that is not acknowledged keeps
 * a slot of this side in use, and there are only SLOTS of them.
 */
static void post_slot(mscclpp_conn_t *conn, mscclpp_verbs_sent_t *sent, uint64_t index)
{
    mscclpp_verbs_bounce_t *bounce = conn->bounce;
    mscclpp_verbs_qp_t *qp = conn->qps[0];
    const mscclpp_verbs_slot_t *slot = &bounce->out.slots[index];
    const uint64_t landing = bounce->peer_in + bounce->messages % SLOTS * sizeof(*slot);
    struct ibv_send_wr *wr;

    if (sent->length > 0) {
        wr = mscclpp_verbs_next_request(qp);
        wr->opcode = IBV_WR_RDMA_WRITE;
        wr->wr.rdma.remote_addr = sent->to_landing ? landing + offsetof(mscclpp_verbs_slot_t, data) : sent->to;
        wr->wr.rdma.rkey = sent->to_landing ? bounce->peer_rkey : sent->rkey;
        mscclpp_verbs_set_sge(wr, sent->from, sent->length, sent->lkey);
    }
    if (sent->to_landing) {
        wr = mscclpp_verbs_next_request(qp);
        wr->opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
        wr->imm_data = mscclpp_verbs_imm(MSCCLPP_VERBS_FILLED);
        wr->wr.rdma.remote_addr = landing;
        wr->wr.rdma.rkey = bounce->peer_rkey;
        mscclpp_verbs_set_sge(wr, (uintptr_t)&slot->header, sizeof(slot->header), bounce->out.mr->lkey);
        sent->freed_by = ++bounce->messages;
    } else {
        (void)mscclpp_verbs_ask_completion(qp);
        sent->freed_by = qp->posted;
    }
}

/*
 * Continues the puts and adds of a connection that go through slots: frees slots, fills them from the waiting put, and
 * posts those that are filled. Slots are freed in order, so a slot whose data has not arrived also delays those after
 * it.
 */
static void continue_sending(mscclpp_conn_t *conn)
{
    mscclpp_verbs_bounce_t *bounce = conn->bounce;
    mscclpp_verbs_qp_t *qp = conn->qps[0];

    while (bounce->freed < bounce->posted) {
        const mscclpp_verbs_sent_t *sent = &bounce->sent[bounce->freed % SLOTS];
        if (sent->freed_by > (sent->to_landing ? bounce->acknowledged : qp->completed)) {
            break;
        }
        ++bounce->freed;
    }
    begin_slots(conn);
    while (bounce->posted < bounce->copied && mscclpp_verbs_free_slots(qp) >= 2 && MSCCLPP_OK == conn->status) {
        post_slot(conn, &bounce->sent[bounce->posted % SLOTS], bounce->posted % SLOTS);
        ++bounce->posted;
    }
    mscclpp_verbs_ring_doorbell(qp);
}

/*
 * Returns true if a bounced put or an add may begin. Bounced puts and adds must not overtake an earlier put that still
 * waits for slots, for room or on another rail.
 */
static bool can_begin(mscclpp_conn_t *conn)
{
    /* Earlier data that was not bounced is ahead on rail 0, unless it is a stripe. */
    return 0 == conn->bounce->waiting.length && 0 == conn->qps[0]->unposted.length &&
           mscclpp_verbs_settle_stripes(conn);
}

/*
 * Puts through slots: takes those that are free now, and progress takes the others later. Returns MSCCLPP_IN_PROGRESS,
 * with nothing put, while an earlier put still waits for slots, for room in the queue or for another rail. Otherwise
 * returns the connection's status.
 *
 * conn->bounce exists, because region_create or remote_create has found that the memory is bounced.
 */
mscclpp_status_t mscclpp_verbs_bounce_put(mscclpp_conn_t *conn, const mscclpp_remote_t *remote, uint64_t to,
                                          const mscclpp_region_t *region, uint64_t from, uint64_t length)
{
    mscclpp_verbs_bounce_t *bounce = conn->bounce;

    if (!can_begin(conn)) {
        return MSCCLPP_IN_PROGRESS;
    }
    bounce->waiting.from = region->address + from;
    bounce->waiting.to = remote->address + to;
    bounce->waiting.length = length;
    bounce->waiting.lkey = region->bounced ? 0 : region->mrs[0]->lkey;
    bounce->waiting.rkey = remote->rkeys[0];
    bounce->waiting.is_from_bounced = region->bounced;
    bounce->waiting.to_landing = remote->bounced;
    continue_sending(conn);
    return conn->status;
}

/*
 * Sends an add as a message, which the peer executes by copies. Returns MSCCLPP_IN_PROGRESS, with nothing sent, while
 * no slot is free, an earlier slot is being filled, or earlier data has not been posted. Slots are sent in order, so
 * all slots before this one must be filled. Otherwise returns the connection's status.
 */
mscclpp_status_t mscclpp_verbs_bounce_add(mscclpp_conn_t *conn, const mscclpp_remote_t *remote, uint64_t to,
                                          uint64_t value)
{
    mscclpp_verbs_bounce_t *bounce = conn->bounce;
    mscclpp_verbs_slot_t *slot;

    if (!can_begin(conn) || bounce->begun != bounce->copied || bounce->begun - bounce->freed == SLOTS) {
        return MSCCLPP_IN_PROGRESS;
    }
    slot = &bounce->out.slots[bounce->begun % SLOTS];
    memset(&slot->header, 0, sizeof(slot->header));
    slot->header.to = remote->address + to;
    slot->header.value = value;
    slot->header.is_add = 1;
    bounce->sent[bounce->begun % SLOTS] = (mscclpp_verbs_sent_t){.to_landing = true};
    bounce->copied = ++bounce->begun;
    continue_sending(conn);
    return conn->status;
}

/*
 * Handles a control message: a filled slot, an acknowledgement, or the peer's report of a failure. A count that does
 * not fit, and any other message, break the connection, because the counts decide which slots are read and sent. This
 * rank answers a report of a failure with its own. The peer, whose connection is broken already, ignores the answer.
 */
void mscclpp_verbs_bounce_on_message(mscclpp_conn_t *conn, uint32_t message)
{
    mscclpp_verbs_bounce_t *bounce = conn->bounce;
    const uint32_t message_kind = message & ~MSCCLPP_VERBS_COUNT_MASK;
    uint64_t newly_acknowledged;

    switch (bounce != NULL ? message_kind : 0) {
    case MSCCLPP_VERBS_FAILURE:
        fail_and_tell_peer(conn, MSCCLPP_ERR_PEER, "the peer could not carry out what it was sent");
        return;
    case MSCCLPP_VERBS_FILLED:
        if (bounce->in.slots != NULL && bounce->arrived - bounce->acknowledged_to_peer < SLOTS) {
            ++bounce->arrived;
            return;
        }
        break;
    case MSCCLPP_VERBS_ACKNOWLEDGED:
        /* The low bits of the count suffice, since at most SLOTS messages are not acknowledged. */
        newly_acknowledged = (message - (uint32_t)bounce->acknowledged) & MSCCLPP_VERBS_COUNT_MASK;
        if (newly_acknowledged > bounce->messages - bounce->acknowledged) {
            fail_and_tell_peer(conn, MSCCLPP_ERR_PEER, "the peer acknowledged what has not been sent");
        } else {
            bounce->acknowledged += newly_acknowledged;
        }
        return;
    default:
        break;
    }
    fail_and_tell_peer(conn, MSCCLPP_ERR_PEER, "the peer sent a control message that is not expected");
}

/* Returns true if the bytes are in a bounced region of this rank. Addresses from peers are not trusted. */
static bool is_in_a_region(const mscclpp_transport_t *transport, uint64_t begin, uint64_t length)
{
    for (const mscclpp_region_t *region = transport->bounced_regions; region != NULL; region = region->next) {
        if (begin >= region->address && length <= region->length &&
            begin - region->address <= region->length - length) {
            return true;
        }
    }
    return false;
}

/* Adds a copy to the batch that executes messages. On failure breaks the connection and returns false. */
static bool start_copy(mscclpp_conn_t *conn, void *to, const void *from, size_t size)
{
    mscclpp_transport_t *transport = conn->transport;
    mscclpp_status_t status =
        mscclpp_copier_add(&transport->in, transport->params.gpu, transport->params.device, to, from, size);

    if (MSCCLPP_OK != status) {
        fail_and_tell_peer(conn, status, "device memory cannot be copied");
    }
    return MSCCLPP_OK == status;
}

/*
 * Goes on with an add to device memory. The CPU cannot access the word, so it is copied to the slot, changed there, and
 * copied back. No other message of this instance is executed meanwhile.
 *
 * The caller calls this function again in each round until it returns true. If a copy cannot be started, the
 * connection breaks, which also abandons the add.
 */
static bool step_add(mscclpp_conn_t *conn, mscclpp_verbs_slot_t *slot)
{
    mscclpp_transport_t *transport = conn->transport;
    mscclpp_verbs_bounce_t *bounce = conn->bounce;
    void *word = (void *)(uintptr_t)slot->header.to;

    if (bounce->issued != bounce->executed || (transport->adding_conn != NULL && conn != transport->adding_conn)) {
        return false;
    }
    /*
     * Set before the current batch has ended, so that no more copies join that batch: with a steady stream of puts it
     * would never end.
     */
    transport->adding_conn = conn;
    if (transport->in.busy) {
        return false;
    }
    if (MSCCLPP_VERBS_ADD_NONE == bounce->add_stage) {
        bounce->add_stage =
            start_copy(conn, slot->data, word, sizeof(uint64_t)) ? MSCCLPP_VERBS_ADD_READS : MSCCLPP_VERBS_ADD_NONE;
        return false;
    }
    if (MSCCLPP_VERBS_ADD_READS == bounce->add_stage) {
        uint64_t sum;
        memcpy(&sum, slot->data, sizeof(sum));
        sum += slot->header.value;
        memcpy(slot->data, &sum, sizeof(sum));
        bounce->add_stage =
            start_copy(conn, word, slot->data, sizeof(uint64_t)) ? MSCCLPP_VERBS_ADD_WRITES : MSCCLPP_VERBS_ADD_NONE;
        return false;
    }
    bounce->add_stage = MSCCLPP_VERBS_ADD_NONE;
    transport->adding_conn = NULL;
    return true;
}

/*
 * Executes the messages that have arrived, in order, up to the first one that has to wait. A message that names memory
 * outside the regions breaks the connection. The peer does not refill a slot before its message is acknowledged, so
 * copies may read the slot until then.
 */
static void execute_arrived(mscclpp_conn_t *conn)
{
    mscclpp_verbs_bounce_t *bounce = conn->bounce;

    while (bounce->issued < bounce->arrived && MSCCLPP_OK == conn->status) {
        mscclpp_verbs_slot_t *slot = &bounce->in.slots[bounce->issued % SLOTS];
        const uint64_t length = 0 != slot->header.is_add ? sizeof(uint64_t) : slot->header.length;
        if (length > MSCCLPP_VERBS_BOUNCE_BYTES || !is_in_a_region(conn->transport, slot->header.to, length)) {
            fail_and_tell_peer(conn, MSCCLPP_ERR_PEER, "the peer sent bytes that belong to no region");
            break;
        }
        if (0 != slot->header.is_add) {
            if (!step_add(conn, slot)) {
                break;
            }
            ++bounce->executed;
            ++bounce->issued;
            break; /* lets other connections have their turn */
        }
        if (conn->transport->adding_conn != NULL ||
            !start_copy(conn, (void *)(uintptr_t)slot->header.to, slot->data, length)) {
            break;
        }
        ++bounce->issued;
    }
}

/*
 * Acknowledges the messages that have been executed, so that the peer may refill their slots. If the queue is full, a
 * later round does this.
 */
static void acknowledge(mscclpp_conn_t *conn)
{
    mscclpp_verbs_bounce_t *bounce = conn->bounce;

    if (bounce->acknowledged_to_peer != bounce->executed && MSCCLPP_OK == conn->status && !conn->peer_left &&
        mscclpp_verbs_free_slots(conn->qps[0]) > 0) {
        mscclpp_verbs_send_control(conn->qps[0], MSCCLPP_VERBS_ACKNOWLEDGED |
                                                     ((uint32_t)bounce->executed & MSCCLPP_VERBS_COUNT_MASK));
        mscclpp_verbs_ring_doorbell(conn->qps[0]);
        bounce->acknowledged_to_peer = bounce->executed;
    }
}

/*
 * Notes the end of a batch of copies. `is_out` says that the copies filled slots; otherwise they executed messages.
 * Copies join a batch until it ends, so the batch covers all copies that have begun. A failed batch breaks every
 * connection with bounced memory.
 */
static void end_copies(mscclpp_transport_t *transport, mscclpp_copier_t *copier, bool is_out)
{
    mscclpp_status_t status = copier->busy ? mscclpp_copier_test(copier, transport->params.gpu) : MSCCLPP_IN_PROGRESS;

    if (MSCCLPP_IN_PROGRESS == status) {
        return;
    }
    for (mscclpp_conn_t *conn = transport->conns; conn != NULL; conn = conn->next) {
        mscclpp_verbs_bounce_t *bounce = conn->bounce;
        if (bounce == NULL) {
            continue;
        }
        if (MSCCLPP_OK != status) {
            fail_and_tell_peer(conn, status, "a copy of device memory failed");
        } else if (is_out) {
            bounce->copied = bounce->begun;
        } else {
            bounce->executed = bounce->issued;
        }
    }
}

/*
 * Ends the batches of copies first, so that the slots they filled are sent, and the messages they executed are
 * acknowledged, in the same round.
 */
void mscclpp_verbs_bounce_progress(mscclpp_transport_t *transport)
{
    end_copies(transport, &transport->out, true);
    end_copies(transport, &transport->in, false);
    for (mscclpp_conn_t *conn = transport->conns; conn != NULL; conn = conn->next) {
        const bool is_open = conn->connected && MSCCLPP_OK == conn->status && !conn->peer_left;

        if (conn->bounce != NULL && is_open) {
            continue_sending(conn);
            execute_arrived(conn);
            acknowledge(conn);
        }
    }
}
