/* Meetings of a team's ranks before a launch, where all ranks have to get room for their kernels: see admission.h. */
#include "mca/common/base/fiber.h"
#include "mca/common/base/log.h"
#include "mca/common/group/group.h"

/* Nanoseconds between two looks, and the most looks of one attempt to find room. */
#define PAUSE 20000
#define PAUSES 32

/*
 * How much an attempt to find room advances a meeting in the queue. Random keys go up to 2^32, so after 64 attempts a
 * meeting comes before every new one. Two meetings that make the same attempts keep their distance.
 */
#define ATTEMPT_BONUS (UINT64_C(1) << 26)

static bool all_have_room(const mscclpp_group_t *group, const uint64_t *word)
{
    const size_t offset = (size_t)((const char *)word - (const char *)&group->board[group->rank]);
    bool all = true;
    int rank;

    for (rank = 0; rank < group->size; ++rank) {
        const char *line = (const char *)&group->board[rank];

        all = all && mscclpp_board_load((const uint64_t *)(const void *)(line + offset)) % 2 == 1;
    }
    return all;
}

/*
 * The key of a meeting in the queue for room; equal on all ranks. It is random and decreases with each attempt. Random
 * keys are hardly ever equal. Processes could admit two meetings with equal keys in different orders, and then neither
 * would get room everywhere.
 */
static uint64_t place_in_queue(const mscclpp_group_t *group, uint64_t attempt)
{
    const uint64_t draw = (group->id ^ group->arrivals) * UINT64_C(0x9e3779b97f4a7c15) >> 32;

    return (UINT64_C(1) << 63) + draw - attempt * ATTEMPT_BONUS;
}

static void pause_briefly(void)
{
    const struct timespec pause = {.tv_nsec = PAUSE};

    if (!mscclpp_fiber_yield()) {
        nanosleep(&pause, NULL);
    }
}

/* Waits until no other team of this process comes before this one. `guest` NULL: this rank needs no room. */
static mscclpp_status_t await_turn(mscclpp_group_t *group, mscclpp_group_wait_t *wait,
                                   const mscclpp_admission_guest_t *guest)
{
    mscclpp_status_t status = MSCCLPP_OK;

    while (status == MSCCLPP_OK && guest != NULL && !mscclpp_admission_is_first(group->admission, guest)) {
        pause_briefly();
        status = mscclpp_group_wait_turn(wait);
    }
    return status;
}

/*
 * True if the team gets room in this process. Without `patience`, room must be free now. With it, waits for room, but
 * not for long: if processes have admitted different teams, some team has to give way. `guest` NULL: there is always
 * room.
 */
static bool try_for_room(mscclpp_group_t *group, const mscclpp_admission_guest_t *guest, bool patience)
{
    int i;

    if (guest == NULL) {
        return true;
    }
    group->has_room = mscclpp_admission_take(group->admission, guest);
    for (i = 0; i < PAUSES && patience && !group->has_room; ++i) {
        pause_briefly();
        group->has_room = mscclpp_admission_take(group->admission, guest);
    }
    return group->has_room;
}

/*
 * Tells the other ranks that this rank has reached the step, and whether it has room. Waits until all have told.
 * *all_p: all have room. A word holds 2 * the number of the step, + 1 for room. Steps alternate between two words: a
 * rank that knows the result of a step may publish the next step while others still read this one. It cannot get two
 * steps ahead.
 */
static mscclpp_status_t step(mscclpp_group_t *group, mscclpp_group_wait_t *wait, bool room, bool *all_p)
{
    uint64_t *word = &group->board[group->rank].room[++group->steps % 2];
    mscclpp_status_t status;

    mscclpp_board_store(word, 2 * group->steps + room);
    status = mscclpp_group_wait_turn(wait);
    if (status == MSCCLPP_OK) {
        status = mscclpp_group_wait_on(wait, word, 2 * group->steps);
    }
    *all_p = status == MSCCLPP_OK && all_have_room(group, word);
    return status;
}

/*
 * Finds room on all ranks, which have all arrived. They try to take room at the same time. If one of them fails, each
 * rank gives back its own room and waits until the team is first in the queue of its process. The order of teams is the
 * same in all processes, so the first team of all gets its turn everywhere. If the order has changed before all ranks
 * have taken room, they try again.
 */
static mscclpp_status_t find_room(mscclpp_group_t *group, uint64_t bytes, bool early)
{
    mscclpp_admission_guest_t place, *guest = early || group->concurrent ? &place : NULL;
    mscclpp_status_t status = MSCCLPP_OK;
    mscclpp_group_wait_t wait; /* one deadline for all attempts, as each may be brief */
    bool all = false;
    uint64_t attempt;

    mscclpp_group_wait_init(&wait, group, "room for kernels", bytes);
    if (guest != NULL) {
        mscclpp_admission_queue(group->admission, guest, place_in_queue(group, 0));
    }
    for (attempt = 1; !all && status == MSCCLPP_OK; ++attempt) {
        if (attempt > 1) {
            mscclpp_group_give_room(group);
            if (guest != NULL) {
                mscclpp_admission_change_key(group->admission, guest, place_in_queue(group, attempt));
            }
            status = await_turn(group, &wait, guest);
            status = status == MSCCLPP_OK ? step(group, &wait, false, &all) : status;
        }
        if (status == MSCCLPP_OK) {
            status = step(group, &wait, try_for_room(group, guest, attempt > 1), &all);
        }
    }
    if (guest != NULL) {
        mscclpp_admission_leave(group->admission, guest);
    }
    mscclpp_debug("%s: call %llu: %s after %llu attempts to find room for kernels", group->oob.label,
                  (unsigned long long)group->call, mscclpp_status_string(status), (unsigned long long)attempt - 1);
    return status;
}

mscclpp_status_t mscclpp_group_meet(mscclpp_group_t *group, uint64_t bytes, bool early)
{
    uint64_t *word = &group->board[group->rank].arrived;
    mscclpp_status_t status;
    bool room = !group->concurrent;

    if (!group->meet_first && !early) {
        return MSCCLPP_OK;
    }
    /*
     * The common room is taken only after all ranks have arrived: a late rank may wait for another thread or call,
     * which waits for room. The extra room may be taken before: who does not get it needs only the common one.
     */
    if (early && room) {
        room = group->has_extra_room = mscclpp_admission_take_extra(group->admission);
    }
    mscclpp_board_store(word, 2 * ++group->arrivals + room);
    status = mscclpp_group_wait_words(group, "arrival of all ranks", bytes, word, 2 * group->arrivals);
    if (status == MSCCLPP_OK && !group->spans && !all_have_room(group, word)) {
        mscclpp_group_give_room(group);
        status = find_room(group, bytes, early);
    }
    return status;
}

void mscclpp_group_give_room(mscclpp_group_t *group)
{
    if (group->has_room) {
        mscclpp_admission_give(group->admission);
        group->has_room = false;
    }
    if (group->has_extra_room) {
        mscclpp_admission_give_extra(group->admission);
        group->has_extra_room = false;
    }
}
