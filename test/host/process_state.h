/* What a process holds, so that a test can tell whether something was left behind. */
#ifndef TEST_HOST_PROCESS_STATE_H
#define TEST_HOST_PROCESS_STATE_H

#include <stdbool.h>

typedef struct {
    int descriptors;
    int mappings;
    long resident; /* bytes */
    int threads;
} process_state_t;

void process_state_read(process_state_t *state);

/* Tests take many times as long here, or MSCCLPP_TEST_SLOW asks for few of their random cases. */
bool process_state_slow(void);

/* MSCCLPP_TEST_LONG=1 asks for several times as many calls as by default, where they are not slow. */
bool process_state_long(void);

/* ThreadSanitizer watches, for which only threads of one process race. */
bool process_state_tsan(void);

/* Mappings and memory mean nothing where a sanitizer keeps what was freed. */
bool process_state_sanitized(void);

#endif
