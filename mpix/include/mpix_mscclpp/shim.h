/*
 * The part of the device functions that depends on the compiler: CUDA's (nvcc, clang, NVRTC), or a compiler of C11 or
 * C++11 for the host twin, whose threads are CPU threads.
 *
 * A group is the set of threads that call a function together. Kernels get the group of their block: from mpix_block()
 * on a GPU, and as an argument on the twin. They may make smaller groups from it.
 */
#ifndef MPIX_INCLUDE_MPIX_MSCCLPP_SHIM_H
#define MPIX_INCLUDE_MPIX_MSCCLPP_SHIM_H

#include "types.h"

/* Kinds of groups. */
enum { MPIX_THREAD, MPIX_WARP, MPIX_BLOCK };

#if defined(__CUDACC__)

#define MPIX_DEVICE static __device__ __inline__

/*
 * How many turns of a wait are made between two checks of the abort word and the clock. A turn takes the latency of a
 * load.
 */
#define MPIX_TURNS 16384u
#define MPIX_WARP_SIZE 32u

/* A group, as one of its threads sees it. */
typedef struct {
    mpix_u32 index;  /* number of this thread in the group */
    mpix_u32 size;   /* threads of the group */
    mpix_u32 kind;   /* MPIX_THREAD and so on */
    mpix_u32 block;  /* number of the block in the kernel */
    mpix_u32 blocks; /* number of blocks of the kernel */
    int failed;      /* not 0: a function has failed, and further functions do nothing */
} mpix_group_t;

/* Returns the group of this thread's block. Grids and blocks may have up to three dimensions. */
MPIX_DEVICE mpix_group_t mpix_block(void)
{
    mpix_group_t group;

    group.index = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    group.size = blockDim.x * blockDim.y * blockDim.z;
    group.kind = MPIX_BLOCK;
    group.block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    group.blocks = gridDim.x * gridDim.y * gridDim.z;
    group.failed = 0;
    return group;
}

/* Waits for all threads of the group. They see afterwards what any of them wrote before. */
MPIX_DEVICE void mpix_sync(const mpix_group_t *group)
{
    if (group->kind == MPIX_BLOCK) {
        __syncthreads();
    } else if (group->kind == MPIX_WARP) {
        __syncwarp();
    }
}

/* Waits as mpix_sync does. Returns a value other than 0 if any thread of the group has passed such a value. */
MPIX_DEVICE int mpix_any(const mpix_group_t *group, int value)
{
    return group->kind == MPIX_BLOCK  ? __syncthreads_or(value)
           : group->kind == MPIX_WARP ? __any_sync(0xffffffffu, value)
                                      : value;
}

/*
 * Loads, stores and additions of words that other GPUs or the host use, too. What a thread wrote before a release is
 * visible to the thread whose acquire reads the released value. Relaxed ones order nothing.
 */
MPIX_DEVICE mpix_u64 mpix_load_relaxed(const mpix_u64 *word)
{
    mpix_u64 value;

    asm volatile("ld.relaxed.sys.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    return value;
}

MPIX_DEVICE mpix_u64 mpix_load_acquire(const mpix_u64 *word)
{
    mpix_u64 value;

    asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    return value;
}

MPIX_DEVICE void mpix_store_relaxed(mpix_u64 *word, mpix_u64 value)
{
    asm volatile("st.relaxed.sys.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}

MPIX_DEVICE void mpix_store_release(mpix_u64 *word, mpix_u64 value)
{
    asm volatile("st.release.sys.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}

MPIX_DEVICE void mpix_add_release(mpix_u64 *word, mpix_u64 value)
{
    asm volatile("red.release.sys.add.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}

/* Adds to a word of this GPU. Returns the value before. Orders nothing. */
MPIX_DEVICE mpix_u64 mpix_fetch_add(mpix_u64 *word, mpix_u64 value)
{
    mpix_u64 old_value;

    asm volatile("atom.relaxed.gpu.add.u64 %0, [%1], %2;" : "=l"(old_value) : "l"(word), "l"(value) : "memory");
    return old_value;
}

/* Stores a packet: 8 bytes of data and two flags. Each half, 4 bytes and a flag, is stored whole. */
MPIX_DEVICE void mpix_store_packet(char *packet, mpix_u64 data, mpix_u32 flag)
{
    asm volatile("st.relaxed.sys.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(packet), "r"((mpix_u32)data), "r"(flag),
                 "r"((mpix_u32)(data >> 32)), "r"(flag)
                 : "memory");
}

/* Loads a packet's data. Returns 1 if it has arrived, with `flag` in both halves; else 0, and *data means nothing. */
MPIX_DEVICE int mpix_load_packet(const char *packet, mpix_u32 flag, mpix_u64 *data)
{
    mpix_u32 low, first_flag, high, second_flag;

    asm volatile("ld.relaxed.sys.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(low), "=r"(first_flag), "=r"(high), "=r"(second_flag)
                 : "l"(packet)
                 : "memory");
    *data = (mpix_u64)high << 32 | low;
    return first_flag == flag && second_flag == flag;
}

/* Returns the time in nanoseconds, of a clock that only grows. */
MPIX_DEVICE mpix_u64 mpix_clock_ns(void)
{
    mpix_u64 now_ns;

    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now_ns));
    return now_ns;
}

/* Does nothing: on a GPU, threads that wait need not make room for others. Each turn of a wait calls it. */
MPIX_DEVICE void mpix_pause(mpix_group_t *group)
{
    (void)group;
}

/* Copy 16 or 4 bytes. Both addresses are multiples of that number. */
MPIX_DEVICE void mpix_copy16(char *to, const char *from)
{
    *(uint4 *)to = *(const uint4 *)from;
}

MPIX_DEVICE void mpix_copy4(char *to, const char *from)
{
    *(unsigned *)to = *(const unsigned *)from;
}

/* Return the same bits as another type. */
MPIX_DEVICE float mpix_float_of_bits(mpix_u32 bits)
{
    return __uint_as_float(bits);
}

MPIX_DEVICE mpix_u32 mpix_bits_of_float(float value)
{
    return __float_as_uint(value);
}

MPIX_DEVICE double mpix_double_of_bits(mpix_u64 bits)
{
    return __longlong_as_double((long long)bits);
}

MPIX_DEVICE mpix_u64 mpix_bits_of_double(double value)
{
    return (mpix_u64)__double_as_longlong(value);
}

/* Returns a * b, rounded. A plain product could be fused with a later addition, which rounds only once. */
MPIX_DEVICE float mpix_multiply(float a, float b)
{
    return __fmul_rn(a, b);
}

/* Returns a * b of doubles, rounded in the same way. */
MPIX_DEVICE double mpix_multiply_double(double a, double b)
{
    return __dmul_rn(a, b);
}

#else

#include <sched.h>
#include <string.h>
#include <time.h>

#define MPIX_DEVICE static inline
/* Twin: as above, but with fewer turns, because a turn of a wait may yield the processor. */
#define MPIX_TURNS 256u
#define MPIX_WARP_SIZE 1u

/* The state of the meetings of a block's threads. All members are 0 at first. */
typedef struct {
    mpix_u32 arrived;    /* number of threads that have arrived at the current meeting */
    mpix_u32 generation; /* number of meetings so far */
    mpix_u32 any[2];     /* [generation modulo 2]: some thread has passed a value that is not 0 */
} mpix_meeting_t;

/* A group, as one of its threads sees it: the members of a group on a GPU, and more for the twin. */
typedef struct {
    mpix_u32 index;
    mpix_u32 size;
    mpix_u32 kind;
    mpix_u32 block;
    mpix_u32 blocks;
    int failed;
    mpix_u32 turns;          /* number of turns in all waits of this thread */
    mpix_meeting_t *meeting; /* of the block */
} mpix_group_t;

/* Lets other threads run now and then, as there may be fewer processors than threads. Each turn of a wait calls it. */
MPIX_DEVICE void mpix_pause(mpix_group_t *group)
{
    if (++group->turns % 32 == 0) { /* seldom enough that a wait with a processor to itself stays fast */
        (void)sched_yield();
    }
}

/*
 * Waits as mpix_sync does. Returns a value other than 0 if any thread of the group has passed such a value. On the
 * twin, a group of several threads is always the whole block, so it uses the block's meeting. The last thread that
 * arrives stores the generation last, so that no other thread arrives at the next meeting before this one is cleared.
 */
MPIX_DEVICE int mpix_any(mpix_group_t *group, int value)
{
    mpix_meeting_t *meeting = group->meeting;
    mpix_u32 generation;

    if (group->size == 1) {
        return value;
    }
    generation = __atomic_load_n(&meeting->generation, __ATOMIC_ACQUIRE);
    if (value) {
        __atomic_store_n(&meeting->any[generation % 2], 1u, __ATOMIC_RELAXED);
    }
    if (__atomic_add_fetch(&meeting->arrived, 1u, __ATOMIC_ACQ_REL) == group->size) {
        /*
         * The other value belongs to the previous meeting. All threads have read it, since they have arrived at this
         * one.
         */
        __atomic_store_n(&meeting->any[(generation + 1) % 2], 0u, __ATOMIC_RELAXED);
        __atomic_store_n(&meeting->arrived, 0u, __ATOMIC_RELAXED);
        __atomic_store_n(&meeting->generation, generation + 1, __ATOMIC_RELEASE);
    } else {
        while (__atomic_load_n(&meeting->generation, __ATOMIC_ACQUIRE) == generation) {
            mpix_pause(group);
        }
    }
    return __atomic_load_n(&meeting->any[generation % 2], __ATOMIC_RELAXED) != 0;
}

/* Waits for all threads of the group. They see afterwards what any of them wrote before. */
MPIX_DEVICE void mpix_sync(mpix_group_t *group)
{
    (void)mpix_any(group, 0);
}

/* The functions from here on do the same as on a GPU, above. */
MPIX_DEVICE mpix_u64 mpix_load_relaxed(const mpix_u64 *word)
{
    return __atomic_load_n(word, __ATOMIC_RELAXED);
}

MPIX_DEVICE mpix_u64 mpix_load_acquire(const mpix_u64 *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

MPIX_DEVICE void mpix_store_relaxed(mpix_u64 *word, mpix_u64 value)
{
    __atomic_store_n(word, value, __ATOMIC_RELAXED);
}

MPIX_DEVICE void mpix_store_release(mpix_u64 *word, mpix_u64 value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

MPIX_DEVICE void mpix_add_release(mpix_u64 *word, mpix_u64 value)
{
    (void)__atomic_fetch_add(word, value, __ATOMIC_RELEASE);
}

MPIX_DEVICE mpix_u64 mpix_fetch_add(mpix_u64 *word, mpix_u64 value)
{
    return __atomic_fetch_add(word, value, __ATOMIC_RELAXED);
}

/* Stores a packet: 8 bytes of data and two flags. Each half, 4 bytes and a flag, is stored whole. */
MPIX_DEVICE void mpix_store_packet(char *packet, mpix_u64 data, mpix_u32 flag)
{
    mpix_u64 *words = (mpix_u64 *)(void *)packet;

    mpix_store_relaxed(&words[0], (mpix_u64)flag << 32 | (data & 0xffffffffu));
    mpix_store_relaxed(&words[1], (mpix_u64)flag << 32 | data >> 32);
}

/* Loads a packet's data. Returns 1 if it has arrived, with `flag` in both halves; else 0, and *data means nothing. */
MPIX_DEVICE int mpix_load_packet(const char *packet, mpix_u32 flag, mpix_u64 *data)
{
    const mpix_u64 *words = (const mpix_u64 *)(const void *)packet;
    const mpix_u64 first = mpix_load_relaxed(&words[0]), second = mpix_load_relaxed(&words[1]);

    *data = second << 32 | (first & 0xffffffffu);
    return first >> 32 == flag && second >> 32 == flag;
}

MPIX_DEVICE mpix_u64 mpix_clock_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (mpix_u64)now.tv_sec * 1000000000u + (mpix_u64)now.tv_nsec;
}

MPIX_DEVICE void mpix_copy16(char *to, const char *from)
{
    (void)memcpy(to, from, 16);
}

MPIX_DEVICE void mpix_copy4(char *to, const char *from)
{
    (void)memcpy(to, from, 4);
}

MPIX_DEVICE float mpix_float_of_bits(mpix_u32 bits)
{
    float value;

    (void)memcpy(&value, &bits, sizeof(value));
    return value;
}

MPIX_DEVICE mpix_u32 mpix_bits_of_float(float value)
{
    mpix_u32 bits;

    (void)memcpy(&bits, &value, sizeof(bits));
    return bits;
}

MPIX_DEVICE double mpix_double_of_bits(mpix_u64 bits)
{
    double value;

    (void)memcpy(&value, &bits, sizeof(value));
    return value;
}

MPIX_DEVICE mpix_u64 mpix_bits_of_double(double value)
{
    mpix_u64 bits;

    (void)memcpy(&bits, &value, sizeof(bits));
    return bits;
}

MPIX_DEVICE float mpix_multiply(float a, float b)
{
    volatile float product = a * b; /* compilers fuse products with additions across statements, too */

    return product;
}

MPIX_DEVICE double mpix_multiply_double(double a, double b)
{
    volatile double product = a * b;

    return product;
}

#endif

/*
 * Returns the group of this thread alone. It starts as failed if the block's group has failed. A failure of the new
 * group does not mark the block's group.
 */
MPIX_DEVICE mpix_group_t mpix_thread_of(const mpix_group_t *block)
{
    mpix_group_t group = *block;

    group.index = 0;
    group.size = 1;
    group.kind = MPIX_THREAD;
    return group;
}

/* Returns the group of this thread's warp, which has one thread on the twin. A GPU's block must have whole warps. */
MPIX_DEVICE mpix_group_t mpix_warp_of(const mpix_group_t *block)
{
    mpix_group_t group = *block;

    group.index = block->index % MPIX_WARP_SIZE;
    group.size = MPIX_WARP_SIZE;
    group.kind = MPIX_WARP_SIZE == 1 ? MPIX_THREAD : MPIX_WARP;
    return group;
}

#endif
