/* Elements of every type as the tests see them: their layout, and operands that show mistakes. */
#ifndef TEST_HOST_ELEMENTS_H
#define TEST_HOST_ELEMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/types/dtype.h"

typedef enum {
    ELEMENT_SIGNED,
    ELEMENT_UNSIGNED,
    ELEMENT_HALF,
    ELEMENT_BFLOAT,
    ELEMENT_FLOAT,
    ELEMENT_DOUBLE,
    ELEMENT_LONG_DOUBLE
} element_kind_t;

/* Up to two members: a value, and an imaginary part or an index. The table is independent of the code under test. */
typedef struct {
    const char *name;
    size_t extent;
    element_kind_t kind; /* of the first member */
    size_t size;         /* of the first member */
    element_kind_t second_kind;
    size_t second_size; /* 0: there is no second member */
    size_t second_offset;
    bool pair; /* value and index; else the second member is an imaginary part */
} element_t;

const element_t *element_of(mscclpp_dtype_t dtype);
const char *element_op_name(mscclpp_op_t op);

/* Types and operations by name, or -1. */
int element_find(const char *name);
int element_find_op(const char *name);

/* Bytes from the first byte of `count` elements to the last byte of the last member. */
size_t element_span(mscclpp_dtype_t dtype, uint64_t count);

/* True if byte `offset` of an element holds data, false if it is padding. */
bool element_has_byte(mscclpp_dtype_t dtype, size_t offset);

/* A generator whose numbers depend on nothing but its state. */
uint64_t random_next(uint64_t *state);
uint64_t random_mix(uint64_t a, uint64_t b);

/* A number from 0 to `limit` - 1. */
uint64_t random_below(uint64_t *state, uint64_t limit);

/*
 * Writes the operands of one rank. Their sums and products round and depend on the order. Integers wrap, logical
 * operations get zeros, and pairs have many ties. No operation yields a NaN, and comparisons get no negative zero,
 * because their results are not specified. Padding is not touched.
 */
void elements_fill(mscclpp_dtype_t dtype, mscclpp_op_t op, int nranks, uint64_t seed, void *buffer, uint64_t count);

#endif
