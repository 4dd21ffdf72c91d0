/*
 * Messages over a communicator's point-to-point, under one tag that no other collective component uses at the same
 * time. Every message begins with a header that says what kind it is. A message that arrives early is kept until
 * somebody asks for it. Private to this folder, to the comparison of calls and to native/bind.c.
 */
#ifndef MCA_COLL_MSCCLPP_OOB_MESSAGE_H
#define MCA_COLL_MSCCLPP_OOB_MESSAGE_H

#include <limits.h>

#include "mca/coll/mscclpp/oob/oob.h"

/* The kinds of messages. `number` and `call` are the fields of the message's header. */
typedef enum {
    MCA_COLL_MSCCLPP_OOB_GATHER = 1,  /* parts of all-gather `number`: the sender's, in a tree also its subtree's */
    MCA_COLL_MSCCLPP_OOB_CONTROL = 2, /* a control message of the host library; `number` is the number of its team's
                                         port */
    MCA_COLL_MSCCLPP_OOB_REFUSE = 3,  /* the sender passed host buffers in call `call` */
    MCA_COLL_MSCCLPP_OOB_ABSTAIN =
        4, /* the sender has no memory for all-gather `number`, and sends no other message of it */
    MCA_COLL_MSCCLPP_OOB_CHECK = 5,          /* the sender's arguments of compared call `number` */
    MCA_COLL_MSCCLPP_OOB_CHECK_FAILED = 6,   /* the sender has given up comparing call `number` */
    MCA_COLL_MSCCLPP_OOB_WHOLE = 7,          /* all ranks' parts of all-gather `number` */
    MCA_COLL_MSCCLPP_OOB_ASK = 8,            /* the sender waits for the receiver in all-gather `number` */
    MCA_COLL_MSCCLPP_OOB_HERE = 9,           /* the answer: the sender is in all-gather `number` */
    MCA_COLL_MSCCLPP_OOB_END = 10,           /* all-gather `number` has failed on the sender */
    MCA_COLL_MSCCLPP_OOB_WAITS = 11,         /* the sender waits in the agreement of call `number` */
    MCA_COLL_MSCCLPP_OOB_GIVES_UP = 12,      /* the sender has given up that agreement */
    MCA_COLL_MSCCLPP_OOB_PAIR = 13,          /* the sender's message in exchange `number` */
    MCA_COLL_MSCCLPP_OOB_CHECK_SKIPPED = 14, /* the sender continues call `number` without comparing it */
    MCA_COLL_MSCCLPP_OOB_AHEAD =
        15,                         /* the sender's message in the exchange ahead of all-gather `number`; empty: none */
    MCA_COLL_MSCCLPP_OOB_HURRY = 16 /* nobody is to wait any more for the exchange ahead of all-gather `number` */
} mca_coll_mscclpp_oob_kind_t;

/* Tells the messages of this component from others. */
#define MCA_COLL_MSCCLPP_OOB_MAGIC 0x6d736370u

/* All-gathers among the ranks of a node have numbers of their own, with this bit. */
#define MCA_COLL_MSCCLPP_OOB_AMONG ((uint64_t)1 << 63)

/* The number of the nth all-gather or exchange of a port. The high half of it is the port's own number. */
#define MCA_COLL_MSCCLPP_OOB_PORT_SHIFT 32
static inline uint64_t mca_coll_mscclpp_oob_number(uint64_t port, uint64_t nth)
{
    return port << MCA_COLL_MSCCLPP_OOB_PORT_SHIFT | nth;
}

/* What every message begins with. */
typedef struct {
    uint32_t magic;  /* MCA_COLL_MSCCLPP_OOB_MAGIC */
    uint32_t kind;   /* mca_coll_mscclpp_oob_kind_t, which says what `number` counts */
    uint64_t number; /* tells messages of one kind apart */
    uint64_t call;   /* number of the communicator's call in which the message was sent */
    uint64_t length; /* bytes that follow the header */
} mca_coll_mscclpp_oob_header_t;

/* A message that is being sent, is being received, or waits in the inbox. */
typedef struct mca_coll_mscclpp_oob_message {
    struct mca_coll_mscclpp_oob_message *next;
    ompi_request_t *request; /* NULL once the message is complete */
    int peer;                /* the other rank */
    size_t size;             /* bytes of header and data */
    bool refused; /* for OOB_GATHER, OOB_AHEAD and OOB_ASK: this rank has answered the message by OOB_REFUSE */
    mca_coll_mscclpp_oob_header_t header;
    unsigned char data[];
} mca_coll_mscclpp_oob_message_t;

/* Messages, the oldest first. A queue must not be moved. */
typedef struct {
    mca_coll_mscclpp_oob_message_t *first; /* NULL: the queue is empty */
    mca_coll_mscclpp_oob_message_t **end;  /* the link that a further message is put into */
} mca_coll_mscclpp_oob_queue_t;

/* The messages of one communicator. */
struct mca_coll_mscclpp_oob {
    mca_coll_mscclpp_module_t *module;
    struct ompi_communicator_t *comm;
    pthread_mutex_t lock; /* guards the fields below; held during point-to-point calls, none of which waits */
    mca_coll_mscclpp_oob_queue_t sends;    /* being sent */
    mca_coll_mscclpp_oob_queue_t receives; /* being received */
    mca_coll_mscclpp_oob_queue_t inbox;    /* received, and nobody has asked for them yet */
    mca_coll_mscclpp_oob_port_t port;      /* port of the communicator's own team */
    bool revoked;                          /* a message has reported that the communicator was revoked */
    bool starved;                          /* a message has reported that there is no memory to receive into */
    double answered_at;                    /* when waits.c last looked for questions */
    char label[MPI_MAX_OBJECT_NAME];       /* names the communicator in log lines */
};

/*
 * Returns the object that holds the messages of the module's communicator. Makes the object if it does not exist. Any
 * thread may call this function. Returns NULL if there is no memory.
 */
mca_coll_mscclpp_oob_t *mca_coll_mscclpp_oob_ensure(mca_coll_mscclpp_module_t *module);

/*
 * Initializes the queues of a zeroed object. _queues_free frees their messages; it is called when no other thread can
 * use the object any more.
 */
void mca_coll_mscclpp_oob_queues_init(mca_coll_mscclpp_oob_t *oob);
void mca_coll_mscclpp_oob_queues_free(mca_coll_mscclpp_oob_t *oob);

/*
 * Receives and drops what has come for the communicator. To be called before the communicator is freed: Open MPI would
 * take a message that it finds later for one of the next communicator with the same number, and crash if that one has
 * fewer ranks. Messages may be left, because a rank that waits tells the others, which may end the call without
 * looking.
 */
void mca_coll_mscclpp_oob_drain(mca_coll_mscclpp_oob_t *oob);

/*
 * Keeps the communicator alive until MPI_Finalize begins. Called when an exchange has failed.
 *
 * Messages of that exchange may still arrive. Not every point-to-point layer drops them when the communicator is freed.
 * So the next communicator with the same context id would receive them. Open MPI does not reuse the id while somebody
 * holds a reference to the communicator. A rank that never began the exchange does not hold one, so its own later
 * communicators can receive what was sent to it.
 *
 * _let_go drops the reference. If it was the last one, this frees the communicator and the module.
 */
void mca_coll_mscclpp_oob_break_off(mca_coll_mscclpp_module_t *module);
void mca_coll_mscclpp_oob_let_go(mca_coll_mscclpp_module_t *module);

/*
 * Takes the lock, and makes progress while it waits for the lock. If the caller only blocked, it might never get the
 * lock: the holder looks for messages, which runs Open MPI's progress, which resumes nonblocking calls. So the holder
 * may be below the caller on the stack of the same thread.
 */
void mca_coll_mscclpp_oob_lock(mca_coll_mscclpp_oob_t *oob);

/*
 * The functions below must be called with the lock held, unless they say otherwise. They never wait.
 */

/*
 * Starts to send a copy of the data to rank `peer`. `number` and `call` are for the message's header. After an error,
 * which has been logged, the message is not sent.
 */
mscclpp_status_t mca_coll_mscclpp_oob_post(mca_coll_mscclpp_oob_t *oob, int peer, mca_coll_mscclpp_oob_kind_t kind,
                                           uint64_t number, uint64_t call, const void *data, size_t length);

/*
 * The same to `count` ranks, except this one. `members` lists the ranks; NULL: all ranks of the communicator. If there
 * is no memory for all messages, sends none. If Open MPI cannot send one, does not send those after it.
 */
mscclpp_status_t mca_coll_mscclpp_oob_post_among(mca_coll_mscclpp_oob_t *oob, const int *members, int count,
                                                 mca_coll_mscclpp_oob_kind_t kind, uint64_t number, uint64_t call,
                                                 const void *data, size_t length);

/*
 * Frees messages that have been sent. Begins to receive up to `limit` messages that have arrived; with
 * MCA_COLL_MSCCLPP_OOB_ANY, all of them. Moves messages that are complete into the inbox, those of each peer in the
 * order of sending. Returns MSCCLPP_OK, or an error.
 */
#define MCA_COLL_MSCCLPP_OOB_ANY INT_MAX
mscclpp_status_t mca_coll_mscclpp_oob_advance(mca_coll_mscclpp_oob_t *oob, int limit);

/*
 * Removes from the inbox the first message of `kind` whose number is `identifier`; for OOB_REFUSE, the call in the
 * header is compared instead of the number. Returns the message, which the caller frees by free(), or NULL if there is
 * none.
 */
mca_coll_mscclpp_oob_message_t *mca_coll_mscclpp_oob_take(mca_coll_mscclpp_oob_t *oob, mca_coll_mscclpp_oob_kind_t kind,
                                                          uint64_t identifier);

/*
 * Frees the messages in the inbox that belong to all-gathers of this port before `number`. Keeps OOB_ABSTAIN, and
 * OOB_END of the all-gather right before `number`, because mca_coll_mscclpp_gather_told asks for it. All-gathers of a
 * node's ranks and those of all ranks are numbered apart: only messages of the same kind of all-gather are freed.
 */
void mca_coll_mscclpp_oob_drop_old_gathers(mca_coll_mscclpp_oob_t *oob, uint64_t number);

/*
 * Sends a message without data to ranks `members` of the communicator, or to ranks 0 .. count - 1 if `members` is NULL.
 * On an inter-communicator these are ranks of the remote group. Needs no memory and no lock, and leaves out this rank.
 * A peer that cannot be reached waits until its own deadline.
 */
void mca_coll_mscclpp_oob_send_empty(mca_coll_mscclpp_module_t *module, const int *members, int count,
                                     mca_coll_mscclpp_oob_kind_t kind, uint64_t number);

/*
 * Makes the other ranks of all-gather `number` end it with MSCCLPP_ERR_NOT_SUPPORTED. `members` and `count` as for
 * _post_among. Called without the lock. Needs no memory.
 */
void mca_coll_mscclpp_oob_abstain_among(mca_coll_mscclpp_module_t *module, const int *members, int count,
                                        uint64_t number);

/*
 * Returns MSCCLPP_ERR_REVOKED, and logs that the first time, if the communicator cannot be used any more. Otherwise
 * returns MSCCLPP_OK. Called without the lock.
 */
mscclpp_status_t mca_coll_mscclpp_oob_check(mca_coll_mscclpp_oob_t *oob);

/* Frees the messages of `kind` in the inbox whose number is below `number`. The caller holds the lock. */
void mca_coll_mscclpp_oob_drop_kind_before(mca_coll_mscclpp_oob_t *oob, mca_coll_mscclpp_oob_kind_t kind,
                                           uint64_t number);

#endif
