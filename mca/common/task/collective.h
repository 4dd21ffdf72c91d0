/* One call of a collective other than all-reduce (mca/common/task.h), from its arguments to its end. */
#ifndef MCA_COMMON_TASK_COLLECTIVE_H
#define MCA_COMMON_TASK_COLLECTIVE_H

#include "mca/common/algo/coll.h"
#include "mca/common/team/team.h"

/*
 * Blocking: returns when the output holds what it is to hold and the input may be reused. Any kind of memory for either
 * buffer, any alignment, any size. Only bytes of blocks are written, never what lies between them. What synchronous
 * calls of the GPU's runtime have left under way on the buffers comes first, as for an all-reduce.
 *
 * Of `args` all ranks pass the same `coll`, `root`, `dtype`, `op`, `varied` and `known`, the same `count` where blocks
 * are of one size, and the same `most` where it is known. What rank r has for p in `send[p]` has the size that p has in
 * `recv[r]`.
 *
 * MSCCLPP_ERR_NOT_SUPPORTED is agreed by all ranks and leaves the buffers as they were: the caller takes another path.
 * Every other error breaks the team.
 */
mscclpp_status_t mscclpp_collective(mscclpp_team_t *team, const mscclpp_coll_args_t *args);

/* As mscclpp_allreduce_prepare. The largest block has to be known. */
mscclpp_status_t mscclpp_collective_prepare(mscclpp_team_t *team, const mscclpp_coll_args_t *args);

/* True if the team serves calls of a collective, whatever their sizes; equal on all ranks. */
bool mscclpp_collective_serves(const mscclpp_team_t *team, mscclpp_coll_t coll);

#endif
