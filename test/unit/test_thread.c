/* Threads of the library's own: their names, signals and processors. */
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>

#include "mca/common/base/thread.h"
#include "test/unit/unit.h"

/* What a thread has found out about itself. */
typedef struct {
    int processors;
    bool gets_signals;
    int slack_ns;
    char name[16];
} found_t;

static void *look(void *argument)
{
    found_t *found = argument;
    cpu_set_t processors;
    sigset_t blocked;

    CHECK_EQ(sched_getaffinity(0, sizeof(processors), &processors), 0);
    found->processors = CPU_COUNT(&processors);
    CHECK_EQ(pthread_sigmask(SIG_BLOCK, NULL, &blocked), 0);
    found->gets_signals = sigismember(&blocked, SIGTERM) == 0;
    found->slack_ns = prctl(PR_GET_TIMERSLACK);
    CHECK_EQ(pthread_getname_np(pthread_self(), found->name, sizeof(found->name)), 0);
    return found;
}

static found_t look_from_thread(void)
{
    found_t found;
    pthread_t thread;
    void *result = NULL;

    memset(&found, 0, sizeof(found));
    REQUIRE(mscclpp_thread_start(&thread, "a name that is too long", look, &found) == 0);
    CHECK_EQ(pthread_join(thread, &result), 0);
    CHECK(result == &found);
    return found;
}

/* Binds this thread to the first `count` processors that it may use. */
static void bind(const cpu_set_t *allowed, int count)
{
    cpu_set_t chosen;

    CPU_ZERO(&chosen);
    for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&chosen) < count; ++i) {
        if (CPU_ISSET(i, allowed)) {
            CPU_SET(i, &chosen);
        }
    }
    CHECK_EQ(sched_setaffinity(0, sizeof(chosen), &chosen), 0);
}

int main(void)
{
    cpu_set_t allowed;
    sigset_t blocked;
    found_t found;

    unit_begin();
    REQUIRE(sched_getaffinity(0, sizeof(allowed), &allowed) == 0);
    found = look_from_thread();
    CHECK_EQ(strcmp(found.name, "a name that is "), 0);
    CHECK(!found.gets_signals);
    CHECK_EQ(found.slack_ns, 1000);
    CHECK_EQ(pthread_sigmask(SIG_BLOCK, NULL, &blocked), 0);
    CHECK_EQ(sigismember(&blocked, SIGTERM), 0);
    if (CPU_COUNT(&allowed) < 3) {
        printf("skipped in part: %d processors, and threads of two processors want 3\n", CPU_COUNT(&allowed));
    } else {
        bind(&allowed, 2);
        CHECK_EQ(look_from_thread().processors, 2);
    }
    if (CPU_COUNT(&allowed) > 1) {
        bind(&allowed, 1);
        CHECK(look_from_thread().processors > 1);
        CHECK_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
        CHECK_EQ(CPU_COUNT(&allowed), 1);
    }
    return unit_end();
}
