#include "mca/common/oob/vote.h"

#include <stdint.h>

#include "device/types/launch.h"
#include "mca/common/base/log.h"

mscclpp_status_t mscclpp_vote(const mscclpp_oob_t *oob, mscclpp_status_t mine, mscclpp_vote_t *vote_p)
{
    /* On the stack: ranks that have run out of memory vote, too. */
    int32_t ballot = (int32_t)mine, ballots[MSCCLPP_DEV_MAX_RANKS];
    mscclpp_status_t status = oob->allgather(oob->context, &ballot, ballots, sizeof(ballot));
    int rank, culprit = -1;

    if (status != MSCCLPP_OK) {
        return status;
    }
    for (rank = 0; rank < oob->size; ++rank) {
        /* A rank that failed because of another one is not the culprit. */
        if (ballots[rank] != MSCCLPP_OK &&
            (culprit < 0 || (ballots[culprit] == MSCCLPP_ERR_PEER && ballots[rank] != MSCCLPP_ERR_PEER))) {
            culprit = rank;
        }
    }
    vote_p->culprit = culprit;
    vote_p->status = culprit < 0 ? MSCCLPP_OK : (mscclpp_status_t)ballots[culprit];
    return MSCCLPP_OK;
}

mscclpp_status_t mscclpp_agree(const mscclpp_oob_t *oob, const int *members, mscclpp_status_t mine, const char *what)
{
    mscclpp_vote_t vote;
    mscclpp_status_t status = mscclpp_vote(oob, mine, &vote);

    if (status == MSCCLPP_OK && vote.culprit >= 0) {
        /* If more memory or descriptors would help, the culprit says so once, as a warning. */
        mscclpp_log(mscclpp_status_is_shortage(vote.status) && vote.culprit == oob->rank ? MSCCLPP_LOG_WARN
                                                                                         : MSCCLPP_LOG_INFO,
                    "%s: rank %d: %s: %s: device buffers are staged", oob->label,
                    members != NULL ? members[vote.culprit] : vote.culprit, what, mscclpp_status_string(vote.status));
        status = MSCCLPP_ERR_NOT_SUPPORTED;
    }
    return status;
}
