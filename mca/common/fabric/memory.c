/* The fabric's memory. Kernels and the transport access it, and peers too if the transport works within one host. */
#include "mca/common/fabric/internal.h"
#include "mca/common/base/log.h"

/*
 * Allocates shared memory, and pins it for the device. It has a name, by which peers attach it, until
 * mscclpp_fabric_hide_memory. Logs if it cannot be pinned. After an error nothing is left.
 */
static mscclpp_status_t allocate_shared(const mscclpp_fabric_t *fabric, uint64_t size, mscclpp_shmseg_t **segment_p,
                                        void **device_p)
{
    mscclpp_shmseg_t *segment;
    mscclpp_status_t status = mscclpp_shmseg_create(size, &segment);

    if (status != MSCCLPP_OK) {
        return status;
    }
    status = fabric->gpu->host_register(mscclpp_shmseg_base(segment), size, device_p);
    if (status != MSCCLPP_OK) {
        mscclpp_warn("%s: %llu bytes of shared memory cannot be pinned for device %d: %s", fabric->label,
                     (unsigned long long)size, fabric->device, mscclpp_status_string(status));
        mscclpp_shmseg_detach(segment);
        return status;
    }
    *segment_p = segment;
    return MSCCLPP_OK;
}

/* The transport and kernels use device memory by one address, and host memory by an address each. */
mscclpp_status_t mscclpp_fabric_allocate(mscclpp_fabric_t *fabric, mscclpp_transport_place_t place, uint64_t size,
                                         mscclpp_fabric_memory_t *memory)
{
    mscclpp_status_t status;
    mscclpp_shmseg_t *segment = NULL;
    void *host = NULL, *device = NULL;

    if (place == MSCCLPP_PLACE_DEVICE) {
        status = fabric->gpu->device_alloc(fabric->device, size, &device);
        host = device;
    } else if (place == MSCCLPP_PLACE_SHARED) {
        status = allocate_shared(fabric, size, &segment, &device);
        host = status == MSCCLPP_OK ? mscclpp_shmseg_base(segment) : NULL;
    } else {
        status = fabric->gpu->host_alloc(size, &host, &device);
    }
    if (status == MSCCLPP_OK) {
        memory->host = host;
        memory->device = device;
        memory->on_device = place == MSCCLPP_PLACE_DEVICE;
        memory->segment = segment;
        memory->is_part = false;
    }
    return status;
}

void mscclpp_fabric_cut(const mscclpp_fabric_memory_t *whole, uint64_t offset, mscclpp_fabric_memory_t *part)
{
    part->host = (char *)whole->host + offset;
    part->device = (char *)whole->device + offset;
    part->on_device = whole->on_device;
    part->segment = NULL;
    part->is_part = true;
}

void mscclpp_fabric_hide_memory(mscclpp_fabric_memory_t *memory)
{
    if (memory->segment != NULL) {
        mscclpp_shmseg_hide(memory->segment);
    }
}

/* Memory in a segment has been registered for the device. This ends before the segment is unmapped. */
void mscclpp_fabric_free_memory(mscclpp_fabric_t *fabric, mscclpp_fabric_memory_t *memory)
{
    if (memory->is_part) {
        memory->is_part = false;
    } else if (memory->segment != NULL) {
        fabric->gpu->host_unregister(memory->host);
        mscclpp_shmseg_detach(memory->segment);
    } else if (memory->host != NULL && memory->on_device) {
        fabric->gpu->device_free(fabric->device, memory->host);
    } else if (memory->host != NULL) {
        fabric->gpu->host_free(memory->host);
    }
    memory->host = NULL;
    memory->device = NULL;
    memory->segment = NULL;
}
