/* Logs the choice of an algorithm. */
#ifndef MCA_COMMON_TASK_REPORT_H
#define MCA_COMMON_TASK_REPORT_H

#include "mca/common/algo/coll.h"
#include "mca/common/team/parts.h"

/*
 * Warns, once in a process for each algorithm, if the algorithm that the user asked for does not serve all-reduce
 * `call`.
 */
void mscclpp_report_choice(const mscclpp_team_t *team, uint64_t call, const char *served_by);

/*
 * Log what the cost model says of a choice between nodes: on rank 0, once for sizes from a power of two up to the next.
 * The first function is for all-reduce, whose message must not be empty. The second is for the other collectives, with
 * a largest block of `bytes` bytes.
 */
void mscclpp_report_costs(mscclpp_team_t *team, const mscclpp_select_input_t *input, const mscclpp_choice_t *choice);
void mscclpp_report_coll_costs(mscclpp_team_t *team, mscclpp_coll_t coll, uint64_t bytes,
                               const mscclpp_select_input_t *input, const mscclpp_coll_choice_t *choice);

#endif
