/* Units of 16 bytes in user buffers, of any alignment and with any tail. */
#ifndef MSCCLPP_DEVICE_UNIT_H
#define MSCCLPP_DEVICE_UNIT_H

#include "device/launch_types.h"
#include "device/shim.h"

MSCCLPP_DEV uint64_t mscclpp_dev_units(uint64_t bytes)
{
    return (bytes + MSCCLPP_DEV_UNIT - 1) / MSCCLPP_DEV_UNIT;
}

/* The nth part of so many units, rounded up. A division of 64 bits takes a GPU as long as a turn of a wait. */
MSCCLPP_DEV uint64_t mscclpp_dev_share(uint64_t units, uint32_t n)
{
    const uint64_t most = units + n - 1;

    return most >> 32 == 0 ? (uint32_t)most / n : most / n;
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
MSCCLPP_DEV mscclpp_dev_vec_t mscclpp_dev_ld_part(const unsigned char *p, uint32_t size)
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

MSCCLPP_DEV void mscclpp_dev_st_part(unsigned char *p, mscclpp_dev_vec_t v, uint32_t size, uint32_t mask)
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

/* The same, out of line. */
MSCCLPP_DEV_OUTLINE mscclpp_dev_vec_t mscclpp_dev_ld_bytes(const unsigned char *p, uint32_t size)
{
    return mscclpp_dev_ld_part(p, size);
}

MSCCLPP_DEV_OUTLINE void mscclpp_dev_st_bytes(unsigned char *p, mscclpp_dev_vec_t v, uint32_t size, uint32_t mask)
{
    mscclpp_dev_st_part(p, v, size, mask);
}

/*
 * Unit `index` of a buffer of `bytes`; what lies behind the buffer's end, or a unit wholly behind it, reads as 0. The
 * loads of whole words do not wait for one another.
 */
MSCCLPP_DEV mscclpp_dev_vec_t mscclpp_dev_ld_unit(const void *buffer, uint64_t index, uint64_t bytes)
{
    const uint64_t offset = index * MSCCLPP_DEV_UNIT;
    const char *p = (const char *)buffer + offset;
    uint32_t size;

    if (offset + MSCCLPP_DEV_UNIT <= bytes && (uintptr_t)p % 16 == 0) {
        return mscclpp_dev_ld_vec(p);
    }
    if (offset >= bytes) {
        return mscclpp_dev_vec_zero();
    }
    size = bytes - offset < MSCCLPP_DEV_UNIT ? (uint32_t)(bytes - offset) : MSCCLPP_DEV_UNIT;
    if (((uintptr_t)p | size) % 4 == 0) {
        const mscclpp_dev_word_t *words = (const mscclpp_dev_word_t *)p;
        mscclpp_dev_vec_t v;

        v.w[0] = words[0];
        v.w[1] = size > 4 ? words[1] : 0;
        v.w[2] = size > 8 ? words[2] : 0;
        v.w[3] = size > 12 ? words[3] : 0;
        return v;
    }
    return mscclpp_dev_ld_bytes((const unsigned char *)p, size);
}

/* Writes unit `index` of a buffer of `bytes`, but neither padding nor anything behind the buffer's end. */
MSCCLPP_DEV void mscclpp_dev_st_unit(void *buffer, uint64_t index, uint64_t bytes, mscclpp_dev_vec_t v, uint32_t mask)
{
    const uint64_t offset = index * MSCCLPP_DEV_UNIT;
    char *p = (char *)buffer + offset;
    uint32_t size;

    if (offset + MSCCLPP_DEV_UNIT <= bytes && (uintptr_t)p % 16 == 0 && mask == 0xffffu) {
        mscclpp_dev_st_vec(p, v);
        return;
    }
    if (offset >= bytes) {
        return;
    }
    size = bytes - offset < MSCCLPP_DEV_UNIT ? (uint32_t)(bytes - offset) : MSCCLPP_DEV_UNIT;
    if (((uintptr_t)p | size) % 4 == 0 && mask == 0xffffu) {
        mscclpp_dev_word_t *words = (mscclpp_dev_word_t *)p;

        words[0] = v.w[0];
        if (size > 4) {
            words[1] = v.w[1];
        }
        if (size > 8) {
            words[2] = v.w[2];
        }
        if (size > 12) {
            words[3] = v.w[3];
        }
        return;
    }
    mscclpp_dev_st_bytes((unsigned char *)p, v, size, mask);
}

#endif
