/* Rooms: memory for barriers and small all-reduces inside kernels. */
#include <stdlib.h>
#include <string.h>

#include "mca/common/base/log.h"
#include "mca/common/user/internal.h"

#define LINE 128u
#define PACKET 16u

struct mscclpp_user_room {
    mscclpp_user_t *user;
    mscclpp_user_room_t *next;
    mscclpp_user_share_t share;
    mscclpp_dev_user_room_state_t *state; /* device memory */
    uint32_t blocks;
    uint64_t stride;
    uint64_t packets;
    uint64_t capacity;
};

mscclpp_status_t mscclpp_user_room_create(mscclpp_user_t *user, int blocks, uint64_t bytes,
                                          mscclpp_user_room_t **room_p)
{
    const uint64_t ranks = (uint64_t)user->oob.size;
    mscclpp_user_room_t *room = calloc(1, sizeof(*room));
    mscclpp_status_t status = MSCCLPP_OK;
    uint64_t asked[2] = {(uint64_t)blocks, bytes};
    uint64_t *all = malloc(ranks * sizeof(asked));
    uint64_t rank;
    void *state;

    if (user->node_of != NULL) {
        mscclpp_error("%s: a room is for ranks of one node, and these are on several", user->oob.label);
        free(all);
        free(room);
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    status = user->oob.allgather(user->oob.context, asked, all, sizeof(asked));
    if (status != MSCCLPP_OK) {
        free(all);
        free(room);
        return status;
    }
    if (room == NULL) {
        mscclpp_error("%s: no memory for a room", user->oob.label);
        status = MSCCLPP_ERR_NO_MEMORY;
    } else if (blocks < 1 || blocks > MSCCLPP_USER_BLOCKS_MAX || bytes > MSCCLPP_DEV_PORT_REGION_MAX) {
        mscclpp_error("%s: rank %d: a room for %d blocks and %llu bytes; 1 to %d blocks are allowed, and at most %llu "
                      "bytes",
                      user->oob.label, user->oob.rank, blocks, (unsigned long long)bytes, MSCCLPP_USER_BLOCKS_MAX,
                      (unsigned long long)MSCCLPP_DEV_PORT_REGION_MAX);
        status = MSCCLPP_ERR_INVALID;
    }
    for (rank = 0; rank < ranks && status == MSCCLPP_OK; ++rank) {
        if (all[2 * rank] != asked[0] || all[2 * rank + 1] != asked[1]) {
            mscclpp_error("%s: a room for %d blocks and %llu bytes on rank %d, and for %d blocks and %llu bytes on "
                          "rank %d; both must be equal on all ranks",
                          user->oob.label, blocks, (unsigned long long)bytes, user->oob.rank, (int)all[2 * rank],
                          (unsigned long long)all[2 * rank + 1], (int)rank);
            status = MSCCLPP_ERR_INVALID;
        }
    }
    free(all);
    if (status == MSCCLPP_OK) {
        room->user = user;
        room->blocks = (uint32_t)blocks;
        room->packets = (ranks * sizeof(uint64_t) + LINE - 1) / LINE * LINE;
        room->capacity = (bytes + 7) / 8;
        room->stride = (room->packets + 2 * ranks * room->capacity * PACKET + LINE - 1) / LINE * LINE;
        status = user->gpu->device_alloc(user->device, (size_t)blocks * sizeof(*room->state), &state);
        room->state = status == MSCCLPP_OK ? state : NULL;
    }
    status = mscclpp_user_share_create(user, NULL, room != NULL ? (uint64_t)room->blocks * room->stride : 0, status,
                                       "a room for kernels", room != NULL ? &room->share : &(mscclpp_user_share_t){0});
    if (status != MSCCLPP_OK) {
        if (room != NULL && room->state != NULL) {
            user->gpu->device_free(user->device, room->state);
        }
        free(room);
        return status;
    }
    room->next = user->rooms;
    user->rooms = room;
    ++user->shells;
    *room_p = room;
    return MSCCLPP_OK;
}

static void unlink_room(mscclpp_user_room_t *room)
{
    mscclpp_user_room_t **link = &room->user->rooms;

    while (*link != room) {
        link = &(*link)->next;
    }
    *link = room->next;
}

mscclpp_status_t mscclpp_user_room_free(mscclpp_user_room_t *room)
{
    mscclpp_user_t *user = room->user;
    mscclpp_status_t status = MSCCLPP_OK;

    if (!user->ended) {
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

mscclpp_status_t mscclpp_user_room_view(const mscclpp_user_room_t *room, mscclpp_dev_user_room_t *view)
{
    if (room->user->ended) {
        return MSCCLPP_ERR_REVOKED;
    }
    memset(view, 0, sizeof(*view));
    mscclpp_user_watch(room->user, &view->watch);
    view->blocks = room->blocks;
    view->epoch_limit = room->user->epoch_limit;
    view->areas = room->share.table;
    view->state = room->state;
    view->stride = room->stride;
    view->packets = room->packets;
    view->capacity = room->capacity;
    return MSCCLPP_OK;
}
