/*
 * Lists the ranks that a wait is for, as far as the board of the node shows them. The lists are for messages, and for
 * the search for the rank that all others wait for (inquiry.c).
 */
#include <stdio.h>

#include "mca/common/group/group.h"

/* Returns true if the set (mscclpp_board_add_absent) contains the rank. */
static bool is_in_set(uint64_t absent_set, int rank)
{
    int i;

    for (i = 0; i < MSCCLPP_BOARD_ABSENT_MAX; ++i) {
        if (mscclpp_board_absent_rank(absent_set, i) == rank) {
            return true;
        }
    }
    return false;
}

/*
 * The maximum number of bytes that one rank takes in the lists of list_absent and of list_ranks, with the separator. In
 * the first, this leaves room for " and more" after the last rank.
 */
#define ABSENT_ENTRY_BYTES 48
#define LATE_ENTRY_BYTES 16

/*
 * Lists at most three ranks of other nodes that have not sent what kernels wait for. Each stands for its node, as a
 * kernel sees only that the node's sender is silent. The ranks come from the lines of all ranks of this node, because
 * each rank sees only the nodes that send to it. Returns the length of the text, or 0 if no absent rank has been
 * reported.
 */
static size_t list_absent(const mscclpp_group_t *group, char *text, size_t size)
{
    uint64_t absent = 0;
    size_t used = 0;
    int line, i;

    for (line = 0; line < group->size; ++line) {
        const uint64_t reported = mscclpp_board_load(&group->board[line].absent);

        absent |= reported & MSCCLPP_BOARD_ABSENT_MORE;
        for (i = 0; i < MSCCLPP_BOARD_ABSENT_MAX && mscclpp_board_absent_rank(reported, i) >= 0; ++i) {
            if (!is_in_set(absent, mscclpp_board_absent_rank(reported, i))) {
                absent = mscclpp_board_add_absent(absent, mscclpp_board_absent_rank(reported, i));
            }
        }
    }
    text[0] = '\0';
    for (i = 0; i < MSCCLPP_BOARD_ABSENT_MAX && used + ABSENT_ENTRY_BYTES < size; ++i) {
        const int rank = mscclpp_board_absent_rank(absent, i); /* in the communicator */

        if (rank >= 0) {
            used +=
                (size_t)snprintf(text + used, size - used, "%s%d (or others of its node)", used == 0 ? "" : ", ", rank);
        }
    }
    if (used > 0 && (absent & MSCCLPP_BOARD_ABSENT_MORE) != 0) {
        used += (size_t)snprintf(text + used, size - used, " and more");
    }
    return used;
}

/*
 * Returns true if another rank is late; a rank is never late for itself. Where the wait has words, a rank is late if
 * its word is below the awaited number. Otherwise, it is late if it has not come to the call.
 */
static bool is_late(const mscclpp_group_wait_t *wait, int rank)
{
    const mscclpp_group_t *group = wait->group;

    if (rank == group->rank) {
        return false;
    }
    return wait->words != NULL ? mscclpp_board_load(mscclpp_group_word_of(group, wait->words, rank)) < wait->target
                               : mscclpp_group_is_behind(group, rank, group->call);
}

/*
 * Prefers a late rank of this node, because the board shows for certain that it is late. If there is none, takes a rank
 * of the node that has come and fallen silent, and otherwise a rank of another node.
 */
int mscclpp_group_first_late(const mscclpp_group_wait_t *wait)
{
    const mscclpp_group_t *group = wait->group;
    int rank, late = -1;

    for (rank = 0; rank < group->size && late < 0; ++rank) {
        late = is_late(wait, rank) ? group->members[rank] : -1;
    }
    for (rank = 0; rank < group->size && late < 0; ++rank) {
        late = mscclpp_group_is_silent(group, rank) ? group->members[rank] : -1;
    }
    for (rank = 0; rank < group->size && late < 0; ++rank) {
        late = mscclpp_board_absent_rank(mscclpp_board_load(&group->board[rank].absent), 0);
    }
    return late;
}

/* Lists ranks of this node for which `is_listed` is true, as many as fit. Returns the length of the text. */
static size_t list_ranks(const mscclpp_group_wait_t *wait,
                         bool (*is_listed)(const mscclpp_group_wait_t *wait, int rank), char *text, size_t size)
{
    const mscclpp_group_t *group = wait->group;
    size_t used = 0;
    int rank;

    text[0] = '\0';
    for (rank = 0; rank < group->size && used + LATE_ENTRY_BYTES < size; ++rank) {
        if (is_listed(wait, rank)) {
            used += (size_t)snprintf(text + used, size - used, "%s%d", used == 0 ? "" : ", ", group->members[rank]);
        }
    }
    return used;
}

/* Calls mscclpp_group_is_silent with the arguments that list_ranks passes. */
static bool is_silent(const mscclpp_group_wait_t *wait, int rank)
{
    return mscclpp_group_is_silent(wait->group, rank);
}

/*
 * Returns true if the wait is for the rank, and the rank is gone. A wait for words is only for those ranks whose words
 * are below the target.
 */
static bool is_gone(const mscclpp_group_wait_t *wait, int rank)
{
    return mscclpp_group_is_gone(wait->group, rank) && (wait->words == NULL || is_late(wait, rank));
}

void mscclpp_group_list_late(const mscclpp_group_wait_t *wait, char *text, size_t size)
{
    size_t used = list_ranks(wait, is_late, text, size);

    if (used == 0) {
        used = list_ranks(wait, is_silent, text, size);
    }
    if (used == 0) {
        used = list_absent(wait->group, text, size);
    }
    if (used == 0) {
        snprintf(text, size, "none: all %shave entered the call", wait->group->spans ? "of this node " : "");
    }
}

bool mscclpp_group_list_gone(const mscclpp_group_wait_t *wait, char *text, size_t size)
{
    return list_ranks(wait, is_gone, text, size) > 0;
}
