/* The last step of a fabric's bring-up: creates what its kernels use. */
#include <stdlib.h>

#include "mca/common/fabric/internal.h"
#include "mca/common/base/log.h"
#include "mca/common/algo/schedule/schedule.h"

static mscclpp_status_t create_channels(mscclpp_fabric_t *fabric, mscclpp_dev_port_channel_t *channels)
{
    const uint32_t count = (uint32_t)fabric->nodes.count;
    mscclpp_status_t status = MSCCLPP_OK;
    uint32_t block, node;

    for (block = 0; block < MSCCLPP_DEV_NODES_BLOCKS; ++block) {
        for (node = 0; node < count && status == MSCCLPP_OK; ++node) {
            const uint64_t number = MSCCLPP_DEV_NODES_NUMBER(count, block, node);
            const mscclpp_port_params_t params = {
                .ops = fabric->ops,
                .transport = fabric->transport,
                .conn = fabric->node[node].conn,
                .region = fabric->region,
                .region_size = fabric->area_size,
                .remote = fabric->node[node].remote,
                .remote_size = fabric->area_size,
                .token = (uint32_t)MSCCLPP_DEV_NODES_NUMBER(count, block, (uint32_t)fabric->nodes.node),
                .peer = fabric->nodes.owners[node],
                .inbound = (uint64_t *)fabric->tokens.device + number,
                .expected = fabric->expected + number};

            if ((int)node == fabric->nodes.node) {
                continue;
            }
            status = mscclpp_proxy_channel_create(fabric->proxy, &params, &channels[number]);
            channels[number].peer = MSCCLPP_FABRIC_FAR_PEER + (uint32_t)fabric->nodes.owners[node];
        }
    }
    return status;
}

_Static_assert((int)MSCCLPP_DEV_STEP_SEND == (int)MSCCLPP_STEP_SEND &&
                   (int)MSCCLPP_DEV_STEP_STORE == (int)MSCCLPP_STEP_STORE &&
                   (int)MSCCLPP_DEV_STEP_BEFORE == (int)MSCCLPP_STEP_BEFORE &&
                   (int)MSCCLPP_DEV_STEP_AFTER == (int)MSCCLPP_STEP_AFTER,
               "kernels take the kinds of steps as the schedule has them");

void mscclpp_fabric_list_steps(mscclpp_fabric_t *fabric)
{
    mscclpp_schedule_t schedule;
    mscclpp_step_t step;

    if (!mscclpp_schedule_init(&schedule, MSCCLPP_SCHEDULE_DOUBLING, MSCCLPP_SCHEDULE_ALLREDUCE,
                               (uint32_t)fabric->nodes.count, 0, 0, 0)) {
        return;
    }
    fabric->slots = schedule.slots;
    while (mscclpp_schedule_step(&schedule, (uint32_t)fabric->nodes.node, fabric->step_count, &step)) {
        fabric->steps[fabric->step_count++] = (mscclpp_dev_step_t){
            .kind = (uint32_t)step.kind, .peer = step.peer, .slot = step.slot, .round = step.round};
    }
}

mscclpp_status_t mscclpp_fabric_equip(mscclpp_fabric_t *fabric)
{
    const size_t numbers = (size_t)MSCCLPP_DEV_NODES_BLOCKS * (size_t)fabric->nodes.count;
    const size_t words = (numbers + MSCCLPP_DEV_NODES_BLOCKS) * sizeof(uint64_t);
    const size_t table = numbers * sizeof(mscclpp_dev_port_channel_t);
    const mscclpp_proxy_params_t params = {.config = &fabric->config,
                                           .gpu = fabric->gpu,
                                           .device = fabric->device,
                                           .label = fabric->label,
                                           .mailbox = fabric->runner->mailbox};
    mscclpp_dev_port_channel_t *channels = calloc(numbers, sizeof(*channels));
    mscclpp_status_t status = MSCCLPP_ERR_NO_MEMORY;
    void *memory;

    if (channels == NULL) {
        mscclpp_error("%s: no memory for %zu port channels", fabric->label, numbers);
        return status;
    }
    status = fabric->gpu->device_alloc(fabric->device, words + table + sizeof(fabric->steps), &memory);
    if (status == MSCCLPP_OK) {
        fabric->state = memory;
        fabric->expected = memory;
        fabric->exchanged = fabric->expected + numbers;
        fabric->channels = (mscclpp_dev_port_channel_t *)(void *)(fabric->state + words);
        fabric->device_steps = (mscclpp_dev_step_t *)(void *)(fabric->state + words + table);
        status = mscclpp_proxy_create(&params, &fabric->proxy);
    }
    if (status == MSCCLPP_OK) {
        status = mscclpp_fabric_open_view(fabric);
    }
    if (status == MSCCLPP_OK) {
        status = create_channels(fabric, channels);
    }
    if (status == MSCCLPP_OK && (status = mscclpp_runner_take_stream(fabric->runner)) == MSCCLPP_OK) {
        status = fabric->gpu->copy(fabric->runner->stream, fabric->channels, channels, table);
    }
    if (status == MSCCLPP_OK) {
        status = fabric->gpu->copy(fabric->runner->stream, fabric->device_steps, fabric->steps, sizeof(fabric->steps));
    }
    if (status == MSCCLPP_OK) {
        status = fabric->gpu->stream_sync(fabric->runner->stream);
    }
    free(channels);
    return status;
}
