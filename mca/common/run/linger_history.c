#include "mca/common/run/linger_history.h"

/*
 * A kernel stays after a streak of FIRST_NEEDED calls at first, and of MAX_NEEDED calls at most. Streaks are not
 * counted beyond MAX_NEEDED.
 */
#define FIRST_NEEDED 2u
#define MAX_NEEDED 64u

/*
 * The number of rings that make up for a kernel's stay. Each ring saves a launch, and a kernel that stays in vain costs
 * the application about two launches at most.
 */
#define RINGS_WORTH_IT 2u

void mscclpp_linger_history_init(mscclpp_linger_history_t *history)
{
    history->streak = 0;
    history->needed = FIRST_NEEDED;
}

void mscclpp_linger_history_note_call(mscclpp_linger_history_t *history, bool at_once)
{
    if (!at_once) {
        history->streak = 0;
    } else if (history->streak < MAX_NEEDED) {
        ++history->streak;
    }
}

void mscclpp_linger_history_note_kernel(mscclpp_linger_history_t *history, uint64_t rings)
{
    if (rings >= RINGS_WORTH_IT) {
        history->needed = FIRST_NEEDED;
    } else if (history->needed < MAX_NEEDED) {
        history->needed *= 2;
    }
}

bool mscclpp_linger_history_says_stay(const mscclpp_linger_history_t *history)
{
    return history->streak >= history->needed;
}
