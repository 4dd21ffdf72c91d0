/*
 * Lanes. A lane carries out all starts of one persistent request. It has its own team, which is made and prepared once.
 * MPI lets each rank start the persistent requests of a communicator in a different order, so no two of them may share
 * a team, whose operations are counted. A start waits for no other request.
 */
#ifndef MCA_COLL_MSCCLPP_NATIVE_LANE_H
#define MCA_COLL_MSCCLPP_NATIVE_LANE_H

#include "mca/coll/mscclpp/oob/oob.h"
#include "mca/coll/mscclpp/ompi/module.h"

struct mca_coll_mscclpp_lane {
    struct mca_coll_mscclpp_lane *next; /* in the module's list */
    mca_coll_mscclpp_module_t *module;
    mca_coll_mscclpp_oob_port_t port;
    mscclpp_team_t *team; /* NULL once the communicator has been freed */
    mca_coll_mscclpp_queue_t queue;
    uint64_t calls;   /* number of starts so far, or of queued calls */
    uint64_t rung;    /* number of starts without a launch that have been counted */
    bool broken;      /* a start has failed, and all further ones fail */
    bool told_broken; /* the failure has been reported */
    /* The arguments of the starts (kept.h). NULL: the lane serves an all-reduce, or no persistent request. */
    struct mca_coll_mscclpp_kept *kept;
};

/*
 * Makes a lane. Collective, and waits. `buffers` are those that this rank passes; `on_device`: one of them is device
 * memory. *largest_p is the size of the largest block in bytes, first of this rank and then of all ranks.
 *
 * `prepare` prepares the new team for the request. It returns MSCCLPP_ERR_NOT_SUPPORTED, on all ranks, if kernels
 * cannot serve the request; then there is no lane. There is no lane either if no rank passes device memory, if a rank
 * has no memory, if there are MAX_LANES lanes already, or if the communicator can have none. In these cases *lane_p is
 * NULL on all ranks, module->unserved is the reason, and the result is OMPI_SUCCESS.
 *
 * Returns an MPI error code: that of the agreement, of making the team, or of `prepare`. After an error *lane_p is
 * NULL, too.
 */
int mca_coll_mscclpp_lane_make(mca_coll_mscclpp_module_t *module, const void *const buffers[2], bool on_device,
                               uint64_t *largest_p, mscclpp_status_t (*prepare)(mscclpp_team_t *team, void *context),
                               void *context, mca_coll_mscclpp_lane_t **lane_p);

/* Frees a lane and its team. Its request, if it has one, must be inactive. Not collective. */
void mca_coll_mscclpp_lane_free(mca_coll_mscclpp_lane_t *lane);

/*
 * Makes the lane's request; freeing the request frees the lane. `serve`: see request.h. Without memory it frees the
 * lane and returns NULL.
 */
mca_coll_mscclpp_request_t *mca_coll_mscclpp_lane_request(mca_coll_mscclpp_lane_t *lane,
                                                          int (*serve)(mca_coll_mscclpp_request_t *request));

/*
 * Called when the communicator is freed: ends the teams of all its lanes. Its persistent requests stay with their
 * lanes, but can no longer be started. The caller frees the lanes that have no request.
 */
void mca_coll_mscclpp_lane_end_all(mca_coll_mscclpp_module_t *module);

/*
 * Begins the next start of the request; called in its fiber. Returns the number of the start. If the start fails at
 * once, returns 0, with an MPI error code in *rc_p.
 */
uint64_t mca_coll_mscclpp_lane_begin(mca_coll_mscclpp_lane_t *lane, const char *collective, int *rc_p);

/* Ends that start with `status`. After an error all further starts fail. Returns an MPI error code. */
int mca_coll_mscclpp_lane_finish(mca_coll_mscclpp_lane_t *lane, mscclpp_coll_t coll, mscclpp_status_t status);

#endif
