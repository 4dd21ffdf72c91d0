/*
 * Binds a team to its communicator. The communicator's first call on device memory makes the team. The team is freed
 * with the communicator.
 *
 * Open MPI frees collective modules too late to free the team then. It has already begun to take the communicator apart
 * in MPI_Comm_free, or, in MPI_Finalize, the processes have disconnected. Attributes are deleted before that: a
 * communicator's at the start of MPI_Comm_free, and those of MPI_COMM_SELF at the start of MPI_Finalize. (Some versions
 * never delete those of MPI_COMM_WORLD.)
 */
#include "mca/coll/mscclpp/native/gate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/coll/mscclpp/check/check.h"
#include "mca/coll/mscclpp/native/channels.h"
#include "mca/coll/mscclpp/native/lane.h"
#include "mca/coll/mscclpp/native/request.h"
#include "mca/coll/mscclpp/oob/message.h"
#include "mca/coll/mscclpp/oob/oob.h"
#include "mca/common/base/log.h"
#include "mca/common/setup/setup.h"
#include "mca/common/task/collective.h"

/* How long MPI_Finalize waits for peers that still map this process's memory. */
#define FINALIZE_SECONDS 5.0

/*
 * Takes the team from the module first, so that no other thread begins to use it, and frees it after the threads that
 * use it have finished.
 */
void mca_coll_mscclpp_module_release_team(mca_coll_mscclpp_module_t *module)
{
    mscclpp_team_t *team;

    /*
     * A thread that looks for mixtures (native/mixture.c) becomes a watcher under the lock. So all watchers that may
     * have read the team are waited for, and later ones find none.
     */
    pthread_mutex_lock(&mca_coll_mscclpp_state.lock);
    team = __atomic_exchange_n(&module->team, NULL, __ATOMIC_ACQ_REL);
    pthread_mutex_unlock(&mca_coll_mscclpp_state.lock);
    mca_coll_mscclpp_wait_for_watchers(module);

    /*
     * READY means that there is a team, so the state becomes NONE. REFUSED and BROKEN stay: later calls are staged, or
     * fail, as before.
     */
    if (MCA_COLL_MSCCLPP_TEAM_READY == module->team_state) {
        module->team_state = MCA_COLL_MSCCLPP_TEAM_NONE;
    }
    mscclpp_team_destroy(team);
    mca_coll_mscclpp_channels_end(module);
    mca_coll_mscclpp_lane_end_all(module);
    free(module->user_lane);
    module->user_lane = NULL;
    free(module->queued);
    module->queued = NULL;
    mca_coll_mscclpp_check_forget(module);
    mca_coll_mscclpp_oob_destroy(module); /* after the team, because the team's table is part of it */
}

/* Receives what has come for a communicator that ends. Open MPI would otherwise take it for a later one's. */
static void drain_messages(mca_coll_mscclpp_module_t *module)
{
    mca_coll_mscclpp_oob_t *oob = module->oob;

    if (oob != NULL) {
        mca_coll_mscclpp_oob_lock(oob);
        mca_coll_mscclpp_oob_drain(oob);
        pthread_mutex_unlock(&oob->lock);
    }
}

/*
 * Ends the communicator's part in this component. Called by Open MPI when it is about to free the communicator. First
 * ends the comparisons and the calls that are in progress, because they use the team and the messages that are freed
 * last.
 */
static int comm_deleted(MPI_Comm comm, int key, void *value, void *context)
{
    (void)comm;
    (void)key;
    (void)context;
    mca_coll_mscclpp_check_settle((mca_coll_mscclpp_module_t *)value);
    mca_coll_mscclpp_request_await((mca_coll_mscclpp_module_t *)value);
    drain_messages((mca_coll_mscclpp_module_t *)value);
    mca_coll_mscclpp_module_release_team((mca_coll_mscclpp_module_t *)value);
    return MPI_SUCCESS;
}

static bool has_team(const mca_coll_mscclpp_module_t *module)
{
    return module->team != NULL || module->lanes != NULL;
}

/* Returns true if a module keeps its communicator alive (oob/message.h). */
static bool keeps_comm(const mca_coll_mscclpp_module_t *module)
{
    return module->keeps_comm;
}

/*
 * Returns a module for which `is_wanted` is true, or NULL if there is none. Releases the lock before it returns,
 * because what the caller does with the module may take the lock.
 */
static mca_coll_mscclpp_module_t *find_module(bool (*is_wanted)(const mca_coll_mscclpp_module_t *))
{
    mca_coll_mscclpp_state_t *state = &mca_coll_mscclpp_state;
    mca_coll_mscclpp_module_t *module;

    pthread_mutex_lock(&state->lock);
    for (module = state->modules; module != NULL && !is_wanted(module); module = module->next) {
    }
    pthread_mutex_unlock(&state->lock);
    return module;
}

/*
 * Releases all teams, and prevents new ones, at the beginning of MPI_Finalize. In each of the two loops the condition
 * becomes false for the module that was found, so the loops end.
 */
static void free_all(void)
{
    mca_coll_mscclpp_state_t *state = &mca_coll_mscclpp_state;
    mca_coll_mscclpp_module_t *module;

    pthread_mutex_lock(&state->lock);
    state->finalizing = true;
    pthread_mutex_unlock(&state->lock);
    mca_coll_mscclpp_check_settle(NULL);
    while ((module = find_module(has_team)) != NULL) {
        mca_coll_mscclpp_module_release_team(module);
    }
    /* Open MPI requires that no communicator is left when it disconnects from other jobs. */
    while ((module = find_module(keeps_comm)) != NULL) {
        mca_coll_mscclpp_oob_let_go(module);
    }
    mscclpp_team_finalize(FINALIZE_SECONDS);
}

int mca_coll_mscclpp_bind_self(void)
{
    return mca_coll_mscclpp_attribute_attach_self(free_all);
}

int mca_coll_mscclpp_bind(mca_coll_mscclpp_module_t *module)
{
    int rc = mca_coll_mscclpp_bind_self(); /* in case this component does not serve MPI_COMM_SELF */

    if (OMPI_SUCCESS == rc && !module->is_bound) {
        rc = mca_coll_mscclpp_attribute_attach(module->comm, comm_deleted, module);
        module->is_bound = OMPI_SUCCESS == rc;
    }
    return rc;
}

/*
 * Makes the communicator's own team, in the first call on device memory that is not of a persistent request. Returns
 * MSCCLPP_ERR_NOT_SUPPORTED, on all ranks, if kernels cannot serve the communicator, or another error of the team. The
 * module then has no team.
 */
static mscclpp_status_t create_team(mca_coll_mscclpp_module_t *module, const void *sendbuf, const void *recvbuf)
{
    mscclpp_team_t *team;
    mscclpp_status_t status;

    mscclpp_fiber_close();
    status = mca_coll_mscclpp_make_team(module, sendbuf, recvbuf, NULL, &team);
    if (MSCCLPP_OK == status) {
        __atomic_store_n(&module->team, team, __ATOMIC_RELEASE);
        mca_coll_mscclpp_count_anew(module);
    }
    return status;
}

/*
 * Warns, on rank 0 and once in each process, if the user named an algorithm that cannot serve because there is no team.
 */
static void report_refusal(const mca_coll_mscclpp_module_t *module)
{
    static bool has_told;
    const char *algorithm = mca_coll_mscclpp_state.config.algorithm;

    if (0 != strcmp(algorithm, "auto") && 0 != strcmp(algorithm, "stage") && 0 == ompi_comm_rank(module->comm) &&
        !__atomic_exchange_n(&has_told, true, __ATOMIC_RELAXED)) {
        mscclpp_warn("%s: coll_mscclpp_algorithm is %s, but no kernels can serve this communicator: device buffers are "
                     "staged; coll_mscclpp_verbose 2 says why",
                     mca_coll_mscclpp_comm_name(module->comm), algorithm);
    }
}

/* Appends a name to a list of names with commas between, cut off at `size` bytes. */
static void append_name(char *text, size_t size, const char *name)
{
    const size_t used = strlen(text);

    (void)snprintf(text + used, size - used, "%s%s", 0 == used ? "" : ", ", name);
}

/* Logs, on rank 0, which collectives kernels serve, and which they do not. */
static void report_native(const mca_coll_mscclpp_module_t *module)
{
    char native[512] = "", others[512] = "";

    if (0 != ompi_comm_rank(module->comm)) {
        return;
    }
    /* This rank is rank 0, whose value is valid for all ranks. */
    append_name(0 != strcmp(mca_coll_mscclpp_state.config.algorithm, "stage") ? native : others, sizeof(native),
                "allreduce");
#define APPEND(id_, name_, pattern_)                                                                                   \
    if (MSCCLPP_COLL_##id_ < MSCCLPP_COLL_NEIGHBORS || OMPI_COMM_IS_TOPO(module->comm)) {                              \
        append_name(mscclpp_collective_serves(module->team, MSCCLPP_COLL_##id_) ? native : others, sizeof(native),     \
                    #name_);                                                                                           \
    }
    MSCCLPP_COLLS(APPEND)
#undef APPEND
    mscclpp_info("%s: native: %s; %s: %s", mca_coll_mscclpp_comm_name(module->comm),
                 '\0' != native[0] ? native : "none",
                 mca_coll_mscclpp_state.stage_others ? "staged" : "staged or left to Open MPI",
                 '\0' != others[0] ? others : "none of those that kernels know");
}

/*
 * If kernels cannot serve the communicator, it stays REFUSED, *status_p is MSCCLPP_OK, and its calls are staged. After
 * any other error team_state stays NONE; the caller decides whether the communicator is broken.
 */
bool mca_coll_mscclpp_ensure_team(mca_coll_mscclpp_module_t *module, const void *sendbuf, const void *recvbuf,
                                  mscclpp_status_t *status_p)
{
    *status_p = MSCCLPP_OK;
    if (MCA_COLL_MSCCLPP_TEAM_NONE == module->team_state && !mca_coll_mscclpp_state.finalizing) {
        *status_p = create_team(module, sendbuf, recvbuf);
        if (MSCCLPP_OK == *status_p) {
            module->team_state = MCA_COLL_MSCCLPP_TEAM_READY;
            report_native(module);
        } else if (MSCCLPP_ERR_NOT_SUPPORTED == *status_p) {
            module->team_state = MCA_COLL_MSCCLPP_TEAM_REFUSED;
            report_refusal(module);
            *status_p = MSCCLPP_OK;
        }
    }
    return MSCCLPP_OK == *status_p && MCA_COLL_MSCCLPP_TEAM_READY == module->team_state;
}
