#include "mpix/handles.h"

#include <string.h>

#include "mpix/include/mpix_mscclpp/types.h"

/* The layouts of abi 1, which kernels that are compiled already rely on. */
_Static_assert(sizeof(mpix_head_t) == 40 && offsetof(mpix_head_t, timeout_ns) == 32, "layout of abi 1");
_Static_assert(sizeof(mpix_memory_t) == 104 && offsetof(mpix_memory_t, sizes) == 64, "layout of abi 1");
_Static_assert(sizeof(mpix_memory_channel_t) == 136 && offsetof(mpix_memory_channel_t, expected) == 96,
               "layout of abi 1");
_Static_assert(sizeof(mpix_port_channel_t) == 160 && offsetof(mpix_port_channel_t, remote_bytes) == 120,
               "layout of abi 1");
_Static_assert(sizeof(mpix_room_t) == 120 && offsetof(mpix_room_t, capacity) == 80, "layout of abi 1");

_Static_assert(sizeof(mpix_partitions_t) == 96 && offsetof(mpix_partitions_t, partitions) == 56, "layout of abi 1");

/* What kernels and the host library share beyond the handles. */
_Static_assert(sizeof(mpix_room_state_t) == sizeof(mscclpp_dev_user_room_state_t), "the state of a room");
_Static_assert(sizeof(mpix_trigger_t) == sizeof(mscclpp_dev_trigger_t), "a trigger");
_Static_assert(MPIX_MSCCLPP_REPORT_WORDS == MSCCLPP_DEV_USER_REPORT_WORDS, "a report");
_Static_assert((int)MPIX_MSCCLPP_MISUSE_MEMORY == (int)MSCCLPP_DEV_USER_MEMORY &&
                   (int)MPIX_MSCCLPP_MISUSE_BLOCK == (int)MSCCLPP_DEV_USER_BLOCK &&
                   (int)MPIX_MSCCLPP_MISUSE_SIZE == (int)MSCCLPP_DEV_USER_SIZE,
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
    return abi != 1 ? 0 : is_port ? sizeof(mpix_port_channel_t) : sizeof(mpix_memory_channel_t);
}

size_t mpix_room_handle_size(unsigned abi)
{
    return abi == 1 ? sizeof(mpix_room_t) : 0;
}

size_t mpix_partitions_handle_size(unsigned abi)
{
    return abi == 1 ? sizeof(mpix_partitions_t) : 0;
}

/* Fills in what all handles begin with. */
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

void mpix_write_memory(unsigned abi, const mscclpp_dev_user_memory_t *view, void *handle)
{
    mpix_memory_t memory;

    memset(&memory, 0, sizeof(memory));
    write_head(abi, &view->watch, &memory.head, sizeof(memory));
    memory.own = view->own;
    memory.bytes = view->bytes;
    memory.peers = view->peers;
    memory.sizes = view->sizes;
    memcpy(handle, &memory, sizeof(memory));
}

/* Writes the handle of a port channel. */
static void write_port(unsigned abi, const mscclpp_dev_user_channel_t *view, void *handle)
{
    mpix_port_channel_t port;

    memset(&port, 0, sizeof(port));
    write_head(abi, &view->watch, &port.head, sizeof(port));
    port.peer = view->peer;
    port.number = view->number;
    port.ring = (mpix_trigger_t *)(void *)view->port.fifo.ring;
    port.ring_size = view->port.fifo.size;
    port.ring_head = view->port.fifo.head;
    port.tail_seen = view->port.fifo.tail_seen;
    port.tail = view->port.fifo.tail;
    port.flushed = view->port.flushed;
    port.inbound = view->port.inbound;
    port.expected = view->port.expected;
    port.local_bytes = view->local_bytes;
    port.remote_bytes = view->remote_bytes;
    memcpy(handle, &port, sizeof(port));
}

void mpix_write_channel(unsigned abi, const mscclpp_dev_user_channel_t *view, void *handle)
{
    mpix_memory_channel_t channel;

    if (view->is_port) {
        write_port(abi, view, handle);
        return;
    }
    memset(&channel, 0, sizeof(channel));
    write_head(abi, &view->watch, &channel.head, sizeof(channel));
    channel.peer = view->peer;
    channel.number = view->number;
    channel.local = view->memory.local;
    channel.remote = view->memory.remote;
    channel.local_bytes = view->local_bytes;
    channel.remote_bytes = view->remote_bytes;
    channel.inbound = view->memory.semaphore.inbound;
    channel.remote_inbound = view->memory.semaphore.remote_inbound;
    channel.expected = view->memory.semaphore.expected;
    memcpy(handle, &channel, sizeof(channel));
}

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

void mpix_write_room(unsigned abi, const mscclpp_dev_user_room_t *view, void *handle)
{
    mpix_room_t room;

    memset(&room, 0, sizeof(room));
    write_head(abi, &view->watch, &room.head, sizeof(room));
    room.blocks = view->blocks;
    room.epoch_limit = view->epoch_limit;
    room.areas = view->areas;
    room.state = (mpix_room_state_t *)(void *)view->state;
    room.stride = view->stride;
    room.packets = view->packets;
    room.capacity = view->capacity;
    memcpy(handle, &room, sizeof(room));
}
