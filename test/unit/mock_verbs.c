#include "test/unit/mock_verbs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
#include <sys/mman.h>
#include <unistd.h>

#define QPS_MAX 64
#define MRS_MAX 256
#define EXPORTED __attribute__((visibility("default")))

typedef struct {
    struct ibv_cq cq;
    struct ibv_wc *wcs;
    int size;
    int first;
    int count;
} mock_cq_t;

typedef struct {
    struct ibv_qp qp;
    uint32_t peer;
    uint64_t *receives;
    int receive_count;
    bool broken;
} mock_qp_t;

EXPORTED mock_verbs_t mock_verbs;

static struct ibv_device devices[MOCK_DEVICES_MAX];

__attribute__((constructor)) static void be_useless(void)
{
    if (getenv("MOCK_VERBS_USELESS") != NULL) {
        mock_verbs.devices = 1;
        mock_verbs.link_layer = IBV_LINK_LAYER_INFINIBAND;
        mock_verbs.max_message = 1u << 30;
        mock_verbs.max_depth = 1;
        mock_verbs.active[0] = true;
        mock_verbs.rate[0] = 32;
    }
}

static mock_qp_t *qps[QPS_MAX];
static struct ibv_mr *mrs[MRS_MAX];
static mock_qp_t *last_qp;

static int device_index(const struct ibv_context *context)
{
    return (int)(context->device - devices);
}

static void complete(struct ibv_cq *base, uint64_t id, enum ibv_wc_status status, enum ibv_wc_opcode opcode,
                     uint32_t imm)
{
    mock_cq_t *cq = (mock_cq_t *)base;
    struct ibv_wc *wc = &cq->wcs[(cq->first + cq->count) % cq->size];

    if (cq->count == cq->size) {
        fprintf(stderr, "mock_verbs: a completion queue of %d overflows\n", cq->size);
        abort();
    }
    ++cq->count;
    memset(wc, 0, sizeof(*wc));
    wc->wr_id = id;
    wc->status = status;
    wc->opcode = opcode;
    wc->imm_data = imm;
    wc->vendor_err = status != IBV_WC_SUCCESS ? 0x77 : 0;
}

static int poll_cq(struct ibv_cq *base, int wanted, struct ibv_wc *wc)
{
    mock_cq_t *cq = (mock_cq_t *)base;
    int count = 0;

    for (; count < wanted && cq->count > 0 && !mock_verbs.held; ++count, --cq->count) {
        wc[count] = cq->wcs[cq->first];
        cq->first = (cq->first + 1) % cq->size;
    }
    return count;
}

static bool may_touch(uint32_t rkey, uint64_t address, uint64_t length, int access)
{
    const struct ibv_mr *mr = rkey < MRS_MAX ? mrs[rkey] : NULL;

    /* The handle keeps the access flags. */
    return length == 0 || (mr != NULL && address >= (uintptr_t)mr->addr && length <= mr->length &&
                           address - (uintptr_t)mr->addr <= mr->length - length && (mr->handle & (uint32_t)access));
}

static enum ibv_wc_status carry_out(mock_qp_t *qp, const struct ibv_send_wr *wr)
{
    mock_qp_t *peer = qp->peer < QPS_MAX ? qps[qp->peer] : NULL;
    const uint64_t length = wr->num_sge > 0 ? wr->sg_list->length : 0;
    uint64_t old;

    if (peer == NULL || peer->broken) {
        return IBV_WC_RETRY_EXC_ERR;
    }
    if (length > mock_verbs.max_message || (wr->num_sge > 0 && (wr->send_flags & IBV_SEND_INLINE) == 0 &&
                                            !may_touch(wr->sg_list->lkey, wr->sg_list->addr, length, -1))) {
        return IBV_WC_LOC_PROT_ERR;
    }
    switch (wr->opcode) {
    case IBV_WR_RDMA_WRITE_WITH_IMM:
    case IBV_WR_RDMA_WRITE:
        if (!may_touch(wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, length, IBV_ACCESS_REMOTE_WRITE)) {
            return IBV_WC_REM_ACCESS_ERR;
        }
        if (length > 0) {
            memcpy((void *)(uintptr_t)wr->wr.rdma.remote_addr, (void *)(uintptr_t)wr->sg_list->addr, length);
        }
        mock_verbs.written[device_index(qp->qp.context)] += length;
        mock_verbs.largest = length > mock_verbs.largest ? length : mock_verbs.largest;
        mock_verbs.inlined += (wr->send_flags & IBV_SEND_INLINE) != 0;
        if (wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
            if (peer->receive_count == 0) {
                return IBV_WC_RNR_RETRY_EXC_ERR;
            }
            --mock_verbs.receives;
            complete(peer->qp.recv_cq, peer->receives[--peer->receive_count], IBV_WC_SUCCESS, IBV_WC_RECV_RDMA_WITH_IMM,
                     wr->imm_data);
        }
        return IBV_WC_SUCCESS;
    case IBV_WR_RDMA_READ:
        if (!may_touch(wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, length, IBV_ACCESS_REMOTE_READ)) {
            return IBV_WC_REM_ACCESS_ERR;
        }
        memcpy((void *)(uintptr_t)wr->sg_list->addr, (void *)(uintptr_t)wr->wr.rdma.remote_addr, length);
        ++mock_verbs.reads;
        return IBV_WC_SUCCESS;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        if (mock_verbs.atomic_cap == IBV_ATOMIC_NONE || wr->wr.atomic.remote_addr % 8 != 0 ||
            !may_touch(wr->wr.atomic.rkey, wr->wr.atomic.remote_addr, 8, IBV_ACCESS_REMOTE_ATOMIC)) {
            return IBV_WC_REM_ACCESS_ERR;
        }
        old = __atomic_fetch_add((uint64_t *)(uintptr_t)wr->wr.atomic.remote_addr, wr->wr.atomic.compare_add,
                                 __ATOMIC_SEQ_CST);
        memcpy((void *)(uintptr_t)wr->sg_list->addr, &old, sizeof(old));
        return IBV_WC_SUCCESS;
    default:
        return IBV_WC_LOC_QP_OP_ERR;
    }
}

static int post_send(struct ibv_qp *base, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    mock_qp_t *qp = (mock_qp_t *)base;

    ++mock_verbs.doorbells;
    if (mock_verbs.refuse_after > 0 && --mock_verbs.refuse_after == 0) {
        *bad = wr;
        return ENOMEM;
    }
    for (; wr != NULL; wr = wr->next) {
        enum ibv_wc_status status = qp->broken ? IBV_WC_WR_FLUSH_ERR : IBV_WC_SUCCESS;

        ++mock_verbs.requests;
        if (mock_verbs.fail_after > 0 && --mock_verbs.fail_after == 0) {
            status = (enum ibv_wc_status)mock_verbs.fail_status;
        }
        if (status == IBV_WC_SUCCESS) {
            status = carry_out(qp, wr);
        }
        qp->broken = qp->broken || status != IBV_WC_SUCCESS;
        if (status != IBV_WC_SUCCESS || (wr->send_flags & IBV_SEND_SIGNALED) != 0) {
            mock_verbs.signalled += status == IBV_WC_SUCCESS;
            complete(qp->qp.send_cq, wr->wr_id, status, IBV_WC_RDMA_WRITE, 0);
        }
    }
    return 0;
}

static int post_recv(struct ibv_qp *base, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    mock_qp_t *qp = (mock_qp_t *)base;

    (void)bad;
    for (; wr != NULL; wr = wr->next) {
        qp->receives = realloc(qp->receives, sizeof(*qp->receives) * (size_t)(qp->receive_count + 1));
        qp->receives[qp->receive_count++] = wr->wr_id;
        ++mock_verbs.receives;
    }
    return 0;
}

/* The functions of the library. Their names have macros in the header, which are not wanted here. */
#undef ibv_get_device_list
#undef ibv_query_port
#undef ibv_reg_mr

EXPORTED struct ibv_device **ibv_get_device_list(int *count_p)
{
    struct ibv_device **list = calloc(MOCK_DEVICES_MAX + 1, sizeof(*list));

    for (int i = 0; i < mock_verbs.devices; ++i) {
        const char *path = mock_verbs.paths[i];

        snprintf(devices[i].name, sizeof(devices[i].name), "mock%d", i);
        snprintf(devices[i].ibdev_path, sizeof(devices[i].ibdev_path), "%s", path != NULL ? path : "");
        list[i] = &devices[i];
    }
    *count_p = mock_verbs.devices;
    return list;
}

EXPORTED void ibv_free_device_list(struct ibv_device **list)
{
    free(list);
}

EXPORTED const char *ibv_get_device_name(struct ibv_device *device)
{
    return device->name;
}

EXPORTED struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    struct ibv_context *context = calloc(1, sizeof(*context));

    context->device = device;
    context->async_fd = -1;
    context->ops.poll_cq = poll_cq;
    context->ops.post_send = post_send;
    context->ops.post_recv = post_recv;
    ++mock_verbs.objects;
    return context;
}

EXPORTED int ibv_close_device(struct ibv_context *context)
{
    free(context);
    --mock_verbs.objects;
    return 0;
}

EXPORTED int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
    (void)context;
    memset(attr, 0, sizeof(*attr));
    attr->phys_port_cnt = 1;
    attr->atomic_cap = (enum ibv_atomic_cap)mock_verbs.atomic_cap;
    attr->max_qp_wr = 1024;
    attr->max_cqe = 4096;
    attr->max_qp_rd_atom = 8;
    attr->max_qp_init_rd_atom = 4;
    return 0;
}

EXPORTED int ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *compat)
{
    struct ibv_port_attr *attr = (struct ibv_port_attr *)compat;
    const int device = device_index(context);
    const int link_layer = mock_verbs.link_layers[device] != 0 ? mock_verbs.link_layers[device] : mock_verbs.link_layer;

    attr->state = mock_verbs.active[device] && port == 1 ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
    attr->active_mtu = IBV_MTU_4096;
    attr->max_msg_sz = mock_verbs.max_message;
    attr->gid_tbl_len = 4;
    attr->pkey_tbl_len = 4;
    attr->flags = (uint8_t)mock_verbs.port_flags[device];
    attr->lid = link_layer == IBV_LINK_LAYER_INFINIBAND ? (uint16_t)(device + 1) : 0;
    attr->active_width = (uint8_t)(mock_verbs.width[device] != 0 ? mock_verbs.width[device] : 2);
    attr->active_speed = (uint8_t)mock_verbs.rate[device];
    attr->link_layer = (uint8_t)link_layer;
    return 0;
}

EXPORTED int ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
    (void)context;
    (void)port;
    *gid = mock_verbs.gids[index];
    return 0;
}

EXPORTED int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index, struct ibv_gid_entry *entry,
                               uint32_t flags, size_t size)
{
    (void)context;
    (void)flags;
    memset(entry, 0, size);
    entry->gid = mock_verbs.gids[index];
    entry->gid_type = (uint32_t)mock_verbs.gid_types[index];
    entry->gid_index = index;
    entry->port_num = port;
    return 0;
}

EXPORTED int ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
    (void)context;
    (void)port;
    *pkey = htons(mock_verbs.pkeys[index]);
    return 0;
}

EXPORTED struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
    struct ibv_pd *pd = calloc(1, sizeof(*pd));

    pd->context = context;
    ++mock_verbs.objects;
    return pd;
}

EXPORTED int ibv_dealloc_pd(struct ibv_pd *pd)
{
    free(pd);
    --mock_verbs.objects;
    return 0;
}

static void keep_from_children(const struct ibv_mr *mr, int advice)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t begin = (uintptr_t)mr->addr / page * page;

    if (mock_verbs.fork_safe && madvise((void *)begin, (uintptr_t)mr->addr + mr->length - begin, advice) != 0) {
        perror("mock_verbs: madvise");
        abort();
    }
}

static struct ibv_mr *register_memory(struct ibv_pd *pd, uint64_t address, size_t length, int access)
{
    struct ibv_mr *mr = calloc(1, sizeof(*mr));
    uint32_t key = 1;

    while (key < MRS_MAX && mrs[key] != NULL) {
        ++key;
    }
    if (key == MRS_MAX || length == 0) {
        free(mr);
        errno = EINVAL;
        return NULL;
    }
    mr->pd = pd;
    mr->context = pd->context;
    mr->addr = (void *)(uintptr_t)address;
    mr->length = length;
    mr->handle = (uint32_t)access;
    mr->lkey = mr->rkey = key;
    mrs[key] = mr;
    keep_from_children(mr, MADV_DONTFORK);
    mock_verbs.last_access = access;
    ++mock_verbs.objects;
    return mr;
}

EXPORTED struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *address, size_t length, int access)
{
    if ((uintptr_t)address >= mock_verbs.foreign && (uintptr_t)address < mock_verbs.foreign_end &&
        !mock_verbs.peermem) {
        errno = EFAULT;
        return NULL;
    }
    ++mock_verbs.plain_mrs;
    return register_memory(pd, (uintptr_t)address, length, access);
}

EXPORTED struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *address, size_t length, uint64_t iova,
                                         unsigned access)
{
    (void)iova;
    return ibv_reg_mr(pd, address, length, (int)access);
}

EXPORTED struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
                                          int access)
{
    if (!mock_verbs.dmabuf || fd < 0) {
        errno = EOPNOTSUPP;
        return NULL;
    }
    ++mock_verbs.dmabuf_mrs;
    mock_verbs.dmabuf_offset = offset;
    return register_memory(pd, iova, length, access);
}

EXPORTED int ibv_dereg_mr(struct ibv_mr *mr)
{
    mrs[mr->rkey] = NULL;
    keep_from_children(mr, MADV_DOFORK);
    free(mr);
    --mock_verbs.objects;
    return 0;
}

EXPORTED struct ibv_cq *ibv_create_cq(struct ibv_context *context, int entries, void *cq_context,
                                      struct ibv_comp_channel *channel, int vector)
{
    mock_cq_t *cq = calloc(1, sizeof(*cq));

    (void)channel;
    (void)vector;
    cq->cq.context = context;
    cq->cq.cq_context = cq_context;
    cq->size = entries;
    cq->wcs = calloc((size_t)entries, sizeof(*cq->wcs));
    ++mock_verbs.objects;
    return &cq->cq;
}

EXPORTED int ibv_destroy_cq(struct ibv_cq *base)
{
    free(((mock_cq_t *)base)->wcs);
    free(base);
    --mock_verbs.objects;
    return 0;
}

EXPORTED struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    mock_qp_t *qp;
    uint32_t number = 1;

    while (number < QPS_MAX && qps[number] != NULL) {
        ++number;
    }
    if (number == QPS_MAX || attr->cap.max_inline_data > mock_verbs.max_inline ||
        (mock_verbs.max_depth > 0 && attr->cap.max_send_wr > mock_verbs.max_depth)) {
        errno = EINVAL;
        return NULL;
    }
    qp = calloc(1, sizeof(*qp));
    qp->qp.context = pd->context;
    qp->qp.pd = pd;
    qp->qp.send_cq = attr->send_cq;
    qp->qp.recv_cq = attr->recv_cq;
    qp->qp.qp_num = number;
    qps[number] = last_qp = qp;
    ++mock_verbs.objects;
    return &qp->qp;
}

EXPORTED int ibv_modify_qp(struct ibv_qp *base, struct ibv_qp_attr *attr, int mask)
{
    if (attr->qp_state == IBV_QPS_INIT) {
        mock_verbs.pkey_index = (mask & IBV_QP_PKEY_INDEX) != 0 ? attr->pkey_index : -1;
    } else if (attr->qp_state == IBV_QPS_RTR) {
        ((mock_qp_t *)base)->peer = attr->dest_qp_num;
        mock_verbs.rtr = *attr;
    } else if (attr->qp_state == IBV_QPS_RTS) {
        mock_verbs.rts = *attr;
    }
    return 0;
}

EXPORTED int ibv_destroy_qp(struct ibv_qp *base)
{
    mock_qp_t *qp = (mock_qp_t *)base;

    mock_verbs.receives -= qp->receive_count;
    qps[base->qp_num] = NULL;
    last_qp = last_qp == qp ? NULL : last_qp;
    free(qp->receives);
    free(qp);
    --mock_verbs.objects;
    return 0;
}

EXPORTED int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
    if (mock_verbs.event < 0 || last_qp == NULL || last_qp->qp.context != context) {
        errno = EAGAIN;
        return -1;
    }
    event->event_type = (enum ibv_event_type)mock_verbs.event;
    event->element.qp = &last_qp->qp;
    mock_verbs.event = -1;
    return 0;
}

EXPORTED void ibv_ack_async_event(struct ibv_async_event *event)
{
    (void)event;
}

EXPORTED const char *ibv_event_type_str(enum ibv_event_type event)
{
    return event == IBV_EVENT_QP_FATAL ? "local work queue catastrophic error" : "some event";
}

EXPORTED const char *ibv_wc_status_str(enum ibv_wc_status status)
{
    return status == IBV_WC_RETRY_EXC_ERR ? "transport retry counter exceeded" : "some status";
}
