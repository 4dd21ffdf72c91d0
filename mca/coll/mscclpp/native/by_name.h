/* Execution plans that programs run by their names, for libmpix_mscclpp. */
#ifndef MCA_COLL_MSCCLPP_NATIVE_BY_NAME_H
#define MCA_COLL_MSCCLPP_NATIVE_BY_NAME_H

#include <stddef.h>

#include <mpi.h>

/* Runs a plan: `run_plan` of mca/coll/mscclpp/native/api.h. */
int mca_coll_mscclpp_run_plan(const char *name, const void *in, void *out, size_t count, MPI_Datatype type, MPI_Op op,
                              MPI_Comm comm);

#endif
