/*
 * Predicts from a team's past calls whether a kernel that stays after a call would be rung again, or would only keep
 * multiprocessors from the application. Pure functions, without a clock.
 *
 * A call that comes at once after the one before belongs to a burst. If the application runs a kernel between two
 * calls, that kernel's launch delays the second call, so it does not come at once.
 *
 * A kernel stays once a certain number of successive calls have come at once. That number begins at 2, doubles up to 64
 * after each kernel that stayed and was hardly rung, and returns to 2 after one that was rung often enough. So if all
 * bursts are short, soon no kernel stays. In a long burst, at most the first 64 calls are launched.
 */
#ifndef MCA_COMMON_RUN_LINGER_HISTORY_H
#define MCA_COMMON_RUN_LINGER_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

/* The past calls of one team. */
typedef struct {
    uint32_t streak; /* number of successive calls, up to the last one, that came at once */
    uint32_t needed; /* the streak after which a kernel stays */
} mscclpp_linger_history_t;

void mscclpp_linger_history_init(mscclpp_linger_history_t *history);

/*
 * Notes a call. `at_once`: it came so soon after the previous call that a kernel, had one stayed, would most likely
 * still have been there.
 */
void mscclpp_linger_history_note_call(mscclpp_linger_history_t *history, bool at_once);

/* Notes that a kernel that stayed has left. It was rung for `rings` calls. */
void mscclpp_linger_history_note_kernel(mscclpp_linger_history_t *history, uint64_t rings);

/* True if a kernel launched for the last call noted should stay. */
bool mscclpp_linger_history_says_stay(const mscclpp_linger_history_t *history);

#endif
