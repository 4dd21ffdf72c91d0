/* Which ranks a wait is for, as far as the board of the node shows it. For messages, and for the search for one rank.
 */
#include <stdio.h>

#include "mca/common/group/group.h"

static bool is_in_set(uint64_t absent_set, int rank)
{
    int i;

    for (i = 0; i < MSCCLPP_BOARD_ABSENT_MAX; ++i) {
        if (mscclpp_board_absent(absent_set, i) == rank) {
            return true;
        }
    }
    return false;
}

/*
 * The maximum number of bytes that one rank takes in the lists of list_absent and of list_late, with the separator. In
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
        const uint64_t word = mscclpp_board_load(&group->board[line].absent);

        absent |= word & MSCCLPP_BOARD_ABSENT_MORE;
        for (i = 0; i < MSCCLPP_BOARD_ABSENT_MAX && mscclpp_board_absent(word, i) >= 0; ++i) {
            if (!is_in_set(absent, mscclpp_board_absent(word, i))) {
                absent = mscclpp_board_add_absent(absent, mscclpp_board_absent(word, i));
            }
        }
    }
    text[0] = '\0';
    for (i = 0; i < MSCCLPP_BOARD_ABSENT_MAX && used + ABSENT_ENTRY_BYTES < size; ++i) {
        const int rank = mscclpp_board_absent(absent, i); /* in the communicator */

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
 * Returns true if the rank is late. A rank is late if its word has not reached the awaited number or, if the wait has
 * no such words, if it has not come to the call.
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
 * Returns a rank that this rank waits for, as numbered in the communicator; -1: none is known. A late or silent rank of
 * this node comes first, because this rank sees it itself. If another rank of the node waits for other nodes, this rank
 * waits for that one: only that one knows for whom, as its word on the board may be old. Without control messages it
 * cannot be asked, so the word has to do.
 */
int mscclpp_group_first_late(const mscclpp_group_wait_t *wait, double now)
{
    const mscclpp_group_t *group = wait->group;
    int rank, late = -1;

    for (rank = 0; rank < group->size && late < 0; ++rank) {
        late = is_late(wait, rank) ? group->members[rank] : -1;
    }
    for (rank = 0; rank < group->size && late < 0; ++rank) {
        late = mscclpp_group_is_silent(group, rank, now) ? group->members[rank] : -1;
    }
    if (late < 0) {
        late = mscclpp_board_absent(mscclpp_board_load(&group->board[group->rank].absent), 0);
    }
    for (rank = 0; rank < group->size && late < 0; ++rank) {
        late = mscclpp_board_absent(mscclpp_board_load(&group->board[rank].absent), 0);
        late = late >= 0 && group->ctrl != NULL ? group->members[rank] : late;
    }
    return late;
}

/*
 * Names the late ranks of this node, as many as fit. If there are none, names the silent ranks of this node and, if
 * there are none either, the absent ranks of other nodes.
 */
void mscclpp_group_list_late(const mscclpp_group_wait_t *wait, double now, char *text, size_t size)
{
    const mscclpp_group_t *group = wait->group;
    bool is_any_late = false;
    size_t used = 0;
    int rank;

    for (rank = 0; rank < group->size; ++rank) {
        is_any_late = is_any_late || is_late(wait, rank);
    }
    text[0] = '\0';
    for (rank = 0; rank < group->size && used + LATE_ENTRY_BYTES < size; ++rank) {
        if (is_any_late ? is_late(wait, rank) : mscclpp_group_is_silent(group, rank, now)) {
            used += (size_t)snprintf(text + used, size - used, "%s%d", used == 0 ? "" : ", ", group->members[rank]);
        }
    }
    if (used == 0) {
        used = list_absent(group, text, size);
    }
    if (used == 0) {
        snprintf(text, size, "none: all %shave entered the call", group->spans ? "of this node " : "");
    }
}
