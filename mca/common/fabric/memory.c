#include "mca/common/fabric/internal.h"

/* Device memory has the same address for the transport and for kernels. Host memory has a separate address for each. */
mscclpp_status_t mscclpp_fabric_allocate(mscclpp_fabric_t *fabric, mscclpp_transport_place_t place, uint64_t size,
                                         mscclpp_fabric_memory_t *memory)
{
    mscclpp_status_t status;
    mscclpp_slab_t *slab = NULL;
    void *host = NULL, *device = NULL;

    if (place == MSCCLPP_PLACE_DEVICE) {
        status = fabric->gpu->device_alloc(fabric->device, size, &device);
        host = device;
    } else if (place == MSCCLPP_PLACE_SHARED) {
        status = mscclpp_slab_take(fabric->gpu, fabric->label, size, &slab, &host, &device);
    } else {
        status = fabric->gpu->host_alloc(size, &host, &device);
    }
    if (status == MSCCLPP_OK) {
        memory->host = host;
        memory->device = device;
        memory->on_device = place == MSCCLPP_PLACE_DEVICE;
        memory->slab = slab;
        memory->is_hidden = false;
        memory->is_part = false;
    }
    return status;
}

void mscclpp_fabric_cut(const mscclpp_fabric_memory_t *whole, uint64_t offset, mscclpp_fabric_memory_t *part)
{
    part->host = (char *)whole->host + offset;
    part->device = (char *)whole->device + offset;
    part->on_device = whole->on_device;
    part->slab = NULL;
    part->is_part = true;
}

void mscclpp_fabric_hide_memory(mscclpp_fabric_memory_t *memory)
{
    if (memory->slab != NULL && !memory->is_hidden) {
        mscclpp_slab_hide_piece(memory->slab);
        memory->is_hidden = true;
    }
}

void mscclpp_fabric_free_memory(mscclpp_fabric_t *fabric, mscclpp_fabric_memory_t *memory)
{
    if (memory->is_part) {
        memory->is_part = false;
    } else if (memory->slab != NULL) {
        mscclpp_slab_give(memory->slab, memory->is_hidden);
    } else if (memory->host != NULL && memory->on_device) {
        fabric->gpu->device_free(fabric->device, memory->host);
    } else if (memory->host != NULL) {
        fabric->gpu->host_free(memory->host);
    }
    memory->host = NULL;
    memory->device = NULL;
    memory->slab = NULL;
}
