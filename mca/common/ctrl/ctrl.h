/*
 * Control messages, which the hosts of a team's ranks send one another after bring-up, for example about failures. They
 * are short, rare and unordered, and are lost if the peer is gone. They are sent as active messages of UCX if all ranks
 * can use it and the parameter allows it. Otherwise they are messages of the embedding runtime.
 */
#ifndef MCA_COMMON_CTRL_CTRL_H
#define MCA_COMMON_CTRL_CTRL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mca/common/oob/oob.h"
#include "mca/common/base/status.h"

/* The maximum number of bytes of a rank's address and of a message. */
#define MSCCLPP_CTRL_ADDRESS_MAX 1024
#define MSCCLPP_CTRL_MESSAGE_MAX 48

typedef struct mscclpp_ctrl mscclpp_ctrl_t;

/*
 * Loads UCX, if `ucx` is true and the build has it. Must be called before the process has threads that use memory,
 * because loading is not safe while other threads call malloc. Takes some milliseconds. If `ucx` is false, UCX is not
 * loaded later either, by control messages or by the transport ucx, until a call with true. Without any call the first
 * team loads it. Never fails.
 */
void mscclpp_ctrl_prepare(bool ucx);

/*
 * Prepares messages for one team; local. With `ucx` false, or without UCX in the build, they are sent over the oob
 * (which is copied). Returns MSCCLPP_ERR_NOT_SUPPORTED if neither can be used.
 */
mscclpp_status_t mscclpp_ctrl_create(bool ucx, const mscclpp_oob_t *oob, mscclpp_ctrl_t **ctrl_p);

/* Returns how messages are sent: "ucx" or "oob"; "none" before mscclpp_ctrl_connect. */
const char *mscclpp_ctrl_name(const mscclpp_ctrl_t *ctrl);

/* Returns true if messages are sent without the embedding runtime, so that any thread may send and receive them. */
bool mscclpp_ctrl_is_independent(const mscclpp_ctrl_t *ctrl);

/*
 * Writes the address by which the peers connect to this rank: *length_p bytes, at most MSCCLPP_CTRL_ADDRESS_MAX.
 * Returns MSCCLPP_ERR_NOT_SUPPORTED if no carrier has an address that fits.
 */
mscclpp_status_t mscclpp_ctrl_address(const mscclpp_ctrl_t *ctrl, void *address, size_t *length_p);

/*
 * Connects all ranks by their addresses, which are `stride` bytes apart in `addresses`. Chooses how messages are sent,
 * equally on all ranks. Returns MSCCLPP_ERR_NOT_SUPPORTED if all ranks have no way in common. `team_id` is equal on all
 * ranks of the team and different from that of every other team of these ranks. Endpoints are opened when they are
 * first used.
 */
mscclpp_status_t mscclpp_ctrl_connect(mscclpp_ctrl_t *ctrl, uint64_t team_id, const void *addresses, size_t stride);

/*
 * Copies the connections of a team, which is connected, for mscclpp_ctrl_connect_like. The copy sends and receives no
 * messages, and belongs to the caller. `oob` is the exchange of the team. Returns MSCCLPP_ERR_NO_MEMORY or
 * MSCCLPP_ERR_NOT_SUPPORTED if the copy cannot be made.
 */
mscclpp_status_t mscclpp_ctrl_copy(const mscclpp_ctrl_t *ctrl, const mscclpp_oob_t *oob, mscclpp_ctrl_t **copy_p);

/*
 * Connects as mscclpp_ctrl_connect does, without the ranks' addresses: messages are sent in the same way as for
 * `model`, which has the same ranks in the same order. The caller calls mscclpp_ctrl_name_team before the first
 * message.
 */
mscclpp_status_t mscclpp_ctrl_connect_like(mscclpp_ctrl_t *ctrl, const mscclpp_ctrl_t *model);

/* Says for which team messages are sent and received from now on; `team_id` as for mscclpp_ctrl_connect. */
void mscclpp_ctrl_name_team(mscclpp_ctrl_t *ctrl, uint64_t team_id);

/*
 * Sends a message: copies it and never blocks. Posted messages make progress when the team polls. Returns
 * MSCCLPP_ERR_PEER if the peer is known to be gone. After this or any other error, the message is lost.
 */
mscclpp_status_t mscclpp_ctrl_post(mscclpp_ctrl_t *ctrl, int peer, const void *message, size_t length);

/*
 * Receives one message: returns MSCCLPP_OK and the message, MSCCLPP_IN_PROGRESS if none has arrived, or an error of the
 * embedding runtime. `message` must have room for MSCCLPP_CTRL_MESSAGE_MAX bytes. Makes progress on messages in both
 * directions.
 */
mscclpp_status_t mscclpp_ctrl_poll(mscclpp_ctrl_t *ctrl, int *peer_p, void *message, size_t *length_p);

/*
 * Makes progress until all posted messages have left, for at most `seconds` seconds. For a rank that will not poll
 * soon.
 */
void mscclpp_ctrl_flush(mscclpp_ctrl_t *ctrl, double seconds);

/*
 * Makes the team use another exchange of the same ranks. That exchange must then outlive the team instead of the first
 * one.
 */
void mscclpp_ctrl_rebind(mscclpp_ctrl_t *ctrl, const mscclpp_oob_t *oob);

/*
 * Ends the messages of one team and frees its data; not collective. Messages in flight get a few milliseconds and may
 * then be lost. NULL is allowed.
 */
void mscclpp_ctrl_destroy(mscclpp_ctrl_t *ctrl);

/*
 * Frees the data that the process keeps from one team to the next, if no team is left. UCX's worker is kept if it has
 * connected to other processes. Must be the last call.
 */
void mscclpp_ctrl_finalize(void);

#endif
