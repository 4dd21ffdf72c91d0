/* Makes teams: finds out which ranks of the communicator are on this node, and which device this rank uses. */
#include "mca/coll/mscclpp/native/gate.h"

#include "mca/coll/mscclpp/oob/oob.h"
#include "mca/common/base/log.h"
#include "mca/common/setup/setup.h"

/*
 * Sets params->job, and params->leader: the lowest rank of the communicator that is on this node and belongs to this
 * rank's job. All processes of a job know which of them share a node. Two processes of different jobs may know
 * different things about each other, so the team itself compares the machines of ranks of different jobs.
 */
static void find_locality(struct ompi_communicator_t *comm, mscclpp_team_params_t *params)
{
    const ompi_proc_t *self = ompi_proc_local();
    const int rank = ompi_comm_rank(comm);

    params->job = (uint64_t)self->super.proc_name.jobid;
    params->leader = rank;
    for (int lower = 0; lower < rank; ++lower) {
        const ompi_proc_t *peer = ompi_comm_peer_lookup(comm, lower);

        if (peer != NULL && peer->super.proc_name.jobid == self->super.proc_name.jobid &&
            OPAL_PROC_ON_LOCAL_NODE(peer->super.proc_flags)) {
            params->leader = lower;
            return;
        }
    }
}

/* The constants of FNV-1a with 64 bits. */
#define FNV_OFFSET UINT64_C(0xcbf29ce484222325)
#define FNV_PRIME UINT64_C(0x100000001b3)

/*
 * Returns a digest of the processes of the communicator, in the order of its ranks. The digest is equal on all ranks.
 * It is computed as by FNV-1a, but from whole names in place of bytes.
 */
static uint64_t digest_members(struct ompi_communicator_t *comm)
{
    uint64_t digest = FNV_OFFSET;

    for (int rank = 0; rank < ompi_comm_size(comm); ++rank) {
        const opal_process_name_t name = ompi_group_get_proc_name(comm->c_local_group, rank);

        digest = (digest ^ ((uint64_t)name.jobid << 32 | (uint64_t)name.vpid)) * FNV_PRIME;
    }
    return digest;
}

/*
 * Yields the device that holds the receive buffer, or else the one that holds the send buffer, or else the device that
 * the application has selected. Returns an error of the GPU library if none can be found.
 */
static mscclpp_status_t choose_device(const void *sendbuf, const void *recvbuf, int *device_p)
{
    const mscclpp_gpu_ops_t *gpu = mca_coll_mscclpp_state.gpu;
    const void *buffers[] = {recvbuf, sendbuf}; /* in the order of preference */

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
 * Until the team's first exchange, every decision has to be the same on all ranks. A rank that cannot take part in this
 * exchange therefore abstains, which tells the other ranks, and all ranks return MSCCLPP_ERR_NOT_SUPPORTED. Later
 * errors are those of mscclpp_team_create; *team_p is NULL then.
 */
mscclpp_status_t mca_coll_mscclpp_make_team(mca_coll_mscclpp_module_t *module, const void *sendbuf, const void *recvbuf,
                                            mca_coll_mscclpp_oob_port_t *port, mscclpp_team_t **team_p)
{
    mca_coll_mscclpp_state_t *state = &mca_coll_mscclpp_state;
    struct ompi_communicator_t *comm = module->comm;
    mscclpp_team_params_t params = {
        .config = &state->config,
        .user_config = &state->own_config,
        .rules = state->rules,
        .plans = state->plans,
        .gpu = state->gpu,
        .concurrent = ompi_mpi_thread_multiple,
        .own_process = true,
        .reuse = state->config.reuse,
    };

    *team_p = NULL;
    params.members = digest_members(comm);
    find_locality(comm, &params);
    if (MSCCLPP_OK != choose_device(sendbuf, recvbuf, &params.device)) {
        /* This rank can use no device. It takes part in the team's exchange, and -1 tells its peers. */
        params.device = -1;
    }
    if (OMPI_SUCCESS != state->bind(module) || OMPI_SUCCESS != mca_coll_mscclpp_oob_create(module, port, &params.oob)) {
        mca_coll_mscclpp_oob_abstain(module, port != NULL ? port->number : 0);
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    /* The oob stays after an error. It may hold messages of a further set-up, which other ranks have begun. */
    return mscclpp_team_create(&params, team_p);
}
