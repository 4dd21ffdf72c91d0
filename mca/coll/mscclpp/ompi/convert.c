/* Turns MPI's types and operations into those of kernels, and statuses of the host library into MPI error codes. */
#include "mca/coll/mscclpp/ompi/module.h"

#include <float.h>

/* The bytes of an IEEE quadruple, and the bits of its significand, as LDBL_MANT_DIG counts them. */
#define QUADRUPLE_BYTES 16
#define QUADRUPLE_DIGITS 113

/* The entry for a value in the tables below. Entries that are left out are 0: there is no counterpart. */
#define ROW(value_) ((unsigned char)((value_) + 1))

/* The types of integers of `size_` bytes. */
#define SIGNED_OF(size_)                                                                                               \
    (1 == (size_)   ? MSCCLPP_DTYPE_INT8                                                                               \
     : 2 == (size_) ? MSCCLPP_DTYPE_INT16                                                                              \
     : 4 == (size_) ? MSCCLPP_DTYPE_INT32                                                                              \
                    : MSCCLPP_DTYPE_INT64)
#define UNSIGNED_OF(size_)                                                                                             \
    (1 == (size_)   ? MSCCLPP_DTYPE_UINT8                                                                              \
     : 2 == (size_) ? MSCCLPP_DTYPE_UINT16                                                                             \
     : 4 == (size_) ? MSCCLPP_DTYPE_UINT32                                                                             \
                    : MSCCLPP_DTYPE_UINT64)

/*
 * Types by their representation in memory. Open MPI gives MPI_BYTE, MPI_CHAR and Fortran's integers, logicals, reals
 * and complexes of all sizes the number of the equivalent C type. Types that are missing here are staged: 128-bit
 * integers, MPI_WCHAR, complex long double, floats of 12 bytes.
 */
static const unsigned char basic_rows[] = {
    [OPAL_DATATYPE_INT1] = ROW(MSCCLPP_DTYPE_INT8),
    [OPAL_DATATYPE_INT2] = ROW(MSCCLPP_DTYPE_INT16),
    [OPAL_DATATYPE_INT4] = ROW(MSCCLPP_DTYPE_INT32),
    [OPAL_DATATYPE_INT8] = ROW(MSCCLPP_DTYPE_INT64),
    [OPAL_DATATYPE_UINT1] = ROW(MSCCLPP_DTYPE_UINT8),
    [OPAL_DATATYPE_UINT2] = ROW(MSCCLPP_DTYPE_UINT16),
    [OPAL_DATATYPE_UINT4] = ROW(MSCCLPP_DTYPE_UINT32),
    [OPAL_DATATYPE_UINT8] = ROW(MSCCLPP_DTYPE_UINT64),
    [OPAL_DATATYPE_LONG] = ROW(SIGNED_OF(sizeof(long))),
    [OPAL_DATATYPE_UNSIGNED_LONG] = ROW(UNSIGNED_OF(sizeof(long))),
    [OPAL_DATATYPE_BOOL] = ROW(UNSIGNED_OF(sizeof(bool))),
    [OPAL_DATATYPE_FLOAT2] = ROW(MSCCLPP_DTYPE_FLOAT16),
    [OPAL_DATATYPE_FLOAT4] = ROW(MSCCLPP_DTYPE_FLOAT32),
    [OPAL_DATATYPE_FLOAT8] = ROW(MSCCLPP_DTYPE_FLOAT64),
    [OPAL_DATATYPE_FLOAT16] = ROW(MSCCLPP_DTYPE_LONG_DOUBLE),
    [OPAL_DATATYPE_FLOAT_COMPLEX] = ROW(MSCCLPP_DTYPE_COMPLEX64),
    [OPAL_DATATYPE_DOUBLE_COMPLEX] = ROW(MSCCLPP_DTYPE_COMPLEX128),
};

/*
 * Types by MPI's number, which is looked up first. Two kinds of types need this table. Pairs of a value and an index
 * are structures, which have no number by their representation. MPI_OFFSET is signed, but Open MPI represents it as an
 * unsigned integer.
 */
static const unsigned char mpi_rows[] = {
    [OMPI_DATATYPE_MPI_AINT] = ROW(SIGNED_OF(sizeof(MPI_Aint))),
    [OMPI_DATATYPE_MPI_OFFSET] = ROW(SIGNED_OF(sizeof(MPI_Offset))),
    [OMPI_DATATYPE_MPI_COUNT] = ROW(SIGNED_OF(sizeof(MPI_Count))),
    [OMPI_DATATYPE_MPI_SHORT_INT] = ROW(MSCCLPP_DTYPE_SHORT_INT),
    [OMPI_DATATYPE_MPI_2INT] = ROW(MSCCLPP_DTYPE_INT_INT),
    [OMPI_DATATYPE_MPI_LONG_INT] = ROW(MSCCLPP_DTYPE_LONG_INT),
    [OMPI_DATATYPE_MPI_FLOAT_INT] = ROW(MSCCLPP_DTYPE_FLOAT_INT),
    [OMPI_DATATYPE_MPI_DOUBLE_INT] = ROW(MSCCLPP_DTYPE_DOUBLE_INT),
#if OMPI_SIZEOF_FORTRAN_INTEGER == SIZEOF_INT
    [OMPI_DATATYPE_MPI_2INTEGER] = ROW(MSCCLPP_DTYPE_INT_INT),
#endif
#if OMPI_SIZEOF_FORTRAN_REAL == SIZEOF_FLOAT
    [OMPI_DATATYPE_MPI_2REAL] = ROW(MSCCLPP_DTYPE_FLOAT_FLOAT),
#endif
#if OMPI_SIZEOF_FORTRAN_DOUBLE_PRECISION == SIZEOF_DOUBLE
    [OMPI_DATATYPE_MPI_2DBLPREC] = ROW(MSCCLPP_DTYPE_DOUBLE_DOUBLE),
#endif
};

/* Operations by Open MPI's number. */
static const unsigned char op_rows[] = {
    [OMPI_OP_MAX] = ROW(MSCCLPP_OP_MAX),       [OMPI_OP_MIN] = ROW(MSCCLPP_OP_MIN),
    [OMPI_OP_SUM] = ROW(MSCCLPP_OP_SUM),       [OMPI_OP_PROD] = ROW(MSCCLPP_OP_PROD),
    [OMPI_OP_LAND] = ROW(MSCCLPP_OP_LAND),     [OMPI_OP_BAND] = ROW(MSCCLPP_OP_BAND),
    [OMPI_OP_LOR] = ROW(MSCCLPP_OP_LOR),       [OMPI_OP_BOR] = ROW(MSCCLPP_OP_BOR),
    [OMPI_OP_LXOR] = ROW(MSCCLPP_OP_LXOR),     [OMPI_OP_BXOR] = ROW(MSCCLPP_OP_BXOR),
    [OMPI_OP_MAXLOC] = ROW(MSCCLPP_OP_MAXLOC), [OMPI_OP_MINLOC] = ROW(MSCCLPP_OP_MINLOC),
};

/* Returns the value of entry `index` of a table with `count` entries; `none` if the table has no such entry. */
static int look_up(const unsigned char *rows, size_t count, long index, int none)
{
    return index >= 0 && (size_t)index < count && 0 != rows[index] ? rows[index] - 1 : none;
}

#define LOOK_UP(rows_, index_, none_) look_up((rows_), sizeof(rows_) / sizeof((rows_)[0]), (long)(index_), (none_))

/*
 * Returns true if a type of the class MSCCLPP_DTYPE_LONG_DOUBLE is C's long double. A Fortran real of 16 bytes is an
 * IEEE quadruple, which on some processors is another type than long double.
 */
static bool is_long_double(const struct ompi_datatype_t *datatype)
{
    const bool is_fortran =
        OMPI_DATATYPE_FLAG_DATA_FORTRAN == (datatype->super.flags & OMPI_DATATYPE_FLAG_DATA_LANGUAGE);

    return QUADRUPLE_BYTES == sizeof(long double) && (!is_fortran || QUADRUPLE_DIGITS == LDBL_MANT_DIG);
}

/* Looks up MPI's number of the type first, and then the number of its representation. */
mscclpp_dtype_t mca_coll_mscclpp_dtype(const struct ompi_datatype_t *datatype)
{
    int dtype;

    /*
     * A duplicate of a predefined type keeps the numbers of the original, but MPI's predefined operations do not accept
     * the duplicate.
     */
    if (!ompi_datatype_is_predefined((struct ompi_datatype_t *)datatype)) {
        return MSCCLPP_DTYPE_LAST;
    }
    dtype = LOOK_UP(mpi_rows, datatype->id, MSCCLPP_DTYPE_LAST);
    if (MSCCLPP_DTYPE_LAST == dtype) {
        dtype = LOOK_UP(basic_rows, datatype->super.id, MSCCLPP_DTYPE_LAST);
    }
    if (MSCCLPP_DTYPE_LONG_DOUBLE == dtype && !is_long_double(datatype)) {
        dtype = MSCCLPP_DTYPE_LAST;
    }
    return (mscclpp_dtype_t)dtype;
}

mscclpp_op_t mca_coll_mscclpp_op(const struct ompi_op_t *op)
{
    if (0 == (op->o_flags & OMPI_OP_FLAGS_INTRINSIC)) {
        return MSCCLPP_OP_LAST;
    }
    return (mscclpp_op_t)LOOK_UP(op_rows, op->op_type, MSCCLPP_OP_LAST);
}

/* MSCCLPP_IN_PROGRESS and MSCCLPP_ERR_NOT_SUPPORTED are never results of a call; they become MPI_ERR_UNKNOWN. */
int mca_coll_mscclpp_status_to_ompi(mscclpp_status_t status)
{
    /* Open MPI returns values above 0 to the application unchanged, so they must be MPI's error classes. */
    switch (status) {
    case MSCCLPP_OK:
        return OMPI_SUCCESS;
    case MSCCLPP_ERR_NO_MEMORY:
        return MPI_ERR_NO_MEM;
    case MSCCLPP_ERR_INVALID:
        return MPI_ERR_ARG;
    case MSCCLPP_ERR_MIXED:
        return MPI_ERR_BUFFER;
    case MSCCLPP_ERR_REVOKED:
        return MCA_COLL_MSCCLPP_ERR_REVOKED;
    case MSCCLPP_ERR_SYSTEM:
    case MSCCLPP_ERR_DEVICE:
    case MSCCLPP_ERR_NO_DESCRIPTORS:
        return MPI_ERR_INTERN;
    case MSCCLPP_ERR_TIMEOUT:
    case MSCCLPP_ERR_PEER:
        return MPI_ERR_OTHER;
    case MSCCLPP_IN_PROGRESS:
    case MSCCLPP_ERR_NOT_SUPPORTED:
        break; /* never the result of a call, because the caller then serves it in another way */
    }
    return MPI_ERR_UNKNOWN;
}
