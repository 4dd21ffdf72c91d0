/*
 * Delays at random moments. All waiting code, in the twin's kernels and on the host, calls sched_yield. The tests
 * replace that function by one that sometimes sleeps, so that threads fall behind each other in ways that an idle
 * machine never shows.
 */
#ifndef TEST_HOST_JITTER_H
#define TEST_HOST_JITTER_H

#include <stdbool.h>
#include <stdint.h>

/* Lets `per_mille` of 1000 yields sleep up to `max_us` microseconds. At the program's start no yield sleeps. */
void jitter_set(unsigned per_mille, unsigned max_us);

/*
 * Makes each yield a short sleep, or no yield one. For ranks that wait for a deadline: they leave the
 * processors to what runs beside them.
 */
void jitter_rest(bool rests);

/* Sleeps up to `max_us` microseconds, a time that the caller's own generator draws. */
void jitter_sleep(uint64_t *state, unsigned max_us);

#endif
