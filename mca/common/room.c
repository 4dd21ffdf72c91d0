#include "mca/common/room.h"

#include <stddef.h>

static mscclpp_rooms_t process_rooms = {.lock = PTHREAD_MUTEX_INITIALIZER};

void mscclpp_rooms_init(mscclpp_rooms_t *rooms)
{
    pthread_mutex_init(&rooms->lock, NULL);
}

mscclpp_rooms_t *mscclpp_rooms_process(void)
{
    return &process_rooms;
}

mscclpp_room_t mscclpp_room_take_early(mscclpp_rooms_t *rooms)
{
    if (__atomic_fetch_add(&rooms->early, 1, __ATOMIC_RELAXED) < MSCCLPP_ROOMS - MSCCLPP_ROOMS_LATE) {
        return MSCCLPP_ROOM_EARLY;
    }
    __atomic_fetch_sub(&rooms->early, 1, __ATOMIC_RELAXED);
    return MSCCLPP_ROOM_NONE;
}

void mscclpp_room_queue(mscclpp_rooms_t *rooms, mscclpp_room_guest_t *guest, uint64_t key)
{
    pthread_mutex_lock(&rooms->lock);
    guest->key = key;
    guest->next = rooms->guests;
    rooms->guests = guest;
    pthread_mutex_unlock(&rooms->lock);
}

void mscclpp_room_leave(mscclpp_rooms_t *rooms, mscclpp_room_guest_t *guest)
{
    mscclpp_room_guest_t **link = &rooms->guests;

    pthread_mutex_lock(&rooms->lock);
    while (*link != guest) {
        link = &(*link)->next;
    }
    *link = guest->next;
    pthread_mutex_unlock(&rooms->lock);
}

void mscclpp_room_change_key(mscclpp_rooms_t *rooms, mscclpp_room_guest_t *guest, uint64_t key)
{
    pthread_mutex_lock(&rooms->lock);
    guest->key = key;
    pthread_mutex_unlock(&rooms->lock);
}

mscclpp_room_t mscclpp_room_take_late(mscclpp_rooms_t *rooms, const mscclpp_room_guest_t *guest)
{
    const mscclpp_room_guest_t *other;
    mscclpp_room_t room = MSCCLPP_ROOM_NONE;
    int before = 0;

    pthread_mutex_lock(&rooms->lock);
    for (other = rooms->guests; other != NULL; other = other->next) {
        before += other->key < guest->key;
    }
    if (before < MSCCLPP_ROOMS_LATE && rooms->late < MSCCLPP_ROOMS_LATE) {
        ++rooms->late;
        room = MSCCLPP_ROOM_LATE;
    }
    pthread_mutex_unlock(&rooms->lock);
    return room;
}

void mscclpp_room_give(mscclpp_rooms_t *rooms, mscclpp_room_t room)
{
    if (room == MSCCLPP_ROOM_EARLY) {
        __atomic_fetch_sub(&rooms->early, 1, __ATOMIC_RELAXED);
    } else if (room == MSCCLPP_ROOM_LATE) {
        pthread_mutex_lock(&rooms->lock);
        --rooms->late;
        pthread_mutex_unlock(&rooms->lock);
    }
}
