/* Memory that the HCAs read and write. */
#include "mca/common/transport/verbs/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEY_MAGIC 0x6d737672u /* to be changed together with region_key_t */

/* The description of a region that the peers get. */
typedef struct {
    uint32_t magic;      /* KEY_MAGIC */
    uint16_t rail_count; /* entries of `rkeys` in use */
    uint16_t bounced;    /* 1: the owner bounces the region, and the keys are 0 */
    uint64_t address;    /* in the owner's process */
    uint64_t length;     /* bytes */
    uint32_t rkeys[MSCCLPP_VERBS_MAX_RAILS];
} region_key_t;

_Static_assert(sizeof(region_key_t) <= MSCCLPP_TRANSPORT_KEY_MAX, "a region's key fits");

/* Registers memory by its address. Returns NULL, with errno set and nothing logged, if that fails. */
static struct ibv_mr *register_plain(mscclpp_transport_t *transport, mscclpp_verbs_rail_t *rail, void *address,
                                     size_t length, int access)
{
    /* The older function refuses unknown access flags, even if they are only hints. */
    if (0 != (access & IBV_ACCESS_OPTIONAL_RANGE) && transport->ibv.reg_mr_iova2 != NULL) {
        return transport->ibv.reg_mr_iova2(rail->pd, address, length, (uintptr_t)address, (unsigned)access);
    }
    return transport->ibv.reg_mr(rail->pd, address, length, access & ~IBV_ACCESS_OPTIONAL_RANGE);
}

/*
 * Registers device memory by a file descriptor of it. Returns NULL, with errno set and nothing logged, if this is not
 * possible here.
 */
static struct ibv_mr *register_dmabuf(mscclpp_transport_t *transport, mscclpp_verbs_rail_t *rail, void *address,
                                      size_t length, int access)
{
    const mscclpp_gpu_ops_t *gpu = transport->params.gpu;
    struct ibv_mr *mr;
    uint64_t offset;
    int saved_errno;
    int fd;

    if (transport->ibv.reg_dmabuf_mr == NULL || gpu->export_dmabuf == NULL ||
        MSCCLPP_OK != gpu->export_dmabuf(address, length, &fd, &offset)) {
        errno = EOPNOTSUPP;
        return NULL;
    }
    mr = transport->ibv.reg_dmabuf_mr(rail->pd, offset, length, (uintptr_t)address, fd, access);
    saved_errno = errno;
    close(fd); /* the registration needs it no longer */
    errno = saved_errno;
    return mr;
}

mscclpp_mem_kind_t mscclpp_verbs_memory_kind(const mscclpp_transport_t *transport, const void *address)
{
    mscclpp_mem_info_t info;

    transport->params.gpu->query(address, &info);
    return transport->params.gpu->twin && info.base == NULL ? MSCCLPP_MEM_HOST : info.kind;
}

/*
 * The parameter verbs_registration may allow only one of the two ways of registering device memory. Host memory is
 * always registered by its address, and managed memory never. Returns NULL, with the reason at the info level, if the
 * memory is not registered.
 */
struct ibv_mr *mscclpp_verbs_register(mscclpp_transport_t *transport, mscclpp_verbs_rail_t *rail, void *address,
                                      size_t length, mscclpp_mem_kind_t kind, int access)
{
    const char *parameter = transport->params.config->verbs_registration;
    const bool allows_any = 0 == strcmp(parameter, "auto");
    const bool is_device = MSCCLPP_MEM_DEVICE == kind && !transport->cpu_reads_all;
    struct ibv_mr *mr = NULL;
    int dmabuf_error = EPERM; /* EPERM: not tried */
    int plain_error = EPERM;

    if (MSCCLPP_MEM_MANAGED == kind) {
        mscclpp_info("%s cannot register managed memory, which moves by itself", rail->name);
        return NULL;
    }
    if (is_device && (allows_any || 0 == strcmp(parameter, "dmabuf"))) {
        mr = register_dmabuf(transport, rail, address, length, access);
        dmabuf_error = errno;
    }
    if (mr == NULL && (!is_device || allows_any || 0 == strcmp(parameter, "peermem"))) {
        /* For device memory this needs the kernel module that gives it to HCAs (nvidia_peermem). */
        mr = register_plain(transport, rail, address, length, access);
        plain_error = errno;
    }
    if (mr == NULL && is_device) {
        mscclpp_info("%s cannot register %zu bytes of device memory: as a dma-buf: %s; through nvidia_peermem: %s",
                     rail->name, length, dmabuf_error == EPERM ? "off" : strerror(dmabuf_error),
                     plain_error == EPERM ? "off" : strerror(plain_error));
    } else if (mr == NULL) {
        mscclpp_info("%s cannot register %zu bytes of host memory: %s%s", rail->name, length, strerror(plain_error),
                     ENOMEM == plain_error ? " (is the limit of locked memory, ulimit -l, too low?)" : "");
    }
    return mr;
}

/*
 * Makes a region, and registers it on all rails. Bounced device memory is not registered. If a rail refuses the memory,
 * undoes the other registrations and returns MSCCLPP_ERR_NOT_SUPPORTED. Returns MSCCLPP_ERR_INVALID for 0 bytes,
 * MSCCLPP_ERR_NO_MEMORY, or the error of `settle`.
 */
mscclpp_status_t mscclpp_verbs_region_create(mscclpp_transport_t *transport, void *address, size_t length,
                                             mscclpp_region_t **region_p)
{
    int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    mscclpp_region_t *region;
    mscclpp_mem_kind_t kind;
    mscclpp_status_t status;

    if (0 == length) {
        mscclpp_error("%s: verbs: a region of 0 bytes is not allowed", transport->params.label);
        return MSCCLPP_ERR_INVALID;
    }
    status = transport->params.gpu->settle(address);
    if (MSCCLPP_OK != status) {
        return status;
    }
    region = calloc(1, sizeof(*region));
    if (region == NULL) {
        mscclpp_error("%s: out of memory for a region", transport->params.label);
        return MSCCLPP_ERR_NO_MEMORY;
    }
    kind = mscclpp_verbs_memory_kind(transport, address);
    region->transport = transport;
    region->address = (uintptr_t)address;
    region->length = length;
    region->cpu_readable = transport->cpu_reads_all || MSCCLPP_MEM_DEVICE != kind;
    if (transport->params.config->verbs_relaxed_ordering) {
        access |= IBV_ACCESS_RELAXED_ORDERING;
    }
    region->bounced = transport->bounces && MSCCLPP_MEM_DEVICE == kind;
    if (region->bounced) {
        region->next = transport->bounced_regions;
        transport->bounced_regions = region;
    }
    for (int i = 0; i < transport->rail_count && !region->bounced; ++i) {
        mscclpp_verbs_rail_t *rail = &transport->rails[i];
        region->mrs[i] = mscclpp_verbs_register(transport, rail, address, length, kind,
                                                access | (rail->has_atomics ? IBV_ACCESS_REMOTE_ATOMIC : 0));
        if (region->mrs[i] == NULL) {
            mscclpp_verbs_region_destroy(region);
            return MSCCLPP_ERR_NOT_SUPPORTED;
        }
    }
    *region_p = region;
    return MSCCLPP_OK;
}

/* Writes the description of the region for peers (region_key_t). A bounced region has no keys of rails. */
mscclpp_status_t mscclpp_verbs_region_key(const mscclpp_region_t *region, void *key, size_t *length_p)
{
    region_key_t own_key;

    memset(&own_key, 0, sizeof(own_key));
    own_key.magic = KEY_MAGIC;
    own_key.rail_count = (uint16_t)region->transport->rail_count;
    own_key.bounced = region->bounced;
    own_key.address = region->address;
    own_key.length = region->length;
    for (int i = 0; i < region->transport->rail_count && !region->bounced; ++i) {
        own_key.rkeys[i] = region->mrs[i]->rkey;
    }
    memcpy(key, &own_key, sizeof(own_key));
    *length_p = sizeof(own_key);
    return MSCCLPP_OK;
}

/* Transfers that still use the region break their connections. Waits for the copies of a bounced region. */
void mscclpp_verbs_region_destroy(mscclpp_region_t *region)
{
    if (region == NULL) {
        return;
    }
    /* Only a bounced region is in the list. Once it has left the list, no message can write to it. */
    for (mscclpp_region_t **link = &region->transport->bounced_regions; *link != NULL; link = &(*link)->next) {
        if (region == *link) {
            *link = region->next;
            mscclpp_verbs_bounce_wait(region->transport);
            break;
        }
    }
    for (int i = 0; i < region->transport->rail_count; ++i) {
        if (region->mrs[i] != NULL && 0 != region->transport->ibv.dereg_mr(region->mrs[i])) {
            mscclpp_warn("%s: verbs: a region of %llu bytes could not be unregistered", region->transport->params.label,
                         (unsigned long long)region->length);
        }
    }
    free(region);
}

/*
 * Makes a peer's region known to a connection. The connection must be connected, and the key must have an entry for
 * each of its rails. A bounced region also needs the landing memory that the peer's address named, so that its puts
 * find the bounce state. If one of these conditions is not met, returns MSCCLPP_ERR_INVALID.
 */
mscclpp_status_t mscclpp_verbs_remote_create(mscclpp_conn_t *conn, const void *key, size_t length,
                                             mscclpp_remote_t **remote_p)
{
    const char *label = conn->transport->params.label;
    mscclpp_remote_t *remote;
    region_key_t peer_key;

    if (length != sizeof(peer_key)) {
        mscclpp_error("%s: verbs: the key of a region of rank %d has %zu bytes instead of %zu", label, conn->peer,
                      length, sizeof(peer_key));
        return MSCCLPP_ERR_INVALID;
    }
    memcpy(&peer_key, key, sizeof(peer_key));
    if (KEY_MAGIC != peer_key.magic || !conn->connected || peer_key.rail_count < conn->qp_count ||
        peer_key.rail_count > MSCCLPP_VERBS_MAX_RAILS || peer_key.bounced > 1 ||
        (peer_key.bounced && (conn->bounce == NULL || 0 == conn->bounce->peer_in))) {
        mscclpp_error("%s: verbs: what rank %d sent is not the key of a region of a connected peer", label, conn->peer);
        return MSCCLPP_ERR_INVALID;
    }
    remote = calloc(1, sizeof(*remote));
    if (remote == NULL) {
        mscclpp_error("%s: out of memory for a region of rank %d", label, conn->peer);
        return MSCCLPP_ERR_NO_MEMORY;
    }
    remote->conn = conn;
    remote->address = peer_key.address;
    remote->length = peer_key.length;
    remote->bounced = peer_key.bounced;
    memcpy(remote->rkeys, peer_key.rkeys, sizeof(remote->rkeys));
    *remote_p = remote;
    return MSCCLPP_OK;
}

void mscclpp_verbs_remote_destroy(mscclpp_remote_t *remote)
{
    free(remote);
}
