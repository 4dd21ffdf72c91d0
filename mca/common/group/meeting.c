/*
 * Meetings of a team's ranks before a launch. All ranks have to get a slot for their kernels first: see admission.h.
 * Ranks of a node meet by words on their board, and nodes by votes that their first ranks send one another.
 */
#include "mca/common/base/fiber.h"
#include "mca/common/base/log.h"
#include "mca/common/group/group.h"

/*
 * The size, in bytes, of the smallest message for whose early kernel a thread apart is woken. For a smaller one, waking
 * that thread would take longer than the call.
 */
#define APART_BYTES_MIN ((uint64_t)1 << 20)

/*
 * In an attempt, all ranks try to get slots at the same time. A rank whose first try fails tries up to
 * RETRIES_PER_ATTEMPT more times, RETRY_PAUSE_NS nanoseconds apart.
 */
#define RETRY_PAUSE_NS 20000
#define RETRIES_PER_ATTEMPT 32

/*
 * The distance by which each attempt moves a meeting forward in the queue for slots. Random keys go up to 2^32, so
 * after 64 attempts a meeting comes before every new one. Two meetings with the same number of attempts keep their
 * order.
 */
#define ATTEMPT_BONUS (UINT64_C(1) << 26)

/* 2^64 divided by the golden ratio, an odd number. Multiplying by it spreads a number over the high bits. */
#define HASH_FACTOR UINT64_C(0x9e3779b97f4a7c15)

/*
 * Returns true if the lowest bit of a word is set on the board lines of all ranks. The bit says that the rank has its
 * slot or needs none. `own_word` is the word on this rank's line.
 */
static bool all_have_slots(const mscclpp_group_t *group, const uint64_t *own_word)
{
    bool all_have = true;
    int rank;

    for (rank = 0; rank < group->size; ++rank) {
        all_have = all_have && mscclpp_board_load(mscclpp_group_word_of(group, own_word, rank)) % 2 == 1;
    }
    return all_have;
}

/*
 * Returns the key of the meeting with number `meeting` in the queue for slots. It is equal on all ranks, and decreases
 * with each attempt. Its start is random, so that two meetings hardly ever have equal keys. Processes could admit such
 * meetings in different orders, and then neither would get a slot everywhere.
 */
static uint64_t queue_key(const mscclpp_group_t *group, uint64_t meeting, uint64_t attempt)
{
    const uint64_t draw = (group->id ^ meeting) * HASH_FACTOR >> 32;

    return (UINT64_C(1) << 63) + draw - attempt * ATTEMPT_BONUS;
}

/* Lets others run: for RETRY_PAUSE_NS, or in a fiber until it is continued. */
static void pause_briefly(void)
{
    const struct timespec pause = {.tv_nsec = RETRY_PAUSE_NS};

    if (!mscclpp_fiber_yield()) {
        nanosleep(&pause, NULL);
    }
}

/*
 * Waits until no other team of this process comes before this one. `candidate` is NULL if this rank needs no slot.
 * Returns the error of the wait.
 */
static mscclpp_status_t await_turn(mscclpp_group_t *group, mscclpp_group_wait_t *wait,
                                   const mscclpp_admission_candidate_t *candidate)
{
    mscclpp_status_t status = MSCCLPP_OK;

    while (status == MSCCLPP_OK && candidate != NULL && !mscclpp_admission_is_first(group->admission, candidate)) {
        pause_briefly();
        status = mscclpp_group_wait_turn(wait);
    }
    return status;
}

/*
 * Tries to take the slot. Returns true if this rank now holds it, or needs none (`candidate` is NULL). If `is_patient`
 * is set, tries up to RETRIES_PER_ATTEMPT more times, with short pauses. It does not try longer, because processes may
 * have admitted different teams, and then one of the teams must give way.
 */
static bool try_to_take_slot(mscclpp_group_t *group, const mscclpp_admission_candidate_t *candidate, bool is_patient)
{
    int i;

    if (candidate == NULL) {
        return true;
    }
    group->has_slot = mscclpp_admission_take_slot(group->admission, candidate);
    for (i = 0; is_patient && i < RETRIES_PER_ATTEMPT && !group->has_slot; ++i) {
        pause_briefly();
        group->has_slot = mscclpp_admission_take_slot(group->admission, candidate);
    }
    return group->has_slot;
}

/*
 * Finds whether all nodes vote yes. Every rank of a node passes the same `own_vote`. The first ranks of the nodes send
 * one another the votes of their nodes. *all_yes_p becomes true if all nodes voted yes. Returns the error of the wait;
 * *all_yes_p is then false.
 *
 * The result stays on the board until all ranks of the node have come to the next vote, because the ranks of a node
 * wait for one another before each vote. While votes of other nodes are missing, the first rank counts the votes again
 * in each turn. It resets `all_yes` before each count, because a missing vote counts as no.
 */
static mscclpp_status_t vote_of_nodes(mscclpp_group_t *group, mscclpp_group_wait_t *wait, bool own_vote,
                                      bool *all_yes_p)
{
    uint64_t *result = &group->board[0].node_vote;
    const uint64_t vote_number = ++group->node_votes;
    mscclpp_status_t status = MSCCLPP_OK;
    bool all_yes = own_vote;

    wait->words = NULL;
    wait->awaits_votes = true;
    if (group->rank == 0) {
        mscclpp_group_send_vote(group, vote_number, own_vote);
        while (status == MSCCLPP_OK && !mscclpp_group_all_voted(group, vote_number, &all_yes)) {
            status = mscclpp_group_wait_turn(wait);
            all_yes = own_vote;
        }
        if (status == MSCCLPP_OK) {
            mscclpp_board_store(result, 2 * vote_number + all_yes);
        }
    }
    while (status == MSCCLPP_OK && mscclpp_board_load(result) < 2 * vote_number) {
        status = mscclpp_group_wait_turn(wait);
    }
    wait->awaits_votes = false;
    /* Later messages of this call must not name these nodes as late. */
    mscclpp_board_store(&group->board[group->rank].absent, 0);
    *all_yes_p = status == MSCCLPP_OK && mscclpp_board_load(result) == 2 * vote_number + 1;
    return status;
}

/*
 * Tells the other ranks whether this rank has its slot, and waits for the votes of all ranks. *all_yes_p becomes true
 * if all ranks have their slots. Returns the error of the wait; *all_yes_p is then false.
 *
 * A rank's word on the board is 2 * the number of the vote, + 1 for yes. Votes alternate between two words, because a
 * rank that knows a result may publish its next vote while other ranks still read this one. No rank gets two votes
 * ahead. The function makes at least one turn of the wait. So a series of attempts in which no rank has to wait also
 * ends at the deadline.
 */
static mscclpp_status_t vote_on_slots(mscclpp_group_t *group, mscclpp_group_wait_t *wait, bool has_slot,
                                      bool *all_yes_p)
{
    uint64_t *own_vote_p = &group->board[group->rank].slot_vote[++group->slot_votes % 2];
    mscclpp_status_t status;

    mscclpp_board_store(own_vote_p, 2 * group->slot_votes + has_slot);
    status = mscclpp_group_wait_turn(wait);
    if (status == MSCCLPP_OK) {
        status = mscclpp_group_wait_on(wait, own_vote_p, 2 * group->slot_votes);
    }
    *all_yes_p = status == MSCCLPP_OK && all_have_slots(group, own_vote_p);
    if (status == MSCCLPP_OK && group->spans) {
        status = vote_of_nodes(group, wait, *all_yes_p, all_yes_p);
    }
    return status;
}

/*
 * Takes a slot on every rank that needs one, after all ranks have arrived:
 *
 * 1. All ranks try to take their slots at the same time, and vote.
 * 2. If a rank has not got its slot, each rank gives its slot back. It then waits until the team is first in the queue
 *    of its process.
 * 3. A vote without slots tells that all ranks have come so far. The ranks continue with step 1.
 *
 * All processes order the teams in the same way, so the first of all teams becomes first in every process. If a team
 * with a lower key comes before all ranks have taken their slots, the ranks repeat the attempt.
 *
 * Waits until all ranks have their slots. Returns MSCCLPP_ERR_TIMEOUT at the deadline or another error of the wait.
 * After an error this rank may still hold its slot.
 */
static mscclpp_status_t take_slots(mscclpp_group_t *group, uint64_t bytes, bool needs_slot)
{
    /*
     * Before the nodes were joined, each of them may have met alone. So the number of arrivals may differ between
     * nodes. The number of votes of all nodes is equal on all ranks.
     */
    const uint64_t meeting = group->spans ? group->node_votes : group->arrivals;
    mscclpp_admission_candidate_t own_candidate, *candidate = needs_slot ? &own_candidate : NULL;
    mscclpp_status_t status = MSCCLPP_OK;
    mscclpp_group_wait_t wait; /* one deadline for all attempts, because one attempt may be short */
    bool all_have_one = false;
    uint64_t attempt;

    mscclpp_group_wait_init(&wait, group, "room for kernels", bytes);
    if (candidate != NULL) {
        mscclpp_admission_add(group->admission, candidate, queue_key(group, meeting, 0));
    }
    for (attempt = 1; !all_have_one && status == MSCCLPP_OK; ++attempt) {
        if (attempt > 1) {
            mscclpp_group_give_slot(group);
            if (candidate != NULL) {
                mscclpp_admission_change_key(group->admission, candidate, queue_key(group, meeting, attempt));
            }
            status = await_turn(group, &wait, candidate);
            status = status == MSCCLPP_OK ? vote_on_slots(group, &wait, false, &all_have_one) : status;
        }
        if (status == MSCCLPP_OK) {
            status = vote_on_slots(group, &wait, try_to_take_slot(group, candidate, attempt > 1), &all_have_one);
        }
    }
    mscclpp_group_wait_end(&wait);
    if (candidate != NULL) {
        mscclpp_admission_remove(group->admission, candidate);
    }
    mscclpp_debug("%s: call %llu: %s after %llu attempts to find room for kernels", group->oob.label,
                  (unsigned long long)group->call, mscclpp_status_string(status), (unsigned long long)attempt - 1);
    return status;
}

/*
 * Waits until all ranks of the node have come, or with `all_nodes` the ranks of all nodes. `own_arrival` is this rank's
 * word on the board. Returns the error of the wait.
 */
static mscclpp_status_t await_arrivals(mscclpp_group_t *group, uint64_t bytes, const uint64_t *own_arrival,
                                       bool all_nodes)
{
    mscclpp_group_wait_t wait;
    mscclpp_status_t status;
    bool all_yes;

    mscclpp_group_wait_init(&wait, group, "arrival of all ranks", bytes);
    status = mscclpp_group_wait_on(&wait, own_arrival, 2 * group->arrivals);
    if (status == MSCCLPP_OK && all_nodes) {
        status = vote_of_nodes(group, &wait, true, &all_yes);
    }
    mscclpp_group_wait_end(&wait);
    return status;
}

/* Closes the fiber if the nodes meet by messages of the embedding runtime, which a thread apart must not call. */
void mscclpp_group_open_fiber(const mscclpp_group_t *group, uint64_t bytes)
{
    if (group->spans && (group->ctrl == NULL || !mscclpp_ctrl_is_independent(group->ctrl))) {
        mscclpp_fiber_close();
    } else if (bytes >= APART_BYTES_MIN) {
        mscclpp_fiber_open();
    }
}

/*
 * Pledges before the arrival is published, so that the last rank to arrive finds all pledges. If the wait for arrivals
 * fails, this rank gives up its pledge, because another call may need the slot.
 */
mscclpp_status_t mscclpp_group_meet(mscclpp_group_t *group, uint64_t bytes, bool early)
{
    uint64_t *own_arrival = &group->board[group->rank].arrived, *decision = &group->board[0].pledges;
    const bool needs_slot = early || group->concurrent, all_nodes = group->spans && (early || group->any_concurrent);
    mscclpp_status_t status;
    bool all_ready, may_be_pledges, has_pledged;

    if (!group->meet_first && !early && !all_nodes) {
        return MSCCLPP_OK;
    }
    ++group->arrivals;
    /* Only ranks of one node can pledge, because they share the word that decides on the pledges. */
    has_pledged = needs_slot && !group->spans && mscclpp_admission_pledge(group->admission, decision, group->arrivals);
    mscclpp_board_store(own_arrival, 2 * group->arrivals + (has_pledged || !needs_slot));
    if (early) {
        mscclpp_group_open_fiber(group, bytes);
    }
    status = await_arrivals(group, bytes, own_arrival, all_nodes);
    all_ready = status == MSCCLPP_OK && all_have_slots(group, own_arrival);
    may_be_pledges = !group->spans && (early || group->any_concurrent);
    if (all_ready && may_be_pledges) {
        /*
         * A rank that needs no slot redeems, too, to learn whether the pledges of the others are granted. If the call
         * is not early and no rank has threads, no rank needs a slot, and there are no pledges.
         */
        all_ready = mscclpp_admission_redeem(group->admission, decision, group->arrivals);
        group->has_slot = all_ready && has_pledged;
    } else if (has_pledged) {
        mscclpp_admission_give_up(group->admission, decision);
    }
    /*
     * Without pledges, the slot is taken only after all ranks have arrived. Otherwise this rank could hold the slot
     * while a late rank waits for another thread or call, which itself waits for the slot. On several nodes, ranks
     * always vote on slots: even if all ranks of a node have what they need, the node does not know about the ranks of
     * other nodes.
     *
     * A thread apart may compete for slots, too. Its turns skip the checks of a wait, which are made when the thread
     * that the application calls MPI in continues the fiber.
     */
    if (status == MSCCLPP_OK && (group->spans ? all_nodes : !all_ready)) {
        status = take_slots(group, bytes, needs_slot);
    }
    return status;
}

/*
 * Counts as a meeting, like those of mscclpp_group_meet, in which no rank needs a slot. All ranks of the group call the
 * same function of the two.
 */
mscclpp_status_t mscclpp_group_arrive(mscclpp_group_t *group, uint64_t bytes)
{
    uint64_t *own_arrival = &group->board[group->rank].arrived;

    ++group->arrivals;
    mscclpp_board_store(own_arrival, 2 * group->arrivals + 1);
    mscclpp_group_open_fiber(group, bytes);
    return await_arrivals(group, bytes, own_arrival, false);
}

void mscclpp_group_give_slot(mscclpp_group_t *group)
{
    if (group->has_slot) {
        mscclpp_admission_give_slot(group->admission);
        group->has_slot = false;
    }
}
