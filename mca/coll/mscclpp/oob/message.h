/*
 * Messages over a communicator's point-to-point, under one tag that no other collective component uses at the same
 * time. Every message begins with a header that says what it is; what arrives early is kept until it is asked for.
 * Shared by oob.c and message.c alone.
 */
#ifndef MCA_COLL_MSCCLPP_OOB_MESSAGE_H
#define MCA_COLL_MSCCLPP_OOB_MESSAGE_H

#include <limits.h>

#include "mca/coll/mscclpp/oob/oob.h"

typedef enum {
    MCA_COLL_MSCCLPP_OOB_GATHER = 1,  /* one rank's part of an all-gather; `number` counts these */
    MCA_COLL_MSCCLPP_OOB_CONTROL = 2, /* a message of the host library's; `number` is that of its team's port */
    MCA_COLL_MSCCLPP_OOB_REFUSE = 3,  /* the sender passed host buffers in all-reduce call `call` */
    MCA_COLL_MSCCLPP_OOB_ABSTAIN =
        4,                          /* the sender has no memory for all-gather `number`, and sends nothing else of it */
    MCA_COLL_MSCCLPP_OOB_CHECK = 5, /* what the sender passes to its compared call `number` */
    MCA_COLL_MSCCLPP_OOB_CHECK_FAILED = 6 /* the sender has given up comparing call `number` */
} mca_coll_mscclpp_oob_kind_t;

typedef struct {
    uint32_t magic;
    uint32_t kind;
    uint64_t number;
    uint64_t call;
    uint64_t length; /* bytes that follow */
} mca_coll_mscclpp_oob_header_t;

/* On its way out, on its way in, or waiting to be asked for. */
typedef struct mca_coll_mscclpp_oob_message {
    struct mca_coll_mscclpp_oob_message *next;
    ompi_request_t *request; /* NULL once it is complete */
    int peer;
    size_t size;  /* header and what follows it */
    bool refused; /* of OOB_GATHER: has been answered by OOB_REFUSE */
    mca_coll_mscclpp_oob_header_t header;
    unsigned char data[];
} mca_coll_mscclpp_oob_message_t;

typedef struct {
    mca_coll_mscclpp_oob_message_t *first;
    mca_coll_mscclpp_oob_message_t **end;
} mca_coll_mscclpp_oob_queue_t;

struct mca_coll_mscclpp_oob {
    mca_coll_mscclpp_module_t *module;
    struct ompi_communicator_t *comm;
    pthread_mutex_t lock; /* guards what follows; held over point-to-point calls, none of which waits */
    mca_coll_mscclpp_oob_queue_t sends;
    mca_coll_mscclpp_oob_queue_t receives;
    mca_coll_mscclpp_oob_queue_t inbox;
    uint64_t gathers;                 /* all-gathers begun on this rank */
    mca_coll_mscclpp_oob_port_t port; /* of the communicator's own team */
    bool revoked;                     /* has been reported */
    bool starved;                     /* likewise: what has arrived waits for memory to receive it into */
    char label[MPI_MAX_OBJECT_NAME];
};

/* The module's, made if there is none yet, by any thread; NULL, reported, without memory. */
mca_coll_mscclpp_oob_t *mca_coll_mscclpp_oob_of(mca_coll_mscclpp_module_t *module);

/* Of an object that is all zeros; and the reverse, once no other thread can look at it. */
void mca_coll_mscclpp_oob_queues_init(mca_coll_mscclpp_oob_t *oob);
void mca_coll_mscclpp_oob_queues_free(mca_coll_mscclpp_oob_t *oob);

/*
 * Messages of an exchange that ends badly may still come, and not every point-to-point layer forgets them with the
 * communicator: the next one with the same context id would receive them. Open MPI gives the id to no other while
 * somebody holds the communicator, so from now on this module does, until MPI_Finalize begins. A rank that never came
 * to the exchange does not know of it: only its own communicators can then meet what it was sent.
 *
 * _let_go ends that, and frees a communicator that nobody else holds, module included.
 */
void mca_coll_mscclpp_oob_break_off(mca_coll_mscclpp_module_t *module);
void mca_coll_mscclpp_oob_let_go(mca_coll_mscclpp_module_t *module);

/*
 * Takes the lock. Looking for messages runs Open MPI's progress, which goes on with nonblocking calls: the one that
 * asks may stand above the holder on the stack of the same thread, so it lets that go on.
 */
void mca_coll_mscclpp_oob_lock(mca_coll_mscclpp_oob_t *oob);

/*
 * The functions below are called with the lock held and never wait.
 */

/* Starts to send; the data are copied. */
mscclpp_status_t mca_coll_mscclpp_oob_post(mca_coll_mscclpp_oob_t *oob, int peer, mca_coll_mscclpp_oob_kind_t kind,
                                           uint64_t number, uint64_t call, const void *data, size_t length);

/* The same to all other ranks, or, without memory, to none. */
mscclpp_status_t mca_coll_mscclpp_oob_post_all(mca_coll_mscclpp_oob_t *oob, mca_coll_mscclpp_oob_kind_t kind,
                                               uint64_t number, uint64_t call, const void *data, size_t length);

/*
 * Frees what has been sent, and moves what has come into the inbox, in the order in which each peer sent it; `most`
 * messages of it, MCA_COLL_MSCCLPP_OOB_ANY for all.
 */
#define MCA_COLL_MSCCLPP_OOB_ANY INT_MAX
mscclpp_status_t mca_coll_mscclpp_oob_advance(mca_coll_mscclpp_oob_t *oob, int most);

/*
 * Takes the first message of a kind out of the inbox whose number, or call (OOB_REFUSE), is `which`; NULL if there is
 * none. To be freed by free().
 */
mca_coll_mscclpp_oob_message_t *mca_coll_mscclpp_oob_take(mca_coll_mscclpp_oob_t *oob, mca_coll_mscclpp_oob_kind_t kind,
                                                          uint64_t which);

#endif
