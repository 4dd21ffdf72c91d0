/*
 * Control messages of a team after its bring-up: short, rare, unordered, lost if the peer is gone. Over UCX active
 * messages where the build has UCX and the parameter allows it, else over the embedding runtime's own messages.
 */
#ifndef MCA_COMMON_CTRL_CTRL_H
#define MCA_COMMON_CTRL_CTRL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mca/common/oob/oob.h"
#include "mca/common/base/status.h"

#define MSCCLPP_CTRL_ADDRESS_MAX 1024
#define MSCCLPP_CTRL_MESSAGE_MAX 48

typedef struct mscclpp_ctrl mscclpp_ctrl_t;

/*
 * To be called before the process has threads that use memory: loads UCX, if `ucx` and if the build has it, which is
 * not safe beside other threads' malloc, and takes some milliseconds. With `ucx` false UCX is not loaded later either,
 * by control messages or by the transport ucx, until a call with true. Without any call the first team loads it. Never
 * fails.
 */
void mscclpp_ctrl_prepare(bool ucx);

/*
 * Prepares messages for one team; local. With `ucx` false, or without UCX in the build, they go over the oob (which is
 * copied). MSCCLPP_ERR_NOT_SUPPORTED if neither can be used.
 */
mscclpp_status_t mscclpp_ctrl_create(bool ucx, const mscclpp_oob_t *oob, mscclpp_ctrl_t **ctrl_p);

/* "ucx" or "oob". */
const char *mscclpp_ctrl_name(const mscclpp_ctrl_t *ctrl);

/* What the peers need to reach this rank; *length_p bytes (0 where none are needed), at most MSCCLPP_CTRL_ADDRESS_MAX.
 */
mscclpp_status_t mscclpp_ctrl_address(const mscclpp_ctrl_t *ctrl, void *address, size_t *length_p);

/*
 * Learns every rank's address; `addresses` holds one each `stride` bytes. `team_id` is equal on all ranks of the team
 * and different from that of every other team they have. Endpoints are opened when first used.
 */
mscclpp_status_t mscclpp_ctrl_connect(mscclpp_ctrl_t *ctrl, uint64_t team_id, const void *addresses, size_t stride);

/*
 * Never blocks, owns a copy of the message. MSCCLPP_ERR_PEER if the peer is known to be gone. What was posted moves on
 * when it is polled.
 */
mscclpp_status_t mscclpp_ctrl_post(mscclpp_ctrl_t *ctrl, int peer, const void *message, size_t length);

/*
 * MSCCLPP_OK and one message that has arrived (`message` has room for MSCCLPP_CTRL_MESSAGE_MAX bytes), or
 * MSCCLPP_IN_PROGRESS. Moves messages on, in both directions.
 */
mscclpp_status_t mscclpp_ctrl_poll(mscclpp_ctrl_t *ctrl, int *peer_p, void *message, size_t *length_p);

/* Moves on what was posted until it has left, for at most `seconds`; for a rank that will not poll soon. */
void mscclpp_ctrl_flush(mscclpp_ctrl_t *ctrl, double seconds);

/* From now on the team talks through another exchange of the same ranks, which outlives it in place of the first. */
void mscclpp_ctrl_rebind(mscclpp_ctrl_t *ctrl, const mscclpp_oob_t *oob);

/* Local; messages on their way get a few milliseconds and may then be lost. NULL is allowed. */
void mscclpp_ctrl_destroy(mscclpp_ctrl_t *ctrl);

/*
 * Gives back what the process keeps from one team to the next, if no team is left; but UCX's worker stays once it has
 * met other processes. To be called last.
 */
void mscclpp_ctrl_finalize(void);

#endif
