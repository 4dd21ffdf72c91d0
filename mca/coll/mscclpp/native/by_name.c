#include "mca/coll/mscclpp/native/by_name.h"

#include "mca/coll/mscclpp/native/gate.h"
#include "mca/coll/mscclpp/native/request.h"
#include "mca/common/task/by_name.h"

/*
 * Returns the MPI error code of a plan that ended with `status`. Counts a success. An error breaks the communicator,
 * unless its team can serve further calls.
 */
static int end_plan(mca_coll_mscclpp_module_t *module, mscclpp_status_t status)
{
    if (MSCCLPP_OK == status) {
        mca_coll_mscclpp_count_named(module->team);
        return OMPI_SUCCESS;
    }
    if (MSCCLPP_ERR_NOT_SUPPORTED == status) {
        return MPI_ERR_UNSUPPORTED_OPERATION;
    }
    /* The team can serve further calls after a lack of memory for the plan, but not for the copy of a buffer. */
    if (MSCCLPP_ERR_NO_MEMORY != status || mscclpp_team_broken(module->team)) {
        module->team_state = MCA_COLL_MSCCLPP_TEAM_BROKEN;
    }
    return mca_coll_mscclpp_status_to_ompi(status);
}

/*
 * All ranks refuse the same calls before they number them, so that the numbers of later calls stay equal. The
 * communicator's first call on device memory makes the team, and waits for all ranks.
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
    return end_plan(module, mscclpp_by_name(module->team, &args));
}
