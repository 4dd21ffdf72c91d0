/* The end of a team, and the functions of team.h. setup/node.c creates teams. */
#include "mca/common/base/clock.h"
#include "mca/common/team/team.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/gpu/users.h"
#include "mca/common/base/log.h"
#include "mca/common/engine/memory.h"
#include "mca/common/gpu/streams.h"
#include "mca/common/run/known.h"
#include "mca/common/team/grow.h"
#include "mca/common/team/kin.h"
#include "mca/common/team/lease.h"
#include "mca/common/team/park.h"
#include "mca/common/team/parts.h"
#include "mca/common/team/queue.h"
#include "mca/common/team/plans.h"

/*
 * Ended teams whose scratch peers may still map. Exported memory must not be freed before its importers have closed it,
 * so the scratch is kept here until they have. So is the board, on which they report that. A team whose operations are
 * in graphs stays here as long as the graphs exist, since their kernels read its scratch and its mailbox.
 */
static pthread_mutex_t ended_lock = PTHREAD_MUTEX_INITIALIZER;
static mscclpp_team_t *first_ended;

/* Returns true if all ranks of the node have closed the team. The team must have a board. */
static bool is_closed_by_all(const mscclpp_team_t *team)
{
    const mscclpp_board_line_t *board = team->group.board;
    int rank;

    for (rank = 0; rank < team->group.size; ++rank) {
        if (mscclpp_board_load(&board[rank].closed) == 0) {
            return false;
        }
    }
    return true;
}

/*
 * Returns the sum of the operations that blocks have reported as ended. The numbers only grow, so the sum changes with
 * every further report.
 */
static uint64_t count_reports(const mscclpp_team_t *team)
{
    const mscclpp_dev_mailbox_t *mailbox = team->runner.mailbox;
    uint64_t reports = 0;

    for (size_t block = 0; block < sizeof(mailbox->ended) / sizeof(mailbox->ended[0]); ++block) {
        reports += __atomic_load_n(&mailbox->ended[block], __ATOMIC_RELAXED);
    }
    return reports;
}

/* Logs an error, once, if a graph was launched after the end of the communicator: then kernels have reported since. */
static void check_late_launches(mscclpp_team_t *team)
{
    if (team->runner.mailbox != NULL && !team->has_told_late && count_reports(team) != team->reports) {
        team->has_told_late = true;
        mscclpp_error("%s: a graph was launched with calls of this communicator, which had been freed; these calls "
                      "did nothing",
                      team->kept_label != NULL ? team->kept_label : "a communicator");
    }
}

/*
 * Teams that are never freed, because kernels may use all that they have: kernels that did not end, or those of graphs.
 * The list keeps their memory reachable, so that tools that look for leaks do not report it.
 */
static mscclpp_team_t *first_kept_forever;

/* Adds an ended team to the list of those that are never freed. The caller holds ended_lock. */
static void keep_forever(mscclpp_team_t *team)
{
    team->next_ended = first_kept_forever;
    first_kept_forever = team;
}

/*
 * Frees the ended teams whose memory is not used by any peer or graph. With `at_exit`, peers are ignored, and teams in
 * graphs are moved to the list of teams that are never freed. Returns true if no team is left that waits for peers.
 */
static bool free_ended_teams(bool at_exit)
{
    mscclpp_team_t **link, *ended, *to_free = NULL;
    bool none_waits = true;

    pthread_mutex_lock(&ended_lock);
    link = &first_ended;
    while ((ended = *link) != NULL) {
        const bool is_captured = mscclpp_runner_is_captured(&ended->runner), is_closed = is_closed_by_all(ended);

        check_late_launches(ended);
        if (!at_exit && (is_captured || !is_closed)) {
            none_waits = none_waits && is_closed;
            link = &ended->next_ended;
            continue;
        }
        *link = ended->next_ended;
        /* A fabric that still exists was retired: kernels of graphs may still read its memory, which is never freed. */
        if (is_captured || ended->fabric != NULL) {
            keep_forever(ended);
        } else {
            ended->next_ended = to_free;
            to_free = ended;
        }
    }
    pthread_mutex_unlock(&ended_lock);
    /* The team is freed outside the lock, because freeing device memory may wait for kernels of other teams. */
    while ((ended = to_free) != NULL) {
        to_free = ended->next_ended;
        mscclpp_team_free_scratch(ended);
        mscclpp_runner_free_stand_ins(&ended->runner);
        mscclpp_engine_memory_give(ended->runner.gpu, ended->runner.device, ended->engine_memory);
        if (ended->runner.mailbox != NULL) {
            ended->runner.gpu->host_free(ended->runner.mailbox);
        }
        mscclpp_plans_free(ended);
        mscclpp_shmseg_detach(ended->group.board_segment);
        free(ended->kept_label);
        free(ended);
    }
    return none_waits;
}

void mscclpp_team_reap(void)
{
    (void)free_ended_teams(false);
}

/* Keeps an ended team until its peers have closed it. Allocates nothing, so it cannot fail. */
static void keep_until_closed(mscclpp_team_t *team)
{
    pthread_mutex_lock(&ended_lock);
    team->next_ended = first_ended;
    first_ended = team;
    pthread_mutex_unlock(&ended_lock);
}

/*
 * Disables the team's operations in graphs: whenever a graph is launched from now on, they end at once. Returns true if
 * there are such operations; the graphs then still use the scratch and the mailbox. If the operations cannot be
 * disabled, logs that the graphs must not be launched any more.
 */
static bool disable_in_graphs(mscclpp_team_t *team)
{
    mscclpp_runner_t *runner = &team->runner;
    const mscclpp_team_kept_t *kept = team->kept;
    mscclpp_status_t status;

    if (runner->mailbox == NULL || !mscclpp_runner_is_captured(runner)) {
        return false;
    }
    status = mscclpp_runner_disable(runner, runner->scratch, &runner->layout);
    if (kept != NULL && kept->scratch != NULL) {
        const mscclpp_status_t kept_status = mscclpp_runner_disable(runner, kept->scratch, &kept->layout);

        status = status == MSCCLPP_OK ? kept_status : status;
    }
    if (status != MSCCLPP_OK) {
        mscclpp_error("%s: graphs with calls of this communicator must not be launched any more",
                      team->group.oob.label);
    }
    team->kept_label = strdup(team->group.oob.label);
    team->reports = count_reports(team);
    return true;
}

/*
 * Destroys a team that is not parked:
 * 1. Ends its kernels.
 * 2. Ends all use of the peers' memory, and tells the peers so on the board.
 * 3. Frees its own memory once the peers have closed their mappings, now or later.
 * A team whose kernel does not end is kept forever. It does not tell the peers anything, so that they keep their memory
 * as well.
 */
static void destroy(mscclpp_team_t *team)
{
    bool in_graphs;

    mscclpp_lease_retire(team);
    if (mscclpp_linger_end(&team->runner) != MSCCLPP_OK) {
        team->runner.stuck = true;
    }
    if (team->runner.stuck) {
        mscclpp_fabric_abandon(team->fabric);
        mscclpp_warn("%s: the memory of a team whose kernel did not end is not freed", team->group.oob.label);
        pthread_mutex_lock(&ended_lock);
        keep_forever(team);
        pthread_mutex_unlock(&ended_lock);
        return;
    }
    mscclpp_runner_give_stream(&team->runner);
    in_graphs = disable_in_graphs(team);
    mscclpp_repeats_clear(&team->runner.repeats, team->runner.gpu);
    if (in_graphs && team->fabric != NULL) {
        mscclpp_fabric_retire(team->fabric); /* kernels of the graphs read its memory, which is never freed */
    } else {
        mscclpp_plans_leave(team);
        mscclpp_fabric_destroy(team->fabric);
        team->fabric = NULL;
    }
    if (team->runner.mailbox != NULL) {
        mscclpp_runner_release_mappings(&team->runner, true);
    }
    free(team->runner.holds);
    mscclpp_runner_forget_known(&team->runner);
    mscclpp_kin_release(team->kin);
    team->kin = NULL;
    mscclpp_ctrl_destroy(team->group.ctrl);
    mscclpp_group_notices_fini(&team->group);
    mscclpp_runner_close_peers(&team->runner);
    mscclpp_team_close_kept(team);
    mscclpp_plans_close(team);
    team->engine_memory = mscclpp_engine_close(team->engine);
    /* This rank no longer uses any memory of its peers, which may free it from now on. */
    if (team->group.board != NULL) {
        mscclpp_board_store(&team->group.board[team->group.rank].closed, 1);
    }
    if (team->runner.mailbox != NULL && !in_graphs) {
        team->runner.gpu->host_free(team->runner.mailbox);
        team->runner.mailbox = NULL;
    }
    if (team->runner.scratch != NULL && team->group.board != NULL) {
        keep_until_closed(team);
    } else {
        /* The set-up of the team has failed, and no peer maps the scratch any more. */
        mscclpp_team_free_scratch(team);
        mscclpp_plans_free(team);
        mscclpp_shmseg_detach(team->group.board_segment);
        free(team);
    }
    mscclpp_team_reap();
}

/* If another team was removed from the list of parked teams to make room, destroys that one instead. */
void mscclpp_team_destroy(mscclpp_team_t *team)
{
    mscclpp_team_t *evicted;

    if (team == NULL) {
        return;
    }
    mscclpp_team_close_queue(team);
    if (mscclpp_park_put(team, &evicted)) {
        team = evicted; /* the team that was removed to make room, or NULL */
    }
    if (team != NULL) {
        destroy(team);
    }
}

/*
 * Destroys the parked teams, and waits for the peers up to the deadline. After that, memory is freed even if peers
 * still map it, because the process ends. The parts that all teams of the process share are freed last.
 */
void mscclpp_team_finalize(double seconds)
{
    double deadline = mscclpp_now() + seconds;
    mscclpp_team_t *team;

    while ((team = mscclpp_park_pop()) != NULL) {
        destroy(team);
    }
    while (!free_ended_teams(false)) {
        struct timespec pause = {.tv_nsec = 100000};

        if (mscclpp_now() > deadline) {
            break;
        }
        nanosleep(&pause, NULL);
    }
    (void)free_ended_teams(true);
    mscclpp_mapping_drain();
    mscclpp_stream_drain();
    mscclpp_ctrl_finalize();
    mscclpp_gpu_users_leave();
}

int mscclpp_team_rank(const mscclpp_team_t *team)
{
    return team->group.oob.rank;
}

int mscclpp_team_size(const mscclpp_team_t *team)
{
    return team->group.oob.size;
}

bool mscclpp_team_peer_reports(const mscclpp_team_t *team)
{
    return team != NULL && team->group.peer_failed;
}

bool mscclpp_team_spans_nodes(const mscclpp_team_t *team)
{
    return team->fabric != NULL;
}

bool mscclpp_team_broken(const mscclpp_team_t *team)
{
    return team->group.broken;
}

const char *mscclpp_team_last_algorithm(const mscclpp_team_t *team)
{
    return team->last_algorithm;
}

bool mscclpp_team_keeps_lines(const mscclpp_team_t *team)
{
    return team->ll128;
}

uint64_t mscclpp_team_lingered(const mscclpp_team_t *team)
{
    return mscclpp_linger_count_served(&team->runner);
}

void mscclpp_team_progress_all(void)
{
    mscclpp_fabric_progress_all();
}

void mscclpp_team_announce(mscclpp_team_t *team, uint64_t call, mscclpp_call_kind_t kind)
{
    mscclpp_group_announce(&team->group, call, kind);
}

int mscclpp_team_find_announced(const mscclpp_team_t *team, uint64_t call, mscclpp_call_kind_t kind)
{
    return mscclpp_group_find_announced(&team->group, call, kind);
}

bool mscclpp_team_awaits_announcements(const mscclpp_team_t *team, uint64_t call)
{
    return mscclpp_group_awaits_announcements(&team->group, call);
}

int mscclpp_team_find_device_rank(mscclpp_team_t *team, uint64_t call)
{
    return mscclpp_group_find_device_rank(&team->group, call);
}

void mscclpp_team_begin_signs(mscclpp_team_t *team)
{
    mscclpp_group_begin_signs(&team->group, mscclpp_now());
}

mscclpp_status_t mscclpp_team_give_signs(mscclpp_team_t *team, uint64_t call)
{
    return mscclpp_group_give_signs(&team->group, call, mscclpp_now());
}

void mscclpp_team_end_signs(mscclpp_team_t *team)
{
    mscclpp_group_end_watch(&team->group);
}

bool mscclpp_team_is_decided(const mscclpp_team_t *team, uint64_t call, bool *on_device_p)
{
    return mscclpp_group_is_decided(&team->group, call, on_device_p);
}

bool mscclpp_team_decide(mscclpp_team_t *team, uint64_t call, bool on_device)
{
    return mscclpp_group_decide(&team->group, call, on_device);
}
