#include "mca/coll/mscclpp/native/mapped.h"

#include "mca/coll/mscclpp/native/gate.h"
#include "mca/coll/mscclpp/native/lane.h"
#include "mca/common/task/task.h"

/* Only all-reduces have kernels that do so in a queue. */
int mca_coll_mscclpp_map(const mca_coll_mscclpp_queue_call_t *call, void **mapped_p)
{
    mca_coll_mscclpp_module_t *module = mca_coll_mscclpp_module_of(call->comm);
    mscclpp_mapped_t *mapped = NULL;
    mscclpp_allreduce_args_t args = {
        .sendbuf = MPI_IN_PLACE == call->sendbuf ? call->recvbuf : call->sendbuf,
        .recvbuf = call->recvbuf,
        .count = call->recvcount,
    };
    mscclpp_status_t status;

    *mapped_p = NULL;
    if (module == NULL || module->queued == NULL || MCA_COLL_MSCCLPP_QUEUE_ALLREDUCE != call->coll ||
        mscclpp_team_broken(module->queued->team)) {
        return OMPI_SUCCESS;
    }
    args.dtype = mca_coll_mscclpp_dtype(call->recvtype);
    args.op = mca_coll_mscclpp_op(call->op);
    status = mscclpp_allreduce_map(module->queued->team, &args, &mapped);
    *mapped_p = mapped;
    return MSCCLPP_OK == status ? OMPI_SUCCESS : mca_coll_mscclpp_status_to_ompi(status);
}

void mca_coll_mscclpp_unmap(void *mapped)
{
    mscclpp_allreduce_unmap(mapped);
}
