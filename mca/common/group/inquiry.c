/*
 * Between nodes, finds the one rank that all others wait for, and has it named once.
 *
 * A rank sees only those that owe it data, and these may be waiting themselves: for the next rank of a tree, or for one
 * of their node. So a rank that has waited too long asks the first one that it waits for. A rank that waits in
 * the same call answers with the rank that it waits for in turn, which is asked next. The rank that does not answer
 * within a second is not in the call: it is late, silent or gone. Where the host cannot see whom a kernel waits for,
 * all ranks are asked in turn. Such a call is one that no rank can end before all have come.
 *
 * In most calls, all ranks find it at about the same time. The one that follows it in the numbering names it first,
 * and tells all others. Each further rank waits 10 ms longer before it would name it, too. So one line is logged, and
 * there are no more than a few messages for each rank.
 */
#include "mca/common/group/group.h"

#include <string.h>

/* Seconds that a rank gets for its answer. A rank that waits looks for messages every millisecond. */
#define ANSWER_SECONDS 1.0

/* Each rank waits so many seconds longer than the one before it until it names the late one, up to the maximum. */
#define TURN_SECONDS 0.01
#define TURN_SECONDS_MAX 2.0

/* The most answers that a search follows. No tree is as deep, so after more of them ranks wait for one another. */
#define HOPS_MAX 64u

void mscclpp_group_say_waiting(mscclpp_group_t *group, int late)
{
    pthread_mutex_lock(&group->notices.lock);
    group->inquiry.waits_call = group->call;
    group->inquiry.waits_for = late;
    pthread_mutex_unlock(&group->notices.lock);
}

/* Asks a rank whom it waits for; -1: nobody. Call with the lock held. */
static void ask(mscclpp_group_t *group, int rank, double now)
{
    mscclpp_group_inquiry_t *inquiry = &group->inquiry;

    inquiry->asked_rank = rank;
    inquiry->answered = false;
    inquiry->asked_at = now;
    if (rank >= 0) {
        mscclpp_group_post_ask(group, rank);
    }
}

/*
 * Returns the next rank to ask if a search knows of none: each in turn, from the one after this rank on. -1: there is
 * none, or the search is only to follow what is known.
 */
static int next_unknown(mscclpp_group_t *group)
{
    const int size = group->oob.size;

    if (!group->asks_all || ++group->inquiry.unknown >= size) {
        return -1;
    }
    return (group->members[group->rank] + group->inquiry.unknown) % size;
}

/* Begins a search. In one call there are at most two: one for the warning, and one at the deadline. */
static void begin(mscclpp_group_t *group, bool at_deadline, double now)
{
    mscclpp_group_inquiry_t *inquiry = &group->inquiry;

    inquiry->call = group->call;
    inquiry->at_deadline = at_deadline;
    inquiry->hops = 0;
    inquiry->unknown = 0;
    ask(group, inquiry->waits_for >= 0 ? inquiry->waits_for : next_unknown(group), now);
}

/* Returns how many seconds longer than ANSWER_SECONDS this rank waits before it names `late`. */
static double turn_of(const mscclpp_group_t *group, int late)
{
    const int own_rank = group->members[group->rank], size = group->oob.size;
    const double seconds = (own_rank - late + size) % size * TURN_SECONDS;

    return seconds < TURN_SECONDS_MAX ? seconds : TURN_SECONDS_MAX;
}

/* Does the work of mscclpp_group_inquire. Call with the lock held. */
static mscclpp_inquiry_result_t search(mscclpp_group_t *group, bool at_deadline, double now, int *late_p)
{
    mscclpp_group_inquiry_t *inquiry = &group->inquiry;

    *late_p = -1;
    if (!at_deadline && inquiry->named_call == group->call) {
        return MSCCLPP_INQUIRY_TOLD;
    }
    if (inquiry->call != group->call || inquiry->at_deadline != at_deadline) {
        begin(group, at_deadline, now);
    }
    if (inquiry->asked_rank < 0 || group->ctrl == NULL) {
        *late_p = inquiry->asked_rank;
        return MSCCLPP_INQUIRY_FOUND;
    }
    if (inquiry->answered) {
        int next = inquiry->answer;

        /* The chain ends at a rank that knows of no other, leads back to this rank, or goes in a circle. */
        if (next < 0 || next == group->members[group->rank] || ++inquiry->hops > HOPS_MAX) {
            next = next_unknown(group);
        }
        if (next < 0) {
            return MSCCLPP_INQUIRY_FOUND;
        }
        ask(group, next, now);
    }
    if (now - inquiry->asked_at < ANSWER_SECONDS + turn_of(group, inquiry->asked_rank)) {
        return MSCCLPP_INQUIRY_SEARCHING;
    }
    *late_p = inquiry->asked_rank;
    return MSCCLPP_INQUIRY_FOUND;
}

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
