/*
 * The clock of the library, for waits, deadlines and durations. Monotonic, so a change of the system's time does not
 * end a wait early.
 */
#ifndef MCA_COMMON_BASE_CLOCK_H
#define MCA_COMMON_BASE_CLOCK_H

#include <time.h>

/* Returns the time of the monotonic clock, in seconds. */
static inline double mscclpp_now(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

#endif
