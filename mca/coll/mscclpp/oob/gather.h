/*
 * All-gathers of the set-up: among all ranks of the communicator, or among those of a node. Few ranks send their parts
 * to one another (direct.c). More of them use a tree (tree.c), in a logarithm of steps and with two messages a rank.
 */
#ifndef MCA_COLL_MSCCLPP_OOB_GATHER_H
#define MCA_COLL_MSCCLPP_OOB_GATHER_H

#include "mca/coll/mscclpp/oob/message.h"

/* Up to so many ranks send their parts to one another. */
#define MCA_COLL_MSCCLPP_GATHER_DIRECT 8

/* An all-gather in progress. Ranks are numbered within it; the number of a rank is its place in `members`. */
typedef struct {
    mca_coll_mscclpp_oob_t *oob;
    const int *members; /* ranks of the communicator, ascending; NULL: all of them */
    int count;
    int self;
    uint64_t number; /* in the headers of its messages */
    const void *sendbuf;
    char *recvbuf; /* `count` parts of `length` bytes; NULL: this rank has no memory for them */
    size_t length;
    double started;
    bool warned;
} mca_coll_mscclpp_gather_t;

/* Sends and receives what can be sent and received at once. MSCCLPP_IN_PROGRESS until all is done. With the lock. */
typedef mscclpp_status_t mca_coll_mscclpp_gather_step_fn_t(void *state);

/* Looks how long the all-gather has taken. MSCCLPP_OK: it goes on. */
typedef mscclpp_status_t mca_coll_mscclpp_gather_watch_fn_t(void *state);

/* The two ways. Return when the all-gather has ended, with the same status on all of its ranks. */
mscclpp_status_t mca_coll_mscclpp_gather_direct(mca_coll_mscclpp_gather_t *gather);
mscclpp_status_t mca_coll_mscclpp_gather_tree(mca_coll_mscclpp_gather_t *gather);

/* For both: steps and watches until the end. */
mscclpp_status_t mca_coll_mscclpp_gather_run(mca_coll_mscclpp_gather_t *gather, void *state,
                                             mca_coll_mscclpp_gather_step_fn_t *step,
                                             mca_coll_mscclpp_gather_watch_fn_t *watch);

/* The rank in the communicator of the all-gather's rank `number`; and the number of a rank, or -1. */
int mca_coll_mscclpp_gather_rank(const mca_coll_mscclpp_gather_t *gather, int number);
int mca_coll_mscclpp_gather_find(const mca_coll_mscclpp_gather_t *gather, int rank);

/* Logs that ranks are late: a warning, or the error at the deadline. `ranks` lists them. */
void mca_coll_mscclpp_gather_report(const mca_coll_mscclpp_gather_t *gather, bool over, const char *ranks);

/*
 * Takes a message by which a rank has ended the all-gather for all: it passed host buffers, or has no memory. Reports
 * it. MSCCLPP_OK if there is none. With the lock.
 */
mscclpp_status_t mca_coll_mscclpp_gather_ended(mca_coll_mscclpp_gather_t *gather, int *culprit_p);

#endif
