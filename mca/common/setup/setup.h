/* Creates teams, which mca/common/team/team.h describes. */
#ifndef MCA_COMMON_SETUP_SETUP_H
#define MCA_COMMON_SETUP_SETUP_H

#include <stdbool.h>

#include "mca/common/team/team.h"

/*
 * Loads UCX, if `ucx` is set and the build has it. Must be called before the process has threads that allocate memory,
 * because loading UCX is not safe while other threads call malloc. Without this call the first team loads UCX. Takes
 * some milliseconds; never fails.
 */
void mscclpp_setup_prepare(bool ucx);

/*
 * Creates a team, which the caller ends by mscclpp_team_destroy. Collective over the ranks of the exchange `oob`. The
 * status is equal on all ranks: MSCCLPP_OK, MSCCLPP_ERR_NOT_SUPPORTED if some rank cannot take part, or the error of
 * the exchange. The reason is logged at the info level, or higher if the user should change something. *team_p is set
 * only with MSCCLPP_OK.
 */
mscclpp_status_t mscclpp_team_create(const mscclpp_team_params_t *params, mscclpp_team_t **team_p);

#endif
