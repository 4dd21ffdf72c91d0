#include "test/unit/shortage.h"

#include <errno.h>
#include <stdlib.h>

_Thread_local long shortage_left;
_Thread_local bool shortage_happened;
long shortage_held;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
int __real_posix_memalign(void **memory_p, size_t alignment, size_t size);
void __real_free(void *memory);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
int __wrap_posix_memalign(void **memory_p, size_t alignment, size_t size);
void __wrap_free(void *memory);

static bool is_due(void)
{
    if (shortage_left == 0 || --shortage_left != 0) {
        return false;
    }
    shortage_happened = true;
    errno = ENOMEM;
    return true;
}

static void *count(void *memory)
{
    if (memory != NULL) {
        __atomic_add_fetch(&shortage_held, 1, __ATOMIC_RELAXED);
    }
    return memory;
}

void *__wrap_malloc(size_t size)
{
    return is_due() ? NULL : count(__real_malloc(size));
}

void *__wrap_calloc(size_t elements, size_t size)
{
    return is_due() ? NULL : count(__real_calloc(elements, size));
}

void *__wrap_realloc(void *memory, size_t size)
{
    if (is_due()) {
        return NULL;
    }
    return memory == NULL ? count(__real_malloc(size)) : __real_realloc(memory, size);
}

int __wrap_posix_memalign(void **memory_p, size_t alignment, size_t size)
{
    int error = is_due() ? ENOMEM : __real_posix_memalign(memory_p, alignment, size);

    if (error == 0) {
        (void)count(*memory_p);
    }
    return error;
}

void __wrap_free(void *memory)
{
    if (memory != NULL) {
        __atomic_sub_fetch(&shortage_held, 1, __ATOMIC_RELAXED);
    }
    __real_free(memory);
}
