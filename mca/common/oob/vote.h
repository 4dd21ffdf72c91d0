/* Decisions that all ranks of an exchange take together, without keeping any state. */
#ifndef MCA_COMMON_OOB_VOTE_H
#define MCA_COMMON_OOB_VOTE_H

#include <stdbool.h>
#include <stdint.h>

#include "mca/common/oob/oob.h"
#include "mca/common/base/status.h"

/* The result of a vote. */
typedef struct {
    int culprit; /* the first rank that failed for its own reason, or else the first that failed; -1: none failed */
    mscclpp_status_t status; /* status of the culprit; MSCCLPP_OK without a culprit */
    bool all;                /* all ranks have the flag set */
    bool none_gave_up;       /* no rank has said that it cannot continue at all */
    uint64_t max_number;     /* the largest number of any rank (mscclpp_vote_max); 0 in other votes */
} mscclpp_vote_t;

/*
 * Collects one status from each rank of the exchange; collective. Returns the error of the exchange, which is logged,
 * or MSCCLPP_OK and the result, which is equal on all ranks. *vote_p is set only with MSCCLPP_OK. The three functions
 * below do the same.
 */
mscclpp_status_t mscclpp_vote(const mscclpp_oob_t *oob, mscclpp_status_t own_status, mscclpp_vote_t *vote_p);

/*
 * Takes a vote as mscclpp_vote does, and also combines a flag, by which the ranks find out whether all of them can do
 * something.
 */
mscclpp_status_t mscclpp_vote_with(const mscclpp_oob_t *oob, mscclpp_status_t own_status, bool flag,
                                   mscclpp_vote_t *vote_p);

/* Takes a vote as mscclpp_vote does, and also finds the largest of the ranks' numbers. */
mscclpp_status_t mscclpp_vote_max(const mscclpp_oob_t *oob, mscclpp_status_t own_status, uint64_t number,
                                  mscclpp_vote_t *vote_p);

/* Takes a vote in which this rank says that it cannot continue at all. `own_status` is the reason. */
mscclpp_status_t mscclpp_vote_give_up(const mscclpp_oob_t *oob, mscclpp_status_t own_status, mscclpp_vote_t *vote_p);

/*
 * Takes a vote on a step that needs all ranks. Returns MSCCLPP_OK if the step succeeded on all of them. Otherwise
 * returns MSCCLPP_ERR_NOT_SUPPORTED on all ranks, and each rank logs which rank failed in `step` and why. `members` has
 * the numbers of the ranks for messages; NULL: messages use the numbers in the exchange.
 */
mscclpp_status_t mscclpp_agree(const mscclpp_oob_t *oob, const int *members, mscclpp_status_t own_status,
                               const char *step);

/*
 * Returns, and logs, for the result of a vote what mscclpp_agree does, without an exchange. The status is equal on all
 * ranks.
 */
mscclpp_status_t mscclpp_vote_outcome(const mscclpp_oob_t *oob, const int *members, const mscclpp_vote_t *vote,
                                      const char *step);

#endif
