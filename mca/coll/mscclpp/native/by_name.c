#include "mca/coll/mscclpp/native/by_name.h"

#include "mca/coll/mscclpp/native/gate.h"
#include "mca/coll/mscclpp/native/request.h"
#include "mca/common/task/by_name.h"

/*
 * Makes the team if this is the communicator's first call on device memory, which waits for all ranks. What is refused
 * before the call gets its number is equal on all ranks, so that the numbers stay equal.
 */
int mca_coll_mscclpp_run_plan(const char *name, const void *in, void *out, size_t count, MPI_Datatype type, MPI_Op op,
                              MPI_Comm comm)
{
    mca_coll_mscclpp_module_t *module = mca_coll_mscclpp_module_of(comm);
    mscclpp_by_name_args_t args = {.name = name, .in = in == NULL ? out : in, .out = out, .count = count};
    mscclpp_status_t status;

    if (!mca_coll_mscclpp_may_serve(module) || !ompi_datatype_is_predefined(type)) {
        return MPI_ERR_UNSUPPORTED_OPERATION;
    }
    args.dtype = mca_coll_mscclpp_dtype(type);
    args.op = MPI_OP_NULL == op ? MSCCLPP_OP_SUM : mca_coll_mscclpp_op(op);
    if (MSCCLPP_DTYPE_LAST == args.dtype || MSCCLPP_OP_LAST == args.op) {
        return MPI_ERR_UNSUPPORTED_OPERATION;
    }
    mca_coll_mscclpp_request_await(module);
    mca_coll_mscclpp_number_call(module);
    args.call = module->current_call;
    if (MCA_COLL_MSCCLPP_TEAM_BROKEN == module->team_state) {
        return mca_coll_mscclpp_refuse_broken(module, "plan");
    }
    if (!mca_coll_mscclpp_ensure_team(module, args.in, out, &status)) {
        if (MSCCLPP_OK == status) {
            return MPI_ERR_UNSUPPORTED_OPERATION;
        }
        module->team_state = MCA_COLL_MSCCLPP_TEAM_BROKEN;
        return mca_coll_mscclpp_status_to_ompi(status);
    }
    status = mscclpp_by_name(module->team, &args);
    if (MSCCLPP_OK == status) {
        mca_coll_mscclpp_count_named(module->team);
        return OMPI_SUCCESS;
    }
    if (MSCCLPP_ERR_NOT_SUPPORTED == status) {
        return MPI_ERR_UNSUPPORTED_OPERATION;
    }
    /* Without memory for the plan, the team serves other calls, unless this rank had none for a copy of a buffer. */
    if (MSCCLPP_ERR_NO_MEMORY != status || mscclpp_team_broken(module->team)) {
        module->team_state = MCA_COLL_MSCCLPP_TEAM_BROKEN;
    }
    return mca_coll_mscclpp_status_to_ompi(status);
}
