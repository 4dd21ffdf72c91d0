/* Launches of a team's kernels, and the life of its packet flags. */
#include <stdlib.h>
#include <string.h>

#include "mca/common/base/clock.h"
#include "mca/common/base/fiber.h"
#include "mca/common/fabric/fabric.h"
#include "mca/common/base/log.h"
#include "mca/common/base/mailbox.h"
#include "mca/common/gpu/streams.h"
#include "mca/common/team/parts.h"

/*
 * Polls of the mailbox between two turns of the embedding runtime's progress: about as long as such a turn takes, so
 * that an end is seen late by a fraction of one only.
 */
#define POLLS 512u

/* Before the first such turn: most small calls end within them, and the turn would make them late. */
#define FIRST_POLLS 4096u

/* Between two looks at whether a kernel that was rung for has left. */
#define MISS_POLLS 32u

/* How long a kernel may take to leave once it was told to, in seconds. */
#define LEAVE_TIME 10.0

void mscclpp_team_fill_args(const mscclpp_team_t *team, mscclpp_dev_args_t *args)
{
    args->rank = (uint32_t)team->group.rank;
    args->nranks = (uint32_t)team->group.size;
    /* A waiting host's deadline comes first; the kernel's own is for a host that is stopped, or does not wait. */
    args->timeout_ns = team->group.timeout > 0 ? (uint64_t)((team->group.timeout + 1) * 1e9) : 0;
    args->packet_half = team->layout.packet_half;
    args->oneshot_capacity = (uint32_t)MSCCLPP_DEV_ONESHOT_CAPACITY(args->packet_half, args->nranks);
    args->twophase_capacity = (uint32_t)MSCCLPP_DEV_TWOPHASE_CAPACITY(args->packet_half, args->nranks);
    args->ll128_capacity = (uint32_t)MSCCLPP_DEV_LL128_CAPACITY(args->packet_half, args->nranks);
    args->put_capacity = (uint32_t)MSCCLPP_DEV_PUT_CAPACITY(team->layout.put_size, args->nranks);
    args->release = MSCCLPP_DEV_RELEASE_SYSTEM;
    args->bulk_offset = team->layout.bulk_offset;
    args->bulk_size = team->layout.bulk_size;
    args->put_offset = team->layout.put_offset;
    args->state = (mscclpp_dev_state_t *)(team->scratch + team->layout.state_offset);
    args->mailbox = team->device_mailbox;
    memcpy(args->scratch, team->peer_scratch, sizeof(args->scratch[0]) * (size_t)team->group.size);
}

bool mscclpp_team_has_ended(const mscclpp_team_t *team)
{
    return mscclpp_mailbox_says(team->mailbox, team->tellers, team->launches);
}

void mscclpp_team_note_launch(mscclpp_team_t *team, uint32_t blocks)
{
    ++team->launches;
    team->tellers = blocks;
}

mscclpp_status_t mscclpp_team_take_stream(mscclpp_team_t *team)
{
    return team->stream != NULL ? MSCCLPP_OK : mscclpp_stream_get(team->gpu, team->device, &team->stream);
}

void mscclpp_team_give_stream(mscclpp_team_t *team)
{
    /* A stream whose kernel did not end must not be lent to another team; it is lost with the failed one. */
    if (team->stream != NULL && !team->stuck && (team->launches == 0 || mscclpp_team_has_ended(team))) {
        mscclpp_stream_put(team->gpu, team->device, team->stream, mscclpp_linger_present(team));
    }
    team->stream = NULL;
}

mscclpp_status_t mscclpp_team_await_stream(mscclpp_team_t *team)
{
    mscclpp_status_t status = MSCCLPP_IN_PROGRESS;

    while (mscclpp_fiber_inside() && (status = team->gpu->stream_query(team->stream)) == MSCCLPP_IN_PROGRESS) {
        (void)mscclpp_fiber_yield();
    }
    return status < 0 ? status : team->gpu->stream_sync(team->stream);
}

/* What a launch in the caller's thread does while it waits; the first failure tells the kernel to leave. */
typedef struct {
    mscclpp_team_t *team;
    mscclpp_group_wait_t wait;
    mscclpp_status_t status;
} inline_wait_t;

static void inline_turn(void *context)
{
    inline_wait_t *turn = context;

    if (turn->status == MSCCLPP_OK) {
        mscclpp_team_t *team = turn->team;

        /* The kernel knows this function by now. Others may be launched in this thread before it is gone on with. */
        team->gpu->set_progress(NULL, NULL);
        turn->status = team->pump != NULL ? team->pump(team) : MSCCLPP_OK;
        if (turn->status == MSCCLPP_OK) {
            turn->status = mscclpp_group_wait_turn(&turn->wait);
        }
        if (turn->status != MSCCLPP_OK) {
            __atomic_store_n(&turn->team->mailbox->abort, 1, __ATOMIC_RELAXED);
        }
    }
}

/* After the word to leave. A kernel that still does not end is left alone, and with it all that it uses. */
static void await_leaving(mscclpp_team_t *team)
{
    double until = mscclpp_now() + LEAVE_TIME;

    while (!mscclpp_team_has_ended(team) && !mscclpp_linger_missed(team)) {
        mscclpp_status_t status = team->stream != NULL ? team->gpu->stream_query(team->stream) : MSCCLPP_OK;

        if (status < 0 || mscclpp_now() > until) {
            team->stuck = true;
            return;
        }
        mscclpp_group_progress(&team->group);
    }
}

/* Rings or launches. The twin may run all of a kernel here, in the caller's thread. */
static mscclpp_status_t start(mscclpp_team_t *team, const mscclpp_dev_launch_t *launch, const char *what)
{
    const mscclpp_dev_args_t *args = launch->args; /* all arguments begin with the common ones */
    inline_wait_t turn;
    mscclpp_status_t status;
    uint32_t tellers;

    turn.status = MSCCLPP_OK;
    if (team->group.on_host) {
        turn.team = team;
        mscclpp_group_wait_init(&turn.wait, &team->group, what, args->bytes);
        turn.wait.pumped = team->pump != NULL;
        team->gpu->set_progress(inline_turn, &turn);
    }
    status = mscclpp_linger_start(team, launch, &tellers);
    if (team->group.on_host) {
        team->gpu->set_progress(NULL, NULL);
    }
    if (status != MSCCLPP_OK) {
        return status;
    }
    mscclpp_team_note_launch(team, tellers);
    return turn.status;
}

/* A kernel that was rung for too late: the operation, which it has not begun, is started again. */
static mscclpp_status_t start_again(mscclpp_team_t *team, const mscclpp_dev_launch_t *launch, const char *what)
{
    --team->launches;
    team->tellers = 1; /* those before it have ended, whoever told of the last one */
    return start(team, launch, what);
}

/* The kernel that was rung for runs in a stream that may be another team's by now; a device that failed fails in all.
 */
static mscclpp_status_t look_at_device(const mscclpp_team_t *team)
{
    mscclpp_gpu_stream_t *stream;
    mscclpp_status_t status = mscclpp_stream_get(team->gpu, team->device, &stream);

    if (status == MSCCLPP_OK) {
        status = team->gpu->stream_query(stream);
        mscclpp_stream_put(team->gpu, team->device, stream, status == MSCCLPP_IN_PROGRESS);
    }
    return status == MSCCLPP_IN_PROGRESS ? MSCCLPP_OK : status;
}

mscclpp_status_t mscclpp_team_look_at_kernel(const mscclpp_team_t *team, const char *what)
{
    mscclpp_status_t status;

    if (team->stream == NULL) {
        return look_at_device(team);
    }
    status = team->gpu->stream_query(team->stream);
    if (status == MSCCLPP_OK && !mscclpp_team_has_ended(team)) {
        mscclpp_error("%s: %s call %llu (%s): the kernel of rank %d ended without a word", team->group.oob.label,
                      team->group.collective, (unsigned long long)team->group.call, what,
                      team->group.members[team->group.rank]);
        return MSCCLPP_ERR_DEVICE;
    }
    return status == MSCCLPP_IN_PROGRESS ? MSCCLPP_OK : status;
}

static mscclpp_status_t await_end(mscclpp_team_t *team, const mscclpp_dev_launch_t *launch, const char *what)
{
    const mscclpp_dev_args_t *args = launch->args; /* all arguments begin with the common ones */
    mscclpp_group_wait_t wait;
    const bool spins = !team->group.on_host && !mscclpp_fiber_inside();
    mscclpp_status_t status = MSCCLPP_OK;
    uint32_t polls = 0;

    mscclpp_group_wait_init(&wait, &team->group, what, args->bytes);
    wait.pumped = team->pump != NULL;
    while (!mscclpp_team_has_ended(team)) {
        double look = wait.next_look;

        ++polls;
        if (team->pump != NULL) {
            status = team->pump(team);
        }
        if (status != MSCCLPP_OK) {
            /* The pump's own; below it tells the kernel to leave. */
        } else if ((polls % MISS_POLLS == 0 || !spins) && mscclpp_linger_missed(team)) {
            status = start_again(team, launch, what);
        } else if ((polls < FIRST_POLLS || polls % POLLS != 0) && spins) {
            continue;
        } else {
            status = mscclpp_group_wait_turn(&wait);
            if (status == MSCCLPP_OK && wait.next_look > look && mscclpp_group_may_ask(&wait)) {
                status = mscclpp_team_look_at_kernel(team, what);
            }
        }
        if (status != MSCCLPP_OK) {
            __atomic_store_n(&team->mailbox->abort, 1, __ATOMIC_RELAXED);
            await_leaving(team);
            return status;
        }
    }
    mscclpp_linger_note_end(team);
    return MSCCLPP_OK;
}

mscclpp_status_t mscclpp_team_check_mailbox(const mscclpp_team_t *team, const char *what)
{
    uint64_t failed = __atomic_load_n(&team->mailbox->failed, __ATOMIC_RELAXED);
    uint64_t peer; /* ranks of other nodes are named behind all of this one's */

    if (failed == 0) {
        return MSCCLPP_OK;
    }
    peer = failed - 1 < MSCCLPP_DEV_MAX_RANKS ? (uint64_t)team->group.members[failed - 1]
                                              : failed - 1 - MSCCLPP_DEV_MAX_RANKS;
    mscclpp_error("%s: %s call %llu (%s): the kernel of rank %d gave up waiting for rank %llu", team->group.oob.label,
                  team->group.collective, (unsigned long long)team->group.call, what,
                  team->group.members[team->group.rank], (unsigned long long)peer);
    return MSCCLPP_ERR_TIMEOUT;
}

mscclpp_status_t mscclpp_team_launch(mscclpp_team_t *team, mscclpp_gpu_stream_t *stream,
                                     const mscclpp_dev_launch_t *launch, const char *what)
{
    mscclpp_status_t status;

    if (stream != NULL) {
        mscclpp_linger_note_enqueue();
        mscclpp_linger_clear(team);
        status = team->gpu->launch(stream, launch);
        if (status == MSCCLPP_OK) {
            mscclpp_team_note_launch(team, launch->nblocks);
        }
        return status;
    }
    status = start(team, launch, what);
    if (status != MSCCLPP_OK) {
        return status;
    }
    status = await_end(team, launch, what);
    return status != MSCCLPP_OK ? status : mscclpp_team_check_mailbox(team, what);
}

/* All ranks have reached this point, and all their packets have been received. */
static mscclpp_status_t meet(mscclpp_team_t *team)
{
    uint64_t *mine = &team->group.control[team->group.rank].met;

    mscclpp_control_store(mine, ++team->group.meetings);
    return mscclpp_group_wait_words(&team->group, "renewal of packet flags", 0, mine, team->group.meetings);
}

mscclpp_status_t mscclpp_team_reserve_epochs(mscclpp_team_t *team, mscclpp_gpu_stream_t *stream, uint64_t epochs)
{
    const uint64_t size = 3 * team->layout.packet_half; /* LL128 included */
    mscclpp_dev_state_t *state = (mscclpp_dev_state_t *)(team->scratch + team->layout.state_offset);
    mscclpp_dev_progress_t first[MSCCLPP_DEV_MAX_BLOCKS];
    mscclpp_status_t status;
    void *zeros;
    int b;

    if (team->epochs + epochs <= team->protocol.epoch_limit) {
        team->epochs += epochs;
        return MSCCLPP_OK;
    }
    mscclpp_linger_clear(team);
    if (stream == NULL) {
        mscclpp_status_t taken = mscclpp_team_take_stream(team);

        if (taken != MSCCLPP_OK) {
            return taken;
        }
        stream = team->stream;
    }
    mscclpp_debug("%s: packet flags begin again after %llu epochs", team->group.oob.label,
                  (unsigned long long)team->epochs);
    zeros = calloc(1, size);
    if (zeros == NULL) {
        mscclpp_error("%s: no memory for %llu bytes", team->group.oob.label, (unsigned long long)size);
        return MSCCLPP_ERR_NO_MEMORY;
    }
    status = team->gpu->stream_sync(stream);
    if (status == MSCCLPP_OK) {
        status = meet(team);
    }
    if (status == MSCCLPP_OK) {
        status = team->gpu->copy(stream, team->scratch + MSCCLPP_DEV_PACKET_OFFSET, zeros, size);
    }
    if (status == MSCCLPP_OK) {
        for (b = 0; b < MSCCLPP_DEV_MAX_BLOCKS; ++b) {
            first[b] = (mscclpp_dev_progress_t){.launches = team->launches};
        }
        status = team->gpu->copy(stream, state->progress, first, sizeof(first));
    }
    if (status == MSCCLPP_OK) {
        status = team->gpu->stream_sync(stream);
    }
    if (status == MSCCLPP_OK && team->fabric != NULL) {
        status = mscclpp_fabric_renew(team, stream);
    }
    if (status == MSCCLPP_OK) {
        status = meet(team);
    }
    free(zeros);
    if (status == MSCCLPP_OK) {
        team->epochs = epochs;
    }
    return status;
}
