#include "test/host/jitter.h"

#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "test/host/elements.h"

#define REST_US 2000 /* the longest sleep of ranks that rest */

static unsigned jitter_per_mille;
static unsigned jitter_max_us;
static uint64_t jitter_threads;
static _Thread_local uint64_t jitter_state;

void jitter_set(unsigned per_mille, unsigned max_us)
{
    __atomic_store_n(&jitter_max_us, max_us, __ATOMIC_RELAXED);
    __atomic_store_n(&jitter_per_mille, per_mille, __ATOMIC_RELAXED);
}

void jitter_rest(bool rests)
{
    jitter_set(rests ? 1000 : 0, REST_US);
}

void jitter_sleep(uint64_t *state, unsigned max_us)
{
    struct timespec pause = {0, 0};

    if (max_us != 0) {
        pause.tv_nsec = (long)random_below(state, max_us) * 1000;
        nanosleep(&pause, NULL);
    }
}

/* Replaces the function of the C library. */
int sched_yield(void)
{
    unsigned per_mille = __atomic_load_n(&jitter_per_mille, __ATOMIC_RELAXED);

    if (per_mille != 0) {
        if (jitter_state == 0) {
            jitter_state = __atomic_add_fetch(&jitter_threads, 1, __ATOMIC_RELAXED) * 7919;
        }
        if (random_below(&jitter_state, 1000) < per_mille) {
            jitter_sleep(&jitter_state, __atomic_load_n(&jitter_max_us, __ATOMIC_RELAXED));
            return 0;
        }
    }
    return (int)syscall(SYS_sched_yield);
}
