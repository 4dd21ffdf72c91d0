/*
 * Sums of small integers on the copies.
 *
 * The result of a call must not depend on who serves it. A sum that overflows wraps around in kernels and in Open MPI's
 * plain functions. In Open MPI's component op/avx, elements of 8 and 16 bits saturate, except the last ones, which do
 * not fill a vector. So staged calls of MPI_SUM use an operation with the plain functions for these types.
 */
#include "mca/coll/mscclpp/stage/stage.h"

#include <string.h>

/*
 * This operation looks like MPI_SUM in everything that Open MPI examines. Components then treat it as they treat the
 * sum of a rank that passed host memory to the same call.
 */
static struct ompi_op_t wrapping_sum;

/*
 * Makes the operation: copies MPI_SUM, and replaces the copy's functions for integers of 8 and 16 bits by the plain
 * ones. Each type has a function with two buffers and a function with three.
 */
void mca_coll_mscclpp_stage_op_init(void)
{
    static const int types[] = {OMPI_OP_BASE_TYPE_INT8_T, OMPI_OP_BASE_TYPE_UINT8_T, OMPI_OP_BASE_TYPE_INT16_T,
                                OMPI_OP_BASE_TYPE_UINT16_T};
    const int sum = OMPI_OP_BASE_FORTRAN_SUM;

    memcpy(&wrapping_sum, &ompi_mpi_op_sum.op, sizeof(wrapping_sum));
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); ++i) {
        wrapping_sum.o_func.intrinsic.fns[types[i]] = ompi_op_base_functions[sum][types[i]];
        wrapping_sum.o_3buff_intrinsic.fns[types[i]] = ompi_op_base_3buff_functions[sum][types[i]];
    }
}

struct ompi_op_t *mca_coll_mscclpp_stage_replace_op(struct ompi_op_t *op)
{
    return op == &ompi_mpi_op_sum.op ? &wrapping_sum : op;
}
