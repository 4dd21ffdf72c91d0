/* Arithmetic on unsigned integers that C has no operator for. No function has side effects. */
#ifndef MCA_COMMON_BASE_NUMBERS_H
#define MCA_COMMON_BASE_NUMBERS_H

#include <stdint.h>

/* Returns the smaller of the two numbers. */
static inline uint64_t mscclpp_min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Returns the larger of the two numbers. */
static inline uint64_t mscclpp_max(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Returns the quotient, rounded up. The divisor must not be 0, and the sum of both numbers must fit 64 bits. */
static inline uint64_t mscclpp_divide_up(uint64_t dividend, uint64_t divisor)
{
    return (dividend + divisor - 1) / divisor;
}

/* Returns the smallest multiple of `step` that is not smaller than `value`. As above, `step` must not be 0. */
static inline uint64_t mscclpp_round_up(uint64_t value, uint64_t step)
{
    return mscclpp_divide_up(value, step) * step;
}

/* Returns the largest multiple of `step` that is not larger than `value`. `step` must not be 0. */
static inline uint64_t mscclpp_round_down(uint64_t value, uint64_t step)
{
    return value / step * step;
}

#endif
