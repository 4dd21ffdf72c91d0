/* Makes, lists and ends lanes. The ranks agree before any of them makes a lane, so all of them have it or none. */
#include "mca/coll/mscclpp/native/lane.h"

#include <stdlib.h>

#include "mca/coll/mscclpp/native/gate.h"
#include "mca/coll/mscclpp/native/kept.h"
#include "mca/coll/mscclpp/native/request.h"
#include "mca/common/base/log.h"
#include "mca/common/team/parts.h"

/* The most lanes of one communicator. Each has its own scratch in device memory. */
#define MAX_LANES 32

/* Returns the number of lanes that the communicator has now, whatever they serve. */
static int count_lanes(const mca_coll_mscclpp_module_t *module)
{
    const mca_coll_mscclpp_lane_t *lane;
    int lanes = 0;

    pthread_mutex_lock(&mca_coll_mscclpp_state.lock);
    for (lane = module->lanes; lane != NULL; lane = lane->next) {
        ++lanes;
    }
    pthread_mutex_unlock(&mca_coll_mscclpp_state.lock);
    return lanes;
}

static void insert_lane(mca_coll_mscclpp_lane_t *lane)
{
    pthread_mutex_lock(&mca_coll_mscclpp_state.lock);
    lane->next = lane->module->lanes;
    lane->module->lanes = lane;
    pthread_mutex_unlock(&mca_coll_mscclpp_state.lock);
}

/* What ranks agree on before they make a lane: the maxima of these values. */
enum { PASSES_DEVICE, LARGEST_BLOCK, HAS_NO_LANE, AGREED };

/* Replaces the values by their maxima over all ranks. Waits for all ranks. Returns an MPI error code. */
static int find_maxima(mca_coll_mscclpp_module_t *module, uint64_t values[AGREED])
{
    uint64_t local[AGREED];

    memcpy(local, values, sizeof(local));
    return module->previous.allreduce(local, values, AGREED, &ompi_mpi_uint64_t.dt, &ompi_mpi_op_max.op, module->comm,
                                      module->previous.allreduce_module);
}

int mca_coll_mscclpp_lane_make(mca_coll_mscclpp_module_t *module, const void *const buffers[2], bool on_device,
                               uint64_t *largest_p, mscclpp_status_t (*prepare)(mscclpp_team_t *team, void *context),
                               void *context, mca_coll_mscclpp_lane_t **lane_p)
{
    mca_coll_mscclpp_lane_t *lane = NULL;
    uint64_t values[AGREED] = {[PASSES_DEVICE] = on_device, [LARGEST_BLOCK] = *largest_p, [HAS_NO_LANE] = 1};
    mscclpp_status_t status;
    int rc;

    *lane_p = NULL;
    if (module->no_lanes || mca_coll_mscclpp_state.finalizing) {
        module->unserved = MCA_COLL_MSCCLPP_REASON_COMMUNICATOR;
        return OMPI_SUCCESS;
    }
    /*
     * A rank without memory, or with MAX_LANES lanes, takes part in the agreement, too. Its HAS_NO_LANE makes all ranks
     * return.
     */
    if (count_lanes(module) < MAX_LANES) {
        lane = calloc(1, sizeof(*lane));
        values[HAS_NO_LANE] = lane == NULL;
    }
    rc = find_maxima(module, values);
    if (OMPI_SUCCESS != rc || 0 == values[PASSES_DEVICE] || 0 != values[HAS_NO_LANE]) {
        module->unserved = MCA_COLL_MSCCLPP_REASON_REQUESTS;
        free(lane);
        return rc;
    }
    /* From here on all ranks do the same, so a lane has the same number on all of them. */
    *largest_p = values[LARGEST_BLOCK];
    lane->module = module;
    lane->port.number = ++module->lanes_made;
    status = mca_coll_mscclpp_make_team(module, buffers[0], buffers[1], &lane->port, &lane->team);
    module->unserved = MCA_COLL_MSCCLPP_REASON_COMMUNICATOR;
    if (MSCCLPP_OK == status) {
        status = prepare(lane->team, context);
        module->unserved = MCA_COLL_MSCCLPP_REASON_ALGORITHM;
        if (MSCCLPP_OK != status && MSCCLPP_ERR_NOT_SUPPORTED != status) {
            (void)mscclpp_team_fail(lane->team, status); /* peers may have succeeded, or still wait for this rank */
        }
    } else if (MSCCLPP_ERR_NOT_SUPPORTED == status) {
        module->no_lanes = true; /* if only `prepare` refuses, other requests may still get lanes */
    }
    if (MSCCLPP_OK != status) {
        mscclpp_team_destroy(lane->team);
        free(lane);
        return MSCCLPP_ERR_NOT_SUPPORTED == status ? OMPI_SUCCESS : mca_coll_mscclpp_status_to_ompi(status);
    }
    module->unserved = MCA_COLL_MSCCLPP_REASON_NONE;
    lane->rung = mscclpp_team_lingered(lane->team);
    insert_lane(lane);
    *lane_p = lane;
    return OMPI_SUCCESS;
}

/*
 * Removes the lane from the module's list, too. If the communicator has been freed before, the lane has no team any
 * more and is not in the list.
 */
void mca_coll_mscclpp_lane_free(mca_coll_mscclpp_lane_t *lane)
{
    mca_coll_mscclpp_lane_t **link = &lane->module->lanes;

    pthread_mutex_lock(&mca_coll_mscclpp_state.lock);
    while (*link != NULL && lane != *link) {
        link = &(*link)->next;
    }
    if (*link != NULL) {
        *link = lane->next;
    }
    pthread_mutex_unlock(&mca_coll_mscclpp_state.lock);
    mscclpp_team_destroy(lane->team);
    mca_coll_mscclpp_kept_free(lane->kept);
    free(lane);
}

/* Gives the request the lane's own queue, so that its starts run one after another, and wait for no other call. */
mca_coll_mscclpp_request_t *mca_coll_mscclpp_lane_request(mca_coll_mscclpp_lane_t *lane,
                                                          int (*serve)(mca_coll_mscclpp_request_t *request))
{
    mca_coll_mscclpp_request_t *request = mca_coll_mscclpp_request_new_persistent(lane->module, &lane->queue, serve);

    if (request == NULL) {
        mca_coll_mscclpp_lane_free(lane);
        return NULL;
    }
    request->lane = lane;
    request->free_lane = mca_coll_mscclpp_lane_free;
    return request;
}

/*
 * Removes one lane from the list in each turn, and ends the lane's team. The last turn finds no lane;
 * mscclpp_team_destroy then gets NULL, which it allows.
 */
void mca_coll_mscclpp_lane_end_all(mca_coll_mscclpp_module_t *module)
{
    mca_coll_mscclpp_lane_t *lane;

    do {
        mscclpp_team_t *team = NULL;

        pthread_mutex_lock(&mca_coll_mscclpp_state.lock);
        lane = module->lanes;
        if (lane != NULL) {
            module->lanes = lane->next;
        }
        pthread_mutex_unlock(&mca_coll_mscclpp_state.lock);
        /* Without the lock, which the progress in this wait may take. */
        if (lane != NULL) {
            mca_coll_mscclpp_request_await_queue(&lane->queue);
            team = lane->team;
            lane->team = NULL;
        }
        mscclpp_team_destroy(team);
    } while (lane != NULL);
}

/*
 * A start that fails here is not counted, and all later starts of the lane fail here, too. After the communicator has
 * been freed, each failure is logged. After a start that has failed, only the first further failure is logged.
 */
uint64_t mca_coll_mscclpp_lane_begin(mca_coll_mscclpp_lane_t *lane, const char *collective, int *rc_p)
{
    if (lane->team == NULL) {
        mscclpp_error("a persistent %s was started after its communicator had been freed", collective);
        *rc_p = MPI_ERR_COMM;
        return 0;
    }
    if (lane->broken) {
        if (!lane->told_broken) {
            lane->told_broken = true;
            mscclpp_error("%s: start %llu of a persistent %s: an earlier one failed; this and further ones return an "
                          "error",
                          mca_coll_mscclpp_comm_name(lane->module->comm), (unsigned long long)lane->calls + 1,
                          collective);
        }
        *rc_p = MPI_ERR_OTHER;
        return 0;
    }
    return ++lane->calls;
}

int mca_coll_mscclpp_lane_finish(mca_coll_mscclpp_lane_t *lane, mscclpp_coll_t coll, mscclpp_status_t status)
{
    if (OPAL_LIKELY(MSCCLPP_OK == status)) {
        mca_coll_mscclpp_count_served_by(lane->module, coll, lane->team, &lane->rung);
        return OMPI_SUCCESS;
    }
    lane->broken = true;
    return mca_coll_mscclpp_status_to_ompi(status);
}
