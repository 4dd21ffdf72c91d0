/* One call by an execution plan (mca/common/team/plans.h). */
#ifndef MCA_COMMON_TASK_BY_PLAN_H
#define MCA_COMMON_TASK_BY_PLAN_H

#include "mca/common/team/parts.h"

typedef struct {
    mscclpp_team_plan_t *plan; /* NULL: no plan serves the call, which only mscclpp_by_plan_can_enqueue allows */
    const char *in; /* memory that kernels can access; in an all-gather in place, this rank's block of `out` */
    char *out;
    uint64_t bytes;  /* number of bytes of data in a rank's block; in an all-reduce, of the whole message */
    uint64_t stride; /* distance from the start of one block to the next, in bytes */
    mscclpp_dtype_t dtype;
    mscclpp_op_t op;
    bool passed_in_place; /* the call is in place, though `in` and `out` may differ on a rank that packs its data */
    uint64_t call;        /* number of the call, for messages */
    bool early;           /* the host does not wait for the call yet, as in mscclpp_allreduce_args_t */
} mscclpp_by_plan_t;

/*
 * Allocates the plan's memory, which otherwise the first call would do. Does not use the buffers. Collective. If a rank
 * has no memory, this is not an error: the call finds this out again.
 */
mscclpp_status_t mscclpp_by_plan_prepare(mscclpp_team_t *team, const mscclpp_by_plan_t *call);

/*
 * Executes a call. All ranks call this function in the same way, at the same point of a call. Returns when the output
 * is complete. *served_p is equal on all ranks. It is false if there is no memory for the plan, or if the plan needs
 * its own memory and elements have padding. The input is then unchanged, and another algorithm must serve the call. An
 * error breaks the team.
 */
mscclpp_status_t mscclpp_by_plan(mscclpp_team_t *team, const mscclpp_by_plan_t *call, bool *served_p);

/*
 * Returns true if there is a plan that can serve a queued call. Its room must be large enough already. It must be able
 * to use the call's buffers directly, or the elements must have no padding, so that they can be copied. Equal on all
 * ranks.
 */
bool mscclpp_by_plan_can_enqueue(mscclpp_team_t *team, const mscclpp_by_plan_t *call);

/*
 * Queues such a call in a stream of the application. Waits for no rank and allocates no memory, so a graph may record
 * the call. An error breaks the team.
 */
mscclpp_status_t mscclpp_by_plan_enqueue(mscclpp_team_t *team, const mscclpp_by_plan_t *call,
                                         mscclpp_gpu_stream_t *stream);

#endif
