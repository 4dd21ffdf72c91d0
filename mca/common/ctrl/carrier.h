/* What carries control messages: the contract between ctrl.c and the carriers. */
#ifndef MCA_COMMON_CTRL_CARRIER_H
#define MCA_COMMON_CTRL_CARRIER_H

#include "mca/common/ctrl/ctrl.h"

/* The carrier's part of a team; each carrier casts it to its own structure. */
typedef struct mscclpp_ctrl_carrier mscclpp_ctrl_carrier_t;

/* Arguments as in ctrl.h, checked by ctrl.c. */
typedef struct {
    const char *name;

    /*
     * What had better happen before there are threads; NULL: nothing. It may fail, and may be called again. With
     * `wanted` false it does not happen later either.
     */
    void (*prepare)(bool wanted);

    /* MSCCLPP_ERR_NOT_SUPPORTED, not logged above the info level, where the carrier does not work. */
    mscclpp_status_t (*create)(const mscclpp_oob_t *oob, mscclpp_ctrl_carrier_t **carrier_p);

    /* This rank's address; *length_p is at most `room`, else MSCCLPP_ERR_NOT_SUPPORTED. */
    mscclpp_status_t (*address)(const mscclpp_ctrl_carrier_t *carrier, void *address, size_t room, size_t *length_p);

    /* One address each `stride` bytes, and its length. They are copied. */
    mscclpp_status_t (*connect)(mscclpp_ctrl_carrier_t *carrier, uint64_t team_id, const void *addresses, size_t stride,
                                const size_t *lengths);

    mscclpp_status_t (*post)(mscclpp_ctrl_carrier_t *carrier, int peer, const void *message, size_t length);
    mscclpp_status_t (*poll)(mscclpp_ctrl_carrier_t *carrier, int *peer_p, void *message, size_t *length_p);
    void (*flush)(mscclpp_ctrl_carrier_t *carrier, double seconds); /* NULL: what is posted leaves by itself */
    void (*rebind)(mscclpp_ctrl_carrier_t *carrier, const mscclpp_oob_t *oob);
    void (*destroy)(mscclpp_ctrl_carrier_t *carrier);
    void (*finalize)(void);
} mscclpp_ctrl_ops_t;

extern const mscclpp_ctrl_ops_t mscclpp_ctrl_oob_ops;
#if MSCCLPP_HAVE_UCX
extern const mscclpp_ctrl_ops_t mscclpp_ctrl_ucx_ops;
#endif

#endif
