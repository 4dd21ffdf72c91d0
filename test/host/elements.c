#include "test/host/elements.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "test/host/reference.h"

typedef struct {
    short value;
    int index;
} short_int_t;
typedef struct {
    long value;
    int index;
} long_int_t;
typedef struct {
    double value;
    int index;
} double_int_t;

#define PLAIN(name_, kind_, size_)                                                                                     \
    {                                                                                                                  \
        name_, size_, kind_, size_, ELEMENT_SIGNED, 0, 0, false                                                        \
    }
#define COMPLEX(name_, kind_, size_)                                                                                   \
    {                                                                                                                  \
        name_, 2 * (size_), kind_, size_, kind_, size_, size_, false                                                   \
    }
#define PAIR(name_, extent_, kind_, size_, second_, second_size_, offset_)                                             \
    {                                                                                                                  \
        name_, extent_, kind_, size_, second_, second_size_, offset_, true                                             \
    }

static const element_t elements[MSCCLPP_DTYPE_LAST] = {
    [MSCCLPP_DTYPE_INT8] = PLAIN("int8", ELEMENT_SIGNED, 1),
    [MSCCLPP_DTYPE_UINT8] = PLAIN("uint8", ELEMENT_UNSIGNED, 1),
    [MSCCLPP_DTYPE_INT16] = PLAIN("int16", ELEMENT_SIGNED, 2),
    [MSCCLPP_DTYPE_UINT16] = PLAIN("uint16", ELEMENT_UNSIGNED, 2),
    [MSCCLPP_DTYPE_INT32] = PLAIN("int32", ELEMENT_SIGNED, 4),
    [MSCCLPP_DTYPE_UINT32] = PLAIN("uint32", ELEMENT_UNSIGNED, 4),
    [MSCCLPP_DTYPE_INT64] = PLAIN("int64", ELEMENT_SIGNED, 8),
    [MSCCLPP_DTYPE_UINT64] = PLAIN("uint64", ELEMENT_UNSIGNED, 8),
    [MSCCLPP_DTYPE_FLOAT16] = PLAIN("float16", ELEMENT_HALF, 2),
    [MSCCLPP_DTYPE_BFLOAT16] = PLAIN("bfloat16", ELEMENT_BFLOAT, 2),
    [MSCCLPP_DTYPE_FLOAT32] = PLAIN("float32", ELEMENT_FLOAT, 4),
    [MSCCLPP_DTYPE_FLOAT64] = PLAIN("float64", ELEMENT_DOUBLE, 8),
    [MSCCLPP_DTYPE_LONG_DOUBLE] = PLAIN("long_double", ELEMENT_LONG_DOUBLE, sizeof(long double)),
    [MSCCLPP_DTYPE_COMPLEX64] = COMPLEX("complex64", ELEMENT_FLOAT, 4),
    [MSCCLPP_DTYPE_COMPLEX128] = COMPLEX("complex128", ELEMENT_DOUBLE, 8),
    [MSCCLPP_DTYPE_SHORT_INT] = PAIR("short_int", sizeof(short_int_t), ELEMENT_SIGNED, sizeof(short), ELEMENT_SIGNED,
                                     sizeof(int), offsetof(short_int_t, index)),
    [MSCCLPP_DTYPE_INT_INT] =
        PAIR("int_int", 2 * sizeof(int), ELEMENT_SIGNED, sizeof(int), ELEMENT_SIGNED, sizeof(int), sizeof(int)),
    [MSCCLPP_DTYPE_LONG_INT] = PAIR("long_int", sizeof(long_int_t), ELEMENT_SIGNED, sizeof(long), ELEMENT_SIGNED,
                                    sizeof(int), offsetof(long_int_t, index)),
    [MSCCLPP_DTYPE_FLOAT_INT] =
        PAIR("float_int", sizeof(float) + sizeof(int), ELEMENT_FLOAT, sizeof(float), ELEMENT_SIGNED, sizeof(int), 4),
    [MSCCLPP_DTYPE_DOUBLE_INT] = PAIR("double_int", sizeof(double_int_t), ELEMENT_DOUBLE, sizeof(double),
                                      ELEMENT_SIGNED, sizeof(int), offsetof(double_int_t, index)),
    [MSCCLPP_DTYPE_FLOAT_FLOAT] =
        PAIR("float_float", 2 * sizeof(float), ELEMENT_FLOAT, sizeof(float), ELEMENT_FLOAT, sizeof(float), 4),
    [MSCCLPP_DTYPE_DOUBLE_DOUBLE] =
        PAIR("double_double", 2 * sizeof(double), ELEMENT_DOUBLE, sizeof(double), ELEMENT_DOUBLE, sizeof(double), 8),
};

static const char *const op_names[MSCCLPP_OP_LAST] = {
    [MSCCLPP_OP_MAX] = "max",   [MSCCLPP_OP_MIN] = "min",       [MSCCLPP_OP_SUM] = "sum",
    [MSCCLPP_OP_PROD] = "prod", [MSCCLPP_OP_LAND] = "land",     [MSCCLPP_OP_BAND] = "band",
    [MSCCLPP_OP_LOR] = "lor",   [MSCCLPP_OP_BOR] = "bor",       [MSCCLPP_OP_LXOR] = "lxor",
    [MSCCLPP_OP_BXOR] = "bxor", [MSCCLPP_OP_MAXLOC] = "maxloc", [MSCCLPP_OP_MINLOC] = "minloc",
};

const element_t *element_of(mscclpp_dtype_t dtype)
{
    return &elements[dtype];
}

const char *element_op_name(mscclpp_op_t op)
{
    return op_names[op];
}

int element_find(const char *name)
{
    int i;

    for (i = 0; i < MSCCLPP_DTYPE_LAST; ++i) {
        if (strcmp(elements[i].name, name) == 0) {
            return i;
        }
    }
    return -1;
}

int element_find_op(const char *name)
{
    int i;

    for (i = 0; i < MSCCLPP_OP_LAST; ++i) {
        if (strcmp(op_names[i], name) == 0) {
            return i;
        }
    }
    return -1;
}

/* Where the last member of an element ends. */
static size_t true_extent(const element_t *element)
{
    return element->second_size != 0 ? element->second_offset + element->second_size : element->size;
}

size_t element_span(mscclpp_dtype_t dtype, uint64_t count)
{
    const element_t *element = &elements[dtype];

    return count == 0 ? 0 : (size_t)(count - 1) * element->extent + true_extent(element);
}

/* The bytes that hold a value. An x87 long double has 10 of them. */
static size_t value_bytes(const element_t *element)
{
    return element->kind == ELEMENT_LONG_DOUBLE && LDBL_MANT_DIG == 64 ? 10 : element->size;
}

bool element_has_byte(mscclpp_dtype_t dtype, size_t offset)
{
    const element_t *element = &elements[dtype];

    return offset < value_bytes(element) ||
           (offset >= element->second_offset && offset < element->second_offset + element->second_size);
}

uint64_t random_next(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

uint64_t random_mix(uint64_t a, uint64_t b)
{
    uint64_t state = a ^ b * UINT64_C(0xd6e8feb86659fd93);

    return random_next(&state);
}

uint64_t random_below(uint64_t *state, uint64_t limit)
{
    return random_next(state) % limit;
}

/* Draws an integer that is interesting for the operation. The caller uses its low bytes. */
static uint64_t draw_integer(mscclpp_op_t op, uint64_t nranks, uint64_t *state)
{
    uint64_t bits = random_next(state);

    switch (op) {
    case MSCCLPP_OP_LAND:
        return random_below(state, 2 * nranks) == 0 ? 0 : bits | 1;
    case MSCCLPP_OP_LOR:
        return random_below(state, 2 * nranks) != 0 ? 0 : bits | 1;
    case MSCCLPP_OP_LXOR:
        return bits >> 63 != 0 ? 0 : bits | 1;
    case MSCCLPP_OP_BAND:
        return bits | random_next(state) | random_next(state);
    default:
        return bits;
    }
}

/* Draws a number other than 0 of magnitude 2^-range to 2^(range + 1); for sums and comparisons also some extremes. */
static long double draw_real(const element_t *element, mscclpp_op_t op, uint64_t *state)
{
    uint64_t bits = random_next(state);
    int range = op == MSCCLPP_OP_PROD ? 1 : 6;
    int exponent = (int)random_below(state, (uint64_t)(2 * range + 1)) - range;
    long double value = ldexpl((long double)(bits | UINT64_C(1) << 63), exponent - 63);

    if (op != MSCCLPP_OP_PROD && element->second_size == 0) {
        switch (bits % 64) {
        case 0: /* sums of a few of these leave the range of a half */
            value = 30000.0L + (long double)(bits >> 50);
            break;
        case 1: /* below the smallest normal half */
            value = ldexpl((long double)(bits >> 54 | 1), -24);
            break;
        case 2:
            return 0.0L;
        case 3:
            if (bits >> 60 == 0) {
                return HUGE_VALL;
            }
            break;
        default:
            break;
        }
    }
    return random_next(state) >> 63 != 0 ? -value : value;
}

/* Stores a number in a floating-point format. */
static void store_real(element_kind_t kind, long double value, unsigned char *to)
{
    uint16_t half;
    float single = (float)value;
    double twice = (double)value;

    switch (kind) {
    case ELEMENT_HALF:
        half = reference_to_half(twice);
        memcpy(to, &half, sizeof(half));
        break;
    case ELEMENT_BFLOAT:
        half = reference_to_bfloat(twice);
        memcpy(to, &half, sizeof(half));
        break;
    case ELEMENT_FLOAT:
        memcpy(to, &single, sizeof(single));
        break;
    case ELEMENT_DOUBLE:
        memcpy(to, &twice, sizeof(twice));
        break;
    default:
        memcpy(to, &value, value_bytes(&elements[MSCCLPP_DTYPE_LONG_DOUBLE]));
        break;
    }
}

/* Whole numbers from -3 to 3 for values, from 0 to 7 for indices: ties of both kinds. */
static void store_small(element_kind_t kind, size_t size, int value, unsigned char *to)
{
    int64_t wide = value;

    if (kind == ELEMENT_SIGNED) {
        memcpy(to, &wide, size);
    } else {
        store_real(kind, (long double)value, to);
    }
}

void elements_fill(mscclpp_dtype_t dtype, mscclpp_op_t op, int nranks, uint64_t seed, void *buffer, uint64_t count)
{
    const element_t *element = &elements[dtype];
    unsigned char *to = buffer;
    uint64_t i, bits;

    for (i = 0; i < count; ++i, to += element->extent) {
        if (element->pair) {
            store_small(element->kind, element->size, (int)random_below(&seed, 7) - 3, to);
            store_small(element->second_kind, element->second_size, (int)random_below(&seed, 8),
                        to + element->second_offset);
        } else if (element->kind == ELEMENT_SIGNED || element->kind == ELEMENT_UNSIGNED) {
            bits = draw_integer(op, (uint64_t)nranks, &seed);
            memcpy(to, &bits, element->size);
        } else {
            store_real(element->kind, draw_real(element, op, &seed), to);
            if (element->second_size != 0) {
                store_real(element->second_kind, draw_real(element, op, &seed), to + element->second_offset);
            }
        }
    }
}
