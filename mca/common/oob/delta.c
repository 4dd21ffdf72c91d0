#include "mca/common/oob/delta.h"

#include <limits.h>
#include <stdint.h>
#include <string.h>

/* The bytes of a word. The last word of a part may be shorter. */
#define WORD sizeof(uint64_t)

/* Returns the number of words of a part. */
static size_t words_of(size_t length)
{
    return (length + WORD - 1) / WORD;
}

/* Returns the number of bytes before the words of a part: a bit for each word, set if the word follows. */
static size_t mask_bytes(size_t length)
{
    return (words_of(length) + CHAR_BIT - 1) / CHAR_BIT;
}

/* Returns the number of bytes of a word of a part. */
static size_t word_bytes(size_t length, size_t word)
{
    return length - word * WORD < WORD ? length - word * WORD : WORD;
}

size_t mscclpp_delta_max(size_t count, size_t length)
{
    return count * (mask_bytes(length) + length);
}

size_t mscclpp_delta_pack(const char *parts, size_t count, size_t length, char *packed)
{
    static const char zeros[WORD];
    char *next = packed;
    size_t i, word;

    for (i = 0; i < count; ++i) {
        const char *part = parts + i * length;
        unsigned char *mask = (unsigned char *)next;

        memset(mask, 0, mask_bytes(length));
        next += mask_bytes(length);
        for (word = 0; word < words_of(length); ++word) {
            const char *value = part + word * WORD, *before = i > 0 ? value - length : zeros;
            const size_t bytes = word_bytes(length, word);

            if (memcmp(value, before, bytes) != 0) {
                mask[word / CHAR_BIT] |= (unsigned char)(1u << word % CHAR_BIT);
                memcpy(next, value, bytes);
                next += bytes;
            }
        }
    }
    return (size_t)(next - packed);
}

bool mscclpp_delta_unpack(const char *packed, size_t packed_length, size_t count, size_t length, char *parts)
{
    const char *next = packed, *const end = packed + packed_length;
    size_t i, word;

    for (i = 0; i < count; ++i) {
        const unsigned char *mask = (const unsigned char *)next;
        char *part = parts + i * length;

        if ((size_t)(end - next) < mask_bytes(length)) {
            return false;
        }
        next += mask_bytes(length);
        for (word = 0; word < words_of(length); ++word) {
            char *value = part + word * WORD;
            const size_t bytes = word_bytes(length, word);

            if ((mask[word / CHAR_BIT] >> word % CHAR_BIT & 1) != 0) {
                if ((size_t)(end - next) < bytes) {
                    return false;
                }
                memcpy(value, next, bytes);
                next += bytes;
            } else if (i > 0) {
                memcpy(value, value - length, bytes);
            } else {
                memset(value, 0, bytes);
            }
        }
    }
    return next == end;
}
