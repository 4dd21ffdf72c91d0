/*
 * Serves a call by a plan, in one of two ways.
 *
 * Directly: the plan works on the buffers of the call. If peers use these buffers, the hosts exchange and map them. If
 * the plan works in place and the call does not, the input is first copied to the output.
 *
 * Apart: the plan works on its own memory. The input is copied there, each block to a multiple of the chunk, and the
 * output back. This way serves sizes that chunks do not divide as the plan requires, buffers that cannot be mapped,
 * plans that would change memory that the call must not change, and all calls between nodes, because proxies reach no
 * other memory.
 *
 * All ranks take the same way.
 */
#include "mca/common/task/by_plan.h"

#include <string.h>

#include "mca/common/base/log.h"
#include "mca/common/team/plans.h"

/* One call by a plan. */
typedef struct {
    mscclpp_team_t *team;
    const mscclpp_by_plan_t *call;
    mscclpp_team_plan_t *plan;
    mscclpp_plan_collective_t collective;
    uint64_t in_blocks, out_blocks; /* number of blocks, one per rank, in the input and in the output */
    uint64_t chunk;                 /* bytes of a chunk */
    uint64_t padded;                /* bytes of a block, rounded up to whole chunks */
    char *in, *out;                 /* the memory that the plan works on */
    mscclpp_gpu_stream_t *queue;    /* the application's stream in which the call is queued; NULL: the host waits */
    void *copy;                     /* a copy of the input, freed at the end; NULL: there is none */
    bool apart;                     /* the call takes the way through the plan's own memory */
    const char *peer_in[MSCCLPP_DEV_MAX_RANKS];
    char *peer_out[MSCCLPP_DEV_MAX_RANKS];
} by_plan_t;

/* Tells whether elements have no padding, so that they can be copied as bytes. */
static bool is_dense(const by_plan_t *by)
{
    return by->call->dtype < MSCCLPP_DTYPE_SHORT_INT;
}

/* Makes sure that the team has a stream for copies. A queued call uses the application's. */
static mscclpp_status_t need_stream(const by_plan_t *by)
{
    return by->queue != NULL ? MSCCLPP_OK : mscclpp_runner_take_stream(&by->team->runner);
}

/* Queues a copy in the call's stream, unless there is nothing to copy. */
static mscclpp_status_t copy(const by_plan_t *by, void *to, const void *from, uint64_t bytes)
{
    const mscclpp_runner_t *runner = &by->team->runner;

    if (to == from || bytes == 0) {
        return MSCCLPP_OK;
    }
    return by->queue != NULL ? runner->gpu->put(by->queue, to, from, bytes)
                             : runner->gpu->copy(runner->stream, to, from, bytes);
}

/* Bytes before this rank's own block in a buffer with one block per rank. */
static uint64_t offset_of_own_block(const by_plan_t *by, uint64_t stride)
{
    return (uint64_t)by->team->group.oob.rank * stride;
}

/* Tells whether the caller passed one buffer as input and output. */
static bool is_in_place(const by_plan_t *by)
{
    const mscclpp_by_plan_t *call = by->call;

    return call->in ==
           call->out + (by->collective == MSCCLPP_PLAN_ALLGATHER ? offset_of_own_block(by, call->stride) : 0);
}

/* Copies `blocks` blocks between buffers in which they may lie at different distances. */
static mscclpp_status_t copy_blocks(const by_plan_t *by, char *to, uint64_t to_stride, const char *from,
                                    uint64_t from_stride, uint64_t blocks)
{
    mscclpp_status_t status = MSCCLPP_OK;

    if (to_stride == from_stride && blocks > 0) {
        return copy(by, to, from, (blocks - 1) * to_stride + by->call->bytes);
    }
    for (uint64_t i = 0; i < blocks && status == MSCCLPP_OK; ++i) {
        status = copy(by, to + i * to_stride, from + i * from_stride, by->call->bytes);
    }
    return status;
}

/*
 * Launches a plan's kernel on ranks of several nodes. Kernels in which the ranks meet are queued before it if a queued
 * launch has chunks of another size than the launch before it, or if the flags are used up. If the plan's memory must
 * be cleared then, a launch that only does this and a second meeting follow. A graph repeats its launches unseen by the
 * host, so once a launch was recorded, all of this is done each time.
 */
static mscclpp_status_t launch_on_nodes(const by_plan_t *by, const mscclpp_dev_launch_t *launch)
{
    mscclpp_team_plan_t *plan = by->plan;
    mscclpp_team_t *team = by->team;
    const bool resized = by->chunk != plan->chunk, used_up = plan->launches > mscclpp_plans_epoch_limit(team);
    mscclpp_status_t status = MSCCLPP_OK;

    if (by->queue != NULL) {
        plan->replayed = plan->replayed || team->runner.recorded;
        plan->chunk = by->chunk;
        if (plan->replayed || resized || used_up) {
            status = mscclpp_fabric_meet(team->fabric, &team->protocol, by->queue);
        }
        if (status == MSCCLPP_OK && (plan->replayed || used_up || (resized && plan->file->mixes))) {
            plan->args.ready = MSCCLPP_DEV_PLAN_ONLY_CLEARS;
            plan->launches = used_up ? 1 : plan->launches;
            status = mscclpp_fabric_run_joined(team->fabric, by->queue, launch, by->call->bytes, plan->file->label);
            if (status == MSCCLPP_OK) {
                status = mscclpp_fabric_meet(team->fabric, &team->protocol, by->queue);
            }
        }
        plan->args.ready = MSCCLPP_DEV_PLAN_IS_READY;
    }
    return status == MSCCLPP_OK
               ? mscclpp_fabric_run_joined(team->fabric, by->queue, launch, by->call->bytes, plan->file->label)
               : status;
}

/*
 * Launches the plan's kernel on the buffers in `by`, whose blocks have `bytes` bytes of data and lie `stride` bytes
 * apart. Waits for its end unless the call is queued.
 */
static mscclpp_status_t launch(by_plan_t *by, uint64_t stride, uint64_t bytes)
{
    mscclpp_team_plan_t *plan = by->plan;
    mscclpp_team_t *team = by->team;
    const mscclpp_plan_t *definition = plan->file->plan;
    mscclpp_dev_plan_args_t *args = &plan->args;
    mscclpp_dev_launch_t launch = {MSCCLPP_KERNEL_PLAN, plan->program.block_count, 0, args};

    mscclpp_runner_fill_args(&team->runner, &args->common);
    args->common.in = by->in;
    args->common.out = by->out;
    args->common.bytes = by->call->bytes;
    args->common.dtype = (uint32_t)by->call->dtype;
    args->common.op = (uint32_t)by->call->op;
    for (int r = 0; r < team->group.oob.size; ++r) {
        args->bases[3 * r] = (char *)(uintptr_t)by->peer_in[r];
        args->bases[3 * r + 1] = by->peer_out[r];
    }
    args->chunk = by->chunk;
    args->block_bytes = MSCCLPP_DEV_PLAN_BLOCK_BYTES(args, stride, bytes);
    args->stride = stride;
    args->lasting = plan->file->shares || by->apart ? NULL : plan->lasting;
    launch.nthreads = team->group.on_twin                             ? team->protocol.twin_threads
                      : definition->threads < MSCCLPP_DEV_MAX_THREADS ? definition->threads
                                                                      : MSCCLPP_DEV_MAX_THREADS;
    if (by->queue != NULL) {
        args->common.release = MSCCLPP_DEV_RELEASE_DEVICE;
        args->common.epoch_limit = (uint32_t)mscclpp_plans_epoch_limit(team);
    }
    ++plan->launches;
    mscclpp_debug("%s: %s call %llu: %s, %llu bytes, type %u, op %u, chunks of %llu bytes, %u blocks of %u threads%s%s",
                  team->group.oob.label, team->group.collective, (unsigned long long)by->call->call, plan->file->label,
                  (unsigned long long)by->call->bytes, args->common.dtype, args->common.op,
                  (unsigned long long)by->chunk, launch.nblocks, launch.nthreads,
                  by->apart ? ", by memory of its own" : "", by->queue != NULL ? ", queued" : "");
    return team->fabric != NULL ? launch_on_nodes(by, &launch)
                                : mscclpp_runner_launch(&team->runner, by->queue, &launch, plan->file->label);
}

/* Launches the kernel; in a call that the host waits for, after a meeting of all ranks. */
static mscclpp_status_t meet_and_launch(by_plan_t *by, uint64_t stride, uint64_t bytes)
{
    mscclpp_status_t status;

    if (by->queue != NULL) {
        return launch(by, stride, bytes);
    }
    status = mscclpp_group_meet(&by->team->group, by->call->bytes, by->call->early);

    if (status == MSCCLPP_OK) {
        status = launch(by, stride, bytes);
    }
    mscclpp_group_give_slot(&by->team->group);
    return status;
}

/* Serves the call through the plan's own memory, which must be large enough already. */
static mscclpp_status_t run_apart(by_plan_t *by)
{
    const mscclpp_plan_t *definition = by->plan->file->plan;
    const mscclpp_plan_room_t *room = &by->plan->room;
    mscclpp_team_t *team = by->team;
    const mscclpp_by_plan_t *call = by->call;
    uint64_t in_offset, out_offset;
    mscclpp_status_t status;

    by->apart = true;
    for (int r = 0; r < team->group.oob.size; ++r) {
        in_offset = room->in;
        out_offset = definition->in_place ? room->in : room->out;
        if (definition->in_place && by->collective == MSCCLPP_PLAN_ALLGATHER) {
            in_offset += (uint64_t)r * by->padded;
        } else if (definition->in_place && by->collective == MSCCLPP_PLAN_REDUCESCATTER) {
            out_offset += (uint64_t)r * by->padded;
        }
        by->peer_in[r] = mscclpp_plans_place(room, r, in_offset);
        by->peer_out[r] = mscclpp_plans_place(room, r, out_offset);
    }
    by->in = (char *)(uintptr_t)by->peer_in[team->group.oob.rank];
    by->out = by->peer_out[team->group.oob.rank];
    status = need_stream(by);
    if (status == MSCCLPP_OK) {
        status = copy_blocks(by, by->in, by->padded, call->in, call->stride, by->in_blocks);
    }
    if (status == MSCCLPP_OK) {
        status = meet_and_launch(by, by->padded, by->padded);
    }
    if (status == MSCCLPP_OK) {
        status = need_stream(by);
    }
    if (status == MSCCLPP_OK) {
        status = copy_blocks(by, call->out, call->stride, by->out, by->padded, by->out_blocks);
    }
    return status == MSCCLPP_OK && by->queue == NULL ? mscclpp_runner_await_stream(&team->runner) : status;
}

/*
 * Makes the plan's own memory, and serves the call through it. *served_p is false if there is no memory, or if elements
 * have padding, so that they cannot be copied as bytes.
 */
static mscclpp_status_t serve_apart(by_plan_t *by, bool *served_p)
{
    mscclpp_status_t status;

    *served_p = false;
    if (!is_dense(by)) {
        return MSCCLPP_OK; /* copies would overwrite the padding within elements */
    }
    status = mscclpp_plans_make_room(by->team, by->plan, by->chunk, true, served_p);
    return status == MSCCLPP_OK && *served_p ? run_apart(by) : status;
}

/*
 * Sets `in` and `out` for the direct way, and copies the input if the plan needs that. *cannot_share_p becomes true if
 * peers must not use this rank's buffers. Ranks may differ in this, so they vote on the way after it.
 */
static mscclpp_status_t find_buffers(by_plan_t *by, bool *cannot_share_p)
{
    const mscclpp_plan_file_t *file = by->plan->file;
    const mscclpp_by_plan_t *call = by->call;
    const uint64_t input_bytes = by->in_blocks > 0 ? (by->in_blocks - 1) * call->stride + call->bytes : 0;
    mscclpp_team_t *team = by->team;
    mscclpp_status_t status = MSCCLPP_OK;

    by->in = (char *)(uintptr_t)call->in;
    by->out = call->out;
    *cannot_share_p = false;
    if (file->plan->in_place && !is_in_place(by)) {
        by->in = call->out + (by->collective == MSCCLPP_PLAN_ALLGATHER ? offset_of_own_block(by, call->stride) : 0);
        status = need_stream(by);
        return status == MSCCLPP_OK ? copy(by, by->in, call->in, input_bytes) : status;
    }
    if (!file->plan->in_place && (is_in_place(by) || file->writes_input)) {
        if (file->shares) {
            *cannot_share_p = true;
            return MSCCLPP_OK;
        }
        status = need_stream(by);
        if (status == MSCCLPP_OK) {
            status = team->runner.gpu->temp_alloc(team->runner.stream, input_bytes, &by->copy);
        }
        by->in = by->copy;
        return status == MSCCLPP_OK ? copy(by, by->in, call->in, input_bytes) : status;
    }
    return MSCCLPP_OK;
}

/*
 * True if the plan cannot work on the call's buffers, whatever their kind of memory. One case are calls between nodes,
 * because proxies reach only the plan's own memory. Equal on all ranks.
 */
static bool is_always_apart(const by_plan_t *by)
{
    const mscclpp_plan_file_t *file = by->plan->file;

    return by->team->fabric != NULL || (file->crosses && by->padded != by->call->stride) ||
           (file->plan->in_place && by->collective == MSCCLPP_PLAN_REDUCESCATTER);
}

/*
 * Serves the call directly or apart, the same way on all ranks. *served_p, equal on all ranks, is false if there is no
 * memory.
 */
static mscclpp_status_t serve(by_plan_t *by, bool *served_p)
{
    const mscclpp_plan_file_t *file = by->plan->file;
    mscclpp_team_t *team = by->team;
    bool cannot_share = false, mapped = false;
    mscclpp_status_t status;

    if (by->call->early && team->fabric != NULL && is_dense(by) &&
        mscclpp_plans_has_room(team, by->plan, by->chunk, true)) {
        /* The memory is there. All ranks meet before the kernels start, whatever the size of chunks was before. */
        *served_p = true;
        by->plan->chunk = by->chunk;
        return run_apart(by);
    }
    if (is_always_apart(by)) {
        return serve_apart(by, served_p);
    }
    status = mscclpp_plans_make_room(team, by->plan, by->chunk, false, served_p);
    if (status != MSCCLPP_OK || !*served_p) {
        return status;
    }
    status = find_buffers(by, &cannot_share);
    if (status == MSCCLPP_OK && file->shares) {
        status = mscclpp_runner_exchange(&team->runner, by->in, by->out, by->call->bytes, !cannot_share, by->peer_in,
                                         by->peer_out, &mapped);
        if (status == MSCCLPP_OK && !mapped) {
            return serve_apart(by, served_p);
        }
    }
    by->peer_in[team->group.rank] = by->in;
    by->peer_out[team->group.rank] = by->out;
    if (status == MSCCLPP_OK) {
        status = meet_and_launch(by, by->call->stride, by->call->bytes);
    }
    if (by->copy != NULL && !team->runner.stuck) {
        team->runner.gpu->temp_free(team->runner.stream, by->copy);
    }
    return status;
}

/* Fills in what follows from the call and the plan: numbers of blocks, and the sizes of chunks and padded blocks. */
static by_plan_t describe(mscclpp_team_t *team, const mscclpp_by_plan_t *call)
{
    const mscclpp_plan_file_t *file = call->plan->file;
    by_plan_t by = {.team = team, .call = call, .plan = call->plan, .collective = file->plan->collective};

    by.in_blocks = mscclpp_plans_blocks(team, call->plan, MSCCLPP_PLAN_INPUT);
    by.out_blocks = mscclpp_plans_blocks(team, call->plan, MSCCLPP_PLAN_OUTPUT);
    by.chunk = (call->stride + file->chunks - 1) / file->chunks;
    by.chunk = (by.chunk + file->unit - 1) / file->unit * file->unit;
    by.padded = by.chunk * file->chunks;
    return by;
}

mscclpp_status_t mscclpp_by_plan_prepare(mscclpp_team_t *team, const mscclpp_by_plan_t *call)
{
    const by_plan_t by = describe(team, call);
    bool has_memory;
    mscclpp_status_t status = mscclpp_plans_make_room(team, by.plan, by.chunk, is_always_apart(&by), &has_memory);

    mscclpp_runner_give_stream(&team->runner);
    return status;
}

mscclpp_status_t mscclpp_by_plan(mscclpp_team_t *team, const mscclpp_by_plan_t *call, bool *served_p)
{
    by_plan_t by = describe(team, call);
    mscclpp_status_t status = serve(&by, served_p);

    if (status == MSCCLPP_OK && *served_p) {
        team->last_algorithm = call->plan->file->label;
    }
    return status;
}

/* True if a queued call can use the call's buffers themselves, which peers then must not map. */
static bool is_queued_directly(const by_plan_t *by)
{
    const mscclpp_plan_file_t *file = by->plan->file;

    return !file->shares && !is_always_apart(by) && (file->plan->in_place || (!is_in_place(by) && !file->writes_input));
}

bool mscclpp_by_plan_queues(mscclpp_team_t *team, const mscclpp_by_plan_t *call)
{
    by_plan_t by;

    if (call->plan == NULL) {
        return false;
    }
    by = describe(team, call);
    return mscclpp_plans_queue(by.plan, by.chunk) && (is_queued_directly(&by) || is_dense(&by));
}

mscclpp_status_t mscclpp_by_plan_enqueue(mscclpp_team_t *team, const mscclpp_by_plan_t *call,
                                         mscclpp_gpu_stream_t *stream)
{
    by_plan_t by = describe(team, call);
    mscclpp_status_t status;
    bool cannot_share; /* never set here, as is_queued_directly excludes it */

    by.queue = stream;
    team->last_algorithm = call->plan->file->label;
    if (!is_queued_directly(&by)) {
        return run_apart(&by);
    }
    status = find_buffers(&by, &cannot_share);
    by.peer_in[team->group.rank] = by.in;
    by.peer_out[team->group.rank] = by.out;
    return status == MSCCLPP_OK ? meet_and_launch(&by, call->stride, call->bytes) : status;
}
