/* A pool of pinned host memory for staging, one for each process. Pinning costs far more than a short collective. */
#ifndef MCA_COLL_MSCCLPP_STAGE_POOL_H
#define MCA_COLL_MSCCLPP_STAGE_POOL_H

#include <stddef.h>

#include "mca/common/base/status.h"

/* Block sizes are powers of two between these. A larger block is pinned for one call only. */
#define MCA_COLL_MSCCLPP_STAGE_POOL_BLOCK_MIN ((size_t)4096)
#define MCA_COLL_MSCCLPP_STAGE_POOL_BLOCK_MAX ((size_t)64 << 20)

/* The most unused bytes that the pool keeps. */
#define MCA_COLL_MSCCLPP_STAGE_POOL_KEEP ((size_t)256 << 20)

/*
 * Sets *block_p to at least `size` bytes of undefined content, aligned to a page. Thread-safe. Trims the pool first, so
 * a progress loop must not call it. Errors are those of the GPU library, and have been logged; *block_p is then
 * arbitrary.
 */
mscclpp_status_t mca_coll_mscclpp_stage_pool_get(size_t size, void **block_p);

/*
 * Gives a block back: to later calls, or to the next trim if the pool keeps enough. Frees nothing, so a progress loop
 * may call it. `size` is the size that was asked for. NULL is allowed.
 */
void mca_coll_mscclpp_stage_pool_put(void *block, size_t size);

/*
 * Frees the memory that was given back and is not kept. This may wait for kernels, so a progress loop must not call it:
 * kernels may wait for that loop.
 */
void mca_coll_mscclpp_stage_pool_trim(void);

/* Frees all memory that the pool keeps, but none that a call still uses. May wait for kernels, like the trim. */
void mca_coll_mscclpp_stage_pool_drain(void);

#endif
