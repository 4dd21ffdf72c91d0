#include <pthread.h>
#include <sched.h>

#include "mca/common/group/admission.h"
#include "test/unit/unit.h"

#define THREADS 24
#define TURNS 20000

static mscclpp_admission_t *room;
static int inside, most, taken;

static void *come_and_go(void *argument)
{
    uint64_t key = *(const int *)argument;
    mscclpp_admission_guest_t guest;

    mscclpp_admission_queue(room, &guest, key);
    for (int turn = 0; turn < TURNS; ++turn) {
        if (mscclpp_admission_take(room, &guest)) {
            int now = __atomic_add_fetch(&inside, 1, __ATOMIC_RELAXED);

            if (now > __atomic_load_n(&most, __ATOMIC_RELAXED)) {
                __atomic_store_n(&most, now, __ATOMIC_RELAXED);
            }
            __atomic_add_fetch(&taken, 1, __ATOMIC_RELAXED);
            sched_yield();
            __atomic_sub_fetch(&inside, 1, __ATOMIC_RELAXED);
            mscclpp_admission_give(room);
        }
        mscclpp_admission_change_key(room, &guest, key = key * 5 % 97);
    }
    mscclpp_admission_leave(room, &guest);
    return NULL;
}

int main(void)
{
    mscclpp_admission_guest_t guests[4], stranger;
    mscclpp_admission_t other = {0};
    pthread_t threads[THREADS];
    int keys[THREADS], i;

    unit_begin();
    /* Another one's is no matter of this process's. */
    mscclpp_admission_init(&other);
    mscclpp_admission_queue(&other, &stranger, 1);
    CHECK(mscclpp_admission_take(&other, &stranger));
    room = mscclpp_admission_process();
    for (uint64_t k = 0; k < 4; ++k) {
        mscclpp_admission_queue(room, &guests[k], 40 - 10 * k);
    }
    /* The lowest first, and one at a time. */
    CHECK(!mscclpp_admission_is_first(room, &guests[0]) && mscclpp_admission_is_first(room, &guests[3]));
    CHECK(!mscclpp_admission_take(room, &guests[0]));
    CHECK(!mscclpp_admission_take(room, &guests[2]));
    CHECK(mscclpp_admission_take(room, &guests[3]));
    CHECK(!mscclpp_admission_take(room, &guests[3]));
    mscclpp_admission_change_key(room, &guests[1], 5);
    CHECK(!mscclpp_admission_take(room, &guests[1]));
    mscclpp_admission_give(room);
    CHECK(!mscclpp_admission_take(room, &guests[3]));
    CHECK(mscclpp_admission_take(room, &guests[1]));
    mscclpp_admission_give(room);
    mscclpp_admission_leave(room, &guests[1]);
    CHECK(mscclpp_admission_take(room, &guests[3]));
    mscclpp_admission_give(room);
    mscclpp_admission_leave(room, &guests[0]);
    mscclpp_admission_leave(room, &guests[3]);
    mscclpp_admission_leave(room, &guests[2]);

    for (i = 0; i < THREADS; ++i) {
        keys[i] = i + 1;
        REQUIRE(pthread_create(&threads[i], NULL, come_and_go, &keys[i]) == 0);
    }
    for (i = 0; i < THREADS; ++i) {
        pthread_join(threads[i], NULL);
    }
    CHECK_EQ(most, 1);
    CHECK(taken > 0);
    CHECK_EQ(inside, 0);
    CHECK(!mscclpp_admission_take(&other, &stranger));

    /* The extra room is there for one, and for nobody while blocks are reserved. */
    CHECK(mscclpp_admission_take_extra(&other));
    CHECK(!mscclpp_admission_take_extra(&other));
    mscclpp_admission_give_extra(&other);
    CHECK(mscclpp_admission_reserve(&other, 3, 4));
    CHECK(!mscclpp_admission_reserve(&other, 2, 4));
    CHECK(!mscclpp_admission_take_extra(&other));
    mscclpp_admission_release(&other, 3);
    CHECK(mscclpp_admission_take_extra(&other));
    return unit_end();
}
