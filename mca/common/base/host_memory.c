#include "mca/common/base/host_memory.h"

#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The most writable segments of a program. Programs have one; a linker script can make more. */
#define SEGMENTS_MAX 4

/* The number of bytes at the end of the main thread's stack that count as stack. */
#define MAIN_STACK_BYTES ((uintptr_t)8 << 20)

typedef struct {
    uintptr_t begin;
    uintptr_t end; /* one past the last address; equal to `begin` for an empty range */
} range_t;

static pthread_once_t found_once = PTHREAD_ONCE_INIT;
static uintptr_t heap_begin; /* 0: there is no such heap, or its place is not known */
static range_t segments[SEGMENTS_MAX];

/* This thread's stack; all 0 until find_stack has found it. */
static _Thread_local range_t thread_stack;

/* Returns true if the address is in the range. */
static bool contains_address(const range_t *range, uintptr_t address)
{
    return address >= range->begin && address < range->end;
}

/*
 * Finds the start of the heap; heap_begin stays 0 if it is not found. The start is fixed when the program begins, so it
 * may be read at any time. The heap may share a mapping with variables of the main program before it, which are also
 * certain to be host memory.
 */
static void find_heap(void)
{
    static const char name[] = "[heap]\n";
    FILE *maps = fopen("/proc/self/maps", "re");
    unsigned long long begin;
    char line[256];

    if (maps == NULL) {
        return;
    }
    while (heap_begin == 0 && fgets(line, sizeof(line), maps) != NULL) {
        size_t length = strlen(line);

        if (length >= sizeof(name) && strcmp(line + length - strlen(name), name) == 0 &&
            sscanf(line, "%llx-", &begin) == 1) {
            heap_begin = (uintptr_t)begin;
        }
    }
    fclose(maps);
}

/*
 * Finds the writable segments of the main program. The loader calls it for each object, until it returns 1 for the main
 * program. It recognises the main program by its headers, because in another namespace of the loader the list has other
 * objects.
 */
static int find_segments(struct dl_phdr_info *info, size_t size, void *argument)
{
    int count = 0;

    (void)size;
    (void)argument;
    if ((uintptr_t)info->dlpi_phdr != (uintptr_t)getauxval(AT_PHDR)) {
        return 0;
    }
    for (int i = 0; i < info->dlpi_phnum && count < SEGMENTS_MAX; ++i) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];

        if (header->p_type == PT_LOAD && (header->p_flags & PF_W) != 0) {
            segments[count].begin = (uintptr_t)info->dlpi_addr + (uintptr_t)header->p_vaddr;
            segments[count].end = segments[count].begin + (uintptr_t)header->p_memsz;
            ++count;
        }
    }
    return 1;
}

/* Finds what does not change while the program runs. Called once. */
static void find_host_memory(void)
{
    find_heap();
    (void)dl_iterate_phdr(find_segments, NULL);
}

/*
 * Finds the calling thread's stack. *stack is an empty range if the system does not report it.
 *
 * The stack of a thread is one mapping, which exists as long as the thread. The main thread's stack grows, and the size
 * that the system reports is the limit of growth. If the limit was raised while the program ran, other mappings may be
 * within it. So only the last MAIN_STACK_BYTES bytes count: they are within the limit that programs usually start with,
 * which the system keeps free.
 */
static void find_stack(range_t *stack)
{
    pthread_attr_t attributes;
    void *begin;
    size_t size;

    stack->begin = stack->end = UINTPTR_MAX;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) {
        return;
    }
    if (pthread_attr_getstack(&attributes, &begin, &size) == 0) {
        stack->begin = (uintptr_t)begin;
        stack->end = stack->begin + size;
        if (size > MAIN_STACK_BYTES && syscall(SYS_gettid) == (long)getpid()) {
            stack->begin = stack->end - MAIN_STACK_BYTES;
        }
    }
    (void)pthread_attr_destroy(&attributes);
}

/*
 * Returns true if the address is between the frame of this function and the end of the thread's stack, because this
 * range contains only stack. If the function runs on another stack (of a coroutine, or for signals), nothing is known,
 * and it returns false.
 */
static bool is_on_stack(uintptr_t address)
{
    uintptr_t frame = (uintptr_t)__builtin_frame_address(0);
    range_t *stack = &thread_stack;

    if (address < frame) {
        return false;
    }
    if (stack->end == 0) {
        find_stack(stack);
    }
    return frame >= stack->begin && address < stack->end;
}

/*
 * glibc's own record of the break. sbrk(0) would read it, too. But libraries that watch memory, such as UCX, replace
 * sbrk by a function that makes a system call. If such a library moves the break without glibc, this record is out of
 * date.
 */
extern void *__curbrk __attribute__((weak));

/* Returns the end of the heap, or (void *)-1. */
static void *find_break(void)
{
    return &__curbrk != NULL ? __atomic_load_n(&__curbrk, __ATOMIC_RELAXED) : sbrk(0);
}

/*
 * Returns true if the address is in the heap below the break.
 *
 * Other threads may move the break. If one has raised it since it was read, the answer may be "not known". If one has
 * lowered it, it released unused memory, so the caller's byte is not in that part.
 *
 * The C library records a lower break right after the system call. In between, CUDA memory could be taken for the heap
 * only if it was mapped there and passed to a call within that time. But neither the system nor CUDA takes addresses
 * that the heap has just released: the system searches from the other end of the address space, and CUDA reserves the
 * addresses of its choice when it is initialised.
 */
static bool is_in_heap(uintptr_t address)
{
    void *end;

    if (heap_begin == 0 || address < heap_begin) {
        return false;
    }
    end = find_break();
    return end != (void *)-1 && address < (uintptr_t)end;
}

/* Returns true if the address is in a variable of the main program, which, unlike libraries, is never unloaded. */
static bool is_in_program(uintptr_t address)
{
    for (int i = 0; i < SEGMENTS_MAX; ++i) {
        if (contains_address(&segments[i], address)) {
            return true;
        }
    }
    return false;
}

bool mscclpp_host_memory_is_certain(const void *address)
{
    uintptr_t number = (uintptr_t)address;

    (void)pthread_once(&found_once, find_host_memory);
    return is_on_stack(number) || is_in_program(number) || is_in_heap(number);
}
