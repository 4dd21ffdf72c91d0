/*
 * Combines units element by element. An accumulator takes the operands in rank order. 16-bit floats are widened to 32
 * bits and rounded once, at the end. Types and operations are run-time values; if a caller passes constants, the
 * compiler removes the code for all others.
 */
#ifndef MSCCLPP_DEVICE_LIB_REDUCE_H
#define MSCCLPP_DEVICE_LIB_REDUCE_H

#include "device/lib/unit.h"

/* The combination of a unit's operands so far. */
typedef struct {
    mscclpp_dev_vec_t unit; /* of types that are not widened */
    float floats[8];        /* elements of 16-bit types, widened */
} mscclpp_dev_acc_t;

/* MPI's pairs for MINLOC and MAXLOC, and complex numbers. */
typedef struct {
    int16_t value;
    int32_t index;
} mscclpp_dev_short_int_t;
typedef struct {
    int32_t value;
    int32_t index;
} mscclpp_dev_int_int_t;
typedef struct {
    int64_t value;
    int32_t index;
} mscclpp_dev_long_int_t;
typedef struct {
    float value;
    int32_t index;
} mscclpp_dev_float_int_t;
typedef struct {
    double value;
    int32_t index;
} mscclpp_dev_double_int_t;
typedef struct {
    float value;
    float index;
} mscclpp_dev_float_float_t;
typedef struct {
    double value;
    double index;
} mscclpp_dev_double_double_t;
typedef struct {
    float re;
    float im;
} mscclpp_dev_complex64_t;
typedef struct {
    double re;
    double im;
} mscclpp_dev_complex128_t;

/* A unit as elements of each type. Both compilers allow reading a member other than the one written last. */
typedef union {
    mscclpp_dev_vec_t unit;
    int8_t i8[16];
    uint8_t u8[16];
    int16_t i16[8];
    uint16_t u16[8];
    int32_t i32[4];
    uint32_t u32[4];
    int64_t i64[2];
    uint64_t u64[2];
    float f32[4];
    double f64[2];
#ifndef __CUDACC__
    long double ld[1];
#endif
    mscclpp_dev_complex64_t c64[2];
    mscclpp_dev_complex128_t c128[1];
    mscclpp_dev_short_int_t short_int[2];
    mscclpp_dev_int_int_t int_int[2];
    mscclpp_dev_long_int_t long_int[1];
    mscclpp_dev_float_int_t float_int[2];
    mscclpp_dev_double_int_t double_int[1];
    mscclpp_dev_float_float_t float_float[2];
    mscclpp_dev_double_double_t double_double[1];
} mscclpp_dev_elements_t;

/*
 * Combines all elements of a unit. In `expression_`, x is the combination so far and y the next operand. This macro and
 * the macros below are the whole code after a case label, and end with a `break`.
 */
#define MSCCLPP_DEV_EACH(type_, field_, count_, expression_)                                                           \
    {                                                                                                                  \
        int i_;                                                                                                        \
        MSCCLPP_DEV_UNROLL                                                                                             \
        for (i_ = 0; i_ < (count_); ++i_) {                                                                            \
            type_ x = a.field_[i_], y = b.field_[i_];                                                                  \
            a.field_[i_] = (type_)(expression_);                                                                       \
        }                                                                                                              \
    }                                                                                                                  \
    break

/*
 * The operations of an integer type. Sums and products wrap in the unsigned type `wide_`, which must not be narrower
 * than int: C promotes narrower types to int, which could overflow.
 */
#define MSCCLPP_DEV_INTEGER(type_, field_, wide_)                                                                      \
    switch (op) {                                                                                                      \
    case MSCCLPP_OP_MAX:                                                                                               \
        MSCCLPP_DEV_EACH(type_, field_, 16 / (int)sizeof(type_), x > y ? x : y);                                       \
    case MSCCLPP_OP_MIN:                                                                                               \
        MSCCLPP_DEV_EACH(type_, field_, 16 / (int)sizeof(type_), x < y ? x : y);                                       \
    case MSCCLPP_OP_SUM:                                                                                               \
        MSCCLPP_DEV_EACH(type_, field_, 16 / (int)sizeof(type_), (wide_)x + (wide_)y);                                 \
    case MSCCLPP_OP_PROD:                                                                                              \
        MSCCLPP_DEV_EACH(type_, field_, 16 / (int)sizeof(type_), (wide_)x * (wide_)y);                                 \
    case MSCCLPP_OP_LAND:                                                                                              \
        MSCCLPP_DEV_EACH(type_, field_, 16 / (int)sizeof(type_), x != 0 && y != 0);                                    \
    case MSCCLPP_OP_BAND:                                                                                              \
        MSCCLPP_DEV_EACH(type_, field_, 16 / (int)sizeof(type_), x & y);                                               \
    case MSCCLPP_OP_LOR:                                                                                               \
        MSCCLPP_DEV_EACH(type_, field_, 16 / (int)sizeof(type_), x != 0 || y != 0);                                    \
    case MSCCLPP_OP_BOR:                                                                                               \
        MSCCLPP_DEV_EACH(type_, field_, 16 / (int)sizeof(type_), x | y);                                               \
    case MSCCLPP_OP_LXOR:                                                                                              \
        MSCCLPP_DEV_EACH(type_, field_, 16 / (int)sizeof(type_), (x != 0) != (y != 0));                                \
    case MSCCLPP_OP_BXOR:                                                                                              \
        MSCCLPP_DEV_EACH(type_, field_, 16 / (int)sizeof(type_), x ^ y);                                               \
    default:                                                                                                           \
        break;                                                                                                         \
    }                                                                                                                  \
    break

/* The operations of a floating-point type. */
#define MSCCLPP_DEV_FLOATING(type_, field_)                                                                            \
    switch (op) {                                                                                                      \
    case MSCCLPP_OP_MAX:                                                                                               \
        MSCCLPP_DEV_EACH(type_, field_, 16 / (int)sizeof(type_), x > y ? x : y);                                       \
    case MSCCLPP_OP_MIN:                                                                                               \
        MSCCLPP_DEV_EACH(type_, field_, 16 / (int)sizeof(type_), x < y ? x : y);                                       \
    case MSCCLPP_OP_SUM:                                                                                               \
        MSCCLPP_DEV_EACH(type_, field_, 16 / (int)sizeof(type_), x + y);                                               \
    case MSCCLPP_OP_PROD:                                                                                              \
        MSCCLPP_DEV_EACH(type_, field_, 16 / (int)sizeof(type_), x * y);                                               \
    default:                                                                                                           \
        break;                                                                                                         \
    }                                                                                                                  \
    break

/*
 * Sum and product of a complex type. `mul_` multiplies real numbers without fusing the product with a later addition.
 */
#define MSCCLPP_DEV_COMPLEX(type_, field_, mul_)                                                                       \
    {                                                                                                                  \
        int i_;                                                                                                        \
        MSCCLPP_DEV_UNROLL                                                                                             \
        for (i_ = 0; i_ < 16 / (int)sizeof(type_); ++i_) {                                                             \
            type_ x = a.field_[i_], y = b.field_[i_];                                                                  \
            if (op == MSCCLPP_OP_SUM) {                                                                                \
                a.field_[i_].re = x.re + y.re;                                                                         \
                a.field_[i_].im = x.im + y.im;                                                                         \
            } else {                                                                                                   \
                a.field_[i_].re = mul_(x.re, y.re) - mul_(x.im, y.im);                                                 \
                a.field_[i_].im = mul_(x.re, y.im) + mul_(x.im, y.re);                                                 \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    break

/* Takes the better value with its index. If the values are equal, takes the lower index. */
#define MSCCLPP_DEV_PAIR(type_, field_)                                                                                \
    {                                                                                                                  \
        int i_;                                                                                                        \
        MSCCLPP_DEV_UNROLL                                                                                             \
        for (i_ = 0; i_ < 16 / (int)sizeof(type_); ++i_) {                                                             \
            type_ x = a.field_[i_], y = b.field_[i_];                                                                  \
            bool is_better = op == MSCCLPP_OP_MAXLOC ? y.value > x.value : y.value < x.value;                          \
            if (is_better || (y.value == x.value && y.index < x.index)) {                                              \
                a.field_[i_] = y;                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    break

/*
 * Returns `first` combined with `second`, element by element. The type and the operation must be a pair that
 * mscclpp_dev_supports allows. Units of 16-bit floats are returned as `first`: mscclpp_dev_acc_add combines them.
 */
MSCCLPP_DEV mscclpp_dev_vec_t mscclpp_dev_combine(int dtype, int op, mscclpp_dev_vec_t first, mscclpp_dev_vec_t second)
{
    mscclpp_dev_elements_t a, b;

    a.unit = first;
    b.unit = second;
    if (op == MSCCLPP_OP_SUM && (dtype == MSCCLPP_DTYPE_INT8 || dtype == MSCCLPP_DTYPE_UINT8)) {
        /*
         * Adds four bytes at once. First adds them without their top bits, so that no sum carries into the next byte,
         * and then adds the top bits without carry.
         */
        int i;

        MSCCLPP_DEV_UNROLL
        for (i = 0; i < 4; ++i) {
            uint32_t x = first.w[i], y = second.w[i];

            a.unit.w[i] = ((x & 0x7f7f7f7fu) + (y & 0x7f7f7f7fu)) ^ ((x ^ y) & 0x80808080u);
        }
        return a.unit;
    }
    switch (dtype) {
    case MSCCLPP_DTYPE_INT8:
        MSCCLPP_DEV_INTEGER(int8_t, i8, uint32_t);
    case MSCCLPP_DTYPE_UINT8:
        MSCCLPP_DEV_INTEGER(uint8_t, u8, uint32_t);
    case MSCCLPP_DTYPE_INT16:
        MSCCLPP_DEV_INTEGER(int16_t, i16, uint32_t);
    case MSCCLPP_DTYPE_UINT16:
        MSCCLPP_DEV_INTEGER(uint16_t, u16, uint32_t);
    case MSCCLPP_DTYPE_INT32:
        MSCCLPP_DEV_INTEGER(int32_t, i32, uint32_t);
    case MSCCLPP_DTYPE_UINT32:
        MSCCLPP_DEV_INTEGER(uint32_t, u32, uint32_t);
    case MSCCLPP_DTYPE_INT64:
        MSCCLPP_DEV_INTEGER(int64_t, i64, uint64_t);
    case MSCCLPP_DTYPE_UINT64:
        MSCCLPP_DEV_INTEGER(uint64_t, u64, uint64_t);
    case MSCCLPP_DTYPE_FLOAT32:
        MSCCLPP_DEV_FLOATING(float, f32);
    case MSCCLPP_DTYPE_FLOAT64:
        MSCCLPP_DEV_FLOATING(double, f64);
#ifndef __CUDACC__
    case MSCCLPP_DTYPE_LONG_DOUBLE:
        MSCCLPP_DEV_FLOATING(long double, ld);
#endif
    case MSCCLPP_DTYPE_COMPLEX64:
        MSCCLPP_DEV_COMPLEX(mscclpp_dev_complex64_t, c64, mscclpp_dev_mul_f32);
    case MSCCLPP_DTYPE_COMPLEX128:
        MSCCLPP_DEV_COMPLEX(mscclpp_dev_complex128_t, c128, mscclpp_dev_mul_f64);
    case MSCCLPP_DTYPE_SHORT_INT:
        MSCCLPP_DEV_PAIR(mscclpp_dev_short_int_t, short_int);
    case MSCCLPP_DTYPE_INT_INT:
        MSCCLPP_DEV_PAIR(mscclpp_dev_int_int_t, int_int);
    case MSCCLPP_DTYPE_LONG_INT:
        MSCCLPP_DEV_PAIR(mscclpp_dev_long_int_t, long_int);
    case MSCCLPP_DTYPE_FLOAT_INT:
        MSCCLPP_DEV_PAIR(mscclpp_dev_float_int_t, float_int);
    case MSCCLPP_DTYPE_DOUBLE_INT:
        MSCCLPP_DEV_PAIR(mscclpp_dev_double_int_t, double_int);
    case MSCCLPP_DTYPE_FLOAT_FLOAT:
        MSCCLPP_DEV_PAIR(mscclpp_dev_float_float_t, float_float);
    case MSCCLPP_DTYPE_DOUBLE_DOUBLE:
        MSCCLPP_DEV_PAIR(mscclpp_dev_double_double_t, double_double);
    default:
        break;
    }
    return a.unit;
}

/*
 * Returns the result of mscclpp_dev_combine. One copy, not inlined, for all kernels that learn type and operation at
 * run time.
 */
MSCCLPP_DEV_OUTLINE mscclpp_dev_vec_t mscclpp_dev_combine_any(int dtype, int op, mscclpp_dev_vec_t first,
                                                              mscclpp_dev_vec_t second)
{
    return mscclpp_dev_combine(dtype, op, first, second);
}

/* Returns true for the two types of 16-bit floats, whose operands are widened. */
MSCCLPP_DEV bool mscclpp_dev_is_float16(int dtype)
{
    return MSCCLPP_DTYPE_IS_16_BIT_FLOAT(dtype);
}

/*
 * Returns one of the two 16-bit floats of a word, widened: the lower float if `half` is 0, the higher float if `half`
 * is 1.
 */
MSCCLPP_DEV float mscclpp_dev_widen(int dtype, uint32_t word, int half)
{
    uint16_t bits = (uint16_t)(word >> 16 * half);

    return dtype == MSCCLPP_DTYPE_FLOAT16 ? mscclpp_dev_f16_to_f32(bits) : mscclpp_dev_bf16_to_f32(bits);
}

/*
 * Returns two floats combined, for operands of 16-bit types, which have only these four operations
 * (mscclpp_dev_supports).
 */
MSCCLPP_DEV float mscclpp_dev_combine_f32(int op, float x, float y)
{
    switch (op) {
    case MSCCLPP_OP_MAX:
        return x > y ? x : y;
    case MSCCLPP_OP_MIN:
        return x < y ? x : y;
    case MSCCLPP_OP_PROD:
        return x * y;
    default:
        return x + y;
    }
}

/* Starts an accumulator with the first operand in rank order. Overwrites what the accumulator held before. */
MSCCLPP_DEV_SHARED void mscclpp_dev_acc_set(mscclpp_dev_acc_t *acc, int dtype, mscclpp_dev_vec_t value)
{
    int i;

    if (mscclpp_dev_is_float16(dtype)) {
        MSCCLPP_DEV_UNROLL
        for (i = 0; i < 8; ++i) {
            acc->floats[i] = mscclpp_dev_widen(dtype, value.w[i / 2], i % 2);
        }
    } else {
        acc->unit = value;
    }
}

/*
 * Combines the next operand in rank order with the accumulated value. The accumulator must have been started for the
 * same type. `hot` is a constant; true: `dtype` and `op` are constants as well, and the code is inlined.
 */
MSCCLPP_DEV_SHARED void mscclpp_dev_acc_add(mscclpp_dev_acc_t *acc, bool hot, int dtype, int op,
                                            mscclpp_dev_vec_t value)
{
    int i;

    if (mscclpp_dev_is_float16(dtype)) {
        MSCCLPP_DEV_UNROLL
        for (i = 0; i < 8; ++i) {
            acc->floats[i] =
                mscclpp_dev_combine_f32(op, acc->floats[i], mscclpp_dev_widen(dtype, value.w[i / 2], i % 2));
        }
    } else if (hot) {
        acc->unit = mscclpp_dev_combine(dtype, op, acc->unit, value);
    } else {
        acc->unit = mscclpp_dev_combine_any(dtype, op, acc->unit, value);
    }
}

/* Returns the accumulated value as a unit, with 16-bit floats rounded. The accumulator does not change. */
MSCCLPP_DEV_SHARED mscclpp_dev_vec_t mscclpp_dev_acc_get(const mscclpp_dev_acc_t *acc, int dtype)
{
    mscclpp_dev_vec_t value;
    int i;

    if (!mscclpp_dev_is_float16(dtype)) {
        return acc->unit;
    }
    MSCCLPP_DEV_UNROLL
    for (i = 0; i < 4; ++i) {
        uint16_t low, high;

        if (dtype == MSCCLPP_DTYPE_FLOAT16) {
            low = mscclpp_dev_f32_to_f16(acc->floats[2 * i]);
            high = mscclpp_dev_f32_to_f16(acc->floats[2 * i + 1]);
        } else {
            low = mscclpp_dev_f32_to_bf16(acc->floats[2 * i]);
            high = mscclpp_dev_f32_to_bf16(acc->floats[2 * i + 1]);
        }
        value.w[i] = (uint32_t)high << 16 | low;
    }
    return value;
}

#endif
