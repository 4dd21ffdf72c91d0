/* The interface to the embedding runtime: who takes part, and a way to exchange set-up data. */
#ifndef MCA_COMMON_OOB_OOB_H
#define MCA_COMMON_OOB_OOB_H

#include <stddef.h>

#include "mca/common/base/status.h"

typedef struct {
    void *context; /* passed to each function as its first argument */
    int rank;
    int size;
    const char *label; /* names the group in messages, such as a communicator's name; outlives the user of this table */

    /*
     * Gathers `length` bytes from every rank, in rank order, into recvbuf (size * length bytes). Blocking and
     * collective. If a rank lacks memory for it, all ranks get MSCCLPP_ERR_NOT_SUPPORTED, and the reason is logged. A
     * rank that has no memory for what it receives passes NULL as recvbuf. If a rank cannot take part, all get
     * MSCCLPP_ERR_TIMEOUT, MSCCLPP_ERR_MIXED or another error, already reported.
     */
    mscclpp_status_t (*allgather)(void *context, const void *sendbuf, void *recvbuf, size_t length);

    /* Makes progress on the runtime's other communication; called over and over by every wait. */
    void (*progress)(void *context);

    /*
     * MSCCLPP_OK as long as waiting makes sense; MSCCLPP_ERR_REVOKED once the runtime knows that the group cannot
     * finish (a failed process, a revoked communicator). Called now and then by every wait.
     */
    mscclpp_status_t (*check)(void *context);

    /*
     * Short control messages (at most MSCCLPP_OOB_MESSAGE_MAX bytes). post_message returns at once and copies the
     * message. poll_message returns MSCCLPP_OK and one message, or MSCCLPP_IN_PROGRESS if there is none. Either may be
     * NULL.
     */
    mscclpp_status_t (*post_message)(void *context, int peer, const void *message, size_t length);
    mscclpp_status_t (*poll_message)(void *context, int *peer_p, void *message, size_t *length_p);
} mscclpp_oob_t;

#define MSCCLPP_OOB_MESSAGE_MAX 64

#endif
