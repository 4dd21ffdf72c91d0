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
    uint64_t told;                 /* the last call on host buffers about which this rank has told the other nodes */
    uint64_t asked; /* the last call whose wait this rank has told them; used by the call's thread alone */
} mscclpp_group_notices_t;

/*
 * The search for the rank of any node that all others wait for (inquiry.c). Ranks are those of the communicator; -1:
 * none. Guarded by the notices' lock.
 */
typedef struct {
    uint64_t waits_call; /* the last call in which this rank has waited for others, */
    int waits_for;       /* and the first one that it waits for */
    uint64_t call;       /* the call of the search */
    bool over;           /* the search is for the message of the deadline */
    int asked;           /* who has been asked last */
    double since;        /* when */
    bool answered;       /* the answer has come: */
    int answer;          /* whom that rank waits for */
    unsigned hops;
    uint64_t named_call; /* the last call in which another rank has named the late one */
} mscclpp_group_inquiry_t;

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
    bool traced;    /* a tool watches the kernels of this rank */
    double timeout; /* seconds; may differ between ranks; 0: none */
    double warn_after;
    bool probing;         /* a wait that times out is no error */
    bool meet_first;      /* kernels are launched only once all ranks have come to the call; equal on all ranks */
    uint64_t id;          /* number of the team: equal on all its ranks, and unique among their teams */
    mscclpp_ctrl_t *ctrl; /* control messages to all ranks of the communicator; NULL: there are none */
    mscclpp_group_notices_t notices;
    mscclpp_group_inquiry_t inquiry;
    mscclpp_shmseg_t *board_segment;
    mscclpp_board_line_t *board; /* one line per rank */
    bool broken;
    bool peer_failed;            /* a peer caused the failure, and has told all other ranks */
    uint64_t calls_before;       /* the number on the board of the communicator's call 0; see board.c */
    uint64_t call;               /* the number of the current call, for messages */
    const char *collective;      /* the name of its collective, for messages */
    mscclpp_board_asked_t asked; /* the arguments of the current call */
    bool checks_calls;           /* the caller compares the arguments of all ranks before each call */
    uint64_t exchanges;
    uint64_t meetings;
    uint64_t arrivals;              /* meetings before a launch; equal on all ranks */
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
} mscclpp_group_t;

/*
 * A wait of the host for other ranks or for a kernel. Every turn of it calls the embedding runtime's progress. Some
 * turns also check for failures of peers, mixed kinds of buffers, revocation and the deadline.
 */
typedef struct {
    mscclpp_group_t *group;
    const char *what; /* what is awaited, for messages, such as "kernel oneshot" */
    uint64_t bytes;
    const uint64_t *
        words; /* this rank's word of those that are awaited on all ranks' lines, to find out who is late; NULL: none */
    uint64_t target;
    uint32_t turns;
    double started;
    double last_turn; /* time of the last turn, if the wait is in a fiber */
    double next_check;
    bool warned;
    bool pumped; /* a kernel depends on the progress that this thread makes */
    bool votes;  /* the nodes vote, so those that have not voted yet are the late ones */
} mscclpp_group_wait_t;

/* board.c: calls on the board. mca/common/team/team.h explains how they are used. */

/* The word that a rank writes to its line in call `call`: 4 * the number of the call + the kind of its buffers. */
uint64_t mscclpp_group_call_word(const mscclpp_group_t *group, uint64_t call, mscclpp_call_kind_t kind);

/* True if a rank of this node has not come to call `call` yet. */
bool mscclpp_group_is_behind(const mscclpp_group_t *group, int rank, uint64_t call);

/* Called when another communicator takes over the team: its calls are counted from 0 again. */
void mscclpp_group_renumber(mscclpp_group_t *group);

void mscclpp_group_announce(mscclpp_group_t *group, uint64_t call, mscclpp_call_kind_t kind);
int mscclpp_group_find_announced(const mscclpp_group_t *group, uint64_t call, mscclpp_call_kind_t kind);
bool mscclpp_group_awaits_announcements(const mscclpp_group_t *group, uint64_t call);

/* The parts of mscclpp_team_decide and mscclpp_team_is_decided that use the board. */
bool mscclpp_group_decide(mscclpp_group_t *group, uint64_t call, bool device);
bool mscclpp_group_is_decided(const mscclpp_group_t *group, uint64_t call, bool *device_p);

/* notice.c */
void mscclpp_group_notices_init(mscclpp_group_t *group);
void mscclpp_group_notices_fini(mscclpp_group_t *group);

/*
 * Receives all pending notices. Returns the first failure of a peer, and the last call in which a peer passed host
 * buffers while others waited.
 */
void mscclpp_group_read_notices(mscclpp_group_t *group, mscclpp_group_notice_t *failed_p,
                                mscclpp_group_notice_t *host_p);

/* Notes that another rank has passed host buffers in the current call. Failures reported from now on name that rank. */
void mscclpp_group_note_host(mscclpp_group_t *group, int rank);

/* On the node's first rank: sends the node's vote to all other nodes, and tells whether all of them have voted. */
void mscclpp_group_send_vote(mscclpp_group_t *group, uint64_t number, bool yes);
bool mscclpp_group_all_voted(mscclpp_group_t *group, uint64_t number, bool *yes_p);

/* The first ranks of nodes whose vote in the current vote has not come, as a word of mscclpp_board_add_absent. */
uint64_t mscclpp_group_missing_votes(const mscclpp_group_t *group);

/* Tells all ranks that the current call has failed on this rank. */
void mscclpp_group_tell_failure(mscclpp_group_t *group, mscclpp_status_t status);

/* On the node's first rank: tells the other nodes, once per call, that it waits in the current call. */
void mscclpp_group_tell_waiting(mscclpp_group_t *group);

/*
 * Called by a rank that has been in call `call` on host buffers for a long time, to find out whether others passed
 * device buffers. Returns a rank of any node that did, or -1 while none is known. If one is found, this function also
 * tells the other nodes' ranks about this rank. Thread-safe; never waits.
 */
int mscclpp_group_find_device_rank(mscclpp_group_t *group, uint64_t call);

/* Asks a rank whom it waits for, or tells all ranks that the late one is named. With the notices' lock held. */
void mscclpp_group_post_ask(mscclpp_group_t *group, int rank);
void mscclpp_group_post_named(mscclpp_group_t *group);

/* inquiry.c: notes whom this rank waits for in the current call, for its answers. -1: it cannot tell. */
void mscclpp_group_say_waiting(mscclpp_group_t *group, int late);

typedef enum {
    MSCCLPP_INQUIRY_SEARCHING, /* call again */
    MSCCLPP_INQUIRY_FOUND,     /* this rank names the late one now */
    MSCCLPP_INQUIRY_TOLD       /* another rank has named it */
} mscclpp_inquiry_result_t;

/*
 * A step of the search for the rank that the others wait for, after mscclpp_group_say_waiting. `over`: for the message
 * of the deadline; else for the warning, which one rank of the communicator gives. *late_p is -1 if none is known.
 */
mscclpp_inquiry_result_t mscclpp_group_inquire(mscclpp_group_t *group, bool over, double now, int *late_p);

/* wait.c */
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

/* Tells the peers that the current call has failed, unless a peer caused the failure. */
void mscclpp_group_fail(mscclpp_group_t *group, mscclpp_status_t status);

/*
 * meeting.c: makes the ranks meet before a launch, if they have to: those of all nodes before an early kernel (`early`)
 * and in a team with `threads`, and those of the node before every launch (`meet_first`). Waits
 * for all ranks, and, where the kernel needs a slot (admission.h), until all ranks hold one. Call this last before the
 * launch, when nothing is left to do that could wait for another kernel. Whatever the status, the rank keeps the slot
 * if it got one; give it back after the end of the kernel.
 */
mscclpp_status_t mscclpp_group_meet(mscclpp_group_t *group, uint64_t bytes, bool early);
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
 * Compares the arguments of all ranks. If they differ, logs it and returns the error. All ranks see the same arguments,
 * so they all return the same status.
 */
mscclpp_status_t mscclpp_group_compare_asked(const mscclpp_group_t *group);

#endif
