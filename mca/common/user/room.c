/* Rooms: memory for barriers and small all-reduces inside kernels. */
#include <stdlib.h>
#include <string.h>

#include "mca/common/base/log.h"
#include "mca/common/user/internal.h"

#define LINE_BYTES 128u      /* bytes of a cache line */
#define PACKET_BYTES 16u     /* bytes of a packet */
#define PACKET_DATA_BYTES 8u /* bytes of data that a packet carries */

struct mscclpp_user_room {
    mscclpp_user_t *user;
    mscclpp_user_room_t *next;
    mscclpp_user_share_t share;
    mscclpp_dev_user_room_state_t *state; /* device memory */
    uint32_t blocks;                      /* the maximum number of blocks of a kernel that uses the room */
    uint64_t stride;                      /* bytes of the shared memory that belong to one block */
    uint64_t packets_offset;              /* offset of the packets in a block's part, in bytes */
    uint64_t capacity;                    /* the maximum number of packets of an all-reduce, for each rank */
};

/*
 * Checks that the arguments are allowed, and the same on all ranks. `all_arguments` has two entries for each rank: its
 * `blocks` and its `bytes`. No vote is needed for all ranks to return the same status: if two ranks differ, every rank
 * finds a rank that differs from itself.
 */
static mscclpp_status_t check_arguments(const mscclpp_user_t *user, int blocks, uint64_t bytes,
                                        const uint64_t *all_arguments)
{
    int rank;

    if (blocks < 1 || blocks > MSCCLPP_USER_BLOCKS_MAX || bytes > MSCCLPP_DEV_PORT_REGION_MAX) {
        mscclpp_error("%s: rank %d: a room for %d blocks and %llu bytes; 1 to %d blocks are allowed, and at most %llu "
                      "bytes",
                      user->oob.label, user->oob.rank, blocks, (unsigned long long)bytes, MSCCLPP_USER_BLOCKS_MAX,
                      (unsigned long long)MSCCLPP_DEV_PORT_REGION_MAX);
        return MSCCLPP_ERR_INVALID;
    }
    for (rank = 0; rank < user->oob.size; ++rank) {
        if (all_arguments[2 * rank] != (uint64_t)blocks || all_arguments[2 * rank + 1] != bytes) {
            mscclpp_error("%s: a room for %d blocks and %llu bytes on rank %d, and for %d blocks and %llu bytes on "
                          "rank %d; both must be equal on all ranks",
                          user->oob.label, blocks, (unsigned long long)bytes, user->oob.rank,
                          (int)all_arguments[2 * rank], (unsigned long long)all_arguments[2 * rank + 1], rank);
            return MSCCLPP_ERR_INVALID;
        }
    }
    return MSCCLPP_OK;
}

/*
 * Compares the arguments of all ranks. Collective. All ranks return the same status. A rank that has no memory for the
 * arguments passes NULL to the all-gather. The all-gather then fails on all ranks, and the other ranks log that.
 */
static mscclpp_status_t compare_arguments(const mscclpp_user_t *user, int blocks, uint64_t bytes)
{
    const uint64_t own_arguments[2] = {(uint64_t)blocks, bytes};
    uint64_t *all_arguments = malloc((size_t)user->oob.size * sizeof(own_arguments));
    mscclpp_status_t status =
        user->oob.allgather(user->oob.context, own_arguments, all_arguments, sizeof(own_arguments));

    if (status == MSCCLPP_OK) {
        status = check_arguments(user, blocks, bytes, all_arguments);
    }
    free(all_arguments);
    return status;
}

/*
 * Computes where the parts of the room lie, for `blocks` blocks and all-reduces of at most `bytes` bytes. Sets
 * room->capacity to that size in packets. The part of one block begins with a counter of barriers for each rank. The
 * packets follow, in two halves that are used in turn. Each half has a slot for each rank, which is large enough for
 * the packets of the largest all-reduce. Parts are whole cache lines, so blocks do not share cache lines.
 */
static void lay_out(mscclpp_user_room_t *room, int blocks, uint64_t bytes)
{
    const uint64_t ranks = (uint64_t)room->user->oob.size;

    room->blocks = (uint32_t)blocks;
    room->packets_offset = (ranks * sizeof(uint64_t) + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
    room->capacity = (bytes + PACKET_DATA_BYTES - 1) / PACKET_DATA_BYTES;
    room->stride =
        (room->packets_offset + 2 * ranks * room->capacity * PACKET_BYTES + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
}

/* Makes this rank's part of the room. Local. After an error *room_p is NULL, and nothing is left to free. */
static mscclpp_status_t make_own_part(mscclpp_user_t *user, int blocks, uint64_t bytes, mscclpp_user_room_t **room_p)
{
    mscclpp_user_room_t *room = calloc(1, sizeof(*room));
    mscclpp_status_t status;
    void *state;

    *room_p = NULL;
    if (room == NULL) {
        mscclpp_error("%s: no memory for a room", user->oob.label);
        return MSCCLPP_ERR_NO_MEMORY;
    }
    room->user = user;
    lay_out(room, blocks, bytes);
    status = user->gpu->device_alloc(user->device, (size_t)blocks * sizeof(*room->state), &state);
    if (status != MSCCLPP_OK) {
        free(room);
        return status;
    }
    room->state = state;
    *room_p = room;
    return MSCCLPP_OK;
}

/* Frees this rank's part of a room that was not shared. NULL is allowed. */
static void discard_own_part(mscclpp_user_room_t *room)
{
    if (room != NULL) {
        room->user->gpu->device_free(room->user->device, room->state);
    }
    free(room);
}

/* All ranks return MSCCLPP_ERR_NOT_SUPPORTED if one does, because `node_of` is set either on all ranks or on none. */
mscclpp_status_t mscclpp_user_room_create(mscclpp_user_t *user, int blocks, uint64_t bytes,
                                          mscclpp_user_room_t **room_p)
{
    mscclpp_user_share_t share;
    mscclpp_user_room_t *room;
    mscclpp_status_t status;

    if (user->node_of != NULL) {
        mscclpp_error("%s: a room is for ranks of one node, and these are on several", user->oob.label);
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    status = compare_arguments(user, blocks, bytes);
    if (status != MSCCLPP_OK) {
        return status;
    }
    /* All ranks continue from here. A rank that fails tells the other ranks in mscclpp_user_share_create. */
    status = make_own_part(user, blocks, bytes, &room);
    status = mscclpp_user_share_create(user, NULL, room != NULL ? (uint64_t)room->blocks * room->stride : 0, status,
                                       "a room for kernels", &share);
    if (status != MSCCLPP_OK) {
        discard_own_part(room);
        return status;
    }
    room->share = share;
    room->next = user->rooms;
    user->rooms = room;
    ++user->unfreed;
    *room_p = room;
    return MSCCLPP_OK;
}

/* Removes the room from user->rooms, in which it must be: otherwise the search runs past the end. */
static void unlink_room(mscclpp_user_room_t *room)
{
    mscclpp_user_room_t **link = &room->user->rooms;

    while (*link != room) {
        link = &(*link)->next;
    }
    *link = room->next;
}

/*
 * If the vote of all ranks fails, returns its error; the room is then freed, but its shared memory is kept. After
 * mscclpp_user_end the state of the blocks is never freed, because kernels may still use it.
 */
mscclpp_status_t mscclpp_user_room_free(mscclpp_user_room_t *room)
{
    mscclpp_user_t *user = room->user;
    mscclpp_status_t status = MSCCLPP_OK;

    if (!user->has_ended) {
        unlink_room(room);
        status = mscclpp_user_share_free(user, &room->share);
        user->gpu->device_free(user->device, room->state);
    }
    free(room);
    mscclpp_user_leave(user);
    return status;
}

void mscclpp_user_room_end(mscclpp_user_room_t *room)
{
    unlink_room(room);
    mscclpp_user_share_drop(room->user, &room->share);
}

/* After the end of the team there is nothing to describe, because the areas of the peers are no longer mapped. */
mscclpp_status_t mscclpp_user_room_view(const mscclpp_user_room_t *room, mscclpp_dev_user_room_t *view)
{
    if (room->user->has_ended) {
        return MSCCLPP_ERR_REVOKED;
    }
    memset(view, 0, sizeof(*view));
    mscclpp_user_watch(room->user, &view->watch);
    view->blocks = room->blocks;
    view->epoch_limit = room->user->epoch_limit;
    view->areas = room->share.table;
    view->state = room->state;
    view->stride = room->stride;
    view->packets = room->packets_offset;
    view->capacity = room->capacity;
    return MSCCLPP_OK;
}
