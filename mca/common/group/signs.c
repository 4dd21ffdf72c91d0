/*
 * Signs of life, which show which ranks of the node have stopped during a wait.
 *
 * A call waits several times, and each wait has a deadline of its own. A rank that dies after it has come would
 * therefore cost a second deadline: the first wait may last nearly until its deadline, because another rank is slow,
 * and only the second wait is for the rank that has died. So a rank that waits changes its sign on the board every
 * millisecond, and the other ranks measure for how long the sign has not changed. A rank whose sign has not changed for
 * a whole deadline is gone, and all waits for that rank end.
 *
 * A rank that lives must never seem to be gone. So three kinds of ranks give no sign, and a wait for them lasts until
 * its own deadline: ranks that have not come, ranks that work between two waits, and ranks in a fiber, whose
 * application decides when they go on. A rank measures only while it waits itself.
 */
#include "mca/common/base/fiber.h"
#include "mca/common/group/group.h"

/*
 * The maximum number of seconds between two looks that counts as waiting. If more time passes, this rank itself was
 * stopped, and perhaps all ranks were.
 */
#define STEP_SECONDS_MAX 1.0

/* A rank is gone after a deadline and this number of seconds without a sign. */
#define GONE_SECONDS 1.0

/*
 * A message names a rank after this number of seconds without a sign, or after half of the deadline if that is less. A
 * busy machine may delay the signs of a rank that waits.
 */
#define SILENT_SECONDS 3.0

void mscclpp_group_begin_signs(mscclpp_group_t *group, double now)
{
    group->signs.looked_at = now;
}

void mscclpp_group_show_sign(mscclpp_group_t *group, uint64_t call)
{
    mscclpp_board_line_t *line = &group->board[group->rank];

    if (mscclpp_fiber_inside()) {
        return;
    }
    mscclpp_board_store(&line->sign, line->sign + 1);
    mscclpp_board_store(&line->waits_in, mscclpp_group_call_word(group, call, MSCCLPP_CALL_DEVICE));
}

void mscclpp_group_hide_sign(mscclpp_group_t *group)
{
    mscclpp_board_store(&group->board[group->rank].waits_in, 0);
}

/*
 * Counts only the seconds for which this rank has waited in the call: while this rank works, it does not see the signs
 * of others.
 */
void mscclpp_group_read_signs(mscclpp_group_t *group, uint64_t call, double now)
{
    mscclpp_group_signs_t *signs = &group->signs;
    const uint64_t call_word = mscclpp_group_call_word(group, call, MSCCLPP_CALL_DEVICE);
    const double step = now - signs->looked_at;
    const bool is_new_call = signs->call != call_word;
    int rank;

    signs->call = call_word;
    signs->waited = is_new_call ? 0 : signs->waited + (step < STEP_SECONDS_MAX ? step : STEP_SECONDS_MAX);
    signs->looked_at = now;
    for (rank = 0; rank < group->size; ++rank) {
        const bool waits = mscclpp_board_load(&group->board[rank].waits_in) == call_word;
        const uint64_t sign = mscclpp_board_load(&group->board[rank].sign);

        if (is_new_call || !waits || sign != signs->last[rank]) {
            signs->last[rank] = sign;
            signs->changed_at[rank] = signs->waited;
        }
    }
}

/* Returns for how many seconds this rank has waited in the current call since the last sign of a rank of the node. */
static double silence_of(const mscclpp_group_t *group, int rank)
{
    const mscclpp_group_signs_t *signs = &group->signs;

    return rank == group->rank || signs->call != mscclpp_group_call_word(group, group->call, MSCCLPP_CALL_DEVICE)
               ? 0
               : signs->waited - signs->changed_at[rank];
}

bool mscclpp_group_is_silent(const mscclpp_group_t *group, int rank)
{
    const double half = group->timeout / 2;

    return silence_of(group, rank) > (group->timeout > 0 && half < SILENT_SECONDS ? half : SILENT_SECONDS);
}

bool mscclpp_group_is_gone(const mscclpp_group_t *group, int rank)
{
    return group->timeout > 0 && silence_of(group, rank) > group->timeout + GONE_SECONDS;
}
