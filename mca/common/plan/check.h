/*
 * What can be said of a plan without running it (docs/plans.md, "Rules"). Each part adds what it finds to the report;
 * the later ones are asked only where the earlier ones found no fault.
 */
#ifndef MCA_COMMON_PLAN_CHECK_H
#define MCA_COMMON_PLAN_CHECK_H

#include "mca/common/plan/plan.h"

/* All of them. Fills in what plan.h marks with *. True if there was no fault. */
bool mscclpp_plan_check(mscclpp_plan_t *plan, mscclpp_plan_report_t *report);

/* Its parts. Ranks, channels and chunk counts: */
void mscclpp_plan_check_frame(mscclpp_plan_t *plan, mscclpp_plan_report_t *report);
/* every operation by itself: */
void mscclpp_plan_check_ops(mscclpp_plan_t *plan, mscclpp_plan_report_t *report);
/* operations that have to go together; MSCCLPP_ERR_NO_MEMORY, too: */
void mscclpp_plan_check_together(mscclpp_plan_t *plan, mscclpp_plan_report_t *report);
/* what other executors of such files could not take, as notes: */
void mscclpp_plan_check_portable(const mscclpp_plan_t *plan, mscclpp_plan_report_t *report);

#endif
