/* The types and operations that the options name, with their values for this library, NCCL and MPI. */
#include "tools/bench/bench.h"

#include <string.h>

/*
 * The columns: name, number of bytes, the library's type, NCCL's number, and the largest n such that the type holds all
 * integers from 0 to n exactly. n is at most 2^24, which is that of float.
 */
const bench_type_t bench_types[] = {
    {"char", 1, MSCCLPP_DTYPE_INT8, 0, 127},
    {"int8", 1, MSCCLPP_DTYPE_INT8, 0, 127},
    {"uint8", 1, MSCCLPP_DTYPE_UINT8, 1, 255},
    {"int32", 4, MSCCLPP_DTYPE_INT32, 2, 1L << 24},
    {"int64", 8, MSCCLPP_DTYPE_INT64, 4, 1L << 24},
    {"half", 2, MSCCLPP_DTYPE_FLOAT16, 6, 1L << 11},
    {"bfloat16", 2, MSCCLPP_DTYPE_BFLOAT16, 9, 1L << 8},
    {"float", 4, MSCCLPP_DTYPE_FLOAT32, 7, 1L << 24},
    {"double", 8, MSCCLPP_DTYPE_FLOAT64, 8, 1L << 24},
};
const int bench_type_count = sizeof(bench_types) / sizeof(bench_types[0]);

const bench_op_t bench_ops[] = {
    {"sum", MSCCLPP_OP_SUM, 0},
    {"prod", MSCCLPP_OP_PROD, 1},
    {"max", MSCCLPP_OP_MAX, 2},
    {"min", MSCCLPP_OP_MIN, 3},
};
const int bench_op_count = sizeof(bench_ops) / sizeof(bench_ops[0]);

/* Returns MPI's type, or MPI_DATATYPE_NULL for half and bfloat16. */
MPI_Datatype bench_type_mpi(const bench_type_t *type)
{
    /* "char" and "int8" have the same dtype. OSU's benchmarks pass MPI_CHAR, which MPI does not reduce. */
    if (0 == strcmp(type->name, "char")) {
        return MPI_CHAR;
    }
    switch (type->dtype) {
    case MSCCLPP_DTYPE_INT8:
        return MPI_INT8_T;
    case MSCCLPP_DTYPE_UINT8:
        return MPI_UINT8_T;
    case MSCCLPP_DTYPE_INT32:
        return MPI_INT32_T;
    case MSCCLPP_DTYPE_INT64:
        return MPI_INT64_T;
    case MSCCLPP_DTYPE_FLOAT32:
        return MPI_FLOAT;
    case MSCCLPP_DTYPE_FLOAT64:
        return MPI_DOUBLE;
    default:
        return MPI_DATATYPE_NULL;
    }
}

MPI_Op bench_op_mpi(const bench_op_t *op)
{
    switch (op->op) {
    case MSCCLPP_OP_SUM:
        return MPI_SUM;
    case MSCCLPP_OP_PROD:
        return MPI_PROD;
    case MSCCLPP_OP_MAX:
        return MPI_MAX;
    case MSCCLPP_OP_MIN:
        return MPI_MIN;
    default:
        return MPI_OP_NULL;
    }
}

/*
 * Returns an integer from 0 to 2048 as an IEEE half: 5 bits of exponent, biased by 15, and 10 bits of mantissa. Only
 * 2048 has an exponent above 10.
 */
static uint16_t encode_half(long value)
{
    if (0 == value) {
        return 0;
    }
    int exponent = 63 - __builtin_clzl((unsigned long)value);
    unsigned long mantissa = exponent <= 10 ? (unsigned long)value << (10 - exponent) : (unsigned long)value >> 1;
    return (uint16_t)(((unsigned)(exponent + 15) << 10) | (mantissa & 0x3ff));
}

/* Writes an integer as one element. The caller chooses one that the type holds exactly. */
void bench_type_encode(const bench_type_t *type, long value, void *element)
{
    union {
        int8_t i8;
        uint8_t u8;
        int32_t i32;
        int64_t i64;
        uint16_t u16;
        float f;
        double d;
        uint32_t u32;
    } bits;

    memset(&bits, 0, sizeof(bits));
    switch (type->dtype) {
    case MSCCLPP_DTYPE_INT8:
        bits.i8 = (int8_t)value;
        break;
    case MSCCLPP_DTYPE_UINT8:
        bits.u8 = (uint8_t)value;
        break;
    case MSCCLPP_DTYPE_INT32:
        bits.i32 = (int32_t)value;
        break;
    case MSCCLPP_DTYPE_INT64:
        bits.i64 = value;
        break;
    case MSCCLPP_DTYPE_FLOAT16:
        bits.u16 = encode_half(value);
        break;
    case MSCCLPP_DTYPE_BFLOAT16:
        bits.f = (float)value;
        bits.u16 = (uint16_t)(bits.u32 >> 16);
        break;
    case MSCCLPP_DTYPE_FLOAT32:
        bits.f = (float)value;
        break;
    default:
        bits.d = (double)value;
        break;
    }
    memcpy(element, &bits, type->size);
}
