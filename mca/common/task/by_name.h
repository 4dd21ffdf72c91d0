/* Runs an execution plan of a collective that MPI does not have, by the plan's name. */
#ifndef MCA_COMMON_TASK_BY_NAME_H
#define MCA_COMMON_TASK_BY_NAME_H

#include "mca/common/team/parts.h"

/* One run of a plan. */
typedef struct {
    const char *name;
    const void *in; /* input, with this rank's number of chunks; may equal `out` if the plan works in place */
    void *out;
    uint64_t count; /* number of elements of a chunk, equal on all ranks */
    mscclpp_dtype_t dtype;
    mscclpp_op_t op;
    uint64_t call; /* the number of this call on the communicator, as in mscclpp_allreduce_args_t */
} mscclpp_by_name_args_t;

/*
 * Runs a plan. Collective and blocking: returns when this rank's output is complete. Buffers may be in any memory.
 * Device memory replaces those that kernels cannot access.
 *
 * Returns MSCCLPP_ERR_NOT_SUPPORTED, on all ranks, if the team has no such plan for the operation, if kernels do not
 * support the type and operation, or if the type has padding. Returns MSCCLPP_ERR_NO_MEMORY, on all ranks, if some rank
 * has no memory for the plan.
 *
 * Every other failure breaks the team. One of them is a lack of memory to replace a buffer, for which that rank also
 * returns MSCCLPP_ERR_NO_MEMORY.
 */
mscclpp_status_t mscclpp_by_name(mscclpp_team_t *team, const mscclpp_by_name_args_t *args);

#endif
