/*
 * The pool of pinned memory. Block sizes are powers of two, and there is a list of unused blocks for each size. The
 * links of a list are stored in the unused blocks themselves.
 */
#include "mca/coll/mscclpp/stage/pool.h"

#include <pthread.h>

#include "mca/coll/mscclpp/ompi/module.h"
#include "mca/common/base/log.h"

/* Number of block sizes: 1 + log2(largest / smallest). */
#define CLASSES 15

_Static_assert(MCA_COLL_MSCCLPP_STAGE_POOL_BLOCK_MIN << (CLASSES - 1) == MCA_COLL_MSCCLPP_STAGE_POOL_BLOCK_MAX,
               "the classes reach from the smallest block to the largest");

/* The first bytes of an unused block. */
typedef struct unused_block {
    struct unused_block *next;
} unused_block_t;

static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static unused_block_t *pool_unused[CLASSES];
static unused_block_t *pool_excess; /* blocks that are to be freed */
static size_t pool_kept_bytes;      /* bytes in pool_unused */

/*
 * Returns the smallest class whose blocks have `size` bytes or more. The size must not be above that of the largest
 * block.
 */
static int class_of(size_t size)
{
    int class_index = 0;

    while (MCA_COLL_MSCCLPP_STAGE_POOL_BLOCK_MIN << class_index < size) {
        ++class_index;
    }
    return class_index;
}

/*
 * Freeing pinned memory may wait for every running kernel. A staged operation may end within a progress loop that
 * itself waits for one of this component's kernels, so memory must not be freed there.
 */
void mca_coll_mscclpp_stage_pool_trim(void)
{
    unused_block_t *block;

    /* Looked at without the lock: a block that is missed here is freed by a later call. */
    if (__atomic_load_n(&pool_excess, __ATOMIC_RELAXED) == NULL) {
        return;
    }
    pthread_mutex_lock(&pool_lock);
    block = pool_excess;
    pool_excess = NULL;
    pthread_mutex_unlock(&pool_lock);
    while (block != NULL) {
        unused_block_t *next = block->next;

        mca_coll_mscclpp_state.gpu->host_free(block);
        block = next;
    }
}

/*
 * Takes an unused block of the size class, if there is one. Otherwise allocates pinned memory; errors are those of the
 * GPU library.
 */
mscclpp_status_t mca_coll_mscclpp_stage_pool_get(size_t size, void **block_p)
{
    void *device_address;

    mca_coll_mscclpp_stage_pool_trim();
    if (size <= MCA_COLL_MSCCLPP_STAGE_POOL_BLOCK_MAX) {
        int class_index = class_of(size);
        unused_block_t *block;

        size = MCA_COLL_MSCCLPP_STAGE_POOL_BLOCK_MIN << class_index;
        pthread_mutex_lock(&pool_lock);
        block = pool_unused[class_index];
        if (block != NULL) {
            pool_unused[class_index] = block->next;
            pool_kept_bytes -= size;
        }
        pthread_mutex_unlock(&pool_lock);
        if (block != NULL) {
            *block_p = block;
            return MSCCLPP_OK;
        }
    }
    /* `size` has been rounded up to the size of its class, unless the block is larger than any class. */
    return mca_coll_mscclpp_state.gpu->host_alloc(size, block_p, &device_address);
}

/*
 * Puts the block into the list of its size class, or, if the pool keeps enough bytes already, into the list of blocks
 * that are freed later.
 */
void mca_coll_mscclpp_stage_pool_put(void *block, size_t size)
{
    if (block == NULL) {
        return;
    }
    if (size <= MCA_COLL_MSCCLPP_STAGE_POOL_BLOCK_MAX) {
        int class_index = class_of(size);
        unused_block_t *unused = block;

        size = MCA_COLL_MSCCLPP_STAGE_POOL_BLOCK_MIN << class_index;
        pthread_mutex_lock(&pool_lock);
        if (pool_kept_bytes + size <= MCA_COLL_MSCCLPP_STAGE_POOL_KEEP) {
            unused->next = pool_unused[class_index];
            pool_unused[class_index] = unused;
            pool_kept_bytes += size;
            block = NULL;
        }
        pthread_mutex_unlock(&pool_lock);
    }
    if (block != NULL) {
        unused_block_t *unused = block; /* not kept, but must not be freed here: see mca_coll_mscclpp_stage_pool_trim */

        pthread_mutex_lock(&pool_lock);
        unused->next = pool_excess;
        pool_excess = unused;
        pthread_mutex_unlock(&pool_lock);
    }
}

/* Called only when no call uses the pool any more, so that no block is given back later. */
void mca_coll_mscclpp_stage_pool_drain(void)
{
    mca_coll_mscclpp_stage_pool_trim();
    for (int class_index = 0; class_index < CLASSES; ++class_index) {
        unused_block_t *block;

        pthread_mutex_lock(&pool_lock);
        block = pool_unused[class_index];
        pool_unused[class_index] = NULL;
        for (unused_block_t *unused = block; unused != NULL; unused = unused->next) {
            pool_kept_bytes -= MCA_COLL_MSCCLPP_STAGE_POOL_BLOCK_MIN << class_index;
        }
        pthread_mutex_unlock(&pool_lock);
        /* Without the lock, because freeing pinned memory may wait for kernels. */
        while (block != NULL) {
            unused_block_t *next = block->next;

            mca_coll_mscclpp_state.gpu->host_free(block);
            block = next;
        }
    }
}
