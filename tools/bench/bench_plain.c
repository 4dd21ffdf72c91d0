/*
 * The rival "kernel": a kernel on each GPU that only reads and writes as many bytes as the ranks of this GPU must for a
 * call. The first of these ranks launches it, and the others do nothing. On the twin the thread of that rank itself
 * reads and writes.
 */
#include "tools/bench/bench.h"

#include <stdlib.h>
#include <string.h>

#include "tools/bench/bench_kernel.h"

#define THREADS 512u
#define BLOCKS_PER_MULTIPROCESSOR 4u
#define UNIT_BYTES 16u /* of a load or store */

/* As in cuda.h: CUdevice_attribute. */
#define ATTRIBUTE_MULTIPROCESSORS 16

typedef int (*cu_device_get_fn_t)(int *device, int ordinal);
typedef int (*cu_attribute_fn_t)(int *value, int attribute, int device);
typedef int (*cu_load_fn_t)(void **module, const void *image);
typedef int (*cu_unload_fn_t)(void *module);
typedef int (*cu_function_fn_t)(void **function, void *module, const char *name);
typedef int (*cu_launch_fn_t)(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                              unsigned block_y, unsigned block_z, unsigned shared, void *stream, void **parameters,
                              void **extra);

/*
 * The kernel, in PTX. All threads share the units. Each thread issues four loads in a row before it uses their values.
 * The units that are both read and written are copied. Further units that are only read are combined in a register. The
 * register is stored unless it is 0, so that the assembler cannot remove the loads; because the memory is zeroed, it is
 * always 0. Further units that are only written get zeros.
 */
static const char image[] =
    ".version 6.0\n"
    ".target sm_50\n"
    ".address_size 64\n"
    ".visible .entry touch(.param .u64 from, .param .u64 to, .param .u64 reads, .param .u64 writes)\n"
    "{\n"
    "    .reg .pred %more;\n"
    "    .reg .b32 %a<4>, %b<4>, %c<4>, %d<4>, %fold, %t, %u, %v;\n"
    "    .reg .b64 %from, %to, %reads, %writes, %both, %at, %last, %step, %skip, %p, %q;\n"
    "    ld.param.u64 %from, [from];\n"
    "    ld.param.u64 %to, [to];\n"
    "    ld.param.u64 %reads, [reads];\n"
    "    ld.param.u64 %writes, [writes];\n"
    "    min.u64 %both, %reads, %writes;\n"
    "    mov.u32 %t, %ctaid.x;\n"
    "    mov.u32 %u, %ntid.x;\n"
    "    mov.u32 %v, %tid.x;\n"
    "    mad.lo.u32 %t, %t, %u, %v;\n"
    "    cvt.u64.u32 %at, %t;\n"
    "    mov.u32 %v, %nctaid.x;\n"
    "    mul.lo.u32 %t, %u, %v;\n"
    "    cvt.u64.u32 %step, %t;\n"
    "    shl.b64 %skip, %step, 4;\n"
    "    mov.u32 %fold, 0;\n"
    "COPY_FOUR:\n"
    "    mad.lo.u64 %last, %step, 3, %at;\n"
    "    setp.ge.u64 %more, %last, %both;\n"
    "    @%more bra COPY_ONE;\n"
    "    shl.b64 %p, %at, 4;\n"
    "    add.u64 %q, %to, %p;\n"
    "    add.u64 %p, %from, %p;\n"
    "    ld.global.v4.u32 {%a0, %a1, %a2, %a3}, [%p];\n"
    "    add.u64 %p, %p, %skip;\n"
    "    ld.global.v4.u32 {%b0, %b1, %b2, %b3}, [%p];\n"
    "    add.u64 %p, %p, %skip;\n"
    "    ld.global.v4.u32 {%c0, %c1, %c2, %c3}, [%p];\n"
    "    add.u64 %p, %p, %skip;\n"
    "    ld.global.v4.u32 {%d0, %d1, %d2, %d3}, [%p];\n"
    "    st.global.v4.u32 [%q], {%a0, %a1, %a2, %a3};\n"
    "    add.u64 %q, %q, %skip;\n"
    "    st.global.v4.u32 [%q], {%b0, %b1, %b2, %b3};\n"
    "    add.u64 %q, %q, %skip;\n"
    "    st.global.v4.u32 [%q], {%c0, %c1, %c2, %c3};\n"
    "    add.u64 %q, %q, %skip;\n"
    "    st.global.v4.u32 [%q], {%d0, %d1, %d2, %d3};\n"
    "    add.u64 %at, %last, %step;\n"
    "    bra COPY_FOUR;\n"
    "COPY_ONE:\n"
    "    setp.ge.u64 %more, %at, %both;\n"
    "    @%more bra READ_FOUR;\n"
    "    shl.b64 %p, %at, 4;\n"
    "    add.u64 %q, %to, %p;\n"
    "    add.u64 %p, %from, %p;\n"
    "    ld.global.v4.u32 {%a0, %a1, %a2, %a3}, [%p];\n"
    "    st.global.v4.u32 [%q], {%a0, %a1, %a2, %a3};\n"
    "    add.u64 %at, %at, %step;\n"
    "    bra COPY_ONE;\n"
    "READ_FOUR:\n"
    "    mad.lo.u64 %last, %step, 3, %at;\n"
    "    setp.ge.u64 %more, %last, %reads;\n"
    "    @%more bra READ_ONE;\n"
    "    shl.b64 %p, %at, 4;\n"
    "    add.u64 %p, %from, %p;\n"
    "    ld.global.v4.u32 {%a0, %a1, %a2, %a3}, [%p];\n"
    "    add.u64 %p, %p, %skip;\n"
    "    ld.global.v4.u32 {%b0, %b1, %b2, %b3}, [%p];\n"
    "    add.u64 %p, %p, %skip;\n"
    "    ld.global.v4.u32 {%c0, %c1, %c2, %c3}, [%p];\n"
    "    add.u64 %p, %p, %skip;\n"
    "    ld.global.v4.u32 {%d0, %d1, %d2, %d3}, [%p];\n"
    "    or.b32 %fold, %fold, %a0;\n"
    "    or.b32 %fold, %fold, %a1;\n"
    "    or.b32 %fold, %fold, %a2;\n"
    "    or.b32 %fold, %fold, %a3;\n"
    "    or.b32 %fold, %fold, %b0;\n"
    "    or.b32 %fold, %fold, %b1;\n"
    "    or.b32 %fold, %fold, %b2;\n"
    "    or.b32 %fold, %fold, %b3;\n"
    "    or.b32 %fold, %fold, %c0;\n"
    "    or.b32 %fold, %fold, %c1;\n"
    "    or.b32 %fold, %fold, %c2;\n"
    "    or.b32 %fold, %fold, %c3;\n"
    "    or.b32 %fold, %fold, %d0;\n"
    "    or.b32 %fold, %fold, %d1;\n"
    "    or.b32 %fold, %fold, %d2;\n"
    "    or.b32 %fold, %fold, %d3;\n"
    "    add.u64 %at, %last, %step;\n"
    "    bra READ_FOUR;\n"
    "READ_ONE:\n"
    "    setp.ge.u64 %more, %at, %reads;\n"
    "    @%more bra KEEP;\n"
    "    shl.b64 %p, %at, 4;\n"
    "    add.u64 %p, %from, %p;\n"
    "    ld.global.v4.u32 {%a0, %a1, %a2, %a3}, [%p];\n"
    "    or.b32 %fold, %fold, %a0;\n"
    "    or.b32 %fold, %fold, %a1;\n"
    "    or.b32 %fold, %fold, %a2;\n"
    "    or.b32 %fold, %fold, %a3;\n"
    "    add.u64 %at, %at, %step;\n"
    "    bra READ_ONE;\n"
    "KEEP:\n"
    "    setp.eq.u32 %more, %fold, 0;\n"
    "    @%more bra WRITE_ONE;\n"
    "    st.global.u32 [%from], %fold;\n"
    "WRITE_ONE:\n"
    "    setp.ge.u64 %more, %at, %writes;\n"
    "    @%more bra END;\n"
    "    shl.b64 %q, %at, 4;\n"
    "    add.u64 %q, %to, %q;\n"
    "    mov.u32 %a0, 0;\n"
    "    st.global.v4.u32 [%q], {%a0, %a0, %a0, %a0};\n"
    "    add.u64 %at, %at, %step;\n"
    "    bra WRITE_ONE;\n"
    "END:\n"
    "    ret;\n"
    "}\n";

static struct {
    bool is_leader; /* this rank launches the kernel of its GPU */
    void *module;
    void *function;
    unsigned blocks;
    void *from;
    void *to;
    uint64_t capacity;     /* bytes of each of these two buffers */
    volatile uint64_t sum; /* sum of the values that the twin reads; it keeps the compiler from dropping the reads */
    cu_launch_fn_t launch;
} plain;

/* Returns true if the call has succeeded. Otherwise prints a line. */
static bool succeeded(const char *name, int result)
{
    if (0 != result) {
        fprintf(stderr, "mscclpp_bench: --compare kernel: %s failed with CUDA error %d\n", name, result);
    }
    return 0 == result;
}

/* Returns true if `rank` uses the same GPU as this rank. */
static bool shares_gpu(const bench_env_t *env, int rank)
{
    const bench_place_t *own_place = &env->places[env->rank], *place = &env->places[rank];

    return 0 == strcmp(own_place->host, place->host) &&
           0 == memcmp(own_place->uuid, place->uuid, sizeof(own_place->uuid));
}

/* Returns true if this rank is the first one of its GPU, on which the kernel runs once for all. */
static bool is_first_on_gpu(const bench_env_t *env)
{
    for (int i = 0; i < env->rank; ++i) {
        if (shares_gpu(env, i)) {
            return false;
        }
    }
    return true;
}

/*
 * Yields the numbers of bytes that all ranks on this GPU together read and write, rounded up to whole units. The
 * traffic of each rank of the GPU is computed separately, because a root's traffic differs from that of other ranks.
 */
static void find_traffic(const bench_env_t *env, const bench_layout_t *layout, size_t element_bytes, bool in_place,
                         uint64_t *reads_p, uint64_t *writes_p)
{
    uint64_t reads = 0, writes = 0;

    for (int i = 0; i < env->size; ++i) {
        size_t read, written; /* elements */
        if (shares_gpu(env, i)) {
            bench_layout_traffic(layout, i, in_place, &read, &written);
            reads += read;
            writes += written;
        }
    }
    *reads_p = (reads * element_bytes + UNIT_BYTES - 1) / UNIT_BYTES * UNIT_BYTES;
    *writes_p = (writes * element_bytes + UNIT_BYTES - 1) / UNIT_BYTES * UNIT_BYTES;
}

/*
 * Loads the kernel into the current context, and chooses its grid. On failure prints a line and returns false;
 * bench_plain_close then unloads it, if it was loaded.
 */
static bool load_kernel(int device)
{
    cu_load_fn_t load_data = (cu_load_fn_t)bench_cuda_find("cuModuleLoadData");
    cu_function_fn_t get_function = (cu_function_fn_t)bench_cuda_find("cuModuleGetFunction");
    cu_device_get_fn_t get = (cu_device_get_fn_t)bench_cuda_find("cuDeviceGet");
    cu_attribute_fn_t attribute_of = (cu_attribute_fn_t)bench_cuda_find("cuDeviceGetAttribute");
    int handle, multiprocessors;

    plain.launch = (cu_launch_fn_t)bench_cuda_find("cuLaunchKernel");
    if (load_data == NULL || get_function == NULL || get == NULL || attribute_of == NULL || plain.launch == NULL ||
        !succeeded("cuModuleLoadData", load_data(&plain.module, image)) ||
        !succeeded("cuModuleGetFunction", get_function(&plain.function, plain.module, "touch")) ||
        !succeeded("cuDeviceGet", get(&handle, device)) ||
        !succeeded("cuDeviceGetAttribute", attribute_of(&multiprocessors, ATTRIBUTE_MULTIPROCESSORS, handle))) {
        return false;
    }
    plain.blocks = BLOCKS_PER_MULTIPROCESSOR * (unsigned)multiprocessors;
    return true;
}

/* Waits for the end of the kernels. Returns false, without a line, if one has failed. */
static bool finish(bench_contender_t *contender)
{
    return MSCCLPP_OK == contender->env->gpu->stream_sync(contender->env->stream);
}

/*
 * Stands in for the kernel on the twin: copies the bytes that are both read and written, adds up further words that are
 * only read, and zeroes further bytes that are only written. Both sizes are multiples of UNIT_BYTES. The buffers are
 * large enough, because `capacity` is that of the largest call.
 */
static void touch(uint64_t reads, uint64_t writes)
{
    const uint64_t copied_bytes = reads < writes ? reads : writes, *words = plain.from;
    uint64_t sum = 0;

    memcpy(plain.to, plain.from, copied_bytes);
    memset((char *)plain.to + copied_bytes, 0, writes - copied_bytes);
    for (uint64_t i = copied_bytes / sizeof(sum); i < reads / sizeof(sum); ++i) {
        sum += words[i];
    }
    plain.sum = sum;
}

/*
 * Makes the contender's call: launches the kernel on the first rank of each GPU, and waits for it if the contender
 * waits. The kernel reads and writes as many bytes as this call must on all ranks of the GPU. Other ranks return at
 * once, so the time of the slowest rank is the time of the kernel. Returns false if the launch or the wait failed.
 */
static bool launch(bench_contender_t *contender, const bench_operation_t *operation)
{
    uint64_t reads, writes, read_units, write_units;

    if (!plain.is_leader) {
        return true;
    }
    find_traffic(contender->env, operation->layout, operation->type->size, operation->in_place, &reads, &writes);
    if (contender->env->on_twin) {
        touch(reads, writes);
        return true;
    }
    read_units = reads / UNIT_BYTES;
    write_units = writes / UNIT_BYTES;
    void *parameters[] = {&plain.from, &plain.to, &read_units, &write_units};
    return succeeded("cuLaunchKernel", plain.launch(plain.function, plain.blocks, 1, 1, THREADS, 1, 1, 0,
                                                    contender->env->native_stream, parameters, NULL)) &&
           (!contender->waits || finish(contender));
}

/* Serves every collective, but only its time can be compared: it does not combine or exchange anything. */
static bench_serves_t serves(const bench_contender_t *contender, const bench_coll_t *coll, bool in_place)
{
    (void)contender;
    (void)coll;
    (void)in_place;
    return BENCH_SERVES_TIME;
}

/*
 * Returns how many bytes each of the two buffers needs for the largest call of any collective, in place or out of
 * place. Counts in elements of one byte, so that a call has --max elements.
 */
static uint64_t find_capacity(const bench_env_t *env, const bench_options_t *options)
{
    uint64_t capacity = UNIT_BYTES;

    for (int i = 0; i < options->coll_count; ++i) {
        const bench_layout_t layout = {.coll = options->colls[i],
                                       .rank = env->rank,
                                       .size = env->size,
                                       .root = options->root,
                                       .count = options->max_bytes};
        for (int in_place = 0; in_place < 2; ++in_place) {
            uint64_t reads, writes;
            find_traffic(env, &layout, 1, 1 == in_place, &reads, &writes);
            capacity = reads > capacity ? reads : capacity;
            capacity = writes > capacity ? writes : capacity;
        }
    }
    /* Blocks of larger elements are rounded differently: by less than a unit for each rank. */
    return capacity + UNIT_BYTES * (uint64_t)env->size;
}

/*
 * Makes the contender. Only the first rank of each GPU allocates buffers and loads the kernel. device_alloc zeroes the
 * buffers, on which the kernel relies. All ranks return the same. After a failure bench_plain_close may free what was
 * made.
 */
bool bench_plain_open(bench_env_t *env, const bench_options_t *options, bool waits, bench_contender_t *contender_p)
{
    bool ok = true;

    plain.is_leader = is_first_on_gpu(env);
    plain.capacity = find_capacity(env, options);
    if (plain.is_leader) {
        ok = MSCCLPP_OK == env->gpu->device_alloc(env->device, plain.capacity, &plain.from) &&
             MSCCLPP_OK == env->gpu->device_alloc(env->device, plain.capacity, &plain.to);
        if (!ok) {
            fprintf(stderr, "mscclpp_bench: --compare kernel: rank %d: cannot allocate two buffers of %llu bytes\n",
                    env->rank, (unsigned long long)plain.capacity);
        }
        ok = ok && (env->on_twin || load_kernel(env->device));
    }
    *contender_p = (bench_contender_t){.name = "kernel",
                                       .env = env,
                                       .call = launch,
                                       .finish = waits ? NULL : finish,
                                       .serves = serves,
                                       .waits = waits};
    return bench_all(env->control, ok);
}

/* Unloads the kernel and frees the buffers, where this rank has them. */
void bench_plain_close(bench_env_t *env)
{
    cu_unload_fn_t unload = plain.module != NULL ? (cu_unload_fn_t)bench_cuda_find("cuModuleUnload") : NULL;

    if (unload != NULL) {
        succeeded("cuModuleUnload", unload(plain.module));
    }
    if (plain.from != NULL) {
        env->gpu->device_free(env->device, plain.from);
    }
    if (plain.to != NULL) {
        env->gpu->device_free(env->device, plain.to);
    }
    memset(&plain, 0, sizeof(plain));
}
