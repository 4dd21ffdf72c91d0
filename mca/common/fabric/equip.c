/* Creates the objects that a fabric's kernels use besides its links. */
#include "mca/common/fabric/internal.h"
#include "mca/common/gpu/pool.h"

/* The allocation is zeroed, so all counters start at 0, and channels to nodes that are not linked are empty. */
mscclpp_status_t mscclpp_fabric_equip(mscclpp_fabric_t *fabric)
{
    const size_t channel_count =
        (size_t)MSCCLPP_DEV_NODES_BLOCKS_OF((uint32_t)fabric->nodes.count) * (size_t)fabric->nodes.count;
    const size_t counter_bytes =
        (channel_count + MSCCLPP_DEV_NODES_BLOCKS) * sizeof(uint64_t) + sizeof(mscclpp_dev_nodes_sparse_t);
    const size_t channel_bytes = channel_count * sizeof(mscclpp_dev_port_channel_t);
    const mscclpp_proxy_params_t params = {.config = &fabric->config,
                                           .gpu = fabric->gpu,
                                           .device = fabric->device,
                                           .label = fabric->label,
                                           .mailbox = fabric->runner->mailbox};
    mscclpp_status_t status = mscclpp_runner_take_stream(fabric->runner);
    void *memory;

    if (status == MSCCLPP_OK) {
        status = mscclpp_pool_alloc(fabric->gpu, fabric->device, fabric->runner->stream,
                                    counter_bytes + channel_bytes + mscclpp_fabric_steps_size(), &memory);
    }
    if (status == MSCCLPP_OK) {
        /*
         * Counters come first, then channels, then steps. All sizes are multiples of 8 bytes, so all parts are aligned.
         */
        fabric->state = memory;
        fabric->expected = memory;
        fabric->exchanged = fabric->expected + channel_count;
        fabric->sparse = (mscclpp_dev_nodes_sparse_t *)(void *)(fabric->exchanged + MSCCLPP_DEV_NODES_BLOCKS);
        fabric->channels = (mscclpp_dev_port_channel_t *)(void *)(fabric->state + counter_bytes);
        fabric->device_steps = (mscclpp_dev_step_t *)(void *)(fabric->state + counter_bytes + channel_bytes);
        status = mscclpp_proxy_create(&params, &fabric->proxy);
    }
    if (status == MSCCLPP_OK) {
        status = mscclpp_fabric_open_view(fabric);
    }
    if (status == MSCCLPP_OK) {
        status = mscclpp_fabric_copy_steps(fabric, fabric->runner->stream);
    }
    return status == MSCCLPP_OK ? fabric->gpu->stream_sync(fabric->runner->stream) : status;
}

void mscclpp_fabric_unequip(mscclpp_fabric_t *fabric)
{
    mscclpp_proxy_destroy(fabric->proxy);
    fabric->proxy = NULL;
    mscclpp_fabric_close_view(fabric);
    if (fabric->state != NULL) {
        mscclpp_pool_free(fabric->gpu, fabric->device, fabric->state);
        fabric->state = NULL;
    }
}
