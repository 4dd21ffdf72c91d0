#include "mca/common/ctrl/ctrl.h"

#include <stdlib.h>
#include <string.h>

#include "mca/common/ctrl/carrier.h"
#include "mca/common/base/log.h"

/* Carriers in the order of preference. */
enum { CARRIER_UCX, CARRIER_OOB, CARRIER_COUNT };

/*
 * The beginning of a rank's address: which carriers the rank has, and how many bytes each one's part takes. The parts
 * follow, in the order of the carriers.
 */
typedef struct {
    uint16_t length[CARRIER_COUNT];
    uint8_t is_present[CARRIER_COUNT];
    uint8_t pad[2];
} address_head_t;

struct mscclpp_ctrl {
    mscclpp_ctrl_carrier_t *carrier[CARRIER_COUNT]; /* NULL: this rank does not have the carrier */
    int chosen;                                     /* index of the carrier in use; -1 before the connect */
    int size;                                       /* number of ranks */
    const char *label;                              /* the oob's */
};

static const mscclpp_ctrl_ops_t *const carriers[CARRIER_COUNT] = {
#if MSCCLPP_HAVE_UCX
    [CARRIER_UCX] = &mscclpp_ctrl_ucx_ops,
#endif
    [CARRIER_OOB] = &mscclpp_ctrl_oob_ops,
};

/* Destroys this rank's part of a carrier, if it has one. */
static void destroy_carrier(mscclpp_ctrl_t *ctrl, int carrier)
{
    if (ctrl->carrier[carrier] != NULL) {
        carriers[carrier]->destroy(ctrl->carrier[carrier]);
        ctrl->carrier[carrier] = NULL;
    }
}

void mscclpp_ctrl_prepare(bool ucx)
{
    if (carriers[CARRIER_UCX] != NULL) {
        carriers[CARRIER_UCX]->prepare(ucx);
    }
}

/*
 * Makes every carrier that can be used here; mscclpp_ctrl_connect later finds out which of them all ranks have. An
 * error other than MSCCLPP_ERR_NOT_SUPPORTED is final, even if another carrier could be used; it has been logged.
 */
mscclpp_status_t mscclpp_ctrl_create(bool ucx, const mscclpp_oob_t *oob, mscclpp_ctrl_t **ctrl_p)
{
    mscclpp_ctrl_t *ctrl = calloc(1, sizeof(*ctrl));
    mscclpp_status_t status = MSCCLPP_ERR_NOT_SUPPORTED;

    if (ctrl == NULL) {
        mscclpp_error("%s: out of memory for control messages", oob->label);
        return MSCCLPP_ERR_NO_MEMORY;
    }
    ctrl->chosen = -1;
    ctrl->size = oob->size;
    ctrl->label = oob->label;
    for (int i = 0; i < CARRIER_COUNT; ++i) {
        if (carriers[i] == NULL || (i == CARRIER_UCX && !ucx)) {
            continue;
        }
        mscclpp_status_t carrier_status = carriers[i]->create(oob, &ctrl->carrier[i]);
        if (carrier_status == MSCCLPP_OK) {
            status = MSCCLPP_OK;
        } else if (carrier_status != MSCCLPP_ERR_NOT_SUPPORTED) {
            status = carrier_status;
            break;
        }
    }
    if (status != MSCCLPP_OK) {
        mscclpp_ctrl_destroy(ctrl);
        return status;
    }
    *ctrl_p = ctrl;
    return MSCCLPP_OK;
}

const char *mscclpp_ctrl_name(const mscclpp_ctrl_t *ctrl)
{
    return ctrl->chosen < 0 ? "none" : carriers[ctrl->chosen]->name;
}

bool mscclpp_ctrl_is_independent(const mscclpp_ctrl_t *ctrl)
{
    return ctrl->chosen == CARRIER_UCX;
}

/* Leaves out a carrier that has no address, or whose address does not fit, as if this rank did not have it. */
mscclpp_status_t mscclpp_ctrl_address(const mscclpp_ctrl_t *ctrl, void *address, size_t *length_p)
{
    unsigned char bytes[MSCCLPP_CTRL_ADDRESS_MAX];
    address_head_t head;
    size_t used = sizeof(head);
    bool has_any = false;

    memset(&head, 0, sizeof(head));
    for (int i = 0; i < CARRIER_COUNT; ++i) {
        size_t length = 0;
        if (ctrl->carrier[i] == NULL ||
            carriers[i]->address(ctrl->carrier[i], bytes + used, sizeof(bytes) - used, &length) != MSCCLPP_OK) {
            continue;
        }
        head.is_present[i] = 1;
        head.length[i] = (uint16_t)length;
        used += length;
        has_any = true;
    }
    if (!has_any) {
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    memcpy(bytes, &head, sizeof(head));
    memcpy(address, bytes, used);
    *length_p = used;
    return MSCCLPP_OK;
}

/*
 * Copies the addresses of all ranks for one carrier into `parts`. Each rank has MSCCLPP_CTRL_ADDRESS_MAX bytes in
 * `parts`. Returns false if some rank does not have this carrier, or if an address is invalid: its part must be within
 * `stride` bytes and fit its place in `parts`. `stride` must be at least the size of a head.
 */
static bool copy_parts(const mscclpp_ctrl_t *ctrl, int carrier, const char *addresses, size_t stride,
                       unsigned char *parts, size_t *lengths)
{
    for (int rank = 0; rank < ctrl->size; ++rank) {
        const char *address = addresses + (size_t)rank * stride;
        address_head_t head;
        size_t offset = sizeof(head);

        memcpy(&head, address, sizeof(head));
        for (int i = 0; i < carrier; ++i) {
            offset += head.length[i];
        }
        if (head.is_present[carrier] != 1 || offset + head.length[carrier] > stride ||
            offset + head.length[carrier] > MSCCLPP_CTRL_ADDRESS_MAX) {
            return false;
        }
        memcpy(parts + (size_t)rank * MSCCLPP_CTRL_ADDRESS_MAX, address + offset, head.length[carrier]);
        lengths[rank] = head.length[carrier];
    }
    return true;
}

/*
 * Destroys the carriers that are not chosen. Returns MSCCLPP_ERR_INVALID if `stride` is too small. A lack of memory,
 * which is logged, may make it fail on this rank alone. After a failure, no message can be sent or received.
 */
mscclpp_status_t mscclpp_ctrl_connect(mscclpp_ctrl_t *ctrl, uint64_t team_id, const void *addresses, size_t stride)
{
    mscclpp_status_t status = MSCCLPP_ERR_NOT_SUPPORTED;
    size_t count = (size_t)ctrl->size;
    unsigned char *parts;
    size_t *lengths;

    if (stride < sizeof(address_head_t)) {
        mscclpp_error("%s: %zu bytes are too few for an address", ctrl->label, stride);
        return MSCCLPP_ERR_INVALID;
    }
    parts = calloc(count, MSCCLPP_CTRL_ADDRESS_MAX);
    lengths = calloc(count, sizeof(*lengths));
    if (parts == NULL || lengths == NULL) {
        mscclpp_error("%s: out of memory for the addresses of %zu ranks", ctrl->label, count);
        status = MSCCLPP_ERR_NO_MEMORY;
        goto out;
    }
    /* All ranks see the same addresses, so they choose the same carrier: the first that all of them have. */
    for (int i = 0; i < CARRIER_COUNT && ctrl->chosen < 0; ++i) {
        if (copy_parts(ctrl, i, addresses, stride, parts, lengths)) {
            /* This rank's own address is among them, so the carrier exists here. */
            status = carriers[i]->connect(ctrl->carrier[i], team_id, parts, MSCCLPP_CTRL_ADDRESS_MAX, lengths);
            if (status != MSCCLPP_OK) {
                goto out;
            }
            ctrl->chosen = i;
        }
    }
    for (int i = 0; i < CARRIER_COUNT; ++i) {
        if (i != ctrl->chosen) {
            destroy_carrier(ctrl, i);
        }
    }
out:
    free(lengths);
    free(parts);
    return status;
}

/*
 * Destroys the carriers of other kinds than the model's. The model must be connected. Returns MSCCLPP_ERR_NOT_SUPPORTED
 * if this rank lacks the model's carrier.
 */
mscclpp_status_t mscclpp_ctrl_connect_like(mscclpp_ctrl_t *ctrl, const mscclpp_ctrl_t *model)
{
    const int chosen = model->chosen;
    mscclpp_status_t status;

    if (ctrl->carrier[chosen] == NULL) {
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    status = carriers[chosen]->connect_like(ctrl->carrier[chosen], model->carrier[chosen]);
    if (status != MSCCLPP_OK) {
        return status;
    }
    ctrl->chosen = chosen;
    for (int i = 0; i < CARRIER_COUNT; ++i) {
        if (i != chosen) {
            destroy_carrier(ctrl, i);
        }
    }
    return MSCCLPP_OK;
}

void mscclpp_ctrl_name_team(mscclpp_ctrl_t *ctrl, uint64_t team_id)
{
    carriers[ctrl->chosen]->name_team(ctrl->carrier[ctrl->chosen], team_id);
}

/* A lack of memory for the copy itself is not logged. */
mscclpp_status_t mscclpp_ctrl_copy(const mscclpp_ctrl_t *ctrl, const mscclpp_oob_t *oob, mscclpp_ctrl_t **copy_p)
{
    /* The copy keeps its label, so this must not be the label of a communicator, which may end first. */
    mscclpp_oob_t renamed = *oob;
    mscclpp_ctrl_t *copy = calloc(1, sizeof(*copy));
    mscclpp_status_t status = MSCCLPP_ERR_NO_MEMORY;

    if (copy == NULL) {
        return status;
    }
    renamed.label = "communicators of the same ranks";
    copy->chosen = -1;
    copy->size = ctrl->size;
    copy->label = renamed.label;
    status = carriers[ctrl->chosen]->create(&renamed, &copy->carrier[ctrl->chosen]);
    if (status == MSCCLPP_OK) {
        status = mscclpp_ctrl_connect_like(copy, ctrl);
    }
    if (status != MSCCLPP_OK) {
        mscclpp_ctrl_destroy(copy);
        return status;
    }
    *copy_p = copy;
    return MSCCLPP_OK;
}

mscclpp_status_t mscclpp_ctrl_post(mscclpp_ctrl_t *ctrl, int peer, const void *message, size_t length)
{
    if (ctrl->chosen < 0 || peer < 0 || peer >= ctrl->size || length > MSCCLPP_CTRL_MESSAGE_MAX) {
        mscclpp_error("%s: cannot post %zu bytes to rank %d of %d%s", ctrl->label, length, peer, ctrl->size,
                      ctrl->chosen < 0 ? " before the connect" : "");
        return MSCCLPP_ERR_INVALID;
    }
    return carriers[ctrl->chosen]->post(ctrl->carrier[ctrl->chosen], peer, message, length);
}

mscclpp_status_t mscclpp_ctrl_poll(mscclpp_ctrl_t *ctrl, int *peer_p, void *message, size_t *length_p)
{
    if (ctrl->chosen < 0) {
        return MSCCLPP_IN_PROGRESS;
    }
    return carriers[ctrl->chosen]->poll(ctrl->carrier[ctrl->chosen], peer_p, message, length_p);
}

void mscclpp_ctrl_flush(mscclpp_ctrl_t *ctrl, double seconds)
{
    if (ctrl->chosen >= 0 && carriers[ctrl->chosen]->flush != NULL) {
        carriers[ctrl->chosen]->flush(ctrl->carrier[ctrl->chosen], seconds);
    }
}

void mscclpp_ctrl_rebind(mscclpp_ctrl_t *ctrl, const mscclpp_oob_t *oob)
{
    ctrl->label = oob->label;
    for (int i = 0; i < CARRIER_COUNT; ++i) {
        if (ctrl->carrier[i] != NULL) {
            carriers[i]->rebind(ctrl->carrier[i], oob);
        }
    }
}

void mscclpp_ctrl_destroy(mscclpp_ctrl_t *ctrl)
{
    if (ctrl == NULL) {
        return;
    }
    for (int i = 0; i < CARRIER_COUNT; ++i) {
        destroy_carrier(ctrl, i);
    }
    free(ctrl);
}

void mscclpp_ctrl_finalize(void)
{
    for (int i = 0; i < CARRIER_COUNT; ++i) {
        if (carriers[i] != NULL) {
            carriers[i]->finalize();
        }
    }
}
