/*
 * Exchange of handles of user buffers between the hosts of a node, just before a launch that accesses the buffers of
 * all ranks.
 */
#include <stdlib.h>
#include <string.h>

#include "mca/common/base/clock.h"
#include "mca/common/base/log.h"
#include "mca/common/base/mailbox.h"
#include "mca/common/group/group.h"

/* Seconds that ranks give one another in an exchange to which ranks need not come; half the timeout if that is less. */
#define PATIENCE_SECONDS 10.0

mscclpp_board_buffers_t *mscclpp_group_begin_exchange(mscclpp_group_t *group)
{
    ++group->exchanges;
    return &group->board[group->rank].buffers[group->exchanges % 2];
}

mscclpp_status_t mscclpp_group_meet_exchange(mscclpp_group_t *group, const char *event_name, uint64_t bytes)
{
    mscclpp_board_line_t *own_line = &group->board[group->rank];

    mscclpp_board_store(&own_line->published, group->exchanges);
    return mscclpp_group_wait_words(group, event_name, bytes, &own_line->published, group->exchanges);
}

const mscclpp_board_buffers_t *mscclpp_group_exchanged(const mscclpp_group_t *group, int rank)
{
    return &group->board[rank].buffers[group->exchanges % 2];
}

/*
 * Plain accesses are enough, as for handles: the writer releases `published` after it has written the word, and a
 * reader acquires `published` before it reads the word.
 */
void mscclpp_group_write_sizes(mscclpp_group_t *group, uint64_t sizes)
{
    group->board[group->rank].sizes[group->exchanges % 2] = sizes;
}

uint64_t mscclpp_group_exchanged_sizes(const mscclpp_group_t *group, int rank)
{
    return group->board[rank].sizes[group->exchanges % 2];
}

/*
 * Returns true if the last vote of every rank is yes. Before all ranks have voted on the current exchange, the last
 * vote of a rank may be about an earlier one, so the result counts only if all have voted.
 */
static bool have_all_said_yes(const mscclpp_group_t *group)
{
    bool all_said_yes = true;
    int rank;

    for (rank = 0; rank < group->size; ++rank) {
        all_said_yes = all_said_yes && mscclpp_board_load(&group->board[rank].voted) % 2 != 0;
    }
    return all_said_yes;
}

/*
 * A rank's word is 2 * the number of the exchange, + 1 if the rank votes yes. So one word says both that the rank has
 * voted and how. A peer cannot overwrite its vote before this rank has read it: it votes again only in a later
 * exchange, after a meeting to which this rank comes after reading.
 */
mscclpp_status_t mscclpp_group_end_exchange(mscclpp_group_t *group, const char *event_name, uint64_t bytes,
                                            bool own_vote, bool *all_yes_p)
{
    mscclpp_board_line_t *own_line = &group->board[group->rank];
    mscclpp_status_t status;

    mscclpp_board_store(&own_line->voted, group->exchanges * 2 + own_vote);
    status = mscclpp_group_wait_words(group, event_name, bytes, &own_line->voted, group->exchanges * 2);
    if (status == MSCCLPP_OK) {
        *all_yes_p = have_all_said_yes(group);
    }
    return status;
}

/*
 * Ends an exchange with a deadline, unless another rank has ended it already. The exchange ends with the votes of all
 * ranks if `has_votes` is set, and is given up otherwise. Returns true if the exchange has ended with votes, whichever
 * rank ended it. No exchange follows one that was given up. So if `ended` has the number of a later exchange, this one
 * ended with votes.
 */
static bool end_once(mscclpp_group_t *group, bool has_votes)
{
    uint64_t *ended = &group->board[0].exchanged;
    const uint64_t given_up = 2 * group->exchanges, own_end = given_up + has_votes;
    uint64_t current = mscclpp_board_load(ended);

    while (current < given_up &&
           !__atomic_compare_exchange_n(ended, &current, own_end, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
    }
    return (current < given_up ? own_end : current) != given_up;
}

/*
 * Returns true if this word has reached the target on the lines of all ranks. `own_word` is the word on this rank's
 * line.
 */
static bool have_all_reached(const mscclpp_group_t *group, const uint64_t *own_word, uint64_t target)
{
    bool all_reached = true;
    int rank;

    for (rank = 0; rank < group->size; ++rank) {
        all_reached = all_reached && mscclpp_board_load(mscclpp_group_word_of(group, own_word, rank)) >= target;
    }
    return all_reached;
}

/*
 * Waits until a word has reached `target` on all ranks, or until the exchange has been given up. At the deadline this
 * rank gives the exchange up, which is not an error. Returns the error of the wait. The wait counts as a trial
 * (`probing`): it does not compare arguments, and it logs a timeout of the group as information only.
 */
static mscclpp_status_t wait_by_deadline(mscclpp_group_t *group, const char *event_name, uint64_t bytes,
                                         double deadline, const uint64_t *own_word, uint64_t target)
{
    const bool was_probing = group->probing;
    mscclpp_status_t status = MSCCLPP_OK;
    mscclpp_group_wait_t wait;

    mscclpp_group_wait_init(&wait, group, event_name, bytes);
    wait.words = own_word;
    wait.target = target;
    group->probing = true;
    while (status == MSCCLPP_OK && !have_all_reached(group, own_word, target) &&
           mscclpp_board_load(&group->board[0].exchanged) != 2 * group->exchanges) {
        if (mscclpp_now() >= deadline) {
            (void)end_once(group, false);
        }
        status = mscclpp_group_wait_turn(&wait);
    }
    mscclpp_group_wait_end(&wait);
    group->probing = was_probing;
    return status;
}

mscclpp_status_t mscclpp_group_meet_exchange_by_deadline(mscclpp_group_t *group, const char *event_name, uint64_t bytes,
                                                         double deadline, bool *met_p)
{
    mscclpp_board_line_t *own_line = &group->board[group->rank];
    mscclpp_status_t status;

    mscclpp_board_store(&own_line->published, group->exchanges);
    status = wait_by_deadline(group, event_name, bytes, deadline, &own_line->published, group->exchanges);
    *met_p = status == MSCCLPP_OK && have_all_reached(group, &own_line->published, group->exchanges);
    if (status == MSCCLPP_OK && !*met_p) {
        group->gave_up = true;
    }
    return status;
}

mscclpp_status_t mscclpp_group_end_exchange_by_deadline(mscclpp_group_t *group, const char *event_name, uint64_t bytes,
                                                        double deadline, bool own_vote, bool *all_yes_p)
{
    mscclpp_board_line_t *own_line = &group->board[group->rank];
    mscclpp_status_t status;
    bool all_said_yes;

    mscclpp_board_store(&own_line->voted, group->exchanges * 2 + own_vote);
    status = wait_by_deadline(group, event_name, bytes, deadline, &own_line->voted, group->exchanges * 2);
    all_said_yes = status == MSCCLPP_OK && have_all_said_yes(group);
    /*
     * Ranks may see the deadline at different times. The first rank that ends the exchange decides for all ranks
     * whether the votes count. Only a rank that has seen all votes may decide that they do.
     */
    group->gave_up =
        status == MSCCLPP_OK && !end_once(group, have_all_reached(group, &own_line->voted, group->exchanges * 2));
    *all_yes_p = all_said_yes && !group->gave_up;
    return status;
}

double mscclpp_group_exchange_patience(const mscclpp_group_t *group)
{
    const double half = group->timeout / 2;

    return group->timeout > 0 && half < PATIENCE_SECONDS ? half : PATIENCE_SECONDS;
}

bool mscclpp_group_all_pass_args(const mscclpp_group_t *group, mscclpp_board_args_t call_args)
{
    bool all_equal = true;
    int rank;

    for (rank = 0; rank < group->size; ++rank) {
        all_equal = all_equal && mscclpp_group_exchanged(group, rank)->call_args == call_args;
    }
    return all_equal;
}

/*
 * Compares each rank with rank 0 of the node, so that all ranks find the same difference. The message names a rank
 * whose arguments differ from those of this rank.
 */
mscclpp_status_t mscclpp_group_compare_call_args(const mscclpp_group_t *group)
{
    int rank;

    for (rank = 1; rank < group->size; ++rank) {
        const mscclpp_board_args_t call_args = mscclpp_group_exchanged(group, rank)->call_args;

        if (call_args != mscclpp_group_exchanged(group, 0)->call_args) {
            const int other_rank = group->call_args != call_args ? rank : 0;

            return mscclpp_group_report_difference(group, other_rank,
                                                   mscclpp_group_exchanged(group, other_rank)->call_args);
        }
    }
    return MSCCLPP_OK;
}
