/* Decisions that all ranks of an exchange take together, without memory of their own. */
#ifndef MCA_COMMON_OOB_VOTE_H
#define MCA_COMMON_OOB_VOTE_H

#include "mca/common/oob/oob.h"
#include "mca/common/base/status.h"

/* What became of a vote. */
typedef struct {
    int culprit;             /* the first rank that failed by itself, else the first that failed; -1: all are well */
    mscclpp_status_t status; /* of the culprit; MSCCLPP_OK without one */
} mscclpp_vote_t;

/*
 * Collective over the ranks of the oob (at most MSCCLPP_DEV_MAX_RANKS): each tells how it fares. The error of the
 * exchange, or MSCCLPP_OK and the result, equal on all ranks.
 */
mscclpp_status_t mscclpp_vote(const mscclpp_oob_t *oob, mscclpp_status_t mine, mscclpp_vote_t *vote_p);

/*
 * The same, where nobody goes on without all: MSCCLPP_OK if all are well, else MSCCLPP_ERR_NOT_SUPPORTED on all ranks
 * alike, each of which logs who failed in `what` and why. `members` (NULL: as the oob does) numbers ranks in messages.
 */
mscclpp_status_t mscclpp_agree(const mscclpp_oob_t *oob, const int *members, mscclpp_status_t mine, const char *what);

#endif
