/*
 * Serves a call by a plan, in one of two ways. All ranks take the same one.
 *
 * Directly: the plan works on the buffers of the call. If peers use these buffers, the hosts exchange and map them. If
 * the plan works in place and the call does not, the input is first copied to the output.
 *
 * Apart: the plan works on its own memory. The input is copied there, each block to a multiple of the chunk, and the
 * output back. This way serves sizes that chunks do not divide as the plan requires, and buffers that cannot be mapped.
 * It serves plans that would change memory that the call must not change. It also serves all calls between nodes,
 * because proxies reach no other memory.
 */
#include "mca/common/task/by_plan.h"

#include <string.h>

#include "mca/common/base/log.h"
#include "mca/common/team/plans.h"

/* A block has no fewer threads than this, unless the plan asks for fewer: they read the program, too. */
#define BLOCK_THREADS_MIN 128

#define WARP_THREADS 32 /* a block has whole warps */

/* One call, as a plan serves it. */
typedef struct {
    mscclpp_team_t *team;
    const mscclpp_by_plan_t *call;
    mscclpp_team_plan_t *plan;
    mscclpp_plan_collective_t collective;
    uint64_t in_blocks, out_blocks; /* number of blocks, one per rank, in the input and in the output */
    uint64_t chunk_bytes;
    uint64_t padded_bytes;            /* bytes of a block, rounded up to whole chunks */
    char *in, *out;                   /* the memory that the plan works on */
    mscclpp_gpu_stream_t *app_stream; /* the stream in which the call is queued; NULL: the host waits for the call */
    void *input_copy;                 /* a copy of the input, freed at the end; NULL: there is none */
    bool goes_apart;                  /* the call takes the way through the plan's own memory */
    const char *peer_in[MSCCLPP_DEV_MAX_RANKS]; /* by rank: its input as an address here, or, on another node, its place
                                                   there */
    char *peer_out[MSCCLPP_DEV_MAX_RANKS];
} plan_run_t;

/* Returns true if elements have no padding, so that they can be copied as bytes. */
static bool is_dense(const plan_run_t *run)
{
    return run->call->dtype < MSCCLPP_DTYPE_SHORT_INT;
}

/* Takes a stream for the run. A queued call uses the application's stream. */
static mscclpp_status_t ensure_stream(const plan_run_t *run)
{
    return run->app_stream != NULL ? MSCCLPP_OK : mscclpp_runner_take_stream(&run->team->runner);
}

/*
 * Queues a copy in the run's stream, which ensure_stream has provided. Skips a copy of nothing, and a copy onto itself.
 */
static mscclpp_status_t copy(const plan_run_t *run, void *to, const void *from, uint64_t bytes)
{
    const mscclpp_runner_t *runner = &run->team->runner;

    if (to == from || bytes == 0) {
        return MSCCLPP_OK;
    }
    return run->app_stream != NULL ? runner->gpu->put(run->app_stream, to, from, bytes)
                                   : runner->gpu->copy(runner->stream, to, from, bytes);
}

/* Returns where this rank's block begins in a buffer that has one block for each rank. */
static uint64_t offset_of_own_block(const plan_run_t *run, uint64_t stride)
{
    return (uint64_t)run->team->group.oob.rank * stride;
}

/* Returns true if the call works in place. In an all-gather in place, the input is this rank's block of the output. */
static bool is_in_place(const plan_run_t *run)
{
    const mscclpp_by_plan_t *call = run->call;

    return call->in ==
           call->out + (run->collective == MSCCLPP_PLAN_ALLGATHER ? offset_of_own_block(run, call->stride) : 0);
}

/*
 * Copies blocks between two buffers. The distance between blocks (stride) may differ between the two buffers. If it is
 * equal, a single copy is enough, which also copies the bytes between the blocks.
 */
static mscclpp_status_t copy_blocks(const plan_run_t *run, char *to, uint64_t to_stride, const char *from,
                                    uint64_t from_stride, uint64_t blocks)
{
    mscclpp_status_t status = MSCCLPP_OK;

    if (to_stride == from_stride && blocks > 0) {
        return copy(run, to, from, (blocks - 1) * to_stride + run->call->bytes);
    }
    for (uint64_t i = 0; i < blocks && status == MSCCLPP_OK; ++i) {
        status = copy(run, to + i * to_stride, from + i * from_stride, run->call->bytes);
    }
    return status;
}

/*
 * Launches a plan's kernel on ranks of several nodes. A call that the host waits for needs only the launch. A queued
 * call may need more before its launch:
 *
 * 1. A kernel in which the ranks meet, if the size of chunks differs from that of the last launch, or if the flags are
 *    used up.
 * 2. A launch that only clears the plan's memory, and a second meeting. They are needed if the flags are used up, or if
 *    data of the last size could be taken for packets of this one (`mixes_packets`).
 *
 * A graph repeats its launches without the host. So once a launch has been recorded, each later call takes both steps.
 */
static mscclpp_status_t launch_on_nodes(const plan_run_t *run, const mscclpp_dev_launch_t *launch)
{
    mscclpp_team_plan_t *plan = run->plan;
    mscclpp_team_t *team = run->team;
    const bool is_resized = run->chunk_bytes != plan->chunk,
               are_flags_used_up = plan->launches > mscclpp_plans_epoch_limit(team);
    mscclpp_status_t status = MSCCLPP_OK;

    if (run->app_stream != NULL) {
        plan->replayed = plan->replayed || team->runner.is_recording;
        plan->chunk = run->chunk_bytes;
        if (plan->replayed || is_resized || are_flags_used_up) {
            status = mscclpp_fabric_meet(team->fabric, &team->protocol, run->app_stream);
        }
        if (status == MSCCLPP_OK &&
            (plan->replayed || are_flags_used_up || (is_resized && plan->file->mixes_packets))) {
            plan->args.ready = MSCCLPP_DEV_PLAN_ONLY_CLEARS;
            plan->launches = are_flags_used_up ? 1 : plan->launches; /* flags begin again with this call */
            status =
                mscclpp_fabric_run_joined(team->fabric, run->app_stream, launch, run->call->bytes, plan->file->label);
            if (status == MSCCLPP_OK) {
                status = mscclpp_fabric_meet(team->fabric, &team->protocol, run->app_stream);
            }
        }
        plan->args.ready = MSCCLPP_DEV_PLAN_IS_READY;
    }
    /* In a plan of a collective that MPI does not have, a rank may end before all ranks have come. */
    team->group.asks_all = run->app_stream == NULL && !plan->file->only_by_name;
    if (status == MSCCLPP_OK) {
        status = mscclpp_fabric_run_joined(team->fabric, run->app_stream, launch, run->call->bytes, plan->file->label);
    }
    team->group.asks_all = false;
    return status;
}

/*
 * Chooses the kernel, and the number of threads of a block. Takes the wide kernel if the largest step would give each
 * thread of the narrow one much data to move. Ranks may choose different kernels.
 *
 * Takes as many threads as the plan says, or fewer whole warps if these are enough for the largest step. Fewer threads
 * start and meet faster.
 */
static void choose_kernel(const plan_run_t *run, mscclpp_dev_launch_t *launch)
{
    const mscclpp_team_plan_t *plan = run->plan;
    const bool on_twin = run->team->group.on_twin;
    const uint32_t twin_threads = run->team->protocol.twin_threads;
    const uint32_t narrow_threads = on_twin ? twin_threads : MSCCLPP_DEV_MAX_THREADS;
    const uint64_t units = run->chunk_bytes * plan->program.max_chunks / MSCCLPP_DEV_UNIT;
    const uint64_t enough_threads = (units > BLOCK_THREADS_MIN ? units : BLOCK_THREADS_MIN) + WARP_THREADS - 1;
    const bool is_wide = units > (uint64_t)MSCCLPP_DEV_PLAN_NARROW_UNITS * narrow_threads;
    const uint32_t threads = plan->file->plan->threads;
    const uint32_t max_threads = threads < MSCCLPP_DEV_MAX_THREADS ? threads : MSCCLPP_DEV_MAX_THREADS;

    launch->kernel = is_wide ? MSCCLPP_KERNEL_PLAN_WIDE : MSCCLPP_KERNEL_PLAN;
    launch->nthreads = on_twin                        ? twin_threads
                       : enough_threads < max_threads ? (uint32_t)(enough_threads / WARP_THREADS * WARP_THREADS)
                                                      : max_threads;
}

/*
 * Launches the plan's kernel. Each block has `bytes` bytes of data, and blocks are `stride` bytes apart. Waits for the
 * end of the kernel unless the call is queued.
 */
static mscclpp_status_t launch(plan_run_t *run, uint64_t stride, uint64_t bytes)
{
    mscclpp_team_plan_t *plan = run->plan;
    mscclpp_team_t *team = run->team;
    mscclpp_dev_plan_args_t *args = &plan->args;
    mscclpp_dev_launch_t launch = {.nblocks = plan->program.block_count, .args = args};

    mscclpp_runner_fill_args(&team->runner, &args->common);
    args->common.in = run->in;
    args->common.out = run->out;
    args->common.bytes = run->call->bytes;
    args->common.dtype = (uint32_t)run->call->dtype;
    args->common.op = (uint32_t)run->call->op;
    for (int rank = 0; rank < team->group.oob.size; ++rank) {
        args->bases[MSCCLPP_DEV_PLAN_BUFFERS * rank + MSCCLPP_DEV_PLAN_INPUT] = (char *)(uintptr_t)run->peer_in[rank];
        args->bases[MSCCLPP_DEV_PLAN_BUFFERS * rank + MSCCLPP_DEV_PLAN_OUTPUT] = run->peer_out[rank];
    }
    args->chunk = run->chunk_bytes;
    args->packet_gap = MSCCLPP_DEV_PLAN_PACKET_GAP(args);
    args->block_bytes = MSCCLPP_DEV_PLAN_BLOCK_BYTES(args, stride, bytes);
    args->stride = stride;
    /*
     * A lingering kernel receives only this rank's new buffers, so it cannot serve a plan that works on other memory.
     */
    args->lasting = plan->file->shares_buffers || run->goes_apart ? NULL : plan->lasting;
    choose_kernel(run, &launch);
    if (run->app_stream != NULL) {
        args->common.release =
            team->fabric != NULL ? MSCCLPP_DEV_RELEASE_DEVICE : mscclpp_runner_queued_release(&team->runner);
        args->common.epoch_limit = (uint32_t)mscclpp_plans_epoch_limit(team);
    }
    ++plan->launches;
    mscclpp_debug("%s: %s call %llu: %s, %llu bytes, type %u, op %u, chunks of %llu bytes, %u blocks of %u threads%s%s",
                  team->group.oob.label, team->group.collective, (unsigned long long)run->call->call, plan->file->label,
                  (unsigned long long)run->call->bytes, args->common.dtype, args->common.op,
                  (unsigned long long)run->chunk_bytes, launch.nblocks, launch.nthreads,
                  run->goes_apart ? ", by memory of its own" : "", run->app_stream != NULL ? ", queued" : "");
    return team->fabric != NULL ? launch_on_nodes(run, &launch)
                                : mscclpp_runner_launch(&team->runner, run->app_stream, &launch, plan->file->label);
}

/*
 * Launches the plan's kernel once it may start. If the host waits for the call, all ranks meet first, because the
 * kernel must not wait for a late rank. The meeting may take a slot, which is given back here in any case.
 */
static mscclpp_status_t meet_and_launch(plan_run_t *run, uint64_t stride, uint64_t bytes)
{
    mscclpp_status_t status;

    if (run->app_stream != NULL) {
        return launch(run, stride, bytes);
    }
    status = mscclpp_group_meet(&run->team->group, run->call->bytes, run->call->early);

    if (status == MSCCLPP_OK) {
        status = launch(run, stride, bytes);
    }
    mscclpp_group_give_slot(&run->team->group);
    return status;
}

/*
 * Runs the plan on copies of the call's buffers. The plan's own memory must already be large enough. Returns when the
 * output is complete or, in a queued call, when all work is queued.
 */
static mscclpp_status_t run_apart(plan_run_t *run)
{
    const mscclpp_plan_t *definition = run->plan->file->plan;
    const mscclpp_plan_room_t *room = &run->plan->room;
    mscclpp_team_t *team = run->team;
    const mscclpp_by_plan_t *call = run->call;
    uint64_t in_offset, out_offset;
    mscclpp_status_t status;

    run->goes_apart = true;
    for (int rank = 0; rank < team->group.oob.size; ++rank) {
        /* In place, input and output are one buffer. The smaller of the two is this rank's block of the larger one. */
        in_offset = room->in;
        out_offset = definition->in_place ? room->in : room->out;
        if (definition->in_place && run->collective == MSCCLPP_PLAN_ALLGATHER) {
            in_offset += (uint64_t)rank * run->padded_bytes;
        } else if (definition->in_place && run->collective == MSCCLPP_PLAN_REDUCESCATTER) {
            out_offset += (uint64_t)rank * run->padded_bytes;
        }
        run->peer_in[rank] = mscclpp_plans_place(room, rank, in_offset);
        run->peer_out[rank] = mscclpp_plans_place(room, rank, out_offset);
    }
    run->in = (char *)(uintptr_t)run->peer_in[team->group.oob.rank];
    run->out = run->peer_out[team->group.oob.rank];
    status = ensure_stream(run);
    if (status == MSCCLPP_OK) {
        status = copy_blocks(run, run->in, run->padded_bytes, call->in, call->stride, run->in_blocks);
    }
    if (status == MSCCLPP_OK) {
        status = meet_and_launch(run, run->padded_bytes, run->padded_bytes);
    }
    if (status == MSCCLPP_OK) {
        status = ensure_stream(run);
    }
    if (status == MSCCLPP_OK) {
        status = copy_blocks(run, call->out, call->stride, run->out, run->padded_bytes, run->out_blocks);
    }
    return status == MSCCLPP_OK && run->app_stream == NULL ? mscclpp_runner_await_stream(&team->runner) : status;
}

/*
 * Serves the call by a run on copies, with the plan's memory made large enough. *served_p is false, with the buffers
 * unchanged, if there is no memory, or if elements have padding. An error breaks the team.
 */
static mscclpp_status_t serve_apart(plan_run_t *run, bool *served_p)
{
    mscclpp_status_t status;

    *served_p = false;
    if (!is_dense(run)) {
        return MSCCLPP_OK; /* copies would overwrite the padding within elements */
    }
    status = mscclpp_plans_make_room(run->team, run->plan, run->chunk_bytes, true, run->call->bytes, served_p);
    return status == MSCCLPP_OK && *served_p ? run_apart(run) : status;
}

/*
 * Returns true if a plan that is out of place also serves calls in place. This rank's program must allow that, the
 * plan must not write its input, and no peer may use the buffers. Ranks may differ in this. A reduce-scatter never can:
 * MPI has the result at the beginning of the buffer, and plans have it in the rank's own block.
 */
static bool works_in_place(const plan_run_t *run)
{
    const mscclpp_plan_file_t *file = run->plan->file;

    return run->plan->program.works_in_place && !file->writes_input && !file->shares_buffers &&
           run->collective != MSCCLPP_PLAN_REDUCESCATTER;
}

/*
 * Sets the memory that the plan works on. Copies the input if the plan would overwrite it, or if the plan works in
 * place and the call does not. *cannot_share_p becomes true if peers must not use this rank's buffers. The result may
 * differ between ranks, so all ranks vote afterwards on whether they use one another's buffers.
 */
static mscclpp_status_t prepare_buffers(plan_run_t *run, bool *cannot_share_p)
{
    const mscclpp_plan_file_t *file = run->plan->file;
    const mscclpp_by_plan_t *call = run->call;
    const uint64_t input_bytes = run->in_blocks > 0 ? (run->in_blocks - 1) * call->stride + call->bytes : 0;
    mscclpp_team_t *team = run->team;
    mscclpp_status_t status = MSCCLPP_OK;

    run->in = (char *)(uintptr_t)call->in;
    run->out = call->out;
    *cannot_share_p = false;
    if (file->plan->in_place && !is_in_place(run)) {
        /* The plan works in place on the output, so the input is copied there first. */
        run->in = call->out + (run->collective == MSCCLPP_PLAN_ALLGATHER ? offset_of_own_block(run, call->stride) : 0);
        status = ensure_stream(run);
        return status == MSCCLPP_OK ? copy(run, run->in, call->in, input_bytes) : status;
    }
    if (!file->plan->in_place && (is_in_place(run) || file->writes_input) && !works_in_place(run)) {
        /*
         * The plan would overwrite the user's input, or read its own results as input. So it needs a copy of the input,
         * which peers cannot share.
         */
        if (file->shares_buffers) {
            *cannot_share_p = true;
            return MSCCLPP_OK;
        }
        status = ensure_stream(run);
        if (status == MSCCLPP_OK) {
            status = team->runner.gpu->temp_alloc(team->runner.stream, input_bytes, &run->input_copy);
        }
        run->in = run->input_copy;
        return status == MSCCLPP_OK ? copy(run, run->in, call->in, input_bytes) : status;
    }
    return MSCCLPP_OK;
}

/*
 * Returns true if the plan can never work on the call's buffers. Equal on all ranks. There are three cases:
 *
 * - Between nodes, proxies reach only the plan's own memory.
 * - An operation extends past the end of a block that whole chunks do not fill.
 * - In a reduce-scatter in place, MPI and the plan have the result in different places (works_in_place).
 */
static bool is_always_apart(const plan_run_t *run)
{
    const mscclpp_plan_file_t *file = run->plan->file;

    return run->team->fabric != NULL || (file->needs_whole_chunks && run->padded_bytes != run->call->stride) ||
           (file->plan->in_place && run->collective == MSCCLPP_PLAN_REDUCESCATTER);
}

/*
 * Serves the call with mapped buffers, or on copies of them; all ranks choose the same way. *served_p, equal on all
 * ranks, is false if there is no memory, or if the plan's own memory is needed and elements have padding. An error
 * breaks the team.
 */
static mscclpp_status_t serve(plan_run_t *run, bool *served_p)
{
    const mscclpp_plan_file_t *file = run->plan->file;
    mscclpp_team_t *team = run->team;
    bool cannot_share = false, is_mapped = false;
    mscclpp_status_t status;

    if (run->call->early && team->fabric != NULL && is_dense(run) &&
        mscclpp_plans_has_room(team, run->plan, run->chunk_bytes, true)) {
        /*
         * The memory exists already, so mscclpp_plans_make_room could only let the hosts meet because the size of
         * chunks has changed. The ranks of an early call meet before their kernels start anyway.
         */
        *served_p = true;
        run->plan->chunk = run->chunk_bytes;
        return run_apart(run);
    }
    if (is_always_apart(run)) {
        return serve_apart(run, served_p);
    }
    status = mscclpp_plans_make_room(team, run->plan, run->chunk_bytes, false, run->call->bytes, served_p);
    if (status != MSCCLPP_OK || !*served_p) {
        return status;
    }
    status = prepare_buffers(run, &cannot_share);
    if (status == MSCCLPP_OK && file->shares_buffers) {
        status = mscclpp_runner_exchange(&team->runner, run->in, run->out, run->call->bytes, !cannot_share,
                                         run->peer_in, run->peer_out, &is_mapped);
        if (status == MSCCLPP_OK && !is_mapped) {
            return serve_apart(run, served_p);
        }
    }
    run->peer_in[team->group.rank] = run->in;
    run->peer_out[team->group.rank] = run->out;
    if (status == MSCCLPP_OK) {
        status = meet_and_launch(run, run->call->stride, run->call->bytes);
    }
    if (run->input_copy != NULL && !team->runner.stuck) {
        team->runner.gpu->temp_free(team->runner.stream, run->input_copy);
    }
    return status;
}

/*
 * Describes a run of the plan for the call. A chunk is rounded up to whole units, so a padded block may be larger than
 * the call's block.
 */
static plan_run_t describe(mscclpp_team_t *team, const mscclpp_by_plan_t *call)
{
    const mscclpp_plan_file_t *file = call->plan->file;
    plan_run_t run = {.team = team, .call = call, .plan = call->plan, .collective = file->plan->collective};

    run.in_blocks = mscclpp_plans_blocks(team, call->plan, MSCCLPP_PLAN_INPUT);
    run.out_blocks = mscclpp_plans_blocks(team, call->plan, MSCCLPP_PLAN_OUTPUT);
    run.chunk_bytes = (call->stride + file->chunks - 1) / file->chunks;
    run.chunk_bytes = (run.chunk_bytes + file->unit - 1) / file->unit * file->unit;
    run.padded_bytes = run.chunk_bytes * file->chunks;
    return run;
}

mscclpp_status_t mscclpp_by_plan_prepare(mscclpp_team_t *team, const mscclpp_by_plan_t *call)
{
    const plan_run_t run = describe(team, call);
    bool has_memory; /* not needed: without memory, later calls are served without the plan */
    mscclpp_status_t status =
        mscclpp_plans_make_room(team, run.plan, run.chunk_bytes, is_always_apart(&run), call->bytes, &has_memory);

    mscclpp_runner_give_stream(&team->runner);
    return status;
}

mscclpp_status_t mscclpp_by_plan(mscclpp_team_t *team, const mscclpp_by_plan_t *call, bool *served_p)
{
    plan_run_t run = describe(team, call);
    mscclpp_status_t status = serve(&run, served_p);

    if (status == MSCCLPP_OK && *served_p) {
        team->last_algorithm = call->plan->file->label;
    }
    return status;
}

/*
 * Returns true if a queued call can use its buffers directly: no peer uses them, and no memory for a copy is needed. If
 * blocks are not whole chunks, this is equal on all ranks, as the two ways then send different numbers of packets.
 */
static bool is_queued_directly(const plan_run_t *run)
{
    const mscclpp_plan_file_t *file = run->plan->file;

    return !file->shares_buffers && !is_always_apart(run) &&
           (file->plan->in_place || (!run->call->passed_in_place && !file->writes_input) ||
            (run->padded_bytes == run->call->stride && is_dense(run) && works_in_place(run)));
}

bool mscclpp_by_plan_can_enqueue(mscclpp_team_t *team, const mscclpp_by_plan_t *call)
{
    plan_run_t run;

    if (call->plan == NULL) {
        return false;
    }
    run = describe(team, call);
    return mscclpp_plans_can_queue(run.plan, run.chunk_bytes) && (is_queued_directly(&run) || is_dense(&run));
}

/*
 * mscclpp_by_plan_can_enqueue must have returned true for the call. Never waits. Any error breaks the team, which the
 * caller must mark as failed.
 */
mscclpp_status_t mscclpp_by_plan_enqueue(mscclpp_team_t *team, const mscclpp_by_plan_t *call,
                                         mscclpp_gpu_stream_t *stream)
{
    plan_run_t run = describe(team, call);
    mscclpp_status_t status;
    bool cannot_share; /* always false: is_queued_directly excludes plans whose peers use buffers */

    run.app_stream = stream;
    team->last_algorithm = call->plan->file->label;
    if (!is_queued_directly(&run)) {
        return run_apart(&run); /* mscclpp_by_plan_can_enqueue has checked the room and that elements have no padding */
    }
    status = prepare_buffers(&run, &cannot_share);
    run.peer_in[team->group.rank] = run.in;
    run.peer_out[team->group.rank] = run.out;
    return status == MSCCLPP_OK ? meet_and_launch(&run, call->stride, call->bytes) : status;
}
