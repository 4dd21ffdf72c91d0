/* The proxy's life: which thread makes progress on it and when, how operations begin and end, and how it stops. */
#include "mca/common/port/proxy.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/base/log.h"
#include "mca/common/base/mailbox.h"
#include "mca/common/port/internal.h"

static mscclpp_status_t failure_of(const mscclpp_proxy_t *proxy)
{
    return (mscclpp_status_t)__atomic_load_n(&proxy->failure, __ATOMIC_ACQUIRE);
}

/* `until` is a launch's number times this, plus the number of blocks that report its end. */
#define UNTIL_BLOCKS ((uint64_t)256)

/*
 * Records a failure, if it is the first, and tells the kernels to give up. The kernels are told first, so whoever sees
 * the failure knows that they have been. Call with the lock held.
 */
static void fail(mscclpp_proxy_t *proxy, mscclpp_status_t status)
{
    if (failure_of(proxy) == MSCCLPP_OK) {
        __atomic_store_n(&proxy->mailbox->abort, 1, __ATOMIC_RELAXED);
        __atomic_store_n(&proxy->failure, (int)status, __ATOMIC_RELEASE);
    }
}

static bool is_idle(const mscclpp_proxy_t *proxy)
{
    const uint64_t until = __atomic_load_n(&proxy->until, __ATOMIC_ACQUIRE);

    return __atomic_load_n(&proxy->in_flight, __ATOMIC_ACQUIRE) == 0 &&
           mscclpp_mailbox_says(proxy->mailbox, (uint32_t)(until % UNTIL_BLOCKS), until / UNTIL_BLOCKS);
}

static bool has_work(const mscclpp_proxy_t *proxy)
{
    return failure_of(proxy) == MSCCLPP_OK &&
           (__atomic_load_n(&proxy->unsettled, __ATOMIC_ACQUIRE) != 0 || !is_idle(proxy));
}

/*
 * True if a thread of the proxy makes the progress. Changes at most once, from false to true, and other threads may ask
 * at that moment.
 */
static bool is_threaded(const mscclpp_proxy_t *proxy)
{
    return __atomic_load_n(&proxy->threaded, __ATOMIC_ACQUIRE);
}

/* One round, with the lock held. */
static void run_round(mscclpp_proxy_t *proxy, mscclpp_proxy_settle_t settle)
{
    mscclpp_status_t status;

    if (failure_of(proxy) != MSCCLPP_OK) {
        return;
    }
    status = mscclpp_proxy_carry(proxy, settle);
    if (status < 0) {
        fail(proxy, status);
    }
}

/*
 * One round by the thread that makes the progress. Once no operation is in flight, it also hands over to the network
 * what operations left behind.
 */
static void run_regular_round(mscclpp_proxy_t *proxy)
{
    const bool idle = is_idle(proxy);

    run_round(proxy, idle ? MSCCLPP_PROXY_HAND_OVER : MSCCLPP_PROXY_LEAVE);
    if (idle) {
        /*
         * Cleared before the check: the round has seen everything that finished operations had pushed, and a later
         * operation sets it again.
         */
        __atomic_store_n(&proxy->unsettled, 0, __ATOMIC_SEQ_CST);
        if (!mscclpp_proxy_has_left(proxy)) {
            __atomic_store_n(&proxy->unsettled, 1, __ATOMIC_SEQ_CST);
        }
    }
}

/* The proxy's thread: runs rounds while there is work, and sleeps otherwise. */
static void *thread_main(void *argument)
{
    mscclpp_proxy_t *proxy = argument;

    (void)pthread_setname_np(pthread_self(), "mscclpp-proxy");
    pthread_mutex_lock(&proxy->lock);
    while (!proxy->closing) {
        if (!has_work(proxy)) {
            pthread_cond_wait(&proxy->work, &proxy->lock);
            continue;
        }
        run_regular_round(proxy);
        pthread_mutex_unlock(&proxy->lock);
        /* Yields, because another thread would hardly ever get a lock that is released and retaken at once. */
        do {
            sched_yield();
        } while (__atomic_load_n(&proxy->wanted, __ATOMIC_ACQUIRE) != 0);
        pthread_mutex_lock(&proxy->lock);
    }
    pthread_mutex_unlock(&proxy->lock);
    return NULL;
}

/* Starts the proxy's thread with all signals blocked: the application's signals are not for this thread. */
static mscclpp_status_t start_thread(mscclpp_proxy_t *proxy)
{
    sigset_t all, before;
    int error;

    sigfillset(&all);
    error = pthread_sigmask(SIG_SETMASK, &all, &before);
    if (error == 0) {
        error = pthread_create(&proxy->thread, NULL, thread_main, proxy);
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    if (error != 0) {
        errno = error;
        mscclpp_error("%s: cannot start the proxy's thread: %m", proxy->label);
        return MSCCLPP_ERR_SYSTEM;
    }
    return MSCCLPP_OK;
}

mscclpp_status_t mscclpp_proxy_create(const mscclpp_proxy_params_t *params, mscclpp_proxy_t **proxy_p)
{
    mscclpp_proxy_t *proxy = calloc(1, sizeof(*proxy));
    mscclpp_status_t status;

    if (proxy == NULL) {
        mscclpp_error("%s: out of memory for a proxy", params->label);
        return MSCCLPP_ERR_NO_MEMORY;
    }
    proxy->gpu = params->gpu;
    proxy->device = params->device;
    proxy->label = params->label;
    proxy->mailbox = params->mailbox;
    proxy->threaded = strcmp(params->config->proxy, "thread") == 0;
    proxy->failure = MSCCLPP_OK;
    pthread_mutex_init(&proxy->lock, NULL);
    pthread_cond_init(&proxy->work, NULL);
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
    pthread_cond_destroy(&proxy->work);
    pthread_mutex_destroy(&proxy->lock);
    free(proxy);
    return status;
}

void mscclpp_proxy_destroy(mscclpp_proxy_t *proxy)
{
    if (proxy == NULL) {
        return;
    }
    if (is_threaded(proxy)) {
        mscclpp_proxy_lock(proxy);
        proxy->closing = true;
        pthread_cond_signal(&proxy->work);
        mscclpp_proxy_unlock(proxy);
        pthread_join(proxy->thread, NULL);
    }
    mscclpp_proxy_free_channels(proxy);
    mscclpp_fifo_destroy(proxy->fifo);
    pthread_cond_destroy(&proxy->work);
    pthread_mutex_destroy(&proxy->lock);
    free(proxy);
}

void mscclpp_proxy_stop(mscclpp_proxy_t *proxy)
{
    mscclpp_proxy_lock(proxy);
    fail(proxy, MSCCLPP_ERR_REVOKED);
    mscclpp_proxy_unlock(proxy);
}

void mscclpp_proxy_begin(mscclpp_proxy_t *proxy)
{
    if (__atomic_fetch_add(&proxy->in_flight, 1, __ATOMIC_ACQ_REL) == 0) {
        /* Set before the operation can end, so that some round handles what it leaves behind. */
        __atomic_store_n(&proxy->unsettled, 1, __ATOMIC_RELEASE);
        if (is_threaded(proxy)) {
            mscclpp_proxy_lock(proxy);
            pthread_cond_signal(&proxy->work);
            mscclpp_proxy_unlock(proxy);
        }
    }
}

/* Starts the thread if there is none. Call with the lock held. */
static mscclpp_status_t have_thread(mscclpp_proxy_t *proxy)
{
    mscclpp_status_t status = failure_of(proxy);

    if (status == MSCCLPP_OK && !is_threaded(proxy)) {
        status = start_thread(proxy);
        __atomic_store_n(&proxy->threaded, status == MSCCLPP_OK, __ATOMIC_RELEASE);
    }
    return status;
}

mscclpp_status_t mscclpp_proxy_start(mscclpp_proxy_t *proxy)
{
    mscclpp_status_t status;

    mscclpp_proxy_lock(proxy);
    status = have_thread(proxy);
    mscclpp_proxy_unlock(proxy);
    return status;
}

mscclpp_status_t mscclpp_proxy_begin_launch(mscclpp_proxy_t *proxy, uint64_t launch, uint32_t blocks)
{
    mscclpp_status_t status;

    mscclpp_proxy_lock(proxy);
    status = have_thread(proxy);
    if (status == MSCCLPP_OK) {
        /* The order matters, as in mscclpp_proxy_begin. */
        __atomic_store_n(&proxy->unsettled, 1, __ATOMIC_RELEASE);
        __atomic_store_n(&proxy->until, launch * UNTIL_BLOCKS + blocks, __ATOMIC_RELEASE);
        pthread_cond_signal(&proxy->work);
    }
    mscclpp_proxy_unlock(proxy);
    return status;
}

void mscclpp_proxy_end(mscclpp_proxy_t *proxy)
{
    __atomic_fetch_sub(&proxy->in_flight, 1, __ATOMIC_ACQ_REL);
}

mscclpp_status_t mscclpp_proxy_progress(mscclpp_proxy_t *proxy)
{
    mscclpp_status_t status = failure_of(proxy);

    if (status != MSCCLPP_OK || is_threaded(proxy) || !has_work(proxy)) {
        return status;
    }
    /* If another caller holds the lock, it makes the progress. It may be a caller further up this very stack. */
    if (pthread_mutex_trylock(&proxy->lock) != 0) {
        return MSCCLPP_IN_PROGRESS;
    }
    run_regular_round(proxy);
    pthread_mutex_unlock(&proxy->lock);
    status = failure_of(proxy);
    return status != MSCCLPP_OK ? status : has_work(proxy) ? MSCCLPP_IN_PROGRESS : MSCCLPP_OK;
}

/* Runs one round, in both modes, and tells whether all is `done` after it. */
static mscclpp_status_t settle(mscclpp_proxy_t *proxy, mscclpp_proxy_settle_t how,
                               bool (*done)(const mscclpp_proxy_t *proxy))
{
    mscclpp_status_t status;

    mscclpp_proxy_lock(proxy);
    run_round(proxy, how);
    status = failure_of(proxy);
    if (status == MSCCLPP_OK && !done(proxy)) {
        status = MSCCLPP_IN_PROGRESS;
    }
    mscclpp_proxy_unlock(proxy);
    return status;
}

mscclpp_status_t mscclpp_proxy_hand_over(mscclpp_proxy_t *proxy)
{
    return settle(proxy, MSCCLPP_PROXY_HAND_OVER, mscclpp_proxy_has_left);
}

mscclpp_status_t mscclpp_proxy_drain(mscclpp_proxy_t *proxy)
{
    return settle(proxy, MSCCLPP_PROXY_DELIVER, mscclpp_proxy_is_settled);
}
