/* The shim for CUDA: the only header with inline PTX, threadIdx or __CUDA_ARCH__. */
#ifndef MSCCLPP_DEVICE_SHIM_CUDA_H
#define MSCCLPP_DEVICE_SHIM_CUDA_H

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

#define MSCCLPP_DEV static __device__ __forceinline__
#define MSCCLPP_DEV_OUTLINE static __device__ __noinline__
#define MSCCLPP_DEV_SHARED MSCCLPP_DEV
#define MSCCLPP_DEV_UNROLL _Pragma("unroll")
#define MSCCLPP_DEV_ROLLED _Pragma("unroll 1")

/* Kernels are compiled separately for each of the most important combinations of type and operation. */
#define MSCCLPP_DEV_FOLDS true

/* For ThreadSanitizer on the host twin (shim/host.h). */
#define MSCCLPP_DEV_SENDS_PACKET(p_) ((void)0)
#define MSCCLPP_DEV_SAW_PACKET(p_) ((void)0)

typedef struct __align__(16)
{
    uint32_t w[4];
}
mscclpp_dev_vec_t;

typedef uint32_t mscclpp_dev_word_t;
typedef uint16_t mscclpp_dev_half_t;

typedef struct {
    uint32_t tid;      /* number of this thread in its block */
    uint32_t nthreads; /* number of threads in the block */
    uint32_t block;
    uint32_t nblocks;
    bool failed;  /* a wait or an earlier operation failed; this thread sends nothing more */
    bool lingers; /* a compile-time constant wherever it is read */
} mscclpp_dev_ctx_t;

/* Makes the context of the calling thread, at the beginning of a kernel. */
MSCCLPP_DEV void mscclpp_dev_ctx_init(mscclpp_dev_ctx_t *ctx)
{
    ctx->tid = threadIdx.x;
    ctx->nthreads = blockDim.x;
    ctx->block = blockIdx.x;
    ctx->nblocks = gridDim.x;
    ctx->failed = false;
    ctx->lingers = false;
}

/* Reads the thread's identity again, so that a thread that is short of registers need not keep it. */
MSCCLPP_DEV void mscclpp_dev_ctx_renew(mscclpp_dev_ctx_t *ctx)
{
    asm volatile("mov.u32 %0, %%tid.x;\n\tmov.u32 %1, %%ntid.x;\n\tmov.u32 %2, %%ctaid.x;\n\tmov.u32 %3, %%nctaid.x;"
                 : "=r"(ctx->tid), "=r"(ctx->nthreads), "=r"(ctx->block), "=r"(ctx->nblocks));
}

MSCCLPP_DEV uint32_t mscclpp_dev_ld_relaxed_sys_u32(const uint32_t *address)
{
    uint32_t value;

    asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
    return value;
}

/* Loads a word of the memory that the threads of a block share. */
MSCCLPP_DEV uint32_t mscclpp_dev_ld_relaxed_block_u32(const uint32_t *address)
{
    return *(const volatile uint32_t *)address;
}

MSCCLPP_DEV void mscclpp_dev_st_relaxed_block_u32(uint32_t *address, uint32_t value)
{
    *(volatile uint32_t *)address = value;
}

MSCCLPP_DEV uint64_t mscclpp_dev_ld_relaxed_sys_u64(const uint64_t *address)
{
    uint64_t value;

    asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(address) : "memory");
    return value;
}

MSCCLPP_DEV uint64_t mscclpp_dev_ld_acquire_sys_u64(const uint64_t *address)
{
    uint64_t value;

    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(address) : "memory");
    return value;
}

MSCCLPP_DEV void mscclpp_dev_st_relaxed_sys_u64(uint64_t *address, uint64_t value)
{
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(address), "l"(value) : "memory");
}

MSCCLPP_DEV void mscclpp_dev_st_release_sys_u64(uint64_t *address, uint64_t value)
{
    asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(address), "l"(value) : "memory");
}

/*
 * Writes a word for the host after results in this device's own memory. All readers of that memory, wherever they are,
 * read the contents of its second-level cache, and a release to this device brings the results there. A release to the
 * system would also wait for data on their way to the peers, which the host does not ask about.
 */
MSCCLPP_DEV void mscclpp_dev_st_release_home_u64(uint64_t *address, uint64_t value)
{
    asm volatile("fence.acq_rel.gpu;\n\tst.relaxed.sys.global.u64 [%0], %1;" ::"l"(address), "l"(value) : "memory");
}

MSCCLPP_DEV uint64_t mscclpp_dev_ld_acquire_gpu_u64(const uint64_t *address)
{
    uint64_t value;

    asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(address) : "memory");
    return value;
}

/*
 * Relays words that the host wrote. The data that the words describe were written by others, before the caller acquired
 * the words. So a relaxed store is enough for all readers of this device to see the data. It need not wait for anything
 * of the caller's own, and the reader's acquire drops its stale cache lines.
 */
MSCCLPP_DEV void mscclpp_dev_st_relay_gpu_u64(uint64_t *address, uint64_t value)
{
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(address), "l"(value) : "memory");
}

/*
 * Stores a word of another block of the cluster. `address` is in the caller's shared memory; the word at the same
 * offset in the shared memory of `block` is written. Before compute capability 9.0 there are no clusters, and nothing
 * is stored.
 */
MSCCLPP_DEV void mscclpp_dev_st_relay_cluster_u64(const mscclpp_dev_ctx_t *ctx, uint64_t *address, uint32_t block,
                                                  uint64_t value)
{
    (void)ctx;
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "{\n\t.reg .u32 there;\n\tmapa.shared::cluster.u32 there, %0, %1;\n\t"
        "st.relaxed.cluster.shared::cluster.u64 [there], %2;\n\t}" ::"r"((uint32_t)__cvta_generic_to_shared(address)),
        "r"(block), "l"(value)
        : "memory");
#else
    (void)address;
    (void)block;
    (void)value;
#endif
}

/* Loads a word of the calling block's own memory, which another block may have written. */
MSCCLPP_DEV uint64_t mscclpp_dev_ld_acquire_cluster_u64(const uint64_t *address)
{
#if __CUDA_ARCH__ >= 900
    uint64_t value;

    asm volatile("ld.acquire.cluster.shared::cta.u64 %0, [%1];"
                 : "=l"(value)
                 : "r"((uint32_t)__cvta_generic_to_shared(address))
                 : "memory");
    return value;
#else
    return *(const volatile uint64_t *)address;
#endif
}

/* Returns the number of blocks in this block's cluster; 1 if the kernel was launched without clusters. */
MSCCLPP_DEV uint32_t mscclpp_dev_cluster_size(const mscclpp_dev_ctx_t *ctx)
{
    (void)ctx;
#if __CUDA_ARCH__ >= 900
    uint32_t size;

    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
    return size;
#else
    return 1;
#endif
}

MSCCLPP_DEV void mscclpp_dev_cluster_sync(mscclpp_dev_ctx_t *ctx)
{
    (void)ctx;
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

MSCCLPP_DEV void mscclpp_dev_red_release_sys_add_u64(uint64_t *address, uint64_t value)
{
    asm volatile("red.release.sys.global.add.u64 [%0], %1;" ::"l"(address), "l"(value) : "memory");
}

MSCCLPP_DEV uint64_t mscclpp_dev_atom_relaxed_gpu_add_u64(uint64_t *address, uint64_t value)
{
    uint64_t old_value;

    asm volatile("atom.relaxed.gpu.global.add.u64 %0, [%1], %2;"
                 : "=l"(old_value)
                 : "l"(address), "l"(value)
                 : "memory");
    return old_value;
}

MSCCLPP_DEV uint32_t mscclpp_dev_atom_acq_rel_gpu_add_u32(uint32_t *address, uint32_t value)
{
    uint32_t old_value;

    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;"
                 : "=r"(old_value)
                 : "l"(address), "r"(value)
                 : "memory");
    return old_value;
}

/*
 * Loads a unit from an address that is a multiple of 16. A plain load, not volatile asm, so that the compiler may
 * overlap the loads of several units.
 */
MSCCLPP_DEV mscclpp_dev_vec_t mscclpp_dev_ld_vec(const void *address)
{
    uint4 loaded = *(const uint4 *)address;
    mscclpp_dev_vec_t value;

    value.w[0] = loaded.x;
    value.w[1] = loaded.y;
    value.w[2] = loaded.z;
    value.w[3] = loaded.w;
    return value;
}

MSCCLPP_DEV void mscclpp_dev_st_vec(void *address, mscclpp_dev_vec_t value)
{
    *(uint4 *)address = make_uint4(value.w[0], value.w[1], value.w[2], value.w[3]);
}

MSCCLPP_DEV void mscclpp_dev_fence_acq_rel_sys(void)
{
    asm volatile("fence.acq_rel.sys;" ::: "memory");
}

/*
 * The next four functions store and load packets of 8 and of 16 bytes: each word of data is followed by the flag. A
 * load returns true if the packet has the flag, else the data are arbitrary. Relaxed order is enough, because the data
 * are in the same vector as the flags that are tested.
 */
MSCCLPP_DEV void mscclpp_dev_st_packet8(void *address, uint32_t data, uint32_t flag)
{
    asm volatile("st.relaxed.sys.global.v2.u32 [%0], {%1, %2};" ::"l"(address), "r"(data), "r"(flag) : "memory");
}

MSCCLPP_DEV bool mscclpp_dev_ld_packet8(const void *address, uint32_t flag, uint32_t *data)
{
    uint32_t word, word_flag;

    asm volatile("ld.relaxed.sys.global.v2.u32 {%0, %1}, [%2];"
                 : "=r"(word), "=r"(word_flag)
                 : "l"(address)
                 : "memory");
    *data = word;
    return word_flag == flag;
}

MSCCLPP_DEV void mscclpp_dev_st_packet16(void *address, uint32_t data0, uint32_t data1, uint32_t flag)
{
    asm volatile("st.relaxed.sys.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(address), "r"(data0), "r"(flag),
                 "r"(data1), "r"(flag)
                 : "memory");
}

MSCCLPP_DEV bool mscclpp_dev_ld_packet16(const void *address, uint32_t flag, uint32_t *data0, uint32_t *data1)
{
    uint32_t word_0, flag_0, word_1, flag_1;

    asm volatile("ld.relaxed.sys.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(word_0), "=r"(flag_0), "=r"(word_1), "=r"(flag_1)
                 : "l"(address)
                 : "memory");
    *data0 = word_0;
    *data1 = word_1;
    return flag_0 == flag && flag_1 == flag;
}

/* Does nothing on a GPU: the latency of the load that polls is pause enough. */
MSCCLPP_DEV void mscclpp_dev_pause(mscclpp_dev_ctx_t *ctx)
{
    (void)ctx;
}

/* Does nothing: a CPU thread looks for requests all the time. */
MSCCLPP_DEV void mscclpp_dev_note_request(mscclpp_dev_ctx_t *ctx)
{
    (void)ctx;
}

/* Sleeps for a microsecond, for waits that last many. */
MSCCLPP_DEV void mscclpp_dev_sleep_1us(mscclpp_dev_ctx_t *ctx)
{
    (void)ctx;
    __nanosleep(1000);
}

/*
 * Returns a product that the compiler does not fuse with an addition. It would do so for some elements and GPUs and not
 * for others.
 */
MSCCLPP_DEV float mscclpp_dev_mul_f32(float x, float y)
{
    return __fmul_rn(x, y);
}

MSCCLPP_DEV double mscclpp_dev_mul_f64(double x, double y)
{
    return __dmul_rn(x, y);
}

MSCCLPP_DEV uint64_t mscclpp_dev_now_ns(void)
{
    uint64_t now_ns;

    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now_ns));
    return now_ns;
}

MSCCLPP_DEV void mscclpp_dev_block_sync(mscclpp_dev_ctx_t *ctx)
{
    (void)ctx;
    __syncthreads();
}

MSCCLPP_DEV bool mscclpp_dev_block_sync_or(mscclpp_dev_ctx_t *ctx, bool flag)
{
    (void)ctx;
    return __syncthreads_or(flag) != 0;
}

/*
 * Waits for the end of the kernel in front in the stream or graph, and lets the next kernel come. It is for kernels
 * that may become resident before that end. So at most two kernels are resident, and the first one has all its blocks.
 * What needs the arguments alone is best done before. The operations of a lingering kernel do not wait.
 */
MSCCLPP_DEV void mscclpp_dev_await_stream(const mscclpp_dev_ctx_t *ctx)
{
#if __CUDA_ARCH__ >= 900
    if (!ctx->lingers) {
        asm volatile("griddepcontrol.wait;\n\tgriddepcontrol.launch_dependents;" ::: "memory");
    }
#else
    (void)ctx;
#endif
}

#define MSCCLPP_DEV_WARP 32u

MSCCLPP_DEV bool mscclpp_dev_warp_or(bool flag)
{
    return __any_sync(0xffffffffu, flag) != 0;
}

MSCCLPP_DEV void mscclpp_dev_warp_meet(void)
{
    __syncwarp();
}

#define MSCCLPP_DEV_LANES 1

typedef struct {
    mscclpp_dev_vec_t lane[MSCCLPP_DEV_LANES];
} mscclpp_dev_bundle_t;

MSCCLPP_DEV uint32_t mscclpp_dev_lane(const mscclpp_dev_ctx_t *ctx, uint32_t i)
{
    return ctx->tid % MSCCLPP_DEV_WARP + i;
}

/*
 * Turns units and the flag into lines, as device/lib/packet.h describes. In each pair of lines, the second half of the
 * last unit goes to the last lane of the second line. The flag follows each half. Called by all lanes of the warp
 * together.
 */
MSCCLPP_DEV void mscclpp_dev_bundle_close(const mscclpp_dev_ctx_t *ctx, mscclpp_dev_bundle_t *bundle, uint32_t flag)
{
    const uint32_t word_0 = __shfl_up_sync(0xffffffffu, bundle->lane[0].w[2], 8);
    const uint32_t word_1 = __shfl_up_sync(0xffffffffu, bundle->lane[0].w[3], 8);
    const bool has_flag = ctx->tid % 8 == 7, has_second_half = ctx->tid % 16 == 15;

    bundle->lane[0].w[0] = has_second_half ? word_0 : bundle->lane[0].w[0];
    bundle->lane[0].w[1] = has_second_half ? word_1 : bundle->lane[0].w[1];
    bundle->lane[0].w[2] = has_flag ? flag : bundle->lane[0].w[2];
    bundle->lane[0].w[3] = has_flag ? flag : bundle->lane[0].w[3];
}

/*
 * Turns lines into units: joins the two halves of the last unit of each pair of lines. Called by all lanes of the warp
 * together.
 */
MSCCLPP_DEV void mscclpp_dev_bundle_open(const mscclpp_dev_ctx_t *ctx, mscclpp_dev_bundle_t *bundle)
{
    const uint32_t word_2 = __shfl_down_sync(0xffffffffu, bundle->lane[0].w[0], 8);
    const uint32_t word_3 = __shfl_down_sync(0xffffffffu, bundle->lane[0].w[1], 8);
    const bool has_first_half = ctx->tid % 16 == 7;

    bundle->lane[0].w[2] = has_first_half ? word_2 : bundle->lane[0].w[2];
    bundle->lane[0].w[3] = has_first_half ? word_3 : bundle->lane[0].w[3];
}

/*
 * Stores a bundle's lines at `place`, which is the same in all lanes of the warp. All lanes of a line do so by one
 * instruction, so that it leaves the multiprocessor as one 128-byte request.
 */
MSCCLPP_DEV void mscclpp_dev_bundle_st(const mscclpp_dev_ctx_t *ctx, char *place, const mscclpp_dev_bundle_t *bundle)
{
    const mscclpp_dev_vec_t value = bundle->lane[0];

    asm volatile("st.relaxed.sys.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(place + ctx->tid % MSCCLPP_DEV_WARP * 16),
                 "r"(value.w[0]), "r"(value.w[1]), "r"(value.w[2]), "r"(value.w[3])
                 : "memory");
}

/*
 * Loads lines, with one instruction of all lanes. Called after mscclpp_dev_warp_meet or mscclpp_dev_warp_or: lanes that
 * had diverged might otherwise load by separate instructions. `place` is the start of the warp's lines, the same in all
 * lanes. The caller checks the data later, so that several loads can be in progress at once. Only the twin uses `flag`.
 */
MSCCLPP_DEV void mscclpp_dev_bundle_ld(const mscclpp_dev_ctx_t *ctx, const char *place, uint32_t flag,
                                       mscclpp_dev_bundle_t *bundle)
{
    uint32_t word_0, word_1, word_2, word_3;

    asm volatile("ld.relaxed.sys.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(word_0), "=r"(word_1), "=r"(word_2), "=r"(word_3)
                 : "l"(place + ctx->tid % MSCCLPP_DEV_WARP * 16)
                 : "memory");
    bundle->lane[0].w[0] = word_0;
    bundle->lane[0].w[1] = word_1;
    bundle->lane[0].w[2] = word_2;
    bundle->lane[0].w[3] = word_3;
    (void)flag;
}

/* Returns true if each flag that this lane holds is `flag`. Most lanes hold none. */
MSCCLPP_DEV bool mscclpp_dev_bundle_has(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_bundle_t *bundle, uint32_t flag)
{
    return ctx->tid % 8 != 7 || (bundle->lane[0].w[2] == flag && bundle->lane[0].w[3] == flag);
}

MSCCLPP_DEV float mscclpp_dev_f16_to_f32(uint16_t bits)
{
    return __half2float(__ushort_as_half(bits));
}

MSCCLPP_DEV uint16_t mscclpp_dev_f32_to_f16(float value)
{
    return __half_as_ushort(__float2half_rn(value));
}

MSCCLPP_DEV float mscclpp_dev_bf16_to_f32(uint16_t bits)
{
    return __bfloat162float(__ushort_as_bfloat16(bits));
}

MSCCLPP_DEV uint16_t mscclpp_dev_f32_to_bf16(float value)
{
    return __bfloat16_as_ushort(__float2bfloat16_rn(value));
}

#endif
