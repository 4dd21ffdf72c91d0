/*
 * All-gathers of the set-up: among all ranks of the communicator, or among those of a node. Few ranks send their parts
 * to one another (direct.c). More of them use a tree (tree.c), in a logarithm of steps and with two messages a rank.
 */
#ifndef MCA_COLL_MSCCLPP_OOB_GATHER_H
#define MCA_COLL_MSCCLPP_OOB_GATHER_H

#include "mca/coll/mscclpp/oob/message.h"

/* The most ranks that send their parts to one another. With more, they use the tree. */
#define MCA_COLL_MSCCLPP_GATHER_DIRECT 8

/* An all-gather in progress. The index of a rank is its place in `members`. */
typedef struct {
    mca_coll_mscclpp_oob_t *oob;
    const int *members;  /* ranks of the communicator, ascending; NULL: all of them */
    int count;           /* number of its ranks */
    int self;            /* this rank's index */
    uint64_t number;     /* number of the all-gather, in the headers of its messages */
    const void *sendbuf; /* this rank's part */
    char *recvbuf;       /* `count` parts of `length` bytes; NULL: this rank has no memory for them */
    size_t length;
    double started; /* time by mscclpp_now */
    bool warned;    /* a warning has named late ranks */

    /* The exchange ahead of it (ahead.c). */
    const mscclpp_oob_ahead_t *ahead; /* NULL: none */
    bool *ahead_arrived;              /* by peer: its message has come; NULL: this rank has no memory for that */
    int ahead_missing;                /* peers that have to send their messages still */
    mscclpp_status_t ahead_status;    /* an error: their messages will not come */
    bool is_ready;                    /* this rank's part is ready to be sent */
    bool hurried;                     /* this rank has told others not to wait for the exchange */
} mca_coll_mscclpp_gather_t;

/*
 * Sends and receives what can be sent and received at once. Returns MSCCLPP_OK once all is done, MSCCLPP_IN_PROGRESS
 * before that, or the error that ends the all-gather. Called with the oob's lock held.
 */
typedef mscclpp_status_t mca_coll_mscclpp_gather_step_fn_t(void *state);

/*
 * Called after each step, without the lock: names late ranks when they have taken too long. Returns MSCCLPP_OK if the
 * all-gather goes on, or the error that ends it.
 */
typedef mscclpp_status_t mca_coll_mscclpp_gather_watch_fn_t(void *state);

/*
 * The two ways. Both wait until the all-gather has ended, with the same status on all of its ranks; but if a message
 * fails on a rank, or a rank is late, others may have all parts already. They are told, and fail in the next one.
 */
mscclpp_status_t mca_coll_mscclpp_gather_direct(mca_coll_mscclpp_gather_t *gather);
mscclpp_status_t mca_coll_mscclpp_gather_tree(mca_coll_mscclpp_gather_t *gather);

/* Waits for an all-gather: calls `step` and `watch` until one of them ends it, or the communicator is revoked. */
mscclpp_status_t mca_coll_mscclpp_gather_run(mca_coll_mscclpp_gather_t *gather, void *state,
                                             mca_coll_mscclpp_gather_step_fn_t *step,
                                             mca_coll_mscclpp_gather_watch_fn_t *watch);

/*
 * ahead.c: begins the exchange ahead of an all-gather, and frees its state. Called without the lock.
 */
void mca_coll_mscclpp_ahead_begin(mca_coll_mscclpp_gather_t *gather);
void mca_coll_mscclpp_ahead_end(mca_coll_mscclpp_gather_t *gather);

/*
 * ahead.c: takes the messages that have come for the exchange. Returns true, once in an all-gather, if the other ranks
 * must be told that nobody is to wait for the exchange any more. *source_p is then the rank that has told this one, or
 * -1. Called with the lock held, also in an all-gather without an exchange.
 */
bool mca_coll_mscclpp_ahead_look(mca_coll_mscclpp_gather_t *gather, int *source_p);

/*
 * ahead.c: if the exchange has ended, lets the caller complete this rank's part, which is then ready. Returns true if
 * it has done so. Called without the lock.
 */
bool mca_coll_mscclpp_ahead_complete(mca_coll_mscclpp_gather_t *gather);

/* Returns true if a rank has sent its message of the exchange, so that it is in the all-gather. */
bool mca_coll_mscclpp_ahead_has_come(const mca_coll_mscclpp_gather_t *gather, int rank);

/* Yields the rank in the communicator that has an index in the all-gather. `find` is the inverse; -1: none. */
int mca_coll_mscclpp_gather_rank(const mca_coll_mscclpp_gather_t *gather, int index);
int mca_coll_mscclpp_gather_find(const mca_coll_mscclpp_gather_t *gather, int rank);

/* Logs that ranks are late: a warning or, if the deadline `is_past_deadline`, the error. `ranks` is the text that lists
 * them. */
void mca_coll_mscclpp_gather_report(const mca_coll_mscclpp_gather_t *gather, bool is_past_deadline, const char *ranks);

/* The data of OOB_END: why the all-gather has ended. */
typedef struct {
    int32_t status;
    int32_t culprit; /* rank in the communicator that is to blame */
} mca_coll_mscclpp_gather_ending_t;

/*
 * Looks for a message by which a rank has told that it has failed in this all-gather, or in the one before, which this
 * rank has completed: that rank does not come to this one. So it is with a rank that has given up the agreement before
 * the set-up. Logs it as a detail. Returns the error, *culprit_p, and the rank that has told it in *source_p; or
 * MSCCLPP_OK. Called with the lock held.
 */
mscclpp_status_t mca_coll_mscclpp_gather_told(const mca_coll_mscclpp_gather_t *gather, int *culprit_p, int *source_p);

/*
 * Returns true if the other ranks must be told by an OOB_END message that the all-gather has failed here. They need
 * none after MSCCLPP_ERR_NO_MEMORY, which oob.c announces by OOB_ABSTAIN, and none can be sent after
 * MSCCLPP_ERR_REVOKED.
 */
bool mca_coll_mscclpp_gather_must_tell(mscclpp_status_t status);

/*
 * Looks for a message by which a rank has ended the all-gather for all ranks. If that rank passed host buffers, logs
 * this, and returns MSCCLPP_ERR_MIXED. If it has no memory, returns MSCCLPP_ERR_NOT_SUPPORTED. *culprit_p is then that
 * rank. MSCCLPP_OK if there is no such message. Called with the lock held.
 */
mscclpp_status_t mca_coll_mscclpp_gather_ended(mca_coll_mscclpp_gather_t *gather, int *culprit_p);

#endif
