#include "mca/common/team/queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mca/common/base/clock.h"
#include "mca/common/base/log.h"
#include "mca/common/oob/vote.h"
#include "mca/common/team/grow.h"
#include "mca/common/team/parts.h"
#include "mca/common/team/plans.h"

/*
 * All teams of a process get a quarter of the blocks that can run at once on a GPU. A GPU with fewer than MANY_BLOCKS
 * of these gives each team 1 / TEAM_SHARE of them, but at least one block.
 */
#define TEAM_SHARE 16u
#define MANY_BLOCKS 64u

/*
 * On a larger GPU the first team gets half of the quarter, since few applications use more communicators, and large
 * messages need blocks. A team gets `share` if all teams together then have no more than `total`. Both are in 32nds of
 * the blocks that can run at once. The ranks use the first pair for which that is so on all of them.
 */
static const struct {
    uint32_t share, total;
} shares[] = {{4, 4}, {2, 6}, {1, 7}, {1, 8}};
#define SHARES (sizeof(shares) / sizeof(shares[0]))

/* The seconds that queued operations get to end when a team is closed. */
#define END_SECONDS 60.0              /* if calls have no deadline */
#define END_SECONDS_BEYOND_DEADLINE 2 /* beyond the deadline, if they have one */

/* The seconds that the kernels of a closed team then get to give up. */
#define LEAVE_SECONDS 10.0
#define LEAVE_SECONDS_FAILED 1.0 /* if one has failed before */

/* Threads of the barrier's kernel on a GPU. */
#define BARRIER_THREADS 64

/*
 * Reserves the blocks of the team's queued kernels. On the twin the number is 0, because there is no limit. Votes on
 * each share, the largest first, because ranks may have reserved blocks for different communicators. Collective. If
 * some rank has no room for any share, returns MSCCLPP_ERR_NOT_SUPPORTED on all ranks, with nothing reserved.
 */
static mscclpp_status_t reserve_blocks(mscclpp_team_t *team, uint32_t *blocks_p)
{
    mscclpp_admission_t *process = mscclpp_admission_process();
    const uint32_t block_limit = team->runner.block_limit, tries = block_limit >= MANY_BLOCKS ? SHARES : 1;
    mscclpp_status_t status = MSCCLPP_ERR_NOT_SUPPORTED;
    mscclpp_vote_t vote;

    *blocks_p = 0;
    for (uint32_t i = 0; i < tries && status == MSCCLPP_ERR_NOT_SUPPORTED; ++i) {
        const uint32_t blocks = block_limit >= MANY_BLOCKS  ? block_limit * shares[i].share / 32
                                : block_limit >= TEAM_SHARE ? block_limit / TEAM_SHARE
                                                            : block_limit != 0;
        const uint32_t reserved_limit = block_limit >= MANY_BLOCKS ? block_limit * shares[i].total / 32
                                                                   : mscclpp_runner_early_blocks(&team->runner);
        const bool is_reserved = blocks == 0 || mscclpp_admission_reserve_blocks(process, blocks, reserved_limit);

        if (!is_reserved && i + 1 == tries) {
            mscclpp_info("%s: rank %d: no queued operations: other communicators have reserved all of the room",
                         team->group.oob.label, team->group.members[team->group.rank]);
        }
        status = mscclpp_vote(&team->group.oob, is_reserved ? MSCCLPP_OK : MSCCLPP_ERR_NOT_SUPPORTED, &vote);
        if (status == MSCCLPP_OK && vote.culprit >= 0) {
            /* Only the outcome of the last vote is logged. */
            status = i + 1 < tries
                         ? MSCCLPP_ERR_NOT_SUPPORTED
                         : mscclpp_vote_outcome(&team->group.oob, team->fabric == NULL ? team->group.members : NULL,
                                                &vote, "room for queued operations");
        }
        if (status == MSCCLPP_OK) {
            *blocks_p = blocks;
        } else if (is_reserved && blocks != 0) {
            mscclpp_admission_release_blocks(process, blocks);
        }
    }
    return status;
}

/*
 * Makes everything now that queued operations cannot make later: reserved blocks, over several nodes the full scratch
 * and connections to all of them, and the rooms of plans. Releases the blocks after an error.
 */
mscclpp_status_t mscclpp_team_open_queue(mscclpp_team_t *team)
{
    mscclpp_runner_t *runner = &team->runner;
    mscclpp_status_t status;
    uint32_t blocks;

    /* These refusals are equal on all ranks. */
    if (runner->takes_turns) {
        mscclpp_info("%s: no queued operations: ranks take turns on a GPU", team->group.oob.label);
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    if (team->protocol.algorithm == MSCCLPP_ALGO_STAGE) {
        mscclpp_info("%s: no queued operations: coll_mscclpp_algorithm is stage", team->group.oob.label);
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    status = reserve_blocks(team, &blocks);
    /* The functions below depend on these two fields. */
    runner->serves_queue = true;
    runner->queue_blocks = blocks;
    /*
     * No other communicator may take over this team, because its host does not know how far its operations have come.
     */
    team->park_key = 0;
    team->counts_uses = false; /* queued operations never use leased scratch */
    /* Between nodes the area of a graph's kernels must not change, as their data goes where the proxy puts it. */
    if (status == MSCCLPP_OK && team->full_size != 0 && team->fabric != NULL) {
        status = mscclpp_team_grow(team, team->full_size, true);
        mscclpp_runner_give_stream(runner);
    }
    if (status == MSCCLPP_OK && team->fabric != NULL) {
        status = mscclpp_fabric_link_all(team->fabric);
        mscclpp_runner_give_stream(runner);
    }
    if (status == MSCCLPP_OK) {
        status = mscclpp_plans_open_queue(team);
        mscclpp_runner_give_stream(runner);
    }
    if (status != MSCCLPP_OK) {
        if (blocks > 0) {
            mscclpp_admission_release_blocks(mscclpp_admission_process(), blocks);
        }
        runner->serves_queue = false;
    }
    return status;
}

/* A stream of the application, and ours that wraps it. The application may destroy its own one at any time. */
struct mscclpp_team_stream {
    mscclpp_team_stream_t *next;
    void *native;
    mscclpp_gpu_stream_t *stream;
};

/* A failure breaks the team, because the other ranks queue this call. */
mscclpp_status_t mscclpp_team_find_stream(mscclpp_team_t *team, void *native, mscclpp_gpu_stream_t **stream_p)
{
    mscclpp_team_stream_t *entry;
    mscclpp_status_t status;

    for (entry = team->streams; entry != NULL; entry = entry->next) {
        if (entry->native == native) {
            *stream_p = entry->stream;
            return MSCCLPP_OK;
        }
    }
    entry = calloc(1, sizeof(*entry));
    if (entry == NULL) {
        mscclpp_error("%s: no memory for a stream", team->group.oob.label);
        return mscclpp_team_fail(team, MSCCLPP_ERR_NO_MEMORY);
    }
    status = team->runner.gpu->stream_wrap(team->runner.device, native, &entry->stream);
    if (status != MSCCLPP_OK) {
        free(entry);
        return mscclpp_team_fail(team, status);
    }
    entry->native = native;
    entry->next = team->streams;
    team->streams = entry;
    *stream_p = entry->stream;
    return MSCCLPP_OK;
}

/* Between nodes, the fabric has its own such kernel. On a broken team, returns MSCCLPP_ERR_PEER. */
mscclpp_status_t mscclpp_team_enqueue_barrier(mscclpp_team_t *team, uint64_t call, mscclpp_gpu_stream_t *stream)
{
    mscclpp_dev_launch_t launch = {.kernel = MSCCLPP_KERNEL_BARRIER, .nblocks = 1};
    mscclpp_dev_args_t args;
    mscclpp_status_t status;

    team->group.call = call;
    team->group.collective = "barrier";
    team->last_algorithm = "barrier";
    if (team->group.broken) {
        return mscclpp_team_refuse_call(team, call);
    }
    /* Failures of earlier queued operations are found and reported here, because no host waits for those. */
    status = mscclpp_team_check_kernels(team);
    team->runner.is_recording = team->runner.gpu->is_capturing(stream);
    if (status == MSCCLPP_OK && team->fabric != NULL) {
        status = mscclpp_fabric_meet(team->fabric, &team->protocol, stream);
    } else if (status == MSCCLPP_OK) {
        memset(&args, 0, sizeof(args));
        mscclpp_runner_fill_args(&team->runner, &args);
        args.epoch_limit = (uint32_t)team->protocol.epoch_limit;
        launch.nthreads = team->group.on_twin ? 1 : BARRIER_THREADS;
        launch.args = &args;
        status = mscclpp_runner_launch(&team->runner, stream, &launch, "barrier");
    }
    return status == MSCCLPP_OK ? MSCCLPP_OK : mscclpp_team_fail(team, status);
}

/* Returns true if a kernel has failed. Then the host cannot tell how many operations will still report their end. */
static bool has_failed(const mscclpp_runner_t *runner)
{
    return __atomic_load_n(&runner->mailbox->failed, __ATOMIC_RELAXED) != 0 ||
           __atomic_load_n(&runner->mailbox->overlapped, __ATOMIC_RELAXED) != 0;
}

/*
 * Waits up to `seconds` until the last queued operation has ended, and makes progress meanwhile. Returns true if it has
 * ended. Sleeps between polls, because the end is not urgent.
 *
 * Operations of graphs that are older than the scratch count from the smaller number that its old counters have, and
 * overwrite what later operations have reported. The application must have waited for them.
 */
static bool await_end(const mscclpp_team_t *team, double seconds)
{
    const double deadline = mscclpp_now() + seconds;
    bool has_ended = team->has_older_graphs;

    while (!has_ended && !(has_ended = mscclpp_runner_has_ended(&team->runner)) && mscclpp_now() < deadline) {
        const struct timespec pause = {.tv_nsec = 50000};

        mscclpp_group_progress(&team->group);
        nanosleep(&pause, NULL);
    }
    return has_ended;
}

/*
 * Unless a kernel has failed, first waits until the operations end normally. Then makes the kernels give up. If a
 * kernel does not end even then, marks the runner as stuck: its memory is never freed, and its blocks stay reserved.
 */
void mscclpp_team_close_queue(mscclpp_team_t *team)
{
    mscclpp_runner_t *runner = &team->runner;
    mscclpp_team_stream_t *entry;

    if (!runner->serves_queue) {
        return;
    }
    if (!has_failed(runner) &&
        !await_end(team, team->group.timeout > 0 ? team->group.timeout + END_SECONDS_BEYOND_DEADLINE : END_SECONDS)) {
        mscclpp_error("%s: queued operations had not ended when the communicator was freed, and were given up",
                      team->group.oob.label);
    }
    /* From now on kernels give up every wait, so they end soon. */
    __atomic_store_n(&runner->mailbox->abort, 1, __ATOMIC_RELAXED);
    if (!await_end(team, has_failed(runner) ? LEAVE_SECONDS_FAILED : LEAVE_SECONDS)) {
        runner->stuck = true;
    }
    if (runner->queue_blocks > 0 && !runner->stuck) { /* a kernel that still runs keeps its blocks */
        mscclpp_admission_release_blocks(mscclpp_admission_process(), runner->queue_blocks);
    }
    while ((entry = team->streams) != NULL) {
        team->streams = entry->next;
        runner->gpu->stream_destroy(entry->stream);
        free(entry);
    }
    runner->serves_queue = false;
}

/*
 * Returns the failure that this rank's kernels have reported: MSCCLPP_ERR_INVALID if two operations ran at the same
 * time, MSCCLPP_ERR_TIMEOUT if a kernel gave up waiting, or MSCCLPP_OK. After an error, `text` contains the message.
 * Logs nothing.
 */
static mscclpp_status_t read_mailbox(const mscclpp_team_t *team, char *text, size_t size)
{
    const mscclpp_dev_mailbox_t *mailbox = team->runner.mailbox;
    const int rank = team->group.members[team->group.rank];

    if (__atomic_load_n(&mailbox->overlapped, __ATOMIC_RELAXED) != 0) {
        snprintf(text, size,
                 "%s: rank %d ran two queued operations of this communicator at once; they must follow one another, in "
                 "one stream or in streams that wait for one another",
                 team->group.oob.label, rank);
        return MSCCLPP_ERR_INVALID;
    }
    return mscclpp_runner_read_failure(&team->runner, team->last_algorithm, text, size);
}

/*
 * Tells the other ranks that a queued call has failed here because rank `culprit` did not come. Does so once: only
 * until the team is broken, so it must be called before mscclpp_team_fail. Tells nothing if `culprit` is -1, which
 * means that the call failed for another reason, or if the team serves no queue.
 */
static void blame_once(mscclpp_team_t *team, int culprit)
{
    if (team->runner.serves_queue && !team->group.broken && culprit >= 0) {
        mscclpp_group_blame(&team->group, culprit);
    }
}

/*
 * Extends the message by the ranks that caused the failure indirectly: a rank that others gave up waiting for may
 * itself have waited for a further rank. Follows what the ranks have reported, starting at `rank`, and returns the last
 * rank. Stops at this rank itself, and before it would return to the first rank.
 */
static int append_blamed(mscclpp_group_t *group, int rank, char *text, size_t size)
{
    const int own_rank = group->members[group->rank], first_rank = rank;
    int hops, next;

    for (hops = 0; hops < group->oob.size && rank != own_rank; ++hops) {
        const size_t length = strlen(text);

        next = mscclpp_group_blamed_by(group, rank);
        if (next < 0 || next == first_rank) {
            break;
        }
        snprintf(text + length, size - length, "; rank %d waited for rank %d", rank, next);
        rank = next;
    }
    return rank;
}

/* Only a timeout has a rank to blame, the one that the kernel waited for. */
mscclpp_status_t mscclpp_team_check_kernels(mscclpp_team_t *team)
{
    char text[MSCCLPP_TEAM_FAILURE_TEXT];
    mscclpp_status_t status = read_mailbox(team, text, sizeof(text));

    if (status != MSCCLPP_OK) {
        mscclpp_error("%s", text);
    }
    if (status == MSCCLPP_ERR_TIMEOUT) {
        blame_once(team, mscclpp_runner_find_awaited(&team->runner));
    }
    return status;
}

/*
 * Looks for failures that ranks of other nodes have reported. If a rank of another node has reported a failure, returns
 * MSCCLPP_ERR_PEER, *rank_p and the message in `text`. Logs nothing.
 */
static mscclpp_status_t find_far_failure(mscclpp_group_t *group, int *rank_p, char *text, size_t size)
{
    mscclpp_group_notice_t failed, host;

    mscclpp_group_read_notices(group, &failed, &host);
    if (failed.rank < 0) {
        return MSCCLPP_OK;
    }
    snprintf(text, size, "%s: rank %d failed in its call %llu: %s", group->oob.label, failed.rank,
             (unsigned long long)failed.call, mscclpp_status_string(failed.status));
    group->peer_failed = true;
    *rank_p = failed.rank;
    return MSCCLPP_ERR_PEER;
}

/* Looks on the board for a failure that a rank of this node has reported. Returns what find_far_failure does. */
static mscclpp_status_t find_near_failure(mscclpp_group_t *group, int *rank_p, char *text, size_t size)
{
    int rank;

    for (rank = 0; rank < group->size; ++rank) {
        const uint64_t failure = mscclpp_board_load(&group->board[rank].failure);

        if (rank != group->rank && failure != 0) {
            *rank_p = group->members[rank];
            snprintf(text, size, "%s: rank %d failed in its call %llu: %s", group->oob.label, *rank_p,
                     (unsigned long long)(failure / MSCCLPP_BOARD_FAILURE_BASE),
                     mscclpp_status_string((mscclpp_status_t) - (int)(failure % MSCCLPP_BOARD_FAILURE_BASE)));
            group->peer_failed = true;
            return MSCCLPP_ERR_PEER;
        }
    }
    return MSCCLPP_OK;
}

/*
 * Checks this rank's kernels first, then the board, then the notices of other nodes, and reports the first failure. Any
 * failure breaks the team.
 */
mscclpp_status_t mscclpp_team_find_failure(mscclpp_team_t *team, char *text, size_t size)
{
    mscclpp_group_t *group = &team->group;
    mscclpp_status_t status = read_mailbox(team, text, size);
    int failed_rank = mscclpp_runner_find_awaited(&team->runner), culprit;

    if (status == MSCCLPP_OK) {
        status = find_near_failure(group, &failed_rank, text, size);
    }
    if (status == MSCCLPP_OK && group->spans) {
        status = find_far_failure(group, &failed_rank, text, size);
    }
    if (status == MSCCLPP_OK) {
        return status;
    }
    /* A rank that has failed has told all other ranks. It is reported again only if it waited for a further rank. */
    if (status == MSCCLPP_ERR_TIMEOUT || status == MSCCLPP_ERR_PEER) {
        culprit = append_blamed(group, failed_rank, text, size);
        blame_once(team, status == MSCCLPP_ERR_TIMEOUT || culprit != failed_rank ? culprit : -1);
    }
    return mscclpp_team_fail(team, status);
}
