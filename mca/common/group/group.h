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

/* A notice that a rank has sent to the others by a control message, about one of its calls. */
typedef struct {
    uint64_t call;
    int rank; /* rank in the communicator; -1: no such notice has come */
    mscclpp_status_t status;
} mscclpp_group_notice_t;

/* The notices that this rank has received, and the records of the notices that it has sent. */
typedef struct {
    pthread_mutex_t lock;          /* protects all fields, because any thread may be in a call on host buffers */
    mscclpp_group_notice_t failed; /* the first rank that failed */
    mscclpp_group_notice_t waits;  /* the last rank that waited in a call on device buffers */
    mscclpp_group_notice_t host;   /* the last rank that passed host buffers while others waited */
    /* By rank in the communicator: 1 + the rank that it blames (mscclpp_group_blame); 0: none is known. */
    int blamed[MSCCLPP_DEV_MAX_RANKS];
    uint64_t told_host; /* the last call on host buffers about which this rank has told the other nodes */
    /* The last call in which this rank has told the other nodes that it waits. Only the call's thread uses it. */
    uint64_t told_waiting;
} mscclpp_group_notices_t;

/*
 * The state of this rank's search for the rank of any node that all others wait for (inquiry.c). Ranks are numbered in
 * the communicator; -1: none. Protected by the lock of the notices.
 */
typedef struct {
    uint64_t waits_call; /* the last call in which this rank has waited for others */
    int waits_for;       /* the first rank that this rank waited for in that call */
    uint64_t call;       /* the call of the search */
    bool at_deadline;    /* the search is for the message at the deadline, not for the warning */
    bool has_begun;      /* this rank has asked its first question */
    double begins_at;    /* when this rank asks for the first time, if no rank has named the late rank before */
    int asked_rank;      /* the rank that was asked last; -1: none */
    double asked_at;     /* the time of the last question */
    bool has_answered;   /* the rank that was asked last has answered */
    int answer;          /* the rank that it waits for, according to its answer */
    unsigned hops;       /* number of answers that led to a further rank */
    int unknown;         /* number of ranks that were asked although no rank is known to wait for them */
    uint64_t named_call; /* the last call in which, or before which, another rank has named the late rank */
} mscclpp_group_inquiry_t;

/* What this rank has seen of the other ranks' signs of life (signs.c), by their numbers on the node. */
typedef struct {
    uint64_t call;                        /* the call that the other fields are about, by mscclpp_group_call_word */
    double waited;                        /* seconds for which this rank has waited in that call */
    double looked_at;                     /* when it last looked, or when the current wait began */
    uint64_t last[MSCCLPP_DEV_MAX_RANKS]; /* the last sign of each rank */
    /* By rank: the value of `waited` at the last look that found a new sign, or that found the rank not waiting. */
    double changed_at[MSCCLPP_DEV_MAX_RANKS];
} mscclpp_group_signs_t;

/* What this rank knows about the rank of another node that it watches, and about the rank that watches it (watch.c). */
typedef struct {
    uint64_t call;     /* the call in which this rank watches */
    int watched;       /* the rank that this rank watches; -1: none yet */
    uint64_t sign;     /* the watched rank's last sign in this call: 2 * the sign's number, + 1 if it waits; 0: none */
    double waited;     /* seconds for which this rank has waited in the call, as of the last look */
    double heard_at;   /* the value of `waited` when the last sign came */
    double asked_at;   /* the value of `waited` when this rank last asked for a sign, or began to watch */
    bool has_answered; /* a sign has come since `asked_at` */
    int watcher; /* the rank that this rank must tell when it no longer waits, because it has sent a sign; -1: none */
    uint64_t watcher_call; /* the call for which that rank has asked */
} mscclpp_group_watch_t;

/* The state of one rank's part of a group. */
typedef struct {
    mscclpp_oob_t oob;
    int rank;                           /* number of this rank within the node; all indices below are such numbers */
    int size;                           /* number of ranks of the node */
    int members[MSCCLPP_DEV_MAX_RANKS]; /* the node's ranks, as numbered in the communicator */
    int *leaders; /* the first rank of each other node, in the communicator; allocated with the team */
    int leader_count;
    /*
     * The last two votes of each other node, in the order of `leaders`. Each is 2 * the number of the vote, + 1 for
     * yes. Used by the node's first rank. Allocated with the team.
     */
    uint64_t (*far_votes)[2];
    bool on_twin;
    bool is_traced;       /* a tool watches the kernels of this rank */
    double timeout;       /* of a wait, in seconds; may differ between ranks; 0: none */
    double warn_after;    /* seconds of a wait after which late ranks are named in a warning; 0: never */
    bool probing;         /* a trial at set-up, or an exchange by a deadline: a timeout is information only */
    bool meet_first;      /* kernels are launched only once all ranks have come to the call; equal on all ranks */
    uint64_t id;          /* number of the team: equal on all its ranks, and unique among their teams */
    mscclpp_ctrl_t *ctrl; /* control messages to all ranks of the communicator; NULL: there are none */
    mscclpp_group_notices_t notices;
    mscclpp_group_inquiry_t inquiry;
    mscclpp_group_signs_t signs;
    mscclpp_group_watch_t watch; /* protected by the lock of the notices */
    mscclpp_shmseg_t *board_segment;
    mscclpp_board_line_t *board;    /* one line per rank */
    bool broken;                    /* the team has failed, and serves no further call */
    bool peer_failed;               /* a peer caused the failure, and tells all other ranks */
    uint64_t calls_before;          /* the number that call 0 of the communicator has on the board; see board.c */
    uint64_t call;                  /* the number of the current call, for the board, notices and messages */
    const char *collective;         /* the name of its collective, for messages */
    mscclpp_board_args_t call_args; /* the arguments of the current call */
    bool checks_calls;              /* the caller compares the arguments of all ranks before each call */
    uint64_t exchanges;             /* exchanges of handles so far; equal on all ranks */
    bool gave_up;                   /* an exchange with a deadline has failed; equal on all ranks after that exchange */
    uint64_t meetings;              /* meetings of the hosts so far, without those before a launch */
    uint64_t arrivals;              /* meetings before a launch so far; equal on all ranks */
    uint64_t slot_votes;            /* votes on slots so far; equal on all ranks */
    uint64_t node_votes;            /* votes of all nodes so far; equal on all ranks */
    mscclpp_admission_t *admission; /* slots of this process */
    bool concurrent;                /* threads of this rank may start kernels of several teams at once */
    bool has_slot;                  /* this rank holds its process's slot for the current task; see admission.h */
    bool spans;                     /* there are other nodes */
    bool any_concurrent;            /* some rank is concurrent; equal on all ranks */

    /*
     * Returns the ranks of other nodes that have sent nothing in the current call, as a word of
     * mscclpp_board_add_absent. `may_ask` allows calls into the GPU runtime. NULL if there are no other nodes.
     */
    uint64_t (*find_absent)(void *context, bool may_ask);
    void *absent_context;
    bool asks_all; /* the host cannot see which ranks a kernel waits for, so a search asks all ranks */
} mscclpp_group_t;

/*
 * A wait of the host for other ranks or for a kernel. Every turn of it calls the embedding runtime's progress. Some
 * turns also check for failures of peers, mixed kinds of buffers, revocation and the deadline.
 */
typedef struct {
    mscclpp_group_t *group;
    const char *event_name; /* what is awaited, for messages, such as "kernel oneshot" */
    uint64_t bytes;         /* size of the call's message, for messages */
    /*
     * The word on this rank's board line, if the wait is for the same word on the lines of all ranks. It serves to find
     * out which ranks are late. NULL: the wait is for something else.
     */
    const uint64_t *words;
    uint64_t target;   /* the value that the words must reach */
    uint32_t turns;    /* turns so far */
    double started;    /* time of the first turn that read the clock; 0: no turn has read it yet */
    double last_turn;  /* time of the last turn, if the wait is in a fiber */
    double next_check; /* time of the next round of checks */
    bool has_warned;   /* late ranks have been named, here or by another rank */
    bool is_pumped;    /* a kernel depends on the progress that this thread makes */
    bool awaits_votes; /* the wait is for votes of nodes, so the late nodes are those without a vote */
} mscclpp_group_wait_t;

/* board.c: calls on the board. mca/common/team/team.h explains how they are used. */

/* Returns the word that a rank writes to its line in call `call`: 4 * the call's number + the kind of its buffers. */
uint64_t mscclpp_group_call_word(const mscclpp_group_t *group, uint64_t call, mscclpp_call_kind_t kind);

/* Returns true if the rank with this number on the node has not come to call `call` yet. */
bool mscclpp_group_is_behind(const mscclpp_group_t *group, int rank, uint64_t call);

/* Makes the calls of another communicator, which takes over the team, count from 0 again. */
void mscclpp_group_renumber(mscclpp_group_t *group);

/* Publishes that this rank is in call `call`, with buffers of this kind; see mscclpp_team_announce. */
void mscclpp_group_announce(mscclpp_group_t *group, uint64_t call, mscclpp_call_kind_t kind);

/*
 * Returns the first rank of the node that has announced the call as one of this kind, numbered in the communicator; -1:
 * none.
 */
int mscclpp_group_find_announced(const mscclpp_group_t *group, uint64_t call, mscclpp_call_kind_t kind);

/*
 * Returns true while some rank of the node has not reached call `call` and no rank has announced the kind of its
 * buffers in it; see mscclpp_team_awaits_announcements.
 */
bool mscclpp_group_awaits_announcements(const mscclpp_group_t *group, uint64_t call);

/*
 * Decide how a call is served; see mscclpp_team_decide. mscclpp_group_decide returns true if call `call` is served as a
 * call on device buffers. The first rank that decides proposes this by `on_device`, and later ranks get its decision.
 * mscclpp_group_is_decided returns true if some rank has decided, and then stores the decision in *on_device_p.
 */
bool mscclpp_group_decide(mscclpp_group_t *group, uint64_t call, bool on_device);
bool mscclpp_group_is_decided(const mscclpp_group_t *group, uint64_t call, bool *on_device_p);

/*
 * Returns true for the first rank of the node that asks in the current call. If all ranks are on one node, that rank
 * logs the line for all ranks. There are two such lines for each call: the warning, and the error. `at_deadline`
 * selects the error, which is logged at the deadline or after the failure of another rank.
 */
bool mscclpp_group_claims_line(const mscclpp_group_t *group, bool at_deadline);

/*
 * signs.c: signs of life on the board, which show which ranks have stopped during a wait. Only the thread that makes
 * the call may use the functions.
 *
 * mscclpp_group_begin_signs begins a wait at the time `now`. While the wait lasts, mscclpp_group_show_sign gives a sign
 * that this rank waits in call `call`, unless it is in a fiber, and mscclpp_group_read_signs takes the signs of the
 * other ranks of the node. mscclpp_group_hide_sign must follow when the wait has ended.
 */
void mscclpp_group_begin_signs(mscclpp_group_t *group, double now);
void mscclpp_group_show_sign(mscclpp_group_t *group, uint64_t call);
void mscclpp_group_read_signs(mscclpp_group_t *group, uint64_t call, double now);
void mscclpp_group_hide_sign(mscclpp_group_t *group);

/*
 * Return true if `rank`, numbered on the node, has come to the current call, waits in it, and has given no sign for
 * some time: mscclpp_group_is_silent for so long that a message may name the rank, mscclpp_group_is_gone for longer
 * than a deadline.
 */
bool mscclpp_group_is_silent(const mscclpp_group_t *group, int rank);
bool mscclpp_group_is_gone(const mscclpp_group_t *group, int rank);

/*
 * watch.c: signs of life between nodes. mscclpp_group_watch_next is called in each round of checks of a wait in call
 * `call`. It returns true if the rank that this rank watches has come to the call, waits in it, and has given no sign
 * for longer than a deadline; *gone_p is then that rank, numbered in the communicator. mscclpp_group_end_watch hides
 * this rank's sign, and tells the rank that watches this one.
 */
bool mscclpp_group_watch_next(mscclpp_group_t *group, uint64_t call, int *gone_p);
void mscclpp_group_end_watch(mscclpp_group_t *group);

/*
 * Makes a round of checks in a wait that is not the group's own, before call `call`: gives a sign, reads the signs of
 * other ranks, and watches. The caller calls mscclpp_group_begin_signs before the first round, and
 * mscclpp_group_end_watch after the last one.
 * Returns MSCCLPP_ERR_PEER, which is logged as information, if another rank has failed in that call or in an earlier
 * one.
 */
mscclpp_status_t mscclpp_group_give_signs(mscclpp_group_t *group, uint64_t call, double now);

/* notice.c: initializes and ends the notices and the inquiry of a group. */
void mscclpp_group_notices_init(mscclpp_group_t *group);
void mscclpp_group_notices_fini(mscclpp_group_t *group);

/*
 * Receives and stores pending notices, and sends notices that are still to be sent. Any thread may call this at any
 * time. Does nothing while another thread uses the notices.
 */
void mscclpp_group_tend_notices(mscclpp_group_t *group);

/*
 * Receives all pending notices. *failed_p becomes the first failure that a peer has reported. *host_p becomes the last
 * call in which a rank passed host buffers while others waited. `rank` is -1 in a notice that has not come.
 */
void mscclpp_group_read_notices(mscclpp_group_t *group, mscclpp_group_notice_t *failed_p,
                                mscclpp_group_notice_t *host_p);

/*
 * Stores that another rank has passed host buffers in the current call. Failures that are reported from now on name
 * that rank.
 */
void mscclpp_group_note_host(mscclpp_group_t *group, int rank);

/*
 * Sends this node's vote to the first ranks of all other nodes, as vote number `vote_number`. Only the node's first
 * rank calls it.
 */
void mscclpp_group_send_vote(mscclpp_group_t *group, uint64_t vote_number, bool yes);

/*
 * Receives notices, and returns true if the votes of all other nodes have come. *yes_p, which is this node's vote
 * before, becomes false if a vote is missing or is no. Only the node's first rank calls it.
 */
bool mscclpp_group_all_voted(mscclpp_group_t *group, uint64_t vote_number, bool *yes_p);

/* Returns the first ranks of nodes that have not voted in the current vote, as a word of mscclpp_board_add_absent. */
uint64_t mscclpp_group_missing_votes(mscclpp_group_t *group);

/*
 * Tells all ranks that the current call has failed on this rank. `lost` is a rank whose connection broke (-1: none).
 * That rank is told last. It may be alive, and has no other way to learn about the failure. May wait half a second
 * until the notices are sent.
 */
void mscclpp_group_tell_failure(mscclpp_group_t *group, mscclpp_status_t status, int lost);

/*
 * Tell and ask which rank made a queued call fail. mscclpp_group_blame tells all ranks that a queued call has failed on
 * this rank because `rank` did not come. mscclpp_group_blamed_by returns the rank that `rank` has blamed, or -1 if none
 * is known. Ranks are numbered in the communicator, which has at most MSCCLPP_DEV_MAX_RANKS ranks.
 */
void mscclpp_group_blame(mscclpp_group_t *group, int rank);
int mscclpp_group_blamed_by(mscclpp_group_t *group, int rank);

/*
 * Tells the other nodes once per call that this rank waits in it. Does nothing on ranks other than the node's first
 * one.
 */
void mscclpp_group_tell_waiting(mscclpp_group_t *group);

/*
 * Returns a rank of any node that passed device buffers in call `call`, or -1 while none is known. Called by a rank
 * that has been in the call on host buffers for a long time. If the other rank is known from a notice, also tells all
 * ranks, once for each call, that this rank passed host buffers. Thread-safe; never waits.
 */
int mscclpp_group_find_device_rank(mscclpp_group_t *group, uint64_t call);

/* Asks a rank which rank it waits for in the current call. The caller holds the lock of the notices. */
void mscclpp_group_post_ask(mscclpp_group_t *group, int rank);

/* Ask a rank for a sign in call `call`, and send one to a rank (watch.c). The caller holds the lock of the notices. */
void mscclpp_group_post_watch(mscclpp_group_t *group, int rank, uint64_t call);
void mscclpp_group_post_sign(mscclpp_group_t *group, int rank, uint64_t call);

/* Tells all ranks that this rank names the late rank of the current call. The caller holds the lock of the notices. */
void mscclpp_group_post_named(mscclpp_group_t *group);

/*
 * inquiry.c: stores that this rank waits for rank `late` in the current call; -1: for no rank that it knows of. This
 * rank then answers the questions of other ranks accordingly.
 */
void mscclpp_group_note_late(mscclpp_group_t *group, int late);

typedef enum {
    MSCCLPP_INQUIRY_SEARCHING, /* call again */
    MSCCLPP_INQUIRY_FOUND,     /* this rank must name the late rank now */
    MSCCLPP_INQUIRY_TOLD       /* another rank has named the late rank */
} mscclpp_inquiry_result_t;

/*
 * Makes a step of the search for the rank that the others wait for. The caller has called mscclpp_group_note_late. If
 * this rank has to name the late rank, *late_p is that rank, or -1 if it is not known. `at_deadline` is true if the
 * search is for the message at the deadline. Otherwise it is for the warning, which only one rank of the communicator
 * logs.
 */
mscclpp_inquiry_result_t mscclpp_group_inquire(mscclpp_group_t *group, bool at_deadline, double now, int *late_p);

/*
 * Returns true if this rank must tell the others that the connection to rank `lost` is gone. Each rank with a
 * connection to that rank calls the function. On one of them, it logs `text` as an error and returns true. On the
 * others, it waits up to some seconds for the notice of that rank, and returns false. Without control messages, and in
 * a trial at set-up, all of them log `text` and get true.
 */
bool mscclpp_group_name_lost(mscclpp_group_t *group, int lost, const char *text);

/* wait.c: begins a wait. `event_name` and `bytes` are used in messages; `event_name` must outlive the wait. */
void mscclpp_group_wait_init(mscclpp_group_wait_t *wait, mscclpp_group_t *group, const char *event_name,
                             uint64_t bytes);

/* Logs that the arguments of this rank and of `rank` differ in the current call. Returns MSCCLPP_ERR_INVALID. */
mscclpp_status_t mscclpp_group_report_difference(const mscclpp_group_t *group, int rank,
                                                 mscclpp_board_args_t call_args);

/*
 * Calls the embedding runtime's progress. In a fiber, yields instead to the main flow of the thread, which makes this
 * progress.
 */
void mscclpp_group_progress(const mscclpp_group_t *group);

/*
 * late.c: returns a rank that this rank waits for, as numbered in the communicator; -1: none is known.
 * mscclpp_group_list_late writes a list of the late ranks into `text`. mscclpp_group_list_gone lists those that the
 * wait is for and that are gone (mscclpp_group_is_gone), and returns true if there are any.
 */
int mscclpp_group_first_late(const mscclpp_group_wait_t *wait);
void mscclpp_group_list_late(const mscclpp_group_wait_t *wait, char *text, size_t size);
bool mscclpp_group_list_gone(const mscclpp_group_wait_t *wait, char *text, size_t size);

/*
 * Makes one turn of a wait. Any status but MSCCLPP_OK means that the wait has failed. The reason is then logged, but
 * the team is not marked as broken yet.
 */
mscclpp_status_t mscclpp_group_wait_turn(mscclpp_group_wait_t *wait);

/*
 * Ends a wait that has succeeded: this rank works from now on and gives no signs of life, so others must not expect
 * any. A wait that has failed needs no end, and mscclpp_group_wait_words ends its own.
 */
void mscclpp_group_wait_end(mscclpp_group_wait_t *wait);

/*
 * Returns true if the wait may ask the GPU runtime about a kernel that waits for other ranks. The question may deadlock
 * in two cases. In these it is allowed only after a long wait, when something is probably wrong anyway:
 *
 * - The team has a pump. The runtime may block this thread while another thread frees memory. Freeing waits for
 *   kernels, and those kernels wait for this thread.
 * - A tool watches the kernels. compute-sanitizer does work of its own on the device before it answers, and kernels of
 *   other ranks of the process do not start meanwhile.
 */
bool mscclpp_group_may_ask(const mscclpp_group_wait_t *wait);

/* Returns the word of another rank's board line that corresponds to `own_word` of this rank's line. */
const uint64_t *mscclpp_group_word_of(const mscclpp_group_t *group, const uint64_t *own_word, int rank);

/* Waits until a word is at least `target` on every rank's line of the board. `own_word` is this rank's own word. */
mscclpp_status_t mscclpp_group_wait_words(mscclpp_group_t *group, const char *event_name, uint64_t bytes,
                                          const uint64_t *own_word, uint64_t target);

/* Waits for words as mscclpp_group_wait_words does, but as a part of a longer wait that has one deadline. */
mscclpp_status_t mscclpp_group_wait_on(mscclpp_group_wait_t *wait, const uint64_t *own_word, uint64_t target);

/*
 * Tells all ranks that the current call has failed on this rank. If a peer caused the failure, that peer tells all
 * ranks itself, and this rank only notes on its node's board that it has been told. `loss` describes a peer whose
 * connection was lost, and which only one rank must name; NULL: there are no connections.
 */
void mscclpp_group_fail(mscclpp_group_t *group, mscclpp_status_t status, const mscclpp_loss_t *loss);

/*
 * meeting.c: makes the ranks meet before a launch, if they have to. The ranks of all nodes meet before an early kernel
 * (`early`), and before every launch in a team with `any_concurrent`. The ranks of a node meet before every launch if
 * `meet_first` is set. If the kernel needs a slot (admission.h), the function also waits until all ranks have one. It
 * must be the last step before the launch: nothing may be left to do that could wait for another kernel. Whatever the
 * status, the rank keeps a slot that it got; mscclpp_group_give_slot gives the slot back after the end of the kernel.
 */
mscclpp_status_t mscclpp_group_meet(mscclpp_group_t *group, uint64_t bytes, bool early);

/* Makes the ranks of a group on one node meet before an early call that launches no kernel, and so needs no slot. */
mscclpp_status_t mscclpp_group_arrive(mscclpp_group_t *group, uint64_t bytes);

/*
 * Lets a thread apart meet the other ranks, exchange handles with them, and launch the early kernel or start the copies
 * of engines, if the message is large. The two functions above do so themselves for early calls.
 */
void mscclpp_group_open_fiber(const mscclpp_group_t *group, uint64_t bytes);

/* Gives back the slot, if this rank holds it. */
void mscclpp_group_give_slot(mscclpp_group_t *group);

/*
 * exchange.c: exchange handles between the hosts. All ranks take these steps:
 *
 * 1. mscclpp_group_begin_exchange returns this rank's set of handles, which the caller fills in.
 * 2. mscclpp_group_meet_exchange publishes that set and waits for the sets of all ranks. From then on, until the end of
 *    the exchange, mscclpp_group_exchanged returns them.
 * 3. mscclpp_group_end_exchange takes a vote: *all_yes_p becomes true if the vote of all ranks is yes, and false
 *    otherwise. After an error it is unchanged.
 *
 * `event_name` and `bytes` are for messages, as in mscclpp_group_wait_init.
 */
mscclpp_board_buffers_t *mscclpp_group_begin_exchange(mscclpp_group_t *group);
mscclpp_status_t mscclpp_group_meet_exchange(mscclpp_group_t *group, const char *event_name, uint64_t bytes);
const mscclpp_board_buffers_t *mscclpp_group_exchanged(const mscclpp_group_t *group, int rank);
mscclpp_status_t mscclpp_group_end_exchange(mscclpp_group_t *group, const char *event_name, uint64_t bytes,
                                            bool own_vote, bool *all_yes_p);

/*
 * In place of handles, ranks may exchange one word each, which takes one cache line of each peer. A rank writes its
 * word (MSCCLPP_BOARD_SIZES) between the first two steps, and reads the words of all ranks after the second one.
 */
void mscclpp_group_write_sizes(mscclpp_group_t *group, uint64_t sizes);
uint64_t mscclpp_group_exchanged_sizes(const mscclpp_group_t *group, int rank);

/*
 * Take the last two steps of an exchange to which ranks need not come. No rank waits for longer than until `deadline`,
 * a time of mscclpp_now. If a rank has not come or voted at the deadline, *all_yes_p is false on all ranks, including
 * ranks that come later. *met_p may still be true on a rank that comes later, so the ranks must use nothing of the
 * exchange before they have voted. If *met_p is false, the rank does not vote. If a rank has not come or voted in time,
 * group->gave_up is set, and no further exchange of this kind may begin. Arguments are not compared. The status is an
 * error only if a rank has failed; *met_p or *all_yes_p is then false.
 */
mscclpp_status_t mscclpp_group_meet_exchange_by_deadline(mscclpp_group_t *group, const char *event_name, uint64_t bytes,
                                                         double deadline, bool *met_p);
mscclpp_status_t mscclpp_group_end_exchange_by_deadline(mscclpp_group_t *group, const char *event_name, uint64_t bytes,
                                                        double deadline, bool own_vote, bool *all_yes_p);

/* Returns the number of seconds that ranks give one another in an exchange to which ranks need not come. */
double mscclpp_group_exchange_patience(const mscclpp_group_t *group);

/* Returns true if all ranks have published these arguments. */
bool mscclpp_group_all_pass_args(const mscclpp_group_t *group, mscclpp_board_args_t call_args);

/*
 * Compares the arguments of all ranks. Returns MSCCLPP_ERR_INVALID if they differ. All ranks see the same arguments, so
 * they all return the same status.
 */
mscclpp_status_t mscclpp_group_compare_call_args(const mscclpp_group_t *group);

#endif
