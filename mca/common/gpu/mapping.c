#include "mca/common/gpu/mapping.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "mca/common/base/log.h"

#define MEMORY_BUCKETS 1024

struct mscclpp_mapping {
    mscclpp_mapping_t *chain;         /* of the bucket */
    mscclpp_mapping_t *newer, *older; /* by last use */
    const mscclpp_gpu_ops_t *ops;
    int device;
    mscclpp_gpu_handle_t handle;
    void *base;
    unsigned references;
    bool busy;  /* a thread opens or closes it outside the lock: wait for memory_changed, then look it up again */
    bool stale; /* its allocation is known to be gone, or its identity unknown: not kept when unused */
};

/*
 * The lock guards all fields. It is never held while the GPU runtime opens or closes a mapping, which may take long and
 * may wait for running kernels.
 */
static pthread_mutex_t memory_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t memory_changed = PTHREAD_COND_INITIALIZER;
static mscclpp_mapping_t *memory_buckets[MEMORY_BUCKETS];
static mscclpp_mapping_t *memory_newest, *memory_oldest;
static int memory_total;
static uint64_t memory_bytes;
static mscclpp_mapping_limit_t memory_limit; /* of the last get */

mscclpp_mapping_limit_t mscclpp_mapping_limit(const mscclpp_config_t *config)
{
    const mscclpp_mapping_limit_t limit = {config->mapping_cache_size, config->mapping_cache_bytes};

    return limit;
}

static mscclpp_mapping_t **bucket_of(const mscclpp_gpu_handle_t *handle)
{
    uint64_t hash = handle->token ^ (uint64_t)handle->pid ^ handle->buffer_id * UINT64_C(0x9e3779b97f4a7c15);

    return &memory_buckets[(hash ^ hash >> 32) % MEMORY_BUCKETS];
}

static bool is_same_process(const mscclpp_gpu_handle_t *a, const mscclpp_gpu_handle_t *b)
{
    return a->pid == b->pid && a->token == b->token;
}

/* The address matters only if the runtime gives no identity (0), as one identity has one address. */
static bool is_same_allocation(const mscclpp_gpu_handle_t *a, const mscclpp_gpu_handle_t *b)
{
    return is_same_process(a, b) && a->buffer_id == b->buffer_id && a->address == b->address && a->length == b->length;
}

static mscclpp_mapping_t *find(const mscclpp_gpu_ops_t *ops, int device, const mscclpp_gpu_handle_t *handle)
{
    mscclpp_mapping_t *mapping = *bucket_of(handle);

    while (mapping != NULL &&
           (mapping->ops != ops || mapping->device != device || !is_same_allocation(&mapping->handle, handle))) {
        mapping = mapping->chain;
    }
    return mapping;
}

static void use_link(mscclpp_mapping_t *mapping)
{
    mapping->newer = NULL;
    mapping->older = memory_newest;
    if (memory_newest != NULL) {
        memory_newest->newer = mapping;
    } else {
        memory_oldest = mapping;
    }
    memory_newest = mapping;
}

static void use_unlink(mscclpp_mapping_t *mapping)
{
    if (mapping->newer != NULL) {
        mapping->newer->older = mapping->older;
    } else {
        memory_newest = mapping->older;
    }
    if (mapping->older != NULL) {
        mapping->older->newer = mapping->newer;
    } else {
        memory_oldest = mapping->newer;
    }
}

static void insert(mscclpp_mapping_t *mapping)
{
    mscclpp_mapping_t **bucket = bucket_of(&mapping->handle);

    mapping->chain = *bucket;
    *bucket = mapping;
    use_link(mapping);
    ++memory_total;
    memory_bytes += mapping->handle.length;
}

static void erase(mscclpp_mapping_t *mapping)
{
    mscclpp_mapping_t **link = bucket_of(&mapping->handle);

    while (*link != mapping) {
        link = &(*link)->chain;
    }
    *link = mapping->chain;
    use_unlink(mapping);
    --memory_total;
    memory_bytes -= mapping->handle.length;
    free(mapping);
}

/*
 * Releases the lock while closing. The mapping stays in the table, so that nobody opens the allocation a second time.
 */
static void close_unused(mscclpp_mapping_t *mapping)
{
    mapping->busy = true;
    pthread_mutex_unlock(&memory_lock);
    mapping->ops->close_memory(mapping->device, &mapping->handle, mapping->base);
    pthread_mutex_lock(&memory_lock);
    erase(mapping);
    pthread_cond_broadcast(&memory_changed);
}

static bool is_unused(const mscclpp_mapping_t *mapping)
{
    return 0 == mapping->references && !mapping->busy;
}

static bool is_above(const mscclpp_mapping_limit_t *limit)
{
    return memory_total > limit->count || (limit->bytes != 0 && memory_bytes > limit->bytes);
}

/*
 * Closes stale mappings, and the least recently used ones above the limit; returns how many. The list may change with
 * each close.
 */
static int trim(mscclpp_mapping_limit_t limit)
{
    mscclpp_mapping_t *mapping = memory_oldest;
    int closed = 0;

    while (mapping != NULL) {
        if (is_unused(mapping) && (mapping->stale || is_above(&limit))) {
            close_unused(mapping);
            ++closed;
            mapping = memory_oldest;
        } else {
            mapping = mapping->newer;
        }
    }
    return closed;
}

/* A new allocation at the place of an older one of the same process proves that the older one was freed. */
static void mark_replaced(const mscclpp_gpu_handle_t *handle)
{
    for (mscclpp_mapping_t *mapping = memory_newest; mapping != NULL; mapping = mapping->older) {
        const mscclpp_gpu_handle_t *old = &mapping->handle;
        if (is_same_process(old, handle) && old->buffer_id != handle->buffer_id &&
            old->address < handle->address + handle->length && handle->address < old->address + old->length) {
            mapping->stale = true;
        }
    }
}

/*
 * Closes the mappings of one process that are not in use; returns how many. The token does not matter: a process may
 * have several copies of this library.
 */
static int trim_process(const mscclpp_gpu_handle_t *handle)
{
    mscclpp_mapping_t *mapping = memory_oldest;
    int closed = 0;

    while (mapping != NULL) {
        if (is_unused(mapping) && mapping->handle.pid == handle->pid) {
            close_unused(mapping);
            ++closed;
            mapping = memory_oldest;
        } else {
            mapping = mapping->newer;
        }
    }
    return closed;
}

/*
 * CUDA refuses memory at an exporter's address as long as freed memory that was there is mapped. Allocations share
 * pages, so a mapping can be in the way without lying at the same place. Releases the lock meanwhile.
 */
static mscclpp_status_t open_memory(const mscclpp_gpu_ops_t *ops, int device, const mscclpp_gpu_handle_t *handle,
                                    void **base_p)
{
    mscclpp_status_t status = MSCCLPP_OK;
    int closed = 1;

    mark_replaced(handle);
    (void)trim(memory_limit);
    for (int attempt = 0; attempt < 2 && closed > 0; ++attempt) {
        pthread_mutex_unlock(&memory_lock);
        status = ops->import_memory(device, handle, base_p);
        pthread_mutex_lock(&memory_lock);
        closed = attempt > 0                           ? 0
                 : MSCCLPP_ERR_NO_MEMORY == status     ? trim((mscclpp_mapping_limit_t){0, 0})
                 : MSCCLPP_ERR_NOT_SUPPORTED == status ? trim_process(handle)
                                                       : 0;
    }
    return status;
}

mscclpp_status_t mscclpp_mapping_import(const mscclpp_gpu_ops_t *ops, int device, const mscclpp_gpu_handle_t *handle,
                                        void **base_p)
{
    mscclpp_status_t status;

    pthread_mutex_lock(&memory_lock);
    status = open_memory(ops, device, handle, base_p);
    pthread_mutex_unlock(&memory_lock);
    return status;
}

mscclpp_status_t mscclpp_mapping_get(const mscclpp_gpu_ops_t *ops, int device, const mscclpp_gpu_handle_t *handle,
                                     mscclpp_mapping_limit_t limit, mscclpp_mapping_t **mapping_p)
{
    mscclpp_status_t status = MSCCLPP_OK;
    mscclpp_mapping_t *mapping;
    void *base;

    pthread_mutex_lock(&memory_lock);
    memory_limit = limit;
    while ((mapping = find(ops, device, handle)) != NULL && mapping->busy) {
        pthread_cond_wait(&memory_changed, &memory_lock);
    }
    if (mapping != NULL) {
        ++mapping->references;
        use_unlink(mapping);
        use_link(mapping);
        goto out;
    }

    mapping = calloc(1, sizeof(*mapping));
    if (mapping == NULL) {
        mscclpp_error("out of memory for the description of a mapping");
        status = MSCCLPP_ERR_NO_MEMORY;
        goto out;
    }
    mapping->ops = ops;
    mapping->device = device;
    mapping->handle = *handle;
    mapping->references = 1;
    mapping->busy = true;
    mapping->stale = 0 == handle->buffer_id;
    insert(mapping);
    status = open_memory(ops, device, handle, &base);
    if (MSCCLPP_OK == status) {
        mapping->base = base;
        mapping->busy = false;
    } else {
        erase(mapping);
    }
    pthread_cond_broadcast(&memory_changed);
out:
    pthread_mutex_unlock(&memory_lock);
    if (MSCCLPP_OK == status) {
        *mapping_p = mapping;
    }
    return status;
}

void *mscclpp_mapping_base(const mscclpp_mapping_t *mapping)
{
    return mapping->base;
}

void mscclpp_mapping_put(mscclpp_mapping_t *mapping)
{
    if (mapping == NULL) {
        return;
    }
    pthread_mutex_lock(&memory_lock);
    if (0 == --mapping->references && (mapping->stale || is_above(&memory_limit))) {
        (void)trim(memory_limit);
    }
    pthread_mutex_unlock(&memory_lock);
}

int mscclpp_mapping_drain(void)
{
    int left;

    pthread_mutex_lock(&memory_lock);
    (void)trim((mscclpp_mapping_limit_t){0, 0});
    left = memory_total;
    pthread_mutex_unlock(&memory_lock);
    return left;
}

int mscclpp_mapping_count(void)
{
    int total;

    pthread_mutex_lock(&memory_lock);
    total = memory_total;
    pthread_mutex_unlock(&memory_lock);
    return total;
}
