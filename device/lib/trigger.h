/* Encodes and decodes triggers. See device/types/trigger.h for the layout. */
#ifndef MSCCLPP_DEVICE_LIB_TRIGGER_H
#define MSCCLPP_DEVICE_LIB_TRIGGER_H

#include "device/shim/shim.h"
#include "device/types/trigger.h"

#define MSCCLPP_DEV_TRIGGER_OFFSET_BITS 39
#define MSCCLPP_DEV_TRIGGER_CHANNEL_SHIFT 44
#define MSCCLPP_DEV_TRIGGER_TYPE_SHIFT 60
#define MSCCLPP_DEV_TRIGGER_LOW_SIZE_BITS 25
#define MSCCLPP_DEV_TRIGGER_HIGH_SIZE_MASK 0x1f
#define MSCCLPP_DEV_TRIGGER_PARITY ((uint64_t)1 << 63)

/*
 * Returns the trigger that encodes a request. Offsets must be below MSCCLPP_DEV_PORT_REGION_MAX, and sizes at most
 * MSCCLPP_DEV_TRIGGER_SIZE_MAX. This is not checked; larger values would change other fields. The lower 25 bits of the
 * size are stored above the source's offset, and the upper 5 bits above the destination's. The proxy checks the decoded
 * request against the channel's regions.
 */
MSCCLPP_DEV mscclpp_dev_trigger_t mscclpp_dev_trigger_pack(const mscclpp_dev_request_t *request)
{
    mscclpp_dev_trigger_t trigger;

    trigger.word[1] = request->to | (uint64_t)request->channel << MSCCLPP_DEV_TRIGGER_CHANNEL_SHIFT |
                      (uint64_t)request->type << MSCCLPP_DEV_TRIGGER_TYPE_SHIFT;
    if (request->type == MSCCLPP_TRIGGER_ADD) {
        trigger.word[0] = request->value;
    } else {
        trigger.word[0] = request->from | (uint64_t)request->size << MSCCLPP_DEV_TRIGGER_OFFSET_BITS;
        trigger.word[1] |= (uint64_t)(request->size >> MSCCLPP_DEV_TRIGGER_LOW_SIZE_BITS)
                           << MSCCLPP_DEV_TRIGGER_OFFSET_BITS;
    }
    return trigger;
}

/*
 * Returns the request that mscclpp_dev_trigger_pack has encoded. An addition has a value in place of the source and the
 * size, which are then 0.
 */
MSCCLPP_DEV mscclpp_dev_request_t mscclpp_dev_trigger_unpack(const mscclpp_dev_trigger_t *trigger)
{
    const uint64_t offset_mask = ((uint64_t)1 << MSCCLPP_DEV_TRIGGER_OFFSET_BITS) - 1;
    mscclpp_dev_request_t request;

    request.to = trigger->word[1] & offset_mask;
    request.channel = (uint32_t)(trigger->word[1] >> MSCCLPP_DEV_TRIGGER_CHANNEL_SHIFT) % MSCCLPP_DEV_PORT_CHANNELS;
    request.type = (uint32_t)(trigger->word[1] >> MSCCLPP_DEV_TRIGGER_TYPE_SHIFT) & 7;
    request.from = 0;
    request.value = 0;
    request.size = 0;
    if (request.type == MSCCLPP_TRIGGER_ADD) {
        request.value = trigger->word[0];
    } else {
        request.from = trigger->word[0] & offset_mask;
        request.size =
            (uint32_t)(trigger->word[0] >> MSCCLPP_DEV_TRIGGER_OFFSET_BITS) |
            (uint32_t)(trigger->word[1] >> MSCCLPP_DEV_TRIGGER_OFFSET_BITS & MSCCLPP_DEV_TRIGGER_HIGH_SIZE_MASK)
                << MSCCLPP_DEV_TRIGGER_LOW_SIZE_BITS;
    }
    return request;
}

/*
 * Returns the parity bit that word 1 of a slot has once position `position` of a FIFO of `size` slots is filled. `size`
 * is a power of 2. The bit is set in the first lap, and then clear and set in turn.
 */
MSCCLPP_DEV uint64_t mscclpp_dev_trigger_parity(uint64_t position, uint64_t size)
{
    return (position & size) == 0 ? MSCCLPP_DEV_TRIGGER_PARITY : 0;
}

#endif
