/* Element types and reduction operations, shared by all layers of the project. */
#ifndef MSCCLPP_DEVICE_TYPES_DTYPE_H
#define MSCCLPP_DEVICE_TYPES_DTYPE_H

#include <stdint.h>

/*
 * Every element has at most 16 bytes, and its extent divides 16. So a unit of 16 bytes never splits an element. The
 * order is part of the meaning (mscclpp_dev_supports): first integers, then floats, then pairs.
 */
typedef enum {
    MSCCLPP_DTYPE_INT8,
    MSCCLPP_DTYPE_UINT8,
    MSCCLPP_DTYPE_INT16,
    MSCCLPP_DTYPE_UINT16,
    MSCCLPP_DTYPE_INT32,
    MSCCLPP_DTYPE_UINT32,
    MSCCLPP_DTYPE_INT64,
    MSCCLPP_DTYPE_UINT64,
    MSCCLPP_DTYPE_FLOAT16, /* from here on, floats: real, then complex */
    MSCCLPP_DTYPE_BFLOAT16,
    MSCCLPP_DTYPE_FLOAT32,
    MSCCLPP_DTYPE_FLOAT64,
    MSCCLPP_DTYPE_LONG_DOUBLE, /* the host's type, where it has 16 bytes; GPUs have no such type */
    MSCCLPP_DTYPE_COMPLEX64,   /* two floats */
    MSCCLPP_DTYPE_COMPLEX128,  /* two doubles */
    MSCCLPP_DTYPE_SHORT_INT,   /* from here on, pairs for MINLOC and MAXLOC, laid out like C structures */
    MSCCLPP_DTYPE_INT_INT,
    MSCCLPP_DTYPE_LONG_INT,
    MSCCLPP_DTYPE_FLOAT_INT,
    MSCCLPP_DTYPE_DOUBLE_INT,
    MSCCLPP_DTYPE_FLOAT_FLOAT,
    MSCCLPP_DTYPE_DOUBLE_DOUBLE,
    MSCCLPP_DTYPE_LAST
} mscclpp_dtype_t;

/* True for 16-bit floats. Kernels combine them in float32, and round the result to their own type. */
#define MSCCLPP_DTYPE_IS_16_BIT_FLOAT(dtype_) ((dtype_) == MSCCLPP_DTYPE_FLOAT16 || (dtype_) == MSCCLPP_DTYPE_BFLOAT16)

typedef enum {
    MSCCLPP_OP_MAX,
    MSCCLPP_OP_MIN,
    MSCCLPP_OP_SUM,
    MSCCLPP_OP_PROD,
    MSCCLPP_OP_LAND,
    MSCCLPP_OP_BAND,
    MSCCLPP_OP_LOR,
    MSCCLPP_OP_BOR,
    MSCCLPP_OP_LXOR,
    MSCCLPP_OP_BXOR,
    MSCCLPP_OP_MAXLOC,
    MSCCLPP_OP_MINLOC,
    MSCCLPP_OP_LAST
} mscclpp_op_t;

#endif
