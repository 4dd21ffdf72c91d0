/* The stages of a call: replace buffers that kernels cannot access, choose, exchange, launch, copy back. */
#include "mca/common/task/collective.h"

#include <stddef.h>
#include <string.h>

#include "mca/common/base/log.h"
#include "mca/common/run/known.h"
#include "mca/common/task/coll_task.h"
#include "mca/common/task/report.h"
#include "mca/common/team/grow.h"
#include "mca/common/team/queue.h"
#include "mca/common/team/plans.h"

/*
 * A team that spans nodes reads its control messages once in this number of calls, so that they do not accumulate on a
 * rank that never waits.
 */
#define NOTICE_CALLS 256u

/*
 * Finds out whether kernels can access the buffers. Data in several allocations counts as unreachable. Waits for work
 * on the buffers that synchronous calls of the GPU runtime have left in progress.
 */
static mscclpp_status_t examine_buffers(mscclpp_coll_task_t *task)
{
    const mscclpp_team_t *team = task->team;
    mscclpp_reach_t in_reach = MSCCLPP_REACH_HOME, out_reach = MSCCLPP_REACH_HOME;
    mscclpp_status_t status = MSCCLPP_OK;

    if (task->args->out != NULL) {
        status = team->runner.gpu->reach(team->runner.device, task->args->out, task->args->out_allocation, &out_reach);
    }
    if (task->args->in != NULL && status == MSCCLPP_OK) {
        status = team->runner.gpu->reach(team->runner.device, task->args->in, task->args->in_allocation, &in_reach);
    }
    task->release = out_reach == MSCCLPP_REACH_FAR ? MSCCLPP_DEV_RELEASE_SYSTEM : MSCCLPP_DEV_RELEASE_DEVICE;
    task->in_unreachable = in_reach == MSCCLPP_REACH_NONE || task->args->in_scattered;
    task->out_unreachable = out_reach == MSCCLPP_REACH_NONE || task->args->out_scattered;
    return status;
}

/* Copy engines copy ranges of bytes, so they serve only types without padding. */
void mscclpp_coll_describe_team(const mscclpp_team_t *team, mscclpp_dtype_t dtype, mscclpp_select_input_t *input)
{
    memset(input, 0, sizeof(*input));
    input->nodes = 1;
    input->all_ranks = (uint32_t)team->group.oob.size;
    if (team->fabric != NULL) {
        mscclpp_fabric_describe(team->fabric, input);
    }
    input->dtype = dtype;
    input->nranks = (uint32_t)team->group.size;
    input->on_twin = team->group.on_twin;
    input->is_one_gpu = team->one_gpu;
    input->may_use_engines = team->may_use_engines && dtype < MSCCLPP_DTYPE_SHORT_INT;
    input->block_limit = team->runner.block_limit;
    input->protocol = &team->protocol;
    input->layout = mscclpp_team_layout(team);
}

/* Returns the maximum number of blocks of a plan's kernel for the call; 0: any number. */
static uint32_t find_plan_blocks(const mscclpp_coll_task_t *task)
{
    if (task->is_queued) {
        return task->team->runner.queue_blocks;
    }
    return task->args->early ? mscclpp_runner_early_blocks(&task->team->runner) : 0;
}

/* No plan serves blocks that differ in size. */
mscclpp_by_plan_t mscclpp_coll_describe_for_plan(const mscclpp_coll_task_t *task)
{
    const mscclpp_coll_args_t *args = task->args;
    const mscclpp_plan_query_t query = {.coll = args->coll,
                                        .bytes = task->bytes,
                                        .dtype = args->dtype,
                                        .op = args->op,
                                        .in_place = args->passed_in_place,
                                        .blocks = find_plan_blocks(task)};

    return (mscclpp_by_plan_t){.plan = args->varied ? NULL : mscclpp_plans_choose(task->team, &query),
                               .in = task->in,
                               .out = task->out,
                               .bytes = task->bytes,
                               .stride = task->stride,
                               .dtype = args->dtype,
                               .op = args->op,
                               .passed_in_place = args->passed_in_place,
                               .call = args->call,
                               .early = args->early};
}

/* Serves the call by a plan. *served_p is false on all ranks if there is no plan, or no memory for the plan. */
static mscclpp_status_t try_plan(const mscclpp_coll_task_t *task, bool *served_p)
{
    const mscclpp_by_plan_t call = mscclpp_coll_describe_for_plan(task);

    *served_p = false;
    if (call.plan == NULL) {
        return MSCCLPP_OK;
    }
    return mscclpp_by_plan(task->team, &call, served_p);
}

/*
 * Maps the buffers of all ranks if the algorithm needs that. If they cannot be mapped, all ranks choose another
 * algorithm, for which the scratch may have to grow.
 */
static mscclpp_status_t exchange_buffers(mscclpp_coll_task_t *task, const mscclpp_select_input_t *input)
{
    mscclpp_team_t *team = task->team;
    mscclpp_status_t status = MSCCLPP_OK;
    bool is_mapped = true;

    /* After the exchange, peers' engines may access these buffers in their own streams. */
    if (task->choice.algo == MSCCLPP_COLL_BY_ENGINES && task->stream != NULL) {
        status = mscclpp_runner_await_stream(&team->runner);
    }
    if (status == MSCCLPP_OK && mscclpp_coll_needs_mapping(task)) {
        status = mscclpp_coll_exchange(task, &is_mapped);
    }
    if (status != MSCCLPP_OK || is_mapped) {
        return status;
    }
    if (mscclpp_team_wants_more(team, task->largest_block, false)) {
        status = mscclpp_team_grow(team, task->largest_block, false);
    }
    if (status == MSCCLPP_OK) {
        status = mscclpp_coll_choose(task, input, false);
    }
    return status == MSCCLPP_OK ? mscclpp_coll_stop_mapping(task) : status;
}

/* Reserves the epochs of the chosen algorithm, if it has any. */
static mscclpp_status_t reserve_epochs(mscclpp_coll_task_t *task)
{
    return task->choice.epochs != 0 ? mscclpp_team_reserve_epochs(task->team, NULL, task->choice.epochs) : MSCCLPP_OK;
}

/* Reserves epochs, meets the other ranks as late as possible (mscclpp_group_meet), and runs the kernel. */
static mscclpp_status_t meet_and_launch(mscclpp_coll_task_t *task)
{
    mscclpp_team_t *team = task->team;
    /*
     * Between nodes, renewing epochs may launch kernels that meet. If calls compete for slots, these kernels need a
     * slot first, which mscclpp_group_meet takes.
     */
    const bool meets_first = team->fabric != NULL && (task->args->early || team->group.any_concurrent);
    mscclpp_status_t status = meets_first ? MSCCLPP_OK : reserve_epochs(task);

    if (status == MSCCLPP_OK && !task->has_met) {
        status = mscclpp_group_meet(&team->group, task->largest_block, task->args->early);
    }
    if (status == MSCCLPP_OK && meets_first) {
        status = reserve_epochs(task);
    }
    if (status == MSCCLPP_OK) {
        status = mscclpp_coll_launch(task);
    }
    mscclpp_group_give_slot(&team->group);
    return status;
}

/* Executes a plan or, if none serves the call, the chosen algorithm. Any error breaks the team: peers may have started.
 */
static mscclpp_status_t carry_out(mscclpp_coll_task_t *task, const mscclpp_select_input_t *input)
{
    mscclpp_team_t *team = task->team;
    mscclpp_status_t status;
    bool is_served = false;

    status = task->has_plan ? try_plan(task, &is_served) : MSCCLPP_OK;
    if (status != MSCCLPP_OK || is_served) {
        return status;
    }
    status = exchange_buffers(task, input);
    team->last_algorithm = mscclpp_coll_algo_name(task->choice.algo);
    mscclpp_debug("%s: %s call %llu: %s, blocks of up to %llu bytes", team->group.oob.label, team->group.collective,
                  (unsigned long long)team->group.call, team->last_algorithm, (unsigned long long)task->largest_block);
    mscclpp_report_coll_costs(team, task->args->coll, task->largest_block, input, &task->choice);
    if (status != MSCCLPP_OK) {
        mscclpp_group_give_slot(&team->group);
        return status;
    }
    return task->choice.algo == MSCCLPP_COLL_BY_ENGINES ? mscclpp_coll_run_engines(task) : meet_and_launch(task);
}

/* Serves a call of one rank: copies its block, and waits for the copy. The type must have no padding. */
static mscclpp_status_t copy_alone(mscclpp_coll_task_t *task)
{
    const mscclpp_coll_args_t *args = task->args;
    const mscclpp_dev_block_t from = mscclpp_coll_find_send_block(task, 0), to = mscclpp_coll_find_recv_block(task, 0);
    const bool combines = MSCCLPP_DEV_COMBINES(task->pattern);
    const uint64_t bytes = combines ? mscclpp_coll_result_bytes(task) : to.bytes;
    mscclpp_status_t status;

    if (args->in == NULL || args->out == NULL || bytes == 0) {
        return MSCCLPP_OK;
    }
    status = mscclpp_coll_ensure_stream(task);
    if (status == MSCCLPP_OK) {
        status = task->team->runner.gpu->copy(task->stream, (char *)args->out + (combines ? 0 : to.offset),
                                              (const char *)args->in + from.offset, bytes);
    }
    return status == MSCCLPP_OK ? mscclpp_runner_await_stream(&task->team->runner) : status;
}

/* Returns true if the two choices have the same algorithm, grid and exchange between nodes. */
static bool is_same_choice(const mscclpp_coll_choice_t *first, const mscclpp_coll_choice_t *second)
{
    return first->algo == second->algo && first->kernel == second->kernel && first->nblocks == second->nblocks &&
           first->nthreads == second->nthreads && first->epochs == second->epochs && first->tile == second->tile &&
           first->radix == second->radix && first->prefixes == second->prefixes && first->exchange == second->exchange;
}

/*
 * Returns true if the call needs the leased scratch that this node has lost. The small scratch is enough if packets
 * carry the call and the choice is the same with both, because this node must do the same as the other nodes.
 */
static bool needs_lost_scratch(const mscclpp_coll_task_t *task, const mscclpp_select_input_t *input)
{
    mscclpp_select_input_t small_input;
    mscclpp_coll_choice_t small_choice;

    if (!task->team->has_lost) {
        return false;
    }
    small_input = *input;
    small_input.layout = &task->team->runner.layout;
    return mscclpp_coll_try_choice(task, &small_input, true, &small_choice) != MSCCLPP_OK || task->choice.epochs == 0 ||
           !is_same_choice(&small_choice, &task->choice);
}

/* Agrees on the size of the largest block if not all ranks know it and they need it, and chooses the algorithm anew. */
static mscclpp_status_t agree_and_choose(mscclpp_coll_task_t *task, const mscclpp_select_input_t *input)
{
    mscclpp_status_t status;

    if (task->args->is_size_known || mscclpp_coll_choose_for_pair(task, input)) {
        return MSCCLPP_OK;
    }
    status = mscclpp_coll_agree_size(task);
    return status == MSCCLPP_OK ? mscclpp_coll_choose(task, input, true) : status;
}

/*
 * Agrees on the size of the largest block, grows the scratch or takes it again, and chooses the algorithm, as far as
 * the call needs that. Any error breaks the team.
 *
 * Blocks with holes are moved without packing only if the chosen algorithm maps buffers. Copy engines cannot move them,
 * so the choice is then made again without engines. Small blocks are packed, because packets are faster for them.
 */
static mscclpp_status_t grow_and_choose(mscclpp_coll_task_t *task, mscclpp_select_input_t *input)
{
    mscclpp_status_t status = agree_and_choose(task, input);
    bool has_grown = false;

    if (status == MSCCLPP_OK && task->may_map && mscclpp_coll_is_early(task) && mscclpp_coll_needs_mapping(task) &&
        mscclpp_runner_pauses_mapping(&task->team->runner)) {
        task->may_map = false;
        status = mscclpp_coll_choose(task, input, true);
    }
    if (status == MSCCLPP_OK) {
        status = mscclpp_coll_grow(task, input, &has_grown);
    }
    if (status == MSCCLPP_OK && has_grown) {
        status = mscclpp_coll_choose(task, input, true);
    }
    if (status == MSCCLPP_OK) {
        task->is_strided = task->is_strided && mscclpp_coll_needs_mapping(task);
    }
    if (status == MSCCLPP_OK && task->is_strided) {
        input->may_use_engines = false;
        status = mscclpp_coll_choose(task, input, true);
    }
    if (status == MSCCLPP_OK && needs_lost_scratch(task, input)) {
        status = mscclpp_team_reclaim(task->team, task->largest_block);
    }
    return status;
}

/* Reads the control messages of a team that spans nodes, once in NOTICE_CALLS calls. The next wait examines them. */
static void read_notices(mscclpp_team_t *team)
{
    mscclpp_group_notice_t failed, host;

    if (team->fabric != NULL && team->group.call % NOTICE_CALLS == 0) {
        mscclpp_group_read_notices(&team->group, &failed, &host);
    }
}

/* Fills in the inputs of the choice for a call that is not queued. */
static void describe_call(const mscclpp_coll_task_t *task, mscclpp_select_input_t *input)
{
    mscclpp_coll_describe_team(task->team, task->args->dtype, input);
    input->in_place = task->args->passed_in_place;
    if (task->args->early) {
        input->is_early = true;
        input->block_limit = mscclpp_runner_early_blocks(&task->team->runner);
    }
}

/* Returns true if a copy serves the call. A copy would overwrite the padding of types and the holes of data. */
static bool is_plain_copy(const mscclpp_coll_task_t *task)
{
    return task->ranks == 1 && task->args->dtype < MSCCLPP_DTYPE_SHORT_INT && !mscclpp_coll_needs_packing(task);
}

/* Prepares the buffers, executes the call, and restores the buffers. The other ranks have been told about the call. */
static mscclpp_status_t serve_announced(mscclpp_coll_task_t *task, mscclpp_select_input_t *input)
{
    mscclpp_status_t status = grow_and_choose(task, input);

    if (status == MSCCLPP_OK) {
        task->has_plan = mscclpp_coll_describe_for_plan(task).plan != NULL;
        status = mscclpp_coll_prepare_buffers(task);
    }
    if (task->excludes_own) {
        mscclpp_coll_add_own_block(task, input);
    }
    if (status == MSCCLPP_OK && task->largest_block > 0) {
        status = carry_out(task, input);
    }
    return mscclpp_coll_restore_buffers(task, status);
}

/*
 * Serves the call, from the choice of an algorithm to its end. Returns MSCCLPP_ERR_NOT_SUPPORTED on all ranks, with the
 * buffers unchanged, if the call must be staged. Any error after the choice breaks the team.
 */
static mscclpp_status_t serve_call(mscclpp_coll_task_t *task)
{
    mscclpp_team_t *team = task->team;
    mscclpp_select_input_t input;
    mscclpp_status_t status;

    describe_call(task, &input);
    /* A refusal does not depend on sizes, so it is equal on all ranks. */
    status = mscclpp_coll_choose(task, &input, true);
    if (status != MSCCLPP_OK) {
        return status;
    }
    team->group.call_args = mscclpp_board_pack_args(task->args->coll, task->args->root, mscclpp_coll_common_bytes(task),
                                                    task->args->dtype, task->args->op);
    mscclpp_team_announce(team, team->group.call, MSCCLPP_CALL_DEVICE);
    read_notices(team);
    mscclpp_runner_release_mappings(&team->runner, false);
    status = examine_buffers(task);
    if (status == MSCCLPP_OK) {
        status = is_plain_copy(task) ? copy_alone(task) : serve_announced(task, &input);
    }
    mscclpp_runner_release_mappings(&team->runner, false);
    mscclpp_runner_give_stream(&team->runner);
    /* Peers may have started, so the call can no longer be staged (MSCCLPP_ERR_NOT_SUPPORTED). */
    return status == MSCCLPP_OK
               ? MSCCLPP_OK
               : mscclpp_team_fail(team, status == MSCCLPP_ERR_NOT_SUPPORTED ? MSCCLPP_ERR_DEVICE : status);
}

/*
 * The bytes of a block end with the last element's data, and the stride includes the padding after that. So a copy of
 * one block does not overwrite the padding of its last element.
 */
void mscclpp_coll_init_task(mscclpp_coll_task_t *task, mscclpp_team_t *team, const mscclpp_coll_args_t *args)
{
    /* The fields from `peer_in` on are long, and the exchange of buffers sets them before they are read. */
    memset(task, 0, offsetof(mscclpp_coll_task_t, peer_in));
    task->team = team;
    task->args = args;
    task->pattern = mscclpp_coll_pattern(args->coll);
    task->rank = team->group.oob.rank;
    task->ranks = team->group.oob.size;
    task->root = args->root;
    if (!args->varied && args->count > 0) {
        task->stride = args->count * mscclpp_dev_dtype_extent(args->dtype);
        task->bytes =
            (args->count - 1) * mscclpp_dev_dtype_extent(args->dtype) + mscclpp_dev_dtype_true_extent(args->dtype);
    }
    task->largest_block = args->varied ? args->largest_block : task->bytes;
    task->knows_largest = !args->varied || args->is_size_known;
    task->may_map = args->early && team->fabric == NULL && team->group.size > 1 && team->protocol.zerocopy != 0;
    team->group.call = args->call;
    team->group.collective = mscclpp_coll_name(args->coll);
}

/*
 * Exchanges the buffers of a persistent request before its first start, if its starts will map them. If a rank needs
 * device memory in place of a buffer, or cannot map one, the starts exchange buffers themselves. An error breaks the
 * team.
 */
static mscclpp_status_t exchange_ahead(mscclpp_coll_task_t *task)
{
    mscclpp_status_t status;
    bool is_willing;

    if (!task->args->repeated || !mscclpp_coll_needs_mapping(task)) {
        return MSCCLPP_OK;
    }
    status = examine_buffers(task);
    is_willing =
        status == MSCCLPP_OK && !task->in_unreachable && !task->out_unreachable && !mscclpp_coll_needs_packing(task);
    if (is_willing) {
        status = mscclpp_coll_prepare_buffers(task);
        is_willing = task->in_stand_in == NULL && task->out_stand_in == NULL;
    }
    if (status == MSCCLPP_OK) {
        status = mscclpp_coll_exchange_ahead(task, is_willing);
    }
    /* With any error, nothing is copied to the output. */
    (void)mscclpp_coll_restore_buffers(task, MSCCLPP_ERR_NOT_SUPPORTED);
    mscclpp_runner_give_stream(&task->team->runner);
    return status == MSCCLPP_ERR_NOT_SUPPORTED ? MSCCLPP_ERR_DEVICE : status;
}

mscclpp_status_t mscclpp_collective_prepare(mscclpp_team_t *team, const mscclpp_coll_args_t *args)
{
    mscclpp_coll_task_t task;
    mscclpp_select_input_t input;
    mscclpp_by_plan_t by_plan;
    mscclpp_status_t status;
    bool has_grown;

    mscclpp_coll_init_task(&task, team, args);
    if (MSCCLPP_DEV_COMBINES(task.pattern) && !mscclpp_dev_supports(args->dtype, args->op, team->group.on_twin)) {
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    describe_call(&task, &input);
    status = mscclpp_coll_choose(&task, &input, true);
    if (status == MSCCLPP_OK) {
        status = mscclpp_coll_grow(&task, &input, &has_grown);
        mscclpp_team_leave(team); /* growing may have begun a use of leased scratch */
        mscclpp_runner_give_stream(&team->runner);
    }
    if (status == MSCCLPP_OK && task.largest_block > 0) {
        by_plan = mscclpp_coll_describe_for_plan(&task);
        status = by_plan.plan != NULL ? mscclpp_by_plan_prepare(team, &by_plan) : exchange_ahead(&task);
    }
    return status;
}

/* A call is refused before it changes anything. An empty call ends at once if all ranks know that it is empty. */
mscclpp_status_t mscclpp_collective(mscclpp_team_t *team, const mscclpp_coll_args_t *args)
{
    mscclpp_coll_task_t task;
    mscclpp_status_t status;

    mscclpp_coll_init_task(&task, team, args);
    if (team->group.broken) {
        return mscclpp_team_refuse_call(team, args->call);
    }
    if (MSCCLPP_DEV_COMBINES(task.pattern) && !mscclpp_dev_supports(args->dtype, args->op, team->group.on_twin)) {
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    mscclpp_linger_note_call(&team->runner);
    /* An earlier queued call may have failed, and no host waits for queued calls. */
    status = mscclpp_team_check_kernels(team);
    if (status != MSCCLPP_OK) {
        return mscclpp_team_fail(team, status);
    }
    /* If not all ranks know the sizes, other ranks may have data even though this rank has none. */
    if (task.largest_block == 0 && (args->is_size_known || !args->varied)) {
        team->last_algorithm = "none";
        return MSCCLPP_OK;
    }
    status = mscclpp_team_enter(team);
    status = status == MSCCLPP_OK ? serve_call(&task) : mscclpp_team_fail(team, status);
    mscclpp_team_leave(team);
    return status;
}

bool mscclpp_collective_serves(const mscclpp_team_t *team, mscclpp_coll_t coll)
{
    mscclpp_select_input_t input;
    mscclpp_coll_choice_t choice;

    mscclpp_coll_describe_team(team, MSCCLPP_DTYPE_UINT8, &input);
    return mscclpp_coll_select(&input, coll, 1, false, true, &choice) == MSCCLPP_OK;
}
