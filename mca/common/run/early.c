/*
 * Kernels that start before anybody waits for them. They wait on the device for other ranks, which may start theirs of
 * other communicators first: all that are there at once, and one of a call that somebody waits for, have to run side by
 * side, or ranks could wait for one another in a circle.
 */
#include "mca/common/team/parts.h"

/* Of the blocks that surely run at once: a call that somebody waits for takes half of them. */
#define PART 4u

uint32_t mscclpp_team_early_blocks(const mscclpp_team_t *team)
{
    return team->block_limit == 0 ? 0 : team->block_limit < PART ? 1 : team->block_limit / PART;
}

/* Where ranks meet before each launch, kernels have room, or wait for it there. */
static bool is_counted(const mscclpp_team_t *team)
{
    return team->block_limit != 0 && !team->group.meet_first;
}

mscclpp_status_t mscclpp_team_enter_early(mscclpp_team_t *team, uint32_t blocks, uint64_t bytes)
{
    mscclpp_status_t status = MSCCLPP_OK;
    mscclpp_group_wait_t wait;

    if (!is_counted(team)) {
        return MSCCLPP_OK;
    }
    mscclpp_group_wait_init(&wait, &team->group, "room for kernels", bytes);
    while (status == MSCCLPP_OK &&
           !mscclpp_room_enter(mscclpp_room_process(), blocks, 2 * mscclpp_team_early_blocks(team))) {
        status = mscclpp_group_wait_turn(&wait);
    }
    return status;
}

void mscclpp_team_leave_early(const mscclpp_team_t *team, uint32_t blocks)
{
    if (is_counted(team)) {
        mscclpp_room_exit(mscclpp_room_process(), blocks);
    }
}
