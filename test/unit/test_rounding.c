/*
 * Products are rounded before anything is added to them, also where the compiler may use instructions that do both at
 * once and round once. Kernels of the twin and of applications would else differ by the compiler's options.
 */
#include "device/lib/reduce.h"
#include "mpix/include/mpix_mscclpp_device.h"
#include "test/unit/unit.h"

/* Compiled for a processor that can fuse, whatever options the other tests get. */
#if defined(__x86_64__) && defined(__GNUC__)
#define MAY_FUSE __attribute__((noinline, target("fma")))
static bool can_run(void)
{
    return __builtin_cpu_supports("fma");
}
#else
#define MAY_FUSE __attribute__((noinline))
static bool can_run(void)
{
    return true;
}
#endif

MAY_FUSE static float plain(float a, float b, float c)
{
    return a * b + c;
}

MAY_FUSE static float of_kernels(float a, float b, float c)
{
    return mscclpp_dev_mul_f32(a, b) + c;
}

MAY_FUSE static double of_kernels_double(double a, double b, double c)
{
    return mscclpp_dev_mul_f64(a, b) + c;
}

MAY_FUSE static float of_applications(float a, float b, float c)
{
    return mpix_combine_float(a, b, MPIX_PROD) + c;
}

MAY_FUSE static double of_applications_double(double a, double b, double c)
{
    return mpix_combine_double(a, b, MPIX_PROD) + c;
}

/* The compiler does not know them, so it computes nothing itself. */
static volatile float d = 0x1p-12f;
static volatile double e = 0x1p-27;

/* The squares below are 1 + 2 d + d * d, whose last term is lost when they are rounded. */
static void test_products(void)
{
    CHECK(of_kernels(1 + d, 1 + d, -(1 + 2 * d)) == 0);
    CHECK(of_applications(1 + d, 1 + d, -(1 + 2 * d)) == 0);
    CHECK(of_kernels_double(1 + e, 1 + e, -(1 + 2 * e)) == 0);
    CHECK(of_applications_double(1 + e, 1 + e, -(1 + 2 * e)) == 0);
    if (plain(1 + d, 1 + d, -(1 + 2 * d)) == 0) {
        printf("this compiler fuses nothing, with these options\n");
    }
}

/* The square of 1 + d + i (1 + d) is 2 i (1 + d)^2, so its real part is the difference of equal products. */
MAY_FUSE static void test_complex(void)
{
    mscclpp_dev_elements_t a, product;

    a.c64[0].re = a.c64[0].im = a.c64[1].re = a.c64[1].im = 1 + d;
    product.unit = mscclpp_dev_combine(MSCCLPP_DTYPE_COMPLEX64, MSCCLPP_OP_PROD, a.unit, a.unit);
    CHECK(product.c64[0].re == 0 && product.c64[1].re == 0);
    a.c128[0].re = a.c128[0].im = 1 + e;
    product.unit = mscclpp_dev_combine(MSCCLPP_DTYPE_COMPLEX128, MSCCLPP_OP_PROD, a.unit, a.unit);
    CHECK(product.c128[0].re == 0);
}

int main(void)
{
    if (!can_run()) {
        return unit_skip("this processor has no fused products");
    }
    test_products();
    test_complex();
    return unit_end();
}
