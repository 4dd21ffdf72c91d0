/* Runs meetings of kernels at set-up, to test what calls rely on. */
#include "mca/common/base/clock.h"
#include "mca/common/setup/internal.h"

/* Seconds in which the kernels of all ranks must meet. */
#define DEADLINE_SECONDS 10.0

/*
 * Changes the deadlines of the group for these kernels, and restores them also after an error. Holds the slot for
 * kernels, if one is needed, for all rounds.
 */
mscclpp_status_t mscclpp_setup_probe(mscclpp_team_t *team, mscclpp_dev_kernel_t kernel, uint32_t nthreads,
                                     mscclpp_dev_args_t *args, int rounds, double *seconds_p)
{
    const mscclpp_dev_launch_t launch = {.kernel = kernel, .nblocks = 1, .nthreads = nthreads, .args = args};
    mscclpp_status_t status = MSCCLPP_OK;
    double timeout = team->group.timeout, warn_after = team->group.warn_after;
    int round;

    *seconds_p = 0;
    team->group.probing = true;
    /* This wait has the user's deadline, because slots for kernels (group/admission.h) may depend on other calls. */
    status = mscclpp_group_meet(&team->group, 0, false);
    team->group.timeout = DEADLINE_SECONDS;
    team->group.warn_after = 0;
    mscclpp_runner_fill_args(&team->runner, args);
    for (round = 0; round < rounds && status == MSCCLPP_OK; ++round) {
        const double started = mscclpp_now();
        double seconds;

        status = mscclpp_runner_launch(&team->runner, NULL, &launch, "probe");
        seconds = mscclpp_now() - started;
        /* The first round does not count, because it waits for the ranks to arrive. */
        if (round == 1 || (round > 1 && seconds < *seconds_p)) {
            *seconds_p = seconds;
        }
    }
    mscclpp_group_give_slot(&team->group);
    if (status != MSCCLPP_OK) {
        /* Without this, the peers' kernels would wait for this rank's until the deadline. */
        (void)mscclpp_team_fail(team, status);
    }
    team->group.probing = false;
    team->group.timeout = timeout;
    team->group.warn_after = warn_after;
    return status;
}
