/*
 * Execution plans that programs run by their names: collectives that MPI does not have. The parameter
 * coll_mscclpp_plans names the files, and all ranks must have the same ones.
 *
 *     MPIX_Mscclpp_plan_run("halo", field, ghosts, n, MPI_DOUBLE, MPI_OP_NULL, comm);
 *
 * A plan of the collective "custom", "test" or "sendrecv" may do anything with the buffers. The plan determines how
 * many chunks the input and the output of each rank have; the program determines the size of a chunk.
 */
#ifndef MPIX_INCLUDE_MPIX_MSCCLPP_PLANS_H
#define MPIX_INCLUDE_MPIX_MSCCLPP_PLANS_H

#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef MPIX_MSCCLPP_PUBLIC
#if defined(__GNUC__)
#define MPIX_MSCCLPP_PUBLIC __attribute__((visibility("default")))
#else
#define MPIX_MSCCLPP_PUBLIC
#endif
#endif

/*
 * Runs the plan with the name `name` in its file. The call is collective, and returns when this rank's output is
 * complete. No other call on the communicator may run at the same time. `count` is the number of elements of one chunk,
 * equal on all ranks. Both buffers stay the caller's; `input` may be MPI_IN_PLACE if the plan works in place. Data in
 * host memory, on some ranks or on all, are copied to and from device memory. If the size of a chunk is not a multiple
 * of 16 bytes, or of the plan's alignment, the data are copied to and from larger chunks.
 *
 * `op` is the operation that the plan uses where its file says sum; MPI_OP_NULL means the sum. `datatype` has to be a
 * predefined type that kernels know, without holes.
 *
 * Errors, which are also given to the communicator's error handler:
 * - MPI_ERR_UNSUPPORTED_OPERATION, on all ranks: these ranks have no such plan, the plan does not do the operation, or
 *   the component does not serve device buffers on this communicator.
 * - MPI_ERR_NO_MEM, on all ranks: a rank has no memory for the plan.
 * - MPI_ERR_COUNT, MPI_ERR_TYPE, MPI_ERR_ARG, MPI_ERR_COMM: an argument is not allowed.
 * - Any other error, such as a rank that does not come in time, breaks the communicator for device buffers.
 */
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_plan_run(const char *name, const void *input, void *output, MPI_Count count,
                                              MPI_Datatype datatype, MPI_Op op, MPI_Comm comm);

#ifdef __cplusplus
}
#endif
#endif
