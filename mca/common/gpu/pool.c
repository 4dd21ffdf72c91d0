#include "mca/common/gpu/pool.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/base/log.h"
#include "mca/common/gpu/clear.h"

/* The largest piece, in bytes, that shares an allocation. */
#define PIECE_BYTES_MAX ((uint64_t)256 << 10)

/*
 * Bytes of an allocation, at most. The first one of a process is smaller, because most processes need few pieces. Later
 * ones fill what a GPU sets aside for an allocation of their size.
 */
#define FIRST_SLAB_BYTES ((uint64_t)1 << 20)
#define NEXT_SLAB_BYTES ((uint64_t)4 << 20)

/* Pieces begin at multiples of this in their allocation, so they are as aligned as the runtime's own allocations. */
#define PIECE_ALIGN ((uint64_t)512)

/* The most pieces of an allocation; this limits allocations of small pieces. */
#define PIECES_MAX 512

/* An allocation that is cut into pieces of one size. */
typedef struct slab {
    struct slab *next;
    const mscclpp_gpu_ops_t *ops;
    int device;
    uint64_t piece_bytes; /* size of one piece */
    int piece_count;      /* pieces in the allocation */
    int taken_count;      /* pieces in use */
    char *base;           /* start of the allocation */
    bool is_taken[PIECES_MAX];
    bool is_dirty[PIECES_MAX]; /* the piece has been used before, so it is not zero */
} slab_t;

/* The lock is never held while device memory is allocated or freed, which may wait for kernels. */
static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static slab_t *slabs;

/*
 * Returns an allocation that has a free piece of this size; NULL: there is none. *has_any_p becomes true if there is
 * any allocation for such pieces, full or not. The caller holds the lock.
 */
static slab_t *find_slab_with_room(const mscclpp_gpu_ops_t *ops, int device, uint64_t piece_bytes, bool *has_any_p)
{
    slab_t *slab;

    *has_any_p = false;
    for (slab = slabs; slab != NULL; slab = slab->next) {
        if (slab->ops == ops && slab->device == device && slab->piece_bytes == piece_bytes) {
            *has_any_p = true;
            if (slab->taken_count < slab->piece_count) {
                return slab;
            }
        }
    }
    return NULL;
}

/*
 * Takes a free piece of the allocation. There must be a free piece. *is_dirty_p becomes true if the piece must be
 * zeroed, because it was used before. The caller holds the lock.
 */
static char *take_piece(slab_t *slab, bool *is_dirty_p)
{
    int i = 0;

    while (slab->is_taken[i]) {
        ++i;
    }
    *is_dirty_p = slab->is_dirty[i];
    slab->is_taken[i] = slab->is_dirty[i] = true;
    ++slab->taken_count;
    return slab->base + (uint64_t)i * slab->piece_bytes;
}

/*
 * Allocates memory for pieces of this size. `is_first` says that these are the first pieces of that size. `piece_bytes`
 * is at most PIECE_BYTES_MAX, so there are at least four pieces. The caller adds the allocation to the list. It must
 * not hold the lock, because the allocation may wait for kernels.
 */
static mscclpp_status_t make_slab(const mscclpp_gpu_ops_t *ops, int device, uint64_t piece_bytes, bool is_first,
                                  slab_t **slab_p)
{
    const uint64_t pieces = (is_first ? FIRST_SLAB_BYTES : NEXT_SLAB_BYTES) / piece_bytes;
    slab_t *slab = calloc(1, sizeof(*slab));
    mscclpp_status_t status;
    void *base;

    if (slab == NULL) {
        mscclpp_error("out of memory for the description of device memory");
        return MSCCLPP_ERR_NO_MEMORY;
    }
    slab->ops = ops;
    slab->device = device;
    slab->piece_bytes = piece_bytes;
    slab->piece_count = pieces < PIECES_MAX ? (int)pieces : PIECES_MAX;
    status = ops->device_alloc(device, (uint64_t)slab->piece_count * piece_bytes, &base);
    if (status != MSCCLPP_OK) {
        free(slab);
        return status;
    }
    slab->base = base;
    *slab_p = slab;
    return MSCCLPP_OK;
}

/* Zeroes a piece that was used before. If that fails, frees the piece and sets *address_p to NULL. */
mscclpp_status_t mscclpp_pool_alloc(const mscclpp_gpu_ops_t *ops, int device, mscclpp_gpu_stream_t *stream,
                                    uint64_t size, void **address_p)
{
    mscclpp_status_t status = MSCCLPP_OK;
    bool has_any, is_dirty = false;
    slab_t *slab;

    if (size > PIECE_BYTES_MAX) {
        return ops->device_alloc(device, size, address_p);
    }
    size = (size + PIECE_ALIGN - 1) / PIECE_ALIGN * PIECE_ALIGN;
    pthread_mutex_lock(&pool_lock);
    slab = find_slab_with_room(ops, device, size, &has_any);
    if (slab == NULL) {
        pthread_mutex_unlock(&pool_lock);
        status = make_slab(ops, device, size, !has_any, &slab);
        if (status != MSCCLPP_OK) {
            return status;
        }
        pthread_mutex_lock(&pool_lock);
        /* Another thread may have made an allocation in the meantime. Both are kept. */
        slab->next = slabs;
        slabs = slab;
    }
    *address_p = take_piece(slab, &is_dirty);
    pthread_mutex_unlock(&pool_lock);
    if (is_dirty) {
        status = mscclpp_gpu_clear(ops, stream, *address_p, size);
        status = status == MSCCLPP_OK ? ops->stream_sync(stream) : status;
    }
    if (status != MSCCLPP_OK) {
        mscclpp_pool_free(ops, device, *address_p);
        *address_p = NULL; /* the caller may free what it was given */
    }
    return status;
}

/*
 * Returns the link in the list to the allocation that contains the address. If there is none, returns the link at the
 * end of the list, which points to NULL. The caller holds the lock.
 */
static slab_t **find_slab(const mscclpp_gpu_ops_t *ops, int device, const char *address)
{
    slab_t **link = &slabs;

    while (*link != NULL) {
        const slab_t *slab = *link;

        if (slab->ops == ops && slab->device == device && address >= slab->base &&
            address < slab->base + (uint64_t)slab->piece_count * slab->piece_bytes) {
            break;
        }
        link = &(*link)->next;
    }
    return link;
}

/*
 * An address outside the pool is memory with an allocation of its own. Memory is freed after the lock has been
 * released, because that may wait for kernels.
 */
void mscclpp_pool_free(const mscclpp_gpu_ops_t *ops, int device, void *address)
{
    slab_t **link, *slab;

    if (address == NULL) {
        return;
    }
    pthread_mutex_lock(&pool_lock);
    link = find_slab(ops, device, address);
    slab = *link;
    if (slab != NULL) {
        slab->is_taken[((uint64_t)((char *)address - slab->base)) / slab->piece_bytes] = false;
        if (--slab->taken_count == 0) {
            *link = slab->next;
        } else {
            address = NULL; /* other pieces are in use, so the allocation stays */
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
