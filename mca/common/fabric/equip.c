/* What a fabric's kernels use besides its links. */
#include "mca/common/fabric/internal.h"
#include "mca/common/algo/schedule/schedule.h"

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
    const size_t numbers =
        (size_t)MSCCLPP_DEV_NODES_BLOCKS_OF((uint32_t)fabric->nodes.count) * (size_t)fabric->nodes.count;
    const size_t words = (numbers + MSCCLPP_DEV_NODES_BLOCKS) * sizeof(uint64_t);
    const size_t table = numbers * sizeof(mscclpp_dev_port_channel_t);
    const mscclpp_proxy_params_t params = {.config = &fabric->config,
                                           .gpu = fabric->gpu,
                                           .device = fabric->device,
                                           .label = fabric->label,
                                           .mailbox = fabric->runner->mailbox};
    mscclpp_status_t status;
    void *memory;

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
    if (status == MSCCLPP_OK && (status = mscclpp_runner_take_stream(fabric->runner)) == MSCCLPP_OK) {
        status = fabric->gpu->copy(fabric->runner->stream, fabric->device_steps, fabric->steps, sizeof(fabric->steps));
    }
    return status == MSCCLPP_OK ? fabric->gpu->stream_sync(fabric->runner->stream) : status;
}

void mscclpp_fabric_unequip(mscclpp_fabric_t *fabric)
{
    mscclpp_proxy_destroy(fabric->proxy);
    fabric->proxy = NULL;
    mscclpp_fabric_close_view(fabric);
    if (fabric->state != NULL) {
        fabric->gpu->device_free(fabric->device, fabric->state);
        fabric->state = NULL;
    }
}
