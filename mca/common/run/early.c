/*
 * Early kernels: kernels that start before anybody waits for them. They wait on the device for other ranks, which may
 * start the kernels of other communicators first. So that ranks never wait for one another in a circle, all early
 * kernels must be able to run at once, together with the kernel of a call that the host waits for.
 */
#include "mca/common/run/runner.h"

/* An early kernel takes at most this part of the blocks that can run at once. A call that is waited for takes half. */
#define PART 4u

uint32_t mscclpp_runner_early_blocks(const mscclpp_runner_t *runner)
{
    return runner->block_limit == 0 ? 0 : runner->block_limit < PART ? 1 : runner->block_limit / PART;
}

/* If ranks meet before each launch, room for kernels is found there and need not be counted here. */
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
