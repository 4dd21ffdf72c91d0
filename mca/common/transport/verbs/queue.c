/* The send and receive queues: lists work requests and posts them to the HCA. */
#include "mca/common/transport/verbs/internal.h"

#include <string.h>

uint32_t mscclpp_verbs_free_slots(const mscclpp_verbs_qp_t *qp)
{
    return qp->depth - (uint32_t)(qp->posted - qp->completed);
}

/*
 * Breaks the connection because a request could not be posted. `request` is a noun for the message; `error` is an
 * errno.
 */
static void fail_to_post(mscclpp_verbs_qp_t *qp, const char *request, int error)
{
    mscclpp_verbs_fail(qp->conn, MSCCLPP_ERR_SYSTEM, "%s for rank %d on %s port %d was refused: %s", request,
                       qp->conn->peer, qp->rail->name, qp->rail->port, strerror(error));
}

void mscclpp_verbs_ring_doorbell(mscclpp_verbs_qp_t *qp)
{
    struct ibv_send_wr *refused = NULL;

    if (qp->listed > 0 && MSCCLPP_OK == qp->conn->status) {
        int error = ibv_post_send(qp->qp, &qp->list[0], &refused);
        if (0 != error) {
            fail_to_post(qp, "a work request", error);
        }
    }
    qp->listed = 0;
}

/* If the list is full, posts it first. So the caller must fill in a request before it asks for the next one. */
struct ibv_send_wr *mscclpp_verbs_next_request(mscclpp_verbs_qp_t *qp)
{
    struct ibv_send_wr *wr;

    if (MSCCLPP_VERBS_LIST_MAX == qp->listed) {
        mscclpp_verbs_ring_doorbell(qp);
    }
    wr = &qp->list[qp->listed];
    memset(wr, 0, sizeof(*wr));
    wr->wr_id = ++qp->posted;
    wr->sg_list = &qp->sges[qp->listed];
    if (qp->listed > 0) {
        qp->list[qp->listed - 1].next = wr;
    }
    ++qp->listed;
    /* Asks for a completion after every quarter of the queue, so that there is room again before it is full. */
    if (qp->posted - qp->last_asking >= qp->depth / 4) {
        wr->send_flags = IBV_SEND_SIGNALED;
        qp->last_asking = qp->posted;
    }
    return wr;
}

void mscclpp_verbs_send_control(mscclpp_verbs_qp_t *qp, uint32_t message)
{
    struct ibv_send_wr *wr = mscclpp_verbs_next_request(qp);

    wr->opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    wr->imm_data = mscclpp_verbs_imm(message);
    wr->wr.rdma.remote_addr = qp->conn->token_address;
    wr->wr.rdma.rkey = qp->conn->token_rkey;
}

void mscclpp_verbs_post_nothing(mscclpp_verbs_qp_t *qp)
{
    struct ibv_send_wr *wr = mscclpp_verbs_next_request(qp);

    wr->opcode = IBV_WR_RDMA_WRITE;
    wr->wr.rdma.remote_addr = qp->conn->token_address;
    wr->wr.rdma.rkey = qp->conn->token_rkey;
}

/*
 * A posted request can no longer be changed, so a write of no bytes asks for the completion in its place. Returns false
 * if the queue has no room for that. A request that has just been listed is not posted yet, so in that case callers may
 * ignore the result.
 */
bool mscclpp_verbs_ask_completion(mscclpp_verbs_qp_t *qp)
{
    if (qp->last_asking == qp->posted) {
        return true;
    }
    if (0 == qp->listed) {
        if (0 == mscclpp_verbs_free_slots(qp)) {
            return false;
        }
        mscclpp_verbs_post_nothing(qp);
    }
    qp->list[qp->listed - 1].send_flags |= IBV_SEND_SIGNALED;
    qp->last_asking = qp->posted;
    return true;
}

/*
 * Receive requests have no buffers, because messages consist only of their immediate data. A failure breaks the
 * connection, which ends the loop.
 */
void mscclpp_verbs_post_receives(mscclpp_verbs_qp_t *qp)
{
    struct ibv_recv_wr chain[MSCCLPP_VERBS_RECEIVE_CHAIN];
    struct ibv_recv_wr *refused = NULL;

    while (qp->receives_missing > 0 && MSCCLPP_OK == qp->conn->status) {
        int count =
            qp->receives_missing < MSCCLPP_VERBS_RECEIVE_CHAIN ? qp->receives_missing : MSCCLPP_VERBS_RECEIVE_CHAIN;
        int error;
        memset(chain, 0, sizeof(chain));
        for (int i = 0; i < count; ++i) {
            chain[i].wr_id = MSCCLPP_VERBS_RECEIVE_ID;
            chain[i].next = i + 1 < count ? &chain[i + 1] : NULL;
        }
        error = ibv_post_recv(qp->qp, chain, &refused);
        if (0 != error) {
            fail_to_post(qp, "a receive request", error);
        }
        qp->receives_missing -= count;
    }
}
