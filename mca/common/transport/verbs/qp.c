/* Queue pairs: creates, connects and destroys them. */
#include "mca/common/transport/verbs/internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/base/clock.h"
#include "mca/common/base/process.h"

#define INLINE_BYTES 128   /* wanted size of inline data: what fits next to a header into two or three cache lines */
#define MIN_DEPTH 16       /* work requests; the parameter verbs_queue_depth goes no lower either */
#define MIN_RNR_TIMER 1    /* 0.01 ms: how long the peer waits after it found no receive request */
#define PSN_MASK 0xffffffu /* packet sequence numbers have 24 bits */
#define HOP_LIMIT 64       /* the most routers between two ports */

/* 2^64 divided by the golden ratio, an odd number. Multiplying by it spreads a number over the high bits. */
#define HASH_FACTOR UINT64_C(0x9e3779b97f4a7c15)

/*
 * Returns the number of the first packet. The number differs between queue pairs, so that packets of an earlier one are
 * not taken for those of a later one.
 */
static uint32_t new_psn(const void *object)
{
    uint64_t mixed = mscclpp_process_token() ^ (uint64_t)(1e9 * mscclpp_now()) ^ ((uint64_t)(uintptr_t)object << 13);

    mixed *= HASH_FACTOR;
    return (uint32_t)(mixed >> 32) & PSN_MASK;
}

/* Returns the smaller of the two numbers. */
static int smaller(int a, int b)
{
    return a < b ? a : b;
}

/* Logs that a step of the connection has failed. `error` is an errno. Returns the status for it. */
static mscclpp_status_t log_failure(const mscclpp_conn_t *conn, const mscclpp_verbs_rail_t *rail, const char *step,
                                    int error)
{
    mscclpp_error("%s: verbs: %s for rank %d on %s port %d failed: %s%s", conn->transport->params.label, step,
                  conn->peer, rail->name, rail->port, strerror(error),
                  ENOMEM == error ? " (is the limit of locked memory, ulimit -l, too low?)" : "");
    return ENOMEM == error ? MSCCLPP_ERR_NO_MEMORY : MSCCLPP_ERR_SYSTEM;
}

/*
 * Creates a queue pair of depth qp->depth, which sends up to INLINE_BYTES bytes inline, or fewer if the device refuses
 * that. Returns NULL, with errno set, if the device refuses even 0 bytes.
 */
static struct ibv_qp *create_qp_inline(mscclpp_transport_t *transport, mscclpp_verbs_qp_t *qp)
{
    struct ibv_qp_init_attr attr;
    struct ibv_qp *created = NULL;

    /*
     * Halves the number of bytes until the device accepts. 0 is tried last, because everything also works without
     * inline data.
     */
    for (uint32_t inline_bytes = INLINE_BYTES; created == NULL; inline_bytes /= 2) {
        memset(&attr, 0, sizeof(attr));
        attr.qp_type = IBV_QPT_RC;
        attr.send_cq = qp->cq;
        attr.recv_cq = qp->cq;
        attr.cap.max_send_wr = qp->depth;
        attr.cap.max_recv_wr = (uint32_t)smaller(MSCCLPP_VERBS_RECEIVES, qp->rail->max_send);
        attr.cap.max_send_sge = 1;
        attr.cap.max_recv_sge = 1;
        attr.cap.max_inline_data = inline_bytes;
        created = transport->ibv.create_qp(qp->rail->pd, &attr);
        if (0 == inline_bytes) {
            break;
        }
    }
    qp->max_inline_bytes = created != NULL ? attr.cap.max_inline_data : 0;
    return created;
}

/*
 * Creates a queue pair, and sets qp->depth to the depth that it has. Halves the depth until the device accepts it,
 * because a device may count its limit in smaller units than work requests. A smaller depth only makes transfers
 * slower. Returns NULL, with errno set, on failure.
 */
static struct ibv_qp *create_qp(mscclpp_transport_t *transport, mscclpp_verbs_qp_t *qp)
{
    const uint32_t wanted_depth = qp->depth;
    struct ibv_qp *created = create_qp_inline(transport, qp);

    while (created == NULL && qp->depth > MIN_DEPTH) {
        qp->depth = qp->depth / 2 > MIN_DEPTH ? qp->depth / 2 : MIN_DEPTH;
        created = create_qp_inline(transport, qp);
    }
    if (created != NULL && qp->depth < wanted_depth) {
        mscclpp_debug("%s: verbs: a queue pair to rank %d on %s port %d holds %u work requests instead of %u",
                      transport->params.label, qp->conn->peer, qp->rail->name, qp->rail->port, qp->depth, wanted_depth);
    }
    return created;
}

/* Initialises a new queue pair: its port, and what the peer may do to memory. Returns 0 or an errno. */
static int move_to_init(mscclpp_verbs_qp_t *qp)
{
    struct ibv_qp_attr attr;

    memset(&attr, 0, sizeof(attr));
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = qp->rail->port;
    attr.pkey_index = qp->rail->pkey_index;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    if (qp->rail->has_atomics) {
        attr.qp_access_flags |= IBV_ACCESS_REMOTE_ATOMIC;
    }
    return qp->conn->transport->ibv.modify_qp(qp->qp, &attr,
                                              IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

mscclpp_status_t mscclpp_verbs_qp_create(mscclpp_conn_t *conn, mscclpp_verbs_rail_t *rail, mscclpp_verbs_qp_t **qp_p)
{
    mscclpp_transport_t *transport = conn->transport;
    const mscclpp_verbs_functions_t *ibv = &transport->ibv;
    mscclpp_verbs_qp_t *qp = calloc(1, sizeof(*qp));
    mscclpp_status_t status = MSCCLPP_OK;
    int error;

    if (qp == NULL) {
        mscclpp_error("%s: out of memory for a queue pair to rank %d", transport->params.label, conn->peer);
        return MSCCLPP_ERR_NO_MEMORY;
    }
    qp->conn = conn;
    qp->rail = rail;
    qp->psn = new_psn(qp);
    qp->depth = (uint32_t)smaller(transport->params.config->verbs_queue_depth, rail->max_send);
    /* Leaves room for receives in the completion queue. An HCA whose limit is too small for that may refuse it. */
    if (rail->max_cqe > 2 * MSCCLPP_VERBS_RECEIVES) {
        qp->depth = (uint32_t)smaller((int)qp->depth, rail->max_cqe - MSCCLPP_VERBS_RECEIVES);
    }
    /* After an error every work request has a completion, so the queue has an entry for each. */
    qp->cq = ibv->create_cq(rail->context, (int)qp->depth + MSCCLPP_VERBS_RECEIVES, NULL, NULL, 0);
    if (qp->cq == NULL) {
        status = log_failure(conn, rail, "making a completion queue", errno);
    } else {
        qp->qp = create_qp(transport, qp);
        if (qp->qp == NULL) {
            status = log_failure(conn, rail, "making a queue pair", errno);
        } else {
            error = move_to_init(qp);
            if (0 != error) {
                status = log_failure(conn, rail, "initialising a queue pair", error);
            }
        }
    }
    if (MSCCLPP_OK != status) {
        mscclpp_verbs_qp_destroy(qp);
        return status;
    }
    *qp_p = qp;
    return MSCCLPP_OK;
}

void mscclpp_verbs_qp_destroy(mscclpp_verbs_qp_t *qp)
{
    if (qp == NULL) {
        return;
    }
    /* Nothing here waits for work requests; the library only waits until the HCA has released the queues. */
    if ((qp->qp != NULL && 0 != qp->conn->transport->ibv.destroy_qp(qp->qp)) ||
        (qp->cq != NULL && 0 != qp->conn->transport->ibv.destroy_cq(qp->cq))) {
        mscclpp_warn("%s: verbs: a queue pair to rank %d could not be destroyed", qp->conn->transport->params.label,
                     qp->conn->peer);
    }
    free(qp);
}

void mscclpp_verbs_qp_address(const mscclpp_verbs_qp_t *qp, mscclpp_verbs_qp_address_t *address_p)
{
    const mscclpp_verbs_rail_t *rail = qp->rail;

    memset(address_p, 0, sizeof(*address_p));
    memcpy(address_p->gid, rail->gid.raw, sizeof(address_p->gid));
    address_p->qp_number = qp->qp->qp_num;
    address_p->psn = qp->psn;
    address_p->token_rkey = rail->token_mr != NULL ? rail->token_mr->rkey : 0;
    address_p->lid = rail->lid;
    address_p->link_layer = rail->link_layer;
    address_p->mtu = rail->mtu;
    address_p->global = rail->gid_index >= 0;
    address_p->max_read_in = (uint8_t)rail->max_read_in;
    address_p->grh_required = rail->grh_required;
}

/*
 * Returns true if packets to the peer need a global header. RoCE always needs the header, and InfiniBand needs it
 * between subnets. Within a subnet the LID is enough, unless the peer has none, one of the ports requires the header,
 * or the user has chosen a GID.
 */
static bool needs_global(const mscclpp_verbs_qp_t *qp, const mscclpp_verbs_qp_address_t *address)
{
    union ibv_gid peer_gid;

    memcpy(peer_gid.raw, address->gid, sizeof(peer_gid.raw));
    return IBV_LINK_LAYER_ETHERNET == address->link_layer || 0 == address->lid ||
           qp->conn->transport->params.config->verbs_gid_index >= 0 || qp->rail->grh_required ||
           0 != address->grh_required ||
           (qp->rail->gid_index >= 0 && address->global &&
            peer_gid.global.subnet_prefix != qp->rail->gid.global.subnet_prefix);
}

/* Makes the queue pair ready to receive from the peer. Returns 0 or an errno. */
static int move_to_ready_to_receive(mscclpp_verbs_qp_t *qp, const mscclpp_verbs_qp_address_t *address)
{
    const mscclpp_config_t *config = qp->conn->transport->params.config;
    const mscclpp_verbs_rail_t *rail = qp->rail;
    struct ibv_qp_attr attr;

    memset(&attr, 0, sizeof(attr));
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = (enum ibv_mtu)smaller(rail->mtu, address->mtu);
    attr.dest_qp_num = address->qp_number;
    attr.rq_psn = address->psn;
    attr.max_dest_rd_atomic = (uint8_t)rail->max_read_in;
    attr.min_rnr_timer = MIN_RNR_TIMER;
    attr.ah_attr.port_num = rail->port;
    attr.ah_attr.sl = (uint8_t)config->verbs_service_level;
    attr.ah_attr.dlid = address->lid;
    if (needs_global(qp, address)) {
        attr.ah_attr.is_global = 1;
        memcpy(attr.ah_attr.grh.dgid.raw, address->gid, sizeof(address->gid));
        attr.ah_attr.grh.sgid_index = (uint8_t)rail->gid_index;
        attr.ah_attr.grh.hop_limit = HOP_LIMIT;
        attr.ah_attr.grh.traffic_class = (uint8_t)config->verbs_traffic_class;
    }
    return qp->conn->transport->ibv.modify_qp(qp->qp, &attr,
                                              IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                                  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

/*
 * Makes the queue pair ready to send, too. Returns 0 or an errno. The number of reads and atomics in progress is
 * limited to the number that the peer can answer.
 */
static int move_to_ready_to_send(mscclpp_verbs_qp_t *qp, const mscclpp_verbs_qp_address_t *address)
{
    const mscclpp_config_t *config = qp->conn->transport->params.config;
    struct ibv_qp_attr attr;

    memset(&attr, 0, sizeof(attr));
    attr.qp_state = IBV_QPS_RTS;
    attr.sq_psn = qp->psn;
    attr.timeout = (uint8_t)config->verbs_timeout;
    attr.retry_cnt = (uint8_t)config->verbs_retry_count;
    attr.rnr_retry = (uint8_t)config->verbs_rnr_retry;
    attr.max_rd_atomic = (uint8_t)smaller(qp->rail->max_read_out, address->max_read_in);
    return qp->conn->transport->ibv.modify_qp(qp->qp, &attr,
                                              IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                                  IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
}

/*
 * Checks that the two ports can reach each other. The links must be of the same kind, the peer's MTU must be valid, and
 * both ports must have GIDs of the same kind if packets need them. Packets between GIDs of different kinds would never
 * be answered. Otherwise returns MSCCLPP_ERR_NOT_SUPPORTED, with the reason at the info level.
 */
static mscclpp_status_t check_reachable(const mscclpp_verbs_qp_t *qp, const mscclpp_verbs_qp_address_t *address)
{
    const mscclpp_verbs_rail_t *rail = qp->rail;
    char own_gid_text[INET6_ADDRSTRLEN] = "";
    char peer_gid_text[INET6_ADDRSTRLEN] = "";
    union ibv_gid peer_gid;

    if (address->link_layer != rail->link_layer || address->mtu < IBV_MTU_256 || address->mtu > IBV_MTU_4096 ||
        (needs_global(qp, address) && (!address->global || rail->gid_index < 0))) {
        mscclpp_info("%s: no verbs to rank %d: its port is of another kind than %s port %d, or has no GID",
                     qp->conn->transport->params.label, qp->conn->peer, rail->name, rail->port);
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    memcpy(peer_gid.raw, address->gid, sizeof(peer_gid.raw));
    if (needs_global(qp, address) && !mscclpp_verbs_gids_match(&peer_gid, &rail->gid)) {
        (void)inet_ntop(AF_INET6, rail->gid.raw, own_gid_text, sizeof(own_gid_text));
        (void)inet_ntop(AF_INET6, peer_gid.raw, peer_gid_text, sizeof(peer_gid_text));
        mscclpp_info("%s: no verbs to rank %d: its GID %s and ours %s (index %d of %s) are of different kinds; "
                     "verbs_gid_index can choose others",
                     qp->conn->transport->params.label, qp->conn->peer, peer_gid_text, own_gid_text, rail->gid_index,
                     rail->name);
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    return MSCCLPP_OK;
}

mscclpp_status_t mscclpp_verbs_qp_connect(mscclpp_verbs_qp_t *qp, const mscclpp_verbs_qp_address_t *address)
{
    mscclpp_conn_t *conn = qp->conn;
    mscclpp_status_t status = check_reachable(qp, address);
    int error;

    if (MSCCLPP_OK != status) {
        return status;
    }
    /*
     * Only the first queue pair receives messages. Its receive requests are posted before anything else, because the
     * peer may send as soon as both sides are ready to receive.
     */
    if (qp == conn->qps[0]) {
        qp->receives_wanted =
            smaller(conn->atomic ? MSCCLPP_VERBS_CONTROL_RECEIVES : MSCCLPP_VERBS_RECEIVES, qp->rail->max_send);
        qp->receives_missing = qp->receives_wanted;
        mscclpp_verbs_post_receives(qp);
        if (MSCCLPP_OK != conn->status) {
            return conn->status;
        }
    }
    error = move_to_ready_to_receive(qp, address);
    if (0 == error) {
        error = move_to_ready_to_send(qp, address);
    }
    return 0 == error ? MSCCLPP_OK : log_failure(conn, qp->rail, "connecting a queue pair", error);
}
