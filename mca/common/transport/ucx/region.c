#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mca/common/base/log.h"
#include "mca/common/transport/ucx/internal.h"

/* Registers host memory with UCX. Returns false after a failure, which is logged at the info level. */
static bool map_memory(mscclpp_transport_t *transport, void *address, size_t length, ucp_mem_h *memory_p)
{
    const ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
                                                       UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                                                       UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE,
                                         .address = address,
                                         .length = length,
                                         .memory_type = UCS_MEMORY_TYPE_HOST};

    return mscclpp_transport_ucx_succeeded(transport, "ucp_mem_map",
                                           transport->ucx.ucp_mem_map(transport->context, &params, memory_p));
}

/*
 * Makes a region, and registers it with UCX if direct puts are wanted. Device memory is never registered, because its
 * data is sent in messages. An empty region is not registered either.
 *
 * Returns the error of the GPU runtime if the memory cannot be settled, MSCCLPP_ERR_NO_MEMORY, or MSCCLPP_ERR_SYSTEM if
 * UCX refuses to register the memory. After a failure, nothing is left.
 */
mscclpp_status_t mscclpp_transport_ucx_region_create(mscclpp_transport_t *transport, void *address, size_t length,
                                                     mscclpp_region_t **region_p)
{
    mscclpp_region_t *region = calloc(1, sizeof(*region));
    mscclpp_status_t status = transport->params.gpu->settle(address);

    if (status != MSCCLPP_OK) {
        free(region);
        return status;
    }
    if (region != NULL) {
        region->id = mscclpp_transport_ucx_enter(&transport->region_ids, region);
    }
    if (region == NULL || region->id == 0) {
        mscclpp_error("%s: out of memory for a region of %zu bytes", transport->params.label, length);
        free(region);
        return MSCCLPP_ERR_NO_MEMORY;
    }
    region->transport = transport;
    region->address = address;
    region->length = length;
    /* Asked now and never again: later a kernel may be waiting for the thread that asks the GPU's runtime. */
    region->on_device = length > 0 && transport->copies && transport->params.gpu->is_device(address, NULL);
    if (length > 0 && transport->registers_host && !region->on_device &&
        !map_memory(transport, address, length, &region->memory)) {
        mscclpp_error("%s: UCX cannot register the %zu bytes at %p", transport->params.label, length, address);
        mscclpp_transport_ucx_remove(&transport->region_ids, region->id);
        free(region);
        return MSCCLPP_ERR_SYSTEM;
    }
    transport->device_regions += region->on_device;
    *region_p = region;
    return MSCCLPP_OK;
}

/*
 * Writes the key: its head (ucx_key_t) and, if UCX can access the region, UCX's remote key. Returns MSCCLPP_ERR_SYSTEM
 * if UCX yields no key or one that is too long.
 */
mscclpp_status_t mscclpp_transport_ucx_region_key(const mscclpp_region_t *region, void *key, size_t *length_p)
{
    const mscclpp_transport_t *transport = region->transport;
    ucx_key_t head = {
        .magic = UCX_MAGIC, .region = region->id, .address = (uintptr_t)region->address, .length = region->length};
    void *rkey = NULL;
    size_t rkey_length = 0;

    if (region->memory != NULL) {
        ucs_status_t status = transport->ucx.ucp_rkey_pack(transport->context, region->memory, &rkey, &rkey_length);
        if (status != UCS_OK || sizeof(head) + rkey_length > MSCCLPP_TRANSPORT_KEY_MAX) {
            mscclpp_error("%s: no key for the %zu bytes at %p: %s, %zu bytes, and there is room for %d",
                          transport->params.label, region->length, (void *)region->address,
                          transport->ucx.ucs_status_string(status), sizeof(head) + rkey_length,
                          MSCCLPP_TRANSPORT_KEY_MAX);
            if (status == UCS_OK) {
                transport->ucx.ucp_rkey_buffer_release(rkey);
            }
            return MSCCLPP_ERR_SYSTEM;
        }
        memcpy((char *)key + sizeof(head), rkey, rkey_length);
        transport->ucx.ucp_rkey_buffer_release(rkey);
    }
    head.rkey_length = rkey_length;
    memcpy(key, &head, sizeof(head));
    *length_p = sizeof(head) + rkey_length;
    return MSCCLPP_OK;
}

/*
 * In this order:
 * 1. Removes the region's number, so that no further message is executed on the region.
 * 2. Waits for the copies.
 * 3. Unregisters the region once UCX no longer uses it. Otherwise the region is never freed.
 * A forked child must not use UCX, so it only frees the structure.
 */
void mscclpp_transport_ucx_region_destroy(mscclpp_region_t *region)
{
    mscclpp_transport_t *transport;

    if (region == NULL) {
        return;
    }
    transport = region->transport;
    mscclpp_transport_ucx_remove(&transport->region_ids, region->id);
    transport->device_regions -= region->on_device;
    if (transport->pid == getpid()) {
        mscclpp_transport_ucx_await_copies(transport);
        if (!mscclpp_transport_ucx_vacate(region)) {
            return; /* the region is not freed and stays registered, since UCX's requests refer to both */
        }
        if (region->memory != NULL) {
            (void)transport->ucx.ucp_mem_unmap(transport->context, region->memory);
        }
    }
    free(region);
}
