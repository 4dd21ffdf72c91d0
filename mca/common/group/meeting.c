/* Meetings of a team's ranks before a launch, with room for the kernels of all. */
#include "mca/common/base/fiber.h"
#include "mca/common/base/log.h"
#include "mca/common/group/group.h"

/* Nanoseconds between two looks, and how many an attempt to find room takes at most. */
#define PAUSE 20000
#define PAUSES 32

/*
 * What an attempt to find room is worth, where draws go up to 2^32: after 64 of them a meeting comes before any new
 * one. The difference between two meetings stays what it is, however long both have to wait.
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
 * Where a meeting stands among those that want room, equal on all ranks: by chance, and sooner with each attempt. Two
 * that stood equal would be let in differently by different processes, and both wait on.
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

/* Until no other team of this process comes before this one. */
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
 * True if the team has room in this process. Without `patience` it has to be free now; with it, it is waited for, but
 * not for long: where processes have let different teams in, somebody has to give way. `guest` NULL: there is always
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
 * Tells the other ranks that this one has room, or has come so far, and waits for what they say; *all_p: all have. A
 * word holds the number of the step twice, plus 1 for room. Two words alternate, because a rank that knows the result
 * of a step may write that of the next one while others still read, but not that after it.
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
 * All ranks are there, and try to have room, all at once. If there is none at first, each waits, with room of its own
 * left to others, until it is the team's turn in its process; teams have one order everywhere, so that of the first one
 * comes. Whose turn it was may still have changed meanwhile: then they try again.
 */
static mscclpp_status_t find_room(mscclpp_group_t *group, uint64_t bytes)
{
    mscclpp_admission_guest_t place, *guest = group->admission != NULL ? &place : NULL;
    mscclpp_status_t status = MSCCLPP_OK;
    mscclpp_group_wait_t wait; /* one deadline for all attempts, each of which may be brief */
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

    if (!group->meet_first && !early) {
        return MSCCLPP_OK;
    }
    /* Room is not taken before all are there: who comes late may wait for another thread, and that one for room. */
    mscclpp_board_store(word, 2 * ++group->arrivals + (group->admission == NULL));
    status = mscclpp_group_wait_words(group, "arrival of all ranks", bytes, word, 2 * group->arrivals);
    if (status == MSCCLPP_OK && group->meet_first && !group->spans && !all_have_room(group, word)) {
        status = find_room(group, bytes);
    }
    return status;
}

void mscclpp_group_give_room(mscclpp_group_t *group)
{
    if (group->has_room) {
        mscclpp_admission_give(group->admission);
        group->has_room = false;
    }
}
