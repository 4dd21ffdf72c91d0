/* Queued calls of collectives other than all-reduce, in streams and graphs, and the buffers that they map. */
#include "mca/common/task/collective.h"

#include "mca/common/base/log.h"
#include "mca/common/task/by_plan.h"
#include "mca/common/task/coll_task.h"
#include "mca/common/team/grow.h"
#include "mca/common/team/queue.h"

/*
 * Returns true if the arguments allow a queued call. Two kinds of calls cannot be queued: with data in several
 * allocations, because its copies need the host; and with lists of blocks between nodes, because nothing keeps the
 * lists until the kernel runs.
 */
static bool can_queue(const mscclpp_coll_task_t *task)
{
    const mscclpp_coll_args_t *args = task->args;

    return !(args->varied && task->team->fabric != NULL) && !args->in_scattered && !args->out_scattered &&
           (!MSCCLPP_DEV_COMBINES(task->pattern) ||
            mscclpp_dev_supports(args->dtype, args->op, task->team->group.on_twin));
}

/* Returns true if the ranks do not know the size of the largest block. Equal on all ranks. */
static bool has_unknown_size(const mscclpp_coll_task_t *task)
{
    return !task->knows_largest;
}

/* Returns the arguments that are equal on all ranks, without the size if each rank knows only its own blocks. */
static mscclpp_board_args_t pack_args(const mscclpp_coll_task_t *task)
{
    const mscclpp_coll_args_t *args = task->args;

    return mscclpp_board_pack_args(args->coll, args->root, has_unknown_size(task) ? 0 : task->bytes, args->dtype,
                                   args->op);
}

/* Fills in the inputs of the choice for a queued call, with the team's scratch. */
static void describe_queued(const mscclpp_coll_task_t *task, mscclpp_select_input_t *input)
{
    mscclpp_coll_describe_team(task->team, task->args->dtype, input);
    input->is_early = true;
    input->is_queued = true;
    input->may_be_replayed = true;
    input->is_size_unknown = has_unknown_size(task);
    input->may_use_engines = false;
    input->block_limit = task->team->runner.queue_blocks;
}

/*
 * Sets task->choice to the algorithm of a queued call with the team's scratch. Returns MSCCLPP_ERR_NOT_SUPPORTED if
 * there is none.
 */
static mscclpp_status_t choose_queued(mscclpp_coll_task_t *task)
{
    mscclpp_select_input_t input;

    describe_queued(task, &input);
    return mscclpp_coll_choose(task, &input, true);
}

/*
 * Returns true if the call is worth a larger scratch: if the team's scratch is too small, or may be, and the call would
 * use one of the full size, and not mapped buffers. Changes task->choice.
 */
static bool wants_scratch(mscclpp_coll_task_t *task)
{
    const uint64_t bytes = has_unknown_size(task) ? UINT64_MAX : task->largest_block;
    mscclpp_select_input_t grown_input;
    mscclpp_layout_t grown_layout;

    if (!mscclpp_team_wants_more_queued(task->team, bytes)) {
        return false;
    }
    describe_queued(task, &grown_input);
    mscclpp_team_describe_grown(task->team, false, &grown_layout, &grown_input);
    return mscclpp_coll_choose(task, &grown_input, true) == MSCCLPP_OK && task->choice.algo != MSCCLPP_COLL_BY_ZEROCOPY;
}

/*
 * Grows the scratch if the call is worth that and `may_wait` is set, and then sets task->choice. May wait for the other
 * ranks. Returns MSCCLPP_ERR_NOT_SUPPORTED on all ranks if there is no algorithm for the call. Any other error breaks
 * the team.
 */
static mscclpp_status_t grow_and_choose(mscclpp_coll_task_t *task, bool may_wait)
{
    mscclpp_status_t status = MSCCLPP_OK;

    if (may_wait && wants_scratch(task)) {
        status = mscclpp_team_grow(task->team, task->largest_block, false);
        mscclpp_runner_give_stream(&task->team->runner);
    }
    return status == MSCCLPP_OK ? choose_queued(task) : status;
}

/*
 * Returns true if the kernel of the call may use the buffers of all ranks. Equal on all ranks. Two kinds of calls use
 * the scratch instead: a reduce-scatter in place, which would need more memory, and a call of which the ranks do not
 * know the size, because its blocks may be small enough for packets.
 */
static bool may_map(const mscclpp_coll_task_t *task)
{
    const mscclpp_team_t *team = task->team;
    const bool needs_memory = task->args->passed_in_place && task->pattern == MSCCLPP_DEV_REDUCE_SCATTER;

    return team->fabric == NULL && team->group.size > 1 && team->protocol.zerocopy != 0 && !has_unknown_size(task) &&
           !needs_memory;
}

/* Returns true if the hosts may exchange data for the kernel: the call is captured, and no rank has given up waiting.
 */
static bool may_exchange(const mscclpp_coll_task_t *task)
{
    const mscclpp_team_t *team = task->team;

    return task->args->may_wait && team->runner.is_recording && !team->group.gave_up;
}

/* Returns true if all ranks have to agree on the size of the largest block first. Equal on all ranks. */
static bool must_agree_on_size(const mscclpp_coll_task_t *task)
{
    return has_unknown_size(task) && may_exchange(task) && task->team->fabric == NULL && task->team->group.size > 1;
}

/*
 * Maps the buffers of all ranks for the call's kernel, if the algorithm needs that. May wait for the other ranks. If
 * the buffers cannot be mapped, all ranks choose another algorithm. An error breaks the team. The caller drops
 * task->mapped.
 */
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
        status = grow_and_choose(task, task->args->may_wait);
        return status == MSCCLPP_OK ? mscclpp_coll_stop_mapping(task) : status;
    }
    if (status == MSCCLPP_OK) {
        mscclpp_coll_use_mapped(task);
    }
    return status;
}

/* Queues the call without a plan. Frees the stand-ins in the stream's order, even after an error. */
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
                  (unsigned long long)task->largest_block);
    if (status == MSCCLPP_OK) {
        status = mscclpp_coll_launch(task);
    }
    return mscclpp_coll_restore_buffers(task, status);
}

/*
 * Describes the call for an execution plan, with the user's buffers and without stand-ins. All ranks must find a plan
 * or none, so facts that differ between ranks, such as types with holes, must not matter here.
 */
static mscclpp_by_plan_t describe_queued_by_plan(const mscclpp_coll_task_t *task)
{
    const mscclpp_coll_args_t *args = task->args;
    mscclpp_by_plan_t call = mscclpp_coll_describe_for_plan(task);

    call.out = args->out;
    call.in = args->in;
    if (args->in_place && args->in == NULL) {
        call.in = call.out + (task->pattern == MSCCLPP_DEV_ALLGATHER ? (uint64_t)task->rank * task->stride : 0);
    }
    return call;
}

/* Queues the call's plan. Data with holes are packed before it, and unpacked after it. */
static mscclpp_status_t enqueue_by_plan(mscclpp_coll_task_t *task, mscclpp_by_plan_t *call)
{
    mscclpp_status_t status;

    if (!mscclpp_coll_needs_packing(task)) {
        return mscclpp_by_plan_enqueue(task->team, call, task->stream);
    }
    task->has_plan = true;
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
    task.is_queued = true;
    return can_queue(&task) && (choose_queued(&task) == MSCCLPP_OK || wants_scratch(&task));
}

/*
 * Checks whether the call can be queued, before the other ranks are told about it, so that a refusal leaves nothing
 * queued. Changes task->choice. *is_empty_p says that the call has no data. Fails, too, if an earlier operation of the
 * team has failed.
 */
static mscclpp_status_t check_call(mscclpp_coll_task_t *task, bool *is_empty_p)
{
    mscclpp_team_t *team = task->team;
    mscclpp_status_t status;

    *is_empty_p = task->largest_block == 0 && !has_unknown_size(task);
    if (team->group.broken) {
        return mscclpp_team_refuse_call(team, task->args->call);
    }
    if (!can_queue(task)) {
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    status = mscclpp_team_check_kernels(team);
    if (status != MSCCLPP_OK) {
        return mscclpp_team_fail(team, status);
    }
    return task->args->may_wait && wants_scratch(task) ? MSCCLPP_OK : choose_queued(task);
}

/*
 * Queues a call that was announced. A captured call waits for the other ranks if it has to agree on sizes, or to map
 * buffers. Returns MSCCLPP_ERR_NOT_SUPPORTED, with nothing queued, if there is no algorithm for the call. *is_refused_p
 * is then true. Any other error breaks the team. The caller drops task->mapped.
 */
static mscclpp_status_t enqueue_announced(mscclpp_coll_task_t *task, bool *is_refused_p)
{
    mscclpp_team_t *team = task->team;
    mscclpp_by_plan_t by_plan = describe_queued_by_plan(task);
    const bool has_plan = mscclpp_by_plan_can_enqueue(team, &by_plan);
    mscclpp_status_t status = MSCCLPP_OK;

    *is_refused_p = false;
    if (must_agree_on_size(task)) {
        status = mscclpp_coll_agree_size_by_deadline(task);
        task->may_map = may_exchange(task) && may_map(task);
    }
    if (status == MSCCLPP_OK && has_plan) {
        return enqueue_by_plan(task, &by_plan);
    }
    if (status == MSCCLPP_OK) {
        status = grow_and_choose(task, task->args->may_wait);
        *is_refused_p = status == MSCCLPP_ERR_NOT_SUPPORTED;
    }
    return status == MSCCLPP_OK ? enqueue(task) : status;
}

mscclpp_status_t mscclpp_collective_enqueue(mscclpp_team_t *team, const mscclpp_coll_args_t *args,
                                            mscclpp_gpu_stream_t *stream)
{
    mscclpp_coll_task_t task;
    mscclpp_status_t status;
    bool is_empty, is_refused;

    mscclpp_coll_init_task(&task, team, args);
    task.is_queued = true;
    task.stream = stream;
    team->runner.is_recording = team->runner.gpu->is_capturing(stream);
    task.mapped = args->mapped;
    task.may_map = args->mapped != NULL || (may_exchange(&task) && may_map(&task));
    status = check_call(&task, &is_empty);
    if (status != MSCCLPP_OK || is_empty) {
        return status;
    }
    team->group.call_args = pack_args(&task);
    mscclpp_team_announce(team, team->group.call, MSCCLPP_CALL_DEVICE);
    mscclpp_runner_release_mappings(&team->runner, false);
    status = enqueue_announced(&task, &is_refused);
    if (task.mapped != args->mapped) {
        mscclpp_mapped_drop(task.mapped); /* the graph keeps it */
    }
    if (status == MSCCLPP_OK || is_refused) {
        return status;
    }
    return mscclpp_team_fail(team, status == MSCCLPP_ERR_NOT_SUPPORTED ? MSCCLPP_ERR_DEVICE : status);
}

/* Returns true if the kernel that was chosen uses mapped buffers, and no plan serves the call in its place. */
static bool uses_mapped_buffers(const mscclpp_coll_task_t *task)
{
    const mscclpp_by_plan_t by_plan = describe_queued_by_plan(task);

    return task->choice.algo == MSCCLPP_COLL_BY_ZEROCOPY && !mscclpp_by_plan_can_enqueue(task->team, &by_plan);
}

/*
 * Returns true if a kernel would use mapped buffers. Equal on all ranks, so all of them or none exchange buffers.
 * Changes task->choice.
 */
static bool wants_mapped_buffers(mscclpp_coll_task_t *task)
{
    mscclpp_status_t status;

    if (!task->may_map || task->largest_block == 0 || task->team->group.gave_up) {
        return false;
    }
    status = choose_queued(task);
    return status == MSCCLPP_OK && uses_mapped_buffers(task);
}

/*
 * Grows the scratch for later calls that use no mapped buffers, unless a plan serves them. May wait for the other
 * ranks. Changes task->may_map and task->choice.
 */
static mscclpp_status_t grow_for_later(mscclpp_coll_task_t *task)
{
    const mscclpp_by_plan_t by_plan = describe_queued_by_plan(task);
    mscclpp_status_t status;

    if (mscclpp_by_plan_can_enqueue(task->team, &by_plan)) {
        return MSCCLPP_OK;
    }
    task->may_map = false;
    status = grow_and_choose(task, true);
    return status == MSCCLPP_ERR_NOT_SUPPORTED ? MSCCLPP_OK : status; /* the later calls return this error */
}

mscclpp_status_t mscclpp_collective_map_buffers(mscclpp_team_t *team, const mscclpp_coll_args_t *args,
                                                mscclpp_mapped_t **mapped_p)
{
    mscclpp_coll_task_t task;
    mscclpp_status_t status = MSCCLPP_OK;

    *mapped_p = NULL;
    mscclpp_coll_init_task(&task, team, args);
    task.is_queued = true;
    task.may_map = may_map(&task);
    team->group.call_args = pack_args(&task);
    if (wants_mapped_buffers(&task)) {
        mscclpp_runner_release_mappings(&team->runner, false);
        /*
         * A rank that packs its data cannot share the packed copy, because its address changes with each call. It takes
         * part without buffers. All other ranks make no stand-ins, because wants_mapped_buffers has excluded all calls
         * that need one. So there is nothing to restore.
         */
        status = mscclpp_coll_needs_packing(&task) ? MSCCLPP_OK : mscclpp_coll_prepare_buffers(&task);
        if (status == MSCCLPP_OK) {
            status = mscclpp_coll_map_buffers(&task);
        }
    }
    *mapped_p = task.mapped;
    if (status == MSCCLPP_OK && task.mapped == NULL && task.largest_block != 0) {
        status = grow_for_later(&task);
    }
    return status == MSCCLPP_OK ? MSCCLPP_OK : mscclpp_team_fail(team, status);
}
