/*
 * Registered memory and memory channels: loads and stores in the memory of peers.
 *
 * All threads of the group call a function, with the same arguments. On each side, only one group at a time may use a
 * channel. Offsets and sizes are in bytes, and offsets count from the beginning of the registered memory. Any alignment
 * is allowed, but multiples of 16 are fastest. Functions return 0. They return 1 if they or an earlier call of the
 * group failed; nothing was then moved, except by mpix_get_packets.
 */
#ifndef MPIX_INCLUDE_MPIX_MSCCLPP_MEMORY_H
#define MPIX_INCLUDE_MPIX_MSCCLPP_MEMORY_H

#include "wait.h"

/*
 * Returns the address at `offset` of a rank's registered memory, for loads and stores of this kernel. NULL: the rank is
 * on another node. The caller has to stay within the memory's size.
 */
MPIX_DEVICE char *mpix_peer_pointer(const mpix_memory_t *memory, mpix_u32 rank, mpix_u64 offset)
{
    char *base = memory->peers[rank];

    return base != 0 ? base + offset : base;
}

/*
 * Copies bytes; all threads of the group take part. The function uses the widest accesses that both addresses allow,
 * and does not wait for the other threads.
 */
MPIX_DEVICE void mpix_copy(const mpix_group_t *group, char *to, const char *from, mpix_u64 bytes)
{
    const mpix_u64 address_bits =
        (mpix_u64)((mpix_address_t)to | (mpix_address_t)from); /* a multiple of 16, or of 4, if both addresses are */
    mpix_u64 done_bytes = 0, i;

    if (address_bits % 16 == 0) {
        for (i = group->index; i < bytes / 16; i += group->size) {
            mpix_copy16(to + 16 * i, from + 16 * i);
        }
        done_bytes = bytes / 16 * 16;
    } else if (address_bits % 4 == 0) {
        for (i = group->index; i < bytes / 4; i += group->size) {
            mpix_copy4(to + 4 * i, from + 4 * i);
        }
        done_bytes = bytes / 4 * 4;
    }
    for (i = done_bytes + group->index; i < bytes; i += group->size) {
        to[i] = from[i];
    }
}

/* Copies own memory into the peer's. The peer may read the copy after it has waited for a later signal. */
MPIX_DEVICE int mpix_put(mpix_group_t *group, const mpix_memory_channel_t *channel, mpix_u64 to, mpix_u64 from,
                         mpix_u64 bytes)
{
    if (group->failed || !mpix_fits(group, &channel->head, channel->peer, to, bytes, channel->remote_bytes) ||
        !mpix_fits(group, &channel->head, channel->head.rank, from, bytes, channel->local_bytes)) {
        return 1;
    }
    mpix_copy(group, channel->remote + to, channel->local + from, bytes);
    return 0;
}

/* Copies the peer's memory into own memory, where the threads see it after mpix_sync. */
MPIX_DEVICE int mpix_get(mpix_group_t *group, const mpix_memory_channel_t *channel, mpix_u64 to, mpix_u64 from,
                         mpix_u64 bytes)
{
    if (group->failed || !mpix_fits(group, &channel->head, channel->peer, from, bytes, channel->remote_bytes) ||
        !mpix_fits(group, &channel->head, channel->head.rank, to, bytes, channel->local_bytes)) {
        return 1;
    }
    mpix_copy(group, channel->local + to, channel->remote + from, bytes);
    return 0;
}

/* Signals the peer that all reads and writes of the group so far are done. First waits for the group's threads. */
MPIX_DEVICE int mpix_signal(mpix_group_t *group, const mpix_memory_channel_t *channel)
{
    mpix_sync(group);
    if (group->index == 0 && !group->failed) {
        mpix_add_release(channel->remote_inbound, 1);
    }
    return group->failed;
}

/*
 * Waits for one more signal of the peer. Afterwards the group sees everything that the peer wrote before the signal. If
 * the wait fails, the signal is not counted as received.
 */
MPIX_DEVICE int mpix_wait(mpix_group_t *group, const mpix_memory_channel_t *channel)
{
    mpix_wait_state_t wait = {0, 0};

    if (group->index == 0 && !group->failed) {
        const mpix_u64 target = *channel->expected + 1;
        int goes_on = 1;

        while (mpix_load_acquire(channel->inbound) < target && goes_on) {
            goes_on = mpix_wait_turn(group, &channel->head, &wait, channel->peer);
        }
        if (!group->failed) {
            *channel->expected = target;
        }
    }
    group->failed = mpix_any(group, group->failed);
    return group->failed;
}

/* Returns 1, with the effect of mpix_wait, if a signal has come; otherwise returns 0. Called by one thread. */
MPIX_DEVICE int mpix_poll(const mpix_memory_channel_t *channel)
{
    if (mpix_load_acquire(channel->inbound) <= *channel->expected) {
        return 0;
    }
    *channel->expected += 1;
    return 1;
}

/* Loads 8 bytes, or `bytes` bytes if `bytes` is less, from any address. The remaining bytes of the result are 0. */
MPIX_DEVICE mpix_u64 mpix_load8(const char *from, mpix_u64 bytes)
{
    mpix_u64 data = 0;
    mpix_u32 i;

    if (bytes >= 8 && (mpix_address_t)from % 8 == 0) {
#if defined(__CUDACC__)
        return *(const mpix_u64 *)from;
#else
        (void)memcpy(&data, from, 8);
        return data;
#endif
    }
    for (i = 0; i < 8 && i < bytes; ++i) {
        data |= (mpix_u64)(unsigned char)from[i] << 8 * i;
    }
    return data;
}

/* Stores 8 bytes, or the first `bytes` of them if `bytes` is less, to any address. */
MPIX_DEVICE void mpix_store8(char *to, mpix_u64 data, mpix_u64 bytes)
{
    mpix_u32 i;

    if (bytes >= 8 && (mpix_address_t)to % 8 == 0) {
#if defined(__CUDACC__)
        *(mpix_u64 *)to = data;
#else
        (void)memcpy(to, &data, 8);
#endif
        return;
    }
    for (i = 0; i < 8 && i < bytes; ++i) {
        to[i] = (char)(data >> 8 * i);
    }
}

/*
 * Puts `bytes` bytes into the peer's memory as packets. A packet has 16 bytes: 8 of the data, and `flag`, so that no
 * signal is needed. `to` is a multiple of 16, and the packets take 16 * ((bytes + 7) / 8) bytes of the peer's memory
 * there. `flag` is not 0, and differs from the flag that this memory last contained. Before memory is used again, its
 * reader must have told the writer that it has read the packets.
 */
MPIX_DEVICE int mpix_put_packets(mpix_group_t *group, const mpix_memory_channel_t *channel, mpix_u64 to, mpix_u64 from,
                                 mpix_u64 bytes, mpix_u32 flag)
{
    const mpix_u64 packets = (bytes + 7) / 8;
    mpix_u64 i;

    if (group->failed || !mpix_fits(group, &channel->head, channel->peer, to, 16 * packets, channel->remote_bytes) ||
        !mpix_fits(group, &channel->head, channel->head.rank, from, bytes, channel->local_bytes)) {
        return 1;
    }
    for (i = group->index; i < packets; i += group->size) {
        mpix_store_packet(channel->remote + to + 16 * i, mpix_load8(channel->local + from + 8 * i, bytes - 8 * i),
                          flag);
    }
    return 0;
}

/*
 * Waits until `packet` has `flag`, and yields its 8 bytes of data. Returns 1 if the packet has arrived, even
 * if the wait failed just before, and 0 otherwise. Called by one thread, for which `peer` is the sender.
 */
MPIX_DEVICE int mpix_await_packet(mpix_group_t *group, const mpix_head_t *head, const char *packet, mpix_u32 flag,
                                  mpix_u32 peer, mpix_u64 *data)
{
    mpix_wait_state_t wait = {0, 0};
    int has_arrived = mpix_load_packet(packet, flag, data);
    int goes_on = 1;

    while (!has_arrived && goes_on) {
        goes_on = mpix_wait_turn(group, head, &wait, peer);
        has_arrived = mpix_load_packet(packet, flag, data);
    }
    return has_arrived;
}

/*
 * Waits for packets with `flag` that the peer puts at the offset `packets` of own memory, and writes their `bytes`
 * bytes to the address `to`. Other threads of the group see these bytes when the function returns. If the function
 * fails, some of the bytes may have been written.
 */
MPIX_DEVICE int mpix_get_packets(mpix_group_t *group, const mpix_memory_channel_t *channel, char *to, mpix_u64 packets,
                                 mpix_u64 bytes, mpix_u32 flag)
{
    const mpix_u64 packet_count = (bytes + 7) / 8;
    mpix_u64 i, data;

    if (!group->failed &&
        mpix_fits(group, &channel->head, channel->head.rank, packets, 16 * packet_count, channel->local_bytes)) {
        for (i = group->index; i < packet_count; i += group->size) {
            if (mpix_await_packet(group, &channel->head, channel->local + packets + 16 * i, flag, channel->peer,
                                  &data)) {
                mpix_store8(to + 8 * i, data, bytes - 8 * i);
            }
        }
    }
    group->failed = mpix_any(group, group->failed);
    return group->failed;
}

#endif
