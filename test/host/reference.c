#include "test/host/reference.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/host/elements.h"
#include "test/host/rank_threads.h"

/* A binary format of 16 bits. */
typedef struct {
    int mantissa; /* bits after the leading one */
    int bias;
} format_t;

static const format_t half_format = {10, 15};
static const format_t bfloat_format = {7, 127};

/* The value of a number of 16 bits. */
static double decode(const format_t *format, uint16_t bits)
{
    int exponent = (bits & 0x7fff) >> format->mantissa;
    int fraction = bits & ((1 << format->mantissa) - 1);
    int largest = (1 << (15 - format->mantissa)) - 1;
    double value;

    if (exponent == largest) {
        value = fraction != 0 ? (double)NAN : HUGE_VAL;
    } else if (exponent == 0) {
        value = ldexp(fraction, 1 - format->bias - format->mantissa);
    } else {
        value = ldexp(fraction + (1 << format->mantissa), exponent - format->bias - format->mantissa);
    }
    return bits >> 15 != 0 ? -value : value;
}

/* The number of 16 bits nearest to a value. */
static uint16_t encode(const format_t *format, double value)
{
    int largest = (1 << (15 - format->mantissa)) - 1;
    unsigned sign = signbit(value) ? 0x8000u : 0, exponent_bits;
    int exponent;
    double quanta;

    if (isnan(value)) {
        return (uint16_t)(sign | 0x7fffu);
    }
    value = fabs(value);
    if (isinf(value)) {
        return (uint16_t)(sign | (unsigned)largest << format->mantissa);
    }
    exponent = value == 0 ? 1 - format->bias : ilogb(value);
    if (exponent < 1 - format->bias) {
        exponent = 1 - format->bias;
    }
    /* The value in units of the last bit. If it carries into the next exponent, the addition below gets that right. */
    quanta = nearbyint(ldexp(value, format->mantissa - exponent));
    exponent_bits = (unsigned)(exponent + format->bias - 1);
    exponent_bits = (exponent_bits << format->mantissa) + (unsigned)quanta;
    if (exponent_bits >> format->mantissa >= (unsigned)largest) {
        exponent_bits = (unsigned)largest << format->mantissa;
    }
    return (uint16_t)(sign | exponent_bits);
}

double reference_from_half(uint16_t bits)
{
    return decode(&half_format, bits);
}

double reference_from_bfloat(uint16_t bits)
{
    return decode(&bfloat_format, bits);
}

uint16_t reference_to_half(double value)
{
    return encode(&half_format, value);
}

uint16_t reference_to_bfloat(double value)
{
    return encode(&bfloat_format, value);
}

/* The bits of an integer, sign or zero extended. */
static uint64_t load_integer(const element_t *element, const unsigned char *from)
{
    uint64_t bits = 0;

    memcpy(&bits, from, element->size);
    if (element->kind == ELEMENT_SIGNED && element->size < 8 && bits >> (8 * element->size - 1) != 0) {
        bits |= ~UINT64_C(0) << 8 * element->size;
    }
    return bits;
}

/* Combines two integers. */
static uint64_t combine_integer(mscclpp_op_t op, bool is_signed, uint64_t x, uint64_t y)
{
    bool greater = is_signed ? (int64_t)x > (int64_t)y : x > y;

    switch (op) {
    case MSCCLPP_OP_MAX:
        return greater ? x : y;
    case MSCCLPP_OP_MIN:
        return greater ? y : x;
    case MSCCLPP_OP_SUM:
        return x + y;
    case MSCCLPP_OP_PROD:
        return x * y;
    case MSCCLPP_OP_LAND:
        return x && y;
    case MSCCLPP_OP_BAND:
        return x & y;
    case MSCCLPP_OP_LOR:
        return x || y;
    case MSCCLPP_OP_BOR:
        return x | y;
    case MSCCLPP_OP_LXOR:
        return !x != !y;
    case MSCCLPP_OP_BXOR:
        return x ^ y;
    default:
        return 0;
    }
}

/* Combines integers of all ranks, in their order. */
static void reduce_integer(const element_t *element, mscclpp_op_t op, const unsigned char *const *from, int nranks,
                           unsigned char *to)
{
    uint64_t bits = load_integer(element, from[0]);
    int rank;

    for (rank = 1; rank < nranks; ++rank) {
        bits = combine_integer(op, element->kind == ELEMENT_SIGNED, bits, load_integer(element, from[rank]));
        /* Narrow results wrap before they are compared again. */
        memcpy(to, &bits, element->size);
        bits = load_integer(element, to);
    }
    memcpy(to, &bits, element->size);
}

/* Loads a number of any floating point type exactly. */
static long double load_real(element_kind_t kind, const unsigned char *from)
{
    uint16_t bits;
    float single;
    double twice;
    long double extended;

    switch (kind) {
    case ELEMENT_HALF:
        memcpy(&bits, from, sizeof(bits));
        return reference_from_half(bits);
    case ELEMENT_BFLOAT:
        memcpy(&bits, from, sizeof(bits));
        return reference_from_bfloat(bits);
    case ELEMENT_FLOAT:
        memcpy(&single, from, sizeof(single));
        return single;
    case ELEMENT_DOUBLE:
        memcpy(&twice, from, sizeof(twice));
        return twice;
    default:
        memcpy(&extended, from, sizeof(extended));
        return extended;
    }
}

/* Stores a number in a floating-point format. */
static void store_real(element_kind_t kind, long double value, unsigned char *to)
{
    uint16_t bits;
    float single = (float)value;
    double twice = (double)value;

    switch (kind) {
    case ELEMENT_HALF:
        bits = reference_to_half(twice);
        memcpy(to, &bits, sizeof(bits));
        break;
    case ELEMENT_BFLOAT:
        bits = reference_to_bfloat(twice);
        memcpy(to, &bits, sizeof(bits));
        break;
    case ELEMENT_FLOAT:
        memcpy(to, &single, sizeof(single));
        break;
    case ELEMENT_DOUBLE:
        memcpy(to, &twice, sizeof(twice));
        break;
    default:
        memcpy(to, &value, LDBL_MANT_DIG == 64 ? 10 : sizeof(value));
        break;
    }
}

/* One rounded operation in the type's own precision, which for 16-bit types is that of a float. */
static long double combine_real(element_kind_t kind, mscclpp_op_t op, long double x, long double y)
{
    if (op == MSCCLPP_OP_MAX) {
        return fmaxl(x, y);
    }
    if (op == MSCCLPP_OP_MIN) {
        return fminl(x, y);
    }
    switch (kind) {
    case ELEMENT_DOUBLE:
        return op == MSCCLPP_OP_SUM ? (double)x + (double)y : (double)x * (double)y;
    case ELEMENT_LONG_DOUBLE:
        return op == MSCCLPP_OP_SUM ? x + y : x * y;
    default:
        return op == MSCCLPP_OP_SUM ? (float)x + (float)y : (float)x * (float)y;
    }
}

/* Combines numbers of all ranks, in their order. */
static void reduce_real(element_kind_t kind, mscclpp_op_t op, const unsigned char *const *from, int nranks,
                        unsigned char *to)
{
    long double value = load_real(kind, from[0]);
    int rank;

    for (rank = 1; rank < nranks; ++rank) {
        value = combine_real(kind, op, value, load_real(kind, from[rank]));
    }
    store_real(kind, value, to);
}

/* Products of two floats are exact in double, so only the two roundings of the textbook formula remain. */
static void reduce_complex(const element_t *element, mscclpp_op_t op, const unsigned char *const *from, int nranks,
                           unsigned char *to)
{
    long double re = load_real(element->kind, from[0]);
    long double im = load_real(element->kind, from[0] + element->second_offset);
    int rank;

    for (rank = 1; rank < nranks; ++rank) {
        long double x = load_real(element->kind, from[rank]);
        long double y = load_real(element->kind, from[rank] + element->second_offset);
        long double product_re = re * x - im * y, product_im = re * y + im * x;

        if (op == MSCCLPP_OP_SUM) {
            re = combine_real(element->kind, op, re, x);
            im = combine_real(element->kind, op, im, y);
        } else {
            re = element->kind == ELEMENT_FLOAT ? (float)product_re : (double)product_re;
            im = element->kind == ELEMENT_FLOAT ? (float)product_im : (double)product_im;
        }
    }
    store_real(element->kind, re, to);
    store_real(element->kind, im, to + element->second_offset);
}

/* Sorts by value, then by index: the first in that order wins, whatever the order of ranks. */
static void reduce_pair(const element_t *element, mscclpp_op_t op, const unsigned char *const *from, int nranks,
                        unsigned char *to)
{
    long double best = 0, best_index = 0;
    int rank, winner = -1;

    for (rank = 0; rank < nranks; ++rank) {
        long double value, index;

        if (element->kind == ELEMENT_SIGNED) {
            value = (long double)(int64_t)load_integer(element, from[rank]);
        } else {
            value = load_real(element->kind, from[rank]);
        }
        if (element->second_kind == ELEMENT_SIGNED) {
            int whole;

            memcpy(&whole, from[rank] + element->second_offset, sizeof(whole));
            index = whole;
        } else {
            index = load_real(element->second_kind, from[rank] + element->second_offset);
        }
        if (op == MSCCLPP_OP_MINLOC) {
            value = -value;
        }
        if (winner < 0 || value > best || (value == best && index < best_index)) {
            winner = rank;
            best = value;
            best_index = index;
        }
    }
    memcpy(to, from[winner], element->size);
    memcpy(to + element->second_offset, from[winner] + element->second_offset, element->second_size);
}

void reference_reduce(mscclpp_dtype_t dtype, mscclpp_op_t op, const void *const *operands, int nranks, uint64_t first,
                      uint64_t last, void *result)
{
    const element_t *element = element_of(dtype);
    const unsigned char *from[RANKS_MAX];
    uint64_t i;
    int rank;

    for (i = first; i < last; ++i) {
        unsigned char *to = (unsigned char *)result + i * element->extent;

        for (rank = 0; rank < nranks; ++rank) {
            from[rank] = (const unsigned char *)operands[rank] + i * element->extent;
        }
        if (element->pair) {
            reduce_pair(element, op, from, nranks, to);
        } else if (element->second_size != 0) {
            reduce_complex(element, op, from, nranks, to);
        } else if (element->kind == ELEMENT_SIGNED || element->kind == ELEMENT_UNSIGNED) {
            reduce_integer(element, op, from, nranks, to);
        } else {
            reduce_real(element->kind, op, from, nranks, to);
        }
    }
}

void reference_reduce_doubled(mscclpp_dtype_t dtype, mscclpp_op_t op, unsigned char *const *operands, int nodes,
                              uint64_t first, uint64_t last, void *result)
{
    unsigned char *have[RANKS_MAX];
    const void *pair[2];
    int power = 1, pairs, i, distance;

    while (2 * power <= nodes) {
        power *= 2;
    }
    pairs = nodes - power;
    for (i = 0; i < power; ++i) {
        pair[0] = have[i] = operands[i < pairs ? 2 * i : i + pairs];
        if (i < pairs) {
            pair[1] = operands[2 * i + 1];
            reference_reduce(dtype, op, pair, 2, first, last, have[i]);
        }
    }
    for (distance = 1; distance < power; distance *= 2) {
        for (i = 0; i < power; i += 2 * distance) {
            pair[0] = have[i];
            pair[1] = have[i + distance];
            reference_reduce(dtype, op, pair, 2, first, last, have[i]);
        }
    }
    pair[0] = have[0];
    reference_reduce(dtype, op, pair, 1, first, last, result);
}

void reference_reduce_over_tree(mscclpp_dtype_t dtype, mscclpp_op_t op, mscclpp_dev_tree_place_t place,
                                unsigned char *const *operands, uint64_t first, uint64_t last, void *result)
{
    unsigned char *branch[MSCCLPP_DEV_TREES_CHILDREN] = {NULL};
    const void *parts[MSCCLPP_DEV_TREES_CHILDREN + 1];
    int used = 0;
    uint32_t i;

    for (i = 0; i < MSCCLPP_DEV_TREES_CHILDREN; ++i) {
        mscclpp_dev_tree_place_t below = place;

        below.node = mscclpp_dev_trees_child(&place, i);
        if (below.node != MSCCLPP_DEV_TREES_NONE) {
            branch[i] = malloc((last + 1) * element_of(dtype)->extent);
            if (branch[i] == NULL) {
                perror("malloc");
                exit(1);
            }
            reference_reduce_over_tree(dtype, op, below, operands, first, last, branch[i]);
            parts[used++] = branch[i];
        }
    }
    parts[used++] = operands[place.node];
    reference_reduce(dtype, op, parts, used, first, last, result);
    free(branch[0]);
    free(branch[1]);
}

bool reference_agrees(mscclpp_dtype_t dtype, mscclpp_op_t op, int nranks, const void *got, const void *want)
{
    const element_t *element = element_of(dtype);
    const unsigned char *a = got, *b = want;
    long double epsilon, re, im, size, bound;
    size_t offset;

    if (op != MSCCLPP_OP_PROD || element->second_size == 0) {
        for (offset = 0; offset < element->extent; ++offset) {
            if (element_has_byte(dtype, offset) && a[offset] != b[offset]) {
                return false;
            }
        }
        return true;
    }
    epsilon = element->kind == ELEMENT_FLOAT ? FLT_EPSILON : DBL_EPSILON;
    re = load_real(element->kind, b);
    im = load_real(element->kind, b + element->second_offset);
    size = hypotl(re, im);
    /* To either part each factor adds at most three roundings of half a unit: two of products and one of a sum. */
    bound = 3 * nranks * epsilon * size;
    return fabsl(load_real(element->kind, a) - re) <= bound &&
           fabsl(load_real(element->kind, a + element->second_offset) - im) <= bound;
}
