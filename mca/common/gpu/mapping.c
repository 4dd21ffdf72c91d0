#include "mca/common/gpu/mapping.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "mca/common/base/log.h"

/* 2^64 divided by the golden ratio, an odd number. Multiplying by it spreads a number over the high bits. */
#define HASH_FACTOR UINT64_C(0x9e3779b97f4a7c15)

/* Hash buckets: more than the mappings that processes usually keep (mapping_cache_size). */
#define MAPPING_BUCKETS 1024

struct mscclpp_mapping {
    mscclpp_mapping_t *chain;         /* the next mapping in the hash bucket */
    mscclpp_mapping_t *newer, *older; /* the list in the order of last use */
    const mscclpp_gpu_ops_t *ops;
    int device;
    mscclpp_gpu_handle_t handle;
    void *base;
    unsigned references; /* number of users: calls of mscclpp_mapping_get that mscclpp_mapping_put has not undone */
    bool is_busy;   /* a thread is opening or closing the mapping outside the lock: wait for mapping_changed, then look
                       it up again */
    bool is_shared; /* memory that teams share: the mapping counts towards no limit and is closed as soon as it is
                       unused */
    bool is_stale;  /* its allocation is known to be freed, or has no identity: closed as soon as it is unused */
};

/*
 * The lock guards all fields. It is never held while the GPU runtime opens or closes a mapping, because that may take
 * long and may wait for running kernels.
 */
static pthread_mutex_t mapping_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t mapping_changed = PTHREAD_COND_INITIALIZER;
static mscclpp_mapping_t *mapping_buckets[MAPPING_BUCKETS];
static mscclpp_mapping_t *newest_mapping, *oldest_mapping;
static int open_count;                        /* mappings that count towards the limit */
static uint64_t open_bytes;                   /* bytes of their allocations */
static mscclpp_mapping_limit_t current_limit; /* the limit that the last mscclpp_mapping_get was given */

mscclpp_mapping_limit_t mscclpp_mapping_limit(const mscclpp_config_t *config)
{
    const mscclpp_mapping_limit_t limit = {.count = config->mapping_cache_size, .bytes = config->mapping_cache_bytes};

    return limit;
}

/* Returns the first link of the hash bucket for the allocation of a handle. */
static mscclpp_mapping_t **bucket_of(const mscclpp_gpu_handle_t *handle)
{
    uint64_t hash = handle->token ^ (uint64_t)handle->pid ^ handle->buffer_id * HASH_FACTOR;

    return &mapping_buckets[(hash ^ hash >> 32) % MAPPING_BUCKETS];
}

/* Returns true if one copy of the library in one process has exported both handles. */
static bool is_same_process(const mscclpp_gpu_handle_t *first, const mscclpp_gpu_handle_t *second)
{
    return first->pid == second->pid && first->token == second->token;
}

/*
 * Returns true if two handles stand for the same allocation. The address matters only for allocations without a number
 * (0); otherwise the number tells everything.
 */
static bool is_same_allocation(const mscclpp_gpu_handle_t *first, const mscclpp_gpu_handle_t *second)
{
    return is_same_process(first, second) && first->buffer_id == second->buffer_id &&
           first->address == second->address && first->length == second->length;
}

/*
 * Returns the mapping of an allocation, or NULL if there is none. The caller holds the lock, as for all functions below
 * that do not take it.
 */
static mscclpp_mapping_t *find_mapping(const mscclpp_gpu_ops_t *ops, int device, const mscclpp_gpu_handle_t *handle)
{
    mscclpp_mapping_t *mapping = *bucket_of(handle);

    while (mapping != NULL &&
           (mapping->ops != ops || mapping->device != device || !is_same_allocation(&mapping->handle, handle))) {
        mapping = mapping->chain;
    }
    return mapping;
}

/* Puts a mapping at the newest end of the list in the order of last use. */
static void link_as_newest(mscclpp_mapping_t *mapping)
{
    mapping->newer = NULL;
    mapping->older = newest_mapping;
    if (newest_mapping != NULL) {
        newest_mapping->newer = mapping;
    } else {
        oldest_mapping = mapping;
    }
    newest_mapping = mapping;
}

/* Takes a mapping out of the list in the order of last use. */
static void unlink_from_order(mscclpp_mapping_t *mapping)
{
    if (mapping->newer != NULL) {
        mapping->newer->older = mapping->older;
    } else {
        newest_mapping = mapping->older;
    }
    if (mapping->older != NULL) {
        mapping->older->newer = mapping->newer;
    } else {
        oldest_mapping = mapping->newer;
    }
}

/*
 * Adds a mapping to its bucket and, as the newest one, to the order. Counts it towards the limit unless teams share it.
 */
static void add_mapping(mscclpp_mapping_t *mapping)
{
    mscclpp_mapping_t **bucket = bucket_of(&mapping->handle);

    mapping->chain = *bucket;
    *bucket = mapping;
    link_as_newest(mapping);
    open_count += !mapping->is_shared;
    open_bytes += mapping->is_shared ? 0 : mapping->handle.length;
}

/* Removes a mapping from the table, and frees it. The memory must already be closed, or must never have been opened. */
static void remove_mapping(mscclpp_mapping_t *mapping)
{
    mscclpp_mapping_t **link = bucket_of(&mapping->handle);

    while (*link != mapping) {
        link = &(*link)->chain;
    }
    *link = mapping->chain;
    unlink_from_order(mapping);
    open_count -= !mapping->is_shared;
    open_bytes -= mapping->is_shared ? 0 : mapping->handle.length;
    free(mapping);
}

/*
 * Closes a mapping that nobody uses. The lock is released meanwhile. The mapping stays in the table until it is closed,
 * so that no thread opens the allocation a second time.
 */
static void close_unused(mscclpp_mapping_t *mapping)
{
    mapping->is_busy = true;
    pthread_mutex_unlock(&mapping_lock);
    mapping->ops->close_memory(mapping->device, &mapping->handle, mapping->base);
    pthread_mutex_lock(&mapping_lock);
    remove_mapping(mapping);
    pthread_cond_broadcast(&mapping_changed);
}

/* Returns true if the mapping has no user and may be closed. The caller holds the lock. */
static bool is_unused(const mscclpp_mapping_t *mapping)
{
    return 0 == mapping->references && !mapping->is_busy;
}

/* Returns true if the open mappings are more than the limit allows. The caller holds the lock. */
static bool is_limit_exceeded(const mscclpp_mapping_limit_t *limit)
{
    return open_count > limit->count || (limit->bytes != 0 && open_bytes > limit->bytes);
}

/* Returns true if the mapping does not stay open once it is unused. */
static bool is_surplus(const mscclpp_mapping_t *mapping, const mscclpp_mapping_limit_t *limit)
{
    return mapping->is_shared || mapping->is_stale || is_limit_exceeded(limit);
}

/*
 * Closes unused mappings that are shared or stale, and the least recently used ones above the limit. Returns how many
 * were closed. Starts again from the oldest one after each close, because the list may have changed while the lock was
 * released.
 */
static int close_surplus(mscclpp_mapping_limit_t limit)
{
    mscclpp_mapping_t *mapping = oldest_mapping;
    int closed_count = 0;

    while (mapping != NULL) {
        if (is_unused(mapping) && is_surplus(mapping, &limit)) {
            close_unused(mapping);
            ++closed_count;
            mapping = oldest_mapping;
        } else {
            mapping = mapping->newer;
        }
    }
    return closed_count;
}

/* Marks the mappings of freed memory as stale: those whose addresses overlap the newer allocation of `handle`. */
static void mark_replaced(const mscclpp_gpu_handle_t *handle)
{
    for (mscclpp_mapping_t *mapping = newest_mapping; mapping != NULL; mapping = mapping->older) {
        const mscclpp_gpu_handle_t *old = &mapping->handle;
        const bool overlaps =
            old->address < handle->address + handle->length && handle->address < old->address + old->length;

        if (is_same_process(old, handle) && old->buffer_id != handle->buffer_id && overlaps) {
            mapping->is_stale = true;
        }
    }
}

/*
 * Closes the unused mappings of all memory of the exporter's process. Compares only process ids and not tokens, because
 * a process may have several copies of this library, each with its own token. Returns how many mappings were closed.
 * The lock is released during each close.
 */
static int close_unused_of_process(const mscclpp_gpu_handle_t *handle)
{
    mscclpp_mapping_t *mapping = oldest_mapping;
    int closed_count = 0;

    while (mapping != NULL) {
        if (is_unused(mapping) && mapping->handle.pid == handle->pid) {
            close_unused(mapping);
            ++closed_count;
            mapping = oldest_mapping;
        } else {
            mapping = mapping->newer;
        }
    }
    return closed_count;
}

/*
 * Imports a peer's allocation. The lock is released during the import. If memory is short, closes all unused mappings.
 * If the runtime does not support the import, closes those of the exporter's process. If any mapping was closed, tries
 * once more. Any other error is final.
 *
 * CUDA refuses memory at an exporter's address as long as freed memory of that address is still mapped. Allocations
 * share pages, so such a mapping need not start at exactly the same address.
 */
static mscclpp_status_t open_memory(const mscclpp_gpu_ops_t *ops, int device, const mscclpp_gpu_handle_t *handle,
                                    void **base_p)
{
    mscclpp_status_t status = MSCCLPP_OK;
    int closed_count = 1;

    mark_replaced(handle);
    (void)close_surplus(current_limit);
    for (int attempt = 0; attempt < 2 && closed_count > 0; ++attempt) {
        pthread_mutex_unlock(&mapping_lock);
        status = ops->import_memory(device, handle, base_p);
        pthread_mutex_lock(&mapping_lock);
        closed_count = attempt > 0                           ? 0
                       : MSCCLPP_ERR_NO_MEMORY == status     ? close_surplus((mscclpp_mapping_limit_t){0, 0})
                       : MSCCLPP_ERR_NOT_SUPPORTED == status ? close_unused_of_process(handle)
                                                             : 0;
    }
    return status;
}

mscclpp_status_t mscclpp_mapping_import(const mscclpp_gpu_ops_t *ops, int device, const mscclpp_gpu_handle_t *handle,
                                        void **base_p)
{
    mscclpp_status_t status;

    pthread_mutex_lock(&mapping_lock);
    status = open_memory(ops, device, handle, base_p);
    pthread_mutex_unlock(&mapping_lock);
    return status;
}

/*
 * Returns the mapping of an allocation in *mapping_p, and opens it if there is none. If another thread is opening or
 * closing the mapping, waits for that first, and then searches again, because the mapping may be gone. If `limit` is
 * NULL, teams share the memory, which does not count towards any limit. After a failure, which is logged, nothing is
 * left.
 */
static mscclpp_status_t get_mapping(const mscclpp_gpu_ops_t *ops, int device, const mscclpp_gpu_handle_t *handle,
                                    const mscclpp_mapping_limit_t *limit, mscclpp_mapping_t **mapping_p)
{
    mscclpp_status_t status = MSCCLPP_OK;
    mscclpp_mapping_t *mapping;
    void *base;

    pthread_mutex_lock(&mapping_lock);
    current_limit = limit != NULL ? *limit : current_limit;
    while ((mapping = find_mapping(ops, device, handle)) != NULL && mapping->is_busy) {
        pthread_cond_wait(&mapping_changed, &mapping_lock);
    }
    if (mapping != NULL) {
        ++mapping->references;
        unlink_from_order(mapping);
        link_as_newest(mapping);
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
    mapping->is_busy = true;
    mapping->is_shared = limit == NULL;
    mapping->is_stale = 0 == handle->buffer_id;
    add_mapping(mapping);
    status = open_memory(ops, device, handle, &base);
    if (MSCCLPP_OK == status) {
        mapping->base = base;
        mapping->is_busy = false;
    } else {
        remove_mapping(mapping);
    }
    pthread_cond_broadcast(&mapping_changed);
out:
    pthread_mutex_unlock(&mapping_lock);
    if (MSCCLPP_OK == status) {
        *mapping_p = mapping;
    }
    return status;
}

mscclpp_status_t mscclpp_mapping_get(const mscclpp_gpu_ops_t *ops, int device, const mscclpp_gpu_handle_t *handle,
                                     mscclpp_mapping_limit_t limit, mscclpp_mapping_t **mapping_p)
{
    return get_mapping(ops, device, handle, &limit, mapping_p);
}

mscclpp_mapping_t *mscclpp_mapping_find(const mscclpp_gpu_ops_t *ops, int device, const mscclpp_gpu_handle_t *handle)
{
    mscclpp_mapping_t *mapping;

    pthread_mutex_lock(&mapping_lock);
    mapping = find_mapping(ops, device, handle);
    if (mapping != NULL && mapping->is_busy) {
        mapping = NULL;
    }
    if (mapping != NULL) {
        ++mapping->references;
        unlink_from_order(mapping);
        link_as_newest(mapping);
    }
    pthread_mutex_unlock(&mapping_lock);
    return mapping;
}

mscclpp_status_t mscclpp_mapping_share(const mscclpp_gpu_ops_t *ops, int device, const mscclpp_gpu_handle_t *handle,
                                       mscclpp_mapping_t **mapping_p)
{
    return get_mapping(ops, device, handle, NULL, mapping_p);
}

void *mscclpp_mapping_base(const mscclpp_mapping_t *mapping)
{
    return mapping->base;
}

/* An unused mapping that is neither shared nor stale stays open within the limit. */
void mscclpp_mapping_put(mscclpp_mapping_t *mapping)
{
    if (mapping == NULL) {
        return;
    }
    pthread_mutex_lock(&mapping_lock);
    if (0 == --mapping->references && is_surplus(mapping, &current_limit)) {
        (void)close_surplus(current_limit);
    }
    pthread_mutex_unlock(&mapping_lock);
}

int mscclpp_mapping_drain(void)
{
    int still_open;

    pthread_mutex_lock(&mapping_lock);
    (void)close_surplus((mscclpp_mapping_limit_t){0, 0});
    still_open = open_count;
    pthread_mutex_unlock(&mapping_lock);
    return still_open;
}

int mscclpp_mapping_count(void)
{
    int total;

    pthread_mutex_lock(&mapping_lock);
    total = open_count;
    pthread_mutex_unlock(&mapping_lock);
    return total;
}
