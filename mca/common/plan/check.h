/*
 * Checks a plan without running it (docs/plans.md, "Rules"). Each part adds its findings to the report. Later parts run
 * only if the earlier ones found no fault.
 */
#ifndef MCA_COMMON_PLAN_CHECK_H
#define MCA_COMMON_PLAN_CHECK_H

#include "mca/common/plan/plan.h"

/* Runs all parts, and fills in the fields that plan.h marks with *. True if there was no fault. */
bool mscclpp_plan_check(mscclpp_plan_t *plan, mscclpp_plan_report_t *report);

/* The parts. Ranks, channels and chunk counts: */
void mscclpp_plan_check_frame(mscclpp_plan_t *plan, mscclpp_plan_report_t *report);
/* every operation by itself: */
void mscclpp_plan_check_ops(mscclpp_plan_t *plan, mscclpp_plan_report_t *report);
/* operations that belong together; also reports MSCCLPP_ERR_NO_MEMORY: */
void mscclpp_plan_check_together(mscclpp_plan_t *plan, mscclpp_plan_report_t *report);
/* features that other executors of such files do not support, as notes: */
void mscclpp_plan_check_portable(const mscclpp_plan_t *plan, mscclpp_plan_report_t *report);

#endif
