/* Makes teams. */
#ifndef MCA_COMMON_SETUP_SETUP_H
#define MCA_COMMON_SETUP_SETUP_H

#include <stdbool.h>

#include "mca/common/team/team.h"

/*
 * To be called before the process has threads that use memory: loads UCX, if `ucx` and if the build has it, which is
 * not safe beside other threads' malloc. Without this call the first team does it. Some milliseconds; never fails.
 */
void mscclpp_setup_prepare(bool ucx);

/*
 * Collective over the ranks of the oob. Ends on all ranks alike: MSCCLPP_OK, or MSCCLPP_ERR_NOT_SUPPORTED if any rank
 * cannot take part (the reason is logged at the info level, once, by the rank that has it), or the error of the
 * exchange.
 */
mscclpp_status_t mscclpp_team_create(const mscclpp_team_params_t *params, mscclpp_team_t **team_p);

#endif
