/*
 * Lanes: what carries out one persistent request, again and again: a team of its own, made and prepared once. MPI lets
 * each rank start a communicator's persistent requests in an order of its own, so no two of them share anything that
 * operations are counted in; and a start waits for no other one.
 */
#ifndef MCA_COLL_MSCCLPP_NATIVE_LANE_H
#define MCA_COLL_MSCCLPP_NATIVE_LANE_H

#include "mca/coll/mscclpp/oob/oob.h"
#include "mca/coll/mscclpp/ompi/module.h"

struct mca_coll_mscclpp_lane {
    struct mca_coll_mscclpp_lane *next; /* of the same module */
    mca_coll_mscclpp_module_t *module;
    mca_coll_mscclpp_oob_port_t port;
    mscclpp_team_t *team; /* NULL once the communicator has been freed */
    mca_coll_mscclpp_queue_t queue;
    uint64_t calls; /* starts so far */
    uint64_t rung;
    bool broken;
    bool told_broken;
};

/*
 * Collective, and waits. On all ranks alike: NULL if there is to be no lane, for host memory or several nodes, or since
 * there are many already. `device` is this rank's own; *most, the size of the largest block, becomes that of all ranks.
 * `serve` says whether kernels will serve the request, the same on all ranks, and prepares the team for it. An MPI
 * error code.
 */
int mca_coll_mscclpp_lane_make(mca_coll_mscclpp_module_t *module, const void *const buffers[2], bool device,
                               uint64_t *most, mscclpp_status_t (*prepare)(mscclpp_team_t *team, void *context),
                               void *context, mca_coll_mscclpp_lane_t **lane_p);

/* Its request, which ends it. `serve`: see request.h. NULL, and no lane any more, without memory. */
mca_coll_mscclpp_request_t *mca_coll_mscclpp_lane_request(mca_coll_mscclpp_lane_t *lane,
                                                          int (*serve)(mca_coll_mscclpp_request_t *request));

/* The communicator is freed: its requests stay, but cannot be started any more. */
void mca_coll_mscclpp_lane_end_all(mca_coll_mscclpp_module_t *module);

/* The next start, in a fiber: its number, or 0 with an MPI error code if it fails at once. */
uint64_t mca_coll_mscclpp_lane_begin(mca_coll_mscclpp_lane_t *lane, const char *collective, int *rc_p);

/* What becomes of it. An MPI error code. */
int mca_coll_mscclpp_lane_finish(mca_coll_mscclpp_lane_t *lane, mscclpp_coll_t coll, mscclpp_status_t status);

#endif
