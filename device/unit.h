/* Units of 16 bytes in user buffers, of any alignment and with any tail. */
#ifndef MSCCLPP_DEVICE_UNIT_H
#define MSCCLPP_DEVICE_UNIT_H

#include "device/launch_types.h"
#include "device/shim.h"

MSCCLPP_DEV uint64_t mscclpp_dev_units(uint64_t bytes)
{
    return (bytes + MSCCLPP_DEV_UNIT - 1) / MSCCLPP_DEV_UNIT;
}

MSCCLPP_DEV mscclpp_dev_vec_t mscclpp_dev_vec_zero(void)
{
    mscclpp_dev_vec_t v;

    v.w[0] = v.w[1] = v.w[2] = v.w[3] = 0;
    return v;
}

/*
 * Bytes of a unit that belong to elements; the others are padding inside MINLOC and MAXLOC pairs, which a result must
 * not overwrite.
 */
MSCCLPP_DEV uint32_t mscclpp_dev_unit_mask(int dtype)
{
    switch (dtype) {
    case MSCCLPP_DTYPE_SHORT_INT:
        return 0xf3f3u;
    case MSCCLPP_DTYPE_LONG_INT:
    case MSCCLPP_DTYPE_DOUBLE_INT:
        return 0x0fffu;
    default:
        return 0xffffu;
    }
}

/*
 * Up to a unit at any address. The loads do not wait for one another, since small messages are all tail: words where
 * the address allows it, bytes for the rest.
 */
MSCCLPP_DEV_OUTLINE mscclpp_dev_vec_t mscclpp_dev_ld_bytes(const unsigned char *p, uint32_t size)
{
    const uint32_t words = (uintptr_t)p % 4 == 0 ? size / 4 : 0;
    mscclpp_dev_vec_t v;
    uint32_t w, i;

    MSCCLPP_DEV_UNROLL
    for (w = 0; w < 4; ++w) {
        uint32_t word = 0;

        if (w < words) {
            word = ((const mscclpp_dev_word_t *)p)[w];
        } else {
            MSCCLPP_DEV_UNROLL
            for (i = 0; i < 4; ++i) {
                word |= 4 * w + i < size ? (uint32_t)p[4 * w + i] << 8 * i : 0;
            }
        }
        v.w[w] = word;
    }
    return v;
}

MSCCLPP_DEV_OUTLINE void mscclpp_dev_st_bytes(unsigned char *p, mscclpp_dev_vec_t v, uint32_t size, uint32_t mask)
{
    const bool words = (uintptr_t)p % 4 == 0;
    uint32_t w, i;

    MSCCLPP_DEV_UNROLL
    for (w = 0; w < 4; ++w) {
        if (words && 4 * w + 4 <= size && (mask >> 4 * w & 0xfu) == 0xfu) {
            ((mscclpp_dev_word_t *)p)[w] = v.w[w];
        } else {
            MSCCLPP_DEV_UNROLL
            for (i = 0; i < 4; ++i) {
                if (4 * w + i < size && (mask >> (4 * w + i) & 1)) {
                    p[4 * w + i] = (unsigned char)(v.w[w] >> 8 * i);
                }
            }
        }
    }
}

/* Unit `index` of a buffer of `bytes`; what lies behind the buffer's end, or a unit wholly behind it, reads as 0. */
MSCCLPP_DEV mscclpp_dev_vec_t mscclpp_dev_ld_unit(const void *buffer, uint64_t index, uint64_t bytes)
{
    uint64_t offset = index * MSCCLPP_DEV_UNIT;
    const char *p = (const char *)buffer + offset;
    mscclpp_dev_vec_t v;

    if (offset + MSCCLPP_DEV_UNIT <= bytes) {
        if ((uintptr_t)p % 16 == 0) {
            return mscclpp_dev_ld_vec(p);
        }
        if ((uintptr_t)p % 4 == 0) {
            v.w[0] = ((const mscclpp_dev_word_t *)p)[0];
            v.w[1] = ((const mscclpp_dev_word_t *)p)[1];
            v.w[2] = ((const mscclpp_dev_word_t *)p)[2];
            v.w[3] = ((const mscclpp_dev_word_t *)p)[3];
            return v;
        }
        return mscclpp_dev_ld_bytes((const unsigned char *)p, MSCCLPP_DEV_UNIT);
    }
    if (offset >= bytes) {
        return mscclpp_dev_vec_zero();
    }
    return mscclpp_dev_ld_bytes((const unsigned char *)p, (uint32_t)(bytes - offset));
}

/* Writes unit `index` of a buffer of `bytes`, but neither padding nor anything behind the buffer's end. */
MSCCLPP_DEV void mscclpp_dev_st_unit(void *buffer, uint64_t index, uint64_t bytes, mscclpp_dev_vec_t v, uint32_t mask)
{
    uint64_t offset = index * MSCCLPP_DEV_UNIT;
    char *p = (char *)buffer + offset;

    if (offset + MSCCLPP_DEV_UNIT <= bytes && mask == 0xffffu) {
        if ((uintptr_t)p % 16 == 0) {
            mscclpp_dev_st_vec(p, v);
            return;
        }
        if ((uintptr_t)p % 4 == 0) {
            ((mscclpp_dev_word_t *)p)[0] = v.w[0];
            ((mscclpp_dev_word_t *)p)[1] = v.w[1];
            ((mscclpp_dev_word_t *)p)[2] = v.w[2];
            ((mscclpp_dev_word_t *)p)[3] = v.w[3];
            return;
        }
    }
    if (offset < bytes) {
        uint64_t left = bytes - offset;

        mscclpp_dev_st_bytes((unsigned char *)p, v, left < MSCCLPP_DEV_UNIT ? (uint32_t)left : MSCCLPP_DEV_UNIT, mask);
    }
}

#endif
