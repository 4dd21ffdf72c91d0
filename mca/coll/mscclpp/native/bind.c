/*
 * A communicator's team: made by its first blocking call on device memory, freed with it.
 *
 * Open MPI drops a communicator's collective modules too late for that: after MPI_Comm_free has begun to take the
 * communicator apart, and for those that live until MPI_Finalize after the processes have parted. Attributes are
 * deleted first of all: a communicator's at the start of MPI_Comm_free, those of MPI_COMM_SELF at the start of
 * MPI_Finalize. (Those of MPI_COMM_WORLD are not deleted at all by some versions.)
 */
#include "mca/coll/mscclpp/native/gate.h"

#include <stdio.h>
#include <string.h>

#include "mca/coll/mscclpp/check/check.h"
#include "mca/coll/mscclpp/native/request.h"
#include "mca/coll/mscclpp/oob/message.h"
#include "mca/coll/mscclpp/oob/oob.h"
#include "mca/common/base/log.h"
#include "mca/common/setup/setup.h"
#include "mca/common/task/collective.h"

/* How long MPI_Finalize waits for peers that have not given up this process's memory yet. */
#define FINALIZE_SECONDS 5.0

void mca_coll_mscclpp_module_release_team(mca_coll_mscclpp_module_t *module)
{
    mscclpp_team_t *team;

    pthread_mutex_lock(&mca_coll_mscclpp_state.lock);
    team = __atomic_exchange_n(&module->team, NULL, __ATOMIC_ACQ_REL);
    pthread_mutex_unlock(&mca_coll_mscclpp_state.lock);
    mca_coll_mscclpp_wait_for_watchers(module);

    if (MCA_COLL_MSCCLPP_TEAM_READY == module->team_state) {
        module->team_state = MCA_COLL_MSCCLPP_TEAM_NONE;
    }
    mscclpp_team_destroy(team);
    mca_coll_mscclpp_check_forget(module);
    mca_coll_mscclpp_oob_destroy(module); /* after the team, which holds its table */
}

static int comm_deleted(MPI_Comm comm, int key, void *value, void *context)
{
    (void)comm;
    (void)key;
    (void)context;
    mca_coll_mscclpp_check_settle((mca_coll_mscclpp_module_t *)value);
    mca_coll_mscclpp_request_await((mca_coll_mscclpp_module_t *)value);
    mca_coll_mscclpp_module_release_team((mca_coll_mscclpp_module_t *)value);
    return MPI_SUCCESS;
}

static bool has_team(const mca_coll_mscclpp_module_t *module)
{
    return module->team != NULL;
}

static bool keeps_comm(const mca_coll_mscclpp_module_t *module)
{
    return module->keeps_comm;
}

/* The lock is not held while one is dealt with, which may take it. */
static mca_coll_mscclpp_module_t *next_that(bool (*is_so)(const mca_coll_mscclpp_module_t *))
{
    mca_coll_mscclpp_state_t *state = &mca_coll_mscclpp_state;
    mca_coll_mscclpp_module_t *module;

    pthread_mutex_lock(&state->lock);
    for (module = state->modules; module != NULL && !is_so(module); module = module->next) {
    }
    pthread_mutex_unlock(&state->lock);
    return module;
}

static void free_all(void)
{
    mca_coll_mscclpp_state_t *state = &mca_coll_mscclpp_state;
    mca_coll_mscclpp_module_t *module;

    pthread_mutex_lock(&state->lock);
    state->finalizing = true;
    pthread_mutex_unlock(&state->lock);
    mca_coll_mscclpp_check_settle(NULL);
    while ((module = next_that(has_team)) != NULL) {
        mca_coll_mscclpp_module_release_team(module);
    }
    /* Open MPI does not reckon with communicators that are left once it disconnects from other jobs. */
    while ((module = next_that(keeps_comm)) != NULL) {
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
    const int rc = mca_coll_mscclpp_bind_self(); /* if this component does not serve MPI_COMM_SELF */

    return OMPI_SUCCESS == rc ? mca_coll_mscclpp_attribute_attach(module->comm, comm_deleted, module) : rc;
}

/*
 * Which ranks are on this node. What Open MPI knows of its own job is the same on all ranks. Of processes of other
 * jobs, which joined later, each side may know something else; the team compares their machines by itself.
 */
static void find_locality(struct ompi_communicator_t *comm, mscclpp_team_params_t *params)
{
    const ompi_proc_t *self = ompi_proc_local();

    params->job = (uint64_t)self->super.proc_name.jobid;
    params->leader = ompi_comm_rank(comm);
    for (int i = 0; i < params->leader; ++i) {
        const ompi_proc_t *peer = ompi_comm_peer_lookup(comm, i);
        if (peer != NULL && peer->super.proc_name.jobid == self->super.proc_name.jobid &&
            OPAL_PROC_ON_LOCAL_NODE(peer->super.proc_flags)) {
            params->leader = i;
        }
    }
}

/* The device that holds the buffers, or else the one that the application has chosen. */
static mscclpp_status_t choose_device(const void *sendbuf, const void *recvbuf, int *device_p)
{
    const mscclpp_gpu_ops_t *gpu = mca_coll_mscclpp_state.gpu;
    const void *buffers[] = {recvbuf, sendbuf};

    for (int i = 0; i < 2; ++i) {
        mscclpp_mem_info_t info;
        if (!mca_coll_mscclpp_is_device(buffers[i])) {
            continue;
        }
        gpu->query(buffers[i], &info);
        if (MSCCLPP_MEM_DEVICE == info.kind && info.device >= 0) {
            *device_p = info.device;
            return MSCCLPP_OK;
        }
    }
    return gpu->current_device(device_p);
}

/*
 * The communicator's first blocking call with device memory: all ranks are here, or will be, and have chosen their
 * devices. Every decision before the first exchange is one that all ranks make alike.
 */
static mscclpp_status_t create_team(mca_coll_mscclpp_module_t *module, const void *sendbuf, const void *recvbuf)
{
    mca_coll_mscclpp_state_t *state = &mca_coll_mscclpp_state;
    struct ompi_communicator_t *comm = module->comm;
    mscclpp_team_params_t params = {
        .config = &state->config,
        .own = &state->own,
        .rules = state->rules,
        .gpu = state->gpu,
        .concurrent = ompi_mpi_thread_multiple,
        .reuse = state->config.reuse,
    };
    mscclpp_team_t *team = NULL;
    mscclpp_status_t status;

    if (ompi_comm_size(comm) > MSCCLPP_DEV_MAX_RANKS) {
        mscclpp_info("%s: %d ranks, more than %d; device buffers are staged", mca_coll_mscclpp_comm_name(comm),
                     ompi_comm_size(comm), MSCCLPP_DEV_MAX_RANKS);
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    find_locality(comm, &params);
    if (MSCCLPP_OK != choose_device(sendbuf, recvbuf, &params.device)) {
        /* No device will do; the team's own exchange tells the peers, which are on their way into it. */
        params.device = -1;
    }
    if (OMPI_SUCCESS != mca_coll_mscclpp_bind(module) ||
        OMPI_SUCCESS != mca_coll_mscclpp_oob_create(module, &params.oob)) {
        mca_coll_mscclpp_oob_abstain(module, 1);
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    status = mscclpp_team_create(&params, &team);
    if (MSCCLPP_OK != status) {
        mca_coll_mscclpp_oob_destroy(module);
        return status;
    }
    __atomic_store_n(&module->team, team, __ATOMIC_RELEASE);
    mca_coll_mscclpp_count_anew(module);
    return MSCCLPP_OK;
}

/* An algorithm that was asked for by name and does not come to serve is said aloud, once a process. */
static void report_refusal(const mca_coll_mscclpp_module_t *module)
{
    static bool told;
    const char *algorithm = mca_coll_mscclpp_state.config.algorithm;

    if (0 != strcmp(algorithm, "auto") && 0 != strcmp(algorithm, "stage") && 0 == ompi_comm_rank(module->comm) &&
        !__atomic_exchange_n(&told, true, __ATOMIC_RELAXED)) {
        mscclpp_warn("%s: coll_mscclpp_algorithm is %s, but no kernels can serve this communicator: device buffers are "
                     "staged; coll_mscclpp_verbose 2 says why",
                     mca_coll_mscclpp_comm_name(module->comm), algorithm);
    }
}

/* One after another, with commas between. */
static void append(char *text, size_t size, const char *name)
{
    const size_t used = strlen(text);

    (void)snprintf(text + used, size - used, "%s%s", 0 == used ? "" : ", ", name);
}

static void report_native(const mca_coll_mscclpp_module_t *module)
{
    char native[320] = "", others[320] = "";

    if (0 != ompi_comm_rank(module->comm)) {
        return;
    }
    /* Of this rank, which is rank 0, the value counts. */
    append(0 != strcmp(mca_coll_mscclpp_state.config.algorithm, "stage") ? native : others, sizeof(native),
           "allreduce");
#define APPEND(id_, name_, pattern_)                                                                                   \
    append(mscclpp_collective_serves(module->team, MSCCLPP_COLL_##id_) ? native : others, sizeof(native), #name_);
    MSCCLPP_COLLS(APPEND)
#undef APPEND
    mscclpp_info("%s: native: %s; %s: %s", mca_coll_mscclpp_comm_name(module->comm),
                 '\0' != native[0] ? native : "none",
                 mca_coll_mscclpp_state.stage_others ? "staged" : "staged or left to Open MPI",
                 '\0' != others[0] ? others : "none of those that kernels know");
}

/* Makes the team if this is its first call. True if there is one to serve the call. */
bool mca_coll_mscclpp_have_team(mca_coll_mscclpp_module_t *module, const void *sendbuf, const void *recvbuf,
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
