#include "mca/common/oob/vote.h"

#include <stdint.h>
#include <stdlib.h>

#include "mca/common/base/log.h"

/* Ballots of up to this number of ranks are on the stack, so that a rank without memory can still vote. */
#define STACK_BALLOTS 64

#define FLAG_SET 1u      /* the rank's flag is set */
#define FLAG_GIVES_UP 2u /* the rank cannot continue */

typedef struct {
    int32_t status; /* mscclpp_status_t of the rank */
    uint32_t flags; /* FLAG_SET, FLAG_GIVES_UP */
    uint64_t number;
} ballot_t;

/*
 * Finds the result of a vote. The ballots are in the order of ranks. The culprit is the first rank that failed for its
 * own reason or, if there is none, the first rank with MSCCLPP_ERR_PEER. If ranks give up, only these ranks can be the
 * culprit.
 */
static void count_ballots(const ballot_t *ballots, int size, mscclpp_vote_t *vote_p)
{
    int rank, culprit = -1;

    vote_p->all = vote_p->none_gave_up = true;
    vote_p->max_number = 0;
    for (rank = 0; rank < size; ++rank) {
        vote_p->none_gave_up = vote_p->none_gave_up && (ballots[rank].flags & FLAG_GIVES_UP) == 0;
    }
    for (rank = 0; rank < size; ++rank) {
        const bool counts = vote_p->none_gave_up || (ballots[rank].flags & FLAG_GIVES_UP) != 0;
        /*
         * MSCCLPP_ERR_PEER says that a rank failed because of another rank. So such a rank is the culprit only if no
         * rank has another error.
         */
        const bool comes_first =
            culprit < 0 || (ballots[culprit].status == MSCCLPP_ERR_PEER && ballots[rank].status != MSCCLPP_ERR_PEER);

        if (counts && ballots[rank].status != MSCCLPP_OK && comes_first) {
            culprit = rank;
        }
        vote_p->all = vote_p->all && (ballots[rank].flags & FLAG_SET) != 0;
        vote_p->max_number = ballots[rank].number > vote_p->max_number ? ballots[rank].number : vote_p->max_number;
    }
    vote_p->culprit = culprit;
    vote_p->status = culprit < 0 ? MSCCLPP_OK : (mscclpp_status_t)ballots[culprit].status;
}

/*
 * Sends this rank's ballot to all ranks, and counts theirs. If this rank has no memory for the ballots, it passes NULL
 * as `recvbuf`, and the all-gather fails on all ranks. After a failure *vote_p is unchanged.
 */
static mscclpp_status_t cast_ballot(const mscclpp_oob_t *oob, mscclpp_status_t own_status, uint32_t flags,
                                    uint64_t number, mscclpp_vote_t *vote_p)
{
    ballot_t ballot = {.status = (int32_t)own_status, .flags = flags, .number = number};
    ballot_t on_stack[STACK_BALLOTS], *allocated = NULL, *ballots = on_stack;
    mscclpp_status_t status;

    if (oob->size > STACK_BALLOTS) {
        ballots = allocated = malloc((size_t)oob->size * sizeof(*allocated));
    }
    status = oob->allgather(oob->context, &ballot, ballots, sizeof(ballot));
    if (status == MSCCLPP_OK && ballots != NULL) {
        count_ballots(ballots, oob->size, vote_p);
    }
    free(allocated);
    return status;
}

mscclpp_status_t mscclpp_vote(const mscclpp_oob_t *oob, mscclpp_status_t own_status, mscclpp_vote_t *vote_p)
{
    return cast_ballot(oob, own_status, FLAG_SET, 0, vote_p);
}

mscclpp_status_t mscclpp_vote_with(const mscclpp_oob_t *oob, mscclpp_status_t own_status, bool flag,
                                   mscclpp_vote_t *vote_p)
{
    return cast_ballot(oob, own_status, flag ? FLAG_SET : 0, 0, vote_p);
}

mscclpp_status_t mscclpp_vote_max(const mscclpp_oob_t *oob, mscclpp_status_t own_status, uint64_t number,
                                  mscclpp_vote_t *vote_p)
{
    return cast_ballot(oob, own_status, FLAG_SET, number, vote_p);
}

mscclpp_status_t mscclpp_vote_give_up(const mscclpp_oob_t *oob, mscclpp_status_t own_status, mscclpp_vote_t *vote_p)
{
    return cast_ballot(oob, own_status, FLAG_GIVES_UP, 0, vote_p);
}

mscclpp_status_t mscclpp_vote_outcome(const mscclpp_oob_t *oob, const int *members, const mscclpp_vote_t *vote,
                                      const char *step)
{
    if (vote->culprit < 0) {
        return MSCCLPP_OK;
    }
    /* If more memory or file descriptors would help, the culprit says so once, as a warning. */
    mscclpp_log(mscclpp_status_is_shortage(vote->status) && vote->culprit == oob->rank ? MSCCLPP_LOG_WARN
                                                                                       : MSCCLPP_LOG_INFO,
                "%s: rank %d: %s: %s: device buffers are staged", oob->label,
                members != NULL ? members[vote->culprit] : vote->culprit, step, mscclpp_status_string(vote->status));
    return MSCCLPP_ERR_NOT_SUPPORTED;
}

/* If the exchange fails, returns its error, which the exchange has logged. */
mscclpp_status_t mscclpp_agree(const mscclpp_oob_t *oob, const int *members, mscclpp_status_t own_status,
                               const char *step)
{
    mscclpp_vote_t vote;
    const mscclpp_status_t status = mscclpp_vote(oob, own_status, &vote);

    return status == MSCCLPP_OK ? mscclpp_vote_outcome(oob, members, &vote, step) : status;
}
