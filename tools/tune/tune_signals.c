/*
 * SIGINT and SIGTERM interrupt a run. The run then ends at a point where no rank is within a call, and keeps its times
 * and rules.
 */
#include <signal.h>
#include <string.h>

#include "tools/tune/tune.h"

static volatile sig_atomic_t caught_signal; /* 0: none */

/* The handler: stores the signal. */
static void note_signal(int signal_number)
{
    caught_signal = signal_number;
}

void tune_catch_signals(void)
{
    struct sigaction action;

    memset(&action, 0, sizeof(action));
    action.sa_handler = note_signal;
    /* A second signal ends the process at once, in case a call never ends. */
    action.sa_flags = SA_RESTART | (int)SA_RESETHAND;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

int tune_caught_signal(void)
{
    return caught_signal;
}
