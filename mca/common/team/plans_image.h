/* The part of a plan's room that only its own rank uses: the program, counters, and what else kernels read there. */
#ifndef MCA_COMMON_TEAM_PLANS_IMAGE_H
#define MCA_COMMON_TEAM_PLANS_IMAGE_H

#include "mca/common/team/plans.h"

/*
 * Returns the bytes of this part. The plan's program must have been lowered. Changes plan->args, too: no launch may use
 * them until mscclpp_plans_upload has succeeded.
 */
uint64_t mscclpp_plans_image_bytes(const mscclpp_team_t *team, mscclpp_team_plan_t *plan);

/*
 * Fills this part, which begins at `base` in device memory, and plan->args, the kernel's arguments that do not depend
 * on the call. This rank must have mapped the rooms of all ranks of its node, whose addresses the part contains.
 * Returns when the device has the part. An error may leave plan->args changed.
 */
mscclpp_status_t mscclpp_plans_upload(mscclpp_team_t *team, mscclpp_team_plan_t *plan, char *base);

#endif
