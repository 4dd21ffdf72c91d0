/* Marks a team as broken, and refuses its later calls. */
#include "mca/common/base/fiber.h"
#include "mca/common/base/log.h"
#include "mca/common/team/parts.h"

/*
 * Breaks the team, in this order. Does nothing if the team is broken already.
 * 1. This rank's own kernels and proxy end, so that they no longer wait for the peers.
 * 2. The peers are told, unless one of them has caused the failure and tells all. Each peer then breaks its team, too.
 * The function that failed has logged the cause.
 */
mscclpp_status_t mscclpp_team_fail(mscclpp_team_t *team, mscclpp_status_t status)
{
    if (team->group.broken) {
        return status;
    }
    mscclpp_fiber_close(); /* only a thread that may call the embedding runtime can tell the peers */
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
                                        mscclpp_status_t status, bool peer_reports)
{
    team->group.peer_failed = team->group.peer_failed || peer_reports;
    team->group.call = call;
    team->group.collective = collective;
    return mscclpp_team_fail(team, status);
}

mscclpp_status_t mscclpp_team_refuse_call(const mscclpp_team_t *team, uint64_t call)
{
    mscclpp_error("%s: %s call %llu: the communicator failed in an earlier call", team->group.oob.label,
                  team->group.collective, (unsigned long long)call);
    return MSCCLPP_ERR_PEER;
}
