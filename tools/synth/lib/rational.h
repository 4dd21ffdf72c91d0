/* Exact fractions. Numerators and denominators stay small here: they are counts of chunks and of link capacities. */
#ifndef TOOLS_SYNTH_LIB_RATIONAL_H
#define TOOLS_SYNTH_LIB_RATIONAL_H

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    int64_t num, den; /* den > 0, no common factor */
} synth_rational_t;

/* Returns the greatest common divisor; never negative. */
static inline int64_t synth_gcd(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t remainder = a % b;

        a = b;
        b = remainder;
    }
    return a < 0 ? -a : a;
}

/* Returns the fraction num/den in lowest terms; 0/1 for 0/0. */
static inline synth_rational_t synth_fraction(int64_t num, int64_t den)
{
    int64_t factor = synth_gcd(num, den);
    synth_rational_t fraction = {factor != 0 ? num / factor : 0, factor != 0 ? den / factor : 1};

    return fraction;
}

/* Returns a number below, equal to or above 0 if a is less than, equal to or greater than b. */
static inline int synth_compare(synth_rational_t a, synth_rational_t b)
{
    __int128 left = (__int128)a.num * b.den, right = (__int128)b.num * a.den;

    return left < right ? -1 : left > right;
}

static inline synth_rational_t synth_larger(synth_rational_t a, synth_rational_t b)
{
    return synth_compare(a, b) < 0 ? b : a;
}

/* Returns the least whole number that is at least a * factor. Neither may be negative. */
static inline int64_t synth_ceiling(synth_rational_t a, int64_t factor)
{
    return (int64_t)(((__int128)a.num * factor + a.den - 1) / a.den);
}

static inline double synth_value(synth_rational_t a)
{
    return (double)a.num / (double)a.den;
}

#endif
