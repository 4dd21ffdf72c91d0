/* What the host library asks of the runtime that embeds it: who takes part, and a way to exchange set-up data. */
#ifndef MCA_COMMON_OOB_OOB_H
#define MCA_COMMON_OOB_OOB_H

#include <stddef.h>

#include "mca/common/base/status.h"

typedef struct {
    void *context; /* handed back as each function's first argument */
    int rank;
    int size;
    const char *label; /* names the group in messages, such as a communicator's name; outlives the user of this table */

    /*
     * Gathers `length` bytes of every rank in rank order into recvbuf (size * length bytes). Blocking and collective.
     * Ends on all ranks alike with MSCCLPP_ERR_NOT_SUPPORTED, the reason logged, if one has no memory for it; and with
     * MSCCLPP_ERR_TIMEOUT, MSCCLPP_ERR_MIXED or another error, already reported, if a rank cannot take part.
     */
    mscclpp_status_t (*allgather)(void *context, const void *sendbuf, void *recvbuf, size_t length);

    /* Moves the runtime's other communication on; called over and over by every wait. */
    void (*progress)(void *context);

    /*
     * MSCCLPP_OK as long as waiting makes sense; MSCCLPP_ERR_REVOKED once the runtime knows that the group cannot
     * finish (a failed process, a revoked communicator). Called now and then by every wait.
     */
    mscclpp_status_t (*check)(void *context);

    /*
     * Short control messages (at most MSCCLPP_OOB_MESSAGE_MAX bytes). post_message returns at once and owns a copy.
     * poll_message: MSCCLPP_OK and one message, or MSCCLPP_IN_PROGRESS if there is none. Either may be NULL.
     */
    mscclpp_status_t (*post_message)(void *context, int peer, const void *message, size_t length);
    mscclpp_status_t (*poll_message)(void *context, int *peer_p, void *message, size_t *length_p);
} mscclpp_oob_t;

#define MSCCLPP_OOB_MESSAGE_MAX 64

#endif
