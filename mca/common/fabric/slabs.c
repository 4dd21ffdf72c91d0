#include "mca/common/fabric/slabs.h"

#include <pthread.h>
#include <stdlib.h>

#include "mca/common/base/log.h"
#include "mca/common/base/shmseg.h"

/* Pieces begin at multiples of this many bytes, at least a page. */
#define PIECE_ALIGN ((uint64_t)64 << 10)

/*
 * The maximum number of bytes of a slab on the twin and on a GPU, and the maximum number of its pieces. A slab has at
 * least one piece, however large.
 */
#define TWIN_BYTES ((uint64_t)512 << 20)
#define PINNED_BYTES ((uint64_t)64 << 20)
#define PIECES_MAX 32u

struct mscclpp_slab {
    mscclpp_slab_t *next;
    const mscclpp_gpu_ops_t *gpu;
    pthread_t owner; /* the thread that gets pieces */
    mscclpp_shmseg_t *segment;
    char *device_base; /* the kernels' address of the segment */
    uint64_t size;
    uint32_t piece_count;
    uint32_t taken_count;    /* pieces that have been taken so far; the next one has this index */
    uint32_t returned_count; /* of these, the pieces that have been given back */
    uint32_t unmapped_count; /* pieces that a peer may still have to map */
};

/* The slabs with a piece in use. The lock is not held while memory is pinned, which may take milliseconds. */
static pthread_mutex_t slabs_lock = PTHREAD_MUTEX_INITIALIZER;
static mscclpp_slab_t *slabs;

/*
 * Returns a slab of this thread that has room for a piece of `size` bytes; NULL: there is none, and *pieces_p is the
 * number of pieces in all of this thread's slabs of this size. The caller holds the lock.
 */
static mscclpp_slab_t *find_with_room(const mscclpp_gpu_ops_t *gpu, uint64_t size, uint64_t *pieces_p)
{
    mscclpp_slab_t *slab;

    *pieces_p = 0;
    for (slab = slabs; slab != NULL; slab = slab->next) {
        if (slab->gpu == gpu && slab->size == size && pthread_equal(slab->owner, pthread_self())) {
            *pieces_p += slab->piece_count;
            if (slab->taken_count < slab->piece_count) {
                return slab;
            }
        }
    }
    return NULL;
}

/*
 * Returns the number of pieces of a new slab, if the slabs of its kind have `pieces` pieces so far. The first slab has
 * one piece, because most processes have few communicators. On the twin each further slab has the maximum, because
 * memory costs nothing until it is touched. On a GPU all memory is pinned at once, so a further slab doubles the number
 * of pieces.
 */
static uint32_t pieces_of_next(const mscclpp_gpu_ops_t *gpu, uint64_t size, uint64_t pieces)
{
    const uint64_t fitting = (gpu->twin ? TWIN_BYTES : PINNED_BYTES) / size;
    const uint64_t wanted = pieces == 0 ? 1 : gpu->twin || pieces > PIECES_MAX ? PIECES_MAX : pieces;
    const uint64_t count = wanted < fitting ? wanted : fitting;

    return count == 0 ? 1 : (uint32_t)count;
}

/* Frees a slab and its memory. The slab is in no list. */
static void free_slab(mscclpp_slab_t *slab)
{
    slab->gpu->host_unregister(mscclpp_shmseg_base(slab->segment));
    mscclpp_shmseg_detach(slab->segment);
    free(slab);
}

/*
 * Makes a slab of `count` pieces of `size` bytes, which is in no list yet. Fails unlogged only if there is no memory
 * for its description, and at the debug level if there is no file descriptor. After an error nothing is left.
 */
static mscclpp_status_t make_slab(const mscclpp_gpu_ops_t *gpu, const char *label, uint64_t size, uint32_t count,
                                  mscclpp_slab_t **slab_p)
{
    mscclpp_slab_t *slab = calloc(1, sizeof(*slab));
    void *device_base;
    mscclpp_status_t status;

    if (slab == NULL) {
        return MSCCLPP_ERR_NO_MEMORY;
    }
    *slab = (mscclpp_slab_t){
        .gpu = gpu, .owner = pthread_self(), .size = size, .piece_count = count, .unmapped_count = count};
    status = mscclpp_shmseg_create(count * size, &slab->segment);
    if (status != MSCCLPP_OK) {
        free(slab);
        return status;
    }
    status = gpu->host_register(mscclpp_shmseg_base(slab->segment), count * size, &device_base);
    if (status != MSCCLPP_OK) {
        mscclpp_log(count == 1 ? MSCCLPP_LOG_WARN : MSCCLPP_LOG_INFO,
                    "%s: %llu bytes of shared memory cannot be pinned: %s", label, (unsigned long long)(count * size),
                    mscclpp_status_string(status));
        mscclpp_shmseg_detach(slab->segment);
        free(slab);
        return status;
    }
    slab->device_base = device_base;
    *slab_p = slab;
    return MSCCLPP_OK;
}

/*
 * If a slab of several pieces fails with MSCCLPP_ERR_NO_MEMORY, a slab of one piece is tried. Each thread has its own
 * slabs, so a failure to pin memory is that of the communicator that asked for it.
 */
mscclpp_status_t mscclpp_slab_take(const mscclpp_gpu_ops_t *gpu, const char *label, uint64_t size,
                                   mscclpp_slab_t **slab_p, void **host_p, void **device_p)
{
    const uint64_t piece_size = (size + PIECE_ALIGN - 1) / PIECE_ALIGN * PIECE_ALIGN;
    mscclpp_slab_t *slab;
    mscclpp_status_t status;
    uint64_t offset, pieces;

    pthread_mutex_lock(&slabs_lock);
    slab = find_with_room(gpu, piece_size, &pieces);
    if (slab == NULL) {
        const uint32_t count = pieces_of_next(gpu, piece_size, pieces);

        pthread_mutex_unlock(&slabs_lock);
        status = make_slab(gpu, label, piece_size, count, &slab);
        if (status == MSCCLPP_ERR_NO_MEMORY && count > 1) {
            status = make_slab(gpu, label, piece_size, 1, &slab);
        }
        if (status != MSCCLPP_OK) {
            return status;
        }
        pthread_mutex_lock(&slabs_lock);
        slab->next = slabs;
        slabs = slab;
    }
    offset = slab->taken_count++ * piece_size;
    pthread_mutex_unlock(&slabs_lock);
    *slab_p = slab;
    *host_p = (char *)mscclpp_shmseg_base(slab->segment) + offset;
    *device_p = slab->device_base + offset;
    return MSCCLPP_OK;
}

/*
 * Counts that all peers have mapped a piece, or that it is given back. After the last such piece, hides the memory. The
 * caller holds the lock.
 */
static void close_piece(mscclpp_slab_t *slab)
{
    if (--slab->unmapped_count == 0) {
        mscclpp_shmseg_hide(slab->segment);
    }
}

void mscclpp_slab_hide_piece(mscclpp_slab_t *slab)
{
    pthread_mutex_lock(&slabs_lock);
    close_piece(slab);
    pthread_mutex_unlock(&slabs_lock);
}

/* A slab that no communicator uses any more is freed, even if it has free pieces. */
void mscclpp_slab_give(mscclpp_slab_t *slab, bool was_hidden)
{
    mscclpp_slab_t **link = &slabs;
    bool is_last;

    pthread_mutex_lock(&slabs_lock);
    if (!was_hidden) {
        close_piece(slab);
    }
    is_last = ++slab->returned_count == slab->taken_count;
    while (is_last && *link != slab) {
        link = &(*link)->next;
    }
    if (is_last) {
        *link = slab->next;
    }
    pthread_mutex_unlock(&slabs_lock);
    if (is_last) {
        free_slab(slab);
    }
}
