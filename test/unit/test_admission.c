#include <pthread.h>
#include <sched.h>

#include "mca/common/group/admission.h"
#include "test/unit/unit.h"

#define THREADS 24
#define TURNS 20000

static mscclpp_admission_t *admission;
static int inside, most, taken;

static void *come_and_go(void *argument)
{
    uint64_t key = *(const int *)argument;
    mscclpp_admission_candidate_t candidate;

    mscclpp_admission_add(admission, &candidate, key);
    for (int turn = 0; turn < TURNS; ++turn) {
        if (mscclpp_admission_take_slot(admission, &candidate)) {
            int now = __atomic_add_fetch(&inside, 1, __ATOMIC_RELAXED);

            if (now > __atomic_load_n(&most, __ATOMIC_RELAXED)) {
                __atomic_store_n(&most, now, __ATOMIC_RELAXED);
            }
            __atomic_add_fetch(&taken, 1, __ATOMIC_RELAXED);
            sched_yield();
            __atomic_sub_fetch(&inside, 1, __ATOMIC_RELAXED);
            mscclpp_admission_give_slot(admission);
        }
        mscclpp_admission_change_key(admission, &candidate, key = key * 5 % 97);
    }
    mscclpp_admission_remove(admission, &candidate);
    return NULL;
}

int main(void)
{
    mscclpp_admission_candidate_t candidates[4], stranger;
    uint64_t word = 0;
    mscclpp_admission_t other = {0};
    pthread_t threads[THREADS];
    int keys[THREADS], i;

    unit_begin();
    /* Another one's is no matter of this process's. */
    mscclpp_admission_init(&other);
    mscclpp_admission_add(&other, &stranger, 1);
    CHECK(mscclpp_admission_take_slot(&other, &stranger));
    admission = mscclpp_admission_process();
    for (uint64_t k = 0; k < 4; ++k) {
        mscclpp_admission_add(admission, &candidates[k], 40 - 10 * k);
    }
    /* The lowest first, and one at a time. */
    CHECK(!mscclpp_admission_is_first(admission, &candidates[0]) &&
          mscclpp_admission_is_first(admission, &candidates[3]));
    CHECK(!mscclpp_admission_take_slot(admission, &candidates[0]));
    CHECK(!mscclpp_admission_take_slot(admission, &candidates[2]));
    CHECK(mscclpp_admission_take_slot(admission, &candidates[3]));
    CHECK(!mscclpp_admission_take_slot(admission, &candidates[3]));
    mscclpp_admission_change_key(admission, &candidates[1], 5);
    CHECK(!mscclpp_admission_take_slot(admission, &candidates[1]));
    mscclpp_admission_give_slot(admission);
    CHECK(!mscclpp_admission_take_slot(admission, &candidates[3]));
    CHECK(mscclpp_admission_take_slot(admission, &candidates[1]));
    mscclpp_admission_give_slot(admission);
    mscclpp_admission_remove(admission, &candidates[1]);
    CHECK(mscclpp_admission_take_slot(admission, &candidates[3]));
    mscclpp_admission_give_slot(admission);
    mscclpp_admission_remove(admission, &candidates[0]);
    mscclpp_admission_remove(admission, &candidates[3]);
    mscclpp_admission_remove(admission, &candidates[2]);

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
    CHECK(!mscclpp_admission_take_slot(&other, &stranger));

    mscclpp_admission_give_slot(&other);
    /* Whoever waits for the slot comes before a pledge. */
    CHECK(!mscclpp_admission_pledge(&other, &word, 1));
    mscclpp_admission_remove(&other, &stranger);
    /* A pledge goes to whoever takes the slot first, unless it has been granted. */
    CHECK(mscclpp_admission_pledge(&other, &word, 1));
    CHECK(!mscclpp_admission_pledge(&other, &word, 1));
    CHECK(mscclpp_admission_redeem(&other, &word, 1));
    CHECK_EQ(word, 3);
    CHECK(!mscclpp_admission_take_slot(&other, &stranger));
    mscclpp_admission_give_slot(&other);
    CHECK(mscclpp_admission_pledge(&other, &word, 2));
    CHECK(mscclpp_admission_take_slot(&other, &stranger));
    CHECK_EQ(word, 4);
    CHECK(!mscclpp_admission_redeem(&other, &word, 2));
    CHECK(!mscclpp_admission_pledge(&other, &word, 3));
    mscclpp_admission_give_slot(&other);
    /* Another rank decides. */
    CHECK(mscclpp_admission_pledge(&other, &word, 4));
    word = 9;
    CHECK(!mscclpp_admission_take_slot(&other, &stranger));
    CHECK(mscclpp_admission_redeem(&other, &word, 4));
    mscclpp_admission_give_slot(&other);
    CHECK(mscclpp_admission_pledge(&other, &word, 5));
    word = 10;
    CHECK(!mscclpp_admission_redeem(&other, &word, 5));
    CHECK(mscclpp_admission_pledge(&other, &word, 6));
    mscclpp_admission_give_up(&other, &word);
    CHECK(mscclpp_admission_take_slot(&other, &stranger));
    mscclpp_admission_give_slot(&other);

    CHECK(mscclpp_admission_reserve_blocks(&other, 3, 4));
    CHECK(!mscclpp_admission_reserve_blocks(&other, 2, 4));
    CHECK(mscclpp_admission_reserve_blocks(&other, 1, 4));
    mscclpp_admission_release_blocks(&other, 3);
    CHECK(mscclpp_admission_reserve_blocks(&other, 2, 4));
    return unit_end();
}
