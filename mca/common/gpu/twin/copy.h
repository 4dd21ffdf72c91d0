/* How the twin copies memory of its devices. */
#ifndef MCA_COMMON_GPU_TWIN_COPY_H
#define MCA_COMMON_GPU_TWIN_COPY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The most bytes that are copied word by word, because other threads may store words in them meanwhile. */
#define MSCCLPP_TWIN_COPY_WORDWISE_MAX 65536

typedef uint64_t __attribute__((may_alias)) mscclpp_twin_word_t;

/*
 * Copies `size` bytes between areas that do not overlap. Up to MSCCLPP_TWIN_COPY_WORDWISE_MAX bytes, and if both
 * addresses and the size are multiples of 8, other threads may meanwhile store words in the source atomically, such as
 * counters of signals. Each word then arrives with a value that it had at some time, as in a copy by a GPU.
 */
static inline void mscclpp_twin_copy(void *to, const void *from, size_t size)
{
    size_t i;

    if (size > MSCCLPP_TWIN_COPY_WORDWISE_MAX || ((uintptr_t)to | (uintptr_t)from | size) % sizeof(uint64_t) != 0) {
        memcpy(to, from, size);
        return;
    }
    for (i = 0; i < size / sizeof(uint64_t); ++i) {
        ((mscclpp_twin_word_t *)to)[i] = __atomic_load_n((const mscclpp_twin_word_t *)from + i, __ATOMIC_RELAXED);
    }
}

#endif
