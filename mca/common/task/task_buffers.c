/* Buffers of an all-reduce that kernels cannot access, and the device memory in their place. */
#include "mca/common/task/task_parts.h"

mscclpp_status_t mscclpp_task_ensure_stream(mscclpp_task_t *task)
{
    mscclpp_status_t status = mscclpp_runner_take_stream(&task->team->runner);

    task->stream = task->team->runner.stream;
    return status;
}

/*
 * Allocates device memory of task->bytes bytes, in the order of the team's stream. mscclpp_task_restore_buffers frees
 * it.
 */
static mscclpp_status_t make_stand_in(mscclpp_task_t *task, void **stand_in_p)
{
    mscclpp_status_t status = mscclpp_task_ensure_stream(task);

    return status == MSCCLPP_OK ? task->team->runner.gpu->temp_alloc(task->stream, task->bytes, stand_in_p) : status;
}

/* In place the buffers are the same, so only one is examined. */
mscclpp_status_t mscclpp_task_examine_buffers(mscclpp_task_t *task)
{
    const mscclpp_team_t *team = task->team;
    const mscclpp_allreduce_args_t *args = task->args;
    mscclpp_status_t status =
        team->runner.gpu->reach(team->runner.device, args->recvbuf, args->recv_allocation, &task->out_reach);

    task->in_reach = task->out_reach;
    if (status == MSCCLPP_OK && args->sendbuf != args->recvbuf) {
        status = team->runner.gpu->reach(team->runner.device, args->sendbuf, 0, &task->in_reach);
    }
    return status;
}

/*
 * Replaces the output before the input, because in place the input is the output. Queues copies in the team's stream.
 * After an error, the caller still calls mscclpp_task_restore_buffers, which frees the stand-ins.
 */
mscclpp_status_t mscclpp_task_replace_buffers(mscclpp_task_t *task)
{
    mscclpp_team_t *team = task->team;
    const mscclpp_allreduce_args_t *args = task->args;
    bool in_place = args->sendbuf == args->recvbuf;
    mscclpp_status_t status = MSCCLPP_OK;

    task->in = args->sendbuf;
    task->out = args->recvbuf;
    task->release = task->out_reach == MSCCLPP_REACH_FAR ? MSCCLPP_DEV_RELEASE_SYSTEM : MSCCLPP_DEV_RELEASE_DEVICE;
    if (task->out_reach == MSCCLPP_REACH_NONE) {
        status = make_stand_in(task, &task->out_stand_in);
        task->out = task->out_stand_in;
        /*
         * In place, the stand-in needs the input. Otherwise it needs the padding between elements: the kernel does not
         * write it, but all bytes are copied back.
         */
        if (status == MSCCLPP_OK && (in_place || !mscclpp_task_is_dense(args->dtype))) {
            status = team->runner.gpu->copy(task->stream, task->out, args->recvbuf, task->bytes);
        }
    }
    if (in_place) {
        task->in = task->out;
    } else if (status == MSCCLPP_OK && task->in_reach == MSCCLPP_REACH_NONE) {
        status = make_stand_in(task, &task->in_stand_in);
        task->in = task->in_stand_in;
        if (status == MSCCLPP_OK) {
            status = team->runner.gpu->copy(task->stream, task->in_stand_in, args->sendbuf, task->bytes);
        }
    }
    return status;
}

/*
 * Frees the stand-ins after an error as well, unless a kernel may still use them. The result must be complete before
 * its stand-in is freed.
 */
mscclpp_status_t mscclpp_task_restore_buffers(mscclpp_task_t *task, mscclpp_status_t status)
{
    mscclpp_team_t *team = task->team;

    if (team->runner.stuck) {
        return status; /* the kernel may still use the stand-ins */
    }
    if (task->out_stand_in != NULL) {
        if (status == MSCCLPP_OK) {
            status = team->runner.gpu->copy(task->stream, task->args->recvbuf, task->out_stand_in, task->bytes);
        }
        if (status == MSCCLPP_OK) {
            status = mscclpp_runner_await_stream(&team->runner);
        }
        team->runner.gpu->temp_free(task->stream, task->out_stand_in);
    }
    if (task->in_stand_in != NULL) {
        team->runner.gpu->temp_free(task->stream, task->in_stand_in);
    }
    return status;
}
