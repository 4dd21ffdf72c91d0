/*
 * Early kernels: kernels that start before anybody waits for them. On the device they wait for other ranks, which may
 * start the kernels of other communicators first. So that ranks never wait for one another in a circle, a process has
 * at most two early kernels under way (mca/common/group/admission.h), and both must be able to run beside the kernel of
 * a call that the host waits for.
 */
#include "mca/common/run/runner.h"

/* An early kernel gets one part in so many of the blocks that can run at once; a call that is waited for takes half. */
#define PART 4u

uint32_t mscclpp_runner_early_blocks(const mscclpp_runner_t *runner)
{
    return runner->block_limit == 0 ? 0 : runner->block_limit < PART ? 1 : runner->block_limit / PART;
}
