/*
 * Barriers and small all-reduces inside a kernel, of blocks with the same number on all ranks. All threads of the block
 * call a function, with the group from mpix_block and the same arguments. On each rank, the kernels of a room run one
 * after another. Functions return 0, or 1 if they or an earlier call failed; results are then undefined.
 */
#ifndef MPIX_INCLUDE_MPIX_MSCCLPP_ROOM_H
#define MPIX_INCLUDE_MPIX_MSCCLPP_ROOM_H

#include "combine.h"
#include "memory.h"

/* Returns the address at which a block's part of a rank's area begins. */
MPIX_DEVICE char *mpix_room_area(const mpix_room_t *room, mpix_u32 rank, mpix_u32 block)
{
    return room->areas[rank] + block * room->stride;
}

/* Returns where `sender` puts packet `i` of an all-reduce, in the receiving block's part `area`. */
MPIX_DEVICE char *mpix_room_slot(const mpix_room_t *room, char *area, mpix_u64 epoch, mpix_u32 sender, mpix_u64 i)
{
    return area + room->packets + (((epoch & 1) * room->head.ranks + sender) * room->capacity + i) * 16;
}

/*
 * Begins a call; all threads of the block wait for one another. Returns a value other than 0 if the block's number is
 * too large for the room, or if the block has already failed, in this kernel or an earlier one. The calling function
 * then has to return at once.
 */
MPIX_DEVICE int mpix_room_enter(mpix_group_t *block, const mpix_room_t *room)
{
    mpix_sync(block);
    if (!block->failed && block->block >= room->blocks) {
        mpix_misuse(block, &room->head, MPIX_MSCCLPP_MISUSE_BLOCK, room->head.rank, block->block, 0, room->blocks);
    }
    if (!block->failed && room->state[block->block].failed != 0) {
        block->failed = 1;
    }
    return block->failed;
}

/*
 * Ends a call. Returns the same value to all threads: not 0 if one of the threads has failed. All further calls of this
 * block in the room then fail, also in later kernels, because the block's packets and counts no longer agree with those
 * of the peers.
 */
MPIX_DEVICE int mpix_room_leave(mpix_group_t *block, const mpix_room_t *room)
{
    block->failed = mpix_any(block, block->failed);
    if (block->failed && block->index == 0) {
        room->state[block->block].failed = 1;
    }
    return block->failed;
}

/*
 * Waits until this block of all ranks has called the function. Afterwards the block's threads see everything that those
 * blocks wrote before, in any memory. Each rank stores the number of its barriers in its own word of each peer's area.
 * All threads of a block read the block's number of barriers between the waits of mpix_room_enter and mpix_room_leave.
 * The first thread changes the number after mpix_room_leave, so that all threads read the same value.
 */
MPIX_DEVICE int mpix_barrier(mpix_group_t *block, const mpix_room_t *room)
{
    const mpix_u32 rank = room->head.rank, ranks = room->head.ranks;
    const mpix_u64 *own_words;
    mpix_wait_state_t wait = {0, 0};
    mpix_u64 count;
    mpix_u32 peer;

    if (mpix_room_enter(block, room)) {
        return 1;
    }
    count = room->state[block->block].barriers + 1;
    own_words = (const mpix_u64 *)(const void *)mpix_room_area(room, rank, block->block);
    for (peer = block->index; peer < ranks; peer += block->size) {
        if (peer != rank) {
            mpix_store_release((mpix_u64 *)(void *)mpix_room_area(room, peer, block->block) + rank, count);
        }
    }
    for (peer = block->index; peer < ranks; peer += block->size) {
        int goes_on = 1;

        while (peer != rank && goes_on && mpix_load_acquire(&own_words[peer]) < count) {
            goes_on = mpix_wait_turn(block, &room->head, &wait, peer);
        }
    }
    if (mpix_room_leave(block, room)) {
        return 1;
    }
    if (block->index == 0) {
        room->state[block->block].barriers = count;
    }
    return 0;
}

/*
 * Clears this rank's packets, so that flags can begin at 1 again. All ranks do this in the same all-reduce. After the
 * first barrier no peer sends packets of earlier all-reduces any more; after the second one all ranks have cleared
 * their packets.
 */
MPIX_DEVICE int mpix_room_renew(mpix_group_t *block, const mpix_room_t *room)
{
    mpix_u64 *words;
    mpix_u64 i;

    if (mpix_barrier(block, room)) {
        return 1;
    }
    words = (mpix_u64 *)(void *)(mpix_room_area(room, room->head.rank, block->block) + room->packets);
    for (i = block->index; i < (room->stride - room->packets) / 8; i += block->size) {
        mpix_store_relaxed(&words[i], 0);
    }
    return mpix_barrier(block, room);
}

/*
 * Sends one packet of an all-reduce to all other ranks. Each rank begins with the next one, so that not all ranks send
 * to the same rank first.
 */
MPIX_DEVICE void mpix_room_send(const mpix_group_t *block, const mpix_room_t *room, mpix_u64 epoch, mpix_u64 i,
                                mpix_u64 data)
{
    const mpix_u32 rank = room->head.rank, ranks = room->head.ranks;
    mpix_u32 distance;

    for (distance = 1; distance < ranks; ++distance) {
        char *area = mpix_room_area(room, (rank + distance) % ranks, block->block);

        mpix_store_packet(mpix_room_slot(room, area, epoch, rank, i), data, (mpix_u32)epoch);
    }
}

/*
 * Returns the combined data of packet `i` of all ranks. Waits for the packets of the other ranks; `own_data` is this
 * rank's. If a wait fails, sets block->failed, and the result is undefined.
 */
MPIX_DEVICE mpix_u64 mpix_room_combine(mpix_group_t *block, const mpix_room_t *room, mpix_u64 epoch, mpix_u64 i,
                                       mpix_u64 own_data, int type, int op)
{
    char *own_area = mpix_room_area(room, room->head.rank, block->block);
    mpix_u64 result = 0, data;
    mpix_u32 sender;

    for (sender = 0; sender < room->head.ranks && !block->failed; ++sender) {
        if (sender == room->head.rank) {
            data = own_data;
        } else {
            (void)mpix_await_packet(block, &room->head, mpix_room_slot(room, own_area, epoch, sender, i),
                                    (mpix_u32)epoch, sender, &data);
        }
        result = sender == 0 ? data : mpix_combine8(result, data, type, op);
    }
    return result;
}

/*
 * Combines `in` of all ranks with `op` (MPIX_SUM and so on), and writes the result to `out`. `in` has `count` elements
 * of the type `type` (MPIX_FLOAT32 and so on). They take at most 8 * room->capacity bytes, and their address is a
 * multiple of their size. `out` may equal `in`; no other overlap is allowed. The result has the same bits on all ranks.
 * Other threads of the block see the result after mpix_sync. The function begins with mpix_sync, so any thread may have
 * written `in`.
 *
 * Each rank sends its elements to all other ranks as packets, and combines the elements of all ranks in the order of
 * ranks. The memory of packets is used again two all-reduces later: a rank that has received packets of one all-reduce
 * from a peer knows that the peer's block has read the packets of the previous one. A call with 0 elements sends
 * nothing, and does not count as an all-reduce. Too many elements, or an unknown type or operation, are reported as a
 * misuse; the block's later calls in the room then fail.
 */
MPIX_DEVICE int mpix_allreduce_small(mpix_group_t *block, const mpix_room_t *room, const void *in, void *out,
                                     mpix_u64 count, int type, int op)
{
    const mpix_u64 bytes = count * mpix_size_of(type), packets = (bytes + 7) / 8;
    const char *from = (const char *)in;
    mpix_u64 epoch, i, result;

    if (mpix_room_enter(block, room)) {
        return 1;
    }
    if (bytes == 0 || packets > room->capacity || op < 0 || op >= MPIX_OPS) {
        if (count == 0) {
            return 0;
        }
        mpix_misuse(block, &room->head, MPIX_MSCCLPP_MISUSE_SIZE, room->head.rank, 0, bytes, 8 * room->capacity);
        return mpix_room_leave(block, room);
    }
    epoch = room->state[block->block].epoch + 1;
    if (epoch > room->epoch_limit) {
        if (mpix_room_renew(block, room)) {
            return 1;
        }
        epoch = 1;
    }
    for (i = block->index; i < packets; i += block->size) {
        mpix_room_send(block, room, epoch, i, mpix_load8(from + 8 * i, bytes - 8 * i));
    }
    for (i = block->index; i < packets && !block->failed; i += block->size) {
        result = mpix_room_combine(block, room, epoch, i, mpix_load8(from + 8 * i, bytes - 8 * i), type, op);
        if (!block->failed) {
            mpix_store8((char *)out + 8 * i, result, bytes - 8 * i);
        }
    }
    if (mpix_room_leave(block, room)) {
        return 1;
    }
    if (block->index == 0) {
        room->state[block->block].epoch = epoch;
    }
    return 0;
}

#endif
