#include "mca/common/base/process.h"

#include <pthread.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t process_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t process_token;
static pid_t process_pid; /* the process that drew the token; a forked child draws its own */

/* 2^64 divided by the golden ratio, an odd number. Multiplying by it spreads a number over the high bits. */
#define HASH_FACTOR UINT64_C(0x9e3779b97f4a7c15)

/* Returns a random token, which is never 0. */
static uint64_t draw_token(void)
{
    uint64_t token = 0;

    if (sizeof(token) != getrandom(&token, sizeof(token), GRND_NONBLOCK) || 0 == token) {
        /*
         * Early at boot, or in some sandboxes, no random numbers are available. The process id and the time in
         * nanoseconds still differ between any two processes.
         */
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        token =
            ((uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec) * HASH_FACTOR + ((uint64_t)getpid() << 1 | 1);
    }
    return 0 != token ? token : 1;
}

/* Takes a lock, so that all threads of the process get the same token. */
uint64_t mscclpp_process_token(void)
{
    pid_t pid = getpid();
    uint64_t token;

    pthread_mutex_lock(&process_lock);
    if (pid != process_pid) {
        process_token = draw_token();
        process_pid = pid;
    }
    token = process_token;
    pthread_mutex_unlock(&process_lock);
    return token;
}

bool mscclpp_process_is_self(int64_t pid, uint64_t token)
{
    return pid == (int64_t)getpid() && token == mscclpp_process_token();
}
