/* The process's pool of pinned host memory for staging. Pinning costs far more than a short collective. */
#ifndef MCA_COLL_MSCCLPP_STAGE_POOL_H
#define MCA_COLL_MSCCLPP_STAGE_POOL_H

#include <stddef.h>

#include "mca/common/base/status.h"

/* Blocks are powers of two between these; a larger one is pinned for its call alone. */
#define MCA_COLL_MSCCLPP_STAGE_POOL_BLOCK_MIN ((size_t)4096)
#define MCA_COLL_MSCCLPP_STAGE_POOL_BLOCK_MAX ((size_t)64 << 20)

/* Unused bytes that the pool keeps at most. */
#define MCA_COLL_MSCCLPP_STAGE_POOL_KEEP ((size_t)256 << 20)

/* At least `size` bytes, aligned to a page, of no defined content. Any thread. */
mscclpp_status_t mca_coll_mscclpp_stage_pool_get(size_t size, void **block_p);

/* Gives a block back; `size` as it was asked for. NULL is allowed. */
void mca_coll_mscclpp_stage_pool_put(void *block, size_t size);

/* Frees what was given back and is not kept. May wait for kernels: not for progress loops, which these may wait for. */
void mca_coll_mscclpp_stage_pool_trim(void);

/* Frees what the pool keeps. */
void mca_coll_mscclpp_stage_pool_drain(void);

#endif
