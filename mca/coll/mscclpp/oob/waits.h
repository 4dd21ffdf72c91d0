/* What ranks that wait in an agreement tell one another (agree.c), and what those do that have left it. */
#ifndef MCA_COLL_MSCCLPP_OOB_WAITS_H
#define MCA_COLL_MSCCLPP_OOB_WAITS_H

#include "mca/coll/mscclpp/oob/message.h"

/* What a message of a rank asks for. */
typedef enum {
    MCA_COLL_MSCCLPP_WAITS_TELLS = 0, /* nothing: the sender only tells that it waits */
    MCA_COLL_MSCCLPP_WAITS_LEADS = 1, /* an answer, unless the receiver has told the sender that it waits */
    MCA_COLL_MSCCLPP_WAITS_AGAIN = 2, /* one more answer, which shows that the receiver still lives */
    MCA_COLL_MSCCLPP_WAITS_PASSED = 3 /* nothing: the sender has completed the agreement, and waits elsewhere */
} mca_coll_mscclpp_waits_kind_t;

/* The data of OOB_WAITS. */
typedef struct {
    int32_t kind;          /* mca_coll_mscclpp_waits_kind_t */
    int32_t deadline_rank; /* the rank whose deadline the sender keeps; -1: the sender has none */
    double waited;         /* seconds since that rank, or the sender if there is none, began to wait */
} mca_coll_mscclpp_waits_t;

/* Counts messages that have been sent, and keeps in mind that late ranks have to throw them away. */
void mca_coll_mscclpp_waits_note_sent(mca_coll_mscclpp_module_t *module, int count);

/*
 * Answers ranks that still wait in the agreement of the current call, which this rank has completed, so that they do
 * not take it for late. To be called in each turn of a wait; looks for messages now and then. Called without the lock.
 */
void mca_coll_mscclpp_waits_answer(mca_coll_mscclpp_oob_t *oob);

#endif
