/* Starts operations and waits for their end. */
#include <stdlib.h>
#include <string.h>

#include "mca/common/base/clock.h"
#include "mca/common/base/fiber.h"
#include "mca/common/base/log.h"
#include "mca/common/base/mailbox.h"
#include "mca/common/gpu/streams.h"
#include "mca/common/run/runner.h"

/*
 * Polls of the mailbox between two calls of the embedding runtime's progress. They take about as long as such a call,
 * so that on average the end of an operation is noticed only a fraction of a call late.
 */
#define POLLS 512u

/* Polls before the first call of progress, which would delay small operations. Most of these end within the polls. */
#define FIRST_POLLS 4096u

/* Polls between two checks whether a kernel that was rung has left. */
#define MISS_POLLS 32u

/* How long a kernel may take to leave once it was told to, in seconds. */
#define LEAVE_TIME 10.0

void mscclpp_runner_give_stream(mscclpp_runner_t *runner)
{
    /* A stream whose kernel has not ended must not go to another team. It is leaked with the failed team. */
    if (runner->stream != NULL && !runner->stuck && (runner->launches == 0 || mscclpp_runner_has_ended(runner))) {
        mscclpp_stream_put(runner->gpu, runner->device, runner->stream, mscclpp_linger_present(runner));
    }
    runner->stream = NULL;
}

mscclpp_status_t mscclpp_runner_await_stream(mscclpp_runner_t *runner)
{
    mscclpp_status_t status = MSCCLPP_IN_PROGRESS;

    while (mscclpp_fiber_inside() && (status = runner->gpu->stream_query(runner->stream)) == MSCCLPP_IN_PROGRESS) {
        (void)mscclpp_fiber_yield();
    }
    return status < 0 ? status : runner->gpu->stream_sync(runner->stream);
}

/* The wait of a kernel that runs in the caller's thread (the twin). The first failure tells the kernel to leave. */
typedef struct {
    mscclpp_runner_t *runner;
    mscclpp_group_wait_t wait;
    mscclpp_status_t status;
} inline_wait_t;

static void inline_turn(void *context)
{
    inline_wait_t *turn = context;

    if (turn->status == MSCCLPP_OK) {
        mscclpp_runner_t *runner = turn->runner;

        /* This kernel has the function already. Before it continues, this thread may launch kernels that must not. */
        runner->gpu->set_progress(NULL, NULL);
        turn->status = runner->pump != NULL ? runner->pump(runner->pump_context) : MSCCLPP_OK;
        if (turn->status == MSCCLPP_OK) {
            turn->status = mscclpp_group_wait_turn(&turn->wait);
        }
        if (turn->status != MSCCLPP_OK) {
            __atomic_store_n(&turn->runner->mailbox->abort, 1, __ATOMIC_RELAXED);
        }
    }
}

/* Waits for a kernel that was told to leave. If it does not end, the runner is stuck: nothing it uses is freed. */
static void await_leaving(mscclpp_runner_t *runner)
{
    double until = mscclpp_now() + LEAVE_TIME;

    while (!mscclpp_runner_has_ended(runner) && !mscclpp_linger_missed(runner)) {
        mscclpp_status_t status = runner->stream != NULL ? runner->gpu->stream_query(runner->stream) : MSCCLPP_OK;

        if (status < 0 || mscclpp_now() > until) {
            runner->stuck = true;
            return;
        }
        mscclpp_group_progress(runner->group);
    }
}

/* Rings or launches. The twin may run the whole kernel here, in the caller's thread. */
static mscclpp_status_t start(mscclpp_runner_t *runner, const mscclpp_dev_launch_t *launch, const char *what)
{
    const mscclpp_dev_args_t *args = launch->args; /* all arguments begin with the common ones */
    inline_wait_t turn;
    mscclpp_status_t status;
    uint32_t tellers;

    turn.status = MSCCLPP_OK;
    if (runner->group->on_twin) {
        turn.runner = runner;
        mscclpp_group_wait_init(&turn.wait, runner->group, what, args->bytes);
        turn.wait.pumped = runner->pump != NULL;
        runner->gpu->set_progress(inline_turn, &turn);
    }
    status = mscclpp_linger_start(runner, launch, &tellers);
    if (runner->group->on_twin) {
        runner->gpu->set_progress(NULL, NULL);
    }
    if (status != MSCCLPP_OK) {
        return status;
    }
    mscclpp_runner_note_launch(runner, tellers);
    return turn.status;
}

/* The doorbell came too late: the kernel has left without beginning the operation. Starts the operation again. */
static mscclpp_status_t start_again(mscclpp_runner_t *runner, const mscclpp_dev_launch_t *launch, const char *what)
{
    --runner->launches;
    runner->tellers = 1; /* all operations before it have ended, so one block's word is enough */
    return start(runner, launch, what);
}

static mscclpp_status_t await_end(mscclpp_runner_t *runner, const mscclpp_dev_launch_t *launch, const char *what)
{
    const mscclpp_dev_args_t *args = launch->args; /* all arguments begin with the common ones */
    mscclpp_group_wait_t wait;
    const bool spins = !runner->group->on_twin && !mscclpp_fiber_inside();
    mscclpp_status_t status = MSCCLPP_OK;
    uint32_t polls = 0;

    mscclpp_group_wait_init(&wait, runner->group, what, args->bytes);
    wait.pumped = runner->pump != NULL;
    while (!mscclpp_runner_has_ended(runner)) {
        double look = wait.next_check;

        ++polls;
        if (runner->pump != NULL) {
            status = runner->pump(runner->pump_context);
        }
        if (status != MSCCLPP_OK) {
            /* The pump has failed. */
        } else if ((polls % MISS_POLLS == 0 || !spins) && mscclpp_linger_missed(runner)) {
            status = start_again(runner, launch, what);
        } else if ((polls < FIRST_POLLS || polls % POLLS != 0) && spins) {
            continue;
        } else {
            status = mscclpp_group_wait_turn(&wait);
            if (status == MSCCLPP_OK && wait.next_check > look && mscclpp_group_may_ask(&wait)) {
                status = mscclpp_runner_check_kernel(runner, what);
            }
        }
        if (status != MSCCLPP_OK) {
            __atomic_store_n(&runner->mailbox->abort, 1, __ATOMIC_RELAXED);
            await_leaving(runner);
            return status;
        }
    }
    mscclpp_linger_note_end(runner);
    return MSCCLPP_OK;
}

mscclpp_status_t mscclpp_runner_launch(mscclpp_runner_t *runner, mscclpp_gpu_stream_t *stream,
                                       const mscclpp_dev_launch_t *launch, const char *what)
{
    mscclpp_status_t status;

    if (stream != NULL) {
        mscclpp_linger_note_enqueue();
        mscclpp_linger_clear(runner);
        status = runner->gpu->launch(stream, launch);
        if (status == MSCCLPP_OK && !runner->recorded) {
            mscclpp_runner_note_launch(runner, launch->nblocks);
        }
        return status;
    }
    status = start(runner, launch, what);
    if (status != MSCCLPP_OK) {
        return status;
    }
    status = await_end(runner, launch, what);
    return status != MSCCLPP_OK ? status : mscclpp_runner_check_mailbox(runner, what);
}
