/*
 * The interface to the embedding runtime (MPI, in the component): who takes part, and a way to exchange data at set-up.
 */
#ifndef MCA_COMMON_OOB_OOB_H
#define MCA_COMMON_OOB_OOB_H

#include <stddef.h>
#include <stdint.h>

#include "mca/common/base/status.h"

/* An exchange with selected ranks that ends before an all-gather does (exchange_and_gather below). */
typedef struct {
    uint64_t id;           /* equal on all ranks that make this exchange; not 0. Each message begins with it. */
    const int *peers;      /* this rank and each of these send a message to each other */
    int count;             /* number of peers */
    const void *sent;      /* the messages, by peer, `pitch` bytes apart */
    const size_t *lengths; /* bytes of each; NULL: this rank cannot send any */
    void *received;        /* the peers' messages, `pitch` bytes apart, zeroed; those that do not come stay so */
    size_t pitch;

    /*
     * Called once, on the same thread, and only if the all-gather goes on. With MSCCLPP_OK, all messages have come,
     * those of peers that cannot send any excepted. With an error, which is not logged, they will not come. Fills in
     * what this rank contributes to the all-gather. Must not wait for other ranks.
     */
    void (*complete)(void *context, mscclpp_status_t status);
    void *context;
} mscclpp_oob_ahead_t;

typedef struct {
    void *context;     /* passed to each function as its first argument */
    int rank;          /* this rank's number in the group */
    int size;          /* number of ranks in the group */
    const char *label; /* name of the group in messages; outlives the user of this table */

    /*
     * Gathers `length` bytes from every rank into recvbuf (size * length bytes), in the order of ranks. Blocking and
     * collective. A rank that has no memory for the result passes NULL as recvbuf. Errors are equal on all ranks. If a
     * rank lacks memory, all ranks get MSCCLPP_ERR_NOT_SUPPORTED, and the others log that. If a rank cannot take part,
     * all ranks get MSCCLPP_ERR_TIMEOUT, MSCCLPP_ERR_MIXED or another error, which is logged already.
     */
    mscclpp_status_t (*allgather)(void *context, const void *sendbuf, void *recvbuf, size_t length);

    /*
     * Gathers in the same way among `count` ranks, including this one. `members` lists them in ascending order. Each
     * rank passes the same list in all calls. Two ranks that are in one list pass equal lists. May be NULL.
     */
    mscclpp_status_t (*allgather_among)(void *context, const int *members, int count, const void *sendbuf,
                                        void *recvbuf, size_t length);

    /*
     * Exchanges messages with selected ranks (mscclpp_oob_exchange in mca/common/oob/pairs.h). The status may differ
     * between ranks. As there, `lengths` may be NULL. The function itself may be NULL.
     */
    mscclpp_status_t (*exchange)(void *context, const int *peers, int count, const void *sent, const size_t *lengths,
                                 void *received, size_t pitch);

    /*
     * Makes the exchange `ahead`, and then gathers as `allgather` does, so that one wait for all ranks is enough.
     * `sendbuf` is read after ahead->complete. Other ranks may call `allgather` at the same time, or pass another id.
     * Then the exchange ends with MSCCLPP_ERR_PEER on some ranks, and the all-gather goes on. May be NULL.
     */
    mscclpp_status_t (*exchange_and_gather)(void *context, const mscclpp_oob_ahead_t *ahead, const void *sendbuf,
                                            void *recvbuf, size_t length);

    /* Makes progress on the runtime's other communication. Every wait calls this function repeatedly. */
    void (*progress)(void *context);

    /*
     * Returns MSCCLPP_OK if waiting still makes sense, or MSCCLPP_ERR_REVOKED once the runtime knows that the group
     * cannot finish (a failed process, a revoked communicator). Every wait calls this function from time to time.
     */
    mscclpp_status_t (*check)(void *context);

    /*
     * These functions send and receive short control messages, of at most MSCCLPP_OOB_MESSAGE_MAX bytes. post_message
     * copies the message and returns at once. poll_message returns MSCCLPP_OK and one message, or MSCCLPP_IN_PROGRESS
     * if there is none. Either function may be NULL.
     */
    mscclpp_status_t (*post_message)(void *context, int peer, const void *message, size_t length);
    mscclpp_status_t (*poll_message)(void *context, int *peer_p, void *message, size_t *length_p);
} mscclpp_oob_t;

/* The maximum number of bytes of a control message. */
#define MSCCLPP_OOB_MESSAGE_MAX 64

#endif
