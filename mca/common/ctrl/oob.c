/*
 * The carrier for control messages over the embedding runtime's own messages. It needs no addresses, as the runtime
 * knows the ranks already.
 */
#include <stdlib.h>
#include <string.h>

#include "mca/common/ctrl/carrier.h"
#include "mca/common/base/log.h"

/*
 * A message as it is sent. It carries the team's number, because the runtime's messages belong to a communicator, which
 * may outlive a team.
 */
typedef struct {
    uint64_t team_id;
    unsigned char payload[MSCCLPP_CTRL_MESSAGE_MAX];
} oob_message_t;

_Static_assert(sizeof(oob_message_t) <= MSCCLPP_OOB_MESSAGE_MAX, "a control message fits a message of the runtime");

struct mscclpp_ctrl_carrier {
    mscclpp_oob_t oob;
    uint64_t team_id;
};

/*
 * Makes the carrier that sends messages by the oob. Returns MSCCLPP_ERR_NOT_SUPPORTED if the runtime cannot send and
 * receive messages.
 */
static mscclpp_status_t oob_create(const mscclpp_oob_t *oob, mscclpp_ctrl_carrier_t **carrier_p)
{
    mscclpp_ctrl_carrier_t *carrier;

    if (oob->post_message == NULL || oob->poll_message == NULL) {
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    carrier = calloc(1, sizeof(*carrier));
    if (carrier == NULL) {
        mscclpp_error("%s: out of memory for control messages", oob->label);
        return MSCCLPP_ERR_NO_MEMORY;
    }
    carrier->oob = *oob;
    *carrier_p = carrier;
    return MSCCLPP_OK;
}

/* Writes the carrier's address. The address is empty, because the messages need none. */
static mscclpp_status_t oob_address(const mscclpp_ctrl_carrier_t *carrier, void *address, size_t capacity,
                                    size_t *length_p)
{
    (void)carrier;
    (void)address;
    (void)capacity;
    *length_p = 0;
    return MSCCLPP_OK;
}

static mscclpp_status_t oob_connect(mscclpp_ctrl_carrier_t *carrier, uint64_t team_id, const void *addresses,
                                    size_t stride, const size_t *lengths)
{
    (void)addresses;
    (void)stride;
    (void)lengths;
    carrier->team_id = team_id;
    return MSCCLPP_OK;
}

/* Does nothing: the runtime knows the peers. */
static mscclpp_status_t oob_connect_like(mscclpp_ctrl_carrier_t *carrier, const mscclpp_ctrl_carrier_t *model)
{
    (void)carrier;
    (void)model;
    return MSCCLPP_OK;
}

static void oob_name_team(mscclpp_ctrl_carrier_t *carrier, uint64_t team_id)
{
    carrier->team_id = team_id;
}

static mscclpp_status_t oob_post(mscclpp_ctrl_carrier_t *carrier, int peer, const void *message, size_t length)
{
    oob_message_t sent;

    sent.team_id = carrier->team_id;
    memcpy(sent.payload, message, length);
    return carrier->oob.post_message(carrier->oob.context, peer, &sent, offsetof(oob_message_t, payload) + length);
}

/*
 * Drops messages of earlier teams, and messages that are not ours: only a message with at most MSCCLPP_CTRL_MESSAGE_MAX
 * bytes after its head is accepted.
 */
static mscclpp_status_t oob_poll(mscclpp_ctrl_carrier_t *carrier, int *peer_p, void *message, size_t *length_p)
{
    for (;;) {
        unsigned char bytes[MSCCLPP_OOB_MESSAGE_MAX];
        const size_t head_length = offsetof(oob_message_t, payload);
        size_t length = sizeof(bytes);
        uint64_t team_id;
        int peer;
        mscclpp_status_t status = carrier->oob.poll_message(carrier->oob.context, &peer, bytes, &length);

        if (status != MSCCLPP_OK) {
            return status;
        }
        if (length < head_length || length > sizeof(oob_message_t)) {
            mscclpp_debug("%s: a message of %zu bytes from rank %d is not ours", carrier->oob.label, length, peer);
            continue;
        }
        memcpy(&team_id, bytes, sizeof(team_id));
        if (team_id == carrier->team_id) {
            memcpy(message, bytes + head_length, length - head_length);
            *length_p = length - head_length;
            *peer_p = peer;
            return MSCCLPP_OK;
        }
    }
}

static void oob_rebind(mscclpp_ctrl_carrier_t *carrier, const mscclpp_oob_t *oob)
{
    carrier->oob = *oob;
}

static void oob_destroy(mscclpp_ctrl_carrier_t *carrier)
{
    free(carrier);
}

static void oob_finalize(void)
{
}

const mscclpp_ctrl_ops_t mscclpp_ctrl_oob_ops = {
    .name = "oob",
    .create = oob_create,
    .address = oob_address,
    .connect = oob_connect,
    .connect_like = oob_connect_like,
    .name_team = oob_name_team,
    .post = oob_post,
    .poll = oob_poll,
    .rebind = oob_rebind,
    .destroy = oob_destroy,
    .finalize = oob_finalize,
};
