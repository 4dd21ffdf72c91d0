#include "mca/common/room.h"

#include <pthread.h>
#include <stddef.h>

static int early; /* taken; atomic */

/* The lock guards what follows. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int late; /* taken */
static mscclpp_room_guest_t *guests;

mscclpp_room_t mscclpp_room_take_early(void)
{
    if (__atomic_fetch_add(&early, 1, __ATOMIC_RELAXED) < MSCCLPP_ROOMS - MSCCLPP_ROOMS_LATE) {
        return MSCCLPP_ROOM_EARLY;
    }
    __atomic_fetch_sub(&early, 1, __ATOMIC_RELAXED);
    return MSCCLPP_ROOM_NONE;
}

void mscclpp_room_queue(mscclpp_room_guest_t *guest, uint64_t key)
{
    pthread_mutex_lock(&lock);
    guest->key = key;
    guest->next = guests;
    guests = guest;
    pthread_mutex_unlock(&lock);
}

void mscclpp_room_leave(mscclpp_room_guest_t *guest)
{
    mscclpp_room_guest_t **link = &guests;

    pthread_mutex_lock(&lock);
    while (*link != guest) {
        link = &(*link)->next;
    }
    *link = guest->next;
    pthread_mutex_unlock(&lock);
}

void mscclpp_room_change_key(mscclpp_room_guest_t *guest, uint64_t key)
{
    pthread_mutex_lock(&lock);
    guest->key = key;
    pthread_mutex_unlock(&lock);
}

mscclpp_room_t mscclpp_room_take_late(const mscclpp_room_guest_t *guest)
{
    const mscclpp_room_guest_t *other;
    mscclpp_room_t room = MSCCLPP_ROOM_NONE;
    int before = 0;

    pthread_mutex_lock(&lock);
    for (other = guests; other != NULL; other = other->next) {
        before += other->key < guest->key;
    }
    if (before < MSCCLPP_ROOMS_LATE && late < MSCCLPP_ROOMS_LATE) {
        ++late;
        room = MSCCLPP_ROOM_LATE;
    }
    pthread_mutex_unlock(&lock);
    return room;
}

void mscclpp_room_give(mscclpp_room_t room)
{
    if (room == MSCCLPP_ROOM_EARLY) {
        __atomic_fetch_sub(&early, 1, __ATOMIC_RELAXED);
    } else if (room == MSCCLPP_ROOM_LATE) {
        pthread_mutex_lock(&lock);
        --late;
        pthread_mutex_unlock(&lock);
    }
}
