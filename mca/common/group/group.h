/*
 * The ranks of one node as their hosts see one another: the board that they write to, control messages, and waits that
 * end with an error where one of them fails, does not come or does something else.
 */
#ifndef MCA_COMMON_GROUP_GROUP_H
#define MCA_COMMON_GROUP_GROUP_H

#include <pthread.h>
#include <time.h>

#include "mca/common/base/call.h"
#include "mca/common/ctrl/ctrl.h"
#include "mca/common/group/admission.h"
#include "mca/common/group/board.h"
#include "mca/common/oob/oob.h"

/* What a rank has said of one of its calls. */
typedef struct {
    uint64_t call;
    int rank; /* as the communicator numbers it; -1: nobody has said anything */
    mscclpp_status_t status;
} mscclpp_group_notice_t;

/* What control messages have said so far. */
typedef struct {
    pthread_mutex_t lock;          /* a rank in a call on host buffers is looked after by any thread */
    mscclpp_group_notice_t failed; /* the first to fail */
    mscclpp_group_notice_t waits;  /* the last to wait in a call on device buffers */
    mscclpp_group_notice_t host;   /* the last to pass host buffers while others waited */
    uint64_t told;                 /* the last call on host buffers that other nodes were told of */
    uint64_t asked;                /* the last call in which they were told of a wait; of the call's own thread */
} mscclpp_group_notices_t;

typedef struct {
    mscclpp_oob_t oob;
    int rank; /* among the ranks of the node, as is every index below */
    int size;
    int members[MSCCLPP_DEV_MAX_RANKS]; /* the ranks of the node, as the communicator numbers them, for messages */
    int *leaders; /* the first rank of each other node, as the communicator numbers it; behind the team */
    int leader_count;
    bool on_twin;
    bool traced;    /* a tool watches the kernels of this rank */
    double timeout; /* seconds, this rank's own; 0: none */
    double warn_after;
    bool probing;         /* a wait that ends early is no error */
    bool meet_first;      /* kernels are launched only once all ranks have come to the call; equal on all ranks */
    uint64_t id;          /* equal on all ranks, unlike that of any other team of theirs */
    mscclpp_ctrl_t *ctrl; /* NULL: none; with all ranks of the communicator */
    mscclpp_group_notices_t notices;
    mscclpp_shmseg_t *board_segment;
    mscclpp_board_line_t *board; /* one line a rank */
    bool broken;
    bool peer_failed;            /* the cause lies with a peer, which has told all others */
    uint64_t call;               /* number of the call in hand, for messages */
    const char *collective;      /* what it is, likewise */
    mscclpp_board_asked_t asked; /* by that call */
    bool checks_calls;           /* somebody has compared the arguments of all ranks before the call */
    uint64_t exchanges;
    uint64_t meetings;
    uint64_t arrivals;              /* meetings before a launch, equal on all ranks */
    uint64_t steps;                 /* of finding room, likewise */
    mscclpp_admission_t *admission; /* NULL: other threads of this rank start no kernels, so there is always room */
    bool has_room;                  /* for the task in hand */
    bool spans;                     /* there are other nodes */

    /*
     * Ranks of other nodes that have sent nothing in the call in hand, one bit each; `may_ask`: the GPU's runtime may
     * be called. NULL: there are no other nodes.
     */
    uint64_t (*find_absent)(void *context, bool may_ask);
    void *absent_context;
} mscclpp_group_t;

/*
 * A wait of the host: every turn moves the embedding runtime on; now and then it looks for failures of peers, mixtures
 * of buffers, revocation and the deadline.
 */
typedef struct {
    mscclpp_group_t *group;
    const char *what; /* for messages, such as "kernel oneshot" */
    uint64_t bytes;
    const uint64_t *words; /* NULL, or a word of every rank's control line that must reach `target`: names the late */
    uint64_t target;
    uint32_t turns;
    double started;
    double last_turn; /* in a fiber */
    double next_check;
    bool warned;
    bool pumped; /* a kernel waits for what this thread moves on */
} mscclpp_group_wait_t;

/* board.c: see mca/common/team/team.h. */
void mscclpp_group_announce(mscclpp_group_t *group, uint64_t call, mscclpp_call_kind_t kind);
int mscclpp_group_find_announced(const mscclpp_group_t *group, uint64_t call, mscclpp_call_kind_t kind);
bool mscclpp_group_awaits_announcements(const mscclpp_group_t *group, uint64_t call);

/* See mscclpp_team_decide and mscclpp_team_is_decided. */
bool mscclpp_group_decide(mscclpp_group_t *group, uint64_t call, bool device);
bool mscclpp_group_is_decided(const mscclpp_group_t *group, uint64_t call, bool *device_p);

/* notice.c */
void mscclpp_group_notices_init(mscclpp_group_t *group);
void mscclpp_group_notices_fini(mscclpp_group_t *group);

/* Takes what has come, and yields the first failure of a peer and the last call in which one passed host buffers. */
void mscclpp_group_read_notices(mscclpp_group_t *group, mscclpp_group_notice_t *failed_p,
                                mscclpp_group_notice_t *host_p);

/* Another rank has passed host buffers in the call in hand; a failure that is told from now on names it. */
void mscclpp_group_note_host(mscclpp_group_t *group, int rank);

/* Tells all ranks that the call in hand failed on this one. */
void mscclpp_group_tell_failure(mscclpp_group_t *group, mscclpp_status_t status);

/* Tells the other nodes, once a call, that this rank waits in the call in hand. */
void mscclpp_group_tell_waiting(mscclpp_group_t *group);

/*
 * For a rank that has been in call `call` on host buffers for long: a rank of any node that passed device buffers in
 * it, or -1 as long as none is known. Ranks of other nodes then learn of this one. From any thread; never waits.
 */
int mscclpp_group_find_device_rank(mscclpp_group_t *group, uint64_t call);

/* wait.c */
void mscclpp_group_wait_init(mscclpp_group_wait_t *wait, mscclpp_group_t *group, const char *what, uint64_t bytes);

/* Logs that what two ranks ask of the call in hand differs. The error of such a call. */
mscclpp_status_t mscclpp_group_report_difference(const mscclpp_group_t *group, int rank, mscclpp_board_asked_t asked);

/* Moves the embedding runtime on; or, in a fiber, goes back to whoever does. */
void mscclpp_group_progress(const mscclpp_group_t *group);

/* One turn. Anything but MSCCLPP_OK is the reason to give up, already logged; the team is not yet marked as broken. */
mscclpp_status_t mscclpp_group_wait_turn(mscclpp_group_wait_t *wait);

/*
 * The GPU's runtime may let a thread wait while another one frees memory, which waits for kernels; and those of a team
 * with a pump wait for this thread. compute-sanitizer does work of its own on the device before it lets an answer
 * through, while which kernels of other ranks of the process do not begin. So the runtime is asked about kernels that
 * wait for other ranks only when something seems to be wrong: true then, or where there is neither a pump nor a tool.
 */
bool mscclpp_group_may_ask(const mscclpp_group_wait_t *wait);

/* The word of another rank's control line that corresponds to `word` of this rank's. */
const uint64_t *mscclpp_group_word_of(const mscclpp_group_t *group, const uint64_t *word, int rank);

/* Waits until the same word of every rank's control line is at least `target` (`word`: this rank's own). */
mscclpp_status_t mscclpp_group_wait_words(mscclpp_group_t *group, const char *what, uint64_t bytes,
                                          const uint64_t *word, uint64_t target);

/* The same as a part of a longer wait, which goes on. */
mscclpp_status_t mscclpp_group_wait_on(mscclpp_group_wait_t *wait, const uint64_t *word, uint64_t target);

/* Tells the peers, unless the failure is one of theirs, that the call in hand has failed. */
void mscclpp_group_fail(mscclpp_group_t *group, mscclpp_status_t status);

/*
 * meeting.c: where ranks meet before a launch, in this call (`early`) or in all (`meet_first`), waits for all of them,
 * and with `meet_first` for room for the kernels of all; to be called when nothing that could wait for another kernel
 * is left to do. Between nodes there are no threads that could start other kernels, so those of a node do without room.
 * Room that was found is this rank's until it gives it back, whatever the status.
 */
mscclpp_status_t mscclpp_group_meet(mscclpp_group_t *group, uint64_t bytes, bool early);
void mscclpp_group_give_room(mscclpp_group_t *group);

/*
 * exchange.c: one exchange between the hosts, in three steps that all ranks go through. `begin` yields this
 * rank's set of handles, to be filled in; `meet` waits for those of all ranks, which `exchanged` then yields until
 * `end`, which also tells all ranks whether all of them say yes.
 */
mscclpp_board_buffers_t *mscclpp_group_begin_exchange(mscclpp_group_t *group);
mscclpp_status_t mscclpp_group_meet_exchange(mscclpp_group_t *group, const char *what, uint64_t bytes);
const mscclpp_board_buffers_t *mscclpp_group_exchanged(const mscclpp_group_t *group, int rank);
mscclpp_status_t mscclpp_group_end_exchange(mscclpp_group_t *group, const char *what, uint64_t bytes, bool yes,
                                            bool *all_p);

/* Logs, and yields the error, if what the ranks ask of the call differs. All ranks see what all ask, so they end alike.
 */
mscclpp_status_t mscclpp_group_compare_asked(const mscclpp_group_t *group);

#endif
