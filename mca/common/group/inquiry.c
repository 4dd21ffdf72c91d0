/*
 * Between nodes, finds the one rank that all others wait for, and makes one rank name it.
 *
 * A rank sees only the ranks that must send it data. Those ranks may themselves wait for the next rank of a tree, or
 * for a rank of their node. So a rank that has waited too long asks the first rank that it waits for. If the asked rank
 * waits in the same call or in an earlier one, it answers with the rank that it waits for itself, and that rank is
 * asked next. A rank that does not answer within a second is not in the call: it is late, silent or gone. If the host
 * cannot see which rank a kernel waits for, all ranks are asked in turn. No rank can end such a call before all ranks
 * have come.
 *
 * Rank 0 searches first, names the late rank, and tells all others. So one line is logged and few messages are sent.
 * Only one rank asks a rank that may be dead, because each attempt to reach a dead rank takes time, and the network may
 * log each attempt. Rank 1 searches if rank 0 has named no rank in time, because rank 0 may be late itself, or not in
 * the call. The other ranks follow, one after another.
 *
 * A connection may report earlier that its peer is gone. It does so at the same time on all ranks with a connection to
 * that peer. Those ranks are on other nodes, mostly one on each node. The rank on the node after the node of the lost
 * rank names the lost rank.
 */
#include "mca/common/group/group.h"

#include <string.h>

#include "mca/common/base/clock.h"
#include "mca/common/base/log.h"

/* Seconds that a rank gets for its answer. A rank that waits looks for messages every millisecond. */
#define ANSWER_SECONDS 1.0

/*
 * Rank 1 leaves the search to rank 0 for this number of seconds, which is longer than an answer takes. The other ranks
 * leave it to ranks 0 and 1 for twice as long.
 */
#define FIRST_SECONDS (ANSWER_SECONDS + 0.2)

/* Each of the other ranks waits for this number of seconds longer than the rank before it, up to the maximum. */
#define TURN_SECONDS 0.01
#define TURN_SECONDS_MAX 1.0

/*
 * When a connection is lost, the ranks of each node wait this number of seconds longer than the ranks of the node
 * before it, up to the maximum. Nodes are counted from the node of the lost rank on. The ranks sleep between two looks
 * for messages, since their call has failed and no rank needs them.
 */
#define LOST_SECONDS 0.2
#define LOST_SECONDS_MAX 4.0
#define NAP_NANOSECONDS 1000000

/*
 * The maximum number of answers that a search follows. No tree is so deep, so after more answers ranks wait for one
 * another in a circle.
 */
#define HOPS_MAX 64u

void mscclpp_group_note_late(mscclpp_group_t *group, int late)
{
    pthread_mutex_lock(&group->notices.lock);
    group->inquiry.waits_call = group->call;
    group->inquiry.waits_for = late;
    pthread_mutex_unlock(&group->notices.lock);
}

/* Asks a rank which rank it waits for. If `rank` is -1, asks no rank. The caller holds the lock. */
static void ask(mscclpp_group_t *group, int rank, double now)
{
    mscclpp_group_inquiry_t *inquiry = &group->inquiry;

    inquiry->asked_rank = rank;
    inquiry->has_answered = false;
    inquiry->asked_at = now;
    if (rank >= 0) {
        mscclpp_group_post_ask(group, rank);
    }
}

/*
 * Returns the next rank to ask if no rank is known that this rank waits for. The search then asks all ranks in turn,
 * from the rank after this one on. Returns -1 if all ranks have been asked, or if the search must ask only ranks that
 * are known to be waited for.
 */
static int next_unknown(mscclpp_group_t *group)
{
    const int size = group->oob.size;

    if (!group->asks_all || ++group->inquiry.unknown >= size) {
        return -1;
    }
    return (group->members[group->rank] + group->inquiry.unknown) % size;
}

/*
 * Returns the number of seconds for which this rank leaves the search to other ranks. The delays are staggered, so that
 * usually one rank searches and logs. Without control messages the result is 0: each rank then names the late rank that
 * it knows of.
 */
static double search_delay(const mscclpp_group_t *group)
{
    const int own_rank = group->members[group->rank];
    const double turn = own_rank * TURN_SECONDS;

    if (own_rank == 0 || group->ctrl == NULL) {
        return 0;
    }
    return own_rank == 1 ? FIRST_SECONDS : 2 * FIRST_SECONDS + (turn < TURN_SECONDS_MAX ? turn : TURN_SECONDS_MAX);
}

/*
 * Plans a search. The search asks its first question at the time `begins_at`. In one call there are at most two
 * searches: one for the warning, and one at the deadline.
 */
static void plan_search(mscclpp_group_t *group, bool at_deadline, double now)
{
    mscclpp_group_inquiry_t *inquiry = &group->inquiry;

    inquiry->call = group->call;
    inquiry->at_deadline = at_deadline;
    inquiry->begins_at = now + search_delay(group);
    inquiry->has_begun = false;
    inquiry->hops = 0;
    inquiry->unknown = 0;
}

/*
 * Returns the rank to ask after the asked rank has answered; -1: the search ends without a late rank. The chain of
 * answers ends in three cases: the rank that answered waits for no known rank; the answer leads back to this rank; the
 * chain is so long that it must be a circle.
 */
static int next_after_answer(mscclpp_group_t *group)
{
    mscclpp_group_inquiry_t *inquiry = &group->inquiry;
    const int next = inquiry->answer;

    if (next < 0 || next == group->members[group->rank] || ++inquiry->hops > HOPS_MAX) {
        return next_unknown(group);
    }
    return next;
}

/*
 * Goes on with the search, as mscclpp_group_inquire describes it. *late_p is the late rank with MSCCLPP_INQUIRY_FOUND,
 * if one is known; otherwise it is -1. Without control messages the function asks no rank, and names the rank that this
 * rank waits for. The caller holds the lock.
 */
static mscclpp_inquiry_result_t search(mscclpp_group_t *group, bool at_deadline, double now, int *late_p)
{
    mscclpp_group_inquiry_t *inquiry = &group->inquiry;

    *late_p = -1;
    if (!at_deadline && inquiry->named_call >= group->call) {
        return MSCCLPP_INQUIRY_TOLD;
    }
    if (inquiry->call != group->call || inquiry->at_deadline != at_deadline) {
        plan_search(group, at_deadline, now);
    }
    if (now < inquiry->begins_at) {
        return MSCCLPP_INQUIRY_SEARCHING;
    }
    if (!inquiry->has_begun) {
        inquiry->has_begun = true;
        ask(group, inquiry->waits_for >= 0 || group->ctrl == NULL ? inquiry->waits_for : next_unknown(group), now);
    }
    if (inquiry->asked_rank < 0 || group->ctrl == NULL) {
        *late_p = inquiry->asked_rank;
        return MSCCLPP_INQUIRY_FOUND;
    }
    if (inquiry->has_answered) {
        const int next = next_after_answer(group);

        if (next < 0) {
            return MSCCLPP_INQUIRY_FOUND;
        }
        ask(group, next, now);
    }
    if (now - inquiry->asked_at < ANSWER_SECONDS) {
        return MSCCLPP_INQUIRY_SEARCHING;
    }
    *late_p = inquiry->asked_rank;
    return MSCCLPP_INQUIRY_FOUND;
}

/*
 * If this rank names the late rank in a warning, it tells all other ranks, so that none of them logs the warning again.
 * At the deadline, mscclpp_group_fail tells them of the failed call.
 */
mscclpp_inquiry_result_t mscclpp_group_inquire(mscclpp_group_t *group, bool at_deadline, double now, int *late_p)
{
    mscclpp_inquiry_result_t result;

    pthread_mutex_lock(&group->notices.lock);
    result = search(group, at_deadline, now, late_p);
    if (result == MSCCLPP_INQUIRY_FOUND && !at_deadline) {
        mscclpp_group_post_named(group);
    }
    pthread_mutex_unlock(&group->notices.lock);
    return result;
}

/*
 * Returns the index of the node that a rank is on: the number of nodes whose first rank is not above it, minus one. If
 * a node's ranks are not consecutive, the index may be that of another node, but all ranks compute the same one.
 */
static int index_of_node(const mscclpp_group_t *group, int rank)
{
    int i, index = group->members[0] <= rank ? 0 : -1;

    for (i = 0; i < group->leader_count; ++i) {
        index += group->leaders[i] <= rank;
    }
    return index;
}

/* Returns the number of seconds for which this rank lets others name rank `lost`. Ranks of one node take turns, too. */
static double lost_delay(const mscclpp_group_t *group, int lost)
{
    const int nodes = group->leader_count + 1;
    const int distance = (index_of_node(group, group->members[0]) - index_of_node(group, lost) - 1 + nodes) % nodes;
    const double turn = (distance + (double)group->rank / group->size) * LOST_SECONDS;

    return turn < LOST_SECONDS_MAX ? turn : LOST_SECONDS_MAX;
}

/*
 * Sleeps until it is this rank's turn. If a notice of a failure comes earlier, another rank has named the lost rank.
 * Without control messages no notice can come, so this rank logs `text` at once.
 */
bool mscclpp_group_name_lost(mscclpp_group_t *group, int lost, const char *text)
{
    const double deadline = mscclpp_now() + (group->ctrl != NULL && !group->probing ? lost_delay(group, lost) : 0);
    const struct timespec nap = {.tv_nsec = NAP_NANOSECONDS};
    mscclpp_group_notice_t failed = {.rank = -1}, host;

    while (mscclpp_now() < deadline && failed.rank < 0) {
        mscclpp_group_read_notices(group, &failed, &host);
        (void)nanosleep(&nap, NULL);
    }
    if (failed.rank >= 0) {
        group->peer_failed = true;
        mscclpp_info("%s: call %llu: rank %d has told of a failure", group->oob.label, (unsigned long long)group->call,
                     failed.rank);
        return false;
    }
    mscclpp_error("%s", text);
    return true;
}
