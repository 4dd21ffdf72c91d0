/* One call by an execution plan (mca/common/team/plans.h). */
#ifndef MCA_COMMON_TASK_BY_PLAN_H
#define MCA_COMMON_TASK_BY_PLAN_H

#include "mca/common/team/parts.h"

typedef struct {
    mscclpp_team_plan_t *plan; /* NULL: no plan serves the call, which only mscclpp_by_plan_can_enqueue allows */
    const char *in; /* memory that kernels can access; in an all-gather in place, this rank's block of `out` */
    char *out;
    uint64_t bytes;  /* bytes of data in a rank's block; in an all-reduce, of the whole message */
    uint64_t stride; /* from the start of one block to the next, bytes */
    mscclpp_dtype_t dtype;
    mscclpp_op_t op;
    uint64_t call; /* number of the call, for messages */
    bool early;    /* nobody waits for the call yet, as in mscclpp_allreduce_args_t */
} mscclpp_by_plan_t;

/*
 * Makes the plan's memory, which the first call would make otherwise. Does not use the buffers. Collective. If a rank
 * has no memory, this is no error: the call finds it out again.
 */
mscclpp_status_t mscclpp_by_plan_prepare(mscclpp_team_t *team, const mscclpp_by_plan_t *call);

/*
 * Carries out a call. All ranks call it alike, at the same point of a call. Returns when the output is complete.
 * *served_p, equal on all ranks, is false if there is no memory for it; then nothing has happened to the buffers, and
 * another algorithm serves the call. An error breaks the team.
 */
mscclpp_status_t mscclpp_by_plan(mscclpp_team_t *team, const mscclpp_by_plan_t *call, bool *served_p);

/*
 * True if there is a plan that can serve a queued call: its room is large enough already, and it can use the call's
 * buffers directly, or elements have no padding, so that they can be copied. Equal on all ranks.
 */
bool mscclpp_by_plan_can_enqueue(mscclpp_team_t *team, const mscclpp_by_plan_t *call);

/*
 * Queues such a call in a stream of the application. Waits for nothing and makes no memory, so a graph may record it.
 * An error breaks the team.
 */
mscclpp_status_t mscclpp_by_plan_enqueue(mscclpp_team_t *team, const mscclpp_by_plan_t *call,
                                         mscclpp_gpu_stream_t *stream);

#endif
