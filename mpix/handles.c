/*
 * Writes the device handles. Each handle is copied field by field, since the layout in an installed header never
 * changes, whereas the component's own structs may change.
 *
 * Each writer fills in a local variable and then copies it, because the application's memory may have any alignment.
 * Unused bytes are 0.
 */
#include "mpix/handles.h"

#include <string.h>

#include "mpix/include/mpix_mscclpp/types.h"

/* The layouts of abi 1 must not change: kernels that are already compiled rely on them. */
_Static_assert(sizeof(mpix_head_t) == 40 && offsetof(mpix_head_t, timeout_ns) == 32, "layout of abi 1");
_Static_assert(sizeof(mpix_memory_t) == 104 && offsetof(mpix_memory_t, sizes) == 64, "layout of abi 1");
_Static_assert(sizeof(mpix_memory_channel_t) == 136 && offsetof(mpix_memory_channel_t, expected) == 96,
               "layout of abi 1");
_Static_assert(sizeof(mpix_port_channel_t) == 160 && offsetof(mpix_port_channel_t, remote_bytes) == 120,
               "layout of abi 1");
_Static_assert(sizeof(mpix_room_t) == 120 && offsetof(mpix_room_t, capacity) == 80, "layout of abi 1");

_Static_assert(sizeof(mpix_partitions_t) == 96 && offsetof(mpix_partitions_t, partitions) == 56, "layout of abi 1");

/* Other types and constants that kernels and the host library share. */
_Static_assert(sizeof(mpix_room_state_t) == sizeof(mscclpp_dev_user_room_state_t), "the state of a room");
_Static_assert(sizeof(mpix_trigger_t) == sizeof(mscclpp_dev_trigger_t), "a trigger");
_Static_assert(MPIX_MSCCLPP_REPORT_WORDS == MSCCLPP_DEV_USER_REPORT_WORDS, "a report");
_Static_assert((int)MPIX_MSCCLPP_MISUSE_MEMORY == (int)MSCCLPP_DEV_USER_MEMORY &&
                   (int)MPIX_MSCCLPP_MISUSE_BLOCK == (int)MSCCLPP_DEV_USER_BLOCK &&
                   (int)MPIX_MSCCLPP_MISUSE_SIZE == (int)MSCCLPP_DEV_USER_SIZE &&
                   (int)MPIX_MSCCLPP_MISUSE_ALIGNMENT == (int)MSCCLPP_DEV_USER_ALIGNMENT,
               "kinds of misuse");

unsigned mpix_newest_abi(void)
{
    return MPIX_MSCCLPP_DEVICE_ABI;
}

size_t mpix_memory_handle_size(unsigned abi)
{
    return abi == 1 ? sizeof(mpix_memory_t) : 0;
}

size_t mpix_channel_handle_size(unsigned abi, int is_port)
{
    if (abi != 1) {
        return 0;
    }
    return is_port ? sizeof(mpix_port_channel_t) : sizeof(mpix_memory_channel_t);
}

size_t mpix_room_handle_size(unsigned abi)
{
    return abi == 1 ? sizeof(mpix_room_t) : 0;
}

size_t mpix_partitions_handle_size(unsigned abi)
{
    return abi == 1 ? sizeof(mpix_partitions_t) : 0;
}

/* Fills in the head with which all handles begin. `size` is the number of bytes of the whole handle. */
static void write_head(unsigned abi, const mscclpp_dev_user_watch_t *watch, mpix_head_t *head, size_t size)
{
    head->abi = abi;
    head->size = (uint32_t)size;
    head->rank = watch->rank;
    head->ranks = watch->ranks;
    head->abort = watch->abort;
    head->report = watch->report;
    head->timeout_ns = watch->timeout_ns;
}

/* Writes the handle of memory. The caller has checked that `handle` has the size of this struct (mpix_check_handle). */
void mpix_write_memory(unsigned abi, const mscclpp_dev_user_memory_t *device_memory, void *handle)
{
    mpix_memory_t memory;

    memset(&memory, 0, sizeof(memory));
    write_head(abi, &device_memory->watch, &memory.head, sizeof(memory));
    memory.own = device_memory->own;
    memory.bytes = device_memory->bytes;
    memory.peers = device_memory->peers;
    memory.sizes = device_memory->sizes;
    memcpy(handle, &memory, sizeof(memory));
}

/*
 * Writes the handle of a port channel for mpix_write_channel. mpix_trigger_t has the layout of the component's trigger,
 * so the ring's address needs only a cast.
 */
static void write_port(unsigned abi, const mscclpp_dev_user_channel_t *device_channel, void *handle)
{
    mpix_port_channel_t port;

    memset(&port, 0, sizeof(port));
    write_head(abi, &device_channel->watch, &port.head, sizeof(port));
    port.peer = device_channel->peer;
    port.number = device_channel->number;
    port.ring = (mpix_trigger_t *)(void *)device_channel->port.fifo.ring;
    port.ring_size = device_channel->port.fifo.size;
    port.ring_head = device_channel->port.fifo.head;
    port.tail_seen = device_channel->port.fifo.tail_seen;
    port.tail = device_channel->port.fifo.tail;
    port.flushed = device_channel->port.flushed;
    port.inbound = device_channel->port.inbound;
    port.expected = device_channel->port.expected;
    port.local_bytes = device_channel->local_bytes;
    port.remote_bytes = device_channel->remote_bytes;
    memcpy(handle, &port, sizeof(port));
}

/* Writes the handle of a channel, which is a memory channel or a port channel. */
void mpix_write_channel(unsigned abi, const mscclpp_dev_user_channel_t *device_channel, void *handle)
{
    mpix_memory_channel_t channel;

    if (device_channel->is_port) {
        write_port(abi, device_channel, handle);
        return;
    }
    memset(&channel, 0, sizeof(channel));
    write_head(abi, &device_channel->watch, &channel.head, sizeof(channel));
    channel.peer = device_channel->peer;
    channel.number = device_channel->number;
    channel.local = device_channel->memory.local;
    channel.remote = device_channel->memory.remote;
    channel.local_bytes = device_channel->local_bytes;
    channel.remote_bytes = device_channel->remote_bytes;
    channel.inbound = device_channel->memory.semaphore.inbound;
    channel.remote_inbound = device_channel->memory.semaphore.remote_inbound;
    channel.expected = device_channel->memory.semaphore.expected;
    memcpy(handle, &channel, sizeof(channel));
}

/* Writes the handle of partitions. The caller has checked the size of `handle`, as in mpix_write_memory. */
void mpix_write_partitions(unsigned abi, const mscclpp_dev_user_watch_t *watch, uint64_t *marks, const uint64_t *done,
                           uint32_t partitions, void *handle)
{
    mpix_partitions_t request;

    memset(&request, 0, sizeof(request));
    write_head(abi, watch, &request.head, sizeof(request));
    request.marks = marks;
    request.done = done;
    request.partitions = partitions;
    memcpy(handle, &request, sizeof(request));
}

/* Writes the handle of a room. mpix_room_state_t and the component's state have the same layout under two names. */
void mpix_write_room(unsigned abi, const mscclpp_dev_user_room_t *device_room, void *handle)
{
    mpix_room_t room;

    memset(&room, 0, sizeof(room));
    write_head(abi, &device_room->watch, &room.head, sizeof(room));
    room.blocks = device_room->blocks;
    room.epoch_limit = device_room->epoch_limit;
    room.areas = device_room->areas;
    room.state = (mpix_room_state_t *)(void *)device_room->state;
    room.stride = device_room->stride;
    room.packets = device_room->packets;
    room.capacity = device_room->capacity;
    memcpy(handle, &room, sizeof(room));
}
