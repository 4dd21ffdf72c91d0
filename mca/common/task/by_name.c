#include "mca/common/task/by_name.h"

#include "mca/common/base/log.h"
#include "mca/common/task/by_plan.h"
#include "mca/common/team/grow.h"
#include "mca/common/team/plans.h"
#include "mca/common/team/queue.h"

/*
 * Describes a run of a plan that a program names. Each chunk of the program's buffers is a block. If `count` is 0, the
 * sizes in the result are not valid, but then the caller does not run the plan.
 */
static mscclpp_by_plan_t describe(const mscclpp_team_t *team, mscclpp_team_plan_t *plan,
                                  const mscclpp_by_name_args_t *args)
{
    const uint64_t extent = mscclpp_dev_dtype_extent(args->dtype);
    mscclpp_by_plan_t call = {.plan = plan,
                              .in = args->in,
                              .out = args->out,
                              .bytes = (args->count - 1) * extent + mscclpp_dev_dtype_true_extent(args->dtype),
                              .stride = args->count * extent,
                              .dtype = args->dtype,
                              .op = args->op,
                              .call = args->call};

    /* All ranks exchange two buffers that peers may map. A rank that has only one of them passes it twice. */
    if (mscclpp_plans_blocks(team, plan, MSCCLPP_PLAN_INPUT) == 0) {
        call.in = call.out;
    } else if (mscclpp_plans_blocks(team, plan, MSCCLPP_PLAN_OUTPUT) == 0) {
        call.out = (char *)(uintptr_t)call.in;
    }
    return call;
}

/* A buffer of the program, and the device memory in its place if kernels cannot access it. */
typedef struct {
    void *user_memory;
    void *stand_in;  /* NULL: the buffer itself is used */
    uint64_t length; /* bytes; 0: the plan does not use the buffer on this rank */
} buffer_t;

/*
 * If kernels cannot access the buffer, replaces it by a copy in device memory. `restore` frees the copy, also after an
 * error. An output is copied, too, so that the bytes that the plan does not write are kept.
 */
static mscclpp_status_t replace_far_buffer(mscclpp_runner_t *runner, buffer_t *buffer)
{
    mscclpp_reach_t reach = MSCCLPP_REACH_HOME;
    mscclpp_status_t status =
        buffer->length > 0 ? runner->gpu->reach(runner->device, buffer->user_memory, 0, &reach) : MSCCLPP_OK;

    if (status != MSCCLPP_OK || reach != MSCCLPP_REACH_NONE) {
        return status;
    }
    status = mscclpp_runner_take_stream(runner);
    if (status == MSCCLPP_OK) {
        status = runner->gpu->temp_alloc(runner->stream, buffer->length, &buffer->stand_in);
    }
    return status == MSCCLPP_OK
               ? runner->gpu->copy(runner->stream, buffer->stand_in, buffer->user_memory, buffer->length)
               : status;
}

/* Returns the address that the plan works on: the stand-in's, if there is one, or the buffer's. */
static char *kernel_address(const buffer_t *buffer)
{
    return buffer->stand_in != NULL ? buffer->stand_in : buffer->user_memory;
}

/*
 * Frees the stand-ins, unless a kernel that did not end may still use them. If `status` is MSCCLPP_OK, first copies the
 * output home, and waits for that. Returns `status`, or the first error.
 */
static mscclpp_status_t restore(mscclpp_runner_t *runner, buffer_t *in, buffer_t *out, mscclpp_status_t status)
{
    if (runner->stuck) {
        return status;
    }
    if (status == MSCCLPP_OK && out->stand_in != NULL) {
        status = runner->gpu->copy(runner->stream, out->user_memory, out->stand_in, out->length);
        status = status == MSCCLPP_OK ? mscclpp_runner_await_stream(runner) : status;
    }
    if (out->stand_in != NULL) {
        runner->gpu->temp_free(runner->stream, out->stand_in);
    }
    if (in->stand_in != NULL) {
        runner->gpu->temp_free(runner->stream, in->stand_in);
    }
    return status;
}

/*
 * Runs the plan, with stand-ins for buffers that kernels cannot access. *served_p is false, on all ranks, if some rank
 * has no memory for the plan. The peers are not told of stand-ins. If the plan shares buffers, peers find that they
 * cannot map a stand-in, and all ranks take the plan's own memory.
 */
static mscclpp_status_t run(mscclpp_team_t *team, mscclpp_by_plan_t *call, bool *served_p)
{
    const uint64_t in_chunks = mscclpp_plans_blocks(team, call->plan, MSCCLPP_PLAN_INPUT),
                   out_chunks = mscclpp_plans_blocks(team, call->plan, MSCCLPP_PLAN_OUTPUT);
    const bool in_place = call->in == call->out;
    buffer_t in = {.user_memory = (void *)(uintptr_t)call->in, .length = in_place ? 0 : in_chunks * call->stride};
    buffer_t out = {.user_memory = call->out,
                    .length = (in_place && in_chunks > out_chunks ? in_chunks : out_chunks) * call->stride};
    mscclpp_status_t status = replace_far_buffer(&team->runner, &out);

    if (status == MSCCLPP_OK) {
        status = replace_far_buffer(&team->runner, &in);
    }
    if (status == MSCCLPP_OK) {
        call->out = kernel_address(&out);
        call->in = in_place ? call->out : kernel_address(&in);
        status = mscclpp_by_plan(team, call, served_p);
    }
    return restore(&team->runner, &in, &out, status);
}

mscclpp_status_t mscclpp_by_name(mscclpp_team_t *team, const mscclpp_by_name_args_t *args)
{
    mscclpp_team_plan_t *plan = mscclpp_plans_find(team, args->name, args->op);
    mscclpp_by_plan_t call;
    mscclpp_status_t status;
    bool is_served = true;

    team->group.call = args->call;
    team->group.collective = "plan";
    if (team->group.broken) {
        return mscclpp_team_refuse_call(team, args->call);
    }
    /*
     * The conditions are equal on all ranks, so all of them refuse the call. Types with padding cannot be copied as
     * bytes.
     */
    if (plan == NULL || !mscclpp_dev_supports(args->dtype, args->op, team->group.on_twin) ||
        args->dtype >= MSCCLPP_DTYPE_SHORT_INT) {
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    mscclpp_linger_note_call(&team->runner);
    /* An earlier enqueued call may have failed without anyone waiting for it. */
    status = mscclpp_team_check_kernels(team);
    if (status != MSCCLPP_OK) {
        return mscclpp_team_fail(team, status);
    }
    call = describe(team, plan, args);
    team->group.call_args = mscclpp_board_pack_args(MSCCLPP_COLL_LAST, 0, call.bytes, args->dtype, args->op);
    mscclpp_team_announce(team, args->call, MSCCLPP_CALL_DEVICE);
    mscclpp_runner_release_mappings(&team->runner, false);
    status = mscclpp_team_enter(team);
    if (status == MSCCLPP_OK && args->count > 0) {
        status = run(team, &call, &is_served);
    }
    mscclpp_team_leave(team);
    mscclpp_runner_release_mappings(&team->runner, false);
    mscclpp_runner_give_stream(&team->runner);
    /* Peers may have started, so the call can no longer be refused (MSCCLPP_ERR_NOT_SUPPORTED). */
    if (status != MSCCLPP_OK) {
        return mscclpp_team_fail(team, status == MSCCLPP_ERR_NOT_SUPPORTED ? MSCCLPP_ERR_DEVICE : status);
    }
    return is_served ? MSCCLPP_OK : MSCCLPP_ERR_NO_MEMORY;
}
