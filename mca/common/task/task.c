/* The stages of an all-reduce: replace buffers that kernels cannot access, choose, exchange, launch, copy back. */
#include "mca/common/task/task_parts.h"

#include <string.h>

#include "mca/common/algo/coll.h"
#include "mca/common/algo/select.h"
#include "mca/common/base/fiber.h"
#include "mca/common/base/log.h"
#include "mca/common/task/by_plan.h"
#include "mca/common/run/known.h"
#include "mca/common/task/report.h"
#include "mca/common/team/grow.h"
#include "mca/common/team/queue.h"
#include "mca/common/team/parts.h"
#include "mca/common/team/plans.h"

/*
 * A team that spans nodes reads its control messages at one call in NOTICE_CALLS, so that they do not pile up on a rank
 * that never waits.
 */
#define NOTICE_CALLS 256u

/* Returns the number of bytes from the first byte of the first element to the last byte of the last one. */
static uint64_t message_bytes(const mscclpp_allreduce_args_t *args)
{
    if (args->count == 0) {
        return 0;
    }
    return (args->count - 1) * mscclpp_dev_dtype_extent(args->dtype) + mscclpp_dev_dtype_true_extent(args->dtype);
}

/*
 * Returns true if the call goes between nodes in tiles, and a larger scratch would have longer slots, so that there are
 * fewer tiles.
 */
static bool wants_long_slots(const mscclpp_task_t *task, const mscclpp_select_input_t *input)
{
    return task->team->fabric != NULL && task->team->full_size != 0 && task->choice.epochs == 0 &&
           task->bytes > input->slot_size;
}

/*
 * Returns true if the call is worth a larger scratch: the team's is too small, and the chosen algorithm uses it.
 *
 * Algorithms that map buffers do not use the scratch, but two exceptions make it grow for them. Queued calls of a team
 * that serves other calls, too, may need it, because the scratch cannot grow later. And if the user has chosen an
 * algorithm for which the scratch has no room yet (`lacks_puts`), the call uses that algorithm once it has.
 */
static bool wants_scratch(const mscclpp_task_t *task, const mscclpp_select_input_t *input)
{
    if (task->team->runner.serves_queue) {
        return task->args->may_wait && (task->team->lacks_puts || !task->choice.algo->maps_buffers) &&
               mscclpp_team_wants_more_queued(task->team, task->bytes);
    }
    return wants_long_slots(task, input) ||
           (mscclpp_team_wants_more(task->team, task->bytes, task->app_stream != NULL) &&
            (task->team->lacks_puts || task->app_stream != NULL || !task->choice.algo->maps_buffers));
}

/*
 * Prepares the memory of the chosen algorithm: exchanges buffers, or makes the scratch larger. The scratch grows only
 * if the call cannot use mapped buffers. May change the choice. An error breaks the team.
 */
static mscclpp_status_t exchange_or_grow(mscclpp_task_t *task, mscclpp_select_input_t *input)
{
    mscclpp_status_t status = mscclpp_task_exchange(task, input);

    if (status == MSCCLPP_OK && (task->app_stream == NULL || task->team->runner.serves_queue) &&
        wants_scratch(task, input)) {
        status = mscclpp_team_grow(task->team, task->bytes, false);
        if (status == MSCCLPP_OK) {
            status = mscclpp_select_shape(input, task->choice.algo, &task->choice);
        }
    }
    return status;
}

/*
 * Starts the call with the chosen algorithm: by copy engines, by the fabric, or as one kernel of this node. Returns
 * when the output is complete or, in a queued call, when the work is queued. An error breaks the team.
 */
static mscclpp_status_t launch(mscclpp_task_t *task)
{
    mscclpp_dev_args_t *args = &task->kernel_args.common;
    mscclpp_dev_launch_t launch;

    mscclpp_runner_fill_args(&task->team->runner, args);
    args->in = task->in;
    args->out = task->out;
    /* If other ranks also write to `out`, the release stays as wide as mscclpp_runner_fill_args has set it. */
    if (!task->choice.algo->maps_buffers && !task->choice.algo->spans_nodes) {
        args->release = task->release;
    }
    args->bytes = task->bytes;
    args->dtype = (uint32_t)task->args->dtype;
    args->op = (uint32_t)task->args->op;
    if (task->team->runner.serves_queue) {
        args->epochs = (uint32_t)task->choice.epochs;
        args->epoch_limit = (uint32_t)task->team->protocol.epoch_limit;
    }
    launch.kernel = task->choice.kernel;
    launch.nblocks = task->choice.nblocks;
    launch.nthreads = task->choice.nthreads;
    launch.args = args;
    mscclpp_debug("%s: call %llu: %s, %llu bytes, type %u, op %u, %u blocks of %u threads%s",
                  task->team->group.oob.label, (unsigned long long)task->args->call, task->choice.algo->name,
                  (unsigned long long)task->bytes, args->dtype, args->op, launch.nblocks, launch.nthreads,
                  launch.kernel == MSCCLPP_KERNEL_ALLREDUCE_TWOPHASE_LL128 ? ", LL128" : "");
    if (task->choice.algo->uses_engines) {
        mscclpp_status_t status = MSCCLPP_OK;

        mscclpp_fiber_close(); /* the calling thread feeds the engines */
        if (task->in_stand_in != NULL || task->out_stand_in != NULL) {
            status = mscclpp_runner_await_stream(&task->team->runner); /* engines have streams of their own */
        }
        return status != MSCCLPP_OK
                   ? status
                   : mscclpp_engine_run(task->team->engine, &task->choice, args, task->kernel_args.peer_out);
    }
    if (task->choice.algo->spans_nodes) {
        return mscclpp_fabric_run(task->team->fabric, task->app_stream, &task->choice, args);
    }
    return task->app_stream != NULL
               ? mscclpp_runner_launch_mapped(&task->team->runner, task->app_stream, &launch,
                                              task->choice.algo->maps_buffers ? task->mapped : NULL)
               : mscclpp_runner_launch(&task->team->runner, NULL, &launch, task->choice.algo->name);
}

/*
 * Serves the call of a team with one rank: copies the operand to the result, and waits for the copy. The type must have
 * no padding, which the copy would overwrite.
 */
static mscclpp_status_t copy_alone(mscclpp_task_t *task)
{
    mscclpp_status_t status;

    if (task->args->sendbuf == task->args->recvbuf) {
        return MSCCLPP_OK;
    }
    status = mscclpp_task_ensure_stream(task);
    if (status != MSCCLPP_OK) {
        return status;
    }
    status = task->team->runner.gpu->copy(task->stream, task->args->recvbuf, task->args->sendbuf, task->bytes);
    return status == MSCCLPP_OK ? mscclpp_runner_await_stream(&task->team->runner) : status;
}

/* Describes the call for a plan. In the result, `plan` is NULL if no plan serves the call. */
static mscclpp_by_plan_t describe_by_plan(const mscclpp_task_t *task)
{
    const mscclpp_allreduce_args_t *args = task->args;
    const mscclpp_plan_query_t query = {.coll = MSCCLPP_COLL_LAST,
                                        .bytes = task->bytes,
                                        .dtype = args->dtype,
                                        .op = args->op,
                                        .in_place = args->sendbuf == args->recvbuf,
                                        .blocks = task->app_stream != NULL ? task->team->runner.queue_blocks
                                                  : args->early ? mscclpp_runner_early_blocks(&task->team->runner)
                                                                : 0};

    return (mscclpp_by_plan_t){.plan = mscclpp_plans_choose(task->team, &query),
                               .in = task->in,
                               .out = task->out,
                               .bytes = task->bytes,
                               .stride = args->count * mscclpp_dev_dtype_extent(args->dtype),
                               .dtype = args->dtype,
                               .op = args->op,
                               .passed_in_place = args->sendbuf == args->recvbuf,
                               .call = args->call,
                               .early = args->early};
}

/*
 * Serves the call by a plan, if there is one. *served_p is false if there is none, or if there is no memory for it;
 * another algorithm then serves the call. An error breaks the team.
 */
static mscclpp_status_t try_plan(mscclpp_task_t *task, bool *served_p)
{
    const mscclpp_by_plan_t call = describe_by_plan(task);

    *served_p = false;
    if (call.plan == NULL) {
        return MSCCLPP_OK;
    }
    if (task->app_stream == NULL) {
        return mscclpp_by_plan(task->team, &call, served_p);
    }
    *served_p = mscclpp_by_plan_can_enqueue(task->team, &call);
    return *served_p ? mscclpp_by_plan_enqueue(task->team, &call, task->app_stream) : MSCCLPP_OK;
}

/*
 * Executes the call after the choice:
 * 1. Grows the scratch, which may change the choice.
 * 2. Replaces buffers by stand-ins, because plans and peers use the stand-ins.
 * 3. Tries a plan.
 * 4. Exchanges buffers, which may change the choice again and make the scratch grow.
 * 5. Reserves the epochs of the final choice, meets, launches, and copies the result back.
 *
 * A queued call skips the steps for which the host has to wait. Any error breaks the team, because peers may have
 * started.
 */
static mscclpp_status_t serve_after_choice(mscclpp_task_t *task, mscclpp_select_input_t *input)
{
    mscclpp_team_t *team = task->team;
    /*
     * Between nodes, mscclpp_team_reserve_epochs may launch kernels that meet. They need a slot, which
     * mscclpp_group_meet takes. So where calls compete for slots, the ranks meet first.
     */
    const bool meets_to_renew = team->fabric != NULL && (task->args->early || team->group.any_concurrent);
    bool host_waits = task->app_stream == NULL, is_served = false, needs_epochs;
    mscclpp_status_t status = MSCCLPP_OK;

    team->group.call = task->args->call;
    team->group.call_args =
        mscclpp_board_pack_args(MSCCLPP_COLL_LAST, 0, task->bytes, task->args->dtype, task->args->op);
    if (team->fabric != NULL && team->group.call % NOTICE_CALLS == 0) {
        mscclpp_group_notice_t failed_notice, host_notice;

        /* The group keeps what it has read, and the next wait examines it. */
        mscclpp_group_read_notices(&team->group, &failed_notice, &host_notice);
    }
    team->last_algorithm = task->choice.algo->name;
    mscclpp_team_announce(team, team->group.call, MSCCLPP_CALL_DEVICE);
    mscclpp_runner_release_mappings(&team->runner, false);
    if (wants_scratch(task, input)) {
        status = mscclpp_team_grow(team, task->bytes, !host_waits || wants_long_slots(task, input));
        if (status == MSCCLPP_OK) {
            status = mscclpp_task_choose(task, input); /* the new scratch allows pieces of other sizes */
        }
    } else if (mscclpp_team_needs_lost(team, input, &task->choice)) {
        status = mscclpp_team_reclaim(team, task->bytes);
    }
    if (status == MSCCLPP_OK && host_waits) {
        status = mscclpp_task_replace_buffers(task);
    }
    if (status == MSCCLPP_OK && (host_waits || team->runner.serves_queue)) {
        status = try_plan(task, &is_served);
    }
    if (is_served) {
        status = host_waits ? mscclpp_task_restore_buffers(task, status) : status;
        mscclpp_runner_release_mappings(&team->runner, false);
        return status == MSCCLPP_ERR_NOT_SUPPORTED ? MSCCLPP_ERR_DEVICE : status;
    }
    if (status == MSCCLPP_OK) {
        status = exchange_or_grow(task, input);
    }
    needs_epochs = task->choice.epochs != 0 && !team->runner.serves_queue;
    team->last_algorithm = task->choice.algo->name;
    mscclpp_report_choice(team, task->args->call, task->choice.algo->name);
    if (input->nodes > 1 && mscclpp_log_level >= MSCCLPP_LOG_INFO) {
        mscclpp_report_costs(team, input, &task->choice);
    }
    if (status == MSCCLPP_OK && needs_epochs && !meets_to_renew) {
        status = mscclpp_team_reserve_epochs(team, task->app_stream, task->choice.epochs);
    }
    if (status == MSCCLPP_OK && host_waits && !task->has_met) {
        status = mscclpp_group_meet(&team->group, task->bytes, task->args->early);
    }
    if (status == MSCCLPP_OK && needs_epochs && meets_to_renew) {
        status = mscclpp_team_reserve_epochs(team, task->app_stream, task->choice.epochs);
    }
    if (status == MSCCLPP_OK) {
        status = launch(task);
    }
    mscclpp_group_give_slot(&team->group);
    if (host_waits) {
        status = mscclpp_task_restore_buffers(task, status);
        mscclpp_runner_release_mappings(&team->runner, false);
    }
    /* Peers may have started, so the call can no longer be staged (MSCCLPP_ERR_NOT_SUPPORTED). */
    return status == MSCCLPP_ERR_NOT_SUPPORTED ? MSCCLPP_ERR_DEVICE : status;
}

/*
 * Serves a call that is not empty. Returns MSCCLPP_ERR_NOT_SUPPORTED, equally on all ranks, if the call must be staged.
 * Any error after the choice breaks the team.
 */
static mscclpp_status_t serve(mscclpp_task_t *task)
{
    mscclpp_team_t *team = task->team;
    mscclpp_select_input_t input;
    mscclpp_status_t status;

    status = mscclpp_task_choose(task, &input);
    if (status == MSCCLPP_OK && task->args->early && task->may_map && task->choice.algo->maps_buffers &&
        mscclpp_runner_pauses_mapping(&team->runner)) {
        task->may_map = false;
        status = mscclpp_task_choose(task, &input);
    }
    if (status != MSCCLPP_OK) {
        if (mscclpp_dev_supports(task->args->dtype, task->args->op, team->group.on_twin)) {
            mscclpp_report_choice(team, task->args->call, "staging");
        }
        return status;
    }
    /* A queued operation comes after the work in its stream, and waits for no other. */
    status = team->runner.serves_queue ? MSCCLPP_OK : mscclpp_task_examine_buffers(task);
    if (status != MSCCLPP_OK) {
        return mscclpp_team_fail(team, status);
    }
    /*
     * The copy is only for types without padding, because it would overwrite the padding. A queued call needs a kernel
     * in its stream.
     */
    if (team->group.size == 1 && team->fabric == NULL && task->app_stream == NULL &&
        mscclpp_task_is_dense(task->args->dtype)) {
        status = copy_alone(task);
    } else {
        status = serve_after_choice(task, &input);
    }
    mscclpp_runner_give_stream(&team->runner);
    return status == MSCCLPP_OK ? MSCCLPP_OK : mscclpp_team_fail(team, status);
}

/*
 * Fills in a task from the call's arguments. `stream` is the application's stream, or NULL if the host waits for the
 * call. The caller sets the fields that are not set here.
 */
static void begin_task(mscclpp_task_t *task, mscclpp_team_t *team, const mscclpp_allreduce_args_t *args,
                       mscclpp_gpu_stream_t *stream)
{
    memset(&task->kernel_args.common, 0, sizeof(task->kernel_args.common));
    task->team = team;
    task->args = args;
    task->app_stream = stream;
    task->stream = NULL;
    task->in_stand_in = NULL;
    task->out_stand_in = NULL;
    task->mapped = NULL;
    task->may_map = args->early && team->fabric == NULL && team->group.size > 1 && team->protocol.zerocopy != 0;
    task->has_met = false;
}

/*
 * Serves the call, from the choice of an algorithm to its end. If an earlier call has failed, the call fails with
 * MSCCLPP_ERR_PEER or with the error of that call. Every error except MSCCLPP_ERR_NOT_SUPPORTED breaks the team.
 */
static mscclpp_status_t serve_call(mscclpp_task_t *task)
{
    mscclpp_team_t *team = task->team;
    mscclpp_status_t status;

    team->group.collective = mscclpp_coll_name(MSCCLPP_COLL_LAST);
    if (team->group.broken) {
        return mscclpp_team_refuse_call(team, task->args->call);
    }
    if (task->app_stream == NULL) {
        mscclpp_linger_note_call(&team->runner);
    }
    /* An earlier enqueued call may have failed without anyone waiting for it. */
    status = mscclpp_team_check_kernels(team);
    if (status != MSCCLPP_OK) {
        return mscclpp_team_fail(team, status);
    }
    task->bytes = message_bytes(task->args);
    if (task->bytes == 0) {
        team->last_algorithm = "none";
        return MSCCLPP_OK;
    }
    status = mscclpp_team_enter(team);
    status = status == MSCCLPP_OK ? serve(task) : mscclpp_team_fail(team, status);
    mscclpp_team_leave(team);
    return status;
}

mscclpp_status_t mscclpp_allreduce(mscclpp_team_t *team, const mscclpp_allreduce_args_t *args)
{
    mscclpp_task_t task;

    begin_task(&task, team, args, NULL);
    task.release = MSCCLPP_DEV_RELEASE_SYSTEM;
    return serve_call(&task);
}

/* Exchanges the buffers of a persistent request before its first start, if its starts will map them. */
static mscclpp_status_t exchange_ahead(mscclpp_task_t *task)
{
    mscclpp_status_t status;

    if (!task->may_map || !task->choice.algo->maps_buffers || task->choice.algo->uses_engines) {
        return MSCCLPP_OK;
    }
    task->team->group.call_args =
        mscclpp_board_pack_args(MSCCLPP_COLL_LAST, 0, task->bytes, task->args->dtype, task->args->op);
    status = mscclpp_task_examine_buffers(task);
    return status == MSCCLPP_OK ? mscclpp_task_exchange_ahead(task) : status;
}

mscclpp_status_t mscclpp_allreduce_prepare(mscclpp_team_t *team, const mscclpp_allreduce_args_t *args)
{
    mscclpp_task_t task;
    mscclpp_select_input_t input;
    mscclpp_status_t status;
    mscclpp_by_plan_t call;

    begin_task(&task, team, args, NULL);
    task.bytes = message_bytes(args);
    status = mscclpp_task_choose(&task, &input);

    team->group.collective = mscclpp_coll_name(MSCCLPP_COLL_LAST);
    if (status == MSCCLPP_OK && wants_scratch(&task, &input)) {
        status = mscclpp_team_grow(team, task.bytes, wants_long_slots(&task, &input));
        mscclpp_team_leave(team); /* growing may have begun a use of leased scratch */
        mscclpp_runner_give_stream(&team->runner);
    }
    if (status == MSCCLPP_OK) {
        call = describe_by_plan(&task); /* without buffers, which mscclpp_by_plan_prepare does not use */
        status = call.plan != NULL ? mscclpp_by_plan_prepare(team, &call) : exchange_ahead(&task);
    }
    return status;
}

/* Returns true if the kernels of a team's queued calls may use buffers of other ranks. Equal on all ranks. */
static bool may_map_buffers(const mscclpp_team_t *team)
{
    return team->runner.serves_queue && team->fabric == NULL && team->group.size > 1 && team->protocol.zerocopy != 0;
}

/*
 * Maps the buffers, unless the kernel would not use them. Without mapped buffers, grows the scratch if the calls need
 * that. All conditions are equal on all ranks, so either all or none take part in the exchange.
 */
mscclpp_status_t mscclpp_allreduce_map_buffers(mscclpp_team_t *team, const mscclpp_allreduce_args_t *args,
                                               mscclpp_mapped_t **mapped_p)
{
    mscclpp_task_t task = {.team = team, .args = args, .bytes = message_bytes(args), .may_map = may_map_buffers(team)};
    mscclpp_select_input_t input;
    mscclpp_status_t status = MSCCLPP_OK;

    *mapped_p = NULL;
    if (task.bytes == 0 || team->group.gave_up || mscclpp_task_choose(&task, &input) != MSCCLPP_OK) {
        return MSCCLPP_OK;
    }
    team->group.collective = mscclpp_coll_name(MSCCLPP_COLL_LAST);
    team->group.call_args = mscclpp_board_pack_args(MSCCLPP_COLL_LAST, 0, task.bytes, args->dtype, args->op);
    if (task.may_map && task.choice.algo->maps_buffers) {
        mscclpp_runner_release_mappings(&team->runner, false);
        status =
            mscclpp_runner_map_buffers(&team->runner, args->sendbuf, args->recvbuf, task.bytes, NULL, true, mapped_p);
    }
    if (status == MSCCLPP_OK && *mapped_p == NULL && mscclpp_team_wants_more_queued(team, task.bytes)) {
        status = mscclpp_team_grow(team, task.bytes, false);
        mscclpp_runner_give_stream(&team->runner);
    }
    return status == MSCCLPP_OK ? MSCCLPP_OK : mscclpp_team_fail(team, status);
}

void mscclpp_allreduce_unmap_buffers(mscclpp_mapped_t *mapped)
{
    mscclpp_mapped_drop(mapped);
}

/*
 * Uses the buffers directly, because no host waits to copy stand-ins back. Also drops this call's reference to buffers
 * that it has mapped itself; the graph keeps its own.
 */
mscclpp_status_t mscclpp_allreduce_enqueue(mscclpp_team_t *team, const mscclpp_allreduce_args_t *args,
                                           mscclpp_gpu_stream_t *stream)
{
    mscclpp_task_t task;
    mscclpp_status_t status;

    begin_task(&task, team, args, stream);
    task.in = args->sendbuf;
    task.out = args->recvbuf;
    team->runner.is_recording = team->runner.serves_queue && team->runner.gpu->is_capturing(stream);
    task.release = mscclpp_runner_queued_release(&team->runner);
    task.mapped = args->mapped;
    task.may_map = args->mapped != NULL ||
                   (args->may_wait && team->runner.is_recording && !team->group.gave_up && may_map_buffers(team));
    status = serve_call(&task);
    if (task.mapped != args->mapped) {
        mscclpp_mapped_drop(task.mapped); /* the graph keeps it */
    }
    return status;
}
