/* One pass over all operations of a plan. */
#ifndef MCA_COMMON_PLAN_VISIT_H
#define MCA_COMMON_PLAN_VISIT_H

#include "mca/common/plan/plan.h"

/* Called for one operation, at `place`. `pipeline` is the pipeline around the operation, or NULL. */
typedef void (*mscclpp_plan_visit_fn_t)(void *context, mscclpp_plan_place_t place, mscclpp_plan_op_t *op,
                                        const mscclpp_plan_op_t *pipeline);

/*
 * Calls `visit` for every operation: rank by rank, block by block, in the order of the file. A pipeline comes before
 * the operations in its body.
 */
void mscclpp_plan_visit(const mscclpp_plan_t *plan, mscclpp_plan_visit_fn_t visit, void *context);

#endif
