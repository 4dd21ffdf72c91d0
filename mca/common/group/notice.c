/*
 * Notices, which ranks send one another as control messages. A notice reports a failed call, or helps to find out that
 * some ranks passed host buffers and others device buffers. The board shows such a mixture within a node. Between nodes
 * it takes notices:
 *
 * 1. The first rank of a node has waited long in a call on device buffers. It tells the first rank of each other node.
 * 2. If that rank is also in a call on device buffers, it will find a mixture within its node on its own board.
 * 3. If that rank passed host buffers, its own search for mixtures finds the notice, and it answers all ranks.
 *
 * Notices also carry the votes by which the hosts of all nodes meet (group/meeting.c), the search for the rank that all
 * others wait for (group/inquiry.c), and the signs of life between nodes (group/watch.c).
 */
#include "mca/common/group/group.h"

#include <string.h>

#include "mca/common/base/call.h"
#include "mca/common/base/fiber.h"

/*
 * The maximum number of seconds for which a failing rank tries to send its notices before it returns. It does not leave
 * them for later, because the application may never call the library again.
 */
#define TELL_SECONDS 0.5

typedef enum {
    NOTICE_FAILED = 1, /* the call ended with an error on the sender */
    NOTICE_WAITS = 2,  /* the sender passed device buffers and waits */
    NOTICE_MIXED = 3,  /* the sender passed host buffers while others wait */
    NOTICE_VOTE = 4,   /* the vote of the sender's node */
    NOTICE_ASK = 5,    /* the sender waits for the receiver, and asks which rank the receiver waits for */
    NOTICE_ANSWER = 6, /* the answer: the rank that the sender waits for */
    NOTICE_NAMED = 7,  /* the sender has named the rank that all wait for */
    NOTICE_BLAMES = 8, /* a queued call has failed on the sender because some rank did not come */
    NOTICE_WATCH = 9,  /* the sender waits, and asks for a sign of life */
    NOTICE_SIGN = 10   /* the sender's sign of life, or that it gives none any more */
} notice_kind_t;

/* A notice as it is sent. */
typedef struct {
    uint64_t call;     /* the call that the notice is about */
    int32_t status;    /* for NOTICE_FAILED only */
    int32_t rank;      /* the sender's rank in the communicator */
    uint32_t kind;     /* notice_kind_t */
    int32_t host_rank; /* a rank that passed host buffers in this call; -1: none is known */
    /*
     * For NOTICE_VOTE: 2 * the number of the vote, + 1 for yes. For NOTICE_ANSWER: the rank + 1, or 0 for none. For
     * NOTICE_BLAMES: the rank + 1. For NOTICE_SIGN: 2 * the number of the sign on the board, + 1 if the rank waits.
     */
    uint64_t value;
} notice_t;

_Static_assert(sizeof(notice_t) <= MSCCLPP_CTRL_MESSAGE_MAX, "a notice fits a control message");

void mscclpp_group_notices_init(mscclpp_group_t *group)
{
    mscclpp_group_notices_t *notices = &group->notices;

    memset(notices, 0, sizeof(*notices));
    notices->failed.rank = notices->waits.rank = notices->host.rank = -1;
    memset(&group->inquiry, 0, sizeof(group->inquiry));
    group->inquiry.waits_for = group->inquiry.asked_rank = -1;
    memset(&group->watch, 0, sizeof(group->watch));
    group->watch.watched = group->watch.watcher = -1;
    pthread_mutex_init(&notices->lock, NULL);
}

void mscclpp_group_notices_fini(mscclpp_group_t *group)
{
    pthread_mutex_destroy(&group->notices.lock);
}

/* Returns a rank that passed host buffers in the call; -1: none is known. The caller holds the lock. */
static int host_rank_of(const mscclpp_group_t *group, uint64_t call)
{
    return group->notices.host.call == call ? group->notices.host.rank : -1;
}

/*
 * Sends a notice to rank `to` of the communicator, unless `to` is this rank or there are no control messages. `value`
 * depends on the kind (notice_t). A notice that cannot be sent is lost, and a rank that needs it ends its call at its
 * own deadline instead. The caller holds the lock.
 */
static void post_with(mscclpp_group_t *group, int to, notice_kind_t kind, uint64_t call, mscclpp_status_t status,
                      uint64_t value)
{
    notice_t notice;

    memset(&notice, 0, sizeof(notice));
    notice.call = call;
    notice.status = (int32_t)status;
    notice.rank = group->members[group->rank];
    notice.kind = (uint32_t)kind;
    notice.host_rank = host_rank_of(group, call);
    notice.value = value;
    if (group->ctrl != NULL && to != notice.rank) {
        (void)mscclpp_ctrl_post(group->ctrl, to, &notice, sizeof(notice));
        mscclpp_count_messages(kind != NOTICE_VOTE);
    }
}

/* Sends a notice without a value, as post_with does. The caller holds the lock. */
static void post(mscclpp_group_t *group, int to, notice_kind_t kind, uint64_t call, mscclpp_status_t status)
{
    post_with(group, to, kind, call, status, 0);
}

/* Keeps a vote of another node. The other node may be one vote ahead of this one, so its last two votes are kept. */
static void keep_vote(mscclpp_group_t *group, const notice_t *notice)
{
    int i;

    for (i = 0; i < group->leader_count; ++i) {
        if (group->leaders[i] == notice->rank) {
            group->far_votes[i][notice->value / 2 % 2] = notice->value;
        }
    }
}

/*
 * Handles the notices of a search, and ignores all others. Answers a question only while this rank waits in the call
 * that the question names, or in an earlier one. A rank that has not come to the call must not answer, unless other
 * ranks keep it in an earlier call. If another rank names the late rank while this rank waits, this rank need not name
 * it again. That holds even if the two ranks are in different calls. The caller holds the lock.
 */
static void handle_inquiry(mscclpp_group_t *group, const notice_t *notice)
{
    mscclpp_group_inquiry_t *inquiry = &group->inquiry;
    const bool waits = inquiry->waits_call == group->call;

    if (notice->kind == NOTICE_ASK &&
        (inquiry->waits_call == notice->call || (waits && inquiry->waits_call < notice->call))) {
        post_with(group, notice->rank, NOTICE_ANSWER, notice->call, MSCCLPP_OK, (uint64_t)(inquiry->waits_for + 1));
    } else if (notice->kind == NOTICE_ANSWER && notice->call == inquiry->call && notice->rank == inquiry->asked_rank) {
        inquiry->has_answered = true;
        inquiry->answer = (int)notice->value - 1;
    } else if (notice->kind == NOTICE_NAMED) {
        inquiry->named_call = notice->call > inquiry->named_call ? notice->call : inquiry->named_call;
        inquiry->named_call = waits && group->call > inquiry->named_call ? group->call : inquiry->named_call;
    }
}

void mscclpp_group_post_watch(mscclpp_group_t *group, int rank, uint64_t call)
{
    post(group, rank, NOTICE_WATCH, call, MSCCLPP_OK);
}

void mscclpp_group_post_sign(mscclpp_group_t *group, int rank, uint64_t call)
{
    const mscclpp_board_line_t *line = &group->board[group->rank];

    post_with(group, rank, NOTICE_SIGN, call, MSCCLPP_OK,
              2 * mscclpp_board_load(&line->sign) + (mscclpp_board_load(&line->waits_in) != 0));
}

/*
 * Handles the notices of a watch, and ignores all others. This rank answers a question only while it waits in the call
 * that the question names (`waits_in` on its board line). Messages may overtake one another, so a sign that is older
 * than the last one is ignored. The caller holds the lock.
 */
static void handle_watch(mscclpp_group_t *group, const notice_t *notice)
{
    mscclpp_group_watch_t *watch = &group->watch;

    if (notice->kind == NOTICE_WATCH && mscclpp_board_load(&group->board[group->rank].waits_in) ==
                                            mscclpp_group_call_word(group, notice->call, MSCCLPP_CALL_DEVICE)) {
        watch->watcher = notice->rank;
        watch->watcher_call = notice->call;
        mscclpp_group_post_sign(group, notice->rank, notice->call);
    } else if (notice->kind == NOTICE_SIGN && notice->call == watch->call && notice->rank == watch->watched &&
               notice->value / 2 > watch->sign / 2) {
        watch->sign = notice->value;
        watch->has_answered = true;
        watch->heard_at = watch->waited;
    }
}

void mscclpp_group_post_ask(mscclpp_group_t *group, int rank)
{
    post(group, rank, NOTICE_ASK, group->call, MSCCLPP_OK);
}

void mscclpp_group_post_named(mscclpp_group_t *group)
{
    int rank;

    for (rank = 0; rank < group->oob.size; ++rank) {
        post(group, rank, NOTICE_NAMED, group->call, MSCCLPP_OK);
    }
}

/*
 * Stores that `rank` passed host buffers in `call`, unless a later call is stored: a notice about an earlier call may
 * come late. The caller holds the lock.
 */
static void keep_host(mscclpp_group_notices_t *notices, uint64_t call, int rank)
{
    if (call >= notices->host.call) {
        notices->host.call = call;
        notices->host.rank = rank;
    }
}

/* Stores the call, the rank and the status of a received notice. */
static void keep_notice(mscclpp_group_notice_t *kept, const notice_t *notice)
{
    kept->call = notice->call;
    kept->rank = notice->rank;
    kept->status = (mscclpp_status_t)notice->status;
}

/*
 * Stores what a received notice reports. Of several failures the first is stored, and of other notices the latest. The
 * caller holds the lock.
 */
static void handle_notice(mscclpp_group_t *group, const notice_t *notice)
{
    mscclpp_group_notices_t *notices = &group->notices;

    if (notice->kind == NOTICE_FAILED && notices->failed.rank < 0) {
        keep_notice(&notices->failed, notice);
    }
    if (notice->kind == NOTICE_WAITS && notice->call >= notices->waits.call) {
        keep_notice(&notices->waits, notice);
    }
    if (notice->kind == NOTICE_VOTE) {
        keep_vote(group, notice);
    }
    if (notice->kind == NOTICE_BLAMES && notice->rank >= 0 && notice->rank < MSCCLPP_DEV_MAX_RANKS) {
        notices->blamed[notice->rank] = (int)notice->value;
    }
    handle_inquiry(group, notice);
    handle_watch(group, notice);
    if (notice->host_rank >= 0) {
        keep_host(notices, notice->call, notice->host_rank);
    }
}

/*
 * Receives all pending notices and stores what they report. A message that does not have the length of a notice is
 * ignored. A thread apart (base/fiber.h) reads nothing if the embedding runtime carries the messages, because such a
 * thread must not call the runtime. The caller holds the lock.
 */
static void read_all(mscclpp_group_t *group)
{
    const bool may_read =
        group->ctrl != NULL && (!mscclpp_fiber_is_apart() || mscclpp_ctrl_is_independent(group->ctrl));
    unsigned char message[MSCCLPP_CTRL_MESSAGE_MAX];
    size_t length = sizeof(message);
    int peer;

    while (may_read && mscclpp_ctrl_poll(group->ctrl, &peer, message, &length) == MSCCLPP_OK) {
        notice_t notice;

        if (length == sizeof(notice)) {
            memcpy(&notice, message, sizeof(notice));
            handle_notice(group, &notice);
        }
        length = sizeof(message);
    }
}

void mscclpp_group_read_notices(mscclpp_group_t *group, mscclpp_group_notice_t *failed_p,
                                mscclpp_group_notice_t *host_p)
{
    pthread_mutex_lock(&group->notices.lock);
    read_all(group);
    *failed_p = group->notices.failed;
    *host_p = group->notices.host;
    pthread_mutex_unlock(&group->notices.lock);
}

void mscclpp_group_tend_notices(mscclpp_group_t *group)
{
    if (pthread_mutex_trylock(&group->notices.lock) == 0) { /* otherwise the holder of the lock reads the notices */
        read_all(group);
        pthread_mutex_unlock(&group->notices.lock);
    }
}

void mscclpp_group_note_host(mscclpp_group_t *group, int rank)
{
    pthread_mutex_lock(&group->notices.lock);
    keep_host(&group->notices, group->call, rank);
    pthread_mutex_unlock(&group->notices.lock);
}

/*
 * The lock is released before the flush, because other threads need it to read notices, and the flush may take
 * TELL_SECONDS.
 */
void mscclpp_group_tell_failure(mscclpp_group_t *group, mscclpp_status_t status, int lost)
{
    int rank;

    pthread_mutex_lock(&group->notices.lock);
    for (rank = 0; rank < group->oob.size; ++rank) {
        if (rank != lost) {
            post(group, rank, NOTICE_FAILED, group->call, status);
        }
    }
    /*
     * The lost rank may be alive, because a connection also breaks if the adapter of this side fails. It is told last
     * because it may be unreachable.
     */
    if (lost >= 0) {
        post(group, lost, NOTICE_FAILED, group->call, status);
    }
    pthread_mutex_unlock(&group->notices.lock);
    if (group->ctrl != NULL) {
        mscclpp_ctrl_flush(group->ctrl, TELL_SECONDS);
    }
}

void mscclpp_group_blame(mscclpp_group_t *group, int rank)
{
    int to;

    mscclpp_board_store(&group->board[group->rank].blamed, (uint64_t)rank + 1);
    pthread_mutex_lock(&group->notices.lock);
    for (to = 0; to < group->oob.size; ++to) {
        post_with(group, to, NOTICE_BLAMES, group->call, MSCCLPP_OK, (uint64_t)rank + 1);
    }
    pthread_mutex_unlock(&group->notices.lock);
}

/*
 * Ranks of this node store the blamed rank on the board. Ranks of other nodes send notices, of which the last counts.
 */
int mscclpp_group_blamed_by(mscclpp_group_t *group, int rank)
{
    int i, blamed;

    for (i = 0; i < group->size; ++i) {
        if (group->members[i] == rank) {
            return (int)mscclpp_board_load(&group->board[i].blamed) - 1;
        }
    }
    pthread_mutex_lock(&group->notices.lock);
    read_all(group);
    blamed = rank >= 0 && rank < MSCCLPP_DEV_MAX_RANKS ? group->notices.blamed[rank] - 1 : -1;
    pthread_mutex_unlock(&group->notices.lock);
    return blamed;
}

void mscclpp_group_send_vote(mscclpp_group_t *group, uint64_t vote_number, bool yes)
{
    int i;

    pthread_mutex_lock(&group->notices.lock);
    for (i = 0; i < group->leader_count; ++i) {
        post_with(group, group->leaders[i], NOTICE_VOTE, group->call, MSCCLPP_OK, 2 * vote_number + yes);
    }
    pthread_mutex_unlock(&group->notices.lock);
}

bool mscclpp_group_all_voted(mscclpp_group_t *group, uint64_t vote_number, bool *yes_p)
{
    bool have_all_come = true;
    int i;

    pthread_mutex_lock(&group->notices.lock);
    read_all(group);
    for (i = 0; i < group->leader_count; ++i) {
        const uint64_t vote = group->far_votes[i][vote_number % 2];

        have_all_come = have_all_come && vote / 2 == vote_number;
        *yes_p = *yes_p && vote == 2 * vote_number + 1;
    }
    pthread_mutex_unlock(&group->notices.lock);
    return have_all_come;
}

/* Only the node's first rank receives votes, so the set is empty on all other ranks. */
uint64_t mscclpp_group_missing_votes(mscclpp_group_t *group)
{
    const uint64_t vote_number = group->node_votes;
    uint64_t absent = 0;
    int i;

    pthread_mutex_lock(&group->notices.lock);
    for (i = 0; i < group->leader_count && group->rank == 0; ++i) {
        if (group->far_votes[i][vote_number % 2] / 2 != vote_number) {
            absent = mscclpp_board_add_absent(absent, group->leaders[i]);
        }
    }
    pthread_mutex_unlock(&group->notices.lock);
    return absent;
}

/*
 * Sends only once for each call. `told_waiting` is read without the lock, because only the thread that makes the call
 * uses it.
 */
void mscclpp_group_tell_waiting(mscclpp_group_t *group)
{
    int i;

    if (group->notices.told_waiting == group->call || group->rank != 0) {
        return;
    }
    group->notices.told_waiting = group->call;
    pthread_mutex_lock(&group->notices.lock);
    for (i = 0; i < group->leader_count; ++i) {
        post(group, group->leaders[i], NOTICE_WAITS, group->call, MSCCLPP_OK);
    }
    pthread_mutex_unlock(&group->notices.lock);
}

/*
 * Looks on the board first, because reading the notices takes a lock. Ranks of other nodes learn only from a notice
 * that this rank passed host buffers, so this function tells all ranks, once for each call.
 */
int mscclpp_group_find_device_rank(mscclpp_group_t *group, uint64_t call)
{
    mscclpp_group_notices_t *notices = &group->notices;
    int rank = mscclpp_group_find_announced(group, call, MSCCLPP_CALL_DEVICE), receiver;

    /*
     * This function must not wait for the lock, because the progress of a wait that holds the lock may have called it.
     * Such a wait is in another call than `call`.
     */
    if (rank >= 0 || group->leader_count == 0 || pthread_mutex_trylock(&notices->lock) != 0) {
        return rank;
    }
    read_all(group);
    if (notices->waits.rank >= 0 && notices->waits.call == call) {
        rank = notices->waits.rank;
    } else if (notices->failed.rank >= 0 && notices->failed.call == call) {
        rank = notices->failed.rank; /* only calls on device buffers fail */
    }
    if (rank >= 0 && notices->told_host != call) {
        notices->told_host = call;
        keep_host(notices, call, group->members[group->rank]);
        for (receiver = 0; receiver < group->oob.size; ++receiver) {
            post(group, receiver, NOTICE_MIXED, call, MSCCLPP_OK);
        }
    }
    pthread_mutex_unlock(&notices->lock);
    return rank;
}
