#include "test/mpi/mpi_types.h"

#include <stdlib.h>

const char *mt_op_name(mt_op_t op)
{
    static const char *const names[] = {"max", "min", "sum",  "prod", "land",   "band",
                                        "lor", "bor", "lxor", "bxor", "maxloc", "minloc"};

    return names[op];
}

MPI_Op mt_op_mpi(mt_op_t op)
{
    const MPI_Op ops[] = {MPI_MAX, MPI_MIN, MPI_SUM,  MPI_PROD, MPI_LAND,   MPI_BAND,
                          MPI_LOR, MPI_BOR, MPI_LXOR, MPI_BXOR, MPI_MAXLOC, MPI_MINLOC};

    return ops[op];
}

/*
 * Integers: full range, so that sums and products wrap; computed in 64 unsigned bits, of which the low ones are those
 * of C's arithmetic without its undefined overflow. One operand in four is zero for the logical operations.
 */
#define INTEGER(name_, type_)                                                                                          \
    static void make_##name_(mt_op_t op, uint64_t random, void *element)                                               \
    {                                                                                                                  \
        bool logical = MT_OP_LAND == op || MT_OP_LOR == op || MT_OP_LXOR == op;                                        \
        *(type_ *)element = (type_)(logical && 0 == random >> 62 ? 0 : random);                                        \
    }                                                                                                                  \
    static void combine_##name_(mt_op_t op, void *accumulator, const void *operand)                                    \
    {                                                                                                                  \
        type_ a = *(type_ *)accumulator, b = *(const type_ *)operand;                                                  \
        switch (op) {                                                                                                  \
        case MT_OP_MAX:                                                                                                \
            a = a > b ? a : b;                                                                                         \
            break;                                                                                                     \
        case MT_OP_MIN:                                                                                                \
            a = a < b ? a : b;                                                                                         \
            break;                                                                                                     \
        case MT_OP_SUM:                                                                                                \
            a = (type_)((uint64_t)a + (uint64_t)b);                                                                    \
            break;                                                                                                     \
        case MT_OP_PROD:                                                                                               \
            a = (type_)((uint64_t)a * (uint64_t)b);                                                                    \
            break;                                                                                                     \
        case MT_OP_LAND:                                                                                               \
            a = (type_)(a && b);                                                                                       \
            break;                                                                                                     \
        case MT_OP_LOR:                                                                                                \
            a = (type_)(a || b);                                                                                       \
            break;                                                                                                     \
        case MT_OP_LXOR:                                                                                               \
            a = (type_)(!a != !b);                                                                                     \
            break;                                                                                                     \
        case MT_OP_BAND:                                                                                               \
            a = (type_)(a & b);                                                                                        \
            break;                                                                                                     \
        case MT_OP_BOR:                                                                                                \
            a = (type_)(a | b);                                                                                        \
            break;                                                                                                     \
        case MT_OP_BXOR:                                                                                               \
            a = (type_)(a ^ b);                                                                                        \
            break;                                                                                                     \
        default:                                                                                                       \
            abort();                                                                                                   \
        }                                                                                                              \
        *(type_ *)accumulator = a;                                                                                     \
    }                                                                                                                  \
    static bool equal_##name_(const void *a, const void *b)                                                            \
    {                                                                                                                  \
        return *(const type_ *)a == *(const type_ *)b;                                                                 \
    }                                                                                                                  \
    static const mt_layout_t name_ = {sizeof(type_), true, true, make_##name_, combine_##name_, equal_##name_};

/* The logical types of Fortran and C: only the values 0 and 1. */
#define LOGICAL(name_, type_)                                                                                          \
    static void make_##name_(mt_op_t op, uint64_t random, void *element)                                               \
    {                                                                                                                  \
        (void)op;                                                                                                      \
        *(type_ *)element = (type_)(random >> 63);                                                                     \
    }                                                                                                                  \
    static void combine_##name_(mt_op_t op, void *accumulator, const void *operand)                                    \
    {                                                                                                                  \
        type_ a = *(type_ *)accumulator, b = *(const type_ *)operand;                                                  \
        *(type_ *)accumulator = (type_)(MT_OP_LAND == op ? a && b : MT_OP_LOR == op ? a || b : !a != !b);              \
    }                                                                                                                  \
    static bool equal_##name_(const void *a, const void *b)                                                            \
    {                                                                                                                  \
        return *(const type_ *)a == *(const type_ *)b;                                                                 \
    }                                                                                                                  \
    static const mt_layout_t name_ = {sizeof(type_), true, true, make_##name_, combine_##name_, equal_##name_};

/* Quarters of small integers add exactly, powers of two multiply exactly. */
#define FLOATING(name_, type_, on_gpu_, on_twin_)                                                                      \
    static void make_##name_(mt_op_t op, uint64_t random, void *element)                                               \
    {                                                                                                                  \
        static const double factors[] = {1, 2, -1, 0.5};                                                               \
        *(type_ *)element = (type_)(MT_OP_SUM == op    ? ((double)(random % 33) - 16) / 4                              \
                                    : MT_OP_PROD == op ? factors[random >> 62]                                         \
                                                       : (double)(int16_t)random / 64);                                \
    }                                                                                                                  \
    static void combine_##name_(mt_op_t op, void *accumulator, const void *operand)                                    \
    {                                                                                                                  \
        type_ a = *(type_ *)accumulator, b = *(const type_ *)operand;                                                  \
        *(type_ *)accumulator = MT_OP_MAX == op   ? (a > b ? a : b)                                                    \
                                : MT_OP_MIN == op ? (a < b ? a : b)                                                    \
                                : MT_OP_SUM == op ? a + b                                                              \
                                                  : a * b;                                                             \
    }                                                                                                                  \
    static bool equal_##name_(const void *a, const void *b)                                                            \
    {                                                                                                                  \
        return *(const type_ *)a == *(const type_ *)b;                                                                 \
    }                                                                                                                  \
    static const mt_layout_t name_ = {sizeof(type_), on_gpu_, on_twin_, make_##name_, combine_##name_, equal_##name_};

/* Products of powers of 1 + i: their parts stay integers below 2^12 for 24 ranks and exact in a float. */
#define COMPLEX(name_, part_, on_gpu_, on_twin_)                                                                       \
    typedef struct {                                                                                                   \
        part_ re, im;                                                                                                  \
    } name_##_t;                                                                                                       \
    static void make_##name_(mt_op_t op, uint64_t random, void *element)                                               \
    {                                                                                                                  \
        static const signed char factors[][2] = {{1, 0}, {0, 1}, {-1, 0}, {1, 1}};                                     \
        name_##_t *value = element;                                                                                    \
        bool sum = MT_OP_SUM == op;                                                                                    \
        value->re = (part_)(sum ? ((double)(random % 33) - 16) / 4 : (double)factors[random >> 62][0]);                \
        value->im = (part_)(sum ? ((double)(random / 33 % 33) - 16) / 4 : (double)factors[random >> 62][1]);           \
    }                                                                                                                  \
    static void combine_##name_(mt_op_t op, void *accumulator, const void *operand)                                    \
    {                                                                                                                  \
        name_##_t a = *(name_##_t *)accumulator, b = *(const name_##_t *)operand, result;                              \
        result.re = MT_OP_SUM == op ? a.re + b.re : a.re * b.re - a.im * b.im;                                         \
        result.im = MT_OP_SUM == op ? a.im + b.im : a.re * b.im + a.im * b.re;                                         \
        *(name_##_t *)accumulator = result;                                                                            \
    }                                                                                                                  \
    static bool equal_##name_(const void *a, const void *b)                                                            \
    {                                                                                                                  \
        const name_##_t *x = a, *y = b;                                                                                \
        return x->re == y->re && x->im == y->im;                                                                       \
    }                                                                                                                  \
    static const mt_layout_t name_ = {sizeof(name_##_t), on_gpu_,         on_twin_,                                    \
                                      make_##name_,      combine_##name_, equal_##name_};

/* Few values, so that ties are frequent and the smaller index decides. Padding is not compared. */
#define PAIR(name_, value_, index_, on_gpu_, on_twin_)                                                                 \
    typedef struct {                                                                                                   \
        value_ value;                                                                                                  \
        index_ index;                                                                                                  \
    } name_##_t;                                                                                                       \
    static void make_##name_(mt_op_t op, uint64_t random, void *element)                                               \
    {                                                                                                                  \
        name_##_t *pair = element;                                                                                     \
        (void)op;                                                                                                      \
        pair->value = (value_)((int)(random % 5) - 2);                                                                 \
        pair->index = (index_)((random >> 40) & 0xff);                                                                 \
    }                                                                                                                  \
    static void combine_##name_(mt_op_t op, void *accumulator, const void *operand)                                    \
    {                                                                                                                  \
        name_##_t *a = accumulator;                                                                                    \
        const name_##_t *b = operand;                                                                                  \
        bool better = MT_OP_MAXLOC == op ? b->value > a->value : b->value < a->value;                                  \
        if (better || (b->value == a->value && b->index < a->index)) {                                                 \
            a->value = b->value;                                                                                       \
            a->index = b->index;                                                                                       \
        }                                                                                                              \
    }                                                                                                                  \
    static bool equal_##name_(const void *a, const void *b)                                                            \
    {                                                                                                                  \
        const name_##_t *x = a, *y = b;                                                                                \
        return x->value == y->value && x->index == y->index;                                                           \
    }                                                                                                                  \
    static const mt_layout_t name_ = {sizeof(name_##_t), on_gpu_,         on_twin_,                                    \
                                      make_##name_,      combine_##name_, equal_##name_};

INTEGER(int8, int8_t)
INTEGER(uint8, uint8_t)
INTEGER(int16, int16_t)
INTEGER(uint16, uint16_t)
INTEGER(int32, int32_t)
INTEGER(uint32, uint32_t)
INTEGER(int64, int64_t)
INTEGER(uint64, uint64_t)
LOGICAL(logical8, uint8_t)
LOGICAL(logical16, uint16_t)
LOGICAL(logical32, uint32_t)
LOGICAL(logical64, uint64_t)
FLOATING(float32, float, true, true)
FLOATING(float64, double, true, true)
FLOATING(long_double, long double, false, true)
COMPLEX(complex64, float, true, true)
COMPLEX(complex128, double, true, true)
COMPLEX(complex_long, long double, false, false)
PAIR(short_int, short, int, true, true)
PAIR(int_int, int, int, true, true)
PAIR(long_int, long, int, true, true)
PAIR(float_int, float, int, true, true)
PAIR(double_int, double, int, true, true)
PAIR(long_double_int, long double, int, false, false)
PAIR(float_float, float, float, true, true)
PAIR(double_double, double, double, true, true)
#ifdef __SIZEOF_FLOAT128__
FLOATING(float128, __float128, false, false)
COMPLEX(complex256, __float128, false, false)
#endif

#define BIT(op_) (1u << MT_OP_##op_)
#define INTEGER_OPS                                                                                                    \
    (BIT(MAX) | BIT(MIN) | BIT(SUM) | BIT(PROD) | BIT(LAND) | BIT(BAND) | BIT(LOR) | BIT(BOR) | BIT(LXOR) | BIT(BXOR))
#define FLOATING_OPS (BIT(MAX) | BIT(MIN) | BIT(SUM) | BIT(PROD))
#define LOGICAL_OPS (BIT(LAND) | BIT(LOR) | BIT(LXOR))
#define COMPLEX_OPS (BIT(SUM) | BIT(PROD))
#define BYTE_OPS (BIT(BAND) | BIT(BOR) | BIT(BXOR))
#define PAIR_OPS (BIT(MAXLOC) | BIT(MINLOC))

#define MAX_TYPES 96
static mt_type_t types[MAX_TYPES];
static int type_count;

/* The first layout of the right size; a type that this Open MPI lacks has none. */
static void add(const char *name, MPI_Datatype type, unsigned ops, const mt_layout_t *const *layouts)
{
    MPI_Aint low, extent;

    if (MPI_DATATYPE_NULL == type || MPI_SUCCESS != MPI_Type_get_extent(type, &low, &extent) || extent <= 0) {
        return;
    }
    for (; *layouts != NULL; ++layouts) {
        if ((*layouts)->extent == (size_t)extent && type_count < MAX_TYPES) {
            types[type_count++] = (mt_type_t){name, type, *layouts, ops};
            return;
        }
    }
}

static const mt_layout_t *const signed_layouts[] = {&int8, &int16, &int32, &int64, NULL};
static const mt_layout_t *const unsigned_layouts[] = {&uint8, &uint16, &uint32, &uint64, NULL};
static const mt_layout_t *const logical_layouts[] = {&logical8, &logical16, &logical32, &logical64, NULL};
static const mt_layout_t *const float_layouts[] = {&float32, &float64, &long_double, NULL};
static const mt_layout_t *const complex_layouts[] = {&complex64, &complex128, &complex_long, NULL};
#ifdef __SIZEOF_FLOAT128__
static const mt_layout_t *const quad_layouts[] = {&float128, NULL};
static const mt_layout_t *const complex_quad_layouts[] = {&complex256, NULL};
#endif

#define ADD(type_, ops_, layouts_) add(#type_, type_, ops_, layouts_)
#define ADD_ONE(type_, ops_, layout_) add(#type_, type_, ops_, (const mt_layout_t *const[]){&(layout_), NULL})

/* Adds the types of C to the table. */
static void add_c_types(void)
{
    ADD(MPI_CHAR, INTEGER_OPS, signed_layouts);
    ADD(MPI_SIGNED_CHAR, INTEGER_OPS, signed_layouts);
    ADD(MPI_UNSIGNED_CHAR, INTEGER_OPS, unsigned_layouts);
    ADD(MPI_SHORT, INTEGER_OPS, signed_layouts);
    ADD(MPI_UNSIGNED_SHORT, INTEGER_OPS, unsigned_layouts);
    ADD(MPI_INT, INTEGER_OPS, signed_layouts);
    ADD(MPI_UNSIGNED, INTEGER_OPS, unsigned_layouts);
    ADD(MPI_LONG, INTEGER_OPS, signed_layouts);
    ADD(MPI_UNSIGNED_LONG, INTEGER_OPS, unsigned_layouts);
    ADD(MPI_LONG_LONG, INTEGER_OPS, signed_layouts);
    ADD(MPI_UNSIGNED_LONG_LONG, INTEGER_OPS, unsigned_layouts);
    ADD(MPI_INT8_T, INTEGER_OPS, signed_layouts);
    ADD(MPI_UINT8_T, INTEGER_OPS, unsigned_layouts);
    ADD(MPI_INT16_T, INTEGER_OPS, signed_layouts);
    ADD(MPI_UINT16_T, INTEGER_OPS, unsigned_layouts);
    ADD(MPI_INT32_T, INTEGER_OPS, signed_layouts);
    ADD(MPI_UINT32_T, INTEGER_OPS, unsigned_layouts);
    ADD(MPI_INT64_T, INTEGER_OPS, signed_layouts);
    ADD(MPI_UINT64_T, INTEGER_OPS, unsigned_layouts);
    ADD(MPI_AINT, INTEGER_OPS, signed_layouts);
    ADD(MPI_OFFSET, INTEGER_OPS, signed_layouts);
    ADD(MPI_COUNT, INTEGER_OPS, signed_layouts);
    ADD(MPI_FLOAT, FLOATING_OPS, float_layouts);
    ADD(MPI_DOUBLE, FLOATING_OPS, float_layouts);
    ADD(MPI_LONG_DOUBLE, FLOATING_OPS, float_layouts);
    ADD(MPI_C_BOOL, LOGICAL_OPS, logical_layouts);
    ADD(MPI_CXX_BOOL, LOGICAL_OPS, logical_layouts);
    ADD(MPI_C_FLOAT_COMPLEX, COMPLEX_OPS, complex_layouts);
    ADD(MPI_C_DOUBLE_COMPLEX, COMPLEX_OPS, complex_layouts);
    ADD(MPI_C_LONG_DOUBLE_COMPLEX, COMPLEX_OPS, complex_layouts);
    ADD(MPI_CXX_FLOAT_COMPLEX, COMPLEX_OPS, complex_layouts);
    ADD(MPI_CXX_DOUBLE_COMPLEX, COMPLEX_OPS, complex_layouts);
    ADD(MPI_CXX_LONG_DOUBLE_COMPLEX, COMPLEX_OPS, complex_layouts);
    ADD(MPI_BYTE, BYTE_OPS, unsigned_layouts);
    ADD_ONE(MPI_SHORT_INT, PAIR_OPS, short_int);
    ADD_ONE(MPI_2INT, PAIR_OPS, int_int);
    ADD_ONE(MPI_LONG_INT, PAIR_OPS, long_int);
    ADD_ONE(MPI_FLOAT_INT, PAIR_OPS, float_int);
    ADD_ONE(MPI_DOUBLE_INT, PAIR_OPS, double_int);
    ADD_ONE(MPI_LONG_DOUBLE_INT, PAIR_OPS, long_double_int);
}

/* Adds the types of Fortran to the table. */
static void add_fortran_types(void)
{
    ADD(MPI_INTEGER, INTEGER_OPS, signed_layouts);
    ADD(MPI_INTEGER1, INTEGER_OPS, signed_layouts);
    ADD(MPI_INTEGER2, INTEGER_OPS, signed_layouts);
    ADD(MPI_INTEGER4, INTEGER_OPS, signed_layouts);
    ADD(MPI_INTEGER8, INTEGER_OPS, signed_layouts);
    ADD(MPI_REAL, FLOATING_OPS, float_layouts);
    ADD(MPI_DOUBLE_PRECISION, FLOATING_OPS, float_layouts);
    ADD(MPI_REAL4, FLOATING_OPS, float_layouts);
    ADD(MPI_REAL8, FLOATING_OPS, float_layouts);
    ADD(MPI_COMPLEX, COMPLEX_OPS, complex_layouts);
    ADD(MPI_DOUBLE_COMPLEX, COMPLEX_OPS, complex_layouts);
    ADD(MPI_COMPLEX8, COMPLEX_OPS, complex_layouts);
    ADD(MPI_COMPLEX16, COMPLEX_OPS, complex_layouts);
    ADD(MPI_LOGICAL, LOGICAL_OPS, logical_layouts);
    ADD_ONE(MPI_2REAL, PAIR_OPS, float_float);
    ADD_ONE(MPI_2DOUBLE_PRECISION, PAIR_OPS, double_double);
    ADD_ONE(MPI_2INTEGER, PAIR_OPS, int_int);
#if defined(OPEN_MPI)
    ADD(MPI_LOGICAL1, LOGICAL_OPS, logical_layouts);
    ADD(MPI_LOGICAL2, LOGICAL_OPS, logical_layouts);
    ADD(MPI_LOGICAL4, LOGICAL_OPS, logical_layouts);
    ADD(MPI_LOGICAL8, LOGICAL_OPS, logical_layouts);
#endif
#ifdef __SIZEOF_FLOAT128__
    ADD(MPI_REAL16, FLOATING_OPS, quad_layouts);
    ADD(MPI_COMPLEX32, COMPLEX_OPS, complex_quad_layouts);
#endif
}

int mt_types(const mt_type_t **types_p)
{
    if (0 == type_count) {
        add_c_types();
        add_fortran_types();
    }
    *types_p = types;
    return type_count;
}

const mt_type_t *mt_type(MPI_Datatype type)
{
    const mt_type_t *all;
    int count = mt_types(&all);

    for (int i = 0; i < count; ++i) {
        if (all[i].type == type) {
            return &all[i];
        }
    }
    abort();
}
