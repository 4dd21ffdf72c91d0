#include "test/host/user_buffer.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "mca/common/gpu/gpu.h"

#if defined(__SANITIZE_ADDRESS__)
#define USER_POISON 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define USER_POISON 1
#endif
#endif
#ifdef USER_POISON
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address_, size_) ((void)(address_), (void)(size_))
#define ASAN_UNPOISON_MEMORY_REGION(address_, size_) ((void)(address_), (void)(size_))
#endif

#define GUARD 64u
#define POOLS_MAX 2048

/* Where USER_HOST buffers lie. A pool registers itself before its buffers are used, and deregisters afterwards. */
static pthread_mutex_t host_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    const char *begin;
    size_t size;
} host_ranges[POOLS_MAX];

static size_t room(const user_pool_t *pool)
{
    return pool->size + 2 * GUARD + 16;
}

static void set_range(const char *old, const char *begin, size_t size)
{
    int i;

    pthread_mutex_lock(&host_lock);
    for (i = 0; i < POOLS_MAX; ++i) {
        if (host_ranges[i].begin == old) {
            host_ranges[i].begin = begin;
            host_ranges[i].size = size;
            break;
        }
    }
    pthread_mutex_unlock(&host_lock);
    if (i == POOLS_MAX) {
        fprintf(stderr, "more than %d pools\n", POOLS_MAX);
        exit(1);
    }
}

bool user_is_host(const void *address)
{
    bool found = false;
    int i;

    pthread_mutex_lock(&host_lock);
    for (i = 0; i < POOLS_MAX && !found; ++i) {
        found = (uintptr_t)address - (uintptr_t)host_ranges[i].begin < host_ranges[i].size;
    }
    pthread_mutex_unlock(&host_lock);
    return found;
}

void user_pool_create(user_pool_t *pool, size_t size)
{
    void *device = NULL, *host = NULL;

    pool->size = size;
    if (mscclpp_gpu_twin_ops.device_alloc(0, room(pool), &device) != MSCCLPP_OK ||
        posix_memalign(&host, 64, room(pool)) != 0) {
        fprintf(stderr, "no memory for %zu bytes\n", size);
        exit(1);
    }
    pool->device = device;
    pool->host = host;
    set_range(NULL, pool->host, room(pool));
}

void user_pool_destroy(user_pool_t *pool)
{
    set_range(pool->host, NULL, 0);
    mscclpp_gpu_twin_ops.device_free(0, pool->device);
    free(pool->host);
}

const char *user_kind_name(user_kind_t kind)
{
    static const char *const names[USER_KINDS] = {"malloc", "host", "device"};

    return names[kind];
}

static char guard_byte(const char *p)
{
    return (char)(0xa5 ^ (uintptr_t)p * 7);
}

/* A sanitizer reports any other access to the guards. */
static void poison(const user_buffer_t *buffer)
{
    const char *data = buffer->data;

    ASAN_POISON_MEMORY_REGION(buffer->begin, (size_t)(data - buffer->begin));
    ASAN_POISON_MEMORY_REGION(data + buffer->bytes, (size_t)(buffer->end - data) - buffer->bytes);
}

static void unpoison(const user_buffer_t *buffer)
{
    ASAN_UNPOISON_MEMORY_REGION(buffer->begin, (size_t)(buffer->end - buffer->begin));
}

void user_buffer_open(user_buffer_t *buffer, user_kind_t kind, const user_pool_t *pool, unsigned offset, size_t bytes)
{
    char *base = kind == USER_HOST ? pool->host : pool->device, *p;
    size_t front = GUARD + offset, behind = GUARD;

    if (kind == USER_EXACT) {
        front = offset;
        behind = 0;
        base = malloc(front + bytes + (front + bytes == 0));
        if (base == NULL) {
            perror("malloc");
            exit(1);
        }
    }
    buffer->kind = kind;
    buffer->bytes = bytes;
    buffer->begin = base;
    buffer->data = base + front;
    buffer->end = base + front + bytes + behind;
    for (p = buffer->begin; p < buffer->end; ++p) {
        if (p == buffer->data) {
            p += bytes;
        }
        if (p < buffer->end) {
            *p = guard_byte(p);
        }
    }
    poison(buffer);
}

bool user_buffer_intact(const user_buffer_t *buffer)
{
    const char *data = buffer->data, *p;
    bool intact = true;

    unpoison(buffer);
    for (p = buffer->begin; p < buffer->end && intact; ++p) {
        intact = (p >= data && p < data + buffer->bytes) || *p == guard_byte(p);
    }
    poison(buffer);
    return intact;
}

void user_buffer_close(user_buffer_t *buffer)
{
    unpoison(buffer);
    if (buffer->kind == USER_EXACT) {
        free(buffer->begin);
    }
}
