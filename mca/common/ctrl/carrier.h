/*
 * The interface between ctrl.c and the carriers. A carrier is a way to send control messages: UCX, or the embedding
 * runtime's messages.
 */
#ifndef MCA_COMMON_CTRL_CARRIER_H
#define MCA_COMMON_CTRL_CARRIER_H

#include "mca/common/ctrl/ctrl.h"

/* The carrier's part of a team; each carrier casts it to its own structure. */
typedef struct mscclpp_ctrl_carrier mscclpp_ctrl_carrier_t;

/*
 * Each function does the same as the function of this name in ctrl.h, unless a comment says more. ctrl.c has checked
 * the arguments.
 */
typedef struct {
    const char *name;

    /*
     * Does work that should be done before the process has threads; NULL if there is none. May be called again. A
     * failure shows only in `create`. If `is_allowed` is false, the work is forbidden, now and later.
     */
    void (*prepare)(bool is_allowed);

    /*
     * Creates the carrier's part of a team. Returns MSCCLPP_ERR_NOT_SUPPORTED, logged at the info level at most, if the
     * carrier cannot be used.
     */
    mscclpp_status_t (*create)(const mscclpp_oob_t *oob, mscclpp_ctrl_carrier_t **carrier_p);

    /* Writes this rank's address. Returns MSCCLPP_ERR_NOT_SUPPORTED if it is longer than `capacity` bytes. */
    mscclpp_status_t (*address)(const mscclpp_ctrl_carrier_t *carrier, void *address, size_t capacity,
                                size_t *length_p);

    /*
     * Connects to all ranks by their addresses, which are `stride` bytes apart and have the given lengths. They are
     * copied.
     */
    mscclpp_status_t (*connect)(mscclpp_ctrl_carrier_t *carrier, uint64_t team_id, const void *addresses, size_t stride,
                                const size_t *lengths);

    /* Takes the peers of another carrier of these ranks. Receives no messages before name_team. */
    mscclpp_status_t (*connect_like)(mscclpp_ctrl_carrier_t *carrier, const mscclpp_ctrl_carrier_t *model);

    /* After connect_like: sends and receives messages of this team from now on. */
    void (*name_team)(mscclpp_ctrl_carrier_t *carrier, uint64_t team_id);

    mscclpp_status_t (*post)(mscclpp_ctrl_carrier_t *carrier, int peer, const void *message, size_t length);
    mscclpp_status_t (*poll)(mscclpp_ctrl_carrier_t *carrier, int *peer_p, void *message, size_t *length_p);
    void (*flush)(mscclpp_ctrl_carrier_t *carrier, double seconds); /* NULL: posted messages leave without progress */
    void (*rebind)(mscclpp_ctrl_carrier_t *carrier, const mscclpp_oob_t *oob);
    void (*destroy)(mscclpp_ctrl_carrier_t *carrier);
    void (*finalize)(void); /* may be called several times, and before any create */
} mscclpp_ctrl_ops_t;

extern const mscclpp_ctrl_ops_t mscclpp_ctrl_oob_ops;
#if MSCCLPP_HAVE_UCX
extern const mscclpp_ctrl_ops_t mscclpp_ctrl_ucx_ops;
#endif

#endif
