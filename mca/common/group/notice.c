/*
 * What ranks tell one another by control messages: that their calls failed; and, since the control segment shows each
 * node its own ranks only, who passes device buffers and who host buffers where ranks of other nodes wait for long.
 *
 * A node's first rank that waits in a device call says so to the first rank of each other node. Where that one, too, is
 * in a device call, a mixture within its node is seen there. Where it passed host buffers, whatever looks for mixtures
 * on its side finds the message and answers all other nodes.
 */
#include "mca/common/team/parts.h"

#include <string.h>

/* For notices of a failure to leave: this rank may not come back to the library. */
#define TELL_SECONDS 0.5

typedef enum {
    NOTICE_FAILED = 1, /* the call ended with an error on the sender */
    NOTICE_WAITS = 2,  /* the sender passed device buffers and waits */
    NOTICE_MIXED = 3   /* the sender passed host buffers while others wait */
} notice_kind_t;

/* As it travels. */
typedef struct {
    uint64_t call;
    int32_t status; /* of NOTICE_FAILED; else nothing */
    int32_t rank;   /* the sender, as the communicator numbers it */
    uint32_t kind;
    int32_t host_rank; /* one that passed host buffers in that call; -1: none is known */
} notice_t;

_Static_assert(sizeof(notice_t) <= MSCCLPP_CTRL_MESSAGE_MAX, "a notice fits a control message");

void mscclpp_team_notices_init(mscclpp_team_t *team)
{
    mscclpp_team_notices_t *notices = &team->notices;

    memset(notices, 0, sizeof(*notices));
    notices->failed.rank = notices->waits.rank = notices->host.rank = -1;
    pthread_mutex_init(&notices->lock, NULL);
}

void mscclpp_team_notices_fini(mscclpp_team_t *team)
{
    pthread_mutex_destroy(&team->notices.lock);
}

/* The rank that a mixture in call `call` is known by, or -1. With the lock held. */
static int host_rank_of(const mscclpp_team_t *team, uint64_t call)
{
    return team->notices.host.call == call ? team->notices.host.rank : -1;
}

/* With the lock held. */
static void post(mscclpp_team_t *team, int to, notice_kind_t kind, uint64_t call, mscclpp_status_t status)
{
    notice_t notice;

    memset(&notice, 0, sizeof(notice));
    notice.call = call;
    notice.status = (int32_t)status;
    notice.rank = team->members[team->rank];
    notice.kind = (uint32_t)kind;
    notice.host_rank = host_rank_of(team, call);
    if (team->ctrl != NULL && to != notice.rank) {
        (void)mscclpp_ctrl_post(team->ctrl, to, &notice, sizeof(notice));
    }
}

static void keep_host(mscclpp_team_notices_t *notices, uint64_t call, int rank)
{
    if (call >= notices->host.call) {
        notices->host.call = call;
        notices->host.rank = rank;
    }
}

static void keep(mscclpp_team_notice_t *kept, const notice_t *notice)
{
    kept->call = notice->call;
    kept->rank = notice->rank;
    kept->status = (mscclpp_status_t)notice->status;
}

/* With the lock held. */
static void read_all(mscclpp_team_t *team)
{
    mscclpp_team_notices_t *notices = &team->notices;
    unsigned char message[MSCCLPP_CTRL_MESSAGE_MAX];
    size_t length = sizeof(message);
    int peer;

    while (team->ctrl != NULL && mscclpp_ctrl_poll(team->ctrl, &peer, message, &length) == MSCCLPP_OK) {
        notice_t notice;

        if (length == sizeof(notice)) {
            memcpy(&notice, message, sizeof(notice));
            if (notice.kind == NOTICE_FAILED && notices->failed.rank < 0) {
                keep(&notices->failed, &notice);
            }
            if (notice.kind == NOTICE_WAITS && notice.call >= notices->waits.call) {
                keep(&notices->waits, &notice);
            }
            if (notice.host_rank >= 0) {
                keep_host(notices, notice.call, notice.host_rank);
            }
        }
        length = sizeof(message);
    }
}

void mscclpp_team_read_notices(mscclpp_team_t *team, mscclpp_team_notice_t *failed_p, mscclpp_team_notice_t *host_p)
{
    pthread_mutex_lock(&team->notices.lock);
    read_all(team);
    *failed_p = team->notices.failed;
    *host_p = team->notices.host;
    pthread_mutex_unlock(&team->notices.lock);
}

void mscclpp_team_note_host(mscclpp_team_t *team, int rank)
{
    pthread_mutex_lock(&team->notices.lock);
    keep_host(&team->notices, team->call, rank);
    pthread_mutex_unlock(&team->notices.lock);
}

void mscclpp_team_tell_failure(mscclpp_team_t *team, mscclpp_status_t status)
{
    int rank;

    pthread_mutex_lock(&team->notices.lock);
    for (rank = 0; rank < team->oob.size; ++rank) {
        post(team, rank, NOTICE_FAILED, team->call, status);
    }
    pthread_mutex_unlock(&team->notices.lock);
    if (team->ctrl != NULL) {
        mscclpp_ctrl_flush(team->ctrl, TELL_SECONDS);
    }
}

void mscclpp_team_tell_waiting(mscclpp_team_t *team)
{
    int i;

    if (team->notices.asked == team->call || team->rank != 0) {
        return;
    }
    team->notices.asked = team->call;
    pthread_mutex_lock(&team->notices.lock);
    for (i = 0; i < team->leader_count; ++i) {
        post(team, team->leaders[i], NOTICE_WAITS, team->call, MSCCLPP_OK);
    }
    pthread_mutex_unlock(&team->notices.lock);
}

int mscclpp_team_find_device_rank(mscclpp_team_t *team, uint64_t call)
{
    mscclpp_team_notices_t *notices = &team->notices;
    int rank = mscclpp_team_find_announced(team, call, MSCCLPP_CALL_DEVICE), to;

    /* A wait that holds the lock may have led here: that thread's own call is then not the one that is asked about. */
    if (rank >= 0 || team->leader_count == 0 || pthread_mutex_trylock(&notices->lock) != 0) {
        return rank;
    }
    read_all(team);
    if (notices->waits.rank >= 0 && notices->waits.call == call) {
        rank = notices->waits.rank;
    } else if (notices->failed.rank >= 0 && notices->failed.call == call) {
        rank = notices->failed.rank; /* only calls on device buffers fail */
    }
    if (rank >= 0 && notices->told != call) {
        notices->told = call;
        keep_host(notices, call, team->members[team->rank]);
        for (to = 0; to < team->oob.size; ++to) {
            post(team, to, NOTICE_MIXED, call, MSCCLPP_OK);
        }
    }
    pthread_mutex_unlock(&notices->lock);
    return rank;
}
