#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "mca/common/gpu/gpu.h"
#include "test/unit/unit.h"

static const mscclpp_gpu_ops_t *const ops = &mscclpp_gpu_twin_ops;

static int count_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;

    while (readdir(folder) != NULL) {
        ++count;
    }
    closedir(folder);
    return count;
}

static void test_open(void)
{
    const mscclpp_gpu_ops_t *opened = NULL;
    mscclpp_status_t status;

    CHECK_EQ(mscclpp_gpu_open("host", &opened), MSCCLPP_OK);
    CHECK(opened == ops);
    CHECK_TEXT(opened->name, "host");

    opened = NULL;
    unit_expect_log();
    CHECK_EQ(mscclpp_gpu_open("gpu", &opened), MSCCLPP_ERR_INVALID);
    CHECK_EQ(mscclpp_gpu_open("", &opened), MSCCLPP_ERR_INVALID);
    CHECK_EQ(unit_logged(), 2);
    CHECK(opened == NULL);

    /* What needs no look at a driver is the same later. */
    CHECK_EQ(mscclpp_gpu_open_later("host", &opened), MSCCLPP_OK);
    CHECK(opened == ops);
    opened = NULL;
    unit_expect_log();
    CHECK_EQ(mscclpp_gpu_open_later("gpu", &opened), MSCCLPP_ERR_INVALID);
    CHECK_EQ(unit_logged(), 1);
    CHECK(opened == NULL);

    /* "auto" never means the twin, and finds nothing without a word. */
    status = mscclpp_gpu_open("auto", &opened);
    CHECK(status == MSCCLPP_OK || status == MSCCLPP_ERR_NOT_SUPPORTED);
    if (status == MSCCLPP_OK) {
        CHECK_TEXT(opened->name, "cuda");
    } else {
        CHECK(opened == NULL);
        unit_expect_log();
        CHECK_EQ(mscclpp_gpu_open("cuda", &opened), MSCCLPP_ERR_NOT_SUPPORTED);
        CHECK_EQ(unit_logged(), 1);
        CHECK(strstr(unit_last_line, "cuda") != NULL);
        CHECK(opened == NULL);
    }
}

static unsigned char uuid[MSCCLPP_GPU_UUID_SIZE];

static void compare_uuid(void *argument)
{
    mscclpp_gpu_info_t info;

    (void)argument;
    REQUIRE(ops->device_info(0, &info) == MSCCLPP_OK);
    CHECK(memcmp(info.uuid, uuid, sizeof(uuid)) == 0);
}

static void test_device(void)
{
    static const unsigned char zeros[MSCCLPP_GPU_UUID_SIZE];
    mscclpp_gpu_info_t info;
    void *address = NULL;
    int count = 0;
    int device = -1;

    CHECK_EQ(ops->probe(&count), MSCCLPP_OK);
    CHECK_EQ(count, 1);
    CHECK_EQ(ops->current_device(&device), MSCCLPP_OK);
    CHECK_EQ(device, 0);
    REQUIRE(ops->device_info(0, &info) == MSCCLPP_OK);
    CHECK(info.server != 0);
    CHECK(info.sm_count >= 1);
    CHECK(info.name[0] != '\0');
    CHECK(memcmp(info.uuid, zeros, sizeof(zeros)) != 0);
    memcpy(uuid, info.uuid, sizeof(uuid));
    unit_join(unit_fork(compare_uuid, NULL));
    CHECK_EQ(ops->preload(0), MSCCLPP_OK);

    unit_expect_log();
    CHECK_EQ(ops->device_info(1, &info), MSCCLPP_ERR_INVALID);
    CHECK_EQ(ops->preload(-1), MSCCLPP_ERR_INVALID);
    CHECK_EQ(ops->device_alloc(1, 64, &address), MSCCLPP_ERR_INVALID);
    CHECK_EQ(ops->device_alloc(0, 0, &address), MSCCLPP_ERR_INVALID);
    CHECK_EQ(unit_logged(), 4);
    CHECK(address == NULL);
}

static const void *filtered;

static bool is_filtered(const void *address)
{
    return address == filtered;
}

static void bounds_of(const void *address, void **base_p, size_t *length_p)
{
    if (address == filtered) {
        *base_p = (void *)((uintptr_t)address - 10);
        *length_p = 30;
    }
}

static void test_query(void)
{
    char users[2];
    mscclpp_mem_info_t info;
    mscclpp_gpu_handle_t handle;
    uint64_t id, previous;
    char *memory, *other;
    int local = 0;

    CHECK(ops->is_device(&local, NULL));
    CHECK(!ops->is_device(NULL, NULL));
    ops->query(&local, &info);
    CHECK_EQ(info.kind, MSCCLPP_MEM_DEVICE);
    CHECK_EQ(info.device, 0);
    CHECK_EQ(info.buffer_id, 0);
    CHECK(info.base == NULL);
    CHECK_EQ(info.length, 0);
    CHECK_EQ(ops->export_memory(&local, &handle), MSCCLPP_ERR_NOT_SUPPORTED);
    ops->query(NULL, &info);
    CHECK_EQ(info.kind, MSCCLPP_MEM_HOST);

    REQUIRE(ops->device_alloc(0, 10000, (void **)&memory) == MSCCLPP_OK);
    REQUIRE(ops->device_alloc(0, 1, (void **)&other) == MSCCLPP_OK);
    for (int i = 0; i < 10000; ++i) {
        if (memory[i] != 0) {
            CHECK(!"zeroed");
            break;
        }
    }
    for (int i = 0; i < 10000; i += 9999) {
        ops->query(memory + i, &info);
        CHECK_EQ(info.kind, MSCCLPP_MEM_DEVICE);
        CHECK(info.base == memory);
        CHECK_EQ(info.length, 10000);
        CHECK(info.buffer_id != 0);
    }
    id = info.buffer_id;
    ops->query(memory + 10000, &info);
    CHECK(info.buffer_id != id);
    CHECK(info.base != memory);
    ops->query(other, &info);
    CHECK(info.buffer_id != id && info.buffer_id != 0);

    filtered = users;
    mscclpp_gpu_twin_set_bounds(bounds_of);
    ops->query(users, &info);
    CHECK_EQ((uintptr_t)info.base, (uintptr_t)users - 10);
    CHECK_EQ(info.length, 30);
    ops->query(users + 1, &info);
    CHECK(info.base == NULL);
    CHECK_EQ(info.length, 0);
    mscclpp_gpu_twin_set_bounds(NULL);
    mscclpp_gpu_twin_set_filter(is_filtered);
    CHECK(!ops->is_device(users, NULL));
    CHECK(ops->is_device(users + 1, NULL));
    ops->query(users, &info);
    CHECK_EQ(info.kind, MSCCLPP_MEM_HOST);
    CHECK_EQ(info.device, -1);
    filtered = memory; /* allocated here: device memory all the same */
    CHECK(ops->is_device(memory, NULL));
    CHECK_EQ(ops->export_memory(memory, &handle), MSCCLPP_OK);
    mscclpp_gpu_twin_set_filter(NULL);
    CHECK(ops->is_device(users, NULL));
    ops->device_free(0, other);

    /* The address comes back, the identity does not. */
    previous = id;
    for (int i = 0; i < 20; ++i) {
        ops->device_free(0, memory);
        REQUIRE(ops->device_alloc(0, 10000, (void **)&memory) == MSCCLPP_OK);
        ops->query(memory, &info);
        CHECK(info.buffer_id > previous);
        CHECK_EQ(memory[77], 0);
        memory[77] = 1;
        previous = info.buffer_id;
    }

    unit_expect_log();
    ops->device_free(0, memory + 1);
    ops->device_free(0, &local);
    CHECK_EQ(unit_logged(), 2);
    ops->query(memory, &info);
    CHECK(info.base == memory);
    ops->device_free(0, memory);
    ops->device_free(0, NULL);
    ops->query(memory, &info);
    CHECK(info.base == NULL);
}

static void test_import_own(void)
{
    mscclpp_gpu_handle_t handle;
    char *memory;
    void *a = NULL, *b = NULL;

    REQUIRE(ops->device_alloc(0, 5000, (void **)&memory) == MSCCLPP_OK);
    REQUIRE(ops->export_memory(memory + 123, &handle) == MSCCLPP_OK);
    CHECK_EQ(handle.offset, 123);
    CHECK_EQ(handle.length, 5000);
    CHECK_EQ(handle.pid, getpid());
    CHECK_EQ(handle.address, (uintptr_t)memory);
    REQUIRE(ops->import_memory(0, &handle, &a) == MSCCLPP_OK);
    REQUIRE(ops->import_memory(0, &handle, &b) == MSCCLPP_OK);
    CHECK(a == memory && b == memory);
    ops->close_memory(0, &handle, a);
    memory[0] = 1;

    /* Freed while still imported: gone for whoever asks now, there for who has it. */
    ops->device_free(0, memory);
    CHECK_EQ(((char *)b)[0], 1);
    CHECK_EQ(ops->export_memory(b, &handle), MSCCLPP_ERR_NOT_SUPPORTED);
    ops->close_memory(0, &handle, b);
    a = NULL;
    CHECK_EQ(ops->import_memory(0, &handle, &a), MSCCLPP_ERR_NOT_SUPPORTED);
    CHECK(a == NULL);
    unit_expect_log();
    ops->close_memory(0, &handle, b);
    CHECK_EQ(ops->import_memory(3, &handle, &a), MSCCLPP_ERR_INVALID);
    CHECK_EQ(unit_logged(), 2);
}

static int to_child[2], to_parent[2];

static void import_in_child(void *argument)
{
    mscclpp_gpu_handle_t handle;
    mscclpp_mem_info_t info;
    int descriptors = count_descriptors();
    void *a, *b;
    char *bytes;

    (void)argument;
    REQUIRE(read(to_child[0], &handle, sizeof(handle)) == sizeof(handle));
    REQUIRE(ops->import_memory(0, &handle, &a) == MSCCLPP_OK);
    REQUIRE(ops->import_memory(0, &handle, &b) == MSCCLPP_OK);
    CHECK(a == b);
    bytes = (char *)a + handle.offset;
    CHECK_EQ(bytes[0], 11);
    bytes[1] = 12;
    /* A mapping is not an allocation of this process. */
    ops->query(bytes, &info);
    CHECK(info.base == NULL);
    CHECK_EQ(ops->export_memory(bytes, &handle), MSCCLPP_ERR_NOT_SUPPORTED);
    ops->close_memory(0, &handle, a);
    CHECK_EQ(bytes[1], 12);
    REQUIRE(write(to_parent[1], "x", 1) == 1);
    REQUIRE(read(to_child[0], &info, 1) == 1);
    /* The exporter has freed it; who has it mapped keeps it, who has not cannot get it. */
    CHECK_EQ(bytes[1], 12);
    ops->close_memory(0, &handle, b);
    CHECK_EQ(ops->import_memory(0, &handle, &a), MSCCLPP_ERR_NOT_SUPPORTED);
    CHECK_EQ(count_descriptors(), descriptors);
}

static void test_import_foreign(void)
{
    mscclpp_gpu_handle_t handle;
    char *memory;
    char byte;
    pid_t pid;

    REQUIRE(pipe(to_child) == 0 && pipe(to_parent) == 0);
    pid = unit_fork(import_in_child, NULL);
    REQUIRE(ops->device_alloc(0, 50000, (void **)&memory) == MSCCLPP_OK);
    REQUIRE(ops->export_memory(memory + 40000, &handle) == MSCCLPP_OK);
    memory[40000] = 11;
    REQUIRE(write(to_child[1], &handle, sizeof(handle)) == sizeof(handle));
    REQUIRE(read(to_parent[0], &byte, 1) == 1);
    CHECK_EQ(memory[40001], 12);
    ops->device_free(0, memory);
    REQUIRE(write(to_child[1], "x", 1) == 1);
    unit_join(pid);
}

/* Two ranks of a team of two, of which a kernel can only end when the other's runs. */
typedef struct {
    mscclpp_dev_state_t *state;
    mscclpp_dev_mailbox_t *mailbox;
    mscclpp_dev_args_t args;
} rank_t;

static void make_ranks(rank_t *ranks)
{
    void *scratch[2], *unused;

    for (int rank = 0; rank < 2; ++rank) {
        REQUIRE(ops->device_alloc(0, sizeof(mscclpp_dev_sync_t), &scratch[rank]) == MSCCLPP_OK);
        REQUIRE(ops->device_alloc(0, sizeof(mscclpp_dev_state_t), (void **)&ranks[rank].state) == MSCCLPP_OK);
        REQUIRE(ops->host_alloc(sizeof(mscclpp_dev_mailbox_t), (void **)&ranks[rank].mailbox, &unused) == MSCCLPP_OK);
        CHECK(unused == ranks[rank].mailbox);
    }
    for (int rank = 0; rank < 2; ++rank) {
        memset(&ranks[rank].args, 0, sizeof(ranks[rank].args));
        ranks[rank].args.dtype = MSCCLPP_DTYPE_FLOAT32;
        ranks[rank].args.op = MSCCLPP_OP_SUM;
        ranks[rank].args.rank = (uint32_t)rank;
        ranks[rank].args.nranks = 2;
        ranks[rank].args.timeout_ns = 20000000000u;
        ranks[rank].args.state = ranks[rank].state;
        ranks[rank].args.mailbox = ranks[rank].mailbox;
        ranks[rank].args.scratch[0] = scratch[0];
        ranks[rank].args.scratch[1] = scratch[1];
    }
}

static void free_ranks(rank_t *ranks)
{
    for (int rank = 0; rank < 2; ++rank) {
        ops->device_free(0, ranks[0].args.scratch[rank]);
        ops->device_free(0, ranks[rank].state);
        ops->host_free(ranks[rank].mailbox);
    }
}

static mscclpp_status_t launch_barrier(mscclpp_gpu_stream_t *stream, const rank_t *rank, uint32_t nblocks,
                                       uint32_t nthreads)
{
    mscclpp_dev_args_t args = rank->args; /* gone when the call returns: launches copy them */
    mscclpp_dev_launch_t launch = {MSCCLPP_KERNEL_BARRIER, nblocks, nthreads, &args};
    mscclpp_status_t status = ops->launch(stream, &launch);

    memset(&args, 0xff, sizeof(args));
    return status;
}

static mscclpp_status_t ask_idle(mscclpp_gpu_stream_t *stream, void *unused)
{
    (void)unused;
    return mscclpp_gpu_twin_ops.stream_query(stream);
}

static void test_stream(void)
{
    mscclpp_gpu_stream_t *streams[2], *wrapped;
    mscclpp_dev_twin_queue_t *queue;
    rank_t ranks[2];
    char from[100], to[100] = {0};
    void *temporary, *host, *seen;

    make_ranks(ranks);
    for (int rank = 0; rank < 2; ++rank) {
        REQUIRE(ops->stream_create(0, &streams[rank]) == MSCCLPP_OK);
        CHECK_EQ(ops->stream_query(streams[rank]), MSCCLPP_OK);
    }
    CHECK_EQ(launch_barrier(streams[0], &ranks[0], 2, 2), MSCCLPP_OK);
    usleep(20000);
    CHECK_EQ(ops->stream_query(streams[0]), MSCCLPP_IN_PROGRESS);
    CHECK_EQ(__atomic_load_n(&ranks[0].mailbox->ended[0], __ATOMIC_ACQUIRE), 0);

    /* Temporary memory freed in the order of a busy stream is still there for the kernel: a sanitizer would say so. */
    REQUIRE(ops->temp_alloc(streams[0], 1000, &temporary) == MSCCLPP_OK);
    memset(temporary, 1, 1000);
    ops->temp_free(streams[0], temporary);
    CHECK_EQ(((volatile char *)temporary)[999], 1);

    CHECK_EQ(launch_barrier(streams[1], &ranks[1], 2, 2), MSCCLPP_OK);
    memset(from, 5, sizeof(from));
    CHECK_EQ(ops->copy(streams[0], to, from, sizeof(to)), MSCCLPP_OK);
    CHECK_EQ(__atomic_load_n(&ranks[0].mailbox->ended[0], __ATOMIC_ACQUIRE), 1);
    CHECK_EQ(ops->stream_sync(streams[0]), MSCCLPP_OK);
    CHECK(memcmp(to, from, sizeof(to)) == 0);
    CHECK_EQ(ops->stream_sync(streams[1]), MSCCLPP_OK);
    CHECK_EQ(ops->stream_query(streams[1]), MSCCLPP_OK);
    CHECK_EQ(__atomic_load_n(&ranks[1].mailbox->ended[0], __ATOMIC_ACQUIRE), 1);
    CHECK_EQ(ops->copy(streams[0], to, to, sizeof(to)), MSCCLPP_OK);
    CHECK_EQ(ops->copy(streams[0], to, NULL, 0), MSCCLPP_OK);
    for (size_t i = 0; i < sizeof(to); ++i) {
        from[i] = (char)(i + 1);
        to[i] = 0;
    }
    CHECK_EQ(ops->copy_rows(streams[0], to, from, 5, 2, 3), MSCCLPP_OK);
    CHECK_EQ(ops->copy_rows(streams[0], to, from, 1, 0, 3), MSCCLPP_OK);
    for (size_t i = 0; i < sizeof(to); ++i) {
        CHECK_EQ(to[i], i < 15 && i % 5 < 2 ? from[i] : 0);
    }

    REQUIRE(ops->temp_alloc(streams[0], 1000, &temporary) == MSCCLPP_OK);
    for (int i = 0; i < 1000; ++i) {
        if (((char *)temporary)[i] != 0) {
            CHECK(!"zeroed");
            break;
        }
    }
    ops->temp_free(streams[0], temporary);
    ops->temp_free(streams[0], NULL);
    REQUIRE(ops->host_alloc(12345, &host, &seen) == MSCCLPP_OK);
    CHECK(host == seen);
    CHECK_EQ((uintptr_t)host % 64, 0);
    CHECK_EQ(((char *)host)[12344], 0);
    ops->host_free(host);
    ops->host_free(NULL);

    /* A wrapper leaves the application's queue alone. */
    REQUIRE(mscclpp_dev_twin_queue_create(&queue) == 0);
    REQUIRE(ops->stream_wrap(0, queue, &wrapped) == MSCCLPP_OK);
    CHECK_EQ(launch_barrier(wrapped, &ranks[0], 1, 2), MSCCLPP_OK);
    REQUIRE(ops->temp_alloc(wrapped, 64, &temporary) == MSCCLPP_OK);
    ops->temp_free(wrapped, temporary);
    CHECK_EQ(ops->stream_ask(0, queue, ask_idle, NULL), MSCCLPP_IN_PROGRESS);
    CHECK_EQ(launch_barrier(streams[1], &ranks[1], 1, 2), MSCCLPP_OK);
    CHECK_EQ(ops->stream_sync(wrapped), MSCCLPP_OK);
    CHECK_EQ(ops->stream_ask(0, queue, ask_idle, NULL), MSCCLPP_OK);
    ops->stream_destroy(wrapped);
    mscclpp_dev_twin_queue_destroy(queue); /* frees the temporary memory, too */
    unit_expect_log();
    CHECK_EQ(ops->stream_wrap(0, NULL, &wrapped), MSCCLPP_ERR_INVALID);
    CHECK_EQ(ops->stream_ask(0, NULL, ask_idle, NULL), MSCCLPP_ERR_INVALID);
    CHECK_EQ(ops->stream_create(1, &wrapped), MSCCLPP_ERR_INVALID);
    CHECK_EQ(ops->temp_alloc(streams[0], 0, &temporary), MSCCLPP_ERR_INVALID);
    CHECK_EQ(ops->host_alloc(0, &host, &seen), MSCCLPP_ERR_INVALID);
    CHECK_EQ(unit_logged(), 5);

    ops->stream_destroy(NULL);
    for (int rank = 0; rank < 2; ++rank) {
        ops->stream_destroy(streams[rank]);
        CHECK_EQ(__atomic_load_n(&ranks[rank].mailbox->ended[0], __ATOMIC_ACQUIRE), 2);
        CHECK_EQ(ranks[rank].mailbox->failed, 0);
    }
    free_ranks(ranks);
}

/* Launches of one thread run in the caller's, which has to keep something else moving meanwhile. */
static _Atomic int turns;

static void count_turn(void *context)
{
    CHECK(context == &turns);
    atomic_fetch_add(&turns, 1);
}

static void *run_second_rank(void *argument)
{
    mscclpp_gpu_stream_t *stream;

    REQUIRE(ops->stream_create(0, &stream) == MSCCLPP_OK);
    while (atomic_load(&turns) < 3) {
        usleep(100);
    }
    CHECK_EQ(launch_barrier(stream, argument, 1, 1), MSCCLPP_OK);
    CHECK_EQ(ops->stream_sync(stream), MSCCLPP_OK);
    ops->stream_destroy(stream);
    return NULL;
}

static void test_progress(void)
{
    mscclpp_gpu_stream_t *stream;
    pthread_t thread;
    rank_t ranks[2];

    make_ranks(ranks);
    REQUIRE(ops->stream_create(0, &stream) == MSCCLPP_OK);
    REQUIRE(pthread_create(&thread, NULL, run_second_rank, &ranks[1]) == 0);
    mscclpp_gpu_twin_set_progress(count_turn, &turns);
    CHECK_EQ(launch_barrier(stream, &ranks[0], 1, 1), MSCCLPP_OK);
    mscclpp_gpu_twin_set_progress(NULL, NULL);
    CHECK(atomic_load(&turns) >= 3);
    CHECK_EQ(ops->stream_query(stream), MSCCLPP_OK);
    pthread_join(thread, NULL);
    CHECK_EQ(ranks[0].mailbox->failed, 0);
    ops->stream_destroy(stream);
    free_ranks(ranks);
}

#define THREADS 4
#define TURNS 100

static void *allocate(void *argument)
{
    mscclpp_gpu_handle_t handle;
    mscclpp_mem_info_t info;

    (void)argument;
    for (int i = 0; i < TURNS; ++i) {
        char *memory;
        void *base;
        if (ops->device_alloc(0, 8192, (void **)&memory) != MSCCLPP_OK ||
            ops->export_memory(memory + 8191, &handle) != MSCCLPP_OK ||
            ops->import_memory(0, &handle, &base) != MSCCLPP_OK) {
            CHECK(!"allocated, exported, imported");
            return NULL;
        }
        ops->query(memory + 1, &info);
        if (base != memory || info.base != memory || info.buffer_id != handle.buffer_id || memory[i] != 0) {
            CHECK(!"one's own memory");
        }
        memory[i] = 1;
        ops->close_memory(0, &handle, base);
        ops->device_free(0, memory);
    }
    return NULL;
}

static void test_threads(void)
{
    pthread_t threads[THREADS];

    for (int i = 0; i < THREADS; ++i) {
        REQUIRE(pthread_create(&threads[i], NULL, allocate, NULL) == 0);
    }
    for (int i = 0; i < THREADS; ++i) {
        pthread_join(threads[i], NULL);
    }
}

int main(void)
{
    int descriptors;

    unit_begin();
    test_import_foreign();
    descriptors = count_descriptors();
    test_open();
    test_device();
    test_query();
    test_import_own();
    test_stream();
    test_progress();
    test_threads();
    CHECK_EQ(count_descriptors(), descriptors);
    return unit_end();
}
