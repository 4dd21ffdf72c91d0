/* Meetings of a team's ranks before a launch, with room for the kernels of all. */
#include "mca/common/log.h"
#include "mca/common/team_internal.h"

/* An attempt to find room lasts so many pauses of so many nanoseconds at the most. */
#define ATTEMPT_PAUSES 32
#define ATTEMPT_PAUSE 20000

/*
 * What an attempt to find room is worth, where draws go up to 2^32: after 64 of them a meeting comes before any new
 * one. The difference between two meetings stays what it is, however long both have to wait.
 */
#define ATTEMPT_BONUS (UINT64_C(1) << 26)

static bool all_have_room(const mscclpp_team_t *team, const uint64_t *word)
{
    const size_t offset = (size_t)((const char *)word - (const char *)&team->control[team->rank]);
    bool all = true;
    int rank;

    for (rank = 0; rank < team->size; ++rank) {
        const char *line = (const char *)&team->control[rank];

        all = all && mscclpp_control_load((const uint64_t *)(const void *)(line + offset)) % 2 == 1;
    }
    return all;
}

/*
 * Where a meeting stands among those that want room, equal on all ranks: by chance, and sooner with each attempt. Two
 * that stood equal would be let in differently by different processes, and both wait on.
 */
static uint64_t place_in_queue(const mscclpp_team_t *team, uint64_t attempt)
{
    const uint64_t draw = (team->id ^ team->arrivals) * UINT64_C(0x9e3779b97f4a7c15) >> 32;

    return (UINT64_C(1) << 63) + draw - attempt * ATTEMPT_BONUS;
}

/* Not for long: where processes have let different guests in, somebody has to give way. */
static mscclpp_room_t await_room(mscclpp_rooms_t *rooms, const mscclpp_room_guest_t *guest)
{
    const struct timespec pause = {.tv_nsec = ATTEMPT_PAUSE};
    mscclpp_room_t room = mscclpp_room_take_late(rooms, guest);
    int i;

    for (i = 0; i < ATTEMPT_PAUSES && room == MSCCLPP_ROOM_NONE; ++i) {
        nanosleep(&pause, NULL);
        room = mscclpp_room_take_late(rooms, guest);
    }
    return room;
}

/* True if the team has room in this process for the attempt in hand. `guest` NULL: there is always room. */
static bool try_for_room(mscclpp_team_t *team, mscclpp_room_guest_t *guest, uint64_t attempt)
{
    if (guest == NULL) {
        return true;
    }
    mscclpp_team_give_room(team);
    mscclpp_room_change_key(team->rooms, guest, place_in_queue(team, attempt));
    team->room = await_room(team->rooms, guest);
    return team->room != MSCCLPP_ROOM_NONE;
}

/*
 * All ranks are there, but not all have room: they try until all have at once. A word holds the number of the attempt
 * twice, plus 1 for room. Two words alternate, because a rank that knows the result of an attempt may write that of the
 * next one while others still read, but not that after it.
 */
static mscclpp_status_t find_room(mscclpp_team_t *team, uint64_t bytes)
{
    mscclpp_control_line_t *own = &team->control[team->rank];
    mscclpp_room_guest_t place, *guest = team->rooms != NULL ? &place : NULL;
    mscclpp_status_t status = MSCCLPP_OK;
    mscclpp_team_wait_t wait; /* one deadline for all attempts, each of which may be brief */
    bool all = false;
    uint64_t attempt;

    mscclpp_team_wait_init(&wait, team, "room for kernels", bytes);
    if (guest != NULL) {
        mscclpp_room_queue(team->rooms, guest, place_in_queue(team, 0));
    }
    for (attempt = 1; !all && status == MSCCLPP_OK; ++attempt) {
        uint64_t *word = &own->room[++team->attempts % 2];
        bool room = try_for_room(team, guest, attempt);

        mscclpp_control_store(word, 2 * team->attempts + room);
        status = mscclpp_team_wait_turn(&wait);
        if (status == MSCCLPP_OK) {
            status = mscclpp_team_wait_on(&wait, word, 2 * team->attempts);
        }
        all = status == MSCCLPP_OK && all_have_room(team, word);
    }
    if (guest != NULL) {
        mscclpp_room_leave(team->rooms, guest);
    }
    mscclpp_debug("%s: call %llu: %s after %llu attempts to find room for kernels", team->oob.label,
                  (unsigned long long)team->call, mscclpp_status_string(status), (unsigned long long)attempt - 1);
    return status;
}

/* True without rooms. */
static bool take_early(mscclpp_team_t *team)
{
    if (team->rooms != NULL) {
        team->room = mscclpp_room_take_early(team->rooms);
    }
    return team->rooms == NULL || team->room != MSCCLPP_ROOM_NONE;
}

mscclpp_status_t mscclpp_team_meet(mscclpp_team_t *team, uint64_t bytes)
{
    uint64_t *word = &team->control[team->rank].arrived;
    mscclpp_status_t status;
    bool room;

    if (!team->meet_first) {
        return MSCCLPP_OK;
    }
    room = take_early(team);
    mscclpp_control_store(word, 2 * ++team->arrivals + room);
    status = mscclpp_team_wait_words(team, "arrival of all ranks", bytes, word, 2 * team->arrivals);
    if (status == MSCCLPP_OK && team->fabric == NULL && !all_have_room(team, word)) {
        status = find_room(team, bytes);
    }
    return status;
}

void mscclpp_team_give_room(mscclpp_team_t *team)
{
    if (team->rooms != NULL) {
        mscclpp_room_give(team->rooms, team->room);
        team->room = MSCCLPP_ROOM_NONE;
    }
}
