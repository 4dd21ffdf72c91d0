#include "mca/common/group/admission.h"

#include <stddef.h>

static mscclpp_admission_t process_room = {.lock = PTHREAD_MUTEX_INITIALIZER};

void mscclpp_admission_init(mscclpp_admission_t *room)
{
    pthread_mutex_init(&room->lock, NULL);
}

mscclpp_admission_t *mscclpp_admission_process(void)
{
    return &process_room;
}

void mscclpp_admission_queue(mscclpp_admission_t *room, mscclpp_admission_guest_t *guest, uint64_t key)
{
    pthread_mutex_lock(&room->lock);
    guest->key = key;
    guest->next = room->guests;
    room->guests = guest;
    pthread_mutex_unlock(&room->lock);
}

void mscclpp_admission_leave(mscclpp_admission_t *room, mscclpp_admission_guest_t *guest)
{
    mscclpp_admission_guest_t **link = &room->guests;

    pthread_mutex_lock(&room->lock);
    while (*link != guest) {
        link = &(*link)->next;
    }
    *link = guest->next;
    pthread_mutex_unlock(&room->lock);
}

void mscclpp_admission_change_key(mscclpp_admission_t *room, mscclpp_admission_guest_t *guest, uint64_t key)
{
    pthread_mutex_lock(&room->lock);
    guest->key = key;
    pthread_mutex_unlock(&room->lock);
}

/* With the lock held. */
static bool is_first(const mscclpp_admission_t *room, const mscclpp_admission_guest_t *guest)
{
    const mscclpp_admission_guest_t *other = room->guests;

    while (other != NULL && other->key >= guest->key) {
        other = other->next;
    }
    return other == NULL;
}

bool mscclpp_admission_is_first(mscclpp_admission_t *room, const mscclpp_admission_guest_t *guest)
{
    bool first;

    pthread_mutex_lock(&room->lock);
    first = is_first(room, guest);
    pthread_mutex_unlock(&room->lock);
    return first;
}

bool mscclpp_admission_take(mscclpp_admission_t *room, const mscclpp_admission_guest_t *guest)
{
    bool took;

    pthread_mutex_lock(&room->lock);
    took = !room->taken && is_first(room, guest);
    room->taken = room->taken || took;
    pthread_mutex_unlock(&room->lock);
    return took;
}

bool mscclpp_admission_take_extra(mscclpp_admission_t *room)
{
    bool took;

    pthread_mutex_lock(&room->lock);
    took = !room->extra_taken && room->reserved == 0;
    room->extra_taken = room->extra_taken || took;
    pthread_mutex_unlock(&room->lock);
    return took;
}

void mscclpp_admission_give_extra(mscclpp_admission_t *room)
{
    pthread_mutex_lock(&room->lock);
    room->extra_taken = false;
    pthread_mutex_unlock(&room->lock);
}

bool mscclpp_admission_reserve(mscclpp_admission_t *room, uint32_t blocks, uint32_t limit)
{
    bool reserved;

    pthread_mutex_lock(&room->lock);
    reserved = room->reserved + blocks <= limit;
    room->reserved += reserved ? blocks : 0;
    pthread_mutex_unlock(&room->lock);
    return reserved;
}

void mscclpp_admission_release(mscclpp_admission_t *room, uint32_t blocks)
{
    pthread_mutex_lock(&room->lock);
    room->reserved -= blocks;
    pthread_mutex_unlock(&room->lock);
}

void mscclpp_admission_give(mscclpp_admission_t *room)
{
    pthread_mutex_lock(&room->lock);
    room->taken = false;
    pthread_mutex_unlock(&room->lock);
}
