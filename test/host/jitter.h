/*
 * Delays at random moments. All waiting code, in the twin's kernels and on the host, calls sched_yield. The tests
 * replace that function by one that sometimes sleeps, so that threads fall behind each other in ways that an idle
 * machine never shows.
 */
#ifndef TEST_HOST_JITTER_H
#define TEST_HOST_JITTER_H

#include <stdint.h>

/* Of `per_mille` of 1000 yields each sleeps up to `max_us` microseconds. 0: none, the state at the program's start. */
void jitter_set(unsigned per_mille, unsigned max_us);

/* A sleep of up to `max_us` microseconds, drawn from the caller's own generator. */
void jitter_sleep(uint64_t *state, unsigned max_us);

#endif
