/*
 * Delays at random moments. Everything that waits, in the twin's kernels and on the host, gives its processor away by
 * sched_yield; the tests have one of their own, which sometimes sleeps, so that threads fall behind one another in
 * ways that an idle machine never shows.
 */
#ifndef TEST_HOST_JITTER_H
#define TEST_HOST_JITTER_H

#include <stdint.h>

/* Of `per_mille` of 1000 yields each sleeps up to `max_us` microseconds. 0: none, the state at the program's start. */
void jitter_set(unsigned per_mille, unsigned max_us);

/* A sleep of up to `max_us` microseconds, drawn from the caller's own generator. */
void jitter_sleep(uint64_t *state, unsigned max_us);

#endif
