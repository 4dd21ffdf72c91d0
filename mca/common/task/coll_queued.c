/* Queued calls of collectives other than all-reduce, in streams and graphs, and what requests map for them. */
#include "mca/common/task/collective.h"

#include "mca/common/base/log.h"
#include "mca/common/task/by_plan.h"
#include "mca/common/task/coll_task.h"
#include "mca/common/team/queue.h"

/*
 * Returns true if a call can be queued judging by its arguments. Copies of data in several allocations need the host,
 * and lists of blocks would have to be kept between nodes.
 */
static bool can_queue(const mscclpp_coll_task_t *task)
{
    const mscclpp_coll_args_t *args = task->args;

    return !(args->varied && task->team->fabric != NULL) && !args->in_scattered && !args->out_scattered &&
           (!MSCCLPP_DEV_COMBINES(task->pattern) ||
            mscclpp_dev_supports(args->dtype, args->op, task->team->group.on_twin));
}

static mscclpp_status_t choose_queued(mscclpp_coll_task_t *task)
{
    mscclpp_select_input_t input;

    mscclpp_coll_describe_team(task->team, task->args->dtype, &input);
    input.early = true;
    input.replayed = true;
    input.is_size_unknown = task->args->varied && !task->args->is_size_known;
    input.engines = false;
    input.block_limit = task->team->runner.queue_blocks;
    return mscclpp_coll_choose(task, &input, true);
}

/*
 * Returns true if the kernel of the call may use the buffers of all ranks. Equal on all ranks. A reduce-scatter in
 * place would need memory of its own, and is left to the scratch.
 */
static bool may_map(const mscclpp_coll_task_t *task)
{
    const mscclpp_team_t *team = task->team;
    const bool needs_memory = task->args->said_in_place && task->pattern == MSCCLPP_DEV_REDUCE_SCATTER;

    return team->fabric == NULL && team->group.size > 1 && team->protocol.zerocopy != 0 && !task->args->varied &&
           !needs_memory;
}

/* If the buffers cannot be mapped, all ranks choose another algorithm. An error breaks the team. */
static mscclpp_status_t use_mapped(mscclpp_coll_task_t *task)
{
    mscclpp_status_t status = MSCCLPP_OK;

    if (task->choice.algo != MSCCLPP_COLL_BY_ZEROCOPY) {
        return MSCCLPP_OK;
    }
    if (task->mapped == NULL) {
        status = mscclpp_coll_map_buffers(task);
    }
    if (status == MSCCLPP_OK && task->mapped == NULL) {
        task->may_map = false;
        status = choose_queued(task);
        return status == MSCCLPP_OK ? mscclpp_coll_stop_mapping(task) : status;
    }
    if (status == MSCCLPP_OK) {
        mscclpp_coll_use_mapped(task);
    }
    return status;
}

/* Frees the stand-ins in the stream's order, also after an error. */
static mscclpp_status_t enqueue(mscclpp_coll_task_t *task)
{
    mscclpp_team_t *team = task->team;
    mscclpp_status_t status = mscclpp_coll_prepare_buffers(task);

    if (status == MSCCLPP_OK) {
        status = use_mapped(task);
    }
    team->last_algorithm = mscclpp_coll_algo_name(task->choice.algo);
    mscclpp_debug("%s: %s call %llu: %s, blocks of up to %llu bytes, queued", team->group.oob.label,
                  team->group.collective, (unsigned long long)team->group.call, team->last_algorithm,
                  (unsigned long long)task->largest);
    if (status == MSCCLPP_OK) {
        status = mscclpp_coll_launch(task);
    }
    return mscclpp_coll_restore_buffers(task, status);
}

/*
 * Describes the call for an execution plan with the user's own buffers. Whether there is a plan must not depend on what
 * only this rank knows, such as types with holes.
 */
static mscclpp_by_plan_t describe_queued_by_plan(const mscclpp_coll_task_t *task)
{
    const mscclpp_coll_args_t *args = task->args;
    mscclpp_by_plan_t call = mscclpp_coll_by_plan(task);

    call.out = args->out;
    call.in = args->in;
    if (args->in_place && args->in == NULL) {
        call.in = call.out + (task->pattern == MSCCLPP_DEV_ALLGATHER ? (uint64_t)task->rank * task->stride : 0);
    }
    return call;
}

/* Data with holes are packed before the plan, and unpacked after it. */
static mscclpp_status_t enqueue_by_plan(mscclpp_coll_task_t *task, mscclpp_by_plan_t *call)
{
    mscclpp_status_t status;

    if (!mscclpp_coll_packs(task)) {
        return mscclpp_by_plan_enqueue(task->team, call, task->stream);
    }
    task->by_plan = true;
    status = mscclpp_coll_prepare_buffers(task);
    call->in = task->in;
    call->out = task->out;
    if (status == MSCCLPP_OK) {
        status = mscclpp_by_plan_enqueue(task->team, call, task->stream);
    }
    return mscclpp_coll_restore_buffers(task, status);
}

bool mscclpp_collective_can_enqueue(mscclpp_team_t *team, const mscclpp_coll_args_t *args)
{
    mscclpp_coll_task_t task;

    mscclpp_coll_init_task(&task, team, args);
    task.queued = true;
    return can_queue(&task) && choose_queued(&task) == MSCCLPP_OK;
}

/*
 * Refuses while nothing has been queued. A failure of an earlier operation, and every error after the call has been
 * announced, breaks the team.
 */
mscclpp_status_t mscclpp_collective_enqueue(mscclpp_team_t *team, const mscclpp_coll_args_t *args,
                                            mscclpp_gpu_stream_t *stream)
{
    mscclpp_coll_task_t task;
    mscclpp_by_plan_t by_plan;
    mscclpp_status_t status;

    mscclpp_coll_init_task(&task, team, args);
    task.queued = true;
    task.stream = stream;
    team->runner.is_recording = team->runner.gpu->is_capturing(stream);
    task.mapped = args->mapped;
    task.may_map =
        args->mapped != NULL || (args->may_map && team->runner.is_recording && !team->group.gave_up && may_map(&task));
    if (team->group.broken) {
        mscclpp_error("%s: %s call %llu: the communicator failed in an earlier call", team->group.oob.label,
                      team->group.collective, (unsigned long long)args->call);
        return MSCCLPP_ERR_PEER;
    }
    if (!can_queue(&task)) {
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    status = mscclpp_team_check_kernels(team);
    if (status != MSCCLPP_OK) {
        return mscclpp_team_fail(team, status);
    }
    status = choose_queued(&task);
    if (status != MSCCLPP_OK || (task.largest == 0 && (args->is_size_known || !args->varied))) {
        return status;
    }
    team->group.asked = mscclpp_board_ask(args->coll, args->root, task.bytes, args->dtype, args->op);
    mscclpp_team_announce(team, team->group.call, MSCCLPP_CALL_DEVICE);
    mscclpp_runner_release_mappings(&team->runner, false);
    by_plan = describe_queued_by_plan(&task);
    status = mscclpp_by_plan_can_enqueue(team, &by_plan) ? enqueue_by_plan(&task, &by_plan) : enqueue(&task);
    if (task.mapped != args->mapped) {
        mscclpp_mapped_drop(task.mapped); /* the graph keeps it */
    }
    return status == MSCCLPP_OK
               ? MSCCLPP_OK
               : mscclpp_team_fail(team, status == MSCCLPP_ERR_NOT_SUPPORTED ? MSCCLPP_ERR_DEVICE : status);
}

/* Equal on all ranks, so either all or none take part in the exchange. */
static bool wants_mapped_buffers(mscclpp_coll_task_t *task)
{
    mscclpp_by_plan_t by_plan;

    if (!task->may_map || task->largest == 0 || task->team->group.gave_up || choose_queued(task) != MSCCLPP_OK ||
        task->choice.algo != MSCCLPP_COLL_BY_ZEROCOPY) {
        return false;
    }
    by_plan = describe_queued_by_plan(task);
    return !mscclpp_by_plan_can_enqueue(task->team, &by_plan);
}

/* *mapped_p is NULL after an error, too. */
mscclpp_status_t mscclpp_collective_map_buffers(mscclpp_team_t *team, const mscclpp_coll_args_t *args,
                                                mscclpp_mapped_t **mapped_p)
{
    mscclpp_coll_task_t task;
    mscclpp_status_t status;

    *mapped_p = NULL;
    mscclpp_coll_init_task(&task, team, args);
    task.queued = true;
    task.may_map = may_map(&task);
    if (!wants_mapped_buffers(&task)) {
        return MSCCLPP_OK;
    }
    mscclpp_runner_release_mappings(&team->runner, false);
    team->group.asked = mscclpp_board_ask(args->coll, args->root, task.bytes, args->dtype, args->op);
    /*
     * A rank that packs its data cannot share the packed copy, whose address changes with each call. It only tells that
     * to the others.
     */
    status = mscclpp_coll_packs(&task) ? MSCCLPP_OK : mscclpp_coll_prepare_buffers(&task);
    if (status == MSCCLPP_OK) {
        status = mscclpp_coll_map_buffers(&task);
    }
    *mapped_p = task.mapped;
    return status == MSCCLPP_OK ? MSCCLPP_OK : mscclpp_team_fail(team, status);
}
