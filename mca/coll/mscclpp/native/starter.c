/* The starter's thread: when it looks for calls, and when it spins, naps or sleeps. */
#include "mca/coll/mscclpp/native/starter.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "mca/common/base/clock.h"
#include "mca/common/base/log.h"
#include "mca/common/base/thread.h"

/*
 * The thread spins for SPIN_SECONDS after it has been woken or has continued a call. After that it naps between its
 * looks. A nap lasts 1 / NAP_PART of the time since then, and at most NAP_MAX seconds. So the delay of a kernel is
 * small compared to the time that its rank has waited for the others.
 */
#define SPIN_SECONDS 200e-6
#define NAP_PART 16
#define NAP_MAX_SECONDS 1e-3

#define NS_PER_SECOND 1000000000

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed; /* with the monotonic clock */
static pthread_t thread;
static bool has_thread;
static bool is_closing;
static atomic_bool was_made;  /* the thread has been made, or could not be made and is not tried again */
static atomic_bool is_asleep; /* the thread waits to be woken */
static atomic_uint wakings;   /* number of calls of mca_coll_mscclpp_starter_wake */
static mca_coll_mscclpp_starter_look_t (*look_for_calls)(void);

/* Naps after `idle_seconds` without a call to continue. Call with the lock held. */
static void nap(double idle_seconds)
{
    const double pause = idle_seconds / NAP_PART < NAP_MAX_SECONDS ? idle_seconds / NAP_PART : NAP_MAX_SECONDS;
    struct timespec deadline;

    clock_gettime(CLOCK_MONOTONIC, &deadline);
    deadline.tv_nsec += (long)(pause * NS_PER_SECOND);
    deadline.tv_sec += deadline.tv_nsec / NS_PER_SECOND;
    deadline.tv_nsec %= NS_PER_SECOND;
    (void)pthread_cond_timedwait(&changed, &lock, &deadline);
}

/*
 * Sleeps until the thread is woken. `seen_wakings`: the number of wakings before the last look. Called with the lock
 * held.
 *
 * The waker first counts the waking and then reads is_asleep. This function first sets is_asleep and then reads the
 * count. So at least one of the two sees the other, and no waking is lost.
 */
static void sleep_since(unsigned seen_wakings)
{
    atomic_store(&is_asleep, true);
    while (!is_closing && atomic_load(&wakings) == seen_wakings) {
        (void)pthread_cond_wait(&changed, &lock);
    }
    atomic_store(&is_asleep, false);
}

/*
 * Looks for calls, without the lock, as the thread's function. Spins for a while; then naps as long as there are calls,
 * and sleeps if there are none. If the thread has been woken since the previous look, it spins again, as it does after
 * it has continued a call.
 */
static void *starter_main(void *unused)
{
    double active_at = mscclpp_now();
    unsigned seen_wakings = 0;

    (void)unused;
    pthread_mutex_lock(&lock);
    while (!is_closing) {
        const unsigned wakings_before = atomic_load(&wakings);
        mca_coll_mscclpp_starter_look_t found;
        double now_seconds;

        pthread_mutex_unlock(&lock);
        found = look_for_calls();
        now_seconds = mscclpp_now();
        if (MCA_COLL_MSCCLPP_STARTER_BUSY == found || wakings_before != seen_wakings) {
            active_at = now_seconds;
        }
        seen_wakings = wakings_before;
        if (now_seconds - active_at < SPIN_SECONDS) {
            sched_yield();
            pthread_mutex_lock(&lock);
            continue;
        }
        pthread_mutex_lock(&lock);
        if (MCA_COLL_MSCCLPP_STARTER_IDLE == found) {
            sleep_since(seen_wakings);
        } else if (!is_closing) {
            nap(now_seconds - active_at);
        }
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

/*
 * Makes the thread. If the system cannot make it, logs this, and MPI's progress alone starts kernels. Called with the
 * lock held.
 */
static void make_thread(void)
{
    pthread_condattr_t attributes;
    int error;

    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&changed, &attributes);
    pthread_condattr_destroy(&attributes);
    is_closing = false;
    error = mscclpp_thread_start(&thread, "mscclpp-starter", starter_main, NULL);
    has_thread = 0 == error;
    if (0 != error) {
        errno = error;
        mscclpp_info("no thread that starts the kernels of nonblocking calls (%m): they start in MPI calls only");
        pthread_cond_destroy(&changed);
    }
}

void mca_coll_mscclpp_starter_wake(mca_coll_mscclpp_starter_look_t (*look)(void))
{
    /*
     * The waking is counted before is_asleep is read (see sleep_since). If no thread could be made, is_asleep is never
     * set.
     */
    atomic_fetch_add(&wakings, 1);
    if (atomic_load(&was_made) && !atomic_load(&is_asleep)) {
        return;
    }
    pthread_mutex_lock(&lock);
    if (has_thread) {
        pthread_cond_signal(&changed);
    } else if (!atomic_load(&was_made)) {
        look_for_calls = look;
        make_thread();
        atomic_store(&was_made, true);
    }
    pthread_mutex_unlock(&lock);
}

/*
 * Afterwards mca_coll_mscclpp_starter_wake makes a new thread. If no thread could be made before, nothing changes: it
 * is not tried again.
 */
void mca_coll_mscclpp_starter_fini(void)
{
    pthread_mutex_lock(&lock);
    if (!has_thread) {
        pthread_mutex_unlock(&lock);
        return;
    }
    is_closing = true;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
    (void)pthread_join(thread, NULL);
    has_thread = false;
    atomic_store(&was_made, false);
    pthread_cond_destroy(&changed);
}
