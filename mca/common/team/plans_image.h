/*
 * The image: the part of a plan's room that only its own rank uses. It has the program, counters, and other data that
 * kernels read.
 */
#ifndef MCA_COMMON_TEAM_PLANS_IMAGE_H
#define MCA_COMMON_TEAM_PLANS_IMAGE_H

#include "mca/common/team/plans.h"

/*
 * Returns the size of the image in bytes. The plan's program must have been lowered. Changes plan->args, too: no launch
 * may use them until mscclpp_plans_upload has succeeded.
 */
uint64_t mscclpp_plans_image_bytes(const mscclpp_team_t *team, mscclpp_team_plan_t *plan);

/*
 * Fills in the image, which begins at `base` in device memory, and plan->args, the kernel's arguments that do not
 * depend on the call. This rank must have mapped the rooms of all ranks of its node, because the image contains their
 * addresses. Returns when the image is in device memory. An error may leave plan->args changed.
 */
mscclpp_status_t mscclpp_plans_upload(mscclpp_team_t *team, mscclpp_team_plan_t *plan, char *base);

#endif
