/*
 * Predicts from a team's past calls whether a kernel that stays after a call would be rung again, or would only keep
 * multiprocessors from the application. The functions have no side effects and read no clock.
 *
 * A call that comes immediately after the previous one belongs to a burst. If the application runs a kernel between two
 * calls, the launch of that kernel delays the second call, so it does not come immediately.
 *
 * A kernel stays once a certain number of successive calls (`needed`) have come immediately. This number begins at 2.
 * Each kernel that stayed and was rarely rung doubles it, up to 64. A kernel that was rung often enough sets it back to
 * 2. So if all bursts are short, soon no kernel stays. In a long burst, at most the first 64 calls are launched.
 */
#ifndef MCA_COMMON_RUN_LINGER_HISTORY_H
#define MCA_COMMON_RUN_LINGER_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

/* The past calls of one team. */
typedef struct {
    uint32_t streak; /* number of successive calls, up to the last one, that came immediately */
    uint32_t needed; /* the streak after which a kernel stays */
} mscclpp_linger_history_t;

/* Begins a history without calls. */
void mscclpp_linger_history_init(mscclpp_linger_history_t *history);

/*
 * Adds a call to the history. `at_once` says that the call came so soon after the previous one that a kernel that had
 * stayed would most likely still have been there.
 */
void mscclpp_linger_history_note_call(mscclpp_linger_history_t *history, bool at_once);

/* Adds to the history a kernel that stayed, was rung for `rings` calls, and has left. */
void mscclpp_linger_history_note_kernel(mscclpp_linger_history_t *history, uint64_t rings);

/* Returns true if a kernel launched for the last call of the history should stay. */
bool mscclpp_linger_history_says_stay(const mscclpp_linger_history_t *history);

#endif
