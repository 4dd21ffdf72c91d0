#include "mca/common/run/linger_history.h"

/* The number of calls at once after which a kernel stays: at first, and at most. A streak is not counted further. */
#define WANTED_FIRST 2u
#define WANTED_MOST 64u

/*
 * Rings that make staying worthwhile. Each ring saves a launch, and a kernel that stays in vain costs the application
 * at most about two launches.
 */
#define RINGS_WORTH_IT 2u

void mscclpp_linger_history_init(mscclpp_linger_history_t *history)
{
    history->at_once = 0;
    history->wanted = WANTED_FIRST;
}

void mscclpp_linger_history_note_call(mscclpp_linger_history_t *history, bool at_once)
{
    if (!at_once) {
        history->at_once = 0;
    } else if (history->at_once < WANTED_MOST) {
        ++history->at_once;
    }
}

void mscclpp_linger_history_note_kernel(mscclpp_linger_history_t *history, uint64_t rings)
{
    if (rings >= RINGS_WORTH_IT) {
        history->wanted = WANTED_FIRST;
    } else if (history->wanted < WANTED_MOST) {
        history->wanted *= 2;
    }
}

bool mscclpp_linger_history_says_stay(const mscclpp_linger_history_t *history)
{
    return history->at_once >= history->wanted;
}
