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
 * Polls of the mailbox between two calls of the embedding runtime's progress. Together they take about as long as one
 * such call. So on average the end of an operation is noticed late by only a fraction of a call.
 */
#define POLLS_PER_TURN 512u

/*
 * Polls before the first call of progress. Most small operations end during these polls, and a call of progress would
 * delay them.
 */
#define POLLS_BEFORE_FIRST_TURN 4096u

/*
 * The polls in each turn of a fiber, and the number of turns with polls. A turn of a fiber is one call of progress. The
 * first turn has no polls, because it belongs to the MPI call that starts the operation, and that call must not wait.
 */
#define FIBER_POLLS_PER_TURN 128u
#define FIBER_POLLING_TURNS 64u

/* Polls between two checks for a missed ring. */
#define POLLS_PER_MISS_CHECK 32u

/* Seconds that a kernel may take to leave after it was told to. */
#define LEAVE_SECONDS 10.0

void mscclpp_runner_give_stream(mscclpp_runner_t *runner)
{
    /*
     * A stream whose kernel has not ended must not go to another team. It is leaked with the failed team. Kernels of
     * queued operations run in streams of the application.
     */
    if (runner->stream != NULL && !runner->stuck &&
        (runner->launches == 0 || runner->serves_queue || mscclpp_runner_has_ended(runner))) {
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
     * While this function runs, this thread may launch other kernels, which must not call it. So it is removed here.
     * The current kernel has its own copy of the pointer.
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
 * reports an error, or if the kernel does not leave within LEAVE_SECONDS. Then nothing that the kernel uses is ever
 * freed; the team warns of that when it ends.
 *
 * If the operation was started by a ring, the runner may have no stream to ask about a kernel that has crashed. The
 * wait then lasts until the time limit. After a missed ring, no kernel has the operation, so the wait ends at once.
 */
static void await_kernel_exit(mscclpp_runner_t *runner)
{
    double deadline = mscclpp_now() + LEAVE_SECONDS;

    while (!mscclpp_runner_has_ended(runner) && !mscclpp_linger_missed(runner)) {
        mscclpp_status_t status = runner->stream != NULL ? runner->gpu->stream_query(runner->stream) : MSCCLPP_OK;

        if (status < 0 || mscclpp_now() > deadline) {
            runner->stuck = true;
            return;
        }
        mscclpp_group_progress(runner->group);
    }
}

/*
 * Rings for the lingering kernel, or launches a kernel. On the twin, the whole kernel may run here, in the caller's
 * thread; then the returned status also includes failures while it ran. After an error of mscclpp_linger_start, no
 * operation has begun.
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
 * Launches a kernel for an operation whose ring was missed. A ring is missed if the lingering kernel left before it saw
 * the doorbell. The missed operation is no longer counted, because no kernel reports its end.
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
 * Does what is due at poll number `polls` of a wait for the end of the operation, and returns the error. Every poll
 * calls the pump. Only certain polls look for a missed ring, make progress, and ask the runtime whether the kernel
 * still runs. `spins` is false if every poll has to do so, because the thread or the processor is needed by others.
 */
static mscclpp_status_t tend_wait(mscclpp_runner_t *runner, const mscclpp_dev_launch_t *launch,
                                  mscclpp_group_wait_t *wait, uint32_t polls, bool spins)
{
    const double check_due = wait->next_check;
    mscclpp_status_t status = runner->pump != NULL ? runner->pump(runner->pump_context) : MSCCLPP_OK;

    if (status != MSCCLPP_OK) {
        return status;
    }
    if ((polls % POLLS_PER_MISS_CHECK == 0 || !spins) && mscclpp_linger_missed(runner)) {
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
 * Takes a captured operation off the runner's count. The runtime calls this function once the graph is gone and the
 * operation has ended, so this graph needs the runner's memory no longer. The count is changed in release order:
 * whoever reads it and frees the memory (mscclpp_runner_is_captured) then comes after the graph's last access.
 */
static void forget_captured(void *context)
{
    mscclpp_runner_t *runner = context;

    (void)__atomic_sub_fetch(&runner->captured, 1, __ATOMIC_RELEASE);
}

/*
 * Drops the mapped buffers of a captured operation, and takes the operation off the runner's count. The runtime calls
 * this function when it would call forget_captured for an operation without mapped buffers.
 */
static void forget_mapped(void *context)
{
    mscclpp_mapped_t *mapped = context;
    mscclpp_runner_t *runner = mapped->runner;

    mscclpp_mapped_drop(mapped);
    forget_captured(runner);
}

/*
 * Keeps the runner's memory, and the mapped buffers if there are any, as long as the graph exists in which the last
 * operation was captured. If the runtime cannot tell when the graph ends, they are never released.
 */
static void keep_for_graph(mscclpp_runner_t *runner, mscclpp_gpu_stream_t *stream, mscclpp_mapped_t *mapped)
{
    /*
     * The operation is counted first, because the runtime may call forget_captured or forget_mapped as soon as it has
     * them.
     */
    (void)__atomic_add_fetch(&runner->captured, 1, __ATOMIC_RELAXED);
    if (mapped != NULL) {
        (void)__atomic_add_fetch(&mapped->users, 1, __ATOMIC_RELAXED);
    }
    if (runner->gpu->retain(stream, mapped != NULL ? forget_mapped : forget_captured,
                            mapped != NULL ? (void *)mapped : runner) != MSCCLPP_OK) {
        mscclpp_debug("%s: the runtime does not tell when a graph ends; the memory of its operations is not freed",
                      runner->group->oob.label);
    }
}

/*
 * Tells a lingering kernel of the device to leave first, because it may hold multiprocessors that the new kernel needs.
 * Does not count an operation as launched that is only recorded in a graph.
 */
mscclpp_status_t mscclpp_runner_launch_mapped(mscclpp_runner_t *runner, mscclpp_gpu_stream_t *stream,
                                              const mscclpp_dev_launch_t *launch, mscclpp_mapped_t *mapped)
{
    mscclpp_status_t status;

    mscclpp_linger_note_enqueue();
    mscclpp_linger_clear(runner);
    status = runner->gpu->launch(stream, launch);
    if (status == MSCCLPP_OK && runner->is_recording) {
        /* The operation does not start now, so it is not counted. */
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
 * Sets both flags that end kernels early: `abort` in the mailbox, which waits read, and `failed` in the scratch, which
 * kernels read when they start.
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
