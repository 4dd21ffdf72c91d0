/*
 * What a team's calls so far say about the next one: whether a kernel that stayed after a call would be rung for, or
 * would only keep multiprocessors from the application. Pure; no clock of its own.
 *
 * A call that follows a kernel of the application comes after that kernel's launch at the earliest, so it does not come
 * at once. One that does come at once belongs to a burst. A kernel stays once as many calls in a row have come at once
 * as are wanted: few at first, and twice as many after each kernel that stayed for hardly any call. So bursts that are
 * always short soon have no kernel stay at all, and long ones lose their first few calls.
 */
#ifndef MCA_COMMON_RUN_LINGER_HISTORY_H
#define MCA_COMMON_RUN_LINGER_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    uint32_t at_once; /* calls in a row, up to the last one, that came at once */
    uint32_t wanted;  /* so many have a kernel stay */
} mscclpp_linger_history_t;

void mscclpp_linger_history_init(mscclpp_linger_history_t *history);

/* A call has come; `at_once`: so soon after the one before that a kernel would still have been there. */
void mscclpp_linger_history_note_call(mscclpp_linger_history_t *history, bool at_once);

/* A kernel that stayed has left; it was rung for so many calls. */
void mscclpp_linger_history_note_kernel(mscclpp_linger_history_t *history, uint64_t rings);

/* True if a kernel launched for the last call noted had better stay. */
bool mscclpp_linger_history_says_stay(const mscclpp_linger_history_t *history);

#endif
