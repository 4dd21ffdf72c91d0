/*
 * Early kernels: kernels that start before a host waits for them. A process has at most one early kernel in progress
 * (mca/common/group/admission.h). That kernel must be able to run beside the kernel of a call that the host waits for,
 * and beside queued kernels.
 */
#include "mca/common/run/runner.h"

/*
 * An early kernel gets 1 / EARLY_PART of the blocks that can run at once. A call that the host waits for takes half of
 * those blocks.
 */
#define EARLY_PART 4u

uint32_t mscclpp_runner_early_blocks(const mscclpp_runner_t *runner)
{
    if (runner->block_limit == 0) {
        return 0; /* no limit */
    }
    return runner->block_limit < EARLY_PART ? 1 : runner->block_limit / EARLY_PART;
}
