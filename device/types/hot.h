/*
 * The combinations of type and operation that get kernels of their own, folded to constants; all others share one
 * kernel an algorithm, which looks both up at run time. Signed integers share the kernel of the unsigned type of their
 * size, since sums wrap alike.
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

/* The numbers of ranks for which loops over ranks are unrolled; the rest of the code is for any number. */
#define MSCCLPP_DEV_RANKS(X) X(2) X(4) X(8)

/* The type whose kernel serves sums of `dtype_`; a macro for hosts and kernels. */
#define MSCCLPP_DEV_HOT_DTYPE(dtype_)                                                                                  \
    ((dtype_) == MSCCLPP_DTYPE_INT8    ? (int)MSCCLPP_DTYPE_UINT8                                                      \
     : (dtype_) == MSCCLPP_DTYPE_INT32 ? (int)MSCCLPP_DTYPE_UINT32                                                     \
                                       : (int)(dtype_))

#endif
