/*
 * Logs the choice of an algorithm. Only the first rank of a communicator logs it, and not during a trial at set-up,
 * because the choice is equal on all ranks.
 */
#ifndef MCA_COMMON_TASK_REPORT_H
#define MCA_COMMON_TASK_REPORT_H

#include "mca/common/algo/coll.h"
#include "mca/common/team/parts.h"

/*
 * Warns, once in a process for each algorithm, if the algorithm that the user asked for does not serve all-reduce
 * `call`. Does not warn in a communicator of one rank. Any thread may call this.
 */
void mscclpp_report_choice(const mscclpp_team_t *team, uint64_t call, const char *served_by);

/*
 * Log what the cost model predicts for a choice between nodes, once in a team for all sizes from a power of two up to
 * the next. `choice` has been made from `input`.
 *
 * The first function is for all-reduce over several nodes. The second is for the other collectives, with a largest
 * block of `bytes` bytes. It logs nothing for an algorithm within a node, or if there is no other algorithm to compare
 * with.
 */
void mscclpp_report_costs(mscclpp_team_t *team, const mscclpp_select_input_t *input, const mscclpp_choice_t *choice);
void mscclpp_report_coll_costs(mscclpp_team_t *team, mscclpp_coll_t coll, uint64_t bytes,
                               const mscclpp_select_input_t *input, const mscclpp_coll_choice_t *choice);

#endif
