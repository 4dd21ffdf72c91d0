/*
 * What an all-reduce has to yield. This second implementation of the arithmetic combines element by element in rank
 * order. It shares neither code nor method with the kernels.
 */
#ifndef TEST_HOST_REFERENCE_H
#define TEST_HOST_REFERENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "device/lib/nodes_trees.h"
#include "device/types/dtype.h"

/* 16-bit floating point by double arithmetic. Rounding is to the nearest, ties to even. A NaN yields a quiet NaN. */
double reference_from_half(uint16_t bits);
double reference_from_bfloat(uint16_t bits);
uint16_t reference_to_half(double value);
uint16_t reference_to_bfloat(double value);

/* Combines elements `first` to `last` - 1 of the operands of ranks 0 to nranks - 1. Padding is not touched. */
void reference_reduce(mscclpp_dtype_t dtype, mscclpp_op_t op, const void *const *operands, int nranks, uint64_t first,
                      uint64_t last, void *result);

/*
 * The same for nodes that combine with one partner after another: as many pairs of neighbours as the number of nodes
 * exceeds a power of two are combined first, and then neighbours until one is left. Changes the operands.
 */
void reference_reduce_doubled(mscclpp_dtype_t dtype, mscclpp_op_t op, unsigned char *const *operands, int nodes,
                              uint64_t first, uint64_t last, void *result);

/*
 * The same for the nodes below a place in a tree: the results of its children's branches, and then its own. Takes
 * elements of up to `last` from the operands, which stay as they are. Exits if there is no memory.
 */
void reference_reduce_over_tree(mscclpp_dtype_t dtype, mscclpp_op_t op, mscclpp_dev_tree_place_t place,
                                unsigned char *const *operands, uint64_t first, uint64_t last, void *result);

/*
 * True if `got` is right for an element whose result should be `want`. The comparison is exact, except for products of
 * complex numbers: the compiler may fuse a multiplication and an addition, so these have a bound for `nranks` factors.
 */
bool reference_agrees(mscclpp_dtype_t dtype, mscclpp_op_t op, int nranks, const void *got, const void *want);

#endif
