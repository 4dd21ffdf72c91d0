#include <pthread.h>
#include <sched.h>

#include "mca/common/room.h"
#include "test/unit/unit.h"

#define THREADS 24
#define TURNS 20000

static mscclpp_rooms_t *rooms;
static int inside, most, late;

static void *come_and_go(void *argument)
{
    uint64_t key = *(const int *)argument;
    mscclpp_room_guest_t guest;

    mscclpp_room_queue(rooms, &guest, key);
    for (int turn = 0; turn < TURNS; ++turn) {
        mscclpp_room_t room = turn % 2 == 0 ? mscclpp_room_take_early(rooms) : mscclpp_room_take_late(rooms, &guest);
        if (room != MSCCLPP_ROOM_NONE) {
            int now = __atomic_add_fetch(&inside, 1, __ATOMIC_RELAXED);
            int seen = __atomic_load_n(&most, __ATOMIC_RELAXED);
            while (now > seen &&
                   !__atomic_compare_exchange_n(&most, &seen, now, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
            }
            __atomic_add_fetch(&late, room == MSCCLPP_ROOM_LATE, __ATOMIC_RELAXED);
            sched_yield();
            __atomic_sub_fetch(&inside, 1, __ATOMIC_RELAXED);
        }
        mscclpp_room_give(rooms, room);
        mscclpp_room_change_key(rooms, &guest, key = key * 5 % 97);
    }
    mscclpp_room_leave(rooms, &guest);
    return NULL;
}

int main(void)
{
    mscclpp_room_t held[MSCCLPP_ROOMS];
    mscclpp_room_guest_t guests[4];
    mscclpp_rooms_t others = {0};
    pthread_t threads[THREADS];
    int keys[THREADS], i;

    unit_begin();
    /* Others' rooms are no matter of this process's. */
    mscclpp_rooms_init(&others);
    for (i = 0; i < MSCCLPP_ROOMS; ++i) {
        CHECK_EQ(mscclpp_room_take_early(&others),
                 i < MSCCLPP_ROOMS - MSCCLPP_ROOMS_LATE ? MSCCLPP_ROOM_EARLY : MSCCLPP_ROOM_NONE);
    }
    rooms = mscclpp_rooms_process();
    /* Those that come early leave room for others, and these let those before them in first. */
    for (i = 0; i < MSCCLPP_ROOMS - MSCCLPP_ROOMS_LATE; ++i) {
        held[i] = mscclpp_room_take_early(rooms);
        CHECK_EQ(held[i], MSCCLPP_ROOM_EARLY);
    }
    CHECK_EQ(mscclpp_room_take_early(rooms), MSCCLPP_ROOM_NONE);
    for (uint64_t k = 0; k < 4; ++k) {
        mscclpp_room_queue(rooms, &guests[k], 40 - 10 * k);
    }
    CHECK_EQ(mscclpp_room_take_late(rooms, &guests[0]), MSCCLPP_ROOM_NONE);
    CHECK_EQ(mscclpp_room_take_late(rooms, &guests[1]), MSCCLPP_ROOM_NONE);
    held[6] = mscclpp_room_take_late(rooms, &guests[2]);
    CHECK_EQ(held[6], MSCCLPP_ROOM_LATE);
    mscclpp_room_change_key(rooms, &guests[1], 15);
    CHECK_EQ(mscclpp_room_take_late(rooms, &guests[2]), MSCCLPP_ROOM_NONE);
    held[7] = mscclpp_room_take_late(rooms, &guests[1]);
    CHECK_EQ(held[7], MSCCLPP_ROOM_LATE);
    CHECK_EQ(mscclpp_room_take_late(rooms, &guests[3]), MSCCLPP_ROOM_NONE);
    mscclpp_room_give(rooms, held[7]);
    held[7] = mscclpp_room_take_late(rooms, &guests[3]);
    CHECK_EQ(held[7], MSCCLPP_ROOM_LATE);
    for (i = 0; i < 4; ++i) {
        mscclpp_room_leave(rooms, &guests[(i + 1) % 4]);
    }
    mscclpp_room_give(rooms, MSCCLPP_ROOM_NONE);
    CHECK_EQ(mscclpp_room_take_early(rooms), MSCCLPP_ROOM_NONE);
    for (i = 0; i < MSCCLPP_ROOMS; ++i) {
        mscclpp_room_give(rooms, held[i]);
    }

    for (i = 0; i < THREADS; ++i) {
        keys[i] = i + 1;
        REQUIRE(pthread_create(&threads[i], NULL, come_and_go, &keys[i]) == 0);
    }
    for (i = 0; i < THREADS; ++i) {
        pthread_join(threads[i], NULL);
    }
    CHECK(most <= MSCCLPP_ROOMS);
    CHECK(late > 0);
    CHECK_EQ(inside, 0);
    for (i = 0; i < MSCCLPP_ROOMS - MSCCLPP_ROOMS_LATE; ++i) {
        CHECK_EQ(mscclpp_room_take_early(rooms), MSCCLPP_ROOM_EARLY);
    }
    return unit_end();
}
