/*
 * Exchange of handles of user buffers between the hosts of a node, just before a launch that accesses the buffers of
 * all ranks.
 */
#include <stdlib.h>
#include <string.h>

#include "mca/common/base/log.h"
#include "mca/common/base/mailbox.h"
#include "mca/common/group/group.h"

mscclpp_board_buffers_t *mscclpp_group_begin_exchange(mscclpp_group_t *group)
{
    ++group->exchanges;
    return &group->board[group->rank].buffers[group->exchanges % 2];
}

mscclpp_status_t mscclpp_group_meet_exchange(mscclpp_group_t *group, const char *what, uint64_t bytes)
{
    mscclpp_board_line_t *own_line = &group->board[group->rank];

    mscclpp_board_store(&own_line->published, group->exchanges);
    return mscclpp_group_wait_words(group, what, bytes, &own_line->published, group->exchanges);
}

const mscclpp_board_buffers_t *mscclpp_group_exchanged(const mscclpp_group_t *group, int rank)
{
    return &group->board[rank].buffers[group->exchanges % 2];
}

/*
 * A rank's word holds 2 * the number of the exchange, + 1 if the rank votes yes. *all_p is set only if the status is
 * MSCCLPP_OK. Fails as the wait does.
 */
mscclpp_status_t mscclpp_group_end_exchange(mscclpp_group_t *group, const char *what, uint64_t bytes, bool yes,
                                            bool *all_p)
{
    mscclpp_board_line_t *own_line = &group->board[group->rank];
    mscclpp_status_t status;
    bool all_said_yes = true;
    int rank;

    mscclpp_board_store(&own_line->voted, group->exchanges * 2 + yes);
    status = mscclpp_group_wait_words(group, what, bytes, &own_line->voted, group->exchanges * 2);
    for (rank = 0; rank < group->size && status == MSCCLPP_OK; ++rank) {
        all_said_yes = all_said_yes && mscclpp_board_load(&group->board[rank].voted) % 2 != 0;
    }
    if (status == MSCCLPP_OK) {
        *all_p = all_said_yes;
    }
    return status;
}

/*
 * Compares the arguments of each rank with those of rank 0. If this rank agrees with the rank that differs, its message
 * names rank 0 instead.
 */
mscclpp_status_t mscclpp_group_compare_asked(const mscclpp_group_t *group)
{
    int rank;

    for (rank = 1; rank < group->size; ++rank) {
        const mscclpp_board_asked_t asked = mscclpp_group_exchanged(group, rank)->asked;

        if (asked != mscclpp_group_exchanged(group, 0)->asked) {
            return mscclpp_group_report_difference(group, group->asked != asked ? rank : 0,
                                                   group->asked != asked ? asked
                                                                         : mscclpp_group_exchanged(group, 0)->asked);
        }
    }
    return MSCCLPP_OK;
}
