/*
 * Rows of units on the host twin. The functions handle many units at once, with vectors of the compiler and with
 * memcpy. The GPU's way, one unit for each thread with a look-up of type and operation each time, would take a CPU
 * thread several times as long.
 */
#ifndef MSCCLPP_DEVICE_LIB_ROW_HOST_H
#define MSCCLPP_DEVICE_LIB_ROW_HOST_H

#include <string.h>

#include "device/lib/unit.h"

/*
 * The number of units that are combined at once. They stay in the first-level cache from the first operand to the last
 * result.
 */
#define MSCCLPP_DEV_ROW_UNITS 256u

/* Vectors of 16 bytes for each type. They may alias memory of any type. */
#define MSCCLPP_DEV_ROW_VECTOR(name_, type_)                                                                           \
    typedef type_ __attribute__((vector_size(16), may_alias)) mscclpp_dev_row_##name_##_t;

MSCCLPP_DEV_ROW_VECTOR(i8, int8_t)
MSCCLPP_DEV_ROW_VECTOR(u8, uint8_t)
MSCCLPP_DEV_ROW_VECTOR(i16, int16_t)
MSCCLPP_DEV_ROW_VECTOR(u16, uint16_t)
MSCCLPP_DEV_ROW_VECTOR(i32, int32_t)
MSCCLPP_DEV_ROW_VECTOR(u32, uint32_t)
MSCCLPP_DEV_ROW_VECTOR(i64, int64_t)
MSCCLPP_DEV_ROW_VECTOR(u64, uint64_t)
MSCCLPP_DEV_ROW_VECTOR(f32, float)
MSCCLPP_DEV_ROW_VECTOR(f64, double)

/*
 * Combines all units of next[] into acc[]. In `expression_`, x is the combination so far and y the next operand. Both
 * arrays are aligned to 16 bytes.
 */
#define MSCCLPP_DEV_ROW_EACH(vector_, expression_)                                                                     \
    {                                                                                                                  \
        uint64_t u_;                                                                                                   \
        for (u_ = 0; u_ < units; ++u_) {                                                                               \
            vector_ x = ((const vector_ *)acc)[u_], y = ((const vector_ *)next)[u_];                                   \
            ((vector_ *)acc)[u_] = (vector_)(expression_);                                                             \
        }                                                                                                              \
        return true;                                                                                                   \
    }

/* Takes all bits of x where the mask is set and all bits of y elsewhere, as "?:" would for each element. */
#define MSCCLPP_DEV_ROW_CHOOSE(mask_)                                                                                  \
    (((mscclpp_dev_row_u64_t)x & (mscclpp_dev_row_u64_t)(mask_)) |                                                     \
     ((mscclpp_dev_row_u64_t)y & ~(mscclpp_dev_row_u64_t)(mask_)))

/* Sums and products of signed integers wrap like those of the unsigned type `u_`, which have the same bits. */
#define MSCCLPP_DEV_ROW_INTEGER(v_, u_)                                                                                \
    switch (op) {                                                                                                      \
    case MSCCLPP_OP_MAX:                                                                                               \
        MSCCLPP_DEV_ROW_EACH(mscclpp_dev_row_##v_##_t, MSCCLPP_DEV_ROW_CHOOSE(x > y))                                  \
    case MSCCLPP_OP_MIN:                                                                                               \
        MSCCLPP_DEV_ROW_EACH(mscclpp_dev_row_##v_##_t, MSCCLPP_DEV_ROW_CHOOSE(x < y))                                  \
    case MSCCLPP_OP_SUM:                                                                                               \
        MSCCLPP_DEV_ROW_EACH(mscclpp_dev_row_##u_##_t, x + y)                                                          \
    case MSCCLPP_OP_PROD:                                                                                              \
        MSCCLPP_DEV_ROW_EACH(mscclpp_dev_row_##u_##_t, x *y)                                                           \
    case MSCCLPP_OP_BAND:                                                                                              \
        MSCCLPP_DEV_ROW_EACH(mscclpp_dev_row_##u_##_t, x &y)                                                           \
    case MSCCLPP_OP_BOR:                                                                                               \
        MSCCLPP_DEV_ROW_EACH(mscclpp_dev_row_##u_##_t, x | y)                                                          \
    case MSCCLPP_OP_BXOR:                                                                                              \
        MSCCLPP_DEV_ROW_EACH(mscclpp_dev_row_##u_##_t, x ^ y)                                                          \
    default:                                                                                                           \
        return false;                                                                                                  \
    }

/* Floating-point numbers have no bitwise operations. */
#define MSCCLPP_DEV_ROW_FLOATING(v_)                                                                                   \
    switch (op) {                                                                                                      \
    case MSCCLPP_OP_MAX:                                                                                               \
        MSCCLPP_DEV_ROW_EACH(mscclpp_dev_row_##v_##_t, MSCCLPP_DEV_ROW_CHOOSE(x > y))                                  \
    case MSCCLPP_OP_MIN:                                                                                               \
        MSCCLPP_DEV_ROW_EACH(mscclpp_dev_row_##v_##_t, MSCCLPP_DEV_ROW_CHOOSE(x < y))                                  \
    case MSCCLPP_OP_SUM:                                                                                               \
        MSCCLPP_DEV_ROW_EACH(mscclpp_dev_row_##v_##_t, x + y)                                                          \
    case MSCCLPP_OP_PROD:                                                                                              \
        MSCCLPP_DEV_ROW_EACH(mscclpp_dev_row_##v_##_t, x *y)                                                           \
    default:                                                                                                           \
        return false;                                                                                                  \
    }

/*
 * Combines `units` units of `next` into `acc`, with the same bits as mscclpp_dev_combine would give unit by unit.
 * Both begin at multiples of 16. Returns false, with nothing done, for types and operations that it does not handle.
 */
MSCCLPP_DEV_OUTLINE bool mscclpp_dev_row_add(int dtype, int op, void *acc, const void *next, uint64_t units)
{
    switch (dtype) {
    case MSCCLPP_DTYPE_INT8:
        MSCCLPP_DEV_ROW_INTEGER(i8, u8)
    case MSCCLPP_DTYPE_UINT8:
        MSCCLPP_DEV_ROW_INTEGER(u8, u8)
    case MSCCLPP_DTYPE_INT16:
        MSCCLPP_DEV_ROW_INTEGER(i16, u16)
    case MSCCLPP_DTYPE_UINT16:
        MSCCLPP_DEV_ROW_INTEGER(u16, u16)
    case MSCCLPP_DTYPE_INT32:
        MSCCLPP_DEV_ROW_INTEGER(i32, u32)
    case MSCCLPP_DTYPE_UINT32:
        MSCCLPP_DEV_ROW_INTEGER(u32, u32)
    case MSCCLPP_DTYPE_INT64:
        MSCCLPP_DEV_ROW_INTEGER(i64, u64)
    case MSCCLPP_DTYPE_UINT64:
        MSCCLPP_DEV_ROW_INTEGER(u64, u64)
    case MSCCLPP_DTYPE_FLOAT32:
        MSCCLPP_DEV_ROW_FLOATING(f32)
    case MSCCLPP_DTYPE_FLOAT64:
        MSCCLPP_DEV_ROW_FLOATING(f64)
    default:
        return false;
    }
}

/*
 * Returns true if mscclpp_dev_row_add handles the type and the operation. Asks it to combine 0 units, for which it
 * accesses no memory.
 */
MSCCLPP_DEV bool mscclpp_dev_row_is_known(int dtype, int op)
{
    return mscclpp_dev_row_add(dtype, op, NULL, NULL, 0);
}

/*
 * Returns the first of the `count` units that thread `tid` handles. The thread's units end where the units of thread
 * `tid` + 1 begin.
 */
MSCCLPP_DEV uint64_t mscclpp_dev_row_begin(const mscclpp_dev_ctx_t *ctx, uint64_t count, uint32_t tid)
{
    return count / ctx->nthreads * tid + (count % ctx->nthreads < tid ? count % ctx->nthreads : tid);
}

/* Returns the number of bytes of a buffer of `bytes` bytes that are in the `count` units from unit `index` on. */
MSCCLPP_DEV uint64_t mscclpp_dev_row_count_bytes(uint64_t index, uint64_t count, uint64_t bytes)
{
    const uint64_t offset = index * MSCCLPP_DEV_UNIT;
    const uint64_t bytes_left = offset < bytes ? bytes - offset : 0;

    return bytes_left < count * MSCCLPP_DEV_UNIT ? bytes_left : count * MSCCLPP_DEV_UNIT;
}

/*
 * Copies the thread's part of `count` units to `to`, from unit `index` of a buffer of `bytes` bytes on. Bytes after the
 * buffer's end are set to 0.
 */
MSCCLPP_DEV void mscclpp_dev_row_load(const mscclpp_dev_ctx_t *ctx, char *to, const void *buffer, uint64_t index,
                                      uint64_t count, uint64_t bytes)
{
    const uint64_t first_unit = mscclpp_dev_row_begin(ctx, count, ctx->tid);
    const uint64_t part_bytes = (mscclpp_dev_row_begin(ctx, count, ctx->tid + 1) - first_unit) * MSCCLPP_DEV_UNIT;
    const uint64_t present_bytes =
        mscclpp_dev_row_count_bytes(index + first_unit, part_bytes / MSCCLPP_DEV_UNIT, bytes);

    if (present_bytes != 0) {
        memcpy(to + first_unit * MSCCLPP_DEV_UNIT, (const char *)buffer + (index + first_unit) * MSCCLPP_DEV_UNIT,
               present_bytes);
    }
    memset(to + first_unit * MSCCLPP_DEV_UNIT + present_bytes, 0, part_bytes - present_bytes);
}

/*
 * Stores the thread's part of the `count` units at `from` to a buffer of `bytes` bytes, from unit `index` on. Copies
 * them at once, unless `mask` leaves out bytes between elements, which must keep their contents.
 */
MSCCLPP_DEV void mscclpp_dev_row_store(const mscclpp_dev_ctx_t *ctx, void *buffer, uint64_t index, uint64_t count,
                                       uint64_t bytes, const char *from, uint32_t mask)
{
    const uint64_t first_unit = mscclpp_dev_row_begin(ctx, count, ctx->tid);
    const uint64_t end_unit = mscclpp_dev_row_begin(ctx, count, ctx->tid + 1);
    const uint64_t present_bytes = mscclpp_dev_row_count_bytes(index + first_unit, end_unit - first_unit, bytes);
    uint64_t unit;

    if (mask != MSCCLPP_DEV_WHOLE_UNIT) {
        for (unit = first_unit; unit < end_unit; ++unit) {
            mscclpp_dev_st_unit(buffer, index + unit, bytes, mscclpp_dev_ld_vec(from + unit * MSCCLPP_DEV_UNIT), mask);
        }
    } else if (present_bytes != 0) {
        memcpy((char *)buffer + (index + first_unit) * MSCCLPP_DEV_UNIT, from + first_unit * MSCCLPP_DEV_UNIT,
               present_bytes);
    }
}

/*
 * Combines the thread's part of the `count` units of all ranks, a group of units at a time, in the order of `in`, and
 * writes the result to all of `out`. Returns false, with nothing done, if mscclpp_dev_row_is_known is false. A rank's
 * input and output may be the same memory: no other thread accesses these units, and this thread reads a group of units
 * from all ranks before it writes the group.
 */
MSCCLPP_DEV bool mscclpp_dev_row_combine(const mscclpp_dev_ctx_t *ctx, int dtype, int op, uint32_t nranks,
                                         const char *const *in, char *const *out, uint64_t count)
{
    const uint64_t end_unit = mscclpp_dev_row_begin(ctx, count, ctx->tid + 1);
    mscclpp_dev_vec_t acc[MSCCLPP_DEV_ROW_UNITS];
    uint64_t unit, units;
    uint32_t rank;

    if (!mscclpp_dev_row_is_known(dtype, op)) {
        return false;
    }
    for (unit = mscclpp_dev_row_begin(ctx, count, ctx->tid); unit < end_unit; unit += units) {
        units = end_unit - unit < MSCCLPP_DEV_ROW_UNITS ? end_unit - unit : MSCCLPP_DEV_ROW_UNITS;
        memcpy(acc, in[0] + unit * MSCCLPP_DEV_UNIT, units * MSCCLPP_DEV_UNIT);
        for (rank = 1; rank < nranks; ++rank) {
            (void)mscclpp_dev_row_add(dtype, op, acc, in[rank] + unit * MSCCLPP_DEV_UNIT, units);
        }
        for (rank = 0; rank < nranks; ++rank) {
            memcpy(out[rank] + unit * MSCCLPP_DEV_UNIT, acc, units * MSCCLPP_DEV_UNIT);
        }
    }
    return true;
}

#endif
