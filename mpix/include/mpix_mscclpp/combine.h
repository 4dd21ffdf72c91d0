/* Combines the elements of small all-reduces, in words of 8 bytes. */
#ifndef MPIX_INCLUDE_MPIX_MSCCLPP_COMBINE_H
#define MPIX_INCLUDE_MPIX_MSCCLPP_COMBINE_H

#include "shim.h"

/* Types of elements, and operations on them. */
enum {
    MPIX_FLOAT32,
    MPIX_FLOAT64,
    MPIX_FLOAT16,
    MPIX_BFLOAT16,
    MPIX_INT32,
    MPIX_UINT32,
    MPIX_INT64,
    MPIX_UINT64,
    MPIX_TYPES
};
enum { MPIX_SUM, MPIX_PROD, MPIX_MIN, MPIX_MAX, MPIX_OPS };

/* Returns the number of bytes of an element, or 0 for an unknown type. */
MPIX_DEVICE mpix_u32 mpix_size_of(int type)
{
    switch (type) {
    case MPIX_FLOAT16:
    case MPIX_BFLOAT16:
        return 2;
    case MPIX_FLOAT32:
    case MPIX_INT32:
    case MPIX_UINT32:
        return 4;
    case MPIX_FLOAT64:
    case MPIX_INT64:
    case MPIX_UINT64:
        return 8;
    default:
        return 0;
    }
}

/* Returns the value of a bfloat16, whose bits are the upper half of a float's. */
MPIX_DEVICE float mpix_float_of_bfloat16(mpix_u32 bits)
{
    return mpix_float_of_bits(bits << 16);
}

/* Rounds to the nearest bfloat16, ties to even. A NaN gets a bit that keeps it a NaN, whichever bits are cut off. */
MPIX_DEVICE mpix_u32 mpix_bfloat16_of_float(float value)
{
    const mpix_u32 bits = mpix_bits_of_float(value);

    if ((bits & 0x7fffffffu) > 0x7f800000u) { /* beyond infinity: a NaN */
        return bits >> 16 | 0x40u;
    }
    return (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
}

#if defined(__CUDACC__)
/* Converts a half, float16, to a float. The result is exact. */
MPIX_DEVICE float mpix_float_of_float16(mpix_u32 bits)
{
    float value;

    asm("{\n\t.reg .b16 h;\n\tcvt.u16.u32 h, %1;\n\tcvt.f32.f16 %0, h;\n\t}" : "=f"(value) : "r"(bits));
    return value;
}

/* Converts a float to the nearest half, ties to even. */
MPIX_DEVICE mpix_u32 mpix_float16_of_float(float value)
{
    mpix_u32 bits;

    asm("{\n\t.reg .b16 h;\n\tcvt.rn.f16.f32 h, %1;\n\tcvt.u32.u16 %0, h;\n\t}" : "=r"(bits) : "f"(value));
    return bits;
}
#else
/* Converts a half to a float. The result is exact. */
MPIX_DEVICE float mpix_float_of_float16(mpix_u32 bits)
{
    const mpix_u32 sign = (bits & 0x8000u) << 16, exponent = bits >> 10 & 0x1fu, fraction = bits & 0x3ffu;

    if (exponent == 0x1fu) { /* infinity or a NaN */
        return mpix_float_of_bits(sign | 0x7f800000u | fraction << 13);
    }
    if (exponent != 0) { /* 112 is the difference of the exponents' biases, 127 - 15 */
        return mpix_float_of_bits(sign | (exponent + 112) << 23 | fraction << 13);
    }
    /* The value of a half whose exponent is 0 is its fraction times 2^-24. */
    return mpix_float_of_bits(sign | mpix_bits_of_float((float)fraction * (1.0f / 16777216.0f)));
}

/* Converts a float to the nearest half, ties to even. */
MPIX_DEVICE mpix_u32 mpix_float16_of_float(float value)
{
    const mpix_u32 bits = mpix_bits_of_float(value), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;

    if (magnitude > 0x7f800000u) {
        return sign | 0x7fffu; /* a NaN */
    }
    if (magnitude >= 0x477ff000u) {
        return sign | 0x7c00u; /* 65520 or more becomes infinity */
    }
    if (magnitude < 0x38800000u) { /* below 2^-14: adding 0.5 rounds at the last bit of a half whose exponent is 0 */
        return sign | (mpix_bits_of_float(mpix_float_of_bits(magnitude) + 0.5f) - 0x3f000000u);
    }
    /* Rounds at bit 13, the last bit of a half, and subtracts 112 from the exponent (0x38000000). */
    return sign | (magnitude + 0xfffu + (magnitude >> 13 & 1) - 0x38000000u) >> 13;
}
#endif

/* Combines two floats. For min and max, the result is a NaN if either operand is one. */
MPIX_DEVICE float mpix_combine_float(float a, float b, int op)
{
    switch (op) {
    case MPIX_SUM:
        return a + b;
    case MPIX_PROD:
        return mpix_multiply(a, b);
    case MPIX_MIN:
        return a != a || a < b ? a : b;
    default:
        return a != a || a > b ? a : b;
    }
}

/* Combines two doubles, in the same way. */
MPIX_DEVICE double mpix_combine_double(double a, double b, int op)
{
    switch (op) {
    case MPIX_SUM:
        return a + b;
    case MPIX_PROD:
        return mpix_multiply_double(a, b);
    case MPIX_MIN:
        return a != a || a < b ? a : b;
    default:
        return a != a || a > b ? a : b;
    }
}

/*
 * Combines two integers. Only the lower bits of the result, as many as their type has, are meaningful. In these bits,
 * sums and products are equal for signed and unsigned types. `is_less` says whether a < b as their type compares.
 */
MPIX_DEVICE mpix_u64 mpix_combine_int(mpix_u64 a, mpix_u64 b, int op, int is_less)
{
    switch (op) {
    case MPIX_SUM:
        return a + b;
    case MPIX_PROD:
        return a * b;
    case MPIX_MIN:
        return is_less ? a : b;
    default:
        return is_less ? b : a;
    }
}

/* Combines two elements of 2 or 4 bytes, which are in the lower bits of `a` and `b`. The higher bits are ignored. */
MPIX_DEVICE mpix_u32 mpix_combine_part(mpix_u32 a, mpix_u32 b, int type, int op)
{
    switch (type) {
    case MPIX_FLOAT16:
        return mpix_float16_of_float(
            mpix_combine_float(mpix_float_of_float16(a & 0xffffu), mpix_float_of_float16(b & 0xffffu), op));
    case MPIX_BFLOAT16:
        return mpix_bfloat16_of_float(
            mpix_combine_float(mpix_float_of_bfloat16(a & 0xffffu), mpix_float_of_bfloat16(b & 0xffffu), op));
    case MPIX_FLOAT32:
        return mpix_bits_of_float(mpix_combine_float(mpix_float_of_bits(a), mpix_float_of_bits(b), op));
    case MPIX_INT32:
        return (mpix_u32)mpix_combine_int(a, b, op, (int)a < (int)b);
    default:
        return (mpix_u32)mpix_combine_int(a, b, op, a < b);
    }
}

/* Combines all elements in 8 bytes: four, two, or one, depending on the size of their type. */
MPIX_DEVICE mpix_u64 mpix_combine8(mpix_u64 a, mpix_u64 b, int type, int op)
{
    mpix_u64 result = 0;
    mpix_u32 bits;

    switch (mpix_size_of(type)) {
    case 2:
        for (bits = 0; bits < 64; bits += 16) {
            result |= (mpix_u64)mpix_combine_part((mpix_u32)(a >> bits), (mpix_u32)(b >> bits), type, op) << bits;
        }
        return result;
    case 4:
        for (bits = 0; bits < 64; bits += 32) {
            result |= (mpix_u64)mpix_combine_part((mpix_u32)(a >> bits), (mpix_u32)(b >> bits), type, op) << bits;
        }
        return result;
    default:
        break;
    }
    if (type == MPIX_FLOAT64) {
        return mpix_bits_of_double(mpix_combine_double(mpix_double_of_bits(a), mpix_double_of_bits(b), op));
    }
    return mpix_combine_int(a, b, op, type == MPIX_INT64 ? (long long)a < (long long)b : a < b);
}

#endif
