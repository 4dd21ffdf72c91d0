/* Internals of an all-reduce. */
#ifndef MCA_COMMON_TASK_TASK_PARTS_H
#define MCA_COMMON_TASK_TASK_PARTS_H

#include "mca/common/task/task.h"
#include "mca/common/team/parts.h"

/* One all-reduce under way. */
typedef struct {
    mscclpp_team_t *team;
    const mscclpp_allreduce_args_t *args;
    mscclpp_gpu_stream_t *app_stream; /* the stream of a queued call; NULL: the host waits for the call */
    mscclpp_gpu_stream_t *stream;     /* the team's, once something needs it */
    uint64_t bytes;                   /* from the first byte of the message to its last, padding included */
    mscclpp_reach_t in_reach;         /* how kernels reach the user's buffers */
    mscclpp_reach_t out_reach;
    const void *in; /* the kernel's input and output: the user's buffers or stand-ins */
    void *out;
    void *in_stand_in; /* device memory in place of a buffer that kernels cannot access; NULL: none */
    void *out_stand_in;
    mscclpp_choice_t choice;
    mscclpp_dev_zerocopy_args_t kernel_args; /* common arguments, and the peers' buffers if they are mapped */
    mscclpp_mapped_t *mapped;                /* of a queued call: the buffers of all ranks; NULL: not mapped */
    bool may_map;                            /* of a queued call: they are mapped, or may be; equal on all ranks */
    mscclpp_dev_release_t release;           /* for a kernel that alone writes to `out` */
} mscclpp_task_t;

/* True if elements follow one another without padding, so that they can be copied as bytes. */
static inline bool mscclpp_task_is_dense(mscclpp_dtype_t dtype)
{
    return dtype < MSCCLPP_DTYPE_SHORT_INT;
}

/* task_buffers.c: what kernels use in place of the user's buffers. */

/*
 * Takes the team's stream for work other than the kernel, if the task has none yet. The kernel of this call then runs
 * after that work.
 */
mscclpp_status_t mscclpp_task_stream(mscclpp_task_t *task);

/*
 * Finds out how kernels reach the user's buffers. Also waits for work on them that synchronous calls of the GPU runtime
 * have left in flight, so that all later accesses, by any rank, come after it.
 */
mscclpp_status_t mscclpp_task_examine(mscclpp_task_t *task);

/*
 * Replaces buffers that kernels cannot access by device memory. Peers notice only that such a buffer cannot be mapped;
 * the exchange tells them. Also chooses how widely the kernel's writes must be made visible.
 */
mscclpp_status_t mscclpp_task_replace(mscclpp_task_t *task);

/*
 * Copies the result back if `status` is MSCCLPP_OK, waits for that, and frees the stand-ins. Returns `status`, or the
 * first error. If a kernel may still run, the stand-ins are leaked with the failed team.
 */
mscclpp_status_t mscclpp_task_restore(mscclpp_task_t *task, mscclpp_status_t status);

#endif
