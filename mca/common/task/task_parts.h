/* The state of an all-reduce, and the functions that prepare its buffers. */
#ifndef MCA_COMMON_TASK_TASK_PARTS_H
#define MCA_COMMON_TASK_TASK_PARTS_H

#include "mca/common/task/task.h"
#include "mca/common/team/parts.h"

typedef struct {
    mscclpp_team_t *team;
    const mscclpp_allreduce_args_t *args;
    mscclpp_gpu_stream_t *app_stream; /* the stream of a queued call; NULL: the host waits for the call */
    mscclpp_gpu_stream_t *stream;     /* stream of the team, once it is needed */
    uint64_t bytes;            /* number of bytes from the first to the last byte of the message, including padding */
    mscclpp_reach_t in_reach;  /* how kernels access the user's input */
    mscclpp_reach_t out_reach; /* how kernels access the user's output */
    const void *in;            /* the kernel's input and output: the user's buffers or stand-ins */
    void *out;
    void *in_stand_in; /* device memory that replaces a buffer that kernels cannot access; NULL: none */
    void *out_stand_in;
    mscclpp_choice_t choice;
    mscclpp_dev_zerocopy_args_t kernel_args; /* common arguments, and, after an exchange, the peers' mapped buffers */
    mscclpp_mapped_t *mapped;                /* in a queued call: the buffers of all ranks; NULL: not mapped */
    /* In a queued or early call: the buffers are mapped, or may be mapped. Equal on all ranks. */
    bool may_map;
    bool has_met; /* the ranks have met for the launch, and it must follow at once; equal on all ranks */
    mscclpp_dev_release_t release; /* for a kernel, if it is the only one that writes to `out` */
} mscclpp_task_t;

/* Returns true if elements follow one another without padding, so that they can be copied as bytes. */
static inline bool mscclpp_task_is_dense(mscclpp_dtype_t dtype)
{
    return dtype < MSCCLPP_DTYPE_SHORT_INT;
}

/*
 * task_exchange.c: chooses the algorithm and its grid. Returns MSCCLPP_ERR_NOT_SUPPORTED, equally on all ranks and with
 * nothing changed, if the call must be staged. There is no other error.
 */
mscclpp_status_t mscclpp_task_choose(mscclpp_task_t *task, mscclpp_select_input_t *input);

/* Maps the peers' buffers if the algorithm needs them. May change the choice. An error breaks the team. */
mscclpp_status_t mscclpp_task_exchange(mscclpp_task_t *task, mscclpp_select_input_t *input);

/*
 * Exchanges the buffers of a request before its first start, so that the starts find them in the list of known ones.
 * They do not if a buffer needs a stand-in, or cannot be mapped, which is not an error. Collective. The buffers have
 * been examined.
 */
mscclpp_status_t mscclpp_task_exchange_ahead(mscclpp_task_t *task);

/* task_buffers.c: the buffers that kernels use instead of the user's buffers. */

/*
 * Takes the team's stream for work other than the kernel, if the task has none yet. The kernel of this call then runs
 * after that work.
 */
mscclpp_status_t mscclpp_task_ensure_stream(mscclpp_task_t *task);

/*
 * Determines how kernels access the user's buffers. Also waits for work on them that synchronous calls of the GPU
 * runtime have left in flight. So all later accesses, by any rank, come after that work.
 */
mscclpp_status_t mscclpp_task_examine_buffers(mscclpp_task_t *task);

/*
 * Replaces buffers that kernels cannot access by device memory. Peers only learn, in the exchange, that such a buffer
 * cannot be mapped. Also chooses how widely the writes of the kernel must be made visible.
 */
mscclpp_status_t mscclpp_task_replace_buffers(mscclpp_task_t *task);

/*
 * Copies the result back if `status` is MSCCLPP_OK, waits for that, and frees the stand-ins. Returns `status`, or the
 * first error. If a kernel may still run, the stand-ins are leaked with the failed team.
 */
mscclpp_status_t mscclpp_task_restore_buffers(mscclpp_task_t *task, mscclpp_status_t status);

#endif
