/*
 * A library to be preloaded: the program on rank 1 gets no memory for one array with an int for each rank.
 * MSCCLPP_TEST_NO_LIST says which one: 1 is the first that its own code asks for.
 */
#include <errno.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

void *__libc_calloc(size_t count, size_t size);
__attribute__((visibility("default"))) void *calloc(size_t count, size_t size);

/* Clears the address that `data` points to unless it lies in the program itself, which is the first object. */
static int find_in_program(struct dl_phdr_info *info, size_t size, void *data)
{
    uintptr_t *caller_p = data;
    const uintptr_t caller = *caller_p;

    (void)size;
    *caller_p = 0;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const uintptr_t begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;

        if (info->dlpi_phdr[i].p_type == PT_LOAD && caller >= begin && caller < begin + info->dlpi_phdr[i].p_memsz) {
            *caller_p = caller;
        }
    }
    return 1;
}

static int is_of_program(const void *address)
{
    uintptr_t caller = (uintptr_t)address;

    (void)dl_iterate_phdr(find_in_program, &caller);
    return caller != 0;
}

void *calloc(size_t count, size_t size)
{
    static int lists;
    const char *which = getenv("MSCCLPP_TEST_NO_LIST"), *rank = getenv("OMPI_COMM_WORLD_RANK");
    const char *ranks = getenv("OMPI_COMM_WORLD_SIZE");

    if (which != NULL && rank != NULL && ranks != NULL && strcmp(rank, "1") == 0 && size == sizeof(int) &&
        count == (size_t)atoi(ranks) && is_of_program(__builtin_return_address(0)) &&
        __atomic_add_fetch(&lists, 1, __ATOMIC_RELAXED) == atoi(which)) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_calloc(count, size);
}
