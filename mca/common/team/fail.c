/* Marks a team as broken. */
#include "mca/common/base/fiber.h"
#include "mca/common/team/parts.h"

/*
 * Marks the team as broken, and returns `status`. Does nothing for a team that is already broken. First makes this
 * rank's own kernels and proxy end, so that they no longer wait for the peers; then tells the peers, unless one of them
 * has caused the failure and told all. Each peer then breaks its team, too. Logs nothing about the cause, which the
 * function that failed has logged.
 */
mscclpp_status_t mscclpp_team_fail(mscclpp_team_t *team, mscclpp_status_t status)
{
    if (team->group.broken) {
        return status;
    }
    mscclpp_fiber_close(); /* peers are told by the embedding runtime, too */
    team->group.broken = true;
    mscclpp_kin_spoil(team->kin);
    __atomic_store_n(&team->runner.mailbox->abort, 1, __ATOMIC_RELAXED);
    mscclpp_linger_clear(&team->runner);
    if (team->fabric != NULL) {
        mscclpp_fabric_stop(team->fabric);
    }
    mscclpp_group_fail(&team->group, status, team->fabric != NULL ? mscclpp_fabric_loss(team->fabric) : NULL);
    return status;
}

mscclpp_status_t mscclpp_team_fail_call(mscclpp_team_t *team, uint64_t call, const char *collective,
                                        mscclpp_status_t status)
{
    team->group.call = call;
    team->group.collective = collective;
    return mscclpp_team_fail(team, status);
}
