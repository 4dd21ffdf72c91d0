/* Access to units of 16 bytes in user buffers, which may have any alignment and any size. */
#ifndef MSCCLPP_DEVICE_LIB_UNIT_H
#define MSCCLPP_DEVICE_LIB_UNIT_H

#include "device/types/launch.h"
#include "device/shim/shim.h"

/* Returns the number of units that `bytes` bytes take. The last unit may be cut off. */
MSCCLPP_DEV uint64_t mscclpp_dev_units(uint64_t bytes)
{
    return (bytes + MSCCLPP_DEV_UNIT - 1) / MSCCLPP_DEV_UNIT;
}

/*
 * Returns units / parts, rounded up. Divides in 32 bits if the dividend allows it, because a 64-bit division takes a
 * GPU as long as a turn of a wait.
 */
MSCCLPP_DEV uint64_t mscclpp_dev_share(uint64_t units, uint32_t parts)
{
    const uint64_t padded_units = units + parts - 1;

    return padded_units >> 32 == 0 ? (uint32_t)padded_units / parts : padded_units / parts;
}

/* Returns a unit of zeros. */
MSCCLPP_DEV mscclpp_dev_vec_t mscclpp_dev_vec_zero(void)
{
    mscclpp_dev_vec_t value;

    value.w[0] = value.w[1] = value.w[2] = value.w[3] = 0;
    return value;
}

/* The mask of all bytes of a unit, with one bit for each byte. */
#define MSCCLPP_DEV_WHOLE_UNIT 0xffffu

/*
 * Returns the mask of the bytes of a unit that belong to elements, one bit for each byte. The other bytes are padding
 * inside MINLOC and MAXLOC pairs, which a result must not overwrite.
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
        return MSCCLPP_DEV_WHOLE_UNIT;
    }
}

/*
 * Loads the first `size` bytes of a unit from an address that is a multiple of 4. The other bytes of the result are 0.
 * Loads each whole word at once, and the remaining bytes by at most two loads, of two bytes and of one byte. These
 * loads are few and independent of one another, because a small message may consist of the remaining bytes alone.
 */
MSCCLPP_DEV mscclpp_dev_vec_t mscclpp_dev_ld_words(const char *from, uint32_t size)
{
    const mscclpp_dev_word_t *words = (const mscclpp_dev_word_t *)from;
    const uint32_t whole_words = size / 4;
    mscclpp_dev_vec_t value;
    uint32_t last_word = 0, i;

    if (size & 2) {
        last_word = *(const mscclpp_dev_half_t *)(from + 4 * whole_words);
    }
    if (size & 1) {
        last_word |= (uint32_t)((const unsigned char *)from)[size - 1] << 8 * (size & 2);
    }
    MSCCLPP_DEV_UNROLL
    for (i = 0; i < 4; ++i) {
        value.w[i] = i < whole_words ? words[i] : i == whole_words ? last_word : 0;
    }
    return value;
}

/*
 * Stores the first `size` bytes of a unit to an address that is a multiple of 4. Does not write the bytes after them,
 * which may be beyond the buffer's end.
 */
MSCCLPP_DEV void mscclpp_dev_st_words(char *to, mscclpp_dev_vec_t value, uint32_t size)
{
    mscclpp_dev_word_t *words = (mscclpp_dev_word_t *)to;
    const uint32_t whole_words = size / 4;
    uint32_t last_word = 0, i;

    MSCCLPP_DEV_UNROLL
    for (i = 0; i < 4; ++i) {
        if (i < whole_words) {
            words[i] = value.w[i];
        }
        last_word = i == whole_words ? value.w[i] : last_word;
    }
    if (size & 2) {
        *(mscclpp_dev_half_t *)(to + 4 * whole_words) = (uint16_t)last_word;
    }
    if (size & 1) {
        ((unsigned char *)to)[size - 1] = (unsigned char)(last_word >> 8 * (size & 2));
    }
}

/* Loads the first `size` bytes of a unit from any address, by words if the address allows it. The other bytes are 0. */
MSCCLPP_DEV mscclpp_dev_vec_t mscclpp_dev_ld_part(const unsigned char *from, uint32_t size)
{
    mscclpp_dev_vec_t value;
    uint32_t word, i;

    if ((uintptr_t)from % 4 == 0) {
        return mscclpp_dev_ld_words((const char *)from, size);
    }
    MSCCLPP_DEV_UNROLL
    for (word = 0; word < 4; ++word) {
        value.w[word] = 0;
        MSCCLPP_DEV_UNROLL
        for (i = 0; i < 4; ++i) {
            value.w[word] |= 4 * word + i < size ? (uint32_t)from[4 * word + i] << 8 * i : 0;
        }
    }
    return value;
}

/* Stores those of the first `size` bytes of a unit that `mask` selects, to any address. */
MSCCLPP_DEV void mscclpp_dev_st_part(unsigned char *to, mscclpp_dev_vec_t value, uint32_t size, uint32_t mask)
{
    uint32_t i;

    if ((uintptr_t)to % 4 == 0 && mask == MSCCLPP_DEV_WHOLE_UNIT) {
        mscclpp_dev_st_words((char *)to, value, size);
        return;
    }
    MSCCLPP_DEV_UNROLL
    for (i = 0; i < MSCCLPP_DEV_UNIT; ++i) {
        if (i < size && (mask >> i & 1)) {
            to[i] = (unsigned char)(value.w[i / 4] >> 8 * (i % 4));
        }
    }
}

/* The two functions above, not inlined: few units need them, and their code would make every caller large. */
MSCCLPP_DEV_OUTLINE mscclpp_dev_vec_t mscclpp_dev_ld_part_outlined(const unsigned char *from, uint32_t size)
{
    return mscclpp_dev_ld_part(from, size);
}

MSCCLPP_DEV_OUTLINE void mscclpp_dev_st_part_outlined(unsigned char *to, mscclpp_dev_vec_t value, uint32_t size,
                                                      uint32_t mask)
{
    mscclpp_dev_st_part(to, value, size, mask);
}

/*
 * Loads unit `index` of a buffer of `bytes` bytes. Bytes beyond the buffer's end are read as 0. `is_outlined` is a
 * constant; true: a part of a unit that does not consist of whole words is loaded by a function that is not inlined.
 * Callers pass true if registers matter more to them than the speed of a short message's last bytes.
 */
MSCCLPP_DEV mscclpp_dev_vec_t mscclpp_dev_ld_unit_by(const void *buffer, uint64_t index, uint64_t bytes,
                                                     bool is_outlined)
{
    const uint64_t offset = index * MSCCLPP_DEV_UNIT;
    const char *from = (const char *)buffer + offset;
    uint32_t size;

    if (offset + MSCCLPP_DEV_UNIT <= bytes && (uintptr_t)from % 16 == 0) {
        return mscclpp_dev_ld_vec(from);
    }
    if (offset >= bytes) {
        return mscclpp_dev_vec_zero();
    }
    size = bytes - offset < MSCCLPP_DEV_UNIT ? (uint32_t)(bytes - offset) : MSCCLPP_DEV_UNIT;
    if (((uintptr_t)from | (is_outlined ? size : 0)) % 4 == 0) {
        return mscclpp_dev_ld_words(from, is_outlined ? size / 4 * 4 : size);
    }
    return mscclpp_dev_ld_part_outlined((const unsigned char *)from, size);
}

/*
 * Stores unit `index` of a buffer of `bytes` bytes, except bytes that `mask` does not select and bytes beyond the
 * buffer's end. `is_outlined` is as in mscclpp_dev_ld_unit_by.
 */
MSCCLPP_DEV void mscclpp_dev_st_unit_by(void *buffer, uint64_t index, uint64_t bytes, mscclpp_dev_vec_t value,
                                        uint32_t mask, bool is_outlined)
{
    const uint64_t offset = index * MSCCLPP_DEV_UNIT;
    char *to = (char *)buffer + offset;
    uint32_t size;

    if (offset + MSCCLPP_DEV_UNIT <= bytes && (uintptr_t)to % 16 == 0 && mask == MSCCLPP_DEV_WHOLE_UNIT) {
        mscclpp_dev_st_vec(to, value);
        return;
    }
    if (offset >= bytes) {
        return;
    }
    size = bytes - offset < MSCCLPP_DEV_UNIT ? (uint32_t)(bytes - offset) : MSCCLPP_DEV_UNIT;
    if (((uintptr_t)to | (is_outlined ? size : 0)) % 4 == 0 && mask == MSCCLPP_DEV_WHOLE_UNIT) {
        mscclpp_dev_st_words(to, value, is_outlined ? size / 4 * 4 : size);
        return;
    }
    mscclpp_dev_st_part_outlined((unsigned char *)to, value, size, mask);
}

/* The variant of mscclpp_dev_ld_unit_by that takes few registers. */
MSCCLPP_DEV mscclpp_dev_vec_t mscclpp_dev_ld_unit(const void *buffer, uint64_t index, uint64_t bytes)
{
    return mscclpp_dev_ld_unit_by(buffer, index, bytes, true);
}

/* The variant of mscclpp_dev_st_unit_by that takes few registers. */
MSCCLPP_DEV void mscclpp_dev_st_unit(void *buffer, uint64_t index, uint64_t bytes, mscclpp_dev_vec_t value,
                                     uint32_t mask)
{
    mscclpp_dev_st_unit_by(buffer, index, bytes, value, mask, true);
}

/*
 * Loads a unit from an address that is no multiple of MSCCLPP_DEV_UNIT, by two aligned loads. So lanes of a warp that
 * load adjacent units read whole sectors. Reads up to MSCCLPP_DEV_UNIT - 1 bytes before the unit and after it, so these
 * must belong to the buffer, too.
 */
MSCCLPP_DEV mscclpp_dev_vec_t mscclpp_dev_ld_inner_unit(const char *from)
{
    const uint32_t shift = (uint32_t)((uintptr_t)from % MSCCLPP_DEV_UNIT);
    const mscclpp_dev_vec_t low = mscclpp_dev_ld_vec(from - shift),
                            high = mscclpp_dev_ld_vec(from - shift + MSCCLPP_DEV_UNIT);
    uint32_t words[8] = {low.w[0], low.w[1], low.w[2], low.w[3], high.w[0], high.w[1], high.w[2], high.w[3]};
    mscclpp_dev_vec_t value;
    int i;

    /* Indices are constants, so that the words stay in registers. */
    MSCCLPP_DEV_UNROLL
    for (i = 0; i < 6; ++i) {
        words[i] = shift & 8 ? words[i + 2] : words[i];
    }
    MSCCLPP_DEV_UNROLL
    for (i = 0; i < 5; ++i) {
        words[i] = shift & 4 ? words[i + 1] : words[i];
    }
    MSCCLPP_DEV_UNROLL
    for (i = 0; i < 4; ++i) {
        value.w[i] = (uint32_t)(((uint64_t)words[i + 1] << 32 | words[i]) >> 8 * (shift & 3));
    }
    return value;
}

#endif
