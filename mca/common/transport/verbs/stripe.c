/*
 * Puts over several rails. Nothing orders one rail against another. So a connection records which bytes of the peer are
 * being written on rail 0, and which by stripes. A put into the same bytes on another rail waits, and a signal waits
 * for all stripes.
 */
#include "mca/common/transport/verbs/internal.h"

#define STRIPE_UNIT 4096u /* bytes: stripes begin on whole pages of a put */

/* Returns true if the range has a byte of begin .. end - 1. */
static bool overlaps(const mscclpp_verbs_range_t *range, uint64_t begin, uint64_t end)
{
    return begin < range->end && range->begin < end;
}

/* Extends a range, which may be empty, so that it also covers these addresses and those in between. */
static void extend(mscclpp_verbs_range_t *range, uint64_t begin, uint64_t end)
{
    if (range->begin == range->end) {
        range->begin = begin;
        range->end = end;
        return;
    }
    range->begin = begin < range->begin ? begin : range->begin;
    range->end = end > range->end ? end : range->end;
}

/* Returns true if a part of a put waits for room in the queue. */
static bool has_unposted_part(const mscclpp_verbs_qp_t *qp)
{
    return 0 != qp->unposted.length || qp->unposted.read_back;
}

bool mscclpp_verbs_settle_stripes(mscclpp_conn_t *conn)
{
    for (int i = 1; i < conn->qp_count; ++i) {
        if (has_unposted_part(conn->qps[i]) || conn->qps[i]->completed < conn->qps[i]->last_read) {
            return false;
        }
    }
    conn->striped = (mscclpp_verbs_range_t){0, 0};
    return true;
}

/*
 * Clears the record of plain puts, if all of them have completed. Called before the record is read or extended, so that
 * it does not grow forever.
 */
static void settle_plain(mscclpp_conn_t *conn)
{
    if (conn->qps[0]->completed >= conn->plain_last) {
        conn->plain = (mscclpp_verbs_range_t){0, 0};
    }
}

/*
 * Returns true if a put on rail 0 into these bytes may still be in progress. Then also asks for its completion, without
 * which it would count as in progress forever. If the queue has no room to ask, the next call asks: the caller refuses
 * its own put, which is then tried again.
 */
static bool is_under_way(mscclpp_conn_t *conn, uint64_t begin, uint64_t end)
{
    settle_plain(conn);
    if (!overlaps(&conn->plain, begin, end)) {
        return false;
    }
    (void)mscclpp_verbs_ask_completion(conn->qps[0]);
    return true;
}

/*
 * Puts one part of a message over a rail. The rail must not have an unfinished part. A failure breaks the connection.
 */
static void put_part(mscclpp_conn_t *conn, int rail, const mscclpp_remote_t *remote, uint64_t to,
                     const mscclpp_region_t *region, uint64_t from, uint64_t length)
{
    mscclpp_verbs_qp_t *qp = conn->qps[rail];

    qp->unposted = (mscclpp_verbs_unposted_t){.from = region->address + from,
                                              .to = remote->address + to,
                                              .length = length,
                                              .lkey = region->mrs[rail]->lkey,
                                              .rkey = remote->rkeys[rail],
                                              .cpu_readable = region->cpu_readable,
                                              .read_back = rail > 0};
    mscclpp_verbs_continue_put(qp);
}

/*
 * Puts a message over rail 0 alone. With several rails, also records which bytes of the peer are being written, because
 * later stripes must not overtake them.
 */
static void put_plain(mscclpp_conn_t *conn, const mscclpp_remote_t *remote, uint64_t to, const mscclpp_region_t *region,
                      uint64_t from, uint64_t length)
{
    if (conn->qp_count > 1) {
        settle_plain(conn);
    }
    put_part(conn, 0, remote, to, region, from, length);
    if (conn->qp_count > 1) {
        extend(&conn->plain, remote->address + to, remote->address + to + length);
        /* If a part is not posted yet, mscclpp_verbs_continue_put sets this again after the last request. */
        conn->plain_last = conn->qps[0]->posted;
    }
}

/*
 * A put of at least verbs_stripe_min bytes is divided into a stripe for each rail. Stripes are whole pages, so the last
 * rails may get fewer bytes than the others, or none. A put waits while an earlier one may still be writing the same
 * bytes of the peer on another rail.
 */
mscclpp_status_t mscclpp_verbs_put_data(mscclpp_conn_t *conn, const mscclpp_remote_t *remote, uint64_t to,
                                        const mscclpp_region_t *region, uint64_t from, uint64_t length)
{
    const uint64_t begin = remote->address + to;
    const uint64_t end = begin + length;
    const bool is_striped = conn->qp_count > 1 && length >= conn->transport->params.config->verbs_stripe_min;
    uint64_t stripe_bytes;

    for (int i = 0; i < (is_striped ? conn->qp_count : 1); ++i) {
        if (has_unposted_part(conn->qps[i]) || 0 == mscclpp_verbs_free_slots(conn->qps[i])) {
            return MSCCLPP_IN_PROGRESS;
        }
    }
    if (conn->qp_count > 1 && !mscclpp_verbs_settle_stripes(conn) && overlaps(&conn->striped, begin, end)) {
        return MSCCLPP_IN_PROGRESS;
    }
    if (!is_striped) {
        put_plain(conn, remote, to, region, from, length);
        return conn->status;
    }
    if (is_under_way(conn, begin, end)) {
        return MSCCLPP_IN_PROGRESS;
    }
    stripe_bytes = (length / (uint64_t)conn->qp_count + STRIPE_UNIT - 1) & ~(uint64_t)(STRIPE_UNIT - 1);
    for (int i = conn->qp_count - 1; i > 0; --i) {
        uint64_t offset = stripe_bytes * (uint64_t)i;
        uint64_t remaining = offset < length ? length - offset : 0; /* bytes from the offset on */
        if (remaining > 0) {
            put_part(conn, i, remote, to + offset, region, from + offset,
                     remaining < stripe_bytes ? remaining : stripe_bytes);
        }
    }
    extend(&conn->striped, begin + stripe_bytes, end);
    /* Rail 0 gets the first stripe, and put_plain records it in conn->plain. */
    put_plain(conn, remote, to, region, from, stripe_bytes < length ? stripe_bytes : length);
    return conn->status;
}

/*
 * Splits the rest into work requests of at most the port's largest message. Short requests send data inline if the CPU
 * can read it. A failure breaks the connection.
 */
void mscclpp_verbs_continue_put(mscclpp_verbs_qp_t *qp)
{
    mscclpp_verbs_unposted_t *unposted = &qp->unposted;
    struct ibv_send_wr *wr;

    while (unposted->length > 0 && mscclpp_verbs_free_slots(qp) > 0 && MSCCLPP_OK == qp->conn->status) {
        uint64_t length =
            unposted->length < qp->rail->max_message_bytes ? unposted->length : qp->rail->max_message_bytes;

        wr = mscclpp_verbs_next_request(qp);
        wr->opcode = IBV_WR_RDMA_WRITE;
        wr->wr.rdma.remote_addr = unposted->to;
        wr->wr.rdma.rkey = unposted->rkey;
        mscclpp_verbs_set_sge(wr, unposted->from, length, unposted->lkey);
        if (unposted->cpu_readable && length <= qp->max_inline_bytes) {
            wr->send_flags |= IBV_SEND_INLINE;
        }
        unposted->from += length;
        unposted->to += length;
        unposted->length -= length;
        if (0 == qp->unposted.length && qp == qp->conn->qps[0]) {
            qp->conn->plain_last = qp->posted;
        }
    }
    /* The stripe's last request reads its last byte back, which pushes its data into the peer's memory. */
    if (unposted->read_back && 0 == unposted->length && mscclpp_verbs_free_slots(qp) > 0 &&
        MSCCLPP_OK == qp->conn->status) {
        wr = mscclpp_verbs_next_request(qp);
        wr->opcode = IBV_WR_RDMA_READ;
        wr->wr.rdma.remote_addr = unposted->to - 1;
        wr->wr.rdma.rkey = unposted->rkey;
        mscclpp_verbs_set_sge(wr, (uintptr_t)&qp->conn->transport->scratch[1], 1, qp->rail->scratch_mr->lkey);
        (void)mscclpp_verbs_ask_completion(qp);
        qp->last_read = qp->posted;
        unposted->read_back = false;
    }
}
