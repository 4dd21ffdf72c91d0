/*
 * Kernels that start before anybody waits for them. They wait on the device for other ranks, which may start theirs of
 * other communicators first: all that are there at once, and one of a call that somebody waits for, have to run side by
 * side, or ranks could wait for one another in a circle.
 */
#include "mca/common/run/runner.h"

/* Of the blocks that surely run at once: a call that somebody waits for takes half of them. */
#define PART 4u

uint32_t mscclpp_runner_early_blocks(const mscclpp_runner_t *runner)
{
    return runner->block_limit == 0 ? 0 : runner->block_limit < PART ? 1 : runner->block_limit / PART;
}

/* Where ranks meet before each launch, kernels have room, or wait for it there. */
static bool is_counted(const mscclpp_runner_t *runner)
{
    return runner->block_limit != 0 && !runner->group->meet_first;
}

mscclpp_status_t mscclpp_runner_enter_early(mscclpp_runner_t *runner, uint32_t blocks, uint64_t bytes)
{
    mscclpp_status_t status = MSCCLPP_OK;
    mscclpp_group_wait_t wait;

    if (!is_counted(runner)) {
        return MSCCLPP_OK;
    }
    mscclpp_group_wait_init(&wait, runner->group, "room for kernels", bytes);
    while (status == MSCCLPP_OK &&
           !mscclpp_admission_enter(mscclpp_admission_process(), blocks, 2 * mscclpp_runner_early_blocks(runner))) {
        status = mscclpp_group_wait_turn(&wait);
    }
    return status;
}

void mscclpp_runner_leave_early(const mscclpp_runner_t *runner, uint32_t blocks)
{
    if (is_counted(runner)) {
        mscclpp_admission_exit(mscclpp_admission_process(), blocks);
    }
}
