#include "mca/common/team/park.h"

#include <pthread.h>
#include <string.h>

#include "mca/common/run/known.h"
#include "mca/common/run/linger.h"
#include "mca/common/team/parts.h"
#include "mca/common/team/plans.h"

/* The most teams that a process keeps. Each holds at most PARKED_BYTES of device memory. */
#define PARKED_MAX 8

static pthread_mutex_t park_lock = PTHREAD_MUTEX_INITIALIZER;
static mscclpp_team_t *parked[PARKED_MAX]; /* the first `parked_count` entries are in use, the oldest first */
static int parked_count;

/* Functions of the oob below: a parked team has nothing to progress, and nothing to check. */
static void progress_nothing(void *context)
{
    (void)context;
}

static mscclpp_status_t check_nothing(void *context)
{
    (void)context;
    return MSCCLPP_OK;
}

/* The oob of a parked team, which has no communicator. */
static const mscclpp_oob_t parked_oob = {
    .label = "an ended communicator", .size = 1, .progress = progress_nothing, .check = check_nothing};

/* The numbers of the digest FNV-1a for 64 bits. */
#define FNV_BASIS UINT64_C(0xcbf29ce484222325)
#define FNV_PRIME UINT64_C(0x100000001b3)

/* Returns the digest with these bytes added. */
static uint64_t digest_add(uint64_t digest, const void *bytes, size_t length)
{
    size_t i;

    for (i = 0; i < length; ++i) {
        digest = (digest ^ ((const unsigned char *)bytes)[i]) * FNV_PRIME;
    }
    return digest;
}

/* 0 means "no key", so a digest of 0 becomes 1. */
uint64_t mscclpp_park_key(const mscclpp_team_params_t *params)
{
    uint64_t digest = FNV_BASIS;

    /* Strings are represented by their addresses. Equal strings at different addresses only cost a new set-up. */
    digest = digest_add(digest, params->config, sizeof(*params->config));
    digest = digest_add(digest, &params->rules, sizeof(params->rules));
    digest = digest_add(digest, &params->plans, sizeof(params->plans));
    digest = digest_add(digest, &params->gpu, sizeof(params->gpu));
    digest = digest_add(digest, &params->device, sizeof(params->device));
    digest = digest_add(digest, &params->concurrent, sizeof(params->concurrent));
    digest = digest_add(digest, &params->admission, sizeof(params->admission));
    digest = digest_add(digest, &params->members, sizeof(params->members));
    digest = digest_add(digest, &params->oob.rank, sizeof(params->oob.rank));
    digest = digest_add(digest, &params->oob.size, sizeof(params->oob.size));
    return digest != 0 ? digest : 1;
}

/* Removes a team from the list, and returns it. The caller holds the lock. */
static mscclpp_team_t *remove_at(int index)
{
    mscclpp_team_t *team = parked[index];

    --parked_count;
    memmove(&parked[index], &parked[index + 1], sizeof(parked[0]) * (size_t)(parked_count - index));
    return team;
}

/* Searches from the end of the list, where the team that ended last is. */
void mscclpp_park_claim(uint64_t key, mscclpp_team_t *teams[MSCCLPP_PARK_OFFERS])
{
    int claimed = 0, i;

    memset(teams, 0, sizeof(teams[0]) * MSCCLPP_PARK_OFFERS);
    pthread_mutex_lock(&park_lock);
    for (i = parked_count - 1; i >= 0 && claimed < MSCCLPP_PARK_OFFERS; --i) {
        if (parked[i]->park_key == key) {
            teams[claimed++] = remove_at(i);
        }
    }
    pthread_mutex_unlock(&park_lock);
}

/* The limit of calls_before: words of the board hold four times the number of a call (mca/common/group/board.c). */
#define CALLS_BEFORE_MAX (UINT64_C(1) << 60)

/* The most bytes of device memory that a parked team may hold. */
#define PARKED_BYTES ((uint64_t)4 << 20)

/* Returns true if the set-up of the team or one of its calls has failed. */
static bool has_failed(const mscclpp_team_t *team)
{
    const mscclpp_dev_mailbox_t *mailbox = team->runner.mailbox;

    return team->group.broken || team->runner.stuck || mailbox == NULL || team->group.board == NULL ||
           __atomic_load_n(&mailbox->failed, __ATOMIC_RELAXED) != 0 ||
           __atomic_load_n(&mailbox->abort, __ATOMIC_RELAXED) != 0;
}

/*
 * Returns true if the team can be parked:
 * - It may be taken over, holds little memory, and its calls can still be counted.
 * - It has neither a fabric nor an engine, whose resources are not meant to outlive a communicator, and no leased
 *   scratch.
 * - Nothing has failed, neither at set-up nor later.
 * - No operation is in flight.
 */
static bool can_be_parked(mscclpp_team_t *team)
{
    const bool is_small = team->runner.layout.total + mscclpp_plans_bytes(team) <= PARKED_BYTES;
    const bool is_plain =
        team->fabric == NULL && team->engine == NULL && (team->kept == NULL || team->kept->scratch == NULL);

    return team->park_key != 0 && is_small && team->group.calls_before < CALLS_BEFORE_MAX && is_plain &&
           !has_failed(team) && (team->runner.launches == 0 || mscclpp_runner_has_ended(&team->runner));
}

/*
 * The communicator's oob ends with it, so the team and its control messages get one that does nothing. If the team
 * cannot be parked, only its lingering kernel may have ended.
 */
bool mscclpp_park_put(mscclpp_team_t *team, mscclpp_team_t **evicted_p)
{
    *evicted_p = NULL;
    if (!can_be_parked(team) || mscclpp_linger_end(&team->runner) != MSCCLPP_OK) {
        return false;
    }
    mscclpp_runner_give_stream(&team->runner);
    mscclpp_runner_release_mappings(&team->runner, true);
    team->group.oob = parked_oob;
    if (team->group.ctrl != NULL) {
        mscclpp_ctrl_rebind(team->group.ctrl, &parked_oob);
    }
    pthread_mutex_lock(&park_lock);
    if (parked_count == PARKED_MAX) {
        *evicted_p = remove_at(0);
    }
    parked[parked_count++] = team;
    pthread_mutex_unlock(&park_lock);
    return true;
}

mscclpp_team_t *mscclpp_park_pop(void)
{
    mscclpp_team_t *team;

    pthread_mutex_lock(&park_lock);
    team = parked_count > 0 ? remove_at(0) : NULL;
    pthread_mutex_unlock(&park_lock);
    return team;
}

/*
 * Resets the state that belongs to the old communicator. The numbers of operations and the packet flags continue,
 * because device memory contains them, too.
 */
void mscclpp_park_reopen(mscclpp_team_t *team, const mscclpp_oob_t *oob)
{
    team->group.oob = *oob;
    mscclpp_group_renumber(&team->group);
    team->group.call = 0;
    team->group.call_args = 0;
    team->last_algorithm = "none";
    mscclpp_runner_forget_known(&team->runner);
    mscclpp_group_notices_fini(&team->group);
    mscclpp_group_notices_init(&team->group);
    if (team->group.ctrl != NULL) {
        mscclpp_ctrl_rebind(team->group.ctrl, oob);
    }
}
