/*
 * Makes a team over several nodes take over the agreements of an earlier team of the same ranks, instead of the steps
 * of align.c.
 */
#include "mca/common/setup/internal.h"

/* Makes this rank's control messages, as the earlier team's are. */
static mscclpp_status_t connect_ctrl(mscclpp_team_t *team, const mscclpp_config_t *config, const mscclpp_kin_t *kin)
{
    mscclpp_status_t status;

    if (kin->ctrl == NULL) {
        return MSCCLPP_OK;
    }
    status = mscclpp_ctrl_create(config->ucx, &team->group.oob, &team->group.ctrl);
    return status == MSCCLPP_OK ? mscclpp_ctrl_connect_like(team->group.ctrl, kin->ctrl) : status;
}

/*
 * Copies everything that the ranks agreed on for the earlier team. Only the connection of control messages can fail;
 * its error is this rank's own status.
 */
mscclpp_status_t mscclpp_setup_inherit(mscclpp_team_t *team, const mscclpp_kin_t *kin, mscclpp_config_t *config)
{
    team->protocol = kin->protocol;
    team->group.meet_first = kin->meet_first;
    team->group.any_concurrent = kin->any_concurrent;
    team->runner.block_limit = kin->block_limit;
    team->runner.shares_gpu = kin->shares_gpu;
    team->runner.takes_turns = kin->takes_turns;
    config->exchange_size = kin->exchange_size;
    mscclpp_linger_init(&team->runner, config, kin->takes_turns, true);
    return connect_ctrl(team, config, kin);
}

void mscclpp_setup_name(mscclpp_team_t *team, uint64_t team_id)
{
    team->group.id = team_id;
    if (team->group.ctrl != NULL) {
        mscclpp_ctrl_name_team(team->group.ctrl, team_id);
    }
}
