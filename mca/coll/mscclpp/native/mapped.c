/* Maps the buffers of calls that a request or a graph repeats, before they are queued. */
#include "mca/coll/mscclpp/native/mapped.h"

#include "mca/coll/mscclpp/native/describe.h"
#include "mca/coll/mscclpp/native/gate.h"
#include "mca/coll/mscclpp/native/lane.h"
#include "mca/common/task/collective.h"
#include "mca/common/task/task.h"
#include "mca/common/team/parts.h"

/* Maps the buffers of an all-reduce. *mapped_p is NULL before, and stays NULL if kernels would not use the mapping. */
static mscclpp_status_t map_allreduce(mscclpp_team_t *team, const mca_coll_mscclpp_queue_call_t *call,
                                      mscclpp_mapped_t **mapped_p)
{
    const mscclpp_allreduce_args_t args = {
        .sendbuf = MPI_IN_PLACE == call->sendbuf ? call->recvbuf : call->sendbuf,
        .recvbuf = call->recvbuf,
        .count = call->recvcount,
        .dtype = mca_coll_mscclpp_dtype(call->recvtype),
        .op = mca_coll_mscclpp_op(call->op),
    };

    return mscclpp_allreduce_map_buffers(team, &args, mapped_p);
}

/*
 * Maps the buffers of a collective other than all-reduce. *mapped_p is NULL before, and stays NULL if there is nothing
 * to map. If this rank has no memory to describe the call, the function makes the team fail: the other ranks would
 * otherwise wait for this rank until their deadline.
 */
static mscclpp_status_t map_other(mca_coll_mscclpp_module_t *module, const mca_coll_mscclpp_queue_call_t *call,
                                  mscclpp_mapped_t **mapped_p)
{
    mca_coll_mscclpp_native_t native;
    const bool has_data = mca_coll_mscclpp_queued_describe(module, call, &native);
    mscclpp_status_t status = MSCCLPP_OK;

    if (has_data && OMPI_SUCCESS != native.rc) {
        status = mscclpp_team_fail(module->queued->team, MSCCLPP_ERR_NO_MEMORY);
    } else if (has_data) {
        status = mscclpp_collective_map_buffers(module->queued->team, &native.args, mapped_p);
    }
    mca_coll_mscclpp_native_end(&native);
    return status;
}

/*
 * Does nothing if the communicator has no queue, if an earlier call has broken the queue, or for a barrier, which has
 * no buffers.
 */
int mca_coll_mscclpp_map(const mca_coll_mscclpp_queue_call_t *call, void **mapped_p)
{
    mca_coll_mscclpp_module_t *module = mca_coll_mscclpp_module_of(call->comm);
    mscclpp_mapped_t *mapped = NULL;
    mscclpp_status_t status;

    *mapped_p = NULL;
    if (module == NULL || module->queued == NULL || MCA_COLL_MSCCLPP_QUEUE_BARRIER == call->coll ||
        mscclpp_team_broken(module->queued->team)) {
        return OMPI_SUCCESS;
    }
    if (MCA_COLL_MSCCLPP_QUEUE_ALLREDUCE == call->coll) {
        status = map_allreduce(module->queued->team, call, &mapped);
    } else {
        status = map_other(module, call, &mapped);
    }
    *mapped_p = mapped;
    return MSCCLPP_OK == status ? OMPI_SUCCESS : mca_coll_mscclpp_status_to_ompi(status);
}

void mca_coll_mscclpp_unmap(void *mapped)
{
    mscclpp_allreduce_unmap_buffers(mapped);
}
