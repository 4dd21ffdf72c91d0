#include "mca/common/transport/cuda_ipc/window.h"

#include <string.h>

#include "mca/common/base/log.h"
#include "mca/common/base/process.h"

mscclpp_status_t mscclpp_window_describe(const mscclpp_transport_params_t *params, const mscclpp_window_kind_t *kind,
                                         const void *address, uint64_t length, mscclpp_window_card_t *card_p)
{
    mscclpp_status_t status = MSCCLPP_OK;
    mscclpp_window_card_t card;

    memset(&card, 0, sizeof(card));
    card.magic = kind->magic;
    card.rank = params->rank;
    card.length = length;
    if (length > 0) {
        status = params->gpu->export_memory(address, &card.handle);
        if (status == MSCCLPP_OK && !mscclpp_fits(card.handle.offset, length, card.handle.length)) {
            mscclpp_error("%s: %llu bytes at %p reach past the end of their allocation", params->label,
                          (unsigned long long)length, address);
            status = MSCCLPP_ERR_INVALID;
        }
    }
    if (status == MSCCLPP_OK) {
        *card_p = card;
    }
    return status;
}

/*
 * Checks the card first, because it comes from another process. Memory of this process that is mapped at its own
 * address is lent: the id of its buffer tells later whether the memory still exists.
 */
mscclpp_status_t mscclpp_window_open(const mscclpp_transport_params_t *params, const mscclpp_window_kind_t *kind,
                                     int peer, const void *bytes, size_t length, mscclpp_window_t *window_p)
{
    mscclpp_window_t window = {.mapping = NULL};
    mscclpp_window_card_t card;
    mscclpp_status_t status;

    if (length != sizeof(card)) {
        mscclpp_error("%s: %s of %zu bytes from rank %d; transport %s sends %zu", params->label, kind->description,
                      length, peer, kind->transport, sizeof(card));
        return MSCCLPP_ERR_INVALID;
    }
    memcpy(&card, bytes, sizeof(card));
    if (card.magic != kind->magic || card.rank != peer ||
        !mscclpp_fits(card.handle.offset, card.length, card.handle.length)) {
        mscclpp_error("%s: what came from rank %d is not %s of transport %s", params->label, peer, kind->description,
                      kind->transport);
        return MSCCLPP_ERR_INVALID;
    }
    if (card.length > 0) {
        status = mscclpp_mapping_get(params->gpu, params->device, &card.handle, mscclpp_mapping_limit(params->config),
                                     &window.mapping);
        if (status != MSCCLPP_OK) {
            mscclpp_debug("%s: cannot map memory of rank %d: %s", params->label, peer, mscclpp_status_string(status));
            return status;
        }
        window.base = (char *)mscclpp_mapping_base(window.mapping) + card.handle.offset;
        window.length = card.length;
        if (mscclpp_process_is_self(card.handle.pid, card.handle.token) &&
            (uint64_t)(uintptr_t)mscclpp_mapping_base(window.mapping) == card.handle.address) {
            window.lent_id = card.handle.buffer_id;
        }
    }
    *window_p = window;
    return MSCCLPP_OK;
}

bool mscclpp_window_query_lent(const mscclpp_gpu_ops_t *gpu, const mscclpp_window_t *window)
{
    mscclpp_mem_info_t info;

    gpu->query(window->base, &info);
    return info.buffer_id == window->lent_id;
}

void mscclpp_window_close(mscclpp_window_t *window)
{
    mscclpp_mapping_put(window->mapping);
    window->mapping = NULL;
    window->base = NULL;
    window->length = 0;
    window->lent_id = 0;
}
