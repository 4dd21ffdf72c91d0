/* The choice of an all-reduce's algorithm, and the exchange of the buffers that the algorithm maps. */
#include "mca/common/task/task_parts.h"

#include <string.h>

#include "mca/common/algo/select.h"
#include "mca/common/run/known.h"
#include "mca/common/team/grow.h"

mscclpp_status_t mscclpp_task_choose(mscclpp_task_t *task, mscclpp_select_input_t *input)
{
    const mscclpp_team_t *team = task->team;

    if (!mscclpp_dev_supports(task->args->dtype, task->args->op, team->group.on_twin)) {
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    input->nodes = 1;
    if (team->fabric != NULL) {
        mscclpp_fabric_describe(team->fabric, input);
    }
    input->bytes = task->bytes;
    input->in_place = task->args->sendbuf == task->args->recvbuf;
    input->dtype = task->args->dtype;
    input->nranks = (uint32_t)team->group.size;
    input->on_twin = team->group.on_twin;
    input->is_one_gpu = team->one_gpu;
    /* Engines copy ranges of bytes, including padding, and the host must wait in the call for them. */
    input->may_use_engines =
        team->may_use_engines && task->app_stream == NULL && mscclpp_task_is_dense(task->args->dtype) &&
        (team->engine == NULL || team->engine->is_usable) && (!task->args->early || team->protocol.algorithm >= 0);
    input->has_ll128 = team->ll128;
    input->is_queued = task->app_stream != NULL;
    input->is_early = task->args->early || team->runner.serves_queue;
    input->may_be_replayed = team->runner.serves_queue;
    input->may_exchange = task->may_map && task->args->early;
    input->has_mapped = task->may_map && !task->args->early;
    input->block_limit = team->runner.serves_queue ? team->runner.queue_blocks
                         : task->args->early       ? mscclpp_runner_early_blocks(&team->runner)
                                                   : team->runner.block_limit;
    input->protocol = &team->protocol;
    input->layout = mscclpp_team_layout(team);
    return mscclpp_select_allreduce(input, &task->choice);
}

/* Chooses an algorithm other than the engines. */
static mscclpp_status_t choose_without_engines(mscclpp_task_t *task, const mscclpp_select_input_t *input)
{
    mscclpp_select_input_t other_input = *input;

    other_input.may_use_engines = false;
    return mscclpp_select_allreduce(&other_input, &task->choice);
}

/*
 * Returns true if the team shares the memory of engines with other teams of the process. It does not if the user asks
 * for engines by name, because they then serve nonblocking calls beside blocking calls of other teams.
 */
static bool shares_engine_memory(const mscclpp_team_t *team)
{
    return team->calls_one_at_a_time && team->protocol.algorithm < 0;
}

/*
 * Maps the peers' outputs, and then opens the engines, which need memory. The inputs are not mapped, because each rank
 * reads only its own operands; so the output is passed to the exchange as the input, too. If mapping or opening fails
 * on any rank, all ranks choose another algorithm. Returns an error, which breaks the team, only if an exchange, the
 * meeting or a stream fails, or if copies of the engines' test do not end.
 */
static mscclpp_status_t prepare_engines(mscclpp_task_t *task, const mscclpp_select_input_t *input)
{
    mscclpp_team_t *team = task->team;
    const void *process = shares_engine_memory(team) ? team->group.admission : NULL;
    bool is_usable = false;
    mscclpp_status_t status =
        mscclpp_runner_exchange(&team->runner, task->out, task->out, task->bytes, mscclpp_engine_is_sound(team->engine),
                                task->kernel_args.peer_in, task->kernel_args.peer_out, &is_usable);

    if (status == MSCCLPP_OK && is_usable) {
        status = mscclpp_task_ensure_stream(task);
    }
    /*
     * Other threads of a process may share the engines' memory. The meeting keeps them from calls by engines, and from
     * setting up their own, while these are set up.
     */
    if (status == MSCCLPP_OK && is_usable && team->engine == NULL) {
        status = mscclpp_group_meet(&team->group, task->bytes, false);
    }
    if (status == MSCCLPP_OK && is_usable) {
        status = mscclpp_engine_open(&team->runner, &team->protocol, process, &team->engine, &is_usable);
    }
    mscclpp_group_give_slot(&team->group);
    return status != MSCCLPP_OK || is_usable ? status : choose_without_engines(task, input);
}

/*
 * Maps the buffers unless they are already mapped. If they cannot be mapped, all ranks choose another algorithm. A
 * request in parts has mapped the buffers of all parts, so the buffers of this call are at an offset in the mapped
 * ones. An error breaks the team.
 */
static mscclpp_status_t use_mapped(mscclpp_task_t *task, mscclpp_select_input_t *input)
{
    mscclpp_team_t *team = task->team;
    mscclpp_status_t status = MSCCLPP_OK;
    int rank;

    if (task->mapped == NULL) {
        status = mscclpp_runner_map_buffers(&team->runner, task->in, task->out, task->bytes, NULL, true, &task->mapped);
    }
    if (status == MSCCLPP_OK && task->mapped == NULL) {
        task->may_map = false;
        return mscclpp_task_choose(task, input);
    }
    for (rank = 0; rank < team->group.size && status == MSCCLPP_OK; ++rank) {
        task->kernel_args.peer_in[rank] =
            task->mapped->peer_in[rank] + ((const char *)task->in - (const char *)task->mapped->in);
        task->kernel_args.peer_out[rank] =
            task->mapped->peer_out[rank] + ((char *)task->out - (char *)task->mapped->out);
    }
    return status;
}

/*
 * Makes an early call use the buffers of an earlier exchange, if all ranks pass those again. Otherwise exchanges the
 * buffers. If they cannot be mapped, all ranks choose an algorithm that does not need them. An error breaks the team.
 */
static mscclpp_status_t exchange_early(mscclpp_task_t *task, mscclpp_select_input_t *input, bool *mapped_p)
{
    mscclpp_runner_t *runner = &task->team->runner;
    mscclpp_known_buffers_t known;
    mscclpp_status_t status =
        mscclpp_runner_meet_known(runner, task->in, task->out, task->bytes, true, &known, &task->has_met);

    *mapped_p = task->has_met;
    if (status != MSCCLPP_OK) {
        return status;
    }
    if (task->has_met) {
        const size_t size = sizeof(known.in[0]) * (size_t)runner->group->size;

        memcpy(task->kernel_args.peer_in, known.in, size);
        memcpy(task->kernel_args.peer_out, known.out, size);
        return MSCCLPP_OK;
    }
    status = mscclpp_runner_exchange(runner, task->in, task->out, task->bytes, true, task->kernel_args.peer_in,
                                     task->kernel_args.peer_out, mapped_p);
    if (status == MSCCLPP_OK) {
        mscclpp_runner_note_exchange(runner, *mapped_p, task->in, task->out, NULL);
    }
    if (status == MSCCLPP_OK && !*mapped_p) {
        task->may_map = false;
        status = mscclpp_task_choose(task, input);
    }
    return status;
}

/*
 * Maps the peers' buffers if the algorithm needs them. If that fails on any rank, all ranks choose an algorithm that
 * does not need them. Each chain of fallbacks ends with such an algorithm, so the loop ends. An error breaks the team.
 */
mscclpp_status_t mscclpp_task_exchange(mscclpp_task_t *task, mscclpp_select_input_t *input)
{
    mscclpp_status_t status = MSCCLPP_OK;
    bool mapped;

    if (!task->choice.algo->maps_buffers && !task->choice.algo->uses_engines) {
        return MSCCLPP_OK;
    }
    /* Entries of ranks that the node does not have are 0, so that equal launches have equal arguments. */
    memset(task->kernel_args.peer_in, 0, sizeof(task->kernel_args.peer_in));
    memset(task->kernel_args.peer_out, 0, sizeof(task->kernel_args.peer_out));
    if (task->team->runner.serves_queue && task->choice.algo->maps_buffers) {
        return use_mapped(task, input);
    }
    if (task->choice.algo->uses_engines) {
        status = prepare_engines(task, input);
    }
    if (status != MSCCLPP_OK || !task->choice.algo->maps_buffers || task->choice.algo->uses_engines) {
        return status;
    }
    status = task->args->early
                 ? exchange_early(task, input, &mapped)
                 : mscclpp_runner_exchange(&task->team->runner, task->in, task->out, task->bytes, true,
                                           task->kernel_args.peer_in, task->kernel_args.peer_out, &mapped);
    while (status == MSCCLPP_OK && !mapped && task->choice.algo->maps_buffers) {
        status = mscclpp_select_shape(input, task->choice.algo->fallback, &task->choice);
    }
    return status;
}

/* The mappings are held until the first start takes them. */
mscclpp_status_t mscclpp_task_exchange_ahead(mscclpp_task_t *task)
{
    mscclpp_runner_t *runner = &task->team->runner;
    const bool is_willing = task->in_reach != MSCCLPP_REACH_NONE && task->out_reach != MSCCLPP_REACH_NONE;
    bool is_mapped = false;
    mscclpp_status_t status =
        mscclpp_runner_exchange(runner, task->args->sendbuf, task->args->recvbuf, task->bytes, is_willing,
                                task->kernel_args.peer_in, task->kernel_args.peer_out, &is_mapped);

    if (status == MSCCLPP_OK && is_mapped) {
        mscclpp_runner_note_exchange(runner, true, task->args->sendbuf, task->args->recvbuf, NULL);
        mscclpp_runner_keep_mappings(runner, false);
    }
    return status;
}
