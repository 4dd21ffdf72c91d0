/* The stages of a call: replace buffers that kernels cannot access, choose, exchange, launch, copy back. */
#include "mca/common/task/collective.h"

#include <stddef.h>
#include <string.h>

#include "mca/common/base/log.h"
#include "mca/common/run/bell.h"
#include "mca/common/run/known.h"
#include "mca/common/task/coll_task.h"
#include "mca/common/task/report.h"
#include "mca/common/team/grow.h"
#include "mca/common/team/queue.h"
#include "mca/common/team/plans.h"

/*
 * A team that spans nodes reads its control messages at one call in NOTICE_CALLS, so that they do not pile up on a rank
 * that never waits.
 */
#define NOTICE_CALLS 256u

/*
 * Finds out whether kernels can access the buffers. Also waits for work on the buffers that synchronous calls of the
 * GPU runtime have left in progress. Data in several allocations counts as out of reach.
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
    task->in_far = in_reach == MSCCLPP_REACH_NONE || task->args->in_scattered;
    task->out_far = out_reach == MSCCLPP_REACH_NONE || task->args->out_scattered;
    return status;
}

/*
 * The caller sets the facts about the call. Copy engines copy ranges of bytes, so they serve only types without
 * padding.
 */
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

/*
 * Fills in the arguments of those kernels within a node that find the blocks themselves: they compute the places of
 * blocks of one size, and read the places of other blocks from lists.
 */
static void fill_blocks(const mscclpp_coll_task_t *task, mscclpp_dev_blocks_args_t *blocks)
{
    mscclpp_dev_args_t *common = &blocks->coll.common;
    int peer;

    mscclpp_runner_fill_args(&task->team->runner, common);
    common->in = task->in;
    common->out = task->out;
    common->bytes = task->bytes;
    common->dtype = (uint32_t)task->args->dtype;
    common->op = (uint32_t)task->args->op;
    blocks->coll.stride = task->stride;
    if (task->choice.algo == MSCCLPP_COLL_BY_PACKETS || task->choice.algo == MSCCLPP_COLL_BY_PUTS) {
        common->release = (uint32_t)task->release;
    }
    if (task->queued) {
        common->release = mscclpp_runner_queued_release(&task->team->runner);
        common->epochs = (uint32_t)task->choice.epochs;
        common->epoch_limit = (uint32_t)task->team->protocol.epoch_limit;
    }
    blocks->coll.pattern = (uint32_t)task->pattern;
    blocks->coll.root = (uint32_t)task->root;
    blocks->coll.in_place = task->in_place;
    blocks->largest_block = task->own_bytes > task->largest ? task->own_bytes : task->largest;
    blocks->packets_max = task->choice.packets_max;
    blocks->varied = !task->args->varied                                       ? MSCCLPP_DEV_SAME
                     : task->choice.kernel == MSCCLPP_KERNEL_COLL_MOVE_UNSIZED ? MSCCLPP_DEV_UNSIZED
                                                                               : MSCCLPP_DEV_VARIED;
    for (peer = 0; peer < task->team->group.size && task->args->varied; ++peer) {
        blocks->send[peer] = mscclpp_coll_send_block(task, peer);
        blocks->recv[peer] = mscclpp_coll_recv_block(task, peer);
    }
    if (blocks->varied == MSCCLPP_DEV_UNSIZED) {
        blocks->largest_block = mscclpp_coll_exchanged_bytes(task);
    }
}

/*
 * Runs the kernel of a call between nodes. The fabric fills in the arguments that only it knows. Any error breaks the
 * team.
 */
static mscclpp_status_t launch_on_nodes(mscclpp_coll_task_t *task)
{
    mscclpp_dev_coll_nodes_args_t args;
    mscclpp_dev_args_t *common = &args.nodes.common;
    mscclpp_dev_launch_t launch;
    mscclpp_dev_block_t *send, *recv;
    mscclpp_status_t status;
    int peer;

    memset(&args, 0, sizeof(args));
    if (task->args->varied && (status = mscclpp_fabric_lists(task->team->fabric, &send, &recv)) != MSCCLPP_OK) {
        return status;
    }
    mscclpp_runner_fill_args(&task->team->runner, common);
    common->in = task->in;
    common->out = task->out;
    common->bytes = task->bytes;
    common->dtype = (uint32_t)task->args->dtype;
    common->op = (uint32_t)task->args->op;
    common->epoch_limit = task->queued ? (uint32_t)task->team->protocol.epoch_limit : 0;
    args.stride = task->stride;
    args.largest_block = task->largest;
    args.tile = task->choice.tile;
    args.radix = task->choice.radix;
    args.prefixes = task->choice.prefixes;
    args.nodes.pattern = task->choice.exchange;
    args.pattern = (uint32_t)task->pattern;
    args.root = (uint32_t)task->root;
    args.in_place = task->in_place;
    args.varied = task->args->varied;
    for (peer = 0; peer < task->ranks && task->args->varied; ++peer) {
        send[peer] = mscclpp_coll_send_block(task, peer);
        recv[peer] = mscclpp_coll_recv_block(task, peer);
    }
    launch.kernel = task->choice.kernel;
    launch.nblocks = task->choice.nblocks;
    launch.nthreads = task->choice.nthreads;
    return mscclpp_fabric_run_coll(task->team->fabric, task->queued ? task->stream : NULL, &launch, &args,
                                   args.tile == 0 ? 0 : (task->largest + args.tile - 1) / args.tile,
                                   mscclpp_coll_algo_name(task->choice.algo));
}

/* Starts the kernel, or puts it into the stream of a queued call. */
static mscclpp_status_t start_kernel(mscclpp_coll_task_t *task, const mscclpp_dev_launch_t *launch)
{
    if (task->queued) {
        return mscclpp_runner_launch_mapped(&task->team->runner, task->stream, launch,
                                            mscclpp_coll_needs_mapping(task) ? task->mapped : NULL);
    }
    return mscclpp_runner_launch(&task->team->runner, NULL, launch, mscclpp_coll_algo_name(task->choice.algo));
}

/* Fills in the arguments of the kernel that was chosen. Blocks with holes have a kernel of their own. */
mscclpp_status_t mscclpp_coll_launch(mscclpp_coll_task_t *task)
{
    union {
        mscclpp_dev_blocks_args_t blocks;
        mscclpp_dev_direct_args_t direct;
        mscclpp_dev_strided_args_t strided;
    } args;
    mscclpp_dev_launch_t launch;

    if (task->choice.algo >= MSCCLPP_COLL_BY_NODES) {
        return launch_on_nodes(task);
    }
    launch.kernel = task->strided ? MSCCLPP_KERNEL_COLL_MOVE_STRIDED : task->choice.kernel;
    launch.nblocks = task->choice.nblocks;
    launch.nthreads = task->choice.nthreads;
    launch.args = &args;
    if (mscclpp_bell_has_lists(&launch)) {
        fill_blocks(task, &task->team->blocks_args);
        launch.args = &task->team->blocks_args;
        return start_kernel(task, &launch);
    }
    /* All that the kernel gets, so that equal launches have equal arguments. */
    memset(&args, 0, mscclpp_dev_args_size(launch.kernel));
    if (task->strided) {
        mscclpp_runner_fill_args(&task->team->runner, &args.strided.common);
        mscclpp_coll_fill_strided(task, &args.strided);
    } else if (task->choice.algo == MSCCLPP_COLL_BY_ZEROCOPY) {
        mscclpp_runner_fill_args(&task->team->runner, &args.direct.common);
        args.direct.common.dtype = (uint32_t)task->args->dtype;
        args.direct.common.op = (uint32_t)task->args->op;
        args.direct.common.epoch_limit = task->queued ? (uint32_t)task->team->protocol.epoch_limit : 0;
        mscclpp_coll_fill_direct(task, &args.direct);
    } else {
        fill_blocks(task, &args.blocks);
    }
    return start_kernel(task, &launch);
}

/* Blocks that differ in size are served by no plan. */
mscclpp_by_plan_t mscclpp_coll_by_plan(const mscclpp_coll_task_t *task)
{
    const mscclpp_coll_args_t *args = task->args;
    const mscclpp_plan_query_t query = {.coll = args->coll,
                                        .bytes = task->bytes,
                                        .dtype = args->dtype,
                                        .op = args->op,
                                        .in_place = args->passed_in_place,
                                        .blocks = task->queued  ? task->team->runner.queue_blocks
                                                  : args->early ? mscclpp_runner_early_blocks(&task->team->runner)
                                                                : 0};

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

/*
 * Serves the call by a plan, if there is one. *served_p is false, equally on all ranks, if there is none, or if there
 * is no memory for it.
 */
static mscclpp_status_t try_plan(const mscclpp_coll_task_t *task, bool *served_p)
{
    const mscclpp_by_plan_t call = mscclpp_coll_by_plan(task);

    *served_p = false;
    if (call.plan == NULL) {
        return MSCCLPP_OK;
    }
    return mscclpp_by_plan(task->team, &call, served_p);
}

/*
 * Executes the chosen algorithm, or a plan in its place:
 * 1. Exchanges buffers. If they cannot be mapped, chooses another algorithm, for which the scratch may have to grow.
 * 2. Reserves epochs, of which the final choice needs its own number.
 * 3. Meets the other ranks, as late as possible (mscclpp_group_meet).
 * 4. Launches.
 * Any error breaks the team, because peers may have started.
 */
static mscclpp_status_t carry_out(mscclpp_coll_task_t *task, const mscclpp_select_input_t *input)
{
    mscclpp_team_t *team = task->team;
    /*
     * Between nodes, renewing epochs may launch kernels that meet. If calls compete for slots, these kernels need a
     * slot first, which mscclpp_group_meet takes.
     */
    const bool meets_to_renew = team->fabric != NULL && (task->args->early || team->group.any_concurrent);
    mscclpp_status_t status;
    bool is_mapped = true, is_served = false;

    status = task->by_plan ? try_plan(task, &is_served) : MSCCLPP_OK;
    if (status != MSCCLPP_OK || is_served) {
        return status;
    }
    /* After the exchange, peers' engines may access these buffers in streams of their own. */
    if (task->choice.algo == MSCCLPP_COLL_BY_ENGINES && task->stream != NULL) {
        status = mscclpp_runner_await_stream(&team->runner);
    }
    if (status == MSCCLPP_OK && mscclpp_coll_needs_mapping(task)) {
        status = mscclpp_coll_exchange(task, &is_mapped);
    }
    if (status == MSCCLPP_OK && !is_mapped && mscclpp_team_wants_more(team, task->largest, false)) {
        status = mscclpp_team_grow(team, task->largest, false);
    }
    if (status == MSCCLPP_OK && !is_mapped) {
        status = mscclpp_coll_choose(task, input, false);
    }
    if (status == MSCCLPP_OK && !is_mapped) {
        status = mscclpp_coll_stop_mapping(task);
    }
    team->last_algorithm = mscclpp_coll_algo_name(task->choice.algo);
    mscclpp_debug("%s: %s call %llu: %s, blocks of up to %llu bytes", team->group.oob.label, team->group.collective,
                  (unsigned long long)team->group.call, team->last_algorithm, (unsigned long long)task->largest);
    mscclpp_report_coll_costs(team, task->args->coll, task->largest, input, &task->choice);
    if (status == MSCCLPP_OK && task->choice.algo == MSCCLPP_COLL_BY_ENGINES) {
        return mscclpp_coll_run_engines(task);
    }
    if (status == MSCCLPP_OK && task->choice.epochs != 0 && !meets_to_renew) {
        status = mscclpp_team_reserve_epochs(team, NULL, task->choice.epochs);
    }
    if (status == MSCCLPP_OK && !task->has_met) {
        status = mscclpp_group_meet(&team->group, task->largest, task->args->early);
    }
    if (status == MSCCLPP_OK && task->choice.epochs != 0 && meets_to_renew) {
        status = mscclpp_team_reserve_epochs(team, NULL, task->choice.epochs);
    }
    if (status == MSCCLPP_OK) {
        status = mscclpp_coll_launch(task);
    }
    mscclpp_group_give_slot(&team->group);
    return status;
}

/* Serves the call of a team with one rank: copies its block, and waits for the copy. The type must have no padding. */
static mscclpp_status_t copy_alone(mscclpp_coll_task_t *task)
{
    const mscclpp_coll_args_t *args = task->args;
    const mscclpp_dev_block_t from = mscclpp_coll_send_block(task, 0), to = mscclpp_coll_recv_block(task, 0);
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
 * carry the call and the choice is the same with both: then this node does what the other nodes expect.
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

/*
 * Agrees on the size of the largest block if not all ranks know it and they need it, grows the scratch if needed, or
 * takes it again, and chooses the algorithm. Any error breaks the team.
 *
 * Blocks with holes are moved without packing only if the chosen algorithm maps buffers. Copy engines cannot move them,
 * so the choice is then repeated without engines. Small blocks are packed, because packets are faster for them.
 */
static mscclpp_status_t grow_and_choose(mscclpp_coll_task_t *task, mscclpp_select_input_t *input)
{
    mscclpp_status_t status = MSCCLPP_OK;
    bool has_grown = false;

    if (!task->args->is_size_known && !mscclpp_coll_choose_for_pair(task, input)) {
        status = mscclpp_coll_agree_size(task); /* only the two ends of a pair know the size of its block */
        if (status == MSCCLPP_OK) {
            status = mscclpp_coll_choose(task, input, true);
        }
    }
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
        task->strided = task->strided && mscclpp_coll_needs_mapping(task);
    }
    if (status == MSCCLPP_OK && task->strided) {
        input->may_use_engines = false;
        status = mscclpp_coll_choose(task, input, true);
    }
    if (status == MSCCLPP_OK && needs_lost_scratch(task, input)) {
        status = mscclpp_team_reclaim(task->team, task->largest);
    }
    return status;
}

/* Reads the control messages of a team that spans nodes, at one call in NOTICE_CALLS. The next wait examines them. */
static void read_notices(mscclpp_team_t *team)
{
    mscclpp_group_notice_t failed, host;

    if (team->fabric != NULL && team->group.call % NOTICE_CALLS == 0) {
        mscclpp_group_read_notices(&team->group, &failed, &host);
    }
}

/* Fills in what the choice of an algorithm needs to know of the team and of the call. */
static void describe_call(const mscclpp_coll_task_t *task, mscclpp_select_input_t *input)
{
    mscclpp_coll_describe_team(task->team, task->args->dtype, input);
    input->in_place = task->args->passed_in_place;
    if (task->args->early) {
        input->is_early = true;
        input->block_limit = mscclpp_runner_early_blocks(&task->team->runner);
    }
}

/*
 * Serves the call, from the choice of an algorithm to its end. Returns MSCCLPP_ERR_NOT_SUPPORTED, on all ranks and with
 * the buffers unchanged, if the call must be staged. Any error after the choice breaks the team.
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
    /* The copy is not for types with padding nor for data with holes, because it would overwrite both. */
    if (status == MSCCLPP_OK && task->ranks == 1 && task->args->dtype < MSCCLPP_DTYPE_SHORT_INT &&
        task->args->in_pack_count + task->args->out_pack_count == 0) {
        status = copy_alone(task);
    } else if (status == MSCCLPP_OK) {
        status = grow_and_choose(task, &input);
        if (status == MSCCLPP_OK) {
            task->by_plan = mscclpp_coll_by_plan(task).plan != NULL;
            status = mscclpp_coll_prepare_buffers(task);
        }
        if (task->excludes_own) {
            mscclpp_coll_add_own_block(task, &input);
        }
        if (status == MSCCLPP_OK && task->largest > 0) {
            status = carry_out(task, &input);
        }
        status = mscclpp_coll_restore_buffers(task, status);
    }
    mscclpp_runner_release_mappings(&team->runner, false);
    mscclpp_runner_give_stream(&team->runner);
    /* Peers may have started, so the call can no longer be staged (MSCCLPP_ERR_NOT_SUPPORTED). */
    return status == MSCCLPP_OK
               ? MSCCLPP_OK
               : mscclpp_team_fail(team, status == MSCCLPP_ERR_NOT_SUPPORTED ? MSCCLPP_ERR_DEVICE : status);
}

/*
 * The bytes of a block end with the last element's data; the stride includes the padding behind it. So a copy of one
 * block does not touch the padding of its last element.
 */
void mscclpp_coll_init_task(mscclpp_coll_task_t *task, mscclpp_team_t *team, const mscclpp_coll_args_t *args)
{
    /* The lists of all ranks are long, and filled in by the exchange, without which nobody reads them. */
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
    task->largest = args->varied ? args->largest_block : task->bytes;
    task->knows_largest = !args->varied || args->is_size_known;
    task->may_map = args->early && team->fabric == NULL && team->group.size > 1 && team->protocol.zerocopy != 0;
    team->group.call = args->call;
    team->group.collective = mscclpp_coll_name(args->coll);
}

/*
 * Exchanges the buffers of a persistent request before its first start, if its starts will map them. If a rank needs
 * device memory in place of a buffer, or cannot map one, the starts do what they do without this. An error breaks the
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
    is_willing = status == MSCCLPP_OK && !task->in_far && !task->out_far && !mscclpp_coll_packs(task);
    if (is_willing) {
        status = mscclpp_coll_prepare_buffers(task);
        is_willing = task->in_stand_in == NULL && task->out_stand_in == NULL;
    }
    if (status == MSCCLPP_OK) {
        status = mscclpp_coll_exchange_ahead(task, is_willing);
    }
    /* Any error, so that nothing is copied to the output. */
    (void)mscclpp_coll_restore_buffers(task, MSCCLPP_ERR_NOT_SUPPORTED);
    mscclpp_runner_give_stream(&task->team->runner);
    return status == MSCCLPP_ERR_NOT_SUPPORTED ? MSCCLPP_ERR_DEVICE : status;
}

mscclpp_status_t mscclpp_collective_prepare(mscclpp_team_t *team, const mscclpp_coll_args_t *args)
{
    mscclpp_coll_task_t task;
    mscclpp_select_input_t input;
    mscclpp_by_plan_t call;
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
    if (status == MSCCLPP_OK && task.largest > 0) {
        call = mscclpp_coll_by_plan(&task);
        status = call.plan != NULL ? mscclpp_by_plan_prepare(team, &call) : exchange_ahead(&task);
    }
    return status;
}

/*
 * Refuses the call before it changes anything: on a broken team, or if kernels do not support the operation. An empty
 * call ends at once if all ranks know that it is empty.
 */
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
    /* An earlier enqueued call may have failed without anyone waiting for it. */
    status = mscclpp_team_check_kernels(team);
    if (status != MSCCLPP_OK) {
        return mscclpp_team_fail(team, status);
    }
    /* If not all ranks know the sizes, other ranks may have data even though this rank has none. */
    if (task.largest == 0 && (args->is_size_known || !args->varied)) {
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
