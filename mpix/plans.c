/* Runs execution plans by their names: checks the arguments, and calls the component. */
#include <stddef.h>

#include "mpix/include/mpix_mscclpp_plans.h"
#include "mpix/internal.h"

/* Returns the error class of the first argument that is not allowed, or MPI_SUCCESS. */
static int check_arguments(const char *name, MPI_Count count, MPI_Datatype datatype, MPI_Comm comm)
{
    if (comm == MPI_COMM_NULL) {
        return MPI_ERR_COMM;
    }
    if (count < 0) {
        return MPI_ERR_COUNT;
    }
    if (datatype == MPI_DATATYPE_NULL) {
        return MPI_ERR_TYPE;
    }
    return name == NULL ? MPI_ERR_ARG : MPI_SUCCESS;
}

/*
 * Checks the arguments before the component is called. An error in the arguments is known to this rank only: the other
 * ranks may then wait for this rank in the component.
 */
int MPIX_Mscclpp_plan_run(const char *name, const void *input, void *output, MPI_Count count, MPI_Datatype datatype,
                          MPI_Op op, MPI_Comm comm)
{
    const mca_coll_mscclpp_api_t *component;
    int code = check_arguments(name, count, datatype, comm);
    int is_inter = 0;

    if (code != MPI_SUCCESS) {
        return mpix_report(comm, code);
    }
    component = mpix_component(&code);
    if (code != MPI_SUCCESS) {
        return mpix_report(comm, code);
    }
    if (component == NULL || MPI_Comm_test_inter(comm, &is_inter) != MPI_SUCCESS || is_inter) {
        return mpix_report(comm, MPI_ERR_UNSUPPORTED_OPERATION);
    }
    return mpix_report(comm, component->run_plan(name, input == MPI_IN_PLACE ? NULL : input, output, (size_t)count,
                                                 datatype, op, comm));
}
