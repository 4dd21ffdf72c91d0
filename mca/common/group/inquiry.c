/*
 * Between nodes, finds the one rank that all others wait for, and has it named once.
 *
 * A rank sees only those that owe it data, and these may be waiting themselves: for the next rank of a tree, or for one
 * of their node. So a rank that has waited too long asks the first one that it waits for. Whoever waits in the same
 * call answers with the rank that it waits for in turn, which is asked next. The rank that does not answer within a
 * second is not in the call: it is late, silent or gone.
 *
 * In most calls, all ranks find it at about the same time. The one that follows it in the numbering speaks first, and
 * tells all others; the next ones wait for 10 ms each before they speak. So there is one line, and no more than a
 * few messages for each rank.
 */
#include "mca/common/group/group.h"

#include <string.h>

/* How long, in seconds, a rank has for its answer. It looks for messages every millisecond while it waits. */
#define ANSWER_SECONDS 1.0

/* How much longer than the rank before it a rank waits before it speaks, and the most of it. */
#define TURN_SECONDS 0.01
#define TURN_SECONDS_MAX 2.0

/* More than any tree is deep, so that two ranks that wait for each other are found out. */
#define HOPS_MAX 64u

void mscclpp_group_say_waiting(mscclpp_group_t *group, int late)
{
    pthread_mutex_lock(&group->notices.lock);
    group->inquiry.waits_call = group->call;
    group->inquiry.waits_for = late;
    pthread_mutex_unlock(&group->notices.lock);
}

/* Asks a rank whom it waits for. With the lock held. */
static void ask(mscclpp_group_t *group, int rank, double now)
{
    mscclpp_group_inquiry_t *inquiry = &group->inquiry;

    inquiry->asked = rank;
    inquiry->answered = false;
    inquiry->since = now;
    if (rank >= 0) {
        mscclpp_group_post_ask(group, rank);
    }
}

/* Begins a search, of which there are two in a call at most: one for the warning, and one at the deadline. */
static void begin(mscclpp_group_t *group, bool over, double now)
{
    mscclpp_group_inquiry_t *inquiry = &group->inquiry;

    inquiry->call = group->call;
    inquiry->over = over;
    inquiry->hops = 0;
    ask(group, inquiry->waits_for, now);
}

/* Seconds after which this rank speaks, if the late one is `late`. */
static double turn_of(const mscclpp_group_t *group, int late)
{
    const int own = group->members[group->rank], size = group->oob.size;
    const double seconds = (own - late + size) % size * TURN_SECONDS;

    return seconds < TURN_SECONDS_MAX ? seconds : TURN_SECONDS_MAX;
}

/* With the lock held. */
static mscclpp_inquiry_result_t search(mscclpp_group_t *group, bool over, double now, int *late_p)
{
    mscclpp_group_inquiry_t *inquiry = &group->inquiry;

    *late_p = -1;
    if (!over && inquiry->named_call == group->call) {
        return MSCCLPP_INQUIRY_TOLD;
    }
    if (inquiry->call != group->call || inquiry->over != over) {
        begin(group, over, now);
    }
    if (inquiry->asked < 0 || group->ctrl == NULL) {
        *late_p = inquiry->asked;
        return MSCCLPP_INQUIRY_FOUND;
    }
    if (inquiry->answered) {
        if (inquiry->answer < 0 || inquiry->answer == group->members[group->rank] || ++inquiry->hops > HOPS_MAX) {
            return MSCCLPP_INQUIRY_FOUND;
        }
        ask(group, inquiry->answer, now);
    }
    if (now - inquiry->since < ANSWER_SECONDS + turn_of(group, inquiry->asked)) {
        return MSCCLPP_INQUIRY_SEARCHING;
    }
    *late_p = inquiry->asked;
    return MSCCLPP_INQUIRY_FOUND;
}

mscclpp_inquiry_result_t mscclpp_group_inquire(mscclpp_group_t *group, bool over, double now, int *late_p)
{
    mscclpp_inquiry_result_t result;

    pthread_mutex_lock(&group->notices.lock);
    result = search(group, over, now, late_p);
    if (result == MSCCLPP_INQUIRY_FOUND && !over) {
        mscclpp_group_post_named(group);
    }
    pthread_mutex_unlock(&group->notices.lock);
    return result;
}
