/*
 * Checks a plan without running it (docs/plans.md, "Rules"). Each part adds its findings to the report. Later parts run
 * only if the earlier parts found no fault.
 */
#ifndef MCA_COMMON_PLAN_CHECK_H
#define MCA_COMMON_PLAN_CHECK_H

#include "mca/common/plan/plan.h"

/*
 * Runs all parts, and fills in the fields that plan.h marks with (*). Returns true if the plan has no fault. If memory
 * runs out, returns false and sets `no_memory` in the report.
 */
bool mscclpp_plan_check(mscclpp_plan_t *plan, mscclpp_plan_report_t *report);

/* The parts, in their order. The first one checks ranks, channels and chunk counts, and pairs the channels. */
void mscclpp_plan_check_frame(mscclpp_plan_t *plan, mscclpp_plan_report_t *report);
/* Checks every operation separately, and looks up the channels and buffers that it names. */
void mscclpp_plan_check_ops(mscclpp_plan_t *plan, mscclpp_plan_report_t *report);
/* Checks operations that belong together: signals with waits, releases with acquires, barriers, groups of blocks. */
void mscclpp_plan_check_together(mscclpp_plan_t *plan, mscclpp_plan_report_t *report);
/* Adds notes about parts of the plan that exceed the limits of other executors of such files. */
void mscclpp_plan_check_portable(const mscclpp_plan_t *plan, mscclpp_plan_report_t *report);

#endif
