/* MPI's arguments of an operation, and its blocking functions. */
#include "tools/bench/bench_mpi_calls.h"

bench_mpi_args_t bench_mpi_args(const bench_operation_t *operation)
{
    const bench_layout_t *layout = operation->layout;
    const bool in_place = operation->in_place, at_root = in_place && layout->rank == layout->root;
    const int block = (int)(layout->count / (size_t)layout->size);
    /* In place, only the root passes MPI_IN_PLACE: its own part lies in the result. */
    const bench_mpi_args_t args = {.layout = layout,
                                   .type = bench_type_mpi(operation->type),
                                   .op = bench_op_mpi(operation->op),
                                   .whole = (int)layout->count,
                                   .block = block,
                                   .own = layout->counts != NULL ? layout->counts[layout->rank] : block,
                                   .operand = at_root ? MPI_IN_PLACE : operation->send,
                                   .send = in_place ? MPI_IN_PLACE : operation->send,
                                   .parts = operation->send,
                                   .recv = operation->recv,
                                   .part = at_root ? MPI_IN_PLACE : operation->recv};

    return args;
}

#define BLOCKING(Name_, name_) MPI_##Name_

bool bench_call_mpi(const bench_operation_t *operation, MPI_Comm comm)
{
    const bench_mpi_args_t args = bench_mpi_args(operation);
    int result = MPI_ERR_OTHER;

    BENCH_MPI_CALL(result, args, BLOCKING, comm);
    return MPI_SUCCESS == result;
}
