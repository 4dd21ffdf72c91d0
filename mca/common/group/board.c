/*
 * Publishes on the board the current calls of the ranks of a node: the number of the call, and whether it is on host
 * or device buffers. Other ranks read them to find mixed buffers, different arguments and late ranks.
 */
#include "mca/common/group/group.h"

const uint64_t *mscclpp_group_word_of(const mscclpp_group_t *group, const uint64_t *own_word, int rank)
{
    return (const uint64_t *)((const char *)own_word +
                              (ptrdiff_t)(rank - group->rank) * (ptrdiff_t)sizeof(*group->board));
}

/* A word on the board about a call is CALL_KINDS * the call's number + the kind of its buffers. */
#define CALL_KINDS 4

/*
 * More calls than a communicator ever makes. On the board, the calls of each communicator have numbers that are higher
 * by this constant than those of the communicator before it.
 */
#define CALLS_PER_COMMUNICATOR (UINT64_C(1) << 40)

/*
 * Returns the number of a call as the board counts it. A team may serve several communicators, one after the other,
 * each of which counts its calls from 0. The board still holds words of the old communicator's last calls, and they
 * must be older than any word of the current one. They cannot be cleared: some rank may still be in the last call of
 * the old communicator while another is in the first call of the new one.
 */
static uint64_t board_number(const mscclpp_group_t *group, uint64_t call)
{
    return group->calls_before + call;
}

uint64_t mscclpp_group_call_word(const mscclpp_group_t *group, uint64_t call, mscclpp_call_kind_t kind)
{
    return board_number(group, call) * CALL_KINDS + (uint64_t)kind;
}

bool mscclpp_group_is_behind(const mscclpp_group_t *group, int rank, uint64_t call)
{
    return mscclpp_board_load(&group->board[rank].call) / CALL_KINDS < board_number(group, call);
}

void mscclpp_group_renumber(mscclpp_group_t *group)
{
    group->calls_before += CALLS_PER_COMMUNICATOR;
}

/*
 * Publishes that this rank is in a call. The arguments go first, so a rank that loads the call's word sees its
 * arguments.
 */
void mscclpp_group_announce(mscclpp_group_t *group, uint64_t call, mscclpp_call_kind_t kind)
{
    if (kind == MSCCLPP_CALL_DEVICE) {
        mscclpp_board_store(&group->board[group->rank].call_args[call % 2], group->call_args);
    }
    mscclpp_board_store(&group->board[group->rank].call, mscclpp_group_call_word(group, call, kind));
}

int mscclpp_group_find_announced(const mscclpp_group_t *group, uint64_t call, mscclpp_call_kind_t kind)
{
    int rank;

    for (rank = 0; rank < group->size; ++rank) {
        if (mscclpp_board_load(&group->board[rank].call) == mscclpp_group_call_word(group, call, kind)) {
            return group->members[rank];
        }
    }
    return -1;
}

/* A rank that passes no buffers announces neither kind, and waits for the kind that others announce. */
bool mscclpp_group_awaits_announcements(const mscclpp_group_t *group, uint64_t call)
{
    bool is_any_late = false;
    int rank;

    for (rank = 0; rank < group->size; ++rank) {
        const uint64_t announced = mscclpp_board_load(&group->board[rank].call);

        if (announced == mscclpp_group_call_word(group, call, MSCCLPP_CALL_DEVICE) ||
            announced == mscclpp_group_call_word(group, call, MSCCLPP_CALL_HOST)) {
            return false;
        }
        is_any_late = is_any_late || announced / CALL_KINDS < board_number(group, call);
    }
    return is_any_late;
}

/*
 * Returns true if the word says that call `call` is on device buffers. A word of a later call means that some rank has
 * left this call without waiting for this rank. That is possible only on host buffers, or if that rank stages the call.
 * Staging is local, so this rank may then take it for a call on host buffers.
 */
static bool is_device_call(const mscclpp_group_t *group, uint64_t call_word, uint64_t call)
{
    return call_word == mscclpp_group_call_word(group, call, MSCCLPP_CALL_DEVICE);
}

bool mscclpp_group_is_decided(const mscclpp_group_t *group, uint64_t call, bool *on_device_p)
{
    const uint64_t decided = mscclpp_board_load(&group->board[0].decided);

    *on_device_p = is_device_call(group, decided, call);
    return decided / CALL_KINDS >= board_number(group, call);
}

/* The atomic exchange succeeds on one rank only, so a job with many ranks logs one line. */
bool mscclpp_group_claims_line(const mscclpp_group_t *group, bool at_deadline)
{
    uint64_t *logged = &group->board[0].logged[at_deadline];
    const uint64_t own_number = board_number(group, group->call) + 1;
    uint64_t last_number = mscclpp_board_load(logged);

    while (last_number < own_number) {
        if (__atomic_compare_exchange_n(logged, &last_number, own_number, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
            return true;
        }
    }
    return false;
}

/* The atomic exchange succeeds on one rank only, so all ranks get one decision. */
bool mscclpp_group_decide(mscclpp_group_t *group, uint64_t call, bool on_device)
{
    uint64_t *decided = &group->board[0].decided;
    const uint64_t own_decision =
        mscclpp_group_call_word(group, call, on_device ? MSCCLPP_CALL_DEVICE : MSCCLPP_CALL_HOST);
    uint64_t current = mscclpp_board_load(decided);

    while (current / CALL_KINDS < board_number(group, call)) {
        if (__atomic_compare_exchange_n(decided, &current, own_decision, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
            return on_device;
        }
    }
    return is_device_call(group, current, call);
}
