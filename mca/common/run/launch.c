/*
 * Starts operations on the device and waits for their end. An operation is one collective call's work on the device: a
 * kernel that is launched, or a request to a lingering kernel.
 */
#include <stdlib.h>
#include <string.h>

#include "mca/common/base/clock.h"
#include "mca/common/base/fiber.h"
#include "mca/common/base/log.h"
#include "mca/common/base/mailbox.h"
#include "mca/common/gpu/streams.h"
#include "mca/common/run/runner.h"

/*
 * Polls of the mailbox between two calls of the embedding runtime's progress. The polls together take about as long as
 * one call of progress, so on average the host notices the end of an operation only a fraction of a call late.
 */
#define POLLS_PER_TURN 512u

/*
 * Polls before the first call of progress. Most small operations end during these polls. A call of progress would make
 * the host notice the end late.
 */
#define POLLS_BEFORE_FIRST_TURN 4096u

/*
 * The polls in each turn of a fiber, and the number of turns with polls. A turn of a fiber is one call of progress.
 * There are no polls before the first turn, because they would delay the MPI call that starts the operation.
 */
#define FIBER_POLLS_PER_TURN 128u
#define FIBER_POLLING_TURNS 64u

/* Polls between two checks for a missed ring. */
#define POLLS_PER_MISS_CHECK 32u

/* Seconds that a kernel may take to leave after the host has told it to leave. */
#define LEAVE_SECONDS 10.0

void mscclpp_runner_give_stream(mscclpp_runner_t *runner)
{
    /*
     * A stream whose kernel has not ended must not go to another team, so it is leaked with the failed team. Kernels of
     * queued operations do not matter here, because they run in streams of the application.
     */
    if (runner->stream != NULL && !runner->stuck &&
        (runner->launches == 0 || runner->serves_queue || mscclpp_runner_has_ended(runner))) {
        mscclpp_stream_put(runner->gpu, runner->device, runner->stream, mscclpp_linger_is_present(runner));
    }
    runner->stream = NULL;
}

mscclpp_status_t mscclpp_runner_await_stream(mscclpp_runner_t *runner)
{
    while (mscclpp_fiber_inside()) {
        const mscclpp_status_t status = runner->gpu->stream_query(runner->stream);

        if (status < 0) {
            return status;
        }
        if (status != MSCCLPP_IN_PROGRESS) {
            break;
        }
        (void)mscclpp_fiber_yield();
    }
    return runner->gpu->stream_sync(runner->stream);
}

/* The wait for a kernel that the calling thread itself runs, on the twin. */
typedef struct {
    mscclpp_runner_t *runner;
    mscclpp_group_wait_t wait;
    mscclpp_status_t status; /* the first failure; MSCCLPP_OK: none so far */
} inline_wait_t;

/*
 * Takes one turn of the wait while the calling thread itself runs the kernel. The kernel calls this function from time
 * to time, with an inline_wait_t as `context`, because no other thread makes progress meanwhile. After the first
 * failure it does nothing: the kernel sees `abort` and leaves.
 */
static void take_inline_turn(void *context)
{
    inline_wait_t *inline_wait = context;
    mscclpp_runner_t *runner = inline_wait->runner;

    if (inline_wait->status != MSCCLPP_OK) {
        return;
    }
    /*
     * The function is removed before it makes progress, because progress may launch other kernels in this thread, and
     * those must not call it. The current kernel has its own copy of the pointer.
     */
    runner->gpu->set_progress(NULL, NULL);
    inline_wait->status = runner->pump != NULL ? runner->pump(runner->pump_context) : MSCCLPP_OK;
    if (inline_wait->status == MSCCLPP_OK) {
        inline_wait->status = mscclpp_group_wait_turn(&inline_wait->wait);
    }
    if (inline_wait->status != MSCCLPP_OK) {
        __atomic_store_n(&runner->mailbox->abort, 1, __ATOMIC_RELAXED);
    }
}

/*
 * Waits until the operation has ended, after its kernel was told to leave. Marks the runner as stuck if the runtime
 * reports an error, or if the kernel does not leave within LEAVE_SECONDS. Nothing that the kernel of a stuck runner
 * uses is ever freed; the team warns of the leak when it ends.
 *
 * If the operation was started by a ring, the runner may have no stream to ask about a kernel that has crashed. The
 * wait then lasts until the time limit. After a missed ring, no kernel has the operation, so the wait ends at once.
 */
static void await_kernel_exit(mscclpp_runner_t *runner)
{
    double deadline = mscclpp_now() + LEAVE_SECONDS;

    while (!mscclpp_runner_has_ended(runner) && !mscclpp_linger_has_missed(runner)) {
        mscclpp_status_t status = runner->stream != NULL ? runner->gpu->stream_query(runner->stream) : MSCCLPP_OK;

        if (status < 0 || mscclpp_now() > deadline) {
            runner->stuck = true;
            return;
        }
        mscclpp_group_progress(runner->group);
    }
}

/*
 * Rings the lingering kernel, or launches a kernel, and counts the operation. Returns the error of the start, after
 * which no operation has begun. On the twin, the whole kernel may run in the caller's thread during the start. Then
 * also returns failures that the thread has noticed meanwhile; such an operation is counted.
 */
static mscclpp_status_t start_operation(mscclpp_runner_t *runner, const mscclpp_dev_launch_t *launch,
                                        const char *operation_name)
{
    const mscclpp_dev_args_t *args = launch->args; /* all arguments begin with the common ones */
    inline_wait_t inline_wait;
    mscclpp_status_t status;
    uint32_t reporting_blocks;

    inline_wait.status = MSCCLPP_OK;
    if (runner->group->on_twin) {
        inline_wait.runner = runner;
        mscclpp_group_wait_init(&inline_wait.wait, runner->group, operation_name, args->bytes);
        inline_wait.wait.is_pumped = runner->pump != NULL;
        runner->gpu->set_progress(take_inline_turn, &inline_wait);
    }
    status = mscclpp_linger_start(runner, launch, &reporting_blocks);
    if (runner->group->on_twin) {
        runner->gpu->set_progress(NULL, NULL);
        mscclpp_group_wait_end(&inline_wait.wait);
    }
    if (status != MSCCLPP_OK) {
        return status;
    }
    mscclpp_runner_note_launch(runner, reporting_blocks);
    return inline_wait.status;
}

/*
 * Starts an operation again after a missed ring: the lingering kernel has left without seeing the doorbell. Takes the
 * missed operation out of the count first, because no kernel reports its end.
 */
static mscclpp_status_t restart_operation(mscclpp_runner_t *runner, const mscclpp_dev_launch_t *launch,
                                          const char *operation_name)
{
    --runner->launches;
    runner->reporting_blocks = 1; /* all earlier operations have ended, so it is enough that one block reports */
    return start_operation(runner, launch, operation_name);
}

/*
 * Polls the mailbox after turn number `turns` of a wait in a fiber. The application may be waiting for this call, and
 * polls notice the end of a small call sooner than further turns do.
 */
static void poll_in_fiber(const mscclpp_runner_t *runner, uint32_t turns)
{
    uint32_t polls = turns <= FIBER_POLLING_TURNS ? FIBER_POLLS_PER_TURN : 0;

    while (polls > 0 && !mscclpp_runner_has_ended(runner)) {
        --polls;
    }
}

/*
 * Carries out poll number `polls` of a wait for the end of the operation. Returns the first error. Every poll calls the
 * pump. If the wait spins, only certain polls look for a missed ring, make progress, and ask the runtime whether the
 * kernel still runs. Without `spins`, every poll does, because others need the thread or the processor.
 */
static mscclpp_status_t tend_wait(mscclpp_runner_t *runner, const mscclpp_dev_launch_t *launch,
                                  mscclpp_group_wait_t *wait, uint32_t polls, bool spins)
{
    const double check_due = wait->next_check;
    mscclpp_status_t status = runner->pump != NULL ? runner->pump(runner->pump_context) : MSCCLPP_OK;

    if (status != MSCCLPP_OK) {
        return status;
    }
    if ((polls % POLLS_PER_MISS_CHECK == 0 || !spins) && mscclpp_linger_has_missed(runner)) {
        return restart_operation(runner, launch, wait->event_name);
    }
    if (spins && (polls < POLLS_BEFORE_FIRST_TURN || polls % POLLS_PER_TURN != 0)) {
        return MSCCLPP_OK;
    }
    status = mscclpp_group_wait_turn(wait);
    if (status == MSCCLPP_OK && !spins && !runner->group->on_twin && !mscclpp_fiber_is_apart()) {
        poll_in_fiber(runner, polls);
    }
    /* The runtime is asked only after a turn that has made one of its rare checks, because asking is slow. */
    if (status == MSCCLPP_OK && wait->next_check > check_due && mscclpp_group_may_ask(wait)) {
        status = mscclpp_runner_check_kernel(runner, wait->event_name);
    }
    return status;
}

/*
 * Waits for the end of the operation. If anything fails in the meantime, tells the kernel to leave, waits for that, and
 * returns the error.
 *
 * The wait spins on the mailbox. On the twin it does not spin, because the kernel's threads need the processor. In a
 * fiber it spins only briefly, because other fibers need the thread.
 */
static mscclpp_status_t await_end(mscclpp_runner_t *runner, const mscclpp_dev_launch_t *launch,
                                  const char *operation_name)
{
    const mscclpp_dev_args_t *args = launch->args; /* all arguments begin with the common ones */
    const bool spins = !runner->group->on_twin && !mscclpp_fiber_inside();
    mscclpp_group_wait_t wait;
    uint32_t polls = 0;

    mscclpp_group_wait_init(&wait, runner->group, operation_name, args->bytes);
    wait.is_pumped = runner->pump != NULL;
    while (!mscclpp_runner_has_ended(runner)) {
        const mscclpp_status_t status = tend_wait(runner, launch, &wait, ++polls, spins);

        if (status != MSCCLPP_OK) {
            __atomic_store_n(&runner->mailbox->abort, 1, __ATOMIC_RELAXED);
            await_kernel_exit(runner);
            return status;
        }
    }
    mscclpp_group_wait_end(&wait);
    mscclpp_linger_note_end(runner);
    return MSCCLPP_OK;
}

/*
 * Removes a captured operation from the runner's count. The runtime calls this function once the graph is gone and the
 * operation has ended, so the graph no longer needs the runner's memory. The decrement releases: a thread that acquires
 * the count (mscclpp_runner_is_captured) may free the memory after the graph's last access.
 */
static void forget_captured(void *context)
{
    mscclpp_runner_t *runner = context;

    (void)__atomic_sub_fetch(&runner->captured, 1, __ATOMIC_RELEASE);
}

/*
 * Drops the mapped buffers of a captured operation, and removes the operation from the runner's count. The runtime
 * calls this function in place of forget_captured for operations with mapped buffers.
 */
static void forget_mapped(void *context)
{
    mscclpp_mapped_t *mapped = context;
    mscclpp_runner_t *runner = mapped->runner;

    mscclpp_mapped_drop(mapped);
    forget_captured(runner);
}

/*
 * Keeps the runner's memory and the mapped buffers (`mapped`; NULL: none) as long as the graph exists in which the last
 * operation was captured. Keeps them for ever if the runtime cannot tell when the graph ends.
 */
static void keep_for_graph(mscclpp_runner_t *runner, mscclpp_gpu_stream_t *stream, mscclpp_mapped_t *mapped)
{
    void (*const forget)(void *) = mapped != NULL ? forget_mapped : forget_captured;
    void *const context = mapped != NULL ? (void *)mapped : runner;

    /* The operation is counted first, because the runtime may call `forget` as soon as it has the function. */
    (void)__atomic_add_fetch(&runner->captured, 1, __ATOMIC_RELAXED);
    if (mapped != NULL) {
        (void)__atomic_add_fetch(&mapped->users, 1, __ATOMIC_RELAXED);
    }
    if (runner->gpu->retain(stream, forget, context) != MSCCLPP_OK) {
        mscclpp_debug("%s: the runtime does not tell when a graph ends; the memory of its operations is not freed",
                      runner->group->oob.label);
    }
}

/*
 * First tells a lingering kernel of the device to leave, because it may hold multiprocessors that the new kernel needs.
 */
mscclpp_status_t mscclpp_runner_launch_mapped(mscclpp_runner_t *runner, mscclpp_gpu_stream_t *stream,
                                              const mscclpp_dev_launch_t *launch, mscclpp_mapped_t *mapped)
{
    mscclpp_status_t status;

    mscclpp_linger_note_enqueue();
    mscclpp_linger_clear(runner);
    status = runner->gpu->launch(stream, launch);
    if (status == MSCCLPP_OK && runner->is_recording) {
        /* A recorded operation does not start now, so it is not counted as launched. */
        keep_for_graph(runner, stream, mapped);
    } else if (status == MSCCLPP_OK) {
        mscclpp_runner_note_launch(runner, launch->nblocks);
    }
    return status;
}

/* The mailbox is checked last, because a kernel that gives up also reports its end. */
mscclpp_status_t mscclpp_runner_launch(mscclpp_runner_t *runner, mscclpp_gpu_stream_t *stream,
                                       const mscclpp_dev_launch_t *launch, const char *operation_name)
{
    mscclpp_status_t status;

    if (stream != NULL) {
        return mscclpp_runner_launch_mapped(runner, stream, launch, NULL);
    }
    status = start_operation(runner, launch, operation_name);
    mscclpp_fiber_relax();
    if (status != MSCCLPP_OK) {
        return status;
    }
    status = await_end(runner, launch, operation_name);
    return status != MSCCLPP_OK ? status : mscclpp_runner_check_mailbox(runner, operation_name);
}

/*
 * Sets both flags that end kernels early: `abort` in the mailbox, which waiting kernels read, and `failed` in the
 * scratch, which kernels read when they start. Returns the error of the copy into the scratch.
 */
mscclpp_status_t mscclpp_runner_disable(mscclpp_runner_t *runner, char *scratch, const mscclpp_layout_t *layout)
{
    static const uint64_t failed = 1; /* a kernel that gives up writes this; later kernels see it and end at once */
    mscclpp_dev_state_t *state = (mscclpp_dev_state_t *)(void *)(scratch + layout->state_offset);
    mscclpp_status_t status = mscclpp_runner_take_stream(runner);

    __atomic_store_n(&runner->mailbox->abort, 1, __ATOMIC_RELAXED);
    if (status == MSCCLPP_OK) {
        status = runner->gpu->copy(runner->stream, &state->failed, &failed, sizeof(failed));
    }
    if (status == MSCCLPP_OK) {
        status = runner->gpu->stream_sync(runner->stream);
    }
    mscclpp_runner_give_stream(runner);
    return status;
}
