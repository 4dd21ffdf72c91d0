/* The shim for the host twin: C11 with the compiler's atomics. Each GPU thread becomes a CPU thread. */
#ifndef MSCCLPP_DEVICE_SHIM_HOST_H
#define MSCCLPP_DEVICE_SHIM_HOST_H

#include <assert.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#define MSCCLPP_DEV static inline __attribute__((unused))
#define MSCCLPP_DEV_OUTLINE static __attribute__((noinline, unused))
#define MSCCLPP_DEV_SHARED MSCCLPP_DEV_OUTLINE
#define MSCCLPP_DEV_UNROLL
#define MSCCLPP_DEV_ROLLED

/*
 * Kernels look up type and operation at run time. Compiling a kernel for each would save little and take minutes.
 */
#define MSCCLPP_DEV_FOLDS false

/*
 * A thread that has read some memory sends a packet; the thread that gets the packet may write that memory. No GPU
 * reverses the two, but ThreadSanitizer must be told. Only plans rely on it. Where their packets have to order stores,
 * too, fences do so, which ThreadSanitizer does not know.
 */
#ifdef __has_feature
#if __has_feature(thread_sanitizer)
#define MSCCLPP_DEV_TELLS_TSAN
#endif
#elif defined(__SANITIZE_THREAD__)
#define MSCCLPP_DEV_TELLS_TSAN
#endif
#ifdef MSCCLPP_DEV_TELLS_TSAN
#include <sanitizer/tsan_interface.h>
#define MSCCLPP_DEV_SENDS_PACKET(p_) __tsan_release(p_)
#define MSCCLPP_DEV_SAW_PACKET(p_) __tsan_acquire(p_)
#else
#define MSCCLPP_DEV_SENDS_PACKET(p_) ((void)0)
#define MSCCLPP_DEV_SAW_PACKET(p_) ((void)0)
#endif

typedef struct {
    uint32_t w[4];
} __attribute__((aligned(16), may_alias)) mscclpp_dev_vec_t;

/* A word of a user's buffer, whatever its elements are. */
typedef uint32_t __attribute__((may_alias)) mscclpp_dev_word_t;
typedef uint16_t __attribute__((may_alias)) mscclpp_dev_half_t;

/* A barrier of threads: those of one block, or of a cluster. It is zeroed at first. */
typedef struct {
    uint32_t arrived;    /* number of threads that have arrived in this generation */
    uint32_t generation; /* number of times that all threads have met */
    uint32_t flags[2];   /* 1: a thread has passed a true flag; by the generation's parity */
} mscclpp_dev_twin_barrier_t;

typedef struct {
    uint32_t tid;      /* number of this thread in its block */
    uint32_t nthreads; /* number of threads in the block */
    uint32_t block;
    uint32_t nblocks;
    bool failed;                         /* a wait or an earlier operation failed; this thread sends nothing more */
    bool lingers;                        /* it executes an operation of a lingering kernel */
    uint32_t turns;                      /* of waits, since the thread last yielded */
    uint32_t patience;                   /* turns of a wait after which the thread yields its processor */
    mscclpp_dev_twin_barrier_t *meeting; /* barrier of the block's threads */
    uint32_t cluster;                    /* blocks that form a cluster; 1: none do */
    uint32_t block_size;                 /* bytes from a block's memory to the next one's */
    mscclpp_dev_twin_barrier_t *cluster_meeting; /* barrier of all threads of the cluster */
    void (*progress)(void *context);             /* NULL, or called in waits that run in an application's thread */
    void *progress_context;
} mscclpp_dev_ctx_t;

/* Does nothing: CPU threads are not short of registers (shim/cuda.h). */
MSCCLPP_DEV void mscclpp_dev_ctx_renew(mscclpp_dev_ctx_t *ctx)
{
    (void)ctx;
}

MSCCLPP_DEV uint32_t mscclpp_dev_ld_relaxed_sys_u32(const uint32_t *address)
{
    return __atomic_load_n(address, __ATOMIC_RELAXED);
}

MSCCLPP_DEV uint32_t mscclpp_dev_ld_relaxed_block_u32(const uint32_t *address)
{
    return __atomic_load_n(address, __ATOMIC_RELAXED);
}

MSCCLPP_DEV void mscclpp_dev_st_relaxed_block_u32(uint32_t *address, uint32_t value)
{
    __atomic_store_n(address, value, __ATOMIC_RELAXED);
}

MSCCLPP_DEV uint64_t mscclpp_dev_ld_relaxed_sys_u64(const uint64_t *address)
{
    return __atomic_load_n(address, __ATOMIC_RELAXED);
}

MSCCLPP_DEV uint64_t mscclpp_dev_ld_acquire_sys_u64(const uint64_t *address)
{
    return __atomic_load_n(address, __ATOMIC_ACQUIRE);
}

MSCCLPP_DEV void mscclpp_dev_st_relaxed_sys_u64(uint64_t *address, uint64_t value)
{
    __atomic_store_n(address, value, __ATOMIC_RELAXED);
}

MSCCLPP_DEV void mscclpp_dev_st_release_sys_u64(uint64_t *address, uint64_t value)
{
    __atomic_store_n(address, value, __ATOMIC_RELEASE);
}

MSCCLPP_DEV void mscclpp_dev_st_release_home_u64(uint64_t *address, uint64_t value)
{
    __atomic_store_n(address, value, __ATOMIC_RELEASE);
}

MSCCLPP_DEV uint64_t mscclpp_dev_ld_acquire_gpu_u64(const uint64_t *address)
{
    return __atomic_load_n(address, __ATOMIC_ACQUIRE);
}

/* Stores with release, because nothing else would make the host's writes visible to the readers' processors. */
MSCCLPP_DEV void mscclpp_dev_st_relay_gpu_u64(uint64_t *address, uint64_t value)
{
    __atomic_store_n(address, value, __ATOMIC_RELEASE);
}

/*
 * Stores a word of another block of the cluster. The blocks' memories follow one another, so the word lies at a fixed
 * distance from the caller's own one, `address`.
 */
MSCCLPP_DEV void mscclpp_dev_st_relay_cluster_u64(const mscclpp_dev_ctx_t *ctx, uint64_t *address, uint32_t block,
                                                  uint64_t value)
{
    const ptrdiff_t distance = ((ptrdiff_t)block - (ptrdiff_t)ctx->block) * (ptrdiff_t)ctx->block_size;

    __atomic_store_n((uint64_t *)(void *)((char *)address + distance), value, __ATOMIC_RELEASE);
}

MSCCLPP_DEV uint64_t mscclpp_dev_ld_acquire_cluster_u64(const uint64_t *address)
{
    return __atomic_load_n(address, __ATOMIC_ACQUIRE);
}

MSCCLPP_DEV uint32_t mscclpp_dev_cluster_size(const mscclpp_dev_ctx_t *ctx)
{
    return ctx->cluster;
}

MSCCLPP_DEV void mscclpp_dev_red_release_sys_add_u64(uint64_t *address, uint64_t value)
{
    __atomic_fetch_add(address, value, __ATOMIC_RELEASE);
}

MSCCLPP_DEV uint64_t mscclpp_dev_atom_relaxed_gpu_add_u64(uint64_t *address, uint64_t value)
{
    return __atomic_fetch_add(address, value, __ATOMIC_RELAXED);
}

MSCCLPP_DEV uint32_t mscclpp_dev_atom_acq_rel_gpu_add_u32(uint32_t *address, uint32_t value)
{
    return __atomic_fetch_add(address, value, __ATOMIC_ACQ_REL);
}

MSCCLPP_DEV mscclpp_dev_vec_t mscclpp_dev_ld_vec(const void *address)
{
    return *(const mscclpp_dev_vec_t *)address;
}

MSCCLPP_DEV void mscclpp_dev_st_vec(void *address, mscclpp_dev_vec_t value)
{
    *(mscclpp_dev_vec_t *)address = value;
}

/* See SENDS_PACKET for what ThreadSanitizer is told instead. */
MSCCLPP_DEV void mscclpp_dev_fence_acq_rel_sys(void)
{
#ifndef MSCCLPP_DEV_TELLS_TSAN
    __atomic_thread_fence(__ATOMIC_ACQ_REL);
#endif
}

/*
 * The next four functions store and load packets of 8 and of 16 bytes, as in device/shim/cuda.h. Each 8-byte half
 * carries its own flag, so 8-byte accesses are enough for both widths. Relaxed order is enough as well, because the
 * data are in the same word as the flag that is tested.
 */
MSCCLPP_DEV void mscclpp_dev_st_packet8(void *address, uint32_t data, uint32_t flag)
{
    __atomic_store_n((uint64_t *)address, (uint64_t)flag << 32 | data, __ATOMIC_RELAXED);
}

MSCCLPP_DEV bool mscclpp_dev_ld_packet8(const void *address, uint32_t flag, uint32_t *data)
{
    uint64_t word = __atomic_load_n((const uint64_t *)address, __ATOMIC_RELAXED);

    *data = (uint32_t)word;
    return (uint32_t)(word >> 32) == flag;
}

/* A GPU accesses 16 bytes at once, at multiples of 16 only. */
MSCCLPP_DEV void mscclpp_dev_st_packet16(void *address, uint32_t data0, uint32_t data1, uint32_t flag)
{
    assert((uintptr_t)address % 16 == 0);
    mscclpp_dev_st_packet8(address, data0, flag);
    mscclpp_dev_st_packet8((char *)address + 8, data1, flag);
}

MSCCLPP_DEV bool mscclpp_dev_ld_packet16(const void *address, uint32_t flag, uint32_t *data0, uint32_t *data1)
{
    bool has_first = mscclpp_dev_ld_packet8(address, flag, data0);

    assert((uintptr_t)address % 16 == 0);
    return mscclpp_dev_ld_packet8((const char *)address + 8, flag, data1) && has_first;
}

/* Turns of a wait between two calls of the progress function, if the thread does not yield before. */
#define MSCCLPP_DEV_TWIN_SPINS 32u

/*
 * Pauses for one turn of a waiting loop. The threads of many ranks may share a few processors, so a thread yields after
 * ctx->patience turns. In an application's thread, it also calls the progress function now and then, and always one
 * turn before it yields. This function may yield, too. So the caller looks between the two whether its data have come
 * while other threads had the processor.
 */
MSCCLPP_DEV void mscclpp_dev_pause(mscclpp_dev_ctx_t *ctx)
{
    if (++ctx->turns > ctx->patience) {
        ctx->turns = 0;
        sched_yield();
    } else if (ctx->progress != NULL && (ctx->turns % MSCCLPP_DEV_TWIN_SPINS == 0 || ctx->turns == ctx->patience)) {
        ctx->progress(ctx->progress_context);
    } else {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    }
}

/*
 * Called after a thread has asked the proxy for something. Makes the next pause call the progress function, which
 * carries out the request: a peer may wait for it.
 */
MSCCLPP_DEV void mscclpp_dev_note_request(mscclpp_dev_ctx_t *ctx)
{
    ctx->turns = (ctx->patience < MSCCLPP_DEV_TWIN_SPINS ? ctx->patience : MSCCLPP_DEV_TWIN_SPINS) - 1;
}

/* Does nothing: the pause in each turn of a wait is enough on the twin. */
MSCCLPP_DEV void mscclpp_dev_sleep_1us(mscclpp_dev_ctx_t *ctx)
{
    (void)ctx;
}

/*
 * Returns a product that the compiler does not fuse with an addition. It would do so where it is told of a processor
 * that can, so results would depend on its options.
 */
MSCCLPP_DEV float mscclpp_dev_mul_f32(float x, float y)
{
    volatile float product = x * y;

    return product;
}

MSCCLPP_DEV double mscclpp_dev_mul_f64(double x, double y)
{
    volatile double product = x * y;

    return product;
}

MSCCLPP_DEV uint64_t mscclpp_dev_now_ns(void)
{
    struct timespec now_time;

    clock_gettime(CLOCK_MONOTONIC, &now_time);
    return (uint64_t)now_time.tv_sec * 1000000000u + (uint64_t)now_time.tv_nsec;
}

/*
 * Waits until `threads` threads have called this function with this `meeting`. Returns true if any of them has passed a
 * true flag. Has no deadline.
 *
 *   1. A thread reads the generation before it counts itself, so the generation cannot end in between.
 *   2. It counts itself with release. The last one acquires all counts, and ends the generation with release.
 *   3. The others acquire the generation. So each thread sees all that any of them wrote before the meeting.
 */
MSCCLPP_DEV bool mscclpp_dev_twin_meet(mscclpp_dev_ctx_t *ctx, mscclpp_dev_twin_barrier_t *meeting, uint32_t threads,
                                       bool flag)
{
    const uint32_t generation = __atomic_load_n(&meeting->generation, __ATOMIC_ACQUIRE);
    uint32_t *combined_flag = &meeting->flags[generation % 2];

    if (flag) {
        __atomic_store_n(combined_flag, 1, __ATOMIC_RELAXED);
    }
    if (__atomic_add_fetch(&meeting->arrived, 1, __ATOMIC_ACQ_REL) == threads) {
        /*
         * Resets the next generation's flag and count before this one ends, as other threads may then enter the next
         * one at once. No thread reads that flag any more: all of them have read it before they arrived here.
         */
        __atomic_store_n(&meeting->flags[(generation + 1) % 2], 0, __ATOMIC_RELAXED);
        __atomic_store_n(&meeting->arrived, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&meeting->generation, generation + 1, __ATOMIC_RELEASE);
    } else {
        while (__atomic_load_n(&meeting->generation, __ATOMIC_ACQUIRE) == generation) {
            mscclpp_dev_pause(ctx);
        }
    }
    return __atomic_load_n(combined_flag, __ATOMIC_RELAXED) != 0;
}

/*
 * Waits until all threads of the block have called this function. Returns true in all threads if any of them passed
 * true. With one thread, nothing waits.
 */
MSCCLPP_DEV bool mscclpp_dev_block_sync_or(mscclpp_dev_ctx_t *ctx, bool flag)
{
    return ctx->nthreads == 1 ? flag : mscclpp_dev_twin_meet(ctx, ctx->meeting, ctx->nthreads, flag);
}

/* Kernels of the twin start one after the other in their queue, so there is nothing to wait for. */
MSCCLPP_DEV void mscclpp_dev_await_stream(const mscclpp_dev_ctx_t *ctx)
{
    (void)ctx;
}

MSCCLPP_DEV void mscclpp_dev_cluster_sync(mscclpp_dev_ctx_t *ctx)
{
    (void)mscclpp_dev_twin_meet(ctx, ctx->cluster_meeting, ctx->cluster * ctx->nthreads, false);
}

MSCCLPP_DEV void mscclpp_dev_block_sync(mscclpp_dev_ctx_t *ctx)
{
    (void)mscclpp_dev_block_sync_or(ctx, false);
}

#define MSCCLPP_DEV_WARP 1u

MSCCLPP_DEV bool mscclpp_dev_warp_or(bool flag)
{
    return flag;
}

MSCCLPP_DEV void mscclpp_dev_warp_meet(void)
{
}

/* One thread does the work of a GPU's warp. */
#define MSCCLPP_DEV_LANES 32

typedef struct {
    mscclpp_dev_vec_t lane[MSCCLPP_DEV_LANES];
} mscclpp_dev_bundle_t;

MSCCLPP_DEV uint32_t mscclpp_dev_lane(const mscclpp_dev_ctx_t *ctx, uint32_t i)
{
    (void)ctx;
    return i;
}

/*
 * Turns units and the flag into lines, as device/lib/packet.h describes. In each pair of lines, the second half of the
 * last unit goes to the last lane of the second line. The flag follows each half.
 */
MSCCLPP_DEV void mscclpp_dev_bundle_close(const mscclpp_dev_ctx_t *ctx, mscclpp_dev_bundle_t *bundle, uint32_t flag)
{
    uint32_t i;

    (void)ctx;
    for (i = 7; i < MSCCLPP_DEV_LANES; i += 16) {
        mscclpp_dev_vec_t *first = &bundle->lane[i], *second = &bundle->lane[i + 8];

        second->w[0] = first->w[2];
        second->w[1] = first->w[3];
        first->w[2] = first->w[3] = second->w[2] = second->w[3] = flag;
    }
}

/* Turns lines into units: joins the two halves of the last unit of each pair of lines. */
MSCCLPP_DEV void mscclpp_dev_bundle_open(const mscclpp_dev_ctx_t *ctx, mscclpp_dev_bundle_t *bundle)
{
    uint32_t i;

    (void)ctx;
    for (i = 7; i < MSCCLPP_DEV_LANES; i += 16) {
        bundle->lane[i].w[2] = bundle->lane[i + 8].w[0];
        bundle->lane[i].w[3] = bundle->lane[i + 8].w[1];
    }
}

/* Returns the bundle's 64-bit word number `i`. A lane has two. */
MSCCLPP_DEV uint64_t mscclpp_dev_bundle_word(const mscclpp_dev_bundle_t *bundle, uint32_t i)
{
    const mscclpp_dev_vec_t *lane = &bundle->lane[i / 2];

    return i % 2 == 0 ? (uint64_t)lane->w[1] << 32 | lane->w[0] : (uint64_t)lane->w[3] << 32 | lane->w[2];
}

/*
 * Stores the bundle's four lines at `place`. A line arrives as a whole, because its flag is stored last, with release,
 * and loaded first, with acquire.
 */
MSCCLPP_DEV void mscclpp_dev_bundle_st(const mscclpp_dev_ctx_t *ctx, char *place, const mscclpp_dev_bundle_t *bundle)
{
    uint64_t *to = (uint64_t *)(void *)place;
    uint32_t line, i;

    (void)ctx;
    for (line = 0; line < 2 * MSCCLPP_DEV_LANES; line += 16) {
        for (i = line; i < line + 15; ++i) {
            __atomic_store_n(&to[i], mscclpp_dev_bundle_word(bundle, i), __ATOMIC_RELAXED);
        }
        __atomic_store_n(&to[i], mscclpp_dev_bundle_word(bundle, i), __ATOMIC_RELEASE);
    }
}

/*
 * Loads the four lines at `place` into the bundle. Stops at the first line whose flag is not `flag`, and loads only the
 * flag of that line, so that mscclpp_dev_bundle_has returns false.
 */
MSCCLPP_DEV void mscclpp_dev_bundle_ld(const mscclpp_dev_ctx_t *ctx, const char *place, uint32_t flag,
                                       mscclpp_dev_bundle_t *bundle)
{
    const uint64_t *from = (const uint64_t *)(const void *)place;
    const uint64_t whole_flag = (uint64_t)flag << 32 | flag;
    uint32_t line, i;

    (void)ctx;
    for (line = 0; line < 2 * MSCCLPP_DEV_LANES; line += 16) {
        const uint64_t line_flag = __atomic_load_n(&from[line + 15], __ATOMIC_ACQUIRE);

        bundle->lane[line / 2 + 7].w[2] = (uint32_t)line_flag;
        bundle->lane[line / 2 + 7].w[3] = (uint32_t)(line_flag >> 32);
        for (i = line; line_flag == whole_flag && i < line + 15; ++i) {
            const uint64_t word = __atomic_load_n(&from[i], __ATOMIC_RELAXED);

            bundle->lane[i / 2].w[i % 2 * 2] = (uint32_t)word;
            bundle->lane[i / 2].w[i % 2 * 2 + 1] = (uint32_t)(word >> 32);
        }
        if (line_flag != whole_flag) {
            return;
        }
    }
}

/* Returns true if all lines of the bundle have the flag `flag`. Then all of its data have arrived. */
MSCCLPP_DEV bool mscclpp_dev_bundle_has(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_bundle_t *bundle, uint32_t flag)
{
    uint32_t i;

    (void)ctx;
    for (i = 7; i < MSCCLPP_DEV_LANES; i += 8) {
        if (bundle->lane[i].w[2] != flag || bundle->lane[i].w[3] != flag) {
            return false;
        }
    }
    return true;
}

/* Widens an IEEE half, given as its bits. The result is exact. */
MSCCLPP_DEV_OUTLINE float mscclpp_dev_f16_to_f32(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16, exponent = half >> 10 & 0x1f, mantissa = half & 0x3ff, bits;
    float value;

    if (exponent == 0x1f) { /* infinity, or not a number */
        bits = sign | 0x7f800000u | mantissa << 13;
    } else if (exponent != 0) { /* normal; the two formats' exponents count from 127 and from 15 */
        bits = sign | (exponent + 112) << 23 | mantissa << 13;
    } else { /* zero, or a multiple of the smallest half */
        value = (float)mantissa * 0x1p-24f;
        memcpy(&bits, &value, sizeof(bits));
        bits |= sign;
    }
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* Returns the bits of the nearest IEEE half, ties to even. */
MSCCLPP_DEV_OUTLINE uint16_t mscclpp_dev_f32_to_f16(float value)
{
    uint32_t bits, magnitude, sign;
    float scaled;

    memcpy(&bits, &value, sizeof(bits));
    sign = bits >> 16 & 0x8000u;
    magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) { /* not a number */
        return (uint16_t)(sign | 0x7fffu);
    }
    if (magnitude >= 0x477ff000u) { /* rounds to 2^16 or more */
        return (uint16_t)(sign | 0x7c00u);
    }
    /* Below the smallest normal half. In a float from 0.5 to 1, the last bit is worth as much as the smallest half. */
    if (magnitude < 0x38800000u) {
        memcpy(&scaled, &magnitude, sizeof(scaled));
        scaled += 0.5f;
        memcpy(&magnitude, &scaled, sizeof(magnitude));
        return (uint16_t)(sign | (magnitude - 0x3f000000u));
    }
    /* Adds almost half of the last bit that is kept, or exactly half if that bit is set. So ties go to even. */
    magnitude += 0xfffu + (magnitude >> 13 & 1);
    return (uint16_t)(sign | (magnitude - 0x38000000u) >> 13);
}

/* Widens a bfloat16, given as its bits, which are the higher half of a float's. */
MSCCLPP_DEV_OUTLINE float mscclpp_dev_bf16_to_f32(uint16_t bits)
{
    const uint32_t float_bits = (uint32_t)bits << 16;
    float value;

    memcpy(&value, &float_bits, sizeof(value));
    return value;
}

/* Returns the bits of the nearest bfloat16, ties to even. */
MSCCLPP_DEV_OUTLINE uint16_t mscclpp_dev_f32_to_bf16(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    if ((bits & 0x7fffffffu) > 0x7f800000u) { /* not a number: stays one, whatever bits are cut off */
        return (uint16_t)(bits >> 16 | 0x40u);
    }
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16); /* rounds as mscclpp_dev_f32_to_f16 does */
}

#endif
