/* Runs execution plans by their names: checks the arguments, and calls the component. */
#include <stddef.h>

#include "mpix/include/mpix_mscclpp_plans.h"
#include "mpix/internal.h"

/*
 * Checks the arguments before it calls the component. An error that is found here is known to this rank only: other
 * ranks may then wait for this rank in the component. The table is always long enough here, because mpix_component
 * refuses a shorter one.
 */
int MPIX_Mscclpp_plan_run(const char *name, const void *input, void *output, MPI_Count count, MPI_Datatype datatype,
                          MPI_Op op, MPI_Comm comm)
{
    const mca_coll_mscclpp_api_t *component;
    int code = comm == MPI_COMM_NULL           ? MPI_ERR_COMM
               : count < 0                     ? MPI_ERR_COUNT
               : datatype == MPI_DATATYPE_NULL ? MPI_ERR_TYPE
               : name == NULL                  ? MPI_ERR_ARG
                                               : MPI_SUCCESS;
    int inter = 0;

    if (code != MPI_SUCCESS) {
        return mpix_report(comm, code);
    }
    component = mpix_component(&code);
    if (code != MPI_SUCCESS) {
        return mpix_report(comm, code);
    }
    if (component == NULL ||
        component->size < offsetof(mca_coll_mscclpp_api_t, run_plan) + sizeof(component->run_plan) ||
        MPI_Comm_test_inter(comm, &inter) != MPI_SUCCESS || inter) {
        return mpix_report(comm, MPI_ERR_UNSUPPORTED_OPERATION);
    }
    return mpix_report(comm, component->run_plan(name, input == MPI_IN_PLACE ? NULL : input, output, (size_t)count,
                                                 datatype, op, comm));
}
