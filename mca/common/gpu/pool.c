#include "mca/common/gpu/pool.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/base/log.h"

/* The largest piece that shares an allocation. */
#define PIECE_MAX ((uint64_t)256 << 10)

/*
 * Bytes of an allocation, at most. The first one of a process is smaller, because most processes need few pieces. Later
 * ones fill what a GPU sets aside for an allocation of their size.
 */
#define FIRST_BYTES ((uint64_t)1 << 20)
#define NEXT_BYTES ((uint64_t)4 << 20)

/* The most pieces of an allocation; this limits allocations of small pieces. */
#define PIECES_MAX 512

typedef struct slab {
    struct slab *next;
    const mscclpp_gpu_ops_t *ops;
    int device;
    uint64_t size; /* size of one piece, bytes */
    int pieces;
    int used;
    char *base;
    bool taken[PIECES_MAX];
    bool dirty[PIECES_MAX]; /* the piece has been used before, so it is not zero */
} slab_t;

/* The lock is never held while device memory is allocated or freed, which may wait for kernels. */
static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static slab_t *slabs;

/* Finds an allocation with a free piece; NULL if there is none. Call with the lock held. */
static slab_t *find_free(const mscclpp_gpu_ops_t *ops, int device, uint64_t size, bool *any_p)
{
    slab_t *slab;

    *any_p = false;
    for (slab = slabs; slab != NULL; slab = slab->next) {
        if (slab->ops == ops && slab->device == device && slab->size == size) {
            *any_p = true;
            if (slab->used < slab->pieces) {
                return slab;
            }
        }
    }
    return NULL;
}

/* Takes a free piece of an allocation. Call with the lock held. */
static char *take_piece(slab_t *slab, bool *dirty_p)
{
    int i = 0;

    while (slab->taken[i]) {
        ++i;
    }
    *dirty_p = slab->dirty[i];
    slab->taken[i] = slab->dirty[i] = true;
    ++slab->used;
    return slab->base + (uint64_t)i * slab->size;
}

/* Allocates memory for pieces of one size. Call without the lock, because the allocation may wait for kernels. */
static mscclpp_status_t make_slab(const mscclpp_gpu_ops_t *ops, int device, uint64_t size, bool first, slab_t **slab_p)
{
    const uint64_t pieces = (first ? FIRST_BYTES : NEXT_BYTES) / size;
    slab_t *slab = calloc(1, sizeof(*slab));
    mscclpp_status_t status;
    void *base;

    if (slab == NULL) {
        mscclpp_error("out of memory for the description of device memory");
        return MSCCLPP_ERR_NO_MEMORY;
    }
    slab->ops = ops;
    slab->device = device;
    slab->size = size;
    slab->pieces = pieces < PIECES_MAX ? (int)pieces : PIECES_MAX;
    status = ops->device_alloc(device, (uint64_t)slab->pieces * size, &base);
    if (status != MSCCLPP_OK) {
        free(slab);
        return status;
    }
    slab->base = base;
    *slab_p = slab;
    return MSCCLPP_OK;
}

/* Zeroes a piece that was used before, and waits until that has ended. */
static mscclpp_status_t zero(const mscclpp_gpu_ops_t *ops, mscclpp_gpu_stream_t *stream, char *piece, uint64_t size)
{
    char *zeros = calloc(1, size);
    mscclpp_status_t status;

    if (zeros == NULL) {
        mscclpp_error("out of memory for %llu bytes", (unsigned long long)size);
        return MSCCLPP_ERR_NO_MEMORY;
    }
    status = ops->copy(stream, piece, zeros, size);
    status = status == MSCCLPP_OK ? ops->stream_sync(stream) : status;
    free(zeros);
    return status;
}

mscclpp_status_t mscclpp_pool_alloc(const mscclpp_gpu_ops_t *ops, int device, mscclpp_gpu_stream_t *stream,
                                    uint64_t size, void **address_p)
{
    mscclpp_status_t status = MSCCLPP_OK;
    bool any, dirty = false;
    slab_t *slab;

    if (size > PIECE_MAX) {
        return ops->device_alloc(device, size, address_p);
    }
    pthread_mutex_lock(&pool_lock);
    slab = find_free(ops, device, size, &any);
    if (slab == NULL) {
        pthread_mutex_unlock(&pool_lock);
        status = make_slab(ops, device, size, !any, &slab);
        if (status != MSCCLPP_OK) {
            return status;
        }
        pthread_mutex_lock(&pool_lock);
        slab->next = slabs;
        slabs = slab;
    }
    *address_p = take_piece(slab, &dirty);
    pthread_mutex_unlock(&pool_lock);
    if (dirty) {
        status = zero(ops, stream, *address_p, size);
    }
    if (status != MSCCLPP_OK) {
        mscclpp_pool_free(ops, device, *address_p);
    }
    return status;
}

/*
 * Returns the link to the allocation that contains an address; a link to NULL if there is none. Call with the lock
 * held.
 */
static slab_t **find(const mscclpp_gpu_ops_t *ops, int device, const char *address)
{
    slab_t **link = &slabs;

    while (*link != NULL) {
        const slab_t *slab = *link;

        if (slab->ops == ops && slab->device == device && address >= slab->base &&
            address < slab->base + (uint64_t)slab->pieces * slab->size) {
            break;
        }
        link = &(*link)->next;
    }
    return link;
}

void mscclpp_pool_free(const mscclpp_gpu_ops_t *ops, int device, void *address)
{
    slab_t **link, *slab;

    if (address == NULL) {
        return;
    }
    pthread_mutex_lock(&pool_lock);
    link = find(ops, device, address);
    slab = *link;
    if (slab != NULL) {
        slab->taken[((uint64_t)((char *)address - slab->base)) / slab->size] = false;
        if (--slab->used == 0) {
            *link = slab->next;
        } else {
            address = NULL;
        }
    }
    pthread_mutex_unlock(&pool_lock);
    if (slab == NULL) {
        ops->device_free(device, address);
    } else if (address != NULL) {
        ops->device_free(device, slab->base);
        free(slab);
    }
}
