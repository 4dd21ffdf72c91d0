/* Creates, runs and stops the proxy: which thread makes progress on it and when, and how operations begin and end. */
#include "mca/common/port/proxy.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mca/common/base/clock.h"
#include "mca/common/base/log.h"
#include "mca/common/base/mailbox.h"
#include "mca/common/base/thread.h"
#include "mca/common/port/internal.h"

/* Returns the proxy's first failure, or MSCCLPP_OK. Needs no lock. */
static mscclpp_status_t failure_of(const mscclpp_proxy_t *proxy)
{
    return (mscclpp_status_t)__atomic_load_n(&proxy->failure, __ATOMIC_ACQUIRE);
}

/* `unawaited_launch` is a launch's number times this, plus the number of blocks that report its end, which is less. */
#define LAUNCH_BLOCKS ((uint64_t)256)
_Static_assert(MSCCLPP_DEV_MAX_BLOCKS < LAUNCH_BLOCKS, "the number of blocks fits");

/*
 * While the thread watches, it spins for SPIN_SECONDS after the last trigger. After that it sleeps between two looks at
 * the FIFO: each time for 1 / NAP_PART of the time since the last trigger, and at most for NAP_SECONDS_MAX seconds. So
 * a kernel waits for the thread only for a small part of the time that passed before it pushed.
 */
#define SPIN_SECONDS 200e-6
#define NAP_PART 16
#define NAP_SECONDS_MAX 1e-3

#define NS_PER_SECOND 1000000000

/*
 * Stores the failure, and tells the kernels to give up. Only the first failure is kept. The kernels are told before it
 * is stored, so a thread that sees the failure knows that they have been told. The caller holds the lock.
 */
static void record_failure(mscclpp_proxy_t *proxy, mscclpp_status_t status)
{
    if (failure_of(proxy) == MSCCLPP_OK) {
        __atomic_store_n(&proxy->mailbox->abort, 1, __ATOMIC_RELAXED);
        __atomic_store_n(&proxy->failure, (int)status, __ATOMIC_RELEASE);
    }
}

/*
 * Returns true if no operation is in flight. Launches that no caller waits for count as operations, too. Needs no lock.
 */
static bool is_idle(const mscclpp_proxy_t *proxy)
{
    const uint64_t launch = __atomic_load_n(&proxy->unawaited_launch, __ATOMIC_ACQUIRE);

    return __atomic_load_n(&proxy->in_flight, __ATOMIC_ACQUIRE) == 0 &&
           mscclpp_mailbox_all_ended(proxy->mailbox, (uint32_t)(launch % LAUNCH_BLOCKS), launch / LAUNCH_BLOCKS);
}

/* Returns true while kernels may push at any time (mscclpp_proxy_watch). */
static bool is_watching(const mscclpp_proxy_t *proxy)
{
    return __atomic_load_n(&proxy->is_watching, __ATOMIC_RELAXED);
}

/* Returns true if a round may find something to do. Needs no lock. */
static bool has_work(const mscclpp_proxy_t *proxy)
{
    return failure_of(proxy) == MSCCLPP_OK &&
           (is_watching(proxy) || __atomic_load_n(&proxy->unsettled, __ATOMIC_ACQUIRE) != 0 || !is_idle(proxy));
}

/*
 * Returns the number of seconds since the proxy last had work: a trigger was taken, a channel was busy, or an operation
 * was in flight. If there is work now, stores the current time and returns 0. The caller holds the lock.
 */
static double update_idle_time(mscclpp_proxy_t *proxy)
{
    const double now = mscclpp_now();
    const uint64_t position = mscclpp_fifo_position(proxy->fifo);

    if (position != proxy->seen_position || proxy->busy_count != 0 || !is_idle(proxy)) {
        proxy->seen_position = position;
        proxy->active_at = now;
    }
    return now - proxy->active_at;
}

/* Sleeps until the thread is woken, at most for the time given at NAP_PART. Releases the lock while it sleeps. */
static void nap(mscclpp_proxy_t *proxy, double idle_seconds)
{
    const double pause = idle_seconds / NAP_PART < NAP_SECONDS_MAX ? idle_seconds / NAP_PART : NAP_SECONDS_MAX;
    struct timespec deadline;

    clock_gettime(CLOCK_MONOTONIC, &deadline);
    deadline.tv_nsec += (long)(pause * 1e9);
    deadline.tv_sec += deadline.tv_nsec / NS_PER_SECOND;
    deadline.tv_nsec %= NS_PER_SECOND;
    (void)pthread_cond_timedwait(&proxy->work_comes, &proxy->lock, &deadline);
}

/*
 * Returns true if a thread of the proxy's own drives it. The value changes at most once, from false to true, and other
 * threads may read it at that moment.
 */
static bool is_threaded(const mscclpp_proxy_t *proxy)
{
    return __atomic_load_n(&proxy->is_threaded, __ATOMIC_ACQUIRE);
}

/* Carries out one round. Does nothing if the proxy has failed before. The caller holds the lock. */
static void run_round(mscclpp_proxy_t *proxy, mscclpp_proxy_settle_t settle)
{
    mscclpp_status_t status;

    if (failure_of(proxy) != MSCCLPP_OK) {
        return;
    }
    status = mscclpp_proxy_carry(proxy, settle);
    if (status < 0) {
        record_failure(proxy, status);
    }
}

/*
 * Carries out one round. If no operation is in flight, the round also hands over to the network the transfers that
 * finished operations left behind. `unsettled` then tells whether some transfers are still not handed over. The caller
 * holds the lock.
 */
static void run_regular_round(mscclpp_proxy_t *proxy)
{
    /* While the thread watches, operations that graphs started may be in progress without the host's knowledge. */
    const bool may_hand_over =
        is_idle(proxy) && (!is_watching(proxy) || mscclpp_now() - proxy->active_at > SPIN_SECONDS);

    run_round(proxy, may_hand_over ? MSCCLPP_PROXY_HAND_OVER : MSCCLPP_PROXY_LEAVE);
    if (may_hand_over) {
        /*
         * The word is cleared before the check, because an operation that begins after this point sets it again. The
         * round above has seen everything that finished operations had pushed.
         */
        __atomic_store_n(&proxy->unsettled, 0, __ATOMIC_SEQ_CST);
        if (!mscclpp_proxy_has_left(proxy)) {
            __atomic_store_n(&proxy->unsettled, 1, __ATOMIC_SEQ_CST);
        }
    }
}

/*
 * Runs rounds while there is work, and sleeps otherwise. The thread holds the lock when it looks for work and falls
 * asleep, and a thread that brings work signals under the lock. So no wake-up is lost.
 */
static void *thread_main(void *argument)
{
    mscclpp_proxy_t *proxy = argument;
    double idle_seconds;

    pthread_mutex_lock(&proxy->lock);
    while (!proxy->must_end) {
        if (!has_work(proxy)) {
            pthread_cond_wait(&proxy->work_comes, &proxy->lock);
            continue;
        }
        run_regular_round(proxy);
        idle_seconds = is_watching(proxy) ? update_idle_time(proxy) : 0;
        if (idle_seconds > SPIN_SECONDS) {
            nap(proxy, idle_seconds);
            continue;
        }
        pthread_mutex_unlock(&proxy->lock);
        /*
         * Without the yield, another thread would hardly ever get the lock, because this thread takes it again
         * immediately.
         */
        do {
            sched_yield();
        } while (__atomic_load_n(&proxy->lock_waiters, __ATOMIC_ACQUIRE) != 0);
        pthread_mutex_lock(&proxy->lock);
    }
    pthread_mutex_unlock(&proxy->lock);
    return NULL;
}

/* Starts the proxy's thread. A failure is logged, and nothing is left. */
static mscclpp_status_t start_thread(mscclpp_proxy_t *proxy)
{
    const int error = mscclpp_thread_start(&proxy->thread, "mscclpp-proxy", thread_main, proxy);

    if (error != 0) {
        errno = error;
        mscclpp_error("%s: cannot start the proxy's thread: %m", proxy->label);
        return MSCCLPP_ERR_SYSTEM;
    }
    return MSCCLPP_OK;
}

/* Starts the thread last, because it uses all other parts. After an error nothing is left to free. */
mscclpp_status_t mscclpp_proxy_create(const mscclpp_proxy_params_t *params, mscclpp_proxy_t **proxy_p)
{
    mscclpp_proxy_t *proxy = calloc(1, sizeof(*proxy));
    pthread_condattr_t attributes;
    mscclpp_status_t status;

    if (proxy == NULL) {
        mscclpp_error("%s: out of memory for a proxy", params->label);
        return MSCCLPP_ERR_NO_MEMORY;
    }
    proxy->gpu = params->gpu;
    proxy->device = params->device;
    proxy->label = params->label;
    proxy->mailbox = params->mailbox;
    proxy->is_threaded = strcmp(params->config->proxy, "thread") == 0;
    proxy->failure = MSCCLPP_OK;
    pthread_mutex_init(&proxy->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&proxy->work_comes, &attributes);
    pthread_condattr_destroy(&attributes);
    status = mscclpp_fifo_create(proxy->gpu, proxy->device, (uint64_t)params->config->fifo_size, &proxy->fifo);
    if (status != MSCCLPP_OK) {
        goto err_free;
    }
    if (is_threaded(proxy)) {
        status = start_thread(proxy);
        if (status != MSCCLPP_OK) {
            goto err_fifo_destroy;
        }
    }
    *proxy_p = proxy;
    return MSCCLPP_OK;

err_fifo_destroy:
    mscclpp_fifo_destroy(proxy->fifo);
err_free:
    pthread_cond_destroy(&proxy->work_comes);
    pthread_mutex_destroy(&proxy->lock);
    free(proxy);
    return status;
}

/* Ends the thread first, because it uses all other parts. */
void mscclpp_proxy_destroy(mscclpp_proxy_t *proxy)
{
    if (proxy == NULL) {
        return;
    }
    if (is_threaded(proxy)) {
        mscclpp_proxy_lock(proxy);
        proxy->must_end = true;
        pthread_cond_signal(&proxy->work_comes);
        mscclpp_proxy_unlock(proxy);
        pthread_join(proxy->thread, NULL);
    }
    mscclpp_proxy_free_channels(proxy);
    mscclpp_fifo_destroy(proxy->fifo);
    pthread_cond_destroy(&proxy->work_comes);
    pthread_mutex_destroy(&proxy->lock);
    free(proxy);
}

void mscclpp_proxy_stop(mscclpp_proxy_t *proxy)
{
    mscclpp_proxy_lock(proxy);
    record_failure(proxy, MSCCLPP_ERR_REVOKED);
    mscclpp_proxy_unlock(proxy);
}

/* Only the first operation has to wake the thread: the thread does not sleep while other operations are in flight. */
void mscclpp_proxy_begin(mscclpp_proxy_t *proxy)
{
    if (__atomic_fetch_add(&proxy->in_flight, 1, __ATOMIC_ACQ_REL) == 0) {
        /*
         * This word is set before the operation can end, so that a later round handles the transfers that the operation
         * leaves behind.
         */
        __atomic_store_n(&proxy->unsettled, 1, __ATOMIC_RELEASE);
        if (is_threaded(proxy)) {
            mscclpp_proxy_lock(proxy);
            pthread_cond_signal(&proxy->work_comes);
            mscclpp_proxy_unlock(proxy);
        }
    }
}

/* Starts the proxy's thread, if it does not run yet. The caller holds the lock. */
static mscclpp_status_t ensure_thread(mscclpp_proxy_t *proxy)
{
    mscclpp_status_t status = failure_of(proxy);

    if (status == MSCCLPP_OK && !is_threaded(proxy)) {
        status = start_thread(proxy);
        __atomic_store_n(&proxy->is_threaded, status == MSCCLPP_OK, __ATOMIC_RELEASE);
    }
    return status;
}

mscclpp_status_t mscclpp_proxy_start(mscclpp_proxy_t *proxy)
{
    mscclpp_status_t status;

    mscclpp_proxy_lock(proxy);
    status = ensure_thread(proxy);
    mscclpp_proxy_unlock(proxy);
    return status;
}

/* Needs the proxy's thread, because no caller waits for the launch's end, or makes progress while it runs. */
mscclpp_status_t mscclpp_proxy_begin_launch(mscclpp_proxy_t *proxy, uint64_t launch, uint32_t blocks)
{
    mscclpp_status_t status;

    mscclpp_proxy_lock(proxy);
    status = ensure_thread(proxy);
    if (status == MSCCLPP_OK) {
        /* Set before the launch can end, so that a later round handles the transfers that the launch leaves behind. */
        __atomic_store_n(&proxy->unsettled, 1, __ATOMIC_RELEASE);
        __atomic_store_n(&proxy->unawaited_launch, launch * LAUNCH_BLOCKS + blocks, __ATOMIC_RELEASE);
        proxy->active_at = mscclpp_now();
        pthread_cond_signal(&proxy->work_comes);
    }
    mscclpp_proxy_unlock(proxy);
    return status;
}

mscclpp_status_t mscclpp_proxy_watch(mscclpp_proxy_t *proxy)
{
    mscclpp_status_t status;

    mscclpp_proxy_lock(proxy);
    status = ensure_thread(proxy);
    if (status == MSCCLPP_OK) {
        __atomic_store_n(&proxy->is_watching, true, __ATOMIC_RELAXED);
        proxy->active_at = mscclpp_now();
        pthread_cond_signal(&proxy->work_comes);
    }
    mscclpp_proxy_unlock(proxy);
    return status;
}

void mscclpp_proxy_end(mscclpp_proxy_t *proxy)
{
    __atomic_fetch_sub(&proxy->in_flight, 1, __ATOMIC_ACQ_REL);
}

/* Runs a round only if neither a thread of the proxy nor another caller makes the progress. */
mscclpp_status_t mscclpp_proxy_progress(mscclpp_proxy_t *proxy)
{
    mscclpp_status_t status = failure_of(proxy);

    if (status != MSCCLPP_OK || is_threaded(proxy) || !has_work(proxy)) {
        return status;
    }
    /* If another caller holds the lock, that caller makes the progress. It may even be an outer call of this thread. */
    if (pthread_mutex_trylock(&proxy->lock) != 0) {
        return MSCCLPP_IN_PROGRESS;
    }
    run_regular_round(proxy);
    pthread_mutex_unlock(&proxy->lock);
    status = failure_of(proxy);
    return status != MSCCLPP_OK ? status : has_work(proxy) ? MSCCLPP_IN_PROGRESS : MSCCLPP_OK;
}

/*
 * Runs one round, whether or not the proxy has a thread; waits for the lock first. Returns MSCCLPP_OK if nothing is
 * left by `is_done`, MSCCLPP_IN_PROGRESS if something is, or the proxy's failure.
 */
static mscclpp_status_t run_settling_round(mscclpp_proxy_t *proxy, mscclpp_proxy_settle_t settle,
                                           bool (*is_done)(const mscclpp_proxy_t *proxy))
{
    mscclpp_status_t status;

    mscclpp_proxy_lock(proxy);
    run_round(proxy, settle);
    status = failure_of(proxy);
    if (status == MSCCLPP_OK && !is_done(proxy)) {
        status = MSCCLPP_IN_PROGRESS;
    }
    mscclpp_proxy_unlock(proxy);
    return status;
}

mscclpp_status_t mscclpp_proxy_hand_over(mscclpp_proxy_t *proxy)
{
    return run_settling_round(proxy, MSCCLPP_PROXY_HAND_OVER, mscclpp_proxy_has_left);
}

mscclpp_status_t mscclpp_proxy_drain(mscclpp_proxy_t *proxy)
{
    return run_settling_round(proxy, MSCCLPP_PROXY_DELIVER, mscclpp_proxy_is_settled);
}
