/*
 * A group: the ranks of a team that are on one node. Their hosts communicate through a board in shared memory and
 * through control messages. A wait for another rank ends with an error if that rank fails, is late, or makes a
 * different call.
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

/* What a rank has told the others about one of its calls, by a control message. */
typedef struct {
    uint64_t call;
    int rank; /* rank in the communicator; -1: no such notice has come */
    mscclpp_status_t status;
} mscclpp_group_notice_t;

/* What this rank has learned from control messages so far. */
typedef struct {
    pthread_mutex_t lock;          /* held for all fields, as any thread may be in a call on host buffers */
    mscclpp_group_notice_t failed; /* the first rank that failed */
    mscclpp_group_notice_t waits;  /* the last rank that waited in a call on device buffers */
    mscclpp_group_notice_t host;   /* the last rank that passed host buffers while others waited */
    /* By rank in the communicator: 1 + the rank that it blames (mscclpp_group_blame); 0: none is known. */
    int blamed[MSCCLPP_DEV_MAX_RANKS];
    uint64_t told_host; /* the last call on host buffers about which this rank has told the other nodes */
    /* The last call in which this rank has told them that it waits. Not locked: only the call's thread uses it. */
    uint64_t told_waiting;
} mscclpp_group_notices_t;

/*
 * The search for the rank of any node that all others wait for (inquiry.c). Ranks are those of the communicator; -1:
 * none. Guarded by the notices' lock.
 */
typedef struct {
    uint64_t waits_call; /* the last call in which this rank has waited for others */
    int waits_for;       /* the first rank that it waited for in that call */
    uint64_t call;       /* the call of the search */
    bool at_deadline;    /* the search is for the message at the deadline, not for the warning */
    bool begun;          /* this rank has asked */
    double begins_at;    /* when this rank asks for the first time, if nobody has named the late one until then */
    int asked_rank;      /* the rank that was asked last; -1: none */
    double asked_at;     /* when it was asked */
    bool answered;       /* it has answered */
    int answer;          /* the rank that it waits for, if it has answered */
    unsigned hops;       /* answers that led to a further rank */
    int unknown;         /* ranks that were asked although none is known to wait for them */
    uint64_t named_call; /* the last call in which another rank has named the late one */
} mscclpp_group_inquiry_t;

/* The state of one rank's part of a group. */
typedef struct {
    mscclpp_oob_t oob;
    int rank; /* within the node, as is every index below */
    int size;
    int members[MSCCLPP_DEV_MAX_RANKS]; /* the node's ranks in the communicator, for messages */
    int *leaders; /* the first rank of each other node, in the communicator; allocated with the team */
    int leader_count;
    /*
     * The last two votes of each other node, in the order of `leaders`: each 2 * its number, + 1 for yes. Used by the
     * node's first rank. Allocated with the team.
     */
    uint64_t (*far_votes)[2];
    bool on_twin;
    bool traced;          /* a tool watches the kernels of this rank */
    double timeout;       /* seconds; may differ between ranks; 0: none */
    double warn_after;    /* seconds of a wait after which late ranks are named in a warning; 0: never */
    bool probing;         /* a trial at set-up: a wait that times out is logged as information only */
    bool meet_first;      /* kernels are launched only once all ranks have come to the call; equal on all ranks */
    uint64_t id;          /* number of the team: equal on all its ranks, and unique among their teams */
    mscclpp_ctrl_t *ctrl; /* control messages to all ranks of the communicator; NULL: there are none */
    mscclpp_group_notices_t notices;
    mscclpp_group_inquiry_t inquiry;
    mscclpp_shmseg_t *board_segment;
    mscclpp_board_line_t *board;    /* one line per rank */
    bool broken;                    /* the team has failed, and serves no further call */
    bool peer_failed;               /* a peer caused the failure, and has told all other ranks */
    uint64_t calls_before;          /* the number on the board of the communicator's call 0; see board.c */
    uint64_t call;                  /* the number of the current call, for messages */
    const char *collective;         /* the name of its collective, for messages */
    mscclpp_board_asked_t asked;    /* the arguments of the current call */
    bool checks_calls;              /* the caller compares the arguments of all ranks before each call */
    uint64_t exchanges;             /* exchanges of handles so far; equal on all ranks */
    bool gave_up;                   /* an exchange with a deadline has failed; equal on all ranks after that exchange */
    uint64_t meetings;              /* meetings of the hosts so far, at other times than before a launch */
    uint64_t arrivals;              /* meetings before a launch so far; equal on all ranks */
    uint64_t slot_votes;            /* votes on slots so far; equal on all ranks */
    uint64_t node_votes;            /* votes of all nodes so far; equal on all ranks */
    mscclpp_admission_t *admission; /* slots of this process */
    bool concurrent;                /* threads of this rank may start kernels of several teams at once */
    bool has_slot;                  /* this rank holds the slot of its process for the current task; see admission.h */
    bool spans;                     /* there are other nodes */
    bool threads;                   /* some rank is concurrent; equal on all ranks */

    /*
     * Returns the ranks of other nodes that have sent nothing in the current call, as a word of
     * mscclpp_board_add_absent. `may_ask` allows calls into the GPU runtime. NULL if there are no other nodes.
     */
    uint64_t (*find_absent)(void *context, bool may_ask);
    void *absent_context;
    bool asks_all; /* the host cannot see whom a kernel waits for, so a search asks all ranks in turn */
} mscclpp_group_t;

/*
 * A wait of the host for other ranks or for a kernel. Every turn of it calls the embedding runtime's progress. Some
 * turns also check for failures of peers, mixed kinds of buffers, revocation and the deadline.
 */
typedef struct {
    mscclpp_group_t *group;
    const char *what; /* what is awaited, for messages, such as "kernel oneshot" */
    uint64_t bytes;   /* size of the call's message, for messages */
    /* This rank's own word of those that are awaited on all ranks' lines, to find out who is late. NULL: none are. */
    const uint64_t *words;
    uint64_t target;   /* what these words have to reach */
    uint32_t turns;    /* turns so far */
    double started;    /* time of the first turn that read the clock; 0: none has yet */
    double last_turn;  /* time of the last turn, if the wait is in a fiber */
    double next_check; /* time of the next round of checks */
    bool warned;       /* late ranks have been named, here or by another rank */
    bool pumped;       /* a kernel depends on the progress that this thread makes */
    bool votes;        /* the nodes vote, so those that have not voted yet are the late ones */
} mscclpp_group_wait_t;

/* board.c: calls on the board. mca/common/team/team.h explains how they are used. */

/* Returns the word that a rank writes to its line in call `call`: 4 * the call's number + the kind of its buffers. */
uint64_t mscclpp_group_call_word(const mscclpp_group_t *group, uint64_t call, mscclpp_call_kind_t kind);

/* True if the rank with this index on the node has not come to call `call` yet. */
bool mscclpp_group_is_behind(const mscclpp_group_t *group, int rank, uint64_t call);

/* Called when another communicator takes over the team: its calls are counted from 0 again. */
void mscclpp_group_renumber(mscclpp_group_t *group);

/* Publishes that this rank is in call `call`, on buffers of this kind; see mscclpp_team_announce. */
void mscclpp_group_announce(mscclpp_group_t *group, uint64_t call, mscclpp_call_kind_t kind);

/* Returns the first rank of the node, in the communicator, that has announced the call as one of this kind, or -1. */
int mscclpp_group_find_announced(const mscclpp_group_t *group, uint64_t call, mscclpp_call_kind_t kind);

/*
 * True while some rank of the node has not reached call `call` and no rank has announced the kind of its buffers in it;
 * see mscclpp_team_awaits_announcements.
 */
bool mscclpp_group_awaits_announcements(const mscclpp_group_t *group, uint64_t call);

/*
 * `decide` returns whether call `call` is served as one on device buffers: as this rank proposes by `device`, or as an
 * earlier rank has decided. `is_decided` is true if some rank has decided, and stores the decision in *device_p. See
 * mscclpp_team_decide.
 */
bool mscclpp_group_decide(mscclpp_group_t *group, uint64_t call, bool device);
bool mscclpp_group_is_decided(const mscclpp_group_t *group, uint64_t call, bool *device_p);

/*
 * On one node, true for the first rank that asks in the current call: it logs the line for all. There are two lines,
 * the warning, and the error `at_deadline` or after another rank's failure.
 */
bool mscclpp_group_claims_line(const mscclpp_group_t *group, bool at_deadline);

/* notice.c: initializes and ends the notices and the inquiry of a group. */
void mscclpp_group_notices_init(mscclpp_group_t *group);
void mscclpp_group_notices_fini(mscclpp_group_t *group);

/*
 * Receives and keeps pending notices, and sends what is left to send. For any thread, and at any time: does nothing
 * while the notices are in use.
 */
void mscclpp_group_tend_notices(mscclpp_group_t *group);

/*
 * Receives all pending notices. *failed_p is the first failure that a peer has told of, and *host_p the last call in
 * which a rank passed host buffers while others waited. `rank` is -1 where none is known.
 */
void mscclpp_group_read_notices(mscclpp_group_t *group, mscclpp_group_notice_t *failed_p,
                                mscclpp_group_notice_t *host_p);

/* Notes that another rank has passed host buffers in the current call. Failures reported from now on name that rank. */
void mscclpp_group_note_host(mscclpp_group_t *group, int rank);

/* Called on the node's first rank: sends the node's answer in vote `vote` to the first ranks of all other nodes. */
void mscclpp_group_send_vote(mscclpp_group_t *group, uint64_t vote, bool yes);

/*
 * Called on the node's first rank: receives notices, and returns true if the votes of all other nodes have come. *yes_p
 * becomes false unless all of them are here and say yes.
 */
bool mscclpp_group_all_voted(mscclpp_group_t *group, uint64_t vote_number, bool *yes_p);

/* Returns the first ranks of nodes that have not voted in the current vote, as a word of mscclpp_board_add_absent. */
uint64_t mscclpp_group_missing_votes(mscclpp_group_t *group);

/*
 * Tells all ranks that the current call has failed on this rank, and `lost` last, whose connection broke (-1: none).
 * That rank may live, and then has nobody else to learn it from.
 */
void mscclpp_group_tell_failure(mscclpp_group_t *group, mscclpp_status_t status, int lost);

/*
 * For communicators of at most MSCCLPP_DEV_MAX_RANKS ranks. `blame` tells all ranks that a queued call has failed here
 * because `rank` did not come. `blamed_by` returns the rank that `rank` has blamed, or -1 if nothing is known of that.
 * Ranks are those of the communicator.
 */
void mscclpp_group_blame(mscclpp_group_t *group, int rank);
int mscclpp_group_blamed_by(mscclpp_group_t *group, int rank);

/* On the node's first rank: tells the other nodes, once per call, that it waits in it. On other ranks, does nothing. */
void mscclpp_group_tell_waiting(mscclpp_group_t *group);

/*
 * Called by a rank that has been in call `call` on host buffers for a long time, to find out whether others passed
 * device buffers. Returns a rank of any node that did, or -1 while none is known. If one is found, this function also
 * tells the other nodes' ranks about this rank. Thread-safe; never waits.
 */
int mscclpp_group_find_device_rank(mscclpp_group_t *group, uint64_t call);

/* Asks a rank whom it waits for in the current call. Call with the notices' lock held. */
void mscclpp_group_post_ask(mscclpp_group_t *group, int rank);

/* Tells all ranks that this one names the late rank of the current call. Call with the notices' lock held. */
void mscclpp_group_post_named(mscclpp_group_t *group);

/*
 * inquiry.c: notes that this rank waits for rank `late` in the current call; -1: for none that it knows. It answers the
 * questions of other ranks by this.
 */
void mscclpp_group_say_waiting(mscclpp_group_t *group, int late);

typedef enum {
    MSCCLPP_INQUIRY_SEARCHING, /* call again */
    MSCCLPP_INQUIRY_FOUND,     /* this rank names the late one now */
    MSCCLPP_INQUIRY_TOLD       /* another rank has named it */
} mscclpp_inquiry_result_t;

/*
 * Makes a step of the search for the rank that the others wait for. Call mscclpp_group_say_waiting first.
 * `at_deadline`: the search is for the message at the deadline; else it is for the warning, which only one rank of the
 * communicator logs. If this rank has to name the late one, *late_p is that rank, or -1 if it is not known.
 */
mscclpp_inquiry_result_t mscclpp_group_inquire(mscclpp_group_t *group, bool at_deadline, double now, int *late_p);

/*
 * Called when the connection to rank `lost` is gone, on each rank that had one. One of them logs `text` as an error and
 * gets true: it has to tell the others. The others wait until it does, for some seconds, and get false. Without
 * control messages, and in the set-up, all of them get true.
 */
bool mscclpp_group_name_lost(mscclpp_group_t *group, int lost, const char *text);

/* wait.c: begins a wait. `what` and `bytes` are for messages; `what` must outlive the wait. */
void mscclpp_group_wait_init(mscclpp_group_wait_t *wait, mscclpp_group_t *group, const char *what, uint64_t bytes);

/* Logs that the arguments of two ranks differ in the current call. Returns the error for such a call. */
mscclpp_status_t mscclpp_group_report_difference(const mscclpp_group_t *group, int rank, mscclpp_board_asked_t asked);

/* Calls the embedding runtime's progress. In a fiber, yields to the thread's main flow instead, which does so. */
void mscclpp_group_progress(const mscclpp_group_t *group);

/*
 * Makes one turn of a wait. Any status but MSCCLPP_OK means that the wait has failed. The reason is logged, but the
 * team is not marked as broken yet.
 */
mscclpp_status_t mscclpp_group_wait_turn(mscclpp_group_wait_t *wait);

/*
 * True if the wait may ask the GPU runtime about a kernel that waits for other ranks. Asking may deadlock in two cases.
 * Then it is allowed only after a long wait, when something is probably wrong anyway:
 * - The team has a pump. The runtime may block this thread while another thread frees memory. Freeing waits for
 *   kernels, and those kernels wait for this thread.
 * - A tool watches the kernels. compute-sanitizer does work of its own on the device before it answers, and kernels
 *   of other ranks of the process do not start meanwhile.
 */
bool mscclpp_group_may_ask(const mscclpp_group_wait_t *wait);

/* Returns the word of another rank's board line that corresponds to `word` of this rank's line. */
const uint64_t *mscclpp_group_word_of(const mscclpp_group_t *group, const uint64_t *word, int rank);

/* Waits until a word is at least `target` on every rank's line of the board. `word` is this rank's own word. */
mscclpp_status_t mscclpp_group_wait_words(mscclpp_group_t *group, const char *what, uint64_t bytes,
                                          const uint64_t *word, uint64_t target);

/* Like mscclpp_group_wait_words, as a part of a longer wait with one deadline. */
mscclpp_status_t mscclpp_group_wait_on(mscclpp_group_wait_t *wait, const uint64_t *word, uint64_t target);

/*
 * Tells all ranks that the current call has failed here, unless a peer caused the failure, which has told them. `loss`:
 * a peer that connections have lost, which one rank names; NULL: there are no connections.
 */
void mscclpp_group_fail(mscclpp_group_t *group, mscclpp_status_t status, const mscclpp_loss_t *loss);

/*
 * meeting.c: makes the ranks meet before a launch, if they have to: those of all nodes before an early kernel (`early`)
 * and in a team with `threads`, and those of the node before every launch (`meet_first`). Waits for all ranks, and,
 * where the kernel needs a slot (admission.h), until all ranks hold one. Call this last before the launch, when nothing
 * is left to do that could wait for another kernel. Whatever the status, the rank keeps the slot if it got one;
 * mscclpp_group_give_slot gives it back, after the end of the kernel.
 */
mscclpp_status_t mscclpp_group_meet(mscclpp_group_t *group, uint64_t bytes, bool early);

/* Gives back the slot, if this rank holds it. */
void mscclpp_group_give_slot(mscclpp_group_t *group);

/*
 * exchange.c: one exchange of handles between the hosts. All ranks take these steps:
 * - `begin` returns this rank's set of handles, which the caller fills in.
 * - `meet` publishes that set and waits for the sets of all ranks. From then on, until `end`, `exchanged` returns
 *   them.
 * - `end` votes: *all_p is true if all ranks passed `yes`.
 */
mscclpp_board_buffers_t *mscclpp_group_begin_exchange(mscclpp_group_t *group);
mscclpp_status_t mscclpp_group_meet_exchange(mscclpp_group_t *group, const char *what, uint64_t bytes);
const mscclpp_board_buffers_t *mscclpp_group_exchanged(const mscclpp_group_t *group, int rank);
mscclpp_status_t mscclpp_group_end_exchange(mscclpp_group_t *group, const char *what, uint64_t bytes, bool yes,
                                            bool *all_p);

/*
 * `meet` and `end` of an exchange that ranks need not come to: none waits for longer than until `deadline`, a time of
 * mscclpp_now. If a rank has not come or voted by then, *met_p or *all_p is false on all ranks, also on those that come
 * later, and group->gave_up is set: no further exchange of this kind may begin. Arguments are not compared. The status
 * is an error only if a rank has failed.
 */
mscclpp_status_t mscclpp_group_meet_exchange_by(mscclpp_group_t *group, const char *what, uint64_t bytes,
                                                double deadline, bool *met_p);
mscclpp_status_t mscclpp_group_end_exchange_by(mscclpp_group_t *group, const char *what, uint64_t bytes,
                                               double deadline, bool yes, bool *all_p);

/*
 * Compares the arguments of all ranks. If they differ, logs it and returns the error. All ranks see the same arguments,
 * so they all return the same status.
 */
mscclpp_status_t mscclpp_group_compare_asked(const mscclpp_group_t *group);

#endif
