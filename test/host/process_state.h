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

/* True if tests take many times as long in this build, or if MSCCLPP_TEST_SLOW asks for few random cases. */
bool process_state_slow(void);

/* True if MSCCLPP_TEST_LONG=1 asks for several times as many calls as by default, and tests are not slow. */
bool process_state_long(void);

/* How many of so many calls to make. Unless MSCCLPP_TEST_LONG=1 asks for all: half, and under a sanitizer an eighth. */
int process_state_calls(int calls);

/* False if some cases of a matrix stand for all: under a sanitizer, unless MSCCLPP_TEST_LONG=1 asks for all. */
bool process_state_whole(void);

/* True under ThreadSanitizer, which finds only races of threads in one process. */
bool process_state_tsan(void);

/* True under a sanitizer: it keeps what was freed, so numbers of mappings and memory mean nothing. */
bool process_state_sanitized(void);

#endif
