/* The arithmetic of the kernels against the tests' own, and their access to user buffers of any alignment. */
#include "device/lib/reduce.h"

#include <math.h>

#include "device/kern/coll/blocks.h"
#include "device/launch/launch.h"
#include "test/host/elements.h"
#include "test/host/reference.h"
#include "test/unit/unit.h"

static bool same_value(float a, double b)
{
    return isnan(a) ? isnan(b) : (double)a == b && !signbit(a) == !signbit(b);
}

static float bits_to_float(uint32_t bits)
{
    float f;

    memcpy(&f, &bits, sizeof(f));
    return f;
}

/* A NaN may change its payload but not become a number. */
static bool same_half(uint16_t got, uint16_t wanted, double (*decode)(uint16_t))
{
    return isnan(decode(wanted)) ? isnan(decode(got)) : got == wanted;
}

/* One 16-bit format: every value both ways, and every place at which rounding changes its mind. */
static void test_format(const char *name, float (*widen)(uint16_t), uint16_t (*narrow)(float),
                        double (*decode)(uint16_t), uint16_t (*encode)(double), uint16_t infinity)
{
    uint64_t state = 99;
    int wrong_wide = 0, wrong_back = 0, wrong_round = 0, i;

    for (i = 0; i < 65536; ++i) {
        uint16_t bits = (uint16_t)i;
        float wide = widen(bits);

        wrong_wide += !same_value(wide, decode(bits));
        wrong_back += !same_half(narrow(wide), bits, decode);
        if ((bits & 0x7fff) < infinity) {
            /* Beyond the largest number the next one up would be 2^n. */
            double next = (bits & 0x7fff) == infinity - 1 ? 2 * decode(bits) - decode((uint16_t)(bits - 1))
                                                          : decode((uint16_t)(bits + 1));
            float middle = (float)((decode(bits) + next) / 2);
            float below = nextafterf(middle, 0), above = nextafterf(middle, bits >> 15 != 0 ? -INFINITY : INFINITY);

            wrong_round += narrow(middle) != encode(middle);
            wrong_round += narrow(below) != encode(below);
            wrong_round += narrow(above) != encode(above);
            wrong_round += narrow(below) != bits && decode(bits) != 0;
        }
    }
    for (i = 0; i < 1000000; ++i) {
        float f = bits_to_float((uint32_t)random_next(&state));

        wrong_round += !same_half(narrow(f), encode(f), decode);
    }
    CHECK_EQ(wrong_wide, 0);
    CHECK_EQ(wrong_back, 0);
    CHECK_EQ(wrong_round, 0);
    CHECK_EQ(narrow(INFINITY), infinity);
    CHECK_EQ(narrow(-INFINITY), infinity | 0x8000);
    CHECK_EQ(narrow(0.0f), 0);
    CHECK_EQ(narrow(-0.0f), 0x8000);
    CHECK(isnan(widen(narrow(NAN))));
    if (wrong_wide + wrong_back + wrong_round != 0) {
        fprintf(stderr, "    in %s\n", name);
    }
}

static float widen_half(uint16_t bits)
{
    return mscclpp_dev_f16_to_f32(bits);
}

static uint16_t narrow_half(float f)
{
    return mscclpp_dev_f32_to_f16(f);
}

static float widen_bfloat(uint16_t bits)
{
    return mscclpp_dev_bf16_to_f32(bits);
}

static uint16_t narrow_bfloat(float f)
{
    return mscclpp_dev_f32_to_bf16(f);
}

/* The reference itself at known values, so that two equal mistakes do not agree. */
static void test_reference(void)
{
    CHECK(reference_from_half(0x3c00) == 1.0);
    CHECK(reference_from_half(0xc000) == -2.0);
    CHECK(reference_from_half(0x7bff) == 65504.0);
    CHECK(reference_from_half(0x0001) == 0x1p-24);
    CHECK_EQ(reference_to_half(65519.0), 0x7bff);
    CHECK_EQ(reference_to_half(65520.0), 0x7c00);
    CHECK_EQ(reference_to_half(1.0 + 0x1p-11), 0x3c00);
    CHECK_EQ(reference_to_half(1.0 + 0x3p-11), 0x3c02);
    CHECK_EQ(reference_to_half(0x1p-25), 0);
    CHECK(reference_from_bfloat(0x3f80) == 1.0);
    CHECK(reference_from_bfloat(0x4049) == 3.140625);
    CHECK_EQ(reference_to_bfloat(3.14159265), 0x4049);
    CHECK_EQ(reference_to_bfloat(1.0 + 0x1p-8), 0x3f80);
    CHECK_EQ(reference_to_bfloat(3.4e38), 0x7f80);
}

/* One type and operation over a number of ranks: the accumulator against the reference, unit by unit. */
static bool combine(mscclpp_dtype_t dtype, mscclpp_op_t op, int nranks, bool hot, uint64_t seed)
{
    unsigned char operand[5][16], expected[16], got[16];
    const void *operands[5];
    const size_t extent = element_of(dtype)->extent;
    mscclpp_dev_acc_t acc;
    mscclpp_dev_vec_t v;
    size_t i;
    int r;

    for (r = 0; r < nranks; ++r) {
        memset(operand[r], 0x33 + r, sizeof(operand[r]));
        elements_fill(dtype, op, nranks, random_mix(seed, (uint64_t)r), operand[r], 16 / extent);
        operands[r] = operand[r];
        memcpy(&v, operand[r], sizeof(v));
        if (r == 0) {
            mscclpp_dev_acc_set(&acc, (int)dtype, v);
        } else {
            mscclpp_dev_acc_add(&acc, hot, (int)dtype, (int)op, v);
        }
    }
    v = mscclpp_dev_acc_get(&acc, (int)dtype);
    memcpy(got, &v, sizeof(got));
    memset(expected, 0, sizeof(expected));
    reference_reduce(dtype, op, operands, nranks, 0, 16 / extent, expected);
    for (i = 0; i < 16; i += extent) {
        if (!reference_agrees(dtype, op, nranks, got + i, expected + i)) {
            fprintf(stderr, "    %s %s, %d ranks, seed %llu, byte %zu\n", element_of(dtype)->name, element_op_name(op),
                    nranks, (unsigned long long)seed, i);
            return false;
        }
    }
    return true;
}

static void test_combinations(void)
{
    int dtype, op, nranks, supported = 0;
    uint64_t seed;

    for (dtype = 0; dtype < MSCCLPP_DTYPE_LAST; ++dtype) {
        CHECK_EQ(mscclpp_dev_dtype_extent((mscclpp_dtype_t)dtype), element_of((mscclpp_dtype_t)dtype)->extent);
        CHECK_EQ(mscclpp_dev_dtype_true_extent((mscclpp_dtype_t)dtype), element_span((mscclpp_dtype_t)dtype, 1));
        for (op = 0; op < MSCCLPP_OP_LAST; ++op) {
            bool good = true;

            if (!mscclpp_dev_supports((mscclpp_dtype_t)dtype, (mscclpp_op_t)op, true)) {
                continue;
            }
            ++supported;
            for (nranks = 1; nranks <= 5; ++nranks) {
                for (seed = 0; seed < 300 && good; ++seed) {
                    good = combine((mscclpp_dtype_t)dtype, (mscclpp_op_t)op, nranks, seed % 2 != 0, seed);
                }
            }
            CHECK(good);
        }
    }
    /* 8 integer types with 10 operations, 5 real ones with 4, 2 complex ones with 2, 7 pairs with 2. */
    CHECK_EQ(supported, sizeof(long double) == 16 ? 118 : 114);
    CHECK(!mscclpp_dev_supports(MSCCLPP_DTYPE_LONG_DOUBLE, MSCCLPP_OP_SUM, false));
    CHECK(!mscclpp_dev_supports(MSCCLPP_DTYPE_LAST, MSCCLPP_OP_SUM, true));
    CHECK(!mscclpp_dev_supports(MSCCLPP_DTYPE_INT32, MSCCLPP_OP_LAST, true));
    CHECK_EQ(mscclpp_dev_dtype_extent(MSCCLPP_DTYPE_LAST), 0);
}

/* Every pair of bytes, for the sum that adds four at once. */
static void test_bytes(void)
{
    int x, y, wrong = 0;

    for (x = 0; x < 256; ++x) {
        for (y = 0; y < 256; ++y) {
            mscclpp_dev_vec_t a, b, c;
            unsigned char bytes[16];
            int i;

            memset(&a, x, sizeof(a));
            memset(&b, y, sizeof(b));
            a.w[1] = ~a.w[1];
            c = mscclpp_dev_combine(MSCCLPP_DTYPE_UINT8, MSCCLPP_OP_SUM, a, b);
            memcpy(bytes, &c, sizeof(bytes));
            for (i = 0; i < 16; ++i) {
                wrong += bytes[i] != (unsigned char)((i / 4 == 1 ? 255 - x : x) + y);
            }
        }
    }
    CHECK_EQ(wrong, 0);
}

/* A buffer that ends at the end of its allocation, so that a sanitizer sees what reads beyond. */
static void test_units_of_buffer(unsigned offset, unsigned bytes, int dtype)
{
    unsigned char *memory = malloc(offset + bytes + 1u), *data, saved[64 + 16];
    const uint32_t mask = mscclpp_dev_unit_mask(dtype);
    const unsigned units = (unsigned)mscclpp_dev_units(bytes);
    unsigned u, i;
    int wrong = 0;

    REQUIRE(memory != NULL);
    data = memory + 1 + offset;
    for (i = 0; i < bytes; ++i) {
        data[i] = (unsigned char)(7 * i + 3);
    }
    for (u = 0; u < units + 2; ++u) {
        mscclpp_dev_vec_t v = mscclpp_dev_ld_unit(data, u, bytes);
        unsigned char got[16];

        memcpy(got, &v, sizeof(got));
        for (i = 0; i < 16; ++i) {
            wrong += got[i] != (u * 16 + i < bytes ? (unsigned char)(7 * (u * 16 + i) + 3) : 0);
        }
    }
    memcpy(saved, data, bytes);
    for (u = 0; u < units + 2; ++u) {
        mscclpp_dev_vec_t v;

        memset(&v, 0xe0 + (int)u, sizeof(v));
        mscclpp_dev_st_unit(data, u, bytes, v, mask);
    }
    for (i = 0; i < bytes; ++i) {
        bool has = element_has_byte((mscclpp_dtype_t)dtype, i % element_of((mscclpp_dtype_t)dtype)->extent);

        wrong += data[i] != (has ? (unsigned char)(0xe0 + i / 16) : saved[i]);
    }
    CHECK_EQ(wrong, 0);
    free(memory);
}

static void test_units(void)
{
    static const mscclpp_dtype_t dtypes[] = {MSCCLPP_DTYPE_UINT8, MSCCLPP_DTYPE_SHORT_INT, MSCCLPP_DTYPE_LONG_INT,
                                             MSCCLPP_DTYPE_DOUBLE_INT, MSCCLPP_DTYPE_FLOAT_INT};
    unsigned offset, bytes;
    size_t i;

    for (offset = 0; offset < 16; ++offset) {
        for (bytes = 0; bytes <= 49; ++bytes) {
            for (i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); ++i) {
                test_units_of_buffer(offset, bytes, dtypes[i]);
            }
        }
    }
}

/* Bytes around the target, which a copy must not write. */
#define GUARD 16u

/*
 * Copies between addresses of any alignment by `threads` threads. The source ends with its allocation, so that a
 * sanitizer sees what reads beyond.
 */
static void test_shifted_copy(unsigned to_shift, unsigned from_shift, unsigned bytes, unsigned threads)
{
    char *source = malloc(from_shift + bytes != 0 ? from_shift + bytes : 1);
    char *target = aligned_alloc(16, 4096);
    char *from = source + from_shift, *to = target + GUARD + to_shift;
    unsigned thread, i;
    int wrong = 0;

    REQUIRE(source != NULL && target != NULL);
    memset(target, 0x55, 4096);
    for (i = 0; i < bytes; ++i) {
        from[i] = (char)(7 * i + i / 256 + 3);
    }
    for (thread = 0; thread < threads; ++thread) {
        mscclpp_dev_coll_copy_shifted(to, from, bytes, thread, threads);
    }
    for (i = 0; i < bytes; ++i) {
        wrong += to[i] != (char)(7 * i + i / 256 + 3);
    }
    for (i = 1; i <= GUARD; ++i) {
        wrong += (to - i)[0] != 0x55 || (to + bytes + i - 1)[0] != 0x55;
    }
    CHECK_EQ(wrong, 0);
    free(source);
    free(target);
}

static void test_shifted_copies(void)
{
    static const unsigned sizes[] = {0, 1, 15, 16, 17, 33, 48, 63, 80, 97, 113, 257, 901, 3001};
    unsigned to_shift, from_shift;
    size_t i;

    for (to_shift = 0; to_shift < 16; ++to_shift) {
        for (from_shift = 0; from_shift < 16; ++from_shift) {
            for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); ++i) {
                test_shifted_copy(to_shift, from_shift, sizes[i], 1);
                test_shifted_copy(to_shift, from_shift, sizes[i], 3);
            }
        }
    }
}

int main(void)
{
    unit_begin();
    test_reference();
    test_format("float16", widen_half, narrow_half, reference_from_half, reference_to_half, 0x7c00);
    test_format("bfloat16", widen_bfloat, narrow_bfloat, reference_from_bfloat, reference_to_bfloat, 0x7f80);
    test_combinations();
    test_bytes();
    test_units();
    test_shifted_copies();
    return unit_end();
}
