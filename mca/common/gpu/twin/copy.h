/* Functions by which the twin copies memory of its devices. */
#ifndef MCA_COMMON_GPU_TWIN_COPY_H
#define MCA_COMMON_GPU_TWIN_COPY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*
 * Areas up to this size, in bytes, are copied word by word, because they may contain words that other threads read
 * while they are written.
 */
#define MSCCLPP_HOST_COPY_WORDS 65536

typedef uint64_t __attribute__((may_alias)) mscclpp_twin_word_t;

/*
 * Copies `size` bytes between areas that do not overlap. In the meantime, other threads may atomically store words at
 * multiples of 8, such as counters of signals. Each such word arrives with a value that it had at some time, as in a
 * copy by a GPU.
 */
static inline void mscclpp_twin_copy(void *to, const void *from, size_t size)
{
    size_t i;

    if (size > MSCCLPP_HOST_COPY_WORDS || ((uintptr_t)to | (uintptr_t)from | size) % sizeof(uint64_t) != 0) {
        memcpy(to, from, size);
        return;
    }
    for (i = 0; i < size / sizeof(uint64_t); ++i) {
        ((mscclpp_twin_word_t *)to)[i] = __atomic_load_n((const mscclpp_twin_word_t *)from + i, __ATOMIC_RELAXED);
    }
}

#endif
