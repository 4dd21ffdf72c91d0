/*
 * Copies memory that other threads or devices read or write at the same time. memcpy may store a word in parts, of
 * which such a reader could see only some.
 */
#ifndef MCA_COMMON_BASE_WORDS_H
#define MCA_COMMON_BASE_WORDS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef uint64_t __attribute__((may_alias)) mscclpp_word_t;

/* Loads 8 bytes; with a single load if the address is aligned. */
static inline uint64_t mscclpp_load_word(const char *from)
{
    uint64_t word;

    if ((uintptr_t)from % sizeof(word) == 0) {
        return __atomic_load_n((const mscclpp_word_t *)(const void *)from, __ATOMIC_RELAXED);
    }
    memcpy(&word, from, sizeof(word));
    return word;
}

/*
 * Copies `length` bytes as memcpy does. If `to` is a multiple of 8, each word of 8 bytes is written by one store. So a
 * concurrent reader of a word finds the old value or the new one. If `from` is also a multiple of 8, each word is read
 * by one load. The words are not written in any particular order.
 */
static inline void mscclpp_copy_words(void *to, const void *from, size_t length)
{
    const size_t words = (uintptr_t)to % sizeof(uint64_t) == 0 ? length / sizeof(uint64_t) : 0;
    mscclpp_word_t *target = (mscclpp_word_t *)to;
    const char *source = (const char *)from;
    size_t i;

    for (i = 0; i < words; ++i) {
        __atomic_store_n(&target[i], mscclpp_load_word(source + i * sizeof(uint64_t)), __ATOMIC_RELAXED);
    }
    memcpy(target + words, source + words * sizeof(uint64_t), length - words * sizeof(uint64_t));
}

#endif
