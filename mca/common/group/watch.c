/*
 * Signs of life between nodes, for a node that dies as a whole; within a node, signs.c sees which rank has stopped.
 *
 * While the first rank of a node waits, it watches the first rank of the next node: now and then it asks that rank for
 * a sign. A rank that gives signs on its board answers, and tells its watcher when its wait has ended. As within a
 * node, a rank that has not come, works or is in a fiber is not expected to answer. Only one rank asks each rank,
 * because an attempt to reach a rank that is gone takes time.
 */
#include "mca/common/base/log.h"
#include "mca/common/group/group.h"

/* The time between two questions is 1 / QUESTIONS_PER_DEADLINE of the deadline, within these bounds in seconds. */
#define QUESTIONS_PER_DEADLINE 8
#define PERIOD_SECONDS_MIN 1.0
#define PERIOD_SECONDS_MAX 10.0

/* Seconds beyond the deadline and the time between two questions after which the watched rank is gone. */
#define GONE_SECONDS 1.0

/* Returns the number of seconds between two questions to the watched rank. */
static double period_of(const mscclpp_group_t *group)
{
    const double period = group->timeout / QUESTIONS_PER_DEADLINE;

    if (period < PERIOD_SECONDS_MIN) {
        return PERIOD_SECONDS_MIN;
    }
    return period < PERIOD_SECONDS_MAX ? period : PERIOD_SECONDS_MAX;
}

/*
 * Returns the first rank of the next node, numbered in the communicator. `leaders` has the first ranks of all nodes but
 * this one, in ascending order.
 */
static int watched_rank(const mscclpp_group_t *group)
{
    int next = 0;

    while (next < group->leader_count && group->leaders[next] < group->members[0]) {
        ++next;
    }
    return group->leaders[next % group->leader_count];
}

/*
 * Returns true if this rank must watch another rank while it waits. Without a deadline there is nothing to watch for,
 * because no wait ends early.
 */
static bool must_watch(const mscclpp_group_t *group)
{
    return group->rank == 0 && group->leader_count > 0 && group->ctrl != NULL && group->timeout > 0;
}

void mscclpp_group_end_watch(mscclpp_group_t *group)
{
    mscclpp_board_line_t *line = &group->board[group->rank];
    mscclpp_group_watch_t *watch = &group->watch;

    pthread_mutex_lock(&group->notices.lock);
    mscclpp_group_hide_sign(group);
    if (watch->watcher >= 0) {
        mscclpp_board_store(&line->sign, line->sign + 1);
        mscclpp_group_post_sign(group, watch->watcher, watch->watcher_call);
        watch->watcher = -1;
    }
    pthread_mutex_unlock(&group->notices.lock);
}

/*
 * Returns the first rank of any node whose call `call` or an earlier one has failed, numbered in the communicator; -1:
 * none. *failed_call_p is the number of that call. This rank may have completed it. Ranks that have failed themselves
 * come before those that another rank has told of its failure, because the former are the cause.
 */
static int failed_rank(mscclpp_group_t *group, uint64_t call, uint64_t *failed_call_p)
{
    mscclpp_group_notice_t failed, host;
    int rank;

    for (rank = 0; rank < group->size; ++rank) {
        const uint64_t failure = mscclpp_board_load(&group->board[rank].failure);

        *failed_call_p = failure / MSCCLPP_BOARD_FAILURE_BASE;
        if (rank != group->rank && failure != 0 && *failed_call_p <= call) {
            return group->members[rank];
        }
    }
    mscclpp_group_read_notices(group, &failed, &host);
    *failed_call_p = failed.call;
    if (failed.rank >= 0 && failed.call <= call) {
        return failed.rank;
    }
    for (rank = 0; rank < group->size; ++rank) {
        const uint64_t told = mscclpp_board_load(&group->board[rank].told);

        *failed_call_p = told - 1;
        if (rank != group->rank && told != 0 && *failed_call_p <= call) {
            return group->members[rank];
        }
    }
    return -1;
}

mscclpp_status_t mscclpp_group_give_signs(mscclpp_group_t *group, uint64_t call, double now)
{
    uint64_t failed_call;
    int rank;

    mscclpp_group_show_sign(group, call);
    mscclpp_group_read_signs(group, call, now);
    (void)mscclpp_group_watch_next(group, call, &rank);
    rank = failed_rank(group, call, &failed_call);
    if (rank >= 0) {
        mscclpp_info("%s: call %llu of rank %d has failed", group->oob.label, (unsigned long long)failed_call, rank);
        return MSCCLPP_ERR_PEER;
    }
    return MSCCLPP_OK;
}

/* Begins to watch in call `call`, at the time `waited`. The first question is due one period later. */
static void begin_watch(mscclpp_group_t *group, uint64_t call, double waited)
{
    mscclpp_group_watch_t *watch = &group->watch;

    watch->call = call;
    watch->sign = 0;
    watch->watched = watched_rank(group);
    watch->has_answered = true;
    watch->asked_at = waited;
}

/*
 * Asks again after half of the deadline if there is no answer, in case the question is lost. Times are seconds that
 * this rank has waited in the call, as in signs.c. They begin at 0 in each call, so a last question that lies in the
 * future belongs to another call.
 */
bool mscclpp_group_watch_next(mscclpp_group_t *group, uint64_t call, int *gone_p)
{
    mscclpp_group_watch_t *watch = &group->watch;
    const double waited = group->signs.waited;
    bool is_gone, waits;

    if (!must_watch(group)) {
        return false;
    }
    pthread_mutex_lock(&group->notices.lock);
    watch->waited = waited;
    if (watch->watched < 0 || watch->call != call || waited < watch->asked_at) {
        begin_watch(group, call, waited);
    }
    waits = watch->sign % 2 != 0;
    if (waited - watch->asked_at >= (watch->has_answered || !waits ? period_of(group) : group->timeout / 2)) {
        watch->has_answered = false;
        watch->asked_at = waited;
        mscclpp_group_post_watch(group, watch->watched, call);
    }
    is_gone = waits && waited - watch->heard_at > group->timeout + period_of(group) + GONE_SECONDS;
    pthread_mutex_unlock(&group->notices.lock);
    *gone_p = watch->watched;
    return is_gone;
}
