/*
 * Hot combinations of type and operation: those with kernels of their own, which are compiled with both as constants.
 * For all other combinations, each algorithm has one kernel, which looks up type and operation at run time. Signed
 * integers use the kernel of the unsigned type of the same size, because their sums wrap in the same way.
 */
#ifndef MSCCLPP_DEVICE_TYPES_HOT_H
#define MSCCLPP_DEVICE_TYPES_HOT_H

#include "device/types/dtype.h"

#define MSCCLPP_DEV_HOT(X)                                                                                             \
    X(MSCCLPP_DTYPE_FLOAT32, MSCCLPP_OP_SUM)                                                                           \
    X(MSCCLPP_DTYPE_FLOAT16, MSCCLPP_OP_SUM)                                                                           \
    X(MSCCLPP_DTYPE_BFLOAT16, MSCCLPP_OP_SUM)                                                                          \
    X(MSCCLPP_DTYPE_FLOAT64, MSCCLPP_OP_SUM)                                                                           \
    X(MSCCLPP_DTYPE_UINT8, MSCCLPP_OP_SUM)                                                                             \
    X(MSCCLPP_DTYPE_UINT32, MSCCLPP_OP_SUM)

/* Numbers of ranks that code is compiled for, so that loops over ranks are unrolled. Other code takes any number. */
#define MSCCLPP_DEV_RANKS(X) X(2) X(4) X(8)
#define MSCCLPP_DEV_CONST_RANKS_MAX 8 /* the largest of them */

/* The type whose hot kernel serves sums of `dtype_`. It is a macro because hosts and kernels share it. */
#define MSCCLPP_DEV_HOT_DTYPE(dtype_)                                                                                  \
    ((dtype_) == MSCCLPP_DTYPE_INT8    ? (int)MSCCLPP_DTYPE_UINT8                                                      \
     : (dtype_) == MSCCLPP_DTYPE_INT32 ? (int)MSCCLPP_DTYPE_UINT32                                                     \
                                       : (int)(dtype_))

#endif
