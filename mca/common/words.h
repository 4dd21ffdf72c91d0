/* Copies that others look at while they are made. */
#ifndef MCA_COMMON_WORDS_H
#define MCA_COMMON_WORDS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef uint64_t __attribute__((may_alias)) mscclpp_word_t;

/*
 * Copies `length` bytes as memcpy does. Where both addresses are multiples of 8 each word of 8 bytes is read by one
 * load and written by one store, so whoever reads such a word finds the old one or the new one. The words are written
 * in no order that others may rely on.
 */
static inline void mscclpp_copy_words(void *to, const void *from, size_t length)
{
    const size_t words = ((uintptr_t)to | (uintptr_t)from) % sizeof(uint64_t) == 0 ? length / sizeof(uint64_t) : 0;
    mscclpp_word_t *target = (mscclpp_word_t *)to;
    const mscclpp_word_t *source = (const mscclpp_word_t *)from;
    size_t i;

    for (i = 0; i < words; ++i) {
        __atomic_store_n(&target[i], __atomic_load_n(&source[i], __ATOMIC_RELAXED), __ATOMIC_RELAXED);
    }
    memcpy(target + words, source + words, length - words * sizeof(uint64_t));
}

#endif
