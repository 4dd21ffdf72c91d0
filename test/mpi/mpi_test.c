#include "test/mpi/mpi_test.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mca/common/gpu/gpu.h"
#include "tools/bench/bench_cuda.h"

#define PRINTED_FAILURES 5
#define GUARD 256
#define GUARD_BYTE 0xc3

enum { TAG_GATHER = 1001, TAG_RESULT = 1002 };

int mt_rank;
int mt_size;
bool mt_twin;

static const mscclpp_gpu_ops_t *gpu;
static mscclpp_gpu_stream_t *stream;
static int device;
static int devices; /* of this host */
static _Atomic int failures;

void mt_fail(const char *file, int line, const char *format, ...)
{
    va_list arguments;
    char text[512];

    if (atomic_fetch_add(&failures, 1) >= PRINTED_FAILURES) {
        return;
    }
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    fprintf(stderr, "rank %d: %s:%d: %s\n", mt_rank, file, line, text);
}

int mt_failures(void)
{
    return atomic_load(&failures);
}

static void __attribute__((noreturn)) die(const char *reason)
{
    fprintf(stderr, "rank %d: %s\n", mt_rank, reason);
    MPI_Abort(MPI_COMM_WORLD, 1);
    abort();
}

/* This rank's number on its node. */
static int local_rank(void)
{
    MPI_Comm node;
    int rank;

    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &rank);
    MPI_Comm_free(&node);
    return rank;
}

/* What a tool does that writes the list of coll components. */
static void write_coll_list(const char *value)
{
    int count, handle_count, wrote = 0;

    MPI_T_cvar_get_num(&count);
    for (int i = 0; i < count; ++i) {
        char name[64];
        int length = sizeof(name), verbosity, bind, scope, no_description = 0;
        MPI_Datatype type;
        MPI_T_enum words;
        MPI_T_cvar_handle handle;

        if (MPI_SUCCESS == MPI_T_cvar_get_info(i, name, &length, &verbosity, &type, &words, NULL, &no_description,
                                               &bind, &scope) &&
            0 == strcmp(name, "coll") && MPI_SUCCESS == MPI_T_cvar_handle_alloc(i, NULL, &handle, &handle_count)) {
            wrote += MPI_SUCCESS == MPI_T_cvar_write(handle, value);
            MPI_T_cvar_handle_free(&handle);
        }
    }
    MT_CHECK(1 == wrote, "the list of coll components was written %d times", wrote);
}

/*
 * Before main, as a tool's library that LD_PRELOAD names would: MSCCLPP_TEST_TOOL is "stay" or "leave", for a tool that
 * uses MPI's tool interface until the program ends or only now, or the list of coll components that a tool writes. The
 * interface is not ended after MPI_Finalize, which Open MPI 4.1 does not survive.
 */
static void __attribute__((constructor)) start_tool(void)
{
    const char *tool = getenv("MSCCLPP_TEST_TOOL");
    int provided;

    if (tool == NULL) {
        return;
    }
    MT_MPI(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    if (0 == strcmp(tool, "leave")) {
        MT_MPI(MPI_T_finalize());
    } else if (0 != strcmp(tool, "stay")) {
        write_coll_list(tool);
    }
}

void mt_init(int *argc, char ***argv, int thread_level)
{
    const char *wanted = getenv("MSCCLPP_TEST_DEVICE");
    int provided, count;

    wanted = wanted == NULL ? "host" : wanted;
    mt_twin = 0 == strcmp(wanted, "host");
    if (MPI_SUCCESS != MPI_Init_thread(argc, argv, thread_level, &provided)) {
        exit(1);
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &mt_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &mt_size);
    if (provided < thread_level) {
        if (0 == mt_rank) {
            printf("skipped: this MPI gives thread level %d and not %d\n", provided, thread_level);
        }
        MPI_Finalize();
        exit(MT_SKIPPED);
    }
    if (MSCCLPP_OK != mscclpp_gpu_open(wanted, &gpu) || MSCCLPP_OK != gpu->probe(&count) || count < 1) {
        die("MSCCLPP_TEST_DEVICE names a device that cannot be used here");
    }
    mt_counters_open(provided);
    device = mt_twin ? 0 : local_rank() % count;
    devices = count;
    if (!mt_twin && !bench_cuda_select(device)) {
        die("cannot select the GPU of this rank");
    }
    if (MSCCLPP_OK != gpu->stream_create(device, &stream)) {
        die("cannot create a stream for the test's own copies");
    }
}

bool mt_too_crowded(int ranks)
{
    if (mt_twin || mt_under_mps() || mt_size <= ranks * devices) {
        return false;
    }
    if (0 == mt_rank) {
        printf("skipped: needs MPS or %d GPUs, and has %d; ranks that share one take turns\n",
               (mt_size + ranks - 1) / ranks, devices);
    }
    return true;
}

bool mt_under_mps(void)
{
    const char *mps = getenv("MSCCLPP_TEST_MPS");

    return !mt_twin && mps != NULL && 0 == strcmp(mps, "1");
}

bool mt_too_small(int ranks)
{
    if (mt_size >= ranks) {
        return false;
    }
    if (0 == mt_rank) {
        printf("skipped: needs %d ranks and has %d\n", ranks, mt_size);
    }
    return true;
}

int mt_finish(void)
{
    int *all = mt_host_alloc(sizeof(int) * (size_t)mt_size);
    int own = mt_failures(), total = 0;

    mt_allgather(MPI_COMM_WORLD, &own, all, sizeof(own));
    for (int i = 0; i < mt_size; ++i) {
        total += all[i];
    }
    free(all);
    if (0 == mt_rank && total > 0) {
        fprintf(stderr, "%d failures over all ranks\n", total);
    }
    gpu->stream_destroy(stream);
    MPI_Finalize();
    return 0 == total ? 0 : 1;
}

void *mt_host_alloc(size_t size)
{
    void *address = calloc(1, 0 == size ? 1 : size);

    if (address == NULL) {
        die("out of memory");
    }
    return address;
}

const char *mt_kind_name(mt_kind_t kind)
{
    static const char *const names[] = {"host", "device", "pinned", "managed", "pool", "mapped"};

    return names[kind];
}

bool mt_kind_exists(mt_kind_t kind)
{
    return MT_MANAGED == kind || MT_POOL == kind || MT_MAPPED == kind ? !mt_twin : true;
}

static bool try_copy(void *to, const void *from, size_t size)
{
    return MSCCLPP_OK == gpu->copy(stream, to, from, size) && MSCCLPP_OK == gpu->stream_sync(stream);
}

static void copy(void *to, const void *from, size_t size)
{
    if (!try_copy(to, from, size)) {
        die("a copy of the test failed");
    }
}

static void set(char *to, int byte, size_t size)
{
    char chunk[4096];

    memset(chunk, byte, sizeof(chunk));
    for (size_t done = 0; done < size; done += sizeof(chunk)) {
        size_t part = size - done < sizeof(chunk) ? size - done : sizeof(chunk);
        copy(to + done, chunk, part);
    }
}

/* Allocates memory of a kind. */
static void *allocate(mt_kind_t kind, size_t length)
{
    void *address = NULL, *unused;
    bool ok;

    switch (kind) {
    case MT_DEVICE:
        ok = MSCCLPP_OK == gpu->device_alloc(device, length, &address);
        break;
    case MT_PINNED:
        ok = MSCCLPP_OK == gpu->host_alloc(length, &address, &unused);
        break;
    case MT_MANAGED:
        ok = bench_cuda_managed_alloc(length, &address);
        break;
    case MT_POOL:
        ok = bench_cuda_pool_alloc(length, &address);
        break;
    case MT_MAPPED:
        ok = bench_cuda_mapped_alloc(length, &address);
        break;
    default:
        ok = 0 == posix_memalign(&address, 64, length);
        break;
    }
    if (!ok) {
        die("no memory for a buffer");
    }
    return address;
}

mt_buffer_t mt_buffer_alloc(mt_kind_t kind, size_t size, size_t misalign)
{
    mt_buffer_t buffer = {.kind = kind, .size = size, .length = size + misalign + 2 * GUARD};

    buffer.base = allocate(kind, buffer.length);
    buffer.data = buffer.base + GUARD + misalign;
    if (size > 1u << 20) {
        set(buffer.base, GUARD_BYTE, GUARD + misalign);
        set(buffer.data + size, GUARD_BYTE, GUARD);
    } else {
        set(buffer.base, GUARD_BYTE, buffer.length);
    }
    return buffer;
}

/* Checks that nobody wrote next to a buffer. */
static void check_guard(const char *guard, size_t length, const char *what, const char *side)
{
    char bytes[2 * GUARD];

    copy(bytes, guard, length);
    for (size_t i = 0; i < length; ++i) {
        if (GUARD_BYTE != (unsigned char)bytes[i]) {
            mt_fail(__FILE__, __LINE__, "%s: guard byte %zu of %zu %s the buffer was overwritten with 0x%02x", what, i,
                    length, side, (unsigned char)bytes[i]);
            return;
        }
    }
}

void mt_buffer_free(mt_buffer_t *buffer, const char *what)
{
    check_guard(buffer->base, (size_t)(buffer->data - buffer->base), what, "before");
    check_guard(buffer->data + buffer->size, GUARD, what, "behind");
    switch (buffer->kind) {
    case MT_DEVICE:
        gpu->device_free(device, buffer->base);
        break;
    case MT_PINNED:
        gpu->host_free(buffer->base);
        break;
    case MT_MANAGED:
        bench_cuda_managed_free(buffer->base);
        break;
    case MT_POOL:
        bench_cuda_pool_free(buffer->base);
        break;
    case MT_MAPPED:
        bench_cuda_mapped_free(buffer->base, buffer->length);
        break;
    default:
        free(buffer->base);
        break;
    }
    memset(buffer, 0, sizeof(*buffer));
}

void mt_buffer_put(mt_buffer_t *buffer, const void *from, size_t size)
{
    copy(buffer->data, from, size);
}

void mt_buffer_get(const mt_buffer_t *buffer, void *to, size_t size)
{
    copy(to, buffer->data, size);
}

bool mt_buffer_try_put(mt_buffer_t *buffer, const void *from, size_t size)
{
    return try_copy(buffer->data, from, size);
}

bool mt_buffer_try_get(const mt_buffer_t *buffer, void *to, size_t size)
{
    return try_copy(to, buffer->data, size);
}

void mt_buffer_set(mt_buffer_t *buffer, int byte)
{
    set(buffer->data, byte, buffer->size);
}

void mt_allgather(MPI_Comm comm, const void *send, void *recv, size_t length)
{
    char *all = recv;
    int rank, size;

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    memmove(all + (size_t)rank * length, send, length);
    if (0 != rank) {
        MPI_Send(all + (size_t)rank * length, (int)length, MPI_BYTE, 0, TAG_GATHER, comm);
        MPI_Recv(all, (int)(length * (size_t)size), MPI_BYTE, 0, TAG_RESULT, comm, MPI_STATUS_IGNORE);
        return;
    }
    for (int peer = 1; peer < size; ++peer) {
        MPI_Recv(all + (size_t)peer * length, (int)length, MPI_BYTE, peer, TAG_GATHER, comm, MPI_STATUS_IGNORE);
    }
    for (int peer = 1; peer < size; ++peer) {
        MPI_Send(all, (int)(length * (size_t)size), MPI_BYTE, peer, TAG_RESULT, comm);
    }
}

void mt_barrier(MPI_Comm comm)
{
    int size;
    char *all, own = 0;

    MPI_Comm_size(comm, &size);
    all = mt_host_alloc((size_t)size);
    mt_allgather(comm, &own, all, 1);
    free(all);
}

double mt_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

uint64_t mt_mix(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t x = a * UINT64_C(0x9e3779b97f4a7c15) + b * UINT64_C(0xc2b2ae3d27d4eb4f) + c * UINT64_C(0x165667b19e3779f9);

    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}
