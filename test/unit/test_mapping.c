#include <pthread.h>
#include <stdbool.h>

#include "mca/common/gpu/mapping.h"
#include "test/unit/unit.h"

/*
 * A runtime that only keeps count: what is open at the moment, how often each buffer was opened, and whether one was
 * ever open twice.
 */
#define BUFFERS 4096

static pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;
static int fake_open[BUFFERS];
static int fake_opened, fake_closed, fake_twice, fake_bad_close;
static bool fake_fails;
static unsigned fake_delay_us;
static int fake_room;          /* so many may be open at once; 0: any number */
static uint64_t fake_excludes; /* while this buffer is open, others cannot be; 0: none */

static mscclpp_status_t fake_import(int device, const mscclpp_gpu_handle_t *handle, void **base_p)
{
    if (fake_fails) {
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    pthread_mutex_lock(&fake_lock);
    if (fake_room != 0 && fake_opened - fake_closed >= fake_room) {
        pthread_mutex_unlock(&fake_lock);
        return MSCCLPP_ERR_NO_MEMORY;
    }
    if (fake_excludes != 0 && fake_open[fake_excludes] > 0 && handle->buffer_id != fake_excludes) {
        pthread_mutex_unlock(&fake_lock);
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    fake_twice += ++fake_open[handle->buffer_id] > 1;
    ++fake_opened;
    pthread_mutex_unlock(&fake_lock);
    if (fake_delay_us > 0) {
        usleep(fake_delay_us);
    }
    *base_p = (void *)(uintptr_t)(handle->address + (uint64_t)device * 0x1000000000u);
    return MSCCLPP_OK;
}

static void fake_close(int device, const mscclpp_gpu_handle_t *handle, void *base)
{
    if (fake_delay_us > 0) {
        usleep(fake_delay_us);
    }
    pthread_mutex_lock(&fake_lock);
    fake_bad_close += base != (void *)(uintptr_t)(handle->address + (uint64_t)device * 0x1000000000u);
    fake_bad_close += --fake_open[handle->buffer_id] < 0;
    ++fake_closed;
    pthread_mutex_unlock(&fake_lock);
}

static const mscclpp_gpu_ops_t fake_ops = {.name = "fake", .import_memory = fake_import, .close_memory = fake_close};

static void fake_reset(void)
{
    CHECK_EQ(mscclpp_mapping_drain(), 0);
    memset(fake_open, 0, sizeof(fake_open));
    fake_opened = fake_closed = fake_twice = fake_bad_close = 0;
    fake_fails = false;
    fake_delay_us = 0;
    fake_room = 0;
    fake_excludes = 0;
}

static mscclpp_gpu_handle_t handle_of(int pid, uint64_t buffer_id, uint64_t address, uint64_t length)
{
    mscclpp_gpu_handle_t handle;

    memset(&handle, 0, sizeof(handle));
    handle.pid = pid;
    handle.token = (uint64_t)pid * 1000;
    handle.buffer_id = buffer_id;
    handle.address = address;
    handle.length = length;
    return handle;
}

static mscclpp_gpu_handle_t numbered(uint64_t number)
{
    return handle_of(77, number, number << 20, 1 << 20);
}

static mscclpp_mapping_limit_t count_of(int count)
{
    const mscclpp_mapping_limit_t limit = {count, 0};

    return limit;
}

static mscclpp_mapping_t *get(const mscclpp_gpu_handle_t *handle, int count)
{
    mscclpp_mapping_t *mapping = NULL;

    CHECK_EQ(mscclpp_mapping_get(&fake_ops, 0, handle, count_of(count), &mapping), MSCCLPP_OK);
    return mapping;
}

static void test_once(void)
{
    mscclpp_gpu_handle_t handle = numbered(1);
    mscclpp_gpu_handle_t inside = handle;
    mscclpp_mapping_t *a, *b, *c;

    fake_reset();
    a = get(&handle, 4);
    inside.offset = 4096; /* another buffer of the same allocation */
    b = get(&inside, 4);
    CHECK(a == b);
    CHECK(mscclpp_mapping_base(a) == (void *)(uintptr_t)handle.address);
    CHECK_EQ(fake_opened, 1);
    mscclpp_mapping_put(a);
    mscclpp_mapping_put(b);
    CHECK_EQ(fake_closed, 0);
    c = get(&handle, 4);
    CHECK_EQ(fake_opened, 1);
    mscclpp_mapping_put(c);

    /* Another device, another process, another life of the same process number: each a mapping of its own. */
    REQUIRE(mscclpp_mapping_get(&fake_ops, 1, &handle, count_of(4), &b) == MSCCLPP_OK);
    CHECK(mscclpp_mapping_base(b) == (void *)(uintptr_t)(handle.address + 0x1000000000u));
    mscclpp_mapping_put(b);
    CHECK_EQ(fake_opened, 2);
    handle.pid = 78;
    mscclpp_mapping_put(get(&handle, 4));
    CHECK_EQ(fake_opened, 3);
    handle.token += 1;
    mscclpp_mapping_put(get(&handle, 4));
    CHECK_EQ(fake_opened, 4);
    CHECK_EQ(mscclpp_mapping_count(), 4);
    CHECK_EQ(mscclpp_mapping_drain(), 0);
    CHECK_EQ(fake_closed, 4);
    CHECK_EQ(fake_bad_close, 0);
    mscclpp_mapping_put(NULL);
}

static void test_limit(void)
{
    mscclpp_gpu_handle_t handles[9];
    mscclpp_mapping_t *held[9];

    fake_reset();
    for (int i = 0; i < 9; ++i) {
        handles[i] = numbered((uint64_t)i + 1);
    }
    for (int i = 0; i < 4; ++i) {
        mscclpp_mapping_put(get(&handles[i], 4));
    }
    mscclpp_mapping_put(get(&handles[0], 4)); /* 1 is now the least recently used */
    mscclpp_mapping_put(get(&handles[4], 4));
    CHECK_EQ(mscclpp_mapping_count(), 4);
    CHECK_EQ(fake_open[1 + 0], 1);
    CHECK_EQ(fake_open[1 + 1], 0);
    CHECK_EQ(fake_open[1 + 2], 1);
    CHECK_EQ(fake_open[1 + 4], 1);

    /* What is in use is never closed, and goes when it is put back. */
    for (int i = 0; i < 9; ++i) {
        held[i] = get(&handles[i], 4);
    }
    CHECK_EQ(mscclpp_mapping_count(), 9);
    for (int i = 0; i < 9; ++i) {
        CHECK_EQ(fake_open[1 + i], 1);
    }
    for (int i = 0; i < 9; ++i) {
        mscclpp_mapping_put(held[i]);
    }
    CHECK_EQ(mscclpp_mapping_count(), 4);
    for (int i = 0; i < 5; ++i) {
        CHECK_EQ(fake_open[1 + i], 0);
    }
    mscclpp_mapping_put(get(&handles[7], 1));
    CHECK_EQ(mscclpp_mapping_count(), 1);
    held[0] = get(&handles[8], 1);
    CHECK_EQ(mscclpp_mapping_drain(), 1);
    CHECK_EQ(fake_open[9], 1);
    mscclpp_mapping_put(held[0]);
    CHECK_EQ(mscclpp_mapping_drain(), 0);
    CHECK_EQ(fake_opened, fake_closed);
    CHECK_EQ(fake_twice, 0);
}

/* Large allocations are not kept long, and one that is larger than the limit not at all. */
static void test_bytes(void)
{
    const mscclpp_mapping_limit_t limit = {64, 3 << 20};
    mscclpp_gpu_handle_t large = handle_of(77, 9, 0x40000000, 4 << 20);
    mscclpp_mapping_t *held[4], *mapping;

    fake_reset();
    for (uint64_t i = 1; i <= 4; ++i) {
        mscclpp_gpu_handle_t handle = numbered(i);
        REQUIRE(mscclpp_mapping_get(&fake_ops, 0, &handle, limit, &held[i - 1]) == MSCCLPP_OK);
    }
    CHECK_EQ(mscclpp_mapping_count(), 4);
    for (int i = 0; i < 4; ++i) {
        mscclpp_mapping_put(held[i]);
    }
    CHECK_EQ(mscclpp_mapping_count(), 3);
    CHECK_EQ(fake_open[1], 0);
    REQUIRE(mscclpp_mapping_get(&fake_ops, 0, &large, limit, &mapping) == MSCCLPP_OK);
    CHECK_EQ(mscclpp_mapping_count(), 1);
    mscclpp_mapping_put(mapping);
    CHECK_EQ(mscclpp_mapping_count(), 0);
    CHECK_EQ(fake_opened, fake_closed);
    CHECK_EQ(mscclpp_mapping_drain(), 0);
}

static void test_stale(void)
{
    mscclpp_gpu_handle_t old = handle_of(5, 1, 0x100000, 0x10000);
    mscclpp_gpu_handle_t apart = handle_of(5, 2, 0x110000, 0x10000);
    mscclpp_gpu_handle_t stranger = handle_of(6, 3, 0x100000, 0x10000);
    mscclpp_gpu_handle_t reused = handle_of(5, 4, 0x108000, 0x1000); /* lies where `old` was */
    mscclpp_gpu_handle_t again = handle_of(5, 5, 0x108000, 0x1000);
    mscclpp_gpu_handle_t unknown = handle_of(5, 0, 0x900000, 0x1000);
    mscclpp_mapping_t *mapping, *newer;

    fake_reset();
    mscclpp_mapping_put(get(&old, 64));
    mscclpp_mapping_put(get(&apart, 64));
    mscclpp_mapping_put(get(&stranger, 64));
    mapping = get(&reused, 64);
    CHECK_EQ(fake_open[1], 0);
    CHECK_EQ(fake_open[2], 1);
    CHECK_EQ(fake_open[3], 1);

    /* Replaced while in use: closed by the last put. */
    newer = get(&again, 64);
    CHECK(newer != mapping);
    CHECK_EQ(fake_open[4], 1);
    mscclpp_mapping_put(mapping);
    CHECK_EQ(fake_open[4], 0);
    CHECK_EQ(fake_open[5], 1);
    mscclpp_mapping_put(newer);
    CHECK_EQ(fake_open[5], 1);

    /* Without an identity nothing can be kept. */
    mapping = get(&unknown, 64);
    CHECK_EQ(fake_open[0], 1);
    mscclpp_mapping_put(mapping);
    CHECK_EQ(fake_open[0], 0);

    CHECK_EQ(mscclpp_mapping_drain(), 0);
    CHECK_EQ(fake_opened, fake_closed);
}

static void test_failure(void)
{
    mscclpp_gpu_handle_t handle = numbered(9);
    mscclpp_mapping_t *mapping = (mscclpp_mapping_t *)&handle;

    fake_reset();
    fake_fails = true;
    CHECK_EQ(mscclpp_mapping_get(&fake_ops, 0, &handle, count_of(4), &mapping), MSCCLPP_ERR_NOT_SUPPORTED);
    CHECK(mapping == (mscclpp_mapping_t *)&handle);
    CHECK_EQ(mscclpp_mapping_count(), 0);
    fake_fails = false;
    mscclpp_mapping_put(get(&handle, 4));
    CHECK_EQ(fake_opened, 1);
}

/* Mappings that nobody uses give way where there is no room for another one; those in use do not. */
static void test_admission(void)
{
    mscclpp_gpu_handle_t first = numbered(1), second = numbered(2), third = numbered(3);
    mscclpp_mapping_t *held, *mapping;

    fake_reset();
    fake_room = 2;
    mscclpp_mapping_put(get(&first, 64));
    held = get(&second, 64);
    mapping = get(&third, 64);
    CHECK_EQ(fake_open[1], 0);
    CHECK_EQ(fake_open[2], 1);
    CHECK_EQ(mscclpp_mapping_get(&fake_ops, 0, &first, count_of(64), &mapping), MSCCLPP_ERR_NO_MEMORY);
    CHECK_EQ(mscclpp_mapping_count(), 2);
    mscclpp_mapping_put(held);
    mscclpp_mapping_put(mapping);
}

/* A mapping that is in the way in another manner than by its place is closed, too; those of other processes stay. */
static void test_in_the_way(void)
{
    mscclpp_gpu_handle_t first = numbered(1), second = numbered(2), third = numbered(3);
    mscclpp_gpu_handle_t stranger = handle_of(78, 4, 0x100000, 0x1000);
    mscclpp_mapping_t *mapping;
    void *base;

    fake_reset();
    mscclpp_mapping_put(get(&first, 64));
    mscclpp_mapping_put(get(&stranger, 64));
    fake_excludes = 1;
    mapping = get(&second, 64);
    CHECK_EQ(fake_open[1], 0);
    CHECK_EQ(fake_open[4], 1);
    mscclpp_mapping_put(mapping);
    fake_excludes = 2;
    REQUIRE(mscclpp_mapping_import(&fake_ops, 0, &third, &base) == MSCCLPP_OK);
    CHECK_EQ(fake_open[2], 0);
    CHECK_EQ(fake_open[4], 1);
    fake_ops.close_memory(0, &third, base);

    /* One that is in use is not, and the answer is that of the runtime. */
    mapping = get(&second, 64);
    CHECK_EQ(mscclpp_mapping_import(&fake_ops, 0, &third, &base), MSCCLPP_ERR_NOT_SUPPORTED);
    CHECK_EQ(fake_open[2], 1);
    mscclpp_mapping_put(mapping);
}

#define THREADS 6
#define TURNS 400

static void *use_mappings(void *argument)
{
    unsigned seed = *(unsigned *)argument;

    for (int i = 0; i < TURNS; ++i) {
        mscclpp_gpu_handle_t handle;
        mscclpp_mapping_t *mapping;

        seed = seed * 1103515245u + 12345u;
        handle = numbered(1 + (seed >> 16) % 12);
        if (mscclpp_mapping_get(&fake_ops, 0, &handle, count_of(4), &mapping) != MSCCLPP_OK) {
            CHECK(!"mapped");
            continue;
        }
        if (__atomic_load_n(&fake_open[handle.buffer_id], __ATOMIC_RELAXED) != 1 ||
            mscclpp_mapping_base(mapping) != (void *)(uintptr_t)handle.address) {
            CHECK(!"open while held");
        }
        mscclpp_mapping_put(mapping);
    }
    return NULL;
}

static void test_threads(void)
{
    pthread_t threads[THREADS];
    unsigned seeds[THREADS];

    fake_reset();
    fake_delay_us = 20; /* the window in which a second thread could open or close the same one */
    for (int i = 0; i < THREADS; ++i) {
        seeds[i] = (unsigned)i + 1;
        REQUIRE(pthread_create(&threads[i], NULL, use_mappings, &seeds[i]) == 0);
    }
    for (int i = 0; i < THREADS; ++i) {
        pthread_join(threads[i], NULL);
    }
    CHECK(mscclpp_mapping_count() <= 4);
    CHECK_EQ(mscclpp_mapping_drain(), 0);
    CHECK_EQ(fake_twice, 0);
    CHECK_EQ(fake_bad_close, 0);
    CHECK_EQ(fake_opened, fake_closed);
    CHECK(fake_opened > 12);
}

/* With the twin: a peer's real memory, and memory that was freed and allocated again. */
static int to_child[2], to_parent[2];

static void child_maps(void *argument)
{
    const mscclpp_gpu_ops_t *ops = &mscclpp_gpu_twin_ops;
    mscclpp_gpu_handle_t handle;

    (void)argument;
    for (int turn = 0; turn < 4; ++turn) {
        mscclpp_mapping_t *mapping = NULL;
        void *base;

        REQUIRE(read(to_child[0], &handle, sizeof(handle)) == sizeof(handle));
        if (turn == 2) {
            /* As with CUDA: memory that lies where freed memory did cannot be mapped while that still is. */
            CHECK_EQ(ops->import_memory(0, &handle, &base), MSCCLPP_ERR_NOT_SUPPORTED);
            REQUIRE(mscclpp_mapping_import(ops, 0, &handle, &base) == MSCCLPP_OK);
            CHECK_EQ(mscclpp_mapping_count(), 0);
        } else {
            REQUIRE(mscclpp_mapping_get(ops, 0, &handle, count_of(64), &mapping) == MSCCLPP_OK);
            base = mscclpp_mapping_base(mapping);
        }
        CHECK_EQ(((char *)base)[handle.offset], 'a' + turn);
        if (mapping != NULL) {
            mscclpp_mapping_put(mapping);
        } else {
            ops->close_memory(0, &handle, base);
        }
        REQUIRE(write(to_parent[1], "x", 1) == 1);
    }
    CHECK_EQ(mscclpp_mapping_drain(), 0);
}

static void test_twin(void)
{
    const mscclpp_gpu_ops_t *ops = &mscclpp_gpu_twin_ops;
    pid_t pid;

    REQUIRE(pipe(to_child) == 0 && pipe(to_parent) == 0);
    pid = unit_fork(child_maps, NULL);
    for (int turn = 0; turn < 4; ++turn) {
        mscclpp_gpu_handle_t handle;
        void *memory;
        char byte;

        REQUIRE(ops->device_alloc(0, 1 << 20, &memory) == MSCCLPP_OK);
        ((char *)memory)[4567] = (char)('a' + turn);
        REQUIRE(ops->export_memory((char *)memory + 4567, &handle) == MSCCLPP_OK);
        REQUIRE(write(to_child[1], &handle, sizeof(handle)) == sizeof(handle));
        REQUIRE(read(to_parent[0], &byte, 1) == 1);
        ops->device_free(0, memory);
    }
    unit_join(pid);
}

int main(void)
{
    unit_begin();
    test_once();
    test_limit();
    test_bytes();
    test_stale();
    test_failure();
    test_admission();
    test_in_the_way();
    test_threads();
    test_twin();
    return unit_end();
}
