/*
 * Port channels: the CPU moves the bytes at the request of a kernel, so the copy needs no multiprocessor.
 *
 * All threads of the group call a function, with the same arguments; the first thread makes the request. Offsets and
 * sizes are in bytes, and offsets count from the beginning of the registered memory. The requests of one group on one
 * channel take effect in order: when the peer has received a signal, it sees all earlier puts and additions. The source
 * of a put must not change before a flush. Functions return 0, or 1 if they or an earlier call of the group failed.
 */
#ifndef MPIX_INCLUDE_MPIX_MSCCLPP_PORT_H
#define MPIX_INCLUDE_MPIX_MSCCLPP_PORT_H

#include "wait.h"

/*
 * The types of triggers. DATA, SIGNAL and FLUSH may be combined, and are carried out in this order. ADD cannot be
 * combined.
 */
enum { MPIX_PORT_ADD = 0, MPIX_PORT_DATA = 1, MPIX_PORT_SIGNAL = 2, MPIX_PORT_FLUSH = 4 };

/* The largest number of bytes that one trigger puts. A larger put becomes several triggers. */
#define MPIX_PORT_CHUNK ((mpix_u64)1 << 29)

/*
 * Returns a trigger for the ring. Word 0 contains the source's offset (39 bits) and the size's lower 25 bits, or the
 * value that is added. Word 1 contains, from its low bits on: the destination's offset (39 bits), the size's upper 5
 * bits, the channel (16), the type (3), and a bit that changes with each lap of the ring.
 */
MPIX_DEVICE mpix_trigger_t mpix_trigger_of(const mpix_port_channel_t *channel, mpix_u32 type, mpix_u64 to,
                                           mpix_u64 from, mpix_u32 size)
{
    mpix_trigger_t trigger;

    trigger.word[0] = from | (mpix_u64)size << 39;
    trigger.word[1] = to | (mpix_u64)(size >> 25) << 39 | (mpix_u64)channel->number << 44 | (mpix_u64)type << 60;
    return trigger;
}

/*
 * Pushes a trigger into the ring, and waits while the ring is full. Returns the trigger's position, which continues to
 * grow from lap to lap. If the wait fails, the slot remains empty for ever, and the CPU carries out no later trigger.
 * If the group has already failed, pushes nothing and returns 0. One thread of the group calls this function.
 * Several groups may push at the same time, over different channels of one ring.
 *
 * The ring's size is a power of two. Word 1 is stored last: its highest bit changes from lap to lap, and so tells the
 * CPU that the slot contains a new trigger. Another group may store an older value into tail_seen, but this only causes
 * one more read of the tail.
 */
MPIX_DEVICE mpix_u64 mpix_port_push_trigger(mpix_group_t *group, const mpix_port_channel_t *channel,
                                            mpix_trigger_t trigger)
{
    mpix_wait_state_t wait = {0, 0};
    mpix_trigger_t *slot;
    mpix_u64 position, tail;

    if (group->failed) {
        return 0;
    }
    position = mpix_fetch_add(channel->ring_head, 1);
    slot = &channel->ring[position & (channel->ring_size - 1)];
    /* The tail is in host memory, so it is read only if the value that was last read shows no free slot. */
    if (position >= mpix_load_acquire(channel->tail_seen) + channel->ring_size) {
        while (position >= (tail = mpix_load_acquire(channel->tail)) + channel->ring_size) {
            if (!mpix_wait_turn(group, &channel->head, &wait, channel->peer)) {
                return position;
            }
        }
        mpix_store_release(channel->tail_seen, tail);
    }
    mpix_store_relaxed(&slot->word[0], trigger.word[0]);
    mpix_store_release(&slot->word[1],
                       trigger.word[1] | ((position & channel->ring_size) == 0 ? (mpix_u64)1 << 63 : 0));
    return position;
}

/*
 * Waits until the trigger at `position`, whose type has MPIX_PORT_FLUSH, has been carried out. If the wait fails, sets
 * group->failed. Called by one thread.
 */
MPIX_DEVICE void mpix_port_await_flush(mpix_group_t *group, const mpix_port_channel_t *channel, mpix_u64 position)
{
    mpix_wait_state_t wait = {0, 0};

    while (!group->failed && mpix_load_acquire(channel->flushed) <= position) {
        (void)mpix_wait_turn(group, &channel->head, &wait, channel->peer);
    }
}

/*
 * Pushes a trigger with any fields, for channels with a handler or a list, which define the meaning of the fields. `to`
 * and `from` have 39 bits, `size` has 30, and `type` is 1 to 7. If the type contains MPIX_PORT_FLUSH, the function
 * waits until the trigger is done.
 */
MPIX_DEVICE int mpix_port_push(mpix_group_t *group, const mpix_port_channel_t *channel, mpix_u32 type, mpix_u64 to,
                               mpix_u64 from, mpix_u32 size)
{
    mpix_sync(group);
    if (group->index == 0 && !group->failed) {
        const mpix_u64 position =
            mpix_port_push_trigger(group, channel, mpix_trigger_of(channel, type, to, from, size));

        if ((type & MPIX_PORT_FLUSH) != 0) {
            mpix_port_await_flush(group, channel, position);
        }
    }
    group->failed = mpix_any(group, group->failed);
    return group->failed;
}

/*
 * Puts any number of bytes, with as many triggers as necessary. The last trigger has the type `type`; the triggers
 * before it only put. Returns 1 if the bytes do not fit into both memories, so that nothing is pushed, or if a push
 * failed.
 */
MPIX_DEVICE int mpix_port_put_as(mpix_group_t *group, const mpix_port_channel_t *channel, mpix_u32 type, mpix_u64 to,
                                 mpix_u64 from, mpix_u64 bytes)
{
    if (group->failed || !mpix_fits(group, &channel->head, channel->peer, to, bytes, channel->remote_bytes) ||
        !mpix_fits(group, &channel->head, channel->head.rank, from, bytes, channel->local_bytes)) {
        return 1;
    }
    while (bytes > MPIX_PORT_CHUNK && !group->failed) {
        (void)mpix_port_push(group, channel, MPIX_PORT_DATA, to, from, (mpix_u32)MPIX_PORT_CHUNK);
        to += MPIX_PORT_CHUNK;
        from += MPIX_PORT_CHUNK;
        bytes -= MPIX_PORT_CHUNK;
    }
    return mpix_port_push(group, channel, type, to, from, (mpix_u32)bytes);
}

/* Puts own memory into the peer's, without a signal. */
MPIX_DEVICE int mpix_port_put(mpix_group_t *group, const mpix_port_channel_t *channel, mpix_u64 to, mpix_u64 from,
                              mpix_u64 bytes)
{
    return mpix_port_put_as(group, channel, MPIX_PORT_DATA, to, from, bytes);
}

/* Signals the peer: all earlier puts and additions have arrived. */
MPIX_DEVICE int mpix_port_signal(mpix_group_t *group, const mpix_port_channel_t *channel)
{
    return mpix_port_push(group, channel, MPIX_PORT_SIGNAL, 0, 0, 0);
}

/* Puts own memory into the peer's, and then signals: with one trigger if the put has at most MPIX_PORT_CHUNK bytes. */
MPIX_DEVICE int mpix_port_put_signal(mpix_group_t *group, const mpix_port_channel_t *channel, mpix_u64 to,
                                     mpix_u64 from, mpix_u64 bytes)
{
    return mpix_port_put_as(group, channel, MPIX_PORT_DATA | MPIX_PORT_SIGNAL, to, from, bytes);
}

/* Waits until the sources of all earlier puts may be overwritten. */
MPIX_DEVICE int mpix_port_flush(mpix_group_t *group, const mpix_port_channel_t *channel)
{
    return mpix_port_push(group, channel, MPIX_PORT_FLUSH, 0, 0, 0);
}

/* Does the same as mpix_port_put_signal, and waits until the sources of all puts so far may be overwritten. */
MPIX_DEVICE int mpix_port_put_signal_flush(mpix_group_t *group, const mpix_port_channel_t *channel, mpix_u64 to,
                                           mpix_u64 from, mpix_u64 bytes)
{
    return mpix_port_put_as(group, channel, MPIX_PORT_DATA | MPIX_PORT_SIGNAL | MPIX_PORT_FLUSH, to, from, bytes);
}

/*
 * Adds a value to the word of 8 bytes at the offset `to`, a multiple of 8, of the peer's memory. Additions are ordered
 * like signals. Returns 1 if the offset is not allowed, so that nothing is pushed, or if the push failed.
 */
MPIX_DEVICE int mpix_port_add(mpix_group_t *group, const mpix_port_channel_t *channel, mpix_u64 to, mpix_u64 value)
{
    if (group->failed || !mpix_fits(group, &channel->head, channel->peer, to, 8, channel->remote_bytes)) {
        return 1;
    }
    if (to % 8 != 0) {
        mpix_misuse(group, &channel->head, MPIX_MSCCLPP_MISUSE_ALIGNMENT, channel->peer, to, 8, channel->remote_bytes);
        return 1;
    }
    mpix_sync(group);
    if (group->index == 0) {
        mpix_trigger_t trigger = mpix_trigger_of(channel, MPIX_PORT_ADD, to, 0, 0);

        trigger.word[0] = value;
        (void)mpix_port_push_trigger(group, channel, trigger);
    }
    group->failed = mpix_any(group, group->failed);
    return group->failed;
}

/*
 * Waits for the peer's next signal. Afterwards all threads of the group see the puts and additions that the peer made
 * before this signal. If the wait fails, the signal is not counted as received.
 */
MPIX_DEVICE int mpix_port_wait(mpix_group_t *group, const mpix_port_channel_t *channel)
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

/* Returns 1, with the effect of mpix_port_wait, if a signal has come; otherwise returns 0. Called by one thread. */
MPIX_DEVICE int mpix_port_poll(const mpix_port_channel_t *channel)
{
    if (mpix_load_acquire(channel->inbound) <= *channel->expected) {
        return 0;
    }
    *channel->expected += 1;
    return 1;
}

#endif
